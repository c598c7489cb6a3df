//! A fetch that was killed or interrupted at any moment: what has its name is whole, and the next one does the rest.

use std::{
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use fs_err as fs;

use super::{
    Fixture,
    tree::{Tree, difference, tree},
};

const WAYS: [&str; 3] = ["", "--flatten", "--no-extract"];
const WANTED: [&str; 3] = ["blas", "rand", "rocgdb"];
const SEEDS: u32 = 50;

fn command(fixture: &Fixture, out: &Path, way: &str) -> Command {
    let mut command = fixture.command();
    command
        .args(["--run-id", "7", "--downloads", "3", "--output-dir"])
        .arg(out)
        .args(way.split_whitespace())
        .args(WANTED);
    command
}

#[test]
fn a_fetch_that_was_killed_is_made_whole_by_the_next() {
    let fixture = Fixture::new();
    let begun = Instant::now();
    let whole = WAYS.map(|way| {
        let out = fixture.directory.path().join(format!("whole{way}"));
        let output = command(&fixture, &out, way).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        tree(&out)
    });
    let time = begun.elapsed() / 3;
    for seed in 0..SEEDS {
        let way = seed as usize % WAYS.len();
        let out = fixture.directory.path().join(seed.to_string());
        let mut child = command(&fixture, &out, WAYS[way])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Moments all over the time that it takes, in no order.
        thread::sleep(time * (seed * 37 % SEEDS) / SEEDS);
        // Every other one by Ctrl-C, which leaves time to clear away.
        let interrupted = seed % 2 == 1;
        let signal = if interrupted { "-INT" } else { "-KILL" };
        let pid = child.id().to_string();
        Command::new("kill").args([signal, &pid]).status().unwrap();
        let code = child.wait().unwrap().code();
        let left = tree(&out);
        if interrupted {
            // Nothing, before it could listen; and it may have been done.
            assert!(
                matches!(code, None | Some(0 | 130)),
                "seed {seed}: {code:?}"
            );
            let half = left.keys().find(|path| path.contains(".part"));
            assert!(half.is_none() || code.is_none(), "seed {seed}: {half:?}");
        }
        if WAYS[way] != "--flatten" {
            named_is_whole(&left, &whole[way], seed);
        }
        let again = command(&fixture, &out, WAYS[way]).output().unwrap();
        assert!(again.status.success(), "seed {seed}: {again:?}");
        let different = difference(&tree(&out), &whole[way]);
        assert!(different.is_empty(), "seed {seed}: {different:?}");
        fs::remove_dir_all(&out).unwrap();
    }
}

/// Nothing lies under a final name that is not all of it.
fn named_is_whole(left: &Tree, whole: &Tree, seed: u32) {
    let top = |path: &String| path.split('/').next().unwrap().to_owned();
    for name in left.keys().map(top) {
        if name.starts_with('.') || name.ends_with(".part") {
            continue;
        }
        let of = |tree: &Tree| -> Tree {
            let own = tree.iter().filter(|(path, _)| top(path) == name);
            own.map(|(path, what)| (path.clone(), what.clone()))
                .collect()
        };
        assert_eq!(difference(&of(left), &of(whole)), [""; 0], "seed {seed}");
    }
}

#[test]
fn an_artifact_that_was_to_be_replaced_is_never_lost_for_good() {
    let fixture = Fixture::new();
    let out = fixture.out();
    assert_eq!(fixture.fetch("--run-id 7 blas_lib_gfx942").code, 0);
    let whole = tree(&out);
    // As if it had been killed between two names.
    fs::rename(out.join("blas_lib_gfx942"), out.join("blas_lib_gfx942.old")).unwrap();
    fs::create_dir(out.join("blas_lib_gfx942.part")).unwrap();
    assert_eq!(fixture.fetch("--run-id 7 blas_lib_gfx942").code, 0);
    assert_eq!(difference(&tree(&out), &whole), [""; 0]);
}

#[test]
fn what_was_not_known_to_be_on_the_disk_is_fetched_again_after_the_next_boot() {
    let fixture = Fixture::new();
    let record = fixture.out().join(".rocwheel-fetch.json");
    let unsettled = || {
        fs::read_to_string(&record)
            .unwrap()
            .matches("unsettled")
            .count()
    };
    assert_eq!(fixture.fetch("--run-id 7 blas rand").code, 0);
    assert_eq!(unsettled(), 0);
    fs::remove_dir_all(fixture.out()).unwrap();

    // A workflow does not wait for the disk.
    let mut command = fixture.command();
    command.env("GITHUB_ACTIONS", "true");
    command
        .args(["--run-id", "7", "--output-dir"])
        .arg(fixture.out());
    let output = command.args(["blas_lib_gfx", "rand"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(unsettled(), 4);
    let kept = fixture.fetch("--run-id 7 --dry-run blas_lib_gfx rand");
    assert_eq!(kept.stdout.matches("keep ").count(), 4, "{}", kept.stdout);

    // As if the machine had been started anew; one archive is on the disk for certain.
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let text = fs::read_to_string(&record).unwrap();
    let mut text = text.replace(boot.trim(), "another");
    let at = text.rfind(",\n      \"unsettled\": \"another\"").unwrap();
    text.replace_range(at..at + ",\n      \"unsettled\": \"another\"".len(), "");
    fs::write(&record, text).unwrap();
    let again = fixture.fetch("--run-id 7 blas_lib_gfx rand");
    assert_eq!(again.code, 0, "{}", again.stderr);
    let count = |verb: &str| again.stdout.matches(verb).count();
    assert_eq!(
        (count("renew "), count("keep ")),
        (3, 1),
        "{}",
        again.stdout
    );
    assert_eq!(unsettled(), 0);
}
