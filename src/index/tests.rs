//! Sample sets for the tests of modules that show or describe a set.

use crate::{
    index::{Identity, PackageFile, SetJson, Urls},
    run::Platform,
};
use rocwheel_base::digest::Sha256;

const VERSION: &str = "7.13.0.dev0+ab";

pub(crate) fn file(name: &str, project: &str, version: &str) -> PackageFile {
    let project = project.parse().unwrap();
    let version = version.parse().unwrap();
    let sha256 = Sha256::of(name.as_bytes());
    PackageFile::new(format!("dist/{name}"), project, version, 1_234_567, sha256)
}

pub(crate) fn files() -> Vec<PackageFile> {
    let sdist = file("rocm-7.13.0.dev0+ab.tar.gz", "rocm", VERSION);
    let core = PackageFile {
        metadata: Some(Sha256::of(b"Metadata-Version: 2.4\n")),
        ..file("rocm_sdk_core-7.13.0.dev0+ab-py3-none-linux_x86_64.whl", "rocm_sdk_core", VERSION)
    };
    let old = PackageFile {
        requires_python: Some(">=3.8,<4".into()),
        yanked: Some("broken \"launcher\" & more".into()),
        upload_time: Some("2026-03-01T12:00:05.250000Z".into()),
        size: 12,
        ..file("rocm_sdk_core-7.9.0-py3-none-linux_x86_64.whl", "rocm_sdk_core", "7.9.0")
    };
    vec![core, sdist, old]
}

pub(crate) fn set() -> SetJson {
    SetJson::new(Identity::default(), files()).unwrap()
}

/// A file whose name and facts try to break out of wherever they are written.
pub(crate) fn hostile() -> SetJson {
    let name = "a\" onload='x'><b>&amp;|`%2B+ é\u{202e}-1.0.tar.gz";
    let file = PackageFile {
        requires_python: Some("\"><script>".into()),
        yanked: Some("\n\"'<&>".into()),
        ..file(name, "a", "1.0")
    };
    SetJson::new(Identity::default(), vec![file]).unwrap()
}

pub(crate) fn urls() -> Urls {
    "https://bucket.s3.amazonaws.com/1-linux/python".parse().unwrap()
}

fn sdist(project: &str) -> PackageFile {
    let name = format!("{}-{VERSION}.tar.gz", project.replace('-', "_"));
    file(&name, project, VERSION)
}

/// A set without the kpack split, with a `rocm` sdist in the directory of each family.
pub(crate) fn document_of_families(families: &[&str]) -> SetJson {
    let of = |family: &&str| PackageFile {
        path: format!("dist/{family}/rocm-{VERSION}.tar.gz"),
        ..sdist("rocm")
    };
    let files = families.iter().map(of).chain([sdist("rocm-sdk-core")]);
    SetJson::new(Identity::default(), files.collect()).unwrap()
}

pub(crate) fn document_of(projects: &[&str]) -> SetJson {
    let files = projects.iter().map(|project| sdist(project)).collect();
    SetJson::new(Identity::default(), files).unwrap()
}

pub(crate) fn document() -> SetJson {
    let mut set = document_of(&[
        "rocm",
        "rocm-sdk-core",
        "rocm-sdk-devel",
        "rocm-sdk-libraries",
        "rocm-sdk-device-gfx1100",
        "rocm-sdk-device-gfx942",
    ]);
    set.identity.repository = "ROCm/TheRock".parse().ok();
    set.identity.run_id = "21440027240".parse().ok();
    set.identity.platform = Some(Platform::Linux);
    set.identity.commit = Some("89553ce3746eda74ade42557470d25e37c91b6f0".parse().unwrap());
    set
}
