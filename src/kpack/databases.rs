//! Kernel databases: files beside the binaries that are for one target only, such as
//! `lib/rocblas/library/TensileLibrary_gfx942.dat`. The rules that recognize them are in
//! `databases.toml`.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use crate::{relpath::RelPath, target::Target};

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

impl DatabaseRule {
    fn target(&self, path: &RelPath) -> Option<Target> {
        let name = path.file_name();
        let begins = self.begins.is_empty() || self.begins.iter().any(|b| name.starts_with(b));
        let ends = self.ends.is_empty() || self.ends.iter().any(|e| name.ends_with(e));
        let rest = self.rest(path)?;
        if !begins || !ends {
            return None;
        }
        let (file, directories) = rest.split_last()?;
        match self.target {
            TargetPlace::Name => find(file),
            TargetPlace::Directory => directories.iter().find_map(|directory| {
                let renamed = self.renamed.get(*directory).map(String::as_str);
                whole(renamed.unwrap_or(directory))
            }),
            TargetPlace::List => self.listed(file),
        }
    }

    /// The components of a path below the rule's directories.
    fn rest<'a>(&self, path: &'a RelPath) -> Option<Vec<&'a str>> {
        let components: Vec<&str> = path.components().collect();
        let Some(below) = &self.below else {
            return Some(components);
        };
        let below: Vec<&str> = below.components().collect();
        let at = components
            .windows(below.len())
            .position(|window| window == below)?;
        components
            .get(at.checked_add(below.len())?..)
            .map(<[&str]>::to_vec)
    }

    fn listed(&self, file: &str) -> Option<Target> {
        let mut places = file.match_indices("gfx");
        places.find_map(|(at, _)| {
            let rest = file.get(at..)?;
            let mut targets = self.targets.iter();
            let target = targets.find(|target| rest.starts_with(target.as_str()))?;
            target.parse().ok()
        })
    }
}

/// The first target in a name.
fn find(name: &str) -> Option<Target> {
    let mut places = name.match_indices("gfx");
    places.find_map(|(at, _)| processor(name.get(at..)?)?.0.parse().ok())
}

/// The target that is the whole name, with or without an XNACK feature: `gfx90a-xnack+`.
fn whole(name: &str) -> Option<Target> {
    let (processor, rest) = processor(name)?;
    matches!(rest, "" | "-xnack+" | "-xnack-")
        .then(|| processor.parse().ok())
        .flatten()
}

/// Splits a text after its processor: `gfx`, digits, letters, and sometimes `-strict`. Returns the
/// processor and the rest.
fn processor(text: &str) -> Option<(String, &str)> {
    let digits = text.strip_prefix("gfx")?;
    let letters = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = letters.trim_start_matches(|c: char| c.is_ascii_lowercase());
    if letters.len() == digits.len() {
        return None;
    }
    let base = text.get(..text.len().checked_sub(rest.len())?)?;
    // Some file names have an underscore here.
    let strict = rest
        .strip_prefix("-strict")
        .or_else(|| rest.strip_prefix("_strict"));
    Some(match strict {
        Some(rest) => (format!("{base}-strict"), rest),
        None => (base.to_owned(), rest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        let table: DatabaseTable = toml::from_str(include_str!("databases.toml")).unwrap();
        for rule in &table.rule {
            assert!(rule.below.is_some() || !rule.begins.is_empty(), "{rule:?}");
            assert_eq!(
                rule.target == TargetPlace::List,
                !rule.targets.is_empty(),
                "{rule:?}"
            );
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
