//! `deps`: what is picked from a registry, what of it is mirrored, and what installers make of that.

mod frozen;
mod hostile;
mod installers;
pub(crate) mod mirror;
pub(crate) mod registry;

use std::path::{Path, PathBuf};

use serde_json::json;

use self::registry::FakeRegistry;
use crate::support::{
    place::text,
    program::{Outcome, command},
};

const LINUX: &str = "manylinux_2_17_x86_64.manylinux2014_x86_64";
/// Older than the limit of age whenever the tests run, and younger.
const YOUNG: &str = "2999-01-01T00:00:00Z";

/// A directory with a `deps.toml`, and the registry that it is for.
pub(crate) struct Workplace {
    _place: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) registry: FakeRegistry,
}

impl Workplace {
    pub(crate) fn new(pythons: &str, platforms: &str, names: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("a b+c");
        fs_err::create_dir(&root).unwrap();
        let workplace = Self {
            _place: place,
            root,
            registry: FakeRegistry::start(),
        };
        let rows = names.iter().map(|name| {
            let (name, version) = name.split_once(' ').unwrap_or((name, ""));
            format!("[[dependency]]\nname = '{name}'\nversion = '{version}'\nreason = 'x'\n")
        });
        let rows: String = rows.collect();
        let wishes = format!("pythons = {pythons}\nplatforms = {platforms}\n{rows}");
        fs_err::write(workplace.root.join("deps.toml"), wishes).unwrap();
        workplace
    }

    pub(crate) fn deps(&self, arguments: &[&str]) -> Outcome {
        let mut deps = command();
        deps.env("ROCWHEEL_REGISTRY", &self.registry.url);
        deps.env("ROCWHEEL_DEPS_FILE", "deps.toml");
        deps.current_dir(&self.root).arg("deps").args(arguments);
        Outcome::of(deps.output().unwrap())
    }

    pub(crate) fn lock(&self) -> String {
        fs_err::read_to_string(self.root.join("deps.lock")).unwrap()
    }

