//! [`VersionTexts`]: what `promote.toml` says about the texts that name a version; and [`VersionChange`]: the
//! same texts under another version, as the build of the other version writes them.
//!
//! **Contract:** only whole versions of our own packages are replaced. All other bytes of a text stay.

use std::{collections::BTreeSet, sync::LazyLock};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    index::is_ours,
    policy::{DistNames, dist_info::assigned_version},
};
use rocwheel_base::{
    error::{Context as _, Result, ensure},
    glob::Glob,
    target::{Scope, Target},
    version::Version,
};
use rocwheel_wheel::{DistName, Headers, Requirement};

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
    /// METADATA and PKG-INFO: the header `Version`, and pins of other packages.
    Metadata,
    /// The `requires.txt` of setuptools: pins, in sections for extras.
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

    /// How a file names the version; `None` if the file is not edited.
    pub(super) fn form(&self, path: &str) -> Option<TextForm> {
        self.text.iter().find(|it| it.path.matches(path)).map(|it| it.form)
    }

    /// Whether a file is searched for the old version, which it must not name.
    pub(super) fn is_searched(&self, path: &str, len: u64) -> bool {
        let LeftoverSearch { longest, search, stay } = &self.leftovers;
        let is_among = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(path));
        len <= *longest && is_among(search) && !is_among(stay)
    }
}

/// What changes in all packages of a set.
#[derive(Clone, Debug)]
pub(super) struct VersionChange {
    pub from: Version,
    pub to: Version,
    pub targets: TargetChange,
}

/// Which device packages stay. If `dropped` is empty, all of them stay, and `kept` says nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct TargetChange {
    pub kept: BTreeSet<Target>,
    pub dropped: BTreeSet<Target>,
}

impl TargetChange {
    fn drops_project(&self, name: &DistName) -> bool {
        let target = DistNames::built_in().device_target(name);
        target.is_some_and(|target| self.dropped.contains(&target))
    }

    /// Whether an extra selects a dropped device package: `device-gfx942`.
    fn drops_extra(&self, extra: &str) -> bool {
        let target: Option<Target> =
            extra.strip_prefix("device-").and_then(|name| name.parse().ok());
        target.is_some_and(|target| self.dropped.contains(&target))
    }

    /// Whether a scope is a dropped target, or a variant of one.
    fn drops_scope(&self, scope: &str) -> bool {
        match scope.parse().map(|scope: Scope| scope.packaged()) {
            Ok(Scope::Target(target)) => self.dropped.contains(&target),
            _ => false,
        }
    }

    /// The target of the only device package that stays, if others are dropped. `rocm[device]` then selects
    /// this package.
    fn only_target(&self) -> Option<&Target> {
        let is_alone = !self.dropped.is_empty() && self.kept.len() == 1;
        self.kept.first().filter(|_| is_alone)
    }
}

impl VersionChange {
    /// Whether any package changes.
    pub(super) fn is_needed(&self) -> bool {
        self.from != self.to || !self.targets.dropped.is_empty()
    }

    /// Changes a text as its form demands.
    pub(super) fn apply(&self, form: TextForm, text: &str) -> Result<String> {
        match form {
            TextForm::Metadata => self.change_metadata(text),
            TextForm::Requires => Ok(self.change_requires(text)),
            TextForm::Pins => Ok(self.change_pins(text)),
            TextForm::Python => self.change_python(text),
            TextForm::Json => self.change_json(text),
        }
    }

    /// Whether a text still names the old version. A final release such as `7.14.0` is also the version of
    /// libraries and of CMake's packages, so it is not searched for.
    pub(super) fn is_left_in(&self, text: &[u8]) -> bool {
        if self.from.is_final() {
            return false;
        }
        let from = self.from.to_string();
        memchr::memmem::find_iter(text, from.as_bytes()).any(|start| {
            let before = start.checked_sub(1).and_then(|at| text.get(at));
            let after = text.get(start + from.len());
            !before.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.')
                && !after.is_some_and(u8::is_ascii_alphanumeric)
        })
    }

