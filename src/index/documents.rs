//! Sample sets for the tests of modules that show or describe a set.

use crate::digest::Sha256;
use crate::index::{Identity, Layout, PackageSet, SetFile, SetJson, Urls};
use crate::run::Platform;

pub(crate) fn urls() -> Urls {
    "https://bucket.s3.amazonaws.com/1-linux/python"
        .parse()
        .unwrap()
}

fn file(project: &str) -> SetFile {
    let name = format!("{}-7.13.0.dev0+ab.tar.gz", project.replace('-', "_"));
    SetFile {
        family: None,
        sha256: Sha256::of(name.as_bytes()),
        name: name.parse().unwrap(),
        project: project.parse().unwrap(),
        version: "7.13.0.dev0+ab".parse().unwrap(),
        size: 1_234_567,
        upload_time: None,
        metadata: None,
        requires_python: None,
        yanked: None,
    }
}

/// A set without the kpack split, with a `rocm` sdist in the directory of each family.
pub(crate) fn set_of_families(families: &[&str]) -> SetJson {
    let of = |family: &&str| SetFile {
        family: Some(family.parse().unwrap()),
        ..file("rocm")
    };
    let files = families.iter().map(of).chain([file("rocm-sdk-core")]);
    let set = PackageSet::new(files.collect()).unwrap();
    SetJson::new(Identity::default(), &set, Layout::Dist)
}

pub(crate) fn set_of(projects: &[&str]) -> SetJson {
    let files = projects.iter().map(|project| file(project)).collect();
    let set = PackageSet::new(files).unwrap();
    SetJson::new(Identity::default(), &set, Layout::Dist)
}

pub(crate) fn set() -> SetJson {
    let mut set = set_of(&[
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
