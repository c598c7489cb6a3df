//! The SDK tree: its symlinks to other packages, and its own files.

use crate::package::planner::tests::fixture::{
    Fixture, file, library, program, runs, script, with,
};

#[test]
fn the_tree_links_to_what_other_packages_ship_and_has_the_rest_itself() {
    let fixture = Fixture::new()
        .file("TOP", file())
        .artifact("blas_lib_generic")
        .file("lib/librocblas.so.5.1", library("librocblas.so.5"))
        .link("lib/librocblas.so.5", "librocblas.so.5.1")
        .link("lib/librocblas.so", "librocblas.so.5")
        .file("lib/rocblas/library/TensileLibrary.dat", file())
        .artifact("blas_dev_generic")
        .directory("lib/cmake")
        .file("lib/cmake/rocblas-config.cmake", file())
        .directory("lib/empty")
        .artifact("blas_test_generic")
        .file("bin/rocblas-test", program())
        .artifact("amd-llvm_run_generic")
        .file("lib/llvm/bin/clang-22", program())
        .link("lib/llvm/bin/clang", "clang-22")
        .artifact("base_run_generic")
        .link("bin/clang", "../lib/llvm/bin/clang")
        .file("bin/rocprof-odd", script())
        .artifact("prim_dev_generic")
        .file("include/rocprim.hpp", file());
    insta::assert_snapshot!(fixture.shows("rocm-sdk-devel"), @"
    pack   rocm_sdk_devel/_devel.tar
      empty  __init__.py
      link   TOP -> ../_rocm_sdk_core/TOP
      mkdir  .info
      mkdir  bin
      mkdir  include
      mkdir  lib
      link   .info/version -> ../../_rocm_sdk_core/.info/version
      copy   bin/rocprof-odd < base_run_generic
      link   bin/clang -> ../lib/llvm/bin/clang
      copy   include/rocprim.hpp < prim_dev_generic
      link   lib/librocblas.so.5 -> ../../_rocm_sdk_libraries/lib/librocblas.so.5
      link   lib/librocblas.so -> librocblas.so.5
      link   lib/librocblas.so.5.1 -> librocblas.so.5
      mkdir  lib/cmake
      mkdir  lib/empty
      mkdir  lib/llvm
      mkdir  lib/rocblas
      copy   lib/cmake/rocblas-config.cmake < blas_dev_generic
      mkdir  lib/llvm/bin
      link   lib/llvm/bin/clang -> ../../../../_rocm_sdk_core/lib/llvm/bin/clang
      link   lib/llvm/bin/clang-22 -> ../../../../_rocm_sdk_core/lib/llvm/bin/clang-22
      mkdir  lib/rocblas/library
      link   lib/rocblas/library/TensileLibrary.dat -> ../../../../_rocm_sdk_libraries/lib/rocblas/library/TensileLibrary.dat
    count  rocm_sdk_devel/_devel_manifest.json
    ");
}

#[test]
fn a_library_has_the_run_path_of_every_directory_that_a_symlink_reaches_it_from() {
    let fixture = Fixture::new()
        .artifact("core-amdsmi_lib_generic")
        .file("lib/libamd_smi.so.26.0", library("libamd_smi.so.26"))
        .link("lib/libamd_smi.so.26", "libamd_smi.so.26.0")
        .link("share/amd_smi/amdsmi/libamd_smi.so", "../../../lib/libamd_smi.so.26")
        .file("bin/amd-smi", program())
        .artifact("core-amdsmi_dev_generic")
        .file("opt/own/libown.so", library("libown.so"))
        .link("share/own.so", "../opt/own/libown.so")
        .link("smi", "share/amd_smi/amdsmi")
        .link("libexec/libx.so", "../smi/libamd_smi.so")
        .link("share/smi", "../bin/amd-smi");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
    copy   _rocm_sdk_core/.info/version < base_lib_generic
    relink _rocm_sdk_core/bin/amd-smi* < core-amdsmi_lib_generic [$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    relink _rocm_sdk_core/lib/libamd_smi.so.26 < core-amdsmi_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib:$ORIGIN/../lib:$ORIGIN/../../../lib:$ORIGIN/../../../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    ");
    let devel = fixture.shows("rocm-sdk-devel");
    let relinked = devel.lines().find(|line| line.contains("libown.so <"));
    insta::assert_snapshot!(relinked.unwrap().trim(), @"relink opt/own/libown.so < core-amdsmi_dev_generic [$ORIGIN:$ORIGIN/../opt/own]");
}

#[test]
fn a_device_library_has_the_run_path_of_every_directory_that_it_is_linked_from() {
    let fixture = Fixture::new()
        .artifact("blas_lib_generic")
        .file("lib/librocblas.so.5", library("librocblas.so.5"))
        .artifact("blas_lib_gfx942")
        .file("lib/libcode.so.1", library("libcode.so.1"))
        .link("lib/rocblas/libcode.so", "../libcode.so.1");
    let shown = fixture.shows("rocm-sdk-device-gfx942");
    insta::assert_snapshot!(shown.trim(), @"relink _rocm_sdk_libraries/lib/libcode.so.1 < blas_lib_gfx942 [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib:$ORIGIN/../../lib:$ORIGIN/../../../_rocm_sdk_core/lib:$ORIGIN/../../../_rocm_sdk_core/lib/rocm_sysdeps/lib]");
}

#[test]
fn files_of_the_tree_itself_keep_their_run_path_and_no_link_of_its_own_is_changed() {
    let no_path = with(library("liby.so"), |elf| elf.runpath = None);
    let fixture = Fixture::new()
        .artifact("prim_lib_generic")
        .file("lib/libx.so.1", runs(library("libx.so.1")))
        .link("lib/libx.so", "libx.so.1")
        .file("lib/liby.so", no_path)
        .link("lib/dangling", "nothing");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-devel"), @"
    pack   rocm_sdk_devel/_devel.tar
      empty  __init__.py
      mkdir  .info
      mkdir  lib
      link   .info/version -> ../../_rocm_sdk_core/.info/version
      relink lib/libx.so.1 < prim_lib_generic [$ORIGIN]
      copy   lib/liby.so < prim_lib_generic
      link   lib/dangling -> nothing
      link   lib/libx.so -> libx.so.1
    count  rocm_sdk_devel/_devel_manifest.json
    ");
    let windows = fixture.file("lib/x.dll", file()).windows();
    insta::assert_snapshot!(windows.shows("rocm-sdk-devel"), @"
    pack   rocm_sdk_devel/_devel.tar
      empty  __init__.py
      mkdir  .info
      mkdir  lib
      link   .info/version -> ../../_rocm_sdk_core/.info/version
      copy   lib/libx.so.1 < prim_lib_generic
      copy   lib/liby.so < prim_lib_generic
      copy   lib/x.dll < prim_lib_generic
      link   lib/dangling -> nothing
      link   lib/libx.so -> libx.so.1
    count  rocm_sdk_devel/_devel_manifest.json
    ");
}

#[test]
fn a_library_that_no_artifact_has_under_its_soname_is_in_the_tree_too() {
    let fixture = Fixture::new()
        .artifact("core-hip_lib_generic")
        .file("lib/libx.so.1.2", library("libx.so.1"));
    insta::assert_snapshot!(fixture.shows("rocm-sdk-devel"), @"
      pack   rocm_sdk_devel/_devel.tar
        empty  __init__.py
        mkdir  .info
        mkdir  lib
        link   .info/version -> ../../_rocm_sdk_core/.info/version
        link   lib/libx.so.1 -> ../../_rocm_sdk_core/lib/libx.so.1
        link   lib/libx.so.1.2 -> libx.so.1
      count  rocm_sdk_devel/_devel_manifest.json
    note: `lib/libx.so.1.2` calls itself `libx.so.1`, and nothing else does: it ships as `lib/libx.so.1`
    ");
}

#[test]
fn the_tree_does_not_lean_on_device_packages() {
    let fixture = Fixture::new()
        .artifact("blas_lib_generic")
        .file("lib/a", file())
        .artifact("blas_dev_generic")
        .file("lib/k.dat", file())
        .artifact("blas_lib_gfx942")
        .file("lib/k.dat", file());
    insta::assert_snapshot!(fixture.shows("rocm-sdk-devel"), @"
    pack   rocm_sdk_devel/_devel.tar
      empty  __init__.py
      mkdir  .info
      mkdir  lib
      link   .info/version -> ../../_rocm_sdk_core/.info/version
      link   lib/a -> ../../_rocm_sdk_libraries/lib/a
      copy   lib/k.dat < blas_dev_generic
    count  rocm_sdk_devel/_devel_manifest.json
    ");
}

#[test]
fn a_directory_that_another_artifact_has_as_something_else_is_refused() {
    let fixture = Fixture::new()
        .artifact("prim_dev_generic")
        .link("llvm", "lib/llvm")
        .artifact("rocwmma_dev_generic")
        .file("llvm/include/a.h", file());
    insta::assert_snapshot!(fixture.refusal(), @"
    error: failed to plan `rocm-sdk-devel`
      caused by: `llvm` of artifact `prim_dev_generic` is no directory, and `llvm/include` lies below it
    ");
}

#[test]
fn profilers_and_tests_are_in_no_tree() {
    let fixture = Fixture::new()
        .artifact("rocprofiler-systems_lib_generic")
        .file("bin/rocprof-sys-run", program())
        .artifact("base_test_generic")
        .file("bin/test", program())
        .artifact("base_dbg_generic")
        .file(".build-id/aa/bb.debug", file());
    insta::assert_snapshot!(fixture.shows("rocm-sdk-devel"), @"
    pack   rocm_sdk_devel/_devel.tar
      empty  __init__.py
      mkdir  .build-id
      mkdir  .info
      mkdir  .build-id/aa
      copy   .build-id/aa/bb.debug < base_dbg_generic
      link   .info/version -> ../../_rocm_sdk_core/.info/version
    count  rocm_sdk_devel/_devel_manifest.json
    ");
}
