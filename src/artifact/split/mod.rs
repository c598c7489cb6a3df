//! Splits a fat artifact into a generic artifact and one for each target. Device code of binaries
//! moves to `.kpack` archives, kernel databases move to the artifact of their target, and
//! everything else is generic.
//!
//! The plan decides for every file of an artifact what happens to it. It reads only headers and
//! writes nothing.

mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    sync::Arc,
};

use crate::artifact::{Artifact, ArtifactName, FileKind, TreeContent, TreeFile};
use rocwheel_base::{
    error::{Context as _, Hint as _, Result, Stop, anyhow},
    io::FileAt,
    parallel,
    relpath::RelPath,
    target::{Scope, Target},
};
use rocwheel_elf::Patch;
use rocwheel_kpack::{
    CodeTarget, SplittableBinary, databases, host,
    split::{ArchiveNames, DeviceCode, FatBinary, archive_path, device_code, home},
};

pub use write::{WrittenArtifact, write, write_archives};

/// The plan for one artifact.
pub struct SplitPlan<'a> {
    pub artifact: &'a Artifact,
    /// The action for each file, in the order of the artifact.
    pub files: Vec<(&'a TreeFile, SplitAction)>,
    pub archives: ArchiveNames,
    /// Where each archive goes: beside the first of the binaries that have code in it.
    pub places: BTreeMap<ArchiveId, ArchivePlace>,
}

pub enum SplitAction {
    /// The file is copied to the generic artifact.
    Copy,
    /// The binary is copied to the generic artifact with its device code. The text says why the code cannot be
    /// taken out.
    CopyWithCode(String),
    /// The file is copied to the artifact of a target.
    MoveTo(Target),
    /// The binary is written to the generic artifact without its device code.
    RemoveCode(Box<CodeRemoval>),
}

/// A binary with device code, and the patch that removes the code.
pub struct CodeRemoval {
    pub fat: SplittableBinary,
    pub binary: FatBinary,
    /// Empty until the names of all archives are known, because the patch writes these names into the binary.
    pub patch: Arc<Patch>,
}

/// Identifies an archive: its name without the target, and the target without features.
pub type ArchiveId = (String, CodeTarget);

/// The artifact and the path that an archive is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivePlace {
    pub scope: Scope,
    pub basedir: RelPath,
    pub path: RelPath,
}

impl<'a> SplitPlan<'a> {
    /// The names of the artifacts that the split creates.
    pub fn names(&self) -> Vec<String> {
        let mut scopes = BTreeSet::from([Scope::Generic]);
        scopes.extend(self.files.iter().map(|(_, action)| action.scope()));
        scopes.extend(self.places.values().map(|place| place.scope.clone()));
        scopes.iter().map(|scope| self.name(scope).to_string()).collect()
    }

    /// A warning for each binary that keeps its device code.
    pub fn kept_code(&self) -> impl Iterator<Item = String> {
        self.files.iter().filter_map(|(file, action)| match action {
            SplitAction::CopyWithCode(why) => {
                Some(format!("`{}` keeps its device code: {why}", file.source.display()))
            }
            _ => None,
        })
    }

    pub fn name(&self, scope: &Scope) -> ArtifactName {
        ArtifactName { scope: scope.clone(), ..self.artifact.name.clone() }
    }

    /// The binaries that lose their device code, in the order of the artifact.
    pub fn losses(&self) -> impl Iterator<Item = (&'a TreeFile, &CodeRemoval)> {
        self.files.iter().filter_map(|(file, action)| match action {
            SplitAction::RemoveCode(loss) => Some((*file, &**loss)),
            _ => None,
        })
    }
}

impl SplitAction {
    /// The scope of the artifact that gets the file.
    pub fn scope(&self) -> Scope {
        match self {
            Self::MoveTo(target) => Scope::Target(target.clone()),
            _ => Scope::Generic,
        }
    }
}

