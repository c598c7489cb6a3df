//! SDK tarballs that are published with a set.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use rocwheel::digest::Sha256;
use tar::{Archive, Builder, EntryType, Header};

use super::{built, fresh, walkdir};
use crate::support::{
    place::text,
    program::{Outcome, rocwheel},
    published::{sample, sets},
};

/// A tarball as TheRock packs them, whose texts name a version.
pub(crate) fn tarball(directory: &Path, name: &str, inside: &str) -> PathBuf {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let manifest = format!(
        "{{\n  \"rocm_package_version\": \"{inside}\",\n  \"rocm_version\": \"7.14.0\"\n}}\n"
    );
    let mut add = |path: &str, mode, bytes: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_mode(mode);
        header.set_mtime(1_700_000_001);
        header.set_uid(1000);
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, path, bytes).unwrap();
    };
    add("./.info/version", 0o644, format!("{inside}\n").as_bytes());
    add("./.info/version-core", 0o644, b"7.14.0-38\n");
    add("./bin/tool", 0o755, b"#!/bin/sh\n# not of 7.14.0rc1\n");
    add(
        &format!("./lib/{}.so", "long".repeat(40)),
        0o644,
        &[7; 5000],
    );
    add(
        "./share/therock/therock_manifest.json",
        0o644,
        manifest.as_bytes(),
    );
    add("./share/a file", 0o644, b"");
    let mut link = Header::new_gnu();
    link.set_entry_type(EntryType::Symlink);
    link.set_size(0);
    link.set_mode(0o777);
    link.set_mtime(1_700_000_002);
    link.set_uid(0);
    tar.append_link(&mut link, "./lib/libx.so", "libx.so.1")
        .unwrap();
    let mut gzip = tar.into_inner().unwrap();
    gzip.flush().unwrap();
    fs_err::create_dir_all(directory).unwrap();
    let path = directory.join(name);
    fs_err::write(&path, gzip.finish().unwrap()).unwrap();
    path
}

/// What members are, and their contents.
fn members(tarball: &Path) -> BTreeMap<String, (Vec<u8>, Vec<u8>)> {
    let file = fs_err::read(tarball).unwrap();
    let mut archive = Archive::new(GzDecoder::new(&file[..]));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let header = entry.header();
        let about = format!(
            "{:?} {:o} {} {} {:?}",
            header.entry_type(),
            header.mode().unwrap(),
            header.mtime().unwrap(),
            header.uid().unwrap(),
            entry.link_name().unwrap(),
        );
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        (path, (about.into_bytes(), bytes))
    });
    entries.collect()
}

const GROUPS: [&str; 2] = ["gfx94X-dcgpu", "multi arch"];

/// The tarballs of a candidate, of another version and of another platform, and another file.
fn tarballs(name: &str, inside: &str) -> PathBuf {
    let directory = fresh(name);
    for group in GROUPS {
        tarball(
            &directory,
            &format!("therock-dist-linux-{group}-7.14.0rc1.tar.gz"),
            inside,
        );
    }
    tarball(
        &directory,
        "therock-dist-linux-multi arch-7.14.0rc12.tar.gz",
        "7.14.0rc12",
    );
    tarball(
        &directory,
        "therock-dist-windows-multiarch-7.14.0rc1.tar.gz",
        "7.14.0rc1",
    );
    fs_err::write(directory.join("notes.txt"), "7.14.0rc1").unwrap();
    directory
}

fn promote(set: &Path, to: &Path, tarballs: &Path, flags: &[&str]) -> Outcome {
    let arguments = ["promote", text(set), "--to", "release", "--no-check"];
    let place = ["--into", text(to), "--tarball-dir", text(tarballs)];
    rocwheel(&[&arguments[..], &place, flags].concat())
}

const PRODUCT: [&str; 2] = ["--layout", "product"];

