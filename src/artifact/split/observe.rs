//! Plans a split: decides for every file of an artifact what happens to it. It reads only headers
//! and writes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    path::Path,
    sync::Arc,
};

use crate::{
    artifact::{Artifact, ArtifactName, FileAt, FileFacts, FileKind, TreeContent, TreeFile},
    elf::Patch,
    error::{Context as _, Hint as _, Result, Stop, bail},
    kpack::{
        CodeTarget, SplittableBinary, bundle, databases,
        host::{self, FatFileKind},
        split::{ArchiveNames, FatBinary, archive_path, home},
    },
    parallel,
    relpath::RelPath,
    target::{Scope, Target},
};

/// The plan for one artifact.
pub struct SplitPlan<'a> {
    pub source: ArtifactName,
    pub artifact: &'a Artifact,
    /// The action for each file, in the order of the artifact.
    pub files: Vec<(&'a TreeFile, SplitAction)>,
    pub archives: ArchiveNames,
    /// The binaries that keep their device code, each with the reason.
    pub kept: Vec<(&'a Path, String)>,
}

pub enum SplitAction {
    /// The file is copied to the generic artifact.
    Stays,
    /// The file is copied to the artifact of a target.
    Moves(Target),
    /// The binary is written to the generic artifact without its device code.
    Loses(Box<CodeRemoval>),
}

/// A binary with device code, and the patch that removes the code.
pub struct CodeRemoval {
    pub fat: SplittableBinary,
    pub binary: FatBinary,
    pub plan: Arc<Patch>,
}

/// Identifies an archive: its name without the target, and the target without features.
pub(super) type ArchiveId = (String, CodeTarget);

/// The artifact and the path that an archive is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivePlace {
    pub scope: Scope,
    pub basedir: RelPath,
    pub path: RelPath,
}

/// What a file contains.
enum CodeFound {
    Plain,
    Database(Target),
    /// Device code that cannot be taken out, with the reason.
    Stuck(String),
    Fat(SplittableBinary, FatBinary),
}

impl<'a> SplitPlan<'a> {
    /// The names of the artifacts that the split creates.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut scopes = BTreeSet::from([Scope::Generic]);
        scopes.extend(self.files.iter().filter_map(|(_, fate)| match fate {
            SplitAction::Moves(target) => Some(Scope::Target(target.clone())),
            _ => None,
        }));
        scopes.extend(self.places()?.into_values().map(|place| place.scope));
        let names = scopes.iter().map(|scope| self.name(scope).to_string());
        Ok(names.collect())
    }

    /// A warning for each binary that keeps its device code.
    pub fn kept_code(&self) -> impl Iterator<Item = String> {
        let kept = self.kept.iter();
        kept.map(|(file, why)| format!("`{}` keeps its device code: {why}", file.display()))
    }

    pub fn name(&self, scope: &Scope) -> ArtifactName {
        ArtifactName {
            scope: scope.clone(),
            ..self.source.clone()
        }
    }

    /// The beginning of the names of the archives, `blas_lib`.
    pub fn prefix(&self) -> String {
        prefix(&self.source)
    }

    /// The binaries that lose their device code, in the order of the artifact.
    pub fn losses(&self) -> impl Iterator<Item = (&'a TreeFile, &CodeRemoval)> {
        self.files.iter().filter_map(|(file, fate)| match fate {
            SplitAction::Loses(loss) => Some((*file, &**loss)),
            _ => None,
        })
    }

    /// All archives. Each is placed beside the first of the binaries that have code in it.
    pub fn places(&self) -> Result<BTreeMap<ArchiveId, ArchivePlace>> {
        let mut places = BTreeMap::new();
        for (_, loss) in self.losses() {
            for (bundle, set) in loss.binary.bundles.iter().enumerate() {
                for target in set {
                    let name = self.archives.name(&loss.binary, bundle, &target.base());
                    let place = ArchivePlace {
                        scope: home(target).context("code that no archive is for")?,
                        basedir: loss.binary.prefix.clone(),
                        path: archive_path(&name, target)?,
                    };
                    let id = (name, target.base());
                    places.entry(id).or_insert(place);
                }
            }
        }
        Ok(places)
    }
}

/// Plans several artifacts, in their order. Generic ones are copied as they are.
pub fn all<'a>(
    artifacts: impl IntoIterator<Item = &'a Artifact>,
    jobs: NonZeroUsize,
    stop: &Stop,
) -> Result<Vec<SplitPlan<'a>>> {
    let mut known = BTreeMap::new();
    let mut all = Vec::new();
    for artifact in artifacts {
        if let Some(before) = known.insert(prefix(&artifact.name), &artifact.name) {
            return two_of_a_kind(before, &artifact.name);
        }
        let splitting = splitting(artifact, jobs, stop);
        all.push(splitting.with_context(|| format!("failed to read `{}`", artifact.name))?);
    }
    Ok(all)
}

