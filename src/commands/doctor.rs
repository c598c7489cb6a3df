//! `doctor`: says whether this machine has what the other commands need, on one screen.

mod judge;
mod observe;

use std::path::PathBuf;

use self::{judge::DoctorReport, observe::MachineFacts};
use super::{
    World,
    args::{AccessArgs, GitHubArgs},
};
use crate::{
    console::many,
    error::{No, Result},
    location::Bucket,
};

/// Check what this machine has: tokens, credentials, buckets, disk, programs, GPU
///
/// Says which token and which credentials other commands would use and where they come from, without
/// printing a secret. Reads from GitHub's API and from one bucket, and writes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  rocwheel doctor
  rocwheel doctor --offline
  rocwheel doctor --bucket therock-nightly-artifacts --profile nightly

Exit codes: 0 nothing is in the way, 1 there is a problem")]
pub struct DoctorArgs {
    /// Bucket to read (default: that of TheRock's CI runs)
    #[arg(long, value_name = "BUCKET")]
    bucket: Option<Bucket>,
    /// Directory whose disk is checked: for artifacts and packages
    #[arg(long, value_name = "DIR", default_value = ".")]
    output_dir: PathBuf,
    /// Use no network: check neither the token nor the bucket
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    github: GitHubArgs,
}

pub fn run(args: &DoctorArgs, world: &World) -> Result<()> {
    let machine = MachineFacts::observe(args, world)?;
    world.stop.check()?;
    let report = DoctorReport::of(&machine);
    world.console.answer(&report)?;
    match report.problems() {
        0 => Ok(()),
        problems => Err(No(many(problems, "problem")).into()),
    }
}
