//! The facts that `pipeline` takes from what `build` has just packed are those of the packages.

use std::{num::NonZeroUsize, path::Path, sync::Arc};

use crate::{
    check::{self, SetFacts},
    package::{SdkTreePacking, assemble::Reuse},
    place::{PackageDirectories, PlaceDepth, SetPlace},
};
use rocwheel_base::error::Stop;
use rocwheel_wheel::WheelCompression;

use super::sets::{make, options, sets, world};

/// Without what a build does not know: the digests of single files in the development files. And
/// without the digests of packages, which are read only if pages name them.
fn comparable(mut set: SetFacts) -> Vec<String> {
    for wheel in &mut set.wheels {
        let wheel = Arc::get_mut(wheel).unwrap();
        wheel.package.sha256 = None;
        for entry in wheel.devel.iter_mut().flat_map(|tree| &mut tree.entries) {
            if let Some(content) = &mut entry.content {
                content.sha256 = None;
            }
        }
    }
    let mut facts = Vec::new();
    for wheel in &set.wheels {
        facts
            .push(format!("{:?} {:?} {:?}", wheel.package, wheel.unreadable, wheel.contradictions));
        facts.extend(wheel.members.iter().map(|it| format!("{it:?}")));
        let entries = wheel.devel.iter().flat_map(|tree| &tree.entries);
        facts.extend(entries.map(|it| format!("{it:?}")));
        let devel = wheel.devel.as_ref();
        facts.extend(devel.map(|it| format!("{} {:?}", it.member, it.fault)));
    }
    facts.extend(set.sdists.iter().map(|it| format!("{it:?}")));
    facts
}

fn read(dest: &Path) -> SetFacts {
    let (world, place) = (world(), SetPlace::directory(dest, &Stop::default()));
    let depth = PlaceDepth::Packages(PackageDirectories::Built);
    check::facts_of(&place, depth, NonZeroUsize::new(2).unwrap(), &world).unwrap()
}

#[test]
fn the_facts_of_what_was_built_are_those_of_its_bytes() {
    let (jobs, stop) = (NonZeroUsize::new(2).unwrap(), Stop::default());
    let artifacts = tempfile::tempdir().unwrap();
    for set in sets(artifacts.path()) {
        let place = tempfile::tempdir().unwrap();
        let mut other = options();
        other.devel_packing = SdkTreePacking::TarXz;
        other.settings.compression = WheelCompression::Store;
        for (name, options) in [("tar", options()), ("xz", other)] {
            let dest = place.path().join(name);
            let made = make(&set, &dest, &Reuse::default(), &options);
            let bytes = comparable(read(&dest));
            let seen = check::facts_of_built(&made.packages, jobs, &stop).unwrap();
            assert_eq!(comparable(seen), bytes, "{} as {name}", set.display());
        }
    }
}
