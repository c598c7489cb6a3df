//! `targets --detect` and `--check`: what they say, and how they exit.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use rocwheel::gpu::{Closed, Obstacle, detect};

use super::machine::Machine;
use crate::{
    judges::needs,
    support::{
        place::{self, text},
        program::{Outcome, ROCWHEEL, rocwheel},
    },
};

/// The directories `/sys` and `/dev` of a machine. All its devices can be opened.
fn directories(test: &str, machine: &str) -> (PathBuf, PathBuf) {
    let directory = place::empty(&format!("targets/{test}"));
    let (sys, dev) = (directory.join("sys"), directory.join("dev"));
    Machine::named(machine).write(&sys);
    fs_err::create_dir_all(dev.join("dri")).unwrap();
    fs_err::write(dev.join("kfd"), "").unwrap();
    for device in detect(&sys).iter().filter_map(|it| it.device()) {
        fs_err::write(dev.join(device), "").unwrap();
    }
    (sys, dev)
}

fn shown(outcome: &Outcome, directory: &Path) -> String {
    let Outcome {
        code,
        stdout,
        stderr,
    } = outcome;
    let text = format!("exit {code}\n--- stdout\n{stdout}--- stderr\n{stderr}");
    text.replace(place::text(directory), "[place]")
}

#[test]
fn detection_names_the_gpus_and_what_is_wrong_with_them() {
    let lines = Machine::all().into_iter().map(|machine| {
        let (sys, dev) = directories("detect", &machine.name);
        let arguments = [
            "targets",
            "--detect",
            "--sysfs",
            text(&sys),
            "--dev",
            text(&dev),
        ];
        let outcome = rocwheel(&arguments);
        format!("## {}\n{}", machine.name, shown(&outcome, &sys))
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_obstacle_has_a_reason_and_a_way_out() {
    let (kfd, render) = ("/dev/kfd", "/dev/dri/renderD128");
    let denied = |group, name: Option<&str>| Closed::Denied(group, name.map(str::to_owned));
    let (video, no_device) = (denied(44, Some("video")), "No such device (os error 19)");
    let cases = [
        vec![(kfd, Closed::Missing)],
        vec![
            (kfd, denied(992, Some("render"))),
            (render, Closed::Missing),
        ],
        vec![(render, Closed::Failed(no_device.to_owned()))],
        vec![(kfd, denied(992, Some("render")))],
        vec![(kfd, denied(110, None)), (render, denied(110, None))],
        vec![(kfd, denied(992, Some("render"))), (render, video)],
    ];
    let lines = cases.map(|case| {
        let case = case.into_iter().map(|(path, why)| (path.into(), why));
        let Obstacle { reason, fix } = Obstacle::of_devices(&case.collect::<Vec<_>>()).unwrap();
        format!("{reason}: {fix}")
    });
    insta::assert_snapshot!(lines.join("\n"));
    assert_eq!(Obstacle::of_devices(&[]), None);
}

#[test]
fn a_check_fails_for_a_gpu_that_this_system_offers_and_forbids() {
    let (sys, dev) = directories("check", "rx9070-igpu");
    let check = |more: &[&str]| {
        let place = [
            "targets",
            "--check",
            "--sysfs",
            text(&sys),
            "--dev",
            text(&dev),
        ];
        shown(
            &rocwheel(&[&place[..], more].concat()),
            sys.parent().unwrap(),
        )
    };
    let mut told = vec![check(&[]), check(&["--format", "json"])];
    fs_err::remove_file(dev.join("dri/renderD129")).unwrap();
    told.push(check(&["--emit", "extras"]));
    fs_err::remove_file(dev.join("kfd")).unwrap();
    told.push(check(&["--format", "json"]));
    insta::assert_snapshot!(told.join("\n"));
}

/// Runs a check in which the kernel answers with an error for one path.
fn with_error(error: &str, call: &str, path: &Path, (sys, dev): (&Path, &Path)) -> String {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "-P", text(path), "-e"]);
    strace.arg(format!("inject={call}:error={error}"));
    strace.args([
        ROCWHEEL,
        "targets",
        "--check",
        "--sysfs",
        text(sys),
        "--dev",
        text(dev),
    ]);
    strace
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap());
    shown(
        &Outcome::of(strace.output().unwrap()),
        sys.parent().unwrap(),
    )
}

#[test]
fn what_the_kernel_forbids_has_a_reason_of_its_own() {
    needs!("strace");
    let (sys, dev) = directories("forbidden", "strix-halo");
    let both = (sys.as_path(), dev.as_path());
    let node = sys.join("class/kfd/kfd/topology/nodes/1/properties");
    let mut told = Vec::new();
    for (error, call, path) in [
        ("ENODEV", "openat", dev.join("kfd")),
        ("EPERM", "read", node),
    ] {
        let shown = with_error(error, call, &path, both);
        told.push(format!(
            "## {error} for {call} of {}\n{shown}",
            path.file_name().unwrap().display()
        ));
    }
    insta::assert_snapshot!(told.join("\n"));
    // The group is that of the user who runs the tests.
    let denied = with_error("EACCES", "openat", &dev.join("kfd"), both);
    assert!(
        denied.contains("this process may not open /dev/kfd of group "),
        "{denied}"
    );
    assert!(denied.contains(" --group-add "), "{denied}");
    assert!(denied.starts_with("exit 1\n"), "{denied}");
}

#[test]
fn detection_opens_no_file_of_another_place() {
    needs!("strace");
    let (sys, dev) = directories("opened", "mi300x8");
    let log = dev.join("log");
    let mut strace = Command::new("strace");
    strace.args([
        "-f",
        "-e",
        "trace=open,openat,openat2,readlink,readlinkat",
        "-o",
        text(&log),
    ]);
    strace.args([
        ROCWHEEL,
        "targets",
        "--detect",
        "--sysfs",
        text(&sys),
        "--dev",
        text(&dev),
    ]);
    strace
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap());
    assert!(strace.output().unwrap().status.success());
    let log = fs_err::read_to_string(log).unwrap();
    let paths = log.lines().filter_map(|line| line.split('"').nth(1));
    let of_machine = ["/sys/", "/dev/", text(&dev)];
    let foreign: Vec<&str> = paths
        .filter(|path| of_machine.iter().any(|begin| path.starts_with(begin)))
        .filter(|path| !path.starts_with("/sys/fs/cgroup") && !path.starts_with("/dev/null"))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

#[test]
fn variables_of_others_are_honoured() {
    let (sys, dev) = directories("variables", "two-gpus");
    let run = |variables: &[(&str, &str)], more: &[&str]| {
        let mut command = crate::support::program::command();
        command.envs(variables.iter().copied());
        command.args([
            "targets",
            "--detect",
            "--sysfs",
            text(&sys),
            "--dev",
            text(&dev),
            "-q",
        ]);
        let outcome = Outcome::of(command.args(more).output().unwrap());
        format!("{variables:?} {more:?}: {}", shown(&outcome, &sys))
    };
    let force = ("ROCM_BOOTSTRAP_FORCE_GFX_ARCH", "gfx942,gfx12-0");
    let disable = ("ROCM_BOOTSTRAP_DISABLE_DETECTION", "1");
    let claim = ("HSA_OVERRIDE_GFX_VERSION", "10.3.0");
    let told = [
        run(&[force], &[]),
        run(&[disable, force], &[]),
        run(&[claim], &[]),
        run(&[("HSA_OVERRIDE_GFX_VERSION", "navi")], &[]),
        run(&[("AMDGPU_FAMILIES", "gfx94X-dcgpu")], &[]),
    ];
    insta::assert_snapshot!(told.join("\n"));
}
