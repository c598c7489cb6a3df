//! Names that are claimed, directories that are replaced, and what killed writers leave.

use std::{cell::Cell, thread};

use super::*;

fn file(target: &Path, text: &str) -> AtomicFile {
    let mut file = AtomicFile::beside(target).unwrap();
    file.file().write_all(text.as_bytes()).unwrap();
    file
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_name_is_claimed_once_and_replaced_at_will() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.txt");
    file(&path, "first").claim(&path).unwrap();
    let refused = file(&path, "second").claim(&path).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&path).unwrap(), "first");
    file(&path, "third").replace(&path).unwrap();
    drop(file(&path, "fourth"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "third");
    assert_eq!(names(directory.path()), ["a.txt"]);
}

#[test]
fn a_directory_replaces_another_whole_and_goes_if_it_is_not_finished() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("a/dist");
    let in_two = |staged: StagedDir| swap(staged.staging, &staged.target, &|_, _| true).map(drop);
    for number in 0..4 {
        let staged = StagedDir::beside(&target).unwrap();
        fs::write(staged.path().join(number.to_string()), "").unwrap();
        if number % 2 == 0 {
            staged.replace(|_, _| true).unwrap();
        } else {
            in_two(staged).unwrap();
        }
        drop(StagedDir::beside(&target).unwrap());
        assert_eq!(names(&target), [number.to_string()]);
        assert_eq!(names(target.parent().unwrap()), ["dist"]);
    }
}

#[test]
fn what_came_into_a_directory_meanwhile_is_kept() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("dist");
    let theirs = |name: &str| {
        let file = target.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "theirs").unwrap();
    };
    // The target exists, and is made meanwhile; by an exchange, and by two renames.
    for (is_there, in_two) in [(true, false), (false, false), (true, true)] {
        if is_there {
            theirs("ours.whl");
        }
        let staged = StagedDir::beside(&target).unwrap();
        fs::write(staged.path().join("ours.whl"), "ours").unwrap();
        theirs("thesis.txt");
        theirs("gfx942/torch.whl");
        let is_ours = |_: &Path, name: &str| name == "ours.whl";
        let kept = if in_two {
            swap(staged.staging, &staged.target, &is_ours)
        } else {
            staged.replace(is_ours)
        };
        assert_eq!(kept.unwrap(), ["gfx942/torch.whl", "thesis.txt"]);
        assert_eq!(names(&target), ["gfx942", "ours.whl", "thesis.txt"]);
        assert_eq!(fs::read_to_string(target.join("ours.whl")).unwrap(), "ours");
        assert_eq!(fs::read_to_string(target.join("thesis.txt")).unwrap(), "theirs");
        assert_eq!(names(place.path()), ["dist"]);
        fs::remove_dir_all(&target).unwrap();
    }
}

/// A directory that was replaced has the name of an unfinished one until it is removed, and every
/// writer sweeps those first.
#[test]
fn directories_are_replaced_beside_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let replace = |target: &Path| {
        for _ in 0..40 {
            let staged = StagedDir::beside(target).unwrap();
            for name in ["a", "b", "c", "d"] {
                fs::write(staged.path().join(name), name).unwrap();
            }
            staged.replace(|_, _| true).unwrap();
        }
    };
    thread::scope(|scope| {
        for name in ["one", "two", "three", "four"] {
            let target = directory.path().join(name);
            scope.spawn(move || replace(&target));
        }
    });
    assert_eq!(names(directory.path()), ["four", "one", "three", "two"]);
}

#[test]
fn a_directory_that_was_taken_out_of_its_place_is_put_back() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("dist");
    fs::create_dir_all(old_name(&target).join("old")).unwrap();
    drop(StagedDir::beside(&target).unwrap());
    assert_eq!(names(&target), ["old"]);
    assert_eq!(names(directory.path()), ["dist"]);
}

#[cfg(unix)]
#[test]
fn others_may_read_what_was_written() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let plain = directory.path().join("plain");
    let ours = directory.path().join("ours");
    fs::write(&plain, "").unwrap();
    write(&ours, "").unwrap();
    assert_eq!(mode(&ours), mode(&plain));
    let (plain, ours) = (directory.path().join("d"), directory.path().join("e"));
    fs::create_dir(&plain).unwrap();
    StagedDir::beside(&ours).unwrap().replace(|_, _| true).unwrap();
    assert_eq!(mode(&ours), mode(&plain));
}

#[test]
fn what_has_no_writer_under_this_kernel_is_swept() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at(".rocwheel-of-another.part"), "").unwrap();
    fs::write(at(".rocwheel-fetch.lock"), "").unwrap();
    if let Some(ours) = OF_THIS_KERNEL.as_deref() {
        fs::write(at(&format!("{ours}killed.part")), "").unwrap();
        fs::create_dir_all(at(&format!("{ours}tree.part/a"))).unwrap();
    }
    let written = file(&at("target"), "slow");
    let made = StagedDir::beside(&at("slow")).unwrap();
    sweep(directory.path());
    assert!(written.0.path().exists() && made.path().exists());
    drop((written, made));
    assert_eq!(names(directory.path()), [".rocwheel-fetch.lock", ".rocwheel-of-another.part"]);
}

#[test]
fn a_file_that_a_sweep_has_removed_is_written_once_more() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("a.txt");
    let attempts = Cell::new(0);
    write_at_once(&target, b"whole", |file, target| {
        if attempts.replace(attempts.get() + 1) == 0 {
            sweep(directory.path());
            assert_eq!(file.0.path().exists(), OF_THIS_KERNEL.is_none());
        }
        file.claim(target)
    })
    .unwrap();
    assert_eq!(attempts.get(), if OF_THIS_KERNEL.is_some() { 2 } else { 1 });
    assert_eq!(fs::read_to_string(&target).unwrap(), "whole");
    assert_eq!(create(&target, "other").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    write(&target, "third").unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "third");
    assert_eq!(names(directory.path()), ["a.txt"]);
    // Without the directory there is nothing to try again.
    let lost = create(&directory.path().join("gone/a.txt"), "").unwrap_err();
    assert_eq!(lost.kind(), io::ErrorKind::NotFound);
}

/// Two writers with the same process id (in two containers) must get different names.
#[test]
fn a_name_does_not_depend_on_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("a");
    let pid = std::process::id().to_string();
    let name = AtomicFile::beside(&target).unwrap().0.path().to_owned();
    let again = AtomicFile::beside(&target).unwrap().0.path().to_owned();
    let random = name.file_name().unwrap().to_str().unwrap();
    assert!(!random.contains(&format!("-{pid}-")), "{random}");
    assert_ne!(name, again);
}

#[test]
fn a_directory_that_is_to_come_has_the_room_of_what_it_will_be_in() {
    let place = tempfile::tempdir().unwrap();
    assert!(free_space(&place.path().join("a/b")).is_some());
    assert!(free_space(Path::new("not/here/yet")).is_some());
}
