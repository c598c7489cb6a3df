//! A place that upstream's programs and ours fill in turns, with the bucket's indexer after each.

use itertools::Itertools as _;
use rocwheel_store::{Condition, Store as _, local::LocalStore};

use super::{
    Bench, downloads,
    install::{PLACE, pip_downloads, uv_installs},
    packages::{wheel, wheels},
    rocwheel, uv,
};
use crate::support::prelude::*;
use crate::{
    python::legacy,
    support::{
        memory::MemoryStore,
        memory_server::MemoryServer,
        upstream::{Placement, UpstreamRun},
    },
};

const RUN: &str = "42-linux";

/// The run of a bucket in memory.
fn run(bucket: &MemoryStore) -> UpstreamRun<'_> {
    let (prefix, is_local) = (RUN, false);
    UpstreamRun { bucket, prefix, is_local }
}

/// The links of a page in the bucket.
fn links(bucket: &MemoryStore, key: &str) -> Vec<String> {
    let page = String::from_utf8(bucket.find(key).unwrap().bytes).unwrap();
    let links = page.split("<a href=\"").skip(1);
    links.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
#[ignore = "slow"]
fn the_models_do_what_upstreams_programs_do() {
    let bench = Bench::new();
    wheels(&bench.root);
    let bucket = MemoryStore::default();
    let run = run(&bucket);
    let flat = run.upload(&bench.root, Placement::MultiArch);
    assert_eq!(flat, "42-linux/python/index.html");
    // The uploader leaves that page to the indexer.
    assert!(bucket.find(&flat).is_none());
    run.index();
    let group = run.upload(&bench.root, Placement::Group("gfx94X-dcgpu"));
    let server = Server::start(Site::Keys(bucket.clone()));
    for address in [&flat, &group] {
        let address = format!("{}{address}", server.url);
        pip_downloads(&bench, &["--no-index", "--find-links", &address]);
        uv_installs(&bench, &["--no-index", "--find-links", &address]);
    }
    let own = [
        "rocm_sdk_core-7.13.0.dev0%2Bab.cd-py3-none-any.whl",
        "rocm_sdk_device_gfx942-7.13.0.dev0%2Bab.cd-py3-none-any.whl",
        "rocm_sdk_libraries-7.13.0.dev0%2Bab.cd-py3-none-any.whl",
    ];
    assert_eq!(links(&bucket, "42-linux/index.html"), ["python/index.html"]);
    let listed = [&["../index.html"], &own[..]].concat();
    assert_eq!(links(&bucket, &flat), listed);
    assert_eq!(links(&bucket, &group), own);
    run.index();
    let with_group = ["../index.html", "gfx94X-dcgpu/index.html"];
    assert_eq!(links(&bucket, &flat), [&with_group, &own[..]].concat());
    assert_eq!(links(&bucket, &group), listed);
}

/// A set, as it lies where it was built.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Kpack,
    OneFamily,
    Families,
}

const FAMILIES: [(&str, &str); 2] = [("gfx942", "gfx94X-dcgpu"), ("gfx1100", "gfx110X-all")];

impl Kind {
    fn packages(self) -> PathBuf {
        let families = match self {
            Self::Kpack => return published::sample().root().join("packages"),
            Self::OneFamily => &FAMILIES[..1],
            Self::Families => &FAMILIES,
        };
        let name = format!("legacy-{}", families.len());
        let root = published::once(&name, |root| {
            let run = root.join("run");
            legacy::write_run(&run, families);
            let mut build = command();
            build.args(["build", "--artifact-dir", text(&run)]);
            succeed(build.args(["--dest-dir", text(&root.join("packages"))]));
        });
        root.join("packages")
    }

    /// The directories of families below an index, and what is installed from each.
    fn indexes(self) -> Vec<(&'static str, String)> {
        let version = published::VERSION;
        let of_family = |family: &str| {
            let family = family.to_lowercase();
            format!("rocm-sdk-libraries-{family}=={version}")
        };
        match self {
            Self::Kpack => vec![("", format!("rocm-sdk-device-gfx942=={version}"))],
            Self::OneFamily => vec![("", of_family(FAMILIES[0].1))],
            Self::Families => {
                FAMILIES.iter().map(|(_, family)| (*family, of_family(family))).collect()
            }
        }
    }
}

/// The value of `--layout`.
#[derive(Clone, Copy, Debug, PartialEq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
enum Layout {
    Dist,
    Flat,
}

/// A bucket in memory, where each key is exact, and the installers that read it.
struct Turns {
    bench: Bench,
    /// Our program writes to it.
    s3: MemoryServer,
    /// Installers read it.
    server: Server,
}

impl Turns {
    fn new() -> Self {
        let s3 = MemoryServer::start();
        let server = Server::start(Site::Keys(s3.store.clone()));
        let bench = Bench::new();
        Self { bench, s3, server }
    }

