//! What a build knows of its packages: `.rocwheel-facts` beside `dist`, read and written.

use std::{io::Read as _, num::NonZeroUsize, path::Path};

use fs_err as fs;

use crate::{
    atomic,
    check::{self, FACTS_FILE, KnownWheels, LONGEST_FACTS, SetFacts, StoredFacts},
    commands::{World, args},
    digest::Sha256,
    error::{Result, one_line},
    package::assemble::{MadeSet, UnchangedPackages, program_digest},
};

/// The wheels of a place that are still what `build` wrote there, and their facts. Nothing is known
/// of other places.
pub(super) fn wheels(place: &Path) -> KnownWheels {
    find(place).unwrap_or_default()
}

fn find(place: &Path) -> Option<KnownWheels> {
    let program = program_digest(args::program().as_deref())?;
    // The user may name the directory above `dist`, or `dist` itself, also as `.`.
    let place = fs::canonicalize(place).ok()?;
    let (directory, dist, prefix) = if place.join("dist").is_dir() {
        (place.as_path(), place.join("dist"), "dist/")
    } else {
        (place.parent()?, place.clone(), "")
    };
    let stored = read(directory, program);
    let unchanged = UnchangedPackages::read(&dist);
    let wheels = unchanged.all().iter();
    let wheels = wheels.map(|it| (format!("{prefix}{}", it.path), it.sha256));
    Some(KnownWheels::new(wheels.collect(), stored))
}

/// The facts that an earlier build left in a directory. None if they cannot be read: the packages
/// can be read instead.
fn read(directory: &Path, program: Sha256) -> StoredFacts {
    let read = || -> Result<Vec<u8>> {
        let (file, mut bytes) = (fs::File::open(directory.join(FACTS_FILE))?, Vec::new());
        file.take(LONGEST_FACTS).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    StoredFacts::parse(&read().unwrap_or_default(), program)
}

/// Takes the facts of a set that was built in a directory from its sources, and writes them down
/// there for later commands. `None`, with a warning, if that fails: the packages are built, and can
/// be read instead.
pub(super) fn learn(
    made: &MadeSet,
    directory: &Path,
    jobs: NonZeroUsize,
    world: &World,
) -> Result<Option<SetFacts>> {
    let Some(program) = program_digest(args::program().as_deref()) else {
        return Ok(None);
    };
    let learn = || -> Result<SetFacts> {
        let earlier = read(directory, program);
        let (set, stored) = check::facts_of_built(&made.packages, &earlier, jobs, &world.stop)?;
        if stored != earlier {
            atomic::write(&directory.join(FACTS_FILE), stored.to_bytes())?;
        }
        Ok(set)
    };
    let learned = learn();
    world.stop.check()?;
    if let Err(error) = &learned {
        let why = one_line(error);
        world
            .console
            .warn(format!("the next check has to read the packages: {why}"));
    }
    Ok(learned.ok())
}
