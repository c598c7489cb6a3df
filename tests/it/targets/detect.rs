//! Which GPUs recorded machines have.

use itertools::Itertools as _;
use rocwheel::gpu::{Gpu, detect, targets};

use super::machine::Machine;
use crate::support::place;

fn line(gpu: &Gpu) -> String {
    let target = gpu.target.as_ref().map(ToString::to_string);
    let (target, device) = (target.unwrap_or("?".into()), gpu.device());
    format!("  {} {target} {}", gpu.node, device.unwrap_or("-".into()))
}

#[test]
fn the_gpus_of_recorded_machines_are_found() {
    let directory = place::empty("targets/machines");
    let shown = Machine::all().into_iter().map(|machine| {
        let sys = directory.join(&machine.name);
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
        let directory = place::empty("targets/odd");
        let node = directory.join("class/kfd/kfd/topology/nodes/7");
        fs_err::create_dir_all(&node).unwrap();
        fs_err::write(node.join("properties"), text.replace("; ", "\n")).unwrap();
        let gpus = detect(&directory);
        format!("{text:?}: {}", gpus.iter().map(line).join(", "))
    });
    insta::assert_snapshot!(found.join("\n"));
}
