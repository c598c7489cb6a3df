//! The version of a framework wheel: the part that names ROCm, as the builds of PyTorch write it.

use itertools::Itertools as _;

use super::policy::FrameworkSpec;
use rocwheel_base::{error::Result, version::Version};

/// The suffix of a framework for a set, in the formula of TheRock's `determine_version.py`: `rocm7.14.0`, or
/// `devrocm…` for a set whose version has `dev`, which sorts the wheel below a wheel for a final set. The row of
/// a framework may name another beginning.
pub fn suffix(rocm: &Version, row: Option<&FrameworkSpec>) -> String {
    let version = rocm.to_string();
    if let Some(prefix) = row.and_then(|row| row.version_prefix.as_ref()) {
        // Builds with a beginning of their own write the version in its normal form.
        return format!("{prefix}{}", version.replace('+', "."));
    }
    let prefix = if version.contains("dev") { "devrocm" } else { "rocm" };
    format!("{prefix}{}", version.replace('+', "-"))
}

/// A version with a further local part: `2.12.0+git1a2b3c4d` becomes `2.12.0+git1a2b3c4d.rocm7.14.0`.
pub fn with_suffix(version: &Version, suffix: &str) -> Result<Version> {
    let whole = version.to_string();
    let separator = if whole.contains('+') { '.' } else { '+' };
    Ok(format!("{whole}{separator}{suffix}").parse()?)
}

/// The version without the part that names ROCm.
pub fn without_rocm(version: &Version) -> Version {
    let whole = version.to_string();
    let Some((public, local)) = whole.split_once('+') else {
        return version.clone();
    };
    let kept = local.split('.').take_while(|segment| !names_rocm(segment)).join(".");
    let plain = if kept.is_empty() { public.to_owned() } else { format!("{public}+{kept}") };
    plain.parse().unwrap_or_else(|_| version.clone())
}

/// The part of a version that names ROCm: `rocm7.14.0`.
pub fn rocm_part(version: &Version) -> Option<String> {
    let whole = version.to_string();
    let (_, local) = whole.split_once('+')?;
    let part = local.split('.').skip_while(|segment| !names_rocm(segment)).join(".");
    Some(part).filter(|part| !part.is_empty())
}

fn names_rocm(segment: &str) -> bool {
    segment.starts_with("rocm") || segment.starts_with("devrocm")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn suffixes_are_those_of_upstream() {
        let rows = [
            ("7.14.0", "2.12.0+rocm7.14.0"),
            ("10.1.0rc1", "2.12.0+rocm10.1.0rc1"),
            ("10.1.0a20260811", "2.12.0+rocm10.1.0a20260811"),
            ("10.1.0a20260811+bkc.20260813", "2.12.0+rocm10.1.0a20260811.bkc.20260813"),
            ("7.10.0.dev0+efed3c3b", "2.12.0+devrocm7.10.0.dev0.efed3c3b"),
        ];
        for (rocm, expected) in rows {
            let made = with_suffix(&version("2.12.0"), &suffix(&version(rocm), None)).unwrap();
            assert_eq!(made.to_string(), expected);
            assert_eq!(without_rocm(&made), version("2.12.0"));
        }
        let made = with_suffix(&version("2.12.0a0+git1a2b3c4d"), "rocm7.10.0").unwrap();
        assert_eq!(made.to_string(), "2.12.0a0+git1a2b3c4d.rocm7.10.0");
        assert_eq!(rocm_part(&made).as_deref(), Some("rocm7.10.0"));
        assert_eq!(without_rocm(&made).to_string(), "2.12.0a0+git1a2b3c4d");
        assert_eq!(rocm_part(&version("2.12.0+cu130")), None);
    }
}
