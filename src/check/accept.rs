//! [`AcceptList`]: the file of `--accept`, a list of known findings. A check fails only for other
//! findings:
//!
//! ```toml
//! [[accept]]
//! rule = "RW405"
//! package = "rocm-sdk-core"
//! paths = ["_rocm_sdk_core/lib/*.so.1"]
//! says = "needs glibc 2.34"
//! reason = "TheRock#1234: the manylinux image is from before the change"
//! until = 2027-03-31
//! ```

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{
    check::{Finding, RULES, Rule, RulePattern},
    index::identity,
};
use rocwheel_base::{
    error::{Hint as _, No, Result, anyhow, ensure},
    glob::Glob,
};

/// The entries of a file, each of which accepts any number of findings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptList {
    #[serde(default)]
    accept: Vec<AcceptEntry>,
}

/// One entry: which findings it accepts, why, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptEntry {
    rule: RulePattern,
    /// The project or a glob for it; for a finding about a page, the path of the page. `None`
    /// matches everything.
    package: Option<String>,
    /// Globs for paths in the package. An empty list matches everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    paths: Vec<String>,
    /// A part of the text of the finding. A list that is written has the fact only, without the number of
    /// findings that were left out, which changes with the other packages.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    says: String,
    reason: String,
    /// The last day on which the entry is valid.
    until: toml::value::Datetime,
}

/// A finding, and why the list accepts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedFinding {
    #[serde(flatten)]
    pub finding: Finding,
    pub reason: String,
}

/// What an [`AcceptList`] did with the findings of a check.
#[derive(Debug)]
pub struct AcceptOutcome {
    pub accepted: Vec<AcceptedFinding>,
    /// The entries that accepted nothing, each with the reason.
    pub unused: Vec<String>,
}

impl AcceptList {
    /// The list as text, with the day if an entry may expire. Empty for an empty list.
    pub fn dated(&self, today: &str) -> Result<String> {
        if self.accept.is_empty() {
            return Ok(String::new());
        }
        Ok(format!("{today}\n{}", serde_json::to_string(&self.accept)?))
    }

    pub fn parse(text: &str) -> Result<Self> {
        let parse_toml = || -> Result<Self> {
            let list: Self = toml::from_str(text).map_err(|error| {
                // The message of the parser ends with an empty line.
                anyhow!("{}", error.to_string().trim_end())
            })?;
            for entry in &list.accept {
                ensure!(!entry.reason.trim().is_empty(), "{entry} has no `reason`");
                let is_day = entry.until.date.is_some() && entry.until.time.is_none();
                ensure!(is_day, "`until` of {entry} is not a date");
            }
            Ok(list)
        };
        parse_toml().hint("write a list with `rocwheel check --write-accept`, and edit it")
    }

    /// Moves the findings that the list accepts on this day out of `findings`.
    ///
    /// `shows_unused_entry` says whether the check of a rule was such that an entry which accepts nothing
    /// is superfluous. An entry for another rule is not reported as unused.
    pub fn apply(
        &self,
        findings: &mut Vec<Finding>,
        today: &str,
        shows_unused_entry: impl Fn(&Rule) -> bool,
    ) -> AcceptOutcome {
        let mut accepted = Vec::new();
        let mut unused = Vec::new();
        let mut is_used = vec![false; self.accept.len()];
        findings.retain(|finding| {
            let matching = self
                .accept
                .iter()
                .position(|entry| !entry.has_expired(today) && entry.matches(finding));
            let Some(index) = matching else {
                return true;
            };
            is_used[index] = true;
            accepted.push(AcceptedFinding {
                finding: finding.clone(),
                reason: self.accept[index].reason.clone(),
            });
            false
        });
        for (entry, _) in self.accept.iter().zip(is_used).filter(|(_, is_used)| !is_used) {
            if entry.has_expired(today) {
                unused.push(format!("{entry} was accepted until {}", entry.until));
            } else if RULES.iter().any(|rule| entry.rule.fits(rule) && shows_unused_entry(rule)) {
                unused.push(format!("{entry} matches nothing"));
            }
        }
        AcceptOutcome { accepted, unused }
    }

