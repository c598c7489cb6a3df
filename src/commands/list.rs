//! `list`: says which versions of ROCm a set, an index or a stream has.

use std::{fmt, num::NonZeroUsize};

use itertools::Itertools as _;
use serde::Serialize;

use super::{
    World,
    args::{AccessArgs, Variables},
};
use crate::{
    framework::Frameworks,
    index::{Urls, is_ours},
    place::{
        Completeness, OfferedFile, OfferedFramework, OfferedSet, OfferedVersion, PlaceArg,
        SetPlace, UnreadProject, VersionsOffered, selectors_of,
    },
    run::Platform,
};
use rocwheel_base::{
    error::{Context as _, Hint as _, No, Result, anyhow, one_line},
    parallel,
    quantity::{aligned, few, many, size, sum},
    target::{Target, TargetPattern, TargetTable},
    version::{ReleaseStream, Version},
};
use rocwheel_wheel::{DistName, Metadata};

/// How many rows are shown, if no flag says it.
const ROWS: NonZeroUsize = NonZeroUsize::new(20).expect("20 is not zero");
/// How many targets a row names.
const MOST_TARGETS: usize = 4;

/// Say which versions a set, an index or a stream has
///
/// For each version, the newest first: the platforms and targets that it is for, which of its packages are missing, and
/// which frameworks fit. A single version is shown with all of its packages. Without SET: the streams of ROCm.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("source").args(["set", "stream"])))]
#[command(after_help = "Examples:
  rocwheel list
  rocwheel list packages
  rocwheel list --stream nightly --target gfx1100 --package torch
  rocwheel list https://host/simple/ --version 10.1.0a20260823 --format json

Exit codes: 0 listed, 1 there is no such version, or a page could not be read, 2 usage, environment or access error")]
pub struct ListArgs {
    /// Set or index: a directory, an address, or `s3://bucket/prefix`
    #[arg(value_name = "SET", conflicts_with = "stream")]
    set: Option<PlaceArg>,
    /// List what this stream publishes
    #[arg(long, value_name = "STREAM")]
    stream: Option<ReleaseStream>,
    /// Only this version of ROCm, with all of its packages
    #[arg(long, value_name = "VERSION", requires = "source")]
    version: Option<Version>,
    /// Only versions with device code for one of these targets or families, comma-separated
    #[arg(long, alias = "targets", value_name = "LIST", requires = "source")]
    target: Option<TargetPattern>,
    /// Only versions for which there is this framework, in any version; can be given several times
    #[arg(long, value_name = "NAME", requires = "source")]
    package: Vec<DistName>,
    /// Only versions for this platform
    #[arg(long, value_name = "PLATFORM", requires = "source")]
    platform: Option<Platform>,
    /// How many versions to show
    #[arg(long, value_name = "N", default_value_t = ROWS)]
    limit: NonZeroUsize,
    #[command(flatten)]
    access: AccessArgs,
    // The rest has no flags here: variables say it.
    /// A server that has a directory for each host of a stream.
    #[arg(skip)]
    mirror: Option<Urls>,
}

/// The places, and the projects of which nothing is known.
struct Sources {
    sources: Vec<Source>,
    unread: Vec<UnreadProject>,
}

/// A place, and everything that it offers.
struct Source {
    place: SetPlace,
    offered: OfferedSet,
}

pub fn run(args: &ListArgs, world: &World) -> Result<()> {
    if args.set.is_none() && args.stream.is_none() {
        world.console.next("rocwheel list --stream nightly");
        return world.console.answer(&Streams::all());
    }
    let Sources { sources, unread } = args.open(world)?;
    for UnreadProject { project, reason } in &unread {
        world.console.warn(format!("failed to read the page of `{project}`: {reason}"));
    }
    let mut listed = args.select(&sources, world)?;
    let omitted = listed.len().saturating_sub(args.limit.get());
    listed.truncate(args.limit.get());
    read_selectors(&sources, &mut listed, world)?;
    let versions: Vec<OfferedVersion> = listed.into_iter().map(|(_, version)| version).collect();
    let is_one = versions.iter().map(|version| &version.version).all_equal();
    let lacking = few(unread.iter().map(|it| format!("`{}`", it.project)));
    let is_whole = unread.is_empty();
    world.console.answer(&VersionList {
        schema: "rocwheel-list-v1",
        places: sources.iter().map(|source| source.offered.place.clone()).collect(),
        versions,
        unread,
        omitted,
        form: if is_one && args.package.is_empty() {
            ListForm::Packages
        } else {
            ListForm::Versions { with_pythons: !args.package.is_empty() }
        },
    })?;
    if is_whole {
        return Ok(());
    }
    Err(anyhow!(No(format!("the list lacks {lacking}, because pages could not be read"))))
        .hint("try again; if it lasts, tell the owner of the index")
}

