//! Many artifacts as one install tree: all of it, or nothing where two of them differ.

use rocwheel_wheel::tar::ArchiveFormat;

use super::{
    Fixture, count, refusal,
    tree::{Tree, difference, seen, tree},
};
use rocwheel_test_sets::{odd::ABSOLUTE, sample::sketch::compress};

use crate::support::prelude::*;

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

/// A run of nothing but these artifacts: `a: lib/x=1 lib/y->x; b: lib/z=1`.
fn run_of(artifacts: &str) -> Fixture {
    let fixture = Fixture::with(Vec::new());
    put(&fixture, artifacts);
    fixture
}

fn put(fixture: &Fixture, artifacts: &str) {
    for artifact in artifacts.split("; ") {
        let (name, entries) = artifact.split_once(": ").unwrap();
        let entries: Vec<&str> = entries.split(' ').collect();
        let path = format!("bucket/7-linux/{name}_lib_generic.tar.zst");
        fixture.t.write(&path, archive(&entries));
    }
}

fn flatten(fixture: &Fixture) -> Outcome {
    fixture.fetch("--run-id 7 --flatten --allow-incomplete")
}

/// The files and links of the tree with their content.
fn shown(fixture: &Fixture) -> String {
    let files = seen(&fixture.out()).into_iter();
    let files = files.filter(|(path, _)| !fixture.out().join(path).is_dir());
    let shown = files.map(|(path, (_, content))| {
        let content = String::from_utf8(content).unwrap();
        format!("{path}={content}")
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
#[ignore = "slow"]
fn every_set_becomes_one_tree_with_everything_in_it() {
    sets().into_iter().for_each(becomes_one_tree_with_everything_in_it);
}

fn becomes_one_tree_with_everything_in_it(set: &TestSet) {
    let fixture = Fixture::of(set);
    let count = set.archives().len();
    fixture.fetch("--run-id 7").done();
    let mut expected = Tree::new();
    for name in fixture.names() {
        let artifact = fixture.out().join(name);
        let manifest = fs_err::read_to_string(artifact.join("artifact_manifest.txt"));
        for stage in manifest.unwrap_or_default().lines() {
            expected.extend(tree(&artifact.join(stage)));
        }
    }
    fs_err::remove_dir_all(fixture.out()).unwrap();
    let said = fixture.fetch("--run-id 7 --flatten").done();
    // A symlink to an absolute path is left out, as of packages.
    let is_absolute = expected.remove(ABSOLUTE).is_some();
    let note = format!("symlink `{ABSOLUTE}` of artifact `base_run_generic` is left out");
    assert_eq!(said.stderr.contains(&note), is_absolute, "{}", said.stderr);
    said.says(&format!("Merged {count} artifacts"));
    assert_eq!(difference(&seen(&fixture.out()), &expected), [""; 0]);

    let whole = tree(&fixture.out());
    let again = fixture.fetch("--run-id 7 --flatten");
    again.says(&format!("; {count} there already"));
    assert_lacks!(again.stderr, "Merged");
    assert_eq!(difference(&tree(&fixture.out()), &whole), [""; 0]);
}

#[test]
fn what_differs_is_named_and_nothing_is_merged() {
    let mut said = String::new();
    for (there, artifacts) in [
        (
            "",
            "a: lib/x=1 lib/y->x lib/d/z=1 lib/same=1; b: lib/x=2 lib/y->z lib/d=1 lib/same=1; \
             c: !lib/c=1 lib/c=2",
        ),
        ("lib/y=1", "a: lib/x=1 lib/y=1"),
        ("", "a: !lib/x=1 lib/out->../../other/stage/lib/x"),
    ] {
        let fixture = run_of(artifacts);
        for (path, content) in there.split(' ').filter_map(|it| it.split_once('=')) {
            fixture.t.write(&format!("out/{path}"), content);
        }
        said += &refusal(&flatten(&fixture));
        assert_eq!(shown(&fixture), there);
    }
    insta::assert_snapshot!(said, @"
    1: 4 collisions, so nothing was merged | `lib/c` differs between `c_lib_generic/stage` and `c_lib_generic/other/stage` | `lib/d` differs between `a_lib_generic/stage` and `b_lib_generic/stage` | `lib/x` differs between `a_lib_generic/stage` and `b_lib_generic/stage` | `lib/y` differs between `a_lib_generic/stage` and `b_lib_generic/stage` | hint: leave one of them out with `--exclude`, or fetch without `--flatten`
    2: not empty: `out` | hint: choose another `--output-dir`: `--flatten` makes a tree in a new directory
    1: 1 collision, so nothing was merged | symlink `lib/out` of `a_lib_generic/stage` leads out of the tree: `../../other/stage/lib/x` | hint: leave one of them out with `--exclude`, or fetch without `--flatten`
    ");
}

#[test]
fn a_tree_is_made_once() {
    let fixture = run_of("a: lib/x=1; b: lib/x=2");
    refusal(&flatten(&fixture));
    // What was read before the refusal is not read again.
    put(&fixture, "b: lib/y=2");
    assert_eq!(count(&flatten(&fixture).done()), 1);
    assert_eq!(shown(&fixture), "lib/x=1 lib/y=2");
    let part = fixture.fetch("--run-id 7 --flatten --allow-incomplete b_lib");
    part.says("; 1 there already");
    put(&fixture, "b: lib/y=3");
    let mut said = refusal(&flatten(&fixture));
    put(&fixture, "b: lib/y=2; c: lib/z=3");
    said += &refusal(&flatten(&fixture));
    insta::assert_snapshot!(said, @"
    2: `out` is a tree of other artifacts | hint: choose another `--output-dir`, or remove this one
    2: `out` is a tree of other artifacts | hint: choose another `--output-dir`, or remove this one
    ");
    assert_eq!(shown(&fixture), "lib/x=1 lib/y=2");
}

/// The state after a kill between two renames of a complete tree.
#[test]
fn a_tree_that_is_half_in_its_place_is_finished() {
    let fixture = run_of("a: lib/x=1 bin/y=1");
    flatten(&fixture).done();
    let whole = tree(&fixture.out());
    let at = |name: &str| fixture.out().join(name);
    fs_err::create_dir_all(at(".rocwheel-fetch/tree")).unwrap();
    for name in ["lib", ".rocwheel-tree.json"] {
        fs_err::rename(at(name), at(".rocwheel-fetch/tree").join(name)).unwrap();
    }
    fixture.t.write("out/lib", "mine");
    let said = refusal(&flatten(&fixture));
    insta::assert_snapshot!(said, @"2: exists already: `out/lib` | hint: remove it, and run the same `rocwheel fetch` again");
    fs_err::remove_file(at("lib")).unwrap();
    flatten(&fixture).says("; 1 there already");
    assert_eq!(difference(&tree(&fixture.out()), &whole), [""; 0]);
}

#[test]
fn a_link_to_an_absolute_path_is_left_out_with_a_note() {
    let fixture = run_of("a: lib/x=1 lib/host->/etc/hostname lib/also->host");
    let said = flatten(&fixture).done();
    for link in ["lib/also", "lib/host"] {
        let link = format!("note: symlink `{link}` of artifact `a_lib_generic`");
        said.says(&format!("{link} is left out: it has an absolute target"));
    }
    assert_eq!(shown(&fixture), "lib/x=1");
    flatten(&fixture).says("; 1 there already");
}
