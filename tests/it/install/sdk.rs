//! `install --sdk`: trees from the artifacts of a run, and from tarballs on a server that breaks off.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};

use super::{install, ran};
use crate::{
    check::server::{Manner, Server},
    fetch::tree::{Tree, difference, tree},
    judges::tool,
    support::{
        long,
        place::text,
        program::{ROCWHEEL, rocwheel, succeed},
        published::{TestSet, odd, sample, sets_in_turn},
    },
};

const TARBALLS: &str = "nightly.repo.amd.com/rocm/core/tarball";
const MARKER: &str = "share/therock/.rocwheel-install.json";
const NAME: &str = "therock-dist-linux-gfx94X-dcgpu-10.1.0a20260901.tar.gz";
const FROM: [&str; 4] = ["--stream", "nightly", "--target", "gfx942"];

/// The archives of a set, in a directory.
fn archives(set: &TestSet, place: &Path) -> PathBuf {
    let input = place.join("input");
    set.write_archives(&input);
    input
}

/// The tree without the marker and the directories that only it needs.
fn without_marker(root: &Path) -> Tree {
    let mut found = tree(root);
    assert!(found.remove(MARKER).is_some());
    for above in ["share/therock", "share"] {
        if fs_err::read_dir(root.join(above)).unwrap().count() == usize::from(above == "share") {
            found.remove(above);
        }
    }
    found
}

/// What `fetch --flatten` makes of all that is installed.
fn flattened(input: &Path, out: &Path) -> Tree {
    let arguments = ["fetch", "--run-id", "7", "--flatten", "--allow-incomplete"];
    let more = [
        "--components",
        "lib,run,dev",
        "--input-dir",
        text(input),
        "--output-dir",
        text(out),
    ];
    rocwheel(&[&arguments[..], &more].concat()).ok();
    let _ = fs_err::remove_dir_all(out.join(".rocwheel-fetch"));
    tree(out)
}

/// A mirror with tarballs of this tree.
fn mirror(place: &Path, from: &Path) -> PathBuf {
    let mirror = place.join("mirror");
    let directory = mirror.join(TARBALLS);
    fs_err::create_dir_all(&directory).unwrap();
    succeed(
        Command::new("tar")
            .arg("-C")
            .arg(from)
            .arg("-czf")
            .arg(directory.join(NAME))
            .arg("."),
    );
    fs_err::write(directory.join("index.html"), page()).unwrap();
    mirror
}

/// The page that lists the tarball.
fn page() -> String {
    format!("<script>\nconst files = [{{\"name\": \"{NAME}\", \"mtime\": 1.5}}];\n</script>")
}

#[test]
fn a_run_becomes_a_tree_and_a_tarball_of_it_the_same() {
    for set in sets_in_turn(1) {
        let place = tempfile::tempdir().unwrap();
        let input = archives(set, place.path());
        let expected = flattened(&input, &place.path().join("flat tree"));
        let sdk = place.path().join("sdk with spaces");
        let base = [
            "--sdk",
            text(&sdk),
            "--run-id",
            "7",
            "--input-dir",
            text(&input),
        ];
        let all = set.targets.join(",");
        let said = ran(&[&base[..], &["--target", &all]].concat()).ok();
        assert_eq!(Path::new(said.trim()), sdk);
        assert_eq!(
            difference(&without_marker(&sdk), &expected),
            [""; 0],
            "{}",
            set.name
        );

        // Again, with files of an earlier SDK that the new one does not have.
        fs_err::write(sdk.join("bin/old"), "old").unwrap();
        let server = Server::start(
            &mirror(place.path(), &place.path().join("flat tree")),
            Manner::Breaks,
        );
        let tarball = ["--sdk", text(&sdk), "--mirror", &server.url];
        let plan = ran(&[&tarball[..], &FROM, &["--dry-run"]].concat()).ok();
        assert!(plan.contains(NAME), "{plan}");
        assert!(sdk.join("bin/old").exists());
        ran(&[&tarball[..], &FROM].concat()).ok();
        assert_eq!(
            difference(&without_marker(&sdk), &expected),
            [""; 0],
            "{}",
            set.name
        );
        let marker = fs_err::read_to_string(sdk.join(MARKER)).unwrap();
        assert!(marker.contains("10.1.0a20260901"), "{marker}");
        let left: Vec<_> = fs_err::read_dir(place.path())
            .unwrap()
            .map(|it| it.unwrap().file_name())
            .collect();
        assert_eq!(left.len(), 4, "{left:?}");
    }
}

