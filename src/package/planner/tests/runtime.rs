//! Runtime packages: one rule per test, with a snapshot of the whole package.

use crate::{
    artifact::{FileFacts, FileKind},
    package::planner::tests::fixture::{
        Fixture, file, library, of_machine, program, runs, script, with,
    },
};
use rocwheel_elf::Machine;

fn core() -> Fixture {
    Fixture::new().artifact("core-hip_lib_generic")
}

#[test]
fn a_library_ships_under_its_soname_alone() {
    let fixture = core()
        .file("lib/libx.so.1.2", library("libx.so.1"))
        .link("lib/libx.so.1", "libx.so.1.2")
        .link("lib/libx.so", "libx.so.1");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
    copy   _rocm_sdk_core/.info/version < base_lib_generic
    relink _rocm_sdk_core/lib/libx.so.1 < core-hip_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    ");
}

#[test]
fn a_library_without_a_soname_ships_under_every_name() {
    let plain = with(library("x"), |elf| elf.soname = None);
    let fixture = core().file("lib/plugin.so.1", plain).link("lib/plugin.so", "plugin.so.1");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
    copy   _rocm_sdk_core/.info/version < base_lib_generic
    relink _rocm_sdk_core/lib/plugin.so < core-hip_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    relink _rocm_sdk_core/lib/plugin.so.1 < core-hip_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    ");
}

#[test]
fn a_soname_that_no_file_has_is_what_the_library_ships_under() {
    let fixture =
        core().file("lib/libx.so.1.2", library("libx.so.1")).link("lib/libx.so", "libx.so.1.2");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
      copy   _rocm_sdk_core/.info/version < base_lib_generic
      relink _rocm_sdk_core/lib/libx.so.1 < core-hip_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    note: `lib/libx.so.1.2` calls itself `libx.so.1`, and nothing else does: it ships as `lib/libx.so.1`
    ");
}

#[test]
fn a_row_takes_only_the_files_that_it_includes() {
    let row = "artifacts = [\"rocjitsu-hotswap\"]\n";
    let policy = include_str!("../../../policy/packages.toml");
    let policy = policy.replace(row, &format!("{row}include = [\"etc/**\"]\n"));
    let mut fixture = Fixture::new()
        .artifact("rocjitsu-hotswap_lib_generic")
        .file("etc/kept.txt", file())
        .file("share/left.txt", file());
    fixture.options.catalog = crate::policy::Catalog::parse(&policy).unwrap();
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
    copy   _rocm_sdk_core/.info/version < base_lib_generic
    copy   _rocm_sdk_core/etc/kept.txt < rocjitsu-hotswap_lib_generic
    ");
}

#[test]
fn a_soname_that_is_no_file_name_changes_nothing() {
    let fixture = core()
        .file("lib/a.so", library("sub/a.so.1"))
        .file("lib/b.so", library("/opt/b.so"))
        .file("lib/c.so", library(".."));
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
    copy   _rocm_sdk_core/.info/version < base_lib_generic
    relink _rocm_sdk_core/lib/a.so < core-hip_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    relink _rocm_sdk_core/lib/b.so < core-hip_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    relink _rocm_sdk_core/lib/c.so < core-hip_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    ");
}

#[test]
fn the_name_of_a_library_in_another_directory_leads_to_where_it_is() {
    let fixture =
        core().file("lib/sub/libx.so.1", library("libx.so.1")).link("lib/libx.so", "sub/libx.so.1");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
    copy   _rocm_sdk_core/.info/version < base_lib_generic
    relink _rocm_sdk_core/lib/sub/libx.so.1 < core-hip_lib_generic [$ORIGIN:$ORIGIN/../../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../../_rocm_sdk_core/lib/rocm_sysdeps/lib:$ORIGIN/../lib/sub:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    ");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-devel"), @"
    pack   rocm_sdk_devel/_devel.tar
      empty  __init__.py
      mkdir  .info
      mkdir  lib
      link   .info/version -> ../../_rocm_sdk_core/.info/version
      link   lib/libx.so -> sub/libx.so.1
      mkdir  lib/sub
      link   lib/sub/libx.so.1 -> ../../../_rocm_sdk_core/lib/sub/libx.so.1
    count  rocm_sdk_devel/_devel_manifest.json
    ");
}

