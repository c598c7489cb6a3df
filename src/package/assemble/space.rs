//! Whether the packages will fit, as far as that is known before they are made.

use std::path::Path;

use crate::{
    atomic::space::free,
    console::{World, size},
    error::{Result, anyhow, hinted},
    package::{BuildPlan, plan::Source, sdk_tree::SdkEntry},
    wheel::Compression,
};

/// Packages of ROCm take a quarter to a half of what is in them.
const AT_MOST: u64 = 2;

#[derive(Debug, PartialEq, Eq)]
enum Room {
    Enough,
    Doubtful,
    Lacking,
}

/// An error where what is not compressed would not fit; how small the rest gets nobody knows.
pub(super) fn check(
    plan: &BuildPlan,
    compression: Compression,
    dist: &Path,
    world: &World,
) -> Result<()> {
    // Where the system does not say, the attempt will.
    let Some(free) = free(dist) else {
        return Ok(());
    };
    let (place, bytes) = (dist.display(), bytes(plan));
    let (needs, has) = (size(bytes), size(free));
    match room(compression, bytes, free) {
        Room::Enough => Ok(()),
        Room::Doubtful => {
            let text =
                format!("`{place}` may be too small: {needs} are to be compressed, has {has}");
            world.console.warn(text);
            Ok(())
        }
        Room::Lacking => Err(hinted(
            anyhow!("not enough space for `{place}`: needs {needs}, has {has}"),
            "free disk space, choose another `--dest-dir`, or leave out `--compression store`",
        )),
    }
}

fn room(compression: Compression, bytes: u64, free: u64) -> Room {
    match compression {
        Compression::Store if bytes > free => Room::Lacking,
        Compression::Deflate(_) if bytes / AT_MOST > free => Room::Doubtful,
        Compression::Store | Compression::Deflate(_) => Room::Enough,
    }
}

/// How much the files have that go into packages.
fn bytes(plan: &BuildPlan) -> u64 {
    let members = plan.wheels.iter().flat_map(|wheel| wheel.members.iter());
    let members = members.map(|(_, member)| match &member.source {
        Source::Copy(origin) | Source::Relink(origin, _) => origin.len,
        Source::Sdk(tree, _) => {
            let entries = tree.ordered().into_iter();
            let entries = entries.map(|(_, entry)| match entry {
                SdkEntry::File { origin, .. } => origin.len,
                _ => 0,
            });
            entries.fold(0, u64::saturating_add)
        }
        // Too short to count.
        Source::Launcher(_) | Source::Text(_) | Source::SdkManifest(_) => 0,
    });
    members.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_must_fit_and_what_is_compressed_should() {
        let rooms = [99, 100].map(|free| room(Compression::Store, 100, free));
        assert_eq!(rooms, [Room::Lacking, Room::Enough]);
        let rooms = [0, 49, 50].map(|free| room(Compression::default(), 100, free));
        assert_eq!(rooms, [Room::Doubtful, Room::Doubtful, Room::Enough]);
    }
}
