//! A module uses only what lies above it, and few reach out of the process: in the sources themselves, and in
//! small ones that break each rule.

mod world;

use std::{collections::BTreeMap, rc::Rc, sync::LazyLock};

use regex::Regex;

/// One source file: its tokens, and the paths that it names.
struct Source<'a> {
    file: &'a str,
    /// `elf/plan` for `src/elf/plan.rs`, nothing for `src/lib.rs`.
    module: String,
    tokens: Vec<Token<'a>>,
    paths: Vec<Path<'a>>,
}

/// A token; `::` is one, and a literal is an empty text.
struct Token<'a> {
    text: &'a str,
    line: usize,
    /// Whether it is compiled for tests only.
    is_test: bool,
    /// The module it stands in, such as `elf/plan/tests`.
    module: Rc<str>,
}

/// A path with at least one `::`, or a branch of a `use` tree: `["std", "fs", "File"]`.
struct Path<'a> {
    segments: Vec<&'a str>,
    line: usize,
    is_test: bool,
    module: Rc<str>,
}

#[test]
fn the_sources_keep_the_layers_and_reach_out_where_they_may() {
    let mut files = BTreeMap::new();
    for entry in walkdir::WalkDir::new("src") {
        let path = entry.unwrap().into_path();
        if path.extension().is_some_and(|it| it == "rs") {
            let text = fs_err::read_to_string(&path).unwrap();
            files.insert(path.into_os_string().into_string().unwrap(), text);
        }
    }
    assert!(files.len() > 20, "{} sources were found", files.len());
    let found = violations(&files);
    assert_eq!(found, "", "the rules of docs/architecture.md are broken");
}

/// What is wrong, in the order of the files.
fn violations(files: &BTreeMap<String, String>) -> String {
    let sources: Vec<Source> = files.iter().map(|(file, text)| read(file, text)).collect();
    let mut found = layers(&files["src/lib.rs"], &sources);
    found.extend(world::world(&sources));
    found.sort();
    found.dedup();
    found.concat()
}

impl Source<'_> {
    fn violation(&self, line: usize, what: &str, advice: &str) -> String {
        format!("{}:{line}: {what}\n    {advice}\n", self.file)
    }
}

fn read<'a>(file: &'a str, text: &'a str) -> Source<'a> {
    let module = file.trim_start_matches("src/").trim_end_matches(".rs");
    let module = ["/mod", "lib", "main"]
        .iter()
        .find_map(|end| module.strip_suffix(end))
        .unwrap_or(module);
    let tokens = tokens(module, text);
    Source {
        file,
        module: module.to_owned(),
        paths: paths(&tokens),
        tokens,
    }
}

/// Every token of a file, without comments.
fn tokens<'a>(file: &str, text: &'a str) -> Vec<Token<'a>> {
    static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r#"(?xs) //[^\n]* | /\*.*?\*/ | \s+
            | b?r\#\#".*?"\#\# | b?r\#".*?"\# | b?r".*?" | b?"(?:[^"\\]|\\.)*" | b?'(?:[^'\\]|\\[^']+|\\')'
            | :: | (?:r\#)?\w+ | ."#,
        )
        .unwrap()
    });
    static TEST: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\[cfg\((?:test|all\(test\b[^\]]*)\)\]").unwrap());
    let mut tokens: Vec<Token> = Vec::new();
    let (mut line, mut counted, mut depth) = (1, 0, 0);
    // At which depth of brackets an item for tests began, and modules with what they stand in.
    let mut tests_from: Option<usize> = None;
    let mut modules: Vec<(usize, Rc<str>)> = vec![(0, file.into())];
    for found in TOKEN.find_iter(text) {
        let at = found.start();
        let is_comment = found.as_str().starts_with("//") || found.as_str().starts_with("/*");
        if is_comment || found.as_str().trim_start().is_empty() {
            continue;
        }
        let is_literal = found.len() > 1 && found.as_str().ends_with(['"', '\'', '#']);
        let token = if is_literal { "" } else { found.as_str() };
        line += text[counted..at].matches('\n').count();
        counted = at;
        let mut before = tokens.iter().rev().map(|it| it.text);
        let (last, last_but_one) = (before.next(), before.next());
        match token {
            "[" if last == Some("#") && TEST.is_match(&text[at..]) => {
                tests_from = tests_from.or(Some(depth));
            }
            "{" if last_but_one == Some("mod") => {
                let name = format!("{}/{}", modules[modules.len() - 1].1, last.unwrap());
                modules.push((depth, name.into()));
            }
            _ => {}
        }
        tokens.push(Token {
            text: token,
            line,
            is_test: tests_from.is_some(),
            module: Rc::clone(&modules[modules.len() - 1].1),
        });
        match token {
            "{" | "[" | "(" => depth += 1,
            "}" | "]" | ")" => depth -= 1,
            _ => {}
        }
        if token == "}" && modules.len() > 1 && modules[modules.len() - 1].0 == depth {
            modules.pop();
        }
        if matches!(token, "}" | ";") && tests_from == Some(depth) {
            tests_from = None;
        }
    }
    tokens
}

