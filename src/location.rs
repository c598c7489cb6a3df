//! stub
use std::{fmt, str::FromStr};
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<str>);
impl Key {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl FromStr for Key {
    type Err = String;
    fn from_str(t: &str) -> Result<Self, String> {
        if t.is_empty() {
            Err("empty".into())
        } else {
            Ok(Self(t.into()))
        }
    }
}
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
