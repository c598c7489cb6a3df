//! The GPUs of this machine, or those that are taken instead.

use super::{Variables, seams};
use crate::gpu::{self, Gpu};
use rocwheel_base::{
    error::Result,
    target::{Target, TargetPattern, TargetTable},
};

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Machine options")]
pub struct MachineArgs {
    /// Use these targets instead of the GPUs of this machine, comma-separated
    ///
    /// [env: `ROCM_BOOTSTRAP_FORCE_GFX_ARCH`]
    #[arg(long, value_name = "LIST")]
    force_targets: Option<TargetPattern>,
    /// Act as if this machine had no GPU
    ///
    /// [env: `ROCM_BOOTSTRAP_DISABLE_DETECTION`]
    #[arg(long)]
    no_detection: bool,
}

impl MachineArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill(&mut self.force_targets, "ROCM_BOOTSTRAP_FORCE_GFX_ARCH")?;
        variables.fill_switch(&mut self.no_detection, "ROCM_BOOTSTRAP_DISABLE_DETECTION")
    }

    /// The GPUs that the kernel describes.
    pub fn gpus(&self) -> Vec<Gpu> {
        if self.no_detection {
            return Vec::new();
        }
        gpu::detect(&seams::sysfs())
    }

    /// Whether the user names the targets of this machine, or says that it has no GPU. Then
    /// [`targets`](Self::targets) does not depend on its GPUs.
    pub fn replaces_detection(&self) -> bool {
        self.no_detection || self.force_targets.is_some()
    }

    /// The targets to install for on a machine with these GPUs, each once: those with packages.
    pub fn targets(&self, gpus: &[Gpu]) -> Result<Vec<Target>> {
        if self.no_detection {
            return Ok(Vec::new());
        }
        if self.force_targets.is_some() {
            return Ok(TargetTable::builtin().select(self.force_targets.as_slice())?);
        }
        Ok(gpu::targets(gpus))
    }
}
