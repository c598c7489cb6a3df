//! Decides what an upload writes. This file is pure: `execute` lists the destination before, and
//! carries out the [`UploadPlan`] afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::{
    digest::Sha256,
    error::{Error, No},
    index::{IndexPage, Layout, PageKind, Rank, SetFile, size_text},
    set::{
        place::TOP,
        write::{ASK_FIRST, FOREVER},
    },
};

/// The order of an upload. Readers may see the set at any moment, so an object is written only
/// after everything that it links to, and a package before its sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    File,
    Sidecar,
    Project,
    Root,
}

/// One object of a published set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Relative to the directory of the set: `dist/rocm-7.13.0.tar.gz`, `simple/rocm/`.
    pub path: String,
    pub phase: Phase,
    pub size: u64,
    pub sha256: Sha256,
    pub content_type: &'static str,
    pub bytes: Bytes,
}

/// Where the bytes of an object are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bytes {
    OnDisk(PathBuf),
    Here(Vec<u8>),
}

impl Item {
    /// A wheel or sdist on disk.
    pub fn file(file: &SetFile, layout: Layout, on_disk: PathBuf) -> Self {
        let extension = Path::new(file.name.as_str()).extension();
        let is_wheel = extension.is_some_and(|extension| extension == "whl");
        Self {
            path: file.path(layout),
            phase: Phase::File,
            size: file.size,
            sha256: file.sha256,
            content_type: if is_wheel {
                "application/zip"
            } else {
                "application/gzip"
            },
            bytes: Bytes::OnDisk(on_disk),
        }
    }

    /// The `.metadata` file of a wheel (PEP 658).
    pub fn sidecar(file: &SetFile, layout: Layout, bytes: &[u8]) -> Self {
        let path = file.sidecar_path(layout);
        Self::here(path, Phase::Sidecar, PageKind::Text, bytes)
    }

    /// A page under its file name and, if it is the page of a directory, under the key that ends in
    /// `/`: installers request `simple/rocm/`, and S3 answers only to exact keys.
    pub fn page(page: &IndexPage) -> Vec<Self> {
        let phase = match page.rank {
            Rank::Project => Phase::Project,
            Rank::Root | Rank::Whole => Phase::Root,
        };
        let directory = page.directory();
        let directory = directory.map(|path| if path.is_empty() { TOP } else { path });
        let paths = [Some(page.path.as_str()), directory].into_iter().flatten();
        let item = |path: &str| Self::here(path.to_owned(), phase, page.kind, page.body.as_bytes());
        paths.map(item).collect()
    }

    /// `part.json`: the run and commit of a part. All parts of a set write the same bytes, so other
    /// bytes at the destination mean another build, and are refused.
    pub fn part(page: &IndexPage) -> Self {
        let path = page.path.clone();
        Self::here(path, Phase::Sidecar, page.kind, page.body.as_bytes())
    }

    fn here(path: String, phase: Phase, kind: PageKind, bytes: &[u8]) -> Self {
        Self {
            path,
            phase,
            size: bytes.len() as u64,
            sha256: Sha256::of(bytes),
            content_type: kind.content_type(),
            bytes: Bytes::Here(bytes.to_vec()),
        }
    }

    pub fn cache_control(&self) -> &'static str {
        if self.is_page() { ASK_FIRST } else { FOREVER }
    }

    pub fn is_page(&self) -> bool {
        matches!(self.phase, Phase::Project | Phase::Root)
    }
}

/// An object that the destination already has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExistingObject {
    pub size: u64,
    pub sha256: Sha256,
}

/// What the destination holds before an upload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteListing {
    /// The objects that exist at paths of this set.
    pub there: BTreeMap<String, ExistingObject>,
    /// All paths below `dist/` and `simple/`, of this set or not.
    pub paths: BTreeSet<String>,
}

/// What to do with existing files that have other bytes (`--overwrite`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    Refuse,
    Replace,
}

