//! Archives that are none, and wheels that contradict themselves.

use super::{Damage, edits::*, found};
use crate::check::{add, member};
#[cfg(target_os = "linux")]
use crate::support::{prelude::*, run_with_peak};

#[rustfmt::skip]
const DAMAGES: &[Damage] = &[
    ("a wheel is cut off", |set| set.bytes(CORE, |it| it.truncate(5000))),
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
    ("a page is appended", |set| set.bytes(CORE, |it| it.extend(b"<html>"))),
    ("a script stands before", |set| set.bytes(CORE, |it| drop(it.splice(0..0, *b"#!/bin/sh\n")))),
    ("a local header has another name", |set| {
        set.bytes(PROFILER, |it| {
            let at = at(it, "rocm_profiler/py.typed");
            it[at - 1] = b'D';
        });
    }),
    ("a field for sizes that need none", zip64_field),
    ("a file changes after RECORD", |set| set.tamper(CORE, |it| member(it, "hip_runtime.h").2.push(1))),
    ("a file keeps its length after RECORD", |set| {
        set.tamper(CORE, |it| member(it, "hip_runtime.h").2[0] ^= 1);
    }),
    ("a file is added after RECORD", |set| set.tamper(CORE, |it| add(it, "_rocm_sdk_core/new", "1"))),
    ("a file is dropped after RECORD", |set| {
        set.tamper(CORE, |it| it.retain(|it| !it.0.ends_with("hip_runtime.h")));
    }),
    ("RECORD is gone", |set| set.tamper(CORE, |it| it.retain(|it| !it.0.ends_with("/RECORD")))),
    ("RECORD is no table", |set| set.tamper(CORE, |it| member(it, "/RECORD").2 = b"a,b\n".to_vec())),
    ("METADATA is gone", |set| drop_member(set, CORE, "/METADATA")),
    ("METADATA is longer than installers read", |set| {
        bytes(set, CORE, "/METADATA", |it| it.resize(5 << 20, b'\n'));
    }),
    ("METADATA has another version", |set| swap(set, CORE, "/METADATA", "Version: 0.99.1.dev0", "Version: 7")),
    ("METADATA has another name", |set| swap(set, CORE, "/METADATA", "Name: rocm-sdk-core", "Name: core")),
    ("there are two METADATA", |set| extra(set, CORE, "core-1.dist-info/METADATA", b"Metadata-Version: 2.4\n")),
    ("WHEEL has another tag", |set| swap(set, CORE, "/WHEEL", "linux_x86_64", "any")),
    ("WHEEL is not pure", |set| swap(set, CORE, "/WHEEL", "Purelib: true", "Purelib: false")),
    ("a wheel is renamed to another version", |set| set.rename(PROFILER, "dev0", "dev1")),
    ("a wheel is renamed to another Python", |set| set.rename(PROFILER, "py3", "py2")),
    ("no Python will do", |set| swap(set, CORE, "/METADATA", ">=3.10", ">=3.10,<3.9")),
    ("Requires-Python is a word", |set| swap(set, CORE, "/METADATA", ">=3.10", "three")),
    ("an artifact has no license", |set| license(set, "License-Expression: MIT AND LicenseRef-ROCm-new")),
    ("a license text is missing", |set| license(set, "License-File: LICENSE")),
    ("license texts are not named", |set| bytes(set, CORE, "/METADATA", |it| without(it, "License-File", ""))),
    ("there is no license", |set| license(set, "Platform: linux")),
    ("a path climbs", |set| set.tamper(CORE, |it| add(it, "_rocm_sdk_core/../../evil", "1"))),
    ("a member is a symlink", |set| mode(set, CORE, "hip_runtime.h", 0o120_777)),
    ("a name differs in case", |set| extra(set, CORE, "_rocm_sdk_core/lib/LIBAMDHIP64.so.7", b"1")),
    ("another file is in two wheels", |set| extra(set, PROFILER, "_rocm_sdk_core/share/hip/version", b"x")),
    ("the same file is in two wheels", |set| extra(set, PROFILER, "_rocm_sdk_core/__init__.py", b"")),
    ("a program is setuid", |set| {
        set.bytes(CORE, |it| {
            set_mode(it, "_rocm_sdk_core/bin/rocminfo", 0o104_755);
        });
    }),
    ("a file is writable to all", |set| mode(set, CORE, "hip_runtime.h", 0o100_666)),
];

