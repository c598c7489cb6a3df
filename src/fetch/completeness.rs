//! Checks, before anything is downloaded, whether the selected artifacts are enough to build
//! packages.

use std::collections::{BTreeMap, BTreeSet};

use super::{inventory::ArtifactArchive, select::ArchiveSelection};
use crate::{
    artifact::{ArtifactName, Component, TherockManifest},
    console::few,
    error::{Error, No, Result, hinted, message},
    package::{
        Subset,
        catalog::{Catalog, PackageKind, PackageSpec},
        naming::DistributionMode,
    },
    run::Platform,
    target::Scope,
};

/// What the selection lacks compared with what the packages are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Completeness {
    /// Without these, packages cannot be built.
    pub lacks: Vec<String>,
    /// Without these, packages can be built but are incomplete.
    pub remarks: Vec<String>,
}

impl Completeness {
    pub(super) fn of(
        selection: &ArchiveSelection,
        inventory: &[ArtifactArchive],
        catalog: &Catalog,
        platform: Platform,
        subset: Option<&Subset>,
    ) -> Result<Self> {
        let device = catalog.only(PackageKind::Device)?;
        let packages = catalog.packages().iter();
        let view = PolicyView {
            packages: packages.filter(|it| it.ships_on(platform)).collect(),
            device,
            mode: mode(inventory, device),
        };
        let mut found = Self::default();
        if !selection.absent.is_empty() {
            let absent = few(selection.absent.iter().map(Scope::to_string));
            found
                .remarks
                .push(format!("the run has nothing for {absent}"));
        }
        if selection.is_part {
            found.remarks.extend(view.left_out(selection, inventory));
            return Ok(found);
        }
        let artifacts: Vec<&ArtifactName> = names(&selection.archives).collect();
        let manifest = TherockManifest::ARTIFACT;
        if !artifacts.iter().any(|it| it.to_string() == manifest) {
            let lack = format!("no `{manifest}`, which says what was built");
            found.lacks.push(lack);
        }
        if subset.is_none_or(Subset::is_for_all) {
            found.lacks.extend(view.required(&artifacts));
        }
        // For `--only`, `subset` has already checked that there is device code for the packages.
        if subset.is_none() && view.mode == DistributionMode::Split {
            view.targets(selection.scopes.is_some(), &artifacts, &mut found);
        }
        Ok(found)
    }

    /// Fails if anything is lacking.
    pub(super) fn require(&self) -> Result<()> {
        if self.lacks.is_empty() {
            return Ok(());
        }
        let message = format!("not enough for packages: {}", self.lacks.join("; "));
        let hint = "pass `--allow-incomplete` to fetch anyway";
        Err(hinted(No(message), hint))
    }
}

/// The packages of these names, for the targets that the selection has device code for.
pub(super) fn subset(
    names: &[String],
    selection: &ArchiveSelection,
    inventory: &[ArtifactArchive],
    catalog: &Catalog,
    platform: Platform,
) -> Result<Subset> {
    let device = catalog.only(PackageKind::Device)?;
    if mode(inventory, device) == DistributionMode::Legacy {
        let text = "`--only` needs a run with split device code, and this one is fat";
        return Err(hinted(
            No(text.to_owned()),
            "fetch all of it, without `--only`",
        ));
    }
    let with_code = self::names(&selection.archives)
        .filter(|it| it.scope != Scope::Generic && device.takes_kind(it, DistributionMode::Split));
    let targets = with_code.map(|it| it.scope.base()).collect();
    // An unknown package or a missing artifact is the answer "no" rather than a wrong call: with
    // `--wait`, the artifact may still be uploaded.
    Subset::new(names, catalog, platform, targets).map_err(|error| Error::new(No(message(&error))))
}

/// The packages that ship on one platform, and how the run distributes device code.
struct PolicyView<'a> {
    packages: Vec<&'a PackageSpec>,
    device: &'a PackageSpec,
    mode: DistributionMode,
}

/// A run with device code in artifacts of single targets is a run with split device code.
fn mode(inventory: &[ArtifactArchive], device: &PackageSpec) -> DistributionMode {
    let is_split = |artifact: &ArtifactName| {
        matches!(artifact.scope, Scope::Target(_))
            && device.takes_kind(artifact, DistributionMode::Split)
    };
    if names(inventory).any(is_split) {
        DistributionMode::Split
    } else {
        DistributionMode::Legacy
    }
}

