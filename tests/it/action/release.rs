//! The release workflow, from the tag to what action.yml takes.

use fs_err as fs;

use super::{
    runner::{Repository, ours, read},
    workflows::{KEEP, keep},
};
use crate::support::prelude::*;

const TAKE: &str = "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c";
const ATTEST: &str = "actions/attest-build-provenance@0f67c3f4856b2e3261c31976d6725780e5e4c373";
const LINUX: &str = "rocwheel-x86_64-unknown-linux-musl";
const WINDOWS: &str = "rocwheel-x86_64-pc-windows-msvc.exe";

/// Stands for GitHub's artifacts, as another job gets all of them.
const TAKES: &str = r#"
name: take
description: take
inputs:
  path: { description: path, required: true }
runs:
  using: composite
  steps:
    - shell: bash
      env: { WHERE: "${{ inputs.path }}" }
      run: mkdir -p "$WHERE" && cp -R PLACE/kept/. "$WHERE"
"#;

/// Stands for the attestation: there has to be something to attest.
const ATTESTS: &str = r#"
name: attest
description: attest
inputs:
  subject-path: { description: what, required: true }
runs:
  using: composite
  steps:
    - shell: bash
      env: { WHAT: "${{ inputs.subject-path }}" }
      run: for file in $WHAT; do test -f "$file" && echo "attested ${file##*/}"; done
"#;

/// Stands for the long tests, which run this one too.
const PASSES: &str = "on: workflow_call\njobs:\n  test:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: echo passed\n";

/// Stand for compilers and for GitHub. What they make is the binary of this build; the one for
/// Windows differs by a line at its end. Of the headers, which are not those of the targets,
/// nothing is said.
const TOOLS: [(&str, &str); 6] = [
    ("rustup", r#"echo "rustup $*""#),
    (
        "python3",
        r#"
[ "$1 $2" = "-m venv" ] || exec PYTHON "$@"
mkdir -p "$3/bin"
printf '#!/bin/sh\necho "pip $*"\n' >"$3/bin/pip"
cat >"$3/bin/maturin" <<'SCRIPT'
#!/bin/bash
set -e
name=rocwheel-VERSION place=$(mktemp -d)
mkdir -p "$place/$name/python/rocwheel"
touch "$place/$name"/{PKG-INFO,LICENSE} "$place/$name"/python/rocwheel/{__init__.py,__main__.py,py.typed}
while [ "$1" != --out ]; do shift; done
mkdir -p "$2"
tar -C "$place" -czf "$2/$name.tar.gz" "$name"
SCRIPT
chmod +x "$3/bin/pip" "$3/bin/maturin"
"#,
    ),
    (
        "cargo",
        r#"
if [ "$1" = metadata ]; then
  echo '{"packages":[{"id":"a","name":"rocwheel","version":"VERSION","license":"MIT","rust_version":"1.95"}],
    "resolve":{"root":"a","nodes":[{"id":"a","deps":[]}]}}'
  exit
fi
echo "cargo $*" >&2
while [ "$1" != --target ]; do shift; done
target=$2
mkdir -p "target/$target/dist"
case $target in
  *windows*) cp BINARY "target/$target/dist/rocwheel.exe"; echo windows >>"target/$target/dist/rocwheel.exe" ;;
  *) cp BINARY "target/$target/dist/rocwheel" ;;
