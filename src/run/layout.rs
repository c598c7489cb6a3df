//! Where a run keeps each thing that it makes.

use crate::location::{Bucket, InvalidKey, Key, Location};
use crate::relpath::RelPath;
use crate::run::{ArtifactGroup, Platform, Repository, RunId, Stage};
use crate::target::Family;
use crate::version::Version;

/// What lies directly in a package set's directory; no group may have such a name.
const PARTS: [&str; 5] = ["dist", "simple", "index.html", "SHA256SUMS", "set.json"];

pub(super) fn is_reserved(group: &str) -> bool {
    PARTS.contains(&group)
}

/// Where one run keeps what it makes for one platform: a prefix in a bucket.
///
/// Each attempt of a run has the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLocation {
    bucket: Bucket,
    prefix: Key,
    platform: Platform,
}

/// A format of packages for Linux distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativePackage {
    Deb,
    Rpm,
}

/// Where a run keeps one set of Python packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonLocation {
    root: Location,
}

impl RunLocation {
    /// `external` is the run's repository where the bucket is shared by several.
    pub fn new(
        bucket: Bucket,
        external: Option<&Repository>,
        id: &RunId,
        platform: Platform,
    ) -> Self {
        let shared = external.map(|it| format!("{}-{}/", it.owner(), it.name()));
        let prefix = key(&format!("{}{id}-{platform}", shared.unwrap_or_default()));
        Self {
            bucket,
            prefix,
            platform,
        }
    }

    pub fn platform(&self) -> Platform {
        self.platform
    }

    /// `{owner-repo/}{run}-{platform}`, without a `/` at its end.
    pub fn prefix(&self) -> &Key {
        &self.prefix
    }

    /// The directory of everything.
    pub fn root(&self) -> Location {
        Location::new(self.bucket.clone(), self.prefix.directory())
    }

    /// The page that lists the run, which the bucket keeps itself.
    pub fn listing(&self) -> Location {
        self.below("index.html")
    }

    /// An artifact's archive, by its file name.
    pub fn archive(&self, file: &RelPath) -> Result<Location, InvalidKey> {
        self.root().join(file)
    }

    /// The file that holds an archive's SHA-256.
    pub fn archive_digest(&self, file: &RelPath) -> Result<Location, InvalidKey> {
        let archive = self.archive(file)?;
        let key = format!("{}.sha256sum", archive.key()).parse()?;
        Ok(Location::new(self.bucket.clone(), key))
    }

    /// Logs, in one directory for each stage or group, and test reports.
    pub fn logs(&self) -> Location {
        self.below("logs/")
    }

    /// The logs of a group that was built in one go.
    pub fn group_logs(&self, group: &ArtifactGroup) -> Location {
        self.below(&format!("logs/{}", directory(group)))
    }

    /// The logs of one stage, for each family when it is built for each.
    pub fn stage_logs(&self, stage: &Stage, family: Option<&Family>) -> Location {
        let family = family.map_or_else(String::new, |family| format!("{family}/"));
        self.below(&format!("logs/{stage}/{family}"))
    }

    /// The logs of making native packages.
    pub fn native_logs(&self, format: NativePackage) -> Location {
        self.below(&format!("logs/packaging/{}/", format.as_str()))
    }

    /// `therock_manifest.json`: what was built of which commits.
    pub fn manifest(&self, group: &ArtifactGroup) -> Location {
        self.below(&format!(
            "manifests/{}therock_manifest.json",
            directory(group)
        ))
    }

    /// A repository of native packages, as `apt` or `dnf` is given it.
    pub fn native_packages(&self, format: NativePackage) -> Location {
        self.below(match format {
            NativePackage::Deb => "packages/deb/",
            NativePackage::Rpm => "packages/rpm/x86_64/",
        })
    }

    /// The whole of ROCm for one family, or for all targets.
    pub fn tarball(&self, family: Option<&Family>, version: &Version) -> Location {
        let family = family.map_or("multiarch", Family::as_str);
        let platform = self.platform;
        self.below(&format!(
            "tarballs/therock-dist-{platform}-{family}-{version}.tar.gz"
        ))
    }

    /// A set of Python packages.
    pub fn python(&self, group: &ArtifactGroup) -> PythonLocation {
        PythonLocation {
            root: self.below(&format!("python/{}", directory(group))),
        }
    }

    fn below(&self, path: &str) -> Location {
        Location::new(self.bucket.clone(), key(&format!("{}/{path}", self.prefix)))
    }
}

impl PythonLocation {
    pub fn root(&self) -> &Location {
        &self.root
    }

    /// The directory of wheels, sdists and their metadata.
    pub fn dist(&self) -> Location {
        self.below("dist/")
    }

    /// The index's root: `--index-url`.
    pub fn simple(&self) -> Location {
        self.below("simple/")
    }

    /// The one page of all files: `--find-links`.
    pub fn find_links(&self) -> Location {
        self.below("index.html")
    }

    pub fn checksums(&self) -> Location {
        self.below("SHA256SUMS")
    }

    /// What the set is: its run, commit, version, targets and files.
    pub fn set_json(&self) -> Location {
        self.below("set.json")
    }

    fn below(&self, path: &str) -> Location {
        let key = key(&format!("{}{path}", self.root.key()));
        Location::new(self.root.bucket().clone(), key)
    }
}

impl NativePackage {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deb => "deb",
            Self::Rpm => "rpm",
        }
    }
}

