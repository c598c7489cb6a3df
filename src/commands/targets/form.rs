//! The forms in which build systems and workflows take targets.

use itertools::Itertools as _;

use super::TargetsAnswer;
use crate::target::{Target, TargetTable};

#[derive(Debug, clap::Args)]
pub(super) struct FormArgs {
    /// Form in which targets are printed
    #[arg(long, value_name = "FORM", conflicts_with = "output_mode")]
    emit: Option<TargetForm>,
    /// Print one target a line
    #[arg(long, conflicts_with_all = ["emit", "output_mode"])]
    lines: bool,
    /// What TheRock's script prints: `gfx942`, or `device-gfx942` for `pip install rocm[device-gfx942]`
    #[arg(long, value_name = "WHAT")]
    output_mode: Option<ScriptMode>,
    /// Add jobs to the matrix for families that TheRock builds, but has no runner for
    #[arg(long)]
    pub(super) without_runner: bool,
    /// Workflow run, for which the matrix always has the same runners
    #[arg(long, value_name = "RUN", env = "GITHUB_RUN_ID")]
    pub(super) run_id: Option<String>,
}

/// What TheRock's script calls its forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ScriptMode {
    Targets,
    DeviceExtras,
}

impl FormArgs {
    /// The form that was asked for. A line of TheRock's script is answered as the script does.
    pub(super) fn form(&self, is_script: bool) -> TargetForm {
        match (self.emit, self.output_mode) {
            (Some(form), _) => form,
            (None, Some(ScriptMode::DeviceExtras)) => TargetForm::Extras,
            (None, Some(ScriptMode::Targets)) => TargetForm::Commas,
            (None, None) if self.lines => TargetForm::Lines,
            (None, None) if is_script => TargetForm::Commas,
            (None, None) => TargetForm::List,
        }
    }
}

/// How targets are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TargetForm {
    /// `gfx942 gfx1100`
    #[default]
    List,
    /// One a line
    Lines,
    /// A table with products and families
    Table,
    /// `-DGPU_TARGETS=gfx942;gfx1100`, for the libraries of ROCm
    Cmake,
    /// `-DCMAKE_HIP_ARCHITECTURES=gfx942;gfx1100`, for the HIP language of CMake
    Hip,
    /// `-DTHEROCK_AMDGPU_FAMILIES=gfx94X-dcgpu`
    Therock,
    /// `PYTORCH_ROCM_ARCH=gfx942;gfx1100`
    Pytorch,
    /// `GPU_ARCHS=gfx942;gfx1100`
    Vllm,
    /// `HCC_AMDGPU_TARGET=gfx942,gfx1100`, for JAX and others
    Hcc,
    /// `--offload-arch=gfx942 --offload-arch=gfx1100`, for hipcc and clang
    Clang,
    /// `device-gfx942,device-gfx1100`: extras of `rocm`
    Extras,
    /// `AMDGPU_TARGETS="gfx942 gfx1100"`, for make.conf
    Gentoo,
    /// One a line, for `build-targets` of pkg-rocm-tools
    Debian,
    /// `gfx94X-dcgpu;gfx1100`: whole families that TheRock's CI builds, and single targets
    Families,
    /// A matrix of jobs for GitHub Actions, with the runners of TheRock
    Github,
    /// The same as `--format json`
    Json,
    /// `gfx942,gfx1100`, as TheRock's script prints it
    Commas,
}

impl TargetsAnswer {
    pub(super) fn text(&self) -> String {
        let targets = |separator: &str| self.names.iter().join(separator);
        // Distributions build packages for targets, and know no features.
        let plain = |separator: &str| {
            self.names
                .iter()
                .map(Target::packaged)
                .unique()
                .join(separator)
        };
        match self.form {
            TargetForm::List => targets(" "),
            TargetForm::Lines => targets("\n"),
            TargetForm::Commas => targets(","),
            TargetForm::Table => table(&self.names),
            TargetForm::Cmake => format!("-DGPU_TARGETS={}", targets(";")),
            TargetForm::Hip => format!("-DCMAKE_HIP_ARCHITECTURES={}", targets(";")),
            TargetForm::Therock => {
                format!("-DTHEROCK_AMDGPU_FAMILIES={}", self.families.join(";"))
            }
            TargetForm::Pytorch => format!("PYTORCH_ROCM_ARCH={}", targets(";")),
            TargetForm::Vllm => format!("GPU_ARCHS={}", targets(";")),
            TargetForm::Hcc => format!("HCC_AMDGPU_TARGET={}", targets(",")),
            TargetForm::Clang => {
                let flags = self.names.iter().map(|it| format!("--offload-arch={it}"));
                flags.collect::<Vec<_>>().join(" ")
            }
            TargetForm::Extras => self.device_extras.join(","),
            TargetForm::Gentoo => format!("AMDGPU_TARGETS=\"{}\"", plain(" ")),
            TargetForm::Debian => plain("\n"),
            TargetForm::Families => self.families.join(";"),
            TargetForm::Github => self.matrix_text(),
            // It is printed as a document.
            TargetForm::Json => String::new(),
        }
    }
}

fn table(targets: &[Target]) -> String {
    let table = TargetTable::builtin();
    let first = targets
        .iter()
        .map(|it| it.as_str().len())
        .max()
        .unwrap_or(0);
    let products = targets
        .iter()
        .filter_map(|it| table.product(&it.packaged()));
    let second = products.map(str::len).max().unwrap_or(0);
    let line = |target: &Target| {
        let base = target.packaged();
        let product = table.product(&base).unwrap_or_default();
        let families = table.families_of(&base).iter().join(" ");
        format!(
            "{:<first$}  {product:<second$}  {families}\n",
            target.as_str()
        )
    };
    targets.iter().map(line).collect()
}
