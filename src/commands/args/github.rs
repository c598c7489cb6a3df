//! Arguments for GitHub's API: its URL and the token.

use std::{
    env,
    process::{Command, Stdio},
};

use crate::{
    commands::World,
    error::{Hint as _, Result, Secret},
    github::{ApiSettings, ApiUrl, GitHub, WaitPolicy},
    run::{Repository, RunFacts, RunReference},
};

/// How to reach GitHub. Public repositories need no token.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "GitHub options")]
pub struct GitHubArgs {
    /// Token with read access to Actions (default: `GH_TOKEN`, else the login of `gh`)
    #[arg(long, value_name = "TOKEN", env = "GITHUB_TOKEN", value_parser = secret)]
    github_token: Option<Secret>,
    /// API URL of a GitHub Enterprise server
    #[arg(long, value_name = "URL", env = "GITHUB_API_URL")]
    github_api_url: Option<ApiUrl>,
}

#[expect(clippy::unnecessary_wraps, reason = "clap asks for a result")]
fn secret(text: &str) -> Result<Secret> {
    Ok(Secret::new(text.trim()))
}

impl GitHubArgs {
    /// The API settings for a run whose page is on `server`, if that is known.
    pub fn settings(&self, server: Option<&str>) -> Result<ApiSettings> {
        let mut settings = self.settings_in(server, |name| env::var(name).ok())?;
        settings.token = settings.token.or_else(|| login(&settings.api));
        Ok(settings)
    }

    /// Asks GitHub for the facts about a run.
    pub fn facts(
        &self,
        repository: &Repository,
        run: &RunReference,
        world: &World,
    ) -> Result<RunFacts> {
        let settings = self.settings(run.server.as_deref())?;
        let announce = |text: &str| world.console.note(text);
        let github = GitHub::connect(settings, world.stop.clone(), announce)?;
        let answer = github.run(repository, &run.id);
        Ok(answer
            .hint("pass `--bucket` to say where its outputs are")?
            .facts)
    }

    /// The token is only for the API that the user has chosen. If the URL of the run leads to
    /// another server, the token is not sent there.
    fn settings_in(
        &self,
        server: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<ApiSettings> {
        let own = match &self.github_api_url {
            Some(api) => api.clone(),
            None => ApiUrl::GITHUB.parse()?,
        };
        let own_server = own.server().unwrap_or_else(|| ApiUrl::PAGES.to_owned());
        let api = match server {
            Some(server) if server != own_server => ApiUrl::of_server(server)?,
            _ => own.clone(),
        };
        let other = || variable("GH_TOKEN").map(|text| Secret::new(text.trim()));
        let is_set = |token: &Secret| !token.reveal().is_empty();
        let token = self.github_token.clone().filter(is_set).or_else(other);
        Ok(ApiSettings {
            token: token.filter(|token| is_set(token) && api == own),
            api,
            patience: WaitPolicy::default(),
        })
    }
}

/// The token that `gh auth login` has stored for this server, if `gh` is installed.
fn login(api: &ApiUrl) -> Option<Secret> {
    let mut gh = Command::new("gh");
    gh.args(["auth", "token", "--hostname", &api.host()]);
    let answer = gh.stdin(Stdio::null()).output().ok()?;
    let token = String::from_utf8(answer.stdout).ok()?;
    let token = token.trim();
    (answer.status.success() && !token.is_empty()).then(|| Secret::new(token))
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
            (ghe, github, "https://api.github.com "),
            (
                "--github-api-url http://127.0.0.1:1 --github-token t1",
                github,
                "http://127.0.0.1:1 t1",
            ),
            (ghe, example, "https://ghe.example.org/api/v3 t1"),
        ];
        for (line, server, expected) in table {
            assert_eq!(settings(line, server), expected, "{line}");
        }
    }
}
