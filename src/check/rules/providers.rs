//! The rule that the libraries which a library needs have device code for the same targets.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use itertools::Itertools as _;
use serde::Deserialize;

use crate::{
    check::{
        coverage,
        facts::{Binary, HostCode, SetFacts},
        finding::Findings,
        reach::Reach,
        rule,
    },
    target::Target,
};

pub(super) fn find(set: &SetFacts, reach: &Reach<'_>, findings: &mut Findings) {
    let users = users(set, reach);
    let mut providers: BTreeMap<&str, BTreeSet<&Target>> = BTreeMap::new();
    for user in &users {
        if let Some(name) = &user.asked_for_as {
            let targets = providers.entry(name).or_default();
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
            let Some(targets) = providers.get(needed.as_str()) else {
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
    fn new(
        wheel: &'a str,
        path: &'a str,
        binary: Binary<'a>,
        targets: impl Iterator<Item = &'a Target>,
    ) -> Self {
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
            targets: targets.cloned().collect(),
        }
    }
}

fn users<'a>(set: &'a SetFacts, reach: &'a Reach<'a>) -> Vec<User<'a>> {
    let split = reach.libraries.iter();
    let split = split.map(|it| User::new(it.wheel, it.path, it.binary, it.targets()));
    let mut users: Vec<User<'_>> = split.collect();
    let columns = coverage::targets(set);
    for (wheel, member, content) in set.contents() {
        if let Some(binary) = content.binary()
            && let HostCode::Fat(carried) = binary.code()
        {
            let targets = columns.iter();
            let targets = targets.filter(|it| coverage::serves(carried, it));
            users.push(User {
                targets: targets.cloned().collect(),
                ..User::new(&wheel.file, &member.path, binary, [].iter())
            });
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
