//! Artifacts that cannot be used: each is named, and nothing is left under a final name.

use rocwheel_base::atomic::lock::{Lock, LockPurpose};
use rocwheel_wheel::tar::ArchiveFormat;

use crate::support::prelude::*;
use rocwheel_test_sets::sample::sketch::compress;

/// An archive that ends early.
fn truncated(archives: &Path) {
    let cut = archives.join("blas_lib_generic.tar.zst");
    let bytes = fs_err::read(&cut).unwrap();
    fs_err::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
}

/// An archive with a file above its own directory.
fn hostile(archives: &Path) {
    let mut tar = tar::Builder::new(Vec::new());
    let manifest: &[u8] = b"stage\n";
    for (name, content) in [("artifact_manifest.txt", manifest), ("stage/../../../evil", b"evil")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // As an attacker would: the setter for names refuses this one.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        tar.append(&header, content).unwrap();
    }
    let tar = tar.into_inner().unwrap();
    let archive = compress(ArchiveFormat::TarZst, tar.as_slice()).unwrap();
    fs_err::write(archives.join("rand_dev_generic.tar.zst"), archive).unwrap();
}

/// Two artifacts that contradict each other.
fn contradicting(archives: &Path) {
    fs_err::remove_file(archives.join("rpp_lib_generic.tar.xz")).unwrap();
    let artifact = archives.join("rpp_lib_generic");
    fs_err::create_dir_all(artifact.join("stage/lib")).unwrap();
    fs_err::write(artifact.join("artifact_manifest.txt"), "stage\n").unwrap();
    let library = artifact.join("stage/lib/libhipblas.so.3.0");
    fs_err::write(library, "not what blas has").unwrap();
}

#[test]
#[ignore = "slow"]
fn artifacts_that_cannot_be_used_are_named_and_leave_nothing() {
    type Damage = fn(&Path);
    let cases: [(Damage, &str, &[&str]); 3] = [
        (truncated, "blas_lib_generic", &["error: failed to unpack `blas_lib_generic.tar.zst`"]),
        (
            hostile,
            "rand_dev_generic",
            &["error: failed to unpack `rand_dev_generic.tar.zst`", "../"],
        ),
        (
            contradicting,
            "rpp_lib_generic",
            &["`lib/libhipblas.so.3.0`", "blas_lib_generic", "hint: "],
        ),
    ];
    for (damage, artifact, parts) in cases {
        let t = Sandbox::new();
        sample().write_archives(&t.path("in"));
        damage(&t.path("in"));
        let refused = t.run("pipeline --artifact-dir in --output-dir out");
        assert_eq!(refused.code, 2, "{artifact}: {}", refused.stderr);
        for part in parts.iter().chain([&artifact]) {
            assert_has!(refused.stderr, *part);
        }
        let unpacked = format!("artifacts/{artifact}");
        for path in ["packages/dist", "local-linux", &unpacked] {
            assert!(!t.path("out").join(path).exists(), "{artifact}: {path}");
        }
        let mut left = contents(&t.path("")).into_keys();
        let is_left = |path: &String| path.contains(".part") || path.contains("evil");
        assert_eq!(left.find(is_left), None, "{artifact}");
    }
}

#[test]
fn files_of_others_stay_and_stop_a_pipeline() {
    let t = Sandbox::new();
    let thesis = "out/packages/dist/thesis.txt";
    t.write(thesis, "years");
    let pipeline = "pipeline --sample --output-dir out";
    let said = t.run(pipeline).refused(2);
    assert_has!(said, "that this set does not have, first `thesis.txt`", "pass `--clean`");
    assert_eq!(t.read(thesis), "years");
    t.run(&format!("{pipeline} --clean")).ok();
    assert!(!t.path(thesis).exists());

    // An artifact that somebody has fetched, under the name of one of the sample.
    let t = Sandbox::new();
    let real = "out/artifacts/rand_lib_generic/real.txt";
    t.write(real, "real");
    let said = t.run(pipeline).refused(2);
    assert_has!(
        said,
        "`out/artifacts/rand_lib_generic` is there already",
        "choose another `--output-dir`"
    );
    assert_eq!(t.read(real), "real");
    fs_err::remove_dir_all(t.path("out/artifacts/rand_lib_generic")).unwrap();
    t.run(pipeline).ok();
    t.run(pipeline).ok();
}

/// Both unpack to `artifacts` there. A dry run waits for none.
#[test]
#[ignore = "slow"]
fn two_commands_never_share_a_directory() {
    for (purpose, name) in [
        (LockPurpose::Pipeline, "another pipeline"),
        (LockPurpose::Build, "another build, or an index,"),
    ] {
        let t = Sandbox::new();
        fs_err::create_dir(t.path("out")).unwrap();
        let _other = Lock::to_write(&t.path("out"), purpose).unwrap();
        let refused = t.run("pipeline --sample --output-dir out");
        assert_eq!(refused.code, 2);
        let said = format!(
            "error: {name} is running in `out`\n\n\
             hint: wait until it has ended, or choose another `--output-dir`\n"
        );
        assert!(refused.stderr.ends_with(&said), "{}", refused.stderr);
        assert!(!t.path("out/artifacts").exists());
        t.run("pipeline --sample --output-dir out --dry-run").ok();
    }
}

