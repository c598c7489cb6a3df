//! What the projects of a set are: groups in the order in which people see them, the targets of device
//! packages, and the projects of others whose device code is in packages of their own, such as `torch`
//! with `amd-torch-device-gfx942`. Their names say so.

use std::collections::BTreeMap;

use itertools::Itertools as _;

use super::{
    package_file::{PackageFile, is_ours},
    set_json::IndexView,
};
use crate::policy::{
    DistNames,
    catalog::{CATALOG, PackageKind},
};
use rocwheel_base::{
    error::{Hint as _, No, Result, anyhow},
    target::{Target, TargetTable},
    version::Version,
};
use rocwheel_wheel::{DistName, Metadata};

/// A group of packages, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
pub enum PackageGroup {
    #[strum(serialize = "For every GPU")]
    Host,
    #[strum(serialize = "Device code, a package for each GPU")]
    Device,
    #[strum(serialize = "For development")]
    Development,
    #[strum(serialize = "Packages of other projects")]
    Others,
}

/// A project with its files.
pub type ProjectFiles<'a> = (&'a str, &'a [&'a PackageFile]);

/// The projects of a view by group, in the order of `packages.toml`, and targets by number.
pub fn grouped<'a>(view: &'a IndexView<'_>) -> Vec<(PackageGroup, Vec<ProjectFiles<'a>>)> {
    let by_group = view.projects().sorted_by_cached_key(|(name, files)| {
        let (group, position) =
            files.first().map_or((PackageGroup::Others, 0), |file| group(&file.project));
        let number = device_target(name).map(|target| (target.base().as_str().len(), target));
        (group, position, number, (*name).to_owned())
    });
    let ordered: Vec<ProjectFiles<'_>> = by_group.collect();
    let group_of = |files: &[&PackageFile]| files.first().map(|file| group(&file.project).0);
    ordered
        .chunk_by(|one, other| group_of(one.1) == group_of(other.1))
        .filter_map(|projects| Some((group_of(projects.first()?.1)?, projects.to_vec())))
        .collect()
}

/// The group of a project, and its position in the group: the position of its package in `packages.toml`.
fn group(project: &DistName) -> (PackageGroup, usize) {
    let mut packages = CATALOG.packages().iter();
    match packages.find_position(|it| it.has_dist(project.normalized())) {
        Some((position, package)) => {
            let group = match package.kind {
                PackageKind::Selector | PackageKind::Runtime => PackageGroup::Host,
                PackageKind::Device => PackageGroup::Device,
                PackageKind::Devel => PackageGroup::Development,
            };
            (group, position)
        }
        None if is_ours(project) => (PackageGroup::Host, CATALOG.packages().len()),
        None => (PackageGroup::Others, 0),
    }
}

/// What a project is for, in a few words: the name of the GPU of a device package, or the summary in
/// `packages.toml`, after the words that every summary begins with. `None` for a project of others.
pub fn about(project: &str) -> Option<&'static str> {
    if let Some(target) = device_target(project) {
        return TargetTable::builtin().product(&target);
    }
    let mut packages = CATALOG.packages().iter();
    let summary = &packages.find(|it| it.has_dist(project))?.summary;
    Some(summary.split_once(": ").map_or(summary, |(_, rest)| rest))
}

/// The target of a device package, by its normalized name.
pub fn device_target(project: &str) -> Option<Target> {
    DistNames::built_in().device_target(&project.parse().ok()?)
}

/// The targets that have a device package, sorted.
pub fn device_targets<'a>(projects: impl Iterator<Item = &'a DistName>) -> Vec<Target> {
    let names = DistNames::built_in();
    sorted_targets(projects.filter_map(|project| names.device_target(project)))
}

/// Targets by number, as people expect, each once: gfx942 before gfx1100.
pub fn sorted_targets(targets: impl Iterator<Item = Target>) -> Vec<Target> {
    let by_number = |it: &Target| (it.base().as_str().len(), it.clone());
    targets.sorted_by_key(by_number).dedup().collect()
}

/// A project of others that users ask for, in its newest version.
#[derive(Debug)]
pub struct ProjectOfOthers<'a> {
    name: &'a DistName,
    version: &'a Version,
    /// The targets that it has device packages or extras for.
    pub targets: Vec<Target>,
}

/// A package with the code for one target, or for a family of targets: how its name begins, and its
/// version.
struct DevicePackage<'a> {
    prefix: &'a str,
    target: Option<Target>,
    version: &'a Version,
}

impl DevicePackage<'_> {
    fn is_of(&self, project: &DistName) -> bool {
        let name = project.normalized();
        self.prefix == name || self.prefix.strip_prefix("amd-") == Some(name)
    }
}

