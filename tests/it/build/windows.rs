//! A set for Windows, made here: libraries and programs as they are, and what its users get.

use super::{build, files, succeed};
use crate::support::prelude::*;
use crate::{check::windows::dll, support::place::empty};

const VERSION: &str = "1.2.0";
/// What this small run has not.
const NOT_BUILT: &str = "amd_comgr,amdclang,amdclang++,amdclang-cl,amdclang-cpp,amdflang,amdlld,\
    hipblas,hipblaslt,hipsparse,hipsolver,origami,lib/cmake/hip/hip-config.cmake,core-kpack,fft,\
    lib/cmake/hip/hip-targets.cmake,lib/cmake/rocblas/rocblas-config.cmake,prim,\
    hipcc,hipconfig,hipdnn,hipify,hiprtc,host-blas,miopen,rand";

fn library() -> Vec<u8> {
    dll(&[], &[])
}

/// The same without the flag of a library.
fn program() -> Vec<u8> {
    let mut file = library();
    file[0x57] &= !0x20;
    file
}

/// Artifacts for Windows, and the flags of a build of them.
pub(crate) fn artifacts_and_flags(name: &str) -> (PathBuf, Vec<String>) {
    let flags = "--platform windows --linux-amdgpu-families gfx942 \
                 --windows-amdgpu-families gfx1100,gfx1201 --without";
    let flags = flags.split_whitespace().chain([NOT_BUILT]).map(str::to_owned);
    (artifacts(name).join("in"), flags.collect())
}

/// Artifacts for Windows, in a directory of this test's own.
fn artifacts(name: &str) -> PathBuf {
    let place = empty(&format!("build/{name}"));
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
    let (core, blas) = ("core-hip_dev_generic", "blas_lib_generic");
    let header = b"#pragma once\r\n".to_vec();
    for (artifact, path, content) in [
        ("amd-llvm_run_generic", "lib/llvm/bin/clang.exe", program()),
        ("amd-llvm_run_generic", "lib/llvm/bin/offload-arch.exe", program()),
        ("core-hip_lib_generic", "bin/amdhip64_7.dll", library()),
        (core, "lib/amdhip64.lib", b"!<arch>\n".to_vec()),
        (core, "include/hip/hip_runtime.h", header.clone()),
        ("core-hipinfo_run_generic", "bin/hipInfo.exe", program()),
        ("core-runtime_run_generic", "bin/rocminfo.exe", program()),
        (blas, "bin/rocblas.dll", library()),
        (blas, "bin/rocblas/library/TensileLibrary.dat", vec![7; 100]),
        ("blas_dev_generic", "include/rocblas/rocblas.h", header),
        ("blas_lib_gfx1201", ".kpack/blas_lib_gfx1201.kpack", vec![9; 100]),
        ("blas_lib_gfx1100", ".kpack/blas_lib_gfx1100.kpack", vec![8; 100]),
        ("rocprofiler-compute_run_generic", "libexec/rocprofiler-compute/x.py", Vec::new()),
    ] {
        add(artifact, "stage", path, &content);
    }
    place
}

#[test]
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
    for (package, path, artifact) in [
        ("core", "bin/hipInfo.exe", "core-hipinfo_run_generic"),
        ("core", "bin/amdhip64_7.dll", "core-hip_lib_generic"),
        ("libraries", "bin/rocblas.dll", "blas_lib_generic"),
        ("libraries", ".kpack/blas_lib_gfx1201.kpack", "blas_lib_gfx1201"),
    ] {
        let source = place.join("in").join(artifact).join("stage").join(path);
        let installed = site.join(format!("_rocm_sdk_{package}")).join(path);
        let [installed, source] = [installed, source].map(|it| fs_err::read(it).unwrap());
        assert!(installed == source, "{path}");
    }
    assert!(!site.join("_rocm_profiler").exists());
    assert!(!site.join("_rocm_sdk_libraries/.kpack/blas_lib_gfx1100.kpack").exists());
    let scripts = site.join("rocm_sdk_core-1.2.0.dist-info/entry_points.txt");
    let scripts = fs_err::read_to_string(scripts).unwrap();
    assert_has!(scripts, "hipInfo = ", "rocminfo = ");
    assert_lacks!(scripts, "rocgdb", "roc-obj");
}

/// What uv installs for a user of Windows who asks for one target, from these files alone.
fn installed(place: &Path) -> PathBuf {
    let site = place.join("site");
    let mut uv = Command::new(tool("uv"));
    uv.args(["pip", "install", "--quiet", "--no-index", "--no-config"]);
    uv.args(["--no-cache", "--python-platform", "windows", "--python"]);
    uv.arg(tool("python")).arg("--find-links").arg(place.join("out/dist"));
    uv.arg("--target").arg(&site);
    uv.arg(format!("rocm[libraries,devel,device-gfx1201]=={VERSION}"));
    succeed(&mut uv);
    site
}
