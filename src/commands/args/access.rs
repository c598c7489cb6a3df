//! Arguments for an S3 server, named like those of the AWS command line.

use std::{env, path::Path};

use super::sourced::Sourced;
use crate::{
    error::{Hint as _, Result, Stop},
    location::Location,
    set::{NamedPlace, SetPlace},
    store::s3::{Access, Addressing, Endpoint, Profile, S3Region, Signing},
};

/// How to reach the bucket. Credentials come from where AWS tools look for them.
pub type AccessArgs = Sourced<AccessFlags>;

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "S3 options")]
pub struct AccessFlags {
    /// URL of the S3 server, if it is not Amazon's (default: `AWS_ENDPOINT_URL`)
    #[arg(long, value_name = "URL", env = "AWS_ENDPOINT_URL_S3")]
    endpoint_url: Option<Endpoint>,
    /// Bucket region (default: known for TheRock's buckets, detected for other Amazon buckets)
    #[arg(long, value_name = "NAME", env = "AWS_REGION")]
    region: Option<S3Region>,
    /// The section of the AWS configuration files to use; the flag beats keys in variables
    #[arg(long, value_name = "NAME", env = "AWS_PROFILE")]
    profile: Option<String>,
    /// Send unsigned requests (the default if no credentials are found)
    #[arg(long, env = "ROCWHEEL_NO_SIGN_REQUEST")]
    no_sign_request: bool,
    /// Put the bucket name into the host name (`virtual`) or into the path of URLs; `auto` is
    /// `virtual` for Amazon, `path` for other servers
    #[arg(
        long,
        value_name = "STYLE",
        default_value = "auto",
        env = "ROCWHEEL_ADDRESSING_STYLE"
    )]
    addressing_style: Addressing,
}

impl AccessArgs {
    /// The access settings. Without a region in the arguments, uses `known`, the region of the
    /// bucket if that is known.
    pub fn access(&self, known: Option<&str>) -> Result<Access> {
        self.access_in(known, |name| env::var(name).ok())
    }

    /// Opens a set in a directory, in a bucket or on a web server.
    pub fn place(&self, place: &Path, stop: &Stop) -> Result<SetPlace> {
        SetPlace::open(place, |known| self.access(known), stop)
    }

    /// Opens a set in a directory of a bucket.
    pub fn bucket(&self, place: &Location, stop: &Stop) -> Result<SetPlace> {
        SetPlace::bucket(place, |known| self.access(known), stop)
    }

    /// Opens a place that can be written to.
    pub fn named(&self, place: &NamedPlace, stop: &Stop) -> Result<SetPlace> {
        match place {
            NamedPlace::Directory(path) => Ok(SetPlace::directory(path, stop)),
            NamedPlace::Bucket(location) => self.bucket(location, stop),
        }
    }

    fn access_in(
        &self,
        known: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Access> {
        let args = self.args.clone();
        let general = || variable("AWS_ENDPOINT_URL").filter(|text| !text.is_empty());
        let endpoint = match args.endpoint_url {
            Some(endpoint) => Some(endpoint),
            None => general()
                .map(|text| text.parse())
                .transpose()
                .hint("`AWS_ENDPOINT_URL` is the address of an S3 server, or unset")?,
        };
        let beats_keys = self.is_flag("profile");
        let access = Access {
            endpoint,
            region: args.region,
            profile: args.profile.map(|name| Profile { name, beats_keys }),
            signing: if args.no_sign_request {
                Signing::Never
            } else {
                Signing::Auto
            },
            addressing: args.addressing_style,
        };
        Ok(access.in_known_region(known)?)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;
    use crate::error::render;

    #[derive(clap::Parser)]
    struct Probe {
        #[command(flatten)]
        access: AccessArgs,
    }

    fn parse(line: &str) -> Result<AccessArgs, clap::Error> {
        let command = Probe::command().mut_args(|argument| argument.env(None));
        let arguments = ["probe"].into_iter().chain(line.split_whitespace());
        let matches = command.try_get_matches_from(arguments)?;
        Ok(Probe::from_arg_matches(&matches)?.access)
    }

    fn access(line: &str, known: Option<&str>) -> Access {
        parse(line).unwrap().access_in(known, |_| None).unwrap()
    }

    #[test]
    fn nothing_asked_for_is_amazon_with_what_credentials_there_are() {
        assert_eq!(access("", None), Access::default());
    }

    #[test]
    fn every_flag_has_its_effect() {
        let line = "--endpoint-url http://127.0.0.1:8333/ --region here --profile me --no-sign-request --addressing-style virtual";
        let expected = Access {
            endpoint: Some("http://127.0.0.1:8333".parse().unwrap()),
            region: Some("here".parse().unwrap()),
            profile: Some(Profile {
                name: "me".to_owned(),
                beats_keys: true,
            }),
            signing: Signing::Never,
            addressing: Addressing::Virtual,
        };
        assert_eq!(access(line, Some("there")), expected);
    }

    #[test]
    fn a_known_region_stands_in_for_one_that_is_not_given() {
        let region = access("", Some("us-east-2")).region.unwrap();
        assert_eq!(region.as_str(), "us-east-2");
    }

    #[test]
    fn the_general_endpoint_stands_in_for_the_one_of_s3() {
        let in_variable = |line: &str, value: &str| {
            let arguments = parse(line).unwrap();
            arguments.access_in(None, |name| {
                (name == "AWS_ENDPOINT_URL").then(|| value.to_owned())
            })
        };
        let endpoint = |access: Access| access.endpoint.unwrap().to_string();
        let general = in_variable("", "http://a").unwrap();
        assert_eq!(endpoint(general), "http://a");
        let special = in_variable("--endpoint-url http://b", "http://a").unwrap();
        assert_eq!(endpoint(special), "http://b");
        assert_eq!(in_variable("", "").unwrap().endpoint, None);
        insta::assert_snapshot!(render(&in_variable("", "a").unwrap_err()), @"
        error: not the address of a server such as `http://127.0.0.1:8333`: it begins with `http://` or `https://`

        hint: `AWS_ENDPOINT_URL` is the address of an S3 server, or unset
        ");
    }

    #[test]
    fn bad_values_are_refused_in_words() {
        let refused = [
            "--endpoint-url host:80",
            "--region us.east",
            "--addressing-style dns",
        ]
        .map(|line| parse(line).unwrap_err().to_string())
        .map(|text| text.lines().take(2).collect::<Vec<_>>().join("\n"));
        insta::assert_snapshot!(refused.join("\n"), @r#"
        error: invalid value 'host:80' for '--endpoint-url <URL>': not the address of a server such as `http://127.0.0.1:8333`: it begins with `http://` or `https://`

        error: invalid value 'us.east' for '--region <NAME>': not a region such as `us-east-2`: "us.east"

        error: invalid value 'dns' for '--addressing-style <STYLE>'
          [possible values: auto, path, virtual]
        "#);
    }
}
