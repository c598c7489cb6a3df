//! A set is unpacked for a build, as uv and `rocm-sdk init` would install it.

use std::{
    collections::BTreeMap,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::Command,
};

use super::{
    Place,
    guide::{ANSWER, project},
};
use crate::{
    judges::tool,
    support::{
        place::text,
        program::{Outcome, rocwheel, succeed},
        published::{VERSION, sample},
    },
};

fn env(set: &Path, to: &Path, flags: &[&str]) -> Outcome {
    let all = ["framework", "env", "--set", text(set), "--unpack", text(to)];
    rocwheel(&[&all[..], flags].concat())
}

/// What is at each path: the kind and the text of a link, or the executable bit, the bytes, and
/// whether the file has another name, too.
fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let entries = walkdir::WalkDir::new(root).into_iter().map(Result::unwrap);
    for entry in entries.filter(|it| !it.file_type().is_dir()) {
        let path = entry.path();
        let name = text(path.strip_prefix(root).unwrap()).to_owned();
        if name.contains("__pycache__") || !name.starts_with("_rocm_sdk") {
            continue;
        }
        let what = if entry.file_type().is_symlink() {
            format!("link to {}", fs_err::read_link(path).unwrap().display())
        } else {
            let facts = fs_err::metadata(path).unwrap();
            let is_executable = facts.permissions().mode() & 0o111 != 0;
            let bytes = fs_err::read(path).unwrap();
            // Installers link files to their cache, so only names in the development tree count.
            let is_linked = name.starts_with("_rocm_sdk_devel") && facts.nlink() > 1;
            format!(
                "{is_executable} {is_linked} {}",
                rocwheel::digest::Sha256::of(&bytes)
            )
        };
        found.insert(name, what);
    }
    found
}

#[test]
fn it_is_what_an_installer_and_init_leave() {
    let place = Place::new();
    let (set, sdk, venv) = (
        sample().dist(),
        place.0.path().join("sdk"),
        place.0.path().join("venv"),
    );
    let said = env(&set, &sdk, &["--targets", "gfx942", "--for", "torch"]);
    assert!(said.stderr.contains("Unpacked"), "{}", said.stderr);
    let root = sdk.canonicalize().unwrap().join("_rocm_sdk_devel");
    let line = format!("export ROCM_PATH='{}'\n", text(&root));
    let said = said.ok();
    assert!(
        said.contains(&line) && said.contains("PYTORCH_ROCM_ARCH='gfx942'"),
        "{said}"
    );

    let uv = || Command::new(tool("uv"));
    succeed(
        uv().args(["venv", "--quiet", "--python", "python3"])
            .arg(&venv),
    );
    let python = venv.join("bin/python");
    let wanted = format!("rocm[libraries,devel,device-gfx942]=={VERSION}");
    let install = [
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-index",
        "--link-mode",
        "copy",
    ];
    let mut install_set = uv();
    install_set.args(install).arg("--find-links").arg(&set);
    succeed(install_set.arg("--python").arg(&python).arg(wanted));
    succeed(Command::new(venv.join("bin/rocm-sdk")).arg("init"));
    let site =
        succeed(Command::new(&python).args(["-c", "import rocm_sdk; print(rocm_sdk.__file__)"]));
    let site = String::from_utf8(site.stdout).unwrap();
    let site = Path::new(site.trim()).ancestors().nth(2).unwrap();
    let (ours, theirs) = (tree(&sdk), tree(site));
    assert!(theirs.len() > 20, "{theirs:?}");
    assert_eq!(ours, theirs);
    for package in ["rocm_sdk_devel", "rocm_sdk_device_gfx942"] {
        let info = format!("{package}-{VERSION}.dist-info/RECORD");
        let [ours, theirs] = [&sdk, site].map(|site| {
            let record = fs_err::read_to_string(site.join(&info)).unwrap();
            let rows = record
                .lines()
                .map(|row| row.split(',').next().unwrap().to_owned());
            let rows = rows.filter(|row| row.starts_with("_rocm_sdk_devel/"));
            rows.collect::<std::collections::BTreeSet<_>>()
        });
        assert_eq!(ours, theirs, "{package}");
    }
}