fn directory(group: &ArtifactGroup) -> String {
    if group.is_empty() {
        String::new()
    } else {
        format!("{group}/")
    }
}

fn key(text: &str) -> Key {
    text.parse().expect("made of names that are segments")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(external: &str) -> RunLocation {
        let external: Option<Repository> = external.parse().ok();
        let bucket = "therock-ci-artifacts".parse().unwrap();
        let id = "42".parse().unwrap();
        RunLocation::new(bucket, external.as_ref(), &id, Platform::Linux)
    }

    fn group(text: &str) -> ArtifactGroup {
        text.parse().unwrap()
    }

    fn list(locations: &[Location]) -> String {
        let keys: Vec<&str> = locations.iter().map(|it| it.key().as_str()).collect();
        keys.join("\n")
    }

    #[test]
    fn a_run_has_one_prefix_in_its_bucket() {
        assert_eq!(run("").prefix().as_str(), "42-linux");
        assert_eq!(run("").root().s3(), "s3://therock-ci-artifacts/42-linux/");
        let fork = run("ROCm/TheRock");
        assert_eq!(fork.prefix().as_str(), "ROCm-TheRock/42-linux");
        let local = RunLocation::new(
            "local".parse().unwrap(),
            None,
            &RunId::local(),
            Platform::Windows,
        );
        assert_eq!(local.root().s3(), "s3://local/local-windows/");
        assert_eq!(local.platform(), Platform::Windows);
    }

    #[test]
    fn everything_a_run_makes_has_its_place() {
        let run = run("");
        let file: RelPath = "rccl_test_gfx942:xnack+.tar.zst".parse().unwrap();
        let family: Family = "gfx94X-dcgpu".parse().unwrap();
        let version = "10.1.0.dev0+efed3c3b".parse().unwrap();
        let places = [
            run.listing(),
            run.archive(&file).unwrap(),
            run.archive_digest(&file).unwrap(),
            run.logs(),
            run.group_logs(&group("gfx94X-dcgpu")),
            run.stage_logs(&"compiler-runtime".parse().unwrap(), None),
            run.stage_logs(&"math-libs".parse().unwrap(), Some(&family)),
            run.native_logs(NativePackage::Deb),
            run.native_logs(NativePackage::Rpm),
            run.manifest(&group("")),
            run.manifest(&group("gfx94X-dcgpu")),
            run.native_packages(NativePackage::Deb),
            run.native_packages(NativePackage::Rpm),
            run.tarball(Some(&family), &version),
            run.tarball(None, &version),
        ];
        insta::assert_snapshot!(list(&places), @r"
        42-linux/index.html
        42-linux/rccl_test_gfx942:xnack+.tar.zst
        42-linux/rccl_test_gfx942:xnack+.tar.zst.sha256sum
        42-linux/logs/
        42-linux/logs/gfx94X-dcgpu/
        42-linux/logs/compiler-runtime/
        42-linux/logs/math-libs/gfx94X-dcgpu/
        42-linux/logs/packaging/deb/
        42-linux/logs/packaging/rpm/
        42-linux/manifests/therock_manifest.json
        42-linux/manifests/gfx94X-dcgpu/therock_manifest.json
        42-linux/packages/deb/
        42-linux/packages/rpm/x86_64/
        42-linux/tarballs/therock-dist-linux-gfx94X-dcgpu-10.1.0.dev0+efed3c3b.tar.gz
        42-linux/tarballs/therock-dist-linux-multiarch-10.1.0.dev0+efed3c3b.tar.gz
        ");
    }

    #[test]
    fn a_package_set_has_files_an_index_and_what_vouches_for_them() {
        let places = |name: &str| {
            let python = run("").python(&group(name));
            list(&[
                python.root().clone(),
                python.dist(),
                python.simple(),
                python.find_links(),
                python.checksums(),
                python.set_json(),
            ])
        };
        insta::assert_snapshot!(places("gfx94X-dcgpu"), @r"
        42-linux/python/gfx94X-dcgpu/
        42-linux/python/gfx94X-dcgpu/dist/
        42-linux/python/gfx94X-dcgpu/simple/
        42-linux/python/gfx94X-dcgpu/index.html
        42-linux/python/gfx94X-dcgpu/SHA256SUMS
        42-linux/python/gfx94X-dcgpu/set.json
        ");
        insta::assert_snapshot!(places(""), @r"
        42-linux/python/
        42-linux/python/dist/
        42-linux/python/simple/
        42-linux/python/index.html
        42-linux/python/SHA256SUMS
        42-linux/python/set.json
        ");
        assert_eq!(
            run("").python(&group("")).simple().https(),
            "https://therock-ci-artifacts.s3.amazonaws.com/42-linux/python/simple/"
        );
    }

    #[test]
    fn no_group_can_take_the_place_of_a_part() {
        let python = run("").python(&group(""));
        let parts = [
            python.dist(),
            python.simple(),
            python.find_links(),
            python.checksums(),
            python.set_json(),
        ];
        for part in parts {
            let name = part.key().file_name().to_owned();
            assert!(name.parse::<ArtifactGroup>().is_err(), "{name}");
        }
    }

    #[test]
    fn an_archive_with_a_control_character_has_no_place() {
        let file: RelPath = "a\nb.tar.zst".parse().unwrap();
        assert!(run("").archive(&file).is_err());
        assert!(run("").archive_digest(&file).is_err());
    }
}
