//! Few modules reach out of the process: in the sources themselves, and in small ones that break each rule.

mod world;

use crate::support::prelude::*;

const ASK: &str = "take the value as an argument, or see who may in architecture/world.rs";

/// One source file.
struct Source<'a> {
    file: &'a str,
    /// `place/sync` for `src/place/sync.rs`, `tables` for `crates/elf/src/tables.rs`.
    module: &'a str,
    /// Without comments and literals. A tree of a `use` is one path for each of its branches.
    code: String,
    /// The same without what is compiled for tests only.
    shipped: String,
}

#[test]
fn the_sources_reach_out_where_they_may() {
    let mut files = BTreeMap::new();
    let crates = fs_err::read_dir("crates").unwrap().map(|it| it.unwrap().path().join("src"));
    let places = crates.filter(|it| !it.starts_with("crates/test-files"));
    let places = places.chain([PathBuf::from("src")]);
    for entry in places.flat_map(walkdir::WalkDir::new) {
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
    let mut found = world(&sources);
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
    static TEXT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r#"(?xs) //[^\n]* | /\*.*?\*/ | b?r\#\#".*?"\#\# | b?r\#".*?"\# | \bb?r".*?"
            | b?"(?:[^"\\]|\\.)*" | b?'(?:[^'\\]|\\[^']+|\\')'"#,
        )
        .unwrap()
    });
    static USE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\buse\s+([^;()]+);").unwrap());
    let place = file.strip_prefix("crates/").and_then(|it| it.split_once('/'));
    let module = place.map_or(file, |(_, file)| file);
    let module = module.trim_start_matches("src/").trim_end_matches(".rs");
    let ends = ["/mod", "lib", "main"];
    let room = ends.iter().find_map(|end| module.strip_suffix(end));
    let module = room.unwrap_or(module);
    let lines = |text: &str| "\n".repeat(text.matches('\n').count());
    let code = TEXT.replace_all(text, |it: &regex::Captures| lines(&it[0]));
    let code = USE.replace_all(&code, |it: &regex::Captures| {
        let mut paths = String::new();
        expand("", &it[1], &mut paths);
        paths + &lines(&it[0])
    });
    let code = code.into_owned();
    Source { file, module, shipped: without_tests(&code), code }
}

/// Writes each path of a tree of a `use`: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(before: &str, tree: &str, paths: &mut String) {
    let tree = tree.trim();
    let Some((path, branches)) = tree.split_once('{') else {
        paths.extend(["use ", before, tree, ";"]);
        return;
    };
    let branches = &branches[..branches.rfind('}').unwrap()];
    let (mut depth, mut start) = (0, 0);
    for (at, character) in branches.char_indices().chain([(branches.len(), ',')]) {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !branches[start..at].trim().is_empty() {
                    expand(&format!("{before}{path}"), &branches[start..at], paths);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Blanks the items that are compiled for tests only.
fn without_tests(code: &str) -> String {
    static TEST: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]").unwrap());
    let (mut shipped, mut rest) = (String::new(), code);
    while let Some(found) = TEST.find(rest) {
        shipped += &rest[..found.start()];
        let mut depth = 0;
        let item = rest[found.end()..].char_indices().find(|(_, it)| {
            match it {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => depth -= 1,
                _ => {}
            }
            depth == 0 && matches!(it, '}' | ';')
        });
        let end = found.end() + item.unwrap().0 + 1;
        shipped += &"\n".repeat(rest[found.start()..end].matches('\n').count());
        rest = &rest[end..];
    }
    shipped + rest
}

/// Each match of a pattern, with its line.
fn matches<'a>(code: &'a str, pattern: &Regex) -> Vec<(usize, regex::Captures<'a>)> {
    let line = |at: usize| code[..at].matches('\n').count() + 1;
    let found = pattern.captures_iter(code);
    let lines = found.map(|it| (line(it.get(0).unwrap().start()), it));
    lines.collect()
}

/// Few may reach out of the process.
fn world(files: &[Source]) -> Vec<String> {
    let declared = Regex::new(r"\bmod (\w+);").unwrap();
    let is_in = |module: &str, place: &str| format!("{module}/").starts_with(&format!("{place}/"));
    // Modules in files of their own that are compiled for tests only.
    let modules = |file: &Source, code: &str| -> Vec<String> {
        let names = declared.captures_iter(code);
        let modules = names.map(|it| format!("{}/{}", file.module, &it[1]));
        modules.collect()
    };
    let tests = files.iter().flat_map(|file| {
        let shipped = modules(file, &file.shipped);
        let all = modules(file, &file.code).into_iter();
        all.filter(move |it| !shipped.contains(it))
    });
    let tests: Vec<String> = tests.collect();
    let mut found = Vec::new();
    for may in world::MAY {
        let how = Regex::new(&format!("(?m){}", may.how)).unwrap();
        let except = Regex::new(may.except).unwrap();
        for file in files {
            let is_test = tests.iter().any(|test| is_in(file.module, test));
            let is_excused = may.who.split(' ').any(|who| is_in(file.module, who));
            if is_excused || is_test && may.tests_too {
                continue;
            }
            let whole = [&file.code, &file.shipped];
            let code = whole[usize::from(may.tests_too)];
            let code = except.replace_all(code, "");
            for (line, way) in matches(&code, &how) {
                let way = way[0].trim_matches(|it: char| !it.is_alphanumeric() && it != '_');
                found.push(file.violation(line, &format!("{} with `{way}`", may.what), ASK));
            }
        }
    }
    found
}