#[test]
fn what_is_missing_is_said_in_words() {
    let t = Sandbox::new();
    fs_err::create_dir(t.path("empty")).unwrap();
    t.write("run.json", "{}");
    let said = [
        "--no-progress",
        "--artifact-dir empty",
        "--artifact-dir empty --dry-run",
        "--artifact-dir run.json",
    ]
    .map(|line| {
        let refused = t.run(&format!("pipeline --output-dir out {line}"));
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{line}");
        let start = refused.stderr.find("error: ").unwrap();
        format!("$ {line}\n{}", &refused.stderr[start..])
    });
    insta::assert_snapshot!(said.concat(), @"
    $ --no-progress
    error: no artifacts and no run were given

    hint: pass `--run-id`, `--commit`, `--pr`, `--branch`, `--latest`, `--artifact-dir` or `--sample`
    $ --artifact-dir empty
    error: no artifacts in `HERE/empty`, which is empty

    hint: fetch a run into it: `rocwheel fetch --run-id ID --output-dir HERE/empty`
    $ --artifact-dir empty --dry-run
    error: no artifacts in `HERE/empty`, which is empty

    hint: fetch a run into it: `rocwheel fetch --run-id ID --output-dir HERE/empty`
    $ --artifact-dir run.json
    error: not a directory: `run.json`

    hint: pass a directory
    ");
}

/// Nothing of a set with errors is published. The same command takes its packages over.
#[test]
#[ignore = "slow"]
fn a_refused_set_is_not_built_twice() {
    for set in sets() {
        let t = Sandbox::new();
        let line = format!("pipeline --output-dir out {}", set.source().join(" "));
        let refused = t.run(&format!("{line} --require-targets gfx950"));
        assert_eq!(refused.code, 1);
        for part in ["RW304", "build the target", "with `--reuse out/packages`"] {
            assert_has!(refused.stderr, part);
        }
        assert_lacks!(refused.stderr, "\\n");
        assert!(!t.path("out/local-linux").exists());
        let done = t.run(&format!("{line} --reuse out/packages"));
        assert_lacks!(done.stderr, "Packed rocm_sdk");
        done.ok();
        assert!(t.path("out/local-linux/python/set.json").exists());
    }
}

#[test]
#[ignore = "slow"]
fn a_list_accepts_what_would_refuse_the_set_until_its_day() {
    let t = Sandbox::new();
    let run = |until: &str, more: &str| {
        let entry = "[[accept]]\nrule = \"RW304\"\nsays = \"gfx950\"\nreason = \"later\"\n";
        t.write("list.toml", format!("{entry}until = {until}\n"));
        let line = "pipeline --sample --output-dir out --require-targets gfx950 --accept list.toml";
        let said = t.run(&format!("{line} {more}"));
        (said.code, said.stderr)
    };
    let (code, said) = run("2020-02-02", "");
    assert_eq!(code, 1, "{said}");
    assert_has!(said, "was accepted until 2020-02-02");
    assert!(!t.path("out/local-linux").exists());
    let (code, said) = run("2999-12-31", "--reuse out/packages");
    assert_eq!(code, 0, "{said}");
    assert_has!(said, "OK, no problems, 1 accepted");
    assert!(t.path("out/local-linux/python/set.json").exists());
}

/// In a workflow the log is where people look; annotations show some findings of each rule.
#[test]
#[ignore = "slow"]
fn in_a_workflow_the_log_has_every_finding() {
    let t = Sandbox::new().with("GITHUB_ACTIONS", "true");
    let targets = "gfx950,gfx90a,gfx1030,gfx1101,gfx1102,gfx1200,gfx1201,gfx908";
    let line = format!("pipeline --sample --output-dir out --require-targets {targets}");
    let refused = t.run(&line);
    assert_eq!(refused.code, 1);
    let said = refused.stdout + &refused.stderr;
    let findings = said.lines().filter(|line| !line.starts_with("::") && line.contains("RW304"));
    let findings: Vec<&str> = findings.collect();
    for target in targets.split(',') {
        assert!(findings.iter().any(|it| it.contains(target)), "{target}\n{said}");
    }
    let annotations = said.lines().filter(|it| it.starts_with("::error"));
    let annotations: Vec<&str> = annotations.collect();
    assert_eq!(annotations.len(), 2, "{said}");
    let (first, more) = (annotations[0], "%0Aand 3 more in the log%0A");
    assert!(first.starts_with("::error title=RW304 required-target::"), "{said}");
    assert!(first.contains(more), "{said}");
    assert!(!t.path("out/local-linux").exists());
}

#[test]
fn the_sample_is_for_linux_only() {
    let t = Sandbox::new();
    let said = t.run("pipeline --sample --platform windows --output-dir out").refused(2);
    insta::assert_snapshot!(said, @"
    error: the sample is for linux only, and not for windows

    hint: leave out `--platform`
    ");
    assert!(!t.path("out").exists());
}