    fn run(&self) -> UpstreamRun<'_> {
        run(&self.s3.store)
    }

    /// The address of a path in `python/`.
    fn url(&self, path: &str) -> String {
        format!("{}{RUN}/python/{path}", self.server.url)
    }

    /// Uploads with ours, and lets the bucket's indexer run.
    fn ours(&self, packages: &Path, layout: Layout) {
        self.s3.publish(PLACE, packages, &format!("--layout {layout}"));
        self.run().index();
    }

    /// Uploads with upstream's, and lets the bucket's indexer run.
    fn upstreams(&self, packages: &Path) {
        self.run().upload(packages, Placement::MultiArch);
        self.run().index();
    }

    /// A job of upstream adds a package of others.
    fn torch(&self) {
        let dist = self.bench.root.join("torch");
        wheel(&dist, "torch", "2.9", "Requires-Python: >=3.8\n");
        self.upstreams(&dist);
    }

    fn index(&self) {
        self.ask("index --no-check").ok();
        self.run().index();
    }

    /// The lines of what another index would write.
    fn plan_of_index(&self) -> Vec<String> {
        let plan = self.ask("index --no-check --dry-run").ok();
        plan.lines().map(str::to_owned).collect()
    }

    /// What `check` says about the pages and the packages of others.
    fn checked(&self) -> String {
        let checked = self.ask("check --select RW7 --format json").stdout;
        let report: Value = serde_json::from_str(&checked).unwrap();
        let findings = report["findings"].as_array().unwrap().iter().map(|finding| {
            let field = |name: &str| finding[name].as_str().unwrap_or_default();
            let [severity, id] = ["severity", "id"].map(field);
            format!("{}\n  {severity:7} {id} {}: {}\n", field("file"), field("name"), field("fact"))
        });
        let said = self.ask("check --select RW7").stdout;
        let (_, counted) = said.trim_end().rsplit_once(" in ").unwrap();
        findings.collect::<String>() + counted.lines().next().unwrap()
    }

    /// Runs one of our commands with the place in the bucket.
    fn ask(&self, line: &str) -> Outcome {
        self.s3.run_in(&self.bench.root, &format!("{line} s3://bucket/{PLACE}"))
    }

    fn installs(&self, source: &[&str], wanted: &str) {
        installs(&self.bench, source, wanted);
    }
}

/// pip and uv install something from a source, with all that it needs.
fn installs(bench: &Bench, source: &[&str], wanted: &str) {
    let came = downloads(bench, &[source, &[wanted]].concat());
    assert!(came.iter().any(|path| path.ends_with(".whl")), "{came:?}");
    let to = bench.path("downloaded");
    uv("install", &[&["--target", &to], source, &[wanted]].concat()).ok();
    fs_err::remove_dir_all(to).unwrap();
}

const LAYOUTS: [Layout; 2] = [Layout::Dist, Layout::Flat];

#[test]
#[ignore = "slow"]
fn every_address_of_ours_survives_the_indexer() {
    let kinds = [Kind::Kpack, Kind::Families, Kind::OneFamily];
    let all: Vec<_> = kinds.into_iter().cartesian_product(LAYOUTS).collect();
    for number in long::seeds(2, 6) {
        let (kind, layout) = all[usize::try_from(number).unwrap() % all.len()];
        let turns = Turns::new();
        turns.ours(&kind.packages(), layout);
        for (family, wanted) in kind.indexes() {
            let below = match family {
                "" => String::new(),
                family => format!("{family}/"),
            };
            let index = turns.url(&format!("{below}simple/"));
            turns.installs(&["--index-url", &index], &wanted);
            let files = if layout == Layout::Dist { "dist/" } else { "" };
            let page = if family.is_empty() { "index" } else { family };
            let page = turns.url(&format!("{files}{page}.html"));
            turns.installs(&["--no-index", "--find-links", &page], &wanted);
        }
    }
}

#[test]
fn packages_of_others_stay_in_the_index() {
    for layout in LAYOUTS {
        let turns = Turns::new();
        let packages = Kind::Kpack.packages();
        turns.torch();
        turns.ours(&packages, layout);
        let index = turns.url("simple/");
        turns.installs(&["--index-url", &index], "torch");
        // Once more, and then by `index`: what was listed is not lost.
        turns.ours(&packages, layout);
        turns.index();
        turns.installs(&["--index-url", &index], "torch");
        let page = turns.s3.store.find("42-linux/python/simple/torch/").unwrap();
        let page = String::from_utf8(page.bytes).unwrap();
        let link = "../../torch-2.9-py3-none-any.whl#sha256=";
        assert_has!(page, link, "data-core-metadata");
        // The indexer replaced its page, and nothing else of it is written again.
        let again = turns.plan_of_index().into_iter();
        let again: Vec<String> = again.filter(|line| line.contains("torch")).collect();
        assert_eq!(again.len(), 1, "{again:?}");
        assert!(again[0].ends_with("  simple/torch/index.html"), "{again:?}");
    }
}

