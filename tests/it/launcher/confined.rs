//! Launchers in a world without `/proc`, where a test's directory is the root.

use crate::support::prelude::*;
use crate::{
    judges::skipped,
    launcher::at_work::{Stage, ran, static_program},
};

/// How to get another root, if one may.
static HOW: LazyLock<Option<&[&str]>> = LazyLock::new(|| {
    let ways: [&[&str]; 3] = [&[], &["unshare", "--map-root-user"], &["sudo", "-n"]];
    let probe = Stage::new();
    probe.program("probe", &static_program());
    let works = |way: &&[&str]| {
        let output = confine(way, &probe.root(), "/probe").output();
        output.is_ok_and(|output| output.status.code() == Some(7))
    };
    ways.into_iter().find(works)
});

/// A directory that may be another root. Without the right to that the test is skipped.
fn stage() -> Option<Stage> {
    if HOW.is_none() {
        skipped("`chroot` needs root, user namespaces, or `sudo -n`");
    }
    HOW.map(|_| Stage::new())
}

/// Runs a program with a stage as its whole world: nothing there but what the test has put.
fn confined(stage: &Stage, program: &str) -> Command {
    confine(HOW.unwrap(), &stage.root(), program)
}

fn confine(way: &[&str], root: &Path, program: &str) -> Command {
    let mut chroot = "/usr/sbin/chroot /usr/bin/chroot /sbin/chroot /bin/chroot".split(' ');
    let chroot = chroot.find(|path| Path::new(path).exists());
    // With an empty `PATH`, a name without a slash is looked for in the working directory, and
    // reaches the kernel as it is.
    let rest = ["env", "PATH=", chroot.expect("`chroot` is missing")];
    let words: Vec<&str> = way.iter().copied().chain(rest).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(root).arg(program);
    command
}

#[test]
fn without_proc_a_chain_runs_by_the_names_that_were_called() {
    let Some(stage) = &stage() else { return };
    stage.launcher("bin/clang++", "clang");
    stage.launcher("bin/clang", "../lib/clang-22");
    stage.program("lib/clang-22", &static_program());
    stage.link("usr/first", "second");
    stage.link("usr/second", "/other/third");
    stage.link("other/third", "../bin/clang++");
    stage.link("linked", "bin");
    for name in "/bin/clang++ bin/clang++ /usr/first /linked/clang++".split(' ') {
        ran(&confined(stage, name).output().unwrap(), name);
    }
}

#[test]
fn without_proc_as_many_links_are_followed_as_the_kernel_follows() {
    let Some(stage) = &stage() else { return };
    stage.launcher("bin/clang", "clang-22");
    stage.program("bin/clang-22", &static_program());
    stage.link("link40", "bin/clang");
    for link in 1..40 {
        stage.link(&format!("link{link}"), &format!("link{}", link + 1));
    }
    ran(&confined(stage, "/link1").output().unwrap(), "/link1");
}

#[test]
fn without_proc_a_name_beyond_all_room_is_too_long() {
    let Some(stage) = &stage() else { return };
    let directory = ("d".repeat(200) + "/").repeat(15);
    let target = "./".repeat(1000) + "clang-22";
    stage.launcher(directory.clone() + "clang", target);
    let link = directory + "link";
    stage.link(&link, &("./".repeat(2000) + "clang"));
    let failure = stage.failure(&mut confined(stage, &format!("/{link}")));
    assert_has!(failure, "/././: File name too long\n");
}

#[test]
fn without_proc_a_failure_says_that_proc_is_missing() {
    let Some(stage) = &stage() else { return };
    stage.launcher("clang++", "bin/clang-22");
    insta::assert_snapshot!(stage.failure(&mut confined(stage, "/clang++")), @"
        exit status: 1 could not exec /bin/clang-22: No such file or directory
        hint: cannot read /proc/self/exe (No such file or directory); is /proc mounted?
        ");
    insta::assert_snapshot!(stage.failure(&mut confined(stage, "clang++")), @"
        exit status: 1 could not find path component of main program: 'clang++'
        hint: cannot read /proc/self/exe (No such file or directory); is /proc mounted?
        ");
}

#[test]
fn without_proc_a_launcher_does_not_run_itself_for_ever() {
    let Some(stage) = &stage() else { return };
    stage.link("bin/alias", "clang");
    for target in ["clang", "alias"] {
        stage.launcher("bin/clang", target);
        let said = stage.failure(&mut confined(stage, "/bin/clang"));
        let expected = "exit status: 1 could not exec /bin/clang: the launcher would run itself\n\
                        hint: cannot read /proc/self/exe (No such file or directory); is /proc mounted?";
        assert_eq!(said, expected);
    }
    stage.launcher("bin/clang", "../bin/alias");
    let failure = stage.failure(&mut confined(stage, "/bin/clang"));
    assert_has!(failure, "/../bin/alias: File name too long\n");
}

#[test]
fn the_longest_target_that_the_kernel_takes_runs() {
    let Some(stage) = &stage() else { return };
    stage.program("pp", &static_program());
    stage.launcher("clang", "./".repeat(2046) + "pp");
    ran(&confined(stage, "/clang").output().unwrap(), "/clang");

    stage.launcher("clang", "./".repeat(2046) + "ppp");
    let failure = stage.failure(&mut confined(stage, "/clang"));
    assert_has!(failure, "/./ppp: File name too long\n");
}
