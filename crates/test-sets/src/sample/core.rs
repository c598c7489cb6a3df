//! The artifacts of the sample that `rocm-sdk-core` is made of.

use super::{COMMIT, TARGETS, VERSION, sketch::Sketch};
use rocwheel_test_files::linker::{Executable, SharedObject};

const CLANG: &str = "clang version 22.0.0\nOVERVIEW: clang LLVM compiler (sample)\n";
const HIPCONFIG: &str = r#"#!/bin/sh
root=$(cd "$(dirname "$0")/.." && pwd)
case "$1" in
--rocmpath | -R) printf '%s' "$root" ;;
*) printf 'HIP version: 0.99.1\n\n== hipconfig\nROCM_PATH: %s\n' "$root" ;;
esac
"#;

pub(crate) fn sketches() -> Vec<Sketch> {
    vec![
        base(&TARGETS),
        base_tools(),
        sysdeps(),
        compiler_libraries(),
        compiler(),
        hip(),
        hip_tools(),
        hip_headers(),
        runtime(),
        kpack(),
        host_blas(),
        hipify(),
        amd_smi(),
        profiler_sdk(),
        media("rocdecode_lib_generic", "librocdecode.so.1"),
        media("rocjpeg_lib_generic", "librocjpeg.so.1"),
        media("hipfile_lib_generic", "libhipfile.so.0"),
        debugger(),
    ]
}

/// The manifest of a run with these targets, among others.
pub fn base(targets: &[&str]) -> Sketch {
    let manifest = format!(
        r#"{{
  "the_rock_commit": "{COMMIT}",
  "github_run_id": "local",
  "rocm_package_version": "{VERSION}",
  "rocm_version": "0.99.1",
  "submodules": [],
  "flags": {{
    "KPACK_SPLIT_ARTIFACTS": true
  }}
}}
"#
    );
    let targets = format!("{{\"dist_amdgpu_targets\": \"{}\"}}\n", targets.join(";"));
    Sketch::zst("base_lib_generic")
        .stage("base/aux-overlay/stage")
        .text(".info/version", "0.99.1\n")
        .text("share/therock/therock_manifest.json", &manifest)
        .text("share/therock/dist_info.json", &targets)
        .stage("base/rocm-smi-lib/stage")
        .library("lib", "librocm_smi64.so.1", ".0", |library| library.function("rsmi_init", 0))
}

/// A link to a directory of another artifact, and one to a file of another artifact.
fn base_tools() -> Sketch {
    Sketch::xz("base_run_generic")
        .stage("base/aux-overlay/stage")
        .link("llvm", "lib/llvm")
        .link("bin/offload-arch", "../lib/llvm/bin/offload-arch")
        .stage("base/rocm-smi-lib/stage")
        .script("bin/rocm-smi", "#!/bin/sh\necho 'ROCm System Management Interface'\n")
}

fn sysdeps() -> Sketch {
    Sketch::zst("sysdeps_lib_generic")
        .stage("third-party/sysdeps/linux/liblzma/stage")
        .library("lib/rocm_sysdeps/lib", "librocm_sysdeps_liblzma.so.5", ".8.1", |library| {
            library.function("lzma_answer", 5).runpath("$ORIGIN")
        })
        .text("lib/rocm_sysdeps/share/licenses/a, b [c] ü.txt", "An odd name, on purpose.\n")
}

fn compiler_libraries() -> Sketch {
    Sketch::xz("amd-llvm_lib_generic")
        .stage("compiler/amd-llvm/stage")
        .library("lib/llvm/lib", "libLLVM.so.22.0", "git", |library| {
            library.function("llvm_answer", 22).payload(1 << 20).runpath("$ORIGIN/../lib")
        })
        .stage("compiler/amd-comgr/stage")
        .library("lib", "libamd_comgr.so.3", ".0", |library| {
            library
                .needs("libLLVM.so.22.0")
                .needs("librocm_sysdeps_liblzma.so.5")
                .calls("amd_comgr_answer", "llvm_answer")
                .runpath("$ORIGIN:$ORIGIN/llvm/lib")
        })
}

