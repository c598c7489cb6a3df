//! What a build left behind.

use super::*;

#[test]
fn run_paths_of_the_build_machine_are_found() {
    let object = library("liba.so.1").rpath("$ORIGIN::/opt/rocm/lib");
    insta::assert_snapshot!(with_library(&object, "liba.so.1"), @"
    exit 1
    rocm_sdk_core.whl
      warning RW601 absolute-run-path: `_rocm_sdk_core/lib/liba.so.1`: `/opt/rocm/lib` is on its run path
      error   RW602 open-run-path: `_rocm_sdk_core/lib/liba.so.1`: an entry for the current directory: `$ORIGIN::/opt/rocm/lib`
    ");
}

/// Sets the mode of a member in the directory of the archive.
pub(in crate::check) fn set_mode(bytes: &mut [u8], name: &str, mode: u16) {
    let mut windows = bytes.windows(name.len());
    let name_at = windows.rposition(|it| it == name.as_bytes()).unwrap();
    bytes[name_at - 6..name_at - 4].copy_from_slice(&mode.to_le_bytes());
}

#[test]
fn modes_that_give_rights_away_are_found() {
    insta::assert_snapshot!(after(|set| set.bytes(CORE, |bytes| {
        set_mode(bytes, "_rocm_sdk_core/bin/rocminfo", 0o104_755);
        set_mode(bytes, "_rocm_sdk_core/share/hip/version", 0o100_666);
    })), @"
    exit 1
    rocm_sdk_core.whl
      error   RW603 setuid-member: `_rocm_sdk_core/bin/rocminfo`: its mode is 4755
      error   RW604 world-writable: `_rocm_sdk_core/share/hip/version`: its mode is 666
    ");
}

#[test]
fn leftovers_are_found() {
    insta::assert_snapshot!(edited(CORE, |members| {
        add(members, "_rocm_sdk_core/lib/liba.so.1.debug", "1");
        add(members, "_rocm_sdk_core/share/__pycache__/a.cpython-312.pyc", "1");
    }), @"
    exit 0
    rocm_sdk_core.whl
      warning RW605 debug-leftover: `_rocm_sdk_core/lib/liba.so.1.debug`: a leftover of building or debugging
      warning RW605 debug-leftover: `_rocm_sdk_core/share/__pycache__/a.cpython-312.pyc`: a leftover of building or debugging
    ");
}
