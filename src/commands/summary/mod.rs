//! `summary`: what was published and how to install it, for people and for later steps.

pub mod install;
pub mod markdown;
pub mod outputs;

#[cfg(test)]
mod samples {
    use crate::digest::Sha256;
    use crate::index::{Identity, Layout, PackageSet, SetFile, SetJson, Urls};
    use crate::run::Platform;

    pub(super) fn urls() -> Urls {
        "https://bucket.s3.amazonaws.com/1-linux/python"
            .parse()
            .unwrap()
    }

    fn file(project: &str) -> SetFile {
        let name = format!("{}-7.13.0.dev0+ab.tar.gz", project.replace('-', "_"));
        SetFile {
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

    pub(super) fn set_of(projects: &[&str]) -> SetJson {
        let files = projects.iter().map(|project| file(project)).collect();
        let set = PackageSet::new(files).unwrap();
        SetJson::new(Identity::default(), &set, Layout::Dist)
    }

    pub(super) fn set() -> SetJson {
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
}
