//! Proves that promoted packages are those that a build of the artifacts under the new version makes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{plan::PromotionPlan, record::PromotionRecord};
use crate::{
    artifact::input,
    console::{World, many},
    digest::Sha256,
    error::{Hint as _, No, Result, anyhow},
    package::{
        BuildOptions,
        assemble::Reuse,
        build::{Build, BuildSelection},
    },
    set::is_ours,
    wheel::PackageFilename,
};

/// Builds the artifacts under the version of a plan, in a temporary directory of `place`, and fails if
/// any package differs from the promoted one.
pub fn ensure_rebuilt(
    (plan, record): (&PromotionPlan, &PromotionRecord),
    artifacts: &Path,
    options: BuildOptions,
    place: &Path,
    world: &World,
) -> Result<()> {
    let options = BuildOptions {
        version: Some(plan.to.clone()),
        ..options
    };
    let directory = tempfile::tempdir_in(place)?;
    let (root, jobs) = (directory.path(), options.settings.jobs);
    let tree = input::read(artifacts, &root.join("artifacts"), jobs, world)?;
    let build = Build::plan(&tree, &options, &BuildSelection::All, root, world)?;
    build.ensure_complete()?;
    let made = build.make(root, &Reuse::default(), world)?;
    let made_here = made.packages.iter().map(|it| (name(&it.path), it.sha256));
    let promoted = record.files.iter().map(|it| (name(&it.path), it.sha256));
    let of_us = |(name, _): &(&str, Sha256)| {
        let parsed = name.parse::<PackageFilename>();
        parsed.is_ok_and(|it| is_ours(&it.name))
    };
    ensure_equal(&made_here.collect(), &promoted.filter(of_us).collect())?;
    let count = many(made.packages.len(), "package");
    world.console.status(
        "Compared",
        format!("{count} with a build under {}", plan.to),
    );
    Ok(())
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn ensure_equal(built: &BTreeMap<&str, Sha256>, promoted: &BTreeMap<&str, Sha256>) -> Result<()> {
    let names: BTreeSet<&str> = built.keys().chain(promoted.keys()).copied().collect();
    let difference = |name: &str| match (built.get(name), promoted.get(name)) {
        (Some(built), Some(promoted)) if built == promoted => None,
        (Some(_), Some(_)) => Some(format!("`{name}`: the build makes other bytes")),
        (Some(_), None) => Some(format!("`{name}`: only the build has it")),
        (None, _) => Some(format!("`{name}`: the build does not have it")),
    };
    let differences: Vec<String> = names.into_iter().filter_map(difference).collect();
    if differences.is_empty() {
        return Ok(());
    }
    let title = format!(
        "{} differ from a build of the artifacts",
        many(differences.len(), "package")
    );
    Err(anyhow!(No(format!("{title}\n  {}", differences.join("\n  "))))).hint(
        "pass the flags that the set was built with; `rocwheel diff` compares it with what `rocwheel build` makes",
    )
}
