//! Wheels of PyPI, tied to stubs of the libraries that ROCm 7.14 has, and judged by others: the loader of
//! this host, auditwheel and `installer`. The small ones in each run; those of more than 10 MB, which are downloaded,
//! only with `ROCWHEEL_LONG_TESTS`, and those that take longest only with `ROCWHEEL_LARGE_WHEELS`, too.

use super::{
    Place,
    accepted::{Seen, is_mended},
    listed_by_loader, members, text,
};
use crate::doctor::environment::Site;
use crate::judges::wheel_of_pypi;
use crate::support::{prelude::*, published::VERSION};

/// The libraries of PyTorch that its extensions need.
const TORCH: [&str; 5] =
    ["libtorch.so", "libtorch_cpu.so", "libtorch_hip.so", "libc10.so", "libc10_hip.so"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Always,
    /// With `ROCWHEEL_LARGE_WHEELS`.
    IfLarge,
}

/// The wheels, and the tags that auditwheel derives from their symbols.
const WHEELS: [(&str, &str, Wanted); 9] = [
    ("jax_rocm7_plugin", "manylinux_2_27_x86_64", Wanted::Always),
    ("jax_rocm10_plugin", "manylinux_2_27_x86_64", Wanted::Always),
    ("torch_scatter_rocm", "manylinux_2_39_x86_64", Wanted::Always),
    ("pyg_lib_rocm", "manylinux_2_38_x86_64", Wanted::Always),
    ("torch_sparse_rocm", "manylinux_2_39_x86_64", Wanted::Always),
    ("bitsandbytes", "manylinux_2_34_x86_64", Wanted::Always),
    ("cupy_rocm_7_0", "manylinux_2_24_x86_64", Wanted::IfLarge),
    ("onnxruntime_rocm", "manylinux_2_35_x86_64", Wanted::IfLarge),
    ("jax_rocm7_pjrt", "manylinux_2_27_x86_64", Wanted::IfLarge),
];

/// The wheels that this run looks at.
pub(super) fn wheels() -> Vec<(PathBuf, &'static str)> {
    let is_wanted = |wanted| wanted == Wanted::Always || are_large_wanted();
    let wheels = WHEELS.into_iter().filter(|it| is_wanted(it.2));
    wheels.map(|(start, tag, _)| (wheel_of_pypi(start), tag)).collect()
}

fn are_large_wanted() -> bool {
    long::is_on() && std::env::var_os("ROCWHEEL_LARGE_WHEELS").is_some()
}

