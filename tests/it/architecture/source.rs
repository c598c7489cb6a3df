//! One source file as the rules see it: tokens, without comments, that know where they stand.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// A token of a file, or one side of a bracket.
#[derive(Clone, Debug)]
pub(super) struct Token {
    /// `::` is one token; a literal is an empty text.
    pub(super) text: String,
    pub(super) line: usize,
    /// Whether it is compiled for tests only.
    pub(super) test: bool,
    /// The module it stands in: `["elf", "plan", "tests"]`.
    pub(super) module: Vec<String>,
}

/// A path with at least one `::`, or a branch of a `use` tree: `["std", "fs", "File"]`.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
    pub(super) test: bool,
    pub(super) module: Vec<String>,
}

impl Path {
    /// The path from the root of the crate, when it is one into the crate.
    pub(super) fn absolute(&self) -> Option<Vec<String>> {
        let mut base = match self.segments.first()?.as_str() {
            "crate" | "rocwheel" => Vec::new(),
            "self" | "super" => self.module.clone(),
            _ => return None,
        };
        for segment in &self.segments {
            match segment.as_str() {
                "crate" | "rocwheel" | "self" => {}
                "super" => {
                    base.pop();
                }
                name => base.push(name.to_owned()),
            }
        }
        Some(base)
    }

    /// Whether the names stand in it, one behind the other.
    pub(super) fn contains(&self, names: &[&str]) -> bool {
        self.segments
            .windows(names.len())
            .any(|window| window.iter().zip(names).all(|(own, name)| own == name))
    }
}

/// The modules that a file is: `["elf", "plan"]` for `src/elf/plan.rs`, none for `src/lib.rs`.
pub(super) fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_start_matches("src/").trim_end_matches(".rs");
    let mut module: Vec<String> = path.split('/').map(str::to_owned).collect();
    if matches!(
        module.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        module.pop();
    }
    module
}

/// Every token of a file.
pub(super) fn tokens(file: &str, text: &str) -> Vec<Token> {
    let stream: TokenStream = text
        .parse()
        .unwrap_or_else(|error| panic!("{file} is not made of Rust tokens: {error}"));
    let mut reader = Reader {
        tokens: Vec::new(),
        module: module_of(file),
        test: false,
    };
    reader.read(stream);
    reader.tokens
}

struct Reader {
    tokens: Vec<Token>,
    module: Vec<String>,
    test: bool,
}

impl Reader {
    fn read(&mut self, stream: TokenStream) {
        let outside = self.test;
        let mut name = None;
        let mut before = String::new();
        let mut trees = stream.into_iter().peekable();
        while let Some(tree) = trees.next() {
            let line = tree.span().start().line;
            let text = match &tree {
                TokenTree::Group(group) => {
                    if before == "#" && is_test_attribute(group) {
                        self.test = true;
                    }
                    let braces = group.delimiter() == Delimiter::Brace;
                    let module = if braces { name.take() } else { None };
                    self.group(group, module);
                    // The item behind `#[cfg(test)]` ends here.
                    if braces {
                        self.test = outside;
                    }
                    String::new()
                }
                TokenTree::Ident(ident) => {
                    let ident = ident.to_string();
                    if before == "mod" {
                        name = Some(ident.clone());
                    }
                    ident
                }
                TokenTree::Punct(punct) => {
                    let colons = punct.as_char() == ':'
                        && matches!(trees.peek(), Some(TokenTree::Punct(next)) if next.as_char() == ':');
                    if colons {
                        trees.next();
                        "::".to_owned()
                    } else {
                        punct.as_char().to_string()
                    }
                }
                TokenTree::Literal(_) => String::new(),
            };
            if !matches!(tree, TokenTree::Group(_)) {
                self.push(&text, line);
            }
            if text == ";" {
                (self.test, name) = (outside, None);
            }
            before = text;
        }
        self.test = outside;
    }

    fn group(&mut self, group: &Group, module: Option<String>) {
        let (open, close) = match group.delimiter() {
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::None => ("", ""),
        };
        let entered = module.is_some();
        self.push(open, group.span_open().start().line);
        self.module.extend(module);
        self.read(group.stream());
        if entered {
            self.module.pop();
        }
        self.push(close, group.span_close().start().line);
    }

    fn push(&mut self, text: &str, line: usize) {
        self.tokens.push(Token {
            text: text.to_owned(),
            line,
            test: self.test,
            module: self.module.clone(),
        });
    }
}

/// `cfg(test)` or `cfg(all(test, …))`, but not `cfg(not(test))`.
fn is_test_attribute(group: &Group) -> bool {
    let text = group.stream().to_string();
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    words.first() == Some(&"cfg")
        && words.contains(&"test")
        && !words.contains(&"not")
        && !words.contains(&"any")
}

/// Every path in the tokens, each branch of a tree on its own.
pub(super) fn paths(tokens: &[Token]) -> Vec<Path> {
    let mut paths = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let starts =
            is_name(&tokens[at].text) && tokens.get(at + 1).is_some_and(|next| next.text == "::");
        at = if starts {
            branch(tokens, at, &[], &mut paths)
        } else {
            at + 1
        };
    }
    paths
}

/// Reads one path, with all its branches, and says where it ends.
fn branch(tokens: &[Token], mut at: usize, before: &[String], paths: &mut Vec<Path>) -> usize {
    let mut segments = before.to_vec();
    let start = at;
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "{" => return tree(tokens, at + 1, &segments, paths),
            name if is_name(name) || name == "*" => segments.push(name.to_owned()),
            // What follows is the argument of a generic.
            _ => break,
        }
        at += 1;
        match tokens.get(at).map(|token| token.text.as_str()) {
            Some("::") => at += 1,
            _ => break,
        }
    }
    let token = &tokens[start];
    paths.push(Path {
        segments,
        line: token.line,
        test: token.test,
        module: token.module.clone(),
    });
    at.max(start + 1)
}

/// The branches between braces, each behind what stands before them.
fn tree(tokens: &[Token], mut at: usize, before: &[String], paths: &mut Vec<Path>) -> usize {
    while let Some(token) = tokens.get(at) {
        at = match token.text.as_str() {
            "}" => return at + 1,
            name if is_name(name) || name == "*" => {
                let end = branch(tokens, at, before, paths);
                let renamed = tokens.get(end).is_some_and(|next| next.text == "as");
                if renamed { end + 2 } else { end }
            }
            _ => at + 1,
        };
    }
    at
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_') && text != "as"
}
