//! Archives between AMD's `therock-tools` and us, in both directions.

use super::tree::{difference, tree};
use crate::support::prelude::*;

fn fileset_tool(t: &Sandbox, arguments: &[&str]) {
    let mut command = Command::new(tool("therock-fileset-tool"));
    succeed(command.args(arguments).current_dir(t.path("")));
}

/// The names of artifacts below a directory.
fn artifacts(root: &Path) -> Vec<String> {
    let entries = fs_err::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let directories = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        directories.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The artifacts of the sample, archived by the judge, are fetched, and become the same packages.
#[test]
#[ignore = "long"]
fn long_archives_of_therock_tools_become_the_same_packages() {
    let t = Sandbox::new();
    let unpacked = sample().artifacts();
    for (number, name) in artifacts(&unpacked).iter().enumerate() {
        let (kind, end) = [("zstd", "zst"), ("xz", "xz")][number % 2];
        let archive = format!("bucket/7-linux/{name}.tar.{end}");
        let artifact = unpacked.join(name);
        let hash = format!("{archive}.sha256sum");
        let options =
            ["--compression-type", kind, "--compression-level", "1", "--hash-file", &hash];
        fileset_tool(
            &t,
            &[&["artifact-archive", text(&artifact), "-o", &archive], &options[..]].concat(),
        );
    }
    t.run("fetch --run-id 7 --platform linux --input-dir bucket --output-dir out").done();
    for name in artifacts(&unpacked) {
        let [ours, theirs] = [&unpacked, &t.path("out")].map(|root| tree(&root.join(&name)));
        assert_eq!(difference(&ours, &theirs), [""; 0], "{name}");
    }
    t.run(&format!(
        "build --artifact-dir out --output-dir packages --version {}",
        published::VERSION
    ))
    .done();
    let mut built = contents(&t.path("packages/dist"));
    let mut expected = contents(&sample().dist());
    for files in [&mut built, &mut expected] {
        files.retain(|name, _| name.ends_with(".whl") || name.ends_with(".gz"));
    }
    assert_eq!(built.len(), sample().packages());
    assert!(built == expected);
}

/// The components of an install tree, as a descriptor says them.
#[test]
#[ignore = "long"]
fn long_artifacts_that_therock_tools_make_of_an_install_tree_are_that_tree() {
    const DESCRIPTOR: &str = "[components.lib.\"math-libs/rocRAND/stage\"]\n\
        [components.run.\"math-libs/rocRAND/stage\"]\ninclude = [\"bin/**\"]\n\
        [components.dev.\"math-libs/rocRAND/stage\"]\n";
    let t = Sandbox::new();
    let stage = "build/math-libs/rocRAND/stage";
    t.write(&format!("{stage}/lib/librocrand.so.1"), "library");
    t.write(&format!("{stage}/include/rocrand/rocrand.h"), "header");
    fs_err::create_dir_all(t.path(format!("{stage}/bin"))).unwrap();
    write_program(&t.path(format!("{stage}/bin/rand-bench")), "#!/bin/sh\n");
    std::os::unix::fs::symlink("librocrand.so.1", t.path(format!("{stage}/lib/librocrand.so")))
        .unwrap();
    t.write("artifact.toml", DESCRIPTOR);
    let names = ["lib", "run", "dev"].map(|it| (it, format!("rand_{it}_generic")));
    let mut line = vec!["artifact", "--root-dir", "build", "--descriptor", "artifact.toml"];
    line.extend(["--artifact-name", "rand"]);
    line.extend(names.iter().flat_map(|(component, name)| [*component, name]));
    fileset_tool(&t, &line);
    for (_, name) in &names {
        let archive = format!("bucket/7-linux/{name}.tar.zst");
        fileset_tool(&t, &["artifact-archive", name, "-o", &archive, "--compression-type", "zstd"]);
    }
    let fetch = "fetch --run-id 7 --platform linux --input-dir bucket --allow-incomplete";
    t.run(&format!("{fetch} --flatten --output-dir flat")).done();
    let mut flat = super::tree::seen(&t.path("flat"));
    flat.retain(|path, _| !path.starts_with('.'));
    assert_eq!(difference(&flat, &tree(&t.path(stage))), [""; 0]);
    t.run(&format!("{fetch} --output-dir out")).done();
    assert_eq!(
        artifacts(&t.path("out")),
        ["rand_dev_generic", "rand_lib_generic", "rand_run_generic"]
    );
}

/// The archives of the sample have for the judge what their directories have.
#[test]
#[ignore = "long"]
fn long_our_archives_are_read_by_therock_tools() {
    let t = Sandbox::new();
    sample().write_archives(&t.path("archives"));
    let unpacked = sample().artifacts();
    for (name, _) in sample().archives() {
        let archive = format!("archives/{name}");
        fileset_tool(&t, &["artifact-flatten", &archive, "-o", "by-archives"]);
        let stem = name.split_once(".tar.").unwrap().0;
        fileset_tool(&t, &["artifact-flatten", text(&unpacked.join(stem)), "-o", "by-directories"]);
    }
    let by_archives = tree(&t.path("by-archives"));
    assert!(by_archives.len() > 100, "{}", by_archives.len());
    let [files, expected] =
        ["by-archives", "by-directories"].map(|directory| contents(&t.path(directory)));
    assert!(files == expected);
}
