//! [`TarballName`]: the file name of an SDK tarball.

use std::str::FromStr;

use super::Platform;
use rocwheel_base::{error::Invalid, version::Version};

/// The name of an SDK tarball: `therock-dist-linux-gfx94X-dcgpu-7.13.0.tar.gz`.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{PREFIX}{platform}-{group}-{version}{SUFFIX}")]
pub struct TarballName {
    pub platform: Platform,
    /// A family, or `multiarch`; perhaps followed by `-tests`.
    pub group: String,
    pub version: Version,
}

const PREFIX: &str = "therock-dist-";
const SUFFIX: &str = ".tar.gz";

impl FromStr for TarballName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let stem = text.strip_prefix(PREFIX).and_then(|it| it.strip_suffix(SUFFIX));
        let parts = stem.and_then(|it| it.split_once('-')).and_then(|(platform, rest)| {
            // The version is last, and has no hyphen.
            let (group, version) = rest.rsplit_once('-')?;
            Some(Self {
                platform: platform.parse().ok()?,
                group: group.to_owned(),
                version: version.parse().ok()?,
            })
        });
        let form = "not a name such as `therock-dist-linux-gfx94X-dcgpu-7.13.0.tar.gz`";
        parts.ok_or_else(|| Invalid::new(form, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_platform_a_group_and_a_version() {
        for name in [
            "therock-dist-linux-gfx94X-dcgpu-tests-7.13.0rc1.tar.gz",
            "therock-dist-windows-multiarch-7.14.0.dev0+8027b7.tar.gz",
        ] {
            let parsed: TarballName = name.parse().unwrap();
            assert_eq!(parsed.to_string(), name);
        }
        for other in [
            "therock-dist-linux-7.13.0.tar.gz",
            "therock-dist-mars-multiarch-7.13.0.tar.gz",
            "therock-dist-linux-multiarch-7.13.0.tar.xz",
            "therock-dist-linux-multiarch-last.tar.gz",
            "rocm-7.13.0.tar.gz",
        ] {
            assert!(other.parse::<TarballName>().is_err(), "{other}");
        }
    }
}
