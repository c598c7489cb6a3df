//! `check`: the sample has no finding, and a set with one thing broken has that one.

use rocwheel_elf::launcher;

use crate::support::prelude::*;
use crate::support::program::{command as rocwheel, rocwheel as run};

mod asserted;
mod baseline;
mod broken;
mod causes;
mod destination;
mod device;
mod families;
mod fat;
mod forms;
mod frameworks;
mod gate;
mod others;
mod pages;
mod remote;
mod variants;
pub(crate) mod windows;
mod without_contents;

/// The sample's packages, to read.
fn sample() -> PathBuf {
    published::sample().dist()
}

/// A copy of the sample, to break.
struct Set(TempDir);

impl Set {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        copy_files(&sample(), place.path());
        Self(place)
    }

    /// The only package whose name begins like this.
    fn package(&self, start: &str) -> PathBuf {
        let names = fs_err::read_dir(self.0.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let name = names.filter(|name| name.starts_with(start)).min();
        self.0.path().join(name.unwrap())
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

    /// Changes members, and writes RECORD again.
    fn edit(&self, start: &str, edit: impl FnOnce(&mut Members)) {
        self.tamper(start, |members| {
            edit(members);
            record(members);
        });
    }

    /// Writes the pages of the set.
    fn index(&self) {
        succeed(rocwheel().args(["index", "--no-check"]).arg(self.0.path()));
    }

    fn place(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    /// Adds a small module, and a line of RECORD.
    fn add(&self, start: &str, member: &str) {
        self.edit(start, |members| add(members, member, "x = 1\n"));
    }

    fn check(&self, arguments: &[&str]) -> Outcome {
        run(&[&["check", self.place()], arguments].concat())
    }

    /// The findings alone, with the exit code before them.
    fn found(&self, arguments: &[&str]) -> String {
        let Outcome { code, stdout, .. } = self.check(arguments);
        let stdout = stdout.replace("-0.99.1.dev0-py3-none-linux_x86_64", "");
        // How many findings each rule has stands behind them.
        match stdout.split_once("\n\n") {
            Some((findings, _)) => format!("exit {code}\n{findings}\n"),
            None => format!("exit {code}\n"),
        }
    }
}

/// What is found after one change.
fn after(change: impl FnOnce(&Set)) -> String {
    let set = Set::new();
    change(&set);
    set.found(&[])
}

/// The findings of one rule only.
fn only(rule: &str, shown: &str) -> String {
    let lines = shown.lines().filter(|line| line.contains(rule));
    lines.map(str::trim).collect::<Vec<_>>().join("\n")
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
    let text = String::from_utf8(bytes.clone()).unwrap();
    *bytes = text.replace(from, to).into_bytes();
}

fn library(soname: &str) -> SharedObject {
    SharedObject::new(soname)
}

fn launches(target: &str) -> Vec<u8> {
    launcher(target.as_bytes()).unwrap()
}
