//! A set for Windows, made here: libraries and programs as they are, and what its users get.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{build, files, succeed};
use crate::judges::tool;

const VERSION: &str = "1.2.0";
/// What this small run has not.
const NOT_BUILT: &str = "amd_comgr,amdclang,amdclang++,amdclang-cl,amdclang-cpp,amdflang,amdlld,\
    hipblas,hipblaslt,hipsparse,hipsolver,origami,lib/cmake/hip/hip-config.cmake,core-kpack,fft,\
    hipcc,hipconfig,hipdnn,hipify,hiprtc,host-blas,miopen,rand";

fn program() -> Vec<u8> {
    pe(0x0022)
}

fn library() -> Vec<u8> {
    pe(0x2022)
}

/// A file for Windows on x86-64 of one empty section, as far as its headers go.
fn pe(characteristics: u16) -> Vec<u8> {
    let mut file = b"MZ".to_vec();
    file.resize(0x3c, 0);
    file.extend(0x80_u32.to_le_bytes());
    file.resize(0x80, 0);
    file.extend(b"PE\0\0\x64\x86\x01\0");
    file.extend([0; 12]);
    file.extend(240_u16.to_le_bytes());
    file.extend(characteristics.to_le_bytes());
    file.extend(0x020b_u16.to_le_bytes());
    file.resize(0x80 + 24 + 240, 0);
    file.extend(b".text\0\0\0");
    file.resize(0x400, 0);
    file
}

/// Artifacts for Windows, and the flags of a build of them.
pub(crate) fn artifacts_and_flags(name: &str) -> (PathBuf, Vec<String>) {
    let flags = [
        &["--platform", "windows"][..],
        &FLAGS,
        &["--without", NOT_BUILT],
    ]
    .concat();
    let flags = flags.into_iter().map(str::to_owned);
    (artifacts(name).join("in"), flags.collect())
}

const FLAGS: [&str; 4] = [
    "--linux-amdgpu-families",
    "gfx942",
    "--windows-amdgpu-families",
    "gfx1100,gfx1201",
];

/// Artifacts for Windows, in a directory of this test's own.
fn artifacts(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("build")
        .join(name);
    if place.exists() {
        fs_err::remove_dir_all(&place).unwrap();
    }
    let manifest = format!(
        r#"{{"rocm_package_version": "{VERSION}", "flags": {{"KPACK_SPLIT_ARTIFACTS": true}}}}"#
    );
    let overlay = "base/aux-overlay/stage";
    let about = "share/therock/therock_manifest.json";
    let add = |artifact: &str, base: &str, path: &str, content: &[u8]| {
        let artifact = place.join("in").join(artifact);
        let file = artifact.join(base).join(path);
        fs_err::create_dir_all(file.parent().unwrap()).unwrap();
        fs_err::write(file, content).unwrap();
        fs_err::write(artifact.join("artifact_manifest.txt"), format!("{base}\n")).unwrap();
    };
    add("base_lib_generic", overlay, about, manifest.as_bytes());
    for (artifact, path, content) in [
        ("amd-llvm_run_generic", "lib/llvm/bin/clang.exe", program()),
        (
            "amd-llvm_run_generic",
            "lib/llvm/bin/offload-arch.exe",
            program(),
        ),
        ("core-hip_lib_generic", "bin/amdhip64_7.dll", library()),
        (
            "core-hip_dev_generic",
            "lib/amdhip64.lib",
            b"!<arch>\n".to_vec(),
        ),
        (
            "core-hip_dev_generic",
            "include/hip/hip_runtime.h",
            b"#pragma once\r\n".to_vec(),
        ),
        ("core-hipinfo_run_generic", "bin/hipInfo.exe", program()),
        ("core-runtime_run_generic", "bin/rocminfo.exe", program()),
        ("blas_lib_generic", "bin/rocblas.dll", library()),
        (
            "blas_lib_generic",
            "bin/rocblas/library/TensileLibrary.dat",
            vec![7; 100],
        ),
        (
            "blas_dev_generic",
            "include/rocblas/rocblas.h",
            b"#pragma once\r\n".to_vec(),
        ),
        (
            "blas_lib_gfx1201",
            ".kpack/blas_lib_gfx1201.kpack",
            vec![9; 100],
        ),
        (
            "blas_lib_gfx1100",
            ".kpack/blas_lib_gfx1100.kpack",
            vec![8; 100],
        ),
        (
            "rocprofiler-compute_run_generic",
            "libexec/rocprofiler-compute/x.py",
            Vec::new(),
        ),
    ] {
        add(artifact, "stage", path, &content);
    }
    place
}

