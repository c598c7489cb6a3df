//! What is not promoted, and what is said then.

use std::path::Path;

use rocwheel::digest::Sha256;

use super::{assert_same, built, digests, fresh, promote};
use crate::support::{
    demo::DemoWheel,
    members::{record, unzip, zipped},
    place::{copy_files, text},
    published,
};

/// The code and the message. Nothing is written.
fn refusal(from: &Path, line: &str) -> String {
    let to = fresh("refused");
    let outcome = promote(from, &format!("--into {} {line}", text(&to)));
    assert!(!to.exists());
    let said = outcome.stderr.lines();
    let said = said.skip_while(|line| !line.starts_with("error"));
    let said = said.collect::<Vec<_>>().join("\n");
    let said = said.replace(text(from), "SET").replace(text(&to), "PLACE");
    format!("exit {}\n{said}\n", outcome.code)
}

/// A copy of the candidate to damage.
fn copy(name: &str) -> std::path::PathBuf {
    let copy = fresh(name);
    fs_err::create_dir_all(&copy).unwrap();
    let dist = built(published::sample(), "7.14.0rc1").join("dist");
    copy_files(&dist, &copy);
    copy
}

#[test]
fn versions_that_make_no_sense_are_refused() {
    let candidate = built(published::sample(), "7.14.0rc1");
    let release = built(published::sample(), "7.14.0");
    let said = [
        refusal(&candidate, "--to post1 --no-check"),
        refusal(&release, "--to release --no-check"),
        refusal(&published::sample().dist(), "--to release --no-check"),
        refusal(&candidate, "--to same --targets gfx950 --no-check"),
        refusal(&candidate, "--to 7.14.1"),
    ];
    insta::assert_snapshot!(said.concat(), @r#"
    exit 1
    error: 7.14.0rc1 cannot become `post1`: only a final release gets a `.post`
    exit 1
    error: 7.14.0 cannot become `release`: it is final already
    exit 1
    error: 0.0.1.dev0 cannot be promoted: the version is bound to a commit

    hint: build its artifacts under the other version with `rocwheel build --version`, or copy it with `--to same`
    exit 1
    error: no device package for gfx950 in the set

    hint: the set has gfx1100, gfx942
    exit 2
    error: invalid value '7.14.1' for '--to <GOAL>': not `release`, `rcN`, `postN` or `same`: "7.14.1"

    For more information, try '--help'.
    "#);
}

#[test]
fn sets_that_are_not_whole_are_refused() {
    let mixed = copy("mixed");
    let core = digests(&built(published::sample(), "7.14.0").join("dist"));
    let core = &core
        .iter()
        .find(|it| it.0.starts_with("rocm_sdk_core"))
        .unwrap()
        .0;
    let from = built(published::sample(), "7.14.0").join("dist");
    fs_err::copy(from.join(core), mixed.join(core)).unwrap();
    let lacking = copy("lacking");
    for entry in fs_err::read_dir(&lacking).unwrap() {
        let path = entry.unwrap().path();
        if text(&path).contains("device_gfx942") {
            fs_err::remove_file(path).unwrap();
        }
    }
    let torch = copy("torch");
    let mut wheel = DemoWheel::bare("torch");
    wheel.version = "2.12.0+rocm7.14.0rc1".to_owned();
    wheel.add("torch/__init__.py", "");
    wheel.write(&torch);
    let said = [
        refusal(&mixed, "--to release --no-check"),
        refusal(&lacking, "--to release"),
        refusal(&torch, "--to release --no-check"),
    ];
    insta::assert_snapshot!(said.concat(), @"
    exit 1
    error: packages of several versions, such as `rocm-7.14.0rc1.tar.gz` and `rocm_sdk_core-7.14.0-py3-none-linux_x86_64.whl`

    hint: promote one set; name its own directory, not that of a stream
    exit 1
    error: check: 1 error in the package set

    hint: `rocwheel check explain RW202` explains a rule; `--accept FILE` accepts findings that are known, and `--ignore` skips a rule
    exit 1
    error: 1 wheel cannot be tied
      `torch-2.12.0+rocm7.14.0rc1-py3-none-linux_x86_64.whl`: it has no binaries (nothing-to-tie)

    hint: pass `--extras` if its Python uses ROCm, or check that it is the right wheel
    ");
}

/// A text that the policy does not know, and a wheel that says of a member what is not true.
#[test]
fn wheels_that_would_be_wrong_are_refused() {
    let change = |name: &str, edit: &dyn Fn(&mut crate::support::members::Members)| {
        let set = copy(name);
        let file = fs_err::read_dir(&set).unwrap().map(|it| it.unwrap().path());
        let mut files = file.filter(|it| text(it).contains("rocm_sdk_core-"));
        let path = files.next().unwrap();
        let mut members = unzip(&fs_err::read(&path).unwrap());
        edit(&mut members);
        fs_err::write(&path, zipped(&members)).unwrap();
        refusal(&set, "--to release --no-check")
    };
    let left = change("left", &|members| {
        let note = b"ROCm 7.14.0rc1, and not 7.14.0rc12\n".to_vec();
        members.insert(
            0,
            ("_rocm_sdk_core/share/note.txt".to_owned(), 0o100_644, note),
        );
        record(members);
    });
    let unlisted = change("unlisted", &|members| {
        members.insert(0, ("_rocm_sdk_core/share/x".to_owned(), 0o100_644, vec![1]));
    });
    let other = change("other", &|members| {
        let own = members
            .iter_mut()
            .find(|it| it.0.ends_with("/METADATA"))
            .unwrap();
        let said = String::from_utf8(own.2.clone()).unwrap();
        own.2 = said
            .replace("Version: 7.14.0rc1", "Version: 7.14.0rc2")
            .into_bytes();
        record(members);
    });
    insta::assert_snapshot!([left, unlisted, other].concat(), @"
    exit 1
    error: 1 file would still name 7.14.0rc1
      `_rocm_sdk_core/share/note.txt` of `rocm_sdk_core-7.14.0rc1-py3-none-linux_x86_64.whl`

    hint: build the artifacts under the other version: `rocwheel build --version`
    exit 1
    error: failed to promote `rocm_sdk_core-7.14.0rc1-py3-none-linux_x86_64.whl`
      caused by: `_rocm_sdk_core/share/x` is not in RECORD
    exit 2
    error: failed to read `SET/rocm_sdk_core-7.14.0rc1-py3-none-linux_x86_64.whl`
      caused by: its metadata is that of another version: `7.14.0rc2`
    ");
}

#[test]
fn other_packages_that_are_there_are_not_replaced() {
    let candidate = built(published::sample(), "7.14.0rc1");
    let to = fresh("there");
    fs_err::create_dir_all(to.join("dist")).unwrap();
    let name = "rocm_sdk_core-7.14.0-py3-none-linux_x86_64.whl";
    fs_err::write(to.join("dist").join(name), "another").unwrap();
    let line = format!("--to release --no-check --into {}", text(&to));
    let outcome = promote(&candidate, &line);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(
        outcome
            .stderr
            .contains("already, with other bytes; nothing was changed")
    );
    assert_eq!(digests(&to).len(), 1);
}

/// Its wheels are hashed, and compared with what `set.json` says.
#[test]
#[ignore = "slow"]
fn a_set_from_elsewhere_is_promoted_only_as_it_is_described() {
    for set in published::sets() {
        let candidate = built(set, "7.14.0rc1");
        let found = fresh(&format!("elsewhere-{}", set.name));
        fs_err::create_dir_all(found.join("dist")).unwrap();
        copy_files(&candidate.join("dist"), &found.join("dist"));
        let described = fs_err::read_to_string(candidate.join("set.json")).unwrap();
        fs_err::write(found.join("set.json"), &described).unwrap();
        let to = fresh(&format!("elsewhere-{}-to", set.name));
        let line = format!("--to release --no-check --into {}", text(&to));
        promote(&found, &line).ok();
        assert_same(&to, &built(set, "7.14.0"));
        let record = fs_err::read_to_string(to.join("promotion.json")).unwrap();
        for (name, sha256) in digests(&found.join("dist")) {
            let line = format!("\"from-sha256\": \"{sha256}\"");
            assert!(record.contains(&line), "{name}");
        }
        // `set.json` is that of another build.
        let (_, sha256) = &digests(&found.join("dist"))[1];
        let other = Sha256::of(b"another").to_string();
        let described = described.replace(&sha256.to_string(), &other);
        fs_err::write(found.join("set.json"), described).unwrap();
        for line in ["--to release", "--to release --dry-run"] {
            let said = refusal(&found, line);
            assert!(
                said.starts_with("exit 1") && said.contains("RW702"),
                "{said}"
            );
        }
    }
}

/// Half a set, no set, and files of others.
#[test]
fn what_is_no_whole_set_is_refused() {
    let empty = fresh("no-set");
    fs_err::create_dir_all(&empty).unwrap();
    let others = fresh("others-only");
    fs_err::create_dir_all(&others).unwrap();
    crate::publish::packages::wheel(&others, "rocmfoo", "7.14.0rc1", "");
    let half = fresh("half-set");
    fs_err::create_dir_all(&half).unwrap();
    copy_files(&built(published::sample(), "7.14.0rc1").join("dist"), &half);
    fs_err::remove_file(half.join("rocm-7.14.0rc1.tar.gz")).unwrap();
    let said = [empty, others, half].map(|from| {
        let to = fresh("nothing");
        let outcome = promote(&from, &format!("--to release --into {}", text(&to)));
        assert_ne!(outcome.code, 0, "{}", outcome.stdout);
        assert!(!to.exists());
        let error = outcome.stderr.split("error: ").nth(1).unwrap_or_default();
        let error = error.replace(text(&from), "SET");
        format!(
            "exit {}\n{}\n",
            outcome.code,
            error.lines().next().unwrap_or_default()
        )
    });
    insta::assert_snapshot!(said.concat(), @"
    exit 2
    no wheel or sdist in `SET`
    exit 2
    no ROCm packages in the set
    exit 1
    check: 1 error in the package set
    ");
}
