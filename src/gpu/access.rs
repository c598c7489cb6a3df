//! Whether this process can use a GPU, why not, and what to do.
//!
//! Only opening a device tells: groups, access lists and the rules of a container decide together,
//! and the mode of the file does not say what they decide.

use std::{collections::BTreeMap, io, iter, path::Path};

use itertools::Itertools as _;

use super::detect::{Gpu, GpuState};

/// What opening a device for reading and writing led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    Done,
    Missing,
    /// The file belongs to a group that this process is not in: its number, and its name if it has
    /// one here.
    Denied {
        group: u32,
        name: Option<String>,
    },
    /// No group helps: the rules of a container forbid the device.
    Forbidden,
    Failed(String),
}

/// The devices in a directory such as `/dev`, as this process may open them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAccess {
    pub kfd: Opened,
    /// For each minor number in `dri`.
    pub renders: Vec<(u32, Opened)>,
}

/// Why a GPU cannot be used, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    pub reason: String,
    pub fix: String,
}

impl DeviceAccess {
    /// Opens the devices of GPUs, for a moment each.
    pub fn observe(dev: &Path, gpus: &[Gpu]) -> Self {
        let minors = gpus.iter().flat_map(|it| &it.renders);
        let renders = minors.map(|minor| (*minor, open(&dev.join(render(*minor)))));
        Self {
            renders: renders.collect(),
            kfd: open(&dev.join("kfd")),
        }
    }
}

/// The name of a device below `/dev`.
pub fn render(minor: u32) -> String {
    format!("dri/renderD{minor}")
}

/// The codes of Linux for what Rust calls `PermissionDenied`: by a rule of the system, and by the
/// mode or access list of the file.
const EPERM: i32 = 1;
const EACCES: i32 = 13;

#[expect(
    clippy::disallowed_types,
    reason = "the errors of `fs_err` do not give the code of the system"
)]
fn open(path: &Path) -> Opened {
    let Err(error) = std::fs::File::options().read(true).write(true).open(path) else {
        return Opened::Done;
    };
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::NotFound, _) => Opened::Missing,
        (_, Some(EPERM)) => Opened::Forbidden,
        (_, Some(EACCES)) => denied(path),
        _ => Opened::Failed(error.to_string()),
    }
}

#[cfg(unix)]
fn denied(path: &Path) -> Opened {
    use std::os::unix::fs::MetadataExt as _;

    match fs_err::metadata(path) {
        Ok(metadata) => Opened::Denied {
            group: metadata.gid(),
            name: group_name(metadata.gid()),
        },
        Err(_) => Opened::Forbidden,
    }
}

#[cfg(not(unix))]
fn denied(_: &Path) -> Opened {
    Opened::Forbidden
}

/// The name of a group on this system: `render` for `render:x:992:user`.
#[cfg(unix)]
fn group_name(id: u32) -> Option<String> {
    let text = fs_err::read_to_string("/etc/group").ok()?;
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, number, ..] = fields[..] else {
            return None;
        };
        (number.parse() == Ok(id)).then(|| name.to_owned())
    })
}

/// Why a GPU cannot be used: what the kernel does with it, or else which of its devices cannot be
/// opened. `None` if it can be used.
pub fn obstacle(gpu: &Gpu, access: &DeviceAccess) -> Option<Obstacle> {
    let own = access.renders.iter();
    let own = own.filter(|(minor, _)| gpu.renders.contains(minor));
    let renders = own.map(|(minor, opened)| (format!("/dev/{}", render(*minor)), opened));
    let kfd = iter::once(("/dev/kfd".to_owned(), &access.kfd));
    let closed = kfd.chain(renders).filter(|(_, it)| **it != Opened::Done);
    let closed: Vec<(String, &Opened)> = closed.collect();
    of_state(gpu).or_else(|| of_devices(&closed))
}

/// The first device that cannot be opened for another reason than its group, or else all groups:
/// otherwise the user would learn of the second one only later.
fn of_devices(closed: &[(String, &Opened)]) -> Option<Obstacle> {
    let is_denied = |opened: &Opened| matches!(opened, Opened::Denied { .. });
    let other = closed.iter().find(|(_, opened)| !is_denied(opened));
    other
        .and_then(|(path, opened)| obstacle_of(path, opened))
        .or_else(|| of_groups(closed))
}

