//! [`VersionTexts`]: what `promote.toml` says about the texts that name a version; and [`VersionChange`]: the
//! same texts under another version, as the build of that version writes them.
//!
//! Nothing is replaced that is not a version as a whole, and that of one of our packages. Only what
//! names it changes: all other bytes stay.

use std::{collections::BTreeSet, sync::LazyLock};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    error::{Context as _, Result, ensure},
    glob::Glob,
    index::is_ours,
    policy::{DistNames, dist_info::assigned_version},
    target::{Scope, Target},
    version::Version,
    wheel::{DistName, Headers, Requirement},
};

static BUILTIN: LazyLock<VersionTexts> = LazyLock::new(|| {
    toml::from_str(include_str!("promote.toml")).expect("a test reads the built-in policy")
});

/// Which files of a package name its version.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionTexts {
    text: Vec<VersionText>,
    leftovers: LeftoverSearch,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionText {
    path: Glob,
    form: TextForm,
}

/// How a text names a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TextForm {
    /// METADATA and PKG-INFO: a header, and pins of other packages.
    Metadata,
    /// Pins in the sections of setuptools.
    Requires,
    /// Pins in any text: `rocm-sdk-core==7.14.0`.
    Pins,
    /// `__version__ = '7.14.0'`
    Python,
    /// `"version": "7.14.0"`, once.
    Json,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeftoverSearch {
    longest: u64,
    search: Vec<Glob>,
    stay: Vec<Glob>,
}

impl VersionTexts {
    pub(super) fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// How a file names the version; `None` if it does not.
    pub(super) fn form(&self, path: &str) -> Option<TextForm> {
        let mut texts = self.text.iter();
        texts.find(|it| it.path.matches(path)).map(|it| it.form)
    }

    /// Whether a file must not name the version that is left.
    pub(super) fn is_searched(&self, path: &str, len: u64) -> bool {
        let LeftoverSearch { longest, search, stay } = &self.leftovers;
        let is_in = |globs: &[Glob]| globs.iter().any(|it| it.matches(path));
        len <= *longest && is_in(search) && !is_in(stay)
    }
}

/// What changes in all packages of a set.
#[derive(Clone, Debug)]
pub(super) struct VersionChange {
    pub from: Version,
    pub to: Version,
    pub targets: TargetChange,
}

/// Which device packages stay. Without any to drop, nothing changes.
#[derive(Clone, Debug, Default)]
pub(super) struct TargetChange {
    pub kept: BTreeSet<Target>,
    pub dropped: BTreeSet<Target>,
}

impl TargetChange {
    fn drops_project(&self, name: &DistName) -> bool {
        let target = DistNames::built_in().device_target(name);
        target.is_some_and(|it| self.dropped.contains(&it))
    }

    /// Whether an extra is that of a dropped device package: `device-gfx942`.
    fn drops_extra(&self, extra: &str) -> bool {
        let target = extra.strip_prefix("device-");
        let target = target.and_then(|it| it.parse::<Target>().ok());
        target.is_some_and(|it| self.dropped.contains(&it))
    }

    fn drops(&self, scope: &str) -> bool {
        match scope.parse().map(|it: Scope| it.base()) {
            Ok(Scope::Target(target)) => self.dropped.contains(&target),
            _ => false,
        }
    }

    /// The only device package, if others are dropped. Its code is then what `rocm[device]` means.
    fn only(&self) -> Option<&Target> {
        let is_alone = !self.dropped.is_empty() && self.kept.len() == 1;
        self.kept.first().filter(|_| is_alone)
    }
}

impl VersionChange {
    /// Whether any package changes.
    pub(super) fn is_needed(&self) -> bool {
        self.from != self.to || !self.targets.dropped.is_empty()
    }

    /// A text under the other version.
    pub(super) fn apply(&self, form: TextForm, text: &str) -> Result<String> {
        match form {
            TextForm::Metadata => self.metadata(text),
            TextForm::Requires => Ok(self.requires(text)),
            TextForm::Pins => Ok(self.pins(text)),
            TextForm::Python => self.python(text),
            TextForm::Json => self.json(text),
        }
    }

