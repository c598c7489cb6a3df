//! `--plan`: what is said beforehand is what is made.

use zip::ZipArchive;

use super::{build, place, succeed};
use crate::support::prelude::*;

fn planned(place: &Path, arguments: &[&str]) -> String {
    let output = succeed(build(place, "planned").arg("--plan").args(arguments));
    assert!(!place.join("planned/dist").exists());
    String::from_utf8(output.stdout).unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no `{key}` in {value}"))
}

#[test]
#[ignore = "slow"]
fn every_package_holds_what_the_plan_said() {
    let place = place("planned");
    let plan: Value = serde_json::from_str(&planned(&place, &["--format", "json"])).unwrap();
    assert_eq!(text(&plan, "schema"), "rocwheel-plan-v1");
    assert_eq!(text(&plan, "mode"), "split");
    assert_eq!(text(&plan, "platform"), "linux");
    assert_eq!(plan["targets"], json!(["gfx1100", "gfx942"]));
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
                let [path, run_path] = ["path", "rpath"].map(|it| text(planned, it).to_owned());
                relinked.push((path, run_path));
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
    let expected: BTreeMap<_, _> = relinked.iter().map(|(path, run)| (found(path), run)).collect();
    for (path, run_path) in &expected {
        let text = |output: Output| String::from_utf8(output.stdout).unwrap();
        let mut patchelf = Command::new(tool("patchelf"));
        let said = text(succeed(patchelf.arg("--print-rpath").arg(path)));
        assert_eq!(said.trim_end(), *run_path);
        let said = text(succeed(Command::new("readelf").arg("-dW").arg(path)));
        let line = format!("(RPATH)              Library rpath: [{run_path}]");
        assert_has!(said, &line);
        assert_lacks!(said, "(RUNPATH)");
    }
}

/// Of each kind of member one or two, without sizes and artifacts. What the packages hold altogether is
/// their digests in `support::digests`.
const SHOWN: [&str; 14] = [
    "bin/amd-smi",
    "bin/rocminfo",
    "_rocm_sdk_core/__init__.py",
    "include/rocblas",
    "lib/libamdhip64",
    "lib/llvm/bin/clang++",
    "librocprof-sys",
    "licenses/",
    "Kernels.so-000-gfx942",
    ".kpack/blas",
    ".devel_links",
    "    mkdir  lib ",
    "    link   llvm ",
    "rocm_sdk_devel/_devel",
];

fn short(plan: &str) -> String {
    let lines = plan.lines().filter(|line| {
        !line.starts_with(' ') || SHOWN.iter().any(|shown| format!("{line} ").contains(shown))
    });
    let lines = lines.map(|line| line.split(['<', '(']).next().unwrap().trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_sample_comes_to_this() {
    let plan = planned(&place("shown"), &[]);
    insta::assert_snapshot!(short(&plan), @"
    rocm_sdk_core-0.99.1.dev0-py3-none-linux_x86_64.whl
      text   _rocm_sdk_core/__init__.py
      launch _rocm_sdk_core/bin/amd-smi* -> ../libexec/amdsmi_cli/amdsmi_cli.py
      relink _rocm_sdk_core/bin/rocminfo*
      relink _rocm_sdk_core/lib/libamdhip64.so.7*
      launch _rocm_sdk_core/lib/llvm/bin/clang++* -> clang-22
      copy   _rocm_sdk_core/lib/rocm_sysdeps/share/licenses/a, b [c] ü.txt
      copy   rocm_sdk_core-0.99.1.dev0.dist-info/licenses/lib/rocm_sysdeps/share/licenses/a, b [c] ü.txt

    rocm_sdk_libraries-0.99.1.dev0-py3-none-linux_x86_64.whl
      copy   rocm_sdk_libraries-0.99.1.dev0.dist-info/licenses/share/doc/rocblas/LICENSE.md

    rocm_profiler-0.99.1.dev0-py3-none-linux_x86_64.whl
      relink _rocm_profiler/lib/librocprof-sys.so*
      relink _rocm_profiler/lib/librocprof-sys.so.1*
      copy   rocm_profiler-0.99.1.dev0.dist-info/licenses/share/doc/rocprofiler-systems/LICENSE

    rocm_sdk_device_gfx1100-0.99.1.dev0-py3-none-linux_x86_64.whl
      copy   _rocm_sdk_libraries/.kpack/blas_lib_gfx1100.kpack
      text   _rocm_sdk_libraries/.devel_links/gfx1100.json
      copy   rocm_sdk_device_gfx1100-0.99.1.dev0.dist-info/licenses/share/doc/rocblas/LICENSE.md

    rocm_sdk_device_gfx942-0.99.1.dev0-py3-none-linux_x86_64.whl
      copy   _rocm_sdk_libraries/.kpack/blas_lib_gfx942.kpack
      copy   _rocm_sdk_libraries/.kpack/blas_lib_gfx942:xnack+.kpack
      copy   _rocm_sdk_libraries/lib/rocblas/library/Kernels.so-000-gfx942-xnack+.hsaco
      copy   _rocm_sdk_libraries/lib/rocblas/library/Kernels.so-000-gfx942.hsaco
      text   _rocm_sdk_libraries/.devel_links/gfx942.json
      copy   rocm_sdk_device_gfx942-0.99.1.dev0.dist-info/licenses/share/doc/rocblas/LICENSE.md

    rocm_sdk_devel-0.99.1.dev0-py3-none-linux_x86_64.whl
      pack   rocm_sdk_devel/_devel.tar
        link   llvm -> lib/llvm
        mkdir  lib
        link   bin/amd-smi -> ../../_rocm_sdk_core/bin/amd-smi
        link   bin/rocminfo -> ../../_rocm_sdk_core/bin/rocminfo
        mkdir  include/rocblas
        copy   include/rocblas/rocblas.h
        link   lib/libamdhip64.so.7 -> ../../_rocm_sdk_core/lib/libamdhip64.so.7
        link   lib/libamdhip64.so -> libamdhip64.so.7
        link   lib/libamdhip64.so.7.1.0 -> libamdhip64.so.7
        link   lib/llvm/bin/clang++ -> ../../../../_rocm_sdk_core/lib/llvm/bin/clang++
        link   lib/rocm_sysdeps/share/licenses/a, b [c] ü.txt -> ../../../../../_rocm_sdk_core/lib/rocm_sysdeps/share/licenses/a, b [c] ü.txt
      count  rocm_sdk_devel/_devel_manifest.json
      copy   rocm_sdk_devel-0.99.1.dev0.dist-info/licenses/share/doc/rocblas/LICENSE.md

    rocm-0.99.1.dev0.tar.gz
    ");
}
