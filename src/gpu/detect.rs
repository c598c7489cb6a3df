//! Which GPUs a machine has, from the files of its kernel. No program and no library of ROCm is
//! needed.
//!
//! The compute driver lists its devices, CPUs among them, as
//! [nodes](https://docs.kernel.org/gpu/amdgpu/index.html) of a topology. GPUs that it does not list
//! are found among the devices of PCI.

use std::{collections::BTreeMap, io::ErrorKind};

use itertools::Itertools as _;

use super::files::SysFiles;
use crate::target::{Target, TargetTable};

/// The topology of the compute driver.
const TOPOLOGY: &str = "class/kfd/kfd/topology";
const PCI: &str = "bus/pci/devices";
/// AMD, which also makes other devices.
const VENDOR: &str = "0x1002";
/// Graphics, other display controllers, and accelerators.
const CLASSES: [&str; 3] = ["0x0300", "0x0380", "0x1200"];
/// How often the topology is read if devices come and go meanwhile.
const TRIES: usize = 3;

/// A GPU of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// `None` if the kernel does not say what it is, or does not let us know.
    pub target: Option<Target>,
    /// Its nodes in the topology of the compute driver, in order. Several if it is partitioned.
    pub nodes: Vec<u32>,
    /// The minor numbers of its devices in `/dev/dri`: one for each partition.
    pub renders: Vec<u32>,
    /// The address on the PCI bus: `0000:03:00.0`.
    pub address: Option<String>,
    pub device_id: Option<u32>,
    /// The serial number of the GPU.
    pub unique_id: Option<u64>,
    pub state: GpuState,
}

/// What the kernel does with a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuState {
    /// The compute driver has it.
    Listed,
    /// The compute driver has it, and does not say more: it belongs to others than this container.
    Hidden,
    /// It has the driver `amdgpu`, but the compute driver does not list it.
    Unlisted,
    /// It has the driver `amdgpu`, but this kernel has no compute driver, or hides it.
    NoCompute,
    /// It has another driver, such as `vfio-pci`, or none.
    OtherDriver(Option<String>),
}

/// The GPUs of a machine: those of the compute driver in its order, then others by their address.
pub fn detect(files: &impl SysFiles) -> Vec<Gpu> {
    let path = format!("{TOPOLOGY}/generation_id");
    let generation = || files.read(&path).ok();
    for _ in 1..TRIES {
        let before = generation();
        let gpus = read(files);
        if generation() == before {
            return gpus;
        }
    }
    read(files)
}

fn read(files: &impl SysFiles) -> Vec<Gpu> {
    let has_compute = !files.names(&format!("{TOPOLOGY}/nodes")).is_empty();
    let mut gpus = of_nodes(files);
    let hidden = gpus.iter().filter(|it| it.state == GpuState::Hidden);
    let hidden = hidden.count();
    let is_known = |address: &String| gpus.iter().any(|it| it.address.as_ref() == Some(address));
    let others = addresses(files).into_iter().filter(|it| !is_known(it));
    let others = others.map(|address| of_pci(files, address, has_compute));
    // Nothing says which of these are the nodes that are hidden, and each GPU is listed once.
    let (unlisted, others): (Vec<Gpu>, Vec<Gpu>) =
        others.partition(|it| it.state == GpuState::Unlisted);
    gpus.extend(unlisted.into_iter().skip(hidden));
    gpus.extend(others);
    gpus
}

/// The GPUs in the topology. Partitions of one GPU are nodes at one address.
fn of_nodes(files: &impl SysFiles) -> Vec<Gpu> {
    let names = files.names(&format!("{TOPOLOGY}/nodes"));
    let numbers = names.iter().filter_map(|name| name.parse().ok()).sorted();
    let mut gpus: Vec<Gpu> = Vec::new();
    for node in numbers.filter_map(|number| of_node(files, number)) {
        let same = gpus.iter_mut().find(|it| it.is_same(&node));
        match same {
            Some(gpu) => {
                gpu.nodes.extend(node.nodes);
                gpu.renders.extend(node.renders);
            }
            None => gpus.push(node),
        }
    }
    gpus
}

