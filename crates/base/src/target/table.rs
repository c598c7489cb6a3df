//! The known targets and families. The table is `target.toml`, which is parsed and validated once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display},
    sync::LazyLock,
};

use itertools::Itertools as _;
use serde::Deserialize;

use crate::error::{Context, Error, Result, anyhow, bail, ensure, hinted};
use crate::target::{Family, Scope, Target};

static BUILTIN: LazyLock<TargetTable> = LazyLock::new(|| {
    TargetTable::parse(include_str!("../target.toml")).expect("a test reads the built-in table")
});

/// All known targets with their products and families, in the order of `target.toml`, and its other
/// tables.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TargetTable {
    #[serde(rename = "targets")]
    rows: Vec<TargetRow>,
    /// Patterns of targets by sub-family and by generic target.
    #[serde(default)]
    pub(super) sub_families: Patterns,
    #[serde(default)]
    pub(super) generics: Patterns,
    /// What a name is that stands for code for every GPU.
    #[serde(default)]
    pub(super) code_for_every_gpu: BTreeMap<Box<str>, Box<str>>,
    /// Versions of the graphics core, and code names of the kernel, by target.
    #[serde(default)]
    pub(super) ip: BTreeMap<Target, Vec<String>>,
    #[serde(default)]
    pub(super) code_names: BTreeMap<Target, Vec<String>>,
    /// By project.
    #[serde(default)]
    pub(super) not_built: BTreeMap<String, PartialProject>,
    #[serde(default)]
    pub(super) ci: Vec<CiFamily>,
    /// All families without duplicates, in order of first mention.
    #[serde(skip)]
    families: Vec<Family>,
}

/// Names of groups, each with patterns of targets: `gfx900`, or `gfx110?` with any last character.
pub(super) type Patterns = BTreeMap<Box<str>, Vec<String>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetRow {
    #[serde(rename = "name")]
    target: Target,
    product: String,
    families: Vec<Family>,
}

/// A project that is not built for some targets.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartialProject {
    /// Targets and families.
    pub(super) targets: Vec<String>,
    /// Parts of the names of its libraries with device code.
    #[serde(default)]
    pub(super) libraries: Vec<String>,
}

/// A family that CI builds, with the runners that test it. A platform on which the family is not
/// built has no list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CiFamily {
    pub(super) family: String,
    /// The targets that the runners have. All of the family, if it is empty.
    #[serde(default)]
    pub(super) tested: Vec<Target>,
    pub(super) linux: Option<Vec<RunnerPool>>,
    pub(super) windows: Option<Vec<RunnerPool>>,
}

/// Runners with one label.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunnerPool {
    pub(super) label: String,
    #[serde(default = "one")]
    pub(super) count: u64,
}

fn one() -> u64 {
    1
}

/// Names that are neither a known target nor a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFamilies {
    /// The unknown names, as the user wrote them.
    pub names: Vec<String>,
    /// A sentence for each name that stands for code and not for GPUs.
    code: Vec<String>,
    /// Suggests similar names, and lists the known ones.
    pub hint: String,
}

impl fmt::Display for UnknownFamilies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = match self.names.len() {
            0 => None,
            1 => Some("unknown GPU target or family"),
            _ => Some("unknown GPU targets or families"),
        };
        let unknown = unknown.map(|what| format!("{what}: {}", quoted(&self.names, ", ")));
        write!(f, "{}", unknown.iter().chain(&self.code).join("; "))
    }
}

/// The error with its hint, so that `?` loses none.
impl From<UnknownFamilies> for Error {
    fn from(unknown: UnknownFamilies) -> Self {
        hinted(anyhow!("{unknown}"), unknown.hint)
    }
}

