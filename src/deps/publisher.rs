//! [`Publisher`]: who published a file, as the registry attests
//! ([PEP 740](https://peps.python.org/pep-0740/)). Pure.
//!
//! The attestations are not verified: that needs the roots of Sigstore. They are stored for tools that
//! do, and a publisher that changes is reported.

use derive_more::Display;
use itertools::Itertools as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Context as _, Result, ensure};

/// Kind, repository and workflow: `GitHub pypa/setuptools release.yml`.
#[derive(Clone, Debug, Display, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Publisher(String);

#[derive(Deserialize)]
struct Provenance {
    attestation_bundles: Vec<AttestationBundle>,
}

#[derive(Deserialize)]
struct AttestationBundle {
    publisher: Map<String, Value>,
}

impl Publisher {
    /// Reads the provenance of a file. Kinds of publishers have fields of their own; those that name a
    /// source are kept.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let provenance: Provenance =
            serde_json::from_slice(bytes).context("failed to read JSON")?;
        let name = |bundle: &AttestationBundle| {
            let fields = [
                "kind",
                "repository",
                "workflow",
                "workflow_filepath",
                "email",
            ];
            let fields = fields.iter().filter_map(|it| bundle.publisher.get(*it));
            fields.filter_map(Value::as_str).join(" ")
        };
        let names = provenance.attestation_bundles.iter().map(name);
        let names = names
            .filter(|it| !it.is_empty())
            .sorted()
            .dedup()
            .join(", ");
        let is_plain = !names.is_empty() && !names.contains(char::is_control);
        ensure!(is_plain, "it names no publisher");
        Ok(Self(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::render;

    #[test]
    fn a_provenance_names_its_publisher() {
        let read = |text: &str| match Publisher::parse(text.as_bytes()) {
            Ok(publisher) => format!("{publisher}\n"),
            Err(error) => render(&error),
        };
        let one = r#"{"publisher": {"kind": "GitHub", "repository": "a/b", "workflow": "r.yml", "environment": null}, "attestations": []}"#;
        let other = r#"{"publisher": {"kind": "GitLab", "repository": "c", "workflow_filepath": ".gitlab-ci.yml"}, "attestations": []}"#;
        let of = |bundles: &str| format!(r#"{{"version": 1, "attestation_bundles": [{bundles}]}}"#);
        let said = [
            read(&of(one)),
            read(&of(&format!("{other}, {one}, {one}"))),
            read(&of("")),
            read(&of(r#"{"publisher": {"kind": 1}}"#)),
            read("[]"),
        ];
        insta::assert_snapshot!(said.concat(), @"
        GitHub a/b r.yml
        GitHub a/b r.yml, GitLab c .gitlab-ci.yml
        error: it names no publisher
        error: it names no publisher
        error: failed to read JSON
          caused by: invalid length 0, expected struct Provenance with 1 element at line 1 column 2
        ");
    }
}
