//! Rules about split libraries: each finds its device code, each archive is used by a library, and
//! the libraries that one needs have code for the same targets.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use itertools::Itertools as _;
use serde::Deserialize;

use super::{Observed, some};
use crate::{
    check::{
        coverage,
        facts::{Binary, DeviceCodeFacts, HostCode, SetFacts, WheelFile},
        finding::Findings,
        path_facts,
        reach::{Finds, Library, Reach},
        rule,
    },
    kpack::CodeTarget,
    relpath::RelPath,
    target::Target,
};

/// The number of keys named in a finding.
const MOST_KEYS: usize = 2;

pub(super) fn find(seen: &Observed<'_>, findings: &mut Findings) {
    let set = seen.set;
    let reach = Reach::of(set);
    for library in &reach.libraries {
        one_library(library, findings);
    }
    providers(set, &reach, findings);
    let is_known = unreadable(set, findings);
    for (target, wheel) in set.device_wheels() {
        foreign_code(&target, wheel, findings);
        // A damaged library may use any archive, so no archive can be called unused.
        if is_known {
            unasked(&target, wheel, &reach, findings);
        }
    }
}

/// Reports files that begin like device code, or have its extension, and cannot be parsed. Returns
/// whether the references of every library are known.
fn unreadable(set: &SetFacts, findings: &mut Findings) -> bool {
    let mut is_known = true;
    for (wheel, member, content) in set.contents() {
        let place = (&*wheel.file, &*member.path);
        let has_extension = |extension| path_facts::has_extension(&member.path, extension);
        match (&content.code, content.host_code()) {
            (Some(DeviceCodeFacts::Unreadable(why)), _) => {
                findings.at(rule::UNREADABLE_DEVICE_CODE, place, why);
            }
            (None | Some(DeviceCodeFacts::Objects(_)), _) if has_extension("kpack") => {
                let fact = "not an archive of device code";
                findings.at(rule::UNREADABLE_DEVICE_CODE, place, fact);
            }
            // A `.debug` file has the section headers of a binary, but not its contents.
            (_, Some(HostCode::Damaged(why))) if !has_extension("debug") => {
                is_known = false;
                findings.at(rule::BROKEN_KPACK_REFERENCE, place, why);
            }
            _ => {}
        }
    }
    is_known
}

fn one_library(library: &Library<'_>, findings: &mut Findings) {
    let place = (library.wheel, library.path);
    let is_lost = |finds: &Finds| !finds.any_variant && finds.lacking.is_empty();
    if !library.finds.is_empty() && library.finds.values().all(is_lost) {
        let patterns = library.patterns.iter().join("`, `");
        let fact = format!("no package has `{patterns}` for any target");
        return findings.at(rule::UNRESOLVED_KPACK, place, fact);
    }
    for finds in library.finds.values() {
        for (device, keys) in &finds.lacking {
            let keys = some(keys, MOST_KEYS);
            let fact = format!("the archives for `{device}` lack {keys}");
            findings.at(rule::MISSING_KERNELS, place, fact);
        }
        for (device, keys) in &finds.hidden {
            let keys = some(keys, MOST_KEYS);
            let fact =
                format!("a runtime that asks one archive only finds no {keys} for `{device}`");
            findings.at(rule::EMPTY_VARIANT, place, fact);
        }
    }
}

/// The code in the files of a device wheel is for its target, also if their names say otherwise.
fn foreign_code(target: &Target, wheel: &WheelFile, findings: &mut Findings) {
    let accepted = coverage::found_for(target);
    for (member, content) in wheel.contents() {
        let contained: Vec<String> = match &content.code {
            Some(DeviceCodeFacts::Objects(targets)) => {
                targets.iter().map(ToString::to_string).collect()
            }
            Some(DeviceCodeFacts::Archive(archive)) => archive.archive.targets().to_vec(),
            _ => continue,
        };
        let is_own = |text: &String| {
            let target = text.parse::<CodeTarget>();
            target.is_ok_and(|target| accepted.contains(&target.base()))
        };
        let foreign = contained.into_iter().filter(|it| !is_own(it)).join("`, `");
        if !foreign.is_empty() {
            let fact = format!("it holds code for `{foreign}`, in the package of `{target}`");
            findings.at(
                rule::FOREIGN_DEVICE_FILE,
                (&*wheel.file, &*member.path),
                fact,
            );
        }
    }
}

/// Reports code in archives that its library does not look up, so that it cannot be used, and
/// archives that no library names, which users download for nothing.
fn unasked(target: &Target, wheel: &WheelFile, reach: &Reach<'_>, findings: &mut Findings) {
    for (member, content) in wheel.contents() {
        let (Some(archive), Ok(path)) = (content.archive(), member.path.parse::<RelPath>()) else {
            continue;
        };
        let codes = archive.archive.codes();
        let is_asked = |key: &&str| reach.asked.contains(&(path.clone(), (*key).to_owned()));
        let keys = codes.iter().map(|code| code.key.as_str());
        let (asked, unasked): (BTreeSet<&str>, BTreeSet<&str>) = keys.partition(is_asked);
        let lost = unasked.iter().filter(|key| reach.lacks(target, key));
        let lost: Vec<&str> = lost.copied().collect();
        let place = (&*wheel.file, &*member.path);
        if !lost.is_empty() {
            let lost = some(&lost, MOST_KEYS);
            let fact = format!("no library looks for {lost} in it, and no other archive has it");
            findings.at(rule::LOST_DEVICE_CODE, place, fact);
        } else if asked.is_empty() {
            let fact = codes.first().map_or_else(
                || "it holds nothing".to_owned(),
                |first| format!("no library uses `{}` or its other code", first.key),
            );
            findings.at(rule::UNASKED_ARCHIVE, place, fact);
        }
    }
}

