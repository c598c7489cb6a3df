//! [`PackageInventory`]: the packages and files of a set; [`Comparison`]: the changes between two.
//!
//! Packages are matched by project and files by path without the version, so that two nightly
//! builds can be compared. `check --baseline` turns the changes into findings, `summary` into a
//! table.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    check::{
        facts::{NAMES, SetFacts},
        path_facts,
    },
    wheel::DistName,
};

/// The packages of a set, by normalized name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageInventory {
    pub packages: BTreeMap<String, Stock>,
}

/// The facts about one package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// The total size of its wheels and sdists.
    pub size: Option<u64>,
    /// Its members by path, without the `.dist-info` directory. `None` if only the index could be
    /// read.
    pub members: Option<BTreeMap<String, BaselineFile>>,
}

/// One file in a package. Files with the same CRC-32 and length are treated as equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaselineFile {
    pub len: u64,
    pub crc: u64,
}

/// The changes by package. Unchanged packages are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Comparison {
    pub packages: BTreeMap<String, BaselineChange>,
    pub old_size: u64,
    pub new_size: u64,
}

/// The changes of one package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct BaselineChange {
    /// `None` for a new package.
    pub old_size: Option<u64>,
    /// `None` for a package that was removed.
    pub new_size: Option<u64>,
    /// Paths. Empty if the members of one side are unknown.
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub changed: Vec<String>,
    /// Targets that occur in paths now but did not before.
    pub new_targets: Vec<String>,
}

impl PackageInventory {
    /// The inventory of a set that was read.
    pub fn of(set: &SetFacts) -> Self {
        let mut this = Self::default();
        for wheel in &set.wheels {
            let Ok(name) = &wheel.name else { continue };
            let members = wheel.contents();
            let members = members.map(|(member, it)| (&*member.path, it.len, member.crc));
            this.add(name.name(), Some(wheel.size), Some(members));
        }
        for sdist in &set.sdists {
            if let Ok(name) = &sdist.name {
                this.add_package(name.name(), Some(sdist.size));
            }
        }
        this
    }

    /// Adds a package of which at most the size is known.
    pub fn add_package(&mut self, project: &DistName, size: Option<u64>) {
        self.add(project, size, None::<[(&str, u64, u64); 0]>);
    }

    /// Adds a package with its members: path, length and CRC-32.
    pub fn add<'a>(
        &mut self,
        project: &DistName,
        size: Option<u64>,
        members: Option<impl IntoIterator<Item = (&'a str, u64, u64)>>,
    ) {
        let stock = self
            .packages
            .entry(project.normalized().to_owned())
            .or_default();
        // Wheels for several platforms belong to the same package.
        if let Some(size) = size {
            stock.size = Some(stock.size.unwrap_or(0).saturating_add(size));
        }
        if let Some(members) = members {
            let own = members.into_iter().filter(|(path, ..)| !is_metadata(path));
            let known = stock.members.get_or_insert_default();
            known.extend(own.map(|(path, len, crc)| (path.to_owned(), BaselineFile { len, crc })));
        }
    }

    /// The targets that have a device package.
    pub fn targets(&self) -> BTreeSet<&str> {
        let names = self.packages.keys();
        names
            .filter_map(|name| name.strip_prefix(&NAMES.device))
            .collect()
    }
}

/// Whether a path is in `.dist-info`. These differ in each build: the name of the directory
/// contains the version, and RECORD the hashes of all files.
fn is_metadata(path: &str) -> bool {
    let top = path.split('/').next().unwrap_or_default();
    top.ends_with(".dist-info")
}

impl Comparison {
    pub fn new(old: &PackageInventory, new: &PackageInventory) -> Self {
        let mut this = Self::default();
        let names: BTreeSet<&String> = old.packages.keys().chain(new.packages.keys()).collect();
        for name in names {
            let (before, after) = (old.packages.get(name), new.packages.get(name));
            let size = |stock: Option<&Stock>| stock.and_then(|stock| stock.size);
            this.old_size = this.old_size.saturating_add(size(before).unwrap_or(0));
            this.new_size = this.new_size.saturating_add(size(after).unwrap_or(0));
            if before != after {
                this.packages
                    .insert(name.clone(), BaselineChange::new(before, after));
            }
        }
        this
    }
}

