//! How a set is damaged: each edit changes one thing, and the RECORD with it.

use crate::check::{Members, Set, add, broken::python::unpacked, member, replace};

pub(super) const CORE: &str = "rocm_sdk_core";
pub(super) const DEVEL: &str = "rocm_sdk_devel";
pub(super) const DEVICE: &str = "rocm_sdk_device_gfx942";
pub(super) const LIBRARIES: &str = "rocm_sdk_libraries";
pub(super) const PROFILER: &str = "rocm_profiler";

/// A change to the members of a wheel.
pub(super) fn edit(set: &Set, wheel: &str, change: impl FnOnce(&mut Members)) {
    set.edit(wheel, change);
}

pub(super) fn drop_member(set: &Set, wheel: &str, end: &str) {
    edit(set, wheel, |members| {
        let before = members.len();
        members.retain(|it| !it.0.ends_with(end));
        assert!(members.len() < before, "{end}");
    });
}

pub(super) fn mode(set: &Set, wheel: &str, end: &str, mode: u32) {
    edit(set, wheel, |members| member(members, end).1 = mode);
}

pub(super) fn extra(set: &Set, wheel: &str, path: &str, bytes: &[u8]) {
    edit(set, wheel, |members| add(members, path, bytes));
}

pub(super) fn swap(set: &Set, wheel: &str, end: &str, from: &str, to: &str) {
    edit(set, wheel, |members| replace(members, end, from, to));
}

pub(super) fn bytes(set: &Set, wheel: &str, end: &str, change: impl FnOnce(&mut Vec<u8>)) {
    edit(set, wheel, |members| change(&mut member(members, end).2));
}

/// The text of a file of the sdist.
pub(super) fn source(set: &Set, end: &str, from: &str, to: &str) {
    unpacked(set, |files| {
        let file = files.iter_mut().find(|it| it.0.ends_with(end)).unwrap();
        let text = String::from_utf8(file.1.clone()).unwrap();
        assert!(text.contains(from), "{end}: {from}");
        file.1 = text.replace(from, to).into_bytes();
    });
}

pub(super) fn drop_source(set: &Set, part: &str) {
    unpacked(set, |files| files.retain(|it| !it.0.contains(part)));
}

/// Drops device files with their rows in the list of links.
pub(super) fn drop_device(set: &Set, ends: &[&str]) {
    edit(set, DEVICE, |members| {
        let is_gone = |path: &str| ends.iter().any(|end| path.ends_with(end));
        members.retain(|it| !is_gone(&it.0));
        links(members, |links| {
            links.retain(|it| !is_gone(it["relpath"].as_str().unwrap()));
        });
    });
}

pub(super) fn links(members: &mut Members, change: impl FnOnce(&mut Vec<serde_json::Value>)) {
    let list = member(members, ".devel_links/gfx942.json");
    let mut json: serde_json::Value = serde_json::from_slice(&list.2).unwrap();
    change(json["links"].as_array_mut().unwrap());
    list.2 = serde_json::to_vec(&json).unwrap();
}

/// Changes the entries of the development files; manifests stay as they are.
pub(super) fn tree(set: &Set, change: impl Fn(&mut tar::Header, &str, &mut Vec<u8>) -> bool) {
    bytes(set, DEVEL, "_devel.tar", |archive| {
        let mut out = tar::Builder::new(Vec::new());
        let mut source = tar::Archive::new(archive.as_slice());
        for entry in source.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut header = entry.header().clone();
            let mut content = Vec::new();
            std::io::copy(&mut entry, &mut content).unwrap();
            if !change(&mut header, &path, &mut content) {
                continue;
            }
            header.set_size(content.len() as u64);
            match header
                .link_name()
                .unwrap()
                .map(std::borrow::Cow::into_owned)
            {
                Some(to) => out.append_link(&mut header, &path, to).unwrap(),
                None => out
                    .append_data(&mut header, &path, content.as_slice())
                    .unwrap(),
            }
        }
        *archive = out.into_inner().unwrap();
    });
}

/// Changes the header of the first segment of a kind.
pub(super) fn segment(elf: &mut [u8], kind: u32, change: impl Fn(&mut [u8])) {
    let table = usize::from(elf[32]);
    let mut headers = elf[table..].chunks_exact_mut(56);
    change(headers.find(|it| it[..4] == kind.to_le_bytes()).unwrap());
}

pub(super) fn put(set: &Set, name: &str, object: &crate::support::linker::SharedObject) {
    let path = format!("_rocm_sdk_core/lib/{name}");
    edit(set, CORE, |members| add(members, &path, object.build()));
}