/// The beginning of the name of a device package, and its target. A package for a family has no target.
fn device_package(project: &DistName) -> Option<(&str, Option<Target>)> {
    let (prefix, name) = project.normalized().rsplit_once("-device-")?;
    if TargetTable::builtin().is_sub_family(name) {
        return Some((prefix, None));
    }
    Some((prefix, Some(name.parse().ok()?)))
}

impl<'a> ProjectOfOthers<'a> {
    /// All of them in order. Device packages, and the sdists that select one, are left out.
    pub fn all(files: impl IntoIterator<Item = &'a PackageFile>) -> Vec<Self> {
        let offered = files.into_iter().filter(|it| it.yanked.is_none());
        let mut newest = BTreeMap::new();
        let mut devices = Vec::new();
        let mut extras: BTreeMap<(&DistName, &Version), Vec<&Target>> = BTreeMap::new();
        for file in offered.filter(|it| !is_ours(&it.project)) {
            let known = newest.entry(&file.project).or_insert(&file.version);
            *known = (*known).max(&file.version);
            let targets = extras.entry((&file.project, &file.version)).or_default();
            targets.extend(&file.device_extras);
            devices.extend(device_package(&file.project).map(|(prefix, target)| {
                let version = &file.version;
                DevicePackage { prefix, target, version }
            }));
        }
        devices.retain(|it| newest.keys().any(|project| it.is_of(project)));
        let is_part = |project: &DistName| {
            let name = project.normalized();
            let prefix = match device_package(project) {
                Some((prefix, _)) => Some(prefix),
                None => name.strip_suffix("-device"),
            };
            devices.iter().any(|it| Some(it.prefix) == prefix)
        };
        let projects = newest.iter().filter(|(name, _)| !is_part(name));
        projects
            .map(|(name, version)| {
                let with_package = devices
                    .iter()
                    .filter(|it| it.is_of(name) && it.version == *version)
                    .filter_map(|it| it.target.as_ref());
                let with_extra = extras.get(&(*name, *version)).into_iter().flatten().copied();
                let targets = sorted_targets(with_package.chain(with_extra).cloned());
                Self { name, version, targets }
            })
            .collect()
    }

    /// `torch[device-gfx942]==2.12.0`
    pub fn requirement(&self, target: Option<&Target>) -> String {
        let Self { name, version, targets } = self;
        match target.filter(|it| targets.contains(it)) {
            Some(target) => format!("{name}[device-{target}]=={version}"),
            None => format!("{name}=={version}"),
        }
    }
}

