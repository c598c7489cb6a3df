//! [`PackageFile`]: a wheel or sdist of a set at any place, read as streams; and the rules for
//! names of packages.

use std::{
    io::{self, Read},
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    error::{Context as _, Error, Result, anyhow},
    location::Key,
    store::{Span, Store},
    version::Version,
    wheel::{DistName, SdistFilename, WheelFilename},
};

/// One wheel or sdist.
#[derive(Debug)]
pub struct PackageFile {
    name: String,
    len: u64,
    store: Arc<dyn Store>,
    key: Key,
    /// The first error of the store while reading. It is not a finding about the package, because
    /// another attempt may succeed.
    failure: Mutex<Option<Error>>,
}

impl PackageFile {
    pub(super) fn object(store: &Arc<dyn Store>, key: &Key, len: u64) -> Self {
        Self {
            name: key.file_name().to_owned(),
            len,
            store: Arc::clone(store),
            key: key.clone(),
            failure: Mutex::default(),
        }
    }

    /// Puts the directory of its family before the name: `gfx94X-dcgpu/rocm-7.13.0.tar.gz`.
    #[must_use]
    pub(super) fn in_directory(mut self, directory: &str) -> Self {
        self.name = format!("{directory}/{}", self.name);
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_wheel(&self) -> bool {
        is_wheel(&self.name)
    }

    /// The error of the store, if one occurred while reading. Call it after reading the package,
    /// before using any findings about it.
    pub fn outcome(&self) -> Result<()> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match failure.take() {
            Some(error) => Err(error).with_context(|| format!("failed to read `{}`", self.name)),
            None => Ok(()),
        }
    }

    /// Records an error of the store, and returns it as an `io::Error`. The reader of the format
    /// reports that one like damage in the file, so the original is kept for `outcome`.
    fn failed(&self, error: Error) -> io::Error {
        let shown = io::Error::other(format!("{error:#}"));
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        shown
    }
}

impl PackageFile {
    pub fn size(&self) -> u64 {
        self.len
    }

    /// Streams the bytes of a range. The stream ends early at the end of the package.
    pub fn stream(&self, range: Range<u64>) -> io::Result<Box<dyn Read + '_>> {
        let len = range.end.min(self.len).saturating_sub(range.start);
        let reader = self.store.get(&self.key, Span::Between(range));
        let reader = reader.map_err(|error| self.failed(error.into()))?;
        Ok(Box::new(PackageStream {
            reader: reader.take(len),
            package: self,
        }))
    }
}

struct PackageStream<'a> {
    reader: io::Take<Box<dyn Read + Send>>,
    package: &'a PackageFile,
}

impl Read for PackageStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer);
        let count = count.map_err(|error| self.package.failed(error.into()))?;
        if count == 0 && self.reader.limit() > 0 && !buffer.is_empty() {
            let error = anyhow!("it became shorter while it was read");
            return Err(self.package.failed(error));
        }
        Ok(count)
    }
}

/// Whether a project is one of the ROCm packages. A set may also hold other packages, such as
/// torch, and an index their dependencies.
pub fn is_ours(project: &DistName) -> bool {
    let name = project.normalized();
    name == "rocm" || name.starts_with("rocm-")
}

const WHEEL: &str = ".whl";
const SDIST: &str = ".tar.gz";

pub(super) fn is_wheel(name: &str) -> bool {
    name.ends_with(WHEEL)
}

/// Whether a file is a wheel or an sdist by its name. Other files in the directory are ignored.
pub(super) fn is_package(name: &str) -> bool {
    let ends = |end: &str| name.len() > end.len() && name.ends_with(end);
    !name.starts_with('.') && (ends(WHEEL) || ends(SDIST))
}

/// Project and version of a package, from its file name. `None` if the name is invalid.
pub fn identity(file: &str) -> Option<(DistName, Version)> {
    let file = file.rsplit('/').next()?;
    if is_wheel(file) {
        let name: WheelFilename = file.parse().ok()?;
        Some((name.name().clone(), name.version().clone()))
    } else {
        let name: SdistFilename = file.parse().ok()?;
        Some((name.name().clone(), name.version().clone()))
    }
}
