//! Makes the artifacts of the odd set: legal, and unlike the sample wherever real runs are.
//!
//! It is the sample with additions, so that it is as complete. What is odd was met in runs of
//! TheRock or in packages of distributions; each addition says what it is.

use std::path::Path;

use rocwheel_test_files::linker::SharedObject;

use crate::{
    families,
    sample::{self, sketch::Sketch},
};

/// Names that a careless program splits, quotes, escapes or matches as a pattern.
pub const NAMES: [&str; 9] = [
    "with space.txt",
    "[brackets] {braces}.txt",
    "comma, semicolon; and 'quote'.txt",
    "\"double quotes\".txt",
    "ünï-日本語-😀.txt",
    "percent%20plus+hash#question.txt",
    "-dash",
    "star*.txt",
    "dollar$ORIGIN.txt",
];

/// What it has device wheels for. The first two are of one family, of which the sample has nothing.
pub const TARGETS: [&str; 4] = ["gfx1010", "gfx1012", "gfx1100", "gfx942"];

/// A symlink to an absolute path, which no package can have.
pub const ABSOLUTE: &str = "share/doc/odd/absolute";

/// The archives of the odd set, in a directory that is made if it does not exist. `split` splits the artifacts
/// of one directory into another one, as rocwheel does.
pub fn write_archives(directory: &Path, split: &dyn Fn(&Path, &Path)) {
    fs_err::create_dir_all(directory).unwrap();
    let sketches = sample::sketches()
        .into_iter()
        .filter(|sketch| !sketch.name().starts_with("rccl_"))
        .map(changed);
    for sketch in sketches.chain(families::sketches(split)).chain(more_targets()) {
        fs_err::write(directory.join(sketch.file_name()), sketch.pack().unwrap()).unwrap();
    }
}

fn changed(sketch: Sketch) -> Sketch {
    match sketch.name() {
        "base_lib_generic" => sample::base(&TARGETS),
        "base_run_generic" => names(smi_bindings(sketch)),
        "core-amdsmi_lib_generic" => amd_smi(),
        "sysdeps_lib_generic" => drm(sketch),
        "amd-llvm_run_generic" => compiler(sketch),
        "blas_lib_generic" => with_runtimes(names(sketch)),
        "blas_lib_gfx942" => device_files(sketch, "gfx942"),
        "blas_lib_gfx1100" => device_files(sketch, "gfx1100"),
        "prim_dev_generic" => names(headers(sketch)),
        _ => sketch,
    }
}

/// The family that the sample has nothing of: two targets, and a variant of one of them.
fn more_targets() -> [Sketch; 3] {
    let code = |target: &str| sample::blas_code(&format!("blas_lib_{target}"), target);
    [
        device_files(code("gfx1010"), "gfx1010"),
        code("gfx1010:xnack+"),
        device_files(code("gfx1012"), "gfx1012"),
    ]
}

/// rocm-smi of Debian: a Python module that is executable, reached through a symlink. Beside it,
/// modules of a shell and of Perl that are no programs although they are linked from `bin`, and a
/// symlink to an absolute path.
fn smi_bindings(sketch: Sketch) -> Sketch {
    sketch
        .stage("odd/rocm_smi/stage")
        .script("libexec/rocm_smi/rsmiBindings.py", "#!/usr/bin/env python3\nANSWER = 42\n")
        .link(
            "lib/python3/dist-packages/rsmiBindings.py",
            "../../../libexec/rocm_smi/rsmiBindings.py",
        )
        .script("libexec/odd/setup.sh", "#!/bin/sh\n# read by others\n")
        .link("bin/odd-setup.sh", "../libexec/odd/setup.sh")
        .script("libexec/odd/Odd.pm", "# read by others\n1;\n")
        .link("bin/Odd.pm", "../libexec/odd/Odd.pm")
        .link(ABSOLUTE, "/opt/odd/nothing here")
}

