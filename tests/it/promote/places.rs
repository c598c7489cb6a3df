//! A release place with packages of several versions, as tests fill it, and what tests ask of one.

use std::{collections::BTreeSet, path::Path};

use super::walkdir;
use crate::publish::packages::wheel;

const CORE: [&str; 3] = [
    "rocm-sdk-core",
    "rocm-sdk-libraries",
    "rocm-sdk-device-gfx942",
];

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

/// Fails if a page links to a file that does not exist. The lists of files are written after all pages,
/// so a link to one may come first.
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

/// The names of all wheels of a place, sorted.
pub(crate) fn wheels(place: &Path) -> Vec<String> {
    let names = walkdir(place).into_iter();
    let names = names.filter_map(|it| it.file_name()?.to_str().map(str::to_owned));
    let mut names: Vec<String> = names.filter(|it| it.ends_with(".whl")).collect();
    names.sort();
    names
}
