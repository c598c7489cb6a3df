//! How a set is damaged: each edit changes one thing, and the RECORD with it.

use std::io::Read as _;

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use rocwheel_wheel::tar::{TarEntry, TarKind, TarPlan, TarReader};

use crate::check::{Members, Set, add, member, replace};
use rocwheel_test_files::linker::SharedObject;

pub(in crate::check) const CORE: &str = "rocm_sdk_core";
pub(super) const DEVEL: &str = "rocm_sdk_devel";
pub(super) const DEVICE: &str = "rocm_sdk_device_gfx942";
pub(super) const LIBRARIES: &str = "rocm_sdk_libraries";
pub(super) const PROFILER: &str = "rocm_profiler";

/// The offset behind a text.
pub(super) fn at(bytes: &[u8], text: &str) -> usize {
    let mut windows = bytes.windows(text.len());
    windows.position(|it| it == text.as_bytes()).unwrap() + text.len()
}

/// Sets the mode of a member in the directory of the archive.
pub(super) fn set_mode(bytes: &mut [u8], name: &str, mode: u16) {
    let mut windows = bytes.windows(name.len());
    let name_at = windows.rposition(|it| it == name.as_bytes()).unwrap();
    bytes[name_at - 6..name_at - 4].copy_from_slice(&mode.to_le_bytes());
}

pub(super) fn drop_member(set: &Set, wheel: &str, end: &str) {
    set.edit(wheel, |members| {
        let before = members.len();
        members.retain(|it| !it.0.ends_with(end));
        assert!(members.len() < before, "{end}");
    });
}

pub(super) fn mode(set: &Set, wheel: &str, end: &str, mode: u32) {
    set.edit(wheel, |members| member(members, end).1 = mode);
}

/// Before the `.dist-info`, where any file may stand.
pub(super) fn extra(set: &Set, wheel: &str, path: &str, bytes: &[u8]) {
    set.edit(wheel, |members| add(members, path, bytes));
}

pub(super) fn put(set: &Set, name: &str, object: &SharedObject) {
    let path = format!("_rocm_sdk_core/lib/{name}");
    extra(set, CORE, &path, &object.build());
}

pub(super) fn swap(set: &Set, wheel: &str, end: &str, from: &str, to: &str) {
    set.edit(wheel, |members| replace(members, end, from, to));
}

pub(super) fn bytes(set: &Set, wheel: &str, end: &str, change: impl FnOnce(&mut Vec<u8>)) {
    set.edit(wheel, |members| change(&mut member(members, end).2));
}

/// Removes the lines of a text that begin and end like this.
pub(super) fn without(text: &mut Vec<u8>, start: &str, end: &str) {
    let lines = String::from_utf8(text.clone()).unwrap();
    let lines = lines.split_inclusive('\n');
    let is_kept = |it: &&str| !(it.starts_with(start) && it.trim_end().ends_with(end));
    *text = lines.filter(is_kept).collect::<String>().into_bytes();
}

/// Another line instead of the `License-Expression` of core.
pub(super) fn license(set: &Set, line: &str) {
    bytes(set, CORE, "/METADATA", |text| {
        let old = String::from_utf8(text.clone()).unwrap();
        let lines = old.lines().map(|it| match it.split_once(": ") {
            Some(("License-Expression", _)) => line,
            _ => it,
        });
        *text = lines.flat_map(|it| [it, "\n"]).collect::<String>().into();
    });
}

/// Path and bytes of each file of an sdist.
pub(in crate::check) type Files = Vec<(String, Vec<u8>)>;

/// Rewrites the files of the selector.
pub(in crate::check) fn unpacked(set: &Set, edit: impl FnOnce(&mut Files)) {
    set.bytes("rocm-0", |bytes| {
        let mut source = tar::Archive::new(GzDecoder::new(bytes.as_slice()));
        let mut files = Files::new();
        for entry in source.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if entry.header().entry_type().is_file() {
                files.push((path, content));
            }
        }
        edit(&mut files);
        let mut out = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, content) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            out.append_data(&mut header, path, content.as_slice()).unwrap();
        }
        *bytes = out.into_inner().unwrap().finish().unwrap();
    });
}

/// The text of the first file of the sdist with this end.
pub(super) fn source(set: &Set, end: &str, from: &str, to: &str) {
    unpacked(set, |files| {
        let file = files.iter_mut().find(|it| it.0.ends_with(end)).unwrap();
        change(&mut file.1, from, to);
    });
}

/// The text of each of them.
pub(in crate::check) fn all_sources(set: &Set, end: &str, from: &str, to: &str) {
    unpacked(set, |files| {
        for (_, text) in files.iter_mut().filter(|it| it.0.ends_with(end)) {
            change(text, from, to);
        }
    });
}

