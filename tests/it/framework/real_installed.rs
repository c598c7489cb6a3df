//! Wheels of PyPI, tied and split, are what installers take: pip and uv resolve what they require, and
//! install each file.
//!
//! The wheel as it was tied and the host wheel of its split have one name and version, so they must not
//! be in one place: an installer may take either of them, and that of the tied one has no device wheel.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    Place,
    real::{stubs, tie, torch, wheels},
    split::{split, wheels_of},
};
use crate::{
    judges::tool,
    support::{demo::DemoWheel, long, place::text, program::succeed},
};

/// A package `rocm` that requires the others, as the sdist does.
fn rocm(to: &Path) {
    let mut rocm = DemoWheel::bare("rocm");
    "7.14.0".clone_into(&mut rocm.version);
    "Provides-Extra: libraries\nRequires-Dist: rocm-sdk-core==7.14.0\n\
     Requires-Dist: rocm-sdk-libraries==7.14.0; extra == \"libraries\"\n"
        .clone_into(&mut rocm.headers);
    rocm.write(to);
}

/// Installs for the Python and the host that the wheel is for.
fn install(installer: &str, wheel: &Path, what: &str, from: &[&Path], to: &Path) {
    let name = wheel.file_name().unwrap().to_str().unwrap();
    let parts: Vec<&str> = name.trim_end_matches(".whl").rsplit('-').collect();
    let (platform, python) = (
        parts[0],
        parts[2].replace("cp3", "3.").replace("py3", "3.12"),
    );
    let mut command = Command::new(tool(installer));
    match installer {
        "pip" => command
            .args(["install", "--quiet", "--no-cache-dir"])
            .args(["--only-binary=:all:", "--platform", platform])
            // Of the packages of ROCm and of the demonstrations.
            .args(["--platform", "linux_x86_64"]),
        _ => command
            .args(["pip", "install", "--quiet", "--no-cache", "--no-build"])
            .args(["--python-platform", "x86_64-manylinux_2_40"]),
    };
    command.args(["--no-index", "--python-version", &python]);
    command.arg("--target").arg(to).arg(what);
    for from in from {
        command.arg("--find-links").arg(from);
    }
    for variable in ["PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"] {
        command.env_remove(variable);
    }
    succeed(&mut command);
}

/// The files that RECORD of an installed project names.
fn recorded(site: &Path, project: &str) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(site).unwrap();
    let mut names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    let info = names.find(|it| it.starts_with(project) && it.ends_with(".dist-info"));
    let info = info.unwrap_or_else(|| panic!("{project} is not installed"));
    let record = fs_err::read_to_string(site.join(info).join("RECORD")).unwrap();
    let rows = record.lines().map(|row| row.split(',').next().unwrap());
    rows.map(|path| site.join(path)).collect()
}

fn is_installed(wheel: &Path, installer: &str) {
    let stage = tempfile::tempdir().unwrap();
    let [set, parts, site] = ["set", "parts", "site"].map(|it| stage.path().join(it));
    stubs(&set, "7.14.0");
    rocm(&set);
    let torch = torch(stage.path());
    let torch_file = torch.file_name().unwrap();
    let place = Place::new();
    let tied = tie(&place, [wheel, &torch], &set, &[]);
    let only = ["--min-saving", "0", "--targets", "gfx942", "--no-selector"];
    split(std::slice::from_ref(&tied), &parts, &only).ok();
    let host = wheels_of(&parts).into_iter();
    let host: Vec<PathBuf> = host.filter(|it| !text(it).contains("/amd_")).collect();
    let name = host[0].file_name().unwrap().to_str().unwrap();
    let project = name.split('-').next().unwrap();
    // Further packages that the wheels require.
    for other in [
        "jax_rocm7_pjrt-0.12.0",
        "numpy-2.0",
        "scipy-2.0",
        "packaging-30.0",
    ] {
        let (other, version) = other.split_once('-').unwrap();
        let mut stub = DemoWheel::bare(other);
        version.clone_into(&mut stub.version);
        stub.write(&set);
    }
    // The group was tied together: torch requires ROCm, too.
    fs_err::copy(place.tied().join(torch_file), set.join(torch_file)).unwrap();
    let what = format!("{project}[device-gfx942]");
    install(installer, &host[0], &what, &[&parts, &set], &site);
    let own = recorded(&site, project);
    let device = recorded(&site, &format!("amd_{project}_device_gfx942"));
    assert!(device.iter().any(|it| text(it).ends_with("_gfx942.kpack")));
    for file in own.iter().chain(&device).chain(&recorded(&site, "rocm-")) {
        assert!(file.exists(), "{installer}: {}", file.display());
    }
}

#[test]
fn pip_and_uv_install_wheels_of_pypi() {
    if long::is_left_out() {
        return;
    }
    for (path, _) in wheels() {
        for installer in ["pip", "uv"] {
            is_installed(&path, installer);
        }
    }
}