/// The libraries of the set: package, directory, names.
fn libraries() -> Vec<Vec<String>> {
    let text = fs_err::read_to_string("tests/framework/rocm-7.14.txt").unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

/// Writes a set of stubs.
fn stubs(to: &Path, version: &str) {
    fs_err::create_dir(to).unwrap();
    let libraries = libraries();
    for package in ["rocm_sdk_core", "rocm_sdk_libraries"] {
        let mut wheel = DemoWheel::bare(package);
        version.clone_into(&mut wheel.version);
        for row in libraries.iter().filter(|it| it[0] == package) {
            for name in &row[2..] {
                wheel.add(&format!("{}/{name}", row[1]), SharedObject::new(name).build());
            }
        }
        wheel.write(to);
    }
}

/// A wheel of PyTorch, as far as its extensions see it.
fn torch(to: &Path) -> PathBuf {
    let mut wheel = DemoWheel::bare("torch");
    "2.12.0".clone_into(&mut wheel.version);
    for name in TORCH {
        let library = SharedObject::new(name).needs("libamdhip64.so.7");
        wheel.add(&format!("torch/lib/{name}"), library.build());
    }
    wheel.write(to)
}

/// The rules that find something in a wheel.
fn found(set: &Path, wheel: &Path, torch: &Path) -> BTreeSet<String> {
    let mut check = command();
    check.args(["check", "--select", "RWF", "--format", "json"]);
    check.arg(set).arg("--with").arg(wheel).arg(torch);
    let report: Value = serde_json::from_slice(&check.output().unwrap().stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let name = wheel.file_name().unwrap().to_str();
    let own = findings.filter(|it| it["file"].as_str() == name);
    own.map(|it| it["id"].as_str().unwrap().to_owned()).collect()
}

/// What `framework show` says of a wheel.
fn shown(set: &Path, wheel: &Path) -> Value {
    let mut show = command();
    show.args(["framework", "show", "--format", "json", "--set"]);
    let said = succeed(show.arg(set).arg(wheel)).stdout;
    let mut said: Value = serde_json::from_slice(&said).unwrap();
    said["wheels"][0].take()
}

/// The row of a wheel in docs/framework.md.
fn row(before: &Value, after: &Value, found: [&BTreeSet<String>; 2], tied: usize) -> String {
    let entries = |wheel: &Value| {
        let binaries = wheel["binaries"].as_array().unwrap().iter();
        let entries = binaries.map(|it| it["run-path"].as_array().unwrap().len());
        entries.max().unwrap()
    };
    let tag = |wheel: &Value| {
        let tag = wheel["file"].as_str().unwrap().rsplit('-').next();
        tag.unwrap().trim_end_matches("_x86_64.whl").to_owned()
    };
    let [had, has] = found.map(|it| {
        let rules: Vec<&str> = it.iter().map(String::as_str).collect();
        if rules.is_empty() { "nothing".to_owned() } else { rules.join(", ") }
    });
    format!(
        "| {} {} | {tied} of {} | {} → {} | {} → {} | {had} | {has} |",
        before["name"].as_str().unwrap(),
        before["version"].as_str().unwrap(),
        before["binaries"].as_array().unwrap().len(),
        entries(before),
        entries(after),
        tag(before),
        tag(after),
    )
}

/// The libraries of some wheels, as they are installed.
fn installed(wheels: &[&Members]) -> TempDir {
    let site = tempfile::tempdir().unwrap();
    for (path, _, bytes) in wheels.iter().copied().flatten() {
        if path.contains(".so") {
            let to = site.path().join(path);
            fs_err::create_dir_all(to.parent().unwrap()).unwrap();
            fs_err::write(to, bytes).unwrap();
        }
    }
    site
}

/// Asks the loader of this host for the libraries of ROCm and PyTorch, for each tied binary.
fn is_found_by_the_loader(wheels: &[&Members], tied: &[&str]) {
    let site = installed(wheels);
    let rocm = libraries();
    let rocm = rocm.iter().flat_map(|it| &it[2..]).map(String::as_str);
    let known: BTreeSet<&str> = rocm.chain(TORCH).collect();
    for file in tied {
        let list = listed_by_loader(&site.path().join(file));
        let lines = list.lines().filter_map(|it| it.trim().split_once(" => "));
        let ours: Vec<(&str, &str)> = lines.filter(|it| known.contains(it.0)).collect();
        assert!(!ours.is_empty(), "{file}: {list}");
        for (name, place) in ours {
            assert!(!place.contains("not found"), "{file}: {name}");
        }
    }
}

/// Fails unless the `installer` of Python finds each member as RECORD says.
pub(super) fn assert_record(wheel: &Path) {
    const RECORD: &str = "import sys; from installer.sources import WheelFile\n\
                          with WheelFile.open(sys.argv[1]) as wheel: wheel.validate_record(validate_contents=True)";
    let mut python = Command::new(tool("python"));
    succeed(python.args(["-c", RECORD]).arg(wheel));
}

/// What others say of a tied wheel: RECORD and the tag.
fn is_judged_well(tied: &Path, tag: &str) {
    assert_record(tied);
    let proved = format!("constrains the platform tag to \"{tag}\"");
    let said = auditwheel(tied);
    assert!(said.contains(&proved), "{}: {said}", tied.display());
    assert!(tied.to_str().unwrap().ends_with(&format!("{tag}.whl")));
}

/// Ties a wheel of a group, and returns its path.
fn tie(place: &Place, group: [&Path; 2], set: &Path, flags: &[&str]) -> PathBuf {
    let name = group[0].file_name().unwrap().to_str().unwrap();
    let start = name.split("-py3-").next().unwrap().split("-cp3").next();
    place.tie(&group.map(Path::to_owned), set, flags).ok();
    let entries = fs_err::read_dir(place.tied()).unwrap();
    let mut paths = entries.map(|it| it.unwrap().path());
    let is_it =
        |it: &PathBuf| it.file_name().unwrap().to_str().unwrap().starts_with(start.unwrap());
    paths.find(is_it).unwrap()
}

#[test]
#[ignore = "long"]
fn long_wheels_of_pypi_are_tied_and_judged() {
    let stage = tempfile::tempdir().unwrap();
    let [set, next] = ["set", "next"].map(|it| stage.path().join(it));
    stubs(&set, "7.14.0");
    stubs(&next, "7.15.0");
    let torch = torch(stage.path());
    let page = fs_err::read_to_string("docs/framework.md").unwrap();
    let mut missing = Vec::new();
    for (wheel, tag) in wheels() {
        let group = [wheel.as_path(), torch.as_path()];
        let places: [Place; 4] = std::array::from_fn(|_| Place::new());
        let tied = tie(&places[0], group, &set, &["--jobs", "2"]);
        is_judged_well(&tied, tag);
        let bytes = fs_err::read(&tied).unwrap();
        let tied_torch = tied.with_file_name(torch.file_name().unwrap());
        let again = tie(&places[1], [&tied, &tied_torch], &set, &["--jobs", "1"]);
        assert!(bytes == fs_err::read(again).unwrap(), "{}", tied.display());
        let later = tie(&places[2], [&tied, &tied_torch], &next, &[]);
        let at_once = tie(&places[3], group, &next, &["--jobs", "1"]);
        assert!(fs_err::read(later).unwrap() == fs_err::read(at_once).unwrap());
        let own = members(&tied);
        let record: Value = serde_json::from_str(&text(&own, "/rocm_tie.json")).unwrap();
        let ran = record["run-paths"].as_array().unwrap().iter();
        let files: Vec<&str> = ran.map(|it| it[0].as_str().unwrap()).collect();
        let rocm = fs_err::read_dir(&set).unwrap();
        let rocm: Vec<Members> = rocm.map(|it| members(&it.unwrap().path())).collect();
        let site: Vec<&Members> = rocm.iter().chain([&own]).collect();
        is_found_by_the_loader(&[&site[..], &[&members(&torch)]].concat(), &files);
        let rules = [found(&set, &wheel, &torch), found(&set, &tied, &tied_torch)];
        let shown = [&wheel, &tied].map(|it| shown(&set, it));
        let built = members(&wheel);
        let seen = [(&built, &shown[0]), (&own, &shown[1])];
        let [before, after] = seen.map(|(members, shown)| Seen { members, shown });
        is_mended(text_of(&wheel), &before, &after);
        let row = row(&shown[0], &shown[1], [&rules[0], &rules[1]], files.len());
        if !page.contains(&row) {
            missing.push(row);
        }
    }
    assert!(
        missing.is_empty(),
        "docs/framework.md has other rows than these:\n{}",
        missing.join("\n")
    );
}

/// Packages of ROCm, of stubs as they are, join a wheel of PyPI.
#[test]
#[ignore = "long"]
fn long_a_wheel_of_pypi_gets_rocm() {
    let stage = tempfile::tempdir().unwrap();
    let set = stage.path().join("set");
    stubs(&set, VERSION);
    let sdist = format!("rocm-{VERSION}.tar.gz");
    fs_err::copy(sample().dist().join(&sdist), set.join(&sdist)).unwrap();
    for (start, tag, _) in &WHEELS[..2] {
        let place = Place::new();
        place.tie(&[wheel_of_pypi(start)], &set, &["--bundle"]).ok();
        let tied = place.only();
        is_judged_well(&tied, tag);
        let own = members(&tied);
        assert_lacks!(text(&own, "/METADATA"), "Requires-Dist: rocm");
        let record: Value = serde_json::from_str(&text(&own, "/rocm_tie.json")).unwrap();
        let ran = record["run-paths"].as_array().unwrap().iter();
        let files: Vec<&str> = ran.map(|it| it[0].as_str().unwrap()).collect();
        is_found_by_the_loader(&[&own], &files);
    }
}

/// The file name of a wheel.
fn text_of(wheel: &Path) -> &str {
    wheel.file_name().unwrap().to_str().unwrap()
}

/// What auditwheel says about a wheel, with single spaces.
fn auditwheel(wheel: &Path) -> String {
    let mut auditwheel = Command::new(tool("auditwheel"));
    // For `repair` it also counts the symbols of libraries that it would copy from this host, such as
    // libgomp. What the wheel itself proves is asked for.
    auditwheel.args(["show", "--ldpaths", "/nowhere"]);
    let said = succeed(auditwheel.arg(wheel)).stdout;
    let said = String::from_utf8(said).unwrap();
    let said: Vec<&str> = said.split_whitespace().collect();
    said.join(" ")
}

#[test]
#[ignore = "long"]
fn long_the_bindings_of_amd_are_healthy() {
    // They open the libraries of ROCm by name, and are in the namespace `rocm`, which no package of a set has.
    let wheels =
        ["rocm_bindings_core", "rocm_bindings_hip", "rocm_bindings_libraries"].map(wheel_of_pypi);
    let set = published::sample().dist();
    let mut check = command();
    check.arg("check").arg(set).args(["--fail-on", "warning", "--with"]).args(&wheels);
    let said = Outcome::of(check.output().unwrap()).ok();
    assert_eq!(said.trim(), "OK, no problems in 7 packages");
    let mut show = command();
    show.args(["framework", "show"]).args(&wheels);
    let said = Outcome::of(show.output().unwrap()).ok();
    assert_eq!(said.matches("requires  rocm-bindings-core~=10.0.0.0\n").count(), 2, "{said}");
    assert_lacks!(said, "RUNPATH", "    needs ");

    let site = Site::new();
    for wheel in &wheels {
        site.unpack(wheel);
    }
    let mut doctor = command();
    doctor.arg("doctor").arg(site.root()).args(["--target", "gfx942"]);
    let said = Outcome::of(doctor.output().unwrap()).ok();
    assert_has!(said, "nothing is wrong with 10 packages");
}

#[test]
#[ignore = "long"]
fn long_the_table_of_tags_is_that_of_auditwheel() {
    let python = tool("auditwheel").with_file_name("python");
    let script = "import json, pathlib, auditwheel.policy as p\n\
                  print(pathlib.Path(p.__file__).with_name('manylinux-policy.json').read_text())";
    let theirs = succeed(Command::new(python).args(["-c", script])).stdout;
    let theirs: Value = serde_json::from_slice(&theirs).unwrap();
    let ours = fs_err::read_to_string("src/framework/manylinux.toml").unwrap();
    for policy in theirs.as_array().unwrap().iter().filter(|it| it["name"] != "linux") {
        let name = policy["name"].as_str().unwrap();
        let (_, row) = ours.split_once(&format!("name = \"{name}\"\n")).unwrap();
        let row = row.split("[[policy]]").next().unwrap();
        for (kind, versions) in policy["symbol_versions"]["x86_64"].as_object().unwrap() {
            let versions = versions.as_array().unwrap().iter().map(|it| it.as_str().unwrap());
            let is_number = |it: &&str| it.bytes().all(|it| it == b'.' || it.is_ascii_digit());
            let (numbers, names): (Vec<&str>, Vec<&str>) = versions.partition(is_number);
            let key = |it: &&str| it.split('.').map(|it| it.parse().unwrap()).collect::<Vec<u32>>();
            let newest = numbers.into_iter().max_by_key(key).unwrap_or("0");
            assert!(row.contains(&format!("{kind} = \"{newest}\"")), "{name}: {kind}");
            for version in names {
                assert!(row.contains(&format!("\"{kind}_{version}\"")), "{name}: {kind}_{version}");
            }
        }
    }
}
