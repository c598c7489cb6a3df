//! A run as users name it: by its id, or by the URL of one of its pages.

use std::str::FromStr;

use url::Url;

use crate::{
    error::{Context as _, Error, Result},
    run::{Repository, RunId},
};

/// A run, with its repository and server if it was named by a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReference {
    pub id: RunId,
    pub repository: Option<Repository>,
    /// The GitHub server, `https://github.com` or an installation of GitHub Enterprise.
    pub server: Option<String>,
}

impl From<RunId> for RunReference {
    fn from(id: RunId) -> Self {
        Self {
            id,
            repository: None,
            server: None,
        }
    }
}

impl FromStr for RunReference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // Pasted text often has spaces or a line end around it.
        let pasted = text.trim();
        if let Ok(id) = pasted.parse::<RunId>() {
            return Ok(id.into());
        }
        parse_url(pasted).with_context(|| {
            format!(
                "not a run id, nor an address such as `https://github.com/ROCm/TheRock/actions/runs/21440027240`: {text:?}"
            )
        })
    }
}

/// Parses the URL of any page of a run: the run itself, an attempt, a job, a step or a summary.
fn parse_url(text: &str) -> Option<RunReference> {
    // Some browsers hide `https://` in the address bar, so it may be missing in a copied address.
    let with_scheme = || Url::parse(&format!("https://{text}"));
    let url = Url::parse(text).or_else(|_| with_scheme()).ok()?;
    let names_a_host = url
        .host_str()?
        .starts_with(|c: char| c.is_ascii_alphanumeric());
    let has_user = !url.username().is_empty() || url.password().is_some();
    let segments: Vec<&str> = url.path_segments()?.collect();
    let [owner, name, "actions", "runs", id, ..] = segments[..] else {
        return None;
    };
    let id: RunId = id.parse().ok()?;
    let is_run = url.scheme() == "https" && names_a_host && !has_user && !id.is_local();
    Some(RunReference {
        id: Some(id).filter(|_| is_run)?,
        repository: Some(format!("{owner}/{name}").parse().ok()?),
        server: Some(url.origin().ascii_serialization()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(text: &str) -> RunReference {
        text.parse().unwrap()
    }

    #[test]
    fn an_id_tells_the_run_alone() {
        for text in ["21440027240", "local", " 21440027240\n"] {
            let reference = reference(text);
            assert_eq!(reference.id.as_str(), text.trim());
            assert_eq!((reference.repository, reference.server), (None, None));
        }
    }

    #[test]
    fn each_page_of_a_run_tells_the_run_and_its_repository() {
        let page = "https://github.com/ROCm/TheRock/actions/runs/21440027240";
        let repository: Repository = "ROCm/TheRock".parse().unwrap();
        for tail in [
            "",
            "/",
            "/attempts/2",
            "/job/61234567890?pr=12#step:3:1",
            "#summary-61234567890",
            "?check_suite_focus=true",
        ] {
            let reference = reference(&format!("{page}{tail}"));
            assert_eq!(reference.id.as_str(), "21440027240", "{tail}");
            assert_eq!(reference.repository, Some(repository.clone()));
            assert_eq!(reference.server.as_deref(), Some("https://github.com"));
        }
        for text in [format!("\t{page}\r\n"), page.replace("https://", "")] {
            assert_eq!(reference(&text), reference(page), "{text}");
        }
        let elsewhere = reference("https://GitHub.example.org:8443/a/b/actions/runs/1");
        assert_eq!(
            elsewhere.server.as_deref(),
            Some("https://github.example.org:8443")
        );
    }

    #[test]
    fn the_address_of_something_else_is_refused_in_words() {
        let refused = [
            "",
            "main",
            "https://github.com/ROCm/TheRock/pull/12",
            "https://github.com/ROCm/TheRock/actions/workflows/ci.yml",
            "https://github.com/ROCm/TheRock/runs/61234567890",
            "https://github.com/ROCm/TheRock/actions/runs/",
            "https://github.com/ROCm/TheRock/actions/runs/local",
            "https://github.com/ROCm/../actions/runs/1",
            "https://user:secret@github.com/a/b/actions/runs/1",
            "http://github.com/a/b/actions/runs/1",
            "https:///a/b/actions/runs/1",
            "a/b/actions/runs/1",
            "./a/b/actions/runs/1",
            "user:secret@github.com/a/b/actions/runs/1",
            "ftp://github.com/a/b/actions/runs/1",
            "21440027240 21440027241",
        ];
        for text in refused {
            assert!(text.parse::<RunReference>().is_err(), "{text}");
        }
        let error = "https://github.com/ROCm/TheRock/pull/12".parse::<RunReference>();
        insta::assert_snapshot!(error.unwrap_err(), @r#"not a run id, nor an address such as `https://github.com/ROCm/TheRock/actions/runs/21440027240`: "https://github.com/ROCm/TheRock/pull/12""#);
    }
}
