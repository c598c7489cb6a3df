//! The other buckets that a run may have used. The release type of a run decides its bucket, and
//! neither its id nor GitHub's API tells the release type. So if the expected bucket has nothing of
//! a run, the others are asked for one object each.

use std::num::NonZeroUsize;

use itertools::Itertools as _;

use super::query::{FetchRequest, SourceKind};
use crate::{
    archive::ArchiveFormat,
    console::World,
    error::{Result, anyhow, hinted, one_line},
    location::Location,
    parallel,
    run::{OtherPlace, Run, RunReference},
    store::{self, Depth, Origin, StoreError, StoreFailureKind},
};

/// How many buckets are asked at once.
const BUCKETS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

impl FetchRequest<'_> {
    /// The run in the bucket that has its outputs, and the other places that were looked into, if
    /// none of them has any. Asks other buckets than the expected one only if neither the user nor
    /// the environment says which one it is. With `is_again`, does not repeat the note about
    /// buckets that cannot be read.
    pub(super) fn locate(
        &self,
        reference: &RunReference,
        run: Run,
        is_again: bool,
        world: &World,
    ) -> Result<(Run, Vec<String>)> {
        let others = self.context.other_places(reference, &run);
        let is_elsewhere = self.input_dir.is_some() || self.source_kind == SourceKind::GitHub;
        if others.is_empty() || is_elsewhere || self.has_outputs(&run, world)? {
            return Ok((run, Vec::new()));
        }
        let answers = parallel::try_map(&others, BUCKETS, &world.stop, |other| {
            Ok(self.has_outputs(&other.run, world))
        })?;
        let (mut found, mut searched, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for (other, answer) in others.into_iter().zip(answers) {
            match answer {
                Ok(true) => found.push(other),
                Ok(false) => searched.push(place(&other.run)),
                // It may have the run, so nothing else is taken for it.
                Err(error) if error.kind() == StoreFailureKind::Unavailable => {
                    return Err(error.into());
                }
                Err(error) => {
                    let why = one_line(&error.into());
                    unread.push(format!("`{}` ({why})", other.run.bucket));
                }
            }
        }
        if !unread.is_empty() && !is_again {
            let buckets = unread.join(", ");
            let text = format!(
                "run {} may be in buckets that cannot be read: {buckets}",
                run.id
            );
            world.console.note(text);
        }
        if found.len() > 1 {
            let places = found.iter().map(|it| format!("`{}`", place(&it.run)));
            let places = places.format(", ");
            let error = anyhow!("run {} is in several places: {places}", run.id);
            let flags = found.iter().map(|it| format!("`{}`", it.flag));
            let hint = format!("say which one is meant: {}", flags.format(" or "));
            return Err(hinted(error, hint));
        }
        let Some(OtherPlace { run: there, flag }) = found.pop() else {
            return Ok((run, searched));
        };
        world.console.note(format!(
            "run {} is in `{}`, not in `{}`: pass `{flag}` to read only there",
            run.id,
            place(&there),
            place(&run),
        ));
        Ok((there, Vec::new()))
    }

    fn has_outputs(&self, run: &Run, world: &World) -> Result<bool, StoreError> {
        let access = self.access.clone();
        let access = access.in_known_region(run.region.as_deref());
        let access = access.map_err(|error| StoreError::failed(&run.bucket, error))?;
        let store = store::open(&Origin::Bucket(run.bucket.clone()), &access, &world.stop)?;
        // Packages that were published for the run may be in another bucket than its artifacts.
        let is_archive = |name: &str| ArchiveFormat::from_file_name(name).is_some();
        let objects = store.list(Some(&run.prefix), Depth::Children)?;
        let mut objects = objects.iter().map(|object| object.key.as_str());
        Ok(objects.any(|key| is_archive(key.rsplit('/').next().unwrap_or(key))))
    }
}

fn place(run: &Run) -> String {
    Location::new(run.bucket.clone(), run.prefix.clone()).to_string()
}
