//! What a plan says, and what happens to files that change while it is carried out.

#[cfg(unix)]
use std::{
    io::{Cursor, Write as _},
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    time::SystemTime,
};

use itertools::Itertools as _;

use super::{item::ItemBytes, *};
use crate::{
    console::{Console, Options},
    index::{Identity, PackageFile, SetJson, pages, tests as samples},
    place::{KnownPackages, LocalSet, PackageDirectories},
};
use rocwheel_base::{
    digest::Sha256,
    error::{Exit, Stop, render},
    io::FileIdentity,
};

const METADATA: &[u8] = b"Metadata-Version: 2.4\n";

fn items() -> Vec<Item> {
    let file = |name: &str, project: &str, metadata| PackageFile {
        size: 642_000_000,
        metadata,
        ..samples::file(name, project, "7.13.0+ab")
    };
    let files = vec![
        file("rocm-7.13.0+ab.tar.gz", "rocm", None),
        file(
            "rocm_sdk_core-7.13.0+ab-py3-none-linux_x86_64.whl",
            "rocm-sdk-core",
            Some(Sha256::of(METADATA)),
        ),
    ];
    let set = SetJson::new(Identity::default(), files).unwrap();
    let mut items = Vec::new();
    for file in &set.files {
        let on_disk = FileIdentity::of(env!("CARGO_MANIFEST_DIR").as_ref()).unwrap();
        items.push(Item::file(file, file.name().into(), Some(on_disk)));
        let sidecar = file.metadata.map(|_| file.sidecar_path());
        items.extend(sidecar.map(|path| Item::here(path, Phase::Sidecar, METADATA)));
    }
    let views = set.views();
    let mut pages = pages(&set, &views, None);
    pages.retain(|page| page.phase < Phase::Whole);
    items.extend(pages.iter().flat_map(|page| Item::of_page(page).under_all_names(page)));
    items.sort_by_key(|item| item.phase);
    items
}

fn plan(there: &[(&str, ExistingObject)], replaces: bool) -> Plan {
    let steps = items().into_iter().map(|item| {
        let found = there.iter().find(|(path, _)| *path == item.path);
        let action = Action::of(&item, found.map(|(_, there)| there.clone()), replaces, true);
        (item, action)
    });
    Plan {
        place: "out/1-linux/python".to_owned(),
        is_of_run: true,
        steps: steps.collect(),
        removed: Vec::new(),
        before: ListedObjects::default(),
        dropped: HashSet::new(),
        packages: Vec::new(),
    }
}

fn same(path: &str) -> ExistingObject {
    let items = items();
    let item = items.iter().find(|item| item.path == path).unwrap();
    ExistingObject::same(item)
}

const OTHER: fn() -> ExistingObject =
    || ExistingObject { size: 7, sha256: Some(Sha256::of(b"other")), ..ExistingObject::default() };
const SDIST: &str = "dist/rocm-7.13.0+ab.tar.gz";
const WHEEL: &str = "dist/rocm_sdk_core-7.13.0+ab-py3-none-linux_x86_64.whl";