    /// Replaces the version in each pin of a package of ours: `rocm-sdk-core==7.14.0rc1`. The package need
    /// not be in this set: `rocm` also names the device packages of the other platform.
    pub(super) fn change_pins(&self, text: &str) -> String {
        let to = self.to.to_string();
        let mut out = String::with_capacity(text.len());
        let mut copied_to = 0;
        for (at, operator) in text.match_indices("==") {
            let before = &text[..at];
            let after = &text[at + operator.len()..];
            let spaces = after.len() - after.trim_start_matches(' ').len();
            let version = version_at_start(&after[spaces..]);
            let is_pin_of_ours = || name_at_end(before).is_some_and(|name| is_ours(&name));
            if at >= copied_to && self.is_from(version) && is_pin_of_ours() {
                let start = at + operator.len() + spaces;
                out.push_str(&text[copied_to..start]);
                out.push_str(&to);
                copied_to = start + version.len();
            }
        }
        out.push_str(&text[copied_to..]);
        out
    }

    /// Whether a text is the old version, in any spelling.
    fn is_from(&self, text: &str) -> bool {
        text.parse::<Version>().is_ok_and(|version| version == self.from)
    }

    fn change_metadata(&self, text: &str) -> Result<String> {
        let mut headers: Headers = text.parse()?;
        let versions: Vec<&str> = headers.all("Version").collect();
        ensure!(
            matches!(versions[..], [version] if self.is_from(version)),
            "its `Version` is not {}",
            self.from
        );
        headers.set("Version", &self.to.to_string());
        headers.remove("Requires-Dist", |line| self.drops_requirement(line));
        headers.remove("Provides-Extra", |extra| self.targets.drops_extra(extra));
        let has_device_extra = headers.all("Provides-Extra").any(|extra| extra == "device");
        if has_device_extra && let Some(pin) = self.pin_of_only_target() {
            headers.insert_behind(
                |name, value| name == "Provides-Extra" && value == "device",
                [("Requires-Dist", format!("{pin}; extra == \"device\""))],
            );
        }
        Ok(self.change_pins(&headers.to_string()))
    }

    fn drops_requirement(&self, line: &str) -> bool {
        line.parse()
            .is_ok_and(|requirement: Requirement| self.targets.drops_project(&requirement.name))
    }

    /// What `rocm[device]` requires, if one device package is left.
    fn pin_of_only_target(&self) -> Option<String> {
        let project = DistNames::built_in().device(self.targets.only_target()?);
        Some(format!("{project}=={}", self.to))
    }

    /// Drops requirements from a `requires.txt`, in which each section has the requirements of an extra.
    fn change_requires(&self, text: &str) -> String {
        if self.targets.dropped.is_empty() {
            return self.change_pins(text);
        }
        let mut sections = vec![RequiresSection::default()];
        for line in text.lines() {
            let title = line.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
            if title.is_some() {
                sections.push(RequiresSection { title, ..RequiresSection::default() });
            } else if let Some(section) = sections.last_mut() {
                if self.drops_requirement(line) {
                    section.has_lost_lines = true;
                } else {
                    section.lines.push(line);
                }
            }
        }
        let pin = self.pin_of_only_target();
        let mut out = String::with_capacity(text.len());
        for section in sections.iter().filter(|section| !self.drops_section(section)) {
            if let Some(title) = section.title {
                out.extend(["[", title, "]\n"]);
            }
            if section.title == Some("device")
                && let Some(pin) = &pin
            {
                out.extend([pin, "\n"]);
            }
            for line in &section.lines {
                out.extend([line, "\n"]);
            }
        }
        // An empty line separates a section from the next one. If the last section was dropped, the empty
        // line before it is left.
        self.change_pins(&format!("{}\n", out.trim_end_matches('\n')))
    }