    /// A list that accepts all of these findings: the entries of this list that match an accepted finding, each
    /// with its own reason and day, and for the other `findings` a new entry, valid until `until`, for each rule,
    /// package and fact.
    pub fn renewed(
        mut self,
        accepted: &[AcceptedFinding],
        findings: &[Finding],
        until: &str,
    ) -> Result<String> {
        // An entry for findings that were not shown would be a promise about the unknown.
        if let Some(finding) = findings.iter().find(|it| it.counted.is_some()) {
            let rule = finding.rule.id;
            let package = package_of(finding).unwrap_or_default();
            let refusal =
                format!("`{package}` has too many findings of {rule} for a list: {}", finding.fact);
            return Err(anyhow!(No(refusal))).hint(format!(
                "build the package again; or write an entry by hand with `rule = \"{rule}\"` and `package = \"{package}\"`, \
                 and without `paths` and `says`, which accepts all of them"
            ));
        }
        self.accept.retain(|entry| accepted.iter().any(|it| entry.matches(&it.finding)));
        let mut groups: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for finding in findings {
            // An entry with paths does not match a finding about the whole package.
            let has_path = finding.member.is_some();
            let key = (finding.rule.id, package_of(finding), &finding.fact, has_path);
            let paths = groups.entry(key).or_default();
            paths.extend(finding.member.clone());
        }
        for ((id, package, fact, _), paths) in groups {
            self.accept.push(AcceptEntry {
                rule: id.parse()?,
                package,
                paths,
                says: fact.clone(),
                reason: "known when this list was written".to_owned(),
                until: until.parse()?,
            });
        }
        let list = toml::to_string_pretty(&self)?;
        Ok(format!("# Findings that are known: docs/checks.md says what each key means.\n\n{list}"))
    }
}

impl AcceptEntry {
    fn has_expired(&self, today: &str) -> bool {
        self.until.to_string().as_str() < today
    }

    fn matches(&self, finding: &Finding) -> bool {
        let package = package_of(finding);
        let is_in_package =
            |pattern: &String| package.as_ref().is_some_and(|name| matches(pattern, name));
        let is_at_path =
            |pattern: &String| finding.member.as_ref().is_some_and(|path| matches(pattern, path));
        self.rule.fits(finding.rule)
            && self.package.as_ref().is_none_or(is_in_package)
            // What was only counted may say anything, at any path.
            && (finding.counted.is_none() || (self.paths.is_empty() && self.says.is_empty()))
            && (self.paths.is_empty() || self.paths.iter().any(is_at_path))
            && finding.text().contains(&self.says)
    }
}

/// Whether a name or path is the pattern, or matches the pattern as a glob. A path may itself contain `*` or
/// `[`, and a list that was written for the path must match it.
fn matches(pattern: &str, name: &str) -> bool {
    pattern == name || Glob::new(pattern).matches(name)
}

/// ``the entry for RW405 of `rocm-sdk-core` ("needs glibc 2.34")``
impl fmt::Display for AcceptEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the entry for {}", self.rule)?;
        if let Some(package) = &self.package {
            write!(f, " of `{package}`")?;
        }
        if !self.says.is_empty() {
            write!(f, " ({:?})", self.says)?;
        }
        Ok(())
    }
}

