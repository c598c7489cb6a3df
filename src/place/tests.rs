//! Sets in a store of these tests, which fails on purpose, or in which another writer is at work.

mod bucket;
mod faults;
/// The tests of the program have the same store.
#[path = "../../tests/it/support/memory.rs"]
mod memory;

use std::{path::Path, sync::Arc};

use super::*;
use crate::{
    console::{Console, Options, World},
    index::{Identity, Layout},
};
use rocwheel_base::error::{Result, Stop};
use rocwheel_store::Store;

/// Where the packages of run 42 are in a bucket.
const PLACE: &str = "42-linux/python/";

/// A world that says nothing.
fn quiet_world() -> World {
    let quiet = Options { quiet: 2, ..Options::default() };
    World { console: Console::of_this_process(quiet), stop: Stop::default() }
}

/// The place of run 42 in a bucket of Amazon.
fn place_in(store: impl Store + 'static, world: &World) -> SetPlace {
    let urls = format!("https://bucket.s3.amazonaws.com/{PLACE}").parse().unwrap();
    let directory = PLACE.parse().unwrap();
    SetPlace::of_store(Arc::new(store), &directory, urls, &world.stop)
}

/// Uploads a set as the packages of run 42.
fn publish_to(store: impl Store + 'static, packages: &Path) -> Result<PublishedUpload> {
    let world = quiet_world();
    let place = place_in(store, &world);
    let set = LocalSet::read(packages, PackageDirectories::Built, KnownPackages::new(), &world)?;
    let options =
        UploadOptions { is_part: false, layout: Layout::Dist, existing: Existing::Refuse };
    let upload =
        Upload { set: &set, identity: &Identity::default(), place: &place, options, world: &world };
    upload.publish()
}
