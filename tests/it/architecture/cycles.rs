//! No circle of modules, neither of rooms nor of files in a room.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::house::{Read, Violation};

/// No circle of modules, neither of rooms nor of files in a room.
pub(super) fn cycles(files: &[Read]) -> Vec<Violation> {
    let modules: BTreeSet<&[String]> = files.iter().map(|read| &*read.module).collect();
    let reexports = reexports(files);
    let mut edges: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
    // Tests of a file may use everything that uses the file.
    let product = files
        .iter()
        .filter(|read| !read.module.iter().any(|name| name == "tests"));
    for read in product {
        for path in read.paths.iter().filter(|path| !path.test) {
            let Some(used) = path.absolute() else {
                continue;
            };
            let used = real_place(used, &reexports);
            let (from, to) = siblings(&read.module, &used);
            if from != to && modules.contains(from) && modules.contains(to) {
                edges.entry(from.to_vec()).or_default().insert(to.to_vec());
            }
        }
    }
    edges
        .keys()
        .filter_map(|start| {
            let circle = circle(start, &edges)?;
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            let file = files.iter().find(|read| &read.module == start)?;
            let what = format!("modules in a circle: {}", names.join(" -> "));
            let advice = "move what both need to a file of its own";
            // Each circle once, at its first module.
            (circle.iter().min() == Some(start))
                .then(|| Violation::new(&file.file, 1, what, advice))
        })
        .collect()
}

/// Where a path leads once each name on its way is replaced by what it stands for.
fn real_place(
    mut path: Vec<String>,
    reexports: &BTreeMap<Vec<String>, Vec<String>>,
) -> Vec<String> {
    let mut end = 1;
    while end <= path.len() {
        if let Some(real) = reexports.get(&path[..end]) {
            path.splice(..end, real.iter().cloned());
        }
        end += 1;
    }
    path
}

/// Names that a module hands on from a file below it, each with its real place.
fn reexports(files: &[Read]) -> BTreeMap<Vec<String>, Vec<String>> {
    files
        .iter()
        .flat_map(|read| read.paths.iter().map(move |path| (read, path)))
        .filter_map(|(read, path)| {
            let relative = || [&*read.module, &*path.segments].concat();
            let real = path.absolute().unwrap_or_else(relative);
            let below = real.len() == read.module.len() + 2 && real.starts_with(&read.module);
            let mut name = read.module.clone();
            name.push(real.last()?.clone());
            below.then_some((name, real))
        })
        .collect()
}

/// The two modules side by side under which one place and the other lie.
fn siblings<'a>(own: &'a [String], used: &'a [String]) -> (&'a [String], &'a [String]) {
    let shared = own.iter().zip(used).take_while(|(a, b)| a == b).count();
    let end = shared + 1;
    if own.len() < end || used.len() < end {
        // One lies in the other: a parent and its child are one subject.
        return (own, own);
    }
    (&own[..end], &used[..end])
}

/// A shortest way from a module back to itself.
fn circle(
    start: &[String],
    edges: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
) -> Option<Vec<Vec<String>>> {
    let mut ways = VecDeque::from([vec![start.to_vec()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in edges.get(way.last()?).into_iter().flatten() {
            let mut longer = way.clone();
            longer.push(next.clone());
            if next == start {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                ways.push_back(longer);
            }
        }
    }
    None
}
