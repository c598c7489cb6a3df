//! One install tree of many artifacts: decided before anything is moved, and moved by renaming.
//!
//! Artifacts are fetched to a directory inside the tree. Which paths an artifact has is written down
//! before the first of them is moved, so that a merge that was cut short is gone over again.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use fs_err as fs;

use super::{
    ledger::{Entry, Extent, Ledger},
    listing::{Listing, Thing},
};
use crate::{
    artifact::{Artifact, ArtifactTree, Content, LinkEnd, TreeFile, same_content},
    console::many,
    error::{Context as _, Error, No, Result, Stop, ensure, hinted},
    relpath::RelPath,
};

/// As many collisions as are told one by one.
const MOST_TOLD: usize = 20;
const WORK: &str = ".rocwheel-fetch";

#[derive(Debug)]
pub struct Flat {
    root: PathBuf,
    work: PathBuf,
    /// Of the listings, each of which is the record of a merged artifact.
    ledger: Ledger,
}

/// Who has what in the tree that is to be.
struct Claims<'a> {
    flat: &'a Flat,
    of: BTreeMap<RelPath, Claim<'a>>,
    problems: Vec<String>,
}

/// What stands at a path, and the artifacts that have it.
struct Claim<'a> {
    thing: Thing,
    owner: String,
    /// Where it waits to be moved from; nothing, if it is there already.
    staged: Option<&'a TreeFile>,
}

impl Flat {
    pub fn open(root: &Path) -> Result<Self> {
        let work = root.join(WORK);
        let ledger = Ledger::read(root)?;
        let root = root.to_owned();
        Ok(Self { root, work, ledger })
    }

    /// Where artifacts wait until all are there.
    pub fn work(&self) -> &Path {
        &self.work
    }

    pub fn settle(&self) -> Result<()> {
        self.ledger.settle()
    }

