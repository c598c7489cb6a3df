//! Evaluates the markers of requirements, such as `python_version < "3.11" and extra == "x"`
//! ([dependency specifiers](https://packaging.python.org/en/latest/specifications/dependency-specifiers/)).

use std::collections::BTreeSet;

use crate::{
    error::{Context as _, Result, bail, ensure},
    version::Version,
    wheel::DistName,
};

/// How deep parentheses may be nested. Metadata is input from outside.
const DEEPEST: usize = 32;
const OPERATORS: [&str; 8] = ["===", "==", "~=", "!=", "<=", ">=", "<", ">"];

/// The variables that installers know, with the names that they had in old metadata.
pub(super) const VARIABLES: [&str; 17] = [
    "implementation_name",
    "implementation_version",
    "os.name",
    "os_name",
    "platform.machine",
    "platform.python_implementation",
    "platform.version",
    "platform_machine",
    "platform_python_implementation",
    "platform_release",
    "platform_system",
    "platform_version",
    "python_full_version",
    "python_implementation",
    "python_version",
    "sys.platform",
    "sys_platform",
];

/// The values of the variables in markers, such as `sys_platform`.
pub trait MarkerVariables {
    /// The value of a variable. `None` if there is no such variable.
    fn value(&self, name: &str) -> Option<String>;
}

/// Whether a marker holds. An empty marker always does. `extra` has each of `extras` as its value.
pub(super) fn holds(
    marker: &str,
    variables: &dyn MarkerVariables,
    extras: &BTreeSet<DistName>,
) -> Result<bool> {
    if marker.trim().is_empty() {
        return Ok(true);
    }
    let mut parser = MarkerParser { tokens: tokens(marker)?, at: 0, depth: 0, variables, extras };
    let is_true = parser.any()?;
    let rest = parser.tokens.get(parser.at);
    ensure!(rest.is_none(), "what follows the marker is not understood");
    Ok(is_true)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MarkerToken<'a> {
    Text(&'a str),
    /// A variable, or one of `and`, `or`, `not`, `in`.
    Word(&'a str),
    /// An operator or a parenthesis.
    Sign(&'a str),
}

fn tokens(marker: &str) -> Result<Vec<MarkerToken<'_>>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let mut rest = marker.trim_start();
    let mut found = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, after) = if matches!(first, '"' | '\'') {
            let (text, after) = rest[1..].split_once(first).context("a quote is not closed")?;
            (MarkerToken::Text(text), after)
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            (MarkerToken::Word(&rest[..end]), &rest[end..])
        } else {
            let mut signs = OPERATORS.into_iter().chain(["(", ")"]);
            let sign = signs.find(|it| rest.starts_with(it));
            let sign = sign.with_context(|| format!("not part of a marker: {first:?}"))?;
            (MarkerToken::Sign(sign), &rest[sign.len()..])
        };
        found.push(token);
        rest = after.trim_start();
    }
    Ok(found)
}

struct MarkerParser<'a> {
    tokens: Vec<MarkerToken<'a>>,
    at: usize,
    depth: usize,
    variables: &'a dyn MarkerVariables,
    extras: &'a BTreeSet<DistName>,
}

/// One side of a comparison.
enum Operand {
    Extra,
    Value(String),
}

impl<'a> MarkerParser<'a> {
    fn any(&mut self) -> Result<bool> {
        let mut is_true = self.all()?;
        while self.takes(&MarkerToken::Word("or")) {
            is_true |= self.all()?;
        }
        Ok(is_true)
    }

    fn all(&mut self) -> Result<bool> {
        let mut is_true = self.one()?;
        while self.takes(&MarkerToken::Word("and")) {
            is_true &= self.one()?;
        }
        Ok(is_true)
    }

