//! What `check` knows of a set without reading it is what it would read, and is believed only of
//! files that are still those that `build` wrote.

use std::{
    num::NonZeroUsize,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Output,
    sync::Arc,
};

use rocwheel::{
    check::{self, KnownWheels, SetFacts, StoredFacts},
    digest::Sha256,
    error::Stop,
    package::{SdkTreePacking, assemble::Reuse},
    set::{PackageDirectories, PlaceDepth, SetPlace},
    wheel::WheelCompression,
};

use super::rocwheel;
use crate::{
    build::built::{make, options, world},
    support::{program::succeed, published::sets},
};

/// Without what a build does not know: the digests of single files in the development files. And
/// without the digests of packages, which are read only if pages name them.
fn comparable(mut set: SetFacts) -> Vec<String> {
    for wheel in &mut set.wheels {
        let wheel = Arc::get_mut(wheel).unwrap();
        wheel.package.digest = None;
        for entry in wheel.devel.iter_mut().flat_map(|tree| &mut tree.entries) {
            if let Some(content) = &mut entry.content {
                content.sha256 = None;
            }
        }
    }
    let mut facts = Vec::new();
    for wheel in &set.wheels {
        facts.push(format!("{:?} {:?}", wheel.package, wheel.faults));
        facts.extend(wheel.members.iter().map(|it| format!("{it:?}")));
        let entries = wheel.devel.iter().flat_map(|tree| &tree.entries);
        facts.extend(entries.map(|it| format!("{it:?}")));
        facts.extend(
            wheel
                .devel
                .as_ref()
                .map(|it| format!("{} {:?}", it.member, it.fault)),
        );
    }
    facts.extend(set.sdists.iter().map(|it| format!("{it:?}")));
    facts
}

fn read(dest: &Path) -> SetFacts {
    let (world, place) = (world(), SetPlace::directory(dest, &Stop::default()));
    let depth = PlaceDepth::Packages(PackageDirectories::Built);
    let (known, jobs) = (KnownWheels::default(), NonZeroUsize::new(2).unwrap());
    check::facts_of(&place, depth, &known, jobs, &world).unwrap()
}

#[test]
fn the_facts_of_what_was_built_are_those_of_its_bytes() {
    let (jobs, stop) = (NonZeroUsize::new(2).unwrap(), Stop::default());
    for set in sets() {
        let place = tempfile::tempdir().unwrap();
        let mut other = options();
        other.devel_packing = SdkTreePacking::TarXz;
        other.settings.compression = WheelCompression::Store;
        for (name, options) in [("tar", options()), ("xz", other)] {
            let dest = place.path().join(name);
            let made = make(&set.artifacts(), &dest, &Reuse::default(), &options);
            let bytes = comparable(read(&dest));
            let none = StoredFacts::new(Sha256::of(b"this program"));
            let built =
                |earlier| check::facts_of_built(&made.packages, earlier, jobs, &stop).unwrap();
            let (seen, stored) = built(&none);
            let said = format!("{} as {name}", set.name);
            assert_eq!(comparable(seen), bytes, "{said}");
            // And once they were written down and read again, without the sources.
            let again = StoredFacts::parse(&stored.to_bytes(), Sha256::of(b"this program"));
            assert!(again == stored, "{said}");
            let (remembered, same) = built(&again);
            assert_eq!(comparable(remembered), bytes, "{said}");
            assert!(same == stored, "{said}");
            let other = StoredFacts::parse(&stored.to_bytes(), Sha256::of(b"another program"));
            assert!(other == StoredFacts::new(Sha256::of(b"another program")));
        }
    }
}

fn built() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let mut build = rocwheel();
    build
        .arg("build")
        .arg("--artifact-dir")
        .arg(sets()[0].artifacts());
    succeed(build.arg("--dest-dir").arg(place.path()));
    place
}

fn checked(place: &Path, more: &[&str]) -> (Output, String) {
    let output = rocwheel()
        .arg("check")
        .arg(place)
        .args(more)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    (output, said)
}