#[test]
fn links_to_what_runs_become_launchers_for_the_file_itself() {
    let fixture = core()
        .file("lib/llvm/bin/clang-22", program())
        .link("lib/llvm/bin/clang", "clang-22")
        .link("lib/llvm/bin/clang++", "clang")
        .directory("lib/llvm/bin")
        .link("llvm", "lib/llvm")
        .link("bin/clang", "../lib/llvm/bin/clang")
        .file("libexec/smi/cli.py", script())
        .link("bin/smi", "../libexec/smi/cli.py");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
    copy   _rocm_sdk_core/.info/version < base_lib_generic
    launch _rocm_sdk_core/bin/clang* -> ../lib/llvm/bin/clang-22
    launch _rocm_sdk_core/bin/smi* -> ../libexec/smi/cli.py
    launch _rocm_sdk_core/lib/llvm/bin/clang* -> clang-22
    launch _rocm_sdk_core/lib/llvm/bin/clang++* -> clang-22
    relink _rocm_sdk_core/lib/llvm/bin/clang-22* < core-hip_lib_generic [$ORIGIN/../../../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    copy   _rocm_sdk_core/libexec/smi/cli.py* < core-hip_lib_generic
    ");
}

#[test]
fn a_symlink_to_a_module_of_any_mode_is_a_copy() {
    let fixture = core()
        .file("libexec/rocm_smi/rsmiBindings.py", script())
        .link(
            "lib/python3/dist-packages/rsmiBindings.py",
            "../../../libexec/rocm_smi/rsmiBindings.py",
        )
        .link("libexec/rocm_smi/bindings", "rsmiBindings.py")
        .file("lib/hip/hipvars.pm", script())
        .link("bin/hipvars.pm", "../lib/hip/hipvars.pm")
        .file("lib/hip/env", script())
        .link("bin/env.sh", "../lib/hip/env")
        .link("lib/env", "hip/env");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
    copy   _rocm_sdk_core/.info/version < base_lib_generic
    copy   _rocm_sdk_core/bin/env.sh* < core-hip_lib_generic
    copy   _rocm_sdk_core/bin/hipvars.pm* < core-hip_lib_generic
    copy   _rocm_sdk_core/lib/env* < core-hip_lib_generic
    copy   _rocm_sdk_core/lib/hip/env* < core-hip_lib_generic
    copy   _rocm_sdk_core/lib/hip/hipvars.pm* < core-hip_lib_generic
    copy   _rocm_sdk_core/lib/python3/dist-packages/rsmiBindings.py* < core-hip_lib_generic
    launch _rocm_sdk_core/libexec/rocm_smi/bindings* -> rsmiBindings.py
    copy   _rocm_sdk_core/libexec/rocm_smi/rsmiBindings.py* < core-hip_lib_generic
    ");
}

#[test]
fn what_cannot_be_run_by_its_path_is_copied_behind_a_link() {
    let mut module = script();
    module.executable = false;
    let fixture = core()
        .file("share/data", file())
        .link("data", "share/data")
        .file("share/module.py", module)
        .link("module", "share/module.py")
        .file("share/runs-without-hash-bang", runs(file()))
        .link("runs", "share/runs-without-hash-bang");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
    copy   _rocm_sdk_core/.info/version < base_lib_generic
    copy   _rocm_sdk_core/data < core-hip_lib_generic
    copy   _rocm_sdk_core/module < core-hip_lib_generic
    copy   _rocm_sdk_core/runs* < core-hip_lib_generic
    copy   _rocm_sdk_core/share/data < core-hip_lib_generic
    copy   _rocm_sdk_core/share/module.py < core-hip_lib_generic
    copy   _rocm_sdk_core/share/runs-without-hash-bang* < core-hip_lib_generic
    ");
}

#[test]
fn an_executable_that_the_globs_leave_out_ships_behind_its_link() {
    let fixture = core().file("bin/rocprof-x", program()).link("bin/x", "rocprof-x");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
    copy   _rocm_sdk_core/.info/version < base_lib_generic
    relink _rocm_sdk_core/bin/x* < core-hip_lib_generic [$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    ");
}

#[test]
fn links_to_directories_and_to_nothing_are_left_to_the_devel_tree() {
    let fixture = core()
        .directory("lib/llvm")
        .link("llvm", "lib/llvm")
        .link("bin/offload-arch", "../lib/llvm/bin/offload-arch");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"  copy   _rocm_sdk_core/.info/version < base_lib_generic");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-devel"), @"
    pack   rocm_sdk_devel/_devel.tar
      empty  __init__.py
      link   llvm -> lib/llvm
      mkdir  .info
      mkdir  bin
      mkdir  lib
      link   .info/version -> ../../_rocm_sdk_core/.info/version
      link   bin/offload-arch -> ../lib/llvm/bin/offload-arch
      mkdir  lib/llvm
    count  rocm_sdk_devel/_devel_manifest.json
    ");
}

#[test]
fn a_symlink_to_an_absolute_path_is_left_out_with_a_note() {
    let fixture = core().link("lib/passwd", "/etc/passwd").link("lib/same", "passwd");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
      copy   _rocm_sdk_core/.info/version < base_lib_generic
    note: symlink `lib/passwd` of artifact `core-hip_lib_generic` is left out: it has an absolute target
    note: symlink `lib/same` of artifact `core-hip_lib_generic` is left out: it has an absolute target
    ");
    assert!(!fixture.shows("rocm-sdk-devel").contains("link   lib/"));
}

#[test]
fn a_symlink_to_an_absolute_path_that_a_library_is_linked_with_is_refused() {
    let fixture =
        core().file("lib/libx.so", library("libx.so")).link("lib/libc.so.6", "/lib64/libc.so.6");
    insta::assert_snapshot!(fixture.refusal(), @"
    error: failed to plan `rocm-sdk-core`
      caused by: link `lib/libc.so.6` of artifact `core-hip_lib_generic` leads out of it: `/lib64/libc.so.6`

    hint: make it relative and point it at a file of the same artifact
    ");
}

#[test]
fn a_symlink_that_climbs_out_of_the_artifact_is_refused() {
    insta::assert_snapshot!(core().link("lib/up", "../../../x").refusal(), @"
    error: failed to plan `rocm-sdk-core`
      caused by: link `lib/up` of artifact `core-hip_lib_generic` leads out of it: `../../../x`

    hint: make it relative and point it at a file of the same artifact
    ");
}

#[test]
fn a_static_executable_has_no_run_path_to_change() {
    let still = with(program(), |elf| elf.needed.clear());
    insta::assert_snapshot!(core().file("bin/x", still).shows("rocm-sdk-core"), @"
    copy   _rocm_sdk_core/.info/version < base_lib_generic
    copy   _rocm_sdk_core/bin/x* < core-hip_lib_generic
    ");
}

#[test]
fn only_what_a_loader_of_this_machine_reads_is_changed() {
    let arm = of_machine(library("libarm.so"), Machine::Other(183));
    let gpu = of_machine(library("kernel.so"), Machine::AmdGpu);
    let named = FileFacts { kind: FileKind::Hsaco, elf: None, ..file() };
    let fixture = core()
        .file("lib/libarm.so", arm.clone())
        .file("lib/libarm2.so", with(arm, |elf| elf.soname = Some("libarm2.so".into())))
        .file("lib/kernel.so", gpu)
        .file("lib/kernel.co", named);
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
      copy   _rocm_sdk_core/.info/version < base_lib_generic
      copy   _rocm_sdk_core/lib/kernel.co < core-hip_lib_generic
      copy   _rocm_sdk_core/lib/kernel.so < core-hip_lib_generic
      copy   _rocm_sdk_core/lib/libarm.so < core-hip_lib_generic
      copy   _rocm_sdk_core/lib/libarm2.so < core-hip_lib_generic
    ");
}

#[test]
fn modes_say_whether_a_file_runs_and_nothing_else() {
    let fixture = core().file("bin/a", runs(file())).file("bin/b", file());
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
      copy   _rocm_sdk_core/.info/version < base_lib_generic
      copy   _rocm_sdk_core/bin/a* < core-hip_lib_generic
      copy   _rocm_sdk_core/bin/b < core-hip_lib_generic
    ");
}

#[test]
fn a_damaged_library_is_refused_where_it_runs_and_noted_where_it_lies() {
    let damaged = || FileFacts { damage: Some("a damaged ELF file: too short".into()), ..file() };
    insta::assert_snapshot!(core().file("lib/libx.so", damaged()).refusal(), @"
    error: failed to plan `rocm-sdk-core`
      caused by: `lib/libx.so` of artifact `core-hip_lib_generic`: a damaged ELF file: too short

    hint: fetch the artifact again; if it was built like this, build it again
    ");
    let below = core().artifact("blas_dev_generic").artifact("prim_dev_generic");
    insta::assert_snapshot!(below.file("lib/x.o", damaged()).shows("rocm-sdk-devel"), @"
      pack   rocm_sdk_devel/_devel.tar
        empty  __init__.py
        mkdir  .info
        mkdir  lib
        link   .info/version -> ../../_rocm_sdk_core/.info/version
        copy   lib/x.o < prim_dev_generic
      count  rocm_sdk_devel/_devel_manifest.json
    note: `lib/x.o` of artifact `prim_dev_generic` ships as it is: a damaged ELF file: too short
    ");
}

#[test]
fn nested_modules_odd_names_and_directories_of_version_control_ship() {
    let fixture = core()
        .file("share/gdb/__init__.py", file())
        .file("share/.git/config", file())
        .file("share/CVS/Root", file())
        .file("share/a, \"b\" [c]\n\u{fc}.txt", file())
        .file("__init__.py", file());
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @r#"
    copy   _rocm_sdk_core/.info/version < base_lib_generic
    copy   _rocm_sdk_core/__init__.py < core-hip_lib_generic
    copy   _rocm_sdk_core/share/.git/config < core-hip_lib_generic
    copy   _rocm_sdk_core/share/CVS/Root < core-hip_lib_generic
    copy   "_rocm_sdk_core/share/a, \"b\" [c]\nü.txt" < core-hip_lib_generic
    copy   _rocm_sdk_core/share/gdb/__init__.py < core-hip_lib_generic
    "#);
}

#[test]
fn the_profiler_has_its_libraries_under_their_short_names_too() {
    let plain = |name: &str| library(name);
    let fixture = Fixture::new()
        .artifact("rocprofiler-systems_lib_generic")
        .file("lib/librocprof-sys.so.1.3", plain("librocprof-sys.so.1"))
        .link("lib/librocprof-sys.so.1", "librocprof-sys.so.1.3")
        .link("lib/librocprof-sys.so", "librocprof-sys.so.1")
        .file("lib/libprofiler-hub.so.0.1", plain("libprofiler-hub.so.0.1"))
        .file("lib/librocprof-sys-dl.so", file())
        .file("lib/librocprof-sys-dl.so.1", plain("librocprof-sys-dl.so.1"))
        .file("lib/unrelated.so.1", plain("unrelated.so.1"));
    insta::assert_snapshot!(fixture.shows("rocm-profiler"), @"
    relink _rocm_profiler/lib/libprofiler-hub.so < rocprofiler-systems_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    relink _rocm_profiler/lib/libprofiler-hub.so.0 < rocprofiler-systems_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    relink _rocm_profiler/lib/libprofiler-hub.so.0.1 < rocprofiler-systems_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    copy   _rocm_profiler/lib/librocprof-sys-dl.so < rocprofiler-systems_lib_generic
    relink _rocm_profiler/lib/librocprof-sys-dl.so.1 < rocprofiler-systems_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    relink _rocm_profiler/lib/librocprof-sys.so < rocprofiler-systems_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    relink _rocm_profiler/lib/librocprof-sys.so.1 < rocprofiler-systems_lib_generic [$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    ");
}

#[test]
fn the_profiler_has_its_command_even_if_no_link_leads_to_it() {
    let path = "libexec/rocprofiler-compute/rocprof-compute";
    let profiler = || Fixture::new().artifact("rocprofiler-compute_run_generic");
    insta::assert_snapshot!(profiler().file(path, script()).shows("rocm-profiler"), @"
    launch _rocm_profiler/bin/rocprof-compute* -> ../libexec/rocprofiler-compute/rocprof-compute
    copy   _rocm_profiler/libexec/rocprofiler-compute/rocprof-compute* < rocprofiler-compute_run_generic
    ");
    let both = profiler().file("bin/rocprof-compute", file()).file(path, script());
    insta::assert_snapshot!(both.shows("rocm-profiler"), @"
    copy   _rocm_profiler/bin/rocprof-compute < rocprofiler-compute_run_generic
    copy   _rocm_profiler/libexec/rocprofiler-compute/rocprof-compute* < rocprofiler-compute_run_generic
    ");
}

#[test]
fn packages_for_windows_have_no_run_paths_no_launchers_and_no_sonames() {
    let fixture = core()
        .windows()
        .file("bin/x.exe", runs(file()))
        .link("bin/y.exe", "x.exe")
        .file("bin/rocminfo.exe", file())
        .file("lib/libx.so.1", library("libx.so.0"))
        .file("lib/tool", program())
        .link("lib/tool2", "tool");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-core"), @"
    copy   _rocm_sdk_core/.info/version < base_lib_generic
    copy   _rocm_sdk_core/bin/rocminfo.exe < core-hip_lib_generic
    copy   _rocm_sdk_core/bin/x.exe* < core-hip_lib_generic
    copy   _rocm_sdk_core/bin/y.exe* < core-hip_lib_generic
    copy   _rocm_sdk_core/lib/libx.so.1 < core-hip_lib_generic
    copy   _rocm_sdk_core/lib/tool* < core-hip_lib_generic
    copy   _rocm_sdk_core/lib/tool2* < core-hip_lib_generic
    ");
}
