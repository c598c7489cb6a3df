//! What `check` answers, in each form, and what the flags change.

use super::{Outcome, Set, add, run, sample};
use crate::support::{place::text, published::sets};

fn shown(set: &Set, arguments: &[&str]) -> String {
    let Outcome { code, stdout, stderr } = set.check(arguments);
    let said = format!("exit {code}\n--- stdout\n{stdout}--- stderr\n{stderr}");
    said.replace(set.place(), "[set]")
}

/// What is said of a place that is no set.
fn outcome(place: &str) -> String {
    let said = run(&["check", place]);
    assert_eq!(said.code, 2);
    said.stderr
}

fn broken() -> Set {
    let set = Set::new();
    set.remove("rocm_sdk_device_gfx1100");
    for name in ["a", "b"] {
        set.add("rocm_sdk_core", &format!("_rocm_sdk_core/lib/{name}.pdb"));
    }
    set
}

#[test]
fn no_set_has_a_finding_as_it_was_built_or_published() {
    for set in sets() {
        for place in [set.dist(), set.place()] {
            let said = run(&["check", text(&place), "--fail-on", "warning"]);
            let clean = format!("OK, no problems in {} packages\n", set.packages());
            assert!(said.stdout.ends_with(&clean), "{}: {}", set.name, said.stdout);
            assert_eq!(said.code, 0);
        }
    }
}

