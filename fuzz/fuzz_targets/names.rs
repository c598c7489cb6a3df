//! Versions, paths, patterns and the names of targets, as others write them: what is accepted is shown in a form
//! that is accepted again, and means the same.
//! The first byte says what the rest is; a NUL separates two texts.
#![no_main]

use std::{
    fmt::{Debug, Display},
    str::FromStr,
};

use libfuzzer_sys::fuzz_target;
use rocwheel_base::{
    error::redact,
    glob::Glob,
    quantity::shell_word,
    relpath::{self, RelPath},
    target::{Family, Scope, Target, TargetPattern, TargetTable},
    version::{BaseVersion, Date, GitSha, PromotionGoal, ReleaseType, Version, VersionFile},
};

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let Ok(text) = str::from_utf8(rest) else {
        return;
    };
    let (one, other) = text.split_once('\0').unwrap_or((text, text));
    match first % 8 {
        0 => check_versions(one, other),
        1 => check_paths(one, other),
        2 => check_glob(one, other),
        3 => check_targets(one),
        4 => {
            parse::<BaseVersion>(one);
            parse::<Date>(one);
            parse::<GitSha>(one);
            parse::<PromotionGoal>(one);
            parse::<ReleaseType>(one);
        }
        5 => {
            let Ok(file) = VersionFile::parse(text) else {
                return;
            };
            let _ = file.rocm_version();
            let _ = file.base_date();
        }
        6 => {
            let redacted = redact(text);
            assert_eq!(redact(&redacted), redacted);
        }
        _ => assert!(!shell_word(text).is_empty()),
    }
});

/// A value that is the same when it is shown and parsed again.
fn parse<T: FromStr<Err: Debug> + Display + Debug + PartialEq>(text: &str) -> Option<T> {
    let value: T = text.parse().ok()?;
    let shown = value.to_string();
    assert_eq!(shown.parse::<T>().expect("what was shown"), value);
    Some(value)
}

fn check_versions(one: &str, other: &str) {
    let Some(one) = parse::<Version>(one) else {
        return;
    };
    assert_eq!(one.filename_form().parse::<Version>().expect("what was shown"), one);
    let _ = (one.is_final(), one.minor(), one.of_rocm(), one.fulfils(other));
    if let Some(other) = parse::<Version>(other) {
        assert!(!(one.sorts_below(&other) && other.sorts_below(&one)));
        assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
        let _ = one.is_for_rocm(&other);
    }
}

fn check_paths(one: &str, other: &str) {
    let Some(path) = parse::<RelPath>(one) else {
        return;
    };
    assert_eq!(path.depth(), path.ancestors().count() + 1);
    if let Some(target) = path.resolve_link(other) {
        parse::<RelPath>(target.as_str()).expect("a path inside of the tree");
    }
    if let Some(other) = parse::<RelPath>(other) {
        let joined = path.join(&other);
        assert_eq!(joined.strip_prefix(&path), Some(other.clone()));
        let way = relpath::between(path.as_str(), other.as_str());
        let file = format!("{path}/file");
        assert_eq!(relpath::join(&file, &way).as_deref(), Some(other.as_str()));
    }
}

/// Wildcards match themselves: each of them is a text without `/`.
fn check_glob(one: &str, other: &str) {
    let glob = Glob::new(one);
    assert!(glob.matches(one));
    let _ = glob.matches(other);
    if !one.contains(['*', '?']) {
        assert_eq!(
            glob.matches(other),
            other.strip_suffix('\n').unwrap_or(other) == one || other == one
        );
    }
}

fn check_targets(text: &str) {
    if let Some(target) = parse::<Target>(text) {
        let canonical: Target = target.canonical().parse().expect("a target");
        assert_eq!(canonical, target);
        assert_eq!(canonical.canonical(), target.canonical());
        assert_eq!(target.base().base(), target.base());
    }
    parse::<Family>(text);
    parse::<Scope>(text);
    if let Ok(pattern) = text.parse::<TargetPattern>() {
        let _ = TargetTable::builtin().select(&[pattern]);
    }
}
