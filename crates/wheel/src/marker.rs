//! [`Marker`]: the condition of a requirement, such as `python_version < "3.11" and extra == "x"`
//! ([dependency specifiers](https://packaging.python.org/en/latest/specifications/dependency-specifiers/)).

use std::{fmt, str::FromStr as _};

use itertools::Itertools as _;
use serde::Deserialize;

use crate::DistName;
use rocwheel_base::{
    error::{Context as _, Result, anyhow, bail, ensure},
    version::Version,
};

/// How deep parentheses may be nested. Metadata is input from outside.
const DEEPEST: usize = 32;
/// The operators that are no words. No one is the start of a later one.
const SIGNS: [Operator; 8] = [
    Operator::Identical,
    Operator::Equal,
    Operator::Compatible,
    Operator::NotEqual,
    Operator::AtMost,
    Operator::AtLeast,
    Operator::Less,
    Operator::More,
];

/// The condition of a requirement. It keeps its text, because METADATA that is edited keeps its bytes.
///
/// **Contract:** Every text is a marker. Metadata of others may have anything here, and callers decide what a
/// marker that cannot be read means: [`Marker::evaluate`] fails, and every other question is answered as if
/// there were no marker.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Marker {
    text: String,
    /// Or why the text cannot be read.
    condition: Result<Condition, String>,
}

/// A variable of the specification. Metadata of earlier days has some of them with a `.`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum MarkerVariable {
    /// `sys.implementation.name`, such as `cpython`.
    ImplementationName,
    /// The version of the implementation, which is not always that of the language.
    ImplementationVersion,
    /// `os.name`: `posix` or `nt`.
    #[strum(serialize = "os_name", serialize = "os.name")]
    OsName,
    /// `platform.machine()`: `x86_64`, on Windows `AMD64`.
    #[strum(serialize = "platform_machine", serialize = "platform.machine")]
    PlatformMachine,
    /// `platform.python_implementation()`, such as `CPython`.
    #[strum(
        serialize = "platform_python_implementation",
        serialize = "platform.python_implementation",
        serialize = "python_implementation"
    )]
    PlatformPythonImplementation,
    /// `platform.release()`: the release of the kernel, which is mostly no valid version.
    PlatformRelease,
    /// `platform.system()`, such as `Linux`.
    PlatformSystem,
    /// `platform.version()`: the build of the kernel, which is mostly no valid version.
    #[strum(serialize = "platform_version", serialize = "platform.version")]
    PlatformVersion,
    /// The version with all of its components: `3.12.4`.
    PythonFullVersion,
    /// Major and minor version: `3.12`.
    PythonVersion,
    /// `sys.platform`, such as `linux` and `win32`.
    #[strum(serialize = "sys_platform", serialize = "sys.platform")]
    SysPlatform,
}