    /// Whether a text names the version that is left. A final release is part of many numbers that are
    /// not its own, so it is not looked for.
    pub(super) fn is_left_in(&self, text: &[u8]) -> bool {
        if self.from.is_final() {
            return false;
        }
        let from = self.from.to_string();
        memchr::memmem::find_iter(text, from.as_bytes()).any(|at| {
            let before = at.checked_sub(1).and_then(|at| text.get(at));
            let after = text.get(at + from.len());
            !before.is_some_and(|it| it.is_ascii_digit() || *it == b'.')
                && !after.is_some_and(u8::is_ascii_alphanumeric)
        })
    }

    /// Replaces the version wherever it is required of one of our packages. They need not be in this
    /// set: `rocm` also names the device packages of the other platform.
    pub(super) fn pins(&self, text: &str) -> String {
        let (mut out, mut done) = (String::with_capacity(text.len()), 0);
        let to = self.to.to_string();
        for (at, _) in text.match_indices("==") {
            let (before, after) = (&text[..at], &text[at + 2..]);
            let spaces = after.len() - after.trim_start_matches(' ').len();
            let version = version_at(&after[spaces..]);
            let is_ours = || name_before(before).is_some_and(|it| is_ours(&it));
            if at >= done && self.is_from(version) && is_ours() {
                let start = at + 2 + spaces;
                out.push_str(&text[done..start]);
                out.push_str(&to);
                done = start + version.len();
            }
        }
        out.push_str(&text[done..]);
        out
    }

    fn is_from(&self, text: &str) -> bool {
        text.parse::<Version>().is_ok_and(|it| it == self.from)
    }

    fn metadata(&self, text: &str) -> Result<String> {
        let mut headers: Headers = text.parse()?;
        let versions: Vec<&str> = headers.all("Version").collect();
        ensure!(
            matches!(versions[..], [version] if self.is_from(version)),
            "its `Version` is not {}",
            self.from
        );
        headers.set("Version", &self.to.to_string());
        headers.remove("Requires-Dist", |it| self.drops_requirement(it));
        headers.remove("Provides-Extra", |it| self.targets.drops_extra(it));
        let has_extra = headers.all("Provides-Extra").any(|it| it == "device");
        if let Some(pin) = self.pin_of_only().filter(|_| has_extra) {
            let pin = format!("{pin}; extra == \"device\"");
            headers.insert_behind(
                |name, value| name == "Provides-Extra" && value == "device",
                [("Requires-Dist", pin)],
            );
        }
        Ok(self.pins(&headers.to_string()))
    }

    fn drops_requirement(&self, text: &str) -> bool {
        text.parse().is_ok_and(|it: Requirement| self.targets.drops_project(&it.name))
    }

    /// What `rocm[device]` requires, if one device package is left.
    fn pin_of_only(&self) -> Option<String> {
        let project = DistNames::built_in().device(self.targets.only()?);
        Some(format!("{project}=={}", self.to))
    }

    /// A line for each requirement, in sections for extras. Sections that lose all their lines go,
    /// except those of an extra without a marker, which setuptools always writes.
    fn requires(&self, text: &str) -> String {
        if self.targets.dropped.is_empty() {
            return self.pins(text);
        }
        let mut sections: Vec<(Option<&str>, Vec<&str>, bool)> = vec![(None, Vec::new(), false)];
        for line in text.lines() {
            let title = line.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
            if title.is_some() {
                sections.push((title, Vec::new(), false));
            } else if let Some((_, lines, has_lost)) = sections.last_mut() {
                let is_lost = self.drops_requirement(line);
                *has_lost |= is_lost;
                lines.extend((!is_lost).then_some(line));
            }
        }
        let is_kept = |(title, lines, has_lost): &(Option<&str>, Vec<&str>, bool)| {
            let Some(title) = title else { return true };
            let (extra, marker) = title.split_once(':').unwrap_or((title, ""));
            let is_empty = lines.iter().all(|line| line.is_empty());
            let is_emptied = *has_lost && is_empty && !marker.is_empty();
            !is_emptied && !self.targets.drops_extra(extra)
        };
        let pin = self.pin_of_only();
        let mut out = String::with_capacity(text.len());
        for (title, lines, _) in sections.into_iter().filter(is_kept) {
            out.extend(title.map(|title| format!("[{title}]\n")));
            let pin = pin.as_deref().filter(|_| title == Some("device"));
            out.extend(pin.into_iter().chain(lines).map(|line| format!("{line}\n")));
        }
        // Lines are separated from the next section by an empty one, and the last section is not.
        let out = out.trim_end_matches('\n');
        self.pins(&format!("{out}\n"))
    }

