//! `--flatten`: merges many artifacts into one install tree. All collisions are found before
//! anything is moved.
//!
//! Artifacts are fetched to `.rocwheel-fetch` inside the tree and moved from there by renaming. For
//! each artifact a listing of its paths (`NAME.json`) stays there, so that a later fetch knows
//! which files in the tree came from artifacts.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err as fs;

use super::state::{FetchState, Fetched};
use crate::{
    artifact::{
        Artifact, ArtifactTree, FileFacts, FileKind, LinkEnd, PermissionBits, TreeContent,
        TreeFile, TreeForm, merge, same_content,
    },
    console::{World, many},
    error::{Context as _, Error, No, Result, ensure, hinted},
    relpath::RelPath,
};

/// How many collisions the error lists one by one.
const MOST_LISTED: usize = 20;
const WORK: &str = ".rocwheel-fetch";

/// An install tree, and the directory where artifacts wait until they are merged into it.
#[derive(Debug)]
pub struct MergedTree {
    root: PathBuf,
    work: PathBuf,
}

/// The paths of one artifact in the tree, grouped by the base directory that they come from.
type Listing = BTreeMap<RelPath, BTreeSet<RelPath>>;

impl MergedTree {
    pub fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            work: root.join(WORK),
        }
    }

    pub fn work(&self) -> &Path {
        &self.work
    }

    pub fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.listing_path(name)).is_ok()
    }

    /// Whether every path of a merged artifact still exists in the tree.
    pub fn is_whole(&self, name: &str) -> Result<bool> {
        let Some(listing) = self.listing(name)? else {
            return Ok(false);
        };
        let mut paths = listing.values().flatten();
        Ok(paths.all(|path| fs::symlink_metadata(self.root.join(path.as_str())).is_ok()))
    }

    /// Moves fetched artifacts into the tree and returns the number of moved files. If two
    /// artifacts differ about a path, nothing is moved.
    ///
    /// While its files are moved, an artifact is not recorded as fetched. If the merge is
    /// interrupted, the artifact is fetched again, and its listing says which files in the tree may
    /// be overwritten.
    pub fn merge(
        &self,
        names: &[(String, Fetched)],
        state: &FetchState,
        jobs: NonZeroUsize,
        world: &World,
    ) -> Result<usize> {
        let tree = ArtifactTree::scan(&self.work, jobs, &world.stop)?;
        let is_new = |it: &Artifact| names.iter().any(|(name, _)| *name == it.name.file_name());
        let mut artifacts: Vec<_> = tree.artifacts.into_iter().filter(is_new).collect();
        ensure!(
            artifacts.len() == names.len(),
            "an artifact in `{}` was removed during the fetch",
            self.work.display()
        );
        for Artifact { name, files, .. } in &mut artifacts {
            for TreeFile { path, .. } in files.extract_if(.., |it| it.leads_to_the_host()) {
                world.console.note(format!(
                    "symlink `{path}` of artifact `{name}` is left out: it has an absolute target"
                ));
            }
        }
        let others = self.others(&artifacts)?;
        let problems = self.problems(&others, &artifacts)?;
        if !problems.is_empty() {
            return Err(refusal(&problems));
        }
        let all = others.iter().chain(&artifacts);
        let kept: BTreeSet<&RelPath> = all.flat_map(|it| &it.files).map(|it| &it.path).collect();
        let mut moved = 0;
        for artifact in &artifacts {
            world.stop.check()?;
            let name = artifact.name.file_name();
            let entry = names.iter().find(|(it, _)| *it == name);
            let entry = entry.map(|(_, entry)| entry.clone());
            state.forget(&name)?;
            moved += self
                .take(artifact, &kept)
                .with_context(|| format!("failed to merge `{name}`"))?;
            let entry = entry.map(|it| (name.clone(), Fetched { extent: None, ..it }));
            state.record(entry.into_iter().collect())?;
            fs::remove_dir_all(self.work.join(&name))?;
        }
        Ok(moved)
    }

    /// Removes the directories of artifacts that an interrupted merge left in the work directory.
    pub fn tidy(&self, state: &FetchState) -> Result<()> {
        let entries = match fs::read_dir(&self.work) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let waits = state.get(&name).is_some_and(|it| it.extent.is_some());
            if entry.file_type()?.is_dir() && !waits {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// The artifacts merged earlier, except `new`, with those of their files that still exist.
    fn others(&self, new: &[Artifact]) -> Result<Vec<Artifact>> {
        let mut others = Vec::new();
        for entry in fs::read_dir(&self.work)? {
            let file_name = entry?.file_name();
            let name = file_name.to_str().and_then(|it| it.strip_suffix(".json"));
            let Some(name) = name.filter(|name| !name.starts_with('.')) else {
                continue;
            };
            if new.iter().any(|it| it.name.file_name() == name) {
                continue;
            }
            let mut artifact = Artifact {
                name: crate::artifact::ArtifactName::of_file(name)?,
                basedirs: Vec::new(),
                files: Vec::new(),
            };
            for (basedir, paths) in self.listing(name)?.unwrap_or_default() {
                let basedir = Arc::new(basedir);
                for path in paths {
                    artifact.files.extend(self.standing(&path, &basedir)?);
                }
                artifact.basedirs.push(basedir);
            }
            others.push(artifact);
        }
        others.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(others)
    }

    fn problems(&self, others: &[Artifact], new: &[Artifact]) -> Result<Vec<String>> {
        let all = others.iter().chain(new);
        let mut own: BTreeSet<RelPath> = BTreeSet::new();
        own.extend(
            others
                .iter()
                .flat_map(|it| &it.files)
                .map(|it| it.path.clone()),
        );
        let mut problems: Vec<String> = merge(all, same_content)?
            .collisions
            .iter()
            .map(ToString::to_string)
            .collect();
        for artifact in new {
            let listing = self.listing(&artifact.name.file_name())?;
            own.extend(listing.into_iter().flatten().flat_map(|(_, paths)| paths));
        }
        for artifact in new {
            for file in &artifact.files {
                let owner = format!("{}/{}", artifact.name, file.basedir);
                if let TreeContent::Link { text, end } = &file.content
                    && *end == LinkEnd::Escapes
                {
                    problems.push(format!(
                        "symlink `{}` of `{owner}` leads out of the tree: `{text}`",
                        file.path
                    ));
                }
                if !own.contains(&file.path) && self.is_in_the_way(artifact, file)? {
                    problems.push(format!(
                        "`{}` of `{owner}` exists already and belongs to no artifact",
                        file.path
                    ));
                }
            }
        }
        Ok(problems)
    }

    /// Whether the tree has a different file, symlink or directory at the path of `file`.
    fn is_in_the_way(&self, artifact: &Artifact, file: &TreeFile) -> Result<bool> {
        let Some(standing) = self.standing(&file.path, &file.basedir)? else {
            return Ok(false);
        };
        let alone = |file: TreeFile| Artifact {
            name: artifact.name.clone(),
            basedirs: Vec::new(),
            files: vec![file],
        };
        let both = [alone(standing), alone(file.clone())];
        Ok(!merge(&both, same_content)?.collisions.is_empty())
    }

    /// The file at a path of the tree, with the facts that `artifact::merge` compares; `None` if
    /// there is none.
    fn standing(&self, path: &RelPath, basedir: &Arc<RelPath>) -> Result<Option<TreeFile>> {
        let source = self.root.join(path.as_str());
        let found = match fs::symlink_metadata(&source) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            found => found?,
        };
        let content = if found.is_dir() {
            TreeContent::Directory
        } else if found.is_symlink() {
            TreeContent::Link {
                text: fs::read_link(&source)?.to_string_lossy().replace('\\', "/"),
                end: LinkEnd::Dangling,
            }
        } else {
            #[cfg(unix)]
            let executable = std::os::unix::fs::MetadataExt::mode(&found) & 0o111 != 0;
            #[cfg(not(unix))]
            let executable = false;
            TreeContent::File(FileFacts {
                len: found.len(),
                mode: PermissionBits {
                    executable,
                    ..PermissionBits::default()
                },
                kind: FileKind::Other,
                elf: None,
                damage: None,
                form: TreeForm::Whole,
            })
        };
        Ok(Some(TreeFile {
            path: path.clone(),
            basedir: Arc::clone(basedir),
            source,
            content,
        }))
    }

    /// Moves the files of an artifact into the tree. Files of its previous version that no artifact
    /// has any more are removed.
    fn take(&self, artifact: &Artifact, kept: &BTreeSet<&RelPath>) -> Result<usize> {
        let name = artifact.name.file_name();
        let old = self.listing(&name)?.unwrap_or_default();
        let mut new = Listing::new();
        for file in &artifact.files {
            let paths = new.entry((*file.basedir).clone()).or_default();
            paths.insert(file.path.clone());
        }
        let mut both = new.clone();
        for (basedir, paths) in &old {
            let known = both.entry(basedir.clone()).or_default();
            known.extend(paths.iter().cloned());
        }
        // List the old and the new paths before anything is touched. If this is interrupted, the
        // next merge finds every file of either version in the listing and may replace it; with the
        // new listing alone, it would not remove the old files that are left.
        self.write_listing(&name, &both)?;
        let gone = old.values().flatten().filter(|it| !kept.contains(it));
        // Remove in reverse order: a directory sorts before its contents, and must be empty first.
        for path in gone.collect::<BTreeSet<_>>().into_iter().rev() {
            let at = self.root.join(path.as_str());
            match fs::symlink_metadata(&at) {
                // `remove_dir` fails if the directory has other files. Then it stays.
                Ok(found) if found.is_dir() => drop(fs::remove_dir(&at)),
                Ok(_) => fs::remove_file(&at)?,
                Err(_) => {}
            }
        }
        let mut moved = 0;
        for file in &artifact.files {
            moved += usize::from(self.put(file)?);
        }
        self.write_listing(&name, &new)?;
        Ok(moved)
    }

    /// Moves one file or creates one directory. Returns whether a file was moved.
    fn put(&self, file: &TreeFile) -> Result<bool> {
        let at = self.root.join(file.path.as_str());
        let is_directory = fs::symlink_metadata(&at).map(|found| found.is_dir());
        if file.content == TreeContent::Directory {
            match is_directory {
                Ok(true) => return Ok(false),
                Ok(false) => fs::remove_file(&at)?,
                Err(_) => {}
            }
            fs::create_dir(&at)?;
            return Ok(false);
        }
        if matches!(is_directory, Ok(true)) {
            fs::remove_dir(&at)?;
        }
        fs::rename(&file.source, &at)?;
        Ok(true)
    }

    fn listing_path(&self, name: &str) -> PathBuf {
        self.work.join(format!("{name}.json"))
    }

    /// `None` if the listing does not exist or cannot be parsed.
    fn listing(&self, name: &str) -> Result<Option<Listing>> {
        let text = match fs::read_to_string(self.listing_path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let parse = || -> Result<Listing> {
            let listing: BTreeMap<String, Vec<String>> = serde_json::from_str(&text)?;
            let parsed = listing.into_iter().map(|(basedir, paths)| {
                let paths = paths.iter().map(|path| Ok(path.parse()?));
                Ok((basedir.parse()?, paths.collect::<Result<_>>()?))
            });
            parsed.collect()
        };
        Ok(parse().ok())
    }

    fn write_listing(&self, name: &str, listing: &Listing) -> Result<()> {
        let text: BTreeMap<&str, Vec<&str>> = listing
            .iter()
            .map(|(basedir, paths)| {
                let paths = paths.iter().map(RelPath::as_str);
                (basedir.as_str(), paths.collect())
            })
            .collect();
        let (path, part) = (
            self.listing_path(name),
            self.work.join(format!(".{name}.json.part")),
        );
        fs::write(&part, serde_json::to_string(&text)?)
            .and_then(|()| fs::rename(&part, path))
            .context("failed to record the files of the artifact")
    }
}

fn refusal(problems: &[String]) -> Error {
    let mut lines: Vec<&str> = problems.iter().map(String::as_str).collect();
    lines.truncate(MOST_LISTED);
    let more = format!("and {} more", problems.len().saturating_sub(MOST_LISTED));
    if problems.len() > MOST_LISTED {
        lines.push(&more);
    }
    let count = many(problems.len(), "collision");
    let text = format!("{count}, so nothing was merged\n  {}", lines.join("\n  "));
    let hint = "leave one of them out with `--exclude`, or fetch without `--flatten`";
    hinted(Error::new(No(text)), hint)
}
