//! What a tied wheel is: its texts, its run paths, and the laws that hold for tying.

use std::slice::from_ref;

use super::{Place, member, members, set, text};
use crate::support::{demo::HOOK, prelude::*};

/// The sample under another version. No binary differs.
pub(super) fn promoted(to: &Path) {
    let mut build = command();
    build.args(["build", "--version", "0.99.1", "--artifact-dir"]);
    build.arg(published::sample().artifacts());
    succeed(build.arg("--output-dir").arg(to));
}

#[test]
fn a_tied_wheel_finds_its_libraries_and_says_what_it_needs() {
    let place = Place::new();
    let tied = members(&place.tie_to_sample(&DemoWheel::new(), &[]));
    let paths: Vec<&str> = tied.iter().map(|it| it.0.as_str()).collect();
    let record: Value = serde_json::from_str(&text(&tied, "/rocm_tie.json")).unwrap();
    let shown = [
        paths.join("\n"),
        text(&tied, "/METADATA"),
        text(&tied, "/WHEEL"),
        text(&tied, "/_rocm_init.py"),
        record.to_string(),
    ];
    insta::assert_snapshot!(shown.join("----\n"), @r#"
    fw/_C.so
    fw/__init__.py
    fw/_rocm_init.py
    fw/lib/libfw.so
    fw-1.0.dist-info/METADATA
    fw-1.0.dist-info/WHEEL
    fw-1.0.dist-info/rocm_tie.json
    fw-1.0.dist-info/RECORD----
    Metadata-Version: 2.1
    Name: fw
    Version: 1.0
    Provides-Extra: device
    Provides-Extra: device-all
    Provides-Extra: device-gfx1100
    Provides-Extra: device-gfx942
    Requires-Dist: rocm[device-all]==0.99.1.dev0; extra == "device-all"
    Requires-Dist: rocm[device-gfx1100]==0.99.1.dev0; extra == "device-gfx1100"
    Requires-Dist: rocm[device-gfx942]==0.99.1.dev0; extra == "device-gfx942"
    Requires-Dist: rocm[device]==0.99.1.dev0; extra == "device"
    Requires-Dist: rocm[libraries]==0.99.1.dev0

    A framework.
    ----
    Wheel-Version: 1.0
    Generator: demo (1)
    Root-Is-Purelib: true
    Tag: py3-none-linux_x86_64
    ----
    # Written by rocwheel.
    def initialize():
        try:
            import rocm_sdk
        except ImportError as error:
            raise ImportError(
                "This package needs ROCm: install 'rocm[libraries]==0.99.1.dev0' from a ROCm index, not from PyPI"
            ) from error
        rocm_sdk.initialize_process(
            preload_shortnames=[
                "amdhip64",
                "hipblas",
            ],
            check_version="0.99.1.dev0",
        )
    ----
    {"schema":"rocwheel-tie-v1","rocm":"0.99.1.dev0","requirement":"rocm[libraries]==0.99.1.dev0","requires":["rocm[device-all]==0.99.1.dev0; extra == \"device-all\"","rocm[device-gfx1100]==0.99.1.dev0; extra == \"device-gfx1100\"","rocm[device-gfx942]==0.99.1.dev0; extra == \"device-gfx942\"","rocm[device]==0.99.1.dev0; extra == \"device\"","rocm[libraries]==0.99.1.dev0"],"extras":["device","device-all","device-gfx1100","device-gfx942"],"init":"fw/_rocm_init.py","preload":["amdhip64","hipblas"],"run-paths":[["fw/_C.so","$ORIGIN/lib:$ORIGIN/../_rocm_sdk_core/lib"],["fw/lib/libfw.so","$ORIGIN/../../_rocm_sdk_libraries/lib"]],"version-suffix":null,"proved-tag":"manylinux_2_17","untied":[]}
    "#);
    assert!(tied.iter().all(|it| it.1 & 0o777 == 0o644));
    // Nothing is left to change.
    let plan = place.tie(&[place.only()], &set(), &["--plan"]).ok();
    assert_lacks!(plan, "run path");
}

#[test]
fn a_framework_that_refuses_another_rocm_still_does() {
    let (place, mut fw) = (Place::new(), DemoWheel::new());
    let module = "def initialize():\n    import rocm_sdk\n    rocm_sdk.initialize_process(\n        \
                  check_version='7.1.*', fail_on_version_mismatch=True)\n";
    fw.add("fw/_rocm_init.py", module);
    let tied = members(&place.tie_to_sample(&fw, &[]));
    let module = text(&tied, "/_rocm_init.py");
    assert_has!(module, "check_version=\"0.99.1.dev0\",", "fail_on_version_mismatch=True,");
}

#[test]
fn to_tie_again_changes_nothing_and_another_set_changes_no_binary() {
    let place = Place::new();
    let final_set = place.0.path("final");
    fs_err::create_dir(&final_set).unwrap();
    promoted(&final_set);
    let first = place.tie_to_sample(&DemoWheel::new(), &["--jobs", "1", "--init", "add"]);
    let again = Place::new();
    again.tie(from_ref(&first), &set(), &["--init", "add"]).ok();
    let bytes = |path: &Path| fs_err::read(path).unwrap();
    assert!(bytes(&first) == bytes(&again.only()));
    let (at_once, later) = (Place::new(), Place::new());
    let suffix = ["--version-suffix", "set"];
    let built = place.write(&DemoWheel::new());
    at_once.tie(&[built], &final_set, &suffix).ok();
    later.tie(from_ref(&first), &final_set, &suffix).ok();
    assert!(bytes(&at_once.only()) == bytes(&later.only()));
    let tied = later.only();
    let name = "fw-1.0+rocm0.99.1-py3-none-linux_x86_64.whl";
    assert_eq!(tied.file_name().unwrap(), name);
    let (before, after) = (members(&first), members(&tied));
    for binary in ["fw/_C.so", "fw/lib/libfw.so"] {
        let [before, after] = [&before, &after].map(|it| member(it, binary));
        assert!(before == after, "{binary}");
    }
    assert!(text(&after, "/METADATA").contains("Requires-Dist: rocm[libraries]==0.99.*\n"));
}

#[test]
fn wheels_of_a_group_find_and_require_each_other() {
    let place = Place::new();
    let mut extension = DemoWheel::bare("fw_more");
    let needs = SharedObject::new("_more.so").needs("libfw.so");
    let needs = needs.runpath("/builder");
    extension.add("fw_more/_more.so", needs.build());
    extension.headers = "Requires-Dist: fw>=1\n".to_owned();
    let wheels = [place.write(&DemoWheel::new()), place.write(&extension)];
    let flags = ["--plan", "--extras", "devel"];
    let plan = place.tie(&wheels, &set(), &flags).ok();
    let plan = plan.lines().skip_while(|it| !it.starts_with("fw_more"));
    let plan: Vec<&str> = plan.filter(|it| !it.contains("device")).collect();
    insta::assert_snapshot!(plan.join("\n"), @"
    fw_more-1.0-py3-none-linux_x86_64.whl
      ties      0 of 1 binary to ROCm 0.99.1.dev0
      + requires fw==1.0 (libraries of fw, which is in the group)
      + requires rocm[devel]==0.99.1.dev0 (named by a flag)
      init      no hook: run paths only
      run path  fw_more/_more.so: 1 entry to $ORIGIN/../fw/lib
    ");
}

/// The run path of a file for the loader.
fn run_path(bytes: &[u8]) -> Option<String> {
    let facts = rocwheel_elf::read(&bytes.to_vec()).unwrap().unwrap();
    facts.run_path().map(str::to_owned)
}

#[test]
fn directories_with_libraries_that_a_file_names_stay_on_its_run_path() {
    let place = Place::new();
    let mut wheel = DemoWheel::new();
    let names = b"\0cannot open libfw_plugin.so!\0".as_slice();
    let opener = SharedObject::new("_C.so")
        .needs("libamdhip64.so.7")
        .section(".rodata.names", names)
        .runpath("$ORIGIN/plugins:$ORIGIN/unused:$ORIGIN:/opt/rocm/lib");
    wheel.add("fw/_C.so", opener.build());
    for (path, name) in [
        ("fw/plugins/libfw_plugin.so", "libfw_plugin.so"),
        ("fw/unused/libfw_other.so", "libfw_other.so"),
    ] {
        wheel.add(path, SharedObject::new(name).needs("libc.so.6").build());
    }
    let tied = members(&place.tie_to_sample(&wheel, &[]));
    let run_path = run_path(&member(&tied, "fw/_C.so"));
    let expected = "$ORIGIN/plugins:$ORIGIN/../_rocm_sdk_core/lib";
    assert_eq!(run_path.as_deref(), Some(expected));
}

#[test]
fn a_file_that_needs_no_library_of_the_set_stays_byte_for_byte() {
    let place = Place::new();
    let mut wheel = DemoWheel::new();
    let plain = SharedObject::new("x.so").needs("libc.so.6");
    let plain = |path: &str| plain.clone().runpath(path).build();
    let kept = ["$ORIGIN", "$ORIGIN/../nvvm/lib64", "$ORIGIN/../lib"];
    for (number, path) in kept.iter().enumerate() {
        wheel.add(&format!("fw/kept{number}.so"), plain(path));
    }
    let changed = ["/builder/lib", "$ORIGIN:", "$ORIGIN/../../../lib", "lib"];
    for (number, path) in changed.iter().enumerate() {
        wheel.add(&format!("fw/changed{number}.so"), plain(path));
    }
    let tied = members(&place.tie_to_sample(&wheel, &[]));
    for (number, path) in kept.iter().enumerate() {
        let bytes = member(&tied, &format!("fw/kept{number}.so"));
        assert!(bytes == plain(path), "{path}");
    }
    for number in 0..changed.len() {
        let bytes = member(&tied, &format!("fw/changed{number}.so"));
        assert_eq!(run_path(&bytes), None, "{number}");
    }
}

#[test]
fn a_wheel_of_python_only_is_tied_with_extras_and_keeps_its_tag() {
    let place = Place::new();
    let mut wheel = DemoWheel::bare("fw");
    "any".clone_into(&mut wheel.platform);
    wheel.add("fw/__init__.py", "import os\n");
    let tied = place.tie_to_sample(&wheel, &["--init", "add", "--extras", "libraries"]);
    assert!(tied.ends_with("fw-1.0-py3-none-any.whl"), "{}", tied.display());
    let tied = members(&tied);
    assert_has!(text(&tied, "fw/__init__.py"), "from . import _rocm_init", "import os\n");
    assert_has!(text(&tied, "fw/_rocm_init.py"), "rocm_sdk.initialize_process");
    assert_lacks!(text(&tied, "/rocm_tie.json"), "manylinux");
}

#[test]
fn a_module_in_latin_1_keeps_its_bytes() {
    let place = Place::new();
    let mut wheel = DemoWheel::new();
    let source = b"# -*- coding: latin-1 -*-\n\"\"\"Caf\xe9.\"\"\"\nname = '\xfc'\n";
    wheel.add("fw/__init__.py", source.as_slice());
    let tied = members(&place.tie_to_sample(&wheel, &["--init", "add"]));
    let hooked = member(&tied, "fw/__init__.py");
    let hook = HOOK.split_once("framework.\"\"\"\n").unwrap().1;
    let at = hooked.windows(hook.len()).position(|it| it == hook.as_bytes()).unwrap();
    assert_eq!([&hooked[..at], &hooked[at + hook.len()..]].concat(), source);
}
