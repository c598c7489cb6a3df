//! Names of artifacts, `blas_lib_gfx942`, and of their archives, `blas_lib_gfx942.tar.zst`.

use std::{
    borrow::Cow,
    cmp::Ordering,
    path::{Path, PathBuf},
    str::FromStr,
};

use strum::VariantArray;

use rocwheel_base::{
    error::{Context as _, Hint as _, Invalid, Result},
    relpath::RelPath,
    target::Scope,
};
use rocwheel_wheel::tar::ArchiveFormat;

/// The name of an artifact: `{name}_{component}_{scope}`. Names are sorted as this text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{name}_{component}_{scope}")]
pub struct ArtifactName {
    /// Letters, digits, `-`, `.` and `+`, beginning with a letter or a digit, such as `core-hip`.
    pub name: String,
    pub component: Component,
    pub scope: Scope,
}

/// The kind of files in an artifact. Each file of a project is in the first component that claims
/// it.
#[derive(
    serde::Deserialize,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
#[strum(parse_err_ty = Invalid, parse_err_fn = unknown_component)]
pub enum Component {
    Lib,
    Run,
    Dbg,
    Dev,
    Doc,
    Test,
}

/// The name of an archive, `blas_lib_gfx942.tar.zst`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
#[display("{artifact}{}", format.extension())]
pub struct ArchiveName {
    pub artifact: ArtifactName,
    pub format: ArchiveFormat,
}

impl Component {
    pub const ALL: &[Self] = Self::VARIANTS;

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

fn unknown_component(text: &str) -> Invalid {
    let reason = "not one of the components `lib`, `run`, `dbg`, `dev`, `doc` and `test`";
    Invalid::new(reason, text)
}

/// The file name of a name on this system. A `:`, as in the scope `gfx942:xnack+`, is written as
/// `%3A` on Windows, where it starts the name of an alternate stream.
pub(super) fn encode_colons(name: &str) -> String {
    if cfg!(windows) { name.replace(':', "%3A") } else { name.to_owned() }
}

/// Decodes a file name. Both forms are accepted on every system, because the artifact may come from
/// another system.
fn decode_colons(name: &str) -> String {
    name.replace("%3A", ":").replace("%3a", ":")
}

/// The path of a file of an artifact on this system.
pub fn local_path(directory: &Path, path: &RelPath) -> PathBuf {
    let mut local = directory.to_owned();
    // The components are pushed one by one, to get the separators of Windows.
    for component in path.components() {
        local.push(encode_colons(component));
    }
    local
}

/// The inverse of [`local_path`], for relative paths and for the texts of symlinks.
pub(super) fn from_local(path: &str) -> Cow<'_, str> {
    if cfg!(windows) { decode_colons(&path.replace('\\', "/")).into() } else { path.into() }
}

impl ArtifactName {
    /// Parses the name of a directory, where `:` may be encoded as `%3A`.
    pub fn of_file(name: &str) -> Result<Self, Invalid> {
        decode_colons(name).parse()
    }

    /// The name of the directory on this system.
    pub fn file_name(&self) -> String {
        encode_colons(&self.to_string())
    }
}

impl ArchiveName {
    /// Parses a file name, where `:` may be encoded as `%3A`.
    pub fn of_file(name: &str) -> Result<Self, Invalid> {
        decode_colons(name).parse()
    }

    /// The file name on this system.
    pub fn file_name(&self) -> String {
        encode_colons(&self.to_string())
    }
}

