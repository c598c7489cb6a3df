//! [`Rule`]: the list of all rules, each with an id that never changes; [`RuleSelection`]: which of
//! them are checked (`--select`, `--ignore`); and [`Finding`]: a rule that is broken.
//! `docs/checks.md` explains them, and says how to fix what they find.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::LazyLock};

use derive_more::Display;
use itertools::Itertools as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeStruct as _};

use rocwheel_base::{
    error::{Invalid, as_text},
    quantity::{is_hidden, many},
};
use rocwheel_wheel::DistName;

/// The page with a section about each rule.
const PAGE: &str = include_str!("../../docs/checks.md");
/// The sections of the page by the id of their rule. The page is split once, because a document takes a
/// section for each finding, and may have 100,000 findings.
static SECTIONS: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    PAGE.split("\n### ")
        .filter_map(|section| {
            let (heading, body) = section.split_once('\n')?;
            let (id, _) = heading.split_once(' ')?;
            // The last section of a group ends where the heading of the next group begins.
            Some((id, body.split("\n#").next()?.trim()))
        })
        .collect()
});

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// It works for most users, or is a matter of policy.
    Warning,
    /// The set does not work for users who install it.
    Error,
}

/// A kind of defect of a package set.
#[derive(Debug, PartialEq, Eq, Display)]
#[display("{id} {name}")]
pub struct Rule {
    /// `RW202`, `RWF01`. The character after `RW` is the subject.
    pub id: &'static str,
    /// `missing-device-wheel`
    pub name: &'static str,
    pub severity: Severity,
    /// Whether the rule needs the whole set.
    ///
    /// A part is what one of several jobs builds and uploads. Packages that a part requires, targets of
    /// its links and libraries for its code may be in other parts, so that a part may break such a
    /// rule although the set is correct.
    pub needs_whole_set: bool,
    /// Whether the rule says that a file is damaged, replaced or hostile. Users must replace the file:
    /// it does not help them to accept the finding, or to try again.
    pub is_damage: bool,
    /// Whether a package seems to break the rule when another package is missing.
    pub is_consequence: bool,
}

/// Declares a constant for each rule, and the list of all rules.
macro_rules! rules {
    ($($constant:ident = $severity:ident $id:literal $name:literal $($is:ident)*;)*) => {
        $(pub const $constant: &Rule = &Rule::new($id, $name, Severity::$severity)$(.$is())*;)*

        /// Every rule, sorted by id.
        pub const RULES: &[&Rule] = &[$($constant),*];
    };
}

