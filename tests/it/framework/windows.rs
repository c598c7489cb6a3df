//! Wheels for Windows are tied by their init module: it loads what their binaries import.

use super::{Place, members, text};
use crate::support::prelude::*;
use crate::{check::windows::dll, support::demo::HOOK};

/// A wheel for Windows whose binaries import these libraries.
pub(super) fn wheel(name: &str, binaries: &[(&str, &[&str])]) -> DemoWheel {
    let mut wheel = DemoWheel::bare(name);
    "win_amd64".clone_into(&mut wheel.platform);
    for (path, needed) in binaries {
        wheel.add(path, dll(&[], needed));
    }
    wheel
}

/// The packages of ROCm for Windows, as far as frameworks see them.
fn set(place: &Place) -> PathBuf {
    set_of(place, "1.0")
}

/// These packages in a version.
pub(super) fn set_of(place: &Place, version: &str) -> PathBuf {
    let write = |name: &str, libraries: &[(&str, &[&str])], set: &Path| {
        let mut wheel = wheel(name, libraries);
        version.clone_into(&mut wheel.version);
        wheel.write(set);
    };
    let set = place.0.path("set");
    fs_err::create_dir(&set).unwrap();
    let core = [
        ("_rocm_sdk_core/bin/amdhip64_7.dll", &["KERNEL32.dll"][..]),
        ("_rocm_sdk_core/bin/amd_comgr.dll", &[]),
        ("_rocm_sdk_core/bin/hiprtc0702.dll", &[]),
    ];
    write("rocm_sdk_core", &core, &set);
    let libraries = [
        ("_rocm_sdk_libraries/bin/hipblas.dll", &["rocBLAS.dll"][..]),
        ("_rocm_sdk_libraries/bin/rocblas.dll", &["AMDHIP64_7.dll"]),
    ];
    write("rocm_sdk_libraries", &libraries, &set);
    set
}

/// Windows ignores the case of names.
pub(super) const EXTENSION: (&str, &[&str]) =
    ("fw/_C.pyd", &["AMDHIP64_7.DLL", "hipblas.dll", "fw.dll", "KERNEL32.dll"]);

#[test]
fn the_init_module_loads_what_binaries_import() {
    let place = Place::new();
    let set = set(&place);
    let mut fw = wheel("fw", &[EXTENSION, ("fw/lib/fw.dll", &["hiprtc0702.dll"])]);
    fw.add("fw/__init__.py", HOOK);
    fw.add("fw/lib/broken.dll", b"MZ".repeat(100));
    let said = place.tie(&[place.write(&fw)], &set, &[]).ok();
    for line in ["ties      2 of 3 binaries to ROCm 1.0\n", "preload   amdhip64 hiprtc hipblas\n"] {
        assert_has!(said, line);
    }
    let tied = members(&place.only());
    assert!(text(&tied, "/METADATA").contains("Requires-Dist: rocm[libraries]==1.0.*\n"));
    let module = text(&tied, "fw/_rocm_init.py");
    assert_has!(module, "amdhip64", "hiprtc", "hipblas");
    let again = Place::new();
    again.tie(&[place.only()], &set, &[]).ok();
    assert!(fs_err::read(again.only()).unwrap() == fs_err::read(place.only()).unwrap());
}

/// `hipblas.dll` is beside `rocblas.dll`, and finds the runtime, which is in another package, only
/// if it is loaded.
#[test]
fn what_imported_libraries_need_of_other_packages_is_loaded_first() {
    let place = Place::new();
    let set = set(&place);
    let mut fw = wheel("fw", &[("fw/_C.pyd", &["HipBLAS.dll"])]);
    fw.add("fw/__init__.py", "");
    let said = place.tie(&[place.write(&fw)], &set, &["--init", "add"]).ok();
    assert_has!(said, "preload   amdhip64 hipblas\n");
}

