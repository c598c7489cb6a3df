//! Names at GitHub: the address of its API, and a workflow.

use std::str::FromStr;

use url::Url;

use rocwheel_base::error::{Error, Result, ensure};
use rocwheel_store::location::is_private;

/// The base URL of the API: `https://api.github.com`, or `https://HOST/api/v3`.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub struct ApiUrl(Box<str>);

/// The file name of a workflow, `multi_arch_ci.yml`, or its numeric id.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub struct Workflow(Box<str>);

impl ApiUrl {
    pub const GITHUB: &str = "https://api.github.com";
    /// The base URL of github.com's web pages.
    pub const PAGES: &str = "https://github.com";

    /// The API of the GitHub installation whose web pages are at `server`.
    pub fn of_server(server: &str) -> Result<Self> {
        let base = server.trim_end_matches('/');
        match base.strip_prefix("https://") {
            Some(host) if host == "github.com" || host.ends_with(".ghe.com") => {
                format!("https://api.{host}").parse()
            }
            _ => format!("{base}/api/v3").parse(),
        }
    }

    /// The base URL of this installation's web pages, if the base URL of the API says it.
    pub fn server(&self) -> Option<String> {
        if let Some(server) = self.0.strip_suffix("/api/v3") {
            return Some(server.to_owned());
        }
        let host = self.0.strip_prefix("https://api.")?;
        (!host.contains('/')).then(|| format!("https://{host}"))
    }

    /// The host of the web pages, such as `github.com`.
    pub fn host(&self) -> String {
        let url = Url::parse(&self.server().unwrap_or_else(|| self.0.to_string()));
        url.map_or(String::new(), |url| url.authority().to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ApiUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let base = text.trim_end_matches('/');
        let url = Url::parse(base).ok().filter(|url| {
            let has_user = !url.username().is_empty() || url.password().is_some();
            matches!(url.scheme(), "http" | "https")
                && is_private(base)
                && base.starts_with(url.scheme())
                && url.query().or(url.fragment()).is_none()
                && !has_user
        });
        // The error does not repeat the text, which may hold a password.
        ensure!(
            url.is_some(),
            "not the address of GitHub's API such as `https://api.github.com`, without a user or a query (`http://` only on this machine)"
        );
        Ok(Self(base.into()))
    }
}

/// The workflow of TheRock that builds all families.
impl Default for Workflow {
    fn default() -> Self {
        Self("multi_arch_ci.yml".into())
    }
}

impl FromStr for Workflow {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = text.strip_prefix(".github/workflows/").unwrap_or(text);
        let stem = name.strip_suffix(".yml").or(name.strip_suffix(".yaml"));
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_id = !name.is_empty() && name.chars().all(|c| c.is_ascii_digit());
        let is_file = stem.is_some_and(|stem| !stem.is_empty() && stem.chars().all(fits));
        ensure!(
            is_id || is_file,
            "not the file of a workflow such as `multi_arch_ci.yml`: {text:?}"
        );
        Ok(Self(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_is_reached_safely_or_on_this_machine() {
        for text in [
            "https://api.github.com",
            "https://ghe.example.org/api/v3",
            "http://127.0.0.1:8080",
            "http://localhost",
            "http://[::1]:8080",
        ] {
            assert_eq!(text.parse::<ApiUrl>().unwrap().as_str(), text);
        }
        let refused = [
            "",
            "api.github.com",
            "http://api.github.com",
            "https://",
            "https://u:p@h",
            "https://h/?x",
            "http://127.0.0.1.example.org",
        ];
        for text in refused {
            let error = text.parse::<ApiUrl>().unwrap_err().to_string();
            insta::allow_duplicates! {
                insta::assert_snapshot!(error, @"not the address of GitHub's API such as `https://api.github.com`, without a user or a query (`http://` only on this machine)");
            }
        }
    }

    #[test]
    fn the_api_of_a_server_is_known() {
        let api = |server| ApiUrl::of_server(server).unwrap().to_string();
        assert_eq!(api("https://github.com"), "https://api.github.com");
        assert_eq!(api("https://ghe.example.org"), "https://ghe.example.org/api/v3");
    }

    #[test]
    fn an_api_and_its_pages_tell_of_each_other() {
        for (server, api, host) in [
            ("https://github.com", "https://api.github.com", "github.com"),
            ("https://amd.ghe.com", "https://api.amd.ghe.com", "amd.ghe.com"),
            (
                "https://git.example.org:8443",
                "https://git.example.org:8443/api/v3",
                "git.example.org:8443",
            ),
        ] {
            let found = ApiUrl::of_server(server).unwrap();
            assert_eq!((found.as_str(), found.host().as_str()), (api, host));
            assert_eq!(found.server().as_deref(), Some(server));
        }
        let here: ApiUrl = "http://127.0.0.1:8080".parse().unwrap();
        assert_eq!((here.server(), here.host()), (None, "127.0.0.1:8080".to_owned()));
    }

    #[test]
    fn a_workflow_is_a_file_or_a_number() {
        for (text, shown) in
            [(".github/workflows/ci.yml", "ci.yml"), ("a-b_c.yaml", "a-b_c.yaml"), ("123", "123")]
        {
            assert_eq!(text.parse::<Workflow>().unwrap().to_string(), shown);
        }
        let refused = ["", "ci", ".yml", "a/b.yml", "../ci.yml", "ci.yml?x"];
        let messages = refused.map(|text| text.parse::<Workflow>().unwrap_err().to_string());
        insta::assert_snapshot!(messages.join("\n"), @r#"
        not the file of a workflow such as `multi_arch_ci.yml`: ""
        not the file of a workflow such as `multi_arch_ci.yml`: "ci"
        not the file of a workflow such as `multi_arch_ci.yml`: ".yml"
        not the file of a workflow such as `multi_arch_ci.yml`: "a/b.yml"
        not the file of a workflow such as `multi_arch_ci.yml`: "../ci.yml"
        not the file of a workflow such as `multi_arch_ci.yml`: "ci.yml?x"
        "#);
    }
}
