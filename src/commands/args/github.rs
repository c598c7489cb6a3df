//! Whom to ask about runs, and in whose name.

use std::env;

use crate::{
    error::{Result, Secret},
    github::{ApiUrl, Patience, Settings},
};

/// How to reach GitHub. Public repositories need no token.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "GitHub options")]
pub struct GitHubArgs {
    /// A token that may read actions; `GH_TOKEN` counts as well
    #[arg(long, value_name = "TOKEN", env = "GITHUB_TOKEN", value_parser = secret)]
    github_token: Option<Secret>,
    /// GitHub's API, where it is not that of github.com
    #[arg(long, value_name = "URL", env = "GITHUB_API_URL")]
    github_api_url: Option<ApiUrl>,
}

#[expect(clippy::unnecessary_wraps, reason = "clap asks for a result")]
fn secret(text: &str) -> Result<Secret> {
    Ok(Secret::new(text.trim()))
}

impl GitHubArgs {
    /// For a run whose page is on `server`, if that is known.
    pub fn settings(&self, server: Option<&str>) -> Result<Settings> {
        self.settings_in(server, |name| env::var(name).ok())
    }

    /// A token belongs to the API that was chosen; where an address led elsewhere, it stays here.
    fn settings_in(
        &self,
        server: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Settings> {
        let own = match &self.github_api_url {
            Some(api) => api.clone(),
            None => ApiUrl::GITHUB.parse()?,
        };
        let api = match server {
            Some("https://github.com") if self.github_api_url.is_some() => own.clone(),
            Some(server) => ApiUrl::of_server(server)?,
            None => own.clone(),
        };
        let other = || variable("GH_TOKEN").map(|text| Secret::new(text.trim()));
        let token = self.github_token.clone().or_else(other);
        let is_set = |token: &Secret| !token.reveal().is_empty();
        Ok(Settings {
            token: token.filter(|token| is_set(token) && api == own),
            api,
            patience: Patience::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;

    #[derive(clap::Parser)]
    struct Probe {
        #[command(flatten)]
        github: GitHubArgs,
    }

    fn settings(line: &str, server: Option<&str>) -> String {
        let command = Probe::command().mut_args(|argument| argument.env(None));
        let arguments = ["probe"].into_iter().chain(line.split_whitespace());
        let matches = command.try_get_matches_from(arguments).unwrap();
        let github = Probe::from_arg_matches(&matches).unwrap().github;
        assert!(!format!("{github:?}").contains("t1"));
        let gh_token = |name: &str| (name == "GH_TOKEN").then(|| "gh".to_owned());
        let settings = github.settings_in(server, gh_token).unwrap();
        let token = settings.token.map(|token| token.reveal().to_owned());
        format!("{} {}", settings.api, token.unwrap_or_default())
    }

    #[test]
    fn the_token_is_told_to_the_api_that_was_chosen_and_to_no_other() {
        let ghe = "--github-api-url https://ghe.example.org/api/v3 --github-token t1";
        let (github, example) = (Some("https://github.com"), Some("https://ghe.example.org"));
        let table = [
            ("", None, "https://api.github.com gh"),
            ("--github-token t1", None, "https://api.github.com t1"),
            ("--github-token t1", github, "https://api.github.com t1"),
            (
                "--github-token t1",
                example,
                "https://ghe.example.org/api/v3 ",
            ),
            (ghe, None, "https://ghe.example.org/api/v3 t1"),
            (ghe, example, "https://ghe.example.org/api/v3 t1"),
        ];
        for (line, server, expected) in table {
            assert_eq!(settings(line, server), expected, "{line}");
        }
    }
}
