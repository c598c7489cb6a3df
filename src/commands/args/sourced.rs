//! Arguments that remember which of them were given as flags, and not by environment variables.

use clap::{ArgMatches, Command, FromArgMatches, parser::ValueSource};

/// Arguments, and the ids of those that are on the command line.
#[derive(Clone, Debug, Default)]
pub struct Sourced<T> {
    pub(super) args: T,
    flags: Vec<String>,
}

impl<T> Sourced<T> {
    /// Whether a flag gave the argument of this id.
    pub(super) fn is_flag(&self, id: &str) -> bool {
        self.flags.iter().any(|flag| flag == id)
    }
}

impl<T: clap::Args> clap::Args for Sourced<T> {
    fn augment_args(command: Command) -> Command {
        T::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for Sourced<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let ids = matches.ids().map(clap::Id::as_str);
        let flags = ids.filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine));
        Ok(Self {
            flags: flags.map(str::to_owned).collect(),
            args: T::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
