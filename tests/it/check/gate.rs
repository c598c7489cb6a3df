//! Nothing is published that was not checked: not in parts, not by `index`, not under another's name.

use super::{
    Outcome, Set, add,
    broken::edits::{link, tree},
    only, run, sample,
};
use crate::support::prelude::*;

/// A copy of the sample as `build` left it: `dist` with the `set.json` that describes it.
struct Built(Set, TempDir);

impl Built {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let mut dist = tempfile::Builder::new();
        let dist = dist.prefix("dist").rand_bytes(0).tempdir_in(&place);
        let set = Set(dist.unwrap());
        copy_files(&sample(), set.0.path());
        let page = sample().with_file_name("set.json");
        fs_err::copy(page, place.path().join("set.json")).unwrap();
        Self(set, place)
    }

    fn upload(&self, more: &[&str]) -> (i32, String) {
        let from = self.1.path();
        upload(from, &from.join("out"), more)
    }

    fn index(&self, more: &[&str]) -> (i32, String) {
        said(&[&["index", text(self.1.path())], more].concat())
    }

    fn published(&self) -> bool {
        self.1.path().join("out").exists()
    }
}

/// The exit code of `rocwheel`, and what it said.
fn said(arguments: &[&str]) -> (i32, String) {
    let Outcome { code, stderr, .. } = run(arguments);
    (code, stderr)
}

fn upload(from: &Path, to: &Path, more: &[&str]) -> (i32, String) {
    let upload = ["upload", "--platform", "linux", "--multi-target"];
    let places = [text(from), "--output-dir", text(to)];
    said(&[&upload, &places[..], more].concat())
}

#[test]
#[ignore = "slow"]
fn every_part_of_a_good_set_may_be_uploaded() {
    let dists = sets().map(|set| fs_err::read_dir(set.dist()).unwrap());
    for file in dists.into_iter().flatten().map(|it| it.unwrap().path()) {
        let place = tempfile::tempdir().unwrap();
        let part = place.path().join("part/dist");
        fs_err::create_dir_all(&part).unwrap();
        fs_err::copy(&file, part.join(file.file_name().unwrap())).unwrap();
        let to = place.path().join("out");
        let (code, text) = upload(part.parent().unwrap(), &to, &["--part"]);
        assert_eq!(code, 0, "{}: {text}", file.display());
    }
}