#[test]
#[ignore = "slow"]
fn a_set_for_windows_is_what_windows_users_install() {
    let (artifacts, flags) = artifacts_and_flags("windows");
    let place = artifacts.parent().unwrap();
    succeed(build(place, "out").args(flags));
    let dist = place.join("out/dist");
    let names: Vec<String> = files(&dist).into_keys().collect();
    insta::assert_snapshot!(names.join("\n"), @"
    rocm-1.2.0.tar.gz
    rocm_sdk_core-1.2.0-py3-none-win_amd64.whl
    rocm_sdk_devel-1.2.0-py3-none-win_amd64.whl
    rocm_sdk_device_gfx1100-1.2.0-py3-none-win_amd64.whl
    rocm_sdk_device_gfx1201-1.2.0-py3-none-win_amd64.whl
    rocm_sdk_libraries-1.2.0-py3-none-win_amd64.whl
    ");
    for name in names.iter().filter(|name| name.ends_with(".whl")) {
        let mut unpack = Command::new(tool("wheel"));
        unpack.args(["unpack", "--dest"]).arg(place.join("wheels"));
        succeed(unpack.arg(dist.join(name)));
    }
    let site = installed(place);
    for (path, artifact) in [
        ("_rocm_sdk_core/bin/hipInfo.exe", "core-hipinfo_run_generic"),
        ("_rocm_sdk_core/bin/amdhip64_7.dll", "core-hip_lib_generic"),
        ("_rocm_sdk_libraries/bin/rocblas.dll", "blas_lib_generic"),
        (
            "_rocm_sdk_libraries/.kpack/blas_lib_gfx1201.kpack",
            "blas_lib_gfx1201",
        ),
    ] {
        let (_, below) = path.split_once('/').unwrap();
        let source = place.join("in").join(artifact).join("stage").join(below);
        assert!(
            fs_err::read(site.join(path)).unwrap() == fs_err::read(source).unwrap(),
            "{path}"
        );
    }
    for absent in [
        "_rocm_profiler",
        "_rocm_sdk_libraries/.kpack/blas_lib_gfx1100.kpack",
    ] {
        assert!(!site.join(absent).exists(), "{absent}");
    }
    let scripts =
        fs_err::read_to_string(site.join("rocm_sdk_core-1.2.0.dist-info/entry_points.txt"));
    let scripts = scripts.unwrap();
    assert!(
        scripts.contains("hipInfo = ") && scripts.contains("rocminfo = "),
        "{scripts}"
    );
    assert!(
        !scripts.contains("rocgdb") && !scripts.contains("roc-obj"),
        "{scripts}"
    );
}

/// What uv installs for a user of Windows who asks for one target, from these files alone.
fn installed(place: &Path) -> PathBuf {
    let site = place.join("site");
    let mut uv = Command::new(tool("uv"));
    uv.args([
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-config",
        "--no-cache",
    ])
    .args(["--python-platform", "windows", "--find-links"])
    .arg(place.join("out/dist"))
    .arg("--python")
    .arg(tool("python"))
    .arg("--target")
    .arg(&site)
    .arg(format!("rocm[libraries,devel,device-gfx1201]=={VERSION}"));
    succeed(&mut uv);
    site
}