#[test]
fn components_bring_their_artifacts_and_no_others() {
    let place = tempfile::tempdir().unwrap();
    let input = archives(sample(), place.path());
    let sdk = place.path().join("sdk");
    let base = [
        "--sdk",
        text(&sdk),
        "--run-id",
        "7",
        "--input-dir",
        text(&input),
    ];
    let files = |more: &[&str]| {
        ran(&[&base[..], more].concat()).ok();
        let names = tree(&sdk).into_keys().filter(|it| it.contains(".so"));
        names.collect::<Vec<_>>()
    };
    let one = files(&["--target", "gfx942", "--component", "blas"]);
    assert!(one.iter().any(|it| it.contains("librocblas")), "{one:?}");
    assert!(one.iter().any(|it| it.contains("libamdhip64")), "{one:?}");
    assert!(!one.iter().any(|it| it.contains("librccl")), "{one:?}");
    let all = files(&["--target", "none"]);
    assert!(all.len() > one.len(), "{all:?}");
    let refused = ran(&[
        &base[..],
        &["--target", "none", "--component", "blas,nothing"],
    ]
    .concat());
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("nothing_lib"), "{}", refused.stderr);
    assert_eq!(files(&["--target", "none"]), all);
}

#[test]
fn a_directory_of_others_is_never_replaced() {
    let place = tempfile::tempdir().unwrap();
    let input = archives(odd(), place.path());
    let mine = place.path().join("mine");
    fs_err::create_dir(&mine).unwrap();
    fs_err::write(mine.join("thesis.txt"), "years").unwrap();
    let from = [
        "--run-id",
        "7",
        "--input-dir",
        text(&input),
        "--target",
        "none",
    ];
    let refused = |directory: &str, more: &[&str]| {
        let refused = ran(&[&["--sdk", directory], more].concat());
        let said = refused.stderr.replace(text(place.path()), "PLACE");
        format!("{} {said}", refused.code)
    };
    let said = [
        refused(text(&mine), &from),
        refused(text(&mine.join("thesis.txt")), &from),
        refused(
            text(&place.path().join("new")),
            &["--stream", "stable", "--component", "fft"],
        ),
        refused(text(&place.path().join("new")), &["--set", text(&mine)]),
    ];
    insta::assert_snapshot!(said.concat(), @"
    2 error: `PLACE/mine` is not empty, and is no SDK that was installed with this program

    hint: name another directory, or remove it
    2 error: not a directory: `PLACE/mine/thesis.txt`

    hint: name another one
    2 error: the argument '--stream <STREAM>' cannot be used with '--component <LIST>'

    Usage: rocwheel install --sdk <DIR> --stream <STREAM> [VENV]

    For more information, try '--help'.
    2 error: the argument '--sdk <DIR>' cannot be used with '--set <PLACE>'

    Usage: rocwheel install --sdk <DIR> [VENV]

    For more information, try '--help'.
    ");
    assert_eq!(
        fs_err::read_to_string(mine.join("thesis.txt")).unwrap(),
        "years"
    );
    assert_eq!(fs_err::read_dir(place.path()).unwrap().count(), 2);
}

#[test]
fn a_stopped_install_leaves_the_old_tree_or_the_new_one() {
    let place = tempfile::tempdir().unwrap();
    let input = archives(sample(), place.path());
    let flat = place.path().join("flat");
    let new = flattened(&input, &flat);
    let server = Server::start(&mirror(place.path(), &flat), Manner::Ranges);
    let sdk = place.path().join("below/sdk");
    let arguments = [&["--sdk", text(&sdk), "--mirror", &server.url][..], &FROM].concat();
    ran(&arguments).ok();
    let left_beside = || {
        let left = fs_err::read_dir(sdk.parent().unwrap()).unwrap();
        let left = left.map(|it| it.unwrap().file_name());
        left.collect::<Vec<_>>()
    };
    for turn in 0..long::rounds(4, 50) {
        // What one that was killed has left, the next one removes, unless it is stopped before.
        for name in left_beside().iter().filter(|it| *it != "sdk") {
            let left = sdk.with_file_name(name);
            if left.is_dir() {
                fs_err::remove_dir_all(left).unwrap();
            } else {
                fs_err::remove_file(left).unwrap();
            }
        }
        fs_err::write(sdk.join("bin/old"), "old").unwrap();
        let old = without_marker(&sdk);
        let mut child = install(&arguments)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        sleep(Duration::from_millis(turn * 53 % 300));
        let signal = ["-INT", "-KILL"][usize::try_from(turn % 2).unwrap()];
        let id = child.id().to_string();
        Command::new("kill").args([signal, &id]).status().unwrap();
        let status = child.wait().unwrap();
        let found = without_marker(&sdk);
        let what = format!("turn {turn}: {signal} {status}");
        match status.code() {
            Some(0) => assert!(found == new, "{what}"),
            _ => assert!(found == old || found == new, "{what}"),
        }
        if signal == "-INT" && status.code().is_some() {
            assert!(matches!(status.code(), Some(0 | 130)), "{what}");
            assert_eq!(left_beside(), ["sdk"], "{what}");
        }
    }
    ran(&arguments).ok();
    assert_eq!(difference(&without_marker(&sdk), &new), [""; 0]);
    assert_eq!(left_beside(), ["sdk"]);
}

#[test]
fn a_damaged_tarball_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let tree_of = place.path().join("tree");
    fs_err::create_dir_all(tree_of.join("bin")).unwrap();
    fs_err::write(tree_of.join("bin/hipcc"), "x".repeat(100_000)).unwrap();
    let root = mirror(place.path(), &tree_of);
    let server = Server::start(&root, Manner::Ranges);
    let sdk = place.path().join("sdk");
    let arguments = [&["--sdk", text(&sdk), "--mirror", &server.url][..], &FROM].concat();
    ran(&arguments).ok();
    let before = tree(&sdk);
    let file = root.join(TARBALLS).join(NAME);
    let sound = fs_err::read(&file).unwrap();
    for (bytes, what) in [
        (&sound[..sound.len() - 9], "cut off"),
        (b"<html>no such tarball", "not gzip"),
    ] {
        fs_err::write(&file, bytes).unwrap();
        let refused = ran(&arguments);
        assert_ne!(refused.code, 0);
        assert!(refused.stderr.contains(what), "{}", refused.stderr);
        assert_eq!(tree(&sdk), before);
    }
}

