//! Development files that do not unpack to a whole tree.

use std::io::Read as _;

use rocwheel::archive::{TarEntry, TarKind, TarPlan, TarReader};

use super::*;

/// Rewrites the development files; the manifest stays.
fn devel(edit: impl FnOnce(&mut Vec<(TarEntry, Vec<u8>)>)) -> String {
    edited("rocm_sdk_devel", |members| {
        let bytes = &mut member(members, "_devel.tar").2;
        let mut reader = TarReader::new(bytes.as_slice(), u64::MAX);
        let mut entries = Vec::new();
        while let Some(entry) = reader.next_entry().unwrap() {
            let mut content = Vec::new();
            reader.read_to_end(&mut content).unwrap();
            entries.push((entry, content));
        }
        edit(&mut entries);
        let (plan, contents): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        let plan = TarPlan::new(plan, 0).unwrap();
        let mut tar = Vec::new();
        let open = |index: usize| Ok(std::io::Cursor::new(contents[index].clone()));
        plan.stream(open).read_to_end(&mut tar).unwrap();
        *bytes = tar;
    })
}

fn link(path: &str, text: &str) -> (TarEntry, Vec<u8>) {
    let path = path.parse().unwrap();
    let kind = TarKind::Symlink(text.to_owned());
    (TarEntry { path, kind }, Vec::new())
}

#[test]
fn a_development_archive_that_ends_early_is_found() {
    insta::assert_snapshot!(edited("rocm_sdk_devel", |members| {
        member(members, "_devel.tar").2.truncate(2048);
    }), @"
    exit 1
    rocm_sdk_devel.whl
      error   RW501 unreadable-devel: `rocm_sdk_devel/_devel.tar`: the tar is cut off at byte 2048
    ");
}

#[test]
fn links_of_the_development_files_that_lead_nowhere_are_found() {
    insta::assert_snapshot!(devel(|entries| {
        entries.push(link("_rocm_sdk_devel/lib/a", "../../_rocm_sdk_core/lib/gone"));
        entries.push(link("_rocm_sdk_devel/lib/b", "gone"));
        entries.push(link("_rocm_sdk_devel/lib/c", "../llvm/bin/clang"));
    }), @"
    exit 1
    rocm_sdk_devel.whl
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/a`: it leads to `../../_rocm_sdk_core/lib/gone`, which does not exist
      warning RW505 dangling-tree-link: `_rocm_sdk_devel/lib/b`: it leads to `gone`, which does not exist
      error   RW502 devel-manifest-disagrees: `rocm_sdk_devel/_devel_manifest.json`: `links` is 137, and 140 in the archive
    ");
}

#[test]
fn a_library_that_loads_from_one_directory_and_not_through_a_symlink_in_another_is_found() {
    insta::assert_snapshot!(devel(|entries| {
        entries.push(link("_rocm_sdk_devel/lib/aaa/libamdhip64.so", "../libamdhip64.so.7"));
        // Of a program, `$ORIGIN` is where the file is, wherever a symlink to it is.
        entries.push(link("_rocm_sdk_devel/lib/aaa/rocminfo", "../../bin/rocminfo"));
    }), @"
    exit 1
    rocm_sdk_devel.whl
      error   RW401 missing-library: `_rocm_sdk_devel/lib/aaa/libamdhip64.so`: needs `libamd_comgr.so.3`, which is not on its run path: $ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib
      error   RW401 missing-library: `_rocm_sdk_devel/lib/aaa/libamdhip64.so`: needs `libhsa-runtime64.so.1`, which is not on its run path: $ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib
      error   RW502 devel-manifest-disagrees: `rocm_sdk_devel/_devel_manifest.json`: `links` is 137, and 139 in the archive
    ");
}

#[test]
fn development_files_in_an_order_that_deletes_some_are_found() {
    insta::assert_snapshot!(devel(|entries| {
        let is_parent = |entry: &(TarEntry, Vec<u8>)| entry.0.path.as_str() == "_rocm_sdk_devel/lib";
        let at = entries.iter().position(is_parent).unwrap();
        let parent = entries.remove(at);
        entries.retain(|entry| !entry.0.path.as_str().starts_with("_rocm_sdk_devel/lib/lib"));
        entries.push(parent);
    }), @"
    exit 1
    rocm_sdk_devel.whl
      error   RW401 missing-library: `_rocm_sdk_devel/bin/rocminfo`: needs `libhsa-runtime64.so.1`, which is not on its run path: $ORIGIN/../lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib
      error   RW503 devel-order: `_rocm_sdk_devel/lib`: it comes after `_rocm_sdk_devel/lib/cmake`, which `rocm-sdk` then deletes
      error   RW502 devel-manifest-disagrees: `rocm_sdk_devel/_devel_manifest.json`: `links` is 137, and 56 in the archive
    ");
}

#[test]
fn a_cmake_package_that_another_one_asks_for_is_missed() {
    let asking = |entries: &mut Vec<(TarEntry, Vec<u8>)>, name: &str, text: &[u8]| {
        let is_it = |it: &&mut (TarEntry, Vec<u8>)| it.0.path.as_str().ends_with(name);
        let entry = entries.iter_mut().find(is_it).unwrap();
        let TarKind::File { executable, .. } = entry.0.kind else {
            panic!()
        };
        entry.0.kind = TarKind::File {
            len: text.len() as u64,
            executable,
        };
        entry.1 = text.to_vec();
    };
    let hip = "lib/cmake/hip/hip-config.cmake";
    let whole = devel(|entries| asking(entries, hip, b"find_dependency(rocblas)\n"));
    assert!(!whole.contains("RW507"), "{whole}");
    insta::assert_snapshot!(devel(|entries| {
        asking(entries, hip, b"find_dependency(rocblas)\nfind_dependency(Threads)\n");
        entries.retain(|it| !it.0.path.as_str().contains("cmake/rocblas"));
    }), @"
    exit 1
    rocm_sdk_devel.whl
      error   RW507 missing-cmake-package: `_rocm_sdk_devel/lib/cmake/hip/hip-config.cmake`: it asks for the CMake package `rocblas`, which is missing; `_rocm_sdk_libraries/lib/librocblas.so.5` is in the set
      error   RW502 devel-manifest-disagrees: `rocm_sdk_devel/_devel_manifest.json`: `files` is 9, and 8 in the archive
    ");
}
