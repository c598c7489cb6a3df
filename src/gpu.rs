//! The GPUs of this machine: which they are, as the compute driver of the kernel lists them, and whether this
//! process can use them. No program and no library of ROCm is needed.
//!
//! The compute driver lists its devices, CPUs among them, as
//! [nodes](https://docs.kernel.org/gpu/amdgpu/index.html) of a topology. A GPU that it does not list cannot run
//! code of ROCm, and is none here: the user names targets instead.

use std::{
    collections::BTreeSet,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use fs_err as fs;
use itertools::Itertools as _;

use rocwheel_base::{
    io::read_text,
    target::{Target, TargetTable},
};

/// Why no GPU was detected. Windows has no interface that tells the target of a GPU without ROCm.
pub const UNDETECTED: &str = if cfg!(windows) {
    "cannot detect GPUs on Windows"
} else if cfg!(target_os = "linux") {
    "no AMD GPU was found"
} else {
    "GPUs are only detected on Linux"
};

/// The nodes of the compute driver, below `/sys`.
const NODES: &str = "class/kfd/kfd/topology/nodes";
const DEVICES: &str = "`--device /dev/kfd --device /dev/dri`";

/// A GPU of this machine, or a partition of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its number in the topology of the compute driver.
    pub node: u32,
    /// `None` if the kernel is too old to say it.
    pub target: Option<Target>,
    /// The number of its device in `/dev/dri`.
    pub render: Option<u32>,
}

/// Why a GPU cannot be used, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    pub reason: String,
    pub fix: String,
}

/// Why a device cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    Missing,
    /// The file belongs to the group of this number.
    Denied(u32),
    Failed(String),
}

/// The GPUs of the compute driver, in its order. `sys` is `/sys`. The driver does not let a container read the
/// nodes of GPUs that it was not given.
pub fn detect(sys: &Path) -> Vec<Gpu> {
    let nodes = sys.join(NODES);
    let names = fs::read_dir(&nodes).into_iter().flatten().flatten();
    names
        .filter_map(|it| it.file_name().to_str()?.parse().ok())
        .sorted()
        .filter_map(|node: u32| {
            let path = nodes.join(node.to_string()).join("properties");
            Gpu::of_properties(node, &read_text(&path).ok()?)
        })
        .collect()
}

/// The targets of GPUs for which there are packages, each once, in the order of the GPUs.
pub fn targets(gpus: &[Gpu]) -> Vec<Target> {
    let supported = gpus.iter().filter(|gpu| gpu.is_supported());
    supported.filter_map(|gpu| gpu.target.clone()).unique().collect()
}

impl Gpu {
    /// `None` for a CPU.
    fn of_properties(node: u32, text: &str) -> Option<Self> {
        let number = |wanted: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
            let (_, value) = pairs.find(|(key, _)| *key == wanted)?;
            value.trim().parse::<u32>().ok().filter(|it| *it > 0)
        };
        number("simd_count")?;
        Some(Self {
            node,
            target: number("gfx_target_version").and_then(Target::of_kernel_version),
            render: number("drm_render_minor"),
        })
    }

    /// Whether there are ROCm packages for its target.
    pub fn is_supported(&self) -> bool {
        let target = self.target.as_ref();
        target.is_some_and(|it| TargetTable::builtin().product(&it.packaged()).is_some())
    }

    /// `dri/renderD128`, below `/dev`.
    pub fn device(&self) -> Option<String> {
        self.render.map(|minor| format!("dri/renderD{minor}"))
    }

    /// Opens its devices below `dev`, for a moment each, and says why that fails. Only opening a device tells:
    /// groups, access lists and the rules of a container decide together.
    pub fn obstacle(&self, dev: &Path) -> Option<Obstacle> {
        let Some(device) = self.device() else {
            return Some(Obstacle {
                reason: "it has no device in /dev/dri".to_owned(),
                fix: "read what `dmesg` says of amdgpu".to_owned(),
            });
        };
        let devices = ["kfd".to_owned(), device];
        let closed = devices.iter().filter_map(|it| {
            let path = dev.join(it);
            Some((PathBuf::from("/dev").join(it), closed(&path)?))
        });
        Obstacle::of_devices(&closed.collect::<Vec<_>>())
    }
}

/// Why a device cannot be opened. `None` if it can.
fn closed(path: &Path) -> Option<Closed> {
    let mut options = fs::OpenOptions::new();
    let error = options.read(true).write(true).open(path).err()?;
    Some(match error.kind() {
        ErrorKind::NotFound => Closed::Missing,
        ErrorKind::PermissionDenied => match group(path) {
            Some(number) => Closed::Denied(number),
            None => Closed::Failed(error.to_string()),
        },
        _ => Closed::Failed(error.to_string()),
    })
}

/// The number of the group that owns a file.
#[cfg(unix)]
fn group(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;

    Some(fs::metadata(path).ok()?.gid())
}

#[cfg(not(unix))]
fn group(_: &Path) -> Option<u32> {
    None
}

impl Obstacle {
    /// The first device that cannot be opened for another reason than its group, or else all groups:
    /// otherwise the user would learn of the second one only later.
    pub fn of_devices(closed: &[(PathBuf, Closed)]) -> Option<Self> {
        let mut denied = Vec::new();
        let mut groups = BTreeSet::new();
        for (path, why) in closed {
            let path = path.display();
            match why {
                Closed::Missing => {
                    return Some(Self {
                        reason: format!("{path} is not here, although the kernel has the GPU"),
                        fix: format!("start the container with {DEVICES}"),
                    });
                }
                Closed::Failed(why) => {
                    return Some(Self {
                        reason: format!("{path} cannot be opened: {why}"),
                        fix: "read what `dmesg` says of amdgpu".to_owned(),
                    });
                }
                Closed::Denied(group) => {
                    denied.push(path.to_string());
                    groups.insert(group);
                }
            }
        }
        if groups.is_empty() {
            return None;
        }
        let numbers = groups.iter().map(|it| format!(" --group-add {it}"));
        let devices = DEVICES.trim_matches('`');
        // A container may have no name, or another one, for a group of the host, so groups are named by
        // their numbers.
        Some(Self {
            reason: format!("this process may not open {}", denied.join(", nor ")),
            fix: format!(
                "join the groups of these files, mostly by `sudo usermod -aG render,video $USER`, and log \
                 in again; start a container with `{devices}{}`",
                numbers.format("")
            ),
        })
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