fn wheel(place: &Path, begin: &str) -> PathBuf {
    let names = fs_err::read_dir(place.join("dist")).unwrap();
    let mut paths = names.map(|entry| entry.unwrap().path());
    // A published set has a `.whl.metadata` beside each wheel.
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(begin) && path.extension().is_some_and(|it| it == "whl")
    };
    paths.find(is_it).unwrap()
}

const TRUSTED: &str = "Trusted what `build` knows of ";

#[test]
fn a_set_is_not_read_again_and_says_the_same() {
    let place = built();
    let (bytes, said) = checked(place.path(), &["--from-bytes", "--format", "json"]);
    assert!(!said.contains(TRUSTED), "{said}");
    for from in [place.path().to_owned(), place.path().join("dist")] {
        let (known, said) = checked(&from, &["--format", "json"]);
        assert!(said.contains(TRUSTED), "{said}");
        assert!(known.stdout == bytes.stdout);
    }
    let mut here = rocwheel();
    let output = here
        .current_dir(place.path().join("dist"))
        .args(["check", "."])
        .output();
    let said = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(said.contains(TRUSTED), "{said}");
}

#[test]
fn a_changed_wheel_with_its_old_time_is_read() {
    let place = built();
    let wheel = wheel(place.path(), "rocm_sdk_libraries-");
    let mut bytes = fs_err::read(&wheel).unwrap();
    let time = fs_err::metadata(&wheel).unwrap().modified().unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    let mut file = fs_err::OpenOptions::new().write(true).open(&wheel).unwrap();
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    file.file().set_modified(time).unwrap();
    drop(file);
    let (output, said) = checked(place.path(), &[]);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(TRUSTED), "{said}");
    // A copy of the whole directory is not what `build` wrote.
    let copy = tempfile::tempdir().unwrap();
    let mut cp = std::process::Command::new("cp");
    succeed(cp.arg("-a").arg(place.path()).arg(copy.path().join("set")));
    let (output, said) = checked(&copy.path().join("set"), &[]);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains(TRUSTED), "{said}");
}

#[test]
fn damaged_facts_are_not_believed() {
    let place = built();
    let file = place.path().join(".rocwheel-facts");
    let bytes = fs_err::read(&file).unwrap();
    for at in (0..bytes.len()).step_by(bytes.len() / 7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        for bytes in [&damaged, &damaged[..at]] {
            fs_err::write(&file, bytes).unwrap();
            let (output, said) = checked(place.path(), &[]);
            assert_eq!(output.status.code(), Some(0), "{said}");
            assert!(!said.contains(TRUSTED), "{said}");
        }
    }
}

/// A hard link changes the `ctime` of a package, so what is known of it has to be written again.
#[test]
fn what_an_upload_has_linked_before_it_failed_is_still_known() {
    let place = built();
    let all = trusted(place.path());
    let public = tempfile::tempdir().unwrap();
    let set = public.path().join("42-linux/python");
    // A page cannot replace a directory. The packages are there before.
    fs_err::create_dir_all(set.join("SHA256SUMS")).unwrap();
    let mut upload = rocwheel();
    upload.args(["upload", "--no-check", "--multi-target"]);
    upload.args(["--run-id=42", "--bucket=mine", "--platform=linux"]);
    upload.arg("--packages-dir").arg(place.path());
    upload.arg("--output-dir").arg(public.path());
    for _ in 0..2 {
        let output = upload.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("SHA256SUMS"), "{said}");
        let package = wheel(&set, "rocm_sdk_core-");
        assert_eq!(fs_err::metadata(package).unwrap().nlink(), 2, "{said}");
        assert_eq!(trusted(place.path()), all);
    }
    fs_err::remove_dir(set.join("SHA256SUMS")).unwrap();
    succeed(&mut upload);
    assert_eq!(trusted(place.path()), all);
}

/// What a check says that it trusts.
fn trusted(place: &Path) -> String {
    let said = checked(place, &[]).1;
    let mut lines = said.lines();
    let line = lines.find(|line| line.contains(TRUSTED));
    line.unwrap_or_else(|| panic!("{said}")).to_owned()
}
