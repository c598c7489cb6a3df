//! `upload`: publishes a package set with its index to the place of its run.

mod args;

pub use args::UploadArgs;

use super::{World, args::AccessArgs, check, summary};
use crate::{
    error::{Error, Result, one_line},
    set::{
        LocalSet, SetPlace,
        publish::{Item, PlannedUpload, RemoteListing, UploadExtent, look},
    },
    store::{StoreError, StoreFailureKind},
};

pub fn run(args: &UploadArgs, world: &World) -> Result<()> {
    let run = args.resolve(world)?;
    let destination = args.destination(&run, &world.stop)?;
    let extent = args.extent();
    if !args.no_check {
        let mut policy = args.policy.clone();
        policy.is_part = extent == UploadExtent::Part;
        let access = AccessArgs::default();
        check::gate(&args.packages_dir, &access, &policy, world)?;
    }
    let set = LocalSet::read(&args.packages_dir, world)?;
    if !args.no_check {
        set.ensure_as_described()?;
    }
    let identity = args.identity(&set.document.identity, &run)?;
    if args.dry_run {
        let look = |destination: &_, items: &_| look_if_allowed(destination, items, world);
        let upload =
            PlannedUpload::decide(&set, identity, destination, args.others(), extent, look)?;
        return world.console.answer(&upload.plan);
    }
    let look = |destination: &_, items: &_| look(destination, items, &world.stop);
    let upload = PlannedUpload::decide(&set, identity, destination, args.others(), extent, look)?;
    let published = upload.carry_out(world)?;
    if extent == UploadExtent::Part {
        return Ok(());
    }
    if let Some(file) = &args.github_output {
        summary::append_outputs(file, &published.set, Some(&published.urls), world)?;
    }
    world.console.answer(&published)
}

/// Lists the objects at the destination. For `--dry-run` without permission to list, takes it as
/// empty: the plan still says what would be written.
fn look_if_allowed(destination: &SetPlace, items: &[Item], world: &World) -> Result<RemoteListing> {
    let error = match look(destination, items, &world.stop) {
        Err(error) if is_closed(&error) => error,
        seen => return seen,
    };
    let why = one_line(&error);
    world.console.warn(format!(
        "existing objects could not be listed, so everything counts as new: {why}"
    ));
    Ok(RemoteListing::default())
}

fn is_closed(error: &Error) -> bool {
    let failure = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<StoreError>());
    failure.is_some_and(|failure| {
        matches!(
            failure.kind(),
            StoreFailureKind::Denied | StoreFailureKind::Unavailable
        )
    })
}
