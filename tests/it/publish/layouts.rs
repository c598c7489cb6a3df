//! The two layouts of a set, and places that have files of both.

use super::{
    Bench, Outcome, downloads,
    install::every_form_of_layout,
    packages::{VERSION, wheel},
    tree,
};

use crate::support::{place::contents_without_caches, program::command};

const GROUP: &str = "gfx94X-dcgpu";

fn index(bench: &Bench, more: &str) -> Outcome {
    bench.run(&format!("index --no-check out/42-linux/python {more}"))
}

fn page(bench: &Bench, path: &str) -> String {
    fs_err::read_to_string(bench.path(&format!("out/42-linux/python/{path}"))).unwrap()
}

/// The links of a page, without fragments.
fn links(page: &str) -> Vec<&str> {
    let links = page.split("href=\"").skip(1);
    let links = links.map(|rest| rest.split(['"', '#']).next().unwrap());
    links.collect()
}

#[test]
#[ignore = "slow"]
fn a_flat_upload_installs_and_changes_nothing_the_second_time() {
    let bench = Bench::built();
    let address = bench.upload("--layout flat").ok();
    let base = address.trim().strip_suffix("simple/").unwrap();
    every_form_of_layout(&bench, base, "");
    let there = tree(&bench.root.join("out/42-linux/python"));
    assert!(there.contains(&format!("rocm_sdk_core-{VERSION}-py3-none-any.whl")));
    assert!(!there.iter().any(|path| path.starts_with("dist")));
    let again = bench.upload("--layout flat --dry-run").ok();
    assert_has!(again, "\n0 new (0 B), 0 to replace");
    // The index finds the layout itself.
    let changes = index(&bench, "--dry-run").ok();
    assert_eq!(changes.matches(".html").count(), 0, "{changes}");
}

#[test]
#[ignore = "slow"]
fn families_of_a_flat_set_are_where_the_rock_has_them() {
    let bench = Bench::built();
    let family = bench.root.join("built/dist").join(GROUP);
    wheel(&family, "rocm", VERSION, "Requires-Dist: rocm-sdk-core\n");
    let address = bench.upload("--layout flat").ok();
    let own = address.lines().nth(1).unwrap();
    assert!(own.ends_with(&format!("python/{GROUP}/simple/")), "{own}");
    let named = page(&bench, &format!("{GROUP}/index.html"));
    let [rocm, core] = ["rocm", "rocm_sdk_core"].map(|name| {
        let version = VERSION.replace('+', "%2B");
        format!("{name}-{version}-py3-none-any.whl")
    });
    let named = links(&named);
    assert!(named.contains(&&*rocm), "{named:?}");
    assert!(named.contains(&&*format!("../{core}")), "{named:?}");
    assert!(links(&page(&bench, "index.html")).contains(&&*format!("{GROUP}.html")));
    let files = own.strip_suffix("simple/").unwrap();
    let theirs = format!("{files}index.html");
    let ours = format!("{}.html", files.trim_end_matches('/'));
    let sources = [
        &["--index-url", own][..],
        &["--no-index", "--find-links", &theirs],
        &["--no-index", "--find-links", &ours],
    ];
    for source in sources {
        let got = downloads(&bench, &[&["--pre", "rocm"], source].concat());
        assert_eq!(got.len(), 2, "{got:?}");
    }
    let changes = index(&bench, "--dry-run").ok();
    assert_eq!(changes.matches(".html").count(), 0, "{changes}");
    let again = bench.upload("--layout flat --dry-run").ok();
    assert_has!(again, "\n0 new (0 B), 0 to replace");
}

#[test]
fn of_one_set_in_both_layouts_each_file_is_listed_once() {
    let bench = Bench::built();
    bench.upload("--layout flat").ok();
    bench.upload("").ok();
    assert_has!(index(&bench, "").stderr, "Indexed 3 files");
    let project = page(&bench, "simple/rocm-sdk-core/index.html");
    let version = VERSION.replace('+', "%2B");
    let link = format!("../../dist/rocm_sdk_core-{version}-py3-none-any.whl");
    assert_eq!(links(&project), [link]);
}