/// Fails if one wheel of a version has its device code in it, and another wheel of the version leaves the code to
/// device packages: installers take either of them, and the extra for a GPU would then bring its code or nothing.
/// `wheels` has the path and the METADATA of each wheel.
pub fn ensure_one_form<'a>(wheels: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<()> {
    let mut forms: BTreeMap<(DistName, Version), [Option<&str>; 2]> = BTreeMap::new();
    for (path, metadata) in wheels {
        let file = path.rsplit('/').next().unwrap_or(path);
        let Ok(metadata) = Metadata::parse(metadata) else {
            continue;
        };
        let is_split = metadata.requirements().any(|required| {
            let target = device_package(&required.name).and_then(|(_, target)| target);
            let is_extra = |target| required.marker.is_for_extra(&format!("device-{target}"));
            !is_ours(&required.name) && target.is_some_and(is_extra)
        });
        let [whole, split] = forms.entry((metadata.name, metadata.version)).or_default();
        *(if is_split { split } else { whole }) = Some(file);
    }
    let both = forms.values().find_map(|[whole, split]| whole.zip(*split));
    let Some((whole, split)) = both else {
        return Ok(());
    };
    Err(anyhow!(No(format!(
        "`{whole}` has its device code in it, and `{split}`, of the same version, in other packages"
    ))))
    .hint("leave one of them out, or give it another version with `framework tie --version-suffix`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::tests::{self as samples, file};

    fn projects(names: &[(&str, &str)]) -> String {
        let files = names.iter();
        let files = files.map(|(project, version)| file(project, project, version));
        let files: Vec<PackageFile> = files.collect();
        let gfx942: Target = "gfx942".parse().unwrap();
        let all = ProjectOfOthers::all(&files);
        let shown = all.iter().map(|it| it.requirement(Some(&gfx942)));
        shown.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn device_packages_belong_to_the_project_in_their_names() {
        insta::assert_snapshot!(projects(&[
            ("torch", "2.12.0+rocm7.14.0"),
            ("torch", "2.11.0"),
            ("amd-torch-device", "2.12.0+rocm7.14.0"),
            ("amd-torch-device-gfx942", "2.12.0+rocm7.14.0"),
            ("amd-torch-device-gfx1100", "2.11.0"),
            ("amd-torch-device-gfx11", "2.12.0+rocm7.14.0"),
            ("amd-torch-device-gfx12-0", "2.12.0+rocm7.14.0"),
            ("torchvision", "0.27.0"),
            ("amd-torchvision-device-gfx1100", "0.27.0"),
            ("fw", "1.0"),
            ("fw-device-gfx942", "1.0"),
            // No project has this name without `-device`.
            ("cuda-device-gfx942", "3.0"),
            ("cloud-device", "4.0"),
            ("rocm-sdk-core", "7.14.0"),
            ("rocm-sdk-device-gfx942", "7.14.0"),
        ]), @"
        cloud-device==4.0
        cuda-device-gfx942==3.0
        fw[device-gfx942]==1.0
        torch[device-gfx942]==2.12.0+rocm7.14.0
        torchvision==0.27.0
        ");
    }

    #[test]
    fn an_extra_for_a_target_is_asked_for() {
        let gfx942: Target = "gfx942".parse().unwrap();
        let tied =
            PackageFile { device_extras: vec![gfx942.clone()], ..file("fw-2.0.whl", "fw", "2.0") };
        let files = [tied, file("fw-1.0.whl", "fw", "1.0")];
        let all = ProjectOfOthers::all(&files);
        assert_eq!(all[0].requirement(Some(&gfx942)), "fw[device-gfx942]==2.0");
        let gfx1100 = "gfx1100".parse().unwrap();
        assert_eq!(all[0].requirement(Some(&gfx1100)), "fw==2.0");
    }

    #[test]
    fn one_version_has_one_form() {
        let metadata = |version: &str, requires: &str| {
            format!("Metadata-Version: 2.1\nName: torch\nVersion: {version}\n{requires}\n")
        };
        let split = "Requires-Dist: amd-torch-device-gfx942==1; extra == \"device-gfx942\"\n";
        let in_two = "Requires-Dist: amd-torch-device-gfx942==1; 'device-gfx942' == extra or extra == 'all'\n";
        let tied = "Requires-Dist: rocm[device-gfx942]==7; extra == \"device-gfx942\"\n";
        let one = metadata("1", split);
        let ensure = |others: &[String]| {
            let others = others.iter().map(|it| ("dist/torch-fat.whl", it.as_bytes()));
            ensure_one_form(others.chain([("torch-split.whl", one.as_bytes())]))
        };
        ensure(&[metadata("2", tied), metadata("1", split), metadata("1", in_two)]).unwrap();
        let refused = ensure(&[metadata("1", tied)]).unwrap_err();
        insta::assert_snapshot!(refused, @"`torch-fat.whl` has its device code in it, and `torch-split.whl`, of the same version, in other packages");
    }

    #[test]
    fn packages_are_grouped_and_rocm_is_first() {
        let set = samples::document_of(&[
            "numpy",
            "rocm-profiler",
            "rocm-sdk-core",
            "rocm-sdk-devel",
            "rocm-sdk-device-gfx1100",
            "rocm-sdk-device-gfx942",
            "rocm-sdk-device-gfx9999",
            "rocm-sdk-libraries-gfx94x-dcgpu",
            "rocm-sdk-unheard-of",
            "rocm",
        ]);
        let view = &set.views()[0];
        let groups = grouped(view).into_iter().map(|(group, projects)| {
            let lines = projects.iter().map(|(name, _)| {
                let about = about(name).unwrap_or("-");
                format!("  {name}: {about}\n")
            });
            format!("{group}\n{}", lines.collect::<String>())
        });
        insta::assert_snapshot!(groups.collect::<String>(), @"
        For every GPU
          rocm: selects the packages for this machine's GPU
          rocm-sdk-core: compiler, runtime and tools
          rocm-sdk-libraries-gfx94x-dcgpu: math and communication libraries
          rocm-profiler: ROCm profiler applications (rocprofiler-systems and rocprofiler-compute)
          rocm-sdk-unheard-of: -
        Device code, a package for each GPU
          rocm-sdk-device-gfx942: MI300A/MI300X CDNA
          rocm-sdk-device-gfx1100: AMD RX 7900 XTX
          rocm-sdk-device-gfx9999: -
        For development
          rocm-sdk-devel: headers, CMake files and the whole SDK tree
        Packages of other projects
          numpy: -
        ");
    }
}