#[test]
fn files_go_before_sidecars_pages_and_roots() {
    insta::assert_snapshot!(plan(&[], false), @"
    to out/1-linux/python
    new     612.26 MiB  dist/rocm-7.13.0+ab.tar.gz
    new     612.26 MiB  dist/rocm_sdk_core-7.13.0+ab-py3-none-linux_x86_64.whl
    new           22 B  dist/rocm_sdk_core-7.13.0+ab-py3-none-linux_x86_64.whl.metadata
    new       3.49 KiB  simple/rocm/index.html
    new       3.49 KiB  simple/rocm/
    new       3.72 KiB  simple/rocm-sdk-core/index.html
    new       3.72 KiB  simple/rocm-sdk-core/
    new       3.35 KiB  simple/index.html
    new       3.35 KiB  simple/
    new       3.84 KiB  dist/index.html
    new       3.84 KiB  dist/
    new       3.39 KiB  index.html
    new       3.39 KiB  ./
    new          344 B  SHA256SUMS
    14 new (1.20 GiB), 0 to replace (0 B), 0 there already (0 B)
    ");
}

#[test]
fn a_second_run_completes_the_first() {
    let there = [(SDIST, same(SDIST)), ("simple/rocm/index.html", OTHER())];
    let plan = plan(&there, false);
    let whys: Vec<String> = plan.steps.iter().map(|(_, why)| why.to_string()).collect();
    assert_eq!(whys[..4], ["same", "new", "new", "replace"]);
    assert!(plan.refusal().is_none());
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
    assert_eq!(replacing.steps[0].1, Action::Replace(OTHER()));
}

#[test]
fn a_plan_is_readable_by_programs() {
    let json = serde_json::to_value(plan(&[(SDIST, OTHER())], false)).unwrap();
    insta::assert_snapshot!(json["actions"][0], @r#"{"action":"refuse","path":"dist/rocm-7.13.0+ab.tar.gz","size":642000000,"sha256":"8cf2595608588b051a3c58500174561ac05e4f775f9c4ffbfa96b85cf57b3e48","content-type":"application/gzip","cache-control":"no-cache","there":{"size":7,"sha256":"d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"}}"#);
    assert_eq!(json["schema"], "rocwheel-plan-v1");
}

/// A directory with a set of one wheel, and that wheel.
#[cfg(unix)]
fn set_of_one_wheel() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let dist = directory.path().join("packages/dist");
    fs_err::create_dir_all(&dist).unwrap();
    let wheel = dist.join("rocm_sdk_core-7.0.0+ab-py3-none-linux_x86_64.whl");
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default();
    let member = "rocm_sdk_core-7.0.0+ab.dist-info/METADATA";
    writer.start_file(member, stored).unwrap();
    let text = "Metadata-Version: 2.4\nName: rocm-sdk-core\nVersion: 7.0.0+ab\n";
    writer.write_all(text.as_bytes()).unwrap();
    fs_err::write(&wheel, writer.finish().unwrap().into_inner()).unwrap();
    (directory, wheel)
}

/// A package is not linked if the file system cannot, or if the file changed after it was read.
#[cfg(unix)]
#[test]
fn a_package_that_cannot_be_linked_is_copied() {
    let (directory, wheel) = set_of_one_wheel();
    let world =
        World { console: Console::of_this_process(Options::silent()), stop: Stop::default() };
    let [here, public] = ["packages", "public"].map(|name| directory.path().join(name));
    let place = SetPlace::directory(&public, &world.stop);
    let there = public.join("dist").join(wheel.file_name().unwrap());
    fs_err::create_dir_all(public.join("dist")).unwrap();
    let read =
        || LocalSet::read(&here, PackageDirectories::Built, KnownPackages::new(), &world).unwrap();
    let source = here.clone();
    let guard = Guard::Packages;
    let sync = Sync::of_packages(&place, &source, guard, Existing::Replace, &world);
    let plan = |local: &LocalSet| {
        let file = &local.document.files[0];
        let decide = |listing: &mut Listing<'_>| {
            listing.add_set()?;
            let items = local.package(file, file).collect();
            Ok((Changes::of(items), ()))
        };
        let (plan, ()) = sync.plan(decide).unwrap();
        let (item, action) = &plan.steps[0];
        let is_replaced = matches!(action, Action::Replace(_));
        assert!(item.phase == Phase::File && is_replaced, "{plan}");
        plan
    };
    let touch = || {
        let file = fs_err::OpenOptions::new().write(true).open(&wheel).unwrap();
        file.file().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    };
    let inode = |path: &Path| fs_err::metadata(path).unwrap().ino();
    let good = fs_err::read(&wheel).unwrap();

    fs_err::write(&there, "old").unwrap();
    let changed = plan(&read());
    fs_err::write(&wheel, "other bytes").unwrap();
    let error = sync.carry_out(&changed).unwrap_err();
    assert!(render(&error).contains("wrong contents"), "{error:#}");
    assert_eq!(fs_err::read_to_string(&there).unwrap(), "old");

    fs_err::write(&wheel, &good).unwrap();
    let replaced = plan(&read());
    touch();
    match sync.carry_out(&replaced).unwrap() {
        Attempt::Done(done) => assert_eq!(done.linked, 0),
        Attempt::Overtaken(error) => panic!("{error:#}"),
    }
    assert_eq!(fs_err::read(&there).unwrap(), good);
    assert_ne!(inode(&there), inode(&wheel));
}

/// Pages under keys that end in `/` are the same file as `index.html` in a directory.
#[test]
fn a_directory_gets_each_page_once() {
    let world =
        World { console: Console::of_this_process(Options::silent()), stop: Stop::default() };
    let directory = tempfile::tempdir().unwrap();
    let place = SetPlace::directory(directory.path(), &world.stop);
    let sync = Sync::of_pages(&place, &world);
    let decide = |_: &mut Listing<'_>| {
        let items = Item::directory_page("simple/", Phase::Root, "a page").to_vec();
        Ok((Changes::of(items), ()))
    };
    let (plan, ()) = sync.plan(decide).unwrap();
    let paths: Vec<&str> = plan.steps.iter().map(|(item, _)| &*item.path).collect();
    assert_eq!(paths, ["simple/index.html"]);
}

/// Pages that another program changed, also to as many bytes, are written again.
#[test]
fn only_pages_that_a_directory_lacks_are_kept_until_they_are_written() {
    let world =
        World { console: Console::of_this_process(Options::silent()), stop: Stop::default() };
    let directory = tempfile::tempdir().unwrap();
    let place = SetPlace::directory(directory.path(), &world.stop);
    let set = SetJson::new(
        Identity::default(),
        vec![samples::file("rocm-7.13.0.tar.gz", "rocm", "7.13.0")],
    );
    let set = set.unwrap();
    let jobs = World::jobs();
    let pages =
        |listing: &Listing<'_>| Item::pages(&set, None, listing, jobs, &world.stop).unwrap();
    let kept = || {
        let mut listing = Listing::nothing(&place);
        listing.add_set().unwrap();
        let mut pages = pages(&listing);
        pages.retain(|item| !item.is_directory() && item.bytes != ItemBytes::There);
        pages.into_iter().map(|item| item.path).sorted().collect_vec()
    };
    let all = kept();
    assert!(all.iter().any(|path| path == "set.json"), "{all:?}");
    for item in pages(&Listing::nothing(&place)).iter().filter(|item| !item.is_directory()) {
        let ItemBytes::Here(bytes) = &item.bytes else { panic!("{item:?}") };
        let path = directory.path().join(&item.path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, bytes).unwrap();
    }
    assert_eq!(kept(), Vec::<String>::new());
    let changed = directory.path().join("SHA256SUMS");
    let mut bytes = fs_err::read(&changed).unwrap();
    bytes[0] ^= 1;
    fs_err::write(&changed, bytes).unwrap();
    fs_err::remove_file(directory.path().join("simple/index.html")).unwrap();
    assert_eq!(kept(), ["SHA256SUMS", "simple/index.html"]);
}
