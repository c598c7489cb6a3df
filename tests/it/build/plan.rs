//! `--plan`: what is said beforehand is what is made.

use std::{collections::BTreeMap, path::Path, process::Command};

use serde_json::Value;
use zip::ZipArchive;

use super::{build, place, succeed};
use crate::judges::tool;

fn planned(place: &Path, arguments: &[&str]) -> String {
    let output = succeed(build(place, "planned").arg("--plan").args(arguments));
    assert!(!place.join("planned/dist").exists());
    String::from_utf8(output.stdout).unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("no `{key}` in {value}"))
}

#[test]
fn every_package_holds_what_the_plan_said() {
    let place = place("planned");
    let plan: Value = serde_json::from_str(&planned(&place, &["--format", "json"])).unwrap();
    assert_eq!(text(&plan, "schema"), "rocwheel-plan-v1");
    assert_eq!(text(&plan, "mode"), "split");
    assert_eq!(text(&plan, "platform"), "linux");
    assert_eq!(plan["targets"], serde_json::json!(["gfx1100", "gfx942"]));
    succeed(&mut build(&place, "out"));
    let mut relinked = Vec::new();
    for package in plan["packages"].as_array().unwrap() {
        let file = place.join("out/dist").join(text(package, "path"));
        let members = package["members"].as_array().unwrap();
        if text(package, "package") == "meta" {
            assert!(file.is_file());
            continue;
        }
        let mut wheel = ZipArchive::new(fs_err::File::open(&file).unwrap()).unwrap();
        assert_eq!(wheel.len(), members.len() + 1, "{package}");
        for (index, planned) in members.iter().enumerate() {
            let member = wheel.by_index(index).unwrap();
            assert_eq!(&*member.name().unwrap(), text(planned, "path"));
            let executable = member.unix_mode().unwrap() & 0o111 != 0;
            assert_eq!(planned["executable"], executable, "{planned}");
            if let "copy" | "text" = text(planned, "source") {
                assert_eq!(planned["size"], member.size(), "{planned}");
            }
            if text(planned, "source") == "relink" {
                relinked.push((
                    text(planned, "path").to_owned(),
                    text(planned, "rpath").to_owned(),
                ));
            }
        }
    }
    unpack(&place);
    run_paths(&place, &relinked);
}

/// Every wheel, unpacked by the tool of the format's authors, which verifies RECORD.
fn unpack(place: &Path) {
    for entry in fs_err::read_dir(place.join("out/dist")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension() == Some("whl".as_ref()) {
            let mut unpack = Command::new(tool("wheel"));
            unpack.args(["unpack", "--dest"]).arg(place.join("wheels"));
            succeed(unpack.arg(path));
        }
    }
}