    /// The names of the locked files.
    fn locked(&self) -> Vec<String> {
        let lock = self.lock();
        let names = lock.lines().filter_map(|it| it.strip_prefix("name = \""));
        names
            .map(|it| it.trim_end_matches('"').to_owned())
            .collect()
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// Code and stderr, without what differs between runs.
    fn shown(&self, outcome: &Outcome) -> String {
        let server = self.registry.url.trim_end_matches("simple/");
        let stderr = outcome.stderr.replace(server, "REGISTRY/");
        let stderr = stderr.replace(text(&self.root), "HERE");
        format!("exit {}\n{}{stderr}", outcome.code, outcome.stdout)
    }
}

fn none() -> serde_json::Value {
    json!({})
}

/// A registry in which each newer file is wrong for some reason.
fn tempting() -> Workplace {
    let workplace = Workplace::new(
        "['3.11', '3.12']",
        "['linux', 'windows']",
        &["numbers", "Pure_Package", "pin ==1.0"],
    );
    let it = &workplace.registry;
    it.wheel(
        "numbers",
        "1.0",
        "py3-none-any",
        "",
        json!({"requires-python": ">=3.9"}),
    );
    let needs = "Requires-Python: >=3.12\nRequires-Dist: helper>=1; python_version >= \"3.12\"\nRequires-Dist: docs; extra == \"docs\"\n\
                 Requires-Dist: winonly; sys_platform == \"win32\"\n";
    for tag in [
        &format!("cp312-cp312-{LINUX}"),
        "cp312-cp312-win_amd64",
        "cp312-cp312-macosx_11_0_arm64",
    ] {
        it.wheel(
            "numbers",
            "2.0",
            tag,
            needs,
            json!({"requires-python": ">=3.12"}),
        );
    }
    it.wheel(
        "numbers",
        "2.1",
        "cp312-cp312-musllinux_1_2_x86_64",
        "",
        none(),
    );
    it.wheel(
        "numbers",
        "2.2",
        "py3-none-any",
        "",
        json!({"yanked": "it is broken"}),
    );
    it.wheel("numbers", "2.3rc1", "py3-none-any", "", none());
    it.wheel(
        "numbers",
        "2.4",
        "py3-none-any",
        "",
        json!({"upload-time": YOUNG}),
    );
    it.file(
        "numbers",
        "numbers-2.5.tar.gz",
        b"an sdist".to_vec(),
        none(),
    );
    it.wheel(
        "pure-package",
        "10.0.post1",
        "py2.py3-none-any",
        "",
        json!({"core-metadata": true}),
    );
    it.wheel("pure-package", "9.0", "py3-none-any", "", none());
    it.wheel(
        "pin",
        "1.0",
        "py3-none-any",
        "",
        json!({"upload-time": YOUNG}),
    );
    it.wheel("pin", "2.0", "py3-none-any", "", none());
    it.wheel("helper", "1.5", "py3-none-any", "", none());
    it.wheel("winonly", "0.1", "py3-none-any", "", none());
    workplace
}

#[test]
fn every_python_gets_the_newest_version_that_fits_it() {
    let workplace = tempting();
    let refused = workplace.deps(&["update"]);
    assert!(!workplace.path("deps.lock").exists());
    let dry = workplace.deps(&[
        "update",
        "--allow",
        "helper",
        "--allow",
        "winonly",
        "--dry-run",
    ]);
    assert!(!workplace.path("deps.lock").exists());
    let done = workplace.deps(&["update", "--allow", "helper", "--allow", "winonly"]);
    assert_eq!(dry.stdout, done.stdout);
    insta::assert_snapshot!(workplace.shown(&refused) + &workplace.shown(&done), @r"
    exit 1
    note: held back: numbers 2.4 is younger than 72 h
    error: 2 requirements of the base index cannot be fulfilled
      caused by: `helper` is new, and `deps.toml` does not name it: numbers 2.0 needs it
      caused by: `winonly` is new, and `deps.toml` does not name it: numbers 2.0 needs it

    hint: name it in `deps.toml`, or pass `--allow helper` `--allow winonly`
    exit 0
    + helper 1.5  (1 file, 767 B; numbers 2.0)
    + numbers 1.0  (1 file, 780 B; deps.toml)
    + numbers 2.0  (2 files, 1.84 KiB; deps.toml)
    + pin 1.0  (1 file, 728 B; deps.toml)
    + pure-package 10.0.post1  (1 file, 915 B; deps.toml)
    + winonly 0.1  (1 file, 780 B; numbers 2.0)
    0 files unchanged; 7 files, 5.71 KiB in all
    note: held back: numbers 2.4 is younger than 72 h
    ");
    assert_eq!(
        workplace.locked(),
        [
            "helper-1.5-py3-none-any.whl",
            "numbers-1.0-py3-none-any.whl",
            &format!("numbers-2.0-cp312-cp312-{LINUX}.whl"),
            "numbers-2.0-cp312-cp312-win_amd64.whl",
            "pin-1.0-py3-none-any.whl",
            "pure_package-10.0.post1-py2.py3-none-any.whl",
            "winonly-0.1-py3-none-any.whl",
        ]
    );
    // What is locked once needs no permission again, and the same registry gives the same bytes.
    let lock = workplace.lock();
    let again = workplace.deps(&["update"]).ok();
    assert!(again.starts_with("7 files unchanged"), "{again}");
    assert_eq!(workplace.lock(), lock);
    workplace.deps(&["check"]).ok();
    let listed = workplace.deps(&["list"]).ok();
    assert!(
        listed.contains("numbers 2.0") && listed.contains("7 files, "),
        "{listed}"
    );
    let json = workplace.deps(&["list", "--format", "json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["files"].as_array().unwrap().len(), 7);
    assert_eq!(json["files"][3]["for"], json!(["3.12-windows"]));
}

/// The picks go back until all of them agree.
#[test]
fn a_version_that_another_project_refuses_is_not_picked() {
    let workplace = Workplace::new("['3.12']", "['linux']", &["app", "library"]);
    let it = &workplace.registry;
    it.wheel(
        "app",
        "2.0",
        "py3-none-any",
        "Requires-Dist: library[fast]<3\n",
        none(),
    );
    it.wheel(
        "library",
        "3.0",
        "py3-none-any",
        "Requires-Dist: gone\n",
        none(),
    );
    let fast = "Requires-Dist: speed; extra == 'fast'\n";
    it.wheel("library", "2.9", "py3-none-any", fast, none());
    it.wheel("speed", "1.0", "py3-none-any", "", none());
    workplace.deps(&["update", "--allow", "speed"]).ok();
    assert_eq!(
        workplace.locked(),
        [
            "app-2.0-py3-none-any.whl",
            "library-2.9-py3-none-any.whl",
            "speed-1.0-py3-none-any.whl"
        ]
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a line for each refusal")]
fn what_cannot_be_fulfilled_is_refused_with_the_reason() {
    let refused = |wish: &str, make: &dyn Fn(&FakeRegistry)| {
        let workplace = Workplace::new("['3.10', '3.12']", "['linux']", &[wish]);
        make(&workplace.registry);
        let outcome = workplace.deps(&["update"]);
        assert!(!workplace.path("deps.lock").exists(), "{}", outcome.stdout);
        format!("# {wish}\n{}", workplace.shown(&outcome))
    };
    let any = |it: &FakeRegistry, more| it.wheel("a", "1.0", "py3-none-any", more, none());
    let said = [
        refused("missing", &|_| ()),
        refused("a <1", &|it| any(it, "")),
        refused("a", &|it| {
            it.file("a", "a-1.0.tar.gz", b"x".to_vec(), none());
        }),
        refused("a", &|it| {
            it.wheel(
                "a",
                "1.0",
                "py3-none-any",
                "",
                json!({"requires-python": ">=3.11"}),
            );
        }),
        refused("a", &|it| {
            it.wheel("a", "1.0", "py3-none-any", "", json!({"yanked": true}));
        }),
        refused("a", &|it| {
            it.wheel(
                "a",
                "1.0",
                "py3-none-any",
                "",
                json!({"upload-time": YOUNG}),
            );
        }),
        refused("a", &|it| any(it, "Requires-Dist: rocm-sdk-core\n")),
        refused("a", &|it| any(it, "Requires-Dist: b @ https://h/b.whl\n")),
        refused("a", &|it| {
            any(it, "Requires-Dist: b; python_version ~ '3'\n");
        }),
        refused("a", &|it| {
            it.wheel(
                "a",
                "1.0",
                "py3-none-any",
                "",
                json!({"core-metadata": {"sha256": "0".repeat(64)}}),
            );
        }),
        refused("rocm-sdk-core", &|_| ()),
    ];
    insta::assert_snapshot!(said.concat(), @r#"
    # missing
    exit 1
    error: 1 requirement of the base index cannot be fulfilled
      caused by: no version of `missing` for deps.toml: the registry does not have it (3.10-linux, 3.12-linux)

    hint: change `deps.toml`
    # a <1
    exit 1
    error: 1 requirement of the base index cannot be fulfilled
      caused by: no version of `a` for deps.toml: 1.0 is not `<1`, which deps.toml needs (3.10-linux, 3.12-linux)

    hint: change `deps.toml`
    # a
    exit 1
    error: 1 requirement of the base index cannot be fulfilled
      caused by: no version of `a` for deps.toml: 1.0 has only an sdist (3.10-linux, 3.12-linux)

    hint: change `deps.toml`
    # a
    exit 1
    error: 1 requirement of the base index cannot be fulfilled
      caused by: no version of `a` for deps.toml: 1.0 needs Python >=3.11 (3.10-linux)

    hint: change `deps.toml`
    # a
    exit 1
    error: 1 requirement of the base index cannot be fulfilled
      caused by: no version of `a` for deps.toml: 1.0 is yanked: "" (3.10-linux, 3.12-linux)

    hint: change `deps.toml`
    # a
    exit 1
    note: held back: a 1.0 is younger than 72 h
    error: 1 requirement of the base index cannot be fulfilled
      caused by: no version of `a` for deps.toml: 1.0 is too young (3.10-linux, 3.12-linux)

    hint: change `deps.toml`
    # a
    exit 1
    error: 1 requirement of the base index cannot be fulfilled
      caused by: a 1.0 needs `rocm-sdk-core`, which only runs build (3.10-linux, 3.12-linux)

    hint: change `deps.toml`
    # a
    exit 1
    error: 1 requirement of the base index cannot be fulfilled
      caused by: a 1.0 needs `b` from an address, and not from an index (3.10-linux, 3.12-linux)

    hint: change `deps.toml`
    # a
    exit 1
    error: 1 requirement of the base index cannot be fulfilled
      caused by: a 1.0: failed to read the marker `python_version ~ '3'`: not part of a marker: '~' (3.10-linux, 3.12-linux)

    hint: change `deps.toml`
    # a
    exit 1
    error: failed to read the metadata of `a-1.0-py3-none-any.whl`
      caused by: `REGISTRY/files/a-1.0-py3-none-any.whl.metadata` does not have the digest that the page has
    # rocm-sdk-core
    exit 2
    error: failed to read `deps.toml`
      caused by: the base index cannot have `rocm-sdk-core`, which runs build

    hint: remove it: an installer takes it from the index of the run
    "#);
}

#[test]
fn a_lock_that_was_edited_is_refused() {
    let workplace = Workplace::new("['3.12']", "['linux']", &["a"]);
    workplace
        .registry
        .wheel("a", "1.0", "py3-none-any", "", none());
    workplace.deps(&["update"]).ok();
    let lock = workplace.lock();
    let edited = |from: &str, to: &str| {
        fs_err::write(workplace.path("deps.lock"), lock.replace(from, to)).unwrap();
        workplace.shown(&workplace.deps(&["list"]))
    };
    let said = [
        edited("schema = 1", "schema = 2"),
        edited("a-1.0-py3", "../a-1.0-py3"),
        edited("a-1.0-py3", "b-1.0-py3"),
        edited("a-1.0-py3-none-any.whl", "a-1.0.tar.gz"),
        edited("project = \"a\"", "project = \"a\"\nmore = 1"),
        edited("3.12-linux", "3.12-mac"),
    ];
    insta::assert_snapshot!(said.concat(), @r#"
    exit 2
    error: failed to read `deps.lock`
      caused by: it has the schema 2, and this version reads 1
    exit 2
    error: failed to read `deps.lock`
      caused by: not the file name of a wheel: "../a-1.0-py3-none-any.whl"
      caused by: a distribution name has ASCII letters, digits, `-`, `_` and `.` only: "../a"
    exit 2
    error: failed to read `deps.lock`
      caused by: `b-1.0-py3-none-any.whl` is not a file of `a` 1.0
    exit 2
    error: failed to read `deps.lock`
      caused by: `a-1.0.tar.gz` is an sdist
    exit 2
    error: failed to read `deps.lock`
      caused by: TOML parse error at line 7, column 1
      |
    7 | more = 1
      | ^^^^
    unknown field `more`, expected one of `project`, `version`, `name`, `size`, `sha256`, `requires-python`, `upload-time`, `publisher`, `requires`, `for`, `why`

    exit 2
    error: failed to read `deps.lock`
      caused by: TOML parse error at line 12, column 7
       |
    12 | for = ["3.12-mac"]
       |       ^^^^^^^^^^^^
    not a platform (linux, windows): "mac"
    "#);
}

fn digest_of(path: &Path) -> rocwheel::digest::Sha256 {
    rocwheel::digest::Sha256::of(&fs_err::read(path).unwrap())
}
