//! What a build hands on of its packages is what their files have, read by others.

use std::{
    io::{Cursor, Read},
    path::Path,
};

use flate2::read::GzDecoder;
use zip::ZipArchive;

use super::sets::{make, options, sample, sets, world};
use crate::{
    artifact::ArtifactTree,
    package::{
        SdkTreePacking,
        assemble::{BuiltMember, MadePackage, MadeSet, Reuse},
        build::{Build, BuildSelection},
    },
    place::{KnownPackage, KnownPackages, LocalSet},
    run::Provenance,
};
use rocwheel_base::digest::Sha256;
use rocwheel_elf::ReadAt;
use rocwheel_wheel::{Source, WheelCompression};

fn whole(source: &dyn ReadAt) -> Vec<u8> {
    let len = usize::try_from(source.len()).unwrap();
    let mut whole = vec![0; len];
    let mut at = 0;
    while at < len {
        at += source.read_at(at as u64, &mut whole[at..]).unwrap();
    }
    whole
}

fn is_wheel(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "whl")
}

fn wheel_has(file: &[u8], made: &MadePackage) {
    let mut zip = ZipArchive::new(Cursor::new(file)).unwrap();
    assert_eq!(zip.len(), made.members.len(), "{}", made.file.path);
    for (index, member) in made.members.iter().enumerate() {
        let mut found = zip.by_index(index).unwrap();
        assert_eq!(found.name().unwrap(), member.path.as_str());
        let executable = found.unix_mode().unwrap() & 0o111 != 0;
        assert_eq!(executable, member.executable, "{}", member.path);
        let mut bytes = Vec::new();
        found.read_to_end(&mut bytes).unwrap();
        assert_eq!(Sha256::of(&bytes), member.sha256, "{}", member.path);
        assert_eq!(bytes.len() as u64, member.len);
        if member.tree.is_some() {
            tree_has(&bytes, member);
        } else {
            let source = member.source.examine(whole).unwrap().unwrap();
            assert!(source == bytes, "{}", member.path);
        }
    }
}

fn tree_has(bytes: &[u8], member: &BuiltMember) {
    let tree = member.tree.as_ref().unwrap();
    let plain: Box<dyn Read> = if member.path.as_str().ends_with(".tar.xz") {
        Box::new(xz2::read::XzDecoder::new(bytes))
    } else {
        Box::new(bytes)
    };
    let mut tar = tar::Archive::new(plain);
    let mut entries = tree.entries();
    for found in tar.entries().unwrap() {
        let mut found = found.unwrap();
        let path = String::from_utf8(found.path_bytes().into_owned()).unwrap();
        let (entry, file) = entries.next().unwrap();
        assert_eq!(path.trim_end_matches('/'), entry.path.as_str());
        let mut content = Vec::new();
        found.read_to_end(&mut content).unwrap();
        let source = file.map(|file| file.examine(whole).unwrap());
        assert!(source.unwrap_or_default() == content, "{path}");
    }
    assert!(entries.next().is_none());
}

fn sdist_has(file: &[u8], made: &MadePackage) {
    let mut tar = tar::Archive::new(GzDecoder::new(file));
    let mut members = made.members.iter();
    for found in tar.entries().unwrap() {
        let mut found = found.unwrap();
        if found.header().entry_type().is_dir() {
            continue;
        }
        let path = String::from_utf8(found.path_bytes().into_owned()).unwrap();
        let member = members.next().unwrap();
        assert_eq!(path.split_once('/').unwrap().1, member.path.as_str());
        let mut content = Vec::new();
        found.read_to_end(&mut content).unwrap();
        assert_eq!(member.as_text(), Some(&content[..]));
        assert_eq!(member.sha256, Sha256::of(&content));
    }
    assert!(members.next().is_none());
}