/// Files with odd names, an empty file, empty directories, a hard link, and symlinks to a file,
/// to a directory and to another symlink.
fn names(sketch: Sketch) -> Sketch {
    let folder = format!("share/odd {}", sketch.name());
    let beside = format!("{folder} (symlink)");
    let target = format!("odd {}", sketch.name());
    let mut sketch = sketch.stage("odd/names/stage");
    for name in NAMES {
        sketch = sketch.text(&format!("{folder}/{name}"), &format!("{name}\n"));
    }
    sketch
        .text(&format!("{folder}/empty"), "")
        .directory(&format!("{folder}/an empty directory/and, another"))
        .hard_link(&format!("{folder}/hard link.txt"), &format!("{folder}/with space.txt"))
        .link(&format!("{folder}/symlink, 1.txt"), "with space.txt")
        .link(&format!("{folder}/symlink, 2.txt"), "symlink, 1.txt")
        .link(&beside, &target)
}

/// A library that the devel tree reaches from a second directory, from which its `$ORIGIN` does
/// not lead to what it needs.
fn amd_smi() -> Sketch {
    Sketch::zst("core-amdsmi_lib_generic")
        .stage("core/amdsmi/stage")
        .library("lib", "libamd_smi.so.26", ".0", |library| {
            library
                .needs("librocm_sysdeps_drm.so.2")
                .function("amdsmi_init", 0)
                .runpath("$ORIGIN:$ORIGIN/rocm_sysdeps/lib")
        })
        .link("share/amd_smi/amdsmi/libamd_smi.so", "../../../lib/libamd_smi.so.26")
        .script("libexec/amdsmi_cli/amdsmi_cli.py", "#!/bin/sh\necho 'AMD-SMI (odd)'\n")
        .link("bin/amd-smi", "../libexec/amdsmi_cli/amdsmi_cli.py")
}

fn drm(sketch: Sketch) -> Sketch {
    sketch.stage("odd/drm/stage").library(
        "lib/rocm_sysdeps/lib",
        "librocm_sysdeps_drm.so.2",
        ".4.0",
        |library| library.function("drm_answer", 2).runpath("$ORIGIN"),
    )
}

/// One program under two names by a hard link, a script library that nothing runs, a program
/// without an extension in a directory of data, and a plugin without a SONAME.
fn compiler(sketch: Sketch) -> Sketch {
    let plugin = SharedObject::new("unused").without_soname().function("plugin", 1);
    sketch
        .stage("odd/compiler/stage")
        .tool("lib/llvm/bin/clang-tool", "OVERVIEW: a tool (odd)\n")
        .hard_link("lib/llvm/bin/clang-linker", "lib/llvm/bin/clang-tool")
        .script("share/odd tool/lib.sh", "# sourced by others\n")
        .link("share/odd tool/also.sh", "lib.sh")
        .program("lib/llvm/lib/odd plugin, v1.so", plugin.build())
        // LLVM's runtimes: ROCm 10.1 has them in the directory of a host triple, and had them flat
        // before.
        .program("lib/llvm/lib/x86_64-unknown-linux-gnu/libomp.so", runtime("libomp.so"))
        .program("lib/llvm/lib/libunwind.so.1", runtime("libunwind.so.1"))
}

fn runtime(soname: &str) -> Vec<u8> {
    SharedObject::new(soname).function("runtime", 1).build()
}

/// A library that needs runtimes of LLVM in both layouts, as rpp does.
fn with_runtimes(sketch: Sketch) -> Sketch {
    let needs = |library: SharedObject| library.needs("libomp.so").needs("libunwind.so.1");
    sketch.stage("odd/runtimes/stage").program(
        "lib/libodd-parallel.so.1",
        needs(SharedObject::new("libodd-parallel.so.1")).build(),
    )
}

/// Files for a target that are no kernels: a library with several names, Python, and a table.
fn device_files(sketch: Sketch, target: &str) -> Sketch {
    let soname = format!("libtensile_{target}.so.1");
    sketch
        .stage("odd/device/stage")
        .library("lib/hipblaslt/library", &soname, ".2", |library| {
            library
                .needs("libamdhip64.so.7")
                .calls("tensile_answer", "hip_answer")
                .runpath("$ORIGIN")
        })
        .text(&format!("lib/hipblaslt/library/{target}/tune.py"), "BEST = 7\n")
        .text(&format!("lib/hipblaslt/library/{target}/a, b [c] ü.dat"), "odd\n")
}

/// Headers whose names differ by case alone, and a header behind a symlinked directory.
fn headers(sketch: Sketch) -> Sketch {
    sketch
        .stage("odd/headers/stage")
        .text("include/odd/Header.h", "#pragma once\n")
        .text("include/odd/header.h", "#pragma once\n")
        .link("include/odd-compat", "odd")
}