/// Plans several artifacts, in their order. Generic artifacts are copied as they are.
pub fn all<'a>(
    artifacts: impl IntoIterator<Item = &'a Artifact>,
    jobs: NonZeroUsize,
    stop: &Stop,
) -> Result<Vec<SplitPlan<'a>>> {
    let mut names_by_prefix = BTreeMap::new();
    let mut plans = Vec::new();
    for artifact in artifacts {
        if let Some(earlier) = names_by_prefix.insert(prefix(&artifact.name), &artifact.name) {
            return refuse_two_of_a_kind(earlier, &artifact.name);
        }
        let plan = plan_artifact(artifact, jobs, stop)
            .with_context(|| format!("failed to read `{}`", artifact.name))?;
        plans.push(plan);
    }
    Ok(plans)
}

/// Refuses two artifacts that would become the same generic artifact.
///
/// The binaries of two families were linked with different code and have different addresses.
/// Nothing in the files tells whether bundle 3 of one corresponds to bundle 3 of the other, so the
/// runtime could load code of the wrong binary.
fn refuse_two_of_a_kind<T>(one: &ArtifactName, other: &ArtifactName) -> Result<T> {
    let generic = format!("{}_generic", prefix(one));
    let both = [one, other];
    let has_generic = both.iter().any(|name| name.scope == Scope::Generic);
    let of_target = both.iter().find(|name| matches!(name.scope, Scope::Target(_)));
    let (error, hint) = match of_target {
        Some(part) if has_generic => (
            anyhow!("`{part}` is split already, beside `{generic}`"),
            "pass split artifacts to `rocwheel build` as they are",
        ),
        _ if has_generic => (
            anyhow!("only one of `{one}` and `{other}` is split"),
            "keep the artifacts of one run in `--artifact-dir`",
        ),
        _ => (
            anyhow!("`{one}` and `{other}` would both become `{generic}`"),
            "split one family at a time: keep only its artifacts in `--artifact-dir`",
        ),
    };
    Err(error).hint(hint)
}

/// The beginning of the names of its archives, `blas_lib`.
fn prefix(name: &ArtifactName) -> String {
    format!("{}_{}", name.name, name.component.as_str())
}

fn plan_artifact<'a>(
    artifact: &'a Artifact,
    jobs: NonZeroUsize,
    stop: &Stop,
) -> Result<SplitPlan<'a>> {
    let actions = if artifact.name.scope == Scope::Generic {
        artifact.files.iter().map(|_| SplitAction::Copy).collect()
    } else {
        parallel::map(&artifact.files, jobs, stop, choose_action)?
    };
    let mut plan = SplitPlan {
        artifact,
        files: artifact.files.iter().zip(actions).collect(),
        archives: ArchiveNames::default(),
        places: BTreeMap::new(),
    };
    let binaries: Vec<FatBinary> = plan.losses().map(|(_, loss)| loss.binary.clone()).collect();
    plan.archives = ArchiveNames::new(&prefix(&artifact.name), &binaries);
    plan.places = place_archives(&binaries, &plan.archives)?;
    // The name of an archive depends on the code of all binaries, so all names come before the first patch.
    let losses: Vec<_> = plan.losses().collect();
    let patches = parallel::map(&losses, jobs, stop, |(file, loss)| {
        let source = FileAt::open(&file.source)?;
        host::plan(&source, &loss.fat, &plan.archives.markers(&loss.binary))
            .map(Arc::new)
            .with_context(|| format!("failed to take the code out of `{}`", file.source.display()))
    })?;
    let losses = plan.files.iter_mut().filter_map(|(_, action)| match action {
        SplitAction::RemoveCode(loss) => Some(loss),
        _ => None,
    });
    for (loss, patch) in losses.zip(patches) {
        loss.patch = patch;
    }
    Ok(plan)
}

