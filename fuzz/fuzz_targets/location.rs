//! Addresses of objects: what is accepted is the same when it is shown, joined, or sent as a URL and taken apart.
//! The first byte says what the rest is; a NUL separates two texts.
#![no_main]

use std::{
    fmt::{Debug, Display},
    str::FromStr,
};

use libfuzzer_sys::fuzz_target;
use rocwheel_base::relpath::RelPath;
use url::Url;

// By their files: the crate brings the client of S3, which takes longer to compile than all that is fuzzed.
#[path = "../../crates/store/src/endpoint.rs"]
mod endpoint;
#[path = "../../crates/store/src/location.rs"]
mod location;

use endpoint::Endpoint;
use location::{Bucket, Key, Location, decode_component, encode_path, is_private, percent_decode, percent_encode};

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let Ok(text) = str::from_utf8(rest) else {
        return;
    };
    match first % 4 {
        0 => check_location(text),
        1 => check_key(text),
        2 => {
            assert_eq!(percent_decode(&percent_encode(text)).as_deref(), Some(text));
            assert_eq!(percent_decode(&encode_path(text)).as_deref(), Some(text));
            if let Some(component) = decode_component(text) {
                assert!(!component.contains('/'), "a component with `/`: {component:?}");
            }
            let _ = percent_decode(text);
        }
        _ => {
            let _ = is_private(text);
            if let Some(endpoint) = parse::<Endpoint>(text) {
                let url = Url::parse(&endpoint.to_string()).expect("a URL");
                assert!(url.has_host() && url.password().is_none(), "no server: {url}");
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

fn check_location(text: &str) {
    parse::<Bucket>(text);
    let Some(location) = parse::<Location>(text) else {
        return;
    };
    assert!(Location::is_meant_by(text));
    assert_eq!(location.to_string(), text);
    assert!(location.directory().key.is_directory());
    let url = Url::parse(&location.https()).expect("a URL");
    assert_eq!((url.query(), url.fragment()), (None, None));
    let path = percent_decode(url.path()).expect("UTF-8");
    assert!(path.ends_with(location.key.as_str()), "{path:?} for {location}");
}

fn check_key(text: &str) {
    let (one, other) = text.split_once('\0').unwrap_or((text, text));
    let Some(key) = parse::<Key>(one) else {
        return;
    };
    parse::<RelPath>(key.to_path().as_str()).expect("a path");
    assert!(key.as_str().contains(key.file_name()));
    let Some(path) = parse::<RelPath>(other) else {
        return;
    };
    if let Ok(joined) = key.join(&path) {
        parse::<Key>(joined.as_str()).expect("a key");
    }
}
