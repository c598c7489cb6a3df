//! Packages that are missing or do not belong together.

use std::io::Read as _;

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use regex::Regex;

use super::{python::unpacked, *};

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
      error   RW202 missing-device-wheel: it has an extra for `rocm-sdk-device-gfx1100`, which is not in the set
    ");
    insta::assert_snapshot!(after(|set| promise(set, "gfx1100", "gfx1101")), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW202 missing-device-wheel: it has an extra for `rocm-sdk-device-gfx1101`, which is not in the set
    rocm_sdk_device_gfx1100.whl
      error   RW203 unadvertised-device-wheel: `rocm` has no extra for `gfx1100`
    ");
}

#[test]
fn a_promise_of_what_is_no_target_is_found() {
    let found = after(|set| promise(set, "gfx1100", "gfx9999"));
    let fact = "it has an extra for `gfx9999`, which is not a known target";
    assert!(
        found.contains(&format!("RW206 unknown-target: {fact}")),
        "{found}"
    );
}

/// Rewrites the selector, so that it promises another target.
fn promise(set: &Set, from: &str, to: &str) {
    information(set, |text| text.replace(from, to));
}

/// Changes the PKG-INFO files of the selector.
fn information(set: &Set, edit: impl Fn(&str) -> String) {
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
                content = edit(&text).into_bytes();
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
fn an_unknown_target_is_found() {
    let found = after(|set| set.rename("rocm_sdk_device_gfx1100", "gfx1100", "gfx9420"));
    insta::assert_snapshot!(only("RW206", &found), @"error   RW206 unknown-target: not a known target: `gfx9420`");
    let found = after(|set| set.rename("rocm_sdk_device_gfx1100", "gfx1100", "gpu"));
    insta::assert_snapshot!(only("RW206", &found), @r#"error   RW206 unknown-target: not a target: "gpu""#);
}

#[test]
fn a_second_wheel_of_a_package_is_found() {
    insta::assert_snapshot!(after(|set| {
        let path = set.package("rocm_profiler");
        let name = path.file_name().unwrap().to_str().unwrap();
        let other = set.0.path().join(name.replace("-py3", "-1-py3"));
        fs_err::copy(&path, other).unwrap();
    }), @"
    exit 1
    rocm_profiler.whl
      error   RW207 duplicate-package: the set has `rocm_profiler-0.0.1.dev0-1-py3-none-linux_x86_64.whl` too
    ");
}

#[test]
fn a_selector_that_is_another_on_another_platform_is_found() {
    let (here, there) = (Set::new(), Set::new());
    let compare = ["--compare", there.0.path().to_str().unwrap()];
    assert_eq!(here.found(&compare), "exit 0\n");
    promise(&there, "gfx1100", "gfx1101");
    let digests = Regex::new("[0-9a-f]{64}").unwrap();
    insta::assert_snapshot!(digests.replace_all(&here.found(&compare), "SHA"), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW208 selector-differs: it has SHA-256 SHA, and SHA in the other set
    ");
    there.remove("rocm-0");
    insta::assert_snapshot!(here.found(&compare), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW208 selector-differs: the set to compare with has no such sdist
    ");
}

#[test]
fn a_requirement_on_what_is_not_ours_is_found() {
    let set = Set::new();
    set.edit("rocm_profiler", |members| {
        replace(
            members,
            "/METADATA",
            "Version: 0.0.1.dev0\n",
            "Version: 0.0.1.dev0\nRequires-Dist: PyYAML>=6\n",
        );
    });
    insta::assert_snapshot!(set.found(&[]), @"
    exit 0
    rocm_profiler.whl
      warning RW209 foreign-requirement: it requires `pyyaml`, which is not one of our packages
    ");
    let allowed = [
        "--allow-requirements",
        "numpy,pyyaml",
        "--fail-on",
        "warning",
    ];
    assert_eq!(set.found(&allowed), "exit 0\n");
}

#[test]
fn a_requirement_that_any_version_meets_is_found() {
    insta::assert_snapshot!(after(|set| {
        set.edit("rocm_sdk_devel", |members| {
            replace(members, "/METADATA", "rocm-sdk-core==0.0.1.dev0", "rocm-sdk-core>=0");
        });
        set.edit(GFX942, |members| {
            replace(members, "/METADATA", "Requires-Dist: rocm-sdk-libraries==0.0.1.dev0\n", "");
        });
    }), @"
    exit 1
    rocm_sdk_devel.whl
      error   RW212 loose-requirement: it requires `rocm-sdk-core` without pinning its version
    rocm_sdk_device_gfx942.whl
      error   RW212 loose-requirement: it does not require `rocm-sdk-libraries`, which its code is for
    ");
}

#[test]
fn a_package_of_ours_that_another_one_does_not_require_is_found() {
    insta::assert_snapshot!(edited("rocm_sdk_devel", |members| {
        let text = &mut member(members, "/METADATA").2;
        let lines = std::str::from_utf8(text).unwrap().split_inclusive('\n');
        *text = lines.filter(|it| !it.starts_with("Requires-Dist")).collect::<String>().into();
    }), @"
    exit 1
    rocm_sdk_devel.whl
      error   RW212 loose-requirement: it does not require `rocm-sdk-core`, to which its symlinks lead
      error   RW212 loose-requirement: it does not require `rocm-sdk-libraries`, to which its symlinks lead
    ");
    let without = |start: &str, end: &str| {
        after(|set| {
            information(set, |text| {
                let is_kept =
                    |line: &&str| !(line.starts_with(start) && line.trim_end().ends_with(end));
                text.split_inclusive('\n').filter(is_kept).collect()
            });
        })
    };
    insta::assert_snapshot!(without("Requires-Dist: rocm-sdk-core", ""), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW212 loose-requirement: it does not require `rocm-sdk-core`
    ");
    insta::assert_snapshot!(without("Requires-Dist: rocm-profiler", ""), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW212 loose-requirement: its extra `profiler` does not require `rocm-profiler`
    ");
    insta::assert_snapshot!(without("Requires-Dist: rocm-sdk-device-gfx942", "\"device-all\""), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW212 loose-requirement: its extra `device-all` does not require `rocm-sdk-device-gfx942`
    ");
}

#[test]
fn the_modules_and_the_short_names_that_the_python_of_the_set_needs_are_there() {
    for (wheel, path) in [
        ("rocm_sdk_devel", "rocm_sdk_devel/__init__.py"),
        (CORE, "_rocm_sdk_core/__init__.py"),
        ("rocm_sdk_libraries", "_rocm_sdk_libraries/__init__.py"),
        ("rocm_sdk_libraries", "rocm_sdk_libraries/__init__.py"),
        ("rocm_profiler", "_rocm_profiler/__init__.py"),
        ("rocm_profiler", "_rocm_profiler/lib/librocprof-sys.so"),
    ] {
        let found = edited(wheel, |members| {
            let before = members.len();
            members.retain(|it| it.0 != path);
            assert_eq!(members.len(), before - 1, "{path}");
        });
        let found = only("RW213", &found);
        let name = path.strip_prefix("_rocm_profiler/lib/").unwrap_or(path);
        assert!(
            found.contains(&format!("{name}`")) && found.ends_with("which is missing"),
            "{path}: {found}"
        );
    }
}

#[test]
fn a_file_that_the_python_of_the_set_finds_by_name_is_there() {
    let without = |wheel: &str, end: &str| {
        let found = edited(wheel, |members| members.retain(|it| !it.0.ends_with(end)));
        only("RW213", &found)
    };
    insta::assert_snapshot!(without("rocm_sdk_libraries", "lib/libhipfft.so.0"), @"error   RW213 unkept-promise: its Python needs `lib/libhipfft.so*` (library `hipfft`), which is missing; artifact `fft_lib` has it");
    insta::assert_snapshot!(without(CORE, "bin/rocgdb"), @"error   RW213 unkept-promise: its Python needs `bin/rocgdb` (command `rocgdb`), which is missing; artifact `rocgdb_run` has it");
    insta::assert_snapshot!(edited(CORE, |members| {
        member(members, "bin/hipconfig").1 = 0o100_644;
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW121 not-executable: the command `hipconfig` runs `bin/hipconfig`, which has no execute bits
    ");
}

/// Without a `set.json`, the packages themselves say whether they are of one build and complete.
#[test]
fn packages_of_a_set_know_their_build_targets_and_commands() {
    let found = |package: &str, edit: &dyn Fn(&mut Members)| {
        let set = Set::new();
        set.edit(package, edit);
        set.found(&[])
    };
    let without = |members: &mut Members, start: &str| {
        let text = &mut member(members, "/_dist_info.py").2;
        let lines = String::from_utf8(text.clone()).unwrap();
        let lines = lines.lines().filter(|line| !line.starts_with(start));
        *text = lines
            .fold(String::new(), |all, line| all + line + "\n")
            .into_bytes();
    };
    insta::assert_snapshot!(found("rocm_sdk_core", &|members| without(members, "AVAILABLE_")), @"
    exit 1
    rocm_sdk_core.whl
      error   RW214 other-build: its `_dist_info.py` lacks `AVAILABLE_TARGET_FAMILIES: list[str] = []`, which others have
    ");
    insta::assert_snapshot!(found("rocm_sdk_core", &|members| without(members, "FileEntry(")), @"
    exit 1
    rocm_sdk_core.whl
      error   RW214 other-build: its `_dist_info.py` lacks `FileEntry('core', 'lib/llvm/bin/amdclang', command='amdclang')`, which others have
    ");
    insta::assert_snapshot!(found("rocm_sdk_core", &|members| without(members, "THIS_PACKAGE")), @"
    exit 1
    rocm_sdk_core.whl
      error   RW213 unkept-promise: its `_dist_info.py` does not say which package it is of
    ");
    insta::assert_snapshot!(found("rocm_sdk_core", &|members| {
        members.retain(|it| !it.0.ends_with("/entry_points.txt"));
    }), @"
    exit 1
    rocm_sdk_core.whl
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `amd-smi`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `amdclang++`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `amdclang-cl`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `amdclang-cpp`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `amdclang`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `amdflang`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `amdlld`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `hipcc`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `hipconfig`
      error   RW213 unkept-promise: `entry_points.txt` lacks its command `hipify-clang`
    …and 15 more of RW213 (`--all`)
    ");
    let of_sdist = |end: &str, from: &str, to: &str| {
        let set = Set::new();
        unpacked(&set, |files| {
            for (path, text) in files.iter_mut().filter(|it| it.0.ends_with(end)) {
                let changed = String::from_utf8(text.clone()).unwrap().replace(from, to);
                assert_ne!(changed.as_bytes(), text.as_slice(), "{path}");
                *text = changed.into_bytes();
            }
        });
        set.found(&["--ignore", "RW214"])
    };
    let cases = [
        of_sdist(
            "_dist_info.py",
            "AVAILABLE_TARGET_FAMILIES.append('gfx942')",
            "",
        ),
        of_sdist("_dist_info.py", "DEFAULT_TARGET_FAMILY = ", "DEFAULT = "),
        of_sdist("entry_points.txt", "rocm-sdk = ", "rocm = "),
        of_sdist(
            "pyproject.toml",
            "requires = []\nbuild-backend = \"rocm_build\"\nbackend-path = [\".\"]",
            "requires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"",
        ),
    ];
    insta::assert_snapshot!(cases.concat(), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW213 unkept-promise: its `_dist_info.py` lacks the target `gfx942`
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW213 unkept-promise: its `_dist_info.py` names no target for machines without a GPU
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW119 broken-sdist: no `*.egg-info/entry_points.txt` has its command `rocm-sdk`
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW119 broken-sdist: `pyproject.toml`: its build backend is `setuptools.build_meta`, which is not in the sdist
    ");
}
