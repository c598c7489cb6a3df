//! Name spaces of their own for the commands of a test: mounts that no other process sees, or process ids.

use crate::judges::skipped;
use crate::support::prelude::*;

/// How to become somebody who may: as root, as root of a name space of users, or with `sudo`.
const WAYS: [&[&str]; 3] =
    [&["unshare"], &["unshare", "--map-root-user"], &["sudo", "-n", "unshare"]];

/// A command in a name space for mounts, or none where this user may not have that: then the test is skipped.
pub(crate) fn with_mounts() -> Option<Command> {
    static WAY: OnceLock<Option<&'static [&'static str]>> = OnceLock::new();
    let place = tempfile::tempdir().unwrap();
    let place = place.path().to_str().unwrap();
    command(&WAY, &["--mount"], &["mount", "-t", "tmpfs", "tmpfs", place])
}

/// A command that has the first process id, or none where this user may not have that: then the test is skipped.
pub(crate) fn as_process_1() -> Option<Command> {
    static WAY: OnceLock<Option<&'static [&'static str]>> = OnceLock::new();
    command(&WAY, &["--pid", "--fork"], &["true"])
}

fn command(
    way: &OnceLock<Option<&'static [&'static str]>>,
    options: &[&str],
    probe: &[&str],
) -> Option<Command> {
    let with = |way: &[&str]| {
        let mut command = Command::new(way[0]);
        command.args(&way[1..]).args(options);
        command
    };
    let works = |way: &&[&str]| {
        let output = with(way).args(probe).output();
        output.is_ok_and(|output| output.status.success())
    };
    let way = way.get_or_init(|| WAYS.into_iter().find(works));
    if way.is_none() {
        let options = options.join(" ");
        skipped(&format!("`unshare {options}` needs root, user namespaces, or `sudo -n`"));
    }
    way.map(with)
}
