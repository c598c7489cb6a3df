//! `diff`: says what differs between two package sets.

use std::{path::Path, str::FromStr};

use super::{
    World,
    args::{AccessArgs, Jobs, Variables},
};
use crate::{
    diff,
    place::{PlaceArg, SetPlace},
};
use rocwheel_base::{
    error::{Error, No, Result},
    version::Version,
};

/// Compare two package sets
///
/// Prints what differs: packages and their sizes, files that are gone, new, moved or changed, and
/// metadata. Judges nothing: `check --baseline` does. Reads only the ends of wheels.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel diff earlier packages
  rocwheel diff https://example.com/simple/@7.13.0 https://example.com/simple/@7.14.0
  rocwheel diff s3://bucket/earlier s3://bucket/later --exit-code")]
pub struct DiffArgs {
    /// A directory, `set.json`, `s3://bucket/directory` or the URL of an index. `@VERSION` at the end selects a
    /// version of an index
    #[arg(value_name = "BEFORE")]
    before: NamedSet,
    /// The set to compare with it
    #[arg(value_name = "AFTER")]
    after: NamedSet,
    /// Exit with 1 if the sets differ
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    access: AccessArgs,
}

/// A set as the user names it: a directory or an address, and the version to read of those that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedSet {
    place: PlaceArg,
    version: Option<Version>,
}

impl FromStr for NamedSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // A user name in a URL ends with `@`, too, but no version follows it.
        let named = text.rsplit_once('@').and_then(|(place, version)| {
            let version = version.parse().ok()?;
            Some((place, version))
        });
        match named.filter(|_| !Path::new(text).exists()) {
            Some((place, version)) => Ok(Self { place: place.parse()?, version: Some(version) }),
            None => Ok(Self { place: text.parse()?, version: None }),
        }
    }
}

pub fn run(args: &DiffArgs, world: &World) -> Result<()> {
    let before = args.open(&args.before, world)?;
    let after = args.open(&args.after, world)?;
    let difference = diff::compare(&before, &after, args.jobs.count(), world)?;
    world.console.answer(&difference)?;
    if args.exit_code && !difference.is_empty() {
        return Err(No("the sets differ".to_owned()).into());
    }
    Ok(())
}

impl DiffArgs {
    pub fn read_variables(&mut self, variables: &Variables<'_>) -> Result<()> {
        self.jobs.read_variables(variables)?;
        self.access.read_variables(variables)
    }

    fn open(&self, set: &NamedSet, world: &World) -> Result<SetPlace> {
        let mut place = self.access.place(&set.place, &world.stop)?;
        place.version.clone_from(&set.version);
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_a_place_or_a_version_on_an_index() {
        let named = |text: &str| {
            let NamedSet { place, version } = text.parse().unwrap();
            (place.to_string(), version.map(|it| it.to_string()))
        };
        assert_eq!(named("a/dist"), ("a/dist".to_owned(), None));
        assert_eq!(
            named("https://example.com/simple/@7.14.0rc1"),
            ("https://example.com/simple/".to_owned(), Some("7.14.0rc1".to_owned()))
        );
        assert_eq!(named("s3://bucket/x@y"), ("s3://bucket/x@y".to_owned(), None));
    }
}