    pub fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.root.join(record(name))).is_ok()
    }

    /// The merged artifacts that came from elsewhere, each with where from.
    pub fn others_than(&self, from: &str) -> Vec<(String, String)> {
        let mut others = self.ledger.others_than(from);
        // The directory of the tree may have been fetched to without it.
        others.retain_mut(|(record, _)| {
            let name = record
                .strip_prefix(WORK)
                .and_then(|it| it.strip_prefix('/'));
            let name = name
                .and_then(|it| it.strip_suffix(".json"))
                .map(str::to_owned);
            let is_one = name.is_some();
            *record = name.unwrap_or_default();
            is_one
        });
        others
    }

    /// What is recorded of an artifact that is merged, if all of it is still there.
    pub fn whole(&self, name: &str) -> Result<Option<Entry>> {
        let Some(entry) = self.ledger.whole(&record(name))? else {
            return Ok(None);
        };
        let stands = match self.listing(name)? {
            Some(listing) => listing.stands_in(&self.root)?,
            None => false,
        };
        Ok(stands.then_some(entry))
    }

    /// Makes all that waits in `waiting` part of the tree, or nothing where two differ about a path.
    /// Says how many files were moved.
    pub fn merge(
        &self,
        names: &[String],
        waiting: &Ledger,
        jobs: NonZeroUsize,
        stop: &Stop,
    ) -> Result<usize> {
        let new: BTreeSet<&String> = names.iter().collect();
        let tree = ArtifactTree::scan(&self.work, jobs, stop)?;
        let artifacts = tree.artifacts.iter();
        let artifacts: Vec<&Artifact> = artifacts
            .filter(|it| new.contains(&it.name.file_name()))
            .collect();
        ensure!(
            artifacts.len() == new.len(),
            "an artifact was removed meanwhile"
        );
        let claims = self.claims(&artifacts, &new)?;
        claims.settled()?;
        let mut moved = 0;
        for artifact in artifacts {
            stop.check()?;
            let name = artifact.name.file_name();
            let entry = waiting.whole(&name)?;
            let entry = entry.with_context(|| format!("`{name}` was removed meanwhile"))?;
            moved += self
                .take(artifact, &claims)
                .with_context(|| format!("merge `{name}`"))?;
            let record = record(&name);
            let extent = Extent::of(&self.root.join(&record))?.unwrap_or_default();
            self.ledger.record(&record, Entry { extent, ..entry })?;
            waiting.forget(&name)?;
            fs::remove_dir_all(self.work.join(&name))?;
        }
        Ok(moved)
    }

    /// Removes what a fetch or a merge that was cut short has left.
    pub fn tidy(&self, waiting: &Ledger) -> Result<()> {
        if fs::symlink_metadata(&self.work).is_err() {
            return Ok(());
        }
        for entry in fs::read_dir(&self.work)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() && waiting.whole(&name)?.is_none() {
                waiting.forget(&name)?;
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn claims<'a>(
        &'a self,
        artifacts: &[&'a Artifact],
        new: &BTreeSet<&String>,
    ) -> Result<Claims<'a>> {
        let mut claims = Claims {
            flat: self,
            of: BTreeMap::new(),
            problems: Vec::new(),
        };
        for name in self.merged()? {
            if !new.contains(&name) {
                let listing = self.listing(&name)?.unwrap_or_default();
                claims.keep(&name, listing);
            }
        }
        for artifact in artifacts {
            claims.add(artifact)?;
        }
        Ok(claims)
    }

    /// The artifacts that have a listing.
    fn merged(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.work)? {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".json"));
            names.extend(
                name.filter(|name| !name.starts_with('.'))
                    .map(str::to_owned),
            );
        }
        names.sort();
        Ok(names)
    }

    fn listing(&self, name: &str) -> Result<Option<Listing>> {
        Listing::read(&self.root.join(record(name)))
    }

    /// Moves an artifact to its places, and removes what it had and has no more.
    fn take(&self, artifact: &Artifact, claims: &Claims) -> Result<usize> {
        let name = artifact.name.file_name();
        let (mut old, new) = (
            self.listing(&name)?.unwrap_or_default(),
            Listing::of(artifact),
        );
        let record = record(&name);
        self.ledger.forget(&record)?;
        let both = Listing(old.0.clone().into_iter().chain(new.0.clone()).collect());
        both.write(&self.root.join(&record))?;
        old.0.retain(|path, _| !claims.of.contains_key(path));
        self.remove(&old)?;
        let mut moved = 0;
        for file in &artifact.files {
            moved += usize::from(self.put(file)?);
        }
        new.write(&self.root.join(&record))?;
        Ok(moved)
    }

    /// What is in a directory goes before the directory, which stays if others have something there.
    fn remove(&self, old: &Listing) -> Result<()> {
        for (path, thing) in old.0.iter().rev() {
            let at = self.root.join(path.as_str());
            match Thing::at(&at)? {
                Some(Thing::Directory) if *thing == Thing::Directory => {
                    let _ = fs::remove_dir(&at);
                }
                Some(Thing::File { .. } | Thing::Link(_)) => fs::remove_file(&at)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a file was moved. Two artifacts that have the same are both right.
    fn put(&self, file: &TreeFile) -> Result<bool> {
        let at = self.root.join(file.path.as_str());
        let there = Thing::at(&at)?;
        if file.content == Content::Directory {
            if there != Some(Thing::Directory) {
                if there.is_some() {
                    fs::remove_file(&at)?;
                }
                fs::create_dir(&at)?;
            }
            return Ok(false);
        }
        if there == Some(Thing::Directory) {
            fs::remove_dir(&at)?;
        }
        fs::rename(&file.source, &at)?;
        Ok(true)
    }
}

impl<'a> Claims<'a> {
    fn keep(&mut self, name: &str, listing: Listing) {
        for (path, thing) in listing.0 {
            self.of.entry(path).or_insert(Claim {
                thing,
                owner: name.to_owned(),
                staged: None,
            });
        }
    }

    fn add(&mut self, artifact: &'a Artifact) -> Result<()> {
        let own = self.flat.listing(&artifact.name.file_name())?;
        let own = own.unwrap_or_default();
        for file in &artifact.files {
            let owner = format!("{}/{}", artifact.name, file.basedir);
            if let Content::Link { text, end } = &file.content
                && *end == LinkEnd::Escapes
            {
                self.problems.push(format!(
                    "link `{}` of `{owner}` leads out of the tree: `{text}`",
                    file.path
                ));
            }
            let thing = Thing::of(file);
            match self.of.get(&file.path) {
                Some(claim) if self.agree(claim, file)? => {}
                Some(claim) => self.problems.push(format!(
                    "`{}` differs between `{}` and `{owner}`",
                    file.path, claim.owner
                )),
                None => {
                    if !own.0.contains_key(&file.path) && self.is_in_the_way(file)? {
                        self.problems.push(format!(
                            "`{}` of `{owner}` is there already, and no artifact has it",
                            file.path
                        ));
                    }
                    let staged = Some(file);
                    let claim = Claim {
                        thing,
                        owner,
                        staged,
                    };
                    self.of.insert(file.path.clone(), claim);
                }
            }
        }
        Ok(())
    }

    fn agree(&self, claim: &Claim, file: &TreeFile) -> Result<bool> {
        if claim.thing != Thing::of(file) {
            return Ok(false);
        }
        match claim.thing {
            Thing::File { .. } => self.same(claim.staged, file),
            Thing::Directory | Thing::Link(_) => Ok(true),
        }
    }

    /// Whether something stands there that is other than what is to be.
    fn is_in_the_way(&self, file: &TreeFile) -> Result<bool> {
        match Thing::at(&self.flat.root.join(file.path.as_str()))? {
            Some(there) if there != Thing::of(file) => Ok(true),
            Some(Thing::File { .. }) => Ok(!self.same(None, file)?),
            None | Some(_) => Ok(false),
        }
    }

    /// Whether a file has the bytes of another that waits, or of what stands in the tree.
    fn same(&self, staged: Option<&TreeFile>, file: &TreeFile) -> Result<bool> {
        let there = TreeFile {
            source: self.flat.root.join(file.path.as_str()),
            ..file.clone()
        };
        same_content(staged.unwrap_or(&there), file)
    }

    fn settled(&self) -> Result<()> {
        if self.problems.is_empty() {
            return Ok(());
        }
        let told = self.problems.iter().take(MOST_TOLD);
        let mut lines: Vec<&str> = told.map(String::as_str).collect();
        let more = self.problems.len().saturating_sub(lines.len());
        let more = format!("and {more} more");
        if self.problems.len() > MOST_TOLD {
            lines.push(&more);
        }
        let count = many(self.problems.len(), "collision");
        let text = format!("{count}, so nothing was merged\n  {}", lines.join("\n  "));
        let hint = "leave one of them out with `--exclude`, or fetch without `--flatten`";
        Err(hinted(Error::new(No(text)), hint))
    }
}

/// Where the listing of an artifact is, from the root of the tree.
fn record(name: &str) -> String {
    format!("{WORK}/{name}.json")
}
