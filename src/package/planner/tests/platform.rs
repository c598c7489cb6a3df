//! Artifacts for the other platform.

use crate::package::planner::tests::fixture::{Fixture, file, library, of_machine};
use rocwheel_base::error::render;
use rocwheel_elf::Machine;

fn refused(fixture: &Fixture) -> String {
    render(&fixture.try_plan().unwrap_err())
}

#[test]
fn artifacts_for_the_other_platform_are_refused() {
    let linux = Fixture::new()
        .artifact("core-hip_lib_generic")
        .file("lib/libamdhip64.so.7", library("libamdhip64.so.7"));
    insta::assert_snapshot!(refused(&linux.windows()), @"
    error: the packages would be for windows, and the artifacts are for linux: `lib/libamdhip64.so.7` of `core-hip_lib_generic`

    hint: pass `--platform linux`, or fetch the artifacts for windows
    ");
    let windows =
        Fixture::new().artifact("core-hip_lib_generic").file("bin/AMDHIP64_7.DLL", file());
    insta::assert_snapshot!(refused(&windows), @"
    error: the packages would be for linux, and the artifacts are for windows: `bin/AMDHIP64_7.DLL` of `core-hip_lib_generic`

    hint: pass `--platform windows`, or fetch the artifacts for linux
    ");
}

#[test]
fn what_both_platforms_have_says_nothing_about_either() {
    let code = of_machine(library("libcode.so"), Machine::AmdGpu);
    let windows = Fixture::new()
        .artifact("blas_lib_generic")
        .file("bin/rocblas/library/kernels.hsaco", code)
        .file("include/rocblas.h", file());
    windows.windows().plan();
    // Python for Linux contains launchers for Windows, such as `t64.exe`.
    let linux = Fixture::new()
        .artifact("rocgdb_run_generic")
        .file("lib/python3/distlib/t64.exe", file())
        .file("lib/libgdb.so", library("libgdb.so"));
    linux.plan();
}