/// Every path in the tokens, each branch of a tree on its own.
fn paths<'a>(tokens: &[Token<'a>]) -> Vec<Path<'a>> {
    let (mut paths, mut at) = (Vec::new(), 0);
    while at + 1 < tokens.len() {
        let is_path = is_name(tokens[at].text) && tokens[at + 1].text == "::";
        at = if is_path {
            branch(tokens, at, &[], &mut paths)
        } else {
            at + 1
        };
    }
    paths
}

/// Reads one path, with all its branches, and says where it ends.
fn branch<'a>(
    tokens: &[Token<'a>],
    start: usize,
    before: &[&'a str],
    paths: &mut Vec<Path<'a>>,
) -> usize {
    let (mut segments, mut at) = (before.to_vec(), start);
    while let Some(token) = tokens.get(at) {
        match token.text {
            "{" => return tree(tokens, at + 1, &segments, paths),
            name if is_name(name) || name == "*" => segments.push(name),
            // What follows is the argument of a generic.
            _ => break,
        }
        at += 1;
        if tokens.get(at).is_none_or(|next| next.text != "::") {
            break;
        }
        at += 1;
    }
    let Token {
        line,
        is_test,
        ref module,
        ..
    } = tokens[start];
    paths.push(Path {
        segments,
        line,
        is_test,
        module: Rc::clone(module),
    });
    at.max(start + 1)
}

/// The branches between braces, each behind what stands before them.
fn tree<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    before: &[&'a str],
    paths: &mut Vec<Path<'a>>,
) -> usize {
    while let Some(token) = tokens.get(at) {
        at = match token.text {
            "}" => return at + 1,
            name if is_name(name) || name == "*" => {
                let end = branch(tokens, at, before, paths);
                let is_renamed = tokens.get(end).is_some_and(|next| next.text == "as");
                if is_renamed { end + 2 } else { end }
            }
            _ => at + 1,
        };
    }
    at
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_') && text != "as"
}

impl Path<'_> {
    /// The room that the path leads to, when it leads into the crate.
    fn room(&self) -> Option<&str> {
        let mut base: Vec<&str> = match *self.segments.first()? {
            "crate" | "rocwheel" => Vec::new(),
            "self" | "super" => self.module.split('/').filter(|it| !it.is_empty()).collect(),
            _ => return None,
        };
        for segment in &self.segments {
            match *segment {
                "crate" | "rocwheel" | "self" => {}
                "super" => drop(base.pop()),
                name => base.push(name),
            }
        }
        base.first().copied()
    }
}