#[test]
fn files_that_another_job_added_beside_dist_are_listed() {
    let bench = Bench::built();
    bench.upload("").ok();
    let place = bench.root.join("out/42-linux/python");
    wheel(&place, "torch", "2.9", "");
    assert_has!(index(&bench, "").stderr, "Indexed 4 files");
    let file = "torch-2.9-py3-none-any.whl";
    for (path, link) in [
        ("simple/torch/index.html", format!("../../{file}")),
        ("dist/index.html", format!("../{file}")),
        ("index.html", file.to_owned()),
    ] {
        assert!(links(&page(&bench, path)).contains(&&*link), "{path}");
    }
    let summary = bench.run("summary out/42-linux/python").ok();
    assert_has!(summary, "3 packages and 1 of others");
    // Its own page leads to it, even if nothing else of the set does.
    for page in ["set.json", "SHA256SUMS"] {
        fs_err::remove_file(place.join(page)).unwrap();
    }
    let whole = page(&bench, "dist/index.html");
    let lines = whole.lines().filter(|line| !line.contains("torch"));
    let lines = lines.collect::<Vec<_>>().join("\n");
    fs_err::write(place.join("dist/index.html"), lines).unwrap();
    let checked = bench.run("check out/42-linux/python");
    assert_has!(checked.stdout, "3 packages and 1 of others");
    index(&bench, "").ok();
    // The address stays that of the set.
    let document = index(&bench, "--format=json");
    let find_links = "python/dist/index.html";
    assert_has!(document.stdout, find_links);
}

const TORCH: &str =
    "upload torch --output-dir out --run-id=42 --bucket=mine --platform=linux --multi-target";

/// As the jobs of TheRock that build torch and JAX on the packages of a run.
#[test]
fn packages_of_others_alone_are_added_to_the_set_that_is_there() {
    for layout in ["dist", "flat"] {
        let bench = Bench::built();
        let family = bench.root.join("built/dist").join(GROUP);
        wheel(&family, "rocm-sdk-devel", VERSION, "");
        let first = bench.upload(&format!("--layout {layout}")).ok();
        let before = page(&bench, "set.json");
        wheel(&bench.root.join("torch"), "torch", "2.9", "");
        let checked = bench.run("check torch");
        assert_has!(checked.stderr, "0 packages and 1 of others");
        checked.ok();
        let upload = |more: &str| bench.run(&format!("{TORCH} {more}"));
        let added = upload("");
        assert_has!(added.stderr, "4 packages and 1 of others");
        assert_eq!(added.ok(), first);
        let json = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
        let (before, mut after) = (json(&before), json(&page(&bench, "set.json")));
        let files = after["files"].as_array_mut().unwrap();
        files.retain(|file| file["project"] != "torch");
        // What spares the next upload from reading them.
        for file in files {
            file.as_object_mut().unwrap().remove("remembered");
        }
        assert_eq!(after, before);
        let own = page(&bench, &format!("{GROUP}/simple/index.html"));
        assert_has!(own, "rocm-sdk-devel", "torch");
        for path in ["simple/index.html", "SHA256SUMS"] {
            let text = page(&bench, path);
            assert!(text.contains("rocm-sdk-core") || text.contains("rocm_sdk_core"), "{text}");
            assert_has!(text, "torch");
        }
        let plan = upload("--dry-run").ok();
        assert_has!(plan, "\n0 new (0 B), 0 to replace");
        let changes = index(&bench, "--dry-run").ok();
        assert_eq!(changes.matches(".html").count(), 0, "{changes}");
    }
    // And where there is no set yet.
    let bench = Bench::new();
    wheel(&bench.root.join("torch"), "torch", "2.9", "");
    for line in [TORCH, "check out/42-linux/python", "index torch", "check torch --fail-on warning"]
    {
        bench.run(line).ok();
    }
}

