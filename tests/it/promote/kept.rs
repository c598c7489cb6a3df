//! Keeps a version of an index that does not say digests, as `docs/promote.md` says it.

use crate::support::{
    bare_index::BareIndex,
    prelude::*,
    published::VERSION,
    web::{Manner, Server},
};

/// The address of the recipe, and its version.
const ADDRESS: &str = "https://stable.repo.amd.com/rocm/whl-next/";
const RECIPE_VERSION: &str = "10.1.0";

fn sandbox(index: &BareIndex) -> Sandbox {
    let judges = tool("uv").parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap();
    let t = Sandbox::new().with("PATH", format!("{}:{path}", judges.display()));
    let cache = t.path("cache");
    t.shows(index.url.clone(), "INDEX/").with("XDG_CACHE_HOME", cache)
}

/// The sample and a newer version, in one index.
fn index_of_two_versions() -> BareIndex {
    let index = BareIndex::start();
    let mut files = index.files.lock().unwrap();
    for (name, bytes) in super::packages(&super::built(sample(), "7.14.0rc1").join("dist")) {
        files.insert(name, bytes);
    }
    drop(files);
    index
}

/// The commands of the recipe, with the index of this test.
fn recipe(index: &BareIndex) -> Vec<String> {
    let page = fs_err::read_to_string("docs/promote.md").unwrap();
    let (_, section) = page.split_once("## Keep a version\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let lines = section.lines().filter_map(|line| line.strip_prefix("    rocwheel "));
    let line_here = |line: &str| line.replace(ADDRESS, &index.url).replace(RECIPE_VERSION, VERSION);
    lines.map(line_here).collect()
}

#[test]
#[ignore = "slow"]
fn a_kept_version_has_digests_metadata_and_pages_and_installs() {
    let index = index_of_two_versions();
    let t = sandbox(&index);
    let lines = recipe(&index);
    let [keep, install] = &*lines else { panic!("{lines:?}") };
    let said = t.run(keep).done();
    assert_has!(said.stderr, "does not say the SHA-256 of 7 files", "trust on first use");
    let kept = t.path("kept");
    let expected = super::packages(&sample().dist());
    assert_eq!(super::digests(&kept.join("dist")), super::digests(&sample().dist()));
    let set: Value = serde_json::from_str(&t.read("kept/set.json")).unwrap();
    assert_eq!(set["files"].as_array().unwrap().len(), expected.len());
    let page = t.read("kept/simple/rocm-sdk-core/index.html");
    assert_has!(page, "#sha256=", "data-core-metadata");
    assert_lacks!(page, "7.14.0rc1");
    for name in expected.keys().filter(|name| name.ends_with(".whl")) {
        assert!(kept.join("dist").join(format!("{name}.metadata")).exists(), "{name}");
    }
    // Once more: the digests are remembered, and the place has everything.
    let again = t.run(&format!("{keep} --format json")).done();
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["uploaded"], 0, "{again}");
    for installer in ["uv", "pip"] {
        let venv = format!("by-{installer}");
        t.run(&format!("{install} --installer {installer} --venv {venv}")).done();
        let program = t.path(&venv).join("bin/rocm-sdk");
        assert_has!(
            String::from_utf8(succeed(Command::new(program).arg("version")).stdout).unwrap(),
            VERSION
        );
    }
}

#[test]
fn a_version_that_the_index_does_not_have_is_refused_with_those_that_it_has() {
    let index = BareIndex::start();
    let t = sandbox(&index);
    let line = format!("promote {} --version 9.0.0 --to same --into kept", index.url);
    let said = t.run(&line).refused(2);
    assert_has!(said, "has no packages of version 9.0.0", "it has 0.99.1.dev0");
    let set = sample().place();
    let line = format!("promote '{}' --version 9.0.0 --to same --into kept", text(&set));
    let said = t.run(&line).refused(1);
    assert_has!(said, "has version 0.99.1.dev0, and not 9.0.0");
    assert!(!t.path("kept").exists());
}

#[test]
fn a_file_with_other_bytes_than_its_page_says_is_refused() {
    let t = Sandbox::new();
    let name = format!("rocm-{VERSION}.tar.gz");
    t.write(&format!("index/{name}"), fs_err::read(sample().dist().join(&name)).unwrap());
    let anchor = format!("<a href=\"../../{name}#sha256={}\">{name}</a>", "0".repeat(64));
    t.write("index/simple/rocm/index.html", anchor);
    t.write("index/simple/index.html", "<a href=\"rocm/\">rocm</a>");
    let server = Server::of_directory(&t.path("index"), Manner::Ranges);
    let line = format!("promote {} --no-check --to same --into kept", server.url);
    let said = t.run(&line).refused(1);
    assert_has!(said, &format!("`{name}` has the SHA-256"), "and the source says 0000");
    assert!(!t.path("kept").exists());
}
