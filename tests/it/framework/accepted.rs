//! Figures of published wheels: what `tie` mends in each of them.

use super::text;
use crate::support::prelude::*;

/// A wheel as it was published and after the tie: its members, and what `framework show` says of it.
pub(super) struct Seen<'a> {
    pub(super) members: &'a Members,
    pub(super) shown: &'a Value,
}

impl Seen<'_> {
    fn binaries(&self) -> &[Value] {
        self.shown["binaries"].as_array().unwrap()
    }

    /// All entries of all run paths, with the paths of the binaries.
    fn entries(&self) -> Vec<(&str, &str)> {
        let entries = self.binaries().iter().flat_map(|binary| {
            let path = binary["path"].as_str().unwrap();
            let entries = binary["run-path"].as_array().unwrap().iter();
            entries.map(move |it| (path, it["entry"].as_str().unwrap()))
        });
        entries.collect()
    }

    fn member(&self, path: &str) -> &[u8] {
        &self.members.iter().find(|it| it.0 == path).unwrap().2
    }
}

/// What holds for each tied wheel, and for this one.
pub(super) fn is_mended(name: &str, before: &Seen<'_>, after: &Seen<'_>) {
    let metadata = text(after.members, "/METADATA");
    let record = text(after.members, "/RECORD");
    let without_digest = record.lines().filter(|it| !it.contains(",sha256="));
    // RECORD has one of all but itself.
    assert_eq!(without_digest.count(), 1, "{name}");
    for (path, mode, _) in after.members {
        let is_usual = matches!(mode & 0o777, 0o644 | 0o755);
        assert!(is_usual, "{name}: {path}: {mode:o}");
    }
    let is_untied = |path: &str| {
        let record = text(after.members, "/rocm_tie.json");
        let record: Value = serde_json::from_str(&record).unwrap();
        let mut untied = record["untied"].as_array().unwrap().iter();
        untied.any(|it| it[0] == path)
    };
    let entries = after.entries().into_iter();
    let mut entries = entries.filter(|(path, _)| !is_untied(path));
    assert!(entries.all(|it| it.1.starts_with("$ORIGIN")), "{name}");
    if name.starts_with("jax_rocm7_pjrt") {
        let path = "jax_plugins/xla_rocm7/xla_rocm_plugin.so";
        let run_path: Vec<&str> = after.entries().into_iter().map(|it| it.1).collect();
        assert_eq!(run_path.join(":").len(), 120);
        let [had, has] = [before, after].map(|it| it.member(path).len());
        assert!(has - had <= 60 << 10, "it has grown by {}", has - had);
        assert!(metadata.contains("Requires-Dist: rocm[libraries]==7.14.*\n"));
    } else if name.contains("_plugin") {
        let had = text(before.members, "/METADATA");
        assert_eq!(had.matches("with-rocm").count(), 13);
        assert_lacks!(metadata, "with-rocm");
        let (kind, _) = name.split_once("_plugin").unwrap();
        let pjrt = format!("Requires-Dist: {}-pjrt==0.12.0\n", kind.replace('_', "-"));
        assert_has!(metadata, &pjrt);
    } else if name.starts_with("cupy") {
        let of_builder = |it: &Seen<'_>| {
            let entries = it.entries().into_iter();
            entries.filter(|it| it.1.contains("gcc-toolset")).count()
        };
        assert_eq!((before.binaries().len(), of_builder(after)), (61, 0));
        assert!(of_builder(before) > 0);
    } else if name.starts_with("bitsandbytes") {
        let others = ["_cpu", "_cuda", "_xpu", "_rocm64"];
        let others = before.binaries().iter().filter_map(|it| {
            let path = it["path"].as_str().unwrap();
            others.iter().any(|it| path.contains(it)).then_some(path)
        });
        let others: Vec<&str> = others.collect();
        assert_eq!(others.len(), 11);
        for path in others {
            assert!(before.member(path) == after.member(path), "{path}");
        }
    } else if name.starts_with("onnxruntime") {
        assert!(!text(before.members, "/RECORD").contains("sha256="));
        assert!(before.entries().iter().any(|it| it.1.is_empty()));
    } else {
        // Extensions of PyTorch.
        assert!(before.members.iter().any(|it| it.1 & 0o777 == 0o600));
        assert_has!(metadata, "Requires-Dist: torch==2.12.0\n");
    }
}