#[test]
fn findings_are_listed_by_package_with_ways_out_and_on_github_each_rule_is_one_annotation() {
    insta::assert_snapshot!(shown(&broken(), &["--format", "github", "--no-progress"]), @"
    exit 1
    --- stdout
    rocm-0.99.1.dev0.tar.gz
      error   RW202 missing-device-wheel: it has an extra for `rocm-sdk-device-gfx1100`, which is not in the set
    rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl
      warning RW605 debug-leftover: `_rocm_sdk_core/lib/a.pdb`: a leftover of building or debugging
      warning RW605 debug-leftover: `_rocm_sdk_core/lib/b.pdb`: a leftover of building or debugging

         1 error   RW202 missing-device-wheel
                   build the device package of the target, or build `rocm` without the target
         2 warning RW605 debug-leftover
                   leave the file to the `dbg` artifacts

    1 error, 2 warnings in 6 packages
    --- stderr
    ::error title=RW202 missing-device-wheel::rocm-0.99.1.dev0.tar.gz: it has an extra for `rocm-sdk-device-gfx1100`, which is not in the set%0Afix: build the device package of the target, or build `rocm` without the target
    ::warning title=RW605 debug-leftover::rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl: _rocm_sdk_core/lib/a.pdb: a leftover of building or debugging%0Arocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl: _rocm_sdk_core/lib/b.pdb: a leftover of building or debugging%0Afix: leave the file to the `dbg` artifacts
    error: check: 1 error in the package set

    hint: `rocwheel check explain RW202` explains a rule; `--accept FILE` accepts findings that are known, and `--ignore` skips a rule
    ::error title=check%3A 1 error in the package set::hint: `rocwheel check explain RW202` explains a rule; `--accept FILE` accepts findings that are known, and `--ignore` skips a rule
    ");
}

#[test]
fn json_has_findings_and_coverage() {
    insta::assert_snapshot!(shown(&broken(), &["--format", "json", "-q"]), @r#"
    exit 1
    --- stdout
    {"schema":"rocwheel-check-v1","packages":6,"errors":1,"warnings":2,"findings":[{"id":"RW202","name":"missing-device-wheel","severity":"error","file":"rocm-0.99.1.dev0.tar.gz","member":null,"fact":"it has an extra for `rocm-sdk-device-gfx1100`, which is not in the set","way-out":"build the device package of the target, or build `rocm` without the target"},{"id":"RW605","name":"debug-leftover","severity":"warning","file":"rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl","member":"_rocm_sdk_core/lib/a.pdb","fact":"a leftover of building or debugging","way-out":"leave the file to the `dbg` artifacts"},{"id":"RW605","name":"debug-leftover","severity":"warning","file":"rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl","member":"_rocm_sdk_core/lib/b.pdb","fact":"a leftover of building or debugging","way-out":"leave the file to the `dbg` artifacts"}],"accepted":[],"coverage":{"targets":["gfx942"],"libraries":{"libhipblaslt.so.1.0":{"gfx942":{"files":0,"code-objects":2,"bytes":65556}},"librccl.so.1.0":{"gfx942":{"files":0,"code-objects":1,"bytes":32778}},"librocblas.so.5.1":{"gfx942":{"files":0,"code-objects":4,"bytes":131112}},"rocblas":{"gfx942":{"files":6,"code-objects":0,"bytes":65797}}}}}
    --- stderr
         Checked 6 packages: 1 error, 2 warnings
    error: check: 1 error in the package set

    hint: `rocwheel check explain RW202` explains a rule; `--accept FILE` accepts findings that are known, and `--ignore` skips a rule
    "#);
}

/// A set with eleven leftovers, in two packages.
fn littered() -> Set {
    let set = Set::new();
    for (wheel, count) in [("rocm_sdk_core", 9), ("rocm_profiler", 2)] {
        set.edit(wheel, |members| {
            for at in 0..count {
                add(members, &format!("_{wheel}/{at}.pdb"), "1");
            }
        });
    }
    set
}

#[test]
fn ten_findings_of_a_rule_are_shown_and_all_where_they_are_asked_for_or_logged() {
    let set = littered();
    insta::assert_snapshot!(shown(&set, &["--no-progress", "--fail-on", "warning"]), @"
    exit 1
    --- stdout
    rocm_profiler-0.99.1.dev0-py3-none-linux_x86_64.whl
      warning RW605 debug-leftover: `_rocm_profiler/0.pdb`: a leftover of building or debugging
      warning RW605 debug-leftover: `_rocm_profiler/1.pdb`: a leftover of building or debugging
    rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl
      warning RW605 debug-leftover: `_rocm_sdk_core/0.pdb`: a leftover of building or debugging
      warning RW605 debug-leftover: `_rocm_sdk_core/1.pdb`: a leftover of building or debugging
      warning RW605 debug-leftover: `_rocm_sdk_core/2.pdb`: a leftover of building or debugging
      warning RW605 debug-leftover: `_rocm_sdk_core/3.pdb`: a leftover of building or debugging
      warning RW605 debug-leftover: `_rocm_sdk_core/4.pdb`: a leftover of building or debugging
      warning RW605 debug-leftover: `_rocm_sdk_core/5.pdb`: a leftover of building or debugging
      warning RW605 debug-leftover: `_rocm_sdk_core/6.pdb`: a leftover of building or debugging
      warning RW605 debug-leftover: `_rocm_sdk_core/7.pdb`: a leftover of building or debugging
    …and 1 more of RW605 (`--all`)

        11 warning RW605 debug-leftover
                   leave the file to the `dbg` artifacts

    11 warnings in 7 packages
    --- stderr
         Checked 7 packages: 11 warnings
    error: check: 11 findings in the package set

    hint: `rocwheel check explain RW605` explains a rule; `--accept FILE` accepts findings that are known, and `--ignore` skips a rule
    ");
    let all = |arguments: &[&str]| shown(&set, arguments).matches("debug-leftover: `").count();
    assert_eq!(all(&["--all"]), 11);
    assert_eq!(all(&["--format", "github"]), 11);
}

#[test]
fn the_answer_is_coloured_by_what_was_found() {
    let said = |set: &Set, arguments: &[&str]| {
        let said = set.check(&[arguments, &["--color", "always", "--no-progress"]].concat());
        said.stderr.lines().next().unwrap().replace('\u{1b}', "")
    };
    let warned = said(&littered(), &["--select", "RW6"]);
    let lines = [said(&Set::new(), &[]), warned, said(&broken(), &[])];
    insta::assert_snapshot!(lines.join("\n"), @"
    [1m[32m     Checked[0m 7 packages: OK, no problems
    [1m[33m     Checked[0m 7 packages: 11 warnings
    [1m[31m     Checked[0m 6 packages: 1 error, 2 warnings
    ");
}

#[test]
fn a_rule_is_explained_as_docs_checks_md_does() {
    let explained = |rules: &[&str]| run(&[&["check", "explain"], rules].concat()).ok();
    insta::assert_snapshot!(explained(&["RW405", "runpath"]), @"
    RW403 runpath (warning)

    DT_RUNPATH is searched after `LD_LIBRARY_PATH`, and is not used for indirect dependencies.

    For example: an older ROCm in `LD_LIBRARY_PATH` wins over the one that was installed.

    Fix: build with rocwheel, which writes DT_RPATH.

    RW405 too-new-a-host (error)

    A file needs a symbol version of glibc, libstdc++ or the C++ ABI that is newer than on hosts with glibc 2.28,
    for which the packages are built.

    For example: a library was built on Ubuntu 24.04, and needs `GLIBC_2.38`.

    Fix: build on an older system, or accept the finding and document it.
    ");
    assert_eq!(explained(&["RW8"]).matches("Fix: ").count(), 3);
}

/// A list for `--accept`, with a directory to keep it in.
fn list(text: &str) -> (tempfile::TempDir, String) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("known.toml");
    fs_err::write(&file, text).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (place, file)
}

#[test]
fn what_a_list_accepts_does_not_count() {
    let set = broken();
    let (_place, file) = list("");
    let strict = ["--fail-on", "warning", "--no-progress"];
    set.check(&["--write-accept", &file]).ok();
    let text = fs_err::read_to_string(&file).unwrap();
    let dates = regex::Regex::new(r"until = 20\d\d-\d\d-\d\d").unwrap();
    insta::assert_snapshot!(dates.replace_all(&text, "until = [date]"), @r#"
    # Findings that are known: docs/checks.md says what each key means.

    [[accept]]
    rule = "RW202"
    package = "rocm"
    says = "it has an extra for `rocm-sdk-device-gfx1100`, which is not in the set"
    reason = "known when this list was written"
    until = [date]

    [[accept]]
    rule = "RW605"
    package = "rocm-sdk-core"
    paths = [
        "_rocm_sdk_core/lib/a.pdb",
        "_rocm_sdk_core/lib/b.pdb",
    ]
    says = "a leftover of building or debugging"
    reason = "known when this list was written"
    until = [date]
    "#);
    let answer = shown(&set, &[&strict[..], &["--accept", &file]].concat());
    insta::assert_snapshot!(answer, @"
    exit 0
    --- stdout
    OK, no problems, 3 accepted in 6 packages
    --- stderr
         Checked 6 packages: OK, no problems, 3 accepted
    ");
    set.add("rocm_sdk_core", "_rocm_sdk_core/lib/c.pdb");
    insta::assert_snapshot!(set.found(&[&strict[..], &["--accept", &file]].concat()), @"
    exit 1
    rocm_sdk_core.whl
      warning RW605 debug-leftover: `_rocm_sdk_core/lib/c.pdb`: a leftover of building or debugging
    ");
}

/// Opening a pipe waits for its writer, and nothing ends that.
#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_list_is_refused_at_once() {
    let set = broken();
    let (place, _) = list("");
    let pipe = place.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for flag in ["--accept", "--baseline"] {
        let said = set.check(&[flag, pipe.to_str().unwrap()]);
        assert_eq!(said.code, 2, "{flag}: {}", said.stderr);
    }
}

#[test]
fn a_new_list_replaces_no_file_of_somebody_else() {
    let set = broken();
    let (_place, file) = list("# the reasons of a colleague\n");
    let said = set.check(&["--write-accept", &file]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(said.stderr.replace(&file, "known.toml"), @"
    error: `known.toml` exists, and is not the list of `--accept`

    hint: name another file; or pass `--accept known.toml` too, which keeps the reasons that it has
    ");
    assert_eq!(fs_err::read_to_string(&file).unwrap(), "# the reasons of a colleague\n");
    // What the hint says.
    set.check(&["--write-accept", &file, "--accept", &file]).ok();
    assert_has!(fs_err::read_to_string(&file).unwrap(), "RW202");
}

#[test]
fn entries_that_match_nothing_or_have_expired_are_reported() {
    let (_place, file) = list(
        "[[accept]]\nrule = \"RW202\"\nreason = \"a\"\nuntil = 2026-01-01\n\
         [[accept]]\nrule = \"debug-leftover\"\npackage = \"rocm-profiler\"\nreason = \"b\"\nuntil = 9999-12-31\n\
         [[accept]]\nrule = \"RW7\"\nreason = \"c\"\nuntil = 9999-12-31\n",
    );
    let said = broken().check(&["--accept", &file, "--no-progress"]);
    assert_eq!(said.code, 1);
    insta::assert_snapshot!(said.stderr.replace(&file, "known.toml"), @"
    warning: the entry for RW202 was accepted until 2026-01-01: remove it from `known.toml`, or write it again
    warning: the entry for debug-leftover of `rocm-profiler` matches nothing: remove it from `known.toml`, or write it again
         Checked 6 packages: 1 error, 2 warnings
    error: check: 1 error in the package set

    hint: `rocwheel check explain RW202` explains a rule; `--accept FILE` accepts findings that are known, and `--ignore` skips a rule
    ");
    let (_place, file) = list("[[accept]]\nrule = \"RW202\"\n");
    let said = broken().check(&["--accept", &file]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(said.stderr.replace(&file, "known.toml"), @"
    error: failed to read `known.toml`
      caused by: TOML parse error at line 1, column 1
      |
    1 | [[accept]]
      | ^^^^^^^^^^
    missing field `reason`

    hint: write a list with `rocwheel check --write-accept`, and edit it
    ");
}

#[test]
#[ignore = "slow"]
fn upload_index_and_summary_accept_what_a_list_names() {
    let set = Set::new();
    set.remove("rocm_sdk_device_gfx1100");
    let (place, file) = list("");
    set.check(&["--write-accept", &file]);
    let to = place.path().to_str().unwrap();
    let upload = "upload --multi-target --run-id=1 --bucket=mine --dry-run --output-dir";
    let upload: Vec<&str> = upload.split(' ').chain([to, set.place()]).collect();
    for line in [&upload[..], &["index", set.place()]] {
        assert_eq!(run(line).code, 1);
        run(&[line, &["--accept", &file]].concat()).ok();
    }
    let page = run(&["summary", set.place(), "--check", "--accept", &file]).ok();
    assert_has!(page, "**check: OK, no problems, 1 accepted**");
}

#[test]
fn rules_are_selected_and_ignored() {
    let set = broken();
    assert_eq!(set.found(&["--select", "RW3"]), "exit 0\n");
    assert_eq!(set.found(&["--ignore", "RW2,debug-leftover"]), "exit 0\n");
    let set = Set::new();
    set.add("rocm_sdk_core", "_rocm_sdk_core/a.pdb");
    assert!(set.found(&[]).starts_with("exit 0\n"));
    assert!(set.found(&["--fail-on", "warning"]).starts_with("exit 1\n"));
}

#[test]
fn what_cannot_be_tried_is_said_in_words() {
    let set = Set::new();
    let empty = tempfile::tempdir().unwrap();
    let wrong = [["--select", "RW999"], ["--require-targets", "gfx9999"]];
    let refused = [
        wrong.map(|flags| set.check(&flags).stderr).concat(),
        outcome(text(empty.path())).replace(text(empty.path()), "[set]"),
        outcome("tests/nowhere-1-py3-none-any.whl"),
        outcome(sample().join("rocm-0.99.1.dev0.tar.gz").to_str().unwrap()),
        outcome("Cargo.toml"),
    ];
    let refused = refused.map(|it| it.replace(sample().to_str().unwrap(), "[sample]"));
    insta::assert_snapshot!(refused.concat(), @r#"
    error: invalid value 'RW999' for '--select <IDS>': no rule is called that: "RW999"

    For more information, try '--help'.
    error: invalid value 'gfx9999' for '--require-targets <LIST>': unknown GPU target or family: `gfx9999`; `rocwheel targets all --emit table` lists targets and families

    For more information, try '--help'.
    error: no wheel or sdist in `[set]`

    hint: pass the directory that `rocwheel build` wrote to
    error: no such directory: `tests/nowhere-1-py3-none-any.whl`

    hint: pass the directory that `rocwheel build` wrote to
    error: `[sample]/rocm-0.99.1.dev0.tar.gz` is one package, and not a set

    hint: pass the directory that it lies in
    error: `Cargo.toml` is one file, and not a set

    hint: pass the directory that it lies in
    "#);
}

#[test]
fn a_required_target_has_a_wheel_and_an_extra() {
    let set = Set::new();
    let whole = set.found(&["--require-targets", "gfx94X-dcgpu"]);
    assert_eq!(whole, "exit 0\n");
    insta::assert_snapshot!(set.found(&["--require-targets", "gfx90a,gfx942:xnack+"]), @"
    exit 1
    the set
      error   RW304 required-target: no device wheel for `gfx90a`
    ");
}

#[test]
fn any_number_of_threads_says_the_same() {
    let set = broken();
    let alone = shown(&set, &["--jobs", "1", "--no-progress"]);
    for jobs in ["2", "3", "16"] {
        assert_eq!(shown(&set, &["--jobs", jobs, "--no-progress"]), alone);
    }
}
