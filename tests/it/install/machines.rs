//! The targets of the machine, of which the kernel tells.

use super::{expected, packages, place, ran};
use crate::{
    support::{
        place::{empty, text},
        published::sample,
    },
    targets::machine::Machine,
};

#[test]
fn the_gpus_of_the_machine_decide_what_is_installed() {
    let set = sample().place();
    let (_place, environment) = place();
    let refused = |machine: &str, change: Option<(&str, &str)>| {
        let sys = empty("install/machine");
        Machine::named(machine).write(&sys);
        if let Some((old, new)) = change {
            let node = sys.join("class/kfd/kfd/topology/nodes/2/properties");
            let text = fs_err::read_to_string(&node).unwrap();
            assert!(text.contains(old));
            fs_err::write(node, text.replace(old, new)).unwrap();
        }
        let arguments = ["--set", text(&set), "--sysfs", text(&sys), "--dry-run"];
        let outcome = ran(&[&arguments[..], &["--venv", text(&environment)]].concat());
        assert!(!environment.exists());
        let line = outcome.stdout.lines().next().unwrap_or_default();
        let line = line.split(", from").next().unwrap().to_owned();
        format!("## {machine}\n{} {line}\n{}", outcome.code, outcome.stderr)
    };
    let both = Some(("gfx_target_version 100302", "gfx_target_version 90402"));
    let told = [
        refused("mi300x8", None),
        refused("mi300x-partitioned", None),
        refused("two-gpus", both),
        // Of one of them, the set has no code.
        refused("two-gpus", None),
        refused("strix-halo", None),
        refused("none", None),
    ];
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn detected_targets_are_installed() {
    let (_place, environment) = place();
    let sys = empty("install/detected");
    Machine::named("mi300x8").write(&sys);
    let set = sample().place();
    let arguments = [
        "--set",
        text(&set),
        "--sysfs",
        text(&sys),
        "--installer",
        "uv",
    ];
    ran(&[&arguments[..], &["--venv", text(&environment)]].concat()).ok();
    assert_eq!(packages(&environment), expected(&["gfx942"]));
}
