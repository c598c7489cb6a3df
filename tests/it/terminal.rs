//! What a person sees on a terminal, of 80 and 200 columns.

use regex::Captures;

use crate::support::prelude::*;
use crate::support::screen::{Screen, shown};

const WIDTHS: [usize; 2] = [80, 200];

/// A directory with the artifacts of the sample and its packages.
fn made() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let mut pipeline = std::process::Command::new(ROCWHEEL);
    pipeline.env_clear().current_dir(place.path());
    succeed(pipeline.args(["pipeline", "--sample", "--output-dir", "out"]));
    place
}

/// Runs a command in a directory, which is shown as `/home/me`. Sizes, times and rates are the same in
/// every run.
fn run(columns: usize, place: &Path, line: &str) -> (i32, Screen) {
    let real = fs_err::canonicalize(place).unwrap();
    let sizes = Regex::new(r"\d+(\.\d\d)? ([KMG]i)?B\b").unwrap();
    let times = Regex::new(r"in \d+(\.\d)? s").unwrap();
    let rates = Regex::new(r" \([^()]*B/s\)").unwrap();
    shown((columns, place), line, |said| {
        let mut said = said.to_owned();
        for path in [place, &real] {
            said = said.replace(path.to_str().unwrap(), "/home/me");
        }
        // Of the same length, because a bar is cut to the width of the terminal.
        let said = sizes.replace_all(&said, |it: &Captures<'_>| {
            it[0].replace(|c: char| c.is_ascii_digit(), "9")
        });
        let said = times.replace_all(&said, "in 0.1 s");
        rates.replace_all(&said, "").into_owned()
    })
}

/// The last screens of a command at each width. Every bar fits into one line, and at least one was
/// shown.
fn screens(place: &Path, line: &str, wants: i32) -> String {
    let mut all = String::new();
    for columns in WIDTHS {
        // Each width has an output directory of its own.
        let line = line.replace("OUT", &format!("out{columns}"));
        let (code, screen) = run(columns, place, &line);
        assert_eq!(code, wants, "{}", screen.text());
        let bars = screen.erased.iter().filter(|it| it.contains('%'));
        for bar in bars {
            // A terminal wraps what is longer, and the next line then begins with its rest.
            assert!(bar.chars().count() <= columns, "{bar}");
            assert!(bar.contains("ing "), "a wrapped bar: {bar}");
        }
        all.extend([format!("--- {columns}\n"), screen.text(), "\n".to_owned()]);
    }
    all
}

#[test]
#[ignore = "slow"]
fn a_build_fits_every_terminal_and_says_what_comes_next() {
    let place = made();
    let line = "build --artifact-dir out/artifacts --dest-dir OUT";
    insta::assert_snapshot!(screens(place.path(), line, 0));
}

#[test]
#[ignore = "slow"]
fn a_fetch_prints_no_archive_twice() {
    let place = made();
    sample().write_archives(&place.path().join("archives"));
    let line = "fetch --input-dir archives --run-id 1 --bucket some-bucket --output-dir OUT";
    insta::assert_snapshot!(screens(place.path(), line, 0));
}

#[test]
#[ignore = "slow"]
fn a_check_ends_with_a_table_of_rules() {
    let place = made();
    let core = "out/packages/dist/rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl";
    fs_err::remove_file(place.path().join(core)).unwrap();
    insta::assert_snapshot!(screens(place.path(), "check out/packages", 1));
}

#[test]
#[ignore = "slow"]
fn a_build_shows_one_bar_with_its_parts() {
    let place = made();
    let line = "build --artifact-dir out/artifacts --dest-dir packages";
    let (_, screen) = run(80, place.path(), line);
    let mut bars = screen.erased.iter().filter(|it| it.contains("Packing"));
    assert!(bars.any(|it| it.contains("/7] ")), "{:?}", screen.erased);
}

/// The picture in the README. `ROCWHEEL_BLESS=1` draws it again.
#[test]
fn the_picture_of_the_readme_shows_what_the_sample_prints() {
    let place = tempfile::tempdir().unwrap();
    let line = "pipeline --sample --output-dir out";
    let real = fs_err::canonicalize(place.path()).unwrap();
    let times = Regex::new(r"in \d+(\.\d)? s").unwrap();
    let (code, screen) = shown((110, place.path()), line, |said| {
        let said = said.replace(real.to_str().unwrap(), "/home/me");
        times.replace_all(&said, "in 0.1 s").into_owned()
    });
    assert_eq!(code, 0, "{}", screen.text());
    let picture = screen.picture(&format!("rocwheel {line}"), "uv:");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images/sample.svg");
    if std::env::var_os("ROCWHEEL_BLESS").is_some() {
        fs_err::write(&file, &picture).unwrap();
    }
    let drawn = fs_err::read_to_string(&file).unwrap_or_default();
    let advice = "draw it again: ROCWHEEL_BLESS=1 cargo test --test it terminal::";
    assert!(drawn == picture, "{advice}");
}
