//! Packages that are missing or do not belong together.

use super::{Damage, edits::*, found};
use crate::check::{Members, Set, member};

const DAMAGES: &[Damage] = &[
    ("the profiler is gone", |set| set.remove(PROFILER)),
    ("a device wheel is gone", |set| set.remove(DEVICE)),
    ("the libraries are gone", |set| set.remove(LIBRARIES)),
    ("devel is gone", |set| set.remove(DEVEL)),
    ("the sdist is gone", |set| set.remove("rocm-0")),
    ("an extra is for another target", |set| {
        promise(set, "gfx1100", "gfx1101")
    }),
    ("an extra is for no target", |set| {
        promise(set, "gfx1100", "gfx9999")
    }),
    ("a device wheel is for an unknown target", |set| {
        set.rename("rocm_sdk_device_gfx1100", "gfx1100", "gfx9420");
    }),
    ("a device wheel is for no target", |set| {
        set.rename("rocm_sdk_device_gfx1100", "gfx1100", "gpu");
    }),
    ("a package has two wheels", |set| {
        let path = set.package(PROFILER);
        let name = path.file_name().unwrap().to_str().unwrap();
        fs_err::copy(&path, set.0.path().join(name.replace("-py3", "-1-py3"))).unwrap();
    }),
    ("another version is required", |set| {
        swap(set, DEVEL, "/METADATA", "core==0.0.1.dev0", "core==7");
    }),
    ("any version is required", |set| {
        swap(set, DEVEL, "/METADATA", "core==0.0.1.dev0", "core>=0");
    }),
    ("a device wheel requires nothing", |set| {
        let line = "Requires-Dist: rocm-sdk-libraries==0.0.1.dev0\n";
        swap(set, DEVICE, "/METADATA", line, "");
    }),
    ("devel requires nothing", |set| {
        set.edit(DEVEL, |it| {
            without(&mut member(it, "/METADATA").2, "Requires-Dist", "")
        });
    }),
    ("devel requires torch", |set| {
        let line = "Requires-Dist: rocm-sdk-core";
        swap(
            set,
            DEVEL,
            "/METADATA",
            line,
            &format!("Requires-Dist: torch\n{line}"),
        );
    }),
    ("rocm does not require core", |set| {
        information(set, |it| without(it, "Requires-Dist: rocm-sdk-core", ""));
    }),
    ("an extra of rocm does not require the profiler", |set| {
        information(set, |it| without(it, "Requires-Dist: rocm-profiler", ""));
    }),
    ("device-all does not require a device wheel", |set| {
        information(set, |it| {
            without(
                it,
                "Requires-Dist: rocm-sdk-device-gfx942",
                "\"device-all\"",
            );
        });
    }),
    ("a package knows no targets", |set| {
        tables(set, "AVAILABLE_")
    }),
    ("a package knows fewer files", |set| {
        tables(set, "FileEntry(")
    }),
    ("a package does not know its name", |set| {
        tables(set, "THIS_PACKAGE")
    }),
    ("rocm lacks a target", |set| {
        all_sources(
            set,
            "_dist_info.py",
            "AVAILABLE_TARGET_FAMILIES.append('gfx942')",
            "",
        );
    }),
    ("rocm has no target for machines without a GPU", |set| {
        all_sources(
            set,
            "_dist_info.py",
            "DEFAULT_TARGET_FAMILY = ",
            "DEFAULT = ",
        );
    }),
];

/// Removes lines from the `_dist_info.py` of core.
fn tables(set: &Set, start: &str) {
    set.edit(CORE, |it: &mut Members| {
        without(&mut member(it, "/_dist_info.py").2, start, "");
    });
}

#[test]
fn packages_and_what_they_require() {
    insta::assert_snapshot!(found(DAMAGES), @"");
}
