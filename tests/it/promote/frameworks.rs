//! Frameworks in a set that is promoted: they are tied to what it becomes.

use std::path::Path;

use super::{built, digests, fresh};
use crate::{
    framework::split,
    support::{
        demo::{DemoWheel, HOOK},
        place::{copy_files, text},
        program::rocwheel,
        published,
    },
};

/// A framework whose version names ROCm, and one that needs it and whose version does not.
fn write_wheels(to: &Path) -> [String; 2] {
    let mut framework = DemoWheel::new();
    "1.0+rocm7.14.0rc1".clone_into(&mut framework.version);
    let mut plugin = DemoWheel::bare("plugin");
    "Requires-Dist: fw==1.0+rocm7.14.0rc1\n".clone_into(&mut plugin.headers);
    plugin.add("plugin/__init__.py", HOOK);
    let (_, library) = &crate::support::demo::libraries()[1];
    plugin.add("plugin/_P.so", library.clone().build());
    [framework, plugin].map(|wheel| text(&wheel.write(to)).to_owned())
}

/// Ties wheels to a set, into a directory.
fn tie(wheels: &[String], set: &Path, to: &Path, flags: &[&str]) {
    let wheels: Vec<&str> = wheels.iter().map(String::as_str).collect();
    let options = ["--set", text(set), "--output-dir", text(to)];
    rocwheel(&[&["framework", "tie"], &wheels[..], &options, flags].concat()).ok();
}

