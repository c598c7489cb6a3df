//! [`DistNames`]: the names of our distributions, for the rooms that look for one of them.

use std::sync::LazyLock;

use super::{
    Catalog,
    catalog::{CATALOG, PackageKind},
    naming::{DistributionMode, NameTemplate},
};
use rocwheel_base::{error::Result, target::Target};
use rocwheel_wheel::DistName;

static BUILT_IN: LazyLock<DistNames> =
    LazyLock::new(|| DistNames::of(&CATALOG).expect("a test reads the built-in policy"));

/// The distributions that other packages and installers name, as `packages.toml` calls them.
#[derive(Clone, Debug)]
pub struct DistNames {
    /// `rocm`, whose extras select the others.
    pub selector: String,
    /// `rocm-sdk-core`, which all others require.
    pub core: String,
    /// `rocm-sdk-libraries`, into which device code is installed.
    pub libraries: String,
    /// `rocm-sdk-devel`.
    pub devel: String,
    /// `rocm-sdk-device-{target}`.
    device: NameTemplate,
}

impl DistNames {
    /// The names in the `packages.toml` that is compiled into rocwheel.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    pub(crate) fn of(catalog: &Catalog) -> Result<Self> {
        let mode = DistributionMode::Split;
        let only = |kind| catalog.only(kind);
        Ok(Self {
            selector: only(PackageKind::Selector)?.dist_name(mode, None),
            core: catalog.core()?.dist_name(mode, None),
            libraries: catalog.overlaid()?.dist_name(mode, None),
            devel: only(PackageKind::Devel)?.dist_name(mode, None),
            device: only(PackageKind::Device)?.dist_template(mode).clone(),
        })
    }

    /// The directory with the files of a distribution: `_rocm_sdk_core`.
    pub fn import_name(dist: &str) -> String {
        format!("_{}", dist.replace('-', "_"))
    }

    /// Whether a distribution has the libraries: `rocm-sdk-libraries`, or `rocm-sdk-libraries-gfx94x-dcgpu` of a set
    /// whose device code is not split.
    pub fn has_libraries(&self, project: &DistName) -> bool {
        project.normalized() == self.libraries || self.libraries_family(project).is_some()
    }

    /// The family or target of libraries with device code, in lower case; `None` for any other package.
    pub fn libraries_family<'a>(&self, project: &'a DistName) -> Option<&'a str> {
        project.normalized().strip_prefix(&*self.libraries)?.strip_prefix('-')
    }

    /// The device package of a target: `rocm-sdk-device-gfx942`.
    pub fn device(&self, target: &Target) -> String {
        self.device.fill(&target.to_string())
    }

    /// What a device package has code for, as its name says it; `None` for any other package.
    pub fn device_scope<'n>(&self, project: &'n DistName) -> Option<&'n str> {
        self.device.scope_in(project.normalized())
    }

    /// The target of a device package; `None` for any other package.
    pub fn device_target(&self, project: &DistName) -> Option<Target> {
        self.device_scope(project)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_of_the_policy() {
        let names = DistNames::built_in();
        let target: Target = "gfx942".parse().unwrap();
        assert_eq!(
            [&names.selector, &names.core, &names.libraries, &names.devel],
            ["rocm", "rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-devel"]
        );
        let project: DistName = names.device(&target).parse().unwrap();
        assert_eq!(names.device_target(&project), Some(target.clone()));
        let family = |name: &str| names.libraries_family(&name.parse().unwrap()).map(str::to_owned);
        assert_eq!(family("rocm-sdk-libraries-gfx94X-dcgpu"), Some("gfx94x-dcgpu".to_owned()));
        assert_eq!(family("rocm-sdk-libraries"), None);
        let text = include_str!("packages.toml");
        let renamed =
            text.replace("\"rocm-sdk-", "\"sdk-").replace("dist = \"rocm\"", "dist = \"sdk\"");
        let names = DistNames::of(&Catalog::parse(&renamed).unwrap()).unwrap();
        assert_eq!(
            [&names.selector, &names.core, &names.libraries, &names.devel],
            ["sdk", "sdk-core", "sdk-libraries", "sdk-devel"]
        );
        assert_eq!(names.device_target(&project), None);
        assert_eq!(names.device(&target), "sdk-device-gfx942");
    }
}