impl PolicyView<'_> {
    fn takes(&self, package: &PackageSpec, artifact: &ArtifactName) -> bool {
        package.takes(artifact, self.mode, Some(&artifact.scope))
    }

    /// The required packages that no artifact is for.
    fn required(&self, artifacts: &[&ArtifactName]) -> Vec<String> {
        let lacking = self.packages.iter().filter(|it| {
            it.required
                && it.kind == PackageKind::Runtime
                && !artifacts.iter().any(|artifact| self.takes(it, artifact))
        });
        let lack = |it: &&PackageSpec| {
            let dist = it.dist_name(self.mode, None);
            format!("no artifact for `{dist}`")
        };
        lacking.map(lack).collect()
    }

    /// Checks that each target has device code. A target that lacks an artifact which other targets
    /// have is only a remark.
    fn targets(&self, are_named: bool, artifacts: &[&ArtifactName], found: &mut Completeness) {
        let mut names_of: BTreeMap<Scope, BTreeSet<&str>> = BTreeMap::new();
        let mut xnack: Vec<&ArtifactName> = Vec::new();
        for artifact in artifacts {
            if let Scope::Target(target) = &artifact.scope {
                let names = names_of.entry(artifact.scope.base()).or_default();
                match self.device.takes_kind(artifact, self.mode) {
                    true if target.runs_with_xnack_off() => drop(names.insert(&artifact.name)),
                    true => xnack.push(artifact),
                    false => {}
                }
            }
        }
        // XNACK code (`gfx942:xnack+`) is an addition to code for the plain target: alone it runs
        // only where XNACK is on. Only runs for sanitizers have nothing else for a target.
        let only_xnack = names_of.iter().filter(|(_, names)| names.is_empty());
        let only_xnack: BTreeSet<Scope> = only_xnack.map(|(base, _)| base.clone()).collect();
        for artifact in xnack {
            let base = artifact.scope.base();
            let names = names_of.entry(base.clone()).or_default();
            if only_xnack.contains(&base) {
                names.insert(&artifact.name);
            } else if !names.contains(artifact.name.as_str()) {
                let name = ArtifactName {
                    scope: base,
                    ..artifact.clone()
                };
                found.lacks.push(format!(
                    "no `{name}`; `{artifact}` runs only where XNACK is on"
                ));
            }
        }
        let all: BTreeSet<&str> = names_of.values().flatten().copied().collect();
        for (target, names) in &names_of {
            let mut missing = all
                .difference(names)
                .map(|name| format!("`{name}`"))
                .peekable();
            if names.is_empty() && are_named {
                found.lacks.push(format!("no device code for `{target}`"));
            } else if names.is_empty() {
                found.remarks.push(format!("`{target}` has no device code"));
            } else if missing.peek().is_some() {
                let missing = few(missing);
                found.remarks.push(format!(
                    "`{target}` has no {missing}, which other targets have"
                ));
            }
        }
    }

    /// A remark about artifacts of the wanted targets that were not selected, although packages
    /// contain them.
    fn left_out(
        &self,
        selection: &ArchiveSelection,
        inventory: &[ArtifactArchive],
    ) -> Option<String> {
        let chosen: BTreeSet<&ArtifactName> = names(&selection.archives).collect();
        let is_wanted = |scope: &Scope| {
            let scopes = selection.scopes.as_ref();
            *scope == Scope::Generic || scopes.is_none_or(|scopes| scopes.contains(&scope.base()))
        };
        let left = names(inventory)
            .filter(|it| !chosen.contains(it) && is_wanted(&it.scope) && self.is_used(it));
        let left: Vec<String> = left.map(|it| format!("`{it}`")).collect();
        (!left.is_empty()).then(|| {
            let left = few(left.into_iter());
            format!("left out, and part of the packages: {left}")
        })
    }

    fn is_used(&self, artifact: &ArtifactName) -> bool {
        let some_package_takes = |component| {
            let sibling = ArtifactName {
                component,
                ..artifact.clone()
            };
            let mut packages = self.packages.iter();
            packages.any(|package| package.takes_kind(&sibling, self.mode))
        };
        self.packages.iter().any(|package| match package.kind {
            PackageKind::Selector => false,
            PackageKind::Runtime | PackageKind::Device => self.takes(package, artifact),
            PackageKind::Devel => {
                package.reaches(artifact, self.mode, Some(&artifact.scope))
                    && !package.leaves_out(artifact, self.mode)
                    && (package.takes_besides(&artifact.name, self.mode)
                        || Component::ALL.iter().copied().any(some_package_takes))
            }
        })
    }
}

