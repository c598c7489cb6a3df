//! Sets without device wheels: the code is in the libraries, and packages are called for families.

use super::{Members, Outcome, Set, add, causes::for_families, record, unzip, zipped};
use crate::support::prelude::*;

const TOP: &str = "_rocm_sdk_libraries_gfx110X_all";

/// A library with its code in it, for these.
fn fat(soname: &str, needed: &str, targets: &[&str]) -> Vec<u8> {
    let codes: Vec<(&str, Vec<u8>)> = targets.iter().map(|it| (*it, vec![1; 5000])).collect();
    let object = SharedObject::new(soname).rpath("$ORIGIN").function("f", 1);
    let object = match needed {
        "" => object,
        needed => object.needs(needed),
    };
    let code = bundles::compress(&bundles::raw(&codes), 3, "zstd").unwrap();
    object.device_code(&code, &[0], DeviceRelocations::Rela).build()
}

/// A set for `gfx110X-all` with libraries that cover what is said.
fn family(libraries: &[(&str, &str, &[&str])], edit: impl FnOnce(&mut Members)) -> Set {
    let set = Set::new();
    set.remove("rocm_sdk_device_gfx1100");
    set.remove("rocm_sdk_device_gfx942");
    let path = set.package("rocm_sdk_libraries");
    let name = path.file_name().unwrap().to_str().unwrap();
    let new = "rocm_sdk_libraries_gfx110x_all";
    let mut members = unzip(&fs_err::read(&path).unwrap());
    members.retain(|it| it.0.contains(".dist-info/") || it.0.ends_with("/__init__.py"));
    for (path, _, bytes) in &mut members {
        *path = path
            .replace("_rocm_sdk_libraries/", &format!("{TOP}/"))
            .replace("rocm_sdk_libraries-", &format!("{new}-"));
        if path.ends_with("/METADATA") {
            let text = String::from_utf8(bytes.clone()).unwrap();
            *bytes =
                text.replace("rocm-sdk-libraries", "rocm-sdk-libraries-gfx110X-all").into_bytes();
        }
    }
    for (soname, needed, targets) in libraries {
        add(&mut members, &format!("{TOP}/lib/{soname}"), fat(soname, needed, targets));
    }
    edit(&mut members);
    record(&mut members);
    let new = set.0.path().join(name.replace("rocm_sdk_libraries", new));
    fs_err::write(new, zipped(&members)).unwrap();
    fs_err::remove_file(path).unwrap();
    set
}

/// A set for `gfx110X-all` with one library.
pub(super) fn of_one_family() -> Set {
    family(&[("libblas.so.1", "", ALL)], |_| ())
}

const ALL: &[&str] = &["gfx1100", "gfx1101", "gfx1102", "gfx1103"];

/// All that `check` says of device code.
fn shown(set: &Set, arguments: &[&str]) -> String {
    let own = ["--select", "RW3", "--fail-on", "warning", "-q"];
    let Outcome { code, stdout, .. } = set.check(&[&own, arguments].concat());
    format!("exit {code}\n{stdout}")
}