impl TargetTable {
    /// The table in `target.toml`, compiled into the program.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    fn parse(text: &str) -> Result<Self> {
        let table: Self = toml::from_str(text).context("failed to read the target table")?;
        table.checked()
    }

    fn checked(mut self) -> Result<Self> {
        ensure!(!self.rows.is_empty(), "a target table without targets");
        for row in &self.rows {
            let target = &row.target;
            ensure!(*target == target.base(), "a row for a target with features: `{target}`");
            ensure!(!row.product.trim().is_empty(), "a target without a product: `{target}`");
            ensure!(row.families.iter().all_unique(), "a family named twice for `{target}`");
        }
        if let Some(twice) = self.known().duplicates().next() {
            bail!("two rows for one target: `{twice}`");
        }
        let families = self.rows.iter().flat_map(|row| &row.families);
        self.families = families.unique().cloned().collect();
        Ok(self)
    }

    /// All targets, without features.
    pub fn known(&self) -> impl Iterator<Item = &Target> {
        self.rows.iter().map(|row| &row.target)
    }

    /// The product by which a target is best known. Features are ignored.
    pub fn product(&self, target: &Target) -> Option<&str> {
        self.row(target).map(|row| row.product.as_str())
    }

    /// All named families. A single target is not listed, although it can be used like a family.
    pub fn families(&self) -> impl Iterator<Item = &Family> {
        self.families.iter()
    }

    /// The families of a target. Features are ignored.
    pub fn families_of(&self, target: &Target) -> &[Family] {
        self.row(target).map_or(&[], |row| row.families.as_slice())
    }

    /// The targets of a family; empty if the family is unknown.
    pub fn targets(&self, family: &Family) -> impl Iterator<Item = &Target> {
        self.rows.iter().filter(move |row| row.families.contains(family)).map(|row| &row.target)
    }

    /// The scopes of the artifacts that are built for a family or a target: the family and its targets, without
    /// features. `None` if the table does not have it, in exactly this spelling.
    pub fn scopes_of(&self, scope: &Scope) -> Option<BTreeSet<Scope>> {
        let targets: Vec<Target> = match scope {
            Scope::Generic => Vec::new(),
            Scope::Family(family) => self.targets(family).cloned().collect(),
            Scope::Target(target) => {
                self.row(&target.packaged()).map(|_| target.packaged()).into_iter().collect()
            }
        };
        let itself = [scope.packaged()];
        (!targets.is_empty())
            .then(|| targets.into_iter().map(Scope::Target).chain(itself).collect())
    }

    fn row(&self, target: &Target) -> Option<&TargetRow> {
        let base = target.base();
        self.rows.iter().find(|row| row.target == base)
    }

    /// The targets that people call by the name of a product: `` `gfx942` for MI300X``.
    fn targets_of_product(&self, name: &str) -> Vec<String> {
        // Fewer letters are in many names.
        const SHORTEST: usize = 4;
        let wanted = folded(name);
        let is_meant =
            |row: &&TargetRow| wanted.len() >= SHORTEST && folded(&row.product).contains(&wanted);
        let rows = self.rows.iter().filter(is_meant);
        rows.map(|row| format!("`{}` for {}", row.target, row.product)).collect()
    }

    /// The error about names that the table does not have.
    pub fn unknown(&self, names: Vec<String>) -> UnknownFamilies {
        let (code, names): (Vec<String>, Vec<String>) =
            names.into_iter().partition(|name| self.code_for_every_gpu(name).is_some());
        let sentence = |name: &String| {
            Some(format!("`{name}` is not a GPU target, but {}", self.code_for_every_gpu(name)?))
        };
        let code = code.iter().filter_map(sentence).collect();
        let families = self.families().map(Family::as_str);
        let known: Vec<&str> = families.chain(self.known().map(Target::as_str)).collect();
        let products: Vec<String> =
            names.iter().flat_map(|name| self.targets_of_product(name)).collect();
        let meant: BTreeSet<&str> = names.iter().flat_map(|name| nearest(name, &known)).collect();
        let listed = "`rocwheel targets all --emit table` lists targets and families";
        let mut parts = Vec::new();
        if !products.is_empty() {
            parts.push(format!("pass {};", products.join(" or ")));
        }
        if !meant.is_empty() {
            parts.push(format!("did you mean {}?", quoted(meant, " or ")));
        }
        parts.push(listed.to_owned());
        UnknownFamilies { names, code, hint: parts.join(" ") }
    }
}

