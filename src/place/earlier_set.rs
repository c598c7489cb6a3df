//! What becomes of the set that a place has when another one is published there ([`EarlierSet`]).
//!
//! The place of a run has one set. All attempts of the run share the place, and a later attempt replaces the
//! set of an earlier one, whole. Any other place keeps its set: its packages would stay where they are, and no
//! page would name them any more.

use std::collections::BTreeSet;

use super::{
    read_packages::KnownFacts,
    set_place::SetPlace,
    sync::{Existing, Item, Listing, Removal},
};
use crate::{
    console::World,
    index::{
        package_file::{PackageFile, is_ours},
        pages::{Phase, pages},
        set_json::{Identity, SetJson},
    },
    run::{RunAttempt, RunPlace},
};
use rocwheel_base::{
    error::{Error, Hint as _, No, Result, anyhow},
    quantity::many,
};

/// What to do about a set in the place of this run.
pub(super) fn way_out(run: &RunPlace) -> String {
    let overwrite = "replace it with `rocwheel upload --overwrite`";
    if run.id.is_local() {
        return overwrite.to_owned();
    }
    format!(
        "start the run again on GitHub, because a later attempt replaces the set of an earlier one; or {overwrite}"
    )
}

/// The set that a place has, and the one that is published there.
pub(super) struct EarlierSet<'a> {
    pub(super) place: &'a SetPlace,
    pub(super) known: &'a KnownFacts,
    pub(super) new: &'a SetJson,
    pub(super) existing: Existing,
}

impl EarlierSet<'_> {
    /// Whether the new set replaces the one that is there. Fails if it must not be published here.
    pub(super) fn is_replaced(&self, listing: &Listing<'_>, is_part: bool) -> Result<bool> {
        if self.new.others() == self.new.files.len() {
            return Ok(false);
        }
        let lost = if is_part { 0 } else { self.lost(listing).count() };
        let Some(run) = self.place.run_place() else {
            return match (lost, self.existing) {
                (0, _) => Ok(false),
                (_, Existing::Replace) if self.is_same_release() => Ok(true),
                (lost, _) => Err(self.refusal(lost)).hint(
                    "publish at another place; `rocwheel promote --layout product` keeps the versions of a place side by side",
                ),
            };
        };
        if self.existing == Existing::Replace {
            return Ok(true);
        }
        let attempt = self.new.identity.run_attempt;
        let is_set = self.known.files.values().any(|it| is_ours(&it.project));
        let Some(earlier) = self.known.of_set.as_ref().filter(|_| is_set) else {
            // An earlier attempt may have been interrupted before its set was whole.
            return Ok(attempt.is_some_and(|it| !it.is_first()));
        };
        let attempts = attempt.zip(self.earlier_attempt(earlier));
        match attempts {
            Some((new, earlier)) if new < earlier => Err(anyhow!(No(format!(
                "`{}` has the set of attempt {earlier} of the run, and this is attempt {new}",
                self.place
            ))))
            .hint(way_out(&run)),
            Some((new, before)) if new > before => {
                let commits = [&earlier.commit, &self.new.identity.commit];
                let [there, here] = commits
                    .map(|it| it.as_ref().map_or("no commit".to_owned(), ToString::to_string));
                if there == here {
                    return Ok(true);
                }
                Err(anyhow!(No(format!(
                    "`{}` has the set of {there}, and attempt {new} of the run has built {here}",
                    self.place
                ))))
                .hint("start another run for the other commit, or replace the set with `rocwheel upload --overwrite`")
            }
            _ if lost > 0 => Err(self.refusal(lost)).hint(way_out(&run)),
            _ => Ok(false),
        }
    }

    /// Whether a package of others that is there is of an earlier attempt of the run.
    pub(super) fn is_of_earlier_attempt(&self, path: &str) -> bool {
        let earlier = self.known.files.get(path).and_then(|it| it.run_attempt);
        let new = self.new.identity.run_attempt;
        self.place.run_place().is_some()
            && earlier.zip(new).is_some_and(|(earlier, new)| earlier < new)
    }

    /// The attempt of the run of this place that published a set.
    fn earlier_attempt(&self, earlier: &Identity) -> Option<RunAttempt> {
        let run = self.place.run_place()?;
        earlier.run_attempt.filter(|_| earlier.run_id == Some(run.id))
    }

    /// Whether both sets have the same version and platform.
    fn is_same_release(&self) -> bool {
        let of = |identity: &Identity| (identity.version.clone(), identity.platform);
        of(&self.known.identity) == of(&self.new.identity)
    }

    /// Those that the new set does not have, and its pages would not name.
    fn lost(&self, listing: &Listing<'_>) -> impl Iterator<Item = &PackageFile> {
        let new: BTreeSet<&str> = self.new.files.iter().map(PackageFile::below).collect();
        packages_of(self.known, listing).filter(move |file| !new.contains(file.below()))
    }

    fn refusal(&self, lost: usize) -> Error {
        let place = self.place;
        let packages = many(lost, "package");
        let named = |identity: &Identity| {
            let version = identity.version.as_ref().map(ToString::to_string);
            let platform = identity.platform.map(|it| format!(" for {it}"));
            version.unwrap_or("another set".into()) + &platform.unwrap_or_default()
        };
        let earlier = named(&self.known.identity);
        let new = named(&self.new.identity);
        anyhow!(No(format!(
            "`{place}` has {earlier}: with {new}, no page would name {packages} that are there; nothing was changed"
        )))
    }
}

/// The packages of ours that a place still has as its `set.json` describes them.
fn packages_of<'a>(
    known: &'a KnownFacts,
    listing: &Listing<'_>,
) -> impl Iterator<Item = &'a PackageFile> {
    let files = known.files.values();
    files.filter(move |file| {
        let object = listing.objects.get(&file.path);
        is_ours(&file.project) && object.is_some_and(|it| it.size == file.size)
    })
}

/// What goes when a set is replaced: the packages of ours that are still as in the earlier set, their
/// sidecars, and its pages. `items` stay.
pub(super) fn leftovers(
    known: &KnownFacts,
    listing: &Listing<'_>,
    items: &[Item],
    world: &World,
) -> Result<Vec<Removal>> {
    let stay: BTreeSet<&str> = items.iter().map(|it| it.path.as_str()).collect();
    let files = known.files.values().cloned().collect();
    let earlier = SetJson::new(known.identity.clone(), files)?;
    let views = earlier.views();
    let packages = packages_of(known, listing)
        .flat_map(|package| [package.path.clone(), package.sidecar_path()]);
    let goes = |path: &String| listing.objects.contains_key(path) && !stay.contains(path.as_str());
    let mut leftover_pages = Vec::new();
    for page in pages(&earlier, &views, None).into_iter().filter(|page| goes(&page.path)) {
        // It has no mark of this program: only its bytes say who wrote it.
        let is_of_another_program =
            page.phase == Phase::Variants && listing.page(&page.path)? != Some(page.body());
        if is_of_another_program {
            let shown = listing.place.shown_in_full(&page.path);
            world.console.warn(format!("`{shown}` stays, because another program wrote it"));
        } else {
            leftover_pages.push(page.path);
        }
    }
    let mut removals = listing.removals_of_pages(leftover_pages, world)?;
    removals.extend(packages.filter(goes).map(|path| listing.removal(path)));
    removals.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(removals)
}
