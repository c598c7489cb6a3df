//! Many artifacts as one install tree: all of it, or nothing where two of them differ.

use std::path::Path;

use fs_err as fs;
use rocwheel::archive::ArchiveFormat;

use super::{
    Fixture, Said,
    tree::{Tree, difference, seen, tree},
};
use crate::support::{
    odd::ABSOLUTE,
    published::{TestSet, sets},
    sample::sketch::compress,
};

/// An archive of `a_lib_generic`, of files in its `stage`: `lib/x=content`, `lib/y->x`.
pub(super) fn archive(entries: &[&str]) -> Vec<u8> {
    compress(ArchiveFormat::TarZst, tar(entries).as_slice()).unwrap()
}

pub(super) fn tar(entries: &[&str]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut add = |path: &str, content: &[u8], link: Option<&str>| {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        match link {
            None => tar.append_data(&mut header, path, content).unwrap(),
            Some(to) => {
                header.set_entry_type(tar::EntryType::Symlink);
                tar.append_link(&mut header, path, to).unwrap();
            }
        }
    };
    add("artifact_manifest.txt", b"stage\nother/stage\n", None);
    for entry in entries {
        if let Some((path, to)) = entry.split_once("->") {
            add(&format!("stage/{path}"), b"", Some(to));
        } else {
            let (path, content) = entry.split_once('=').unwrap();
            let path = path.replace('!', "../other/stage/");
            let path = format!("stage/{path}").replace("stage/../", "");
            add(&path, content.as_bytes(), None);
        }
    }
    tar.into_inner().unwrap()
}

/// A run of nothing but these artifacts.
fn run_of(artifacts: &[(&str, &[&str])]) -> Fixture {
    let fixture = Fixture::new();
    fs::remove_dir_all(fixture.run()).unwrap();
    fs::create_dir(fixture.run()).unwrap();
    for (name, entries) in artifacts {
        put(&fixture, name, entries);
    }
    fixture
}

fn put(fixture: &Fixture, name: &str, entries: &[&str]) {
    let path = fixture.run().join(format!("{name}.tar.zst"));
    fs::write(path, archive(entries)).unwrap();
}

fn flatten(fixture: &Fixture) -> Said {
    fixture.fetch("--run-id 7 --flatten --allow-incomplete")
}

/// The paths of files and links with their content.
fn shown(root: &Path) -> String {
    let files = seen(root)
        .into_iter()
        .filter(|(path, _)| !root.join(path).is_dir());
    let lines =
        files.map(|(path, (_, content))| format!("{path} {}", String::from_utf8(content).unwrap()));
    lines.collect::<Vec<_>>().join("\n")
}

fn refused(fixture: &Fixture) -> String {
    let said = flatten(fixture);
    assert_eq!(said.code, 1, "{}", said.stderr);
    let error = said.stderr.split_once("error: ").unwrap().1;
    error.to_owned()
}

#[test]
fn every_set_becomes_one_tree_with_everything_in_it() {
    sets()
        .into_iter()
        .for_each(becomes_one_tree_with_everything_in_it);
}

