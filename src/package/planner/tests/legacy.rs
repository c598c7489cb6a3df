//! Plans of whole legacy sets.

use std::collections::BTreeSet;

use crate::{
    package::{
        planner::tests::fixture::{Fixture, library, program},
        planner::tests::{names, outline, says, split},
    },
    policy::Subset,
    run::Platform,
};

fn legacy() -> Fixture {
    Fixture::new()
        .legacy()
        .artifact("rpp_lib_generic")
        .file("lib/librpp.so.2", library("librpp.so.2"))
}

fn with_families(mut fixture: Fixture, families: &[&str]) -> Fixture {
    for family in families {
        fixture = fixture
            .artifact(&format!("blas_lib_{family}"))
            .file("lib/librocblas.so.5", library("librocblas.so.5"))
            .artifact(&format!("blas_test_{family}"))
            .file("bin/rocblas-test", program());
    }
    fixture
}

#[test]
fn one_family_without_the_split_makes_a_flat_set() {
    let plan = with_families(legacy(), &["gfx94X-dcgpu"]).plan();
    insta::assert_snapshot!(names(&plan), @"
    rocm_sdk_core-1.0-py3-none-linux_x86_64.whl
    rocm_sdk_libraries_gfx94x_dcgpu-1.0-py3-none-linux_x86_64.whl
    rocm_sdk_devel-1.0-py3-none-linux_x86_64.whl
    rocm-1.0.tar.gz
    ");
    insta::assert_snapshot!(says(&plan, "rocm-1.0.tar.gz: src/rocm_sdk/_dist_info.py"), @"
    __version__ = '1.0'
    PY_PACKAGE_SUFFIX_NONCE = ''
    DEFAULT_TARGET_FAMILY = 'gfx94X-dcgpu'
    AVAILABLE_TARGET_FAMILIES.append('gfx94X-dcgpu')
    ABSENT_PACKAGES.append('device')
    ABSENT_PACKAGES.append('profiler')
    THIS_TARGET_FAMILY = None
    THIS_PACKAGE_ENTRY = ALL_PACKAGES['meta']
    ");
    insta::assert_snapshot!(says(&plan, "rocm_sdk_devel-1.0-py3-none-linux_x86_64.whl: rocm_sdk_devel/_dist_info.py"), @"
    __version__ = '1.0'
    PY_PACKAGE_SUFFIX_NONCE = ''
    DEFAULT_TARGET_FAMILY = 'gfx94X-dcgpu'
    AVAILABLE_TARGET_FAMILIES.append('gfx94X-dcgpu')
    ABSENT_PACKAGES.append('device')
    ABSENT_PACKAGES.append('profiler')
    THIS_TARGET_FAMILY = 'gfx94X-dcgpu'
    THIS_PACKAGE_ENTRY = ALL_PACKAGES['devel']
    ");
}

#[test]
fn several_families_without_the_split_have_a_selector_and_a_devel_package_each() {
    let mut fixture = with_families(legacy(), &["gfx94X-dcgpu", "gfx110X-all"]);
    // Packages of families must ignore this list.
    fixture.options.linux = Some(vec!["gfx942".parse().unwrap()]);
    let plan = fixture.plan();
    insta::assert_snapshot!(outline(&plan), @"
    rocm_sdk_core-1.0-py3-none-linux_x86_64.whl
      copy   _rocm_sdk_core/.info/version < base_lib_generic
      text   _rocm_sdk_core/__init__.py
      text   rocm_sdk_core-1.0.dist-info/METADATA
      text   rocm_sdk_core-1.0.dist-info/WHEEL
      text   rocm_sdk_core-1.0.dist-info/entry_points.txt
      text   rocm_sdk_core-1.0.dist-info/top_level.txt

    rocm_sdk_libraries_gfx110x_all-1.0-py3-none-linux_x86_64.whl
      text   _rocm_sdk_libraries_gfx110X_all/__init__.py
      relink _rocm_sdk_libraries_gfx110X_all/lib/librocblas.so.5 < blas_lib_gfx110X-all [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib:$ORIGIN/../../_rocm_sdk_core/lib/host-math/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib]
      relink _rocm_sdk_libraries_gfx110X_all/lib/librpp.so.2 < rpp_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib:$ORIGIN/../../_rocm_sdk_core/lib/host-math/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib]
      text   rocm_sdk_libraries_gfx110x_all-1.0.dist-info/METADATA
      text   rocm_sdk_libraries_gfx110x_all-1.0.dist-info/WHEEL
      text   rocm_sdk_libraries_gfx110x_all-1.0.dist-info/top_level.txt

    rocm_sdk_libraries_gfx94x_dcgpu-1.0-py3-none-linux_x86_64.whl
      text   _rocm_sdk_libraries_gfx94X_dcgpu/__init__.py
      relink _rocm_sdk_libraries_gfx94X_dcgpu/lib/librocblas.so.5 < blas_lib_gfx94X-dcgpu [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib:$ORIGIN/../../_rocm_sdk_core/lib/host-math/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib]
      relink _rocm_sdk_libraries_gfx94X_dcgpu/lib/librpp.so.2 < rpp_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib:$ORIGIN/../../_rocm_sdk_core/lib/host-math/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib]
      text   rocm_sdk_libraries_gfx94x_dcgpu-1.0.dist-info/METADATA
      text   rocm_sdk_libraries_gfx94x_dcgpu-1.0.dist-info/WHEEL
      text   rocm_sdk_libraries_gfx94x_dcgpu-1.0.dist-info/top_level.txt

    gfx110X-all/rocm_sdk_devel-1.0-py3-none-linux_x86_64.whl
      pack   rocm_sdk_devel/_devel.tar
        empty  __init__.py
        mkdir  .info
        mkdir  bin
        mkdir  lib
        link   .info/version -> ../../_rocm_sdk_core/.info/version
        copy   bin/rocblas-test < blas_test_gfx110X-all
        link   lib/librocblas.so.5 -> ../../_rocm_sdk_libraries_gfx110X_all/lib/librocblas.so.5
        link   lib/librpp.so.2 -> ../../_rocm_sdk_libraries_gfx110X_all/lib/librpp.so.2
      count  rocm_sdk_devel/_devel_manifest.json
      text   rocm_sdk_devel-1.0.dist-info/METADATA
      text   rocm_sdk_devel-1.0.dist-info/WHEEL
      text   rocm_sdk_devel-1.0.dist-info/top_level.txt

    gfx94X-dcgpu/rocm_sdk_devel-1.0-py3-none-linux_x86_64.whl
      pack   rocm_sdk_devel/_devel.tar
        empty  __init__.py
        mkdir  .info
        mkdir  bin
        mkdir  lib
        link   .info/version -> ../../_rocm_sdk_core/.info/version
        copy   bin/rocblas-test < blas_test_gfx94X-dcgpu
        link   lib/librocblas.so.5 -> ../../_rocm_sdk_libraries_gfx94X_dcgpu/lib/librocblas.so.5
        link   lib/librpp.so.2 -> ../../_rocm_sdk_libraries_gfx94X_dcgpu/lib/librpp.so.2
      count  rocm_sdk_devel/_devel_manifest.json
      text   rocm_sdk_devel-1.0.dist-info/METADATA
      text   rocm_sdk_devel-1.0.dist-info/WHEEL
      text   rocm_sdk_devel-1.0.dist-info/top_level.txt

    gfx110X-all/rocm-1.0.tar.gz

    gfx94X-dcgpu/rocm-1.0.tar.gz

    note: no artifacts for `rocm-profiler`: it is left out
    ");
    insta::assert_snapshot!(says(&plan, "gfx94X-dcgpu/rocm-1.0.tar.gz: src/rocm_sdk/_dist_info.py"), @"
    __version__ = '1.0'
    PY_PACKAGE_SUFFIX_NONCE = ''
    ABSENT_PACKAGES.append('device')
    ABSENT_PACKAGES.append('profiler')
    THIS_TARGET_FAMILY = 'gfx94X-dcgpu'
    THIS_PACKAGE_ENTRY = ALL_PACKAGES['meta']
    DEFAULT_TARGET_FAMILY = 'gfx94X-dcgpu'
    AVAILABLE_TARGET_FAMILIES.append('gfx94X-dcgpu')
    ");
    insta::assert_snapshot!(says(&plan, "gfx94X-dcgpu/rocm_sdk_devel-1.0-py3-none-linux_x86_64.whl: rocm_sdk_devel/_dist_info.py"), @"
    __version__ = '1.0'
    PY_PACKAGE_SUFFIX_NONCE = ''
    DEFAULT_TARGET_FAMILY = 'gfx110X-all'
    AVAILABLE_TARGET_FAMILIES.append('gfx110X-all')
    AVAILABLE_TARGET_FAMILIES.append('gfx94X-dcgpu')
    ABSENT_PACKAGES.append('device')
    ABSENT_PACKAGES.append('profiler')
    THIS_TARGET_FAMILY = 'gfx94X-dcgpu'
    THIS_PACKAGE_ENTRY = ALL_PACKAGES['devel']
    ");
}

#[test]
fn no_family_without_the_split_leaves_core_and_devel() {
    let plan = legacy().plan();
    insta::assert_snapshot!(names(&plan), @"
    rocm_sdk_core-1.0-py3-none-linux_x86_64.whl
    rocm_sdk_devel-1.0-py3-none-linux_x86_64.whl
    rocm-1.0.tar.gz
    ");
    insta::assert_snapshot!(plan.notes.join("\n"), @"
    no artifact is for a GPU family: package `libraries`, which there is one of for each family, is left out
    no artifacts for `rocm-profiler`: it is left out
    ");
}

#[test]
fn device_code_apart_contradicts_a_manifest_without_the_split() {
    insta::assert_snapshot!(split().legacy().refusal(), @"
    error: the build says that device code is not split off, and artifact `blas_lib_gfx1100` has `.kpack/blas_gfx1100.kpack`

    hint: fetch all artifacts from one run: `base_lib_generic` holds the flag `KPACK_SPLIT_ARTIFACTS`
    ");
}

#[test]
fn without_the_split_there_is_no_part_of_a_set() {
    let mut fixture = with_families(legacy(), &["gfx94X-dcgpu"]);
    let targets = BTreeSet::from(["gfx942".parse().unwrap()]);
    let names = ["core".to_owned()];
    let subset = Subset::new(&names, &fixture.options.catalog, Platform::Linux, targets);
    fixture.subset = Some(subset.unwrap());
    insta::assert_snapshot!(fixture.refusal(), @"
    error: `--target` needs split device code, and this set is fat

    hint: fetch all artifacts of the run, and leave out `--target`
    ");
}