/// The run paths that other readers find.
fn run_paths(place: &Path, relinked: &[(String, String)]) {
    assert!(relinked.len() > 20, "{}", relinked.len());
    let directories: Vec<_> = fs_err::read_dir(place.join("wheels"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let found = |path: &str| {
        let mut places = directories.iter().map(|directory| directory.join(path));
        places.find(|place| place.exists()).unwrap()
    };
    let expected: BTreeMap<_, _> = relinked
        .iter()
        .map(|(path, run)| (found(path), run))
        .collect();
    for (path, run_path) in &expected {
        let said = succeed(
            Command::new(tool("patchelf"))
                .arg("--print-rpath")
                .arg(path),
        );
        assert_eq!(
            String::from_utf8(said.stdout).unwrap().trim_end(),
            *run_path
        );
        let said = succeed(Command::new("readelf").arg("-dW").arg(path));
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(
            said.contains(&format!("(RPATH)              Library rpath: [{run_path}]")),
            "{said}"
        );
        assert!(!said.contains("(RUNPATH)"), "{said}");
    }
}

/// The plan without directories, artifacts, run paths and the texts that every package has; and of a
/// link to the same path of another package only that package.
fn short(plan: &str) -> String {
    let lines = plan.lines().filter_map(|line| {
        let is_common = line.starts_with("  text   ") && !line.starts_with("  text   _rocm");
        if is_common || line.starts_with("    mkdir") {
            return None;
        }
        let line = line.split(" < ").next()?;
        let Some((place, target)) = line.split_once(" -> ") else {
            return Some(line.split(" (").next()?.to_owned());
        };
        let path = place
            .trim_start()
            .split_once("   ")
            .map_or(place, |(_, path)| path);
        let package = target
            .strip_suffix(path)
            .map(|up| up.trim_start_matches("../"));
        Some(match package {
            Some(package) => format!("{place} in {}", package.trim_end_matches('/')),
            None => line.to_owned(),
        })
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
#[expect(clippy::too_many_lines, reason = "a line for each member")]
fn the_sample_comes_to_this() {
    let plan = planned(&place("shown"), &[]);
    insta::assert_snapshot!(short(&plan), @"
    rocm_sdk_core-0.0.1.dev0-py3-none-linux_x86_64.whl
      copy   _rocm_sdk_core/.info/version
      text   _rocm_sdk_core/__init__.py
      launch _rocm_sdk_core/bin/amd-smi* -> ../libexec/amdsmi_cli/amdsmi_cli.py
      launch _rocm_sdk_core/bin/amdclang* -> ../lib/llvm/bin/amdllvm
      launch _rocm_sdk_core/bin/amdclang++* -> ../lib/llvm/bin/amdllvm
      copy   _rocm_sdk_core/bin/hipcc*
      copy   _rocm_sdk_core/bin/hipconfig*
      copy   _rocm_sdk_core/bin/hipify-clang*
      copy   _rocm_sdk_core/bin/hipify-perl*
      copy   _rocm_sdk_core/bin/roccoremerge*
      copy   _rocm_sdk_core/bin/rocgdb*
      copy   _rocm_sdk_core/bin/rocm-smi*
      copy   _rocm_sdk_core/bin/rocm_agent_enumerator*
      relink _rocm_sdk_core/bin/rocminfo*
      copy   _rocm_sdk_core/bin/rocpd*
      copy   _rocm_sdk_core/bin/rocpd2csv*
      copy   _rocm_sdk_core/bin/rocpd2otf2*
      copy   _rocm_sdk_core/bin/rocpd2pftrace*
      copy   _rocm_sdk_core/bin/rocpd2summary*
      copy   _rocm_sdk_core/bin/rocprofv3*
      copy   _rocm_sdk_core/bin/rocprofv3-attach*
      copy   _rocm_sdk_core/bin/rocprofv3-avail*
      copy   _rocm_sdk_core/include/hip/hip_runtime.h
      copy   _rocm_sdk_core/lib/gdb/plugin.so*
      copy   _rocm_sdk_core/lib/host-math/lib/librocm-openblas.so.0*
      relink _rocm_sdk_core/lib/libamd_comgr.so.3*
      copy   _rocm_sdk_core/lib/libamd_smi.so.26*
      relink _rocm_sdk_core/lib/libamdhip64.so.7*
      copy   _rocm_sdk_core/lib/libhipfile.so.0*
      relink _rocm_sdk_core/lib/libhiprtc.so.7*
      relink _rocm_sdk_core/lib/libhsa-runtime64.so.1*
      copy   _rocm_sdk_core/lib/librocdecode.so.1*
      copy   _rocm_sdk_core/lib/librocjpeg.so.1*
      copy   _rocm_sdk_core/lib/librocm_kpack.so.0*
      copy   _rocm_sdk_core/lib/librocm_smi64.so.1*
      copy   _rocm_sdk_core/lib/librocprofiler-sdk-roctx.so.1*
      relink _rocm_sdk_core/lib/librocprofiler-sdk.so.1*
      relink _rocm_sdk_core/lib/libroctracer64.so.4*
      copy   _rocm_sdk_core/lib/libroctx64.so.4*
      launch _rocm_sdk_core/lib/llvm/bin/amdclang* -> amdllvm
      launch _rocm_sdk_core/lib/llvm/bin/amdclang++* -> amdllvm
      launch _rocm_sdk_core/lib/llvm/bin/amdclang-cl* -> amdllvm
      launch _rocm_sdk_core/lib/llvm/bin/amdclang-cpp* -> amdllvm
      launch _rocm_sdk_core/lib/llvm/bin/amdflang* -> flang
      launch _rocm_sdk_core/lib/llvm/bin/amdlld* -> lld
      copy   _rocm_sdk_core/lib/llvm/bin/amdllvm*
      launch _rocm_sdk_core/lib/llvm/bin/clang* -> clang-22
      launch _rocm_sdk_core/lib/llvm/bin/clang++* -> clang-22
      copy   _rocm_sdk_core/lib/llvm/bin/clang-22*
      copy   _rocm_sdk_core/lib/llvm/bin/flang*
      copy   _rocm_sdk_core/lib/llvm/bin/lld*
      copy   _rocm_sdk_core/lib/llvm/bin/offload-arch*
      copy   _rocm_sdk_core/lib/llvm/lib/clang/22/include/stddef.h
      relink _rocm_sdk_core/lib/llvm/lib/libLLVM.so.22.0*
      relink _rocm_sdk_core/lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so.5*
      copy   _rocm_sdk_core/lib/rocm_sysdeps/share/licenses/a, b [c] ü.txt
      copy   _rocm_sdk_core/libexec/amdsmi_cli/amdsmi_cli.py*
      copy   _rocm_sdk_core/share/gdb/python/gdb/__init__.py
      copy   _rocm_sdk_core/share/gdb/python/gdb/printing.py
      copy   _rocm_sdk_core/share/hip/version
      copy   _rocm_sdk_core/share/therock/dist_info.json
      copy   _rocm_sdk_core/share/therock/therock_manifest.json

    rocm_sdk_libraries-0.0.1.dev0-py3-none-linux_x86_64.whl
      text   _rocm_sdk_libraries/__init__.py
      relink _rocm_sdk_libraries/lib/libMIOpen.so.1*
      relink _rocm_sdk_libraries/lib/libhipblas.so.3*
      relink _rocm_sdk_libraries/lib/libhipblaslt.so.1*
      relink _rocm_sdk_libraries/lib/libhipdnn_backend.so.0*
      relink _rocm_sdk_libraries/lib/libhipfft.so.0*
      relink _rocm_sdk_libraries/lib/libhiprand.so.1*
      relink _rocm_sdk_libraries/lib/libhipsolver.so.1*
      relink _rocm_sdk_libraries/lib/libhipsparse.so.4*
      relink _rocm_sdk_libraries/lib/libhipsparselt.so.0*
      copy   _rocm_sdk_libraries/lib/liborigami.so.1*
      relink _rocm_sdk_libraries/lib/librccl.so.1*
      relink _rocm_sdk_libraries/lib/librocblas.so.5*
      relink _rocm_sdk_libraries/lib/librpp.so.2*
      copy   _rocm_sdk_libraries/lib/rocblas/library/TensileLibrary.dat

    rocm_profiler-0.0.1.dev0-py3-none-linux_x86_64.whl
      text   _rocm_profiler/__init__.py
      launch _rocm_profiler/bin/rocprof-compute* -> ../libexec/rocprofiler-compute/rocprof-compute
      copy   _rocm_profiler/bin/rocprof-sys-attach*
      copy   _rocm_profiler/bin/rocprof-sys-avail*
      copy   _rocm_profiler/bin/rocprof-sys-causal*
      copy   _rocm_profiler/bin/rocprof-sys-instrument*
      copy   _rocm_profiler/bin/rocprof-sys-python*
      copy   _rocm_profiler/bin/rocprof-sys-run*
      copy   _rocm_profiler/bin/rocprof-sys-sample*
      copy   _rocm_profiler/lib/libprofiler-hub.so*
      copy   _rocm_profiler/lib/libprofiler-hub.so.0*
      relink _rocm_profiler/lib/librocprof-sys.so*
      relink _rocm_profiler/lib/librocprof-sys.so.1*
      copy   _rocm_profiler/lib/rocprofiler-systems/scripts/run.sh
      copy   _rocm_profiler/libexec/rocprofiler-compute/rocprof-compute*
      copy   _rocm_profiler/share/doc/rocprofiler-systems/LICENSE

    rocm_sdk_device_gfx1100-0.0.1.dev0-py3-none-linux_x86_64.whl
      copy   _rocm_sdk_libraries/.kpack/blas_lib_gfx1100.kpack
      copy   _rocm_sdk_libraries/.kpack/rccl_lib_gfx1100.kpack
      copy   _rocm_sdk_libraries/lib/rocblas/library/Kernels.so-000-gfx1100.hsaco
      copy   _rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx1100.co
      copy   _rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx1100.dat
      text   _rocm_sdk_libraries/.devel_links/gfx1100.json

    rocm_sdk_device_gfx942-0.0.1.dev0-py3-none-linux_x86_64.whl
      copy   _rocm_sdk_libraries/.kpack/blas_lib_gfx942.kpack
      copy   _rocm_sdk_libraries/.kpack/blas_lib_gfx942:xnack+.kpack
      copy   _rocm_sdk_libraries/.kpack/rccl_lib_gfx942.kpack
      copy   _rocm_sdk_libraries/lib/rocblas/library/Kernels.so-000-gfx942-xnack+.hsaco
      copy   _rocm_sdk_libraries/lib/rocblas/library/Kernels.so-000-gfx942.hsaco
      copy   _rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx942-xnack+.co
      copy   _rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx942-xnack+.dat
      copy   _rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx942.co
      copy   _rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_gfx942.dat
      text   _rocm_sdk_libraries/.devel_links/gfx942.json

    rocm_sdk_devel-0.0.1.dev0-py3-none-linux_x86_64.whl
      pack   rocm_sdk_devel/_devel.tar
        empty  __init__.py
        link   llvm in lib
        link   .info/version in _rocm_sdk_core
        link   bin/amd-smi in _rocm_sdk_core
        link   bin/amdclang in _rocm_sdk_core
        link   bin/amdclang++ in _rocm_sdk_core
        link   bin/hipcc in _rocm_sdk_core
        link   bin/hipconfig in _rocm_sdk_core
        link   bin/hipify-clang in _rocm_sdk_core
        link   bin/hipify-perl in _rocm_sdk_core
        link   bin/roccoremerge in _rocm_sdk_core
        link   bin/rocgdb in _rocm_sdk_core
        link   bin/rocm-smi in _rocm_sdk_core
        link   bin/rocm_agent_enumerator in _rocm_sdk_core
        link   bin/rocminfo in _rocm_sdk_core
        link   bin/rocpd in _rocm_sdk_core
        link   bin/rocpd2csv in _rocm_sdk_core
        link   bin/rocpd2otf2 in _rocm_sdk_core
        link   bin/rocpd2pftrace in _rocm_sdk_core
        link   bin/rocpd2summary in _rocm_sdk_core
        link   bin/rocprofv3 in _rocm_sdk_core
        link   bin/rocprofv3-attach in _rocm_sdk_core
        link   bin/rocprofv3-avail in _rocm_sdk_core
        link   bin/offload-arch in lib/llvm
        link   include/hip/hip_runtime.h in _rocm_sdk_core
        copy   include/rocblas/rocblas.h
        copy   include/rocprim/rocprim.hpp
        link   lib/libMIOpen.so.1 in _rocm_sdk_libraries
        link   lib/libamd_comgr.so.3 in _rocm_sdk_core
        link   lib/libamd_smi.so.26 in _rocm_sdk_core
        link   lib/libamdhip64.so.7 in _rocm_sdk_core
        link   lib/libhipblas.so.3 in _rocm_sdk_libraries
        link   lib/libhipblaslt.so.1 in _rocm_sdk_libraries
        link   lib/libhipdnn_backend.so.0 in _rocm_sdk_libraries
        link   lib/libhipfft.so.0 in _rocm_sdk_libraries
        link   lib/libhipfile.so.0 in _rocm_sdk_core
        link   lib/libhiprand.so.1 in _rocm_sdk_libraries
        link   lib/libhiprtc.so.7 in _rocm_sdk_core
        link   lib/libhipsolver.so.1 in _rocm_sdk_libraries
        link   lib/libhipsparse.so.4 in _rocm_sdk_libraries
        link   lib/libhipsparselt.so.0 in _rocm_sdk_libraries
        link   lib/libhsa-runtime64.so.1 in _rocm_sdk_core
        link   lib/liborigami.so.1 in _rocm_sdk_libraries
        link   lib/librccl.so.1 in _rocm_sdk_libraries
        link   lib/librocblas.so.5 in _rocm_sdk_libraries
        link   lib/librocdecode.so.1 in _rocm_sdk_core
        link   lib/librocjpeg.so.1 in _rocm_sdk_core
        link   lib/librocm_kpack.so.0 in _rocm_sdk_core
        link   lib/librocm_smi64.so.1 in _rocm_sdk_core
        link   lib/librocprofiler-sdk-roctx.so.1 in _rocm_sdk_core
        link   lib/librocprofiler-sdk.so.1 in _rocm_sdk_core
        link   lib/libroctracer64.so.4 in _rocm_sdk_core
        link   lib/libroctx64.so.4 in _rocm_sdk_core
        link   lib/librpp.so.2 in _rocm_sdk_libraries
        link   lib/libMIOpen.so -> libMIOpen.so.1
        link   lib/libMIOpen.so.1.0 -> libMIOpen.so.1
        link   lib/libamd_comgr.so -> libamd_comgr.so.3
        link   lib/libamd_comgr.so.3.0 -> libamd_comgr.so.3
        link   lib/libamd_smi.so -> libamd_smi.so.26
        link   lib/libamd_smi.so.26.0 -> libamd_smi.so.26
        link   lib/libamdhip64.so -> libamdhip64.so.7
        link   lib/libamdhip64.so.7.1.0 -> libamdhip64.so.7
        link   lib/libhipblas.so -> libhipblas.so.3
        link   lib/libhipblas.so.3.0 -> libhipblas.so.3
        link   lib/libhipblaslt.so -> libhipblaslt.so.1
        link   lib/libhipblaslt.so.1.0 -> libhipblaslt.so.1
        link   lib/libhipdnn_backend.so -> libhipdnn_backend.so.0
        link   lib/libhipdnn_backend.so.0.0 -> libhipdnn_backend.so.0
        link   lib/libhipfft.so -> libhipfft.so.0
        link   lib/libhipfft.so.0.0 -> libhipfft.so.0
        link   lib/libhipfile.so -> libhipfile.so.0
        link   lib/libhipfile.so.0.0 -> libhipfile.so.0
        link   lib/libhiprand.so -> libhiprand.so.1
        link   lib/libhiprand.so.1.1 -> libhiprand.so.1
        link   lib/libhiprtc.so -> libhiprtc.so.7
        link   lib/libhiprtc.so.7.1.0 -> libhiprtc.so.7
        link   lib/libhipsolver.so -> libhipsolver.so.1
        link   lib/libhipsolver.so.1.0 -> libhipsolver.so.1
        link   lib/libhipsparse.so -> libhipsparse.so.4
        link   lib/libhipsparse.so.4.0 -> libhipsparse.so.4
        link   lib/libhipsparselt.so -> libhipsparselt.so.0
        link   lib/libhipsparselt.so.0.0 -> libhipsparselt.so.0
        link   lib/libhsa-runtime64.so -> libhsa-runtime64.so.1
        link   lib/libhsa-runtime64.so.1.18.0 -> libhsa-runtime64.so.1
        link   lib/liborigami.so -> liborigami.so.1
        link   lib/liborigami.so.1.0 -> liborigami.so.1
        link   lib/librccl.so -> librccl.so.1
        link   lib/librccl.so.1.0 -> librccl.so.1
        link   lib/librocblas.so -> librocblas.so.5
        link   lib/librocblas.so.5.1 -> librocblas.so.5
        link   lib/librocdecode.so -> librocdecode.so.1
        link   lib/librocdecode.so.1.0 -> librocdecode.so.1
        link   lib/librocjpeg.so -> librocjpeg.so.1
        link   lib/librocjpeg.so.1.0 -> librocjpeg.so.1
        link   lib/librocm_kpack.so -> librocm_kpack.so.0
        link   lib/librocm_kpack.so.0.1 -> librocm_kpack.so.0
        link   lib/librocm_smi64.so -> librocm_smi64.so.1
        link   lib/librocm_smi64.so.1.0 -> librocm_smi64.so.1
        link   lib/librocprofiler-sdk-roctx.so -> librocprofiler-sdk-roctx.so.1
        link   lib/librocprofiler-sdk-roctx.so.1.0 -> librocprofiler-sdk-roctx.so.1
        link   lib/librocprofiler-sdk.so -> librocprofiler-sdk.so.1
        link   lib/librocprofiler-sdk.so.1.0 -> librocprofiler-sdk.so.1
        link   lib/libroctracer64.so -> libroctracer64.so.4
        link   lib/libroctracer64.so.4.1 -> libroctracer64.so.4
        link   lib/libroctx64.so -> libroctx64.so.4
        link   lib/libroctx64.so.4.1 -> libroctx64.so.4
        link   lib/librpp.so -> librpp.so.2
        link   lib/librpp.so.2.1 -> librpp.so.2
        copy   lib/cmake/hip/hip-config-version.cmake
        copy   lib/cmake/hip/hip-config.cmake
        copy   lib/cmake/hip/hip-targets.cmake
        copy   lib/cmake/rocblas/rocblas-config.cmake
        copy   lib/cmake/rocprim/rocprim-config.cmake
        link   lib/gdb/plugin.so in _rocm_sdk_core
        link   lib/host-math/lib/librocm-openblas.so.0 in _rocm_sdk_core
        link   lib/host-math/lib/librocm-openblas.so -> librocm-openblas.so.0
        link   lib/host-math/lib/librocm-openblas.so.0.3 -> librocm-openblas.so.0
        link   lib/llvm/bin/amdclang in _rocm_sdk_core
        link   lib/llvm/bin/amdclang++ in _rocm_sdk_core
        link   lib/llvm/bin/amdclang-cl in _rocm_sdk_core
        link   lib/llvm/bin/amdclang-cpp in _rocm_sdk_core
        link   lib/llvm/bin/amdflang in _rocm_sdk_core
        link   lib/llvm/bin/amdlld in _rocm_sdk_core
        link   lib/llvm/bin/amdllvm in _rocm_sdk_core
        link   lib/llvm/bin/clang in _rocm_sdk_core
        link   lib/llvm/bin/clang++ in _rocm_sdk_core
        link   lib/llvm/bin/clang-22 in _rocm_sdk_core
        link   lib/llvm/bin/flang in _rocm_sdk_core
        link   lib/llvm/bin/lld in _rocm_sdk_core
        link   lib/llvm/bin/offload-arch in _rocm_sdk_core
        link   lib/llvm/lib/libLLVM.so.22.0 in _rocm_sdk_core
        link   lib/llvm/lib/libLLVM.so -> libLLVM.so.22.0
        link   lib/llvm/lib/libLLVM.so.22.0git -> libLLVM.so.22.0
        link   lib/llvm/lib/clang/22/include/stddef.h in _rocm_sdk_core
        link   lib/rocblas/library/TensileLibrary.dat in _rocm_sdk_libraries
        link   lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so.5 in _rocm_sdk_core
        link   lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so -> librocm_sysdeps_liblzma.so.5
        link   lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so.5.8.1 -> librocm_sysdeps_liblzma.so.5
        link   lib/rocm_sysdeps/share/licenses/a, b [c] ü.txt in _rocm_sdk_core
        link   libexec/amdsmi_cli/amdsmi_cli.py in _rocm_sdk_core
        copy   share/doc/rocblas/LICENSE.md
        link   share/gdb/python/gdb/__init__.py in _rocm_sdk_core
        link   share/gdb/python/gdb/printing.py in _rocm_sdk_core
        link   share/hip/version in _rocm_sdk_core
        link   share/therock/dist_info.json in _rocm_sdk_core
        link   share/therock/therock_manifest.json in _rocm_sdk_core
      count  rocm_sdk_devel/_devel_manifest.json

    rocm-0.0.1.dev0.tar.gz
    ");
}
