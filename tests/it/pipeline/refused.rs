//! Artifacts that cannot be used: each is named, and nothing is left under a final name.

use std::path::Path;

use rocwheel::{
    archive::ArchiveFormat,
    atomic::lock::{Lock, LockPurpose},
};

use super::{contents, place, text, try_pipeline};
use crate::support::{
    published::{sample, sets},
    sample::sketch::compress,
};

#[test]
fn an_archive_that_ends_early_is_named_and_leaves_nothing() {
    let (archives, out) = (place("truncated/in"), place("truncated/out"));
    sample().write_archives(&archives);
    let cut = archives.join("blas_lib_generic.tar.zst");
    let bytes = fs_err::read(&cut).unwrap();
    fs_err::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let output = try_pipeline(&[
        "--artifact-dir",
        text(&archives),
        "--output-dir",
        text(&out),
    ]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("error: failed to unpack `blas_lib_generic.tar.zst`"),
        "{said}"
    );
    assert!(!out.join("artifacts/blas_lib_generic").exists());
    assert!(!out.join("packages").exists() && !out.join("local-linux").exists());
    let left: Vec<String> = contents(&out)
        .into_keys()
        .filter(|path| path.contains(".part"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn two_pipelines_never_share_a_directory() {
    let out = place("shared");
    let _other = Lock::to_write(&out, LockPurpose::Pipeline).unwrap();
    let arguments = ["--sample", "--output-dir", text(&out)];
    let output = try_pipeline(&arguments);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    insta::assert_snapshot!(said.replace(text(&out), "OUT"), @"
    error: another pipeline is running in `OUT`

    hint: wait until it has ended, or choose another `--output-dir`
    ");
    let told = try_pipeline(&[arguments.as_slice(), &["--dry-run"]].concat());
    assert_eq!(told.status.code(), Some(0));
}

/// Both unpack to `artifacts` there.
#[test]
fn a_pipeline_and_a_build_never_share_a_directory() {
    let out = place("shared-with-build");
    let _other = Lock::to_write(&out, LockPurpose::Build).unwrap();
    let output = try_pipeline(&["--sample", "--output-dir", text(&out)]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    insta::assert_snapshot!(said.replace(text(&out), "OUT"), @"
    error: another build is running in `OUT`

    hint: wait until it has ended, or choose another `--output-dir`
    ");
    assert!(!out.join("artifacts").exists());
}

#[test]
fn a_dry_run_of_no_artifacts_is_refused_as_the_run_is() {
    let (empty, out) = (place("nothing/in"), place("nothing/out"));
    let arguments = ["--artifact-dir", text(&empty), "--output-dir", text(&out)];
    let run = try_pipeline(&arguments);
    let dry_run = try_pipeline(&[arguments.as_slice(), &["--dry-run"]].concat());
    for output in [run, dry_run] {
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        let said = said.trim_start_matches("Artifacts\n");
        insta::allow_duplicates! {
            insta::assert_snapshot!(said.replace(text(&empty), "IN"), @"
            error: no artifacts in `IN`, which is empty

            hint: `rocwheel fetch` puts artifacts there
            ");
        }
    }
}

#[test]
fn a_file_is_no_directory_of_artifacts() {
    let (file, out) = (place("file").join("run.json"), place("file/out"));
    fs_err::write(&file, "{}").unwrap();
    let arguments = ["--artifact-dir", text(&file), "--output-dir", text(&out)];
    let output = try_pipeline(&arguments);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    insta::assert_snapshot!(said.replace(text(&file), "FILE"), @"
    error: not a directory: `FILE`

    hint: pass a directory
    ");
}

#[test]
fn an_archive_that_reaches_outside_is_named_and_writes_nothing_there() {
    let (archives, out) = (place("hostile/in"), place("hostile/out"));
    sample().write_archives(&archives);
    fs_err::write(archives.join("rand_dev_generic.tar.zst"), hostile()).unwrap();
    let output = try_pipeline(&[
        "--artifact-dir",
        text(&archives),
        "--output-dir",
        text(&out),
    ]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("error: failed to unpack `rand_dev_generic.tar.zst`") && said.contains("../"),
        "{said}"
    );
    assert!(!out.join("artifacts/rand_dev_generic").exists());
    let evil: Vec<String> = contents(&out)
        .into_keys()
        .filter(|path| path.contains("evil") || path.contains(".part"))
        .collect();
    assert!(evil.is_empty(), "{evil:?}");
}

/// An archive with a file above its own directory.
fn hostile() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let manifest: &[u8] = b"stage\n";
    for (name, content) in [
        ("artifact_manifest.txt", manifest),
        ("stage/../../../evil", b"evil"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // As an attacker would: the setter for names refuses this one.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        tar.append(&header, content).unwrap();
    }
    let tar = tar.into_inner().unwrap();
    compress(ArchiveFormat::TarZst, tar.as_slice()).unwrap()
}

#[test]
fn two_artifacts_that_contradict_each_other_are_both_named() {
    let (archives, out) = (place("contradiction/in"), place("contradiction/out"));
    sample().write_archives(&archives);
    let stage = archives.join("rpp_lib_generic/stage/lib");
    fs_err::remove_file(archives.join("rpp_lib_generic.tar.xz")).unwrap();
    fs_err::create_dir_all(&stage).unwrap();
    fs_err::write(
        archives.join("rpp_lib_generic/artifact_manifest.txt"),
        "stage\n",
    )
    .unwrap();
    fs_err::write(stage.join("libhipblas.so.3.0"), "not what blas has").unwrap();
    let output = try_pipeline(&[
        "--artifact-dir",
        text(&archives),
        "--output-dir",
        text(&out),
    ]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("`lib/libhipblas.so.3.0`")
            && said.contains("blas_lib_generic")
            && said.contains("rpp_lib_generic"),
        "{said}"
    );
    assert!(said.contains("hint: "), "{said}");
    assert!(!out.join("packages/dist").exists() && !out.join("local-linux").exists());
}

#[test]
fn a_set_with_errors_is_reported_and_never_published() {
    let out = place("unfit/out");
    let output = try_pipeline(&[
        "--sample",
        "--require-targets",
        "gfx950",
        "--output-dir",
        text(&out),
    ]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("RW304") && said.contains("fixes"), "{said}");
    assert!(said.lines().all(|line| !line.contains("\\n")), "{said}");
    assert!(out.join("packages/dist").exists() && !out.join("local-linux").exists());
}

#[test]
fn a_refused_set_is_taken_up_again_without_packing() {
    for set in sets() {
        let out = place("resumed/out");
        let source = set.source();
        let mut arguments: Vec<&str> = source.iter().map(String::as_str).collect();
        arguments.extend(["--output-dir", text(&out)]);
        is_taken_up_again(&arguments, &out);
    }
}

fn is_taken_up_again(arguments: &[&str], out: &Path) {
    let refused = try_pipeline(&[arguments, &["--require-targets", "gfx950"]].concat());
    let said = String::from_utf8(refused.stderr).unwrap();
    let packages = out.join("packages");
    let told = format!(
        "the packages are in `{}`: the same command with `--resume`",
        packages.display()
    );
    assert!(said.contains(&told), "{said}");
    let wheel = packages.join("dist/rocm_sdk_core-0.0.1.dev0-py3-none-linux_x86_64.whl");
    let before = fs_err::metadata(&wheel).unwrap().modified().unwrap();
    fs_err::remove_dir_all(out.join("artifacts")).unwrap();
    let resumed = [arguments, &["--resume"]].concat();
    let output = try_pipeline(&resumed);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("Resumed") && !said.contains("Packed"),
        "{said}"
    );
    assert_eq!(
        fs_err::metadata(&wheel).unwrap().modified().unwrap(),
        before
    );
    let published = out.join("local-linux/python");
    assert!(published.join("set.json").exists() && !out.join("artifacts").exists());

    let added = packages.join("dist/rocm_extra-0.0.1.dev0-py3-none-any.whl");
    fs_err::copy(&wheel, &added).unwrap();
    assert!(!try_pipeline(&resumed).status.success());
    fs_err::remove_file(added).unwrap();
    let mut bytes = fs_err::read(&wheel).unwrap();
    bytes[100] ^= 1;
    fs_err::write(&wheel, bytes).unwrap();
    let other = try_pipeline(&resumed);
    let said = String::from_utf8(other.stderr).unwrap();
    assert!(
        said.contains("does not hold the set that `build` described there"),
        "{said}"
    );
}

#[test]
fn nothing_is_resumed_where_nothing_was_built() {
    let out = place("resumed/nothing");
    let output = try_pipeline(&["--sample", "--resume", "--output-dir", text(&out)]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    insta::assert_snapshot!(said.replace(text(&out), "OUT").trim_start_matches("Packages\n"), @"
    error: no finished packages in `OUT/packages`

    hint: run the same command without `--resume`
    ");
}

#[test]
fn a_list_accepts_what_would_refuse_the_set_until_its_day() {
    let out = place("accepted");
    let list = |until: &str| {
        let list = out.join(format!("{until}.toml"));
        let entry = format!(
            "[[accept]]\nrule = \"RW304\"\nsays = \"gfx950\"\nreason = \"later\"\nuntil = {until}\n"
        );
        fs_err::write(&list, entry).unwrap();
        list
    };
    let run = |until: &str, more: &[&str]| {
        let (list, out) = (list(until), out.join("out"));
        let arguments = [
            &["--require-targets", "gfx950", "--accept", text(&list)],
            &["--output-dir", text(&out)][..],
            more,
        ];
        let output = try_pipeline(&arguments.concat());
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), said)
    };
    let (code, said) = run("2020-02-02", &["--sample"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("was accepted until 2020-02-02"), "{said}");
    assert!(!out.join("out/local-linux").exists());
    let (code, said) = run("2999-12-31", &["--sample", "--resume"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("OK, no problems, 1 accepted"), "{said}");
    assert!(out.join("out/local-linux/python/set.json").exists());
}

/// In a workflow the log is where people look; annotations show some findings of each rule.
#[test]
fn in_a_workflow_the_log_has_every_finding() {
    let out = place("unfit/workflow");
    let targets = "gfx950,gfx90a,gfx1030,gfx1101,gfx1102,gfx1200,gfx1201,gfx908";
    let arguments = [
        "--sample",
        "--require-targets",
        targets,
        "--output-dir",
        text(&out),
    ];
    let mut command = crate::support::program::command();
    command
        .env("GITHUB_ACTIONS", "true")
        .arg("pipeline")
        .args(arguments);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    for target in targets.split(',') {
        let is_finding = |line: &&str| !line.starts_with("::") && line.contains("RW304");
        let mut findings = said.lines().filter(is_finding);
        assert!(
            findings.any(|line| line.contains(target)),
            "{target}\n{said}"
        );
    }
    assert_eq!(output.status.code(), Some(1));
    let annotations: Vec<&str> = said
        .lines()
        .filter(|it| it.starts_with("::error"))
        .collect();
    assert_eq!(annotations.len(), 2, "{said}");
    assert!(
        annotations[0].starts_with("::error title=RW304 required-target::")
            && annotations[0].contains("%0Aand 3 more in the log%0A"),
        "{said}"
    );
    assert!(!out.join("local-linux").exists());
}