/// Places each archive beside the first of the binaries that have code in it.
fn place_archives(
    binaries: &[FatBinary],
    archives: &ArchiveNames,
) -> Result<BTreeMap<ArchiveId, ArchivePlace>> {
    let mut places = BTreeMap::new();
    for binary in binaries {
        for (bundle, set) in binary.bundles.iter().enumerate() {
            for target in set {
                let name = archives.name(binary, bundle, &target.base());
                let place = ArchivePlace {
                    scope: home(target).context("code that no archive is for")?,
                    basedir: binary.prefix.clone(),
                    path: archive_path(&name, target)?,
                };
                places.entry((name, target.base())).or_insert(place);
            }
        }
    }
    Ok(places)
}

/// Decides what happens to a file. Reads the file only if it may hold device code.
fn choose_action(file: &TreeFile) -> Result<SplitAction> {
    let TreeContent::File(facts) = &file.content else {
        return Ok(SplitAction::Copy);
    };
    if let Some((_, target)) = databases::owner(&file.path) {
        return Ok(SplitAction::MoveTo(target));
    }
    // Programs, libraries and object files of Linux and Windows. The scan reads no headers of Windows files.
    let windows_suffixes = [".dll", ".exe", ".pyd"];
    let may_hold_code = facts.elf.is_some()
        || facts.damage.is_some()
        || matches!(facts.kind, FileKind::Executable | FileKind::SharedObject)
        || windows_suffixes.iter().any(|suffix| file.path.file_name().ends_with(suffix));
    if !may_hold_code {
        return Ok(SplitAction::Copy);
    }
    let code = FileAt::open(&file.source)
        .map_err(Into::into)
        .and_then(|source| device_code(&source))
        .with_context(|| format!("failed to read `{}`", file.source.display()))?;
    Ok(match code {
        DeviceCode::None | DeviceCode::Split => SplitAction::Copy,
        DeviceCode::Stays(why) => SplitAction::CopyWithCode(why),
        DeviceCode::Leaves(fat, bundles) => {
            let targets = bundles.into_iter().map(|bundle| bundle.into_keys().collect()).collect();
            SplitAction::RemoveCode(Box::new(CodeRemoval {
                fat,
                binary: FatBinary::new((*file.basedir).clone(), file.path.clone(), targets),
                patch: Arc::default(),
            }))
        }
    })
}

#[cfg(test)]
mod tests {
    use rocwheel_test_files::binaries::of_units;

    use super::*;
    use crate::artifact::ArtifactTree;

    #[test]
    fn no_directory_of_a_split_has_a_colon() {
        let artifact = Artifact {
            name: "blas_lib_gfx942:xnack+".parse().unwrap(),
            basedirs: Vec::new(),
            files: Vec::new(),
        };
        let splitting = SplitPlan {
            artifact: &artifact,
            files: Vec::new(),
            archives: ArchiveNames::default(),
            places: BTreeMap::new(),
        };
        assert_eq!(splitting.names(), ["blas_lib_generic"]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_binary_that_is_linked_again_while_its_code_is_read_is_noticed() {
        let [root, out] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let artifact = root.path().join("fam_lib_gfx94X-dcgpu");
        let library = artifact.join("stage/lib/libfam.so.1");
        fs_err::create_dir_all(library.parent().unwrap()).unwrap();
        fs_err::write(artifact.join("artifact_manifest.txt"), "stage").unwrap();
        fs_err::write(&library, of_units("libfam.so.1", &[&["gfx942"], &["gfx942"]])).unwrap();
        let (jobs, stop) = (NonZeroUsize::MIN, Stop::default());
        let tree = ArtifactTree::scan(root.path(), jobs, &stop).unwrap();
        let plans = all(&tree.artifacts, jobs, &stop).unwrap();
        let write = || {
            let place = |_: &ArchivePlace| Ok(out.path().join("fam.kpack"));
            let written = write_archives(&plans[0], place, jobs, &stop, &|_| ());
            written.err().map(|error| error.to_string())
        };
        assert_eq!(write(), None);
        let other = out.path().join("other");
        fs_err::copy(&library, &other).unwrap();
        fs_err::rename(other, &library).unwrap();
        let said = write().unwrap();
        let expected = "libfam.so.1` changed while its device code was read";
        assert!(said.ends_with(expected), "{said}");
    }
}