/// `None` for a CPU, and for a node that is gone.
fn of_node(files: &impl SysFiles, number: u32) -> Option<Gpu> {
    let directory = format!("{TOPOLOGY}/nodes/{number}");
    let text = match files.read(&format!("{directory}/properties")) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Some(Gpu {
                nodes: vec![number],
                ..Gpu::new(GpuState::Hidden)
            });
        }
        Err(_) => return None,
    };
    let properties: BTreeMap<&str, u64> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(key, value)| Some((key, value.trim().parse().ok()?)))
        .collect();
    let value = |key| properties.get(key).copied().filter(|value| *value > 0);
    let small = |key| value(key).and_then(|value| u32::try_from(value).ok());
    value("simd_count")?;
    let address = small("location_id")
        .map(|location| address(properties.get("domain").copied().unwrap_or(0), location));
    let target = small("gfx_target_version").and_then(Target::of_kernel_version);
    let by_ip = || by_ip(files, address.as_deref()?);
    let by_name = || {
        let name = files.read(&format!("{directory}/name")).ok()?;
        TargetTable::builtin().of_code_name(name.trim()).cloned()
    };
    Some(Gpu {
        target: target.or_else(by_ip).or_else(by_name),
        nodes: vec![number],
        renders: small("drm_render_minor").into_iter().collect(),
        device_id: small("device_id"),
        unique_id: value("unique_id"),
        address,
        state: GpuState::Listed,
    })
}

/// The address of a GPU from its `location_id`. GPUs are the first function of their device; the
/// bits of the function, and those above the bus, are the number of a partition.
fn address(domain: u64, location: u32) -> String {
    let (bus, device) = (location >> 8 & 0xff, location >> 3 & 0x1f);
    format!("{domain:04x}:{bus:02x}:{device:02x}.0")
}

/// The target by the version of the graphics core. A version that the table lacks is not guessed.
fn by_ip(files: &impl SysFiles, address: &str) -> Option<Target> {
    let directory = format!("{PCI}/{address}/ip_discovery/die/0/GC/0");
    let number = |name: &str| files.read(&format!("{directory}/{name}")).ok();
    let numbers = [number("major")?, number("minor")?, number("revision")?];
    let version = numbers.iter().map(|it| it.trim()).join(".");
    TargetTable::builtin().of_ip(&version).cloned()
}

/// The addresses of AMD's GPUs on the PCI bus.
fn addresses(files: &impl SysFiles) -> Vec<String> {
    let is_gpu = |address: &String| {
        let read = |name: &str| files.read(&format!("{PCI}/{address}/{name}"));
        read("vendor").is_ok_and(|it| it.trim() == VENDOR)
            && read("class").is_ok_and(|class| CLASSES.iter().any(|it| class.starts_with(it)))
    };
    let addresses = files.names(PCI).into_iter();
    addresses.filter(is_gpu).sorted().collect()
}

/// A GPU that the compute driver does not list.
fn of_pci(files: &impl SysFiles, address: String, has_compute: bool) -> Gpu {
    let device = format!("{PCI}/{address}");
    let driver = files.link(&format!("{device}/driver"));
    let state = match driver.as_deref() {
        Some("amdgpu") if has_compute => GpuState::Unlisted,
        Some("amdgpu") => GpuState::NoCompute,
        _ => GpuState::OtherDriver(driver),
    };
    let id = files.read(&format!("{device}/device")).ok();
    let id = id.and_then(|id| u32::from_str_radix(id.trim().strip_prefix("0x")?, 16).ok());
    let renders = files.names(&format!("{device}/drm")).into_iter();
    let renders = renders.filter_map(|name| name.strip_prefix("renderD")?.parse().ok());
    Gpu {
        target: by_ip(files, &address),
        renders: renders.sorted().collect(),
        device_id: id,
        address: Some(address),
        ..Gpu::new(state)
    }
}

impl Gpu {
    fn new(state: GpuState) -> Self {
        Self {
            target: None,
            nodes: Vec::new(),
            renders: Vec::new(),
            address: None,
            device_id: None,
            unique_id: None,
            state,
        }
    }

    /// Whether two nodes are partitions of one GPU. Newer drivers give each partition its own serial
    /// number.
    fn is_same(&self, other: &Self) -> bool {
        match (&self.address, &other.address) {
            (Some(own), Some(other)) => own == other,
            _ => self.unique_id.is_some() && self.unique_id == other.unique_id,
        }
    }

    /// Whether there are ROCm packages for its target.
    pub fn is_supported(&self) -> bool {
        let target = self.target.as_ref();
        target.is_some_and(|it| TargetTable::builtin().product(&it.packaged()).is_some())
    }
}

/// The targets of GPUs for which there are packages, each once, in the order of the GPUs. Those of
/// the compute driver come first.
pub fn targets(gpus: &[Gpu]) -> Vec<Target> {
    let supported = gpus.iter().filter(|gpu| gpu.is_supported());
    let targets = supported.filter_map(|gpu| gpu.target.clone());
    targets.unique().collect()
}
