//! `deps`: what uv picks from a registry, what of it is mirrored, and what installers make of that.

mod installers;
mod mirror;
pub(crate) mod registry;

use std::path::{Path, PathBuf};

use serde_json::json;

use self::registry::FakeRegistry;
use crate::{
    judges::tool,
    support::program::{Outcome, command},
};

const LINUX: &str = "manylinux_2_17_x86_64.manylinux2014_x86_64";
/// Younger than any limit of age.
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
        let uv = tool("uv").parent().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap();
        deps.env("PATH", format!("{}:{path}", uv.display()));
        deps.env("UV_CACHE_DIR", self.root.join("cache"));
        deps.current_dir(&self.root).arg("deps").args(arguments);
        deps.args(["--deps-file", "deps.toml"]);
        if arguments.first() == Some(&"update") {
            deps.args(["--registry", &self.registry.url]);
        }
        Outcome::of(deps.output().unwrap())
    }

    pub(crate) fn lock(&self) -> String {
        fs_err::read_to_string(self.root.join("deps.lock")).unwrap()
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// The wheels in a directory of the mirror.
    fn mirrored(&self, base: &str) -> Vec<String> {
        let entries = fs_err::read_dir(self.path(base).join("dist")).unwrap();
        let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|it| it.ends_with(".whl")).collect();
        names.sort();
        names
    }
}

fn none() -> serde_json::Value {
    json!({})
}

fn digest_of(file: &Path) -> rocwheel::digest::Sha256 {
    rocwheel::digest::Sha256::of(&fs_err::read(file).unwrap())
}

/// A registry in which each newer file is wrong for some reason.
fn tempting() -> Workplace {
    let pythons = "['3.11', '3.12']";
    let names = ["numbers", "Pure_Package", "pin ==1.0"];
    let workplace = Workplace::new(pythons, "['linux', 'windows']", &names);
    let it = &workplace.registry;
    let any = "py3-none-any";
    let old = "Requires-Python: >=3.9\n";
    it.wheel(
        "numbers",
        "1.0",
        any,
        old,
        json!({"requires-python": ">=3.9"}),
    );
    let needs = "Requires-Python: >=3.12\nRequires-Dist: helper>=1; python_version >= \"3.12\"\n\
                 Requires-Dist: docs; extra == \"docs\"\nRequires-Dist: winonly; sys_platform == \"win32\"\n";
    for tag in [
        &format!("cp312-cp312-{LINUX}"),
        "cp312-cp312-win_amd64",
        "cp312-cp312-macosx_11_0_arm64",
    ] {
        let python = json!({"requires-python": ">=3.12"});
        it.wheel("numbers", "2.0", tag, needs, python);
    }
    it.wheel("numbers", "2.2", any, "", json!({"yanked": "it is broken"}));
    it.wheel("numbers", "2.3rc1", any, "", none());
    it.wheel("numbers", "2.4", any, "", json!({"upload-time": YOUNG}));
    let sdist = b"an sdist".to_vec();
    it.file("numbers", "numbers-2.5.tar.gz", sdist, none());
    let pure = json!({"core-metadata": true});
    it.wheel("pure-package", "10.0.post1", "py2.py3-none-any", "", pure);
    it.wheel("pure-package", "9.0", any, "", none());
    it.wheel("pin", "1.0", any, "", none());
    it.wheel("pin", "2.0", any, "", none());
    it.wheel("helper", "1.5", any, "", none());
    it.wheel("winonly", "0.1", any, "", none());
    workplace
}

pub(crate) fn locked() -> Workplace {
    let workplace = tempting();
    workplace.deps(&["update"]).ok();
    workplace.registry.requests();
    workplace
}

#[test]
#[ignore = "slow"]
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
    workplace.deps(&["mirror", "--into", "base"]).ok();
    assert_eq!(
        workplace.mirrored("base"),
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
    // For one Python on one platform.
    let wishes = fs_err::read_to_string(workplace.path("deps.toml")).unwrap();
    let wishes = wishes
        .replace("'3.11', '3.12'", "'3.11'")
        .replace(", 'windows'", "");
    fs_err::write(workplace.path("deps.toml"), wishes).unwrap();
    workplace.deps(&["mirror", "--into", "few"]).ok();
    assert_eq!(workplace.mirrored("few").len(), 3);
}

#[test]
#[ignore = "slow"]
fn what_cannot_be_fulfilled_is_refused_and_no_lock_is_written() {
    let workplace = Workplace::new("['3.10', '3.12']", "['linux']", &[]);
    let (it, any) = (&workplace.registry, "py3-none-any");
    it.wheel("a", "1.0", any, "", none());
    it.file("sdist", "sdist-1.0.tar.gz", b"x".to_vec(), none());
    it.wheel("young", "1.0", any, "", json!({"upload-time": YOUNG}));
    // A dependency of a dependency must not come in unseen if runs build it.
    it.wheel("bad", "1.0", any, "Requires-Dist: torch\n", none());
    it.wheel("torch", "2.0", any, "", none());
    for (name, version, said) in [
        ("missing", "", "missing"),
        ("a", "<1", "<1"),
        ("sdist", "", "no lock was written"),
        ("young", "", "no lock was written"),
        (
            "rocm-sdk-core",
            "",
            "cannot have `rocm-sdk-core`, which runs build",
        ),
        ("bad", "", "cannot have `torch`, which runs build"),
    ] {
        let wish = format!("name = '{name}'\nversion = '{version}'\nreason = 'x'\n");
        let head = "pythons = ['3.10', '3.12']\nplatforms = ['linux']\n[[dependency]]\n";
        fs_err::write(workplace.path("deps.toml"), head.to_owned() + &wish).unwrap();
        let outcome = workplace.deps(&["update"]);
        assert_ne!(outcome.code, 0, "{name}: {}", outcome.stdout);
        assert!(outcome.stderr.contains(said), "{name}: {}", outcome.stderr);
        assert!(!workplace.path("deps.lock").exists(), "{name}");
    }
}
