//! Plans of whole sets.

mod devel;
mod device;
mod fixture;
mod legacy;
mod platform;
mod runtime;

use itertools::Itertools as _;

use crate::artifact::FileFacts;
use crate::package::{
    plan::{BuildPlan, MemberSource, PackageForm, PackagePlan, SdkTreePacking},
    planner::tests::fixture::{Fixture, file, library, script},
};
use rocwheel_base::relpath::RelPath;

fn names(plan: &BuildPlan) -> String {
    let paths: Vec<String> = plan.packages.iter().map(PackagePlan::path).collect();
    paths.join("\n")
}

/// The names of the packages in a printed plan.
fn names_in(shown: &str) -> String {
    let lines = shown.lines().filter(|line| !line.starts_with([' ', 'n']) && !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// The plan without Python files, so that snapshots do not depend on their sizes.
fn outline(plan: &BuildPlan) -> String {
    let text = plan.to_string();
    let lines = text.lines().filter_map(|line| {
        let (line, _) = line.split_once(" (").unwrap_or((line, ""));
        let python = line.starts_with("  text   rocm_") && !line.contains(".dist-info/");
        let sdist = line.starts_with("  text   ") && !line.contains(['_']);
        (!python && !sdist && !line.starts_with("  text   src/")).then_some(line)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The generated lines of each `_dist_info.py`.
fn says(plan: &BuildPlan, file: &str) -> String {
    let mut texts = plan.packages.iter().flat_map(|package| {
        let members = package.members.iter();
        let members = members.filter_map(|(path, member)| match member {
            MemberSource::Text(text) => Some((path, text)),
            _ => None,
        });
        let texts = package.texts.iter().map(|(path, text)| (path, text));
        let name = package.path();
        let texts = members.chain(texts);
        texts.map(move |(path, text)| (format!("{name}: {path}"), text.clone()))
    });
    let found = texts.find(|(path, _)| path == file);
    let (_, text) = found.unwrap_or_else(|| panic!("no `{file}`"));
    let at = text.rfind("__version__ = '").unwrap();
    text[at..].to_owned()
}

/// The generated texts of the `.dist-info` directories of a package.
fn dist_info<'a>(plan: &'a BuildPlan, name: &str) -> Vec<&'a (RelPath, String)> {
    let packages = plan.packages.iter().filter(|it| it.label.package == name);
    packages
        .filter(|package| matches!(package.form, PackageForm::Wheel(_)))
        .flat_map(|package| &package.texts)
        .collect()
}

fn split() -> Fixture {
    Fixture::new()
        .artifact("blas_lib_generic")
        .file("lib/librocblas.so.5", library("librocblas.so.5"))
        .artifact("blas_lib_gfx1100")
        .file(".kpack/blas_gfx1100.kpack", file())
        .artifact("blas_lib_gfx942:xnack+")
        .file(".kpack/blas_gfx942.kpack", file())
}

#[test]
fn a_package_has_the_licence_texts_of_its_artifacts_each_once() {
    let text = |len| FileFacts { len, ..file() };
    let plan = Fixture::new()
        .artifact("blas_doc_generic")
        .file("share/doc/rocblas/LICENSE", text(3))
        .artifact("core-hip_doc_generic")
        .file("share/doc/hip/LICENSE.md", text(9))
        .artifact("core-hip_lib_generic")
        .file("lib/libamdhip64.so.7", library("libamdhip64.so.7"))
        .artifact("core-ocl_lib_generic")
        .file("share/doc/ocl/LICENSE", text(9))
        .file("share/doc/ocl/readme.txt", text(8))
        .file("share/licenses/ocl/none", text(0))
        .file("share/licenses/ocl/notice", text(5))
        .plan();
    let core = &plan.packages[0];
    let members = core.members.ordered().into_iter().map(|(path, _)| path);
    let members = members.map(ToString::to_string);
    let metadata = core.texts[0].1.lines().map(str::to_owned);
    let all: Vec<String> = members.chain(metadata).collect();
    let found: Vec<&str> = all
        .iter()
        .filter_map(|line| {
            line.find("dist-info/licenses/").or(line.find("License-")).map(|at| &line[at..])
        })
        .collect();
    insta::assert_snapshot!(found.join("\n"), @"
    dist-info/licenses/share/doc/hip/LICENSE.md
    dist-info/licenses/share/licenses/ocl/notice
    License-Expression: Apache-2.0 AND MIT AND NCSA
    License-File: share/doc/hip/LICENSE.md
    License-File: share/licenses/ocl/notice
    ");
}

/// The runtime looks for strict code beside the code of the target, and there is no GPU of this name.
#[test]
fn strict_code_is_in_the_package_of_its_target() {
    let plan = Fixture::new()
        .artifact("blas_lib_generic")
        .file("lib/librocblas.so.5", library("librocblas.so.5"))
        .artifact("blas_lib_gfx1250")
        .file(".kpack/blas_gfx1250.kpack", file())
        .artifact("blas_lib_gfx1250-strict")
        .file(".kpack/blas_gfx1250-strict.kpack", file())
        .promised("gfx1250 gfx1250-strict")
        .plan();
    let shown = outline(&plan);
    let lines = shown.lines().filter(|line| line.contains("gfx1250"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    rocm_sdk_device_gfx1250-1.0-py3-none-linux_x86_64.whl
      copy   _rocm_sdk_libraries/.kpack/blas_gfx1250-strict.kpack < blas_lib_gfx1250-strict
      copy   _rocm_sdk_libraries/.kpack/blas_gfx1250.kpack < blas_lib_gfx1250
      text   _rocm_sdk_libraries/.devel_links/gfx1250.json
      text   rocm_sdk_device_gfx1250-1.0.dist-info/METADATA
      text   rocm_sdk_device_gfx1250-1.0.dist-info/WHEEL
      text   rocm_sdk_device_gfx1250-1.0.dist-info/top_level.txt
    ");
}

#[test]
fn a_split_set_has_one_flat_file_for_each_package_and_target() {
    let fixture = split()
        .artifact("rocprofiler-compute_run_generic")
        .file("libexec/rocprofiler-compute/rocprof-compute", script());
    insta::assert_snapshot!(outline(&fixture.plan()), @"
    rocm_sdk_core-1.0-py3-none-linux_x86_64.whl
      copy   _rocm_sdk_core/.info/version < base_lib_generic
      text   _rocm_sdk_core/__init__.py
      text   rocm_sdk_core-1.0.dist-info/METADATA
      text   rocm_sdk_core-1.0.dist-info/WHEEL
      text   rocm_sdk_core-1.0.dist-info/entry_points.txt
      text   rocm_sdk_core-1.0.dist-info/top_level.txt

    rocm_sdk_libraries-1.0-py3-none-linux_x86_64.whl
      text   _rocm_sdk_libraries/__init__.py
      relink _rocm_sdk_libraries/lib/librocblas.so.5 < blas_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib:$ORIGIN/../../_rocm_sdk_core/lib/host-math/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib]
      text   rocm_sdk_libraries-1.0.dist-info/METADATA
      text   rocm_sdk_libraries-1.0.dist-info/WHEEL
      text   rocm_sdk_libraries-1.0.dist-info/top_level.txt

    rocm_profiler-1.0-py3-none-linux_x86_64.whl
      text   _rocm_profiler/__init__.py
      launch _rocm_profiler/bin/rocprof-compute* -> ../libexec/rocprofiler-compute/rocprof-compute
      copy   _rocm_profiler/libexec/rocprofiler-compute/rocprof-compute* < rocprofiler-compute_run_generic
      text   rocm_profiler-1.0.dist-info/METADATA
      text   rocm_profiler-1.0.dist-info/WHEEL
      text   rocm_profiler-1.0.dist-info/entry_points.txt
      text   rocm_profiler-1.0.dist-info/top_level.txt

    rocm_sdk_device_gfx1100-1.0-py3-none-linux_x86_64.whl
      copy   _rocm_sdk_libraries/.kpack/blas_gfx1100.kpack < blas_lib_gfx1100
      text   _rocm_sdk_libraries/.devel_links/gfx1100.json
      text   rocm_sdk_device_gfx1100-1.0.dist-info/METADATA
      text   rocm_sdk_device_gfx1100-1.0.dist-info/WHEEL
      text   rocm_sdk_device_gfx1100-1.0.dist-info/top_level.txt

    rocm_sdk_device_gfx942-1.0-py3-none-linux_x86_64.whl
      copy   _rocm_sdk_libraries/.kpack/blas_gfx942.kpack < blas_lib_gfx942:xnack+
      text   _rocm_sdk_libraries/.devel_links/gfx942.json
      text   rocm_sdk_device_gfx942-1.0.dist-info/METADATA
      text   rocm_sdk_device_gfx942-1.0.dist-info/WHEEL
      text   rocm_sdk_device_gfx942-1.0.dist-info/top_level.txt

    rocm_sdk_devel-1.0-py3-none-linux_x86_64.whl
      pack   rocm_sdk_devel/_devel.tar
        empty  __init__.py
        mkdir  .info
        mkdir  lib
        link   .info/version -> ../../_rocm_sdk_core/.info/version
        link   lib/librocblas.so.5 -> ../../_rocm_sdk_libraries/lib/librocblas.so.5
      count  rocm_sdk_devel/_devel_manifest.json
      text   rocm_sdk_devel-1.0.dist-info/METADATA
      text   rocm_sdk_devel-1.0.dist-info/WHEEL
      text   rocm_sdk_devel-1.0.dist-info/top_level.txt

    rocm-1.0.tar.gz
    ");
}

#[test]
fn packages_say_the_version_the_targets_and_themselves() {
    let mut fixture = split().promised("gfx942 gfx1100");
    fixture.options.windows = Some(vec!["gfx1201".parse().unwrap(), "gfx1100".parse().unwrap()]);
    fixture.options.suffix = "_v1".parse().unwrap();
    let plan = fixture.plan();
    insta::assert_snapshot!(says(&plan, "rocm_sdk_core-1.0-py3-none-linux_x86_64.whl: rocm_sdk_core/_dist_info.py"), @r#"
    __version__ = '1.0'
    PY_PACKAGE_SUFFIX_NONCE = '_v1'
    DEFAULT_TARGET_FAMILY = 'gfx1100'
    AVAILABLE_TARGET_FAMILIES.append('gfx1100')
    AVAILABLE_TARGET_FAMILIES.append('gfx1201')
    AVAILABLE_TARGET_FAMILIES.append('gfx942')
    LINUX_TARGET_FAMILIES.append('gfx1100')
    LINUX_TARGET_FAMILIES.append('gfx942')
    WINDOWS_TARGET_FAMILIES.append('gfx1100')
    WINDOWS_TARGET_FAMILIES.append('gfx1201')
    ABSENT_PACKAGES.append('profiler')
    THIS_TARGET_FAMILY = None
    THIS_PACKAGE_ENTRY = ALL_PACKAGES['core']
    "#);
    insta::assert_snapshot!(says(&plan, "rocm-1.0.tar.gz: src/rocm_sdk/_dist_info.py"), @r#"
    __version__ = '1.0'
    PY_PACKAGE_SUFFIX_NONCE = '_v1'
    DEFAULT_TARGET_FAMILY = 'gfx1100'
    AVAILABLE_TARGET_FAMILIES.append('gfx1100')
    AVAILABLE_TARGET_FAMILIES.append('gfx1201')
    AVAILABLE_TARGET_FAMILIES.append('gfx942')
    LINUX_TARGET_FAMILIES.append('gfx1100')
    LINUX_TARGET_FAMILIES.append('gfx942')
    WINDOWS_TARGET_FAMILIES.append('gfx1100')
    WINDOWS_TARGET_FAMILIES.append('gfx1201')
    ABSENT_PACKAGES.append('profiler')
    THIS_TARGET_FAMILY = None
    THIS_PACKAGE_ENTRY = ALL_PACKAGES['meta']
    "#);
}

#[test]
fn wheels_say_of_themselves_what_tools_ask_for() {
    let plan = split().plan();
    let texts: Vec<String> = dist_info(&plan, "device")
        .into_iter()
        .map(|(path, text)| format!("--- {path}\n{text}"))
        .collect();
    insta::assert_snapshot!(texts.concat(), @"
    --- rocm_sdk_device_gfx1100-1.0.dist-info/METADATA
    Metadata-Version: 2.4
    Name: rocm-sdk-device-gfx1100
    Version: 1.0
    Summary: ROCm SDK: device code for gfx1100
    License-Expression: BSD-2-Clause AND BSD-3-Clause AND MIT
    Project-URL: Documentation, https://rocm.docs.amd.com
    Project-URL: Homepage, https://github.com/ROCm/TheRock
    Requires-Python: >=3.10
    Description-Content-Type: text/markdown
    Requires-Dist: rocm-sdk-libraries==1.0

    # rocm-sdk-device-gfx1100

    ROCm SDK: device code for gfx1100. One of the packages of the ROCm SDK, which the package `rocm` selects for a machine and pins to one
    version. Install it as `rocm[device-gfx1100]`, from the index that this package came from: another index may have another `rocm`.
    --- rocm_sdk_device_gfx1100-1.0.dist-info/WHEEL
    Wheel-Version: 1.0
    Generator: rocwheel (0.1.0; deflate level 5, revision 3)
    Root-Is-Purelib: true
    Tag: py3-none-linux_x86_64
    --- rocm_sdk_device_gfx1100-1.0.dist-info/top_level.txt
    _rocm_sdk_libraries
    --- rocm_sdk_device_gfx942-1.0.dist-info/METADATA
    Metadata-Version: 2.4
    Name: rocm-sdk-device-gfx942
    Version: 1.0
    Summary: ROCm SDK: device code for gfx942
    License-Expression: BSD-2-Clause AND BSD-3-Clause AND MIT
    Project-URL: Documentation, https://rocm.docs.amd.com
    Project-URL: Homepage, https://github.com/ROCm/TheRock
    Requires-Python: >=3.10
    Description-Content-Type: text/markdown
    Requires-Dist: rocm-sdk-libraries==1.0

    # rocm-sdk-device-gfx942

    ROCm SDK: device code for gfx942. One of the packages of the ROCm SDK, which the package `rocm` selects for a machine and pins to one
    version. Install it as `rocm[device-gfx942]`, from the index that this package came from: another index may have another `rocm`.
    --- rocm_sdk_device_gfx942-1.0.dist-info/WHEEL
    Wheel-Version: 1.0
    Generator: rocwheel (0.1.0; deflate level 5, revision 3)
    Root-Is-Purelib: true
    Tag: py3-none-linux_x86_64
    --- rocm_sdk_device_gfx942-1.0.dist-info/top_level.txt
    _rocm_sdk_libraries
    ");
}

#[test]
fn the_devel_package_requires_what_its_tree_links_to() {
    let requires = |plan: &BuildPlan| {
        let texts = dist_info(plan, "devel").into_iter();
        let lines = texts.flat_map(|(_, text)| text.lines());
        let lines = lines.filter_map(|line| line.strip_prefix("Requires-Dist: "));
        lines.collect::<Vec<_>>().join(", ")
    };
    let with_profiler = split()
        .artifact("rocprofiler-compute_run_generic")
        .file("libexec/rocprofiler-compute/rocprof-compute", script());
    assert_eq!(requires(&with_profiler.plan()), "rocm-sdk-core==1.0, rocm-sdk-libraries==1.0");
    assert_eq!(requires(&Fixture::new().plan()), "rocm-sdk-core==1.0");
    let alone = Fixture::bare()
        .artifact("base_lib_generic")
        .file("lib/librocblas.so.5", library("librocblas.so.5"))
        .artifact("blas_lib_generic")
        .file("lib/libhipblas.so.3.1", library("libhipblas.so.3"));
    // The requirement exists only because of aliases of the library.
    assert_eq!(requires(&alone.plan()), "rocm-sdk-core==1.0, rocm-sdk-libraries==1.0");
}

#[test]
fn the_devel_package_may_hold_its_tree_as_xz() {
    let mut fixture = split();
    fixture.options.devel_packing = SdkTreePacking::TarXz;
    let shown = outline(&fixture.plan());
    assert!(shown.contains("  pack   rocm_sdk_devel/_devel.tar.xz\n    empty  __init__.py"));
    assert!(!shown.contains("_devel.tar\n"));
}

#[test]
fn the_selector_is_the_same_on_both_platforms() {
    let promised = |mut fixture: Fixture| {
        fixture.options.linux = Some(vec!["gfx942".parse().unwrap(), "gfx1100".parse().unwrap()]);
        fixture.options.windows = Some(vec!["gfx1201".parse().unwrap()]);
        fixture
    };
    let profiler = |fixture: Fixture| {
        fixture
            .artifact("rocprofiler-compute_run_generic")
            .file("libexec/rocprofiler-compute/rocprof-compute", script())
    };
    let linux = promised(profiler(split())).plan();
    let windows = promised(Fixture::new())
        .windows()
        .artifact("blas_lib_generic")
        .file("bin/rocblas.dll", file())
        .artifact("blas_lib_gfx1201")
        .file(".kpack/blas_gfx1201.kpack", file())
        .plan();
    let files = |plan: &BuildPlan| plan.packages.last().unwrap().texts.clone();
    assert_eq!(files(&linux), files(&windows));
    insta::assert_snapshot!(names(&windows), @"
    rocm_sdk_core-1.0-py3-none-win_amd64.whl
    rocm_sdk_libraries-1.0-py3-none-win_amd64.whl
    rocm_sdk_device_gfx1201-1.0-py3-none-win_amd64.whl
    rocm_sdk_devel-1.0-py3-none-win_amd64.whl
    rocm-1.0.tar.gz
    ");
}

#[test]
fn a_set_without_device_code_is_a_set_without_device_packages() {
    let plan = Fixture::new().plan();
    insta::assert_snapshot!(names(&plan), @"
    rocm_sdk_core-1.0-py3-none-linux_x86_64.whl
    rocm_sdk_devel-1.0-py3-none-linux_x86_64.whl
    rocm-1.0.tar.gz
    ");
    insta::assert_snapshot!(plan.notes.join("\n"), @"
    no artifacts for `rocm-sdk-libraries`: it is left out
    no artifacts for `rocm-profiler`: it is left out
    ");
    insta::assert_snapshot!(says(&plan, "rocm-1.0.tar.gz: src/rocm_sdk/_dist_info.py"), @r#"
    __version__ = '1.0'
    PY_PACKAGE_SUFFIX_NONCE = ''
    ABSENT_PACKAGES.append('libraries')
    ABSENT_PACKAGES.append('profiler')
    ABSENT_PACKAGES.append('device')
    THIS_TARGET_FAMILY = None
    THIS_PACKAGE_ENTRY = ALL_PACKAGES['meta']
    "#);
}

#[test]
fn a_set_without_its_core_is_refused() {
    let other = Fixture::bare().artifact("prim_dev_generic").file("include/a.h", file());
    insta::assert_snapshot!(other.refusal(), @"
    error: no artifacts for `rocm-sdk-core`, which every set has

    hint: look at what `/artifacts` holds
    ");
    let empty = Fixture::bare().artifact("base_lib_generic").directory("lib");
    insta::assert_snapshot!(empty.refusal(), @"
    error: no files for `rocm-sdk-core`, which every set has

    hint: look at what `/artifacts` holds
    ");
}

#[test]
fn promised_targets_are_there_or_the_set_is_refused() {
    insta::assert_snapshot!(split().promised("gfx942 gfx950 gfx1100").refusal(), @"
    error: no device code for `gfx950`: expected `gfx1100`, `gfx942`, `gfx950`, found `gfx1100`, `gfx942`

    hint: fetch the artifacts of these targets, or leave them out of `--linux-amdgpu-families`
    ");
    let only_tests = split().artifact("blas_test_gfx950").promised("gfx950 gfx942 gfx942:xnack+");
    insta::assert_snapshot!(only_tests.refusal(), @"
    error: no device code for `gfx950`: expected `gfx942`, `gfx950`, found `gfx1100`, `gfx942`

    hint: fetch the artifacts of these targets, or leave them out of `--linux-amdgpu-families`
    ");
    insta::assert_snapshot!(Fixture::new().windows().promised("gfx942").plan().targets.len(), @"0");
}

#[test]
fn two_artifacts_that_differ_about_a_path_are_refused_unless_the_last_counts() {
    let two = || {
        Fixture::new()
            .artifact("core-hip_lib_generic")
            .file("share/a", file())
            .file("lib/cmake/b", file())
            .artifact("core-ocl_lib_generic")
            .link("share/a", "b")
    };
    insta::assert_snapshot!(two().refusal(), @"
    error: two artifacts have different files at one path: `share/a` differs between `core-hip_lib_generic/stage` and `core-ocl_lib_generic/stage`

    hint: build them so that one of them has it; `rocwheel build --on-collision last` takes the last by name
    ");
    insta::assert_snapshot!(two().last_counts().plan().notes.join("\n"), @"
    `share/a` differs between `core-hip_lib_generic/stage` and `core-ocl_lib_generic/stage`: used the last
    no artifacts for `rocm-sdk-libraries`: it is left out
    no artifacts for `rocm-profiler`: it is left out
    ");
}

#[test]
fn unknown_artifacts_are_named() {
    let plan = Fixture::new()
        .artifact("brandnew_lib_generic")
        .file("lib/a", file())
        .artifact("brandnew_doc_generic")
        .file("share/a", file())
        .artifact("hiptensor_lib_generic")
        .file("lib/b", file())
        .plan();
    assert_eq!(plan.unshipped, ["brandnew_lib"]);
    insta::assert_snapshot!(plan.notes.join("\n"), @"
    artifacts that no package takes: `brandnew`
    no artifacts for `rocm-sdk-libraries`: it is left out
    no artifacts for `rocm-profiler`: it is left out
    ");
}

#[test]
fn what_the_run_does_not_have_is_listed() {
    let plan = split().artifact("rccl_lib_gfx1151").file(".kpack/rccl.kpack", file()).plan();
    let is_shown =
        |name: &&String| ["blas", "core-ocl", "rccl"].iter().any(|it| name.starts_with(it));
    let shown = plan.not_in_run.iter().filter(is_shown);
    insta::assert_snapshot!(shown.format("\n"), @"
    blas_lib_gfx1151
    blas_run
    blas_dev
    blas_doc
    core-ocl
    rccl_lib_gfx1100
    rccl_lib_gfx942:xnack+
    rccl_run
    rccl_dev
    rccl_doc
    ");
    assert!(!plan.not_in_run.iter().any(|it| it.ends_with("_test") || it.ends_with("_dbg")));
}

#[test]
fn a_part_of_a_set_is_that_part_of_the_whole() {
    let kept = |names: &[&str]| {
        let mut plan = split().plan();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        plan.keep(&names).map(|()| plan.to_string())
    };
    let whole = split().plan().to_string();
    let some = kept(&["device-gfx942", "rocm", "rocm-sdk-core"]).unwrap();
    assert!(some.lines().all(|line| whole.contains(line)));
    insta::assert_snapshot!(names_in(&some), @"
    rocm_sdk_core-1.0-py3-none-linux_x86_64.whl
    rocm_sdk_device_gfx942-1.0-py3-none-linux_x86_64.whl
    rocm-1.0.tar.gz
    ");
    let devices = kept(&["device"]).unwrap();
    assert_eq!(devices.matches(".whl\n").count(), 2);
    insta::assert_snapshot!(kept(&["core", "gpu", "rocm-sdk"]).unwrap_err(), @"no package `gpu`, `rocm-sdk` in this set, which has `core`, `devel`, `device`, `device-gfx1100`, `device-gfx942`, `libraries`, `meta`, `rocm`, `rocm-sdk-core`, `rocm-sdk-devel`, `rocm-sdk-device-gfx1100`, `rocm-sdk-device-gfx942`, `rocm-sdk-libraries`");
}
