//! The list of rocwheel itself, with what PyPI had on one day.

use std::process::Command;

use itertools::Itertools as _;
use serde_json::{Value, json};

use super::{Workplace, registry::FakeRegistry};
use crate::{
    publish::{
        judge,
        readers::{old_pip, old_python},
        server::{Server, Site},
    },
    support::{long, place::text, program::Outcome},
};

const PAGES: &str = include_str!("pypi.tsv");
const WISHES: &str = include_str!("../../../src/deps/deps.toml");
/// What the picked releases need; the others of them need nothing.
const NEEDS: [(&str, &[&str]); 4] = [
    ("jinja2", &["MarkupSafe>=2.0"]),
    (
        "ml-dtypes",
        &[
            "numpy>=1.21",
            "numpy>=2.1.0; python_version >= \"3.13\"",
            "numpy>=2.3.0; python_version >= \"3.14\"",
        ],
    ),
    ("sympy", &["mpmath<1.4,>=1.1.0"]),
    ("wheel", &["packaging >= 24.0"]),
];

/// A file of a page: project, name, digest, size, upload time, `Requires-Python`, yank.
struct FrozenFile<'a>([&'a str; 7]);

impl FrozenFile<'_> {
    fn all() -> impl Iterator<Item = FrozenFile<'static>> {
        let lines = PAGES.lines().filter(|it| !it.starts_with('#'));
        lines.map(|line| {
            let mut columns = line.split('\t');
            FrozenFile([(); 7].map(|()| columns.next().unwrap_or_default()))
        })
    }

    fn needs(&self) -> String {
        let needs = NEEDS.iter().filter(|it| it.0 == self.0[0]);
        let lines = needs.flat_map(|it| it.1);
        lines.fold(String::new(), |all, it| all + "Requires-Dist: " + it + "\n")
    }

    fn facts(&self) -> Value {
        let [.., time, python, yanked] = self.0;
        let python = (!python.is_empty()).then_some(python);
        let yanked = if yanked.is_empty() {
            json!(false)
        } else {
            json!(yanked)
        };
        json!({"upload-time": time, "requires-python": python, "yanked": yanked})
    }

    /// Adds the file with the digest and the size that it has.
    fn add(&self, to: &FakeRegistry) {
        let [project, name, sha256, size, ..] = self.0;
        let mut facts = self.facts();
        facts["hashes"] = json!({"sha256": sha256});
        facts["size"] = size.parse::<u64>().unwrap().into();
        facts["core-metadata"] = name.ends_with(".whl").into();
        to.file(project, name, Vec::new(), facts);
        let version = name.split('-').nth(1).unwrap();
        let needs = self.needs();
        let metadata =
            format!("Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n{needs}");
        to.put(&format!("{name}.metadata"), metadata.into_bytes());
    }

    /// Adds a small wheel of the same name.
    fn add_small(&self, to: &FakeRegistry) {
        let [project, name, ..] = self.0;
        let parts: Vec<&str> = name.trim_end_matches(".whl").splitn(3, '-').collect();
        let mut metadata = self.needs();
        if !self.0[5].is_empty() {
            metadata = metadata + "Requires-Python: " + self.0[5] + "\n";
        }
        to.wheel(project, parts[1], parts[2], &metadata, self.facts());
    }
}

/// The pages of that day, and our own list without some of its projects.
fn frozen(without: &[&str]) -> Workplace {
    let workplace = Workplace::new("['3.12']", "['linux']", &[]);
    let blocks = WISHES.split("[[dependency]]");
    let kept = blocks.filter(|block| {
        let is_named = |name: &&str| block.contains(&format!("name = \"{name}\""));
        !without.iter().any(is_named)
    });
    let wishes: Vec<&str> = kept.collect();
    fs_err::write(workplace.path("deps.toml"), wishes.join("[[dependency]]")).unwrap();
    for file in FrozenFile::all() {
        file.add(&workplace.registry);
    }
    workplace
}

fn size(workplace: &Workplace) -> (usize, u64) {
    let listed = workplace.deps(&["list", "--format", "json"]).ok();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    (
        listed["files"].as_array().unwrap().len(),
        listed["size"].as_u64().unwrap(),
    )
}

