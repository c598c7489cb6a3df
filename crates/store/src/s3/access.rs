//! How to reach a bucket: endpoint, region and credentials.

use std::str::FromStr;

use crate::{
    Endpoint,
    location::{Location, encode_path},
};
use rocwheel_base::error::{Invalid, Result, Secret};

/// The settings of a connection to a bucket. The default is Amazon S3 with the credentials of the
/// standard AWS chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// A server other than Amazon's.
    pub endpoint: Option<Endpoint>,
    /// The expected region of the bucket. If the server names another region, requests go to that region.
    pub region: Option<S3Region>,
    /// Which section of the AWS configuration files to use.
    pub profile: Option<Profile>,
    /// With which credentials requests are signed, if at all.
    pub signing: Signing,
}

/// A section of the AWS configuration files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name of the section.
    pub name: String,
    /// Whether the profile takes precedence over access keys in the environment. The `--profile`
    /// flag does; `AWS_PROFILE` does not, as with other AWS tools.
    pub beats_keys: bool,
}

/// Whether requests are signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Signing {
    /// With the credentials of the standard AWS chain; unsigned if it finds none.
    #[default]
    Auto,
    /// Unsigned, for public buckets.
    Never,
    /// With these keys.
    With(Keys),
}

/// An access key of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The access key id, which is no secret.
    pub id: String,
    /// The secret access key.
    pub secret: Secret,
}

/// A region of S3: `us-east-2`.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub struct S3Region(Box<str>);

impl Access {
    /// Uses the known region of the bucket if the user has not given one.
    pub fn in_known_region(mut self, known: Option<&str>) -> Result<Self, Invalid> {
        if self.region.is_none() {
            self.region = known.map(str::parse).transpose()?;
        }
        Ok(self)
    }

    /// The public URL of an object.
    pub fn url(&self, place: &Location) -> String {
        match &self.endpoint {
            Some(endpoint) => {
                let key = encode_path(place.key.as_str());
                format!("{endpoint}/{}/{key}", place.bucket)
            }
            None => place.https(),
        }
    }
}

impl FromStr for S3Region {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if (1..=40).contains(&text.len()) && text.chars().all(is_allowed) {
            Ok(Self(text.into()))
        } else {
            let shown: String = text.chars().take(80).collect();
            Err(Invalid::new("not a region such as `us-east-2`", shown))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals<T: FromStr<Err: std::fmt::Display> + std::fmt::Debug>(texts: &[&str]) -> String {
        let messages = texts.iter().map(|text| text.parse::<T>().unwrap_err());
        let messages: Vec<String> = messages.map(|error| error.to_string()).collect();
        messages.join("\n")
    }

    #[test]
    fn a_place_has_an_address_on_each_server() {
        let place = "s3://wheels/1-linux/a+b/".parse().unwrap();
        let mut access = Access::default();
        let mut shown = vec![access.url(&place)];
        access.endpoint = Some("http://127.0.0.1:8333".parse().unwrap());
        shown.push(access.url(&place));
        insta::assert_snapshot!(shown.join("\n"), @"
        https://wheels.s3.amazonaws.com/1-linux/a%2Bb/
        http://127.0.0.1:8333/wheels/1-linux/a%2Bb/
        ");
    }

    #[test]
    fn a_region_is_a_plain_word() {
        for text in ["us-east-2", "garage", "US"] {
            assert_eq!(text.parse::<S3Region>().unwrap().to_string(), text);
        }
        let long = "a".repeat(41);
        insta::assert_snapshot!(refusals::<S3Region>(&["", "us east", "us.east/", &long]), @r#"
        not a region such as `us-east-2`: ""
        not a region such as `us-east-2`: "us east"
        not a region such as `us-east-2`: "us.east/"
        not a region such as `us-east-2`: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "#);
    }
}