    /// `_dist_info.py`: the version, and the lists of targets. Those of one platform stay: they only
    /// choose markers.
    ///
    /// The last version that is assigned counts. TheRock appends it to a module that begins with
    /// `__version__ = "DEFAULT"`.
    fn python(&self, text: &str) -> Result<String> {
        let mut out = String::with_capacity(text.len());
        let last = text.lines().filter_map(assigned_version).next_back();
        let last = last.context("it has no line `__version__ = …`")?;
        ensure!(self.is_from(last), "its `__version__` is not {}", self.from);
        let kept = text.lines().filter_map(available);
        let first = kept.filter(|it| !self.targets.drops(it)).min();
        for line in text.split_inclusive('\n') {
            let default = line.strip_prefix("DEFAULT_TARGET_FAMILY = ");
            if let Some(version) = assigned_version(line)
                && self.is_from(version)
            {
                out.push_str(&line.replacen(version, &self.to.to_string(), 1));
            } else if let Some(old) = default.map(|it| it.trim_end().trim_matches(['\'', '"']))
                && self.targets.drops(old)
            {
                let first = first.context("no target is left")?;
                out.push_str(&line.replacen(old, first, 1));
            } else if !available(line.trim_end()).is_some_and(|it| self.targets.drops(it)) {
                out.push_str(line);
            }
        }
        Ok(out)
    }

    /// A document with one field `version`. It is changed as text, so that all other bytes stay, and
    /// compared as a document.
    fn json(&self, text: &str) -> Result<String> {
        let mut document: Value = serde_json::from_str(text)?;
        let version = document.get("version").and_then(Value::as_str);
        let version = version.context("a document without `version`")?;
        ensure!(self.is_from(version), "its `version` is not {}", self.from);
        let key = text.find("\"version\"").context("no `version`")?;
        let (head, tail) = text.split_at(key);
        let changed = head.to_owned() + &tail.replacen(version, &self.to.to_string(), 1);
        document["version"] = Value::String(self.to.to_string());
        let is_same = serde_json::from_str::<Value>(&changed)? == document;
        ensure!(is_same, "a document that names `version` more than once");
        Ok(changed)
    }
}

/// The name in a line `AVAILABLE_TARGET_FAMILIES.append('gfx942')`.
fn available(line: &str) -> Option<&str> {
    let value = line.strip_prefix("AVAILABLE_TARGET_FAMILIES.append(")?;
    Some(value.strip_suffix(')')?.trim_matches(['\'', '"']))
}

/// The characters of a version at the beginning of a text. The end of a sentence is none of them.
fn version_at(text: &str) -> &str {
    let is_of =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '!' | '-' | '_' | '*');
    let end = text.find(|c| !is_of(c)).unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

/// The name of the project that a specifier behind a text belongs to: `rocm` of `"rocm[devel]`.
fn name_before(text: &str) -> Option<DistName> {
    let text = text.trim_end_matches([' ', '(']);
    let text = match text.strip_suffix(']') {
        Some(extras) => extras.rsplit_once('[')?.0.trim_end(),
        None => text,
    };
    let name = text.rsplit(|c| !is_of_name(c)).next()?;
    name.parse().ok()
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

#[cfg(test)]
mod tests;
