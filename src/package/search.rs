//! Run paths with which the files of a package find the libraries of `rocm-sdk-core`.

use crate::{
    elf::{ElfFacts, ElfKind, Machine, Rpath},
    error::{Context as _, Result},
    relpath::RelPath,
};

/// The run path for a file: its own entries, then one entry for each of `directories` of the core
/// package, whose import name is `core`.
///
/// The new entries go up to `site-packages` and down into the core package, even for files of the
/// core package itself. So they are also right for the same path below `_rocm_sdk_devel`.
pub(super) fn extend(
    core: &str,
    directories: &[RelPath],
    path: &RelPath,
    facts: &ElfFacts,
) -> Result<Rpath> {
    let up = "../".repeat(path.depth());
    let added = directories.iter();
    let added = added.map(|directory| format!("$ORIGIN/{up}{core}/{directory}"));
    let added: Rpath = added.collect::<Vec<_>>().join(":").parse()?;
    Ok(own(path, facts)?.join(&added))
}

/// The run path that the file has in the artifact.
pub(super) fn own(path: &RelPath, facts: &ElfFacts) -> Result<Rpath> {
    let text = facts.run_path().unwrap_or_default();
    text.parse()
        .with_context(|| format!("failed to read the run path of `{path}`"))
}

/// The `$ORIGIN` entries of `rpath`, adjusted for a loader that opens `file` by its symlink `name`
/// in the same tree.
pub(super) fn seen_from(rpath: &Rpath, file: &RelPath, name: &RelPath) -> Result<Rpath> {
    let entries = rpath.entries().iter();
    let entries = entries.filter_map(|entry| {
        let rest = entry.strip_prefix("$ORIGIN");
        let rest = rest.or_else(|| entry.strip_prefix("${ORIGIN}"))?;
        if !rest.is_empty() && !rest.starts_with('/') {
            return None;
        }
        let mut place: Vec<&str> = file.components().collect();
        place.pop();
        let mut up = name.depth().saturating_sub(1);
        for component in rest.split('/') {
            match component {
                "" | "." => {}
                // An entry for another package leads out of the tree, so `..` may exceed its top.
                ".." => up += usize::from(place.pop().is_none()),
                name => place.push(name),
            }
        }
        let way = std::iter::repeat_n("..", up).chain(place);
        let parts: Vec<&str> = ["$ORIGIN"].into_iter().chain(way).collect();
        Some(parts.join("/"))
    });
    let entries: Vec<String> = entries.collect();
    Ok(entries.join(":").parse()?)
}

/// Whether the dynamic loader of the host reads the run path of this file.
pub(super) fn is_searched(facts: &ElfFacts) -> bool {
    facts.machine == Machine::X86_64
        && matches!(facts.kind, ElfKind::Executable | ElfKind::SharedObject)
        && (!facts.needed.is_empty() || facts.run_path().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::{self, write::SharedObject};

    fn facts(library: &SharedObject) -> ElfFacts {
        elf::read(&library.build()).unwrap().unwrap()
    }

    fn way(path: &str, library: &SharedObject) -> String {
        let directories = ["lib", "lib/rocm_sysdeps/lib"].map(|it| it.parse().unwrap());
        let path = path.parse().unwrap();
        let rpath = extend("_rocm_sdk_core", &directories, &path, &facts(library));
        rpath.unwrap().to_string()
    }

    #[test]
    fn the_way_to_the_core_package_starts_at_the_depth_of_the_file() {
        let library = || SharedObject::new("libx.so.1").runpath("$ORIGIN");
        insta::assert_snapshot!(
            way("lib/libx.so.1", &library()),
            @"$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib"
        );
        insta::assert_snapshot!(
            way("libx.so.1", &library()),
            @"$ORIGIN:$ORIGIN/../_rocm_sdk_core/lib:$ORIGIN/../_rocm_sdk_core/lib/rocm_sysdeps/lib"
        );
    }

    #[test]
    fn what_is_there_already_is_not_said_twice() {
        let library = SharedObject::new("libx.so.1").rpath("$ORIGIN/../../_rocm_sdk_core/lib:/b");
        insta::assert_snapshot!(
            way("lib/libx.so.1", &library),
            @"$ORIGIN/../../_rocm_sdk_core/lib:/b:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib"
        );
    }

    #[test]
    fn a_run_path_reads_otherwise_from_another_directory() {
        let seen = |rpath: &str, name: &str| {
            let (file, name) = ("lib/sub/libx.so".parse().unwrap(), name.parse().unwrap());
            seen_from(&rpath.parse().unwrap(), &file, &name).unwrap()
        };
        insta::assert_snapshot!(
            seen("$ORIGIN:${ORIGIN}/../b:/opt:$ORIGINAL:$ORIGIN/../../../core/./lib", "share/x/y/libx.so"),
            @"$ORIGIN/../../../lib/sub:$ORIGIN/../../../lib/b:$ORIGIN/../../../../core/lib"
        );
        insta::assert_snapshot!(seen("$ORIGIN/../..:$ORIGIN/..", "libx.so"), @"$ORIGIN:$ORIGIN/lib");
    }

    #[test]
    fn a_library_that_needs_nothing_is_left_alone() {
        assert!(!is_searched(&facts(&SharedObject::new("liba.so.1"))));
        assert!(is_searched(&facts(
            &SharedObject::new("liba.so.1").needs("libb.so")
        )));
        assert!(is_searched(&facts(
            &SharedObject::new("liba.so.1").runpath("$ORIGIN")
        )));
    }
}