rules! {
    UNREADABLE_PACKAGE = Error "RW101" "unreadable-package" damage;
    DAMAGED_MEMBER = Error "RW102" "damaged-member" damage;
    INCONSISTENT_ZIP = Error "RW103" "inconsistent-zip" damage;
    BAD_PATH = Error "RW105" "bad-path" damage;
    NOT_A_FILE = Error "RW106" "not-a-file" damage;
    RECORD_DISAGREES = Error "RW107" "record-disagrees" damage;
    METADATA_DISAGREES = Error "RW111" "metadata-disagrees";
    CONFLICTING_PATH = Error "RW113" "conflicting-path";
    SHARED_PATH = Warning "RW114" "shared-path";
    CASE_CLASH = Warning "RW115" "case-clash";
    LONG_PATH = Error "RW116" "long-path";
    BROKEN_SDIST = Error "RW119" "broken-sdist";
    FOREIGN_FILE = Error "RW120" "foreign-file" damage;
    NOT_EXECUTABLE = Error "RW121" "not-executable";
    REQUIRES_PYTHON = Error "RW122" "requires-python";
    DEAD_SCRIPT = Warning "RW123" "dead-script";
    DAMAGED_FOREIGN_PACKAGE = Error "RW124" "damaged-foreign-package" damage;
    TAG_AND_PYTHON_DISAGREE = Error "RW125" "tag-and-python-disagree";
    UNKNOWN_LICENSE = Warning "RW126" "unknown-license";
    ODD_FOREIGN_PACKAGE = Warning "RW127" "odd-foreign-package";
    BAD_VARIANT = Error "RW128" "bad-variant";
    VARIANT_MARKER = Error "RW129" "variant-marker";
    UNREAD_VARIANT_MARKER = Warning "RW130" "unread-variant-marker";

    UNRESOLVED_REQUIREMENT = Error "RW201" "unresolved-requirement" of_whole_set;
    MISSING_DEVICE_WHEEL = Error "RW202" "missing-device-wheel" of_whole_set;
    UNADVERTISED_DEVICE_WHEEL = Error "RW203" "unadvertised-device-wheel" of_whole_set;
    VERSIONS_DISAGREE = Error "RW204" "versions-disagree";
    MISSING_SELECTOR = Error "RW205" "missing-selector" of_whole_set;
    UNKNOWN_TARGET = Error "RW206" "unknown-target";
    DUPLICATE_PACKAGE = Error "RW207" "duplicate-package";
    FOREIGN_REQUIREMENT = Warning "RW209" "foreign-requirement";
    LOOSE_REQUIREMENT = Error "RW212" "loose-requirement";
    UNKEPT_PROMISE = Error "RW213" "unkept-promise";
    OTHER_BUILD = Error "RW214" "other-build";
    OTHER_RUN = Error "RW215" "other-run";
    UNSHIPPED_ARTIFACT = Warning "RW216" "unshipped-artifact";
    VARIANTS_DISAGREE = Error "RW217" "variants-disagree";
    STATIC_GPU = Error "RW218" "static-gpu";
    GREEDY_NULL_VARIANT = Error "RW219" "greedy-null-variant";
    VARIANTS_ONLY = Warning "RW220" "variants-only" of_whole_set;

    FOREIGN_DEVICE_FILE = Error "RW301" "foreign-device-file";
    DEVEL_LINKS_DISAGREE = Error "RW302" "devel-links-disagree" of_whole_set;
    UNCOVERED_LIBRARY = Error "RW303" "uncovered-library" of_whole_set;
    REQUIRED_TARGET = Error "RW304" "required-target" of_whole_set;
    EMPTY_DEVICE_WHEEL = Error "RW305" "empty-device-wheel";
    EMPTY_VARIANT = Warning "RW306" "empty-variant";
    DEVICE_FILE_IN_HOST_WHEEL = Warning "RW307" "device-file-in-host-wheel";
    BROKEN_KPACK_REFERENCE = Error "RW308" "broken-kpack-reference";
    UNRESOLVED_KPACK = Error "RW309" "unresolved-kpack" of_whole_set consequence;
    MISSING_KERNELS = Error "RW310" "missing-kernels" of_whole_set;
    UNREADABLE_DEVICE_CODE = Error "RW311" "unreadable-device-code";
    UNASKED_ARCHIVE = Warning "RW312" "unasked-archive" of_whole_set consequence;
    ONLY_WITH_XNACK = Error "RW314" "only-with-xnack";
    LOST_DEVICE_CODE = Error "RW315" "lost-device-code";
    UNCOVERED_IN_FAMILY = Warning "RW316" "uncovered-in-family" of_whole_set;
    MISSING_IN_GROUP = Error "RW317" "missing-in-group" of_whole_set;
    NOT_OF_GROUP = Warning "RW318" "not-of-group";
    UNREAD_BY_HRX = Warning "RW319" "unread-by-hrx";

    MISSING_LIBRARY = Error "RW401" "missing-library" of_whole_set consequence;
    LUCKY_LIBRARY = Warning "RW402" "lucky-library" of_whole_set consequence;
    RUNPATH = Warning "RW403" "runpath";
    SONAME_WITHOUT_FILE = Error "RW404" "soname-without-file" of_whole_set consequence;
    TOO_NEW_A_HOST = Error "RW405" "too-new-a-host";
    BROKEN_ELF = Error "RW406" "broken-elf";
    DANGLING_LAUNCHER = Error "RW407" "dangling-launcher" of_whole_set consequence;
    FOREIGN_MACHINE = Warning "RW408" "foreign-machine";
    UNEXAMINED_ELF = Warning "RW409" "unexamined-elf";

    BROKEN_DEVEL = Error "RW501" "broken-devel";
    DANGLING_DEVEL_LINK = Error "RW504" "dangling-devel-link" of_whole_set consequence;
    DANGLING_TREE_LINK = Warning "RW505" "dangling-tree-link" consequence;
    MISSING_CMAKE_PACKAGE = Error "RW507" "missing-cmake-package" of_whole_set;

    ABSOLUTE_RUN_PATH = Warning "RW601" "absolute-run-path";
    OPEN_RUN_PATH = Error "RW602" "open-run-path";
    SETUID_MEMBER = Error "RW603" "setuid-member" damage;
    WORLD_WRITABLE = Error "RW604" "world-writable";
    DEBUG_LEFTOVER = Warning "RW605" "debug-leftover";

    PROMISED_FILE_MISSING = Error "RW701" "promised-file-missing";
    BROKEN_PROMISE = Error "RW702" "broken-promise" damage;
    WRONG_SIDECAR = Error "RW703" "wrong-sidecar" damage;
    PAGES_DISAGREE = Error "RW704" "pages-disagree";
    UNLISTED_PACKAGE = Warning "RW705" "unlisted-package";
    UNREADABLE_PAGE = Error "RW706" "unreadable-page";
    VARIANTS_JSON_DISAGREES = Error "RW707" "variants-json-disagrees";

    PACKAGE_GONE = Error "RW801" "package-gone";
    FILES_GONE = Warning "RW803" "files-gone";
    PACKAGE_GROWN = Warning "RW804" "package-grown";

    UNTIED_LIBRARY = Error "RWF01" "untied-library";
    UNREQUIRED_SET = Error "RWF02" "unrequired-set";
    OTHER_SET = Error "RWF03" "other-set";
    UNHOOKED_INIT = Error "RWF04" "unhooked-init";
    UNKNOWN_PRELOAD = Error "RWF05" "unknown-preload";
    DEAD_RUN_PATH = Warning "RWF06" "dead-run-path";
    GRAFTED_LIBRARY = Error "RWF07" "grafted-library";
    TAG_TOO_OLD = Error "RWF08" "tag-too-old";
    UNPINNED_NEIGHBOUR = Warning "RWF09" "unpinned-neighbour";
    DEAD_EXTRA = Warning "RWF10" "dead-extra";
    OTHER_ROCM = Warning "RWF11" "other-rocm";
    RUN_TIME_NAME = Warning "RWF12" "run-time-name";
    FAT_FRAMEWORK = Warning "RWF13" "fat-framework";
    SORTS_BELOW = Warning "RWF14" "sorts-below";
    TWO_SITES = Warning "RWF16" "two-sites";
    NOT_FOR_SET = Error "RWF17" "not-for-set";
}