impl ListArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        variables.fill(&mut self.mirror, "ROCWHEEL_STREAM_MIRROR")?;
        self.access.read_variables(variables)
    }

    /// Opens the places, and reads what they offer.
    fn open(&self, world: &World) -> Result<Sources> {
        let mut sources = Vec::new();
        if let Some(set) = &self.set {
            let place = self.access.place(set, &world.stop)?;
            let offered = place
                .offered_to_us(None)?
                .ok_or_else(|| anyhow!(No(format!("no packages at `{place}`"))))
                .hint(
                    place
                        .hint_below()
                        .unwrap_or_else(|| "pass the address of an index, or of a set".into()),
                )?;
            sources.push(Source { place, offered });
        }
        if let Some(stream) = self.stream {
            let mirror = self.mirror.as_ref().map(Urls::to_string);
            let addresses = stream.addresses(self.version.as_ref(), mirror.as_deref());
            for address in &addresses {
                let place = self.access.place(&address.parse()?, &world.stop)?;
                if let Some(offered) = place.offered_as_index(None)? {
                    sources.push(Source { place, offered });
                }
            }
            if sources.is_empty() {
                return Err(anyhow!(No(format!("the stream `{stream}` has no packages"))))
                    .hint(format!("its indexes are {}", addresses.join(" and ")));
            }
        }
        let frameworks = Frameworks::builtin();
        let is_wanted = |project: &DistName| {
            is_ours(project) || frameworks.of(project).is_some() || self.package.contains(project)
        };
        let mut unread = Vec::new();
        for source in &mut sources {
            unread.extend(source.place.offer_projects(&mut source.offered, is_wanted)?);
        }
        Ok(Sources { sources, unread })
    }

    /// The versions that were asked for, the newest first, with the number of the source of each.
    fn select(&self, sources: &[Source], world: &World) -> Result<Vec<(usize, OfferedVersion)>> {
        let mut listed = Vec::new();
        for (number, source) in sources.iter().enumerate() {
            let versions = VersionsOffered::of(&source.offered);
            for (version, platform) in versions.rows() {
                world.stop.check()?;
                listed.push((number, versions.describe(version, platform)));
            }
        }
        // The sort is stable, so that the platforms of a version stay in order.
        listed.sort_by(|(_, one), (_, other)| other.version.cmp(&one.version));
        let at = sources.iter().map(|source| format!("`{}`", source.offered.place)).join(" and ");
        let version_of = |it: &OfferedVersion| vec![it.version.to_string()];
        keep(&mut listed, |_| true, format!("no version of ROCm at {at}"), version_of)?;
        if let Some(stream) = self.stream {
            let refusal = format!("no version of the stream `{stream}` at {at}");
            keep(&mut listed, |it| it.version.stream() == stream, refusal, version_of)?;
        }
        if let Some(version) = &self.version {
            let refusal = format!("no ROCm {version} at {at}");
            keep(&mut listed, |it| it.version == *version, refusal, version_of)?;
        }
        if let Some(platform) = self.platform {
            let refusal = format!("no packages for {platform} at {at}");
            let platform_of = |it: &OfferedVersion| vec![it.platform.to_string()];
            keep(&mut listed, |it| it.platform == platform, refusal, platform_of)?;
        }
        if let Some(pattern) = &self.target {
            let targets: Vec<Target> = TargetTable::builtin()
                .select_with_newer(std::slice::from_ref(pattern))?
                .iter()
                .map(Target::packaged)
                .collect();
            let names = pattern.names().join(", ");
            let refusal = format!("no device code for {names} at {at}");
            keep(
                &mut listed,
                |it| it.has_code_for(&targets),
                refusal,
                OfferedVersion::device_code,
            )?;
        }
        for project in &self.package {
            let refusal = format!("no `{project}` for a version of ROCm at {at}");
            let projects_of = |it: &OfferedVersion| {
                it.frameworks.iter().map(|framework| framework.project.to_string()).collect()
            };
            let has_project = |it: &OfferedVersion| {
                it.frameworks.iter().any(|framework| framework.project == *project)
            };
            keep(&mut listed, has_project, refusal, projects_of)?;
        }
        if !self.package.is_empty() {
            for (_, version) in &mut listed {
                version.frameworks.retain(|framework| self.package.contains(&framework.project));
            }
        }
        Ok(listed)
    }
}