/// What is known of a Python and its platform.
pub trait MarkerVariables {
    /// The value of a variable. `None` if it is not known.
    fn value(&self, variable: MarkerVariable) -> Option<String>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    /// Conditions between `or`.
    Any(Vec<Condition>),
    /// Conditions between `and`. Without any, it holds.
    All(Vec<Condition>),
    Comparison(Comparison),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Comparison {
    /// Whether an extra was asked for: `extra == "x"`. `is_asked` is `false` for `extra != "x"`.
    Extra {
        name: String,
        is_asked: bool,
    },
    Values {
        left: Value,
        operator: Operator,
        right: Value,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Of(MarkerVariable),
    Text(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
enum Operator {
    #[strum(serialize = "===")]
    Identical,
    #[strum(serialize = "==")]
    Equal,
    #[strum(serialize = "~=")]
    Compatible,
    #[strum(serialize = "!=")]
    NotEqual,
    #[strum(serialize = "<=")]
    AtMost,
    #[strum(serialize = ">=")]
    AtLeast,
    #[strum(serialize = "<")]
    Less,
    #[strum(serialize = ">")]
    More,
    #[strum(serialize = "in")]
    In,
    #[strum(serialize = "not in")]
    NotIn,
}

impl From<String> for Marker {
    fn from(text: String) -> Self {
        let text = text.trim().to_owned();
        let condition = MarkerParser::parse(&text).map_err(|why| format!("{why:#}"));
        Self { text, condition }
    }
}

impl Default for Marker {
    /// No condition.
    fn default() -> Self {
        Self { text: String::new(), condition: Ok(Condition::All(Vec::new())) }
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Marker {
    /// Whether there is no condition, so that the requirement always holds.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether it holds for a Python, if these extras were asked for. Fails if the text cannot be read, or
    /// a comparison cannot be made.
    pub fn evaluate(&self, variables: &dyn MarkerVariables, extras: &[&str]) -> Result<bool> {
        self.condition()
            .and_then(|condition| {
                condition.decide(&|comparison| {
                    comparison.decide(variables, Some(extras))?.context("a value is not known")
                })
            })
            .with_context(|| format!("failed to read the marker `{self}`"))
    }

    /// Whether it depends on the variant that an installer selected: `variant_label == "gfx942"`. Installers of before
    /// [PEP 825](https://peps.python.org/pep-0825/) cannot read such a marker.
    pub fn names_variants(&self) -> bool {
        let mut quote = None;
        let outside_quotes = self.text.replace(
            |c: char| {
                let is_inside = quote.is_some();
                match (quote, c) {
                    (None, '"' | '\'') => quote = Some(c),
                    (Some(open), _) if open == c => quote = None,
                    _ => {}
                }
                is_inside || quote.is_some()
            },
            " ",
        );
        let mut words = outside_quotes.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.any(|word| word.starts_with("variant_"))
    }

    /// Fails if not every installer understands it, for one Python or another.
    pub fn ensure_exact(&self) -> Result<()> {
        self.evaluate(&AnyValue, &[]).map(drop)
    }

    /// Whether it may hold on a platform, by the name in `sys.platform`: `linux` or `win32`.
    pub fn may_hold_on(&self, sys_platform: &str) -> bool {
        self.may_hold(Some(sys_platform), None)
    }

    /// Whether it may hold on a platform, if only these extras were asked for.
    pub fn may_hold_with(&self, sys_platform: &str, extras: &[&str]) -> bool {
        self.may_hold(Some(sys_platform), Some(extras))
    }

    /// Whether it holds nowhere unless an extra was asked for.
    pub fn needs_extra(&self) -> bool {
        !self.may_hold(None, Some(&[]))
    }

    /// The extras, as they are written, of which each one makes it hold somewhere. Without any it holds
    /// nowhere: `x` and `y` of `extra == "x" or extra == "y"`, and none of `extra == "x" or os_name == "nt"`.
    pub fn extras(&self) -> Vec<&str> {
        let mut names = Vec::new();
        if let Ok(condition) = &self.condition
            && self.needs_extra()
        {
            condition.add_extras(&mut names);
        }
        names.into_iter().unique().filter(|name| self.may_hold(None, Some(&[name]))).collect()
    }

    /// Whether it needs an extra, and this one is enough.
    pub fn is_for_extra(&self, extra: &str) -> bool {
        is_among(extra, &self.extras())
    }

    fn condition(&self) -> Result<&Condition> {
        self.condition.as_ref().map_err(|why| anyhow!("{why}"))
    }

    /// Whether it may hold, with what is known. `extras` are all that were asked for.
    fn may_hold(&self, sys_platform: Option<&str>, extras: Option<&[&str]>) -> bool {
        let decision = self.condition().and_then(|condition| {
            condition.decide(&|comparison| {
                // Nothing negates a condition. So the marker may hold if it holds when each comparison that
                // cannot be made is taken for true.
                let decision = comparison.decide(&OnPlatform(sys_platform), extras);
                Ok(decision.ok().flatten().unwrap_or(true))
            })
        });
        decision.unwrap_or(true)
    }
}

impl Condition {
    /// Whether it holds. Every comparison is made, so that one that cannot be made is an error wherever it
    /// stands.
    fn decide(&self, compare: &dyn Fn(&Comparison) -> Result<bool>) -> Result<bool> {
        let decide_all = |conditions: &[Self]| -> Result<Vec<bool>> {
            conditions.iter().map(|condition| condition.decide(compare)).collect()
        };
        match self {
            Self::Any(conditions) => Ok(decide_all(conditions)?.contains(&true)),
            Self::All(conditions) => Ok(!decide_all(conditions)?.contains(&false)),
            Self::Comparison(comparison) => compare(comparison),
        }
    }

    /// Adds the extras that it compares with.
    fn add_extras<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Any(conditions) | Self::All(conditions) => {
                for condition in conditions {
                    condition.add_extras(names);
                }
            }
            Self::Comparison(Comparison::Extra { name, .. }) => names.push(name),
            Self::Comparison(Comparison::Values { .. }) => {}
        }
    }
}

impl Comparison {
    /// `None` if something is not known.
    fn decide(
        &self,
        variables: &dyn MarkerVariables,
        extras: Option<&[&str]>,
    ) -> Result<Option<bool>> {
        match self {
            Self::Extra { name, is_asked } => {
                Ok(extras.map(|extras| is_among(name, extras) == *is_asked))
            }
            Self::Values { left, operator, right } => {
                match (left.known(variables), right.known(variables)) {
                    (Some(left), Some(right)) => compare(&left, *operator, &right).map(Some),
                    _ => Ok(None),
                }
            }
        }
    }
}

impl Value {
    fn known(&self, variables: &dyn MarkerVariables) -> Option<String> {
        match self {
            Self::Of(variable) => variables.value(*variable),
            Self::Text(text) => Some(text.clone()),
        }
    }
}

/// Whether an extra is one of several. Names are compared in their normalized form.
fn is_among(extra: &str, extras: &[&str]) -> bool {
    let is_same = |other: &str| {
        let names = (DistName::from_str(extra), DistName::from_str(other));
        other == extra || matches!(names, (Ok(one), Ok(other)) if one == other)
    };
    // Installers evaluate a marker with an empty extra if none was asked for.
    if extras.is_empty() { extra.is_empty() } else { extras.iter().any(|it| is_same(it)) }
}

/// Compares as versions if both sides are versions, else as texts.
fn compare(left: &str, operator: Operator, right: &str) -> Result<bool> {
    if let Ok(version) = left.parse::<Version>()
        && let Some(is_true) = version.fulfils(&format!("{operator}{right}"))
    {
        return Ok(is_true);
    }
    Ok(match operator {
        Operator::In => right.contains(left),
        Operator::NotIn => !right.contains(left),
        Operator::Equal | Operator::Identical => left == right,
        Operator::NotEqual => left != right,
        Operator::Less => left < right,
        Operator::AtMost => left <= right,
        Operator::More => left > right,
        Operator::AtLeast => left >= right,
        Operator::Compatible => bail!("`{operator}` compares versions only"),
    })
}

/// What is known of every Python on a platform, which is named as in `sys.platform`.
struct OnPlatform<'a>(Option<&'a str>);

impl MarkerVariables for OnPlatform<'_> {
    fn value(&self, variable: MarkerVariable) -> Option<String> {
        let value = match (variable, self.0?) {
            (MarkerVariable::SysPlatform, sys_platform) => sys_platform,
            (MarkerVariable::OsName, "linux") => "posix",
            (MarkerVariable::OsName, "win32") => "nt",
            (MarkerVariable::PlatformSystem, "linux") => "Linux",
            (MarkerVariable::PlatformSystem, "win32") => "Windows",
            _ => return None,
        };
        Some(value.to_owned())
    }
}

/// Values with which each marker that installers understand can be evaluated.
struct AnyValue;

impl MarkerVariables for AnyValue {
    fn value(&self, variable: MarkerVariable) -> Option<String> {
        let value = match variable {
            MarkerVariable::ImplementationVersion
            | MarkerVariable::PlatformRelease
            | MarkerVariable::PlatformVersion
            | MarkerVariable::PythonFullVersion
            | MarkerVariable::PythonVersion => "3.12",
            _ => "x",
        };
        Some(value.to_owned())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MarkerToken<'a> {
    Text(&'a str),
    /// A variable, or one of `and`, `or`, `not`, `in`.
    Word(&'a str),
    Operator(Operator),
    Parenthesis(char),
}

fn tokens(marker: &str) -> Result<Vec<MarkerToken<'_>>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let mut rest = marker.trim_start();
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '"' | '\'' => {
                let (text, after) = rest[1..].split_once(first).context("a quote is not closed")?;
                (MarkerToken::Text(text), after)
            }
            '(' | ')' => (MarkerToken::Parenthesis(first), &rest[1..]),
            _ if is_word(first) => {
                let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
                (MarkerToken::Word(word), after)
            }
            _ => SIGNS
                .iter()
                .find_map(|it| {
                    Some((MarkerToken::Operator(*it), rest.strip_prefix(&it.to_string())?))
                })
                .with_context(|| format!("not part of a marker: {first:?}"))?,
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

struct MarkerParser<'a> {
    tokens: Vec<MarkerToken<'a>>,
    at: usize,
    depth: usize,
}

/// One side of a comparison, as it is parsed.
enum Side {
    Extra,
    Value(Value),
}

impl<'a> MarkerParser<'a> {
    fn parse(text: &'a str) -> Result<Condition> {
        if text.is_empty() {
            return Ok(Condition::All(Vec::new()));
        }
        let mut parser = Self { tokens: tokens(text)?, at: 0, depth: 0 };
        let condition = parser.any()?;
        ensure!(parser.at == parser.tokens.len(), "what follows the marker is not understood");
        Ok(condition)
    }

    fn any(&mut self) -> Result<Condition> {
        let mut conditions = vec![self.all()?];
        while self.takes(&MarkerToken::Word("or")) {
            conditions.push(self.all()?);
        }
        Ok(Condition::Any(conditions))
    }

    fn all(&mut self) -> Result<Condition> {
        let mut conditions = vec![self.one()?];
        while self.takes(&MarkerToken::Word("and")) {
            conditions.push(self.one()?);
        }
        Ok(Condition::All(conditions))
    }

    fn one(&mut self) -> Result<Condition> {
        if !self.takes(&MarkerToken::Parenthesis('(')) {
            return self.comparison().map(Condition::Comparison);
        }
        self.depth += 1;
        ensure!(self.depth <= DEEPEST, "more than {DEEPEST} parentheses");
        let condition = self.any()?;
        ensure!(self.takes(&MarkerToken::Parenthesis(')')), "a parenthesis is not closed");
        self.depth -= 1;
        Ok(condition)
    }

    fn comparison(&mut self) -> Result<Comparison> {
        match (self.side()?, self.operator()?, self.side()?) {
            (Side::Extra, operator, Side::Value(Value::Text(name)))
            | (Side::Value(Value::Text(name)), operator, Side::Extra) => match operator {
                Operator::Equal => Ok(Comparison::Extra { name, is_asked: true }),
                Operator::NotEqual => Ok(Comparison::Extra { name, is_asked: false }),
                _ => bail!("`extra` is compared with `{operator}`"),
            },
            (Side::Value(left), operator, Side::Value(right)) => {
                Ok(Comparison::Values { left, operator, right })
            }
            _ => bail!("`extra` is not compared with a text"),
        }
    }

    fn side(&mut self) -> Result<Side> {
        Ok(match self.next()? {
            MarkerToken::Text(text) => Side::Value(Value::Text(text.to_owned())),
            MarkerToken::Word("extra") => Side::Extra,
            MarkerToken::Word(name) => {
                let variable = MarkerVariable::from_str(name).ok();
                Side::Value(Value::Of(
                    variable.with_context(|| format!("no such variable: `{name}`"))?,
                ))
            }
            MarkerToken::Operator(sign) => bail!("a value expected before `{sign}`"),
            MarkerToken::Parenthesis(sign) => bail!("a value expected before `{sign}`"),
        })
    }

    fn operator(&mut self) -> Result<Operator> {
        match self.next()? {
            MarkerToken::Operator(operator) => Ok(operator),
            MarkerToken::Word("in") => Ok(Operator::In),
            MarkerToken::Word("not") if self.takes(&MarkerToken::Word("in")) => Ok(Operator::NotIn),
            _ => bail!("an operator expected between two values"),
        }
    }

    fn next(&mut self) -> Result<MarkerToken<'a>> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token.context("it ends too early")
    }

    fn takes(&mut self, token: &MarkerToken<'_>) -> bool {
        let is_next = self.tokens.get(self.at) == Some(token);
        self.at += usize::from(is_next);
        is_next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use rocwheel_base::error::render;

    struct Python310;

    impl MarkerVariables for Python310 {
        fn value(&self, variable: MarkerVariable) -> Option<String> {
            let value = match variable {
                MarkerVariable::PythonVersion => "3.10",
                MarkerVariable::PythonFullVersion => "3.10.4",
                MarkerVariable::SysPlatform => "linux",
                MarkerVariable::OsName => "posix",
                MarkerVariable::PlatformRelease => "",
                _ => return None,
            };
            Some(value.to_owned())
        }
    }

    fn marker(text: &str) -> Marker {
        text.to_owned().into()
    }

    fn eval(text: &str) -> Result<bool> {
        marker(text).evaluate(&Python310, &["dev-tools"])
    }

    #[test]
    fn markers_hold_as_packaging_says() {
        let holds = [
            "",
            "python_version < '3.11'",
            "python_version >= \"3.9\" and sys_platform == 'linux'",
            "sys_platform == 'win32' or (python_version < '3.11' and python_version != '3.9')",
            "'3.9' < python_version",
            "python_full_version < '3.11.0a7'",
            "python_full_version ~= '3.10.2'",
            "extra == 'Dev_Tools'",
            "'dev.tools' == extra",
            "extra != 'docs'",
            "sys_platform in 'linux darwin'",
            "sys_platform not in 'win32'",
            "'lin' in sys_platform",
            "'win' not  in sys_platform",
            "python_version == '3.*'",
            "platform_release == ''",
            "os.name=='posix'and(sys.platform=='linux')",
        ];
        for marker in holds {
            assert!(eval(marker).unwrap(), "{marker}");
        }
        let fails = [
            "python_version < '3.9'",
            "python_full_version ~= '3.10.5'",
            "python_version ~= '3.9.0'",
            "sys_platform == 'linux' and extra == 'docs'",
            "sys_platform == 'win32' and python_version < '3.11' or extra == 'docs'",
            "python_version not in '3.10 3.11'",
            "extra == ''",
        ];
        for marker in fails {
            assert!(!eval(marker).unwrap(), "{marker}");
        }
        assert!(marker("extra == ''").evaluate(&Python310, &[]).unwrap());
    }

    #[test]
    fn a_marker_that_cannot_be_read_says_why_and_excludes_nothing() {
        let deep = "(".repeat(100_000) + "python_version<'3'";
        let refused = [
            "python",
            "a == 'b'",
            "'a' == 'b",
            "(extra == 'x'",
            "extra == 'x' x",
            "extra == 'x' or",
            "or extra == 'x'",
            "$",
            "extra = 'x'",
            "extra == extra",
            "'x' in extra",
            "extra == sys_platform",
            "sys_platform not 'x'",
            "'é' == 'x' é",
            &deep,
        ];
        let said = refused.map(|text| {
            let marker = marker(text);
            assert!(marker.may_hold_on("linux") && !marker.needs_extra());
            assert!(marker.extras().is_empty() && !marker.is_for_extra("x"));
            assert_eq!(marker.to_string(), text);
            let why = marker.evaluate(&Python310, &[]).unwrap_err();
            why.root_cause().to_string() + "\n"
        });
        insta::assert_snapshot!(said.concat(), @r"
        no such variable: `python`
        no such variable: `a`
        a quote is not closed
        a parenthesis is not closed
        what follows the marker is not understood
        it ends too early
        no such variable: `or`
        not part of a marker: '$'
        not part of a marker: '='
        `extra` is not compared with a text
        `extra` is compared with `in`
        `extra` is not compared with a text
        an operator expected between two values
        not part of a marker: 'é'
        more than 32 parentheses
        ");
        // It can be read, but not evaluated.
        let said = ["sys_platform ~= 'x'", "platform_version == 'x'"];
        let said = said.map(|text| render(&eval(text).unwrap_err()));
        insta::assert_snapshot!(said.concat(), @r"
        error: failed to read the marker `sys_platform ~= 'x'`
          caused by: `~=` compares versions only
        error: failed to read the marker `platform_version == 'x'`
          caused by: a value is not known
        ");
    }

    #[test]
    fn a_marker_says_which_extras_it_is_for() {
        let said = [
            "extra == 'x'",
            "\"x\" == extra",
            "(extra == 'x')",
            "extra == 'x' or extra == 'y'",
            "python_version < '3' and ('x' == extra or (extra == 'Y_y' and os_name == 'nt'))",
            "extra == 'x' and extra == 'y'",
            "extra == 'x' and extra != 'y'",
            "extra == 'x' or os_name == 'nt'",
            "extra != 'x'",
            "os_name == 'extra == \"x\"'",
            "",
        ];
        let said = said.map(|text| {
            let marker = marker(text);
            let needs = if marker.needs_extra() { "needs" } else { "does not need" };
            format!("{text}: {needs} an extra, {:?}\n", marker.extras())
        });
        insta::assert_snapshot!(said.concat(), @r#"
        extra == 'x': needs an extra, ["x"]
        "x" == extra: needs an extra, ["x"]
        (extra == 'x'): needs an extra, ["x"]
        extra == 'x' or extra == 'y': needs an extra, ["x", "y"]
        python_version < '3' and ('x' == extra or (extra == 'Y_y' and os_name == 'nt')): needs an extra, ["x", "Y_y"]
        extra == 'x' and extra == 'y': needs an extra, []
        extra == 'x' and extra != 'y': needs an extra, ["x"]
        extra == 'x' or os_name == 'nt': does not need an extra, []
        extra != 'x': does not need an extra, []
        os_name == 'extra == "x"': does not need an extra, []
        : does not need an extra, []
        "#);
        assert!(marker("extra == 'y_Y'").is_for_extra("Y-y"));
    }

    #[test]
    fn a_marker_says_where_it_may_hold() {
        let on_linux = |text: &str| marker(text).may_hold_on("linux");
        for text in [
            "sys_platform == 'linux'",
            "'linux' == sys.platform and extra == 'x'",
            "platform_system != 'Windows' and python_version < '3'",
            "sys_platform == 'win32' or extra == 'x'",
            "sys_platform == platform_version",
            "sys_platform ~= 'x'",
        ] {
            assert!(on_linux(text), "{text}");
        }
        for text in [
            "sys_platform == 'win32'",
            "extra == 'x' and (python_version < '3' and os_name == \"nt\")",
            "sys_platform not in 'linux darwin'",
            "sys_platform == 'win32' or sys_platform == 'darwin' and extra == 'x'",
        ] {
            assert!(!on_linux(text), "{text}");
        }
        let either = marker("sys_platform == 'win32' or extra == 'x'");
        assert!(!either.may_hold_with("linux", &[]) && either.may_hold_with("win32", &[]));
        assert!(either.may_hold_with("linux", &["y", "X"]));
    }

    /// A marker, and whether it holds with the extra `x` on Linux.
    fn condition() -> impl Strategy<Value = (String, bool)> {
        let leaf = prop::sample::select(vec![
            ("extra == 'x'", true),
            ("'y' == extra", false),
            ("extra!='y'", true),
            ("sys_platform == 'linux'", true),
            ("'win' in sys_platform", false),
            ("python_version >= '3.9'", true),
            ("'3.9' >= python_version", false),
        ]);
        let leaf = leaf.prop_map(|(text, holds)| (text.to_owned(), holds));
        leaf.prop_recursive(5, 30, 4, |inner| {
            (prop::collection::vec(inner, 1..4), any::<bool>()).prop_map(|(parts, is_any)| {
                let texts = parts.iter().map(|(text, _)| format!("({text})"));
                let mut parts = parts.iter().map(|(_, holds)| *holds);
                if is_any {
                    (texts.collect_vec().join(" or "), parts.any(|it| it))
                } else {
                    (texts.collect_vec().join(" and "), parts.all(|it| it))
                }
            })
        })
    }

    proptest! {
        #[test]
        fn any_text_is_a_marker(text in "(\\(|\\)| |and|or|not|in|extra|==|~=|<|'x'|\"3\"|os_name|\\PC){0,20}") {
            let marker = marker(&text);
            marker.needs_extra();
            marker.extras();
            marker.may_hold_on("linux");
            let _ = marker.evaluate(&Python310, &["x"]);
        }

        #[test]
        fn a_marker_holds_as_its_parts_do((text, holds) in condition()) {
            let marker = marker(&text);
            prop_assert_eq!(marker.evaluate(&Python310, &["x"]).unwrap(), holds);
            if holds {
                prop_assert!(marker.may_hold_on("linux") && marker.may_hold_with("linux", &["x"]));
                prop_assert!(!marker.needs_extra() || !marker.extras().is_empty());
            }
        }
    }
}