impl Rule {
    const fn new(id: &'static str, name: &'static str, severity: Severity) -> Self {
        Self { id, name, severity, needs_whole_set: false, is_damage: false, is_consequence: false }
    }

    const fn of_whole_set(mut self) -> Self {
        self.needs_whole_set = true;
        self
    }

    const fn damage(mut self) -> Self {
        self.is_damage = true;
        self
    }

    const fn consequence(mut self) -> Self {
        self.is_consequence = true;
        self
    }

    /// The character of the subject: `7` is for published pages, `F` for frameworks.
    pub fn subject(&self) -> char {
        self.id.chars().nth(2).unwrap_or_default()
    }

    /// The section about the rule, without its heading.
    pub fn explanation(&self) -> &'static str {
        SECTIONS.get(self.id).copied().unwrap_or_default()
    }

    /// How to fix what the rule finds: the end of the section.
    pub fn fix(&self) -> &'static str {
        let fix = self.explanation().rsplit_once("Fix: ");
        fix.map_or("", |(_, fix)| fix.trim_end_matches('.'))
    }
}

/// Reads the id of a rule.
impl<'de> Deserialize<'de> for &'static Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        let rule = RULES.iter().copied().find(|rule| rule.id == id);
        rule.ok_or_else(|| {
            de::Error::custom(format!("a rule that this version does not have: {id:?}"))
        })
    }
}

/// Matches rules by id, beginning of the id, or name: `RW202`, `RW2`, `missing-device-wheel`.
#[derive(Clone, Debug, PartialEq, Eq, Display)]
pub struct RulePattern(String);

/// The selected rules (all if `select` is empty) without the ignored ones.
#[derive(Clone, Debug, Default)]
pub struct RuleSelection {
    /// If there are some, only these are applied.
    pub select: Vec<RulePattern>,
    pub ignore: Vec<RulePattern>,
}

impl RuleSelection {
    pub fn has(&self, rule: &Rule) -> bool {
        let named = |patterns: &[RulePattern]| patterns.iter().any(|pattern| pattern.fits(rule));
        (self.select.is_empty() || named(&self.select)) && !named(&self.ignore)
    }
}

