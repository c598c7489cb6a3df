//! `check --no-contents`: a set by the directories of its wheels, their metadata and the pages, read in ranges.

use super::{Set, member, run};
use crate::support::prelude::*;
use crate::support::{
    published::VERSION,
    upstream_set::{of_families, split},
    web::Manner,
};

const FLAG: &str = "--no-contents";
const UNJUDGED: &str = "files were not read: digests, libraries and device code are not judged";

/// A check of a place, with its answer in JSON.
fn report_of(place: &str, more: &[&str]) -> Value {
    let said = run(&[&["check", place, "--no-progress", "--format", "json"], more].concat());
    assert!(said.code < 2, "{}", said.stderr);
    serde_json::from_str(&said.stdout).unwrap()
}

/// Findings by rule, file and member. The texts of some differ, because less is known.
fn findings(report: &Value) -> BTreeSet<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|it| format!("{} {} {}", it["id"], it["file"], it["member"])).collect()
}

fn size_of_packages(directory: &Path) -> u64 {
    let entries = fs_err::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let is_package = |name: &str| name.ends_with(".whl") || name.ends_with(".tar.gz");
    entries
        .filter(|entry| is_package(entry.file_name().to_str().unwrap()))
        .map(|entry| entry.metadata().unwrap().len())
        .sum()
}

#[test]
fn a_small_part_of_a_published_set_is_read_and_said() {
    let place = published::sample().place();
    let server = Server::of_directory(&place, Manner::Ranges);
    let said = run(&["check", &server.url, FLAG, "--no-progress", "--fail-on", "warning"]);
    let whole = size_of_packages(&place.join("dist"));
    let sent = u64::try_from(server.sent()).unwrap();
    assert_eq!(said.code, 0, "{}", said.stdout);
    assert!(sent < whole / 4, "{sent} of {whole}");
    assert_has!(said.stdout, "no problems in what was read in 7 packages\nread ", UNJUDGED);
    assert!(!(said.stdout + &said.stderr).contains("OK"));
    let report = report_of(&server.url, &[FLAG]);
    assert_eq!(report["read"]["of-bytes"], whole);
    let read = report["read"]["bytes"].as_u64().unwrap();
    assert!(read < sent, "{read} of {sent}");
    assert!(report["read"]["unread-files"].as_u64().unwrap() > 20, "{report}");
    assert_eq!(report["coverage"]["libraries"], json!({}));
    // A check of everything says how much that is.
    let server = Server::of_directory(&place, Manner::Ranges);
    let said = run(&["check", &server.url, "--no-progress"]);
    let size = rocwheel_base::quantity::size(whole);
    assert_eq!(said.stdout, format!("OK, no problems in 7 packages\nread {size} of {size}\n"));
}

#[test]
fn a_server_without_ranges_is_read_whole() {
    let server = Server::of_directory(&published::sample().place(), Manner::NoRanges);
    let said = run(&["check", &server.url, FLAG, "--no-progress"]);
    let note = format!(
        "note: `{}` sends whole files only, so they are read to their ends\n",
        server.url.trim_end_matches('/')
    );
    assert!(said.stderr.starts_with(&note), "{}", said.stderr);
    assert!(said.stdout.starts_with("OK, no problems in 7 packages\nread "), "{}", said.stdout);
    assert!(!said.stdout.contains(UNJUDGED));
}

#[test]
fn a_defect_of_the_metadata_is_found_and_none_of_the_contents_is_denied() {
    let set = Set::new();
    set.edit("rocm_profiler", |members| {
        let metadata = &mut member(members, "/METADATA").2;
        let text = String::from_utf8(metadata.clone()).unwrap();
        let name = "Name: rocm-profiler\n";
        let broken = format!("{name}Requires-Dist: rocm-sdk-gone==0.99.1.dev0\n");
        *metadata = text.replace(name, &broken).into_bytes();
    });
    set.index();
    let server = Server::of_directory(set.0.path(), Manner::Ranges);
    let report = report_of(&server.url, &[FLAG]);
    assert!(findings(&report).iter().any(|it| it.contains("RW201")), "{report}");

    let set = Set::new();
    set.tamper("rocm_sdk_core", |members| {
        *member(members, "libamdhip64.so.7").2.last_mut().unwrap() ^= 1;
    });
    set.index();
    let server = Server::of_directory(set.0.path(), Manner::Ranges);
    let whole = report_of(&server.url, &[]);
    assert!(findings(&whole).iter().any(|it| it.contains("RW107")), "{whole}");
    let page = set.0.path().join("findings.md");
    let said = run(&["check", &server.url, FLAG, "--no-progress", "--page", text(&page)]);
    assert_eq!(said.code, 0, "{}", said.stdout);
    for shown in [said.stdout, said.stderr, fs_err::read_to_string(page).unwrap()] {
        assert_has!(shown, "no problems in what was read");
        assert!(!shown.contains("OK") && !shown.contains('✅'), "{shown}");
    }
}

#[test]
fn no_other_command_takes_its_verdict() {
    let set = Set::new();
    set.index();
    let remembered = set.0.path().join(".rocwheel-checked.json");
    assert_eq!(set.check(&[FLAG]).code, 0);
    assert!(!remembered.exists());
    set.tamper("rocm_sdk_core", |members| {
        *member(members, "libamdhip64.so.7").2.last_mut().unwrap() ^= 1;
    });
    set.index();
    assert_eq!(set.check(&[FLAG]).code, 0);
    let into = set.0.path().join("into");
    for line in [
        "upload SET --multi-target --run-id 1 --offline --output-dir INTO",
        "promote SET --to same --into INTO",
        "install SET --target gfx942 --into INTO",
    ] {
        let words = line.replace("SET", set.place()).replace("INTO", text(&into));
        let said = run(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(said.code, 1, "{line}: {}", said.stderr);
        assert!(!into.exists(), "{line}");
    }
    for other in ["--write-accept=a.toml", "--with=torch.whl"] {
        assert_eq!(set.check(&[FLAG, other]).code, 2);
    }
}

#[test]
fn nothing_else_is_found_than_by_a_check_of_everything() {
    let mut places: Vec<PathBuf> = sets().map(TestSet::place).into_iter().collect();
    places.extend([split(VERSION), of_families()]);
    for place in places {
        for more in [&[][..], &["--require-targets", "gfx942,gfx1100,gfx1250"]] {
            let whole = findings(&report_of(text(&place), more));
            let part = report_of(text(&place), &[&[FLAG], more].concat());
            assert!(part["read"]["unread-files"].as_u64().unwrap() > 0);
            let only_in_part: Vec<_> = findings(&part).difference(&whole).cloned().collect();
            assert!(only_in_part.is_empty(), "{} {more:?}: {only_in_part:?}", place.display());
        }
    }
}
