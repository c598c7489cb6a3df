//! `artifact_manifest.txt`: the base directories of an artifact, which are merged into one install
//! tree. [`TherockManifest`] is another file: it describes the whole build.

use std::{collections::BTreeSet, fmt, ops::Bound};

use crate::{
    error::{Invalid, Result, anyhow, bail, ensure},
    relpath::RelPath,
};

mod therock;

pub use therock::{Submodule, TherockManifest};

/// The base directories in their order, one per line, such as `math-libs/BLAS/rocBLAS/stage`. None
/// occurs twice or is inside of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtifactManifest {
    basedirs: Vec<RelPath>,
    known: BTreeSet<RelPath>,
}

impl ArtifactManifest {
    /// The name of the file. CI writes it as the first member of an archive.
    pub const FILE_NAME: &str = "artifact_manifest.txt";
    /// Size limit. Real manifests are far smaller.
    pub const MAX_LEN: usize = 1 << 20;

    /// Parses the file. Repeated lines are ignored.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        ensure!(
            bytes.len() <= Self::MAX_LEN,
            "more than {} bytes",
            Self::MAX_LEN
        );
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => bail!("not UTF-8 from byte {} on", error.valid_up_to()),
        };
        let mut manifest = Self::default();
        for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.is_empty()) {
            ensure!(
                !text.contains(char::is_control),
                "line {line}: a control character: {text:?}"
            );
            let basedir: Result<RelPath, Invalid> = text.parse();
            let basedir = basedir.map_err(|error| anyhow!("line {line}: {error}"))?;
            if manifest.known.insert(basedir.clone()) {
                manifest.basedirs.push(basedir);
            }
        }
        for inner in &manifest.basedirs {
            let mut above = inner.ancestors();
            if let Some(outer) = above.find(|above| manifest.known.contains(above)) {
                bail!("`{inner}` lies inside `{outer}`, so its files would be in two places");
            }
        }
        Ok(manifest)
    }

    pub fn basedirs(&self) -> &[RelPath] {
        &self.basedirs
    }

    /// The base directory that a path of the artifact is in, and the path relative to it.
    pub fn split(&self, path: &RelPath) -> Option<(&RelPath, RelPath)> {
        let basedir = path.ancestors().find_map(|above| self.known.get(&above))?;
        Some((basedir, path.strip_prefix(basedir)?))
    }

    /// Whether a path is a base directory or a directory above one.
    pub fn leads_to_basedir(&self, path: &RelPath) -> bool {
        let below = format!("{path}/");
        let mut from = self
            .known
            .range::<str, _>((Bound::Included(below.as_str()), Bound::Unbounded));
        self.known.contains(path)
            || from
                .next()
                .is_some_and(|basedir| basedir.as_str().starts_with(&below))
    }
}

impl fmt::Display for ArtifactManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.basedirs
            .iter()
            .try_for_each(|basedir| writeln!(f, "{basedir}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        text.parse().unwrap()
    }

    fn manifest(text: &str) -> ArtifactManifest {
        ArtifactManifest::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn lines_are_base_directories_in_their_order() {
        let text = "math-libs/BLAS/rocBLAS/stage\n\nbase/stage\r\nmath-libs/BLAS/rocBLAS/stage\n";
        let manifest = manifest(text);
        assert_eq!(
            manifest.to_string(),
            "math-libs/BLAS/rocBLAS/stage\nbase/stage\n"
        );
        assert_eq!(ArtifactManifest::parse(b"").unwrap().basedirs(), []);
    }

    #[test]
    fn hostile_lines_are_refused_in_words() {
        let refused: [&[u8]; 9] = [
            b"base/stage\n/etc\n",
            b"../other\n",
            b".\n",
            b"base/stage/\n",
            b"C:\\stage\n",
            b" \n\0\n",
            b"a\rb\n",
            b"base/\xff\n",
            b"a/b\na-b\nx\na\n",
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| format!("{:#}", ArtifactManifest::parse(text).unwrap_err()))
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        line 2: an absolute path: "/etc"
        line 1: a path with `..`: "../other"
        line 1: a path that is not in its shortest form: "."
        line 1: a path that is not in its shortest form: "base/stage/"
        line 1: a backslash in a path: "C:\\stage"
        line 2: a control character: "\0"
        line 1: a control character: "a\rb"
        not UTF-8 from byte 5 on
        `a/b` lies inside `a`, so its files would be in two places
        "#);
        let long = vec![b'\n'; ArtifactManifest::MAX_LEN + 1];
        insta::assert_snapshot!(ArtifactManifest::parse(&long).unwrap_err(), @"more than 1048576 bytes");
    }

    #[test]
    fn a_path_belongs_to_the_base_directory_above_it() {
        let manifest = manifest("a/stage\na/stage.2\n");
        let split = |text: &str| {
            let path = path(text);
            let (basedir, rest) = manifest.split(&path)?;
            Some(format!("{basedir} {rest}"))
        };
        assert_eq!(split("a/stage/lib/x").as_deref(), Some("a/stage lib/x"));
        assert_eq!(split("a/stage.2/x").as_deref(), Some("a/stage.2 x"));
        for outside in ["a", "a/stage", "a/stag/x", "b/stage/x"] {
            assert_eq!(split(outside), None, "{outside}");
        }
    }

    #[test]
    fn only_the_way_to_a_base_directory_leads_there() {
        let manifest = manifest("a.b/x\na/b/stage\nab/x\n");
        for on_the_way in ["a", "a/b", "a/b/stage", "a.b", "ab"] {
            assert!(manifest.leads_to_basedir(&path(on_the_way)), "{on_the_way}");
        }
        for off in ["b", "a/b/stage/lib", "a/", "a/bc", "abc"] {
            let off = off.trim_end_matches('/').to_owned() + "/c";
            assert!(!manifest.leads_to_basedir(&path(&off)), "{off}");
        }
    }
}
