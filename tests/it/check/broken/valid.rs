//! Archives that are none, and wheels that contradict themselves.

use super::*;

#[test]
fn a_file_that_is_no_wheel_is_named() {
    insta::assert_snapshot!(after(|set| set.bytes("rocm_profiler", |bytes| bytes.truncate(1000))), @"
    exit 1
    rocm_profiler.whl
      error   RW101 unreadable-package: no end record: not a zip archive, or one that is cut off
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
      error   RW102 damaged-member: `_rocm_sdk_core/include/hip/hip_runtime.h`: its checksum is 304217cc, and 96351c78 in the directory of the archive
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
    })), @r#"
    exit 1
    rocm_profiler.whl
      error   RW104 inconsistent-zip: `rocm_profiler/py.typed`: its local header names it "rocm_profiler/py.typeD"
    "#);
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
      error   RW108 record-mismatch: `_rocm_sdk_core/include/hip/hip_runtime.h`: has SHA-256 bd52b85de5330b51e498a8d2bbf742e261b6c8807f4cb45bea83bf9736c41a54, but b3adf106d95b8934f690943f2921308b90be5b766c4c8ba250c792de56400201 in RECORD
      error   RW109 unrecorded-member: `_rocm_sdk_core/new`: in the wheel, and not listed in RECORD
      error   RW108 record-mismatch: `_rocm_sdk_core/share/hip/version`: has 1 bytes, but 20 in RECORD
      error   RW110 missing-member: `_rocm_sdk_core/share/therock/dist_info.json`: listed in RECORD, and not in the wheel
    rocm_sdk_devel.whl
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/share/therock/dist_info.json`: it leads to `../../../_rocm_sdk_core/share/therock/dist_info.json`, which does not exist
    ");
}

#[test]
fn a_renamed_wheel_is_found() {
    insta::assert_snapshot!(after(|set| set.rename("rocm_profiler", "dev0", "dev1")), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW201 unresolved-requirement: it requires `rocm-profiler` 0.0.1.dev0, but the set has 0.0.1.dev1
    rocm_profiler-0.0.1.dev1-py3-none-linux_x86_64.whl
      error   RW204 versions-disagree: version 0.0.1.dev1, but most of the set has 0.0.1.dev0
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
fn a_path_that_windows_cannot_open_is_found() {
    let long = format!("_rocm_sdk_core/{}/a.h", "x".repeat(190));
    let wheel = |set: &Set| {
        set.edit("rocm_profiler", |members| add(members, &long, "1"));
        set.rename("rocm_profiler", "linux_x86_64", "win_amd64");
    };
    insta::assert_snapshot!(only("RW116", &after(wheel)), @r"error   RW116 long-path: `_rocm_sdk_core/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx/a.h`: 273 characters in `C:\hostedtoolcache\windows\Python\3.12.10\x64\Lib\site-packages`");
    let set = Set::new();
    wheel(&set);
    let short = ["--windows-prefix", r"C:\v\Lib\site-packages"];
    assert_eq!(only("RW116", &set.found(&short)), "");
}

#[test]
fn a_field_for_sizes_that_need_none_is_found() {
    insta::assert_snapshot!(after(|set| set.bytes("rocm_profiler", |bytes| {
        // The local header of the first member gets an extra field of ZIP64.
        let field = [&[1, 0, 16, 0][..], &[0; 16]].concat();
        let name = usize::from(u16::from_le_bytes([bytes[26], bytes[27]]));
        bytes[28] = 20;
        bytes.splice(30 + name..30 + name, field);
        let end = bytes.len() - 22;
        let number = |bytes: &[u8], at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
        let mut entry = number(bytes, end + 16) as usize + 20;
        let start = u32::try_from(entry).unwrap();
        bytes[end + 16..end + 20].copy_from_slice(&start.to_le_bytes());
        while bytes[entry..].starts_with(b"PK\x01\x02") {
            let at = number(bytes, entry + 42);
            if at > 0 {
                bytes[entry + 42..entry + 46].copy_from_slice(&(at + 20).to_le_bytes());
            }
            let half = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
            entry += 46 + half(entry + 28) + half(entry + 30) + half(entry + 32);
        }
    })), @"
    exit 1
    rocm_profiler.whl
      error   RW104 inconsistent-zip: `_rocm_profiler/__init__.py`: a ZIP64 field, although no size needs one
    ");
}

#[test]
fn metadata_that_no_installer_reads_is_found() {
    insta::assert_snapshot!(edited(CORE, |members| {
        member(members, "/METADATA").2.resize(5 << 20, b'\n');
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW111 metadata-disagrees: `rocm_sdk_core-0.0.1.dev0.dist-info/METADATA` has 5242880 bytes, more than installers read
    ");
}