#[test]
fn the_same_set_is_unpacked_once_and_nothing_else_is_replaced() {
    let place = Place::new();
    let (set, sdk) = (sample().dist(), place.0.path().join("sdk"));
    env(&set, &sdk, &[]).ok();
    let before = fs_err::metadata(&sdk).unwrap().ino();
    let again = env(&set, &sdk, &[]);
    assert!(again.stderr.contains("Found"), "{}", again.stderr);
    assert_eq!(fs_err::metadata(&sdk).unwrap().ino(), before);
    // With other targets it is another set of packages.
    assert!(!sdk.join("_rocm_sdk_libraries/.devel_links").exists());
    env(&set, &sdk, &["--targets", "gfx1100"]).ok();
    assert!(sdk.join("_rocm_sdk_libraries/.devel_links").exists());

    let other = place.0.path().join("other");
    fs_err::create_dir(&other).unwrap();
    fs_err::write(other.join("notes.txt"), "mine").unwrap();
    let without = place.0.path().join("without");
    fs_err::create_dir(&without).unwrap();
    for entry in fs_err::read_dir(&set).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if !text(Path::new(name)).contains("devel") {
            fs_err::copy(&path, without.join(name)).unwrap();
        }
    }
    let new = place.0.path().join("new");
    let refused = [
        env(&set, &other, &[]),
        env(&set, &new, &["--targets", "gfx1201"]),
        env(&without, &new, &[]),
    ];
    let shown = refused.map(|it| format!("exit {}\n{}{}", it.code, it.stdout, it.stderr));
    let shown = shown.join("\n").replace(text(place.0.path()), "PLACE");
    insta::assert_snapshot!(shown, @"
    exit 2
    error: `PLACE/other` holds something else than an unpacked set

    hint: pass another directory, or remove it

    exit 2
    error: no device code for gfx1201 is in the set, only for gfx1100, gfx942

    hint: add `rocm-sdk-device-gfx1201`, or leave gfx1201 out of `--targets`

    exit 2
    error: failed to use `PLACE/without`
      caused by: the set has no `rocm-sdk-devel` 0.0.1.dev0

    hint: development files are what builds need: build the set with them
    ");
    assert_eq!(
        fs_err::read_to_string(other.join("notes.txt")).unwrap(),
        "mine"
    );
    assert!(!new.exists());
}

#[test]
fn a_damaged_package_leaves_nothing() {
    let place = Place::new();
    let (set, sdk) = (place.0.path().join("set"), place.0.path().join("sdk"));
    fs_err::create_dir(&set).unwrap();
    for entry in fs_err::read_dir(sample().dist()).unwrap() {
        let path = entry.unwrap().path();
        let to = set.join(path.file_name().unwrap());
        fs_err::copy(&path, &to).unwrap();
        if text(&to).contains("rocm_sdk_libraries") {
            let mut bytes = fs_err::read(&to).unwrap();
            let members = crate::support::members::unzip(&bytes);
            let (_, _, content) = members.iter().find(|it| it.0.ends_with("/RECORD")).unwrap();
            assert!(!content.is_empty());
            bytes[200] ^= 1;
            fs_err::write(&to, bytes).unwrap();
        }
    }
    let said = env(&set, &sdk, &[]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(
        said.stderr.contains("failed to unpack `rocm_sdk_libraries"),
        "{}",
        said.stderr
    );
    assert!(!sdk.exists());
    let left = fs_err::read_dir(place.0.path()).unwrap().count();
    assert_eq!(left, 1, "only the set is there");
}

/// Builds the framework with what a shell made of the variables, and loads it.
const BUILD: &str = r#"
eval "$VARIABLES"
cmake -S project/src -B build -G "Unix Makefiles" > configure.log
cmake --build build > build.log
python3 -c 'import ctypes; print(ctypes.CDLL("build/_C.so").answer())'
"#;

#[test]
fn cmake_links_a_framework_with_the_variables() {
    let place = Place::new();
    let root = place.0.path();
    project(&root.join("project"));
    let variables = env(&sample().dist(), &root.join("sdk"), &["--for", "torch"]).ok();
    let cmake = tool("cmake").parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    let path = [cmake].into_iter().chain(std::env::split_paths(&path));
    let mut shell = Command::new("sh");
    shell
        .args(["-eu", "-c", BUILD])
        .current_dir(root)
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("VARIABLES", variables)
        .env("LD_LIBRARY_PATH", "");
    let said = succeed(&mut shell).stdout;
    assert_eq!(String::from_utf8(said).unwrap().trim(), ANSWER);
}
