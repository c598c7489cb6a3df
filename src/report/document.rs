//! The JSON documents of `summary` (`rocwheel-summary-v1`) and `pipeline` (`rocwheel-pipeline-v1`), and
//! [`Forecast`], the answer of `pipeline --dry-run`: what the pipeline would read and write.

use std::fmt;

use itertools::Itertools as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{cells::LIMIT, markdown::SummaryPage};

use crate::{
    diff::Difference,
    fetch::FetchJob,
    index::{Addresses, Choice, Identity, Layout, PackageFile, SetJson, install, paths},
    package::Expected,
};
use rocwheel_base::{
    digest::Sha256,
    error::Result,
    quantity::{many, size},
};
use rocwheel_store::location::{Key, Location};

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct SummaryDocument<'a> {
    schema: &'static str,
    /// `None` for a set that is not published.
    #[serde(flatten)]
    addresses: Option<Addresses>,
    set: &'a SetJson,
    install: Vec<Value>,
    /// `None` for a set that was not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<usize>,
    /// What changed since the set of `--baseline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'a Difference>,
}

impl Serialize for SummaryPage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document("rocwheel-summary-v1", &install::choices(self.set)).serialize(serializer)
    }
}

/// The answer of `pipeline`: the set, and how to install it for its first choice (a target or a family).
pub struct PipelineAnswer<'a>(pub SummaryPage<'a>);

impl Serialize for PipelineAnswer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let choices = install::choices(self.0.set);
        let first = choices.get(..1).unwrap_or_default();
        self.0.document("rocwheel-pipeline-v1", first).serialize(serializer)
    }
}

impl fmt::Display for PipelineAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.0.set.files {
            writeln!(f, "{:>10}  {}", size(file.size).to_string(), file.name())?;
        }
        let total = size(self.0.set.size()).to_string();
        writeln!(f, "{total:>10}  in {}", self.0.set.counted())?;
        if let Some(command) = self.0.own_line() {
            write!(f, "\nrocwheel, for the GPU of the machine:\n\n    {command}\n")?;
        }
        let choices = install::choices(self.0.set);
        let Some((shown, others)) = choices.split_first() else {
            return Ok(());
        };
        let audience = match others {
            [] if *shown == Choice::default() => String::new(),
            [] => format!(", for {shown}"),
            others => format!(", for {shown} (also built: {})", others.iter().join(", ")),
        };
        // The summary has the other commands of this choice.
        match self.0.lines(shown).into_iter().next() {
            Some((with, command)) => write!(f, "\n{with}{audience}:\n\n    {command}\n"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for SummaryPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(LIMIT))
    }
}

impl<'a> SummaryPage<'a> {
    fn document(&self, schema: &'static str, choices: &[Choice]) -> SummaryDocument<'a> {
        let mut install = Vec::new();
        if let Some(command) = self.own_line() {
            let document = json!({ "for": "this machine", "with": "rocwheel", "command": command });
            install.push(document);
        }
        for choice in choices {
            for (with, command) in self.lines(choice) {
                let audience = choice.to_string();
                install.push(json!({ "for": audience, "with": with, "command": command }));
            }
        }
        SummaryDocument {
            schema,
            addresses: self.urls().map(|urls| Addresses::new(urls, &self.set.families())),
            set: self.set,
            install,
            errors: self.report.map(|report| report.errors),
            warnings: self.report.map(|report| report.warnings),
            changes: self.changes,
        }
    }
}

/// What a pipeline would read and write.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Forecast<'a, 'j> {
    pub schema: &'static str,
    /// What would be fetched; `None` if the artifacts are on disk.
    pub fetch: Option<&'a FetchJob<'j>>,
    /// The directory or the address of the artifacts.
    pub reads: String,
    pub artifacts: Vec<String>,
    pub packages: String,
    /// The directory that the set would be published to, laid out like the bucket; or the bucket.
    pub published: String,
    /// The address of the set in the bucket of the run, as `place` prints it.
    pub set_url: String,
    /// Whether there is such a bucket, and it is not the place: a local run has none.
    #[serde(skip)]
    pub names_bucket: bool,
    /// The key of each object, in `published`.
    pub writes: Vec<String>,
}

impl Forecast<'_, '_> {
    pub const SCHEMA: &'static str = "rocwheel-pipeline-dry-run-v1";

    /// The keys of a set below `root`, of which only the names of the packages are known: the paths of
    /// pages need no more. `has_directory_keys` says whether pages have keys that end in `/`, too.
    pub fn keys(
        expected: Vec<Expected>,
        root: &Location,
        layout: Layout,
        has_directory_keys: bool,
    ) -> Result<Vec<String>> {
        let file = |package: Expected| -> Result<PackageFile> {
            let directory = match package.directory {
                Some(name) => format!("{name}/"),
                None => String::new(),
            };
            let path = format!("{}{directory}{}", layout.files(), package.filename);
            let project = package.dist.parse()?;
            // The digest is not known, and no path contains it.
            let digest = Sha256::of(b"");
            Ok(PackageFile {
                metadata: package.is_wheel.then_some(digest),
                ..PackageFile::new(path, project, package.version, 0, digest)
            })
        };
        let files = expected.into_iter().map(file).collect::<Result<_>>()?;
        paths(&SetJson::new(Identity::default(), files)?)
            .into_iter()
            .filter(|path| has_directory_keys || !path.ends_with('/'))
            .map(|path| {
                let below = path.strip_prefix("./").unwrap_or(&path);
                let key: Key = format!("{}{below}", root.key.directory()).parse()?;
                Ok(key.to_string())
            })
            .collect()
    }
}

impl fmt::Display for Forecast<'_, '_> {
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
            writeln!(f, "write {}/{key}", self.published)?;
        }
        let count = many(self.writes.len(), "object");
        write!(f, "{count} in {}", self.published)?;
        if self.names_bucket {
            write!(f, ", for {}", self.set_url)?;
        }
        Ok(())
    }
}
