//! The device code of a library or a program for the host, whether it is in it or was taken out.

use std::{collections::BTreeSet, ops::Range};

use crate::{
    check::{
        facts::{Carried, HostCode, WindowsFile},
        observe::{
            bundles::{Bundles, Found},
            windows::Windows,
        },
    },
    error::{Error, Result, bail, ensure},
    kpack::{
        Region,
        bundle::{self, Bundle},
        host::{self, Look},
    },
};

/// A binary while it is examined: the parts of it that were kept, and the bundles that were seen.
pub(super) struct Binary<'a> {
    pub(super) file: &'a Windows,
    pub(super) bundles: &'a Bundles,
}

impl Binary<'_> {
    /// Of an ELF file; `is_split` says that it has a marker.
    pub(super) fn of_elf(&self, is_split: bool) -> HostCode {
        let found = if is_split {
            host::references(self.file).map(HostCode::Split)
        } else {
            self.fat()
        };
        found.unwrap_or_else(|error| damaged(&error))
    }

    /// Of a file for Windows, with what it is linked with.
    pub(super) fn of_windows(&self) -> WindowsFile {
        let code = self.code_of_windows();
        let needed = match code {
            HostCode::None | HostCode::Damaged(_) => Ok(BTreeSet::new()),
            HostCode::Split(_) | HostCode::Fat(_) => host::imports(self.file),
        };
        WindowsFile {
            code,
            needed: needed.map_err(|error| format!("{error:#}")),
        }
    }

    fn code_of_windows(&self) -> HostCode {
        let found = match host::windows(self.file) {
            Ok(host::Windows::Plain) => Ok(HostCode::None),
            Ok(host::Windows::Split(references)) => Ok(HostCode::Split(references)),
            Ok(host::Windows::Fat { code, wrapped }) => self.wrapped(&code, &wrapped),
            Err(error) => Err(error),
        };
        found.unwrap_or_else(|error| damaged(&error))
    }

    fn fat(&self) -> Result<HostCode> {
        let known = |_: &Region<'_, Windows>, code: &Range<u64>| -> Result<Vec<Bundle>> {
            let found = self.found(code)?.into_iter();
            Ok(found.map(|it| it.bundle).collect())
        };
        let code = match host::look_with(self.file, &known)? {
            Look::Plain | Look::Split => return Ok(HostCode::None),
            Look::Fat(fat) => fat.code,
            // Code that no wrapper leads to is loaded by other means.
            Look::Stuck { code, .. } if !code.is_empty() => code,
            Look::Stuck { why, .. } => bail!("{why}"),
        };
        self.carried(&code)
    }

    /// Every wrapper leads to a bundle.
    fn wrapped(&self, code: &Range<u64>, wrapped: &[u64]) -> Result<HostCode> {
        let found = self.found(code)?;
        let lost = wrapped
            .iter()
            .find(|place| !found.iter().any(|it| it.bundle.offset == **place));
        ensure!(
            lost.is_none(),
            "a wrapper that leads to no bundle: to {:#x}",
            lost.unwrap_or(&0)
        );
        self.carried(code)
    }

    fn carried(&self, code: &Range<u64>) -> Result<HostCode> {
        let mut carried = Carried::default();
        for found in self.found(code)? {
            for (target, bytes) in found.parts {
                carried.add(target, bytes);
            }
        }
        Ok(HostCode::Fat(carried))
    }

    /// The bundles of a section, seen from its begin.
    fn found(&self, code: &Range<u64>) -> Result<Vec<Found>> {
        if self.file.whole().is_none() {
            return self.bundles.within(code);
        }
        let len = code.end.saturating_sub(code.start);
        let section = Region::new(self.file, "device code", code.start, len)?;
        let found = bundle::find(&section)?.into_iter();
        let found = found.map(|bundle| {
            let parts = bundle::parts(&section, &bundle)?;
            Ok(Found { bundle, parts })
        });
        found.collect()
    }
}

fn damaged(error: &Error) -> HostCode {
    HostCode::Damaged(format!("{error:#}"))
}
