//! Python source: parsed, unless it nests deeper than Python itself takes it.

use ruff_python_ast::{ModModule, PySourceType, token::TokenKind};
use ruff_python_parser::{Mode, Parsed, lexer::lex, parse_unchecked_source};

use crate::{
    error::{Result, ensure},
    parallel,
};

/// Python's own limits of open brackets and of indented blocks: `MAXLEVEL` and `MAXINDENT` of
/// <https://github.com/python/cpython/blob/main/Parser/lexer/state.h>.
const BRACKETS: usize = 200;
const BLOCKS: usize = 100;
/// Python's parser gives up at a depth of 4,000 or 6,000, by version. An expression is at most as
/// deep as it has tokens.
const TOKENS: usize = 4_000;

/// Passes the parsed source to `read`. Of source with errors, it is parsed as far as possible.
pub fn parse<T: Send>(
    source: &str,
    read: impl FnOnce(&Parsed<ModModule>) -> T + Send,
) -> Result<T> {
    ensure!(!is_too_deep(source), "it nests deeper than Python can take it");
    // The parser calls itself for each level, so each level takes some of the stack.
    parallel::with_large_stack(|| read(&parse_unchecked_source(source, PySourceType::Python)))
}

/// Whether the parser could run out of stack. It counts tokens, which needs no recursion.
fn is_too_deep(source: &str) -> bool {
    let mut lexer = lex(source, Mode::Module);
    let mut blocks = 0_usize;
    // Each open bracket, with the tokens since its last comma: what a comma separates does not nest.
    // The first stands for what is outside of all brackets.
    let mut open = vec![0];
    // Of those tokens, the sum; and each `lambda`, whose own commas separate nothing.
    let mut tokens = 0;
    loop {
        match lexer.next_token() {
            TokenKind::EndOfFile => return false,
            TokenKind::Indent => blocks += 1,
            TokenKind::Dedent => blocks = blocks.saturating_sub(1),
            TokenKind::Newline => (open, tokens) = (vec![0], 0),
            TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace => open.push(0),
            TokenKind::Comma | TokenKind::Semi => {
                tokens -= open.last_mut().map_or(0, std::mem::take);
            }
            TokenKind::Lambda => tokens += 1,
            // Of these there may be many side by side: `"a" "b"` is one string.
            TokenKind::String | TokenKind::Comment | TokenKind::NonLogicalNewline => {}
            kind => {
                if matches!(kind, TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace)
                    && open.len() > 1
                {
                    tokens -= open.pop().unwrap_or_default();
                }
                tokens += 1;
                *open.last_mut().unwrap_or(&mut 0) += 1;
            }
        }
        if blocks > BLOCKS || open.len() > BRACKETS + 1 || tokens > TOKENS {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parses(source: &str) -> bool {
        parse(source, Parsed::has_valid_syntax).unwrap_or(false)
    }

    #[test]
    fn what_nests_as_deep_as_python_takes_it_is_parsed() {
        let chain = TOKENS / 2 - 2;
        let blocks: String = (0..100).map(|at| " ".repeat(at) + "if a:\n").collect();
        for (open, times, close) in [
            ("(", 200, ")"),
            ("{1: [", 100, "]}"),
            ("f(", 200, ")"),
            ("- ", TOKENS - 3, ""),
            ("not ", TOKENS - 3, ""),
            ("a if b else ", TOKENS / 4 - 1, ""),
            ("a ** ", chain, ""),
            ("a.", chain, ""),
            ("a + ", chain, ""),
            ("lambda a, b: ", TOKENS / 4 - 1, ""),
        ] {
            let source = format!("x = {}a{}\n", open.repeat(times), close.repeat(times));
            assert!(parses(&source), "{times} times {open:?}");
        }
        assert!(parses(&format!("{blocks}{}a\n", " ".repeat(100))));
    }

    #[test]
    fn what_python_refuses_is_refused_and_no_stack_runs_out() {
        for (open, close) in [
            ("(", ")"),
            ("{1: [", "]}"),
            ("f(", ")"),
            ("- ", ""),
            ("not ", ""),
            ("a if b else ", ""),
            ("a ** ", ""),
            ("a.", ""),
            ("a(b,)", ""),
            ("lambda a, b: ", ""),
            ("[lambda a, b: ", "]"),
            ("f'{a:{", "}}'"),
        ] {
            let times = 100_000;
            let source = format!("x = {}a{}\n", open.repeat(times), close.repeat(times));
            assert!(!parses(&source), "{open:?}");
            // The closing half may be missing.
            assert!(!parses(&format!("x = {}", open.repeat(times))), "{open:?}");
        }
        let blocks: String = (0..1_000).map(|at| " ".repeat(at) + "if a:\n").collect();
        assert!(!parses(&format!("{blocks}{}a\n", " ".repeat(1_000))));
    }

    #[test]
    fn long_tables_do_not_nest() {
        let rows = "    (-1, 'a', f(x.y)),\n".repeat(100_000);
        assert!(parses(&format!("x = [\n{rows}]\n")));
        let words = "    'a'\n".repeat(100_000);
        assert!(parses(&format!("x = (\n{words})\n")));
        assert!(parses(&"a = b.c(d); ".repeat(10_000)));
    }
}
