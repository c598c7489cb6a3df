//! [`BundledRocm`]: the ROCm packages whose files a wheel of another project has in it.

use std::{collections::BTreeSet, path::Path};

use itertools::Itertools as _;
use serde::Deserialize;

use super::package_file::is_ours;
use crate::policy::{DistNames, catalog::CATALOG};
use rocwheel_base::digest::Sha256;
use rocwheel_wheel::{DistName, PackageFilename};

/// What `framework tie` has done to a wheel, in its `.dist-info`.
pub const TIE_RECORD: &str = "rocm_tie.json";

/// The version of the format of [`TIE_RECORD`].
pub const TIE_SCHEMA: &str = "rocwheel-tie-v1";

/// The ROCm packages whose files `framework tie --bundle` has put into a wheel.
///
/// **Contract:** a value exists only for a wheel that has these files. `rocm_tie.json` alone proves nothing, because any
/// program can write it: it has a digest of the files that `tie` wrote, which must be the digest of the files of the wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundledRocm {
    /// The file names of the packages.
    pub packages: Vec<String>,
}

impl BundledRocm {
    /// Reads `rocm_tie.json`. `files` are the paths and the digests that RECORD has. `None` for a wheel without files of
    /// ROCm, and for a wheel that only says that it has some.
    pub fn read<'a>(
        tie_record: &[u8],
        files: impl IntoIterator<Item = (&'a str, Option<Sha256>)>,
    ) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        struct Fields {
            schema: String,
            bundles: Vec<String>,
            bundled_files: Sha256,
        }
        // A wheel that was tied without `--bundle` lacks two of the fields.
        let Fields { schema, bundles, bundled_files } = serde_json::from_slice(tie_record).ok()?;
        let names: Vec<PackageFilename> =
            bundles.iter().map(|file| file.parse()).collect::<Result<_, _>>().ok()?;
        let selector = &DistNames::built_in().selector;
        let is_selector = |it: &PackageFilename| it.name.normalized() == selector;
        let is_whole = names.iter().any(is_selector) && names.iter().all(|it| is_ours(&it.name));
        let files: Vec<(&str, Option<Sha256>)> =
            files.into_iter().filter(|(path, _)| is_path_of_ours(path)).collect();
        let mut tops = files.iter().map(|(path, _)| top_of(path));
        let is_named =
            tops.all(|top| names.iter().any(|package| is_directory_of(top, &package.name)));
        let is_proved = schema == TIE_SCHEMA
            && is_whole
            && is_named
            && Self::digest_of(files) == Some(bundled_files);
        is_proved.then_some(Self { packages: bundles })
    }

    /// The digest of the files in the directories of ROCm packages, in any order: each line is a SHA-256 and a path, sorted by
    /// path. What Python has compiled is left out. `None` if the digest of a file is not known, or if no file is there.
    pub fn digest_of<'a>(
        files: impl IntoIterator<Item = (&'a str, Option<Sha256>)>,
    ) -> Option<Sha256> {
        let lines: BTreeSet<(&str, Sha256)> = files
            .into_iter()
            .filter(|(path, _)| is_path_of_ours(path))
            .map(|(path, sha256)| Some((path, sha256?)))
            .collect::<Option<_>>()?;
        let text = lines.iter().map(|(path, sha256)| format!("{sha256}  {path}")).join("\n");
        (!text.is_empty()).then(|| Sha256::of(text.as_bytes()))
    }
}

fn top_of(path: &str) -> &str {
    path.split('/').next().unwrap_or_default()
}

fn is_path_of_ours(path: &str) -> bool {
    let is_compiled = Path::new(path).extension().is_some_and(|it| it == "pyc");
    is_directory_of_ours(top_of(path)) && !is_compiled
}

/// Whether a package of ours has its files in a directory of `site-packages`: `rocm-sdk-core` in `_rocm_sdk_core`, and its
/// Python module in `rocm_sdk_core`.
fn is_directory_of(top: &str, package: &DistName) -> bool {
    let spec = CATALOG.packages().iter().find(|spec| spec.python == top.to_ascii_lowercase());
    let directory = top.strip_prefix('_').unwrap_or(top);
    spec.is_some_and(|spec| spec.has_dist(package.normalized()))
        || directory.parse::<DistName>().is_ok_and(|directory| directory == *package)
}

/// Whether packages of ours are installed below this directory of `site-packages`, in any case: some file
/// systems do not distinguish case.
pub fn is_directory_of_ours(top: &str) -> bool {
    let directory = top.to_ascii_lowercase();
    let is_module = CATALOG.packages().iter().any(|package| package.python == directory);
    // The files of `rocm-sdk-core` are in `_rocm_sdk_core`, and its Python module is `rocm_sdk_core`.
    let project = directory.strip_prefix('_').and_then(|name| name.parse::<DistName>().ok());
    is_module || project.is_some_and(|project| is_ours(&project))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILES: [&str; 4] = [
        "fw/__init__.py",
        "rocm_sdk/__init__.py",
        "rocm_sdk_core/__init__.py",
        "_rocm_sdk_core/lib/a.so",
    ];
    const PACKAGES: [&str; 2] = ["rocm-1.0.tar.gz", "rocm_sdk_core-1.0-py3-none-linux_x86_64.whl"];

    fn files<'a>(paths: &'a [&'a str]) -> Vec<(&'a str, Option<Sha256>)> {
        paths.iter().map(|path| (*path, Some(Sha256::of(path.as_bytes())))).collect()
    }

    fn read(schema: &str, bundles: &[&str], digest: Option<Sha256>, paths: &[&str]) -> bool {
        let record = json!({ "schema": schema, "bundles": bundles, "bundled-files": digest });
        BundledRocm::read(record.to_string().as_bytes(), files(paths)).is_some()
    }

    #[test]
    fn a_record_is_believed_only_for_the_files_that_tie_wrote() {
        let digest = BundledRocm::digest_of(files(&FILES));
        assert!(read(TIE_SCHEMA, &PACKAGES, digest, &FILES));
        // Files of the wheel itself, and what Python compiles, do not matter.
        let more =
            [&FILES[1..], &["rocm_sdk/__pycache__/__init__.cpython-312.pyc", "x.py"]].concat();
        assert!(read(TIE_SCHEMA, &PACKAGES, digest, &more));
        assert!(!read("rocwheel-tie-v2", &PACKAGES, digest, &FILES));
        assert!(!read(TIE_SCHEMA, &PACKAGES[1..], digest, &FILES));
        assert!(!read(TIE_SCHEMA, &["x"], digest, &FILES));
        assert!(!read(TIE_SCHEMA, &[PACKAGES[0], "torch-1.0.tar.gz"], digest, &FILES));
        assert!(!read(TIE_SCHEMA, &PACKAGES, None, &FILES));
        assert!(!read(TIE_SCHEMA, &PACKAGES, digest, &FILES[..3]));
        assert!(!read(
            TIE_SCHEMA,
            &PACKAGES,
            digest,
            &[&FILES[..], &["rocm_sdk/mine.py"]].concat()
        ));
        // A directory of a package that the record does not name.
        let other = [&FILES[..], &["_rocm_sdk_libraries/lib/b.so"]].concat();
        let digest = BundledRocm::digest_of(files(&other));
        assert!(!read(TIE_SCHEMA, &PACKAGES, digest, &other));
    }
}
