//! `targets --detect` and `--check`: what they say, and how they exit.

use super::machine::Machine;
use crate::judges::needs;
use crate::support::prelude::*;

/// A directory with the `sys` and `dev` of a machine. All its devices can be opened.
fn sandbox(machine: &str) -> Sandbox {
    let t = Sandbox::new();
    let root = t.path("");
    let t = t.with("ROCWHEEL_TEST_MACHINE", root);
    let machine = Machine::all().into_iter().find(|it| it.name == machine).unwrap();
    machine.write(&t.path("sys"));
    t.write("dev/kfd", "");
    for device in devices(&t) {
        t.write(device.trim_start_matches('/'), "");
    }
    t
}

/// The devices of the GPUs of a machine, such as `/dev/dri/renderD128`.
fn devices(t: &Sandbox) -> Vec<String> {
    let detected = t.run("targets --detect --format json").stdout;
    // A machine without a GPU has no document.
    let document: Value = serde_json::from_str(&detected).unwrap_or_default();
    let gpus = document["gpus"].as_array().into_iter().flatten();
    gpus.filter_map(|gpu| Some(gpu["render"].as_str()?.to_owned())).collect()
}

fn run(t: &Sandbox, flags: &str) -> String {
    t.run(&format!("targets {flags}")).all()
}

#[test]
fn detection_names_the_gpus_and_what_is_wrong_with_them() {
    let lines = Machine::all().into_iter().map(|machine| {
        let said = run(&sandbox(&machine.name), "--detect");
        format!("## {}\n{said}", machine.name)
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_check_fails_for_a_gpu_that_this_system_offers_and_forbids() {
    let t = sandbox("rx9070-igpu");
    let mut told = vec![run(&t, "--check"), run(&t, "--check --format json")];
    fs_err::remove_file(t.path("dev/dri/renderD129")).unwrap();
    told.push(run(&t, "--check --emit extras"));
    fs_err::remove_file(t.path("dev/kfd")).unwrap();
    told.push(run(&t, "--check --format json"));
    insta::assert_snapshot!(told.join("\n"));
}

/// `targets` with a flag, below `strace` with these arguments.
fn traced(t: &Sandbox, flag: &str, arguments: &[&str]) -> Command {
    let mut strace = Command::new("strace");
    strace.arg("-f").args(arguments).args([ROCWHEEL, "targets", flag]).env_clear();
    strace.env("PATH", std::env::var_os("PATH").unwrap());
    strace.env("ROCWHEEL_TEST_MACHINE", t.path(""));
    strace
}

/// Runs a check in which the kernel answers with an error for one path.
fn with_error(t: &Sandbox, error: &str, call: &str, path: &Path) -> Outcome {
    let inject = format!("inject={call}:error={error}");
    let path = path.to_str().unwrap();
    let arguments = ["-o", "/dev/null", "-P", path, "-e", &inject];
    t.outcome(&mut traced(t, "--check", &arguments))
}

#[test]
fn what_the_kernel_forbids_has_a_reason_of_its_own() {
    needs!("strace");
    let t = sandbox("strix-halo");
    let node = "sys/class/kfd/kfd/topology/nodes/1/properties";
    let told =
        [("ENODEV", "openat", "dev/kfd"), ("EPERM", "read", node)].map(|(error, call, path)| {
            let said = with_error(&t, error, call, &t.path(path)).all();
            format!("## {error} for {call} of {path}\n{said}")
        });
    insta::assert_snapshot!(told.join("\n"));
    // The group is that of the user who runs the tests.
    let denied = with_error(&t, "EACCES", "openat", &t.path("dev/kfd"));
    let said = denied.stderr;
    let denied_to = "this process may not open /dev/kfd";
    assert_has!(said, denied_to, " --group-add ");
    assert_eq!(denied.code, 1);
}

#[test]
fn detection_opens_no_file_of_another_place() {
    needs!("strace");
    let t = sandbox("mi300x8");
    let log = t.path("log");
    let calls = "trace=open,openat,openat2,readlink,readlinkat";
    let arguments = ["-e", calls, "-o", log.to_str().unwrap()];
    succeed(&mut traced(&t, "--detect", &arguments));
    let log = t.read("log");
    let paths = log.lines().filter_map(|line| line.split('"').nth(1));
    let dev = t.path("dev");
    let of_machine = ["/sys/", "/dev/", dev.to_str().unwrap()];
    let foreign: Vec<&str> = paths
        .filter(|path| of_machine.iter().any(|begin| path.starts_with(begin)))
        .filter(|path| !path.starts_with("/sys/fs/cgroup") && !path.starts_with("/dev/null"))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

#[test]
fn variables_of_others_are_honoured() {
    let t = sandbox("two-gpus");
    let told = [
        ("ROCM_BOOTSTRAP_FORCE_GFX_ARCH=gfx942,gfx12-0", ""),
        ("ROCM_BOOTSTRAP_DISABLE_DETECTION=1 ROCM_BOOTSTRAP_FORCE_GFX_ARCH=gfx942", ""),
        ("AMDGPU_FAMILIES=gfx94X-dcgpu", ""),
    ]
    .map(|(variables, flags)| {
        let mut command = t.command(&format!("targets --detect -q {flags}"));
        let pairs = variables.split(' ').map(|it| it.split_once('=').unwrap());
        let said = t.outcome(command.envs(pairs)).all();
        format!("{variables} {flags}: {said}")
    });
    insta::assert_snapshot!(told.join("\n"));
}
