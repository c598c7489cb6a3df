//! The texts of wheels: what is accepted reads the same after it is written, and an edit changes what it names.
//! The first byte says what the rest is; a NUL separates two texts.
#![no_main]

use std::{
    fmt::{Debug, Display},
    str::FromStr,
};

use libfuzzer_sys::fuzz_target;
use rocwheel_base::version::Version;
use rocwheel_wheel::{
    DistName, Headers, Marker, MarkerVariable, MarkerVariables, Metadata, PackageFilename,
    Requirement, Tag, VariantDocument, VariantLabel, dist_info::WheelFacts, entry_point,
    installed_place, record::Record,
};

/// A Python for which every variable has the same value.
struct Same<'a>(&'a str);

impl MarkerVariables for Same<'_> {
    fn value(&self, _: MarkerVariable) -> Option<String> {
        Some(self.0.to_owned())
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    match first % 8 {
        0 => _ = Metadata::parse(rest),
        1 => {
            if let Ok(record) = Record::parse(rest) {
                let again = Record::parse(record.to_string().as_bytes()).expect("a RECORD");
                assert_eq!(again.rows(), record.rows());
            }
        }
        2 => {
            if let Ok(document) = VariantDocument::parse(rest) {
                let again =
                    VariantDocument::parse(document.pretty().as_bytes()).expect("a document");
                assert!(again == document, "another document");
                let merged = VariantDocument::merge([&document, &again]).expect("the same twice");
                assert!(merged.is_some_and(|it| it.says_the_same(&document)), "another document");
            }
        }
        kind => {
            let Ok(text) = str::from_utf8(rest) else {
                return;
            };
            let (one, other) = text.split_once('\0').unwrap_or((text, "1"));
            match kind {
                3 => check_headers(one, other),
                4 => check_names(one),
                5 | 6 => check_requirement(one, other),
                _ => check_marker(one, other),
            }
        }
    }
});

/// A value that is the same when it is shown and parsed again.
fn parse<T: FromStr<Err: Debug> + Display + Debug + PartialEq>(text: &str) -> Option<T> {
    let value: T = text.parse().ok()?;
    assert_eq!(value.to_string().parse::<T>().expect("what was shown"), value);
    Some(value)
}

fn check_headers(text: &str, value: &str) {
    let _ = text.parse::<WheelFacts>();
    let Some(mut headers) = parse::<Headers>(text) else {
        return;
    };
    assert_eq!(headers.to_string(), text, "what is not changed keeps its bytes");
    let is_line = value.trim() == value && !value.contains(['\n', '\r']);
    if is_line && !value.is_empty() {
        headers.set("Version", value);
        let again: Headers = headers.to_string().parse().expect("what was edited");
        assert_eq!(again.get("version"), Some(value));
    }
}

fn check_names(text: &str) {
    parse::<DistName>(text);
    parse::<VariantLabel>(text);
    let _ = (installed_place(text), entry_point(text, text));
    if let Some(tag) = parse::<Tag>(text) {
        // A tag of a hundred parts has too many combinations to list.
        if text.len() < 40 {
            assert!(tag.expand().iter().all(|tag| tag.expand() == [tag.clone()]));
        }
    }
    if let Some(file) = parse::<PackageFilename>(text) {
        assert_eq!(file.to_string(), text);
        let version: Version = "1.2.3".parse().expect("a version");
        let changed: PackageFilename =
            file.with_version(&version).to_string().parse().expect("the name in another version");
        assert_eq!(
            (changed.name, changed.version, changed.tag, changed.label),
            (file.name, version, file.tag, file.label)
        );
    }
}

fn check_requirement(text: &str, version: &str) {
    let Some(requirement) = parse::<Requirement>(text) else {
        return;
    };
    let _ = requirement.ensure_exact();
    let with_extra: Requirement =
        requirement.with_extras("x").parse().expect("the requirement with an extra");
    assert_eq!(with_extra.name, requirement.name);
    assert_eq!(with_extra.extras, ["x".parse().expect("a name")]);
    assert_eq!(with_extra.specifier(), requirement.specifier());
    assert_eq!(with_extra.marker, requirement.marker);
    let Ok(version) = version.parse::<Version>() else {
        return;
    };
    let _ = requirement.allows(&version);
    if let Some(pinned) = requirement.with_pin(&version) {
        let pinned: Requirement = pinned.parse().expect("the requirement with another pin");
        assert_eq!(pinned.pin(), Some(version));
        assert_eq!(pinned.marker, requirement.marker);
    }
}

fn check_marker(text: &str, value: &str) {
    let marker = Marker::from(text.to_owned());
    let _ =
        (marker.evaluate(&Same(value), &[value]), marker.names_variants(), marker.ensure_exact());
    // What holds for a Python may hold on its platform.
    if let Ok(true) = marker.evaluate(&Same(value), &[]) {
        assert!(marker.may_hold_with(value, &[]), "it holds: {text:?}, {value:?}");
        assert!(!marker.needs_extra(), "it needs no extra: {text:?}");
    }
    assert!(marker.extras().iter().all(|extra| marker.is_for_extra(extra)));
}