/// Tools behind links behind links, as compilers come.
fn compiler() -> Sketch {
    Sketch::zst("amd-llvm_run_generic")
        .stage("compiler/amd-llvm/stage")
        .tool("lib/llvm/bin/clang-22", CLANG)
        .link("lib/llvm/bin/clang", "clang-22")
        .link("lib/llvm/bin/clang++", "clang")
        .tool("lib/llvm/bin/amdllvm", CLANG)
        .link("lib/llvm/bin/amdclang", "amdllvm")
        .link("lib/llvm/bin/amdclang++", "amdclang")
        .link("lib/llvm/bin/amdclang-cl", "amdclang")
        .link("lib/llvm/bin/amdclang-cpp", "amdclang")
        .tool("lib/llvm/bin/flang", "OVERVIEW: flang LLVM compiler (sample)\n")
        .link("lib/llvm/bin/amdflang", "flang")
        .tool("lib/llvm/bin/lld", "USAGE: ld.lld [options] file... (sample)\n")
        .link("lib/llvm/bin/amdlld", "lld")
        .tool("lib/llvm/bin/offload-arch", "gfx942\n")
        .text("lib/llvm/lib/clang/22/include/stddef.h", "#define NULL ((void *)0)\n")
        .link("bin/amdclang", "../lib/llvm/bin/amdclang")
        .link("bin/amdclang++", "../lib/llvm/bin/amdclang++")
}

fn hip() -> Sketch {
    Sketch::zst("core-hip_lib_generic")
        .stage("core/clr/stage")
        .library("lib", "libamdhip64.so.7", ".1.0", |library| {
            library
                .needs("libhsa-runtime64.so.1")
                .needs("libamd_comgr.so.3")
                .calls("hip_answer", "hsa_answer")
                .payload(256 << 10)
                .build_id(b"sample-amdhip64-0001")
                .runpath("$ORIGIN")
        })
        .library("lib", "libhiprtc.so.7", ".1.0", |library| {
            library
                .needs("libamd_comgr.so.3")
                .calls("hiprtc_answer", "amd_comgr_answer")
                .runpath("$ORIGIN")
        })
}

fn hip_tools() -> Sketch {
    Sketch::xz("core-hip_run_generic")
        .stage("core/clr/stage")
        .tool("bin/hipcc", CLANG)
        .script("bin/hipconfig", HIPCONFIG)
        .text("share/hip/version", "HIP_VERSION_MAJOR=0\n")
        .text("lib/cmake/hip/hip-config.cmake", "set(hip_FOUND TRUE)\n")
}

fn hip_headers() -> Sketch {
    Sketch::zst("core-hip_dev_generic")
        .stage("core/clr/stage")
        .text("include/hip/hip_runtime.h", "#pragma once\n")
        .text("lib/cmake/hip/hip-targets.cmake", "# targets\n")
        .text("lib/cmake/hip/hip-config-version.cmake", "set(PACKAGE_VERSION 0.99.1)\n")
}

fn runtime() -> Sketch {
    let rocminfo = Executable::new()
        .needs("libhsa-runtime64.so.1")
        .calls("hsa_no_error")
        .prints("ROCk module is not loaded (sample)\n")
        .runpath("$ORIGIN/../lib");
    Sketch::zst("core-runtime_lib_generic")
        .stage("core/ROCR-Runtime/stage")
        .library("lib", "libhsa-runtime64.so.1", ".18.0", |library| {
            library
                .needs("librocm_sysdeps_liblzma.so.5")
                .calls("hsa_answer", "lzma_answer")
                .function("hsa_no_error", 0)
                .runpath("$ORIGIN/rocm_sysdeps/lib")
        })
        .stage("core/rocminfo/stage")
        .program("bin/rocminfo", rocminfo.build())
        .script("bin/rocm_agent_enumerator", "#!/bin/sh\necho gfx942\n")
}

