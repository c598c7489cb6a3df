//! Device code of one target, laid over the libraries. Decides; reads nothing, writes nothing.

use std::fmt::Write as _;

use serde_json::json;

use crate::{
    artifact::{Content, LinkEnd, Owned},
    error::{Error, Result, anyhow, bail, hinted},
    package::{
        claims::Claim,
        plan::{Member, Source},
        runtime::{Files, Found, escaping_link},
        search::SearchPath,
    },
    relpath::RelPath,
    run::Platform,
    target::Scope,
    version::Version,
    wheel,
};

/// Takes every file as it is; links become the files they lead to.
pub(super) fn claim(
    files: &Files<'_>,
    platform: Platform,
    search: &SearchPath,
    claim: &mut Claim,
) -> Result<()> {
    for (path, owned) in files {
        let (source, facts) = match &owned.file.content {
            Content::Directory => continue,
            Content::File(facts) => (&owned.file.source, facts),
            Content::Link { text, end } => match end {
                LinkEnd::File { source, facts, .. } => (source, facts),
                LinkEnd::Escapes => return Err(escaping_link(path, text, owned)),
                LinkEnd::Dangling => return Err(useless_link(path, text, owned, "to nothing")),
                LinkEnd::Directory => {
                    return Err(useless_link(path, text, owned, "to a directory"));
                }
            },
        };
        let found = Found {
            owned,
            source,
            facts,
        };
        claim
            .members
            .insert((*path).clone(), found.member(path, platform, search)?)?;
    }
    if claim.members.is_empty() {
        let scope = claim
            .scope
            .as_ref()
            .map(Scope::to_string)
            .unwrap_or_default();
        bail!("no files for target `{scope}`: its artifacts hold none");
    }
    Ok(())
}

fn useless_link(path: &RelPath, text: &str, owned: &Owned<'_>, to: &str) -> Error {
    hinted(
        anyhow!(
            "link `{path}` of artifact `{}` leads {to}: `{text}`",
            owned.artifact.name
        ),
        "a device package holds files only: ship the file itself, or leave the link out",
    )
}

/// The member that tells the devel tree which files to mirror: `.devel_links/gfx942.json`.
///
/// A target is read from the link's own path, which is how deep it climbs.
pub(super) fn links(claim: &Claim, version: &Version) -> Result<(RelPath, Member)> {
    let scope = claim
        .scope
        .as_ref()
        .map(Scope::base)
        .map(|scope| scope.to_string());
    let links: Vec<_> = claim
        .members
        .iter()
        .map(|(path, _)| {
            let up = "../".repeat(path.depth());
            json!({ "relpath": path.as_str(), "target": format!("{up}{}/{path}", claim.directory) })
        })
        .collect();
    let text =
        serde_json::to_string_pretty(&json!({ "version": version.to_string(), "links": links }))?;
    let path = format!(".devel_links/{}.json", scope.unwrap_or_default()).parse()?;
    Ok((
        path,
        Member {
            mode: wheel::Mode::Regular,
            source: Source::Text(escaped(&text)),
        },
    ))
}

/// JSON in ASCII alone, as its readers have always been given.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::plan::Members;

    fn device(paths: &[&str]) -> Claim {
        let mut members = Members::default();
        for path in paths {
            let member = Member {
                mode: wheel::Mode::Regular,
                source: Source::Text(String::new()),
            };
            members.insert(path.parse().unwrap(), member).unwrap();
        }
        Claim {
            scope: Some("gfx942:xnack+".parse().unwrap()),
            members,
            ..Claim::new("device", "_rocm_sdk_libraries")
        }
    }

    #[test]
    fn the_links_climb_from_the_file_itself() {
        let (path, member) = links(
            &device(&["lib/k_gfx942.co", ".kpack/é.kpack"]),
            &"1.0".parse().unwrap(),
        )
        .unwrap();
        assert_eq!(path.as_str(), ".devel_links/gfx942.json");
        let Source::Text(text) = member.source else {
            panic!("{:?}", member.source)
        };
        insta::assert_snapshot!(text, @r#"
        {
          "version": "1.0",
          "links": [
            {
              "relpath": ".kpack/\u00e9.kpack",
              "target": "../../_rocm_sdk_libraries/.kpack/\u00e9.kpack"
            },
            {
              "relpath": "lib/k_gfx942.co",
              "target": "../../_rocm_sdk_libraries/lib/k_gfx942.co"
            }
          ]
        }
        "#);
    }

    #[test]
    fn a_target_without_files_is_no_package() {
        let search = SearchPath::new("_rocm_sdk_core", &[]);
        let refused = claim(&Files::new(), Platform::Linux, &search, &mut device(&[]));
        insta::assert_snapshot!(
            refused.unwrap_err(),
            @"no files for target `gfx942:xnack+`: its artifacts hold none"
        );
    }
}