impl BaselineChange {
    fn new(before: Option<&Stock>, after: Option<&Stock>) -> Self {
        let size = |stock: &Stock| stock.size.unwrap_or(0);
        let mut this = Self {
            old_size: before.map(size),
            new_size: after.map(size),
            ..Self::default()
        };
        let members = |stock: Option<&'_ Stock>| stock.and_then(|stock| stock.members.clone());
        let (Some(mut before), Some(after)) = (members(before), members(after)) else {
            return this;
        };
        let targets = |paths: &[String]| -> BTreeSet<String> {
            let targets = paths.iter().flat_map(|path| path_facts::targets(path));
            targets.map(|target| target.to_string()).collect()
        };
        let known = targets(&before.keys().cloned().collect::<Vec<_>>());
        for (path, file) in after {
            match before.remove(&path) {
                None => this.added.push(path),
                Some(old) if old != file => this.changed.push(path),
                Some(_) => {}
            }
        }
        this.removed = before.into_keys().collect();
        let added = targets(&this.added);
        this.new_targets = added.difference(&known).cloned().collect();
        this
    }

    /// The growth in percent. `None` if the package is new or was removed.
    pub fn growth(&self) -> Option<u64> {
        let (old, new) = (self.old_size?, self.new_size?);
        let more = u128::from(new.checked_sub(old)?);
        let percent = more.saturating_mul(100).checked_div(old.into())?;
        u64::try_from(percent).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, size, and the paths and lengths of its members.
    type Sample<'a> = (&'a str, u64, &'a [(&'a str, u64)]);

    fn inventory(packages: &[Sample<'_>]) -> PackageInventory {
        let mut this = PackageInventory::default();
        for (name, size, members) in packages {
            let members = members.iter().map(|(path, len)| (*path, *len, 0));
            this.add(&name.parse().unwrap(), Some(*size), Some(members));
        }
        this
    }

    #[test]
    fn what_changed_is_told_by_package_without_versions() {
        let old = inventory(&[
            (
                "rocm_sdk_core",
                100,
                &[
                    ("c-1.dist-info/RECORD", 1),
                    ("c/a", 1),
                    ("c/b", 1),
                    ("c/k_gfx942.co", 1),
                ],
            ),
            ("rocm-sdk-device-gfx90a", 10, &[]),
            ("rocm-profiler", 5, &[("p/a", 1)]),
        ]);
        let new = inventory(&[
            (
                "rocm-sdk-core",
                131,
                &[
                    ("c-2.dist-info/RECORD", 9),
                    ("c/a", 2),
                    ("c/k_gfx942.co", 1),
                    ("c/l_gfx1100.co", 1),
                ],
            ),
            ("rocm-profiler", 5, &[("p/a", 1)]),
        ]);
        let comparison = Comparison::new(&old, &new);
        insta::assert_snapshot!(serde_json::to_string_pretty(&comparison).unwrap(), @r#"
        {
          "packages": {
            "rocm-sdk-core": {
              "old-size": 100,
              "new-size": 131,
              "added": [
                "c/l_gfx1100.co"
              ],
              "removed": [
                "c/b"
              ],
              "changed": [
                "c/a"
              ],
              "new-targets": [
                "gfx1100"
              ]
            },
            "rocm-sdk-device-gfx90a": {
              "old-size": 10,
              "new-size": null,
              "added": [],
              "removed": [],
              "changed": [],
              "new-targets": []
            }
          },
          "old-size": 115,
          "new-size": 136
        }
        "#);
        assert_eq!(comparison.packages["rocm-sdk-core"].growth(), Some(31));
        assert_eq!(comparison.packages["rocm-sdk-device-gfx90a"].growth(), None);
        let targets: Vec<&str> = old.targets().into_iter().collect();
        assert_eq!(targets, ["gfx90a"]);
    }

    #[test]
    fn an_index_alone_tells_sizes_and_no_files() {
        let mut old = PackageInventory::default();
        old.add_package(&"rocm-sdk-core".parse().unwrap(), Some(50));
        let new = inventory(&[("rocm-sdk-core", 75, &[("c/a", 1)])]);
        let change = &Comparison::new(&old, &new).packages["rocm-sdk-core"];
        assert_eq!((change.growth(), change.added.len()), (Some(50), 0));
        assert!(Comparison::new(&old, &old).packages.is_empty());
    }
}
