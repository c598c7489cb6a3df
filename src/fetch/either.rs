//! The bucket of a run, and what GitHub keeps of the run where the bucket has nothing of it.

use std::{
    fmt,
    io::Read,
    sync::atomic::{AtomicU8, Ordering},
};

use super::{
    inventory::{Archive, Inventory},
    run_artifacts::RunArtifacts,
    source::{Pace, Parcel, Source, StoreSource},
};
use crate::error::{Error, Exit, Result, hints, one_line};

pub struct Either<'a> {
    bucket: StoreSource,
    github: RunArtifacts<'a>,
    /// Which of them has something; neither, before one was found to.
    counts: AtomicU8,
}

const NEITHER: u8 = 0;
const BUCKET: u8 = 1;
const GITHUB: u8 = 2;

impl<'a> Either<'a> {
    pub fn new(bucket: StoreSource, github: RunArtifacts<'a>) -> Self {
        Self {
            bucket,
            github,
            counts: AtomicU8::new(NEITHER),
        }
    }

    fn counts(&self) -> &dyn Source {
        match self.counts.load(Ordering::Relaxed) {
            GITHUB => &self.github,
            _ => &self.bucket,
        }
    }
}

impl Source for Either<'_> {
    fn inventory(&self) -> Result<Inventory> {
        let inventory = self.bucket.inventory()?;
        if !inventory.is_empty() {
            self.counts.store(BUCKET, Ordering::Relaxed);
            return Ok(inventory);
        }
        let inventory = match self.github.inventory() {
            // That GitHub cannot be asked is not why the bucket has nothing.
            Err(error) if Exit::of(&error) == Exit::CouldNotTry => {
                self.github
                    .announce(format!("only the bucket was looked in: {}", line(&error)));
                Inventory::default()
            }
            inventory => inventory?,
        };
        if !inventory.is_empty() {
            self.counts.store(GITHUB, Ordering::Relaxed);
        }
        Ok(inventory)
    }

    fn parcels(&self, archives: &[Archive], pace: &Pace) -> Result<Vec<Parcel>> {
        self.counts().parcels(archives, pace)
    }

    fn open(&self, parcel: &Parcel) -> Result<Box<dyn Read + Send + '_>> {
        self.counts().open(parcel)
    }
}

fn line(error: &Error) -> String {
    let line = one_line(error);
    let hints = hints(error).join("; ");
    if hints.is_empty() {
        line
    } else {
        format!("{line} ({hints})")
    }
}

impl fmt::Display for Either<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.counts.load(Ordering::Relaxed) {
            NEITHER => write!(f, "{}, nor in {}", self.bucket, self.github),
            _ => fmt::Display::fmt(self.counts(), f),
        }
    }
}

impl fmt::Debug for Either<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Either")
            .field(&self.bucket)
            .field(&self.github)
            .finish()
    }
}
