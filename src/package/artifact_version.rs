//! The version of artifacts, for builds without `--version`.

use crate::artifact::TherockManifest;
use rocwheel_base::{
    error::{Context as _, Hint as _, Result},
    version::{BaseVersion, ReleaseType, Version, undated},
};

/// The version of the artifacts.
pub(super) struct ArtifactVersion {
    pub(super) version: Version,
    /// How the version was made, if it is not the version in their manifest.
    pub(super) note: Option<String>,
}

/// Finds the version of the artifacts in their manifest, or makes one.
///
/// A build outside of CI has the version `git` (the default of `THEROCK_PACKAGE_VERSION`), and the
/// manifests of runs before 2026-03-13 have none. For these, the base version and the commit make a
/// version of the form that CI uses.
pub(super) fn find_version(
    manifest: &TherockManifest,
    kind: ReleaseType,
) -> Result<ArtifactVersion> {
    let in_manifest =
        manifest.package_version.as_deref().map(str::trim).filter(|version| !version.is_empty());
    let key = "rocm_package_version";
    let path = TherockManifest::PATH;
    if let Some(version) = in_manifest.filter(|version| *version != "git") {
        let version = version
            .parse()
            .with_context(|| format!("failed to read the version of the build: {version}"))
            .hint("pass `--version`")?;
        return Ok(ArtifactVersion { version, note: None });
    }
    let lack = match in_manifest {
        None => format!("`{path}` has no `{key}`"),
        Some(placeholder) => format!("`{key}` in `{path}` is `{placeholder}`"),
    };
    let file = BaseVersion::FILE;
    let file_content = manifest
        .base_version
        .as_deref()
        .with_context(|| {
            let artifact = TherockManifest::ARTIFACT;
            format!("no version in the artifact `{artifact}`: {lack}, and there is no `{file}`")
        })
        .hint("pass `--version`")?;
    let base = BaseVersion::of_install_tree(file_content)
        .with_context(|| format!("failed to read `{file}`, which is needed because {lack}"))
        .hint("pass `--version`")?;
    let number = if kind == ReleaseType::Prerelease { " --rc 1" } else { "" };
    let version = undated(kind, &base, manifest.commit.as_ref())
        .with_context(|| format!("no version in the artifacts: {lack}, and `{file}` is `{base}`"))
        .hint("or pass the release type of the artifacts as `--release-type`")
        .hint(format!(
            "pass `--version`: `rocwheel version --release-type {kind} --base-version {base}{number}` computes one"
        ))?;
    let has_commit = version.to_string().contains('+');
    let and = if has_commit { " and the commit" } else { "" };
    let note = format!("version {version}: {lack}, so it is made of `{file}`{and}");
    Ok(ArtifactVersion { version, note: Some(note) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_base::error;

    #[test]
    fn artifacts_say_their_version_in_two_ways() {
        const COMMIT: &str = r#""the_rock_commit": "0123abcd0123abcd0123abcd0123abcd0123abcd""#;
        let of = |kind, manifest: &str, base: Option<&str>| {
            let mut manifest = TherockManifest::parse(manifest.as_bytes()).unwrap();
            manifest.base_version = base.map(str::to_owned);
            match find_version(&manifest, kind) {
                Ok(ArtifactVersion { version, note }) => {
                    note.unwrap_or_else(|| version.to_string())
                }
                Err(error) => error::render(&error),
            }
        };
        let ci = ReleaseType::Ci;
        let lines = [
            of(ci, r#"{"rocm_package_version": "7.13.0rc01"}"#, Some("6.0")),
            of(ci, &format!("{{{COMMIT}}}"), Some("7.10.0-38\n")),
            of(ci, r#"{"rocm_package_version": "git"}"#, Some("7.13.0")),
            of(ci, r#"{"the_rock_commit": "unknown"}"#, Some("7.13.0")),
            of(ReleaseType::Release, &format!("{{{COMMIT}}}"), Some("7.13.0")),
            of(ci, r#"{"rocm_package_version": "git"}"#, None),
            of(ci, r#"{"rocm_package_version": " "}"#, None),
            of(ci, r#"{"rocm_package_version": "seven"}"#, Some("7.13.0")),
            of(ci, "{}", Some("seven")),
            of(ReleaseType::Nightly, "{}", Some("7.13.0")),
            of(ReleaseType::Prerelease, r#"{"rocm_package_version": "git"}"#, Some("7.13.0")),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r#"
        7.13.0rc1
        version 7.10.0.dev0+0123abcd0123abcd0123abcd0123abcd0123abcd: `share/therock/therock_manifest.json` has no `rocm_package_version`, so it is made of `.info/version` and the commit
        version 7.13.0.dev0: `rocm_package_version` in `share/therock/therock_manifest.json` is `git`, so it is made of `.info/version`
        version 7.13.0.dev0: `share/therock/therock_manifest.json` has no `rocm_package_version`, so it is made of `.info/version`
        version 7.13.0: `share/therock/therock_manifest.json` has no `rocm_package_version`, so it is made of `.info/version`
        error: no version in the artifact `base_lib_generic`: `rocm_package_version` in `share/therock/therock_manifest.json` is `git`, and there is no `.info/version`

        hint: pass `--version`

        error: no version in the artifact `base_lib_generic`: `share/therock/therock_manifest.json` has no `rocm_package_version`, and there is no `.info/version`

        hint: pass `--version`

        error: failed to read the version of the build: seven
          caused by: not a PEP 440 version: "seven"
          caused by: expected version to start with a number, but no leading ASCII digits were found

        hint: pass `--version`

        error: failed to read `.info/version`, which is needed because `share/therock/therock_manifest.json` has no `rocm_package_version`
          caused by: not a base version such as `10.1.0`: "seven"

        hint: pass `--version`

        error: no version in the artifacts: `share/therock/therock_manifest.json` has no `rocm_package_version`, and `.info/version` is `7.13.0`
          caused by: versions of the release type `nightly` have a day

        hint: pass `--version`: `rocwheel version --release-type nightly --base-version 7.13.0` computes one

        hint: or pass the release type of the artifacts as `--release-type`

        error: no version in the artifacts: `rocm_package_version` in `share/therock/therock_manifest.json` is `git`, and `.info/version` is `7.13.0`
          caused by: versions of the release type `prerelease` have a number

        hint: pass `--version`: `rocwheel version --release-type prerelease --base-version 7.13.0 --rc 1` computes one

        hint: or pass the release type of the artifacts as `--release-type`
        "#);
    }
}
