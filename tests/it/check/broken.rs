//! One broken set for each rule: the sample with one thing changed.

use std::io::Read as _;

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use rocwheel::{
    archive::{TarEntry, TarKind, TarPlan, TarReader},
    elf::write::SharedObject,
};

use super::{Members, Set, add, launches, library, member, replace};

const CORE: &str = "rocm_sdk_core";
const GFX942: &str = "rocm_sdk_device_gfx942";
const LIB: &str = "_rocm_sdk_core/lib";

/// What is found after one change.
fn after(change: impl FnOnce(&Set)) -> String {
    let set = Set::new();
    change(&set);
    set.found(&[])
}

/// What is found after a change to the members of a wheel, with a RECORD that says the same.
fn edited(wheel: &str, edit: impl FnOnce(&mut Members)) -> String {
    after(|set| set.edit(wheel, edit))
}

fn with_library(object: &SharedObject, name: &str) -> String {
    edited(CORE, |members| {
        add(members, &format!("{LIB}/{name}"), object.build());
    })
}

#[test]
fn a_file_that_is_no_wheel_is_named() {
    insta::assert_snapshot!(after(|set| set.bytes("rocm_profiler", |bytes| bytes.truncate(1000))), @"
    exit 1
    rocm_profiler.whl
      error   RW101 unreadable-package: invalid Zip archive: Could not find EOCD
    ");
}

#[test]
fn a_flipped_bit_is_found() {
    insta::assert_snapshot!(after(|set| set.bytes(CORE, |bytes| {
        let name = b"_rocm_sdk_core/include/hip/hip_runtime.h";
        let at = bytes.windows(name.len()).position(|it| it == name).unwrap();
        // A small file has a byte or two of deflate's own before its text.
        bytes[at + name.len() + 6] ^= 1;
    })), @"
    exit 1
    rocm_sdk_core.whl
      error   RW102 damaged-member: `_rocm_sdk_core/include/hip/hip_runtime.h`: Invalid checksum
    ");
}

#[test]
fn bytes_around_an_archive_are_found() {
    insta::assert_snapshot!(after(|set| set.bytes(CORE, |bytes| bytes.extend(b"<html>"))), @"
    exit 1
    rocm_sdk_core.whl
      error   RW103 trailing-bytes: 6 bytes stand before the archive or after its end
    ");
    insta::assert_snapshot!(after(|set| set.bytes(CORE, |bytes| {
        bytes.splice(0..0, *b"#!/bin/sh\n");
    })), @"
    exit 1
    rocm_sdk_core.whl
      error   RW103 trailing-bytes: 10 bytes stand before the archive or after its end
    ");
}

#[test]
fn lists_of_members_that_disagree_are_found() {
    insta::assert_snapshot!(after(|set| set.bytes("rocm_profiler", |bytes| {
        let name = b"rocm_profiler/py.typed";
        let at = bytes.windows(name.len()).position(|it| it == name).unwrap();
        bytes[at + name.len() - 1] = b'D';
    })), @"
    exit 1
    rocm_profiler.whl
      error   RW104 inconsistent-zip: invalid Zip archive: header inconsistency detected: Local file header filename mismatch (does not match central directory)
    ");
}

#[test]
fn a_path_that_leaves_the_directory_is_found() {
    insta::assert_snapshot!(after(|set| set.tamper(CORE, |members| {
        add(members, "_rocm_sdk_core/../../evil", "1");
    })), @r#"
    exit 1
    rocm_sdk_core.whl
      error   RW105 bad-path: `_rocm_sdk_core/../../evil`: a path with `..`: "_rocm_sdk_core/../../evil"
      error   RW109 unrecorded-member: `_rocm_sdk_core/../../evil`: in the wheel, and not listed in RECORD
    "#);
}

#[test]
fn a_link_is_no_file() {
    insta::assert_snapshot!(edited(CORE, |members| {
        members.insert(0, (format!("{LIB}/libx.so"), 0o120_777, b"libamdhip64.so.7".to_vec()));
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW106 not-a-file: `_rocm_sdk_core/lib/libx.so`: a symbolic link
      error   RW604 world-writable: `_rocm_sdk_core/lib/libx.so`: its mode is 777
    ");
}

#[test]
fn a_record_that_is_not_one_is_found() {
    insta::assert_snapshot!(after(|set| set.tamper(CORE, |members| {
        member(members, "/RECORD").2 = b"a,b\n".to_vec();
    })), @"
    exit 1
    rocm_sdk_core.whl
      error   RW107 invalid-record: `rocm_sdk_core-0.0.1.dev0.dist-info/RECORD`: row 1 of RECORD: three columns expected, not 2
    ");
    insta::assert_snapshot!(after(|set| set.tamper(CORE, |members| {
        members.retain(|member| !member.0.ends_with("/RECORD"));
    })), @"
    exit 1
    rocm_sdk_core.whl
      error   RW107 invalid-record: no `*.dist-info/RECORD`
    ");
}

#[test]
fn a_record_that_says_something_else_is_found() {
    insta::assert_snapshot!(after(|set| set.tamper(CORE, |members| {
        member(members, "hip_runtime.h").2 = b"#pragma TWO\n\n".to_vec();
        member(members, "share/hip/version").2 = b"7".to_vec();
        add(members, "_rocm_sdk_core/new", "1");
        members.retain(|member| !member.0.ends_with("dist_info.json"));
    })), @"
    exit 1
    rocm_sdk_core.whl
      error   RW108 record-mismatch: `_rocm_sdk_core/include/hip/hip_runtime.h`: `_rocm_sdk_core/include/hip/hip_runtime.h` has SHA-256 bd52b85de5330b51e498a8d2bbf742e261b6c8807f4cb45bea83bf9736c41a54, but b3adf106d95b8934f690943f2921308b90be5b766c4c8ba250c792de56400201 in RECORD
      error   RW109 unrecorded-member: `_rocm_sdk_core/new`: in the wheel, and not listed in RECORD
      error   RW108 record-mismatch: `_rocm_sdk_core/share/hip/version`: `_rocm_sdk_core/share/hip/version` has 1 bytes, but 20 in RECORD
      error   RW110 missing-member: `_rocm_sdk_core/share/therock/dist_info.json`: listed in RECORD, and not in the wheel
    rocm_sdk_devel.whl
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/share/therock/dist_info.json`: it leads to `../../../_rocm_sdk_core/share/therock/dist_info.json`, where nothing is
    ");
}

#[test]
fn a_renamed_wheel_is_found() {
    insta::assert_snapshot!(after(|set| set.rename("rocm_profiler", "dev0", "dev1")), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW201 unresolved-requirement: it requires `rocm-profiler` 0.0.1.dev0, and the set has 0.0.1.dev1
    rocm_profiler-0.0.1.dev1-py3-none-linux_x86_64.whl
      error   RW204 versions-disagree: version 0.0.1.dev1, where most of the set has 0.0.1.dev0
      error   RW111 metadata-disagrees: `rocm_profiler-0.0.1.dev0.dist-info/METADATA`: it is not at `rocm_profiler-0.0.1.dev1.dist-info/METADATA`
      error   RW111 metadata-disagrees: `rocm_profiler-0.0.1.dev0.dist-info/METADATA`: it is of version 0.0.1.dev0, and the file name of 0.0.1.dev1
    ");
    insta::assert_snapshot!(after(|set| set.rename("rocm_profiler", "py3", "py2")), @"
    exit 1
    rocm_profiler-0.0.1.dev0-py2-none-linux_x86_64.whl
      error   RW112 wheel-disagrees: `rocm_profiler-0.0.1.dev0.dist-info/WHEEL`: its tag is `py3-none-linux_x86_64`, and the file name's `py2-none-linux_x86_64`
    ");
}

#[test]
fn a_wheel_that_is_not_purelib_is_found() {
    insta::assert_snapshot!(edited(CORE, |members| {
        replace(members, "/WHEEL", "Purelib: true", "Purelib: false");
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW112 wheel-disagrees: `rocm_sdk_core-0.0.1.dev0.dist-info/WHEEL`: `Root-Is-Purelib` is false, which parts it from the packages beside it
    ");
}

#[test]
fn a_path_of_two_packages_is_found() {
    let shared = |bytes: &'static str| {
        edited("rocm_profiler", |members| {
            add(members, "_rocm_sdk_core/include/hip/HIP_runtime.h", "1");
            add(members, "_rocm_sdk_core/share/hip/version", bytes);
        })
    };
    insta::assert_snapshot!(shared("another"), @"
    exit 1
    rocm_sdk_core.whl
      warning RW115 case-clash: `_rocm_sdk_core/include/hip/hip_runtime.h`: `_rocm_sdk_core/include/hip/HIP_runtime.h` differs in case only
      error   RW113 conflicting-path: `_rocm_sdk_core/share/hip/version`: `rocm_profiler.whl` has another file there
    ");
    insta::assert_snapshot!(edited("rocm_profiler", |members| {
        add(members, "_rocm_sdk_core/__init__.py", "");
    }), @"
    exit 0
    rocm_sdk_core.whl
      warning RW114 shared-path: `_rocm_sdk_core/__init__.py`: `rocm_profiler.whl` has the same file there
    ");
}

#[test]
fn a_package_that_is_missing_is_found() {
    insta::assert_snapshot!(after(|set| set.remove("rocm_profiler")), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW201 unresolved-requirement: it requires `rocm-profiler`, which is not in the set
    ");
    insta::assert_snapshot!(after(|set| set.remove("rocm-0")), @"
    exit 1
    the set
      error   RW205 missing-selector: no `rocm` sdist among 6 packages
    ");
}

#[test]
fn promises_and_device_wheels_are_compared() {
    insta::assert_snapshot!(after(|set| set.remove("rocm_sdk_device_gfx1100")), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW202 missing-device-wheel: it promises `rocm-sdk-device-gfx1100`, which is not in the set
    ");
    insta::assert_snapshot!(after(|set| promise(set, "gfx1100", "gfx1101")), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW202 missing-device-wheel: it promises `rocm-sdk-device-gfx1101`, which is not in the set
    rocm_sdk_device_gfx1100.whl
      error   RW203 unadvertised-device-wheel: `rocm` has no extra for `gfx1100`
    ");
}

#[test]
fn a_promise_of_what_is_no_target_is_found() {
    insta::assert_snapshot!(after(|set| promise(set, "gfx1100", "gfx9999")), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW202 missing-device-wheel: it promises `rocm-sdk-device-gfx9999`, which is not in the set
      error   RW206 unknown-target: it promises `gfx9999`, which is not a target that is known
    rocm_sdk_device_gfx1100.whl
      error   RW203 unadvertised-device-wheel: `rocm` has no extra for `gfx1100`
    ");
}

/// Rewrites the selector, so that it promises another target.
fn promise(set: &Set, from: &str, to: &str) {
    set.bytes("rocm-0", |bytes| {
        let mut tar = Vec::new();
        GzDecoder::new(bytes.as_slice())
            .read_to_end(&mut tar)
            .unwrap();
        let mut source = tar::Archive::new(tar.as_slice());
        let gzip = GzEncoder::new(Vec::new(), Compression::fast());
        let mut out = tar::Builder::new(gzip);
        for entry in source.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if entry.path().unwrap().ends_with("PKG-INFO") {
                let text = String::from_utf8(content).unwrap();
                content = text.replace(from, to).into_bytes();
            }
            let mut header = entry.header().clone();
            header.set_size(content.len() as u64);
            let path = entry.path().unwrap().into_owned();
            out.append_data(&mut header, path, content.as_slice())
                .unwrap();
        }
        *bytes = out.into_inner().unwrap().finish().unwrap();
    });
}

#[test]
fn a_file_of_another_target_is_found() {
    insta::assert_snapshot!(edited(GFX942, |members| {
        let name = "Kernels.so-000-gfx942.hsaco";
        let place = member(members, name);
        place.0 = place.0.replace("gfx942", "gfx90a");
        replace(members, "gfx942.json", name, "Kernels.so-000-gfx90a.hsaco");
    }), @"
    exit 1
    rocm_sdk_device_gfx942.whl
      error   RW301 foreign-device-file: `_rocm_sdk_libraries/lib/rocblas/library/Kernels.so-000-gfx90a.hsaco`: a file for `gfx90a` in the package of `gfx942`
    ");
}

#[test]
fn a_list_of_links_that_says_something_else_is_found() {
    insta::assert_snapshot!(edited(GFX942, |members| {
        add(members, "_rocm_sdk_libraries/lib/rocblas/library/b_gfx942.dat", "1");
        replace(members, "gfx942.json", "\"../../../../_rocm_sdk_libraries/lib/rocblas/library/T", "\"T");
    }), @"
    exit 1
    rocm_sdk_device_gfx942.whl
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `_rocm_sdk_libraries/lib/rocblas/library/b_gfx942.dat` is not listed
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `lib/rocblas/library/TensileLibrary_gfx942-xnack+.co` leads to `TensileLibrary_gfx942-xnack+.co`
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `lib/rocblas/library/TensileLibrary_gfx942-xnack+.dat` leads to `TensileLibrary_gfx942-xnack+.dat`
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `lib/rocblas/library/TensileLibrary_gfx942.co` leads to `TensileLibrary_gfx942.co`
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `lib/rocblas/library/TensileLibrary_gfx942.dat` leads to `TensileLibrary_gfx942.dat`
    ");
}

#[test]
fn a_gap_in_the_coverage_is_found() {
    insta::assert_snapshot!(edited("rocm_sdk_device_gfx1100", |members| {
        members.retain(|member| !member.0.contains("rccl_lib"));
        let list = member(members, "gfx1100.json");
        let mut json: serde_json::Value = serde_json::from_slice(&list.2).unwrap();
        let links = json["links"].as_array_mut().unwrap();
        links.retain(|link| !link["relpath"].as_str().unwrap().contains("rccl_lib"));
        list.2 = serde_json::to_vec(&json).unwrap();
    }), @"
    exit 0
    rocm_sdk_device_gfx1100.whl
      warning RW303 uncovered-library: `librccl.so.1.0` has code for gfx942, and none for gfx1100
    ");
}

#[test]
fn an_empty_device_wheel_is_found() {
    insta::assert_snapshot!(edited("rocm_sdk_device_gfx1100", |members| {
        members.retain(|it| it.0.contains("dist-info") || it.0.contains(".devel_links"));
        member(members, "gfx1100.json").2 = b"{\"version\": \"0.0.1.dev0\", \"links\": []}".to_vec();
    }), @"
    exit 1
    rocm_sdk_device_gfx1100.whl
      error   RW305 empty-device-wheel: it has no file for `gfx1100`
    ");
}

#[test]
fn a_library_that_nobody_ships_is_found() {
    let object = library("liba.so.1")
        .needs("libnuma.so.1")
        .needs("libc.so.6")
        .rpath("$ORIGIN");
    insta::assert_snapshot!(with_library(&object, "liba.so.1"), @"
    exit 1
    rocm_sdk_core.whl
      error   RW401 missing-library: `_rocm_sdk_core/lib/liba.so.1`: needs `libnuma.so.1`, which is not on its run path: $ORIGIN
    ");
}

#[test]
fn a_library_that_loads_only_after_another_is_found() {
    let outer = library("libouter.so.1")
        .needs("libinner.so.1")
        .rpath("$ORIGIN:$ORIGIN/far");
    let inner = library("libinner.so.1")
        .needs("libfar.so.1")
        .rpath("$ORIGIN");
    insta::assert_snapshot!(edited(CORE, |members| {
        add(members, &format!("{LIB}/libouter.so.1"), outer.build());
        add(members, &format!("{LIB}/libinner.so.1"), inner.build());
        add(members, &format!("{LIB}/far/libfar.so.1"), library("libfar.so.1").build());
    }), @"
    exit 0
    rocm_sdk_core.whl
      warning RW402 lucky-library: `_rocm_sdk_core/lib/libinner.so.1`: `libfar.so.1` is found only when another library loads this one
    ");
}

#[test]
fn a_runpath_hides_the_path_of_the_loader() {
    let outer = library("libouter.so.1")
        .needs("libinner.so.1")
        .rpath("$ORIGIN:$ORIGIN/far");
    let inner = library("libinner.so.1")
        .needs("libfar.so.1")
        .runpath("$ORIGIN");
    insta::assert_snapshot!(edited(CORE, |members| {
        add(members, &format!("{LIB}/libouter.so.1"), outer.build());
        add(members, &format!("{LIB}/libinner.so.1"), inner.build());
        add(members, &format!("{LIB}/far/libfar.so.1"), library("libfar.so.1").build());
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW401 missing-library: `_rocm_sdk_core/lib/libinner.so.1`: needs `libfar.so.1`, which is not on its run path: $ORIGIN
      warning RW403 runpath: `_rocm_sdk_core/lib/libinner.so.1`: DT_RUNPATH is `$ORIGIN`
    ");
}

#[test]
fn a_library_without_its_soname_is_found() {
    insta::assert_snapshot!(with_library(&library("liba.so.1"), "liba.so.1.2"), @"
    exit 1
    rocm_sdk_core.whl
      error   RW404 soname-without-file: `_rocm_sdk_core/lib/liba.so.1.2`: its SONAME is `liba.so.1`, and there is no such file beside it
    ");
}

#[test]
fn symbols_that_hosts_do_not_have_are_found() {
    let object = library("liba.so.1")
        .needs_version("libc.so.6", "GLIBC_2.9")
        .needs_version("libc.so.6", "GLIBC_2.38")
        .needs_version("libstdc++.so.6", "GLIBCXX_3.4.30");
    insta::assert_snapshot!(with_library(&object, "liba.so.1"), @"
    exit 1
    rocm_sdk_core.whl
      error   RW405 too-new-a-host: `_rocm_sdk_core/lib/liba.so.1`: it needs GLIBCXX_3.4.30, where hosts with glibc 2.28 have 3.4.25
      error   RW405 too-new-a-host: `_rocm_sdk_core/lib/liba.so.1`: it needs glibc 2.38, where hosts have 2.28
    ");
}

#[test]
fn a_launcher_of_nothing_is_found() {
    insta::assert_snapshot!(edited(CORE, |members| {
        add(members, "_rocm_sdk_core/bin/gone", launches("../lib/llvm/bin/gone"));
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW407 dangling-launcher: `_rocm_sdk_core/bin/gone`: it runs `../lib/llvm/bin/gone`, which no package of the set has
    ");
}

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
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/lib/a`: it leads to `../../_rocm_sdk_core/lib/gone`, where nothing is
      warning RW505 dangling-tree-link: `_rocm_sdk_devel/lib/b`: it leads to `gone`, where nothing is
      error   RW502 devel-manifest-disagrees: `rocm_sdk_devel/_devel_manifest.json`: `links` is 137, and 140 in the archive
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
    rocm_sdk_core.whl
      error   RW401 missing-library: `_rocm_sdk_devel/bin/rocminfo`: needs `libhsa-runtime64.so.1`, which is not on its run path: $ORIGIN/../lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib
    rocm_sdk_devel.whl
      error   RW503 devel-order: `_rocm_sdk_devel/lib`: it comes after `_rocm_sdk_devel/lib/cmake`, which is deleted for it
      error   RW502 devel-manifest-disagrees: `rocm_sdk_devel/_devel_manifest.json`: `links` is 137, and 56 in the archive
    ");
}

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