#[test]
#[ignore = "slow"]
fn a_check_after_the_indexer_finds_what_works_no_more() {
    let turns = Turns::new();
    turns.torch();
    turns.ours(&Kind::Kpack.packages(), Layout::Dist);
    insta::assert_snapshot!(turns.checked(), @"7 packages and 1 of others");
    let turns = Turns::new();
    turns.ours(&Kind::Families.packages(), Layout::Flat);
    insta::assert_snapshot!(turns.checked(), @"8 packages");
    // It came after our upload.
    let turns = Turns::new();
    turns.ours(&Kind::OneFamily.packages(), Layout::Dist);
    turns.torch();
    insta::assert_snapshot!(turns.checked(), @"5 packages and 1 of others");
    // A page of an index that is gone, on a server that has no other.
    let turns = Turns::new();
    turns.ours(&Kind::Kpack.packages(), Layout::Dist);
    for key in turns.s3.store.keys().iter().filter(|key| key.ends_with('/')) {
        turns.s3.store.delete(&key.parse().unwrap(), &Condition::Always).unwrap();
    }
    insta::assert_snapshot!(turns.checked(), @"
    simple/
      error   RW704 pages-disagree: it lists no package
    7 packages
    ");
}

/// A run in a directory that stands for the bucket, filled by both.
struct DirectoryTurns {
    bench: Bench,
    bucket: LocalStore,
    packages: PathBuf,
    group: Option<&'static str>,
    layout: Layout,
}

impl DirectoryTurns {
    fn new(kind: Kind, group: Option<&'static str>, layout: Layout) -> Self {
        let bench = Bench::new();
        Self {
            bucket: LocalStore::new(bench.root.join("bucket")),
            packages: kind.packages(),
            bench,
            group,
            layout,
        }
    }

    fn run(&self) -> UpstreamRun<'_> {
        UpstreamRun { bucket: &self.bucket, prefix: RUN, is_local: true }
    }

    fn placement(&self) -> Placement<'static> {
        self.group.map_or(Placement::MultiArch, Placement::Group)
    }

    fn place(&self) -> String {
        let group = self.group.map_or(String::new(), |it| format!("/{it}"));
        self.bench.path(&format!("bucket/{RUN}/python{group}"))
    }

    /// Uploads with upstream's, and lets the indexer run.
    fn upstreams(&self, packages: &Path) {
        self.run().upload(packages, self.placement());
        self.run().index();
        self.is_read();
    }

    /// Uploads with ours, lets the indexer run, and returns the addresses that were handed out.
    fn ours(&self) -> Value {
        let (from, to) = (text(&self.packages), self.bench.path("bucket"));
        let layout = self.layout.to_string();
        let mut upload = vec!["upload", "--packages-dir", from, "--output-dir", &to];
        upload.extend(["--run-id=42", "--bucket=mine", "--platform=linux"]);
        // The libraries of the legacy sets have no device code.
        upload.extend(["--layout", &layout, "--format=json", "--ignore=RW317"]);
        match self.group {
            Some(group) => upload.extend(["--artifact-group", group]),
            None => upload.push("--multi-target"),
        }
        let said = rocwheel(&upload).ok();
        self.run().index();
        self.is_read();
        rocwheel(&["summary", &self.place()]).ok();
        serde_json::from_str(&said).unwrap()
    }

    /// Every command reads the place, and finds no fault with its pages.
    fn is_read(&self) {
        let place = self.place();
        rocwheel(&["check", &place, "--select=RW7", "--fail-on=warning"]).ok();
        rocwheel(&["index", &place, "--dry-run", "--ignore", "RW303,RW316,RW317"]).ok();
    }

    fn installs(&self, kind: Kind, addresses: &Value) {
        for (family, wanted) in kind.indexes() {
            let addresses = match family {
                "" => addresses,
                family => &addresses["families"][family],
            };
            let index = addresses["index-url"].as_str().unwrap();
            installs(&self.bench, &["--index-url", index], &wanted);
            let page = addresses["find-links-url"].as_str().unwrap();
            installs(&self.bench, &["--no-index", "--find-links", page], &wanted);
        }
    }
}

#[test]
#[ignore = "slow"]
fn a_directory_that_stands_for_the_bucket_is_filled_in_turns() {
    let group = Some(FAMILIES[0].1);
    let [dist, flat] = LAYOUTS;
    let turns = [
        (Kind::Kpack, None, flat),
        (Kind::OneFamily, group, dist),
        (Kind::Families, None, dist),
        (Kind::Families, None, flat),
        (Kind::Kpack, None, dist),
        (Kind::Kpack, group, dist),
        (Kind::Kpack, group, flat),
        (Kind::OneFamily, None, dist),
        (Kind::OneFamily, None, flat),
        (Kind::OneFamily, group, flat),
    ];
    for (kind, group, layout) in turns {
        let turns = DirectoryTurns::new(kind, group, layout);
        turns.upstreams(&turns.packages);
        turns.installs(kind, &turns.ours());
        let torch = turns.bench.root.join("torch");
        wheel(&torch, "torch", "2.9", "");
        turns.upstreams(&torch);
        rocwheel(&["index", "--no-check", &turns.place()]).ok();
        turns.upstreams(&turns.packages);
        let addresses = turns.ours();
        turns.installs(kind, &addresses);
        let index = addresses["index-url"].as_str().unwrap();
        installs(&turns.bench, &["--index-url", index], "torch");
    }
}
