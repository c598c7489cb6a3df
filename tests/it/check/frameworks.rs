//! `check --with`: frameworks on the sample, each with one thing wrong.

use super::Set;
use crate::support::demo::libraries;
use crate::support::prelude::*;

/// What is found about a wheel.
fn found(wheel: &DemoWheel) -> String {
    let set = Set::new();
    let place = tempfile::tempdir().unwrap();
    let path = wheel.write(place.path());
    set.found(&["--with", path.to_str().unwrap()])
}

/// The demo with only an extension of these needs.
fn with(object: &SharedObject) -> DemoWheel {
    let mut wheel = DemoWheel::bare("fw");
    wheel.headers.push_str("Requires-Dist: rocm\n");
    wheel.add("fw/_C.so", object.build());
    wheel
}

#[test]
fn a_wheel_as_it_was_built_is_not_tied() {
    insta::assert_snapshot!(found(&DemoWheel::new()), @"
    exit 1
    fw-1.0-py3-none-linux_x86_64.whl
      error   RWF02 unrequired-set: its binaries need ROCm, and it does not require `rocm`
      warning RWF16 two-sites: `Root-Is-Purelib` is `false`: where purelib and platlib differ, no run path leads to ROCm, and nothing loads it
      error   RWF01 untied-library: `fw/_C.so`: `libamdhip64.so.7` is found neither by its run path nor by the init module
      warning RWF06 dead-run-path: `fw/_C.so`: 2 of 3 entries on its run path lead nowhere, such as `/opt/rocm/lib`
      error   RWF01 untied-library: `fw/lib/libfw.so`: `libhipblas.so.3` is found neither by its run path nor by the init module
      error   RWF01 untied-library: `fw/lib/libfw.so`: `librocblas.so.5` is found neither by its run path nor by the init module
      warning RWF06 dead-run-path: `fw/lib/libfw.so`: 1 of 1 entry on its run path lead nowhere, such as `/builder/lib/python3.12/site-packages/_rocm_sdk_devel/lib`
    ");
}

#[test]
fn a_tied_wheel_has_no_finding() {
    let set = Set::new();
    let place = tempfile::tempdir().unwrap();
    let wheel = DemoWheel::new().write(place.path());
    let tied = place.path().join("tied");
    let tie = ["framework", "tie", text(&wheel), "--set", set.place()];
    super::run(&[&tie, &["--output-dir", text(&tied)][..]].concat()).ok();
    let wheel = tied.join("fw-1.0-py3-none-linux_x86_64.whl");
    assert_eq!(set.found(&["--with", text(&wheel)]), "exit 0\n");
}

#[test]
fn an_init_module_that_does_not_work_is_found() {
    let mut wheel = with(&SharedObject::new("_C.so").needs("libamdhip64.so.7"));
    let module = "def initialize():\n    import rocm_sdk\n    rocm_sdk.initialize_process(\
                  preload_shortnames=['amdhip64', 'nothing'], check_version='7.*')\n";
    wheel.add("fw/_rocm_init.py", module);
    wheel.add("fw/__init__.py", "");
    let unhooked = found(&wheel);
    wheel.members.retain(|it| !it.0.ends_with("_rocm_init.py"));
    wheel.add(
        "fw/__init__.py",
        "try:\n    from . import _rocm_init\nexcept ModuleNotFoundError:\n    pass\n",
    );
    insta::assert_snapshot!(format!("{unhooked}\n{}", found(&wheel)), @"
    exit 1
    fw-1.0-py3-none-linux_x86_64.whl
      warning RWF16 two-sites: `Root-Is-Purelib` is `false`: where purelib and platlib differ, no run path leads to ROCm, and nothing loads it
      error   RWF01 untied-library: `fw/_C.so`: `libamdhip64.so.7` is found neither by its run path nor by the init module
      error   RWF03 other-set: `fw/_rocm_init.py`: it wants ROCm 7.*, and the set is 0.99.1.dev0
      error   RWF04 unhooked-init: `fw/_rocm_init.py`: nothing imports it
      error   RWF05 unknown-preload: `fw/_rocm_init.py`: it loads nothing, which the set does not have

    exit 1
    fw-1.0-py3-none-linux_x86_64.whl
      warning RWF16 two-sites: `Root-Is-Purelib` is `false`: where purelib and platlib differ, no run path leads to ROCm, and nothing loads it
      error   RWF01 untied-library: `fw/_C.so`: `libamdhip64.so.7` is found neither by its run path nor by the init module
      error   RWF04 unhooked-init: `fw/_rocm_init.py`: it is imported and absent, and the import does not catch ImportError
    ");
}

#[test]
fn requirements_that_do_not_fit_are_found() {
    let mut wheel =
        with(&SharedObject::new("_C.so").needs("libtorch.so").runpath("$ORIGIN/../torch/lib"));
    wheel.name = "jax_rocm7_plugin".to_owned();
    wheel.headers = "Requires-Dist: rocm==7.14.0\nRequires-Dist: amd-hipblas-instinct; extra == \"with-rocm\"\n\
                     Provides-Extra: with-rocm\n"
        .to_owned();
    insta::assert_snapshot!(found(&wheel), @r#"
    exit 1
    jax_rocm7_plugin-1.0-py3-none-linux_x86_64.whl
      error   RWF03 other-set: it requires `rocm==7.14.0`, and the set is 0.99.1.dev0
      warning RWF09 unpinned-neighbour: it needs torch, and does not require one version of it
      warning RWF10 dead-extra: its extra `with-rocm` requires `amd-hipblas-instinct; extra == "with-rocm"`, which is not in the set
    "#);
}

#[test]
fn a_tag_that_promises_too_much_is_found() {
    let mut wheel = with(&SharedObject::new("_C.so").needs_version("libc.so.6", "GLIBC_2.38"));
    wheel.platform = "manylinux_2_28_x86_64".to_owned();
    insta::assert_snapshot!(found(&wheel), @"
    exit 1
    fw-1.0-py3-none-manylinux_2_28_x86_64.whl
      error   RWF08 tag-too-old: its tag is `manylinux_2_28_x86_64`, and its symbols prove `manylinux_2_38`: `fw/_C.so` needs GLIBC_2.38
    ");
}

#[test]
fn copies_of_rocm_and_files_for_another_rocm_are_found() {
    let mut wheel = with(&SharedObject::new("_C.so").needs("libhipblas.so.2"));
    let names = b"x\0/opt/rocm/lib/libamd_smi.so\0libamd_smi.so\0y".as_slice();
    let copy = SharedObject::new("libamdhip64-0a1b2c3d.so.7").section(".rodata.names", names);
    wheel.add("fw.libs/libamdhip64-0a1b2c3d.so.7", copy.build());
    insta::assert_snapshot!(found(&wheel), @"
    exit 1
    fw-1.0-py3-none-linux_x86_64.whl
      error   RWF17 not-for-set: `fw/_C.so` needs `libhipblas.so.2`, and the set has `libhipblas.so.3`
      error   RWF07 grafted-library: `fw.libs/libamdhip64-0a1b2c3d.so.7`: it is `libamdhip64.so.7` of the set
      warning RWF12 run-time-name: `fw.libs/libamdhip64-0a1b2c3d.so.7`: it opens /opt/rocm/lib/libamd_smi.so, libamd_smi.so, which no ROCm package has under this name
      warning RWF11 other-rocm: `fw/_C.so`: it needs `libhipblas.so.2`, and the set has `libhipblas.so.3`
    ");
}

#[test]
fn a_newer_version_in_the_baseline_is_found() {
    let (set, baseline) = (Set::new(), tempfile::tempdir().unwrap());
    crate::support::place::copy_files(set.0.path(), baseline.path());
    let mut wheel = with(&SharedObject::new("_C.so").needs("libamdhip64.so.7"));
    "1.0+rocm7.14.0".clone_into(&mut wheel.version);
    wheel.write(baseline.path());
    "1.0+rocm10.1.0".clone_into(&mut wheel.version);
    let place = tempfile::tempdir().unwrap();
    let path = wheel.write(place.path());
    let baseline = baseline.path().to_str().unwrap();
    let flags = ["--with", path.to_str().unwrap(), "--baseline", baseline];
    let found = set.found(&flags);
    let line = found.lines().find(|it| it.contains("RWF14"));
    insta::assert_snapshot!(line.unwrap().trim_start(), @"warning RWF14 sorts-below: 1.0+rocm10.1.0 sorts below 1.0+rocm7.14.0, which is there: installers take it for older");
    // Without a baseline there is nothing to compare with.
    let plain = set.found(&flags[..2]);
    assert_lacks!(plain, "RWF14");
}

#[test]
fn device_code_for_many_targets_is_found() {
    let [(_, object), _] = libraries();
    let bundle = bundles::raw(&[("gfx942", vec![1; 5_000]), ("gfx1100", vec![2; 5_000])]);
    let wheel = with(&object.device_code(&bundle, &[0], DeviceRelocations::Rela));
    insta::assert_snapshot!(found(&wheel), @"
    exit 1
    fw-1.0-py3-none-linux_x86_64.whl
      warning RWF16 two-sites: `Root-Is-Purelib` is `false`: where purelib and platlib differ, no run path leads to ROCm, and nothing loads it
      error   RWF01 untied-library: `fw/_C.so`: `libhipblas.so.3` is found neither by its run path nor by the init module
      error   RWF01 untied-library: `fw/_C.so`: `librocblas.so.5` is found neither by its run path nor by the init module
      warning RWF06 dead-run-path: `fw/_C.so`: 1 of 1 entry on its run path lead nowhere, such as `/builder/lib/python3.12/site-packages/_rocm_sdk_devel/lib`
      warning RWF13 fat-framework: `fw/_C.so`: it has device code for 2 targets
    ");
}

/// Each wheel has something wrong that a command mends: the command of the fix is run as it stands, with the
/// wheels and the set for the words in capitals.
#[test]
fn the_command_of_a_fix_mends_what_was_found() {
    let set = Set::new();
    let mut mended = BTreeSet::new();
    for (wheel, others) in damaged_wheels() {
        let place = tempfile::tempdir().unwrap();
        let path = wheel.write(place.path());
        let others: Vec<PathBuf> = others.iter().map(|it| it.write(place.path())).collect();
        let named = |path: &Path| ["--with", text(path)].map(str::to_owned);
        let flags: Vec<String> = others.iter().chain([&path]).flat_map(|it| named(it)).collect();
        for (rule, fix) in fixes(&set, &flags) {
            let Some(line) = fix.split('`').find(|it| it.starts_with("rocwheel framework")) else {
                continue;
            };
            let to = place.path().join(&rule);
            let other = others.first().map_or("", |it| text(it));
            let command = line
                .replace("WHEEL", text(&path))
                .replace("SET", set.place())
                .replace("OTHER", other)
                .replace("DIR", text(&to));
            let words: Vec<&str> = command.split(' ').skip(1).collect();
            super::run(&words).ok();
            let wheels = crate::framework::split::wheels_of(&to);
            let flags: Vec<String> = wheels.iter().flat_map(|wheel| named(wheel)).collect();
            let left = fixes(&set, &flags);
            assert!(!left.contains_key(&rule), "{command}\n{left:?}");
            mended.insert(rule);
        }
    }
    let page = fs_err::read_to_string("docs/checks.md").unwrap();
    let sections = page.split("### RWF").skip(1).filter(|it| it.contains("`rocwheel framework"));
    let rules: BTreeSet<String> = sections.map(|it| format!("RWF{}", &it[..2])).collect();
    assert_eq!(mended, rules);
}

/// Each rule that a check finds, and its fix.
fn fixes(set: &Set, flags: &[String]) -> BTreeMap<String, String> {
    let mut words = vec!["check", set.place(), "--format", "json"];
    words.extend(flags.iter().map(String::as_str));
    let report: Value = serde_json::from_str(&super::run(&words).stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let field = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    findings.map(|finding| (field(finding, "id"), field(finding, "way-out"))).collect()
}

/// Wheels, each with those that it is installed with.
fn damaged_wheels() -> Vec<(DemoWheel, Vec<DemoWheel>)> {
    let mut unhooked = with(&SharedObject::new("_C.so").needs("libamdhip64.so.7"));
    unhooked.add(
        "fw/_rocm_init.py",
        "def initialize():\n    import rocm_sdk\n    rocm_sdk.initialize_process(preload_shortnames=['nothing'])\n",
    );
    unhooked.add("fw/__init__.py", "");
    let object = SharedObject::new("_C.so").needs("libtorch.so").needs("libamdhip64.so.7");
    let mut extension = with(&object.runpath("$ORIGIN/../torch/lib"));
    "jax_rocm7_plugin".clone_into(&mut extension.name);
    extension.headers += "Requires-Dist: amd-hipblas-instinct; extra == \"with-rocm\"\n\
                          Provides-Extra: with-rocm\n";
    let mut torch = DemoWheel::bare("torch");
    torch.headers.push_str("Requires-Dist: rocm\n");
    torch.add(
        "torch/lib/libtorch.so",
        SharedObject::new("libtorch.so").needs("libamdhip64.so.7").build(),
    );
    let mut promising = with(
        &SharedObject::new("_C.so")
            .needs_version("libc.so.6", "GLIBC_2.38")
            .needs("libamdhip64.so.7"),
    );
    "manylinux_2_28_x86_64".clone_into(&mut promising.platform);
    vec![
        (DemoWheel::new(), vec![]),
        (unhooked, vec![]),
        (extension, vec![torch]),
        (promising, vec![]),
        (crate::framework::split::wheel(), vec![]),
    ]
}
