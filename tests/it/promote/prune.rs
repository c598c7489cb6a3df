//! Old versions leave a release place: pages first, then files.

use std::{collections::BTreeSet, path::Path};

use super::{built, fresh, walkdir};
use crate::{
    publish::{packages::wheel, tree},
    support::{
        place::{empty, text},
        program::{Outcome, rocwheel},
        published::sample,
    },
};

const CORE: [&str; 3] = [
    "rocm-sdk-core",
    "rocm-sdk-libraries",
    "rocm-sdk-device-gfx942",
];

fn prune(place: &Path, flags: &[&str]) -> Outcome {
    let arguments = ["prune", text(place), "--most", "100"];
    rocwheel(&[&arguments[..], flags].concat())
}

/// A wheel in the directory of its project, with what it requires, and a page that names it.
pub(crate) fn add(place: &Path, project: &str, version: &str, requires: &str) {
    let product = if project.starts_with("rocm") {
        "core"
    } else {
        "pytorch"
    };
    let directory = place
        .join("rocm")
        .join(product)
        .join("whl-next")
        .join(project);
    let path = wheel(&directory, project, version, requires);
    let name = Path::new(&path).file_name().unwrap().to_str().unwrap();
    fs_err::write(
        format!("{path}.metadata"),
        format!("Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n{requires}"),
    )
    .unwrap();
    let page = directory.join("index.html");
    let before = fs_err::read_to_string(&page).unwrap_or_default();
    let href = name.replace('+', "%2B");
    fs_err::write(page, format!("{before}<a href='{href}'>{name}</a>\n")).unwrap();
    let root = directory.parent().unwrap().join("index.html");
    let mut names: BTreeSet<String> = fs_err::read_to_string(&root)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    names.insert(format!("<a href=\"{project}/\">{project}</a>"));
    fs_err::write(root, names.into_iter().collect::<Vec<_>>().join("\n")).unwrap();
}

/// Five nightlies in August, a release, a package of others, and a torch that holds an old nightly.
pub(crate) fn filled(place: &Path) {
    for day in 1..=5 {
        for project in CORE {
            add(place, project, &format!("7.14.0a2026080{day}"), "");
        }
    }
    add(place, "rocm-sdk-core", "7.13.0", "");
    add(place, "rocm-sdk-old", "7.14.0a20260801", "");
    add(
        place,
        "torch",
        "2.10.0+rocm7.14.0a20260805",
        "Requires-Dist: triton (==3.5+rocm7.14.0a20260802)\n",
    );
    add(
        place,
        "triton",
        "3.5+rocm7.14.0a20260802",
        "Requires-Dist: rocm-sdk-core==7.14.0a20260802\n",
    );
}

/// Every page names files that are there, but for the lists of files, which come after all pages.
pub(crate) fn assert_whole(place: &Path) {
    for page in walkdir(place) {
        if page.extension().is_none_or(|it| it != "html") {
            continue;
        }
        let text = fs_err::read_to_string(&page).unwrap();
        for link in text.split("href=").skip(1) {
            let link = link.trim_start_matches(['"', '\'']);
            let end = link.find(['"', '\'', '#', '>']).unwrap();
            let target = page.parent().unwrap().join(link[..end].replace("%2B", "+"));
            if target.ends_with("SHA256SUMS") || target.ends_with("set.json") {
                continue;
            }
            assert!(target.exists(), "{}: {link}", page.display());
        }
    }
}

/// The wheels that are there, by name.
pub(crate) fn wheels(place: &Path) -> Vec<String> {
    let names = walkdir(place).into_iter();
    let names = names.filter_map(|it| it.file_name()?.to_str().map(str::to_owned));
    let mut names: Vec<String> = names.filter(|it| it.ends_with(".whl")).collect();
    names.sort();
    names
}

/// A plan as it is on any day and machine.
fn shown(plan: &str, place: &Path) -> String {
    let plan = plan.replace(text(place), "PLACE");
    let mut parts = plan.split("deleted from ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| {
        shown + "deleted from DAY" + &part[10..]
    })
}

