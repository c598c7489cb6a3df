//! Packages that are missing or do not belong together.

use super::{Damage, edits::*, found};
use crate::check::{Members, Set, member};

#[rustfmt::skip]
const DAMAGES: &[Damage] = &[
    ("the profiler is gone", |set| set.remove(PROFILER)),
    ("the files of an artifact are in no package", |set| {
        set.index();
        let path = set.0.path().join("set.json");
        let text = fs_err::read_to_string(&path).unwrap();
        fs_err::write(path, text.replacen('{', "{\n  \"unshipped\": [\"rocnew_lib\"],", 1)).unwrap();
    }),
    ("a device wheel is gone", |set| set.remove(DEVICE)),
    ("the libraries are gone", |set| set.remove(LIBRARIES)),
    ("devel is gone", |set| set.remove(DEVEL)),
    ("the sdist is gone", |set| set.remove("rocm-0")),
    ("an extra is for another target", |set| promise(set, "gfx1100", "gfx1101")),
    ("an extra is for no target", |set| promise(set, "gfx1100", "gfx9999")),
    ("a device wheel is for an unknown target", |set| {
        set.rename("rocm_sdk_device_gfx1100", "gfx1100", "gfx9420");
    }),
    ("a device wheel is for no target", |set| set.rename("rocm_sdk_device_gfx1100", "gfx1100", "gpu")),
    ("a package has two wheels", |set| {
        let path = set.package(PROFILER);
        let name = path.file_name().unwrap().to_str().unwrap();
        fs_err::copy(&path, set.0.path().join(name.replace("-py3", "-1-py3"))).unwrap();
    }),
    ("another version is required", |set| swap(set, DEVEL, "/METADATA", "core==0.99.1.dev0", "core==7")),
    ("any version is required", |set| swap(set, DEVEL, "/METADATA", "core==0.99.1.dev0", "core>=0")),
    ("a device wheel requires nothing", |set| {
        let line = "Requires-Dist: rocm-sdk-libraries==0.99.1.dev0\n";
        swap(set, DEVICE, "/METADATA", line, "");
    }),
    ("devel requires nothing", |set| {
        set.edit(DEVEL, |it| {
            without(&mut member(it, "/METADATA").2, "Requires-Dist", "");
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
    ("a package knows no targets", |set| tables(set, "AVAILABLE_")),
    ("a package knows fewer files", |set| {
        swap(set, CORE, "core/_dist_info.json", "lib/llvm/bin/amdclang-cpp", "lib/llvm/bin/amdclang");
    }),
    ("a package has no tables", |set| drop_member(set, CORE, "core/_dist_info.json")),
    ("a package has damaged tables", |set| {
        swap(set, CORE, "core/_dist_info.json", "\"families\"", "\"family\"");
    }),
    ("a package does not know its name", |set| tables(set, "THIS_PACKAGE")),
    ("rocm lacks a target", |set| {
        all_sources(set, "_dist_info.py", "AVAILABLE_TARGET_FAMILIES.append('gfx942')", "");
    }),
    ("rocm has no target for machines without a GPU", |set| {
        all_sources(set, "_dist_info.py", "DEFAULT_TARGET_FAMILY = ", "DEFAULT = ");
    }),
];

/// Removes lines from the `_dist_info.py` of core.
fn tables(set: &Set, start: &str) {
    set.edit(CORE, |it: &mut Members| {
        without(&mut member(it, "/_dist_info.py").2, start, "");
    });
}

/// A tool that formats JSON, or a build that lists its targets in another order, makes no other build.
#[test]
fn the_same_tables_in_another_form_are_of_the_same_build() {
    let set = Set::new();
    bytes(&set, CORE, "core/_dist_info.json", |text| {
        let tables: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(text).unwrap();
        let reversed: serde_json::Map<_, _> = tables.into_iter().rev().collect();
        *text = serde_json::to_vec(&reversed).unwrap();
    });
    bytes(&set, CORE, "core/_dist_info.py", |text| {
        let old = String::from_utf8(text.clone()).unwrap();
        let is_target = |line: &&str| line.starts_with("AVAILABLE_TARGET_FAMILIES.append(");
        let mut targets: Vec<&str> = old.lines().filter(is_target).collect();
        assert!(targets.len() > 1);
        let lines =
            old.lines().map(|line| if is_target(&line) { targets.pop().unwrap() } else { line });
        *text = lines.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes();
    });
    assert_eq!(set.found(&["--fail-on", "warning"]), "exit 0\n");
}

#[test]
#[ignore = "slow"]
fn packages_and_what_they_require() {
    insta::assert_snapshot!(found(DAMAGES), @r#"
    the profiler is gone
      error   RW201 unresolved-requirement: it requires `rocm-profiler`, which is not in the set
    the files of an artifact are in no package
      warning RW216 unshipped-artifact: no package has the files of the artifact `rocnew_lib`
    a device wheel is gone
      error   RW202 missing-device-wheel: it has an extra for `rocm-sdk-device-gfx942`, which is not in the set
    the libraries are gone
      error   RW201 unresolved-requirement: it requires `rocm-sdk-libraries`, which is not in the set
      error   RW201 unresolved-requirement: it requires `rocm-sdk-libraries`, which is not in the set; left out 45 findings caused by it
      error   RW201 unresolved-requirement: it requires `rocm-sdk-libraries`, which is not in the set
      error   RW201 unresolved-requirement: it requires `rocm-sdk-libraries`, which is not in the set
    devel is gone
      error   RW201 unresolved-requirement: it requires `rocm-sdk-devel`, which is not in the set
    the sdist is gone
      error   RW205 missing-selector: no `rocm` sdist among 6 packages
    an extra is for another target
      error   RW202 missing-device-wheel: it has an extra for `rocm-sdk-device-gfx1101`, which is not in the set
      error   RW203 unadvertised-device-wheel: `rocm` has no extra for `gfx1100`
    an extra is for no target
      error   RW202 missing-device-wheel: it has an extra for `rocm-sdk-device-gfx9999`, which is not in the set
      error   RW206 unknown-target: it has an extra for `gfx9999`, which is not a known target
      error   RW203 unadvertised-device-wheel: `rocm` has no extra for `gfx1100`
    a device wheel is for an unknown target
      error   RW202 missing-device-wheel: it has an extra for `rocm-sdk-device-gfx1100`, which is not in the set
      error   RW213 unkept-promise: its `_dist_info.py` lacks the target `gfx9420`
      error   RW206 unknown-target: not a known target: `gfx9420`
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx1100.json`: not named for `gfx9420`
      error   RW301 foreign-device-file: `_rocm_sdk_libraries/.kpack/blas_lib_gfx1100.kpack`: a file for `gfx1100` in the package of `gfx9420`
      error   RW301 foreign-device-file: `_rocm_sdk_libraries/.kpack/blas_lib_gfx1100.kpack`: it holds code for `gfx1100`, in the package of `gfx9420`
      … and 11 more
    a device wheel is for no target
      error   RW202 missing-device-wheel: it has an extra for `rocm-sdk-device-gfx1100`, which is not in the set
      error   RW206 unknown-target: not a target: "gpu"
      error   RW111 metadata-disagrees: `rocm_sdk_device_gfx1100-0.99.1.dev0.dist-info/METADATA`: it is not at `rocm_sdk_device_gpu-0.99.1.dev0.dist-info/METADATA`
      error   RW111 metadata-disagrees: `rocm_sdk_device_gfx1100-0.99.1.dev0.dist-info/METADATA`: it is of `rocm-sdk-device-gfx1100`, and the file name of `rocm-sdk-device-gpu`
    a package has two wheels
      error   RW207 duplicate-package: the set has `rocm_profiler-0.99.1.dev0-1-py3-none-linux_x86_64.whl` too
    another version is required
      error   RW201 unresolved-requirement: it requires `rocm-sdk-core` 7, but the set has 0.99.1.dev0
    any version is required
      error   RW212 loose-requirement: it requires `rocm-sdk-core` without pinning its version
    a device wheel requires nothing
      error   RW212 loose-requirement: it does not require `rocm-sdk-libraries`, which its code is for
    devel requires nothing
      error   RW212 loose-requirement: it does not require `rocm-sdk-core`, to which its symlinks lead
      error   RW212 loose-requirement: it does not require `rocm-sdk-libraries`, to which its symlinks lead
    devel requires torch
      warning RW209 foreign-requirement: it requires `torch`, which is not one of our packages
    rocm does not require core
      error   RW212 loose-requirement: it does not require `rocm-sdk-core`
    an extra of rocm does not require the profiler
      error   RW212 loose-requirement: its extra `profiler` does not require `rocm-profiler`
    device-all does not require a device wheel
      error   RW212 loose-requirement: its extra `device-all` does not require `rocm-sdk-device-gfx942`
    a package knows no targets
      error   RW214 other-build: its `_dist_info.py` lacks `AVAILABLE_TARGET_FAMILIES: list[str] = []`, which others have
    a package knows fewer files
      error   RW214 other-build: its `_dist_info.json` lacks `"relpath": "lib/llvm/bin/amdclang-cpp"`, which others have
    a package has no tables
      error   RW213 unkept-promise: its `_dist_info.json` is missing, or is not UTF-8
    a package has damaged tables
      error   RW213 unkept-promise: failed to read its `_dist_info.json`: missing field `families` at line 755 column 1
      error   RW214 other-build: its `_dist_info.json` lacks `"families": {`, which others have
    a package does not know its name
      error   RW213 unkept-promise: its `_dist_info.py` does not say which package it is of
    rocm lacks a target
      error   RW213 unkept-promise: its `_dist_info.py` lacks the target `gfx942`
      error   RW214 other-build: its `_dist_info.py` lacks `AVAILABLE_TARGET_FAMILIES.append('gfx942')`, which others have
    rocm has no target for machines without a GPU
      error   RW213 unkept-promise: its `_dist_info.py` names no target for machines without a GPU
      error   RW214 other-build: its `_dist_info.py` lacks `DEFAULT_TARGET_FAMILY = 'gfx1100'`, which others have
    "#);
}
