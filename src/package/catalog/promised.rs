//! The promises of a package: the files that its Python code finds by name. See
//! [`promise`](crate::package::promise).

use crate::{
    glob::Glob,
    package::{
        catalog::PackageSpec,
        promise::{ArtifactPart, Promise, PromiseKind},
    },
    run::Platform,
};

impl PackageSpec {
    /// What the package must contain on a platform.
    pub fn promises(&self, platform: Platform) -> Vec<Promise> {
        let promise = |kind, pattern, artifact: &Option<ArtifactPart>| Promise {
            package: self.name.clone(),
            kind,
            pattern,
            artifact: artifact.clone(),
        };
        let required = self.libraries.iter().filter(|library| !library.optional);
        let libraries = required.filter_map(|library| {
            let kind = PromiseKind::Library(library.name.clone());
            Some(promise(kind, library.pattern(platform)?, &library.artifact))
        });
        let required = self.scripts.iter().filter(|script| !script.if_present);
        let scripts = required.filter(|script| script.is_on(platform));
        let scripts = scripts.filter_map(|script| {
            let kind = PromiseKind::Command(script.name.clone());
            let program = Glob::new(script.program(platform)?);
            Some(promise(kind, program, &script.artifact))
        });
        let is_here = |only: Option<Platform>| only.is_none_or(|only| only == platform);
        let files = self.files.iter().filter(|file| is_here(file.platform));
        let files = files.map(|file| {
            let pattern = Glob::new(file.path.as_str());
            promise(PromiseKind::File, pattern, &file.artifact)
        });
        libraries.chain(scripts).chain(files).collect()
    }
}