/// A name in the form in which names of products are compared: `rx7900xtx`.
fn folded(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

fn quoted<T: Display>(names: impl IntoIterator<Item = T>, separator: &str) -> String {
    names.into_iter().map(|name| format!("`{name}`")).join(separator)
}

/// The known names that differ from `name` only in case, or else those that start with it, or else
/// at most three that differ in the fewest characters.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Vec<&'a str> {
    let lower = name.to_ascii_lowercase();
    let matching = |matches: &dyn Fn(&str) -> bool| -> Vec<&'a str> {
        known.iter().copied().filter(|it| matches(&it.to_ascii_lowercase())).collect()
    };
    let same = matching(&|known| known == lower);
    if !same.is_empty() || name.len() < "gfx1".len() {
        return same;
    }
    let begun = matching(&|known| known.starts_with(&lower));
    if !begun.is_empty() {
        return begun;
    }
    let distance = |known: &str| strsim::damerau_levenshtein(&lower, &known.to_ascii_lowercase());
    let distances = known.iter().map(|known| (distance(known), *known));
    let near = distances.filter(|(distance, _)| *distance <= 2);
    let mut nearest = near.min_set_by_key(|(distance, _)| *distance);
    nearest.sort_unstable();
    nearest.into_iter().map(|(_, name)| name).take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(names: &str) -> Result<Vec<Target>, UnknownFamilies> {
        TargetTable::builtin().select(&[names.parse().unwrap()])
    }

    fn selected(names: &str) -> Vec<String> {
        select(names).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_family_stands_for_the_targets_that_the_build_gives_it() {
        let table = TargetTable::builtin();
        let mut families: Vec<&Family> = table.families().collect();
        families.sort();
        let text: Vec<String> = families
            .iter()
            .map(|family| {
                let targets: Vec<&str> = table.targets(family).map(Target::as_str).collect();
                format!("{family}: {}", targets.join(" "))
            })
            .collect();
        insta::assert_snapshot!(text.join("\n"), @r"
        dcgpu-all: gfx908 gfx90a gfx942 gfx950 gfx1250
        dgpu-all: gfx900 gfx906 gfx1010 gfx1011 gfx1012 gfx1030 gfx1031 gfx1032 gfx1034 gfx1100 gfx1101 gfx1102 gfx1200 gfx1201
        gfx101X-all: gfx1010 gfx1011 gfx1012
        gfx101X-dgpu: gfx1010 gfx1011 gfx1012
        gfx103X-all: gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036
        gfx103X-dgpu: gfx1030 gfx1031 gfx1032 gfx1034
        gfx103X-igpu: gfx1033 gfx1035 gfx1036
        gfx110X-all: gfx1100 gfx1101 gfx1102 gfx1103
        gfx110X-dgpu: gfx1100 gfx1101 gfx1102
        gfx110X-igpu: gfx1103
        gfx115X-all: gfx1150 gfx1151 gfx1152 gfx1153
        gfx115X-igpu: gfx1150 gfx1151 gfx1152 gfx1153
        gfx117X-all: gfx1170
        gfx117X-igpu: gfx1170
        gfx120X-all: gfx1200 gfx1201
        gfx125X-all: gfx1250
        gfx125X-dcgpu: gfx1250
        gfx900-dgpu: gfx900
        gfx906-dgpu: gfx906
        gfx908-dcgpu: gfx908
        gfx90a-dcgpu: gfx90a
        gfx90c-igpu: gfx90c
        gfx94X-all: gfx942
        gfx94X-dcgpu: gfx942
        gfx950-all: gfx950
        gfx950-dcgpu: gfx950
        igpu-all: gfx90c gfx1033 gfx1035 gfx1036 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153
        ");
        assert_eq!(table.known().count(), 29);
    }

    #[test]
    fn a_target_has_a_product_and_families_with_or_without_features() {
        let table = TargetTable::builtin();
        let target = |text: &str| text.parse::<Target>().unwrap();
        for text in ["gfx942", "gfx942:xnack+"] {
            assert_eq!(table.product(&target(text)), Some("MI300A/MI300X CDNA"));
            let families: Vec<&str> =
                table.families_of(&target(text)).iter().map(Family::as_str).collect();
            assert_eq!(families, ["dcgpu-all", "gfx94X-all", "gfx94X-dcgpu"]);
        }
        assert_eq!(table.product(&target("gfx9999")), None);
        assert!(table.families_of(&target("gfx9999")).is_empty());
    }

    #[test]
    fn names_expand_in_the_order_given_and_each_target_comes_once() {
        assert_eq!(
            selected("gfx950,gfx94X-dcgpu,dcgpu-all"),
            ["gfx950", "gfx942", "gfx908", "gfx90a", "gfx1250"]
        );
        assert_eq!(selected("gfx942:xnack+,gfx942,gfx942:xnack+"), ["gfx942:xnack+", "gfx942"]);
        assert!(selected("").is_empty());
    }

    #[test]
    fn the_scopes_of_a_family_are_its_own_and_its_targets() {
        let scopes = |text: &str| {
            let scopes = TargetTable::builtin().scopes_of(&text.parse().unwrap());
            scopes.map(|scopes| scopes.iter().join(" "))
        };
        assert_eq!(scopes("gfx94X-dcgpu").unwrap(), "gfx942 gfx94X-dcgpu");
        assert_eq!(scopes("gfx950:xnack+").unwrap(), "gfx950");
        for unknown in ["gfx94x-dcgpu", "gfx9999", "generic"] {
            assert_eq!(scopes(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn an_error_lists_every_unknown_name_and_the_known_ones() {
        let error = select("gfx942,gfx9999,GFX94x-dcgp,gfx110X-").unwrap_err();
        insta::assert_snapshot!(error, @"unknown GPU targets or families: `gfx9999`, `GFX94x-dcgp`, `gfx110X-`");
        insta::assert_snapshot!(error.hint, @"did you mean `gfx110X-all` or `gfx110X-dgpu` or `gfx110X-igpu` or `gfx94X-dcgpu`? `rocwheel targets all --emit table` lists targets and families");
        let error = select("generic").unwrap_err();
        assert_eq!(error.names, ["generic"]);
        assert!(error.hint.starts_with("`rocwheel targets all "));
        for name in ["gfx9999:xnack+", "gfx942:xnack", "gfx"] {
            let error = select(name).unwrap_err();
            assert_eq!(error.names, [name]);
            assert!(!error.hint.contains("did you mean"), "{name}");
        }
    }

    #[test]
    fn a_table_that_contradicts_itself_is_refused() {
        let row = |name: &str, product: &str, families: &str| {
            format!("{{ name = {name:?}, product = {product:?}, families = [{families}] }}")
        };
        let tables = [
            String::new(),
            "targets = []".into(),
            "targets = [{ name = \"gfx900\" }]".into(),
            format!("targets = [{}]", row("gfx94X", "p", "")),
            format!("targets = [{}]", row("gfx942:xnack+", "p", "")),
            format!("targets = [{}]", row("gfx942", " ", "")),
            format!("targets = [{}]", row("gfx942", "p", "'gfx950'")),
            format!("targets = [{}]", row("gfx942", "p", "'a', 'b', 'a'")),
            format!("targets = [{}, {}]", row("gfx942", "p", ""), row("gfx942", "q", "")),
        ];
        let messages: Vec<String> = tables
            .iter()
            .map(|text| format!("{:#}", TargetTable::parse(text).unwrap_err()))
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        failed to read the target table: TOML parse error at line 1, column 1
          |
        1 | 
          | ^
        missing field `targets`

        a target table without targets
        failed to read the target table: TOML parse error at line 1, column 12
          |
        1 | targets = [{ name = "gfx900" }]
          |            ^^^^^^^^^^^^^^^^^^^
        missing field `product`

        failed to read the target table: TOML parse error at line 1, column 21
          |
        1 | targets = [{ name = "gfx94X", product = "p", families = [] }]
          |                     ^^^^^^^^
        not a GPU target such as `gfx942` or `gfx942:xnack+`: "gfx94X"

        a row for a target with features: `gfx942:xnack+`
        a target without a product: `gfx942`
        failed to read the target table: TOML parse error at line 1, column 57
          |
        1 | targets = [{ name = "gfx942", product = "p", families = ['gfx950'] }]
          |                                                         ^^^^^^^^^^
        not a name for a family: "gfx950"

        a family named twice for `gfx942`
        two rows for one target: `gfx942`
        "#);
    }
}