impl RulePattern {
    pub fn fits(&self, rule: &Rule) -> bool {
        rule.id.starts_with(&self.0) || rule.name == self.0
    }
}

impl FromStr for RulePattern {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let pattern = Self(text.to_owned());
        // `R` and the empty text would match every id: such a pattern is a mistake.
        let refuse = |problem| Err(Invalid::new(problem, text));
        match RULES.iter().filter(|rule| pattern.fits(rule)).count() {
            0 => refuse("no rule is called that"),
            count if count < RULES.len() => Ok(pattern),
            _ => refuse("every rule begins like that; write `RW4` for a group of them"),
        }
    }
}

as_text!(RulePattern);

/// One defect: the rule, the place, and what was seen there.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "WrittenFinding")]
pub struct Finding {
    pub rule: &'static Rule,
    /// The package. `None` for a defect of the whole set.
    pub file: Option<String>,
    /// A path in the package.
    pub member: Option<String>,
    /// What was seen, as a fragment of a sentence.
    pub fact: String,
    /// The project of a package that is missing or unreadable, if the finding says that. The report
    /// leaves out the findings that only follow from it. Empty if the name of the package is invalid.
    pub(super) lacks: Option<String>,
    /// The findings that the report leaves out, because they only follow from this one. Groups of a set that
    /// share packages may each have the same.
    pub(super) consequences: Vec<Finding>,
    /// If it stands for further findings of its rule in its package, which are only counted: how many.
    pub counted: Option<usize>,
}

/// The most findings of one rule that are kept for one package. A hostile wheel has one for each of its members,
/// and as many members as an archive may have.
const MOST_KEPT: usize = 10_000;

/// The key by which findings are sorted: package, path, rule, fact.
pub(super) type FindingOrder<'a> = (Option<&'a str>, Option<&'a str>, &'static str, &'a str);

/// A path in a package, which a finding is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackagePath<'a> {
    /// The file name of the package, with the directory of its family if it has one.
    pub(super) package: &'a str,
    pub(super) path: &'a str,
}

impl<'a> PackagePath<'a> {
    /// Packages and their members stand for their names, so that a rule writes
    /// `PackagePath::new(wheel, member)`.
    pub(super) fn new(
        package: &'a (impl AsRef<str> + ?Sized),
        path: &'a (impl AsRef<str> + ?Sized),
    ) -> Self {
        Self { package: package.as_ref(), path: path.as_ref() }
    }
}

/// Collects findings in the order in which the rules report them. The first [`MOST_KEPT`] of a rule and a package
/// are kept, and one more finding has the number of the others.
#[derive(Debug, Default)]
pub(super) struct Findings {
    kept: Vec<Finding>,
    /// How many findings a rule has, by its id and by the file of the package.
    counts: BTreeMap<&'static str, BTreeMap<String, RuleCount>>,
}

/// The findings of one rule in one package.
#[derive(Debug)]
struct RuleCount {
    rule: &'static Rule,
    kept: usize,
    /// How many more there are.
    counted: usize,
}

impl Findings {
    fn push(&mut self, finding: Finding) {
        let file = finding.file.as_deref().unwrap_or_default();
        let counts = self.counts.entry(finding.rule.id).or_default();
        if !counts.contains_key(file) {
            counts.insert(file.to_owned(), RuleCount { rule: finding.rule, kept: 0, counted: 0 });
        }
        let Some(known) = counts.get_mut(file) else { return };
        // A finding that stands for others was made by another collection, and is made again at the end.
        if finding.counted.is_none() && known.kept < MOST_KEPT {
            known.kept += 1;
            self.kept.push(finding);
        } else {
            known.counted = known.counted.saturating_add(finding.count());
        }
    }

    /// Adds a finding about the whole set.
    pub(super) fn of_set(&mut self, rule: &'static Rule, fact: impl Into<String>) {
        self.push(Finding::new(rule, fact));
    }

    /// Adds a finding about a package.
    pub(super) fn of(&mut self, rule: &'static Rule, file: &str, fact: impl Into<String>) {
        self.push(Finding::new(rule, fact).in_file(file));
    }