#[test]
fn libraries_that_cover_their_family_have_no_gap() {
    let set = family(
        &[
            ("libblas.so.1", "", ALL),
            ("libsolver.so.1", "libblas.so.1", &["gfx11-generic"]),
            ("librt.so.1", "", &["amdgcnspirv"]),
        ],
        |_| (),
    );
    insta::assert_snapshot!(shown(&set, &["--require-targets", "gfx110X-all"]), @"
    exit 0
    OK, no problems, 43 findings skipped in 5 packages
    ");
}

#[test]
fn a_library_that_leaves_out_a_target_of_its_family_is_found() {
    let set = family(
        &[
            ("libblas.so.1", "", &["gfx1100", "gfx1101", "gfx1102:xnack+"]),
            ("libsolver.so.1", "libblas.so.1", &["gfx1100", "gfx1101"]),
            ("librccl.so.1", "libsolver.so.1", &["gfx1100", "gfx1101", "gfx1102"]),
        ],
        |members| {
            for target in ["gfx1100", "gfx1102"] {
                let name = format!("{TOP}/lib/rocblas/library/Kernels_{target}.hsaco");
                add(members, &name, "code");
            }
        },
    );
    insta::assert_snapshot!(shown(&set, &["--require-targets", "gfx1100,gfx90a"]), @"
    exit 1
    the set
      error   RW304 required-target: no library has code for `gfx90a`
    rocm_sdk_libraries_gfx110x_all-0.99.1.dev0-py3-none-linux_x86_64.whl
      error   RW314 only-with-xnack: `libblas.so.1` has code for `gfx1102:xnack+`, but none for `gfx1102` itself
      warning RW316 uncovered-in-family: `libsolver.so.1` has code for gfx1100, gfx1101, but none for gfx1102
      warning RW316 uncovered-in-family: `rocblas` has code for gfx1100, gfx1102, but none for gfx1101
      warning RW316 uncovered-in-family: no library has code for gfx1103, which is of its family

         1 error   RW304 required-target
                   build the target, or remove it from `--require-targets`
         1 error   RW314 only-with-xnack
                   build the library for the target itself, for GPUs with XNACK off
         3 warning RW316 uncovered-in-family
                   build the library for the target, or accept the finding

    2 errors, 3 warnings, 43 findings skipped in 5 packages
    ");
}

#[test]
fn a_library_that_only_has_code_for_xnack_is_named_with_that_code() {
    let set =
        family(&[("libblas.so.1", "", ALL), ("libonly.so.1", "", &["gfx1100:xnack+"])], |_| ());
    insta::assert_snapshot!(set.found(&["--select", "RW314,RW316"]), @"
    exit 1
    rocm_sdk_libraries_gfx110x_all.whl
      error   RW314 only-with-xnack: `libonly.so.1` has code for `gfx1100:xnack+`, but none for `gfx1100` itself
      warning RW316 uncovered-in-family: `libonly.so.1` has code for gfx1100:xnack+, but none for gfx1101, gfx1102, gfx1103
    ");
}

#[test]
fn code_that_was_removed_and_left_no_marker_is_found() {
    let mut bytes = fat("libfat.so.1", "", ALL);
    let sections = u64::from_le_bytes(*bytes[40..].first_chunk().unwrap());
    let table = usize::try_from(sections).unwrap();
    let code = bytes.windows(4).position(|it| it == b"CCOB").unwrap() as u64;
    let header = (table..bytes.len())
        .step_by(64)
        .find(|at| bytes[at + 24..].first_chunk() == Some(&code.to_le_bytes()));
    // `SHT_NOBITS`, as `objcopy` leaves it.
    bytes[header.unwrap() + 4] = 8;
    let set = Set::new();
    set.edit("rocm_sdk_libraries", |members| {
        for name in ["libfat.so.1", "libfat.so.1.debug"] {
            let path = format!("_rocm_sdk_libraries/lib/{name}");
            add(members, &path, bytes.clone());
        }
    });
    insta::assert_snapshot!(set.found(&["--select", "RW308"]), @"
    exit 1
    rocm_sdk_libraries.whl
      error   RW308 broken-kpack-reference: `_rocm_sdk_libraries/lib/libfat.so.1`: the code was removed, and no marker was left
    ");
}

#[test]
fn each_family_of_an_older_set_has_its_own_gaps() {
    let set = family(&[("libblas.so.1", "", &["gfx1100"])], |_| ());
    for_families(&set, &["rocm-0"]);
    insta::assert_snapshot!(shown(&set, &["--require-targets", "gfx1100"]), @"
    exit 1
    rocm_sdk_libraries_gfx110x_all-0.99.1.dev0-py3-none-linux_x86_64.whl
      warning RW316 uncovered-in-family: no library has code for gfx1101, which is of its family
      warning RW316 uncovered-in-family: no library has code for gfx1102, which is of its family
      warning RW316 uncovered-in-family: no library has code for gfx1103, which is of its family

         3 warning RW316 uncovered-in-family
                   build the library for the target, or accept the finding

    3 warnings, 46 findings skipped in 6 packages
    ");
}
