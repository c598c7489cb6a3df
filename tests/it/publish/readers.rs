//! Older installers, other installers, and what each makes of a yank and of a family's index.

use super::{
    Bench, Outcome, downloads, install,
    install::published_in_memory,
    judge,
    packages::{VERSION, wheel, wheels, yank},
    pip, tree, uv,
};
use crate::support::prelude::*;

/// The first with the resolver of today, the last that used setuptools for everything, and the
/// first that took metadata from an index under its right name.
pub(crate) const PIPS: [&str; 3] = ["20.3.4", "22.3.1", "23.2.1"];

/// A Python that the oldest of them runs on.
pub(crate) fn old_python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let find = || judge("uv", &["python", "find", "--no-project", ">=3.8,<3.12"]);
        let mut found = find();
        if found.code != 0 {
            judge("uv", &["python", "install", "3.11"]).ok();
            found = find();
        }
        found.ok().trim().into()
    })
}

/// A pip of this version, which runs from its wheel.
pub(crate) fn old_pip(version: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let place = target.join(format!("pip-{version}"));
    let wheel = || {
        let entries = fs_err::read_dir(&place).ok()?;
        let mut paths = entries.map(|entry| entry.unwrap().path());
        paths.find(|path| path.extension() == Some("whl".as_ref()))
    };
    if wheel().is_none() {
        let wanted = format!("pip=={version}");
        let place = place.to_str().unwrap();
        let download = ["download", "--quiet", "--no-deps", "--dest", place, &wanted];
        judge("pip", &download).ok();
    }
    wheel().unwrap().join("pip")
}

fn run_pip(version: &str, bench: &Bench, source: &[&str], wanted: &str) -> Outcome {
    let place = bench.path("downloaded");
    let _ = fs_err::remove_dir_all(&place);
    let mut command = Command::new(old_python());
    command
        .env_clear()
        .env("HOME", env!("CARGO_TARGET_TMPDIR"))
        .arg(old_pip(version))
        .args(["download", "--isolated", "--no-cache-dir", "--quiet"])
        .args(["--disable-pip-version-check", "--dest", &place])
        .args(source)
        .arg(wanted);
    Outcome::of(command.output().unwrap())
}

#[test]
#[ignore = "slow"]
fn every_pip_reads_the_index_from_files_from_a_server_and_from_exact_keys() {
    let bench = Bench::new();
    wheels(&bench.root);
    let index = bench.run("index --no-check .").ok();
    let files = index.trim().strip_suffix("simple/").unwrap().to_owned();
    let directory = Server::start(Site::Directory(bench.root.clone()));
    let keys = Server::start(Site::Keys(published_in_memory(&bench)));
    let keys_base = format!("{}42-linux/python/", keys.url);
    for (number, version) in PIPS.into_iter().enumerate() {
        let bases = [&keys_base, &files, &directory.url].into_iter().enumerate();
        for (_, base) in bases.filter(|(at, _)| long::is_on() || (at + number) % 3 == 2) {
            let (index, page) = (format!("{base}simple/"), format!("{base}dist/index.html"));
            let sources = [&["--index-url", &index][..], &["--no-index", "--find-links", &page]];
            for source in &sources[..if number < 2 { long::rounds(1, 2) } else { 2 }] {
                run_pip(version, &bench, source, &install::wanted()).ok();
                let got = tree(bench.path("downloaded").as_ref());
                assert_eq!(got, install::EXPECTED, "{version} {source:?}");
            }
        }
    }
    // It is the newest of them that resolves without a wheel.
    let asked = keys.requests();
    assert!(asked.iter().any(|it| it.ends_with(".whl.metadata")));
}

#[test]
#[ignore = "slow"]
fn a_yanked_file_is_taken_only_by_its_own_version() {
    let bench = Bench::new();
    let dist = bench.root.join("dist");
    wheel(&dist, "rocm-sdk-core", "7.1", "");
    wheel(&dist, "rocm-sdk-core", "7.2", "");
    bench.run("index --no-check .").ok();
    yank(&bench.path("set.json"), "rocm_sdk_core-7.2-", "the <launcher> is broken");
    let index = bench.run("index --no-check .").ok();
    // What was withdrawn stays so.
    let again = bench.run("index --no-check .").done();
    assert_has!(again.stderr, "2 files, 1 of them yanked");
    let base = index.trim().strip_suffix("simple/").unwrap().to_owned();
    let (index, page) = (format!("{base}simple/"), format!("{base}dist/index.html"));
    let (to, target) = (bench.path("downloaded"), bench.path("nowhere"));
    let sources = [&["--index-url", &*index][..], &["--no-index", "--find-links", &page]];
    for source in sources {
        for (wanted, version) in [("rocm-sdk-core", "7.1"), ("rocm-sdk-core==7.2", "7.2")] {
            let pip = pip("download", &[&["--dest", &to], source, &[wanted]].concat());
            // Even a dry run leaves a lock there.
            let dry = [&["--dry-run", "--target", &target], source, &[wanted]].concat();
            let uv = uv("install", &dry);
            let old = run_pip("20.3.4", &bench, source, wanted);
            if version == "7.2" && source.contains(&"--find-links") {
                // uv would take it without being asked: it is not on that page.
                assert!(pip.code != 0 && uv.code != 0 && old.code != 0);
                continue;
            }
            let reason = "Reason for being yanked: the <launcher> is broken";
            assert_eq!(pip.stderr.contains(reason), version == "7.2");
            let chosen = format!("rocm-sdk-core=={version}\n");
            assert_has!(uv.stderr, &chosen);
            pip.ok();
            old.ok();
            let expected = format!("rocm_sdk_core-{version}-py3-none-any.whl");
            assert_eq!(tree(to.as_ref()), [expected], "{source:?}");
            fs_err::remove_dir_all(&to).unwrap();
        }
    }
}

