//! Which GPUs recorded machines have.

use std::{cell::Cell, io, time::Instant};

use itertools::Itertools as _;
use rocwheel::gpu::{Gpu, SysDirectory, SysFiles, detect, targets};

use super::machine::Machine;
use crate::support::place;

fn line(gpu: &Gpu) -> String {
    let target = gpu
        .target
        .as_ref()
        .map_or("?".to_owned(), ToString::to_string);
    let address = gpu.address.as_deref().unwrap_or("-");
    let device = gpu
        .device_id
        .map_or("-".to_owned(), |id| format!("{id:04x}"));
    let id = gpu.unique_id.map_or("-".to_owned(), |id| format!("{id:x}"));
    let (nodes, renders, state) = (&gpu.nodes, &gpu.renders, &gpu.state);
    format!("  {target} {nodes:?} {address} {device} {renders:?} {id} {state:?}")
}

#[test]
fn the_gpus_of_recorded_machines_are_found() {
    let shown = Machine::all().into_iter().map(|machine| {
        let gpus = detect(&machine);
        let found = gpus.iter().filter_map(|gpu| gpu.target.as_ref());
        assert_eq!(
            found.unique().join(" "),
            machine.targets,
            "{}",
            machine.name
        );
        let (name, about) = (&machine.name, &machine.about);
        let supported = targets(&gpus).iter().join(" ");
        let lines = gpus.iter().map(line).join("\n");
        format!("{name}: {about}\n{lines}\n  -> {supported}\n")
    });
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"));
}

#[test]
fn files_on_the_disk_say_the_same() {
    let machines = place::empty("targets/machines");
    for machine in Machine::all() {
        let directory = machines.join(&machine.name);
        machine.write(&directory);
        let read = detect(&SysDirectory::new(&directory));
        if !machine.name.starts_with("container") {
            assert_eq!(read, detect(&machine), "{}", machine.name);
        }
    }
    // The best of several: other programs run as well.
    let eight = machines.join("mi300x8");
    let times = (0..20).map(|_| {
        let begin = Instant::now();
        assert_eq!(detect(&SysDirectory::new(&eight)).len(), 8);
        begin.elapsed()
    });
    let best = times.min().unwrap();
    assert!(best.as_millis() < 5, "eight GPUs took {best:?}");
}

/// A machine that loses a GPU while it is read.
struct Leaving {
    before: Machine,
    after: Machine,
    reads: Cell<usize>,
}

impl Leaving {
    fn now(&self) -> &Machine {
        if self.reads.get() < 4 {
            &self.before
        } else {
            &self.after
        }
    }
}

impl SysFiles for Leaving {
    fn read(&self, path: &str) -> io::Result<String> {
        self.reads.set(self.reads.get() + 1);
        if path.ends_with("generation_id") {
            return Ok(self.now().name.clone());
        }
        self.now().read(path)
    }

    fn names(&self, directory: &str) -> Vec<String> {
        self.now().names(directory)
    }

    fn link(&self, path: &str) -> Option<String> {
        self.now().link(path)
    }
}

#[test]
fn a_list_that_changes_while_it_is_read_is_read_again() {
    let leaving = Leaving {
        before: Machine::named("two-gpus"),
        after: Machine::named("rx9070-igpu"),
        reads: Cell::new(0),
    };
    assert_eq!(detect(&leaving), detect(&Machine::named("rx9070-igpu")));
}

#[test]
fn what_no_kernel_writes_is_no_gpu_and_no_panic() {
    let texts = [
        "",
        "simd_count",
        "simd_count x",
        "simd_count 99999999999999999999999",
        "simd_count 4; gfx_target_version -1; location_id 99999999999; drm_render_minor 5000000000",
        "simd_count 4; gfx_target_version 4294967295; location_id 4294967295; domain 18446744073709551615",
    ];
    let found = texts.map(|text| {
        let directory = place::empty("targets/odd");
        let node = directory.join("class/kfd/kfd/topology/nodes/7");
        fs_err::create_dir_all(&node).unwrap();
        fs_err::write(node.join("properties"), text.replace("; ", "\n")).unwrap();
        let gpus = detect(&SysDirectory::new(&directory));
        format!("{text:?}: {}", gpus.iter().map(line).join(", "))
    });
    insta::assert_snapshot!(found.join("\n"));
}