/// The names in the list that programs read.
fn listed(place: &Path) -> Vec<String> {
    let page = fs_err::read_to_string(place.join("rocm/core/tarball/index.html")).unwrap();
    let (_, list) = page.split_once("const files = ").unwrap();
    let (list, _) = list.split_once(";\n").unwrap();
    let list: Vec<serde_json::Value> = serde_json::from_str(list).unwrap();
    assert!(
        list.iter()
            .all(|it| it["mtime"].as_u64().unwrap() > 1_700_000_000)
    );
    let names = list
        .iter()
        .map(|it| it["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[test]
fn tarballs_are_published_with_their_bytes_under_the_new_name() {
    for set in sets() {
        let from = tarballs(&format!("tarballs-{}", set.name), "7.14.0");
        let to = fresh(&format!("tarballs-{}-released", set.name));
        let older = to.join("rocm/core/tarball");
        tarball(
            &older,
            "therock-dist-linux-multi arch-7.13.0.tar.gz",
            "7.13.0",
        );
        let candidate = built(set, "7.14.0rc1");
        promote(&candidate, &to, &from, &PRODUCT).ok();
        let record = fs_err::read_to_string(to.join("promotions/7.14.0-linux.json")).unwrap();
        for group in GROUPS {
            let name = |version: &str| format!("therock-dist-linux-{group}-{version}.tar.gz");
            let old = fs_err::read(from.join(name("7.14.0rc1"))).unwrap();
            let new = fs_err::read(older.join(name("7.14.0"))).unwrap();
            assert!(old == new, "{group}");
            assert!(record.contains(&name("7.14.0")), "{record}");
            assert!(record.contains(&Sha256::of(&new).to_string()), "{record}");
        }
        insta::allow_duplicates! {
            insta::assert_snapshot!(listed(&to).join("\n"), @"
            therock-dist-linux-gfx94X-dcgpu-7.14.0.tar.gz
            therock-dist-linux-multi arch-7.13.0.tar.gz
            therock-dist-linux-multi arch-7.14.0.tar.gz
            ");
        }
        let before = fs_err::read(older.join("index.html")).unwrap();
        let again = promote(
            &candidate,
            &to,
            &from,
            &[&PRODUCT[..], &["--format", "json"]].concat(),
        );
        let again: serde_json::Value = serde_json::from_str(&again.ok()).unwrap();
        assert_eq!(again["uploaded"], 0, "{again}");
        assert!(before == fs_err::read(older.join("index.html")).unwrap());
        // They are no packages of the index.
        let indexed = rocwheel(&["index", "--layout", "product", text(&to)]);
        assert!(
            !indexed.stderr.contains("is on no page"),
            "{}",
            indexed.stderr
        );
        indexed.ok();
    }
}

#[test]
fn the_plan_names_each_tarball_and_its_key() {
    let candidate = built(sample(), "7.14.0rc1");
    let from = tarballs("tarballs-planned", "7.14.0rc1");
    let flags = ["--dry-run", "--tarballs", "rewrite", "--layout", "product"];
    let plan = promote(&candidate, Path::new("s3://bucket/v5"), &from, &flags).ok();
    let lines = plan
        .lines()
        .skip_while(|it| !it.starts_with("therock-dist"));
    let lines = lines.filter(|it| !it.contains("/whl-next/"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    therock-dist-linux-gfx94X-dcgpu-7.14.0rc1.tar.gz
      becomes   rocm/core/tarball/therock-dist-linux-gfx94X-dcgpu-7.14.0.tar.gz
      edits     .info/version
      edits     share/therock/therock_manifest.json
      packs     571 B

    therock-dist-linux-multi arch-7.14.0rc1.tar.gz
      becomes   rocm/core/tarball/therock-dist-linux-multi arch-7.14.0.tar.gz
      edits     .info/version
      edits     share/therock/therock_manifest.json
      packs     571 B

    published as
      rocm/core/tarball/therock-dist-linux-gfx94X-dcgpu-7.14.0.tar.gz
      rocm/core/tarball/therock-dist-linux-multi arch-7.14.0.tar.gz
      rocm/core/tarball/index.html

    7 packages: 18 files edited, 168 files copied as they are (2.41 MiB)
    ");
}

#[test]
fn a_tarball_that_names_the_candidate_is_written_again() {
    let candidate = built(sample(), "7.14.0rc1");
    let from = tarballs("tarballs-old", "7.14.0rc1");
    let flags = [&PRODUCT[..], &["--tarballs", "rewrite"]].concat();
    let [one, two] = ["tarballs-one", "tarballs-two"].map(|name| {
        let to = fresh(name);
        promote(&candidate, &to, &from, &flags).ok();
        to.join("rocm/core/tarball")
    });
    for group in GROUPS {
        let name = format!("therock-dist-linux-{group}-7.14.0.tar.gz");
        assert!(fs_err::read(one.join(&name)).unwrap() == fs_err::read(two.join(&name)).unwrap());
        let before = members(&from.join(name.replace("7.14.0", "7.14.0rc1")));
        let after = members(&one.join(&name));
        assert_eq!(before.len(), after.len());
        for (path, (about, old)) in &before {
            let (same, new) = &after[path];
            assert_eq!(about, same, "{path}");
            let old = if path == "bin/tool" || path == "./bin/tool" {
                old.clone()
            } else {
                String::from_utf8_lossy(old)
                    .replace("7.14.0rc1", "7.14.0")
                    .into_bytes()
            };
            assert!(&old == new, "{path}");
        }
    }
    let record = one.join("../../../promotions/7.14.0-linux.json");
    let record = fs_err::read_to_string(record).unwrap();
    assert!(
        record.contains("\"share/therock/therock_manifest.json\""),
        "{record}"
    );
}

/// Nothing is written.
#[test]
fn tarballs_that_would_not_be_what_their_name_says_are_refused() {
    let candidate = built(sample(), "7.14.0rc1");
    let old = tarballs("tarballs-refused", "7.14.0rc1");
    let other = tarballs("tarballs-other", "7.13.0");
    let none = fresh("tarballs-none");
    fs_err::create_dir_all(&none).unwrap();
    let damaged = tarballs("tarballs-damaged", "7.14.0");
    let path = damaged.join("therock-dist-linux-multi arch-7.14.0rc1.tar.gz");
    let bytes = fs_err::read(&path).unwrap();
    fs_err::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let rewrite = [&PRODUCT[..], &["--tarballs", "rewrite"]].concat();
    let targets = [&PRODUCT[..], &["--targets", "gfx942"]].concat();
    let pytorch = [&PRODUCT[..], &["--product", "pytorch"]].concat();
    let said = [
        (&old, &PRODUCT[..]),
        (&other, &rewrite),
        (&none, &PRODUCT),
        (&damaged, &PRODUCT),
        (&old, &targets),
        (&old, &pytorch),
        (&old, &["--layout", "flat"]),
    ];
    let said = said.map(|(from, flags)| {
        let to = fresh("tarballs-nothing");
        let refused = promote(&candidate, &to, from, flags);
        assert!(!to.exists() || walkdir(&to).is_empty());
        let (_, error) = refused.stderr.split_once("error: ").unwrap();
        format!(
            "exit {}\nerror: {}\n",
            refused.code,
            error.replace(text(from), "DIR")
        )
    });
    insta::assert_snapshot!(said.concat(), @"
    exit 1
    error: 2 tarballs would not be of the version 7.14.0
      `therock-dist-linux-gfx94X-dcgpu-7.14.0rc1.tar.gz`: `.info/version` names 7.14.0rc1
      `therock-dist-linux-multi arch-7.14.0rc1.tar.gz`: `.info/version` names 7.14.0rc1

    hint: pass `--tarballs rewrite` to compress them again, or pack the artifacts under the new version

    exit 1
    error: 2 tarballs would not be of the version 7.14.0
      `therock-dist-linux-gfx94X-dcgpu-7.14.0rc1.tar.gz`: `share/therock/therock_manifest.json` says 7.13.0
      `therock-dist-linux-multi arch-7.14.0rc1.tar.gz`: `share/therock/therock_manifest.json` says 7.13.0

    hint: name the directory with the tarballs of the run that built the set

    exit 1
    error: no tarball of 7.14.0rc1 in `DIR`

    hint: name the directory with the tarballs of the run that built the set

    exit 2
    error: failed to read `therock-dist-linux-multi arch-7.14.0rc1.tar.gz`
      caused by: the gzip data is cut off

    exit 2
    error: `--tarball-dir` and `--targets`: a tarball has the files of all its targets

    exit 2
    error: `--tarball-dir` with `--product pytorch`: tarballs are of the product `core`

    exit 2
    error: `--tarball-dir` without `--layout product`: only release places have tarballs
    ");
    // Another tarball has the name.
    let to = fresh("tarballs-taken");
    let good = tarballs("tarballs-good", "7.14.0");
    let there = to.join("rocm/core/tarball");
    tarball(
        &there,
        "therock-dist-linux-multi arch-7.14.0.tar.gz",
        "7.13.0",
    );
    let refused = promote(&candidate, &to, &good, &PRODUCT);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("nothing was changed"),
        "{}",
        refused.stderr
    );
    assert_eq!(walkdir(&to).len(), 1);
    // Without tarballs, the set is published as always.
    promote(
        &candidate,
        &to,
        &old,
        &[&PRODUCT[..], &["--tarballs", "skip"]].concat(),
    )
    .ok();
    assert_eq!(walkdir(&there).len(), 1);
}