#[test]
fn what_is_not_for_the_set_is_refused() {
    let place = Place::new();
    let set = set(&place);
    let refused = |name: &str, binaries: &[(&str, &[&str])], hook: &str, flags: &[&str]| {
        let mut wheel = wheel(name, binaries);
        wheel.add(&format!("{name}/__init__.py"), hook);
        let said = place.tie(&[place.write(&wheel)], &set, flags);
        format!("exit {}: {}", said.code, said.stderr)
    };
    let older: &[&str] = &["amdhip64_6.dll"];
    let mixed: &[&str] = &["amdhip64_6.dll", "hipblas.dll"];
    let shown = [
        refused("unhooked", &[("unhooked/x.pyd", EXTENSION.1)], "", &[]),
        refused("mixed", &[("mixed/x.pyd", mixed)], HOOK, &[]),
        refused("older", &[("older/x.pyd", older)], HOOK, &[]),
    ];
    insta::assert_snapshot!(shown.join("\n"), @"
    exit 1: error: 1 wheel cannot be tied
      `unhooked-1.0-py3-none-win_amd64.whl`: no module imports `_rocm_init.py`, and Windows has no run paths (no-hook)

    hint: pass `--init add`

    exit 1: error: 1 wheel cannot be tied
      `mixed-1.0-py3-none-win_amd64.whl`: `mixed/x.pyd` needs `amdhip64_6.dll`; the set has `amdhip64_7.dll` (other-soname)

    hint: tie it to the set that it was built with

    exit 1: error: 1 wheel cannot be tied
      `older-1.0-py3-none-win_amd64.whl`: its only binary needs no library of the set: `older/x.pyd` needs `amdhip64_6.dll`, and the set has `amdhip64_7.dll` (nothing-to-tie)

    hint: build it against this set, or tie it to the set that it was built with
    ");
    // With a hook of our own it is tied.
    let said = refused("added", &[("added/x.pyd", EXTENSION.1)], "", &["--init", "add"]);
    assert!(said.starts_with("exit 0"), "{said}");
}

/// The wheel for one platform, and the set for the other.
#[test]
fn a_wheel_for_another_platform_is_refused_whatever_is_passed() {
    let place = Place::new();
    let windows_set = set(&place);
    let mut for_windows = wheel("fw", &[EXTENSION]);
    for_windows.add("fw/__init__.py", "");
    let for_windows = place.write(&for_windows);
    let mut pure = DemoWheel::bare("pure");
    "macosx_11_0_arm64".clone_into(&mut pure.platform);
    pure.add("pure/__init__.py", "");
    let pure = place.write(&pure);
    let for_linux = place.write(&DemoWheel::new());
    let everything: &[&str] = &["--init", "add", "--extras", "libraries"];
    let refused = |wheel: &Path, set: &Path, flags: &[&str]| {
        let said = place.tie(&[wheel.to_owned()], set, flags);
        assert!(!place.tied().exists(), "something was written");
        format!("exit {}: {}", said.code, said.stderr)
    };
    let linux_set = super::set();
    let shown = [
        refused(&for_windows, &linux_set, everything),
        refused(&for_linux, &windows_set, everything),
        refused(&pure, &linux_set, everything),
    ];
    insta::assert_snapshot!(shown.join("\n"), @"
    exit 1: error: 1 wheel cannot be tied
      `fw-1.0-py3-none-win_amd64.whl`: `fw/_C.pyd` is for Windows, and the set is for Linux on x86-64 (other-platform)

    hint: take its wheel for Linux, or pass the ROCm packages for Windows as `--set`

    exit 1: error: 1 wheel cannot be tied
      `fw-1.0-py3-none-linux_x86_64.whl`: `fw/lib/libfw.so` is for Linux, and the set is for Windows on x86-64 (other-platform)

    hint: take its wheel for Windows, or pass the ROCm packages for Linux as `--set`

    exit 1: error: 1 wheel cannot be tied
      `pure-1.0-py3-none-macosx_11_0_arm64.whl`: its tag `macosx_11_0_arm64` is for another platform, and the set is for Linux on x86-64 (other-platform)

    hint: take its wheel for Linux on x86-64
    ");
    assert_eq!(refused(&for_windows, &linux_set, &[]), shown[0]);
    assert_eq!(refused(&for_linux, &windows_set, &[]), shown[1]);
}
