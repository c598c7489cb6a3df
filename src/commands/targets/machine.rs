//! `targets --detect` and `--check`: the GPUs of this machine, in words and as a document.

use std::path::Path;

use itertools::Itertools as _;
use serde::Serialize;

use super::World;
use crate::{
    commands::args::{MachineArgs, seams},
    gpu::{self, Gpu},
};
use rocwheel_base::{
    error::{Error, Hint as _, No, Result, hinted},
    quantity::many,
    target::{Target, TargetTable},
};

/// A GPU, and whether it can be used.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct GpuFacts {
    node: u32,
    target: Option<Target>,
    product: Option<&'static str>,
    /// Whether there are packages for it.
    packages: bool,
    render: Option<String>,
    /// `None` if it was not tried: only `--check` opens devices.
    usable: Option<bool>,
    reason: Option<String>,
    fix: Option<String>,
}

impl GpuFacts {
    /// With the directory of devices, also whether the GPU can be used.
    fn new(gpu: &Gpu, dev: Option<&Path>) -> Self {
        let base = gpu.target.as_ref().map(Target::packaged);
        let obstacle = dev.map(|it| gpu.obstacle(it));
        let usable = obstacle.as_ref().map(Option::is_none);
        let (reason, fix) = obstacle.flatten().map(|it| (it.reason, it.fix)).unzip();
        Self {
            node: gpu.node,
            product: base.and_then(|it| TargetTable::builtin().product(&it)),
            packages: gpu.is_supported(),
            target: gpu.target.clone(),
            render: gpu.device().map(|it| format!("/dev/{it}")),
            usable,
            reason,
            fix,
        }
    }

    /// `gfx942 (MI300A/MI300X CDNA), node 2, /dev/dri/renderD128`
    fn line(&self) -> String {
        let target = self.target.as_ref().map(Target::to_string);
        let name = match (target, self.product) {
            (Some(target), Some(product)) => format!("{target} ({product})"),
            (Some(target), None) => format!("{target} (no ROCm packages)"),
            (None, _) => "an unknown GPU".to_owned(),
        };
        let node = format!("node {}", self.node);
        let parts = [Some(name), Some(node), self.render.clone()];
        parts.into_iter().flatten().join(", ")
    }
}

/// Fails if a GPU cannot be used.
fn ensure_usable(gpus: &[GpuFacts]) -> Result<()> {
    let failing: Vec<&GpuFacts> = gpus.iter().filter(|it| it.usable == Some(false)).collect();
    if failing.is_empty() {
        return Ok(());
    }
    let reasons = failing.iter().filter_map(|it| it.reason.as_deref()).unique().format("; ");
    let count = failing.len();
    let all = many(gpus.len(), "GPU");
    let error: Error = No(format!("{count} of {all} cannot be used: {reasons}")).into();
    // Each hint is put before the earlier ones, and the fix of the first GPU is to be the first.
    let fixes: Vec<&str> = failing.iter().filter_map(|it| it.fix.as_deref()).unique().collect();
    Err(fixes.into_iter().rev().fold(error, hinted))
}

/// What `--detect` and `--check` found.
pub(super) struct MachineAnswer {
    pub(super) targets: Vec<Target>,
    pub(super) gpus: Vec<GpuFacts>,
    /// Fails if there is no target, or a GPU cannot be used.
    pub(super) verdict: Result<()>,
}

/// Reads the GPUs, opens their devices if asked to, and says what was found.
pub(super) fn observe(
    args: &MachineArgs,
    is_checked: bool,
    world: &World,
) -> Result<MachineAnswer> {
    let read = args.gpus();
    let dev = is_checked.then(seams::dev);
    let gpus = read.iter().map(|gpu| GpuFacts::new(gpu, dev.as_deref())).collect::<Vec<_>>();
    let targets = args.targets(&read)?;
    for gpu in &gpus {
        world.console.status("Found", gpu.line());
    }
    let verdict = ensure_usable(&gpus).and_then(|()| ensure_some(&gpus, &targets, args));
    Ok(MachineAnswer { targets, gpus, verdict })
}

/// Fails if this machine has no GPU with packages.
fn ensure_some(gpus: &[GpuFacts], targets: &[Target], args: &MachineArgs) -> Result<()> {
    if !targets.is_empty() {
        return Ok(());
    }
    let names = "name targets or families instead: `rocwheel targets all --emit table` lists them";
    let no = |text: &str| Err(No(text.to_owned()));
    if args.replaces_detection() {
        no("detection is off").hint("unset ROCM_BOOTSTRAP_DISABLE_DETECTION")
    } else if !gpus.is_empty() {
        let shown = gpus.iter().map(GpuFacts::line).format("; ");
        no(&format!("this machine has no GPU with ROCm packages: {shown}")).hint(names)
    } else if seams::dev().join("dxg").exists() {
        no("this Linux runs in Windows, which does not tell it the GPU").hint(names)
    } else {
        no(gpu::UNDETECTED).hint(names)
    }
}
