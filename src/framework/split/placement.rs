//! Decides which archive gets the code of each binary, and what the markers say.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;

use super::observe::FatMember;
use crate::framework::facts;
use rocwheel_base::{
    error::{Context as _, Result},
    relpath::RelPath,
    target::Scope,
};
use rocwheel_kpack::{
    CodeTarget, Marker,
    split::{ArchiveNames, FatBinary, archive_path, home},
};
use rocwheel_wheel::DistName;

/// A binary that loses its device code.
#[derive(Debug)]
pub(super) struct PlacedBinary {
    pub member: FatMember,
    /// The directory with `.kpack`.
    root: RelPath,
    names: ArchiveNames,
    pub binary: FatBinary,
    /// One for each bundle.
    pub markers: Vec<Marker>,
}

/// An archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlacedArchive {
    /// What the archive is for. An archive for a target goes to the device wheel of the target.
    pub scope: Scope,
    /// The target of its code, without features.
    pub base: CodeTarget,
}

/// Places binaries of one wheel. `packages` are the directories with an `__init__.py`.
///
/// A binary that is directly in `site-packages` has its archives in a directory with the name of the
/// wheel: a bare `.kpack` there would belong to no package.
pub(super) fn place(
    name: &DistName,
    packages: &BTreeSet<&str>,
    members: Vec<FatMember>,
) -> Result<Vec<PlacedBinary>> {
    let group = name.filename_form();
    let alone: RelPath = format!("{group}.kpack.d").parse()?;
    let mut placed = Vec::new();
    for member in members {
        let path = &member.installed;
        let (root, below) = match facts::root_of(path.as_str(), packages) {
            Some(package) => {
                let root: RelPath = package.parse()?;
                let below = path.strip_prefix(&root).context("a file outside its package")?;
                (root, below)
            }
            None => (alone.clone(), path.clone()),
        };
        let targets =
            member.bundles.iter().map(|bundle| bundle.keys().cloned().collect()).collect();
        let binary = FatBinary::new(root.clone(), below, targets);
        placed.push((member, binary, root));
    }
    // The name of an archive depends on all binaries of its package.
    let names: BTreeMap<RelPath, ArchiveNames> = placed
        .iter()
        .map(|(_, binary, root)| (root, binary.clone()))
        .into_group_map()
        .into_iter()
        .map(|(root, binaries)| (root.clone(), ArchiveNames::new(&group, &binaries)))
        .collect();
    let mut binaries = Vec::new();
    for (member, binary, root) in placed {
        let archive_names = names.get(&root).context("a package without binaries")?;
        let mut markers = archive_names.markers(&binary);
        // Search paths begin in the directory of the binary, and this directory is not the root.
        if root == alone {
            for path in markers.iter_mut().flat_map(|marker| &mut marker.kpack_search_paths) {
                *path = format!("{alone}/{path}");
            }
        }
        let names = archive_names.clone();
        binaries.push(PlacedBinary { member, root, names, binary, markers });
    }
    Ok(binaries)
}

impl PlacedBinary {
    /// The installed path of the archive with the code of a bundle for a target.
    pub(super) fn archive(&self, bundle: usize, target: &CodeTarget) -> Result<RelPath> {
        let name = self.names.name(&self.binary, bundle, &target.base());
        Ok(self.root.join(&archive_path(&name, target)?))
    }

    /// All archives with code of this binary.
    pub(super) fn archives(&self) -> Result<Vec<(RelPath, PlacedArchive)>> {
        let mut archives = Vec::new();
        for (bundle, targets) in self.binary.bundles.iter().enumerate() {
            for target in targets {
                let scope = home(target).context("code that no archive is for")?;
                let base = target.base();
                archives.push((self.archive(bundle, target)?, PlacedArchive { scope, base }));
            }
        }
        Ok(archives)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use rocwheel_base::spool::Spool;
    use rocwheel_kpack::SplittableBinary;

    fn shown(packages: &[&str], binaries: &[(&str, &[&[&str]])]) -> String {
        let code = binaries.iter().map(|(path, bundles)| {
            let sizes = |it: &&[&str]| it.iter().map(|it| (it.parse().unwrap(), 1)).collect();
            FatMember {
                member: (*path).to_owned(),
                installed: path.parse().unwrap(),
                bytes: Arc::new(Spool::new(1)),
                fat: SplittableBinary { code: 0..0, bundles: Vec::new(), wrappers: Vec::new() },
                bundles: bundles.iter().map(sizes).collect(),
            }
        });
        let packages = packages.iter().copied().collect();
        let placed = place(&"my-fw".parse().unwrap(), &packages, code.collect()).unwrap();
        let mut lines = Vec::new();
        for one in &placed {
            let path = &one.member.member;
            let archives = one.archives().unwrap().into_iter();
            lines.extend(archives.map(|(archive, it)| format!("{path}: {archive} {}", it.scope)));
            let marker = one.markers.first().unwrap();
            lines.push(format!("  {} {}", marker.kernel_name, marker.kpack_search_paths[0]));
        }
        lines.join("\n")
    }

    #[test]
    fn each_package_has_archives_of_its_own() {
        let binaries: [(&str, &[&[&str]]); 4] = [
            ("fw/lib/libfw.so", &[&["gfx942", "gfx1100"], &["gfx942"]]),
            ("jax_plugins/fw/x.so", &[&["gfx942:xnack+"]]),
            ("fw.libs/y.so", &[&["gfx9-4-generic"]]),
            ("alone.so", &[&["gfx942"]]),
        ];
        insta::assert_snapshot!(shown(&["fw", "jax_plugins/fw"], &binaries), @"
        fw/lib/libfw.so: fw/.kpack/my_fw_d6f131ff_0_gfx1100.kpack gfx1100
        fw/lib/libfw.so: fw/.kpack/my_fw_gfx942.kpack gfx942
        fw/lib/libfw.so: fw/.kpack/my_fw_gfx942.kpack gfx942
          fw/lib/libfw.so ../.kpack/my_fw_@GFXARCH@.kpack
        jax_plugins/fw/x.so: jax_plugins/fw/.kpack/my_fw_gfx942.kpack gfx942
          jax_plugins/fw/x.so .kpack/my_fw_@GFXARCH@.kpack
        fw.libs/y.so: fw.libs/.kpack/my_fw_gfx9-4-generic.kpack generic
          fw.libs/y.so .kpack/my_fw_@GFXARCH@.kpack
        alone.so: my_fw.kpack.d/.kpack/my_fw_gfx942.kpack gfx942
          my_fw.kpack.d/alone.so my_fw.kpack.d/.kpack/my_fw_@GFXARCH@.kpack
        ");
    }
}