/// Refuses two artifacts that would become the same generic artifact.
///
/// The binaries of two families were linked with different code and have different addresses.
/// Nothing in the files tells whether bundle 3 of one corresponds to bundle 3 of the other, so the
/// runtime could load code of the wrong binary.
fn two_of_a_kind<T>(one: &ArtifactName, other: &ArtifactName) -> Result<T> {
    let generic = format!("{}_generic", prefix(one));
    let of_split = |name: &&&ArtifactName| matches!(name.scope, Scope::Target(_));
    if let Some(part) = [one, other].iter().find(of_split)
        && [one, other].iter().any(|name| name.scope == Scope::Generic)
    {
        let refuse = || -> Result<T> { bail!("`{part}` is split already, beside `{generic}`") };
        return refuse().hint("pass split artifacts to `rocwheel build` as they are");
    }
    if [one, other].iter().any(|name| name.scope == Scope::Generic) {
        let refuse = || -> Result<T> { bail!("only one of `{one}` and `{other}` is split") };
        return refuse().hint("keep the artifacts of one run in `--artifact-dir`");
    }
    let refuse = || -> Result<T> { bail!("`{one}` and `{other}` would both become `{generic}`") };
    refuse().hint("split one family at a time: keep only its artifacts in `--artifact-dir`")
}

fn prefix(name: &ArtifactName) -> String {
    format!("{}_{}", name.name, name.component.as_str())
}

fn splitting<'a>(artifact: &'a Artifact, jobs: NonZeroUsize, stop: &Stop) -> Result<SplitPlan<'a>> {
    let seen = if artifact.name.scope == Scope::Generic {
        artifact.files.iter().map(|_| CodeFound::Plain).collect()
    } else {
        parallel::map(&artifact.files, jobs, stop, look)?
    };
    let binaries = seen.iter().filter_map(|seen| match seen {
        CodeFound::Fat(_, binary) => Some(binary.clone()),
        _ => None,
    });
    let archives = ArchiveNames::new(&prefix(&artifact.name), &binaries.collect::<Vec<_>>());
    let looks: Vec<(&TreeFile, CodeFound)> = artifact.files.iter().zip(seen).collect();
    let fates = parallel::map(&looks, jobs, stop, |(file, seen)| {
        fate(file, seen, &archives)
    })?;
    let kept = looks.iter().filter_map(|(file, seen)| match seen {
        CodeFound::Stuck(why) => Some((file.source.as_path(), why.clone())),
        _ => None,
    });
    let kept = kept.collect();
    Ok(SplitPlan {
        source: artifact.name.clone(),
        artifact,
        files: artifact.files.iter().zip(fates).collect(),
        archives,
        kept,
    })
}

fn look(file: &TreeFile) -> Result<CodeFound> {
    let TreeContent::File(facts) = &file.content else {
        return Ok(CodeFound::Plain);
    };
    if let Some((_, target)) = databases::owner(&file.path) {
        return Ok(CodeFound::Database(target));
    }
    if !may_hold_code(file, facts) {
        return Ok(CodeFound::Plain);
    }
    let source = FileAt::open(&file.source)?;
    look_into(file, &source).with_context(|| format!("failed to read `{}`", file.source.display()))
}

/// Whether a file may contain device code: programs, libraries and object files of Linux and
/// Windows.
fn may_hold_code(file: &TreeFile, facts: &FileFacts) -> bool {
    let name = file.path.file_name();
    let windows = [".dll", ".exe", ".pyd"];
    facts.elf.is_some()
        || facts.damage.is_some()
        || matches!(facts.kind, FileKind::Executable | FileKind::SharedObject)
        || windows.iter().any(|end| name.ends_with(end))
}

fn look_into(file: &TreeFile, source: &FileAt) -> Result<CodeFound> {
    let fat = match host::look(source)? {
        FatFileKind::Plain | FatFileKind::Split => return Ok(CodeFound::Plain),
        FatFileKind::Stuck { why, .. } => return Ok(CodeFound::Stuck(why)),
        FatFileKind::Fat(fat) => fat,
    };
    let section = fat.section(source)?;
    let mut bundles = Vec::new();
    for (ordinal, one) in fat.bundles.iter().enumerate() {
        let set = bundle::targets(&section, one);
        bundles.push(set.with_context(|| format!("failed to open bundle {ordinal}"))?);
    }
    if let Some(target) = bundles.iter().flatten().find(|one| home(one).is_none()) {
        return Ok(CodeFound::Stuck(format!(
            "no runtime looks into an archive for `{target}`"
        )));
    }
    let binary = FatBinary::new((*file.basedir).clone(), file.path.clone(), bundles);
    Ok(CodeFound::Fat(fat, binary))
}

fn fate(file: &TreeFile, seen: &CodeFound, archives: &ArchiveNames) -> Result<SplitAction> {
    Ok(match seen {
        CodeFound::Plain | CodeFound::Stuck(_) => SplitAction::Stays,
        CodeFound::Database(target) => SplitAction::Moves(target.clone()),
        CodeFound::Fat(fat, binary) => {
            let source = FileAt::open(&file.source)?;
            let plan = host::plan(&source, fat, &archives.markers(binary));
            let plan = plan.with_context(|| {
                format!("failed to take the code out of `{}`", file.source.display())
            })?;
            SplitAction::Loses(Box::new(CodeRemoval {
                fat: fat.clone(),
                binary: binary.clone(),
                plan: Arc::new(plan),
            }))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_directory_of_a_split_has_a_colon() {
        let artifact = Artifact {
            name: "blas_lib_gfx942:xnack+".parse().unwrap(),
            basedirs: Vec::new(),
            files: Vec::new(),
        };
        let splitting = SplitPlan {
            source: artifact.name.clone(),
            artifact: &artifact,
            files: Vec::new(),
            archives: ArchiveNames::default(),
            kept: Vec::new(),
        };
        assert_eq!(splitting.names().unwrap(), ["blas_lib_generic"]);
    }
}