fn of_groups(denied: &[(String, &Opened)]) -> Option<Obstacle> {
    let groups = denied.iter().filter_map(|(path, opened)| match opened {
        Opened::Denied { group, name } => {
            // A container may have no name, or another one, for a group of the host.
            let name = name.as_deref().filter(|name| *name != "root");
            Some(((*group, name), path))
        }
        _ => None,
    });
    let groups: BTreeMap<_, _> = groups.into_group_map().into_iter().collect();
    if groups.is_empty() {
        return None;
    }
    let shown = groups.iter().map(|((group, name), paths)| {
        let paths = paths.iter().join(", ");
        match name {
            Some(name) => format!("in group {name} ({group}) of {paths}"),
            None => format!("in group {group} of {paths}"),
        }
    });
    let numbers = groups
        .iter()
        .map(|((group, _), _)| format!("--group-add {group}"));
    let names: Option<Vec<&str>> = groups.iter().map(|((_, name), _)| *name).collect();
    let user = match names {
        Some(names) => format!(
            "run `sudo usermod -aG {} $USER` and log in again",
            names.join(",")
        ),
        None => "have the devices given to a group that has a name here".to_owned(),
    };
    Some(Obstacle {
        reason: format!("this process is not {}", shown.format(", nor ")),
        fix: format!("{user}; start a container with `{}`", numbers.format(" ")),
    })
}

/// What the files of the kernel alone say against a GPU.
pub fn of_state(gpu: &Gpu) -> Option<Obstacle> {
    let (reason, fix) = match &gpu.state {
        GpuState::Listed if gpu.renders.is_empty() => (
            "it has no device in /dev/dri".to_owned(),
            "read what `dmesg` says of amdgpu".to_owned(),
        ),
        GpuState::Listed => return None,
        GpuState::Hidden => (
            "it belongs to the host, and this container may not use it".to_owned(),
            format!("start the container with {DEVICES}"),
        ),
        GpuState::Unlisted => (
            "the compute driver of this kernel does not list it".to_owned(),
            "read what `dmesg` says of kfd: the GPU is too old or too new for this kernel, or its \
             slot has no PCIe atomics"
                .to_owned(),
        ),
        GpuState::NoCompute => (
            "this kernel has no compute driver, or hides it from this container".to_owned(),
            format!("start the container with {DEVICES}, or use a kernel that has CONFIG_HSA_AMD"),
        ),
        GpuState::OtherDriver(None) => (
            "it has no driver".to_owned(),
            "load it with `sudo modprobe amdgpu`; if that fails, install the driver or a newer \
             kernel"
                .to_owned(),
        ),
        GpuState::OtherDriver(Some(driver)) => (
            format!("the driver {driver} has it"),
            match driver.as_str() {
                "vfio-pci" | "pci-stub" => {
                    "use it in the virtual machine that it is kept for, or \
                                            give it back to the driver amdgpu"
                }
                _ => "give it to the driver amdgpu",
            }
            .to_owned(),
        ),
    };
    Some(Obstacle { reason, fix })
}

const DEVICES: &str = "`--device /dev/kfd --device /dev/dri`";

/// What stands between this process and a device, except for a group.
fn obstacle_of(path: &str, opened: &Opened) -> Option<Obstacle> {
    let (reason, fix) = match opened {
        Opened::Done | Opened::Denied { .. } => return None,
        Opened::Missing => (
            format!("{path} is not here, although the kernel has the GPU"),
            format!("start the container with {DEVICES}"),
        ),
        Opened::Forbidden => (
            format!("the rules of this container forbid {path}"),
            format!("start the container with {DEVICES}"),
        ),
        Opened::Failed(why) => (
            format!("{path} cannot be opened: {why}"),
            "read what `dmesg` says of amdgpu".to_owned(),
        ),
    };
    Some(Obstacle { reason, fix })
}