#[test]
#[ignore = "slow"]
fn each_family_of_a_set_has_an_index_of_its_own() {
    let bench = Bench::new();
    let dist = bench.root.join("dist");
    wheel(&dist, "rocm-sdk-core", VERSION, "");
    for (family, name) in [("gfx94X-dcgpu", "gfx94x-dcgpu"), ("gfx110X-all", "gfx110x-all")] {
        let libraries = format!("rocm-sdk-libraries-{name}");
        wheel(&dist, &libraries, VERSION, "");
        let needs = format!("Requires-Dist: rocm-sdk-core\nRequires-Dist: {libraries}\n");
        wheel(&dist.join(family), "rocm", VERSION, &needs);
    }
    let index = bench.run("index --no-check .").ok();
    let run = "--run-id=42 --bucket=mine --platform=linux --multi-target --no-check";
    let uploaded = bench.run(&format!("upload . --output-dir out {run}")).ok();
    let lines: Vec<&str> = index.lines().collect();
    assert_eq!(lines.len(), 3, "{index}");
    assert_eq!(uploaded.lines().count(), 3, "{uploaded}");
    for base in [lines[0], uploaded.lines().next().unwrap()] {
        let base = base.strip_suffix("simple/").unwrap();
        for (family, other) in [("gfx94X-dcgpu", "gfx110x"), ("gfx110X-all", "gfx94x")] {
            let index = format!("{base}{family}/simple/");
            let page = format!("{base}dist/{family}.html");
            for source in [&["--index-url", &*index][..], &["--no-index", "--find-links", &page]] {
                let got = downloads(&bench, &[&["--pre", "rocm"], source].concat());
                assert_eq!(got.len(), 3, "{got:?}");
                assert!(!got.iter().any(|name| name.contains(other)), "{got:?}");
            }
        }
        let page = fs_err::read_to_string(bench.path("dist/index.html")).unwrap();
        assert_has!(page, "href=\"gfx94X-dcgpu.html\"");
    }
    // A family that is gone leaves no page behind.
    fs_err::remove_dir_all(dist.join("gfx110X-all")).unwrap();
    bench.run("index --no-check .").ok();
    assert!(!bench.root.join("gfx110X-all").exists());
    assert!(!bench.root.join("dist/gfx110X-all.html").exists());
}

/// Poetry reads the index of a server alone, and takes everything into account that the page says.
const PROJECT: &str = r#"
[project]
name = "user"
version = "1"
requires-python = ">=3.9,<4"
dependencies = ["rocm-sdk-device-gfx942 (==WANTED)"]

[[tool.poetry.source]]
name = "rocm"
url = "INDEX"
priority = "primary"
"#;

#[test]
#[ignore = "long"]
fn long_poetry_locks_from_an_index_that_knows_exact_keys_only() {
    let bench = Bench::new();
    wheels(&bench.root);
    let server = Server::start(Site::Keys(published_in_memory(&bench)));
    let index = format!("{}42-linux/python/simple/", server.url);
    let project = PROJECT.replace("WANTED", VERSION).replace("INDEX", &index);
    let user = bench.path("user");
    fs_err::create_dir(&user).unwrap();
    fs_err::write(format!("{user}/pyproject.toml"), project).unwrap();
    let settings = "[virtualenvs]\ncreate = false\n";
    fs_err::write(format!("{user}/poetry.toml"), settings).unwrap();
    let lock = "tool run --from poetry==2.5.1 poetry lock --no-interaction --directory";
    let lock: Vec<&str> = lock.split(' ').chain([&*user]).collect();
    judge("uv", &lock).ok();
    let lock = fs_err::read_to_string(bench.path("user/poetry.lock")).unwrap();
    for wheel in install::EXPECTED {
        let bytes = fs_err::read(bench.path(&format!("dist/{wheel}"))).unwrap();
        let sha256 = rocwheel_base::digest::Sha256::of(&bytes);
        let line = format!("{{file = \"{wheel}\", hash = \"sha256:{sha256}\"}}");
        assert!(lock.contains(&line), "{line}\n{lock}");
    }
    let asked = server.requests();
    assert!(!asked.iter().any(|path| path.strip_suffix(".whl").is_some()), "{asked:#?}");
}
