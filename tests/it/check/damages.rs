//! Ninety damages to the sample that somebody or something could do, and how many `check` finds: by
//! itself, and with the artifacts that the set was made of.
//!
//! Each damage leaves a RECORD that agrees, unless RECORD is what it damages.
//! `cargo test --test it check::damages -- --nocapture` names what is found by the artifacts alone.
mod edits;
mod files;

use edits::{
    CORE, DEVEL, DEVICE, LIBRARIES, PROFILER, bytes, drop_member, drop_source, extra, mode, source,
    swap,
};
use files::{DEVICES, FILES, TREES};

use super::{
    Set, add,
    broken::{clean::set_mode, python::unpacked},
    member,
    planned::artifacts,
};
use crate::support::long;

/// What happens, and how it is done to a set.
type Damage = (&'static str, fn(&Set));

const ARCHIVES: &[Damage] = &[
    ("a wheel is cut off", |set| {
        set.bytes(CORE, |it| it.truncate(5000));
    }),
    ("a bit of a member flips", |set| {
        set.bytes(CORE, |it| {
            let name = b"_rocm_sdk_core/include/hip/hip_runtime.h";
            let at = it.windows(name.len()).position(|it| it == name).unwrap();
            it[at + name.len() + 6] ^= 1;
        });
    }),
    ("a page is appended", |set| {
        set.bytes(CORE, |it| it.extend(b"<html>"));
    }),
    ("a script stands before", |set| {
        set.bytes(CORE, |it| drop(it.splice(0..0, *b"#!/bin/sh\n")));
    }),
    ("a file changes after RECORD", |set| {
        set.tamper(CORE, |it| member(it, "hip_runtime.h").2.push(1));
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
        drop_member(set, CORE, "/METADATA");
    }),
    ("METADATA has another version", |set| {
        swap(set, CORE, "/METADATA", "Version: 0.0.1.dev0", "Version: 7");
    }),
    ("METADATA has another name", |set| {
        swap(set, CORE, "/METADATA", "Name: rocm-sdk-core", "Name: core");
    }),
    ("WHEEL has another tag", |set| {
        swap(set, CORE, "/WHEEL", "linux_x86_64", "any");
    }),
    ("WHEEL is not pure", |set| {
        swap(set, CORE, "/WHEEL", "Purelib: true", "Purelib: false");
    }),
    ("a path climbs", |set| {
        set.tamper(CORE, |it| add(it, "_rocm_sdk_core/../../evil", "1"));
    }),
    ("a member is a link", |set| {
        mode(set, CORE, "hip_runtime.h", 0o120_777);
    }),
    ("a name differs in case", |set| {
        extra(set, CORE, "_rocm_sdk_core/lib/LIBAMDHIP64.so.7", b"1");
    }),
    ("a wheel is renamed", |set| {
        set.rename(PROFILER, "dev0", "dev1");
    }),
    ("a program is setuid", |set| {
        set.bytes(CORE, |it| {
            set_mode(it, "_rocm_sdk_core/bin/rocminfo", 0o104_755);
        });
    }),
    ("a file is writable to all", |set| {
        mode(set, CORE, "hip_runtime.h", 0o100_666);
    }),
];

const SETS: &[Damage] = &[
    ("core is gone", |set| set.remove(CORE)),
    ("the libraries are gone", |set| set.remove(LIBRARIES)),
    ("a device wheel is gone", |set| set.remove(DEVICE)),
    ("devel is gone", |set| set.remove(DEVEL)),
    ("the profiler is gone", |set| set.remove(PROFILER)),
    ("the sdist is gone", |set| set.remove("rocm-0")),
    ("a file is in two wheels", |set| {
        extra(set, PROFILER, "_rocm_sdk_core/share/hip/version", b"x");
    }),
    ("another version is required", |set| {
        swap(set, DEVEL, "/METADATA", "core==0.0.1.dev0", "core==7");
    }),
    ("any version is required", |set| {
        swap(set, DEVEL, "/METADATA", "core==0.0.1.dev0", "core>=0");
    }),
    ("a device wheel requires nothing", |set| {
        swap(
            set,
            DEVICE,
            "/METADATA",
            "Requires-Dist: rocm-sdk-libraries==0.0.1.dev0\n",
            "",
        );
    }),
    ("devel requires torch", |set| {
        swap(
            set,
            DEVEL,
            "/METADATA",
            "Requires-Dist: rocm-sdk-core",
            "Requires-Dist: torch\nRequires-Dist: rocm-sdk-core",
        );
    }),
    ("no Python will do", |set| {
        swap(set, CORE, "/METADATA", ">=3.10", ">=3.10,<3.9");
    }),
    ("Requires-Python is a word", |set| {
        swap(set, CORE, "/METADATA", ">=3.10", "three");
    }),
];

const SDISTS: &[Damage] = &[
    ("the sdist is cut off", |set| {
        set.bytes("rocm-0", |it| it.truncate(2000));
    }),
    ("its backend does not parse", |set| {
        source(set, "rocm_build.py", "import", "def (");
    }),
    ("its pyproject.toml is empty", |set| {
        unpacked(set, |it| {
            it.iter_mut()
                .find(|it| it.0.ends_with("pyproject.toml"))
                .unwrap()
                .1
                .clear();
        });
    }),
    ("its backend is not there", |set| {
        source(set, "pyproject.toml", "\"rocm_build\"", "\"rocm_maker\"");
    }),
    ("its backend builds nothing", |set| {
        source(set, "rocm_build.py", "def build_wheel", "def build_wheels");
    }),
    ("its package is not there", |set| {
        drop_source(set, "src/rocm_sdk/");
    }),
    ("a module is not there", |set| {
        drop_source(set, "rocm_sdk/_links.py");
    }),
    ("its PKG-INFO is gone", |set| {
        unpacked(set, |it| it.retain(|it| !it.0.ends_with("dev0/PKG-INFO")));
    }),
    ("its PKG-INFO differ", |set| {
        source(
            set,
            "egg-info/PKG-INFO",
            "Name: rocm",
            "Name: rocm\nKeywords: x",
        );
    }),
    ("its command calls nothing", |set| {
        source(set, "rocm_sdk/__main__.py", "def main", "def mine");
    }),
    ("it is of another version", |set| {
        source(
            set,
            "rocm_sdk/_dist_info.py",
            "__version__ = '0.0.1.dev0'",
            "__version__ = '7'",
        );
    }),
    ("one of its texts is another", |set| {
        source(set, "rocm_sdk/_lock.py", "\"\"\"", "\"\"\" ");
    }),
];

const PYTHON: &[Damage] = &[
    ("_dist_info.py does not parse", |set| {
        bytes(set, CORE, "core/_dist_info.py", |it| it.extend(b"def ("));
    }),
    ("_dist_info.py is gone", |set| {
        drop_member(set, CORE, "core/_dist_info.py");
    }),
    ("_dist_info.py is of another version", |set| {
        bytes(set, LIBRARIES, "/_dist_info.py", |it| {
            it.extend(b"__version__ = '7'\n");
        });
    }),
    ("_cli.py is gone", |set| {
        drop_member(set, CORE, "core/_cli.py");
    }),
    ("a function is gone", |set| {
        swap(set, CORE, "core/_cli.py", "def hipcc()", "def hip_cc()");
    }),
    ("an entry point is another", |set| {
        swap(
            set,
            PROFILER,
            "/entry_points.txt",
            "rocm_profiler._cli:rocprof_compute",
            "rocm_profiler.cli:rocprof_compute",
        );
    }),
    ("the package is no package", |set| {
        drop_member(set, CORE, "rocm_sdk_core/__init__.py");
    }),
    ("a .pth comes along", |set| {
        extra(set, CORE, "rocm.pth", b"import os\n");
    }),
    ("sitecustomize comes along", |set| {
        extra(set, CORE, "sitecustomize.py", b"import os\n");
    }),
    ("torch comes along", |set| {
        extra(set, CORE, "torch/__init__.py", b"");
    }),
    ("a comment in _cli.py is another", |set| {
        swap(
            set,
            CORE,
            "core/_cli.py",
            "Console scripts",
            "console scripts",
        );
    }),
];

/// The damages that `check` finds only with the artifacts or `set.json`: nothing else has the bytes to
/// compare with.
const ONLY_WITH_ARTIFACTS: &[&str] = &[
    "one of its texts is another",
    "a comment in _cli.py is another",
    "a header has execute bits",
    "a header is another",
    "a byte of code is another",
    "a byte of device code is another",
];

#[test]
#[expect(clippy::print_stderr, reason = "the run is a report as well")]
fn of_ninety_damages_most_are_found_and_all_with_the_artifacts() {
    let mut all = [ARCHIVES, SETS, SDISTS, PYTHON, FILES, DEVICES, TREES].concat();
    assert_eq!(all.len(), 90);
    if !long::is_on() {
        all = all.into_iter().step_by(3).collect();
    }
    let count = all.len();
    let artifacts = artifacts();
    let artifacts = [
        "--artifact-dir",
        artifacts.to_str().unwrap(),
        "--fail-on",
        "warning",
    ];
    let (mut plain, mut missed) = (Vec::new(), Vec::new());
    for (name, damage) in all {
        let set = Set::new();
        damage(&set);
        if !set.found(&["--fail-on", "warning"]).starts_with("exit 1") {
            plain.push(name);
            if !set.found(&artifacts).starts_with("exit 1") {
                missed.push(name);
            }
        }
    }
    let found = count - plain.len();
    eprintln!(
        "{found} of {count} were found without artifacts, and not these:\n{}",
        plain.join("\n")
    );
    let unknown: Vec<_> = plain
        .iter()
        .filter(|it| !ONLY_WITH_ARTIFACTS.contains(it))
        .collect();
    assert!(unknown.is_empty(), "not found any more: {unknown:?}");
    if long::is_on() {
        assert_eq!(plain, ONLY_WITH_ARTIFACTS);
    }
    assert!(
        missed.is_empty(),
        "not even with artifacts:\n{}",
        missed.join("\n")
    );
}