fn change(text: &mut Vec<u8>, from: &str, to: &str) {
    let old = String::from_utf8(text.clone()).unwrap();
    assert!(old.contains(from), "{from}");
    *text = old.replace(from, to).into_bytes();
}

pub(super) fn drop_source(set: &Set, part: &str) {
    unpacked(set, |files| files.retain(|it| !it.0.contains(part)));
}

/// Changes the PKG-INFO files of the selector.
pub(super) fn information(set: &Set, edit: impl Fn(&mut Vec<u8>)) {
    unpacked(set, |files| {
        for (_, text) in files.iter_mut().filter(|it| it.0.ends_with("PKG-INFO")) {
            edit(text);
        }
    });
}

/// Rewrites the selector, so that it promises another target.
pub(in crate::check) fn promise(set: &Set, from: &str, to: &str) {
    all_sources(set, "PKG-INFO", from, to);
}

/// Changes the list of links of the first device wheel.
pub(in crate::check) fn links(
    members: &mut Members,
    change: impl FnOnce(&mut Vec<serde_json::Value>),
) {
    let is_list = |it: &&mut (String, u32, Vec<u8>)| it.0.contains("/.devel_links/");
    let list = members.iter_mut().find(is_list).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&list.2).unwrap();
    change(json["links"].as_array_mut().unwrap());
    list.2 = serde_json::to_vec(&json).unwrap();
}

/// A row of that list: a name, and the file that it leads to.
pub(in crate::check) fn link_row(members: &mut Members, name: &str, file: &str) {
    let climb = "../".repeat(name.split('/').count());
    let target = format!("{climb}_rocm_sdk_libraries/{file}");
    links(members, |it| {
        it.push(serde_json::json!({ "relpath": name, "target": target }));
    });
}

/// Changes a text in the rows of that list.
pub(super) fn relink(members: &mut Members, from: &str, to: &str) {
    links(members, |links| {
        for link in links {
            *link = serde_json::from_str(&link.to_string().replace(from, to)).unwrap();
        }
    });
}

/// Drops device files with their rows in the list of links.
pub(super) fn drop_device(set: &Set, ends: &[&str]) {
    set.edit(DEVICE, |members| {
        let is_gone = |path: &str| ends.iter().any(|end| path.ends_with(end));
        members.retain(|it| !is_gone(&it.0));
        links(members, |links| {
            links.retain(|it| !is_gone(it["relpath"].as_str().unwrap()));
        });
    });
}

/// An entry of the development files, and its content.
pub(in crate::check) type Entry = (TarEntry, Vec<u8>);

/// Rewrites the development files; the manifest stays.
pub(in crate::check) fn tree(set: &Set, edit: impl FnOnce(&mut Vec<Entry>)) {
    bytes(set, DEVEL, "_devel.tar", |bytes| {
        let mut reader = TarReader::new(bytes.as_slice(), u64::MAX);
        let mut entries = Vec::new();
        while let Some(entry) = reader.next_entry().unwrap() {
            let mut content = Vec::new();
            reader.read_to_end(&mut content).unwrap();
            entries.push((entry, content));
        }
        edit(&mut entries);
        let (plan, contents): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        let plan = TarPlan::new(plan, 0).unwrap();
        let mut tar = Vec::new();
        let open = |index: usize| Ok(std::io::Cursor::new(contents[index].clone()));
        plan.stream(open).read_to_end(&mut tar).unwrap();
        *bytes = tar;
    });
}

pub(in crate::check) fn link(path: &str, text: &str) -> Entry {
    let path = format!("_rocm_sdk_devel/{path}").parse().unwrap();
    let kind = TarKind::Symlink(text.to_owned());
    (TarEntry { path, kind }, Vec::new())
}

/// Gives a file of the tree another content.
pub(in crate::check) fn rewrite(entries: &mut [Entry], end: &str, text: &[u8]) {
    let mut all = entries.iter_mut();
    let (entry, content) = all.find(|it| it.0.path.as_str().ends_with(end)).unwrap();
    let TarKind::File { len, .. } = &mut entry.kind else { panic!("{end}") };
    *len = text.len() as u64;
    *content = text.to_vec();
}

/// Changes the header of the first segment of a kind.
pub(super) fn segment(elf: &mut [u8], kind: u32, change: impl Fn(&mut [u8])) {
    let table = usize::try_from(u64::from_le_bytes(*elf[32..].first_chunk().unwrap())).unwrap();
    let mut headers = elf[table..].chunks_exact_mut(56);
    change(headers.find(|it| it[..4] == kind.to_le_bytes()).unwrap());
}
