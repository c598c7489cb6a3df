//! `man`: the manual page.

use super::World;
use crate::error::{Context, Result};

/// Print the manual page, in roff
#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_: &Args, world: &World) -> Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(super::command())
        .render(&mut page)
        .context("render the manual page")?;
    world.console.verbatim(&page)
}
