//! [`Concern`]: something about a file that a person should know. `--deny` makes it an error.

use clap::ValueEnum as _;
use derive_more::Display;
use itertools::Itertools as _;

use super::publisher::Publisher;
use crate::{
    console::{World, many},
    error::{Hint as _, Result},
    set::refusal,
};

/// The kinds of concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ConcernKind {
    /// A locked file was yanked since
    Yanked,
    /// A project has another publisher than the one that is locked, or none
    PublisherChange,
    /// A newer version is too young, or the registry does not say how old a file is
    Age,
}

#[derive(Debug, Display)]
#[display("{text}")]
pub(super) struct Concern {
    pub(super) kind: ConcernKind,
    pub(super) text: String,
}

impl Concern {
    /// A file has another publisher than those that are locked.
    pub(super) fn of_publisher<'a>(
        what: &str,
        now: Option<&Publisher>,
        locked: impl Iterator<Item = &'a Publisher>,
    ) -> Self {
        let now = now.map_or("has no publisher".to_owned(), |it| {
            format!("was published by {it}")
        });
        let locked = locked.unique_by(ToString::to_string).join(" and ");
        Self {
            kind: ConcernKind::PublisherChange,
            text: format!("{what} {now}, and the lock names {locked}"),
        }
    }

    /// Tells all of them. Those that are denied are an error.
    pub(super) fn tell(all: Vec<Self>, denied: &[ConcernKind], world: &World) -> Result<()> {
        let (denied, others): (Vec<Self>, Vec<Self>) =
            all.into_iter().partition(|it| denied.contains(&it.kind));
        for it in &others {
            match it.kind {
                ConcernKind::Age => world.console.note(it),
                ConcernKind::Yanked | ConcernKind::PublisherChange => world.console.warn(it),
            }
        }
        let Some(first) = denied.first() else {
            return Ok(());
        };
        let name = first.kind.to_possible_value();
        let name = name.map_or_else(String::new, |it| it.get_name().to_owned());
        let title = format!(
            "{} that `--deny` does not accept",
            many(denied.len(), "concern")
        );
        let texts = denied.iter().map(ToString::to_string).collect();
        match refusal(title, texts) {
            None => Ok(()),
            Some(refusal) => Err(refusal).hint(format!(
                "find out why; without `--deny {name}` it is only reported"
            )),
        }
    }
}
