//! A release place with packages of several versions, as tests fill it, and what tests ask of one.

use crate::{publish::packages::wheel, support::prelude::*};

const CORE: [&str; 3] = ["rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-device-gfx942"];

/// A wheel in the directory of its project, with what it requires, and its sidecar.
fn add(place: &Path, project: &str, version: &str, requires: &str) {
    let product = if project.starts_with("rocm") { "core" } else { "pytorch" };
    let index = place.join(format!("rocm/{product}/whl-next"));
    let path = wheel(&index.join(project), project, version, requires);
    let metadata =
        format!("Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n{requires}");
    fs_err::write(format!("{path}.metadata"), metadata).unwrap();
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
    let needs = "Requires-Dist: triton (==3.5+rocm7.14.0a20260802)\n";
    add(place, "torch", "2.10.0+rocm7.14.0a20260805", needs);
    let needs = "Requires-Dist: rocm-sdk-core==7.14.0a20260802\n";
    add(place, "triton", "3.5+rocm7.14.0a20260802", needs);
}

/// Fails if a page links to a file that does not exist. The lists of files are written after all pages,
/// so a link to one may come first.
pub(crate) fn assert_whole(place: &Path) {
    let pages = tree(place).into_iter().filter(|it| it.ends_with(".html"));
    for page in pages.map(|it| place.join(it)) {
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
    let wheels = tree(place).into_iter().filter(|it| it.ends_with(".whl"));
    let names = wheels.map(|it| it.rsplit('/').next().unwrap().to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
