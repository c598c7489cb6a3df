//! What earlier fetches left in the output directory: partial downloads, which are removed, and
//! artifacts of other runs, which are reported.

use std::{collections::BTreeSet, io, path::Path};

use fs_err as fs;

use super::{output::OutputDir, plan::FetchPlan};
use crate::{
    artifact::{ArchiveName, ArtifactName},
    console::{few, many},
};

/// Removes the partial downloads of a fetch that was killed (`*.part`).
///
/// Call it only while holding the lock: without it, another fetch may still be writing these files.
pub(super) fn clear(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if name.strip_suffix(".part").is_some_and(is_ours) {
            remove(&path)?;
        }
    }
    Ok(())
}

fn is_ours(name: &str) -> bool {
    ArtifactName::of_file(name).is_ok() || ArchiveName::of_file(name).is_ok()
}

/// Removes a file, a directory with its contents, or a symlink but not its target.
fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

/// A warning about artifacts in the output directory that are not in the plan and come from
/// another place; `None` if there are none.
pub(super) fn of_others(output: &OutputDir, plan: &FetchPlan) -> Option<String> {
    let own: BTreeSet<String> = plan.archives().map(|it| output.form.name(it)).collect();
    let mut others = output.others_than(&plan.from);
    others.retain(|(name, _)| !own.contains(name));
    if others.is_empty() {
        return None;
    }
    let quoted = |text: &String| format!("`{text}`");
    let names = others.iter().map(|(name, _)| quoted(name));
    let places: BTreeSet<String> = others.iter().map(|(_, from)| quoted(from)).collect();
    let places: Vec<String> = places.into_iter().collect();
    Some(format!(
        "`{}` also has {} from {}: {}; remove what does not belong together, or choose another `--output-dir`",
        output.root.display(),
        many(others.len(), "artifact"),
        places.join(" and "),
        few(names)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn halves_of_artifacts_go_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let at = place.path();
        clear(&at.join("nothing")).unwrap();
        for directory in [
            "a_lib_generic",
            "a_lib_generic.old",
            "b_lib_gfx942%3Axnack+.part",
            "c_lib_generic.part/x/y",
            "mine.part",
            "a_lib_generic.parts",
        ] {
            fs::create_dir_all(at.join(directory)).unwrap();
        }
        for file in ["d_lib_generic.tar.zst.part", "x.tar.zst.part"] {
            fs::write(at.join(file), "").unwrap();
        }
        #[cfg(unix)]
        fs_err::os::unix::fs::symlink("mine.part", at.join("e_lib_generic.part")).unwrap();
        clear(at).unwrap();
        assert_eq!(
            names(at),
            [
                "a_lib_generic",
                "a_lib_generic.old",
                "a_lib_generic.parts",
                "mine.part",
                "x.tar.zst.part"
            ]
        );
    }
}
