//! What a set goes without on purpose: `--without`, and `without` in `packages.toml`.

use std::collections::BTreeSet;

use crate::{
    error::{Result, bail, ensure},
    package::{
        catalog::{Catalog, Kind, PackageSpec},
        promise::ArtifactPart,
    },
};

impl Catalog {
    /// The policy without some things. A name is that of an optional package (`profiler`), of an
    /// artifact (`fft`), of a library (`hipsparselt`) or command (`rocgdb`), or the path of a file.
    pub fn without(mut self, names: &[String]) -> Result<Self> {
        for name in names {
            let mut is_known = false;
            for package in &mut self.packages {
                if *name == package.name || *name == package.dist.python_template() {
                    let is_optional = match package.kind {
                        Kind::Runtime => !package.required,
                        Kind::Devel => true,
                        Kind::Selector | Kind::Device => false,
                    };
                    ensure!(is_optional, "no set goes without package `{name}`");
                    package.omit();
                    is_known = true;
                }
                is_known |= package.forget(name);
            }
            if !is_known {
                bail!("no package, artifact, library or command is called `{name}`");
            }
        }
        self.without.extend(names.iter().cloned());
        Ok(self)
    }

    /// The names of what this set goes without.
    pub fn omitted(&self) -> &BTreeSet<String> {
        &self.without
    }
}

impl PackageSpec {
    fn omit(&mut self) {
        self.is_omitted = true;
        self.take.clear();
        self.scripts.clear();
        self.libraries.clear();
        self.files.clear();
    }

    /// Takes an artifact, a library, a command or a file out; says whether the package had it.
    fn forget(&mut self, name: &str) -> bool {
        let before = self.entries();
        for take in &mut self.take {
            take.artifacts.remove(name);
        }
        let is_of_it =
            |part: &Option<ArtifactPart>| part.as_ref().is_some_and(|part| part.name == name);
        self.scripts
            .retain(|script| script.name != name && !is_of_it(&script.artifact));
        self.libraries
            .retain(|library| library.name != name && !is_of_it(&library.artifact));
        self.files
            .retain(|file| file.path != name && !is_of_it(&file.artifact));
        self.entries() < before
    }

    fn entries(&self) -> usize {
        let rows = self.scripts.len() + self.libraries.len() + self.files.len();
        self.artifacts().count() + rows
    }
}
