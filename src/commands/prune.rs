//! `prune`: removes old versions from release places.

use std::{num::NonZeroUsize, path::PathBuf};

use time::OffsetDateTime;

use super::{World, args::AccessArgs};
use crate::{
    error::{Hint as _, Result, anyhow},
    set::{self, NamedPlace, PruneRule, PrunedPlaces, SetPlace},
    version::{ReleaseStream, Version},
};

/// Remove old versions of a stream from release places
///
/// Prints which versions the rule keeps and which it removes. With `--really`, removes them from
/// the pages of their projects; a run after the time of grace deletes their files. Keeps what a
/// kept package requires, what a release was made of, and every file that a page of another index
/// names. Files without a version of ROCm are not touched, and releases are never removed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel prune released --stream nightly --keep 30
  rocwheel prune s3://core/v5 s3://pytorch/v5 s3://jax/v5 --stream nightly --really
  rocwheel prune released --stream dev --days 14 --yank \"older than 14 days\" --really")]
pub struct PruneArgs {
    /// The places of all products of the stream, above their `rocm/{product}/whl-next`
    #[arg(value_name = "PLACE", required = true)]
    places: Vec<NamedPlace>,
    /// The stream whose versions are removed
    #[arg(long, value_name = "STREAM")]
    stream: EndingStream,
    /// Keep this many of the newest complete versions (default: 120 nightlies)
    #[arg(long, value_name = "N")]
    keep: Option<NonZeroUsize>,
    /// Keep versions that are younger than this many days (default: 30 for `dev`, 730 for `rc`)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    days: Option<u16>,
    /// Keep these versions, comma-separated
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    keep_version: Vec<Version>,
    /// Keep what the releases of this place were made of; may be given several times
    #[arg(long, value_name = "PLACE")]
    released: Vec<PathBuf>,
    /// Days between the last link to a file and its removal
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    grace: u16,
    /// Refuse to remove more than this percentage of the bytes of the stream at once
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u8).range(..=100))]
    most: u8,
    /// Mark the files as yanked on their pages, with this reason, and remove nothing
    #[arg(long, value_name = "REASON")]
    yank: Option<String>,
    /// Do it. Without this flag, only print what would be done
    #[arg(long)]
    really: bool,
    /// Write no pages under keys that end in `/`, for servers that reject such keys
    #[arg(long)]
    no_directory_pages: bool,
    #[command(flatten)]
    access: AccessArgs,
}

/// A stream whose versions are not kept for ever.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum EndingStream {
    Dev,
    Nightly,
    Bkc,
    Rc,
}

pub fn run(args: &PruneArgs, world: &World) -> Result<()> {
    let rule = args.rule()?;
    let open = |place| {
        let mut place = args.access.named(place, &world.stop)?;
        place.directory_pages = !args.no_directory_pages;
        Ok(place)
    };
    let places: Vec<SetPlace> = args.places.iter().map(open).collect::<Result<_>>()?;
    let read = |place: &PathBuf| args.access.place(place, &world.stop);
    let released: Vec<SetPlace> = args.released.iter().map(read).collect::<Result<_>>()?;
    let of = PrunedPlaces {
        places: &places,
        released: &released,
    };
    let today = OffsetDateTime::now_utc().date();
    let plan = set::prune(&of, &rule, today, args.really, world)?;
    if !args.really && !plan.is_done() {
        world
            .console
            .note("nothing was changed; pass `--really` to do it");
    }
    world.console.answer(&plan)
}

impl PruneArgs {
    fn rule(&self) -> Result<PruneRule> {
        let mut rule = PruneRule {
            stream: match self.stream {
                EndingStream::Dev => ReleaseStream::Dev,
                EndingStream::Nightly => ReleaseStream::Nightly,
                EndingStream::Bkc => ReleaseStream::Bkc,
                EndingStream::Rc => ReleaseStream::Rc,
            },
            keep: self.keep,
            days: self.days,
            versions: self.keep_version.clone(),
            grace: self.grace,
            most_percent: self.most,
            yank: self.yank.clone(),
        };
        if rule.or_usual() {
            return Ok(rule);
        }
        Err(anyhow!("nothing says how long `{}` is kept", rule.stream))
            .hint("pass `--keep` or `--days`")
    }
}