/// A module uses only the paragraphs of `src/lib.rs` above its own.
fn layers(lib: &str, files: &[Source]) -> Vec<String> {
    let (mut paragraphs, mut paragraph) = (BTreeMap::new(), 0);
    for line in lib.lines() {
        let declared = line.trim_start_matches("pub ").strip_prefix("mod ");
        if let Some(room) = declared.and_then(|rest| rest.strip_suffix(';')) {
            paragraphs.insert(room, paragraph);
        } else if line.trim().is_empty() {
            paragraph += 1;
        }
    }
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !file.module.is_empty()) {
        let own = file.module.split('/').next().unwrap();
        let Some(layer) = paragraphs.get(own) else {
            let what = format!("`{own}` is not declared in src/lib.rs");
            found.push(file.violation(1, &what, "declare it in the paragraph of its layer"));
            continue;
        };
        for path in &file.paths {
            if path.segments.starts_with(&["super", "super"]) {
                let advice = "write the path from `crate::`, so that its layer can be seen";
                found.push(file.violation(path.line, "uses `super::super`", advice));
                continue;
            }
            let Some(used) = path.room().filter(|used| *used != own) else {
                continue;
            };
            let (what, advice) = match paragraphs.get(used) {
                Some(other) if other < layer => continue,
                Some(other) if other == layer => (
                    format!("`{own}` uses its sibling `{used}`"),
                    "hand the value in, or move what both need to a paragraph above them",
                ),
                Some(_) => (
                    format!("`{own}` uses `{used}`, which src/lib.rs declares below it"),
                    "hand the value in, or move the code to the layer that needs it",
                ),
                None => (
                    format!("`{own}` uses `crate::{used}`, which src/lib.rs does not declare"),
                    "name the module that holds it",
                ),
            };
            found.push(file.violation(path.line, &what, advice));
        }
        // It would hide what is used.
        for pair in file.tokens.windows(2) {
            if pair[0].text == "crate" && pair[1].text == "as" {
                let what = "renames the root of the crate";
                found.push(file.violation(pair[0].line, what, "name the module that is used"));
            }
        }
    }
    found
}

/// What is wrong in a small house once these files stand in it.
fn planted(files: &[(&str, &str)]) -> String {
    let map = "//! The map.\n\npub mod error;\n\npub mod glob;\npub mod parallel;\npub mod target;\n\n\
               pub mod elf;\npub mod wheel;\n\npub mod artifact;\n\npub mod package;\n\n\
               pub mod console;\npub mod store;\n\npub mod commands;\n";
    let mut house = BTreeMap::from([("src/lib.rs".to_owned(), map.to_owned())]);
    for (file, text) in files {
        house.insert((*file).to_owned(), format!("//! Planted.\n{text}"));
    }
    violations(&house)
}

#[test]
fn a_house_with_allowed_paths_has_no_violations() {
    let found = planted(&[
        ("src/main.rs", "fn main() { rocwheel::commands::main() }"),
        ("src/error.rs", "pub struct Error;"),
        ("src/elf/mod.rs", "mod plan; mod read; pub use self::read::Facts;"),
        ("src/elf/read.rs", "use crate::error::Error; pub struct Facts;"),
        (
            "src/elf/plan.rs",
            "use super::{Facts, read::open}; use crate::{error::{self, Error}, glob as pattern};
             // use crate::package::x; println!(\"x\")
             const WORDS: &str = \"std::fs::read crate::commands\";
             #[cfg(test)] mod tests { use super::*; fn f() { std::env::var(\"X\"); fs_err::read(x) } }",
        ),
        (
            "src/artifact/tree.rs",
            "use fs_err as fs; fn f() { fs::read(x) }",
        ),
        (
            "src/parallel/crew.rs",
            "use std::thread; fn f() { thread::scope(|s| ()) }",
        ),
        ("src/store/local/listing.rs", "use fs_err::File;"),
        ("src/console/mod.rs", "#[cfg(test)] pub(crate) mod captured; fn f() { println!() }"),
        ("src/console/captured.rs", "use fs_err::File;"),
        (
            "src/commands/args.rs",
            "use std::env; use crate::{console::Console, package::{plan, build}};
             fn f() { std::thread::available_parallelism(); command.stdout(x); }
             #[arg(env = \"X\")] const X: &str = env!(\"X\");",
        ),
    ]);
    assert_eq!(found, "");
}

#[test]
fn a_module_does_not_use_what_lies_below_it() {
    insta::assert_snapshot!(planted(&[(
        "src/elf/plan.rs",
        "use crate::{
             error::Error,
             package::{
                 plan::Plan,
                 catalog,
             },
         };
         pub(crate) use crate::commands;
         fn f() -> crate::artifact::Tree { crate::store::open::<crate::console::Console>() }",
    )]), @r"
    src/elf/plan.rs:10: `elf` uses `artifact`, which src/lib.rs declares below it
        hand the value in, or move the code to the layer that needs it
    src/elf/plan.rs:10: `elf` uses `console`, which src/lib.rs declares below it
        hand the value in, or move the code to the layer that needs it
    src/elf/plan.rs:10: `elf` uses `store`, which src/lib.rs declares below it
        hand the value in, or move the code to the layer that needs it
    src/elf/plan.rs:5: `elf` uses `package`, which src/lib.rs declares below it
        hand the value in, or move the code to the layer that needs it
    src/elf/plan.rs:6: `elf` uses `package`, which src/lib.rs declares below it
        hand the value in, or move the code to the layer that needs it
    src/elf/plan.rs:9: `elf` uses `commands`, which src/lib.rs declares below it
        hand the value in, or move the code to the layer that needs it
    ");
}

