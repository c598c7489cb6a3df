//! Leaves packages, artifacts, libraries, commands or files out of a set: `--without`.

use std::collections::BTreeSet;

use crate::policy::{
    catalog::{Catalog, PackageKind, PackageSpec},
    required_file::ArtifactPart,
};
use rocwheel_base::error::{Result, ensure};

impl Catalog {
    /// Removes something from the policy, by name: an optional package (`profiler`), an artifact
    /// (`fft`), a library (`hipsparselt`), a command (`rocgdb`), or the path of a file. Device
    /// packages go with the package that they are laid over.
    pub fn without(mut self, names: &[String]) -> Result<Self> {
        let unchanged = self.clone();
        for name in names {
            for package in &mut self.packages {
                if package.is_called(name) {
                    let is_optional = package.is_optional();
                    ensure!(is_optional, "no set goes without package `{name}`");
                    package.omit();
                }
                package.forget(name);
            }
            // The names before it may have removed it: a library goes with its artifact.
            let mut known = unchanged.packages.iter();
            ensure!(
                known.any(|it| it.is_called(name) || it.clone().forget(name)),
                "no package, artifact, library or command is called `{name}`"
            );
        }
        // Device code is of use only in the directory of the package that it is laid over.
        if self.overlaid()?.is_omitted {
            let packages = self.packages.iter_mut();
            let device = packages.filter(|it| it.kind == PackageKind::Device);
            device.for_each(PackageSpec::omit);
        }
        self.without.extend(names.iter().cloned());
        Ok(self)
    }

    /// The names that were removed from the policy.
    pub fn omitted(&self) -> &BTreeSet<String> {
        &self.without
    }
}

impl PackageSpec {
    fn is_called(&self, name: &str) -> bool {
        name == self.name || name == self.dist.python_template()
    }

    pub fn is_optional(&self) -> bool {
        let is_optional = self.kind == PackageKind::Runtime && !self.required;
        is_optional || self.kind == PackageKind::Devel
    }

    fn omit(&mut self) {
        self.is_omitted = true;
        self.take.clear();
        self.scripts.clear();
        self.libraries.clear();
        self.files.clear();
    }

    /// Removes an artifact, a library, a command or a file. Returns whether the package had it.
    fn forget(&mut self, name: &str) -> bool {
        let entries = |it: &Self| {
            it.artifacts().count() + it.scripts.len() + it.libraries.len() + it.files.len()
        };
        let before = entries(self);
        for take in &mut self.take {
            take.artifacts.remove(name);
        }
        let is_of_it =
            |part: &Option<ArtifactPart>| part.as_ref().is_some_and(|part| part.name == name);
        self.scripts.retain(|script| script.name != name && !is_of_it(&script.artifact));
        self.libraries.retain(|library| library.name != name && !is_of_it(&library.artifact));
        self.files.retain(|file| file.path != name && !is_of_it(&file.artifact));
        entries(self) < before
    }
}
