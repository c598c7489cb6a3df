//! The answer of `pipeline --dry-run`: what the pipeline would read and write.

use std::{fmt, path::Path};

use serde::Serialize;

use crate::{
    console::many,
    digest::Sha256,
    error::Result,
    fetch::FetchPlan,
    location::{Key, Location},
    package::Expected,
    set::{Layout, PackageSet, SetFile, Sidecar, paths},
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Forecast<'a> {
    schema: &'static str,
    /// What would be fetched; `None` if the artifacts are on disk.
    fetch: Option<&'a FetchPlan>,
    /// The directory or the address of the artifacts.
    reads: String,
    artifacts: Vec<String>,
    packages: String,
    /// The directory that the set would be published to, laid out like the bucket.
    published: String,
    /// The address of the set in the bucket of the run, as `place` prints it.
    set_url: String,
    /// The key of each object, in the directory `published` or in the bucket of `set-url`.
    writes: Vec<String>,
}

impl<'a> Forecast<'a> {
    /// `reads` is the source of the artifacts, `root` the place of the run's packages.
    pub fn new(
        fetch: Option<&'a FetchPlan>,
        (reads, artifacts): (String, Vec<String>),
        expected: Vec<Expected>,
        output_dir: &Path,
        root: &Location,
    ) -> Result<Self> {
        let set = package_set(expected)?;
        let key = |path: String| -> Result<String> {
            let below = path.strip_prefix("./").unwrap_or(&path);
            let key: Key = format!("{}{below}", root.key().directory()).parse()?;
            Ok(key.to_string())
        };
        let writes = paths(&set, Layout::Dist).into_iter().map(key);
        Ok(Self {
            schema: "rocwheel-pipeline-dry-run-v1",
            fetch,
            reads,
            artifacts,
            packages: output_dir.join("packages").display().to_string(),
            published: output_dir.display().to_string(),
            set_url: root.to_string(),
            writes: writes.collect::<Result<_>>()?,
        })
    }
}

/// A set in which only the names of the packages are known. The paths of index pages need no more.
fn package_set(packages: Vec<Expected>) -> Result<PackageSet> {
    let file = |package: Expected| -> Result<SetFile> {
        Ok(SetFile {
            family: package.directory.map(|it| it.parse()).transpose()?,
            name: package.filename,
            project: package.dist.parse()?,
            version: package.version,
            size: 0,
            sha256: Sha256::of(b""),
            upload_time: None,
            metadata: package.is_wheel.then(|| Sidecar::of(b"")),
            requires_python: None,
            yanked: None,
        })
    };
    let files = packages.into_iter().map(file).collect::<Result<_>>()?;
    PackageSet::new(files)
}

impl fmt::Display for Forecast<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(plan) = self.fetch {
            writeln!(f, "{plan}")?;
        } else {
            for name in &self.artifacts {
                writeln!(f, "take  {name}")?;
            }
            writeln!(f, "from {}", self.reads)?;
        }
        let count = many(self.artifacts.len(), "artifact");
        writeln!(f, "build packages of {count} in {}", self.packages)?;
        writeln!(f, "check them, and publish only without errors")?;
        for key in &self.writes {
            writeln!(f, "write {key}")?;
        }
        let count = many(self.writes.len(), "object");
        write!(f, "{count} in {}, for {}", self.published, self.set_url)
    }
}
