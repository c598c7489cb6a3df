//! Writes fused wheels, and reads them back.

use std::{collections::BTreeSet, path::Path};

use super::{
    FusePlan, SetMembers,
    members::{SetMember, contents},
};
use crate::{
    console::{World, many},
    error::{Context as _, Result, bail, ensure},
    framework::{
        facts, policy::Frameworks, providers::Providers, read::FrameworkWheel, rocm::RocmLibraries,
        tie,
    },
    loader::{FileContents, InstalledTree, missing_libraries},
    package::assemble::{AssembleSettings, ChangedFile},
};

/// Writes the wheels of a plan into a directory. `scratch` is another one, for what is needed while it
/// is done.
pub fn write(
    wheels: &[FrameworkWheel],
    members: &SetMembers,
    plan: &FusePlan,
    (directory, scratch): (&Path, &Path),
    settings: &AssembleSettings,
    world: &World,
) -> Result<Vec<ChangedFile>> {
    let mut written = Vec::new();
    let own = wheels.iter().map(FrameworkWheel::unpacked_size);
    let embedded = plan.embedded.values().filter_map(|from| members.get(from));
    let size = own.chain(embedded.map(SetMember::size)).sum();
    let (count, what) = (wheels.len(), many(wheels.len(), "wheel"));
    let _bar = (world.console).joined_progress("Fusing", what, count, size);
    for (index, (wheel, tied)) in wheels.iter().zip(&plan.wheels).enumerate() {
        let mut changed = tie::changed(wheel, tied)?;
        if index == 0 {
            let files = plan.embedded.iter().map(|(to, from)| {
                let member = members.get(from);
                Ok((
                    to,
                    member.with_context(|| format!("no `{from}` in the set"))?,
                ))
            });
            let files: Vec<(&String, &SetMember)> = files.collect::<Result<_>>()?;
            let contents = contents(&files, scratch, (settings.jobs, world))?;
            for ((to, member), content) in files.into_iter().zip(contents) {
                changed.add(to.parse()?, member.executable(), content);
            }
        }
        written.push(changed.write(directory, settings, "Fusing", world)?);
    }
    Ok(written)
}

/// Fails unless the fused wheels find all libraries of ROCm without anything else installed, and prove
/// the tag that they have.
pub fn verify(
    plan: &FusePlan,
    fused: &[FrameworkWheel],
    rocm: &RocmLibraries,
    policy: &Frameworks,
    (max_size, host): (u64, &[String]),
) -> Result<()> {
    let providers = Providers::new(fused, None, policy, host);
    let mut site = InstalledTree::default();
    for wheel in fused {
        ensure!(
            wheel.facts.size <= max_size,
            "`{}` has {} bytes, and at most {max_size} are allowed: name fewer `--targets`",
            wheel.name,
            wheel.facts.size
        );
        for (path, _, elf) in wheel.elf_files() {
            let package = wheel.name.name.normalized();
            site.add_file(path, package, FileContents::Elf(&elf.facts));
        }
    }
    let untied: BTreeSet<&str> = plan
        .wheels
        .iter()
        .flat_map(|it| &it.untied)
        .map(|it| it.path.as_str())
        .collect();
    let missing = missing_libraries(&site);
    let lost = missing
        .iter()
        .find(|it| rocm.library(&it.name).is_some() && !untied.contains(it.path.as_str()));
    if let Some(lost) = lost {
        bail!(
            "`{}` does not find `{}` in the fused wheel",
            lost.path,
            lost.name
        );
    }
    for (wheel, planned) in fused.iter().zip(&plan.wheels) {
        if let Some(damage) = wheel.damage.first() {
            bail!("`{}` is not what was planned: {damage}", wheel.name);
        }
        let proved = facts::proved_tag(wheel, &providers).policy;
        ensure!(
            wheel.is_for_windows() || planned.record.proved_tag.as_ref() == Some(&proved),
            "the symbols of `{}` prove `{proved}`",
            wheel.name
        );
    }
    Ok(())
}