/// Fails for the name of an artifact that cannot be read, such as `blas_lib_gfx942-xnack+`. If it were ignored,
/// the packages would lack its code. Accepts names that are not like the name of an artifact, and files that are
/// no archives, such as the records of a fetch.
pub(super) fn ensure_readable(file_name: &str, is_directory: bool) -> Result<()> {
    let name = decode_colons(file_name);
    let stem = match ArchiveFormat::from_file_name(&name) {
        Some(format) => name.strip_suffix(format.extension()).unwrap_or(&name),
        None if is_directory => &name,
        None => return Ok(()),
    };
    let has_component =
        stem.split('_').nth(1).is_some_and(|component| component.parse::<Component>().is_ok());
    // `.part` is the name of an artifact that is still being fetched.
    if !has_component || stem.strip_suffix(".part").is_some() {
        return Ok(());
    }
    stem.parse::<ArtifactName>()
        .map(drop)
        .with_context(|| format!("failed to read the name of the artifact `{file_name}`"))
        .hint(
            "rename it: `blas_lib_generic`, `blas_lib_gfx942` or `blas_lib_gfx942:xnack+`; or move it elsewhere",
        )
}

impl FromStr for ArtifactName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fields: Vec<&str> = text.splitn(4, '_').collect();
        let [name, component, scope] = fields[..] else {
            return Err(Invalid::new("not of the form `name_component_scope`", text));
        };
        if !is_name(name) {
            return Err(Invalid::new(
                "a name that is not letters, digits, `-`, `.` and `+` after a letter or a digit",
                name,
            ));
        }
        Ok(Self { name: name.to_owned(), component: component.parse()?, scope: scope.parse()? })
    }
}

impl FromStr for ArchiveName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (stem, format) = ArchiveFormat::from_file_name(text)
            .and_then(|format| Some((text.strip_suffix(format.extension())?, format)))
            .ok_or_else(|| Invalid::new("neither a `.tar.zst` nor a `.tar.xz`", text))?;
        Ok(Self { artifact: stem.parse()?, format })
    }
}

fn is_name(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '+');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_allowed)
}

impl Ord for ArtifactName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.to_string().cmp(&other.to_string())
    }
}

