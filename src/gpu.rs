//! The GPUs of this machine: which they are, as the compute driver of the kernel lists them, and whether this
//! process can use them. No program and no library of ROCm is needed.
//!
//! The compute driver lists its devices, CPUs among them, as
//! [nodes](https://docs.kernel.org/gpu/amdgpu/index.html) of a topology. A GPU that it does not list cannot run
//! code of ROCm, and is none here: the user names targets instead.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use fs_err as fs;
use itertools::Itertools as _;

use crate::target::{Target, TargetTable};

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
    /// The file belongs to this group: its number, and its name if it has one here. A container may have no
    /// name, or another one, for a group of the host.
    Denied(u32, Option<String>),
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
            Gpu::of_properties(node, &fs::read_to_string(path).ok()?)
        })
        .collect()
}

/// The targets of GPUs for which there are packages, each once, in the order of the GPUs.
pub fn targets(gpus: &[Gpu]) -> Vec<Target> {
    let supported = gpus.iter().filter(|gpu| gpu.is_supported());
    supported
        .filter_map(|gpu| gpu.target.clone())
        .unique()
        .collect()
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
            Some((number, name)) => Closed::Denied(number, name),
            None => Closed::Failed(error.to_string()),
        },
        _ => Closed::Failed(error.to_string()),
    })
}

/// The group of a file, and its name on this system: `render` for `render:x:992:user`.
#[cfg(unix)]
fn group(path: &Path) -> Option<(u32, Option<String>)> {
    use std::os::unix::fs::MetadataExt as _;

    let number = fs::metadata(path).ok()?.gid();
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let name = groups.lines().find_map(|line| {
        let (name, _, of_name) = line.split(':').next_tuple()?;
        (of_name.parse() == Ok(number)).then(|| name.to_owned())
    });
    Some((number, name.filter(|it| it != "root")))
}

#[cfg(not(unix))]
fn group(_: &Path) -> Option<(u32, Option<String>)> {
    None
}

impl Obstacle {
    /// The first device that cannot be opened for another reason than its group, or else all groups:
    /// otherwise the user would learn of the second one only later.
    pub fn of_devices(closed: &[(PathBuf, Closed)]) -> Option<Self> {
        let mut groups: BTreeMap<u32, (&Option<String>, Vec<String>)> = BTreeMap::new();
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
                Closed::Denied(number, name) => {
                    let group = groups.entry(*number).or_insert((name, Vec::new()));
                    group.1.push(path.to_string());
                }
            }
        }
        if groups.is_empty() {
            return None;
        }
        let shown = groups.iter().map(|(number, (name, paths))| {
            let name = name.as_ref().map(|it| format!("{it} ({number})"));
            let name = name.unwrap_or_else(|| number.to_string());
            format!("{} of group {name}", paths.join(", "))
        });
        let names: Option<Vec<&str>> = groups.values().map(|(name, _)| name.as_deref()).collect();
        let user = match names {
            Some(names) => format!(
                "run `sudo usermod -aG {} $USER` and log in again",
                names.join(",")
            ),
            None => "have the devices given to a group that has a name here".to_owned(),
        };
        let numbers = groups.keys().map(|it| format!(" --group-add {it}"));
        let devices = DEVICES.trim_matches('`');
        Some(Self {
            reason: format!("this process may not open {}", shown.format(", nor ")),
            fix: format!(
                "{user}; start a container with `{devices}{}`",
                numbers.format("")
            ),
        })
    }
}
