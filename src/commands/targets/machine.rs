//! `targets --detect` and `--check`: the GPUs of this machine, in words and as a document.

use std::ptr;

use itertools::Itertools as _;
use serde::Serialize;

use super::World;
use crate::{
    commands::args::MachineArgs,
    console::{Console, many},
    error::{Error, Hint as _, No, Result, hinted},
    gpu::{self, DeviceAccess, Gpu, GpuState, Obstacle},
    target::{Target, TargetTable},
};

/// A GPU, and whether it can be used.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct GpuFacts {
    node: Option<u32>,
    partitions: usize,
    target: Option<Target>,
    product: Option<&'static str>,
    /// Whether there are packages for it.
    packages: bool,
    device_id: Option<String>,
    pci: Option<String>,
    render: Option<String>,
    unique_id: Option<String>,
    /// `None` if it was not tried: only `--check` opens devices.
    usable: Option<bool>,
    reason: Option<String>,
    fix: Option<String>,
    #[serde(skip)]
    is_offered: bool,
}

/// The GPUs of this machine. With access, also whether they can be used.
fn facts(gpus: &[Gpu], access: Option<&DeviceAccess>) -> Vec<GpuFacts> {
    let of = |gpu: &Gpu| {
        let obstacle = match access {
            Some(access) => gpu::obstacle(gpu, access),
            None => gpu::of_state(gpu),
        };
        GpuFacts::new(gpu, obstacle, access.is_some())
    };
    gpus.iter().map(of).collect()
}

impl GpuFacts {
    fn new(gpu: &Gpu, obstacle: Option<Obstacle>, is_checked: bool) -> Self {
        let base = gpu.target.as_ref().map(Target::packaged);
        let usable = (is_checked || obstacle.is_some()).then_some(obstacle.is_none());
        let (reason, fix) = obstacle.map(|it| (it.reason, it.fix)).unzip();
        Self {
            node: gpu.nodes.first().copied(),
            partitions: gpu.nodes.len().max(1),
            product: base.and_then(|it| TargetTable::builtin().product(&it)),
            packages: gpu.is_supported(),
            target: gpu.target.clone(),
            device_id: gpu.device_id.map(|id| format!("0x{id:04x}")),
            pci: gpu.address.clone(),
            render: gpu
                .renders
                .first()
                .map(|minor| format!("/dev/{}", gpu::render(*minor))),
            unique_id: gpu.unique_id.map(|id| format!("{id:016x}")),
            usable,
            reason,
            fix,
            is_offered: gpu.state == GpuState::Listed,
        }
    }

    fn has_obstacle(&self) -> bool {
        self.usable == Some(false)
    }

    /// `gfx942 (MI300A/MI300X CDNA), node 2, /dev/dri/renderD128`
    fn line(&self) -> String {
        let target = self.target.as_ref().map(Target::to_string);
        let name = match (target, self.product) {
            (Some(target), Some(product)) => format!("{target} ({product})"),
            (Some(target), None) => format!("{target} (no ROCm packages)"),
            (None, _) => "an unknown GPU".to_owned(),
        };
        let parts = [
            Some(name),
            self.node.map(|node| format!("node {node}")),
            (self.partitions > 1).then(|| format!("{} partitions", self.partitions)),
            self.node.is_none().then(|| self.pci.clone()).flatten(),
            self.render.clone(),
        ];
        parts.into_iter().flatten().join(", ")
    }
}

/// Says which GPUs there are, and what is wrong with those for which nothing fails.
fn tell(gpus: &[GpuFacts], failing: &[&GpuFacts], console: &Console) {
    for gpu in gpus {
        let fails = failing.iter().any(|it| ptr::eq(*it, gpu));
        match (&gpu.reason, &gpu.fix) {
            (Some(reason), Some(fix)) if !fails => {
                console.warn(format!("{}: {reason}; {fix}", gpu.line()));
            }
            _ => console.status("Found", gpu.line()),
        }
    }
}

/// The GPUs that cannot be used: all, if none can be, or else those that the compute driver offers
/// here. Those of other containers, and those kept for virtual machines, are no failure as long as
/// there is one that can be used.
fn failing(gpus: &[GpuFacts]) -> Vec<&GpuFacts> {
    let is_none_usable = gpus.iter().all(GpuFacts::has_obstacle);
    let gpus = gpus.iter().filter(|it| it.has_obstacle());
    gpus.filter(|it| is_none_usable || it.is_offered).collect()
}

fn verdict(failing: &[&GpuFacts], gpus: &[GpuFacts]) -> Result<()> {
    if failing.is_empty() {
        return Ok(());
    }
    let reasons = failing.iter().filter_map(|it| it.reason.as_deref());
    let (count, all) = (failing.len(), many(gpus.len(), "GPU"));
    let reasons = reasons.unique().format("; ");
    let error: Error = No(format!("{count} of {all} cannot be used: {reasons}")).into();
    let fixes = failing.iter().filter_map(|it| it.fix.as_deref());
    let fixes: Vec<&str> = fixes.unique().collect();
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
    let access = is_checked.then(|| DeviceAccess::observe(args.dev(), &read));
    let gpus = facts(&read, access.as_ref());
    let targets = args.targets(&read, &world.console)?;
    let failing = failing(&gpus);
    let is_refused = !gpus.is_empty() && (is_checked || targets.is_empty());
    let verdict = if is_refused && !failing.is_empty() {
        tell(&gpus, &failing, &world.console);
        verdict(&failing, &gpus)
    } else {
        tell(&gpus, &[], &world.console);
        ensure_some(&gpus, &targets, args)
    };
    Ok(MachineAnswer {
        targets,
        gpus,
        verdict,
    })
}

/// Fails if this machine has no GPU with packages.
fn ensure_some(gpus: &[GpuFacts], targets: &[Target], args: &MachineArgs) -> Result<()> {
    if !targets.is_empty() {
        return Ok(());
    }
    let names = "name targets or families instead: `rocwheel targets all --emit table` lists them";
    let no = |text: &str| Err(No(text.to_owned()));
    if args.is_told() {
        no("detection is off").hint("unset ROCM_BOOTSTRAP_DISABLE_DETECTION")
    } else if !gpus.is_empty() {
        let shown = gpus.iter().map(GpuFacts::line).format("; ");
        no(&format!(
            "this machine has no GPU with ROCm packages: {shown}"
        ))
        .hint(names)
    } else if args.dev().join("dxg").exists() {
        no("this Linux runs in Windows, which does not tell it the GPU").hint(names)
    } else {
        no(gpu::UNDETECTED).hint(names)
    }
}