/// What is wrong in a small house once these files stand in it.
fn planted(files: &[(&str, &str)]) -> String {
    let mut house = BTreeMap::new();
    for (file, text) in files {
        house.insert((*file).to_owned(), format!("//! Planted.\n{text}"));
    }
    let found = violations(&house);
    let found = found.lines().filter(|line| !line.starts_with("    "));
    found.collect::<Vec<_>>().join("\n")
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
        ("src/artifact/tree.rs", "use fs_err as fs; fn f() { fs::read(x) }"),
        ("src/parallel/crew.rs", "use std::thread; fn f() { thread::scope(|s| ()) }"),
        ("src/local/listing.rs", "use fs_err::File;"),
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
fn few_reach_out_of_the_process() {
    insta::assert_snapshot!(planted(&[
        ("src/elf/disk.rs", "use fs_err as fs;\nuse std::{fs, io};"),
        ("src/artifact/name.rs", "fn f() { fs_err::read(\"x\") }"),
        ("src/s3.rs", "use std::fs::File;\nfn f() { File::open(\"x\") }"),
        ("src/console/x.rs", "fn f() { OpenOptions::new(); path.symlink_metadata() }"),
        ("src/local.rs", "use aws_sdk_s3::Client;\nuse tokio::{io, net};"),
        ("src/glob.rs", "use std::net::{Ipv4Addr, TcpStream};"),
        ("src/commands/fetch.rs", "use reqwest;\n#[cfg(test)] mod tests { use std::net::TcpListener; }"),
        ("src/console/mod.rs", "fn f() { eprintln!() }"),
        (
            "src/commands/build.rs",
            "fn f() { println!(\"x\"); print!(\"y\"); io::stdout().lock() }
             use std::{env, sync::Arc, thread};\nfn f() { env::var(\"X\"); thread::spawn(g) }
             use std::process::{Command, ExitCode};\nuse clap::Command;",
        ),
        (
            "src/elf/a.rs",
            "use std::io::{stderr};\nfn f() { dbg!(stderr()); x != y }
             fn f() { std::env::current_dir(); std::env::consts::OS; std::process::exit(1) }
             use std::io::IsTerminal;\nfn f() { std::thread::sleep(x) }",
        ),
        ("src/parallel/pipeline.rs", "use std::thread;"),
        ("src/package/plan.rs", "use rayon::prelude::*;\nfn f() { std::thread::available_parallelism() }"),
    ]), @"
    src/artifact/name.rs:2: touches the disk with `fs_err`
    src/commands/build.rs:2: prints with `io::stdout`
    src/commands/build.rs:2: prints with `print`
    src/commands/build.rs:2: prints with `println`
    src/commands/build.rs:3: reads the environment with `std::env`
    src/commands/build.rs:3: starts threads with `std::thread`
    src/commands/build.rs:4: reads the environment with `env::var`
    src/commands/build.rs:4: starts threads with `thread::spawn`
    src/commands/build.rs:5: starts or ends a process with `process::Command`
    src/commands/fetch.rs:2: touches the network with `reqwest`
    src/commands/fetch.rs:3: touches the network with `TcpListener`
    src/commands/fetch.rs:3: touches the network with `std::net`
    src/console/x.rs:2: touches the disk with `OpenOptions::new`
    src/console/x.rs:2: touches the disk with `symlink_metadata`
    src/elf/a.rs:2: prints with `io::stderr`
    src/elf/a.rs:3: prints with `dbg`
    src/elf/a.rs:4: reads the environment with `std::env`
    src/elf/a.rs:4: starts or ends a process with `process::exit`
    src/elf/a.rs:5: looks at the machine with `IsTerminal`
    src/elf/disk.rs:2: touches the disk with `fs_err`
    src/elf/disk.rs:3: touches the disk with `std::fs`
    src/glob.rs:2: touches the network with `TcpStream`
    src/glob.rs:2: touches the network with `std::net`
    src/local.rs:2: touches the network with `aws_sdk_s3`
    src/local.rs:3: touches the network with `tokio::net`
    src/package/plan.rs:2: starts threads with `rayon`
    src/package/plan.rs:3: looks at the machine with `available_parallelism`
    src/s3.rs:2: touches the disk with `std::fs`
    src/s3.rs:3: touches the disk with `File::open`
    ");
}