/// What an upload does with an item, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadReason {
    New,
    /// The destination has the same bytes: nothing to do.
    Same,
    /// The destination has other bytes, which are replaced: a page, or a file with `--overwrite`.
    Changed(ExistingObject),
    /// The destination has other bytes, which must not be replaced. The upload fails.
    Refused(ExistingObject),
}

impl fmt::Display for UploadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::New => "new",
            Self::Same => "same",
            Self::Changed(_) => "replace",
            Self::Refused(_) => "refuse",
        })
    }
}

/// Everything that an upload does, in order.
#[derive(Clone, Debug)]
pub struct UploadPlan {
    /// The store and the directory in it, for messages.
    pub destination: String,
    pub actions: Vec<(Item, UploadReason)>,
    /// Existing files and pages that do not belong to this set. They stay.
    pub strangers: Vec<String>,
}

impl UploadPlan {
    pub fn new(
        destination: String,
        mut items: Vec<Item>,
        seen: &RemoteListing,
        others: Others,
    ) -> Self {
        items.sort_by_key(|item| item.phase);
        let ours: BTreeSet<String> = items.iter().map(|item| item.path.clone()).collect();
        // A server that keeps files lists the page of `simple/rocm/` as `simple/rocm`.
        let is_own = |path: &&String| {
            let file = |name: &str| ours.contains(&format!("{path}/{name}"));
            ours.contains(*path) || file("index.html") || file("index.json")
        };
        let strangers = seen.paths.iter().filter(|path| !is_own(path));
        let strangers = strangers.cloned().collect();
        let actions = items.into_iter().map(|item| {
            let why = why(&item, seen.there.get(&item.path), others);
            (item, why)
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
        for (item, why) in &self.actions {
            if let UploadReason::Refused(there) = why {
                lines.push(conflict(item, *there));
            }
        }
        let count = lines.len();
        let noun = if count == 1 { "file is" } else { "files are" };
        if count > SHOWN {
            lines.truncate(SHOWN);
            lines.push(format!("and {} more", count - SHOWN));
        }
        // The exit code depends on the type of the innermost cause, so that one has to be a `No`.
        let innermost = Error::from(No(lines.pop()?));
        let causes = lines.into_iter().rev();
        let cause = causes.fold(innermost, Error::context);
        let headline = format!(
            "{count} {noun} in `{}` already, with other bytes; nothing was changed",
            self.destination
        );
        Some(cause.context(headline))
    }

    fn total(&self, wanted: impl Fn(&UploadReason) -> bool) -> (usize, u64) {
        let items = self.actions.iter().filter(|(_, why)| wanted(why));
        items.fold((0, 0), |(count, size), (item, _)| {
            (count + 1, size + item.size)
        })
    }

    /// The number of bytes to write.
    pub fn size(&self) -> u64 {
        self.total(|why| matches!(why, UploadReason::New | UploadReason::Changed(_)))
            .1
    }

    /// The plan as JSON.
    fn json(&self) -> Value {
        let actions = self.actions.iter().map(|(item, why)| {
            let mut action = json!({
                "action": why.to_string(),
                "path": item.path,
                "size": item.size,
                "sha256": item.sha256,
                "content-type": item.content_type,
                "cache-control": item.cache_control(),
            });
            if let UploadReason::Changed(there) | UploadReason::Refused(there) = why {
                action["there"] = json!({ "size": there.size, "sha256": there.sha256 });
            }
            action
        });
        json!({
            "schema": "rocwheel-upload-plan-v1",
            "destination": self.destination,
            "actions": actions.collect::<Vec<Value>>(),
            "not-of-this-set": self.strangers,
        })
    }
}

/// Describes a conflict: size and digest of the local file and of the existing object.
pub(super) fn conflict(item: &Item, there: ExistingObject) -> String {
    format!(
        "`{}`: here {} bytes with sha256 {}, there {} bytes with sha256 {}",
        item.path, item.size, item.sha256, there.size, there.sha256
    )
}

fn why(item: &Item, there: Option<&ExistingObject>, others: Others) -> UploadReason {
    match there {
        None => UploadReason::New,
        Some(there) if there.sha256 == item.sha256 => UploadReason::Same,
        Some(there) if item.is_page() || others == Others::Replace => UploadReason::Changed(*there),
        Some(there) => UploadReason::Refused(*there),
    }
}

impl Serialize for UploadPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

impl fmt::Display for UploadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "to {}", self.destination)?;
        for (item, why) in &self.actions {
            let size = size_text(item.size);
            let (kind, cache) = (item.content_type, item.cache_control());
            writeln!(f, "{why:<7} {size:>10}  {}  ({kind}; {cache})", item.path)?;
        }
        for path in &self.strangers {
            writeln!(f, "leave   {:>10}  {path}  (not of this set)", "")?;
        }
        let total = |what: &str, (count, size)| format!("{count} {what} ({})", size_text(size));
        let totals = [
            total("new", self.total(|why| *why == UploadReason::New)),
            total(
                "to replace",
                self.total(|why| matches!(why, UploadReason::Changed(_))),
            ),
            total(
                "there already",
                self.total(|why| *why == UploadReason::Same),
            ),
            total(
                "refused",
                self.total(|why| matches!(why, UploadReason::Refused(_))),
            ),
        ];
        writeln!(f, "{}", totals.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::{Exit, render},
        index::{PackageSet, Sidecar, pages},
    };