fn kpack() -> Sketch {
    Sketch::xz("core-kpack_lib_generic").stage("base/rocm-kpack/stage").library(
        "lib",
        "librocm_kpack.so.0",
        ".1",
        |library| library.function("kpack_answer", 1),
    )
}

fn host_blas() -> Sketch {
    Sketch::zst("host-blas_lib_generic").stage("third-party/host-blas/stage").library(
        "lib/host-math/lib",
        "librocm-openblas.so.0",
        ".3",
        |library| library.function("openblas_answer", 3).payload(64 << 10),
    )
}

fn hipify() -> Sketch {
    Sketch::xz("hipify_run_generic")
        .stage("compiler/hipify/stage")
        .tool("bin/hipify-clang", "USAGE: hipify-clang [options] <source> (sample)\n")
        .script("bin/hipify-perl", "#!/bin/sh\necho 'USAGE: hipify-perl [OPTIONS] INPUT_FILE'\n")
}

fn amd_smi() -> Sketch {
    Sketch::zst("core-amdsmi_lib_generic")
        .stage("core/amdsmi/stage")
        .library("lib", "libamd_smi.so.26", ".0", |library| library.function("amdsmi_init", 0))
        .script("libexec/amdsmi_cli/amdsmi_cli.py", "#!/bin/sh\necho 'AMD-SMI (sample)'\n")
        .link("bin/amd-smi", "../libexec/amdsmi_cli/amdsmi_cli.py")
}

fn profiler_sdk() -> Sketch {
    let tool = |name: &str| format!("#!/bin/sh\necho '{name} (sample)'\n");
    let mut sketch = Sketch::zst("rocprofiler-sdk_lib_generic")
        .stage("profiler/rocprofiler-sdk/stage")
        .library("lib", "librocprofiler-sdk.so.1", ".0", |library| {
            library
                .needs("libhsa-runtime64.so.1")
                .calls("rocprofiler_answer", "hsa_answer")
                .runpath("$ORIGIN")
        })
        .library("lib", "librocprofiler-sdk-roctx.so.1", ".0", |library| {
            library.function("roctx_answer", 4)
        })
        .library("lib", "libroctx64.so.4", ".1", |library| library.function("roctx_mark", 0))
        .library("lib", "libroctracer64.so.4", ".1", |library| {
            library
                .needs("libroctx64.so.4")
                .calls("roctracer_answer", "roctx_mark")
                .runpath("$ORIGIN")
        });
    for name in ["rocprofv3", "rocprofv3-attach", "rocprofv3-avail", "rocpd", "rocpd2csv"] {
        sketch = sketch.script(&format!("bin/{name}"), &tool(name));
    }
    for name in ["rocpd2otf2", "rocpd2pftrace", "rocpd2summary"] {
        sketch = sketch.script(&format!("bin/{name}"), &tool(name));
    }
    sketch
}

fn media(artifact: &'static str, soname: &str) -> Sketch {
    let function = soname.trim_start_matches("lib").replace(['.', '-'], "_");
    Sketch::xz(artifact)
        .stage("media-libs/stage")
        .library("lib", soname, ".0", |library| library.function(&function, 1))
}

/// A library found through a link whose target calls itself as the link is called, an object
/// without a SONAME, and a static executable.
fn debugger() -> Sketch {
    let plugin = SharedObject::new("unused").without_soname().function("gdb_plugin", 1);
    Sketch::zst("rocgdb_run_generic")
        .stage("debug-tools/rocgdb/stage")
        .tool("bin/rocgdb", "GNU gdb (rocm-rel, sample)\n")
        .script("bin/roccoremerge", "#!/bin/sh\necho 'roccoremerge (sample)'\n")
        .program("lib/gdb/plugin.so", plugin.build())
        .text("share/gdb/python/gdb/__init__.py", "# a nested package\n")
        .hard_link("share/gdb/python/gdb/printing.py", "share/gdb/python/gdb/__init__.py")
        .directory("share/gdb/empty")
}