/// The project of the package that a finding is about, or the path of the page.
fn package_of(finding: &Finding) -> Option<String> {
    let file = finding.file.as_ref()?;
    let project = identity(file).map(|(name, _)| name.normalized().to_owned());
    Some(project.unwrap_or_else(|| file.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::rule;
    use rocwheel_base::error::render;

    fn found() -> Vec<Finding> {
        let wheel = "rocm_sdk_core-7.13.0-py3-none-linux_x86_64.whl";
        let glibc = |path: &str| {
            let finding = Finding::new(rule::TOO_NEW_A_HOST, "it needs glibc 2.34");
            finding.in_file(wheel).at(path)
        };
        let page = Finding::new(rule::PAGES_DISAGREE, "it names \"no\" package");
        vec![
            glibc("lib/a[1].so"),
            glibc("lib/b.so"),
            page.in_file("simple/"),
            Finding::new(rule::MISSING_SELECTOR, "no `rocm` sdist"),
        ]
    }

    fn accepted(list: &str) -> (Vec<String>, Vec<String>) {
        let mut findings = found();
        let list = AcceptList::parse(list).unwrap();
        let known = list.apply(&mut findings, "2026-11-22", |rule| rule.id != "RW101");
        let left = findings.iter().map(ToString::to_string).collect();
        (left, known.unused)
    }

    #[test]
    fn a_list_that_was_written_accepts_what_was_found() {
        let text = AcceptList::default().renewed(&[], &found(), "2026-11-22").unwrap();
        insta::assert_snapshot!(text, @r#"
        # Findings that are known: docs/checks.md says what each key means.

        [[accept]]
        rule = "RW205"
        says = "no `rocm` sdist"
        reason = "known when this list was written"
        until = 2026-11-22

        [[accept]]
        rule = "RW405"
        package = "rocm-sdk-core"
        paths = [
            "lib/a[1].so",
            "lib/b.so",
        ]
        says = "it needs glibc 2.34"
        reason = "known when this list was written"
        until = 2026-11-22

        [[accept]]
        rule = "RW704"
        package = "simple/"
        says = 'it names "no" package'
        reason = "known when this list was written"
        until = 2026-11-22
        "#);
        assert_eq!(accepted(&text), (Vec::new(), Vec::new()));
        let list = AcceptList::parse(&text).unwrap();
        let known = list.apply(&mut found(), "2026-11-22", |_| true);
        assert_eq!(list.renewed(&known.accepted, &[], "2030-01-01").unwrap(), text);
    }

    #[test]
    fn a_list_accepts_findings_about_a_whole_package_beside_those_about_its_files() {
        let wheel = "rocm_sdk_core-7.13.0-py3-none-linux_x86_64.whl";
        let whole = Finding::new(rule::TOO_NEW_A_HOST, "it needs glibc 2.34").in_file(wheel);
        let mut findings = vec![whole.clone(), whole.at("lib/b.so")];
        let text = AcceptList::default().renewed(&[], &findings, "2026-11-22");
        let list = AcceptList::parse(&text.unwrap()).unwrap();
        list.apply(&mut findings, "2026-11-22", |_| true);
        assert_eq!(findings, []);
    }

    #[test]
    fn a_list_accepts_a_cause_with_any_number_of_consequences() {
        let consequence = Finding::new(rule::MISSING_LIBRARY, "needs `liba.so`");
        let mut cause = Finding::new(rule::MISSING_SELECTOR, "no `rocm` sdist");
        cause.consequences.push(consequence.clone());
        let text = AcceptList::default().renewed(&[], &[cause.clone()], "2026-11-22").unwrap();
        let list = AcceptList::parse(&text).unwrap();
        cause.consequences.push(consequence.at("lib/b.so"));
        assert_eq!(cause.text(), "no `rocm` sdist; left out 2 findings caused by it");
        // Older lists have the number.
        let entry = "[[accept]]\nrule = \"RW205\"\nsays = \"sdist; left out 2 findings caused by it\"\n\
            reason = \"a\"\nuntil = 2026-11-22\n";
        for list in [list, AcceptList::parse(entry).unwrap()] {
            let mut findings = vec![cause.clone()];
            list.apply(&mut findings, "2026-11-22", |_| true);
            assert_eq!(findings, []);
        }
    }

    #[test]
    fn entries_that_have_expired_or_match_nothing_are_reported() {
        let entry = |rest: &str, until: &str| {
            format!("[[accept]]\nrule = \"RW4\"\n{rest}\nreason = \"a\"\nuntil = {until}\n")
        };
        let list = [
            entry("paths = [\"lib/b.*\"]", "2026-11-22"),
            entry("package = \"rocm-sdk-*\"", "2026-11-21"),
            entry("package = \"rocm-profiler\"", "2027-01-01"),
            entry("says = \"glibc 2.35\"", "2027-01-01"),
            entry("", "2027-01-01").replace("RW4", "RW101"),
        ];
        let (left, unused) = accepted(&list.concat());
        insta::assert_snapshot!(left.join("\n"), @r#"
        error   RW405 too-new-a-host: `lib/a[1].so`: it needs glibc 2.34
        error   RW704 pages-disagree: it names "no" package
        error   RW205 missing-selector: no `rocm` sdist
        "#);
        insta::assert_snapshot!(unused.join("\n"), @r#"
        the entry for RW4 of `rocm-sdk-*` was accepted until 2026-11-21
        the entry for RW4 of `rocm-profiler` matches nothing
        the entry for RW4 ("glibc 2.35") matches nothing
        "#);
    }

    #[test]
    fn a_list_with_other_keys_rules_or_dates_is_refused() {
        let texts = [
            "[[accept]]\nrule = \"RW999\"\nreason = \"a\"\nuntil = 2027-01-01\n",
            "[[accept]]\nrule = \"RW405\"\nreason = \" \"\nuntil = 2027-01-01\n",
            "[[accept]]\nrule = \"RW405\"\nreason = \"a\"\nuntil = 12:00:00\n",
            "[[accept]]\nrule = \"RW405\"\npath = \"a\"\n",
            "[[ignore]]",
        ];
        let refused = texts.map(|text| render(&AcceptList::parse(text).unwrap_err()));
        insta::assert_snapshot!(refused.concat(), @r#"
        error: TOML parse error at line 2, column 8
          |
        2 | rule = "RW999"
          |        ^^^^^^^
        no rule is called that: "RW999"

        hint: write a list with `rocwheel check --write-accept`, and edit it
        error: the entry for RW405 has no `reason`

        hint: write a list with `rocwheel check --write-accept`, and edit it
        error: `until` of the entry for RW405 is not a date

        hint: write a list with `rocwheel check --write-accept`, and edit it
        error: TOML parse error at line 3, column 1
          |
        3 | path = "a"
          | ^^^^
        unknown field `path`, expected one of `rule`, `package`, `paths`, `says`, `reason`, `until`

        hint: write a list with `rocwheel check --write-accept`, and edit it
        error: TOML parse error at line 1, column 3
          |
        1 | [[ignore]]
          |   ^^^^^^
        unknown field `ignore`, expected `accept`

        hint: write a list with `rocwheel check --write-accept`, and edit it
        "#);
    }
}