/// The local header of the first member gets an extra field of ZIP64 with other sizes.
fn zip64_field(set: &crate::check::Set) {
    set.bytes(PROFILER, |bytes| {
        let field = [&[1, 0, 16, 0][..], &[1; 16]].concat();
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
#[ignore = "slow"]
fn archives_and_metadata() {
    insta::assert_snapshot!(found(DAMAGES), @r#"
    a wheel is cut off
      error   RW101 unreadable-package: no end record: not a zip archive, or one that is cut off; left out 108 findings caused by it
    a bit of a member flips
      error   RW102 damaged-member: `_rocm_sdk_core/include/hip/hip_runtime.h`: its checksum is 304217cc, and 96351c78 in the directory of the archive
    the data of a library is damaged
      error   RW102 damaged-member: `_rocm_sdk_core/lib/libhsa-runtime64.so.1`: corrupt deflate stream
    the data of the development files is damaged
      error   RW102 damaged-member: `rocm_sdk_devel/_devel.tar`: it has 99827 bytes, and 99840 in the directory of the archive
    a page is appended
      error   RW103 inconsistent-zip: 6 bytes stand before the archive or after its end
    a script stands before
      error   RW103 inconsistent-zip: 10 bytes stand before the archive or after its end
    a local header has another name
      error   RW103 inconsistent-zip: `rocm_profiler/py.typed`: its local header names it "rocm_profiler/py.typeD"
    a field for sizes that need none
      error   RW103 inconsistent-zip: `_rocm_profiler/__init__.py`: a ZIP64 field, although no size needs one
    a file changes after RECORD
      error   RW107 record-disagrees: `_rocm_sdk_core/include/hip/hip_runtime.h`: has 14 bytes, but 13 in RECORD
    a file keeps its length after RECORD
      error   RW107 record-disagrees: `_rocm_sdk_core/include/hip/hip_runtime.h`: has SHA-256 dc1d9eec2d00f2344d5bde19cf7c52afbe271944066cfaa539aad7e283161493, but b3adf106d95b8934f690943f2921308b90be5b766c4c8ba250c792de56400201 in RECORD
    a file is added after RECORD
      error   RW107 record-disagrees: `_rocm_sdk_core/new`: in the wheel, and not listed in RECORD
    a file is dropped after RECORD
      error   RW107 record-disagrees: `_rocm_sdk_core/include/hip/hip_runtime.h`: listed in RECORD, and not in the wheel
      error   RW504 dangling-devel-link: `_rocm_sdk_devel/include/hip/hip_runtime.h`: it leads to `../../../_rocm_sdk_core/include/hip/hip_runtime.h`, which does not exist
    RECORD is gone
      error   RW107 record-disagrees: no `*.dist-info/RECORD`
    RECORD is no table
      error   RW107 record-disagrees: `rocm_sdk_core-0.99.1.dev0.dist-info/RECORD`: row 1 of RECORD: three columns expected, not 2
    METADATA is gone
      error   RW111 metadata-disagrees: no `*.dist-info/METADATA`
    METADATA is longer than installers read
      error   RW111 metadata-disagrees: `rocm_sdk_core-0.99.1.dev0.dist-info/METADATA` has 5242880 bytes, more than installers read
    METADATA has another version
      error   RW111 metadata-disagrees: `rocm_sdk_core-0.99.1.dev0.dist-info/METADATA`: it is of version 7, and the file name of 0.99.1.dev0
      error   RW111 metadata-disagrees: `rocm_sdk_core/_dist_info.py`: its version is 0.99.1.dev0, but the metadata says 7
    METADATA has another name
      error   RW111 metadata-disagrees: `rocm_sdk_core-0.99.1.dev0.dist-info/METADATA`: it is of `core`, and the file name of `rocm-sdk-core`
    there are two METADATA
      error   RW111 metadata-disagrees: several directories of metadata: `core-1.dist-info`, `rocm_sdk_core-0.99.1.dev0.dist-info`
      error   RW111 metadata-disagrees: `core-1.dist-info/METADATA`: it is not at `rocm_sdk_core-0.99.1.dev0.dist-info/METADATA`
      error   RW111 metadata-disagrees: `core-1.dist-info/METADATA`: metadata without `Name`
      error   RW111 metadata-disagrees: `core-1.dist-info/METADATA`: no `License-File`, and `_rocm_sdk_core/lib/rocm_sysdeps/share/licenses/a, b [c] ü.txt` is a license text
      error   RW120 foreign-file: `core-1.dist-info/METADATA`: it is installed as `core-1.dist-info`, which is not a directory of ours
      warning RW126 unknown-license: `core-1.dist-info/METADATA`: it names no license
    WHEEL has another tag
      error   RW111 metadata-disagrees: `rocm_sdk_core-0.99.1.dev0.dist-info/WHEEL`: its tag is `py3-none-any`, and the file name's `py3-none-linux_x86_64`
    WHEEL is not pure
      error   RW111 metadata-disagrees: `rocm_sdk_core-0.99.1.dev0.dist-info/WHEEL`: `Root-Is-Purelib` is false, which parts it from the packages beside it
    a wheel is renamed to another version
      error   RW201 unresolved-requirement: it requires `rocm-profiler` 0.99.1.dev0, but the set has 0.99.1.dev1
      error   RW204 versions-disagree: version 0.99.1.dev1, but most of the set has 0.99.1.dev0
      error   RW111 metadata-disagrees: `rocm_profiler-0.99.1.dev0.dist-info/METADATA`: it is not at `rocm_profiler-0.99.1.dev1.dist-info/METADATA`
      error   RW111 metadata-disagrees: `rocm_profiler-0.99.1.dev0.dist-info/METADATA`: it is of version 0.99.1.dev0, and the file name of 0.99.1.dev1
    a wheel is renamed to another Python
      error   RW111 metadata-disagrees: `rocm_profiler-0.99.1.dev0.dist-info/WHEEL`: its tag is `py3-none-linux_x86_64`, and the file name's `py2-none-linux_x86_64`
    no Python will do
      error   RW122 requires-python: `rocm_sdk_core-0.99.1.dev0.dist-info/METADATA`: `>=3.10,<3.9` is not for Python 3
    Requires-Python is a word
      error   RW122 requires-python: `rocm_sdk_core-0.99.1.dev0.dist-info/METADATA`: `three` is not understood
    an artifact has no license
      warning RW126 unknown-license: `rocm_sdk_core-0.99.1.dev0.dist-info/METADATA`: `packages.toml` does not say what `LicenseRef-ROCm-new` is
    a license text is missing
      warning RW126 unknown-license: `rocm_sdk_core-0.99.1.dev0.dist-info/METADATA`: `licenses/LICENSE` is missing
    license texts are not named
      error   RW111 metadata-disagrees: `rocm_sdk_core-0.99.1.dev0.dist-info/METADATA`: no `License-File`, and `_rocm_sdk_core/lib/rocm_sysdeps/share/licenses/a, b [c] ü.txt` is a license text
    there is no license
    a path climbs
      error   RW105 bad-path: `_rocm_sdk_core/../../evil`: a path with `..`: "_rocm_sdk_core/../../evil"
      error   RW107 record-disagrees: `_rocm_sdk_core/../../evil`: in the wheel, and not listed in RECORD
    a member is a symlink
      error   RW106 not-a-file: `_rocm_sdk_core/include/hip/hip_runtime.h`: a symbolic link
    a name differs in case
      warning RW115 case-clash: `_rocm_sdk_core/lib/libamdhip64.so.7`: `_rocm_sdk_core/lib/LIBAMDHIP64.so.7` differs in case only
    another file is in two wheels
      error   RW113 conflicting-path: `_rocm_sdk_core/share/hip/version`: `rocm_profiler.whl` has another file there
    the same file is in two wheels
      warning RW114 shared-path: `_rocm_sdk_core/__init__.py`: `rocm_profiler.whl` has the same file there
    a program is setuid
      error   RW603 setuid-member: `_rocm_sdk_core/bin/rocminfo`: its mode is 4755
    a file is writable to all
      error   RW604 world-writable: `_rocm_sdk_core/include/hip/hip_runtime.h`: its mode is 666
    "#);
}

#[test]
fn a_path_that_windows_cannot_open() {
    let set = crate::check::Set::new();
    let long = format!("_rocm_sdk_core/{}/a.h", "x".repeat(190));
    extra(&set, PROFILER, &long, b"1");
    set.rename(PROFILER, "linux_x86_64", "win_amd64");
    insta::assert_snapshot!(set.found(&["--select", "RW116"]).replace(&"x".repeat(180), "…"), @r"
    exit 1
    rocm_profiler-0.99.1.dev0-py3-none-win_amd64.whl
      error   RW116 long-path: `_rocm_sdk_core/…xxxxxxxxxx/a.h`: 273 characters in `C:\hostedtoolcache\windows\Python\3.12.10\x64\Lib\site-packages`
    ");
}

#[test]
fn a_license_of_another_builder_is_one() {
    let set = crate::check::Set::new();
    license(&set, "License: MIT");
    assert_eq!(set.found(&["--fail-on", "warning"]), "exit 0\n");
}

/// Each member is in no RECORD, and installs outside of our directories.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "slow"]
fn findings_of_a_wheel_with_very_many_members_are_counted_and_not_kept() {
    const MEMBERS: usize = 100_000;
    let t = Sandbox::new();
    fs_err::create_dir(t.path("set")).unwrap();
    copy_files(&published::sample().dist(), &t.path("set"));
    let name = format!("rocm_profiler-{}-py3-none-linux_x86_64.whl", published::VERSION);
    let wheel = t.path("set").join(name);
    let mut members = unzip(&fs_err::read(&wheel).unwrap());
    members.extend((0..MEMBERS).map(|number| (format!("a/{number}"), 0o100_644, Vec::new())));
    fs_err::write(&wheel, zipped(&members)).unwrap();
    let (said, peak) = run_with_peak(&t, &["check", "set"]);
    assert_eq!(said.code, 1);
    assert_has!(
        said.stdout,
        "…and 99990 more of RW107",
        "100000 error   RW107 record-disagrees",
        "200,000 errors in 7 packages"
    );
    // 208 MB with every finding.
    assert!(peak < 160_000, "{peak} kB");
    let json: serde_json::Value =
        serde_json::from_str(&t.run("check set --format json").stdout).unwrap();
    assert_eq!(json["errors"], 200_000);
    assert!(json["findings"].as_array().unwrap().len() < 20_010);
    // A list would have to name findings that are not known.
    let refused = t.run("check set --write-accept known.toml");
    assert_eq!(refused.code, 1);
    let (_, refusal) = refused.stderr.split_once("error: ").unwrap();
    insta::assert_snapshot!(refusal, @r#"
    `rocm-profiler` has too many findings of RW107 for a list: 90000 more findings of this rule

    hint: build the package again; or write an entry by hand with `rule = "RW107"` and `package = "rocm-profiler"`, and without `paths` and `says`, which accepts all of them
    "#);
    assert!(!t.path("known.toml").exists());
    let entry = |rule: &str, more: &str| {
        format!(
            "[[accept]]\nrule = \"{rule}\"\npackage = \"rocm-profiler\"\n{more}reason = \"a test\"\nuntil = 2999-12-31\n"
        )
    };
    let foreign = entry("foreign-file", "");
    t.write("some.toml", foreign.clone() + &entry("RW107", "paths = [\"a/*\"]\n"));
    assert_has!(t.run("check set --accept some.toml").refused(1), "90,000 errors");
    t.write("all.toml", foreign + &entry("RW107", ""));
    t.run("check set --accept all.toml").ok();
}
