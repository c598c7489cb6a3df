//! `check`: the sample has no finding, and a set with one thing broken has that one.

use std::{
    io::{Cursor, Read as _, Write as _},
    path::PathBuf,
    process::Output,
};

use rocwheel::{digest::Sha256, elf::launcher, wheel::Record};

use crate::support::{
    linker::SharedObject, place::copy_files, program::command as rocwheel, published,
};

mod asserted;
mod broken;
mod damages;
mod device;
mod fat;
mod forms;
mod gate;
mod known;
mod mutation;
mod others;
mod planned;
mod remote;
mod sarif;
mod server;
mod windows;

/// The sample's packages, to read.
fn sample() -> PathBuf {
    published::sample().dist()
}

/// A copy of the sample, to break.
struct Set(tempfile::TempDir);

/// Path, mode and bytes of each member.
type Members = Vec<(String, u32, Vec<u8>)>;

impl Set {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        copy_files(&sample(), place.path());
        Self(place)
    }

    /// The only package whose name begins like this.
    fn package(&self, start: &str) -> PathBuf {
        let names = fs_err::read_dir(self.0.path()).unwrap();
        let paths = names.map(|entry| entry.unwrap().path());
        let is_it = |path: &PathBuf| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(start)
        };
        paths.filter(is_it).min().unwrap()
    }

    fn remove(&self, start: &str) {
        fs_err::remove_file(self.package(start)).unwrap();
    }

    fn rename(&self, start: &str, from: &str, to: &str) {
        let path = self.package(start);
        let name = path.file_name().unwrap().to_str().unwrap();
        fs_err::rename(&path, self.0.path().join(name.replace(from, to))).unwrap();
    }

    fn bytes(&self, start: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let path = self.package(start);
        let mut bytes = fs_err::read(&path).unwrap();
        edit(&mut bytes);
        fs_err::write(path, bytes).unwrap();
    }

    /// Changes members, and leaves RECORD as it was.
    fn tamper(&self, start: &str, edit: impl FnOnce(&mut Members)) {
        self.bytes(start, |bytes| {
            let mut members = unzip(bytes);
            edit(&mut members);
            *bytes = zipped(&members);
        });
    }

    /// Changes members, and writes RECORD anew.
    fn edit(&self, start: &str, edit: impl FnOnce(&mut Members)) {
        self.tamper(start, |members| {
            edit(members);
            record(members);
        });
    }

    /// Writes the pages of the set.
    fn index(&self) {
        let output = rocwheel()
            .args(["index", "--no-check"])
            .arg(self.0.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    fn check(&self, arguments: &[&str]) -> Output {
        let mut command = rocwheel();
        command.arg("check").arg(self.0.path()).args(arguments);
        command.output().unwrap()
    }

    /// The findings alone, with the exit code before them.
    fn found(&self, arguments: &[&str]) -> String {
        let output = self.check(arguments);
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stdout = stdout.replace("-0.0.1.dev0-py3-none-linux_x86_64", "");
        let findings = stdout.split("\nfixes").next().unwrap();
        // How many findings each rule has stands before them.
        let findings = findings.split_once("\n\n").map_or("", |it| it.1);
        let code = output.status.code().unwrap();
        if stdout.contains("\nfixes") {
            format!("exit {code}\n{findings}")
        } else {
            format!("exit {code}\n")
        }
    }
}

fn unzip(bytes: &[u8]) -> Members {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let indices = 0..archive.len();
    indices
        .map(|index| {
            let mut file = archive.by_index(index).unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            let name = file.name().unwrap().into_owned();
            (name, file.unix_mode().unwrap(), bytes)
        })
        .collect()
}

fn zipped(members: &Members) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, mode, bytes) in members {
        let options = zip::write::SimpleFileOptions::default().unix_permissions(*mode);
        if mode & 0o170_000 == 0o120_000 {
            let target = String::from_utf8(bytes.clone()).unwrap();
            writer.add_symlink(name.as_str(), target, options).unwrap();
        } else {
            writer.start_file(name.as_str(), options).unwrap();
            writer.write_all(bytes).unwrap();
        }
    }
    writer.finish().unwrap().into_inner()
}

/// RECORD as it has to be.
fn record(members: &mut Members) {
    let mut record = Record::default();
    let own = members
        .iter()
        .position(|it| it.0.ends_with("/RECORD"))
        .unwrap();
    for (at, (name, _, bytes)) in members.iter().enumerate() {
        let content = (Sha256::of(bytes), bytes.len() as u64);
        record.push(name.parse().unwrap(), (at != own).then_some(content));
    }
    members[own].2 = record.to_string().into_bytes();
}

/// The member whose path ends like this.
fn member<'a>(members: &'a mut Members, end: &str) -> &'a mut (String, u32, Vec<u8>) {
    members.iter_mut().find(|it| it.0.ends_with(end)).unwrap()
}

/// Before the `.dist-info`, where any file may stand.
fn add(members: &mut Members, name: &str, bytes: impl Into<Vec<u8>>) {
    members.insert(0, (name.to_owned(), 0o100_644, bytes.into()));
}

fn replace(members: &mut Members, end: &str, from: &str, to: &str) {
    let bytes = &mut member(members, end).2;
    *bytes = String::from_utf8(bytes.clone())
        .unwrap()
        .replace(from, to)
        .into_bytes();
}

fn library(soname: &str) -> SharedObject {
    SharedObject::new(soname)
}

fn launches(target: &str) -> Vec<u8> {
    launcher(target.as_bytes()).unwrap()
}
