//! Which GPUs recorded machines have, and what is said of devices that cannot be opened.

use super::*;
use machine::Machine;

/// The tests of the program have the same machines.
#[path = "../../tests/it/targets/machine.rs"]
mod machine;

fn line(gpu: &Gpu) -> String {
    let target = gpu.target.as_ref().map(ToString::to_string);
    let (target, device) = (target.unwrap_or("?".into()), gpu.device());
    format!("  {} {target} {}", gpu.node, device.unwrap_or("-".into()))
}

#[test]
fn the_gpus_of_recorded_machines_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let shown = Machine::all().into_iter().map(|machine| {
        let sys = directory.path().join(&machine.name);
        machine.write(&sys);
        let gpus = detect(&sys);
        let found = gpus.iter().filter_map(|gpu| gpu.target.as_ref());
        let (name, about) = (&machine.name, &machine.about);
        assert_eq!(found.unique().join(" "), machine.targets, "{name}");
        let supported = targets(&gpus).iter().join(" ");
        let lines = gpus.iter().map(line).join("\n");
        format!("{name}: {about}\n{lines}\n  -> {supported}\n")
    });
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"));
}

#[test]
fn what_no_kernel_writes_is_no_gpu_and_no_panic() {
    let texts = [
        "",
        "simd_count",
        "simd_count x",
        "simd_count 99999999999999999999999",
        "simd_count 4; gfx_target_version -1; drm_render_minor 5000000000",
        "simd_count 4; gfx_target_version 4294967295",
    ];
    let found = texts.map(|text| {
        let directory = tempfile::tempdir().unwrap();
        let node = directory.path().join("class/kfd/kfd/topology/nodes/7");
        fs_err::create_dir_all(&node).unwrap();
        fs_err::write(node.join("properties"), text.replace("; ", "\n")).unwrap();
        let gpus = detect(directory.path());
        format!("{text:?}: {}", gpus.iter().map(line).join(", "))
    });
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn every_obstacle_has_a_reason_and_a_fix() {
    let (kfd, render) = ("/dev/kfd", "/dev/dri/renderD128");
    let no_device = "No such device (os error 19)";
    let cases = [
        vec![(kfd, Closed::Missing)],
        vec![(kfd, Closed::Denied(992)), (render, Closed::Missing)],
        vec![(render, Closed::Failed(no_device.to_owned()))],
        vec![(kfd, Closed::Denied(992))],
        vec![(kfd, Closed::Denied(110)), (render, Closed::Denied(110))],
        vec![(kfd, Closed::Denied(992)), (render, Closed::Denied(44))],
    ];
    let lines = cases.map(|case| {
        let case = case.into_iter().map(|(path, why)| (path.into(), why));
        let Obstacle { reason, fix } = Obstacle::of_devices(&case.collect::<Vec<_>>()).unwrap();
        format!("{reason}: {fix}")
    });
    insta::assert_snapshot!(lines.join("\n"));
    assert_eq!(Obstacle::of_devices(&[]), None);
}
