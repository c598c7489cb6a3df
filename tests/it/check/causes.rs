//! One cause, one finding: what follows from it is counted and left out.

use std::path::PathBuf;

use super::{
    Set, after,
    broken::edits::CORE,
    windows::{self, dll},
};

#[test]
fn a_missing_package_is_not_buried() {
    insta::assert_snapshot!(after(|set| set.remove(CORE)), @"
    exit 1
    rocm-0.99.1.dev0.tar.gz
      error   RW201 unresolved-requirement: it requires `rocm-sdk-core`, which is not in the set
    rocm_sdk_devel.whl
      error   RW201 unresolved-requirement: it requires `rocm-sdk-core`, which is not in the set; left out 108 findings caused by it
    ");
}

#[test]
fn an_unreadable_package_is_not_buried() {
    insta::assert_snapshot!(after(|set| set.bytes(CORE, |bytes| bytes.truncate(5000))), @"
    exit 1
    rocm_sdk_core.whl
      error   RW101 unreadable-package: no end record: not a zip archive, or one that is cut off; left out 108 findings caused by it
    ");
    insta::assert_snapshot!(after(|set| set.bytes("rocm_sdk_device_gfx942", |bytes| bytes.truncate(5000))), @"
    exit 1
    rocm_sdk_device_gfx942.whl
      error   RW101 unreadable-package: no end record: not a zip archive, or one that is cut off
    ");
}

/// What the families share is flat; the packages that begin like these lie in their directories.
pub(super) fn for_families(set: &Set, own: &[&str]) -> PathBuf {
    let dist = set.0.path().join("dist");
    for family in ["gfx94X-dcgpu", "gfx110X-all"] {
        fs_err::create_dir_all(dist.join(family)).unwrap();
    }
    for entry in fs_err::read_dir(set.0.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if own.iter().any(|start| name.starts_with(start)) {
            fs_err::copy(&path, dist.join("gfx94X-dcgpu").join(&name)).unwrap();
            fs_err::rename(&path, dist.join("gfx110X-all").join(&name)).unwrap();
        } else if name != "dist" {
            fs_err::rename(&path, dist.join(&name)).unwrap();
        }
    }
    dist
}

#[test]
fn each_family_of_a_set_in_the_older_form_is_a_set() {
    let set = Set::new();
    let dist = for_families(&set, &["rocm-0", "rocm_sdk_devel"]);
    assert_eq!(set.found(&["--fail-on", "warning"]), "exit 0\n");
    fs_err::remove_file(dist.join("gfx110X-all/rocm-0.99.1.dev0.tar.gz")).unwrap();
    insta::assert_snapshot!(set.found(&[]), @"
    exit 1
    the set
      error   RW205 missing-selector: no `rocm` sdist among 6 packages, in the set of `gfx110X-all`
    ");
}

#[test]
fn a_finding_that_every_group_with_its_package_has_is_reported_once() {
    let set = windows::both(&dll(&[], &["KERNEL32.dll"]), &[]);
    set.add("rocm_sdk_core-0.99.1.dev0-py3-none-linux", "_rocm_sdk_core/lib/a.pdb");
    for_families(&set, &["rocm-0", "rocm_sdk_devel"]);
    insta::assert_snapshot!(set.found(&["--select", "RW605"]), @"
    exit 0
    rocm_sdk_core.whl
      warning RW605 debug-leftover: `_rocm_sdk_core/lib/a.pdb`: a leftover of building or debugging
    ");
}

#[test]
fn a_finding_that_is_not_shown_stands_for_no_other() {
    let set = Set::new();
    set.remove(CORE);
    let arguments: [&[&str]; 2] = [&["--ignore", "RW201"], &["--select", "RW4"]];
    for arguments in arguments {
        assert_has!(set.found(arguments), "exit 1", "RW401 missing-library");
    }
    // A finding of a rule that is ignored is skipped, not left out.
    let shown = set.found(&["--ignore", "RW401"]);
    assert!(!shown.contains("left out 108"), "{shown}");
}

#[test]
fn a_promised_file_that_is_missing_is_a_cause_in_its_group() {
    let set = windows::both(&dll(&[], &["KERNEL32.dll"]), &[]);
    set.index();
    set.remove("rocm_sdk_core-0.99.1.dev0-py3-none-linux");
    insta::assert_snapshot!(set.found(&["--ignore", "RW201,RW202,RW213,RW5"]), @"
    exit 1
    rocm_sdk_core.whl
      error   RW701 promised-file-missing: it does not exist, but is listed by `SHA256SUMS`, `index.html`, `set.json`, `simple/rocm-sdk-core/`; left out 12 findings caused by it
    rocm_sdk_device_gfx1100-0.99.1.dev0-py3-none-win_amd64.whl
      error   RW305 empty-device-wheel: it has no file for `gfx1100`
    ");
}