#[test]
fn a_part_that_is_broken_is_refused() {
    let set = Set::new();
    for package in ["rocm-", "rocm_sdk_core", "rocm_sdk_devel", "rocm_profiler"] {
        set.remove(package);
    }
    set.tamper("rocm_sdk_device_gfx942", |members| {
        add(members, "stray.py", "x = 1\n");
    });
    let to = set.0.path().join("out");
    let (code, text) = upload(set.0.path(), &to, &["--part"]);
    assert_eq!(code, 1, "{text}");
    assert_has!(text, "RW107 record-disagrees");
    // What is in other parts is not missing.
    assert_lacks!(text, "RW201");
    assert!(!to.exists());
    let (code, text) = upload(set.0.path(), &to, &["--part", "--no-check"]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_part_shows_what_dangles_in_its_tree_and_not_what_leads_to_another_part() {
    let set = Set::new();
    tree(&set, |entries| entries.push(link("lib/b", "gone")));
    for package in ["rocm-", "rocm_sdk_core", "rocm_profiler", "rocm_sdk_libraries"] {
        set.remove(package);
    }
    let (_, text) = upload(set.0.path(), &set.0.path().join("out"), &["--part"]);
    insta::assert_snapshot!(only("RW505 dangling-tree-link: ", &text), @"warning RW505 dangling-tree-link: `_rocm_sdk_devel/lib/b`: it leads to `gone`, which does not exist");
}

#[test]
fn half_a_set_gets_no_index() {
    let set = Set::new();
    set.remove("rocm_sdk_device_gfx942");
    let index = |more: &[&str]| said(&[&["index", set.place()], more].concat());
    for more in [&[][..], &["--dry-run"]] {
        let (code, text) = index(more);
        assert_eq!(code, 1, "{text}");
        assert_has!(text, "RW202 missing-device-wheel");
        assert!(!set.0.path().join("simple").exists());
    }
    let (code, text) = index(&["--ignore", "RW202"]);
    assert_eq!(code, 0, "{text}");
    // Pages of an earlier index are about to be written again, so they do not count.
    fs_err::write(set.0.path().join("index.html"), "<html></html>").unwrap();
    let (code, text) = index(&["--no-check"]);
    assert_eq!(code, 0, "{text}");
}

/// The same set in `dist` and beside it, each with another wheel missing: both directories are taken.
#[test]
#[ignore = "slow"]
fn what_is_indexed_is_what_is_checked() {
    let built = Built::new();
    let place = built.1.path();
    copy_files(&place.join("dist"), place);
    let remove = |directory: &Path, name: &str| {
        let mut entries = fs_err::read_dir(directory).unwrap();
        let is_it = |path: &std::path::PathBuf| path.to_str().unwrap().contains(name);
        let path = entries.find_map(|entry| Some(entry.unwrap().path()).filter(is_it));
        fs_err::remove_file(path.unwrap()).unwrap();
    };
    let index = || built.index(&["--dry-run"]);
    remove(place, "_device_gfx942");
    remove(&place.join("dist"), "_profiler");
    assert_eq!(index().0, 0);
    remove(&place.join("dist"), "_device_gfx942");
    let (code, text) = index();
    assert!(code == 1 && text.contains("RW202"), "{text}");
}

#[test]
#[ignore = "slow"]
fn a_wheel_of_another_build_is_refused() {
    let built = Built::new();
    let (code, text) = built.upload(&["--dry-run"]);
    assert_eq!(code, 0, "{text}");
    // Sound by itself, of the same name and version, and not what was built with the others.
    built.0.add("rocm_sdk_core", "rocm_sdk_core/extra.py");
    for more in [&[][..], &["--part"], &["--dry-run"]] {
        let (code, text) = built.upload(more);
        assert_eq!(code, 1, "{more:?}: {text}");
        // By the gate, or for a part by the digests that the build described.
        let named = ["not the file that was built", "` has the sha256"];
        assert!(named.iter().any(|it| text.contains(it)), "{text}");
        assert_has!(text, "rocm_sdk_core-0.99.1.dev0");
        assert!(!built.published());
    }
    let (code, text) = built.upload(&["--no-check"]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_package_that_was_built_and_is_gone_is_missed() {
    let built = Built::new();
    built.0.remove("rocm_profiler");
    let (code, text) = built.upload(&["--part"]);
    assert_eq!(code, 1, "{text}");
    assert_has!(text, "is missing");
    // An index of what is left, made on purpose, describes the set again.
    assert_eq!(built.index(&["--no-check"]).0, 0);
    let (code, text) = built.upload(&["--part"]);
    assert_eq!(code, 0, "{text}");
}

/// One set has one verdict, whichever command asks.
#[test]
fn a_replaced_wheel_is_refused_by_every_command_that_asks() {
    let set = Set::new();
    set.index();
    // A whole wheel, with a right RECORD, that is not the one that the pages describe.
    set.add("rocm_profiler", "rocm_profiler/more.py");
    let to = set.0.path().join("out");
    let (set_text, to_text) = (set.0.path().to_str().unwrap(), to.to_str().unwrap());
    let upload = "--platform linux --multi-target";
    for line in [
        format!("check {set_text}"),
        format!("index {set_text}"),
        format!("index {set_text} --dry-run"),
        format!("upload {upload} --packages-dir {set_text} --output-dir {to_text}"),
        format!("promote {set_text} --to same --into {to_text}"),
        format!(
            "framework show --set {set_text} {set_text}/rocm_profiler-0.99.1.dev0-py3-none-linux_x86_64.whl"
        ),
    ] {
        let said = run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(said.code, 1, "{line}: {}", said.all());
        let all = said.all();
        assert!(all.contains("not the file that was built"), "{line}: {all}");
        // Neither to list it, nor to accept it, nor to try again.
        assert_lacks!(all, "rocwheel index", "--accept", "--ignore");
        assert_lacks!(all, "again later", "upload the files");
    }
    let page = run(&["summary", set_text, "--check"]).stdout;
    assert_has!(page, "❌", "RW702");
    assert!(!to.exists());
    // On purpose, `index` takes it. Then it is the file of the set.
    set.index();
    assert_eq!(set.found(&[]), "exit 0\n");
}

/// The `set.json` of a build says which bytes a package has, also before there is a page.
#[test]
fn an_index_takes_packages_that_were_added_and_none_that_was_replaced() {
    let built = Built::new();
    let index = || built.index(&[]);
    built.0.add("rocm_profiler", "rocm_profiler/more.py");
    let (code, text) = index();
    assert_eq!(code, 1, "{text}");
    assert_has!(text, "RW702 broken-promise");
    assert_has!(text, "not the file that was built: `set.json` describes");
    assert!(!built.1.path().join("simple").exists());
    let whole = sample().join(built.0.package("rocm_profiler").file_name().unwrap());
    fs_err::copy(whole, built.0.package("rocm_profiler")).unwrap();
    super::others::add_foreign(&built.0, "torch");
    for member in ["torch/one.py", "torch/two.py"] {
        let (code, text) = index();
        assert_eq!(code, 0, "{text}");
        // Another project decides which bytes its packages have.
        built.0.add("torch", member);
    }
}