/// Two files of one name: an index could list only one of them.
#[test]
fn other_bytes_in_the_other_layout_are_refused() {
    let bench = Bench::built();
    bench.upload("--layout flat").ok();
    let core = bench.root.join("built/dist");
    wheel(&core, "rocm-sdk-core", VERSION, "Requires-Python: >=3.9\n");
    let there = tree(&bench.root.join("out"));
    let refused = bench.upload("");
    assert_eq!(refused.code, 1);
    let said = |outcome: &Outcome| {
        let digests = regex::Regex::new("[0-9a-f]{64}|[0-9]+ bytes").unwrap();
        digests.replace_all(&outcome.stderr, "N").into_owned()
    };
    insta::assert_snapshot!(said(&refused), @"
    error: 1 file is in `out/42-linux/python` already, with other bytes; nothing was changed
      caused by: `dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl`: here N with sha256 N, there `rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl`, N with sha256 N

    hint: build under another version, or replace the files there with `rocwheel upload --layout flat --overwrite`
    ");
    assert_eq!(tree(&bench.root.join("out")), there);
    let plan = bench.upload("--dry-run").ok();
    assert_has!(plan, "refuse");
    let place = bench.root.join("out/42-linux/python");
    fs_err::create_dir(place.join("dist")).unwrap();
    let name = format!("rocm_sdk_core-{VERSION}-py3-none-any.whl");
    fs_err::copy(core.join(&name), place.join("dist").join(&name)).unwrap();
    let refused = index(&bench, "");
    assert_eq!(refused.code, 1);
    insta::assert_snapshot!(said(&refused), @"
    error: two files of one name with different bytes: `dist/rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl` and `rocm_sdk_core-7.13.0.dev0+ab.cd-py3-none-any.whl`

    hint: remove the one that is not of this set
    ");
}

#[test]
fn a_set_that_is_replaced_moves_to_the_other_layout() {
    let bench = Bench::built();
    bench.upload("--layout flat").ok();
    let core = bench.root.join("built/dist");
    wheel(&core, "rocm-sdk-core", VERSION, "Requires-Python: >=3.9\n");
    bench.upload("--overwrite").ok();
    let there = tree(&bench.root.join("out"));
    fs_err::remove_dir_all(bench.root.join("out")).unwrap();
    bench.upload("").ok();
    assert_eq!(tree(&bench.root.join("out")), there);
}

/// A set of its own below `python/`, uploaded with `--artifact-group`, is not a family of that above.
#[test]
fn the_set_of_a_group_is_not_a_family_of_the_set_above() {
    let bench = Bench::built();
    bench.upload("--layout flat").ok();
    wheel(&bench.root.join("built/dist"), "rocm-sdk-devel", VERSION, "");
    let group = format!("--layout flat --artifact-group {GROUP}");
    bench.upload(&group).ok();
    // On a slow machine the files are old enough to be remembered.
    let there = || contents_without_caches(&bench.root.join("out"));
    let before = there();
    assert_has!(index(&bench, "").stderr, "Indexed 3 files");
    assert_eq!(there(), before);
}

#[test]
fn others_in_the_directory_of_a_family_are_listed_and_make_no_set_of_families() {
    for layout in ["dist", "flat"] {
        let bench = Bench::built();
        let output = bench.path("output");
        let more = format!("--layout {layout} --github-output output");
        bench.upload(&more).ok();
        let files = if layout == "dist" { "dist/" } else { "" };
        let top = bench.root.join("out/42-linux/python").join(files);
        // Nothing says yet that this directory is one of a set; the same wheel is above it too.
        wheel(&top.join(GROUP), "torch", "2.9", "");
        wheel(&top.join(GROUP), "vision", "2.9", "");
        wheel(&top, "torch", "2.9", "");
        fs_err::remove_file(&output).unwrap();
        bench.upload(&more).ok();
        let listed = page(&bench, &format!("{GROUP}/simple/index.html"));
        for project in ["torch/", "vision/", "rocm-sdk-core/"] {
            assert!(links(&listed).contains(&project), "{layout}: {listed}");
        }
        let outputs = fs_err::read_to_string(&output).unwrap();
        let value = |name: &str| {
            let mut lines = outputs.lines();
            lines.find(|line| line.starts_with(&format!("{name}<<")));
            lines.next().unwrap().to_owned()
        };
        assert_eq!(value("kpack_split"), "true");
        assert_eq!(value("family-index-urls"), "{}");
        assert!(value("package_index_url").ends_with("/python/simple/"));
        let again = bench.upload(&format!("{more} --dry-run")).ok();
        assert_has!(again, "\n0 new (0 B), 0 to replace");
    }
}

#[test]
fn a_local_directory_needs_no_network() {
    let bench = Bench::built();
    let mut upload = command();
    // Nothing listens there.
    upload.env("GITHUB_API_URL", "http://127.0.0.1:9");
    upload.args(["upload", "built", "--output-dir", "out", "--run-id=42"]);
    upload.args(["--platform=linux", "--no-check", "--multi-target"]);
    let said = Outcome::of(upload.current_dir(&bench.root).output().unwrap());
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(bench.root.join("out/42-linux/python/dist").is_dir());
    let assumed = "note: assumed that run 42 did not build the code of a fork";
    assert_has!(said.stderr, assumed);
}