fn becomes_one_tree_with_everything_in_it(set: &TestSet) {
    let fixture = Fixture::of(set);
    let count = set.archives().len();
    assert_eq!(fixture.fetch("--run-id 7").code, 0);
    let mut expected = Tree::new();
    for artifact in fs::read_dir(fixture.out()).unwrap() {
        let artifact = artifact.unwrap().path();
        let Ok(manifest) = fs::read_to_string(artifact.join("artifact_manifest.txt")) else {
            continue;
        };
        for stage in manifest.lines() {
            expected.extend(tree(&artifact.join(stage)));
        }
    }
    fs::remove_dir_all(fixture.out()).unwrap();
    let said = fixture.fetch("--run-id 7 --flatten");
    assert_eq!(said.code, 0, "{}", said.stderr);
    // A symlink to an absolute path is left out, as of packages.
    let is_absolute = expected.remove(ABSOLUTE).is_some();
    let note = format!("symlink `{ABSOLUTE}` of artifact `base_run_generic` is left out");
    assert_eq!(said.stderr.contains(&note), is_absolute, "{}", said.stderr);
    assert!(
        said.stderr.contains(&format!("Merged {count} artifacts")),
        "{}",
        said.stderr
    );
    assert_eq!(difference(&seen(&fixture.out()), &expected), [""; 0]);

    let whole = tree(&fixture.out());
    let again = fixture.fetch("--run-id 7 --flatten");
    assert!(
        again.stdout.contains(&format!("; {count} there already")),
        "{}",
        again.stdout
    );
    assert!(!again.stderr.contains("Merged"), "{}", again.stderr);
    let lost = expected
        .iter()
        .find(|(path, _)| path.contains("hipblas.so"))
        .unwrap()
        .0;
    fs::remove_file(fixture.out().join(lost)).unwrap();
    let repaired = fixture.fetch("--run-id 7 --flatten");
    assert!(
        repaired.stderr.contains("Merged 1 artifact"),
        "{}",
        repaired.stderr
    );
    assert_eq!(difference(&tree(&fixture.out()), &whole), [""; 0]);
}

