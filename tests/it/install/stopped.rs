//! Installs that are killed, or interrupted by Ctrl-C, at any moment.

use std::{
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use super::{expected, install, packages, place, ran};
use crate::support::{long, place::text, published::sample};

/// How the end of a program is asked for: as by the system, and as by a terminal, which asks the
/// installer too.
const SIGNALS: [(&str, &str); 3] = [("-KILL", ""), ("-INT", ""), ("-INT", "-")];

fn entries(directory: &Path) -> usize {
    fs_err::read_dir(directory).unwrap().count()
}

/// Installs after an install that was killed, once the installer of that has ended: it holds the
/// lock.
fn install_after(arguments: &[&str]) -> i32 {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let next = ran(arguments);
        if !next.stderr.contains("another install is running") || Instant::now() > deadline {
            return next.code;
        }
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn an_install_that_is_stopped_at_any_moment_can_be_run_again() {
    let (place, environment) = place();
    let set = sample().root().join("packages");
    let from = [
        text(&set),
        "--target",
        "gfx942",
        "--venv",
        text(&environment),
    ];
    let begin = Instant::now();
    ran(&from).ok();
    let time = begin.elapsed();
    let turns = long::rounds(12, 54);
    for turn in 0..turns {
        let (signal, group) = SIGNALS[turn % SIGNALS.len()];
        let is_update = turn / SIGNALS.len() % 2 == 1;
        let arguments = if is_update {
            fs_err::write(environment.join("bin/mine"), "mine").unwrap();
            [&from[..], &["--extras", "libraries,devel"]].concat()
        } else {
            fs_err::remove_dir_all(&environment).unwrap();
            from.to_vec()
        };
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
            let is_made = is_update || status.code() == Some(0);
            assert_eq!(entries(place.path()), usize::from(is_made), "{what}");
        }
        // What a kill leaves of a new environment is either one, or is refused and left alone.
        if install_after(&arguments) != 0 {
            assert!(signal == "-KILL" && !is_update, "{what}");
            fs_err::remove_dir_all(&environment).unwrap();
            assert_eq!(install_after(&arguments), 0, "{what}");
        }
        let devel = format!("rocm_sdk_devel-{}", crate::support::published::VERSION);
        let mut wanted = expected(&["gfx942"]);
        wanted.extend(is_update.then_some(devel));
        wanted.sort();
        assert_eq!(packages(&environment), wanted, "{what}");
        assert_eq!(environment.join("bin/mine").exists(), is_update, "{what}");
    }
}