fn matches_its_files(dest: &Path, made: &MadeSet) {
    for package in &made.packages {
        let file = fs_err::read(dest.join("dist").join(package.file.below())).unwrap();
        let found = (Sha256::of(&file), file.len() as u64);
        assert_eq!(found, (package.file.sha256, package.file.size));
        let metadata = String::from_utf8_lossy(package.metadata().unwrap());
        assert!(metadata.starts_with("Metadata-Version: "), "{metadata}");
        if is_wheel(package.file.below()) {
            wheel_has(&file, package);
        } else {
            sdist_has(&file, package);
        }
    }
}

#[test]
#[ignore = "slow"]
fn what_is_handed_on_is_what_the_files_have() {
    let artifacts = tempfile::tempdir().unwrap();
    for set in sets(artifacts.path()) {
        let place = tempfile::tempdir().unwrap();
        let dest = place.path().join("out");
        let mut other = options();
        other.devel_packing = SdkTreePacking::TarXz;
        other.settings.compression = WheelCompression::Store;
        for options in [options(), other] {
            let mut reuse = Reuse::default();
            for _ in 0..2 {
                let made = make(&set, &dest, &reuse, &options);
                matches_its_files(&dest, &made);
                reuse.from = Some(dest.clone());
                reuse.program = Some(std::env::current_exe().unwrap());
            }
        }
    }
}

#[test]
fn a_package_that_changed_since_it_was_packed_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (world, options) = (world(), options());
    let jobs = options.settings.jobs;
    let artifacts = tempfile::tempdir().unwrap();
    sample(artifacts.path());
    let tree = ArtifactTree::scan(artifacts.path(), jobs, &world.stop).unwrap();
    let build = Build::plan(&tree, &options, &BuildSelection::All, place.path(), &world).unwrap();
    let made = build.make(place.path(), &Reuse::default(), &world).unwrap();
    let packages = &made.packages;
    let known = packages.iter().map(|made| {
        let file = made.file.clone();
        let identity = made.identity;
        let metadata = made.metadata().unwrap().to_vec();
        (made.file.path.clone(), KnownPackage { file, identity, metadata, start: None })
    });
    let known: KnownPackages = known.collect();
    let describe = || {
        let identity = build.identity(Provenance::default()).unwrap();
        LocalSet::built(place.path(), identity, known.clone(), &world)
    };
    assert_eq!(describe().unwrap().document.files.len(), packages.len());
    // It keeps its length and the time of its last write.
    let wheel = packages.iter().find(|it| is_wheel(&it.file.path));
    let file = place.path().join(&wheel.unwrap().file.path);
    let time = fs_err::metadata(&file).unwrap().modified().unwrap();
    let mut bytes = fs_err::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs_err::write(&file, bytes).unwrap();
    let opened = fs_err::OpenOptions::new().write(true).open(&file).unwrap();
    opened.file().set_modified(time).unwrap();
    let said = describe().unwrap_err().to_string();
    assert!(said.ends_with("` changed after it was packed"), "{said}");
    assert!(!place.path().join("set.json").exists());
}

#[test]
fn a_source_that_changed_since_it_was_packed_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let [artifacts, dest] = ["in", "out"].map(|name| place.path().join(name));
    sample(&artifacts);
    let made = make(&artifacts, &dest, &Reuse::default(), &options());
    let members = made.packages.iter().flat_map(|package| &package.members);
    let mut files = members.filter_map(|member| match &member.source {
        Source::File(file) => Some(file),
        _ => None,
    });
    let file = files.next().unwrap();
    let change = || {
        for entry in walkdir::WalkDir::new(&artifacts) {
            let entry = entry.unwrap();
            if entry.file_type().is_file() {
                let (path, beside) = (entry.path(), entry.path().with_extension("new"));
                fs_err::copy(path, &beside).unwrap();
                fs_err::rename(beside, path).unwrap();
            }
        }
    };
    let said = file.examine(|_| change()).unwrap_err().to_string();
    assert!(said.ends_with("` changed after it was packed"), "{said}");
    // And before it is looked at.
    let said = file.examine(|_| ()).unwrap_err().to_string();
    assert!(said.ends_with("` changed after it was packed"), "{said}");
}