#[test]
fn two_artifacts_that_differ_about_a_path_are_named_and_nothing_is_merged() {
    let fixture = run_of(&[
        (
            "a_lib_generic",
            &["lib/x=1", "lib/y->x", "lib/d/z=1", "lib/same=1"],
        ),
        (
            "b_lib_generic",
            &["lib/x=2", "lib/y->z", "lib/d=1", "lib/same=1"],
        ),
        ("c_lib_generic", &["!lib/c=1", "lib/c=2"]),
    ]);
    insta::assert_snapshot!(refused(&fixture), @"
    4 collisions, so nothing was merged
      `lib/c` differs between `c_lib_generic/stage` and `c_lib_generic/other/stage`
      `lib/d` differs between `a_lib_generic/stage` and `b_lib_generic/stage`
      `lib/x` differs between `a_lib_generic/stage` and `b_lib_generic/stage`
      `lib/y` differs between `a_lib_generic/stage` and `b_lib_generic/stage`

    hint: leave one of them out with `--exclude`, or fetch without `--flatten`
    ");
    assert!(seen(&fixture.out()).is_empty());
    // What was read is not read again.
    put(&fixture, "b_lib_generic", &["lib/b=2"]);
    put(&fixture, "c_lib_generic", &["lib/c=2"]);
    let said = flatten(&fixture);
    assert_eq!(said.stderr.matches("Fetched").count(), 2, "{}", said.stderr);
    insta::assert_snapshot!(shown(&fixture.out()), @"
    lib/b 2
    lib/c 2
    lib/d/z 1
    lib/same 1
    lib/x 1
    lib/y x
    ");
}

#[test]
fn what_an_artifact_has_no_more_goes_unless_others_have_it() {
    let fixture = run_of(&[
        (
            "a_lib_generic",
            &[
                "lib/x=1",
                "lib/shared=1",
                "old/deep/z=1",
                "kind/was=1",
                "file=1",
            ],
        ),
        ("b_lib_generic", &["lib/shared=1", "lib/b=1"]),
    ]);
    assert_eq!(flatten(&fixture).code, 0);
    put(
        &fixture,
        "a_lib_generic",
        &["lib/x=22", "kind=1", "file/now=1"],
    );
    let said = flatten(&fixture);
    assert_eq!(said.code, 0, "{}", said.stderr);
    insta::assert_snapshot!(shown(&fixture.out()), @"
    file/now 1
    kind 1
    lib/b 1
    lib/shared 1
    lib/x 22
    ");
    assert!(!fixture.out().join("old").exists());
}

#[test]
fn a_file_may_move_to_another_artifact() {
    let fixture = run_of(&[
        ("a_lib_generic", &["lib/x=1", "lib/moves=1"]),
        ("b_lib_generic", &["lib/b=1"]),
    ]);
    assert_eq!(flatten(&fixture).code, 0);
    put(&fixture, "a_lib_generic", &["lib/x=1"]);
    put(&fixture, "b_lib_generic", &["lib/b=1", "lib/moves=22"]);
    let said = flatten(&fixture);
    assert_eq!(said.code, 0, "{}", said.stderr);
    insta::assert_snapshot!(shown(&fixture.out()), @"
    lib/b 1
    lib/moves 22
    lib/x 1
    ");
}

#[test]
fn what_no_artifact_has_is_not_overwritten() {
    let fixture = run_of(&[("a_lib_generic", &["lib/x=1", "lib/y=1"])]);
    fs::create_dir_all(fixture.out().join("lib")).unwrap();
    fs::write(fixture.out().join("lib/x"), "mine").unwrap();
    fs::write(fixture.out().join("lib/y"), "1").unwrap();
    insta::assert_snapshot!(refused(&fixture), @"
    1 collision, so nothing was merged
      `lib/x` of `a_lib_generic/stage` exists already and belongs to no artifact

    hint: leave one of them out with `--exclude`, or fetch without `--flatten`
    ");
    assert_eq!(fs::read(fixture.out().join("lib/x")).unwrap(), b"mine");
}

#[test]
fn a_link_that_would_lead_out_of_the_tree_is_refused() {
    let fixture = run_of(&[(
        "a_lib_generic",
        &["!lib/x=1", "lib/out->../../other/stage/lib/x"],
    )]);
    insta::assert_snapshot!(refused(&fixture), @"
    1 collision, so nothing was merged
      symlink `lib/out` of `a_lib_generic/stage` leads out of the tree: `../../other/stage/lib/x`

    hint: leave one of them out with `--exclude`, or fetch without `--flatten`
    ");
}

#[test]
fn a_link_to_an_absolute_path_is_left_out_with_a_note() {
    let links = ["lib/x=1", "lib/host->/etc/hostname", "lib/also->host"];
    let fixture = run_of(&[("a_lib_generic", &links)]);
    let said = flatten(&fixture);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let notes = said.stderr.lines().filter(|it| it.contains("symlink"));
    insta::assert_snapshot!(notes.collect::<Vec<_>>().join("\n"), @"
    note: symlink `lib/also` of artifact `a_lib_generic` is left out: it has an absolute target
    note: symlink `lib/host` of artifact `a_lib_generic` is left out: it has an absolute target
    ");
    assert_eq!(shown(&fixture.out()), "lib/x 1");
    let again = flatten(&fixture);
    assert!(
        again.stdout.contains("; 1 there already"),
        "{}",
        again.stdout
    );
}

#[test]
fn a_later_artifact_joins_a_tree_that_is_there() {
    let fixture = run_of(&[("a_lib_generic", &["lib/x=1"])]);
    assert_eq!(flatten(&fixture).code, 0);
    fs::remove_file(fixture.run().join("a_lib_generic.tar.zst")).unwrap();
    put(&fixture, "b_lib_generic", &["lib/x=2"]);
    insta::assert_snapshot!(refused(&fixture), @"
    1 collision, so nothing was merged
      `lib/x` differs between `a_lib_generic` and `b_lib_generic/stage`

    hint: leave one of them out with `--exclude`, or fetch without `--flatten`
    ");
    put(&fixture, "b_lib_generic", &["lib/x=1", "lib/b=1"]);
    assert_eq!(flatten(&fixture).code, 0);
    insta::assert_snapshot!(shown(&fixture.out()), @"
    lib/b 1
    lib/x 1
    ");
}

#[test]
fn a_tree_and_archives_are_not_made_at_once() {
    let said = Fixture::new().fetch("--run-id 7 --flatten --no-extract");
    assert_eq!(said.code, 2);
}