/// Keeps the wanted versions. Fails if there is none, and says what the others have instead.
fn keep(
    listed: &mut Vec<(usize, OfferedVersion)>,
    is_wanted: impl Fn(&OfferedVersion) -> bool,
    refusal: String,
    offers: impl Fn(&OfferedVersion) -> Vec<String>,
) -> Result<()> {
    let offered = few(listed.iter().flat_map(|(_, version)| offers(version)).unique());
    listed.retain(|(_, version)| is_wanted(version));
    if !listed.is_empty() {
        return Ok(());
    }
    let hint = if offered.is_empty() {
        "pass a set, or an index of ROCm".to_owned()
    } else {
        format!("there is {offered}")
    };
    Err(anyhow!(No(refusal))).hint(hint)
}

/// Reads the `rocm` of each version, which names the packages of the version, and judges whether they are there.
fn read_selectors(
    sources: &[Source],
    listed: &mut [(usize, OfferedVersion)],
    world: &World,
) -> Result<()> {
    let versions: Vec<(usize, Version)> =
        listed.iter().map(|(number, it)| (*number, it.version.clone())).dedup().collect();
    let read = |(number, version): &(usize, Version)| {
        let Source { place, offered } = &sources[*number];
        let files = selectors_of(offered, version);
        let metadata: Result<Vec<Metadata>> =
            files.into_iter().map(|file| place.metadata_of(file)).collect();
        world.stop.check()?;
        // One package that cannot be read is no reason to list no other version.
        Ok(metadata.map_err(|error| one_line(&error)))
    };
    let selectors = parallel::map(&versions, World::jobs(), &world.stop, read)?;
    for (number, version) in listed {
        let is_of =
            |(source, named): &(usize, Version)| source == number && *named == version.version;
        let position = versions.iter().position(is_of).context("a version that was not read")?;
        match &selectors[position] {
            Ok(metadata) => version.judge(metadata),
            Err(reason) => {
                version.completeness = Some(Completeness::Unknown { reason: reason.clone() });
            }
        }
    }
    Ok(())
}

/// The answer of `list`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct VersionList {
    schema: &'static str,
    places: Vec<String>,
    versions: Vec<OfferedVersion>,
    /// The projects whose pages could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<UnreadProject>,
    /// How many versions are left out, each once for each platform.
    omitted: usize,
    #[serde(skip)]
    form: ListForm,
}

/// How people see the answer.
#[derive(Clone, Copy, Debug)]
enum ListForm {
    /// A row for each version.
    Versions { with_pythons: bool },
    /// The packages of one version.
    Packages,
}

impl fmt::Display for VersionList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form {
            ListForm::Versions { with_pythons } => self.write_versions(f, with_pythons)?,
            ListForm::Packages => {
                for version in &self.versions {
                    write_packages(f, version)?;
                }
            }
        }
        if self.omitted > 0 {
            let all = self.versions.len() + self.omitted;
            writeln!(f, "and {} more: `--limit {all}` lists all", self.omitted)?;
        }
        Ok(())
    }
}