esac
# Compilers of C have a time, and the workflow compares the programs of two machines.
echo "compiled ${SOURCE_DATE_EPOCH:-$(date +%N)}" >>target/"$target"/dist/rocwheel*
"#,
    ),
    ("rustc", "echo /rust"),
    (
        "gh",
        r#"
[ "$1 $2 $4" = "release create --verify-tag" ] || exit 9
echo "release $3 of $GH_REPO"
mkdir -p "PLACE/released/$3"
for file do case $file in dist/*) cp "$file" "PLACE/released/$3/" ;; esac; done
"#,
    ),
    (
        "curl",
        r#"
echo "curl $*" >>PLACE/asked
while [ "$1" != --output ]; do shift; done
part=$2 url=$3
cp "PLACE/released/${url#https://github.com/ROCm/rocwheel/releases/download/}" "$part"
"#,
    ),
];

fn repository() -> Repository {
    let mut repository = Repository::new();
    let place = repository.path().to_owned();
    let shown = place.display().to_string();
    let tools = place.join("tools");
    fs::create_dir(&tools).unwrap();
    for (name, script) in TOOLS {
        let script = script
            .replace("PLACE", &shown)
            .replace("BINARY", ROCWHEEL)
            .replace("PYTHON", &python())
            .replace("VERSION", env!("CARGO_PKG_VERSION"));
        let script = format!("#!/bin/bash\nset -e\n{script}\n");
        write_program(&tools.join(name), script);
    }
    repository.tools(&tools);
    repository.action(KEEP, &keep(&place.join("kept")));
    repository.action(TAKE, &TAKES.replace("PLACE", &shown));
    repository.action(ATTEST, ATTESTS);
    fs::create_dir_all(place.join("tree/.github/binary")).unwrap();
    for file in ["Cargo.toml", "Cargo.lock"] {
        repository.file(file, &read(file));
    }
    for name in ["build.sh", "packages.sh", "release.py", "requirements.txt"] {
        let file = format!(".github/binary/{name}");
        // The program of this build is neither static nor small.
        let judge = "            judge(target, Path(program))";
        let text = read(&file).replace(judge, "            pass");
        write_program(&place.join("tree").join(file), text);
    }
    repository.workflow("long.yml", PASSES);
    repository.variable("GITHUB_REPOSITORY", "ROCm/rocwheel");
    repository
}

/// The Python that stands behind the one here.
fn python() -> String {
    let mut python = Command::new("python3");
    let found = succeed(python.args(["-c", "import sys; print(sys.executable)"]));
    String::from_utf8(found.stdout).unwrap().trim().to_owned()
}

/// As GitHub tells of a tag that was pushed.
fn tagged(repository: &mut Repository, tag: &str) {
    let payload = repository.path().join("event.json");
    let event = json!({"ref": format!("refs/tags/{tag}"),
        "repository": {"full_name": "ROCm/rocwheel", "fork": false}});
    fs::write(&payload, event.to_string()).unwrap();
    repository.argument("--eventpath", payload.to_str().unwrap());
}

fn released(place: &Path, tag: &str) -> Vec<String> {
    let entries = fs::read_dir(place.join("released").join(tag)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
#[ignore = "long"]
fn long_what_is_released_is_what_the_action_takes() {
    let tag = concat!("v", env!("CARGO_PKG_VERSION"));
    let mut repository = repository();
    tagged(&mut repository, tag);
    let run = repository.run("push", &read(".github/workflows/release.yml")).expect_success();
    let built = run.printed("build");
    assert_eq!(built.matches("  in 7 packages").count(), 4, "{built}");
    let published = run.printed("publish");
    assert!(published.contains(&format!("release {tag} of ROCm/rocwheel")));
    for name in [LINUX, WINDOWS] {
        assert_has!(published, &format!("attested {name}"));
    }
    let place = repository.path();
    let names = released(place, tag).join("\n");
    let names = names.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(names, @"
    SHA256SUMS
    release.txt
    rocwheel-VERSION-py3-none-macosx_10_12_x86_64.whl
    rocwheel-VERSION-py3-none-macosx_11_0_arm64.whl
    rocwheel-VERSION-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl
    rocwheel-VERSION-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64.whl
    rocwheel-VERSION-py3-none-win_amd64.whl
    rocwheel-VERSION.tar.gz
    rocwheel-aarch64-apple-darwin
    rocwheel-aarch64-apple-darwin.cdx.json
    rocwheel-aarch64-unknown-linux-musl
    rocwheel-aarch64-unknown-linux-musl.cdx.json
    rocwheel-x86_64-apple-darwin
    rocwheel-x86_64-apple-darwin.cdx.json
    rocwheel-x86_64-pc-windows-msvc.exe
    rocwheel-x86_64-pc-windows-msvc.exe.cdx.json
    rocwheel-x86_64-unknown-linux-musl
    rocwheel-x86_64-unknown-linux-musl.cdx.json
    ");
    let directory = place.join("released").join(tag);
    let mut sums = Command::new("sha256sum");
    succeed(sums.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&directory));

    let text = fs::read_to_string(directory.join("release.txt")).unwrap();
    let digest = |name: &str| Sha256::of(&fs::read(directory.join(name)).unwrap());
    let lines = [
        format!("url https://github.com/ROCm/rocwheel/releases/download/{tag}"),
        format!("Linux-X64 {} {LINUX}", digest(LINUX)),
        format!("Windows-X64 {} {WINDOWS}", digest(WINDOWS)),
    ];
    for line in lines {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    let summaries = run.summaries().concat();
    assert_has!(summaries, "release.txt");

    repository.take_release(&text);
    let steps = format!(
        "on: push\njobs:\n  job:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: {}\n      - run: rocwheel --version\n",
        ours()
    );
    let run = repository.run("push", &steps).expect_success();
    let version = format!("rocwheel {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(run.printed("job").matches(&version).count(), 2);
    let asked = fs::read_to_string(place.join("asked")).unwrap();
    let address = format!("/download/{tag}/{LINUX}");
    assert!(asked.trim_end().ends_with(&address), "{asked}");
}

#[test]
#[ignore = "long"]
fn long_a_tag_that_is_not_the_version_makes_no_release() {
    let mut repository = repository();
    tagged(&mut repository, "v99.0.0");
    let run = repository.run("push", &read(".github/workflows/release.yml"));
    assert!(!run.succeeded, "{}", run.log());
    assert!(!repository.path().join("released").exists());
    assert_lacks!(run.log(), "cargo ");
}

#[test]
#[ignore = "slow"]
fn the_list_of_crates_has_what_is_inside_and_nothing_of_the_tests() {
    let place = tempfile::tempdir().unwrap();
    let list = |name: &str| {
        let path = place.path().join(name);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/binary/release.py");
        let mut sbom = Command::new("python3");
        sbom.arg(script).args(["sbom", "x86_64-unknown-linux-musl"]);
        succeed(sbom.arg(&path));
        fs::read_to_string(path).unwrap()
    };
    let text = list("first");
    assert_eq!(text, list("second"), "the same crates, the same bytes");
    let bill: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(bill["bomFormat"], "CycloneDX");
    let components = bill["components"].as_array().unwrap();
    let references: BTreeSet<&str> = components.iter().map(|it| field(it, "bom-ref")).collect();
    assert_eq!(references.len(), components.len());
    for component in components {
        let name = field(component, "name");
        let expression = field(&component["licenses"][0], "expression");
        assert!(!expression.contains('/'), "{name}: {expression}");
        // Our own crates are no files of a registry.
        if !name.starts_with("rocwheel-") {
            let digest = field(&component["hashes"][0], "content");
            assert_eq!(digest.len(), 64, "{name}");
        }
    }
    let names: Vec<&str> = components.iter().map(|it| field(it, "name")).collect();
    // The allocator is only in programs for musl.
    for inside in ["clap", "libdeflate-sys", "mimalloc", "aws-sdk-s3"] {
        assert!(names.contains(&inside), "{inside}");
    }
    for outside in ["insta", "proptest", "s3s", "windows-sys"] {
        assert!(!names.contains(&outside), "{outside}");
    }
    let root = field(&bill["metadata"]["component"], "bom-ref");
    for edge in bill["dependencies"].as_array().unwrap() {
        let ends = edge["dependsOn"].as_array().unwrap().iter();
        for end in ends.map(|it| it.as_str().unwrap()) {
            assert!(references.contains(end), "{end}");
        }
        let from = field(edge, "ref");
        assert!(from == root || references.contains(from), "{from}");
    }
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("`{name}` of {value}"))
}