    const METADATA: &[u8] = b"Metadata-Version: 2.4\n";

    fn items() -> Vec<Item> {
        let file = |name: &str, project: &str, metadata| SetFile {
            family: None,
            name: name.parse().unwrap(),
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
        let pages = pages(&set, Layout::Dist);
        let pages = pages.iter().flat_map(Item::page);
        let sidecars = set
            .files()
            .iter()
            .filter(|file| file.metadata.is_some())
            .map(|file| Item::sidecar(file, Layout::Dist, METADATA));
        let on_disk = |file: &SetFile| PathBuf::from(file.name.as_str());
        let files = set
            .files()
            .iter()
            .map(|file| Item::file(file, Layout::Dist, on_disk(file)));
        // Given backwards: the plan knows the order.
        pages.chain(sidecars).chain(files).collect()
    }

    fn plan(there: &[(&str, ExistingObject)], others: Others) -> UploadPlan {
        let there = there
            .iter()
            .map(|(path, there)| ((*path).to_owned(), *there));
        let there: BTreeMap<String, ExistingObject> = there.collect();
        let seen = RemoteListing {
            paths: there.keys().cloned().collect(),
            there,
        };
        UploadPlan::new("out/1-linux/python".into(), items(), &seen, others)
    }

    fn same(path: &str) -> ExistingObject {
        let items = items();
        let item = items.iter().find(|item| item.path == path).unwrap();
        ExistingObject {
            size: item.size,
            sha256: item.sha256,
        }
    }

    const OTHER: fn() -> ExistingObject = || ExistingObject {
        size: 7,
        sha256: Sha256::of(b"other"),
    };
    const SDIST: &str = "dist/rocm-7.13.0+ab.tar.gz";
    const WHEEL: &str = "dist/rocm_sdk_core-7.13.0+ab-py3-none-linux_x86_64.whl";

    #[test]
    fn files_go_before_sidecars_pages_and_roots() {
        insta::assert_snapshot!(plan(&[], Others::Refuse), @"
        to out/1-linux/python
        new      612.3 MiB  dist/rocm-7.13.0+ab.tar.gz  (application/gzip; public, max-age=31536000, immutable)
        new      612.3 MiB  dist/rocm_sdk_core-7.13.0+ab-py3-none-linux_x86_64.whl  (application/zip; public, max-age=31536000, immutable)
        new           22 B  dist/rocm_sdk_core-7.13.0+ab-py3-none-linux_x86_64.whl.metadata  (text/plain; charset=utf-8; public, max-age=31536000, immutable)
        new        1.9 KiB  simple/rocm/index.html  (text/html; charset=utf-8; no-cache)
        new        1.9 KiB  simple/rocm/  (text/html; charset=utf-8; no-cache)
        new          363 B  simple/_json/rocm/index.json  (application/vnd.pypi.simple.v1+json; no-cache)
        new          363 B  simple/_json/rocm/  (application/vnd.pypi.simple.v1+json; no-cache)
        new        2.2 KiB  simple/rocm-sdk-core/index.html  (text/html; charset=utf-8; no-cache)
        new        2.2 KiB  simple/rocm-sdk-core/  (text/html; charset=utf-8; no-cache)
        new          671 B  simple/_json/rocm-sdk-core/index.json  (application/vnd.pypi.simple.v1+json; no-cache)
        new          671 B  simple/_json/rocm-sdk-core/  (application/vnd.pypi.simple.v1+json; no-cache)
        new        2.1 KiB  simple/index.html  (text/html; charset=utf-8; no-cache)
        new        2.1 KiB  simple/  (text/html; charset=utf-8; no-cache)
        new          142 B  simple/_json/index.json  (application/vnd.pypi.simple.v1+json; no-cache)
        new          142 B  simple/_json/  (application/vnd.pypi.simple.v1+json; no-cache)
        new        2.6 KiB  index.html  (text/html; charset=utf-8; no-cache)
        new        2.6 KiB  ./  (text/html; charset=utf-8; no-cache)
        new          344 B  SHA256SUMS  (text/plain; charset=utf-8; no-cache)
        18 new (1.2 GiB), 0 to replace (0 B), 0 there already (0 B), 0 refused (0 B)
        ");
    }

    #[test]
    fn the_pages_of_an_earlier_upload_are_no_strangers() {
        let paths = ["simple/rocm", "simple/_json/rocm", "simple/rocm/index.html"];
        let there: Vec<(&str, ExistingObject)> = paths.map(|path| (path, OTHER())).into();
        assert_eq!(plan(&there, Others::Refuse).strangers, [""; 0]);
    }

    #[test]
    fn a_second_run_completes_the_first() {
        let there = [
            (SDIST, same(SDIST)),
            ("simple/rocm/index.html", OTHER()),
            ("dist/old.whl", OTHER()),
        ];
        let plan = plan(&there, Others::Refuse);
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
        let refusal = plan(&there, Others::Refuse).refusal().unwrap();
        insta::assert_snapshot!(render(&refusal), @r"
        error: 2 files are in `out/1-linux/python` already, with other bytes; nothing was changed
          caused by: `dist/rocm-7.13.0+ab.tar.gz`: here 642000000 bytes with sha256 8cf2595608588b051a3c58500174561ac05e4f775f9c4ffbfa96b85cf57b3e48, there 7 bytes with sha256 d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa
          caused by: `dist/rocm_sdk_core-7.13.0+ab-py3-none-linux_x86_64.whl`: here 642000000 bytes with sha256 4b777112bcb1b53336b396635aad23e0ad959b9ceff56201fc5b4d9911905501, there 7 bytes with sha256 d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa
        ");
        assert_eq!(Exit::of(&refusal), Exit::No);
        let replacing = plan(&there, Others::Replace);
        assert!(replacing.refusal().is_none());
        assert_eq!(replacing.actions[0].1, UploadReason::Changed(OTHER()));
    }

    #[test]
    fn a_plan_is_readable_by_programs() {
        let json = plan(&[(SDIST, OTHER())], Others::Refuse).json();
        insta::assert_snapshot!(json["actions"][0], @r#"{"action":"refuse","path":"dist/rocm-7.13.0+ab.tar.gz","size":642000000,"sha256":"8cf2595608588b051a3c58500174561ac05e4f775f9c4ffbfa96b85cf57b3e48","content-type":"application/gzip","cache-control":"public, max-age=31536000, immutable","there":{"size":7,"sha256":"d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"}}"#);
        assert_eq!(json["schema"], "rocwheel-upload-plan-v1");
        assert_eq!(json["not-of-this-set"], json!([]));
    }
}
