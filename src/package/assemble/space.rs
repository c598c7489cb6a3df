//! Checks the free disk space before anything is packed.

use std::path::Path;

use crate::{
    atomic::space::free,
    console::{World, size},
    error::{Result, anyhow, hinted},
    package::{BuildPlan, plan::MemberSource, sdk_tree::SdkEntry},
    wheel::WheelCompression,
};

/// Compressed packages of ROCm have a quarter to a half of the size of their contents.
const AT_MOST: u64 = 2;

#[derive(Debug, PartialEq, Eq)]
enum BuildSpace {
    Enough,
    Doubtful,
    Lacking,
}

/// Fails if packages that are not compressed would not fit. The size of compressed packages is not
/// known beforehand.
pub(super) fn check(
    plan: &BuildPlan,
    compression: WheelCompression,
    dist: &Path,
    world: &World,
) -> Result<()> {
    // If the system does not report the free space, start anyway. A full disk stops the build
    // with a hint of its own.
    let Some(free) = free(dist) else {
        return Ok(());
    };
    let (place, bytes) = (dist.display(), bytes(plan));
    let (needs, has) = (size(bytes), size(free));
    match room(compression, bytes, free) {
        BuildSpace::Enough => Ok(()),
        BuildSpace::Doubtful => {
            let text =
                format!("`{place}` may be too small: {needs} are to be compressed, has {has}");
            world.console.warn(text);
            Ok(())
        }
        BuildSpace::Lacking => Err(hinted(
            anyhow!("not enough space for `{place}`: needs {needs}, has {has}"),
            "free disk space, choose another `--dest-dir`, or leave out `--compression store`",
        )),
    }
}

fn room(compression: WheelCompression, bytes: u64, free: u64) -> BuildSpace {
    match compression {
        WheelCompression::Store if bytes > free => BuildSpace::Lacking,
        WheelCompression::Deflate(_) if bytes / AT_MOST > free => BuildSpace::Doubtful,
        WheelCompression::Store | WheelCompression::Deflate(_) => BuildSpace::Enough,
    }
}

/// The total size of the files that the packages contain.
fn bytes(plan: &BuildPlan) -> u64 {
    let members = plan.wheels.iter().flat_map(|wheel| wheel.members.iter());
    let members = members.map(|(_, member)| match &member.source {
        MemberSource::Copy(origin) | MemberSource::Relink(origin, _) => origin.len,
        MemberSource::Sdk(tree, _) => {
            let entries = tree.ordered().into_iter();
            let entries = entries.map(|(_, entry)| match entry {
                SdkEntry::File { origin, .. } => origin.len,
                _ => 0,
            });
            entries.fold(0, u64::saturating_add)
        }
        // Small enough to ignore.
        MemberSource::Launcher(_) | MemberSource::Text(_) | MemberSource::SdkManifest(_) => 0,
    });
    members.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_must_fit_and_what_is_compressed_should() {
        let rooms = [99, 100].map(|free| room(WheelCompression::Store, 100, free));
        assert_eq!(rooms, [BuildSpace::Lacking, BuildSpace::Enough]);
        let rooms = [0, 49, 50].map(|free| room(WheelCompression::default(), 100, free));
        assert_eq!(
            rooms,
            [
                BuildSpace::Doubtful,
                BuildSpace::Doubtful,
                BuildSpace::Enough
            ]
        );
    }
}
