//! Pages that promise something else than is there.

use regex::Regex;

use super::{Set, only, rocwheel, succeed};

/// What is found in an indexed copy of the sample after one change.
fn published(change: impl FnOnce(&Set)) -> String {
    let set = Set::new();
    set.index();
    change(&set);
    let found = set.found(&["--select", "RW1,RW2,RW7", "--fail-on", "warning"]);
    found.replace(set.place(), "SET")
}

fn page(set: &Set, path: &str, from: &str, to: &str) {
    let path = set.0.path().join(path);
    let text = fs_err::read_to_string(&path).unwrap();
    assert_has!(text, from);
    fs_err::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn a_promised_file_that_is_missing_is_found() {
    insta::assert_snapshot!(published(|set| set.remove("rocm_profiler")), @"
    exit 1
    rocm_profiler.whl
      error   RW701 promised-file-missing: it does not exist, but is listed by `SHA256SUMS`, `index.html`, `set.json`, `simple/rocm-profiler/`
    ");
}

/// In a set on this disk the way out is the old name, and nothing needs to be uploaded.
#[test]
fn a_renamed_file_is_named_by_the_finding_and_what_mends_it_works() {
    let set = Set::new();
    set.index();
    let listed = set.package("rocm_profiler");
    let name = "rocm_profiler-0.99.1.dev0-py3-none-manylinux_2_28_x86_64.whl";
    let renamed = listed.with_file_name(name);
    fs_err::rename(&listed, &renamed).unwrap();
    let said = rocwheel().arg("check").arg(set.0.path()).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert_has!(
        said,
        "; `rocm_profiler-0.99.1.dev0-py3-none-manylinux_2_28_x86_64.whl`, which no page lists, is of the same project",
        "put the file there under the name that is listed, or write the index again with `rocwheel index`"
    );
    fs_err::rename(&renamed, &listed).unwrap();
    succeed(rocwheel().arg("check").arg(set.0.path()));
    // A file that is gone for good: the pages are then those of the packages that are left, which are no whole set.
    fs_err::remove_file(listed).unwrap();
    for verb in ["index", "check"] {
        succeed(rocwheel().args([verb, "--ignore", "RW201"]).arg(set.0.path()));
    }
}

#[test]
fn other_bytes_than_promised_are_found() {
    let numbers = Regex::new(r"[0-9a-f]{12}|\d{4,}").unwrap();
    let broken = |shown: String| only("RW702", &numbers.replace_all(&shown, "N"));
    let added = published(|set| set.add("rocm_profiler", "rocm_profiler/a"));
    insta::assert_snapshot!(broken(added), @"error   RW702 broken-promise: not the file that was built: `set.json`, `simple/rocm-profiler/` and 2 more describe another one (N bytes instead of N)");
    let digit = |c: char| if c == '0' { '1' } else { '0' };
    insta::assert_snapshot!(broken(published(|set| {
        let path = set.0.path().join("SHA256SUMS");
        let text = fs_err::read_to_string(&path).unwrap();
        let first = text.chars().next().unwrap();
        fs_err::write(path, format!("{}{}", digit(first), &text[1..])).unwrap();
    })), @"error   RW702 broken-promise: `SHA256SUMS` describes another one (SHA-256 N… instead of N…)");
}

#[test]
fn metadata_beside_a_wheel_that_is_another_is_found() {
    let sidecar = |set: &Set| {
        let mut path = set.package("rocm_profiler").into_os_string();
        path.push(".metadata");
        std::path::PathBuf::from(path)
    };
    insta::assert_snapshot!(published(|set| fs_err::remove_file(sidecar(set)).unwrap()), @"
    exit 1
    rocm_profiler.whl
      error   RW703 wrong-sidecar: its metadata is promised, and there is no such file beside it
    ");
    insta::assert_snapshot!(published(|set| fs_err::write(sidecar(set), "Name: a").unwrap()), @"
    exit 1
    rocm_profiler.whl
      error   RW703 wrong-sidecar: the metadata beside it is not the METADATA in it
    ");
}

#[test]
fn pages_that_disagree_are_found() {
    insta::assert_snapshot!(published(|set| {
        page(set, "simple/rocm-profiler/index.html", "rocm_profiler-0.99.1.dev0", "torch-1");
    }), @"
    exit 1
    rocm_profiler.whl
      error   RW704 pages-disagree: listed by `SHA256SUMS`, `index.html`, `set.json`, but not by `simple/`
    ");
}

/// What is found when the pages below these paths name nothing.
fn emptied(paths: &[&str]) -> String {
    let links = Regex::new("(?s)<a .*</a>").unwrap();
    published(|set| {
        for path in paths {
            let path = set.0.path().join(path);
            let text = fs_err::read_to_string(&path).unwrap();
            let text = match path.extension().and_then(|it| it.to_str()) {
                Some("html") => links.replace(&text, ""),
                _ => "".into(),
            };
            fs_err::write(path, &*text).unwrap();
        }
    })
}

#[test]
fn a_page_of_links_that_another_program_wrote_again_is_found() {
    insta::assert_snapshot!(published(|set| {
        let links = ["../index.html", "SHA256SUMS", "dist/index.html", "set.json", "simple/index.html"];
        let links = links.map(|link| format!("<a href=\"{link}\">{link}</a>"));
        fs_err::write(set.0.path().join("index.html"), links.concat()).unwrap();
    }), @"
    exit 1
    index.html
      error   RW704 pages-disagree: it lists no package
    ");
    insta::assert_snapshot!(published(|set| {
        fs_err::write(set.0.path().join("index.html"), "").unwrap();
        fs_err::write(set.0.path().join("SHA256SUMS"), "").unwrap();
    }), @"
    exit 1
    SHA256SUMS
      error   RW704 pages-disagree: it lists no package
    index.html
      error   RW704 pages-disagree: it lists no package
    ");
}

#[test]
fn an_index_that_lists_nothing_is_found() {
    let json = r#"{"schema":1,"files":[]}"#;
    insta::assert_snapshot!(published(|set| {
        for page in ["SHA256SUMS", "index.html", "simple/index.html"] {
            fs_err::write(set.0.path().join(page), "").unwrap();
        }
        fs_err::write(set.0.path().join("set.json"), json).unwrap();
    }), @"
    exit 1
    SHA256SUMS
      error   RW704 pages-disagree: it lists no package
    index.html
      error   RW704 pages-disagree: it lists no package
    set.json
      error   RW704 pages-disagree: it lists no package
    simple/
      error   RW704 pages-disagree: it lists no package
    ");
    insta::assert_snapshot!(emptied(&["simple/index.html"]), @"
    exit 1
    simple/
      error   RW704 pages-disagree: it lists no package
    ");
    insta::assert_snapshot!(emptied(&["simple/rocm/index.html"]), @"
    exit 1
    rocm-0.99.1.dev0.tar.gz
      error   RW704 pages-disagree: listed by `SHA256SUMS`, `index.html`, `set.json`, but not by `simple/`
    ");
}

#[test]
fn the_only_page_of_a_project_names_its_files() {
    insta::assert_snapshot!(published(|set| {
        for page in ["SHA256SUMS", "index.html", "set.json"] {
            fs_err::remove_file(set.0.path().join(page)).unwrap();
        }
        page(set, "simple/rocm-profiler/index.html", "rocm_profiler-0", "rocm_sdk_core-0");
    }), @"
    exit 1
    rocm_profiler.whl
      warning RW705 unlisted-package: no page of the set leads to it
    simple/rocm-profiler/
      error   RW704 pages-disagree: it lists no package of its project
    ");
}

#[test]
fn packages_that_no_page_names_are_found() {
    insta::assert_snapshot!(only("RW7", &published(|set| {
        let path = set.package("rocm_profiler");
        let name = path.file_name().unwrap().to_str().unwrap();
        let other = set.0.path().join(name.replace("-py3", "-1-py3"));
        fs_err::copy(&path, other).unwrap();
    })), @"warning RW705 unlisted-package: no page of the set leads to it");
}

#[test]
fn pages_that_are_missing_or_damaged_are_found() {
    insta::assert_snapshot!(only("RW706", &published(|set| {
        fs_err::remove_dir_all(set.0.path().join("simple/rocm-profiler")).unwrap();
        fs_err::write(set.0.path().join("simple/rocm/index.html"), "{").unwrap();
        page(set, "simple/index.html", "rocm-sdk-core/", "../../rocm-sdk-core/");
        fs_err::write(set.0.path().join("set.json"), "{}").unwrap();
    })), @r#"
    error   RW706 unreadable-page: failed to read the `schema` of a set: missing field `schema` at line 1 column 2
    error   RW706 unreadable-page: failed to resolve "../../rocm-sdk-core/": it leads out of the place
    error   RW706 unreadable-page: `simple/` names it, and it is not there
    error   RW706 unreadable-page: failed to read JSON: EOF while parsing an object at line 1 column 1
    "#);
}

#[test]
fn pages_of_an_earlier_build_are_found_and_the_hint_writes_them_again() {
    let set = Set::new();
    set.index();
    set.add("rocm_profiler", "rocm_profiler/a");
    let said = set.check(&["--no-progress"]);
    assert_eq!(said.code, 1);
    let said = said.stderr.replace(set.place(), "[set]");
    insta::assert_snapshot!(said, @"
         Checked 7 packages: 1 error
    error: check: 1 error in the package set

    hint: `rocwheel check explain RW702` explains a rule; build the set or copy the file again
    ");
    assert_eq!(set.found(&["--ignore", "RW7"]), "exit 0\n");
    set.index();
    assert_eq!(set.found(&[]), "exit 0\n");
}
