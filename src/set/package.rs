//! `PackageFile`: a file of a set, on this machine or in a store, read as streams.

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
    /// Why it could not be read, which is no finding: the next time it may be.
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

    /// The same under the name of the directory that it lies in.
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

    /// An error if reading failed for a reason that is not in the file.
    pub fn outcome(&self) -> Result<()> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match failure.take() {
            Some(error) => Err(error).with_context(|| format!("read `{}`", self.name)),
            None => Ok(()),
        }
    }

    /// The error that goes on through the reader of the format, and is told apart there no more.
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

    /// The bytes of a range, in order. It ends early where the package does.
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

/// Whether a project is ours. A set may also hold packages of others, such as torch, and an index
/// what all of them depend on.
pub fn is_ours(project: &DistName) -> bool {
    let name = project.normalized();
    name == "rocm" || name.starts_with("rocm-")
}

const WHEEL: &str = ".whl";
const SDIST: &str = ".tar.gz";

pub(super) fn is_wheel(name: &str) -> bool {
    name.ends_with(WHEEL)
}

/// Whether a name is that of a wheel or an sdist; anything else may lie beside them.
pub(super) fn is_package(name: &str) -> bool {
    let ends = |end: &str| name.len() > end.len() && name.ends_with(end);
    !name.starts_with('.') && (ends(WHEEL) || ends(SDIST))
}

/// The project and the version that a file name tells.
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
