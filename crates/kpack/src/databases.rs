//! Kernel databases: files beside the binaries that are for one target only, such as
//! `lib/rocblas/library/TensileLibrary_gfx942.dat`. The rules that recognize them are in
//! `databases.toml`.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;
use serde::Deserialize;

use rocwheel_base::{relpath::RelPath, target::Target};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DatabaseTable {
    rule: Vec<DatabaseRule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DatabaseRule {
    library: String,
    #[serde(default)]
    below: Option<RelPath>,
    #[serde(default)]
    begins: Vec<String>,
    #[serde(default)]
    ends: Vec<String>,
    target: TargetPlace,
    #[serde(default)]
    targets: Vec<String>,
    #[serde(default)]
    renamed: BTreeMap<String, String>,
    #[serde(default)]
    optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TargetPlace {
    Name,
    Directory,
    List,
}

static TABLE: LazyLock<DatabaseTable> = LazyLock::new(|| {
    toml::from_str(include_str!("databases.toml")).expect("a test reads the same text")
});

/// A processor. Some file names have an underscore before `strict`.
static PROCESSOR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("gfx[0-9]+[a-z]*([-_]strict)?").expect("a pattern that every test uses")
});

/// The library to whose database a file belongs, and its target without features. `None` if the
/// file is for every target.
///
/// `path` is relative to the installed directory.
pub fn owner(path: &RelPath) -> Option<(&'static str, Target)> {
    TABLE.rule.iter().find_map(|rule| {
        let target = rule.target(path)?;
        Some((rule.library.as_str(), target))
    })
}

/// Whether the library of a database works without this file, so that a target may have none.
pub fn is_optional(path: &RelPath) -> bool {
    // The first rule that knows the file, as in `owner`.
    let rule = TABLE.rule.iter().find(|rule| rule.target(path).is_some());
    rule.is_some_and(|rule| rule.optional)
}

impl DatabaseRule {
    /// The path of a file below the directory of the rule, if the rule may be about the file: the
    /// directories and the file name.
    fn components_below<'a>(&self, path: &'a RelPath) -> Option<Vec<&'a str>> {
        let name = path.file_name();
        let begins = self.begins.is_empty() || self.begins.iter().any(|it| name.starts_with(it));
        let ends = self.ends.is_empty() || self.ends.iter().any(|it| name.ends_with(it));
        if !begins || !ends {
            return None;
        }
        let components: Vec<&str> = path.components().collect();
        let directory: Vec<&str> = self.below.iter().flat_map(RelPath::components).collect();
        // The directory of the rule may itself be at any depth of the installed tree.
        let start = (0..components.len())
            .find(|start| components.get(*start..).is_some_and(|it| it.starts_with(&directory)))?;
        components.get(start + directory.len()..).map(<[_]>::to_vec)
    }

    /// The target of a file; `None` if the rule is not about the file.
    fn target(&self, path: &RelPath) -> Option<Target> {
        let components = self.components_below(path)?;
        let (file, directories) = components.split_last()?;
        match self.target {
            TargetPlace::Name => {
                PROCESSOR.find_iter(file).find_map(|processor| parse_target(processor.as_str()))
            }
            TargetPlace::Directory => directories.iter().find_map(|directory| {
                let renamed = self.renamed.get(*directory).map(String::as_str);
                parse_whole_name(renamed.unwrap_or(directory))
            }),
            TargetPlace::List => file.match_indices("gfx").find_map(|(start, _)| {
                let rest = file.get(start..)?;
                let target =
                    self.targets.iter().find(|target| rest.starts_with(target.as_str()))?;
                target.parse().ok()
            }),
        }
    }
}

/// The target that is the whole name, with or without an XNACK feature: `gfx90a-xnack+`.
fn parse_whole_name(name: &str) -> Option<Target> {
    let processor = PROCESSOR.find(name)?;
    let is_whole = processor.start() == 0
        && matches!(name.get(processor.end()..)?, "" | "-xnack+" | "-xnack-");
    is_whole.then(|| parse_target(processor.as_str()))?
}

