//! Archives that are none, and wheels that contradict themselves.

use super::{Damage, edits::*, found};
use crate::check::{add, member};

const DAMAGES: &[Damage] = &[
    ("a wheel is cut off", |set| {
        set.bytes(CORE, |it| it.truncate(5000))
    }),
    ("a bit of a member flips", |set| {
        set.bytes(CORE, |it| {
            // A small file has a byte or two of deflate's own before its text.
            let at = at(it, "_rocm_sdk_core/include/hip/hip_runtime.h");
            it[at + 6] ^= 1;
        });
    }),
    ("the data of a library is damaged", |set| {
        set.bytes(CORE, |it| {
            let at = at(it, "_rocm_sdk_core/lib/libhsa-runtime64.so.1");
            it[at + 40] ^= 0x55;
        });
    }),
    ("the data of the development files is damaged", |set| {
        set.bytes(DEVEL, |it| {
            let at = at(it, "rocm_sdk_devel/_devel.tar");
            it[at + 2000] ^= 0x55;
        });
    }),
    ("a page is appended", |set| {
        set.bytes(CORE, |it| it.extend(b"<html>"))
    }),
    ("a script stands before", |set| {
        set.bytes(CORE, |it| drop(it.splice(0..0, *b"#!/bin/sh\n")));
    }),
    ("a local header has another name", |set| {
        set.bytes(PROFILER, |it| {
            let at = at(it, "rocm_profiler/py.typed");
            it[at - 1] = b'D';
        });
    }),
    ("a field for sizes that need none", zip64_field),
    ("a file changes after RECORD", |set| {
        set.tamper(CORE, |it| member(it, "hip_runtime.h").2.push(1));
    }),
    ("a file keeps its length after RECORD", |set| {
        set.tamper(CORE, |it| member(it, "hip_runtime.h").2[0] ^= 1);
    }),
    ("a file is added after RECORD", |set| {
        set.tamper(CORE, |it| add(it, "_rocm_sdk_core/new", "1"));
    }),
    ("a file is dropped after RECORD", |set| {
        set.tamper(CORE, |it| it.retain(|it| !it.0.ends_with("hip_runtime.h")));
    }),
    ("RECORD is gone", |set| {
        set.tamper(CORE, |it| it.retain(|it| !it.0.ends_with("/RECORD")));
    }),
    ("RECORD is no table", |set| {
        set.tamper(CORE, |it| member(it, "/RECORD").2 = b"a,b\n".to_vec());
    }),
    ("METADATA is gone", |set| {
        drop_member(set, CORE, "/METADATA")
    }),
    ("METADATA is longer than installers read", |set| {
        bytes(set, CORE, "/METADATA", |it| it.resize(5 << 20, b'\n'));
    }),
    ("METADATA has another version", |set| {
        swap(set, CORE, "/METADATA", "Version: 0.0.1.dev0", "Version: 7");
    }),
    ("METADATA has another name", |set| {
        swap(set, CORE, "/METADATA", "Name: rocm-sdk-core", "Name: core");
    }),
    ("there are two METADATA", |set| {
        extra(
            set,
            CORE,
            "core-1.dist-info/METADATA",
            b"Metadata-Version: 2.4\n",
        );
    }),
    ("WHEEL has another tag", |set| {
        swap(set, CORE, "/WHEEL", "linux_x86_64", "any");
    }),
    ("WHEEL is not pure", |set| {
        swap(set, CORE, "/WHEEL", "Purelib: true", "Purelib: false");
    }),
    ("a wheel is renamed to another version", |set| {
        set.rename(PROFILER, "dev0", "dev1");
    }),
    ("a wheel is renamed to another Python", |set| {
        set.rename(PROFILER, "py3", "py2");
    }),
    ("no Python will do", |set| {
        swap(set, CORE, "/METADATA", ">=3.10", ">=3.10,<3.9");
    }),
    ("Requires-Python is a word", |set| {
        swap(set, CORE, "/METADATA", ">=3.10", "three");
    }),
    ("an artifact has no license", |set| {
        license(set, "License-Expression: MIT AND LicenseRef-ROCm-new");
    }),
    ("a license text is missing", |set| {
        license(set, "License-File: LICENSE")
    }),
    ("there is no license", |set| license(set, "Platform: linux")),
    ("a path climbs", |set| {
        set.tamper(CORE, |it| add(it, "_rocm_sdk_core/../../evil", "1"));
    }),
    ("a member is a symlink", |set| {
        mode(set, CORE, "hip_runtime.h", 0o120_777)
    }),
    ("a name differs in case", |set| {
        extra(set, CORE, "_rocm_sdk_core/lib/LIBAMDHIP64.so.7", b"1");
    }),
    ("another file is in two wheels", |set| {
        extra(set, PROFILER, "_rocm_sdk_core/share/hip/version", b"x");
    }),
    ("the same file is in two wheels", |set| {
        extra(set, PROFILER, "_rocm_sdk_core/__init__.py", b"");
    }),
    ("a program is setuid", |set| {
        set.bytes(CORE, |it| {
            set_mode(it, "_rocm_sdk_core/bin/rocminfo", 0o104_755)
        });
    }),
    ("a file is writable to all", |set| {
        mode(set, CORE, "hip_runtime.h", 0o100_666)
    }),
];

/// The local header of the first member gets an extra field of ZIP64.
fn zip64_field(set: &crate::check::Set) {
    set.bytes(PROFILER, |bytes| {
        let field = [&[1, 0, 16, 0][..], &[0; 16]].concat();
        let name = usize::from(u16::from_le_bytes([bytes[26], bytes[27]]));
        bytes[28] = 20;
        bytes.splice(30 + name..30 + name, field);
        let end = bytes.len() - 22;
        let number =
            |bytes: &[u8], at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().unwrap());
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
    });
}

#[test]
fn archives_and_metadata() {
    insta::assert_snapshot!(found(DAMAGES), @"");
}

#[test]
fn a_path_that_windows_cannot_open() {
    let set = crate::check::Set::new();
    let long = format!("_rocm_sdk_core/{}/a.h", "x".repeat(190));
    extra(&set, PROFILER, &long, b"1");
    set.rename(PROFILER, "linux_x86_64", "win_amd64");
    insta::assert_snapshot!(set.found(&["--select", "RW116"]).replace(&"x".repeat(180), "…"), @"");
}

#[test]
fn a_license_of_another_builder_is_one() {
    let set = crate::check::Set::new();
    license(&set, "License: MIT");
    assert_eq!(set.found(&["--fail-on", "warning"]), "exit 0\n");
}
