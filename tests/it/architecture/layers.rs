//! A module uses only the paragraphs of `src/lib.rs` above its own.

use std::collections::BTreeMap;

use super::{
    house::{House, Read, Violation},
    source::{Path, Token},
};

/// The rooms, each with the paragraph of `lib.rs` that declares it.
fn paragraphs(house: &House) -> BTreeMap<String, usize> {
    let mut paragraph = 0;
    let mut rooms = BTreeMap::new();
    for line in house.0.get("src/lib.rs").map_or("", String::as_str).lines() {
        let declared = line
            .trim_start_matches("pub ")
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(';'));
        match declared {
            Some(room) => {
                rooms.insert(room.to_owned(), paragraph);
            }
            None if line.trim().is_empty() => paragraph += 1,
            None => {}
        }
    }
    rooms
}

/// A module uses only the paragraphs above its own.
pub(super) fn layers(house: &House, files: &[Read]) -> Vec<Violation> {
    let paragraphs = paragraphs(house);
    let mut found = Vec::new();
    for Read {
        file,
        module,
        tokens,
        paths,
    } in files
    {
        let Some(own) = module.first() else { continue };
        let Some(layer) = paragraphs.get(own) else {
            let what = format!("`{own}` is not declared in src/lib.rs");
            found.push(Violation::new(
                file,
                1,
                what,
                "declare it in the paragraph of its layer",
            ));
            continue;
        };
        for path in paths {
            found.extend(path_violation(file, own, *layer, path, &paragraphs));
        }
        found.extend(root_aliases(file, tokens));
    }
    found
}

fn path_violation(
    file: &str,
    own: &str,
    layer: usize,
    path: &Path,
    paragraphs: &BTreeMap<String, usize>,
) -> Option<Violation> {
    if path
        .segments
        .get(..2)
        .is_some_and(|start| start == ["super", "super"])
    {
        return Some(Violation::new(
            file,
            path.line,
            "uses `super::super`",
            "write the path from `crate::`, so that its layer can be seen",
        ));
    }
    let absolute = path.absolute()?;
    let used = absolute.first()?;
    let (what, advice) = match paragraphs.get(used) {
        _ if used == own => return None,
        Some(other) if *other < layer => return None,
        Some(other) if *other == layer => (
            format!("`{own}` uses its sibling `{used}`"),
            "hand the value in, or move what both need to a paragraph above them",
        ),
        Some(_) => (
            format!("`{own}` uses `{used}`, which src/lib.rs declares below it"),
            "hand the value in, or move the code to the layer that needs it",
        ),
        None => (
            format!("`{own}` uses `crate::{used}`, which src/lib.rs does not declare"),
            "name the module that holds it",
        ),
    };
    Some(Violation::new(file, path.line, what, advice))
}

/// `use crate as x` would hide what is used.
fn root_aliases<'a>(file: &'a str, tokens: &'a [Token]) -> impl Iterator<Item = Violation> + 'a {
    tokens
        .windows(2)
        .filter(|pair| pair[0].text == "crate" && pair[1].text == "as")
        .map(move |pair| {
            let advice = "name the module that is used";
            Violation::new(file, pair[0].line, "renames the root of the crate", advice)
        })
}
