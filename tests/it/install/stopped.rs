//! Installs that are killed, or interrupted by Ctrl-C, at any moment.

use std::{
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use super::{expected, install, packages, place, ran};
use crate::{
    fetch::tree::{Tree, difference, tree},
    support::{long, place::text, published::sample},
};

/// What an install does with the environment.
const WAYS: [&[&str]; 3] = [&[], &["--extras", "libraries,devel"], &["--recreate"]];
/// How the end of a program is asked for: as by the system, and as by a terminal, which asks the
/// installer too.
const SIGNALS: [(&str, &str); 3] = [("-KILL", ""), ("-INT", ""), ("-INT", "-")];

fn from_sample(environment: &Path, more: &[&str]) -> Vec<String> {
    let set = sample().root().join("packages");
    let from = ["--set", text(&set), "--target", "gfx942", text(environment)];
    let all = [&from[..], more].concat();
    all.into_iter().map(str::to_owned).collect()
}

/// Installs after an install that was killed, once the installer of that has ended: it holds the
/// lock.
fn install_after(arguments: &[&str]) {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let next = ran(arguments);
        if next.code == 0 {
            return;
        }
        assert!(
            next.stderr.contains("another install is running") && Instant::now() < deadline,
            "{}",
            next.stderr
        );
        sleep(Duration::from_millis(100));
    }
}

/// The environment without what Python itself writes when it runs.
fn seen(environment: &Path) -> Tree {
    let mut found = tree(environment);
    found.retain(|path, _| !path.contains("__pycache__"));
    found
}

fn left_beside(environment: &Path) -> Vec<String> {
    let left = fs_err::read_dir(environment.parent().unwrap()).unwrap();
    let left = left.map(|it| it.unwrap().file_name().into_string().unwrap());
    let own = environment.file_name().unwrap().to_str().unwrap();
    left.filter(|it| it != own).collect()
}

#[test]
fn an_install_that_is_stopped_at_any_moment_leaves_no_half_environment() {
    let (_place, environment) = place();
    let mut time = Duration::from_millis(600);
    let turns = long::rounds(9, 54);
    for turn in 0..turns {
        let (way, (signal, group)) = (turn % WAYS.len(), SIGNALS[turn / WAYS.len() % 3]);
        let _ = fs_err::remove_dir_all(&environment);
        let exists = way != 0;
        if exists {
            let base = from_sample(&environment, &[]);
            let base: Vec<&str> = base.iter().map(String::as_str).collect();
            let begin = Instant::now();
            install_after(&base);
            time = begin.elapsed();
            fs_err::write(environment.join("bin/mine"), "mine").unwrap();
        }
        let before = seen(&environment);
        let arguments = from_sample(&environment, WAYS[way]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut child = install(&arguments)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let moment = u32::try_from(turn * 37 % turns).unwrap();
        sleep(time * moment / u32::try_from(turns).unwrap());
        let id = format!("{group}{}", child.id());
        let mut kill = Command::new("kill");
        kill.args([signal, "--", &id]).stderr(Stdio::null());
        kill.status().unwrap();
        let status = child.wait().unwrap();
        let what = format!("turn {turn}: {signal} {group} {status}");
        if signal == "-INT" {
            // By the signal itself, before the program could listen.
            let is_early = status.signal().is_some();
            assert!(is_early || matches!(status.code(), Some(0 | 130)), "{what}");
            assert_eq!(left_beside(&environment), [""; 0], "{what}");
            if status.code() != Some(0) {
                let different = difference(&seen(&environment), &before);
                assert!(different.is_empty(), "{what}: {different:?}");
            }
        }
        install_after(&arguments);
        let devel = format!("rocm_sdk_devel-{}", crate::support::published::VERSION);
        let mut wanted = expected(&["gfx942"]);
        wanted.extend((way == 1).then_some(devel));
        wanted.sort();
        assert_eq!(packages(&environment), wanted, "{what}");
        assert_eq!(environment.join("bin/mine").exists(), way == 1, "{what}");
        assert_eq!(left_beside(&environment), [""; 0], "{what}");
    }
}