    /// Whether a section goes: the section of a dropped extra, or a section with a marker that has lost all
    /// its lines. setuptools writes an empty section only for an extra without a marker.
    fn drops_section(&self, section: &RequiresSection<'_>) -> bool {
        let Some(title) = section.title else {
            return false;
        };
        let (extra, marker) = title.split_once(':').unwrap_or((title, ""));
        let is_empty = section.lines.iter().all(|line| line.is_empty());
        let is_emptied = section.has_lost_lines && is_empty && !marker.is_empty();
        is_emptied || self.targets.drops_extra(extra)
    }

    /// Changes `_dist_info.py`: the version, the list of available targets, and the default target. The lists
    /// of the targets of one platform stay: they only choose markers.
    fn change_python(&self, text: &str) -> Result<String> {
        // The last version that is assigned counts: TheRock appends it to a module that begins with
        // `__version__ = "DEFAULT"`.
        let version = text
            .lines()
            .filter_map(assigned_version)
            .next_back()
            .context("it has no line `__version__ = …`")?;
        ensure!(self.is_from(version), "its `__version__` is not {}", self.from);
        let first_kept = text
            .lines()
            .filter_map(available_target)
            .filter(|target| !self.targets.drops_scope(target))
            .min();
        let mut out = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            if let Some(version) = assigned_version(line)
                && self.is_from(version)
            {
                out.push_str(&line.replacen(version, &self.to.to_string(), 1));
            } else if let Some(default) = default_target(line)
                && self.targets.drops_scope(default)
            {
                let first = first_kept.context("no target is left")?;
                out.push_str(&line.replacen(default, first, 1));
            } else if let Some(target) = available_target(line.trim_end())
                && self.targets.drops_scope(target)
            {
                // The line goes.
            } else {
                out.push_str(line);
            }
        }
        Ok(out)
    }

    /// Changes the field `version` of a document. The text is edited, so that all other bytes stay; then it is
    /// compared with the document that it should be, because the field may not be where the text has its
    /// name first.
    fn change_json(&self, text: &str) -> Result<String> {
        let mut document: Value = serde_json::from_str(text)?;
        let version = document
            .get("version")
            .and_then(Value::as_str)
            .context("a document without `version`")?;
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

/// A section of a `requires.txt`: `[device-gfx942:sys_platform == "linux"]` and its lines. The first section
/// has no title.
#[derive(Debug, Default)]
struct RequiresSection<'a> {
    title: Option<&'a str>,
    /// The lines that stay.
    lines: Vec<&'a str>,
    has_lost_lines: bool,
}

/// The name in a line `AVAILABLE_TARGET_FAMILIES.append('gfx942')`.
fn available_target(line: &str) -> Option<&str> {
    let value = line.strip_prefix("AVAILABLE_TARGET_FAMILIES.append(")?;
    Some(value.strip_suffix(')')?.trim_matches(['\'', '"']))
}

/// The name in a line `DEFAULT_TARGET_FAMILY = 'gfx942'`.
fn default_target(line: &str) -> Option<&str> {
    let value = line.strip_prefix("DEFAULT_TARGET_FAMILY = ")?;
    Some(value.trim_end().trim_matches(['\'', '"']))
}

/// The characters of a version at the beginning of a text. A full stop at their end ends a sentence.
fn version_at_start(text: &str) -> &str {
    let is_of_version =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '!' | '-' | '_' | '*');
    let end = text.find(|c| !is_of_version(c)).unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

/// The name of a project at the end of a text, which may have extras: `rocm` in `"rocm[devel] (`.
fn name_at_end(text: &str) -> Option<DistName> {
    let with_extras = text.trim_end_matches([' ', '(']);
    let without_extras = match with_extras.strip_suffix(']') {
        Some(extras) => extras.rsplit_once('[')?.0.trim_end(),
        None => with_extras,
    };
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = without_extras.rsplit(|c| !is_of_name(c)).next()?;
    name.parse().ok()
}

#[cfg(test)]
mod tests;
