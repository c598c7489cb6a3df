//! How packages get into an environment again.

use std::path::Path;

use itertools::Itertools as _;

use super::packages::is_stub;
use crate::{
    index::is_ours,
    install::{installed_package::DEVICE, origin::InstallOrigin, site_packages::SitePackages},
    policy::DistNames,
};
use rocwheel_base::{target::Target, version::Version};
use rocwheel_wheel::{DistName, Requirement};

/// Says how to repair an environment. If `install` filled the environment, the answer is a command, otherwise a
/// sentence. A package of ROCm is never taken from PyPI, where strangers have uploaded packages with such names.
pub(super) struct Repair<'a> {
    /// The environment, and where `install` took its packages from.
    origin: Option<(&'a Path, &'a InstallOrigin)>,
    /// The targets whose device packages are installed.
    targets: Vec<Target>,
    /// The extras of `rocm` whose packages are installed.
    extras: Vec<String>,
}

impl<'a> Repair<'a> {
    pub(super) fn new(site: &'a SitePackages) -> Self {
        let names = DistNames::built_in();
        let mut targets = Vec::new();
        let mut extras = Vec::new();
        let selector = site.find(&names.selector);
        let requirements = selector.into_iter().flat_map(|package| &package.requires);
        for line in requirements.filter(|line| site.find(line.name.normalized()).is_some()) {
            match names.device_target(&line.name) {
                Some(target) if line.marker.needs_extra() => targets.push(target),
                // The extra of a device package that is for all targets names no package of its own.
                _ => extras.extend(line.marker.extras().into_iter().map(str::to_owned)),
            }
        }
        // A stub has the version of a stranger.
        let version = selector.filter(|package| !is_stub(package)).map(|package| &package.version);
        // Another program may have installed another version since.
        let is_current =
            |origin: &InstallOrigin| version.is_none() || origin.version.as_ref() == version;
        let origin = site.origin.as_ref().filter(|(_, origin)| is_current(origin));
        Self { origin: origin.map(|(root, origin)| (&**root, origin)), targets, extras }
    }

    /// The environment, if `install` has filled it.
    pub(super) fn environment(&self) -> Option<&Path> {
        self.origin.map(|(environment, _)| environment)
    }

    /// The version of ROCm that `install` has put there.
    pub(super) fn version(&self) -> Option<&Version> {
        self.origin.and_then(|(_, origin)| origin.version.as_ref())
    }

    /// What brings packages of ROCm again, and device code for one more target: the command that installs the whole
    /// environment again, or else a sentence about these packages.
    pub(super) fn install(&self, packages: &str, target: Option<&Target>) -> String {
        self.install_with(packages, target, &[])
    }

    /// The same, with further extras of `rocm`.
    pub(super) fn install_with(
        &self,
        packages: &str,
        target: Option<&Target>,
        extras: &[String],
    ) -> String {
        let Some((environment, origin)) = self.origin else {
            return format!(
                "install {packages} from the index that this ROCm came from: on PyPI, packages of others have \
                 such names"
            );
        };
        let wanted = InstallOrigin {
            targets: self.targets.iter().chain(target).map(Target::to_string).collect(),
            extras: self.extras.iter().chain(extras).unique().cloned().collect(),
            ..origin.clone()
        };
        wanted.with_earlier(Some(origin.clone())).command(environment)
    }

    /// The same for any package: one that `install` did not choose is not in its command.
    pub(super) fn install_one(
        &self,
        name: &DistName,
        what: &str,
        target: Option<&Target>,
    ) -> String {
        if is_ours(name) {
            return self.install(what, target);
        }
        let is_device = name.normalized().contains(DEVICE);
        let packages =
            self.origin.map(|(_, origin)| origin.packages.as_slice()).unwrap_or_default();
        let mut asked = Requirement::all(packages);
        let is_chosen = asked.any(|requirement| is_device || requirement.name == *name);
        match (is_chosen, is_device) {
            (true, _) => self.install(what, target),
            (false, true) => format!(
                "install {what} from the index that its framework came from: on PyPI, packages of others have \
                 such names"
            ),
            (false, false) => {
                format!("install {what} from where this environment takes its packages")
            }
        }
    }
}