    /// Adds a finding that may be the cause of other findings: `project` cannot be read, or is missing.
    pub(super) fn cause(
        &mut self,
        rule: &'static Rule,
        file: &str,
        project: Option<&DistName>,
        fact: impl Into<String>,
    ) {
        let lacks = project.map_or(String::new(), |it| it.normalized().to_owned());
        self.push(Finding { lacks: Some(lacks), ..Finding::new(rule, fact).in_file(file) });
    }

    /// Adds a finding about a package and a path in it.
    pub(super) fn at(
        &mut self,
        rule: &'static Rule,
        place: PackagePath<'_>,
        fact: impl Into<String>,
    ) {
        self.push(Finding::new(rule, fact).in_file(place.package).at(place.path));
    }

    /// Adds several findings about one path.
    pub(super) fn at_each(
        &mut self,
        rule: &'static Rule,
        place: PackagePath<'_>,
        facts: impl IntoIterator<Item = impl Into<String>>,
    ) {
        for fact in facts {
            self.at(rule, place, fact);
        }
    }

    pub(super) fn extend(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            self.push(finding);
        }
    }

    pub(super) fn into_vec(self) -> Vec<Finding> {
        let mut findings = self.kept;
        for (file, RuleCount { rule, counted: more, .. }) in self.counts.into_values().flatten() {
            if more > 0 {
                let fact = format!("{more} more findings of this rule");
                let finding = Finding { counted: Some(more), ..Finding::new(rule, fact) };
                findings.push(if file.is_empty() { finding } else { finding.in_file(file) });
            }
        }
        findings
    }
}

impl Finding {
    /// A finding about the whole set.
    pub fn new(rule: &'static Rule, fact: impl Into<String>) -> Self {
        Self {
            rule,
            file: None,
            member: None,
            fact: one_line(&fact.into()),
            lacks: None,
            consequences: Vec::new(),
            counted: None,
        }
    }

    #[must_use]
    pub fn in_file(mut self, file: impl AsRef<str>) -> Self {
        self.file = Some(one_line(file.as_ref()));
        self
    }

    #[must_use]
    pub fn at(mut self, member: impl AsRef<str>) -> Self {
        self.member = Some(one_line(member.as_ref()));
        self
    }

    pub(super) fn order(&self) -> FindingOrder<'_> {
        (self.file.as_deref(), self.member.as_deref(), self.rule.id, &self.fact)
    }

    /// How many findings it stands for.
    pub fn count(&self) -> usize {
        self.counted.unwrap_or(1)
    }

    /// How many findings these stand for. The numbers may come from a document, and be false.
    pub fn total<'a>(findings: impl IntoIterator<Item = &'a Self>) -> usize {
        findings.into_iter().map(Self::count).fold(0, usize::saturating_add)
    }

    /// The fact, and the number of findings that were left out because they only follow from this one.
    pub fn text(&self) -> String {
        match Self::total(self.consequences.iter().unique_by(|it| it.order())) {
            0 => self.fact.clone(),
            count => format!("{}; left out {} caused by it", self.fact, many(count, "finding")),
        }
    }
}

/// Replaces control characters. Names come from packages and may contain anything: a line break
/// could fake a line of our output, and bidirectional control characters could display another
/// name.
pub(super) fn one_line(text: &str) -> String {
    text.replace(is_hidden, "\u{fffd}")
}

/// `` `a#0`, `a#1` and 3 more ``: the first names, up to `most`.
pub(crate) fn some(names: impl IntoIterator<Item = impl fmt::Display>, most: usize) -> String {
    let mut remaining = names.into_iter();
    let first = remaining.by_ref().take(most).join("`, `");
    match remaining.count() {
        0 => format!("`{first}`"),
        count => format!("`{first}` and {count} more"),
    }
}

/// Shows the finding without the file name, because findings are listed below it.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<7} {}: ", self.rule.severity, self.rule)?;
        if let Some(member) = &self.member {
            write!(f, "`{member}`: ")?;
        }
        f.write_str(&self.text())
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Finding", 8)?;
        out.serialize_field("id", self.rule.id)?;
        out.serialize_field("name", self.rule.name)?;
        out.serialize_field("severity", &self.rule.severity)?;
        out.serialize_field("file", &self.file)?;
        out.serialize_field("member", &self.member)?;
        out.serialize_field("fact", &self.text())?;
        out.serialize_field("way-out", self.rule.fix())?;
        match self.counted {
            Some(count) => out.serialize_field("counted", &count)?,
            None => out.skip_field("counted")?,
        }
        out.end()
    }
}

