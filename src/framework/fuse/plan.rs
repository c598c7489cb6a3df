//! [`FusePlan`]: what becomes of wheels with ROCm in the first one. It is what `--plan` prints.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{
    console::{many, size},
    framework::tie::TiePlan,
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FusePlan {
    /// The directory with ROCm, below `site-packages`.
    pub directory: String,
    pub targets: Vec<String>,
    /// The libraries of ROCm, each with who needs it.
    pub libraries: BTreeMap<String, String>,
    /// The number of all files that are embedded, and how much they add to the wheel.
    pub files: usize,
    pub bytes: u64,
    pub has_compiler: bool,
    /// What changes in the wheels besides. The first one has ROCm.
    pub wheels: Vec<TiePlan>,
    pub warnings: Vec<String>,
    /// The paths of the embedded files: in the wheel, and in the set.
    #[serde(skip)]
    pub(super) embedded: BTreeMap<String, String>,
}

impl fmt::Display for FusePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, wheel) in self.wheels.iter().enumerate() {
            if index == 1 {
                writeln!(f)?;
            }
            wheel.fmt(f)?;
            if index == 0 {
                let (files, bytes) = (many(self.files, "file"), size(self.bytes));
                let targets = self.targets.join(", ");
                let directory = &self.directory;
                writeln!(
                    f,
                    "  embeds    {files} ({bytes}) for {targets} in {directory}"
                )?;
                for (library, who) in &self.libraries {
                    writeln!(f, "  library   {library} ({who})")?;
                }
                if self.has_compiler {
                    writeln!(f, "  compiler  its bitcode is embedded")?;
                }
            }
        }
        for warning in &self.warnings {
            writeln!(f, "  warning   {warning}")?;
        }
        Ok(())
    }
}