    fn one(&mut self) -> Result<bool> {
        if self.takes(&MarkerToken::Sign("(")) {
            self.depth += 1;
            ensure!(self.depth <= DEEPEST, "more than {DEEPEST} parentheses");
            let is_true = self.any()?;
            let is_closed = self.takes(&MarkerToken::Sign(")"));
            ensure!(is_closed, "a parenthesis is not closed");
            self.depth -= 1;
            return Ok(is_true);
        }
        let left = self.operand()?;
        let operator = self.operator()?;
        let right = self.operand()?;
        Ok(match (left, right) {
            (Operand::Extra, Operand::Value(name)) | (Operand::Value(name), Operand::Extra) => {
                let is_asked = self.extras.contains(&name.parse()?);
                is_asked == (operator == "==")
            }
            (Operand::Value(left), Operand::Value(right)) => compare(&left, operator, &right)?,
            (Operand::Extra, Operand::Extra) => bail!("`extra` is compared with itself"),
        })
    }

    fn operand(&mut self) -> Result<Operand> {
        let token = self.next()?;
        match token {
            MarkerToken::Text(text) => Ok(Operand::Value(text.to_owned())),
            MarkerToken::Word("extra") => Ok(Operand::Extra),
            MarkerToken::Word(name) => {
                let value = self.variables.value(name);
                let value = value.with_context(|| format!("no such variable: `{name}`"))?;
                Ok(Operand::Value(value))
            }
            MarkerToken::Sign(sign) => bail!("a value expected before `{sign}`"),
        }
    }

    fn operator(&mut self) -> Result<&'a str> {
        match self.next()? {
            MarkerToken::Sign(sign) if OPERATORS.contains(&sign) => Ok(sign),
            MarkerToken::Word("in") => Ok("in"),
            MarkerToken::Word("not") if self.takes(&MarkerToken::Word("in")) => Ok("not in"),
            other => bail!("an operator expected: {other:?}"),
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

/// Compares as versions if both sides are versions, else as texts.
fn compare(left: &str, operator: &str, right: &str) -> Result<bool> {
    match operator {
        "in" => return Ok(right.contains(left)),
        "not in" => return Ok(!right.contains(left)),
        _ => {}
    }
    if let Ok(version) = left.parse::<Version>()
        && let Some(is_true) = version.fulfils(&format!("{operator}{right}"))
    {
        return Ok(is_true);
    }
    Ok(match operator {
        "==" | "===" => left == right,
        "!=" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        _ => bail!("`{operator}` compares versions only"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::render;

    struct Python310;

    impl MarkerVariables for Python310 {
        fn value(&self, name: &str) -> Option<String> {
            let value = match name {
                "python_version" => "3.10",
                "python_full_version" => "3.10.4",
                "sys_platform" => "linux",
                "platform_release" => "",
                _ => return None,
            };
            Some(value.to_owned())
        }
    }

    fn eval(marker: &str) -> Result<bool> {
        holds(marker, &Python310, &BTreeSet::from(["dev-tools".parse()?]))
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
            "extra == 'Dev_Tools'",
            "extra != 'docs'",
            "sys_platform in 'linux darwin'",
            "sys_platform not in 'win32'",
            "python_version == '3.*'",
            "platform_release == ''",
        ];
        for marker in holds {
            assert!(eval(marker).unwrap(), "{marker}");
        }
        let fails = [
            "python_version < '3.9'",
            "sys_platform == 'linux' and extra == 'docs'",
            "sys_platform == 'win32' and python_version < '3.11' or extra == 'docs'",
            "python_version not in '3.10 3.11'",
        ];
        for marker in fails {
            assert!(!eval(marker).unwrap(), "{marker}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let deep = "(".repeat(100) + "python_version<'3'";
        let refused = [
            "python",
            "a == 'b'",
            "'a' == 'b",
            "(extra == 'x'",
            "extra == 'x' x",
            "$",
            "extra = 'x'",
            &deep,
        ];
        let refused = refused.map(|it| render(&eval(it).unwrap_err()));
        insta::assert_snapshot!(refused.concat(), @r"
            error: no such variable: `python`
            error: no such variable: `a`
            error: a quote is not closed
            error: a parenthesis is not closed
            error: what follows the marker is not understood
            error: not part of a marker: '$'
            error: not part of a marker: '='
            error: more than 32 parentheses
            ");
    }
}
