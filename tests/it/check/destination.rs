//! A set and the place of a run that it goes to: `check`, `upload` and `pipeline` say the same.

use crate::fetch::Fixture;
use crate::support::{prelude::*, published::sample, sandbox::Sandbox};

/// With the sample as `build` leaves it, in `packages`.
fn sandbox() -> Sandbox {
    let t = Sandbox::new();
    fs_err::create_dir_all(t.path("packages/dist")).unwrap();
    copy_files(&sample().dist(), &t.path("packages/dist"));
    let document = sample().root().join("packages/set.json");
    fs_err::copy(document, t.path("packages/set.json")).unwrap();
    t
}

/// With the sample as a set of run 7.
fn of_run_7() -> Sandbox {
    let t = sandbox();
    let text = t.read("packages/set.json");
    assert_has!(text, r#""run-id": "local""#);
    t.write("packages/set.json", text.replace(r#""run-id": "local""#, r#""run-id": "7""#));
    t
}

fn upload(t: &Sandbox, more: &str) -> Outcome {
    t.run(&format!("upload packages --bucket mine --platform linux --output-dir out {more}"))
}

/// The exit code, and what is said about the set.
fn said(outcome: &Outcome) -> String {
    let text = outcome.all();
    let lines = text.lines().filter(|line| {
        let starts = ["exit", "  error", "  warning", "error:", "note:", "hint:"];
        starts.iter().any(|it| line.starts_with(it))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_group_has_the_targets_of_its_family() {
    let t = sandbox();
    let refused = upload(&t, "--run-id 8 --artifact-group gfx120X-all");
    insta::assert_snapshot!(said(&refused), @"
    exit 1
      error   RW317 missing-in-group: it has no packages for `gfx1200`, which is of `gfx120X-all`
      error   RW317 missing-in-group: it has no packages for `gfx1201`, which is of `gfx120X-all`
      warning RW318 not-of-group: it has packages for `gfx1100`, which is not of `gfx120X-all`
      warning RW318 not-of-group: it has packages for `gfx942`, which is not of `gfx120X-all`
    error: check: 2 errors in the package set
    hint: `rocwheel check explain RW317` explains a rule; `--accept FILE` accepts findings that are known, and `--ignore` skips a rule
    ");
    assert!(!t.path("out").exists());
    let warned = upload(&t, "--run-id 8 --artifact-group gfx94X-dcgpu");
    insta::assert_snapshot!(said(&warned), @"
    exit 0
      warning RW318 not-of-group: it has packages for `gfx1100`, which is not of `gfx94X-dcgpu`
    note: the set was built outside of CI: it is published as one of run 8
    ");
    for all in [
        "--multi-target",
        "--artifact-group multi-arch-release",
        "--artifact-group gfx950-dcgpu --ignore RW317",
    ] {
        assert_eq!(upload(&t, &format!("--run-id 9 {all}")).code, 0, "{all}");
    }
    // It is the same set when it is there.
    upload(&t, "--run-id 8 --artifact-group gfx120X-all --no-check").ok();
    let found = t.run("check out/8-linux/python/gfx120X-all");
    let of_upload = said(&refused);
    for line in said(&found).lines().filter(|it| it.contains("RW31")) {
        assert_has!(of_upload, line);
    }
    assert_eq!(found.code, 1);
}

#[test]
fn a_set_of_another_run_is_refused() {
    let t = of_run_7();
    let refused = upload(&t, "--run-id 8 --multi-target");
    insta::assert_snapshot!(said(&refused), @"
    exit 1
      error   RW215 other-run: it was built from run 7, and `8-linux` is the place of run 8
    error: check: 1 error in the package set
    hint: `rocwheel check explain RW215` explains a rule; `--accept FILE` accepts findings that are known, and `--ignore` skips a rule
    ");
    let list = "[[accept]]\nrule = \"RW215\"\nreason = \"copied\"\nuntil = 2999-01-01\n";
    t.write("known.toml", list);
    // The entry is not asked for where nothing is known of a run.
    let plain = t.run("check packages --accept known.toml").done();
    assert_lacks!(plain.stderr, "matches nothing");
    upload(&t, "--run-id 8 --multi-target --accept known.toml").ok();
    // Its own place, and a directory of this machine, are right.
    upload(&t, "--run-id 7 --multi-target").ok();
    upload(&t, "--multi-target").ok();
}

#[test]
fn a_set_of_this_machine_becomes_one_of_the_run() {
    let t = sandbox();
    let done = upload(&t, "--run-id 8 --multi-target").done();
    assert_has!(
        done.stderr,
        "note: the set was built outside of CI: it is published as one of run 8\n"
    );
    let place = "out/8-linux/python";
    assert_has!(t.read(&format!("{place}/set.json")), r#""run-id": "8""#);
    assert_has!(t.read(&format!("{place}/dist/index.html")), "/actions/runs/8\">8</a>");
    let local = upload(&t, "--multi-target").done();
    assert_lacks!(local.stderr, "outside of CI");
}

/// The manifest of artifacts that were copied to a run from another one names that one.
#[test]
fn the_run_that_artifacts_were_fetched_from_is_theirs() {
    let fixture = Fixture::new();
    let t = Sandbox::new();
    let bucket = fixture.bucket();
    let fetch = format!("fetch --run-id 7 --input-dir '{}' --output-dir artifacts", text(&bucket));
    t.run(&format!("{fetch} --platform linux --bucket mine")).ok();
    let manifest =
        "artifacts/base_lib_generic/base/aux-overlay/stage/share/therock/therock_manifest.json";
    if t.path(manifest).exists() {
        assert_lacks!(t.read(manifest), r#""github_run_id": "7""#);
    }
    t.run("build --artifact-dir artifacts --output-dir packages").ok();
    assert_has!(t.read("packages/set.json"), r#""run-id": "7""#);
    assert_eq!(upload(&t, "--run-id 8 --multi-target").code, 1);
    upload(&t, "--run-id 7 --multi-target").ok();
}

#[test]
fn a_pipeline_asks_before_it_publishes() {
    let fixture = Fixture::new();
    let t = Sandbox::new();
    let bucket = fixture.bucket();
    let line = format!(
        "pipeline --run-id 7 --input-dir '{}' --bucket mine --output-dir out --artifact-group gfx110X-all",
        text(&bucket)
    );
    let refused = t.run(&line);
    insta::assert_snapshot!(said(&refused), @"
    exit 1
      error   RW317 missing-in-group: it has no packages for `gfx1101`, which is of `gfx110X-all`
      error   RW317 missing-in-group: it has no packages for `gfx1102`, which is of `gfx110X-all`
      error   RW317 missing-in-group: it has no packages for `gfx1103`, which is of `gfx110X-all`
    error: check: 3 errors in the package set
    hint: `rocwheel check out/packages` looks at the packages again; with `--reuse out/packages`, and `--accept` or `--ignore` for findings that may stay, the same command builds nothing twice
    hint: `rocwheel check explain RW317` explains a rule; `--accept FILE` accepts findings that are known, and `--ignore` skips a rule
    ");
    assert!(!t.path("out/7-linux").exists());
    t.run(&format!("{line} --ignore missing-in-group")).ok();
}
