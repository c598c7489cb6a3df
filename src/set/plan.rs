//! [`UploadPlan`]: decides what an upload writes. Pure: `upload` reads the destination before, and
//! carries out the plan afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::write::{Action, ExistingObject, Item};
use crate::{
    console::size,
    error::{Error, No},
};

/// What the destination holds before an upload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteListing {
    /// The objects that exist at paths of this set.
    pub there: BTreeMap<String, ExistingObject>,
    /// All paths below `dist/` and `simple/`, of this set or not.
    pub paths: BTreeSet<String>,
}

/// Everything that an upload does, in order.
#[derive(Clone, Debug)]
pub struct UploadPlan {
    /// The store and the directory in it, for messages.
    pub destination: String,
    pub actions: Vec<(Item, Action)>,
    /// Existing files and pages that do not belong to this set. They stay.
    pub strangers: Vec<String>,
}

impl UploadPlan {
    pub fn new(
        destination: String,
        mut items: Vec<Item>,
        mut seen: RemoteListing,
        overwrite: bool,
    ) -> Self {
        items.sort_by_key(|item| item.phase);
        let ours: BTreeSet<String> = items.iter().map(|item| item.path.clone()).collect();
        // A server that keeps files lists the page of `simple/rocm/` as `simple/rocm`. SeaweedFS
        // lists it as `simple/rocm/rocm`.
        let has_page = |directory: &str| {
            let mut pages = ["index.html", "index.json"].iter();
            pages.any(|page| ours.contains(&format!("{directory}/{page}")))
        };
        let is_own = |path: &String| {
            let twice = path.rsplit_once('/');
            let twice =
                twice.filter(|(directory, name)| directory.rsplit('/').next() == Some(name));
            ours.contains(path)
                || has_page(path)
                || twice.is_some_and(|(directory, _)| has_page(directory))
        };
        let strangers = seen.paths.into_iter().filter(|path| !is_own(path));
        let strangers = strangers.collect();
        let actions = items.into_iter().map(|item| {
            let action = Action::of(&item, seen.there.remove(&item.path), overwrite);
            (item, action)
        });
        Self {
            destination,
            actions: actions.collect(),
            strangers,
        }
    }

    /// The error for files that exist with other bytes, with one cause for each of them.
    pub fn refusal(&self) -> Option<Error> {
        const SHOWN: usize = 10;
        let mut lines = Vec::new();
        for (item, action) in &self.actions {
            if let Action::Refuse(there) = action {
                lines.push(item.conflict(there));
            }
        }
        let count = lines.len();
        let noun = if count == 1 { "file is" } else { "files are" };
        if count > SHOWN {
            lines.truncate(SHOWN);
            lines.push(format!("and {} more", count - SHOWN));
        }
        let headline = format!(
            "{count} {noun} in `{}` already, with other bytes; nothing was changed",
            self.destination
        );
        because(headline, lines)
    }

    /// The number of bytes to write.
    pub fn size(&self) -> u64 {
        let items = self.actions.iter();
        let written = items.filter(|(_, it)| matches!(it, Action::New | Action::Replace(_)));
        written.map(|(item, _)| item.size).sum()
    }

    /// The plan as JSON.
    fn json(&self) -> Value {
        let actions = self.actions.iter().map(|(item, action)| {
            let mut object = json!({
                "action": action.to_string(),
                "path": item.path,
                "size": item.size,
                "sha256": item.sha256,
                "content-type": item.content_type(),
                "cache-control": item.cache_control(),
            });
            if let Action::Replace(there) | Action::Refuse(there) = action {
                object["there"] = json!({ "size": there.size, "sha256": there.sha256 });
            }
            object
        });
        json!({
            "schema": "rocwheel-upload-plan-v1",
            "destination": self.destination,
            "actions": actions.collect::<Vec<Value>>(),
            "not-of-this-set": self.strangers,
        })
    }
}

/// A negative answer with a cause for each line. `None` without any.
pub(super) fn because(headline: String, mut causes: Vec<String>) -> Option<Error> {
    // The exit code depends on the type of the innermost cause, so that one has to be a `No`.
    let innermost = Error::from(No(causes.pop()?));
    let causes = causes.into_iter().rev();
    Some(causes.fold(innermost, Error::context).context(headline))
}

impl Serialize for UploadPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

