//! The metadata of host wheels and device wheels.

use std::collections::BTreeSet;

use super::{base::HostBase, plan::DeviceWheelPlan};
use crate::{
    error::Result,
    framework::{
        metadata::{HeaderText, MetadataEdit},
        read::FrameworkWheel,
        tie::TieRecord,
    },
    target::Target,
    version::Version,
    wheel::{DistName, PackageFilename},
};

/// METADATA of a device wheel. `rocm` is the version of the set whose device code it goes with.
pub(super) fn device_metadata(
    name: &DistName,
    host: &PackageFilename,
    target: &Target,
    rocm: Option<&Version>,
) -> String {
    let (of, version) = (&host.name, &host.version);
    let rocm = rocm.map_or(String::new(), |rocm| {
        format!("Requires-Dist: rocm-sdk-device-{target}=={rocm}\n")
    });
    format!(
        "Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\
         Summary: Device code of {of} for {target}\nRequires-Dist: {of}=={version}\n{rocm}"
    )
}

/// WHEEL of a device wheel, from that of its host wheel. It has to be installed into the directory of its host wheel, for the
/// same platforms.
pub(super) fn device_wheel(host: &str) -> String {
    let mut text = HeaderText::parse(host);
    let generator = format!("rocwheel ({})", env!("CARGO_PKG_VERSION"));
    text.set("Generator", &generator);
    // A build number is that of the host wheel's file name.
    text.remove("Build", |_| true);
    text.render()
}

/// The requirements and extras of a host wheel.
#[derive(Debug, Default)]
pub(super) struct HostExtras {
    pub requires: Vec<String>,
    pub extras: Vec<String>,
    /// The extras that `tie` forwarded to `rocm`. Those of the device wheels replace them.
    pub replaced: TiedExtras,
}

/// What a tie has added for device code.
#[derive(Debug, Default)]
pub(super) struct TiedExtras {
    pub requires: Vec<String>,
    pub extras: BTreeSet<String>,
}

impl HostExtras {
    /// `selector` is the name of the sdist that selects one of the device wheels.
    pub(super) fn new(
        devices: &[DeviceWheelPlan],
        selector: Option<&DistName>,
        version: &Version,
        record: Option<&TieRecord>,
    ) -> Self {
        let mut this = Self::default();
        for device in devices {
            let name = &device.name.name;
            for extra in [format!("device-{}", device.target), "device-all".to_owned()] {
                let line = format!("{name}=={version}; extra == \"{extra}\"");
                this.requires.push(line);
                this.extras.push(extra);
            }
        }
        if let Some(name) = selector {
            let line = format!("{name}=={version}; extra == \"device\"");
            this.requires.push(line);
            this.extras.push("device".to_owned());
        }
        this.requires.sort();
        this.extras.sort();
        this.extras.dedup();
        if let Some(record) = record {
            let forwarded = |line: &&String| {
                let extra = line.split_once("extra == \"").map(|it| it.1);
                let extra = extra.map(|it| it.trim_end_matches('"'));
                record.extras.iter().any(|it| extra == Some(it.as_str()))
            };
            this.replaced = TiedExtras {
                requires: record.requires.iter().filter(forwarded).cloned().collect(),
                extras: record.extras.iter().cloned().collect(),
            };
        }
        this
    }

    /// METADATA of the host wheel. `wheel` is the one that is split.
    pub(super) fn metadata(&self, wheel: &FrameworkWheel, base: &HostBase<'_>) -> String {
        let version = &base.name.version;
        let edit = MetadataEdit {
            requires: self.requires.clone(),
            extras: self.extras.clone(),
            removed: self.replaced.requires.clone(),
            removed_extras: self.replaced.extras.clone(),
            version: (*version != wheel.name.version).then(|| version.clone()),
        };
        edit.apply(&base.metadata)
    }

    /// The record of the tie, without what is replaced: another tie must leave the extras alone.
    pub(super) fn record(&self, mut record: TieRecord) -> Result<String> {
        let gone = &self.replaced.requires;
        record.requires.retain(|line| !gone.contains(line));
        record.extras.clear();
        record.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extras_of_a_tie_are_replaced_by_those_of_device_wheels() {
        let version: Version = "1.0".parse().unwrap();
        let mut record = TieRecord::new(&"7.14.0".parse().unwrap());
        record.extras = vec!["device".to_owned(), "device-gfx942".to_owned()];
        record.requires = [
            "rocm[libraries]==7.14.*",
            "rocm[device]==7.14.*; extra == \"device\"",
            "rocm[device-gfx942]==7.14.*; extra == \"device-gfx942\"",
        ]
        .map(str::to_owned)
        .to_vec();
        let name: PackageFilename = "amd_fw_device_gfx942-1.0.tar.gz".parse().unwrap();
        let devices = [DeviceWheelPlan {
            target: "gfx942".parse().unwrap(),
            file: name.to_string(),
            archives: Vec::new(),
            databases: Vec::new(),
            name,
            texts: Vec::new(),
        }];
        let extras = HostExtras::new(&devices, None, &version, Some(&record));
        assert_eq!(extras.extras, ["device-all", "device-gfx942"]);
        assert_eq!(
            extras.requires,
            [
                "amd-fw-device-gfx942==1.0; extra == \"device-all\"",
                "amd-fw-device-gfx942==1.0; extra == \"device-gfx942\""
            ]
        );
        assert_eq!(extras.replaced.requires.len(), 2);
        let left = extras.record(record).unwrap();
        assert!(
            left.contains("rocm[libraries]") && !left.contains("device"),
            "{left}"
        );
    }
}