#[test]
#[ignore = "slow"]
fn a_promoted_framework_is_the_one_that_is_tied_to_the_release() {
    let set = published::sample();
    let (candidate, release) = (built(set, "7.14.0rc1"), built(set, "7.14.0"));
    let place = fresh("frameworks");
    for directory in ["in", "set", "expected"] {
        fs_err::create_dir_all(place.join(directory)).unwrap();
    }
    let wheels = write_wheels(&place.join("in"));
    copy_files(&candidate.join("dist"), &place.join("set"));
    tie(&wheels, &candidate, &place.join("set"), &[]);
    let tested = place.join("set");
    let arguments = ["promote", text(&tested), "--to", "release"];
    let plan = rocwheel(&[&arguments[..], &["--dry-run"]].concat()).ok();
    let (_, plan) = plan.split_once("\nfw-").unwrap();
    insta::assert_snapshot!(plan, @r#"
    1.0+rocm7.14.0rc1-py3-none-linux_x86_64.whl
      becomes   fw-1.0+rocm7.14.0-py3-none-linux_x86_64.whl
      ties      2 of 2 binaries to ROCm 7.14.0
      + requires rocm[device-all]==7.14.*; extra == "device-all" (device code of the set)
      + requires rocm[device-gfx1100]==7.14.*; extra == "device-gfx1100" (device code of the set)
      + requires rocm[device-gfx942]==7.14.*; extra == "device-gfx942" (device code of the set)
      + requires rocm[device]==7.14.*; extra == "device" (device code of the set)
      + requires rocm[libraries]==7.14.* (libraries of 2 binaries)
      - requires rocm[device-all]==7.14.0rc1; extra == "device-all"
      - requires rocm[device-gfx1100]==7.14.0rc1; extra == "device-gfx1100"
      - requires rocm[device-gfx942]==7.14.0rc1; extra == "device-gfx942"
      - requires rocm[device]==7.14.0rc1; extra == "device"
      - requires rocm[libraries]==7.14.0rc1
      + extras  device, device-all, device-gfx1100, device-gfx942
      init      fw/_rocm_init.py for 7.14.*
      preload   amdhip64 hipblas

    plugin-1.0-py3-none-linux_x86_64.whl
      ties      1 of 1 binary to ROCm 7.14.0
      + requires fw==1.0+rocm7.14.0 (fw is in the group)
      + requires fw==1.0+rocm7.14.0 (libraries of fw, which is in the group)
      + requires rocm==7.14.* (libraries of 1 binary)
      + requires rocm[device-all]==7.14.*; extra == "device-all" (device code of the set)
      + requires rocm[device-gfx1100]==7.14.*; extra == "device-gfx1100" (device code of the set)
      + requires rocm[device-gfx942]==7.14.*; extra == "device-gfx942" (device code of the set)
      + requires rocm[device]==7.14.*; extra == "device" (device code of the set)
      - requires rocm==7.14.0rc1
      - requires rocm[device-all]==7.14.0rc1; extra == "device-all"
      - requires rocm[device-gfx1100]==7.14.0rc1; extra == "device-gfx1100"
      - requires rocm[device-gfx942]==7.14.0rc1; extra == "device-gfx942"
      - requires rocm[device]==7.14.0rc1; extra == "device"
      - requires fw==1.0+rocm7.14.0rc1
      + extras  device, device-all, device-gfx1100, device-gfx942
      init      plugin/_rocm_init.py for 7.14.*
      preload   amdhip64

    7 packages (2.41 MiB): 18 files edited, all others copied as they are
    "#);
    let to = place.join("promoted");
    rocwheel(&[&arguments[..], &["--into", text(&to)]].concat()).ok();
    // What ties them to a release that was built.
    let tied = wheels.each_ref().map(|it| it.replace("/in/", "/set/"));
    tie(
        &tied[..1],
        &release,
        &place.join("expected"),
        &["--version-suffix", "set"],
    );
    // And what was never tied to the candidate.
    let suffix = ["--version-suffix", "set"];
    tie(&wheels[..1], &release, &place.join("untied"), &suffix);
    let expected = digests(&place.join("expected"));
    assert_eq!(digests(&place.join("untied")), expected);
    let promoted = digests(&to.join("dist"));
    for wheel in &expected {
        assert!(promoted.contains(wheel), "{wheel:?}\n{promoted:#?}");
    }
    let names: Vec<&str> = promoted.iter().map(|it| it.0.as_str()).collect();
    assert!(
        names.contains(&"plugin-1.0-py3-none-linux_x86_64.whl"),
        "{names:?}"
    );
    assert_eq!(names.len(), 9, "{names:?}");
    rocwheel(&["check", text(&to)]).ok();
}

/// Its code is in packages of its own, and it is tied: before the promotion or after it.
#[test]
fn a_framework_that_was_split_is_promoted_with_its_device_packages() {
    let set = published::sample();
    let (candidate, release) = (built(set, "7.14.0rc1"), built(set, "7.14.0"));
    let place = fresh("frameworks-split");
    let path = |name: &str| place.join(name);
    fs_err::create_dir_all(path("fat")).unwrap();
    let mut wheel = split::wheel();
    "1.0+rocm7.14.0rc1".clone_into(&mut wheel.version);
    let fat = wheel.write(&path("fat"));
    split::split(&[fat], &path("parts"), &[]).ok();
    let parts = split::wheels_of(&path("parts")).into_iter();
    let parts: Vec<String> = parts.map(|it| text(&it).to_owned()).collect();
    fs_err::create_dir_all(path("set")).unwrap();
    copy_files(&candidate.join("dist"), &path("set"));
    tie(&parts, &candidate, &path("set"), &[]);
    let tested = path("set");
    let arguments = ["promote", text(&tested), "--to", "release", "--no-check"];
    rocwheel(&[&arguments[..], &["--into", text(&path("promoted"))]].concat()).ok();
    tie(
        &parts,
        &release,
        &path("expected"),
        &["--version-suffix", "set"],
    );
    let expected = digests(&path("expected"));
    // With the sdist that selects one of the device wheels.
    assert_eq!(expected.len(), parts.len() + 1);
    let promoted = digests(&path("promoted/dist"));
    for wheel in &expected {
        assert!(promoted.contains(wheel), "{wheel:?}\n{promoted:#?}");
    }
}
