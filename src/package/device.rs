//! Plans device packages: the device code of one target, installed into the directory of the
//! libraries package. Reads and writes no files.

use std::fmt::Write as _;

use serde_json::json;

use crate::{
    error::{Result, bail},
    package::{
        claims::Claim,
        plan::{MemberSource, WheelMemberPlan},
        runtime::{Files, Placing},
    },
    relpath::RelPath,
    target::Scope,
    version::Version,
    wheel,
};

/// Plans a device package with all of `files`.
pub(super) fn claim(placing: Placing<'_>, files: &Files<'_>, claim: &mut Claim) -> Result<()> {
    placing.place(files, claim)?;
    if claim.members.is_empty() {
        bail!(
            "no files for target `{}`: its artifacts hold none",
            target(claim)
        );
    }
    Ok(())
}

/// `.devel_links/gfx942.json`: the symlinks that the devel tree needs for the files of this
/// package.
///
/// The text of a symlink is relative to its directory, so it begins with one `../` for each
/// component of the symlink's path. Names of libraries that the wheel leaves out are symlinks to
/// the name that it ships.
pub(super) fn links(claim: &Claim, version: &Version) -> Result<(RelPath, WheelMemberPlan)> {
    let shipped = claim.members.iter().map(|(path, _)| (path, path));
    let mut all: Vec<(&RelPath, &RelPath)> = shipped.chain(&claim.aliases).collect();
    all.sort_unstable();
    let links: Vec<_> = all
        .into_iter()
        .map(|(path, file)| {
            let up = "../".repeat(path.depth());
            json!({ "relpath": path.as_str(), "target": format!("{up}{}/{file}", claim.directory) })
        })
        .collect();
    let document = json!({ "version": version.to_string(), "links": links });
    let text = serde_json::to_string_pretty(&document)?;
    let path = format!(".devel_links/{}.json", target(claim)).parse()?;
    Ok((
        path,
        WheelMemberPlan {
            mode: wheel::FileMode::Regular,
            source: MemberSource::Text(escaped(&text)),
        },
    ))
}

fn target(claim: &Claim) -> String {
    let scope = claim.scope.as_ref().map(Scope::base);
    scope.map(|scope| scope.to_string()).unwrap_or_default()
}

/// Escapes non-ASCII characters of JSON. Its readers have always been given plain ASCII.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() && c != '\x7f' {
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
