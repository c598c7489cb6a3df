//! The documents about variant wheels of other projects at a place: `torch-2.12.0-variants.json`. Another program may have
//! written them, and may know more than the wheels that are here now.

use std::collections::BTreeSet;

use super::{read_packages::KnownFacts, sync::Listing};
use crate::{
    console::World,
    index::{MergedVariants, SetJson, VariantsOfOthers},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Result, one_line},
};
use rocwheel_wheel::VariantDocument;

/// Decides which documents of others an index lists as they are. A document is written again if this program wrote it, or if
/// the wheels say all that it says.
pub(super) fn keep_variants_of_others(
    set: &mut SetJson,
    known: &KnownFacts,
    listing: &Listing<'_>,
    world: &World,
) -> Result<()> {
    let mut kept = VariantsOfOthers::new();
    let mut told = BTreeSet::new();
    for view in set.views() {
        for MergedVariants { path, document, .. } in
            MergedVariants::all(&view.files)?.into_iter().filter(MergedVariants::is_of_others)
        {
            if !told.insert(path.clone()) {
                continue;
            }
            let shown = listing.place.shown_in_full(&path);
            if let Err(error) = &document {
                let why = one_line(error);
                world.console.warn(format!("`{shown}` is not written: {why}"));
            }
            if !listing.objects.contains_key(&path) {
                continue;
            }
            let Some(theirs) = listing.page(&path)? else {
                continue;
            };
            let is_covered = document.is_ok_and(|ours| has_all(&ours, &theirs));
            if !is_covered && !is_written_by_us(&path, &theirs, known)? {
                world.console.warn(format!(
                    "`{shown}` stays as another program wrote it, because the wheels do not say all that it says"
                ));
                kept.insert(path, theirs);
            }
        }
    }
    set.variants_of_others = kept;
    Ok(())
}

/// Whether a document says all that a text says.
fn has_all(document: &VariantDocument, text: &str) -> bool {
    let Ok(theirs) = VariantDocument::parse(text.as_bytes()) else {
        return false;
    };
    let merged = VariantDocument::merge([document, &theirs]);
    merged.is_ok_and(|merged| merged.is_some_and(|merged| merged.says_the_same(document)))
}

/// Whether the last index of this place, as its `set.json` describes it, has written a text.
pub(super) fn is_written_by_us(path: &str, text: &str, known: &KnownFacts) -> Result<bool> {
    let files = known.files.values().cloned().collect();
    let earlier = SetJson::new(known.identity.clone(), files)?;
    let sha256 = Sha256::of(text.as_bytes());
    let views = earlier.views();
    let mut written = views.iter().flat_map(|view| &view.variants);
    Ok(written.any(|index| index.path == path && index.sha256 == sha256))
}