fn names(archives: &[ArtifactArchive]) -> impl Iterator<Item = &ArtifactName> {
    archives.iter().map(|archive| &archive.name.artifact)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::render,
        fetch::{
            inventory::tests::inventory,
            select::{Wish, select},
        },
    };

    const RUN: &str = "base_lib_generic.tar.zst core-hip_lib_generic.tar.zst \
        core-hip_dev_generic.tar.zst blas_lib_generic.tar.zst blas_lib_gfx942.tar.zst \
        rand_lib_gfx942.tar.zst blas_lib_gfx1100.tar.zst blas_test_gfx1100.tar.zst";

    fn report(files: &str, wish: &Wish) -> String {
        let inventory = inventory(files);
        let selection = select(&inventory, wish).unwrap();
        let catalog = Catalog::built_in().unwrap();
        let found =
            Completeness::of(&selection, &inventory, &catalog, Platform::Linux, None).unwrap();
        let lacks = found.require().err().map(|error| render(&error));
        let remarks = found.remarks.iter().map(|it| format!("- {it}\n"));
        remarks.chain(lacks).collect()
    }

    fn targets(names: &[&str]) -> Wish {
        Wish {
            targets: names.iter().map(ToString::to_string).collect(),
            ..Wish::default()
        }
    }

    #[test]
    fn a_target_that_has_less_than_another_is_remarked_on() {
        insta::assert_snapshot!(report(RUN, &Wish::default()), @"- `gfx1100` has no `rand`, which other targets have");
    }

    #[test]
    fn enough_for_packages_is_said_nothing_about() {
        assert_eq!(report(RUN, &targets(&["gfx942"])), "");
        let families = "base_lib_generic.tar.zst blas_lib_gfx94X-dcgpu.tar.zst";
        assert_eq!(report(families, &Wish::default()), "");
    }

    #[test]
    fn code_that_needs_xnack_does_not_stand_for_its_target() {
        let without = RUN.replace("blas_lib_gfx942.", "blas_lib_gfx942:xnack+.");
        insta::assert_snapshot!(report(&without, &Wish::default()), @"
        - `gfx1100` has no `rand`, which other targets have
        - `gfx942` has no `blas`, which other targets have
        error: not enough for packages: no `blas_lib_gfx942`; `blas_lib_gfx942:xnack+` runs only where XNACK is on

        hint: pass `--allow-incomplete` to fetch anyway
        ");
        let only = "base_lib_generic.tar.zst core-hip_lib_generic.tar.zst \
            blas_lib_gfx942:xnack+.tar.zst";
        assert_eq!(report(only, &Wish::default()), "");
    }

    #[test]
    fn without_the_manifest_or_a_required_package_there_is_not_enough() {
        let files = "blas_lib_gfx942.tar.zst blas_test_gfx1100.tar.zst";
        insta::assert_snapshot!(report(files, &targets(&["gfx942", "gfx1100"])), @"
        error: not enough for packages: no `base_lib_generic`, which says what was built; no artifact for `rocm-sdk-core`; no device code for `gfx1100`

        hint: pass `--allow-incomplete` to fetch anyway
        ");
    }

    #[test]
    fn tests_alone_are_no_device_code() {
        let files = "base_lib_generic.tar.zst blas_lib_gfx942.tar.zst blas_test_gfx1100.tar.zst";
        insta::assert_snapshot!(report(files, &Wish::default()), @"- `gfx1100` has no device code");
    }

    #[test]
    fn a_family_that_is_there_in_part_is_remarked_on() {
        let families = Wish {
            families: vec!["gfx110X-all".into()],
            ..Wish::default()
        };
        insta::assert_snapshot!(report(RUN, &families), @"- the run has nothing for gfx1101, gfx1102, gfx1103");
    }

    #[test]
    fn a_part_is_told_what_it_leaves_out() {
        let wish = Wish {
            include: vec!["_lib_".parse().unwrap()],
            ..targets(&["gfx942"])
        };
        insta::assert_snapshot!(report(RUN, &wish), @"- left out, and part of the packages: `core-hip_dev_generic`");
        let wish = Wish {
            include: vec!["blas_test".parse().unwrap()],
            ..Wish::default()
        };
        insta::assert_snapshot!(report(RUN, &wish), @"- left out, and part of the packages: `base_lib_generic`, `blas_lib_generic`, `blas_lib_gfx1100`, `blas_lib_gfx942`, `core-hip_dev_generic`, `core-hip_lib_generic`, `rand_lib_gfx942`");
    }

    #[test]
    fn what_packages_are_made_of_is_known_where_device_code_is_apart() {
        let refused = |files: &str, name: &str| {
            let inventory = inventory(files);
            let all = select(&inventory, &Wish::default()).unwrap();
            let catalog = Catalog::built_in().unwrap();
            let names = [name.to_owned()];
            let refused = subset(&names, &all, &inventory, &catalog, Platform::Windows);
            render(&refused.unwrap_err())
        };
        let families = "base_lib_generic.tar.zst blas_lib_gfx94X-dcgpu.tar.zst";
        insta::assert_snapshot!(refused(families, "core"), @"
        error: `--only` needs a run with split device code, and this one is fat

        hint: fetch all of it, without `--only`
        ");
        insta::assert_snapshot!(refused(RUN, "profiler"), @"error: no package `profiler` in this set, which has `core`, `devel`, `device`, `device-gfx1100`, `device-gfx942`, `libraries`, `meta`, `rocm`, `rocm-sdk-core`, `rocm-sdk-devel`, `rocm-sdk-device-gfx1100`, `rocm-sdk-device-gfx942`, `rocm-sdk-libraries`");
    }
}
