//! The rule that the libraries which a library needs have device code for the same targets.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use crate::{
    check::{
        device_targets,
        facts::{Binary, HostCode, SetFacts},
        finding::Findings,
        provider,
        reach::Reach,
        rule,
    },
    target::Target,
};

pub(super) fn find(set: &SetFacts, reach: &Reach<'_>, findings: &mut Findings) {
    let users = users(set, reach);
    let mut providers: BTreeMap<Cow<'_, str>, BTreeSet<&Target>> = BTreeMap::new();
    for user in &users {
        if let Some(name) = user.asked_for_as() {
            let targets = providers.entry(name).or_default();
            targets.extend(&user.targets);
        }
    }
    for user in &users {
        let facts = match user.needed() {
            Ok(needed) => user.beyond(&needed, &providers),
            Err(why) => vec![format!("the libraries it needs cannot be read: {why}")],
        };
        for fact in facts {
            findings.add(rule::BEYOND_PROVIDER, (user.wheel, user.path), fact);
        }
    }
}

/// A library with device code, fat or split, and its targets.
struct User<'a> {
    wheel: &'a str,
    path: &'a str,
    binary: Binary<'a>,
    targets: BTreeSet<Target>,
}

fn users<'a>(set: &'a SetFacts, reach: &Reach<'a>) -> Vec<User<'a>> {
    let split = reach.libraries.iter().map(|library| User {
        wheel: library.wheel,
        path: library.path,
        binary: library.binary,
        targets: library.targets().cloned().collect(),
    });
    let mut users: Vec<User<'_>> = split.collect();
    let columns = device_targets::targets(set);
    for (wheel, member, content) in set.contents() {
        let Some(binary) = content.binary() else {
            continue;
        };
        if let HostCode::Fat(carried) = binary.code() {
            let targets = columns
                .iter()
                .filter(|it| device_targets::serves(carried, it));
            users.push(User {
                wheel: &wheel.file,
                path: &member.path,
                binary,
                targets: targets.cloned().collect(),
            });
        }
    }
    users
}

impl<'a> User<'a> {
    /// The file name, in lower case for Windows.
    fn name(&self) -> Cow<'a, str> {
        let name = self.path.rsplit('/').next().unwrap_or(self.path);
        match self.binary {
            Binary::Elf(_) => name.into(),
            Binary::Windows(_) => on_windows(name),
        }
    }

    /// The name by which other files need it: the SONAME of an ELF file, the file name on Windows.
    fn asked_for_as(&self) -> Option<Cow<'a, str>> {
        match self.binary {
            Binary::Elf(elf) => Some(elf.facts.soname.as_deref()?.into()),
            Binary::Windows(_) => Some(self.name()),
        }
    }

    fn needed(&self) -> Result<Vec<Cow<'a, str>>, &'a str> {
        match self.binary {
            Binary::Elf(elf) => Ok(elf.facts.needed.iter().map(Cow::from).collect()),
            Binary::Windows(file) => match &file.needed {
                Ok(needed) => Ok(needed.iter().map(|it| on_windows(it)).collect()),
                Err(why) => Err(why),
            },
        }
    }

    /// Reports the needed libraries that lack code for some of its targets.
    fn beyond(
        &self,
        needed: &[Cow<'_, str>],
        providers: &BTreeMap<Cow<'_, str>, BTreeSet<&Target>>,
    ) -> Vec<String> {
        let name = self.name();
        let needed = needed.iter().filter(|it| !provider::is_optional(&name, it));
        let known = needed.filter_map(|it| Some((it, providers.get(it)?)));
        let facts = known.filter_map(|(needed, targets)| {
            let own = self.targets.iter();
            let beyond = own.filter(|it| !targets.contains(it)).map(Target::as_str);
            let beyond: Vec<&str> = beyond.collect();
            (!beyond.is_empty()).then(|| {
                let beyond = beyond.join(", ");
                format!("it has code for {beyond}, but `{needed}`, which it needs, has none")
            })
        });
        facts.collect()
    }
}

/// The name in lower case, because Windows ignores case.
fn on_windows(name: &str) -> Cow<'_, str> {
    name.to_ascii_lowercase().into()
}
