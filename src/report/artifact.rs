//! [`WorkflowArtifact`]: an artifact of GitHub Actions with the packages of a workflow that is not
//! allowed to publish them.

use std::str::FromStr;

use crate::{
    error::Invalid,
    run::{Repository, RunId},
};

/// The name of such an artifact: letters, digits, `-`, `_` and `.`, beginning with a letter or
/// digit.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub struct WorkflowArtifactName(Box<str>);

/// An artifact, and the run that has it if the run is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowArtifact {
    pub name: WorkflowArtifactName,
    pub run: Option<(Repository, RunId)>,
}

impl WorkflowArtifactName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl WorkflowArtifact {
    /// The command that downloads the artifact to a directory of its name.
    pub fn download(&self) -> String {
        let name = &self.name;
        let run = match &self.run {
            Some((repository, run)) => format!(" {run} --repo {repository}"),
            None => String::new(),
        };
        format!("gh run download{run} --name {name} --dir {name}")
    }
}

impl FromStr for WorkflowArtifactName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(known) {
            return Ok(Self(text.into()));
        }
        Err(Invalid::new(
            "not a name of letters, digits, `-`, `_` and `.` that begins with a letter or digit",
            text,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_nothing_to_a_shell() {
        for name in ["python-packages-linux", "a_b.c", "1"] {
            assert_eq!(
                name.parse::<WorkflowArtifactName>().unwrap().to_string(),
                name
            );
        }
        for name in ["", "-a", ".", "a b", "$(x)", "a/b", "é"] {
            assert!(name.parse::<WorkflowArtifactName>().is_err(), "{name}");
        }
        let refused = "a\"b".parse::<WorkflowArtifactName>().unwrap_err();
        insta::assert_snapshot!(refused, @r#"not a name of letters, digits, `-`, `_` and `.` that begins with a letter or digit: "a\"b""#);
    }

    #[test]
    fn an_artifact_is_downloaded_from_its_run_or_from_the_one_that_is_picked() {
        let name: WorkflowArtifactName = "python-packages-linux".parse().unwrap();
        let run = ("ROCm/TheRock".parse().unwrap(), "42".parse().unwrap());
        let of = |run| WorkflowArtifact {
            name: name.clone(),
            run,
        };
        let lines = [of(Some(run)).download(), of(None).download()];
        insta::assert_snapshot!(lines.join("\n"), @"
        gh run download 42 --repo ROCm/TheRock --name python-packages-linux --dir python-packages-linux
        gh run download --name python-packages-linux --dir python-packages-linux
        ");
    }
}
