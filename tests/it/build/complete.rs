//! A set holds everything that its own Python finds by name, or it is not built.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use super::{build, place, refusal, succeed};
use crate::support::{
    place::{empty, text},
    program::command,
    published::sample,
};

/// The names of the sample's archives, without one.
fn without(place: &Path, archive: &Path, then: impl FnOnce()) {
    let away = place.join("away");
    fs_err::rename(archive, &away).unwrap();
    then();
    fs_err::rename(&away, archive).unwrap();
}

fn archives(place: &Path) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(place.join("in")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Of an archive, or of a directory.
fn artifact(path: &Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    name.split(".tar").next().unwrap().to_owned()
}

/// Nothing in a package names these: documents, tests, headers, and device code, whose coverage
/// `check` knows.
const UNNAMED: [&str; 10] = [
    "blas_dev_generic",
    "blas_doc_generic",
    "blas_lib_gfx1100",
    "blas_lib_gfx942",
    "blas_lib_gfx942:xnack+",
    "blas_test_generic",
    "core-hip_dev_generic",
    "prim_dev_generic",
    "rccl_lib_gfx1100",
    "rccl_lib_gfx942",
];

#[test]
fn a_set_without_an_artifact_that_its_python_needs_is_not_built() {
    let place = empty("build/each");
    let mut copy = Command::new("cp");
    copy.arg("-a")
        .arg(sample().artifacts())
        .arg(place.join("in"));
    succeed(&mut copy);
    let mut unnamed = BTreeSet::new();
    for archive in archives(&place) {
        let artifact = artifact(&archive);
        let (name, _) = artifact.split_once('_').unwrap();
        without(&place, &archive, || {
            let mut plan = build(&place, "out");
            let output = plan.arg("--plan").output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            if output.status.success() {
                unnamed.insert(artifact.clone());
            } else {
                let holder = match name {
                    // The sample keeps three libraries there that a run has in `blas`.
                    "hipkernelprovider" => "`blas_",
                    // It has the manifest of the whole run.
                    "base" => "base_",
                    _ => &format!("`{name}_"),
                };
                assert!(said.contains(holder), "{artifact}: {said}");
            }
        });
    }
    assert_eq!(unnamed, UNNAMED.map(str::to_owned).into());
}

#[test]
fn another_policy_is_what_packages_sdist_and_extras_follow() {
    let place = place("policy");
    let built_in = fs_err::read_to_string("src/package/packages.toml").unwrap();
    let rows = [
        "name = \"rpp\"",
        "name = \"rocgdb\"",
        "name = \"roccoremerge\"",
    ];
    let is_kept = |line: &&str| {
        let taken = ["    \"rpp\",", "    \"rocgdb\","].contains(line);
        !taken && !rows.iter().any(|row| line.contains(row))
    };
    let kept: Vec<&str> = built_in.lines().filter(is_kept).collect();
    let mut policy = kept.join("\n");
    policy = policy.replace("license = \"MIT\"", "license = \"Apache-2.0\"");
    policy = policy.replace("dist = \"rocm-profiler\"", "dist = \"rocm-sdk-profiler\"");
    policy += r#"
[[package]]
name = "extra"
kind = "runtime"
dist = "rocm-sdk-extra"
python = "rocm_sdk_extra"
summary = "ROCm SDK: a seventh package"
platforms = ["linux"]
scope = "any"
rpath = ["lib"]
scripts = [{ name = "rocgdb", runs = "bin/rocgdb", artifact = "rocgdb_run" }]
libraries = [{ name = "rpp", linux = "librpp.so*", artifact = "rpp_lib" }]

[[package.take]]
components = ["lib", "run"]
artifacts = ["rocgdb", "rpp"]
"#;
    let file = place.join("policy.toml");
    fs_err::write(&file, policy).unwrap();
    succeed(build(&place, "out").arg("--packages-file").arg(&file));
    let dist = place.join("out/dist");
    let tag = "0.0.1.dev0-py3-none-linux_x86_64.whl";
    assert!(dist.join(format!("rocm_sdk_profiler-{tag}")).exists());
    let read = |wheel: &str, member: &str| {
        let wheel = fs_err::File::open(dist.join(wheel)).unwrap();
        let mut wheel = zip::ZipArchive::new(wheel).unwrap();
        std::io::read_to_string(wheel.by_name(member).unwrap()).unwrap()
    };
    let extra = format!("rocm_sdk_extra-{tag}");
    let scripts = read(
        &extra,
        "rocm_sdk_extra-0.0.1.dev0.dist-info/entry_points.txt",
    );
    assert_eq!(
        scripts,
        "[console_scripts]\nrocgdb = rocm_sdk_extra._cli:rocgdb\n"
    );
    let calls = read(&extra, "rocm_sdk_extra/_cli.py");
    assert!(
        calls.ends_with("def rocgdb() -> NoReturn:\n    _run('bin/rocgdb')\n"),
        "{calls}"
    );
    let tables = read(&extra, "rocm_sdk_extra/_dist_info.py");
    assert!(
        tables.contains("LibraryEntry('rpp', 'extra', 'librpp.so*', '')\n"),
        "{tables}"
    );
    let sdist = fs_err::File::open(dist.join("rocm-0.0.1.dev0.tar.gz")).unwrap();
    let mut sdist = tar::Archive::new(flate2::read::GzDecoder::new(sdist));
    let mut entries = sdist.entries().unwrap().map(Result::unwrap);
    let is_info =
        |entry: &tar::Entry<'_, _>| entry.path().unwrap().ends_with("rocm-0.0.1.dev0/PKG-INFO");
    let info = std::io::read_to_string(entries.find(is_info).unwrap()).unwrap();
    for line in [
        "License-Expression: Apache-2.0",
        "Requires-Dist: rocm-sdk-profiler==0.0.1.dev0; sys_platform == \"linux\" and extra == \"profiler\"",
        "Provides-Extra: extra",
        "Requires-Dist: rocm-sdk-extra==0.0.1.dev0; sys_platform == \"linux\" and extra == \"extra\"",
    ] {
        assert!(info.contains(&format!("{line}\n")), "{info}");
    }
    let check = |more: &[&str]| {
        let mut check = command();
        check.env("ROCWHEEL_PACKAGES_FILE", &file);
        check.arg("check").arg(place.join("out")).args(more);
        String::from_utf8(succeed(&mut check).stdout).unwrap()
    };
    let said = check(&["--fail-on", "warning"]);
    assert!(said.ends_with("\nnothing found in 8 packages\n"), "{said}");
    let said = check(&["--artifact-dir", text(&place.join("out/artifacts"))]);
    assert!(said.ends_with("\nnothing found in 8 packages\n"), "{said}");
}

#[test]
fn what_is_left_out_on_purpose_is_in_no_table_and_no_extra() {
    let place = place("on-purpose");
    let archives = archives(&place);
    for archive in archives
        .iter()
        .filter(|one| artifact(one).starts_with(['f', 'r']))
    {
        if ["fft_lib_generic", "rpp_lib_generic"].contains(&&*artifact(archive)) {
            fs_err::remove_file(archive).unwrap();
        }
    }
    let said = refusal(&mut build(&place, "out"), 2);
    insta::assert_snapshot!(said, @"
    error: `lib/libhipfft.so*` (library `hipfft`) is missing: artifact `fft_lib_generic` has it; `lib/librpp.so*` (library `rpp`) is missing: artifact `rpp_lib_generic` has it

    hint: add the artifacts, or leave out on purpose what this run does not build: `--without fft,rpp`
    ");
    let without = "fft,rpp,profiler,rocgdb";
    succeed(build(&place, "out").args(["--without", without]));
    let set = fs_err::read_to_string(place.join("out/set.json")).unwrap();
    let set: serde_json::Value = serde_json::from_str(&set).unwrap();
    assert_eq!(
        set["without"],
        serde_json::json!(["fft", "profiler", "rocgdb", "rpp"])
    );
    let plan = succeed(build(&place, "out").args(["--plan", "--without", without])).stdout;
    let plan = String::from_utf8(plan).unwrap();
    assert!(!plan.contains("rocm_profiler"), "{plan}");
    let said = refusal(build(&place, "out").args(["--without", "ftt"]), 2);
    insta::assert_snapshot!(said, @"
    error: failed to apply `--without`
      caused by: no package, artifact, library or command is called `ftt`

    hint: did you mean `fft`?
    ");
    let said = refusal(build(&place, "out").args(["--without", "rocfft"]), 2);
    assert!(said.ends_with("hint: did you mean `fft`?\n"), "{said}");
    let said = refusal(build(&place, "out").args(["--without", "qwerty"]), 2);
    assert!(!said.contains("hint"), "{said}");
    let said = refusal(build(&place, "out").args(["--without", "core"]), 2);
    insta::assert_snapshot!(said, @"
    error: failed to apply `--without`
      caused by: no set goes without package `core`
    ");
}
