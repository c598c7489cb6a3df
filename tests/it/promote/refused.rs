//! What is not promoted, and what is said then.

use super::{assert_same, built, copied, digests, edit, fresh, promote};
use crate::publish::packages;
use crate::support::{place::empty, prelude::*};

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

fn candidate() -> PathBuf {
    built(sample(), "7.14.0rc1")
}

/// A copy of the candidate to damage.
fn copy(name: &str) -> PathBuf {
    copied(&candidate(), name)
}

const CORE: &str = "rocm_sdk_core-7.14.0rc1-py3-none-linux_x86_64.whl";

#[test]
fn versions_that_make_no_sense_are_refused() {
    let release = built(sample(), "7.14.0");
    let said = [
        refusal(&candidate(), "--to post1 --no-check"),
        refusal(&release, "--to release --no-check"),
        refusal(&sample().dist(), "--to release --no-check"),
        refusal(&candidate(), "--to same --targets gfx950 --no-check"),
        refusal(&candidate(), "--to 7.14.1"),
    ];
    insta::assert_snapshot!(said.concat(), @r#"
    exit 1
    error: 7.14.0rc1 cannot become `post1`: only a final release gets a `.post`
    exit 1
    error: 7.14.0 cannot become `release`: it is final already
    exit 1
    error: 0.99.1.dev0 cannot be promoted: the version is bound to a commit

    hint: build its artifacts under the other version with `rocwheel build --version`, or copy it with `--to same`
    exit 1
    error: no device package for gfx950 in the set

    hint: the set has gfx1100, gfx942
    exit 2
    error: invalid value '7.14.1' for '--to <GOAL>': a version (`release` makes 7.14.0 of 7.14.0rc1); pass `release`, `rcN`, `postN` or `same`: "7.14.1"

    For more information, try '--help'.
    "#);
}

/// Two versions, sets without a package, a torch that nothing ties, no set, and files of others.
#[test]
fn sets_that_are_not_whole_are_refused() {
    let mixed = copy("mixed");
    let core = CORE.replace("rc1", "");
    let release = built(sample(), "7.14.0").join("dist");
    fs_err::copy(release.join(&core), mixed.join(core)).unwrap();
    let [device, selector] =
        ["rocm_sdk_device_gfx942-7.14.0rc1-py3-none-linux_x86_64.whl", "rocm-7.14.0rc1.tar.gz"]
            .map(|lacking| {
                let set = copy(&format!("without-{lacking}"));
                fs_err::remove_file(set.join(lacking)).unwrap();
                set
            });
    let torch = copy("torch");
    let mut wheel = DemoWheel::bare("torch");
    wheel.version = "2.12.0+rocm7.14.0rc1".to_owned();
    wheel.add("torch/__init__.py", "");
    wheel.write(&torch);
    let others = fresh("others-only");
    packages::wheel(&others, "rocmfoo", "7.14.0rc1", "");
    let said = [
        refusal(&mixed, "--to release --no-check"),
        refusal(&device, "--to release"),
        refusal(&selector, "--to release"),
        refusal(&torch, "--to release --no-check"),
        refusal(&empty("promote/no-set"), "--to release"),
        refusal(&others, "--to release"),
    ];
    insta::assert_snapshot!(said.concat(), @"
    exit 1
    error: packages of several versions, such as `rocm-7.14.0rc1.tar.gz` and `rocm_sdk_core-7.14.0-py3-none-linux_x86_64.whl`

    hint: promote one set; name its own directory, not the directory of a stream
    exit 1
    error: check: 1 error in the package set

    hint: `rocwheel check explain RW202` explains a rule; `--accept FILE` accepts findings that are known, and `--ignore` skips a rule
    exit 1
    error: check: 1 error in the package set

    hint: `rocwheel check explain RW205` explains a rule; `--accept FILE` accepts findings that are known, and `--ignore` skips a rule
    exit 1
    error: 1 wheel cannot be tied
      `torch-2.12.0+rocm7.14.0rc1-py3-none-linux_x86_64.whl`: it has no binaries (nothing-to-tie)
    exit 2
    error: no wheel or sdist in `SET`

    hint: pass the directory that `rocwheel build` wrote to
    exit 2
    error: no ROCm packages in the set

    hint: pass the directory that `rocwheel build` wrote to, or an index
    ");
}

/// A text that the policy does not know, and a wheel that says of a member what is not true.
#[test]
fn wheels_that_would_be_wrong_are_refused() {
    let change = |name: &str, change: &dyn Fn(&mut Members)| {
        let set = copy(name);
        edit(&set.join(CORE), change);
        refusal(&set, "--to release --no-check")
    };
    let left = change("left", &|members| {
        let note = b"ROCm 7.14.0rc1, and not 7.14.0rc12\n".to_vec();
        let path = "_rocm_sdk_core/share/note.txt".to_owned();
        members.insert(0, (path, 0o100_644, note));
        record(members);
    });
    let unlisted = change("unlisted", &|members| {
        members.insert(0, ("_rocm_sdk_core/share/x".to_owned(), 0o100_644, vec![1]));
    });
    let other = change("other", &|members| {
        let own = members.iter_mut().find(|it| it.0.ends_with("/METADATA")).unwrap();
        let said = String::from_utf8_lossy(&own.2);
        let said = said.replace("Version: 7.14.0rc1", "Version: 7.14.0rc2");
        own.2 = said.into_bytes();
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
      caused by: its metadata is of another version: `7.14.0rc2`
    ");
}

#[test]
fn other_packages_that_are_there_are_not_replaced() {
    let to = empty("promote/there");
    fs_err::create_dir(to.join("dist")).unwrap();
    fs_err::write(to.join("dist").join(CORE.replace("rc1", "")), "another").unwrap();
    let line = format!("--to release --no-check --into {}", text(&to));
    let said = promote(&candidate(), &line).refused(1);
    assert_has!(said, "already, with other bytes; nothing was changed");
    assert_eq!(digests(&to).len(), 1);
}

/// Its wheels are hashed, and compared with what `set.json` says.
#[test]
#[ignore = "slow"]
fn a_set_from_elsewhere_is_promoted_only_as_it_is_described() {
    for set in sets() {
        let candidate = built(set, "7.14.0rc1");
        let found = empty(&format!("promote/elsewhere-{}", set.name));
        fs_err::create_dir(found.join("dist")).unwrap();
        copy_files(&candidate.join("dist"), &found.join("dist"));
        let described = fs_err::read_to_string(candidate.join("set.json")).unwrap();
        fs_err::write(found.join("set.json"), &described).unwrap();
        let to = fresh(&format!("elsewhere-{}-to", set.name));
        let line = format!("--to release --no-check --into {}", text(&to));
        promote(&found, &line).ok();
        assert_same(&to, &built(set, "7.14.0"));
        let record = fs_err::read_to_string(to.join("promotion.json")).unwrap();
        let digests = digests(&found.join("dist"));
        for (_, sha256) in &digests {
            assert_has!(record, &format!("\"from-sha256\": \"{sha256}\""));
        }
        // `set.json` is of another build.
        let (sha256, other) = (digests[1].1.to_string(), Sha256::of(b"another").to_string());
        let described = described.replace(&sha256, &other);
        fs_err::write(found.join("set.json"), described).unwrap();
        for line in ["--to release", "--to release --dry-run"] {
            let said = refusal(&found, line);
            assert_has!(said, "exit 1\n", "RW702");
        }
    }
}

/// A directory has one set: with another one, its packages would be on no page.
#[test]
fn a_directory_with_another_version_keeps_it() {
    let to = fresh("kept");
    let earlier = built(sample(), "7.13.0rc1");
    promote(&earlier, &format!("--to same --into {}", text(&to))).ok();
    let before = contents(&to);
    let refused = promote(&candidate(), &format!("--to release --into {}", text(&to)));
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    let said = refused.stderr.replace(text(&to), "PLACE");
    let said = said.lines().skip_while(|line| !line.starts_with("error"));
    insta::assert_snapshot!(said.collect::<Vec<_>>().join("\n"), @"
    error: `PLACE` has 7.13.0rc1 for linux: with 7.14.0 for linux, no page would name 7 packages that are there; nothing was changed

    hint: publish at another place; `rocwheel promote --layout product` keeps the versions of a place side by side
    ");
    assert!(contents(&to) == before);
    rocwheel(&["check", text(&to)]).ok();
    // What the hint says: the versions of a place side by side.
    let to = fresh("side-by-side");
    for set in [&earlier, &candidate()] {
        promote(set, &format!("--to same --layout product --into {}", text(&to))).ok();
    }
    let cores = tree(&to)
        .into_iter()
        .filter(|path| path.contains("rocm_sdk_core-") && path.ends_with(".whl"));
    assert_eq!(cores.count(), 2);
}