impl VersionList {
    fn write_versions(&self, f: &mut fmt::Formatter<'_>, with_pythons: bool) -> fmt::Result {
        let header = ["VERSION", "PLATFORM", "TARGETS", "FRAMEWORKS", "STATE"];
        let mut table = vec![header.map(str::to_owned).to_vec()];
        for version in &self.versions {
            table.push(vec![
                version.version.to_string(),
                version.platform.to_string(),
                first_targets(&version.device_code()),
                frameworks(version, with_pythons),
                version.completeness.as_ref().map_or_else(String::new, Completeness::to_string),
            ]);
        }
        f.write_str(&aligned(&table))
    }
}

/// The first targets, and how many more there are.
fn first_targets(targets: &[String]) -> String {
    let shown = targets.iter().take(MOST_TARGETS).join(" ");
    match targets.len().checked_sub(MOST_TARGETS) {
        _ if targets.is_empty() => "-".to_owned(),
        None | Some(0) => shown,
        Some(more) => format!("{shown} +{more}"),
    }
}

/// The newest version of each framework, or all versions with their Pythons.
fn frameworks(version: &OfferedVersion, with_pythons: bool) -> String {
    let shown = version.frameworks.iter().chunk_by(|framework| &framework.project);
    let mut cells = Vec::new();
    for (project, mut versions) in &shown {
        let mut versions_shown = Vec::new();
        if with_pythons {
            for framework in versions {
                let range = framework.python_range();
                versions_shown.push(format!("{} ({range})", framework.without_rocm()));
            }
        } else {
            versions_shown.extend(versions.next().map(OfferedFramework::without_rocm));
        }
        cells.push(format!("{project} {}", versions_shown.join(", ")));
    }
    if cells.is_empty() { "-".to_owned() } else { few(cells.into_iter()) }
}

/// One version with its packages.
fn write_packages(f: &mut fmt::Formatter<'_>, version: &OfferedVersion) -> fmt::Result {
    let OfferedVersion { version: number, platform, .. } = version;
    let state = version.completeness.as_ref().map_or_else(String::new, Completeness::to_string);
    writeln!(f, "ROCm {number} for {platform}: {state}")?;
    if let Some(python) = &version.requires_python {
        writeln!(f, "Python {python}")?;
    }
    // Most pages do not say sizes.
    let row = |file: &OfferedFile| {
        let size = file.size.map(|bytes| size(bytes).to_string());
        vec![format!("  {}", file.name), size.unwrap_or_default()]
    };
    let mut table: Vec<Vec<String>> = version.packages.iter().map(row).collect();
    let sizes: Option<Vec<u64>> = version.packages.iter().map(|file| file.size).collect();
    let total = sizes.map(sum);
    let count = many(version.packages.len(), "package");
    table.push(vec![
        format!("  {count}"),
        total.map_or_else(String::new, |it| size(it).to_string()),
    ]);
    if !version.variants.is_empty() {
        table.extend(version.variants.iter().map(row));
        let count = many(version.variants.len(), "variant wheel");
        table.push(vec![format!("  {count}, which `install` leaves alone"), String::new()]);
    }
    f.write_str(&aligned(&table))?;
    for framework in &version.frameworks {
        let OfferedFramework { project, version, .. } = framework;
        writeln!(f, "  {project} {version} for Python {}", framework.python_range())?;
    }
    Ok(())
}

/// The streams of ROCm, and where they are.
#[derive(Debug, Serialize)]
struct Streams {
    schema: &'static str,
    streams: Vec<StreamRow>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct StreamRow {
    stream: String,
    index: String,
    /// Which versions are there, if not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
}

impl Streams {
    fn all() -> Self {
        let rows = ReleaseStream::all().flat_map(|stream| {
            stream.places(None).into_iter().map(move |place| StreamRow {
                stream: stream.to_string(),
                index: place.index.clone(),
                limit: place.limit(),
            })
        });
        Self { schema: "rocwheel-streams-v1", streams: rows.collect() }
    }
}

impl fmt::Display for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = vec![["STREAM", "INDEX", ""].map(str::to_owned).to_vec()];
        for StreamRow { stream, index, limit } in &self.streams {
            table.push(vec![stream.clone(), index.clone(), limit.clone().unwrap_or_default()]);
        }
        f.write_str(&aligned(&table))
    }
}