/// The libraries that a library needs have device code for the same targets.
fn providers(set: &SetFacts, reach: &Reach<'_>, findings: &mut Findings) {
    let users = users(set, reach);
    let mut known: BTreeMap<&str, BTreeSet<&Target>> = BTreeMap::new();
    for user in &users {
        if let Some(name) = &user.asked_for_as {
            let targets = known.entry(name).or_default();
            targets.extend(&user.targets);
        }
    }
    for user in &users {
        let place = (user.wheel, user.path);
        let needed = match &user.needed {
            Ok(needed) => needed,
            Err(why) => {
                let fact = format!("the libraries it needs cannot be read: {why}");
                findings.at(rule::BEYOND_PROVIDER, place, fact);
                continue;
            }
        };
        for needed in needed.iter().filter(|it| !is_optional(&user.name, it)) {
            let Some(targets) = known.get(needed.as_str()) else {
                continue;
            };
            let own = user.targets.iter();
            let beyond = own.filter(|it| !targets.contains(it)).join(", ");
            if !beyond.is_empty() {
                let fact =
                    format!("it has code for {beyond}, but `{needed}`, which it needs, has none");
                findings.at(rule::BEYOND_PROVIDER, place, fact);
            }
        }
    }
}

/// A library with device code, fat or split, and its targets. Names of libraries for Windows are in
/// lower case, because Windows ignores case.
struct User<'a> {
    wheel: &'a str,
    path: &'a str,
    name: String,
    /// The name by which other files need it: the SONAME of an ELF file, the file name on Windows.
    asked_for_as: Option<String>,
    needed: Result<Vec<String>, &'a str>,
    targets: BTreeSet<Target>,
}

impl<'a> User<'a> {
    fn new(wheel: &'a str, path: &'a str, binary: Binary<'a>, targets: BTreeSet<Target>) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let (name, asked_for_as, needed) = match binary {
            Binary::Elf(elf) => {
                let (soname, needed) = (elf.facts.soname.clone(), elf.facts.needed.clone());
                (name.to_owned(), soname, Ok(needed))
            }
            Binary::Windows(file) => {
                let name = name.to_ascii_lowercase();
                let needed = file.needed.as_ref();
                let needed = needed.map(|it| it.iter().map(|it| it.to_ascii_lowercase()).collect());
                (name.clone(), Some(name), needed.map_err(String::as_str))
            }
        };
        Self {
            wheel,
            path,
            name,
            asked_for_as,
            needed,
            targets,
        }
    }
}

fn users<'a>(set: &'a SetFacts, reach: &'a Reach<'a>) -> Vec<User<'a>> {
    let split = reach.libraries.iter();
    let split = split.map(|it| {
        let targets = it.targets().cloned().collect();
        User::new(it.wheel, it.path, it.binary, targets)
    });
    let mut users: Vec<User<'_>> = split.collect();
    let columns = coverage::targets(set);
    for (wheel, member, content) in set.contents() {
        if let Some(binary) = content.binary()
            && let HostCode::Fat(carried) = binary.code()
        {
            let targets = columns.iter();
            let targets = targets.filter(|it| coverage::serves(carried, it));
            let targets = targets.cloned().collect();
            users.push(User::new(&wheel.file, &member.path, binary, targets));
        }
    }
    users
}

/// Libraries that work although a library they are linked with has no device code for a target.
static OPTIONAL: LazyLock<Vec<OptionalProvider>> = LazyLock::new(|| {
    let text = include_str!("optional_providers.toml");
    let mut file: BTreeMap<String, Vec<OptionalProvider>> =
        toml::from_str(text).expect("a test reads the built-in list");
    file.remove("optional").unwrap_or_default()
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionalProvider {
    /// A file name, in lower case for Windows. A `*` at its end matches any version.
    consumer: String,
    /// A SONAME, in the same form.
    provider: String,
    #[serde(rename = "why")]
    _why: String,
}

/// Whether the library `consumer` works without device code in `provider`.
fn is_optional(consumer: &str, provider: &str) -> bool {
    let fits = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    let mut pairs = OPTIONAL.iter();
    pairs.any(|pair| fits(&pair.consumer, consumer) && fits(&pair.provider, provider))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_is_read() {
        assert!(is_optional("librocblas.so.5.1", "libhipblaslt.so.1"));
        assert!(is_optional("rocblas.dll", "libhipblaslt.dll"));
        assert!(!is_optional("libhipblaslt.so.1", "librocblas.so.5"));
        assert!(!is_optional("librocblas.so.5", "librocblas.so.5"));
    }
}