/// Runs a program that may write no file of more than 20 MiB, and prints its exit code and the most
/// memory that it has had, in KiB.
const CONFINED: &str = "import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20 << 20, 20 << 20))
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";

#[test]
fn a_large_tarball_is_unpacked_while_it_arrives() {
    const FILE: usize = 16 << 20;
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("mirror");
    let tarballs = root.join(TARBALLS);
    fs_err::create_dir_all(&tarballs).unwrap();
    let archive = fs_err::File::create(tarballs.join(NAME)).unwrap();
    let mut archive = tar::Builder::new(GzEncoder::new(archive, Compression::none()));
    let count = long::rounds(8, 64);
    let content: Vec<u8> = (0..FILE).map(|at| at.to_le_bytes()[at % 3]).collect();
    for number in 0..count {
        let mut header = tar::Header::new_gnu();
        header.set_size(FILE as u64);
        header.set_mode(0o644);
        let name = format!("lib/library-{number}.so");
        archive
            .append_data(&mut header, name, content.as_slice())
            .unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap();
    fs_err::write(tarballs.join("index.html"), page()).unwrap();
    let server = Server::start(&root, Manner::Ranges);
    let sdk = place.path().join("sdk");
    let mut confined = Command::new(tool("python"));
    confined.args(["-c", CONFINED, ROCWHEEL, "install", "--sdk", text(&sdk)]);
    confined.args(["--mirror", &server.url]).args(FROM);
    let said = succeed(&mut confined).stdout;
    let said = String::from_utf8(said).unwrap();
    let (code, memory) = said.trim().split_once(' ').unwrap();
    assert_eq!(code, "0", "{said}");
    let memory: usize = memory.parse().unwrap();
    assert!(memory < 64 << 10, "{memory} KiB");
    for number in 0..count {
        let file = sdk.join(format!("lib/library-{number}.so"));
        assert!(fs_err::read(file).unwrap() == content, "{number}");
    }
}