impl fmt::Display for UploadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "to {}", self.destination)?;
        for (item, action) in &self.actions {
            let size = size(item.size).to_string();
            let (kind, cache) = (item.content_type(), item.cache_control());
            writeln!(
                f,
                "{action:<7} {size:>10}  {}  ({kind}; {cache})",
                item.path
            )?;
        }
        for path in &self.strangers {
            writeln!(f, "leave   {:>10}  {path}  (not of this set)", "")?;
        }
        let total = |(action, what): (&str, &str)| {
            let items = self.actions.iter();
            let items: Vec<u64> = items
                .filter(|(_, it)| it.to_string() == action)
                .map(|(item, _)| item.size)
                .collect();
            format!("{} {what} ({})", items.len(), size(items.iter().sum()))
        };
        let totals = [
            ("new", "new"),
            ("replace", "to replace"),
            ("same", "there already"),
            ("refuse", "refused"),
        ];
        writeln!(f, "{}", totals.map(total).join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        digest::Sha256,
        error::{Exit, render},
        set::{Layout, PackageSet, Phase, SetFile, Sidecar, pages},
    };

    const METADATA: &[u8] = b"Metadata-Version: 2.4\n";

    fn items() -> Vec<Item> {
        let file = |name: &str, project: &str, metadata| SetFile {
            family: None,
            name: name.to_owned(),
            project: project.parse().unwrap(),
            version: "7.13.0+ab".parse().unwrap(),
            size: 642_000_000,
            sha256: Sha256::of(name.as_bytes()),
            upload_time: None,
            metadata,
            requires_python: None,
            yanked: None,
        };
        let sidecar = Some(Sidecar::of(METADATA));
        let set = PackageSet::new(vec![
            file("rocm-7.13.0+ab.tar.gz", "rocm", None),
            file(
                "rocm_sdk_core-7.13.0+ab-py3-none-linux_x86_64.whl",
                "rocm-sdk-core",
                sidecar,
            ),
        ])
        .unwrap();
        let views = set.views();
        let pages = pages(&set, &views, Layout::Dist);
        let pages = pages.iter().flat_map(Item::page);
        let sidecars = set
            .files()
            .iter()
            .filter(|file| file.metadata.is_some())
            .map(|file| Item::here(file.sidecar_path(Layout::Dist), Phase::Sidecar, METADATA));
        let on_disk = |file: &SetFile| file.name.clone().into();
        let files = set
            .files()
            .iter()
            .map(|file| Item::file(file, Layout::Dist, on_disk(file)));
        // Given backwards: the plan knows the order.
        pages.chain(sidecars).chain(files).collect()
    }

    fn plan(there: &[(&str, ExistingObject)], overwrite: bool) -> UploadPlan {
        let there = there
            .iter()
            .map(|(path, there)| ((*path).to_owned(), there.clone()));
        let there: BTreeMap<String, ExistingObject> = there.collect();
        let seen = RemoteListing {
            paths: there.keys().cloned().collect(),
            there,
        };
        UploadPlan::new("out/1-linux/python".into(), items(), seen, overwrite)
    }

    fn same(path: &str) -> ExistingObject {
        let items = items();
        let item = items.iter().find(|item| item.path == path).unwrap();
        ExistingObject {
            size: item.size,
            sha256: item.sha256,
            etag: None,
        }
    }

    const OTHER: fn() -> ExistingObject = || ExistingObject {
        size: 7,
        sha256: Sha256::of(b"other"),
        etag: None,
    };
    const SDIST: &str = "dist/rocm-7.13.0+ab.tar.gz";
    const WHEEL: &str = "dist/rocm_sdk_core-7.13.0+ab-py3-none-linux_x86_64.whl";

    #[test]
    fn files_go_before_sidecars_pages_and_roots() {
        insta::assert_snapshot!(plan(&[], false), @"
        to out/1-linux/python
        new     612.26 MiB  dist/rocm-7.13.0+ab.tar.gz  (application/gzip; public, max-age=31536000, immutable)
        new     612.26 MiB  dist/rocm_sdk_core-7.13.0+ab-py3-none-linux_x86_64.whl  (application/zip; public, max-age=31536000, immutable)
        new           22 B  dist/rocm_sdk_core-7.13.0+ab-py3-none-linux_x86_64.whl.metadata  (text/plain; charset=utf-8; public, max-age=31536000, immutable)
        new       1.93 KiB  simple/rocm/index.html  (text/html; charset=utf-8; no-cache)
        new       1.93 KiB  simple/rocm/  (text/html; charset=utf-8; no-cache)
        new          363 B  simple/_json/rocm/index.json  (application/vnd.pypi.simple.v1+json; no-cache)
        new          363 B  simple/_json/rocm/  (application/vnd.pypi.simple.v1+json; no-cache)
        new       2.19 KiB  simple/rocm-sdk-core/index.html  (text/html; charset=utf-8; no-cache)
        new       2.19 KiB  simple/rocm-sdk-core/  (text/html; charset=utf-8; no-cache)
        new          671 B  simple/_json/rocm-sdk-core/index.json  (application/vnd.pypi.simple.v1+json; no-cache)
        new          671 B  simple/_json/rocm-sdk-core/  (application/vnd.pypi.simple.v1+json; no-cache)
        new       2.15 KiB  simple/index.html  (text/html; charset=utf-8; no-cache)
        new       2.15 KiB  simple/  (text/html; charset=utf-8; no-cache)
        new          142 B  simple/_json/index.json  (application/vnd.pypi.simple.v1+json; no-cache)
        new          142 B  simple/_json/  (application/vnd.pypi.simple.v1+json; no-cache)
        new       2.59 KiB  index.html  (text/html; charset=utf-8; no-cache)
        new       2.59 KiB  ./  (text/html; charset=utf-8; no-cache)
        new          344 B  SHA256SUMS  (text/plain; charset=utf-8; no-cache)
        18 new (1.20 GiB), 0 to replace (0 B), 0 there already (0 B), 0 refused (0 B)
        ");
    }

    #[test]
    fn the_pages_of_an_earlier_upload_are_no_strangers() {
        let paths = [
            "simple/rocm",
            "simple/_json/rocm",
            "simple/rocm/index.html",
            "simple/rocm/rocm",
            "simple/other/other",
        ];
        let there: Vec<(&str, ExistingObject)> = paths.map(|path| (path, OTHER())).into();
        let strangers = plan(&there, false).strangers;
        assert_eq!(strangers, ["simple/other/other"]);
    }

    #[test]
    fn a_second_run_completes_the_first() {
        let there = [
            (SDIST, same(SDIST)),
            ("simple/rocm/index.html", OTHER()),
            ("dist/old.whl", OTHER()),
        ];
        let plan = plan(&there, false);
        let whys: Vec<String> = plan
            .actions
            .iter()
            .map(|(_, why)| why.to_string())
            .collect();
        assert_eq!(whys[..4], ["same", "new", "new", "replace"]);
        assert!(plan.refusal().is_none());
        assert!(plan.to_string().contains("dist/old.whl  (not of this set)"));
    }

    #[test]
    fn other_bytes_are_refused_by_name_or_replaced_on_demand() {
        let there = [(SDIST, OTHER()), (WHEEL, OTHER())];
        let refusal = plan(&there, false).refusal().unwrap();
        insta::assert_snapshot!(render(&refusal), @r"
        error: 2 files are in `out/1-linux/python` already, with other bytes; nothing was changed
          caused by: `dist/rocm-7.13.0+ab.tar.gz`: here 642000000 bytes with sha256 8cf2595608588b051a3c58500174561ac05e4f775f9c4ffbfa96b85cf57b3e48, there 7 bytes with sha256 d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa
          caused by: `dist/rocm_sdk_core-7.13.0+ab-py3-none-linux_x86_64.whl`: here 642000000 bytes with sha256 4b777112bcb1b53336b396635aad23e0ad959b9ceff56201fc5b4d9911905501, there 7 bytes with sha256 d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa
        ");
        assert_eq!(Exit::of(&refusal), Exit::No);
        let replacing = plan(&there, true);
        assert!(replacing.refusal().is_none());
        assert_eq!(replacing.actions[0].1, Action::Replace(OTHER()));
    }

    #[test]
    fn a_plan_is_readable_by_programs() {
        let json = plan(&[(SDIST, OTHER())], false).json();
        insta::assert_snapshot!(json["actions"][0], @r#"{"action":"refuse","path":"dist/rocm-7.13.0+ab.tar.gz","size":642000000,"sha256":"8cf2595608588b051a3c58500174561ac05e4f775f9c4ffbfa96b85cf57b3e48","content-type":"application/gzip","cache-control":"public, max-age=31536000, immutable","there":{"size":7,"sha256":"d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"}}"#);
        assert_eq!(json["schema"], "rocwheel-upload-plan-v1");
        assert_eq!(json["not-of-this-set"], json!([]));
    }
}
