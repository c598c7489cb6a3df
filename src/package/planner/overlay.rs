//! Device packages install into the directory of the libraries package. No two of these packages
//! may install different files at one path.

use std::collections::BTreeMap;

use crate::{
    artifact::{self, Artifact, Merged, Owned},
    error::{Result, anyhow, hinted},
    package::{options::OnCollision, planner::Same, runtime::Claim},
    relpath::RelPath,
};

/// The files of the packages that were added so far.
pub(super) struct Overlay<'a> {
    on_collision: OnCollision,
    same: Same<'a>,
    files: BTreeMap<&'a RelPath, (String, Owned<'a>)>,
}

impl<'a> Overlay<'a> {
    pub(super) fn new(on_collision: OnCollision, same: Same<'a>) -> Self {
        Self {
            on_collision,
            same,
            files: BTreeMap::new(),
        }
    }

    /// Adds a package. Fails if it has other bytes than an earlier package at the same path.
    ///
    /// Installers do not refuse this: the package that is installed last replaces the file, and the
    /// one that is uninstalled first removes it for both. So even files with equal bytes get a
    /// note. `--on-collision last` turns the error into a note.
    pub(super) fn add(
        &mut self,
        claim: &Claim<'_>,
        merged: &Merged<'a>,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let name = match &claim.scope {
            Some(scope) => format!("{}-{scope}", claim.spec.name),
            None => claim.spec.name.clone(),
        };
        let mut shared: BTreeMap<String, Vec<&RelPath>> = BTreeMap::new();
        for (path, owned) in &merged.files {
            if !claim.members.contains_key(*path) {
                continue;
            }
            if let Some((other, before)) = self.files.insert(path, (name.clone(), *owned)) {
                if !self.is_same(&before, owned)? {
                    self.differ(path, &[(&other, before), (&name, *owned)], notes)?;
                } else if other != name {
                    shared.entry(other).or_default().push(path);
                }
            }
        }
        for (other, paths) in shared {
            let (first, more) = match &paths[..] {
                [] => continue,
                [only] => (only, String::new()),
                [first, more @ ..] => (first, format!(" and {} more", more.len())),
            };
            notes.push(format!(
                "packages `{other}` and `{name}` both ship `{first}`{more}, with equal bytes: \
                 uninstalling one takes that from the other"
            ));
        }
        Ok(())
    }

    fn is_same(&self, one: &Owned<'_>, other: &Owned<'_>) -> Result<bool> {
        let pair = [one, other].map(|owned| Artifact {
            name: owned.artifact.name.clone(),
            basedirs: Vec::new(),
            files: vec![owned.file.clone()],
        });
        Ok(artifact::merge(&pair, self.same)?.collisions.is_empty())
    }

    fn differ(
        &self,
        path: &RelPath,
        owners: &[(&String, Owned<'_>); 2],
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let [(one, first), (other, second)] = owners;
        let what = format!(
            "packages `{one}` and `{other}` install `{path}`, which differs between `{first}` and `{second}`"
        );
        if self.on_collision == OnCollision::Last {
            notes.push(format!("{what}: the one installed last counts"));
            return Ok(());
        }
        Err(hinted(
            anyhow!("{what}"),
            "give the file a name of its own for each target; `--on-collision last` ships both",
        ))
    }
}