impl PartialOrd for ArtifactName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_has_three_parts() {
        let name: ArtifactName = "core-hip_dev_gfx942:xnack+".parse().unwrap();
        assert_eq!(name.name, "core-hip");
        assert_eq!(name.component, Component::Dev);
        assert_eq!(name.scope, "gfx942:xnack+".parse().unwrap());
        assert_eq!(name.to_string(), "core-hip_dev_gfx942:xnack+");
    }

    #[test]
    fn a_colon_is_encoded_where_no_file_can_have_one_and_read_everywhere() {
        let name: ArchiveName = "rccl_test_gfx942:xnack+.tar.zst".parse().unwrap();
        let encoded = name.to_string().replace(':', "%3A");
        assert_eq!(encoded, "rccl_test_gfx942%3Axnack+.tar.zst");
        let here = [&encoded, &name.to_string()][usize::from(!cfg!(windows))].clone();
        assert_eq!(name.file_name(), here);
        for text in
            [&encoded, "rccl_test_gfx942%3axnack+.tar.zst", "rccl_test_gfx942:xnack+.tar.zst"]
        {
            assert_eq!(ArchiveName::of_file(text).unwrap(), name);
        }
        let directory = ArtifactName::of_file("rccl_test_gfx942%3Axnack+").unwrap();
        assert_eq!(directory, name.artifact);
        assert_eq!(directory.file_name().contains(':'), cfg!(not(windows)));
        // Only file names are encoded. `parse` takes the plain name.
        encoded.parse::<ArchiveName>().unwrap_err();
    }

    #[test]
    fn the_place_of_a_file_is_read_back_as_its_path() {
        let path: RelPath = "rocBLAS/.kpack/blas_lib_gfx942:xnack+.kpack".parse().unwrap();
        let place = local_path(Path::new("in"), &path);
        let place = place.strip_prefix("in").unwrap().to_str().unwrap();
        assert_eq!(from_local(place), path.as_str());
        assert_eq!(place.contains(':'), cfg!(not(windows)));
    }

    #[test]
    fn a_name_of_ours_that_cannot_be_read_is_an_error() {
        for name in [
            "blas_lib_gfx942.old+",
            "blas_lib_gfx942.old+.tar.zst",
            "blas_lib_gfx942_old+",
            "blas_lib_",
        ] {
            let said = ensure_readable(name, true).unwrap_err().to_string();
            assert!(said.contains(name), "{said}");
        }
        for name in [
            "blas_lib_gfx942",
            "blas_lib_gfx942%3Axnack+.tar.xz",
            "blas_lib_gfx942.part",
            "blas_src_generic",
            "notes.tar.xz",
            "lib_old",
        ] {
            ensure_readable(name, false).unwrap();
        }
    }

    #[test]
    fn what_is_no_artifact_is_refused_in_words() {
        let refused = [
            "",
            "blas",
            "blas_lib",
            "blas_lib_gfx942_x",
            "_lib_generic",
            ".blas_lib_generic",
            "../x_lib_generic",
            "blas__generic",
            "blas_LIB_generic",
            "blas_src_generic",
            "blas_lib_",
            "blas_lib_generic.part",
            "blas_lib_gfx942:xnack+.part",
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| text.parse::<ArtifactName>().unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        not of the form `name_component_scope`: ""
        not of the form `name_component_scope`: "blas"
        not of the form `name_component_scope`: "blas_lib"
        not of the form `name_component_scope`: "blas_lib_gfx942_x"
        a name that is not letters, digits, `-`, `.` and `+` after a letter or a digit: ""
        a name that is not letters, digits, `-`, `.` and `+` after a letter or a digit: ".blas"
        a name that is not letters, digits, `-`, `.` and `+` after a letter or a digit: "../x"
        not one of the components `lib`, `run`, `dbg`, `dev`, `doc` and `test`: ""
        not one of the components `lib`, `run`, `dbg`, `dev`, `doc` and `test`: "LIB"
        not one of the components `lib`, `run`, `dbg`, `dev`, `doc` and `test`: "src"
        an empty family: ""
        a family with other characters than letters, digits and `-`: "generic.part"
        not a GPU target such as `gfx942` or `gfx942:xnack+`: "gfx942:xnack+.part"
        "#);
    }

    #[test]
    fn what_is_no_archive_of_an_artifact_is_refused_in_words() {
        let refused = [
            "blas_lib_generic",
            "blas_lib_generic.zip",
            "blas_lib_generic.tar.zst.sha256sum",
            ".tar.xz",
            "index.tar.xz",
            "blas_lib_generic.1.tar.xz",
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| text.parse::<ArchiveName>().unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        neither a `.tar.zst` nor a `.tar.xz`: "blas_lib_generic"
        neither a `.tar.zst` nor a `.tar.xz`: "blas_lib_generic.zip"
        neither a `.tar.zst` nor a `.tar.xz`: "blas_lib_generic.tar.zst.sha256sum"
        neither a `.tar.zst` nor a `.tar.xz`: ".tar.xz"
        not of the form `name_component_scope`: "index"
        a family with other characters than letters, digits and `-`: "generic.1"
        "#);
    }

    #[test]
    fn of_two_archives_of_an_artifact_zstd_comes_first() {
        let mut names: Vec<ArchiveName> = ["b_lib_generic.tar.xz", "b_lib_generic.tar.zst"]
            .map(|name| name.parse().unwrap())
            .into();
        names.sort();
        assert_eq!(names[0].to_string(), "b_lib_generic.tar.zst");
        assert_eq!(names[0].artifact, names[1].artifact);
    }

    #[test]
    fn names_are_ordered_by_their_text() {
        let mut names: Vec<ArtifactName> =
            ["core_lib_generic", "core-hip_lib_generic"].map(|name| name.parse().unwrap()).into();
        names.sort();
        assert_eq!(names[0].name, "core-hip");
    }

    proptest! {
        #[test]
        fn what_parses_is_one_safe_file_name_and_prints_itself(text in "[a-z/._:+-]{0,4}_(lib|dev)_[a-z0-9/._:+-]{0,8}") {
            if let Ok(name) = text.parse::<ArtifactName>() {
                prop_assert_eq!(name.to_string(), text.clone());
                prop_assert!(!text.contains('/') && text != "." && text != "..");
            }
        }
    }
}
