//! Sets for Windows, alone and beside those for Linux.

use rocwheel_kpack::{Marker, archive::key};
use rocwheel_test_files::{
    bundles,
    stored::stored,
    windows::{BASE, binary},
};

use super::{Members, Set, add, library, record, replace, unzip, zipped};

/// Where the names of what a library is linked with lie.
const IMPORTS: u32 = 0xa_0000;

/// A library for Windows that is loaded where it wants to be, with these sections, linked with these.
pub(crate) fn dll(sections: &[(&[u8; 8], u32, &[u8])], needed: &[&str]) -> Vec<u8> {
    let imports = imports(needed);
    let own: (&[u8; 8], u32, &[u8]) = (b".rdata\0\0", IMPORTS, &imports);
    let sections = [sections, &[own]].concat();
    binary(&sections, &[(1, IMPORTS, 20)])
}

/// A table with an entry for each library, and their names behind it.
fn imports(needed: &[&str]) -> Vec<u8> {
    let mut bytes = vec![0; 20 * (needed.len() + 1)];
    for (index, name) in needed.iter().enumerate() {
        let address = IMPORTS + u32::try_from(bytes.len()).unwrap();
        bytes[index * 20 + 12..index * 20 + 16].copy_from_slice(&address.to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.push(0);
    }
    bytes
}

fn wrapper(magic: u32, address: u64) -> Vec<u8> {
    let pointer = (BASE + address).to_le_bytes();
    [&magic.to_le_bytes()[..], &[1, 0, 0, 0], &pointer, &[0; 8]].concat()
}

/// A library without its code, which is looked for in an archive.
fn split(archive: &str) -> Vec<u8> {
    let marker = Marker::new(1, &[archive], ROCBLAS).render().unwrap();
    let wrappers = wrapper(0x4b50_4948, 0x3000);
    let sections: [(_, _, &[u8]); 3] = [
        (b".hip_fat", 0x1000, b""),
        (b".hipFatB", 0x2000, &wrappers),
        (b".kpackrf", 0x3000, &marker),
    ];
    dll(&sections, &["KERNEL32.dll"])
}

/// A library with its code in it.
fn fat(targets: &[&str], needed: &[&str]) -> Vec<u8> {
    let codes: Vec<(&str, Vec<u8>)> = targets.iter().map(|it| (*it, vec![1; 5000])).collect();
    dll(
        &[
            (b".hip_fat", 0x1000, &bundles::raw(&codes)),
            (b".hipFatB", 0x9_0000, &wrapper(0x4849_5046, 0x1000)),
        ],
        needed,
    )
}

fn archive(target: &str, name: &str) -> Vec<u8> {
    stored(&[(&key(name, 0), target, &[1; 2000])])
}

/// The wheel of the sample for Windows: with nothing but what says what it is, and what is added.
pub(super) fn for_windows(set: &Set, start: &str, add: impl FnOnce(&mut Members)) {
    let path = set.package(start);
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut members = unzip(&fs_err::read(&path).unwrap());
    let is_ours = |path: &str| path.ends_with(".py") || path.ends_with("/_dist_info.json");
    members.retain(|it| it.0.contains(".dist-info/") || is_ours(&it.0));
    replace(&mut members, "/WHEEL", "linux_x86_64", "win_amd64");
    add(&mut members);
    record(&mut members);
    let name = name.replace("linux_x86_64", "win_amd64");
    fs_err::write(set.0.path().join(name), zipped(&members)).unwrap();
}

const ROCBLAS: &str = "bin/rocblas.dll";
const LIBRARIES: &str = "rocm_sdk_libraries";
const GFX1100: &str = "rocm_sdk_device_gfx1100";
const DLL: &str = "_rocm_sdk_libraries/bin/rocblas.dll";

/// The sample with wheels for Windows beside those for Linux.
pub(super) fn both(library: &[u8], archives: &[(&str, Vec<u8>)]) -> Set {
    let set = Set::new();
    for start in ["rocm_sdk_core", "rocm_sdk_devel"] {
        for_windows(&set, start, |_| ());
    }
    for_windows(&set, LIBRARIES, |members| add(members, DLL, library));
    for_windows(&set, GFX1100, |members| {
        let mut links = Vec::new();
        for (name, bytes) in archives {
            let path = format!(".kpack/{name}");
            let member = format!("_rocm_sdk_libraries/{path}");
            add(members, &member, bytes.clone());
            let target = format!("../../_rocm_sdk_libraries/{path}");
            links.push(serde_json::json!({ "relpath": path, "target": target }));
        }
        let list = serde_json::json!({ "version": "0.99.1.dev0", "links": links });
        let place = "_rocm_sdk_libraries/.devel_links/gfx1100.json";
        add(members, place, serde_json::to_vec(&list).unwrap());
    });
    set
}

fn found(set: &Set, arguments: &[&str]) -> String {
    let found = set.found(arguments);
    found.replace("-0.99.1.dev0-py3-none-win_amd64", " for Windows")
}

#[test]
fn the_packages_of_two_platforms_have_nothing_to_do_with_each_other() {
    let archives = [("blas_lib_gfx1100.kpack", archive("gfx1100", ROCBLAS))];
    let set = both(&split("blas_lib"), &archives);
    insta::assert_snapshot!(found(&set, &["--ignore", "RW201,RW202,RW213,RW5"]), @"exit 0");
    let said = set.check(&["-q", "--ignore", "RW201,RW202,RW213,RW5"]);
    insta::assert_snapshot!(said.stdout, @"OK, no problems, 31 findings skipped in 11 packages");
}

#[test]
fn the_packages_of_two_platforms_are_not_laid_over_each_other() {
    let set = both(&split("blas_lib"), &[]);
    let [linux, windows] =
        ["linux", "win"].map(|it| format!("rocm_sdk_core-0.99.1.dev0-py3-none-{it}"));
    // What would clash in one directory, and what only the other platform has.
    set.edit(&linux, |members| {
        add(members, "_rocm_sdk_core/share/a", "1");
        let user = library("liba.so.1").needs("libonly.so.1").rpath("$ORIGIN");
        add(members, "_rocm_sdk_core/lib/liba.so.1", user.build());
    });
    set.edit(&windows, |members| {
        add(members, "_rocm_sdk_core/share/A", "2");
        let only = library("libonly.so.1").build();
        add(members, "_rocm_sdk_core/lib/libonly.so.1", only);
    });
    insta::assert_snapshot!(found(&set, &["--select", "RW1,RW4"]), @"
    exit 1
    rocm_sdk_core.whl
      error   RW401 missing-library: `_rocm_sdk_core/lib/liba.so.1`: needs `libonly.so.1`, which is not on its run path: $ORIGIN
    ");
    set.remove("rocm-0");
    insta::assert_snapshot!(found(&set, &["--select", "RW2", "--ignore", "RW213"]), @"
    exit 1
    the set
      error   RW205 missing-selector: no `rocm` sdist among 4 packages, in the set for Windows
      error   RW205 missing-selector: no `rocm` sdist among 6 packages, in the set for Linux
    ");
}

#[test]
fn a_target_that_one_platform_covers_is_covered() {
    let archives = [("blas_lib_gfx1100.kpack", archive("gfx1100", ROCBLAS))];
    let set = both(&split("blas_lib"), &archives);
    let required = ["--select", "RW304", "--require-targets"];
    let both = found(&set, &[&required[..], &["gfx942,gfx1100"]].concat());
    assert_eq!(both, "exit 0\n");
    insta::assert_snapshot!(found(&set, &[&required[..], &["gfx90a"]].concat()), @"
    exit 1
    the set
      error   RW304 required-target: no device wheel for `gfx90a`
    ");
}

#[test]
fn a_baseline_of_two_platforms_is_compared_as_one() {
    let set = both(&split("blas_lib"), &[]);
    let strict = ["--select", "RW8", "--fail-on", "warning"];
    let since = [&strict[..], &["--baseline", set.place()]].concat();
    assert_eq!(found(&set, &since), "exit 0\n");
    set.index();
    assert_eq!(found(&set, &["--select", "RW7"]), "exit 0\n");
    set.bytes("rocm_sdk_core-0.99.1.dev0-py3-none-win", |bytes| {
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
    });
    let shown = found(&set, &["--select", "RW702"]);
    assert_has!(shown, "RW702 broken-promise: not the file that was built");
}

#[test]
fn a_set_for_one_platform_is_compared_with_that_part_of_the_baseline() {
    let baseline = both(&split("blas_lib"), &[]);
    let set = Set::new();
    set.edit("rocm_sdk_core", |members| {
        members.retain(|it| !it.0.ends_with("/amdclang"));
    });
    let since = ["--select", "RW8", "--baseline", baseline.place()];
    insta::assert_snapshot!(found(&set, &since), @"
    exit 0
    the set
      warning RW803 files-gone: `rocm-sdk-core (py3-none-linux_x86_64)` lacks files of the baseline: `_rocm_sdk_core/bin/amdclang`, `_rocm_sdk_core/lib/llvm/bin/amdclang`
    ");
    set.remove("rocm_sdk_devel");
    insta::assert_snapshot!(found(&set, &since), @"
    exit 1
    the set
      error   RW801 package-gone: the baseline has `rocm-sdk-devel (py3-none-linux_x86_64)`
      warning RW803 files-gone: `rocm-sdk-core (py3-none-linux_x86_64)` lacks files of the baseline: `_rocm_sdk_core/bin/amdclang`, `_rocm_sdk_core/lib/llvm/bin/amdclang`
    ");
}

#[test]
#[ignore = "slow"]
fn a_library_for_windows_finds_its_archives() {
    let good = archive("gfx1100", ROCBLAS);
    let kpack = |set: Set| found(&set, &["--select", "RW308,RW309,RW310,RW311,RW312"]);
    let is = [("blas_lib_gfx1100.kpack", good.clone())];
    assert_eq!(kpack(both(&split("blas_lib"), &is)), "exit 0\n");
    let moved = kpack(both(&split("nccl_lib"), &is));
    let other = archive("gfx1100", "bin/other.dll");
    let lacking = kpack(both(&split("blas_lib"), &[("blas_lib_gfx1100.kpack", other)]));
    let mut broken = split("blas_lib");
    let at = broken.windows(4).position(|it| it == b"HIPK").unwrap();
    broken[at + 9] = 0xff;
    let broken = kpack(both(&broken, &is));
    insta::assert_snapshot!([moved, lacking, broken].join("\n"), @"
    exit 1
    rocm_sdk_device_gfx1100 for Windows.whl
      warning RW312 unasked-archive: `_rocm_sdk_libraries/.kpack/blas_lib_gfx1100.kpack`: no library uses `bin/rocblas.dll#0` or its other code
    rocm_sdk_libraries for Windows.whl
      error   RW309 unresolved-kpack: `_rocm_sdk_libraries/bin/rocblas.dll`: no package has `_rocm_sdk_libraries/.kpack/nccl_lib_*.kpack` for any target

    exit 1
    rocm_sdk_device_gfx1100 for Windows.whl
      warning RW312 unasked-archive: `_rocm_sdk_libraries/.kpack/blas_lib_gfx1100.kpack`: no library uses `bin/other.dll#0` or its other code
    rocm_sdk_libraries for Windows.whl
      error   RW310 missing-kernels: `_rocm_sdk_libraries/bin/rocblas.dll`: the archives for `gfx1100` lack `bin/rocblas.dll#0`

    exit 1
    rocm_sdk_libraries for Windows.whl
      error   RW308 broken-kpack-reference: `_rocm_sdk_libraries/bin/rocblas.dll`: a wrapper that leads to no bytes: at 0x2000
    ");
}

#[test]
fn code_in_a_library_for_windows_is_seen() {
    let set = both(&fat(&["gfx1100", "gfx90c"], &[]), &[]);
    insta::assert_snapshot!(found(&set, &["--select", "RW307"]), @"
    exit 0
    rocm_sdk_libraries for Windows.whl
      warning RW307 device-file-in-host-wheel: `_rocm_sdk_libraries/bin/rocblas.dll`: it still carries its device code, for gfx1100, gfx90c
    ");
}

#[test]
fn a_path_that_windows_cannot_make_is_found() {
    let variant = archive("gfx90c:xnack-", ROCBLAS);
    let set = both(&split("blas_lib"), &[("blas_lib_gfx90c:xnack-.kpack", variant)]);
    insta::assert_snapshot!(found(&set, &["--select", "RW105"]), @"
    exit 1
    rocm_sdk_device_gfx1100 for Windows.whl
      error   RW105 bad-path: `_rocm_sdk_libraries/.kpack/blas_lib_gfx90c:xnack-.kpack`: Windows makes no file of that name
    ");
}
