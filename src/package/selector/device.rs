//! The sdist that selects the device wheel of a framework on the machine that installs it, with the
//! tables and the order of decisions of the `rocm` sdist.

use crate::{
    error::Result, package::dist_info, relpath::RelPath, target::Target, version::Version,
    wheel::DistName,
};

const BUILD: &str = include_str!("../python/device/device_build.py");
const PYPROJECT: &str = include_str!("../python/device/pyproject.toml");

/// The device wheels that an sdist selects from.
#[derive(Debug)]
pub struct DeviceSelector<'a> {
    /// The name of the sdist, with which the names of the device wheels begin.
    pub name: &'a DistName,
    pub version: &'a Version,
    /// What the code is for.
    pub host: &'a DistName,
    pub targets: &'a [Target],
}

impl DeviceSelector<'_> {
    /// The files of the sdist, relative to its top directory, in the order of the archive.
    pub fn files(&self) -> Result<Vec<(RelPath, String)>> {
        let Self {
            name,
            version,
            host,
            ..
        } = self;
        let facts = format!(
            "Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\
             Summary: Device code of {host} for the GPU of this machine\nDynamic: Requires-Dist\n"
        );
        let version = version.to_string();
        let tables = dist_info::of_devices(&format!("{name}-"), &version, self.targets);
        let files = [
            ("PKG-INFO", facts),
            ("_dist_info.py", tables),
            ("device_build.py", BUILD.to_owned()),
            ("pyproject.toml", PYPROJECT.to_owned()),
        ];
        let files = files.into_iter();
        files
            .map(|(path, text)| Ok((path.parse()?, text)))
            .collect()
    }
}