#[test]
fn old_nightlies_go_and_what_others_need_stays() {
    let place = empty("promote/prune");
    filled(&place);
    fs_err::write(place.join("notes of a person.txt"), "keep").unwrap();
    // An index of another stream names a file of the first nightly.
    let other = place.join("rocm/whl-next/rocm-sdk-core");
    fs_err::create_dir_all(&other).unwrap();
    let name = "rocm_sdk_core-7.14.0a20260801-py3-none-any.whl";
    let link = format!("<a href=\"../../core/whl-next/rocm-sdk-core/{name}#sha256=0\">{name}</a>");
    fs_err::write(other.join("index.html"), link).unwrap();
    let flags = ["--stream", "nightly", "--keep", "2", "--grace", "0"];
    let before = tree(&place);
    let plan = prune(&place, &flags);
    insta::assert_snapshot!(plan.stderr, @"note: nothing was changed; pass `--really` to do it");
    insta::assert_snapshot!(shown(&plan.ok(), &place), @"
    nightly: 2 versions kept by the rule
    keep    7.14.0a20260802  required by torch 2.10.0+rocm7.14.0a20260805
    remove  7.14.0a20260803  3 files: off the pages and deleted now
    remove  7.14.0a20260801  3 files: off the pages and deleted now
    remove  7.14.0a20260801  1 file: off the pages now, deleted from DAY on
            named by PLACE/rocm/whl-next/rocm-sdk-core/index.html
    2 versions to remove, 7 files, 7.51 KiB
    ");
    assert_eq!(tree(&place), before);
    let really = [&flags[..], &["--really"]].concat();
    prune(&place, &really).ok();
    assert_whole(&place);
    insta::assert_snapshot!(wheels(&place).join("\n"), @"
    rocm_sdk_core-7.13.0-py3-none-any.whl
    rocm_sdk_core-7.14.0a20260801-py3-none-any.whl
    rocm_sdk_core-7.14.0a20260802-py3-none-any.whl
    rocm_sdk_core-7.14.0a20260804-py3-none-any.whl
    rocm_sdk_core-7.14.0a20260805-py3-none-any.whl
    rocm_sdk_device_gfx942-7.14.0a20260802-py3-none-any.whl
    rocm_sdk_device_gfx942-7.14.0a20260804-py3-none-any.whl
    rocm_sdk_device_gfx942-7.14.0a20260805-py3-none-any.whl
    rocm_sdk_libraries-7.14.0a20260802-py3-none-any.whl
    rocm_sdk_libraries-7.14.0a20260804-py3-none-any.whl
    rocm_sdk_libraries-7.14.0a20260805-py3-none-any.whl
    torch-2.10.0+rocm7.14.0a20260805-py3-none-any.whl
    triton-3.5+rocm7.14.0a20260802-py3-none-any.whl
    ");
    // A project without files has no page any more, and the file that is named has none of its own.
    assert!(!place.join("rocm/core/whl-next/rocm-sdk-old").exists());
    let page = fs_err::read_to_string(place.join("rocm/core/whl-next/rocm-sdk-core/index.html"));
    assert!(!page.unwrap().contains(name));
    let after = tree(&place);
    insta::assert_snapshot!(shown(&prune(&place, &really).ok(), &place), @"
    nightly: 2 versions kept by the rule
    keep    7.14.0a20260802  required by torch 2.10.0+rocm7.14.0a20260805
    keep    7.14.0a20260801  1 file: until no page names them
            named by PLACE/rocm/whl-next/rocm-sdk-core/index.html
    0 versions to remove, 0 files, 0 B
    ");
    assert_eq!(tree(&place), after);
    // When no page names it, it goes.
    fs_err::remove_dir_all(place.join("rocm/whl-next")).unwrap();
    prune(&place, &really).ok();
    assert!(!wheels(&place).contains(&name.to_owned()));
}

#[test]
fn files_wait_for_the_time_of_grace_and_promotions_leave_them_alone() {
    let place = fresh("prune-grace");
    let candidate = built(sample(), "7.14.0rc1");
    let promote = |goal: &str| {
        let arguments = [
            "promote",
            text(&candidate),
            "--to",
            goal,
            "--into",
            text(&place),
        ];
        rocwheel(&[&arguments[..], &["--layout", "product", "--no-check"]].concat()).ok();
    };
    promote("same");
    promote("rc2");
    let page = || {
        fs_err::read_to_string(place.join("rocm/core/whl-next/rocm-sdk-core/index.html")).unwrap()
    };
    let flags = ["--stream", "rc", "--keep", "1", "--really"];
    // The release of a candidate keeps it.
    promote("release");
    let kept = prune(&place, &flags).ok();
    assert!(
        kept.contains("keep    7.14.0rc1  a release was made of it"),
        "{kept}"
    );
    let record = place.join("promotions/7.14.0-linux.json");
    fs_err::remove_file(&record).unwrap();
    fs_err::remove_file(place.join("promotions/7.14.0rc2-linux.json")).unwrap();
    let files = wheels(&place);
    prune(&place, &flags).ok();
    assert_eq!(wheels(&place), files);
    assert!(!page().contains("7.14.0rc1-") && page().contains("7.14.0rc2-"));
    // Another promotion adds its own files, and not those that are about to go.
    promote("release");
    assert!(!page().contains("7.14.0rc1-") && page().contains("7.14.0-"));
    fs_err::remove_file(&record).unwrap();
    // A week later.
    let record = place.join("prune.json");
    let text = fs_err::read_to_string(&record).unwrap();
    let today = text.split("whl\": \"").nth(1).unwrap()[..10].to_owned();
    fs_err::write(&record, text.replace(&today, "2026-01-01")).unwrap();
    prune(&place, &flags).ok();
    assert!(wheels(&place).iter().all(|it| !it.contains("7.14.0rc1-")));
    assert_whole(&place);
}

#[test]
fn pages_yank_instead() {
    let place = empty("promote/prune-yank");
    filled(&place);
    let files = wheels(&place);
    let flags = [
        "--stream",
        "nightly",
        "--keep",
        "2",
        "--yank",
        "older than <two>",
        "--really",
    ];
    prune(&place, &flags).ok();
    assert_eq!(wheels(&place), files);
    let page = fs_err::read_to_string(place.join("rocm/core/whl-next/rocm-sdk-core/index.html"));
    let page = page.unwrap();
    let yanked = page
        .lines()
        .filter(|it| it.contains("data-yanked=\"older than &lt;two&gt;\""));
    assert_eq!(yanked.count(), 2, "{page}");
    let plan = prune(&place, &flags).ok();
    assert!(plan.contains("yanked already"), "{plan}");
}

#[test]
fn a_place_that_is_not_whole_is_not_pruned() {
    let place = empty("promote/prune-refused");
    add(&place, "torch", "2.10.0+rocm7.14.0a20260801", "");
    let refused = prune(&place, &["--stream", "nightly", "--really"]);
    assert_eq!(refused.code, 1);
    insta::assert_snapshot!(refused.stderr, @"
    error: no version of `nightly` is complete there

    hint: name the places of all products; a version is complete with its core, its libraries and a device package for one platform
    ");
    let usage = prune(&place, &["--stream", "bkc"]);
    assert_eq!(usage.code, 2);
    insta::assert_snapshot!(usage.stderr, @"
    error: nothing says how long `bkc` is kept

    hint: pass `--keep` or `--days`
    ");
}

/// As much as a stream has: nightlies of 25 projects for two platforms. The bytes of our own packages are
/// never read.
#[test]
fn the_oldest_of_6_500_wheels_go_with_their_sidecars() {
    let place = empty("promote/prune-many");
    let top = place.join("rocm/core/whl-next");
    let days = (1..=5).flat_map(|month| (1..=28).map(move |day| format!("2026{month:02}{day:02}")));
    let days: Vec<String> = days.take(131).collect();
    let devices = (0..22).map(|number| format!("rocm-sdk-device-gfx9{number:02}"));
    let projects = CORE[..2].iter().map(|it| (*it).to_owned());
    let projects = projects.chain(["rocm-profiler".to_owned()]).chain(devices);
    for project in projects {
        let directory = top.join(&project);
        fs_err::create_dir_all(&directory).unwrap();
        let mut page = String::new();
        for day in &days {
            for platform in ["linux_x86_64", "win_amd64"] {
                let name = project.replace('-', "_");
                let name = format!("{name}-7.14.0a{day}-py3-none-{platform}.whl");
                page.extend(["<a href=", &*name, ">", &*name, "</a>"]);
                fs_err::write(directory.join(format!("{name}.metadata")), "metadata").unwrap();
                fs_err::write(directory.join(name), "wheel").unwrap();
            }
        }
        fs_err::write(directory.join("index.html"), page).unwrap();
    }
    // A new torch requires the triton of an old day, which requires the ROCm of that day.
    let (old, new) = (&days[2], &days[130]);
    let pin = format!("Requires-Dist: triton==3.5+rocm7.14.0a{old}\n");
    add(&place, "torch", &format!("2.10.0+rocm7.14.0a{new}"), &pin);
    let pin = format!("Requires-Dist: rocm==7.14.0a{old}\n");
    add(&place, "triton", &format!("3.5+rocm7.14.0a{old}"), &pin);
    let before = tree(&place);
    let flags = ["--stream", "nightly", "--grace", "0", "--really"];
    let plan = prune(&place, &flags).ok();
    let (first, last) = (plan.lines().nth(1).unwrap(), plan.lines().last().unwrap());
    assert_eq!(
        plan.lines().next(),
        Some("nightly: 120 versions kept by the rule")
    );
    assert_eq!(
        first,
        format!("keep    7.14.0a{old}  required by torch 2.10.0+rocm7.14.0a{new}")
    );
    assert!(
        last.starts_with("10 versions to remove, 500 files, "),
        "{last}"
    );
    let after: BTreeSet<String> = tree(&place).into_iter().collect();
    let gone: Vec<&String> = before.iter().filter(|it| !after.contains(*it)).collect();
    let sidecars = gone.iter().filter(|it| it.ends_with(".metadata")).count();
    assert_eq!((gone.len(), sidecars), (1000, 500));
    assert_whole(&place);
}