const NOW: [&str; 3] = ["update", "--min-age", "0s"];

#[test]
fn the_base_index_of_pytorch_has_52_files_and_needs_nothing_else() {
    let workplace = frozen(&["rocm-bootstrap"]);
    workplace.deps(&NOW).ok();
    assert_eq!(size(&workplace), (52, 231_144_049));
    workplace.deps(&["check"]).ok();
    let [lock, again] = [(); 2].map(|()| {
        workplace.deps(&NOW).ok();
        workplace.lock()
    });
    assert_eq!(lock, again);
    // One project that the list forgets is named, with who needs it.
    let lacking = frozen(&["rocm-bootstrap", "packaging"]);
    let refused = lacking.deps(&NOW);
    insta::assert_snapshot!(lacking.shown(&refused), @"
    exit 1
    error: 1 requirement of the base index cannot be fulfilled
      caused by: `packaging` is new, and `deps.toml` does not name it: wheel 0.48.0 needs it

    hint: name it in `deps.toml`, or pass `--allow packaging`
    ");
    // Without its file, the others are those 51.
    let of_packaging = |it: &&str| it.contains("project = \"packaging\"");
    let cut = lock
        .split("[[file]]")
        .filter(|it| !of_packaging(it))
        .join("[[file]]");
    fs_err::write(workplace.path("deps.lock"), cut).unwrap();
    assert_eq!(size(&workplace), (51, 231_014_093));
    insta::assert_snapshot!(workplace.shown(&workplace.deps(&["check"])), @"
    exit 1
    error: 2 requirements without a version in the lock
      caused by: deps.toml needs `packaging`, which is not in the lock (3.10-linux, 3.10-windows, 3.11-linux, 3.11-windows, 3.12-linux, 3.12-windows, 3.13-linux, 3.13-windows, 3.14-linux, 3.14-windows)
      caused by: wheel 0.48.0 needs `packaging>= 24.0`, which is not in the lock (3.10-linux, 3.10-windows, 3.11-linux, 3.11-windows, 3.12-linux, 3.12-windows, 3.13-linux, 3.13-windows, 3.14-linux, 3.14-windows)

    hint: run `rocwheel deps update`
    ");
}

#[test]
fn a_python_without_a_version_is_named() {
    let workplace = frozen(&[]);
    workplace.deps(&NOW).ok();
    let lock = workplace.lock();
    let of_last = |it: &&str| it.contains("numpy") && it.contains("version = \"2.2.6\"");
    let cut = lock
        .split("[[file]]")
        .filter(|it| !of_last(it))
        .join("[[file]]");
    fs_err::write(workplace.path("deps.lock"), cut).unwrap();
    let checked = workplace.shown(&workplace.deps(&["check"]));
    for name in FrozenFile::all().map(|it| it.0[1]) {
        if name.starts_with("numpy-2.2.6") {
            workplace.registry.forget(name);
        }
    }
    let updated = workplace.shown(&workplace.deps(&NOW));
    insta::assert_snapshot!(checked + &updated, @"
    exit 1
    error: 2 requirements without a version in the lock
      caused by: deps.toml needs `numpy`, and the lock has only 2.4.6 (Python >=3.11), 2.5.5 (Python >=3.12) (3.10-linux, 3.10-windows)
      caused by: ml-dtypes 0.6.0 needs `numpy>=1.21`, and the lock has only 2.4.6 (Python >=3.11), 2.5.5 (Python >=3.12) (3.10-linux, 3.10-windows)

    hint: run `rocwheel deps update`
    exit 1
    error: 1 requirement of the base index cannot be fulfilled
      caused by: no version of `numpy` for deps.toml, ml-dtypes 0.6.0: 2.5.5 has no wheel for it (3.10-linux, 3.10-windows)

    hint: change `deps.toml`
    ");
    // The others do not need it.
    workplace
        .deps(&[&NOW[..], &["--pythons", "3.12,3.13"]].concat())
        .ok();
    assert!(!workplace.lock().contains("3.10-linux"));
    workplace.deps(&["check", "--pythons", "3.12"]).ok();
}

/// What an installer says to all wishes, with the base index alone.
fn installed(program: &str, python: &str, platform: &str, base: &str, wishes: &[&str]) -> Outcome {
    if program == "uv" {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("wanted.in");
        fs_err::write(&file, wishes.join("\n")).unwrap();
        let platform = match platform {
            "linux" => "x86_64-manylinux_2_28",
            _ => "x86_64-pc-windows-msvc",
        };
        let fixed = [
            "pip",
            "compile",
            "--no-cache",
            "--only-binary",
            ":all:",
            "--default-index",
            base,
        ];
        let of = [
            text(&file),
            "--python-platform",
            platform,
            "--python-version",
            python,
        ];
        return judge("uv", &[&fixed[..], &of].concat());
    }
    let place = tempfile::tempdir().unwrap();
    let platforms: &[&str] = match platform {
        "linux" => &[
            "manylinux_2_28_x86_64",
            "manylinux_2_27_x86_64",
            "manylinux2014_x86_64",
        ],
        _ => &["win_amd64"],
    };
    let mut pip = vec![
        "install",
        "--dry-run",
        "--no-cache-dir",
        "--isolated",
        "--only-binary",
        ":all:",
    ];
    pip.extend(platforms.iter().flat_map(|it| ["--platform", it]));
    pip.extend([
        "--disable-pip-version-check",
        "--target",
        text(place.path()),
    ]);
    pip.extend(["--python-version", python, "--index-url", base]);
    pip.extend(wishes);
    if program == "pip" {
        return judge("pip", &pip);
    }
    let mut old = Command::new(old_python());
    old.env_clear().arg(old_pip(program)).args(pip);
    Outcome::of(old.output().unwrap())
}

#[test]
fn every_wish_installs_from_the_base_index_alone() {
    let workplace = Workplace::new("['3.12']", "['linux']", &[]);
    fs_err::write(workplace.path("deps.toml"), WISHES).unwrap();
    for file in FrozenFile::all().filter(|it| it.0[1].ends_with(".whl")) {
        file.add_small(&workplace.registry);
    }
    workplace.deps(&NOW).ok();
    workplace.deps(&["mirror", "--into", "base"]).ok();
    let base = Server::start(Site::Directory(workplace.path("base"))).url + "simple/";
    let wishes = WISHES.lines().filter_map(|it| it.strip_prefix("name = "));
    let wishes: Vec<&str> = wishes.map(|it| it.trim_matches('"')).collect();
    let locked: toml::Table = workplace.lock().parse().unwrap();
    let locked = locked["file"].as_array().unwrap();
    let all = ["3.10", "3.11", "3.12", "3.13", "3.14"];
    let programs = ["pip", "23.2.1"].into_iter().take(long::rounds(1, 2));
    let pythons = || all.into_iter().take(long::rounds(1, 5));
    let platforms = ["linux", "windows"].into_iter().take(long::rounds(1, 2));
    for ((program, python), platform) in programs
        .cartesian_product(pythons())
        .cartesian_product(platforms)
    {
        // Its `install` compares packages with the Python that it runs in, too.
        if program == "23.2.1" && !["3.10", "3.11"].contains(&python) {
            continue;
        }
        let case = format!("{program} {python} {platform}");
        let outcome = installed(program, python, platform, &base, &wishes);
        assert_eq!(outcome.code, 0, "{case}: {}", outcome.stderr);
        let said = outcome
            .stdout
            .replace("==", "-")
            .to_lowercase()
            .replace('_', "-");
        for file in locked {
            let is_for = file["for"]
                .as_array()
                .unwrap()
                .iter()
                .any(|it| it.as_str() == Some(&format!("{python}-{platform}")));
            let [name, version] = ["project", "version"].map(|it| file[it].as_str().unwrap());
            let release = format!("{name}-{version}");
            assert!(
                !is_for || said.contains(&release),
                "{case}: {release} in {said}"
            );
        }
    }
    // Alone: no other wish has to help.
    let wish = wishes[0];
    let outcome = installed("uv", all[0], "linux", &base, &[wish]);
    assert_eq!(outcome.code, 0, "{wish}: {}", outcome.stderr);
}
