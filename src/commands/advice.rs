//! Hints for errors of this machine or its network, which any command can meet; and hints that fit the command
//! that failed.

use clap::{Arg, Command};

use super::args::variable_of;
use rocwheel_base::error::{self, Error};
use rocwheel_store::{StoreError, StoreFailureKind};

/// What is behind each backtick that opens a flag.
const FLAG: &str = "`--";

/// Makes the hints of an error fit the command that failed. Code that several commands share may name a flag that this
/// command does not have. Then the hint names the variable of the flag instead, and a hint whose flag has no variable
/// is left out.
pub(super) fn fit(error: Error, command: &Command, root: &Command) -> Error {
    let hints = error::hints(&error);
    let fitting: Vec<String> = hints.iter().filter_map(|it| fitted(it, command, root)).collect();
    if fitting == hints {
        return error;
    }
    error::with_hints(error, fitting)
}

/// `None` for a hint that no user of the command can follow.
fn fitted(hint: &str, command: &Command, root: &Command) -> Option<String> {
    // It is about the flags of another command, or of another program.
    if ["`rocwheel ", "`auditwheel "].iter().any(|it| hint.contains(it)) {
        return Some(hint.to_owned());
    }
    let (first, rest) = hint.split_once(FLAG).unwrap_or((hint, ""));
    let mut fitting = first.to_owned();
    for part in rest.split(FLAG).filter(|it| !it.is_empty()) {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let end = part.find(|c| !is_name(c)).unwrap_or(part.len());
        let (name, behind) = part.split_at(end);
        let has_flag = flag(command, name).is_some() || flag(root, name).is_some();
        // A flag that no command of rocwheel has belongs to another program, such as docker.
        if let Some(other) = anywhere(root, name).filter(|_| !has_flag) {
            let variable = variable_of(other)?;
            // The flag may have a value, which the variable that stands for it does not repeat.
            let after_quote = behind.split_once('`').map_or(behind, |(_, after)| after);
            fitting.extend(["`", &variable, "`", after_quote]);
        } else {
            fitting.extend([FLAG, part]);
        }
    }
    Some(fitting)
}

/// The flag of a command with this name.
fn flag<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let mut arguments = command.get_arguments();
    arguments.find(|argument| {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        argument.get_long() == Some(name) || aliases.contains(&name)
    })
}

/// The flag of any command with this name.
fn anywhere<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    flag(command, name).or_else(|| command.get_subcommands().find_map(|it| anywhere(it, name)))
}

/// Adds a hint to an error that has none, if the disk, its permissions or the network caused it.
pub(super) fn advise(error: Error) -> Error {
    let is_away = |failure: &StoreError| failure.kind() == StoreFailureKind::Unavailable;
    let mut failures = error.chain().filter_map(|it| it.downcast_ref());
    if error::hints(&error).is_empty() && failures.any(is_away) {
        let hint = "check the address, the network, the proxy (`HTTPS_PROXY`) and the certificates (`SSL_CERT_FILE`), and try again";
        return error::hinted(error, hint);
    }
    error::advise(error)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::Cli;
    use rocwheel_base::error::{Context as _, anyhow, hinted, render};

    #[test]
    fn a_hint_names_what_the_command_takes() {
        let root = Cli::command();
        let fitted = |name: &str, hint: &str| {
            let command = root.find_subcommand(name).unwrap();
            render(&fit(hinted(anyhow!("no"), hint), command, &root))
        };
        let hint = "look at `--github-api-url` and `--bucket`, or at `rocwheel`";
        insta::assert_snapshot!(fitted("fetch", hint), @"
        error: no

        hint: look at `--github-api-url` and `--bucket`, or at `rocwheel`
        ");
        insta::assert_snapshot!(fitted("install", hint), @"
        error: no

        hint: look at `GITHUB_API_URL` and `--bucket`, or at `rocwheel`
        ");
        insta::assert_snapshot!(fitted("split", "pass `--deps URL`, or name it"), @"error: no");
        let docker = "start it with `--device /dev/kfd`";
        assert!(fitted("doctor", docker).contains(docker));
        let other = "pass `--packages`: `rocwheel build --only core`";
        assert!(fitted("split", other).ends_with("`rocwheel build --only core`\n"));
    }

    #[test]
    fn a_store_that_does_not_answer_has_a_hint() {
        let silent =
            StoreError::new(StoreFailureKind::Unavailable, "s3://b/k").caused_by("no route");
        let error = Err::<(), _>(silent).context("failed to list").unwrap_err();
        insta::assert_snapshot!(render(&advise(error)), @"
        error: failed to list
          caused by: the store does not answer: `s3://b/k`
          caused by: no route

        hint: check the address, the network, the proxy (`HTTPS_PROXY`) and the certificates (`SSL_CERT_FILE`), and try again
        ");
    }
}
