//! Input that means harm, or makes no sense.

use super::{
    Bench,
    packages::{VERSION, wheel, wheels},
    rocwheel,
};

fn refused(arguments: &[&str], bench: &Bench) -> String {
    let outcome = rocwheel(arguments);
    assert_ne!(outcome.code, 0, "{}", outcome.stdout);
    assert_eq!(outcome.stdout, "");
    outcome.stderr.replace(bench.root.to_str().unwrap(), "ROOT")
}

#[test]
fn packages_that_cannot_be_indexed_are_named() {
    let bench = Bench::new();
    let root = bench.path("");
    let mut said = vec![refused(&["index", "--no-check", &bench.path("nowhere")], &bench)];
    said.push(refused(&["index", "--no-check", &root], &bench));
    let names = [
        "not-a-wheel.whl",
        "rocm_sdk_core-1.0-py3-none-any.whl",
        "a'b\"<c>-1.0.tar.gz",
        "rocm-x.tar.gz",
    ];
    for name in names {
        let path = bench.path(name);
        fs_err::write(&path, "damaged").unwrap();
        said.push(refused(&["index", "--no-check", &root], &bench));
        fs_err::remove_file(path).unwrap();
    }
    fs_err::write(bench.path("set.json"), "{").unwrap();
    wheels(&bench.root);
    said.push(refused(&["index", "--no-check", &root], &bench));
    fs_err::write(bench.path("set.json"), "\n<!doctype html>").unwrap();
    let page = refused(&["index", "--no-check", &root], &bench);
    assert_has!(page, "hint: open the address: a portal or a proxy has answered with a page");
    fs_err::write(bench.path("set.json"), "{").unwrap();
    said.push(refused(&["index", "--no-check", &bench.path("set.json")], &bench));
    insta::assert_snapshot!(said.concat(), @r#"
    error: no such directory: `ROOT/nowhere`

    hint: pass the directory that `rocwheel build` wrote to
    error: no wheel or sdist in `ROOT/`

    hint: pass the directory that `rocwheel build` wrote to
    error: failed to read `ROOT/not-a-wheel.whl`
      caused by: not the file name of a wheel: "not-a-wheel.whl"
      caused by: five to seven parts between hyphens expected, not 3
    error: failed to read `ROOT/rocm_sdk_core-1.0-py3-none-any.whl`
      caused by: failed to read METADATA
      caused by: not a wheel that can be read
      caused by: no end record: not a zip archive, or one that is cut off
    error: failed to read `ROOT/a'b"<c>-1.0.tar.gz`
      caused by: not the file name of an sdist: "a'b\"<c>-1.0.tar.gz"
      caused by: a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "a'b\"<c>"
    error: failed to read `ROOT/rocm-x.tar.gz`
      caused by: not the file name of an sdist: "rocm-x.tar.gz"
      caused by: not a PEP 440 version: "x"
      caused by: expected version to start with a number, but no leading ASCII digits were found
    error: failed to read `ROOT/set.json`
      caused by: failed to read the `schema` of a set
      caused by: EOF while parsing an object at line 1 column 1

    hint: remove it, so that it is written again
    error: failed to read `ROOT/set.json`
      caused by: failed to read the `schema` of a set
      caused by: EOF while parsing an object at line 1 column 1

    hint: remove it, so that it is written again
    "#);
    assert!(!bench.root.join("simple").exists());
}

#[test]
fn a_damaged_package_of_others_is_listed_by_its_name() {
    let bench = Bench::new();
    wheels(&bench.root);
    fs_err::write(bench.path("torch-2.9-py3-none-any.whl"), "damaged").unwrap();
    let outcome = bench.run("index --no-check .");
    insta::assert_snapshot!(outcome.stderr, @"
    warning: `./torch-2.9-py3-none-any.whl` is listed without its metadata, which cannot be read: failed to read METADATA: not a wheel that can be read: no end record: not a zip archive, or one that is cut off
         Indexed 4 files, 1 of them of others, 3.19 KiB, of 4 projects
    ");
    let page = bench.path("simple/torch/index.html");
    let page = fs_err::read_to_string(page).unwrap();
    assert_has!(page, "../../torch-2.9-py3-none-any.whl#sha256=");
    assert_lacks!(page, "data-core-metadata");
}

#[test]
fn an_upload_that_cannot_be_is_refused_in_words() {
    let bench = Bench::new();
    wheels(&bench.root);
    let (from, to) = (bench.path(""), bench.path("out"));
    let with = |more: &[&str]| {
        let common = ["upload", "--packages-dir", &from, "--platform", "linux"];
        refused(&[&common[..], more].concat(), &bench)
    };
    let here = ["--output-dir", &to, "--run-id", "42"];
    let here = |more: &[&'static str]| with(&[&here[..], more].concat());
    let said = [
        with(&["--multi-target", "--run-id", "42", "--endpoint-url", "host"]),
        here(&["--artifact-group", "../up"]),
        here(&["--artifact-group", "dist"]),
        here(&[]),
    ];
    insta::assert_snapshot!(said.concat(), @r#"
    error: invalid value 'host' for '--endpoint-url <URL>': not the address of a server such as `http://127.0.0.1:8333`, without a user or a query

    For more information, try '--help'.
    error: invalid value '../up' for '--artifact-group <GROUP>': expected letters, digits, `-`, `_` and `.`, beginning with a letter or a digit: "../up"

    For more information, try '--help'.
    error: invalid value 'dist' for '--artifact-group <GROUP>': the name of a part of every package set: "dist"

    For more information, try '--help'.
    error: neither a family nor another destination of the set was named

    hint: pass `--multi-target`, `--artifact-group`, `--to` or `--product`
    "#);
    assert!(!bench.root.join("out").exists());
}

#[test]
fn hidden_files_directories_and_strangers_are_not_published() {
    let bench = Bench::new();
    wheels(&bench.root);
    wheel(&bench.root.join("dist/.kpack_staging"), "scratch", "1.0", "");
    fs_err::write(bench.path("dist/.hidden-1.0.tar.gz"), "x").unwrap();
    fs_err::write(bench.path("dist/index.html"), "stale").unwrap();
    fs_err::write(bench.path("dist/rocm-1.0.tar.gz.sha256sum"), "x").unwrap();
    fs_err::create_dir(bench.path("dist/dir-1.0.tar.gz")).unwrap();
    bench.run("upload . --output-dir out --multi-target --no-check").ok();
    let dist = super::tree(&bench.root.join("out/local-linux/python/dist"));
    let wheels = ["rocm_sdk_core", "rocm_sdk_device_gfx942", "rocm_sdk_libraries"]
        .map(|name| format!("{name}-{VERSION}-py3-none-any.whl"));
    let expected = wheels.iter().flat_map(|name| [name.clone(), format!("{name}.metadata")]);
    let expected = std::iter::once("index.html".to_owned()).chain(expected);
    assert_eq!(dist, expected.collect::<Vec<String>>());
    let page = bench.path("out/local-linux/python/dist/index.html");
    assert_ne!(fs_err::read_to_string(page).unwrap(), "stale");
}

#[test]
fn a_summary_for_a_workflow_is_appended_within_its_limit() {
    const LIMIT: usize = 1000 * 1024;
    let bench = Bench::new();
    wheels(&bench.root);
    let (from, summary, output) = (bench.path(""), bench.path("summary"), bench.path("output"));
    let index = "https://bucket.s3.amazonaws.com/1-linux/python/simple/";
    let common = ["summary", "--packages-dir", &from, "--index-url", index];
    let whole = rocwheel(&common).ok();
    assert!(whole.contains(index) && !whole.contains("left out"));
    fs_err::write(&summary, "x".repeat(LIMIT - whole.len() - 200)).unwrap();
    let files = ["--step-summary", &summary, "--github-output", &output];
    rocwheel(&[&common[..], &files].concat()).ok();
    let text = fs_err::read_to_string(&summary).unwrap();
    assert!(text.len() <= LIMIT, "{}", text.len());
    assert_has!(text, "1 row left out here.", "**3 packages, 3.18 KiB**. [SHA256SUMS]");
    let outputs = fs_err::read_to_string(&output).unwrap();
    assert!(outputs.contains(&format!("\n{index}\n")));
    let refused = refused(&["summary", "--packages-dir", &from], &bench);
    insta::assert_snapshot!(refused, @r"
    error: no index in `ROOT/`

    hint: run `rocwheel index` on it, or pass `--index-url`
    ");
}