#[test]
fn siblings_do_not_use_each_other() {
    insta::assert_snapshot!(planted(&[
        ("src/elf/mod.rs", "use super::wheel::Record;"),
        ("src/glob.rs", "use super::{error, target::Target};"),
        ("src/wheel.rs", "#[cfg(test)] mod tests { use crate::elf::write; use super::elf; }"),
    ]), @r"
    src/elf/mod.rs:2: `elf` uses its sibling `wheel`
        hand the value in, or move what both need to a paragraph above them
    src/glob.rs:2: `glob` uses its sibling `target`
        hand the value in, or move what both need to a paragraph above them
    src/wheel.rs:2: `wheel` uses its sibling `elf`
        hand the value in, or move what both need to a paragraph above them
    ");
}

#[test]
fn the_root_is_named_and_its_modules_are_declared() {
    insta::assert_snapshot!(planted(&[
        ("src/orphan.rs", ""),
        ("src/elf/a.rs", "use crate as root;\nuse crate::nowhere::x;\nuse crate::*;"),
        ("src/elf/b.rs", "fn f() { super::super::package::plan() }"),
    ]), @r"
    src/elf/a.rs:2: renames the root of the crate
        name the module that is used
    src/elf/a.rs:3: `elf` uses `crate::nowhere`, which src/lib.rs does not declare
        name the module that holds it
    src/elf/a.rs:4: `elf` uses `crate::*`, which src/lib.rs does not declare
        name the module that holds it
    src/elf/b.rs:2: uses `super::super`
        write the path from `crate::`, so that its layer can be seen
    src/orphan.rs:1: `orphan` is not declared in src/lib.rs
        declare it in the paragraph of its layer
    ");
}

#[test]
fn few_touch_the_disk() {
    insta::assert_snapshot!(planted(&[
        ("src/elf/a.rs", "use fs_err as fs;\nuse std::{fs, io};"),
        ("src/artifact/name.rs", "fn f() { fs_err::read(\"x\") }"),
        ("src/store/s3.rs", "use std::fs::File;\nfn f() { File::open(\"x\") }"),
        ("src/console/x.rs", "fn f() { OpenOptions::new(); path.symlink_metadata() }"),
    ]), @r"
    src/artifact/name.rs:2: touches the disk with `fs_err::read`
        take the value as an argument, or see who may in architecture/world.rs
    src/console/x.rs:2: touches the disk with `OpenOptions::new`
        take the value as an argument, or see who may in architecture/world.rs
    src/console/x.rs:2: touches the disk with `symlink_metadata`
        take the value as an argument, or see who may in architecture/world.rs
    src/elf/a.rs:2: touches the disk with `fs_err`
        take the value as an argument, or see who may in architecture/world.rs
    src/elf/a.rs:3: touches the disk with `std::fs`
        take the value as an argument, or see who may in architecture/world.rs
    src/store/s3.rs:2: touches the disk with `std::fs::File`
        take the value as an argument, or see who may in architecture/world.rs
    src/store/s3.rs:3: touches the disk with `File::open`
        take the value as an argument, or see who may in architecture/world.rs
    ");
}

#[test]
fn few_touch_the_network_and_tests_neither() {
    insta::assert_snapshot!(planted(&[
        ("src/store/s3.rs", "use aws_sdk_s3::Client; use reqwest::Url;"),
        ("src/store/local.rs", "use aws_sdk_s3::Client;\nuse tokio::{io, net};"),
        ("src/glob.rs", "use std::net::{Ipv4Addr, TcpStream};"),
        ("src/commands/fetch.rs", "use reqwest;\n#[cfg(test)] mod tests { use std::net::TcpListener; }"),
    ]), @r"
    src/commands/fetch.rs:2: touches the network with `reqwest`
        take the value as an argument, or see who may in architecture/world.rs
    src/commands/fetch.rs:3: touches the network with `std::net::TcpListener`
        take the value as an argument, or see who may in architecture/world.rs
    src/glob.rs:2: touches the network with `std::net::TcpStream`
        take the value as an argument, or see who may in architecture/world.rs
    src/store/local.rs:2: touches the network with `aws_sdk_s3::Client`
        take the value as an argument, or see who may in architecture/world.rs
    src/store/local.rs:3: touches the network with `tokio::net`
        take the value as an argument, or see who may in architecture/world.rs
    ");
}

#[test]
fn only_the_console_prints() {
    insta::assert_snapshot!(planted(&[
        ("src/console/mod.rs", "fn f() { eprintln!() }"),
        ("src/commands/build.rs", "fn f() { println!(\"x\"); print!(\"y\"); io::stdout().lock() }"),
        ("src/elf/a.rs", "use std::io::{stderr};\nfn f() { dbg!(stderr()); x != y }"),
    ]), @r"
    src/commands/build.rs:2: prints with `io::stdout`
        take the value as an argument, or see who may in architecture/world.rs
    src/commands/build.rs:2: prints with `print`
        take the value as an argument, or see who may in architecture/world.rs
    src/commands/build.rs:2: prints with `println`
        take the value as an argument, or see who may in architecture/world.rs
    src/elf/a.rs:2: prints with `std::io::stderr`
        take the value as an argument, or see who may in architecture/world.rs
    src/elf/a.rs:3: prints with `dbg`
        take the value as an argument, or see who may in architecture/world.rs
    src/elf/a.rs:3: prints with `stderr`
        take the value as an argument, or see who may in architecture/world.rs
    ");
}

#[test]
fn few_read_the_environment() {
    insta::assert_snapshot!(planted(&[
        ("src/console/settings.rs", "fn f() { std::env::var(\"NO_COLOR\") }"),
        ("src/commands/build.rs", "use std::env;\nfn f() { env::var(\"X\") }"),
        ("src/elf/a.rs", "fn f() { std::env::current_dir(); std::env::consts::OS }"),
    ]), @r"
    src/commands/build.rs:2: reads the environment with `std::env`
        take the value as an argument, or see who may in architecture/world.rs
    src/commands/build.rs:3: reads the environment with `env::var`
        take the value as an argument, or see who may in architecture/world.rs
    src/elf/a.rs:2: reads the environment with `std::env::current_dir`
        take the value as an argument, or see who may in architecture/world.rs
    ");
}

#[test]
fn few_start_threads_or_look_at_the_machine() {
    insta::assert_snapshot!(planted(&[
        ("src/parallel/ordered.rs", "use std::thread;"),
        ("src/package/plan.rs", "use rayon::prelude::*;\nfn f() { std::thread::available_parallelism() }"),
        ("src/commands/build.rs", "use std::{sync::Arc, thread};\nfn f() { thread::spawn(g) }"),
        ("src/elf/a.rs", "use std::io::IsTerminal;\nfn f() { std::thread::sleep(x) }"),
    ]), @r"
    src/commands/build.rs:2: starts threads with `std::thread`
        take the value as an argument, or see who may in architecture/world.rs
    src/commands/build.rs:3: starts threads with `thread::spawn`
        take the value as an argument, or see who may in architecture/world.rs
    src/elf/a.rs:2: looks at the machine with `std::io::IsTerminal`
        take the value as an argument, or see who may in architecture/world.rs
    src/package/plan.rs:2: starts threads with `rayon::prelude::*`
        take the value as an argument, or see who may in architecture/world.rs
    src/package/plan.rs:3: looks at the machine with `std::thread::available_parallelism`
        take the value as an argument, or see who may in architecture/world.rs
    ");
}

#[test]
fn nothing_starts_or_ends_a_process() {
    insta::assert_snapshot!(planted(&[
        ("src/commands/build.rs", "use std::process::{Command, ExitCode};\nuse clap::Command;"),
        ("src/elf/launcher.rs", "fn f() { std::process::exit(1) }"),
    ]), @"
    src/commands/build.rs:2: starts or ends a process with `std::process::Command`
        take the value as an argument, or see who may in architecture/world.rs
    src/elf/launcher.rs:2: starts or ends a process with `std::process::exit`
        take the value as an argument, or see who may in architecture/world.rs
    ");
}
