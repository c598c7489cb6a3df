//! `deps`: what uv picks from a registry, what of it is mirrored, and what installers make of that.

mod installers;
mod mirror;
mod newest;
pub(crate) mod registry;

use self::registry::FakeRegistry;
use crate::support::prelude::*;

const LINUX: &str = "manylinux_2_17_x86_64.manylinux2014_x86_64";
/// Younger than any limit of age.
const YOUNG: &str = "2999-01-01T00:00:00Z";

/// A directory with a `deps.toml`, and the registry that it is for.
pub(crate) struct Workplace {
    _place: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) registry: FakeRegistry,
}

impl Workplace {
    pub(crate) fn new(pythons: &str, platforms: &str, names: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("a b+c");
        fs_err::create_dir(&root).unwrap();
        let workplace = Self { _place: place, root, registry: FakeRegistry::start() };
        workplace.wish(pythons, platforms, names);
        workplace
    }

    /// Writes `deps.toml`. A name may have a version after it: `torch <3`.
    fn wish(&self, pythons: &str, platforms: &str, names: &[&str]) {
        let rows = names.iter().map(|name| {
            let (name, version) = name.split_once(' ').unwrap_or((name, ""));
            format!("[[dependency]]\nname = '{name}'\nversion = '{version}'\nreason = 'x'\n")
        });
        let rows: String = rows.collect();
        let wishes = format!("pythons = {pythons}\nplatforms = {platforms}\n{rows}");
        fs_err::write(self.path("deps.toml"), wishes).unwrap();
    }

    pub(crate) fn deps(&self, arguments: &[&str]) -> Outcome {
        let mut deps = command();
        let uv = tool("uv").parent().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap();
        deps.env("PATH", format!("{}:{path}", uv.display()));
        deps.env("UV_CACHE_DIR", self.path("cache"));
        deps.current_dir(&self.root).arg("deps").args(arguments);
        deps.args(["--deps-file", "deps.toml"]);
        if arguments.first() == Some(&"update") {
            deps.args(["--registry", &self.registry.url]);
        }
        Outcome::of(deps.output().unwrap())
    }

    fn mirror(&self) -> Outcome {
        self.deps(&["mirror", "--into", "base"])
    }

    pub(crate) fn lock(&self) -> String {
        self.read("deps.lock")
    }

    fn read(&self, path: &str) -> String {
        fs_err::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// The wheels in a directory of the mirror.
    fn mirrored(&self, base: &str) -> Vec<String> {
        let mut names = tree(&self.path(base).join("dist"));
        names.retain(|it| it.ends_with(".whl"));
        names
    }
}

/// What a page says of a file that is for some versions of Python.
fn for_python(versions: &str) -> Value {
    json!({"requires-python": versions})
}

/// A registry in which each newer file is wrong for some reason.
fn tempting() -> Workplace {
    let names = ["numbers", "Pure_Package", "pin ==1.0"];
    let workplace = Workplace::new("['3.11', '3.12']", "['linux', 'windows']", &names);
    let it = &workplace.registry;
    let any = "py3-none-any";
    let needs = "Requires-Python: >=3.9\n";
    it.wheel("numbers", "1.0", any, needs, for_python(">=3.9"));
    let needs = "Requires-Python: >=3.12\nRequires-Dist: helper>=1; python_version >= \"3.12\"\n\
                 Requires-Dist: docs; extra == \"docs\"\nRequires-Dist: winonly; sys_platform == \"win32\"\n";
    for platform in [LINUX, "win_amd64", "macosx_11_0_arm64"] {
        let tag = format!("cp312-cp312-{platform}");
        it.wheel("numbers", "2.0", &tag, needs, for_python(">=3.12"));
    }
    it.wheel("numbers", "2.2", any, "", json!({"yanked": "it is broken"}));
    it.plain("numbers", "2.3rc1");
    it.wheel("numbers", "2.4", any, "", json!({"upload-time": YOUNG}));
    it.file("numbers", "numbers-2.5.tar.gz", b"an sdist", json!({}));
    let pure = json!({"core-metadata": true});
    it.wheel("pure-package", "10.0.post1", "py2.py3-none-any", "", pure);
    it.plain("pure-package", "9.0");
    it.plain("pin", "1.0");
    it.plain("pin", "2.0");
    it.plain("helper", "1.5");
    it.plain("winonly", "0.1");
    workplace
}

pub(crate) fn locked() -> Workplace {
    let workplace = tempting();
    workplace.deps(&["update"]).ok();
    workplace.registry.requests();
    workplace
}

#[test]
fn every_python_gets_the_newest_version_that_fits_it() {
    let workplace = tempting();
    let changes = workplace.deps(&["update"]).ok();
    insta::assert_snapshot!(changes, @r"
    + helper 1.5
    + numbers 1.0
    + numbers 2.0
    + pin 1.0
    + pure-package 10.0.post1
    + winonly 0.1
    ");
    let lock = workplace.lock();
    assert_eq!(workplace.deps(&["update"]).ok(), "");
    assert_eq!(workplace.lock(), lock);
    workplace.deps(&["check"]).ok();
    workplace.mirror().ok();
    let mirrored = workplace.mirrored("base");
    insta::assert_snapshot!(mirrored.join("\n"), @"
    helper-1.5-py3-none-any.whl
    numbers-1.0-py3-none-any.whl
    numbers-2.0-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
    numbers-2.0-cp312-cp312-win_amd64.whl
    pin-1.0-py3-none-any.whl
    pure_package-10.0.post1-py2.py3-none-any.whl
    winonly-0.1-py3-none-any.whl
    ");
    // For one Python on one platform.
    let names = ["numbers", "Pure_Package", "pin ==1.0"];
    workplace.wish("['3.11']", "['linux']", &names);
    workplace.deps(&["mirror", "--into", "few"]).ok();
    assert_eq!(workplace.mirrored("few").len(), 3);
}

#[test]
#[ignore = "slow"]
fn what_cannot_be_fulfilled_is_refused_and_no_lock_is_written() {
    let (pythons, platforms) = ("['3.10', '3.12']", "['linux']");
    let workplace = Workplace::new(pythons, platforms, &[]);
    let (it, any) = (&workplace.registry, "py3-none-any");
    it.plain("a", "1.0");
    it.file("sdist", "sdist-1.0.tar.gz", b"x", json!({}));
    it.wheel("young", "1.0", any, "", json!({"upload-time": YOUNG}));
    // A dependency of a dependency must not come in unseen if runs build it.
    it.wheel("bad", "1.0", any, "Requires-Dist: torch\n", json!({}));
    it.plain("torch", "2.0");
    for (name, said) in [
        ("missing", "missing"),
        ("a <1", "<1"),
        ("sdist", "no lock was written"),
        ("young", "no lock was written"),
        ("rocm-sdk-core", "cannot have `rocm-sdk-core`, which runs build"),
        ("bad", "cannot have `torch`, which runs build"),
    ] {
        workplace.wish(pythons, platforms, &[name]);
        let outcome = workplace.deps(&["update"]);
        assert_ne!(outcome.code, 0, "{name}: {}", outcome.stdout);
        assert_has!(outcome.stderr, said);
        assert!(!workplace.path("deps.lock").exists(), "{name}");
    }
}
