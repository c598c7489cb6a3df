//! The files of an index, and what commands say of variant wheels.

use super::*;

/// Publishes the set as the packages of run 42.
const UPLOAD: &str = "upload set --no-check --run-id=42 --bucket=mine --platform=linux --multi-target --output-dir out";
/// Where they are then.
const PUBLISHED: &str = "out/42-linux/python";

fn gfx() -> Vec<VariantWheel> {
    ["gfx942", "gfx1100"].map(VariantWheel::of).into()
}

#[test]
fn an_index_has_the_union_of_what_the_wheels_say() {
    let t = set_with(&gfx());
    t.run("index --no-check set").ok();
    let document = format!("set/dist/rocm-{VERSION}-variants.json");
    let labels: Value = serde_json::from_str(&t.read(&document)).unwrap();
    assert_eq!(
        labels["variants"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["gfx1100", "gfx942"]
    );
    let digest = Sha256::of(t.read(&document).as_bytes()).to_string();
    for page in ["set/simple/rocm/index.html", "set/dist/index.html", "set/SHA256SUMS"] {
        assert_has!(t.read(page), &digest);
    }
    let line = |page: &str| {
        let body = t.read(page);
        body.lines().find(|line| line.contains("-variants.json")).unwrap().to_owned()
    };
    for attribute in ["metadata", "requires-python", "yanked"] {
        assert!(!line("set/simple/rocm/index.html").contains(attribute));
    }
    // The wheels are read again, and nothing changes.
    let before = fs_err::read(t.path("set/simple/rocm/index.html")).unwrap();
    t.run("index --no-check set").ok();
    assert_eq!(fs_err::read(t.path("set/simple/rocm/index.html")).unwrap(), before);
    // Without one label, the file is another one.
    fs_err::remove_file(t.path("set/dist").join(gfx()[1].name())).unwrap();
    t.run("index --no-check set").ok();
    assert!(!t.read(&document).contains("gfx1100"));
    assert!(!t.read("set/simple/rocm/index.html").contains(&digest));
}

#[test]
fn an_upload_writes_the_file_after_the_wheels_and_changes_it_with_them() {
    let t = set_with(&gfx()[..1]);
    t.run(UPLOAD).ok();
    let document = format!("{PUBLISHED}/dist/rocm-{VERSION}-variants.json");
    assert!(t.read(&document).contains("gfx942"));
    gfx()[1].write(&t.path("set/dist"));
    let plan = t.run(&format!("{UPLOAD} --dry-run"));
    insta::assert_snapshot!(plan.ok(), @"
    to out/42-linux/python
    new       1.32 KiB  dist/rocm-0.99.1.dev0-py3-none-any-gfx1100.whl
    new           90 B  dist/rocm-0.99.1.dev0-py3-none-any-gfx1100.whl.metadata
    replace      535 B  dist/rocm-0.99.1.dev0-variants.json
    replace   4.87 KiB  simple/rocm/index.html
    replace   2.19 KiB  SHA256SUMS
    replace   7.96 KiB  dist/index.html
    replace   3.72 KiB  index.html
    replace   3.59 KiB  set.json
    2 new (1.41 KiB), 6 to replace (22.85 KiB), 22 there already (2.45 MiB)
    ");
    t.run(UPLOAD).ok();
    assert!(t.read(&document).contains("gfx1100"));
    let served = t.run(&format!("check {PUBLISHED}"));
    assert!(!served.all().contains("RW7"), "{}", served.all());
}

#[test]
fn no_command_selects_a_variant_wheel() {
    let t = set_with(&gfx());
    t.run("index --no-check set").ok();
    let listed = t.run("list set");
    insta::assert_snapshot!(listed.ok(), @"
    ROCm 0.99.1.dev0 for linux: whole
    Python >=3.10
      rocm-0.99.1.dev0.tar.gz                                        35.68 KiB
      rocm_profiler-0.99.1.dev0-py3-none-linux_x86_64.whl            20.02 KiB
      rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl            1.37 MiB
      rocm_sdk_devel-0.99.1.dev0-py3-none-linux_x86_64.whl           14.40 KiB
      rocm_sdk_device_gfx1100-0.99.1.dev0-py3-none-linux_x86_64.whl  164.42 KiB
      rocm_sdk_device_gfx942-0.99.1.dev0-py3-none-linux_x86_64.whl   294.10 KiB
      rocm_sdk_libraries-0.99.1.dev0-py3-none-linux_x86_64.whl       545.16 KiB
      7 packages                                                     2.42 MiB
      rocm-0.99.1.dev0-py3-none-any-gfx1100.whl                      1.32 KiB
      rocm-0.99.1.dev0-py3-none-any-gfx942.whl                       1.32 KiB
      2 variant wheels, which `install` leaves alone
    ");
    let plan =
        t.run("install set --no-check --into tree --target gfx942 --dry-run --format json").ok();
    assert_has!(plan, "rocm_sdk_device_gfx942-");
    assert!(!plan.contains("any-gfx942.whl"), "{plan}");
}

#[test]
fn a_set_without_variant_wheels_has_no_such_file() {
    let t = set_with(&[]);
    t.run("index --no-check set").ok();
    let names = fs_err::read_dir(t.path("set/dist")).unwrap();
    let mut names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
    assert!(!names.any(|name| name.contains("variants")));
    assert!(!t.read("set/set.json").contains("variant"));
}

#[test]
fn a_wheel_of_ours_that_does_not_say_what_its_label_means_is_refused() {
    let mut wheel = VariantWheel::of("gfx942");
    wheel.label = "gfx1100".to_owned();
    let t = set_with(&[wheel]);
    insta::assert_snapshot!(t.run("index --no-check set").refused(2), @"
    error: failed to read `set/dist/rocm-0.99.1.dev0-py3-none-any-gfx1100.whl`
      caused by: failed to read `variant.json`
      caused by: the label of the wheel is `gfx1100`, and `variants` has `gfx942`
    ");
}
