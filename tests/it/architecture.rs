//! The rules of the house hold in its sources, and each is seen to fail where it is broken.

mod house;
mod layers;
mod source;
mod world;

use std::{fmt::Write as _, path::Path};

use self::house::{House, Violation};

#[test]
fn the_house_keeps_its_rules() {
    let house = this_house();
    assert!(house.0.len() > 20, "{} sources were found", house.0.len());
    let found = render(&violations(&house));
    assert!(
        found.is_empty(),
        "the rules of docs/architecture.md are broken:\n{found}"
    );
}

/// What all rules find, in the order of the files.
fn violations(house: &House) -> Vec<Violation> {
    let files = house.read();
    let mut found = layers::layers(house, &files);
    found.extend(world::world(&files));
    found.sort();
    found.dedup();
    found
}

/// Every source of the crate and of its tests.
fn this_house() -> House {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut house = House::default();
    for top in [
        "src",
        "tests/it",
        "build.rs",
        "benches",
        "fuzz/fuzz_targets",
    ] {
        collect(root, &root.join(top), &mut house);
    }
    house
}

fn collect(root: &Path, path: &Path, house: &mut House) {
    if path.is_dir() {
        for entry in fs_err::read_dir(path).unwrap() {
            collect(root, &entry.unwrap().path(), house);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") && path.exists() {
        let file = path.strip_prefix(root).unwrap().to_str().unwrap();
        let text = fs_err::read_to_string(path).unwrap();
        house.0.insert(file.replace('\\', "/"), text);
    }
}

fn render(violations: &[Violation]) -> String {
    violations
        .iter()
        .fold(String::new(), |mut text, violation| {
            writeln!(text, "{violation}").unwrap();
            text
        })
}

/// What is wrong in a small house once these files stand in it.
fn planted(files: &[(&str, &str)]) -> String {
    let mut house = House::default();
    let map = "//! The map.\n\npub mod error;\n\npub mod glob;\npub mod target;\n\n\
               pub mod elf;\npub mod wheel;\n\npub mod artifact;\n\npub mod package;\n\n\
               pub mod console;\npub mod store;\n\npub mod commands;\n";
    house.0.insert("src/lib.rs".into(), map.into());
    for (file, text) in files {
        house
            .0
            .insert((*file).into(), format!("//! Planted.\n{text}"));
    }
    render(&violations(&house))
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
            "src/package/assemble/crew.rs",
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
    src/elf/plan.rs:5: `elf` uses `package`, which src/lib.rs declares below it
        hand the value in, or move the code to the layer that needs it
    src/elf/plan.rs:6: `elf` uses `package`, which src/lib.rs declares below it
        hand the value in, or move the code to the layer that needs it
    src/elf/plan.rs:9: `elf` uses `commands`, which src/lib.rs declares below it
        hand the value in, or move the code to the layer that needs it
    src/elf/plan.rs:10: `elf` uses `artifact`, which src/lib.rs declares below it
        hand the value in, or move the code to the layer that needs it
    src/elf/plan.rs:10: `elf` uses `console`, which src/lib.rs declares below it
        hand the value in, or move the code to the layer that needs it
    src/elf/plan.rs:10: `elf` uses `store`, which src/lib.rs declares below it
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
        ("src/package/assemble/pipeline.rs", "use std::thread;"),
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