fn parse_target(processor: &str) -> Option<Target> {
    processor.replace('_', "-").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        let table: DatabaseTable = toml::from_str(include_str!("databases.toml")).unwrap();
        for rule in &table.rule {
            assert!(rule.below.is_some() || !rule.begins.is_empty(), "{rule:?}");
            assert_eq!(rule.target == TargetPlace::List, !rule.targets.is_empty(), "{rule:?}");
            let named = rule.targets.iter().chain(rule.renamed.values());
            for target in named {
                assert!(target.parse::<Target>().is_ok(), "{target}");
            }
        }
    }

    #[test]
    fn files_for_one_target_are_known_by_their_place() {
        let hash = "0".repeat(64);
        let said: Vec<String> = [
            "lib/rocblas/library/Kernels.so-000-gfx90a-xnack-.hsaco",
            "lib/rocblas/library/TensileLibrary_Type_HH_gfx942.co",
            "lib/rocblas/library/TensileLibrary_Type_HH_fallback.dat",
            "lib/rocblas/library/gfx1100/TensileManifest.txt",
            "lib/rocblas/gfx1100.dat",
            "lib/hipblaslt/library/gfx950/extop_gfx950.co",
            "lib/hipsparselt/library/gfx90a-xnack+/x.dat",
            "lib/libMIOpenCKgroupedconv_gfx942.so",
            "share/miopen/db/gfx942130.db.txt",
            "share/miopen/db/gfx90878.HIP.fdb.txt",
            "share/miopen/db/gfx1103.kdb",
            "share/miopen/db/readme.txt",
            "lib/libdevice_conv_operations_gfx1250_strict_xnack_p.a",
            "lib/libdevice_conv_operations.a",
            "lib/engines/arch_content/a/gfx1100/b/c.bin",
            "lib/engines/arch_content/a/gfx1100",
            &format!("share/rocjitsu/translations/gfx1250-b0-a0/v1/{hash}.man"),
            "lib/aotriton.images/amd-gfx942/flash/a.aks2",
            "lib/aotriton.images/amd-gfx11xx/flash/a.aks2",
            "lib/librocblas.so",
        ]
        .iter()
        .map(|path| match owner(&path.parse().unwrap()) {
            Some((library, target)) => format!("{path}: {target} ({library})"),
            None => format!("{path}: every target"),
        })
        .collect();
        insta::assert_snapshot!(said.join("\n"), @"
        lib/rocblas/library/Kernels.so-000-gfx90a-xnack-.hsaco: gfx90a (rocBLAS)
        lib/rocblas/library/TensileLibrary_Type_HH_gfx942.co: gfx942 (rocBLAS)
        lib/rocblas/library/TensileLibrary_Type_HH_fallback.dat: every target
        lib/rocblas/library/gfx1100/TensileManifest.txt: gfx1100 (rocBLAS)
        lib/rocblas/gfx1100.dat: every target
        lib/hipblaslt/library/gfx950/extop_gfx950.co: gfx950 (hipBLASLt)
        lib/hipsparselt/library/gfx90a-xnack+/x.dat: gfx90a (hipSPARSELt)
        lib/libMIOpenCKgroupedconv_gfx942.so: gfx942 (MIOpen)
        share/miopen/db/gfx942130.db.txt: gfx942 (MIOpen)
        share/miopen/db/gfx90878.HIP.fdb.txt: gfx908 (MIOpen)
        share/miopen/db/gfx1103.kdb: every target
        share/miopen/db/readme.txt: every target
        lib/libdevice_conv_operations_gfx1250_strict_xnack_p.a: gfx1250-strict (Composable Kernel)
        lib/libdevice_conv_operations.a: every target
        lib/engines/arch_content/a/gfx1100/b/c.bin: gfx1100 (hipDNN kernel provider)
        lib/engines/arch_content/a/gfx1100: every target
        share/rocjitsu/translations/gfx1250-b0-a0/v1/0000000000000000000000000000000000000000000000000000000000000000.man: gfx1250 (RCCL)
        lib/aotriton.images/amd-gfx942/flash/a.aks2: gfx942 (AOTriton)
        lib/aotriton.images/amd-gfx11xx/flash/a.aks2: every target
        lib/librocblas.so: every target
        ");
    }
}