/// A finding in a document, whose texts may contain anything.
#[derive(Deserialize)]
struct WrittenFinding {
    #[serde(rename = "id")]
    rule: &'static Rule,
    file: Option<String>,
    member: Option<String>,
    fact: String,
    counted: Option<usize>,
}

impl From<WrittenFinding> for Finding {
    fn from(written: WrittenFinding) -> Self {
        Self {
            file: written.file.as_deref().map(one_line),
            member: written.member.as_deref().map(one_line),
            counted: written.counted,
            ..Self::new(written.rule, written.fact)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_ascend_and_names_are_unique() {
        assert!(RULES.windows(2).all(|pair| pair[0].id < pair[1].id));
        let names: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
    }

    #[test]
    fn every_rule_is_explained_with_its_fix_and_no_other_is() {
        let headings = PAGE.lines().filter_map(|line| line.strip_prefix("### "));
        let rules = RULES.iter();
        let rules = rules.map(|rule| format!("{rule} ({})", rule.severity));
        assert_eq!(headings.collect::<Vec<_>>(), rules.collect::<Vec<_>>());
        for rule in RULES {
            let fix = rule.fix();
            assert!(fix.starts_with(char::is_lowercase), "{rule}");
            assert!(!fix.contains('\n') && !fix.ends_with('.'), "{rule}");
        }
        insta::assert_snapshot!(MISSING_SELECTOR.explanation(), @"
        The set has no `rocm` sdist, so its extras cannot be installed.

        For example: only some of the packages were copied.

        Fix: add the `rocm` sdist to the set.
        ");
        assert_eq!(MISSING_SELECTOR.fix(), "add the `rocm` sdist to the set");
    }

    fn selection(select: &[&str], ignore: &[&str]) -> RuleSelection {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        RuleSelection { select: parse(select), ignore: parse(ignore) }
    }

    #[test]
    fn rules_are_chosen_by_id_by_subject_and_by_name() {
        assert!(selection(&[], &[]).has(RUNPATH));
        assert!(selection(&["RW4"], &[]).has(RUNPATH));
        assert!(!selection(&["RW2"], &[]).has(RUNPATH));
        assert!(!selection(&["RW4"], &["runpath"]).has(RUNPATH));
        assert!(!selection(&[], &["RW403"]).has(RUNPATH));
    }

    #[test]
    fn a_name_of_no_rule_is_refused_in_words() {
        for text in ["", "R", "RW", "RW999", "rw101", "runpat"] {
            assert!(text.parse::<RulePattern>().is_err(), "{text}");
        }
        let error = "RW999".parse::<RulePattern>().unwrap_err();
        insta::assert_snapshot!(error, @r#"no rule is called that: "RW999""#);
        let error = "RW".parse::<RulePattern>().unwrap_err();
        insta::assert_snapshot!(error, @r#"every rule begins like that; write `RW4` for a group of them: "RW""#);
    }

    #[test]
    fn a_finding_that_stands_for_others_counts_for_them_in_another_collection() {
        let of_many = |count: usize| {
            let mut findings = Findings::default();
            for _ in 0..count {
                findings.of(BAD_PATH, "a.whl", "a path");
            }
            findings.into_vec()
        };
        let mut findings = Findings::default();
        findings.extend(of_many(MOST_KEPT + 5));
        findings.extend(of_many(7));
        let all = findings.into_vec();
        assert_eq!(Finding::total(&all), MOST_KEPT + 12);
        assert_eq!(all.len(), MOST_KEPT + 1);
        insta::assert_snapshot!(all.last().unwrap(), @"error   RW105 bad-path: 12 more findings of this rule");
        let many = Finding { counted: Some(usize::MAX), ..Finding::new(BAD_PATH, "a path") };
        assert_eq!(Finding::total(&[many.clone(), many]), usize::MAX);
    }

    #[test]
    fn what_cannot_be_seen_is_shown() {
        let finding = Finding::new(BAD_PATH, "a\nb\u{202e}c").at("d\u{1b}[31m\u{200b}\u{feff}e");
        insta::assert_snapshot!(finding, @"error   RW105 bad-path: `d�[31m��e`: a�b�c");
    }
}
