//! The GPUs of this machine, or those that are taken instead.

use std::path::{Path, PathBuf};

use itertools::Itertools as _;

use crate::{
    console::Console,
    error::Result,
    gpu::{self, Gpu},
    target::{Target, TargetTable, UnknownFamilies, split_list},
};

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Machine options")]
pub struct MachineArgs {
    /// Directory of the kernel's files about devices
    #[arg(long, value_name = "DIR", default_value = "/sys")]
    sysfs: PathBuf,
    /// Directory of devices
    #[arg(long, value_name = "DIR", default_value = "/dev")]
    dev: PathBuf,
    /// Use these targets instead of those of this machine, comma-separated
    #[arg(long, value_name = "LIST", env = "ROCM_BOOTSTRAP_FORCE_GFX_ARCH")]
    force_targets: Option<String>,
    /// Act as if this machine had no GPU
    #[arg(long, env = "ROCM_BOOTSTRAP_DISABLE_DETECTION")]
    no_detection: bool,
    #[arg(long, hide = true, env = "HSA_OVERRIDE_GFX_VERSION")]
    override_gfx_version: Option<String>,
}

impl MachineArgs {
    /// The GPUs that the kernel describes.
    pub fn gpus(&self) -> Vec<Gpu> {
        if self.no_detection {
            return Vec::new();
        }
        gpu::detect(&self.sysfs)
    }

    pub fn dev(&self) -> &Path {
        &self.dev
    }

    /// Whether the user says which GPUs this machine has.
    pub fn is_told(&self) -> bool {
        self.no_detection || self.force_targets.is_some()
    }

    /// The targets to install for on a machine with these GPUs, each once: those with packages.
    pub fn targets(&self, gpus: &[Gpu], console: &Console) -> Result<Vec<Target>> {
        if self.no_detection {
            return Ok(Vec::new());
        }
        if let Some(list) = &self.force_targets {
            let names: Vec<&str> = split_list(list).collect();
            let targets = TargetTable::builtin().resolve(&names);
            return targets.map_err(UnknownFamilies::hinted);
        }
        let found = gpu::targets(gpus);
        let Some(version) = &self.override_gfx_version else {
            return Ok(found);
        };
        let claimed = claimed(version);
        if let Some(claimed) = claimed.filter(|it| !found.contains(it) && !found.is_empty()) {
            console.note(format!(
                "the runtime will say {claimed}, because HSA_OVERRIDE_GFX_VERSION is {version}: name that \
                 target if its packages are meant"
            ));
        }
        Ok(found)
    }
}

/// The target of `HSA_OVERRIDE_GFX_VERSION`: `gfx1030` for `10.3.0`, `gfx90a` for `9.0.10`.
fn claimed(version: &str) -> Option<Target> {
    let numbers = version
        .split('.')
        .map(|it| it.parse::<u32>().ok().filter(|it| *it < 100));
    let numbers: Vec<u32> = numbers.collect::<Option<_>>()?;
    let (major, minor, step) = numbers.into_iter().collect_tuple()?;
    Target::of_kernel_version(major * 10_000 + minor * 100 + step)
}
