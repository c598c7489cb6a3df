//! How the packages of a set are shown to people: in groups, `rocm` first, each with what it is for.

use itertools::Itertools as _;

use super::{
    device::device_target,
    set_json::{IndexView, SetFile, is_ours},
};
use crate::{
    package::catalog::{CATALOG, PackageKind},
    target::TargetTable,
    wheel::DistName,
};

/// A group of packages, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
pub(super) enum PackageGroup {
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
pub(super) type ProjectFiles<'a> = (&'a str, &'a [&'a SetFile]);

/// The projects of a view by group, in the order of `packages.toml`, and targets by number.
pub(super) fn grouped<'a>(view: &'a IndexView<'_>) -> Vec<(PackageGroup, Vec<ProjectFiles<'a>>)> {
    let ordered = view.projects().sorted_by_cached_key(|(name, files)| {
        let (group, position) = files
            .first()
            .map_or((PackageGroup::Others, 0), |file| group(&file.project));
        let target = device_target(name);
        let number = target.map(|it| (it.base().as_str().len(), it));
        (group, position, number, (*name).to_owned())
    });
    let ordered: Vec<ProjectFiles<'_>> = ordered.collect();
    let of = |files: &[&SetFile]| files.first().map(|file| group(&file.project).0);
    let groups = ordered.chunk_by(|one, other| of(one.1) == of(other.1));
    let groups = groups.filter_map(|all| Some((of(all.first()?.1)?, all.to_vec())));
    groups.collect()
}

/// The group of a project, and its position there: that of its package in `packages.toml`.
fn group(project: &DistName) -> (PackageGroup, usize) {
    let mut packages = CATALOG.packages().iter();
    let found = packages.find_position(|it| it.has_dist(project.normalized()));
    match found {
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

/// What a project is for, in a few words: the GPU of a device package, and of others the summary in
/// `packages.toml`, without the words that all of them begin with. `None` for those of others.
pub(super) fn about(project: &str) -> Option<&'static str> {
    if let Some(target) = device_target(project) {
        return TargetTable::builtin().product(&target);
    }
    let mut packages = CATALOG.packages().iter();
    let summary = &packages.find(|it| it.has_dist(project))?.summary;
    Some(summary.split_once(": ").map_or(summary, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::tests as samples;

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
