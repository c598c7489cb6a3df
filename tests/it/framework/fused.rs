//! A wheel with ROCm in it finds its libraries alone.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{Place, member, members, text};
use crate::support::{
    demo::{DemoWheel, HOOK},
    linker::SharedObject,
    members::unzip,
    program::{Outcome, command, succeed},
    published::sample,
};

fn fuse(wheels: &[PathBuf], to: &Path, flags: &[&str]) -> Outcome {
    fuse_with(&sample().dist(), wheels, to, flags)
}

fn fuse_with(set: &Path, wheels: &[PathBuf], to: &Path, flags: &[&str]) -> Outcome {
    let mut command = command();
    command.args(["framework", "fuse"]).args(wheels);
    command.arg("--set").arg(set).arg("--output-dir").arg(to);
    Outcome::of(command.args(flags).output().unwrap())
}

/// The packages that a wheel gets files of. Nothing of the development files is put into a wheel.
fn without_development(place: &Place) -> PathBuf {
    let set = place.0.path().join("set");
    fs_err::create_dir(&set).unwrap();
    for path in listed(&sample().dist()) {
        let name = path.file_name().unwrap();
        let name = name.to_str().unwrap();
        if name.starts_with("rocm_sdk_") && !name.starts_with("rocm_sdk_devel") {
            fs_err::copy(&path, set.join(name)).unwrap();
        }
    }
    set
}

fn unpacked(wheels: &[PathBuf], site: &Path) {
    for wheel in wheels {
        for (name, _, bytes) in unzip(&fs_err::read(wheel).unwrap()) {
            let to = site.join(name);
            fs_err::create_dir_all(to.parent().unwrap()).unwrap();
            fs_err::write(to, bytes).unwrap();
        }
    }
}

fn listed(directory: &Path) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(directory).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|it| it.unwrap().path()).collect();
    paths.sort();
    paths
}

/// A framework, and one that is built on it.
fn wheels(place: &Place) -> [PathBuf; 2] {
    let mut first = DemoWheel::new();
    "Requires-Dist: rocm[libraries]==0.0.1.dev0\n".clone_into(&mut first.headers);
    let mut second = DemoWheel::bare("more");
    let extension = SharedObject::new("ext.so")
        .needs("libfw.so")
        .needs("libhiprtc.so.7")
        .runpath("/builder/lib");
    second.add("more/sub/ext.so", extension.build());
    second.add("more/__init__.py", HOOK);
    [place.write(&first), place.write(&second)]
}

#[test]
fn the_plan_names_each_library_and_who_needs_it() {
    let place = Place::new();
    let fused = place.tied();
    let said = fuse(&wheels(&place), &fused, &["--targets", "gfx942"]).ok();
    let plan: Vec<&str> = said.lines().filter(|it| it.starts_with("  ")).collect();
    insta::assert_snapshot!(plan.join("\n"), @"
    ties      2 of 2 binaries to ROCm 0.0.1.dev0
    - requires rocm[libraries]==0.0.1.dev0
    init      fw/_rocm_init.py for any version
    preload   _rocm_sdk_core/lib/libamdhip64.so.7 _rocm_sdk_core/lib/libhiprtc.so.7 _rocm_sdk_libraries/lib/libhipblas.so.3 _rocm_sdk_libraries/lib/librocblas.so.5
    run path  fw/_C.so: 3 entries to $ORIGIN/lib:$ORIGIN/_rocm/_rocm_sdk_core/lib
    run path  fw/lib/libfw.so: 1 entry to $ORIGIN/../_rocm/_rocm_sdk_libraries/lib
    embeds    21 files (2.08 MiB) for gfx942 in fw/_rocm
    library   libLLVM.so.22.0 (libamd_comgr.so.3)
    library   libamd_comgr.so.3 (libamdhip64.so.7)
    library   libamdhip64.so.7 (fw/_C.so)
    library   libhipblas.so.3 (fw/lib/libfw.so)
    library   libhipblaslt.so.1 (librocblas.so.5)
    library   libhiprtc.so.7 (more/sub/ext.so)
    library   libhsa-runtime64.so.1 (libamdhip64.so.7)
    library   librocblas.so.5 (fw/lib/libfw.so)
    library   librocm-openblas.so.0 (librocblas.so.5)
    library   librocm_kpack.so.0 (libamdhip64.so.7 opens it)
    library   librocm_sysdeps_liblzma.so.5 (libhsa-runtime64.so.1)
    compiler  its bitcode is embedded
    ties      1 of 1 binary to ROCm 0.0.1.dev0
    + requires fw==1.0 (libraries of fw, which is in the group)
    init      more/_rocm_init.py for any version
    preload   _rocm_sdk_core/lib/libamdhip64.so.7 _rocm_sdk_core/lib/libhiprtc.so.7 _rocm_sdk_libraries/lib/libhipblas.so.3 _rocm_sdk_libraries/lib/librocblas.so.5
    run path  more/sub/ext.so: 1 entry to $ORIGIN/../../fw/lib:$ORIGIN/../../fw/_rocm/_rocm_sdk_core/lib
    warning   with the ROCm packages or another fused wheel in one process there are two copies of HIP, of which the first one loaded serves both
    ");
    assert!(listed(&fused).len() == 2);
}

#[test]
fn the_loader_and_python_find_rocm_in_the_wheel() {
    let place = Place::new();
    let (fused, site) = (place.tied(), place.0.path().join("site"));
    fuse(&wheels(&place), &fused, &["--targets", "gfx942"]).ok();
    let made = listed(&fused);
    let (set, again) = (without_development(&place), place.0.path().join("again"));
    fuse_with(&set, &wheels(&place), &again, &["--targets", "gfx942"]).ok();
    for (one, other) in made.iter().zip(listed(&again)) {
        assert!(fs_err::read(one).unwrap() == fs_err::read(other).unwrap());
    }
    let first = members(&made[0]);
    assert!(
        !text(&first, "/METADATA").contains("rocm"),
        "{}",
        text(&first, "/METADATA")
    );
    let paths: Vec<&str> = first.iter().map(|it| it.0.as_str()).collect();
    // The device code of the libraries in the wheel, and not that of RCCL, which it does not need.
    let archives = paths.iter().filter(|it| it.ends_with(".kpack"));
    let archives: Vec<&str> = archives.copied().collect();
    insta::assert_snapshot!(archives.join("\n"), @"
    fw/_rocm/_rocm_sdk_libraries/.kpack/blas_lib_gfx942.kpack
    fw/_rocm/_rocm_sdk_libraries/.kpack/blas_lib_gfx942:xnack+.kpack
    ");
    assert!(!paths.iter().any(|it| it.contains("gfx1100")), "{paths:?}");
    let shown = [
        text(&first, "fw/_rocm_init.py"),
        text(&first, "/rocm_fuse.json"),
    ];
    insta::assert_snapshot!(shown.join("----\n"), @r#"
    # Written by rocwheel.
    def initialize():
        import ctypes
        import os
        here = os.path.dirname(os.path.abspath(__file__))
        rocm = os.path.normpath(os.path.join(here, "../fw/_rocm"))
        for path in (
            "_rocm_sdk_core/lib/libamdhip64.so.7",
            "_rocm_sdk_core/lib/libhiprtc.so.7",
            "_rocm_sdk_libraries/lib/libhipblas.so.3",
            "_rocm_sdk_libraries/lib/librocblas.so.5",
        ):
            library = os.path.join(rocm, path)
            if hasattr(os, "add_dll_directory"):
                os.add_dll_directory(os.path.dirname(library))
            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    ----
    {
      "schema": "rocwheel-fuse-v1",
      "rocm": "0.0.1.dev0",
      "targets": [
        "gfx942"
      ],
      "libraries": [
        "libLLVM.so.22.0",
        "libamd_comgr.so.3",
        "libamdhip64.so.7",
        "libhipblas.so.3",
        "libhipblaslt.so.1",
        "libhiprtc.so.7",
        "libhsa-runtime64.so.1",
        "librocblas.so.5",
        "librocm-openblas.so.0",
        "librocm_kpack.so.0",
        "librocm_sysdeps_liblzma.so.5"
      ]
    }
    "#);
    assert!(text(&members(&made[1]), "more/_rocm_init.py").contains("\"../fw/_rocm\""));

    unpacked(&made, &site);
    for file in ["fw/_C.so", "fw/lib/libfw.so", "more/sub/ext.so"] {
        let mut loader = Command::new("/lib64/ld-linux-x86-64.so.2");
        let output = succeed(loader.env_clear().arg("--list").arg(site.join(file)));
        let list = String::from_utf8(output.stdout).unwrap();
        assert!(
            !list.contains("not found") && list.contains("/_rocm/_rocm_sdk_"),
            "{list}"
        );
    }
    let script = "import fw, more; maps = open('/proc/self/maps').read(); \
                  print(maps.count('/fw/_rocm/') > 0, maps.count('libamdhip64') > 0)";
    let mut python = Command::new("python3");
    let output = succeed(python.env("PYTHONPATH", &site).args(["-Bc", script]));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "True True\n");
    // Files of ROCm keep their bytes.
    let set = listed(&sample().dist());
    let core = set
        .iter()
        .find(|it| it.to_str().unwrap().contains("rocm_sdk_core"))
        .unwrap();
    let hip = "_rocm_sdk_core/lib/libamdhip64.so.7";
    assert!(member(&first, &format!("fw/_rocm/{hip}")) == member(&members(core), hip));
}

#[test]
fn what_cannot_be_fused_is_refused_with_advice() {
    let place = Place::new();
    let [first, second] = wheels(&place);
    let mut alone = DemoWheel::bare("alone");
    alone.add(
        "alone/x.so",
        SharedObject::new("x.so").needs("libamdhip64.so.7").build(),
    );
    alone.add("alone/__init__.py", "");
    let alone = place.write(&alone);
    let mut bare = DemoWheel::bare("bare");
    bare.add(
        "x.so",
        SharedObject::new("x.so").needs("libamdhip64.so.7").build(),
    );
    let bare = place.write(&bare);
    let fused = place.tied();
    let refused = [
        fuse(
            std::slice::from_ref(&first),
            &fused,
            &["--targets", "gfx1201"],
        ),
        fuse(
            std::slice::from_ref(&first),
            &fused,
            &["--targets", "gfx942", "--max-size", "1000"],
        ),
        fuse(&[first, second, alone], &fused, &["--targets", "gfx942"]),
        fuse(&[bare], &fused, &["--targets", "gfx942"]),
    ];
    let shown = refused.map(|it| format!("exit {}: {}{}", it.code, it.stdout, it.stderr));
    insta::assert_snapshot!(shown.join("\n"), @"
    exit 2:      Trusted what `build` knows of 6 of 6 wheels; `--from-bytes` reads every byte
    error: no device code for gfx1201 is in the set, only for gfx1100, gfx942

    hint: add `rocm-sdk-device-gfx1201`, or leave gfx1201 out of `--targets`

    exit 1:      Trusted what `build` knows of 6 of 6 wheels; `--from-bytes` reads every byte
    error: 1 wheel cannot be fused
      `fw-1.0-py3-none-linux_x86_64.whl`: it would have some 2.09 MiB (too-large)

    hint: name fewer `--targets`, or pass `--max-size`

    exit 1:      Trusted what `build` knows of 6 of 6 wheels; `--from-bytes` reads every byte
    error: 1 wheel cannot be fused
      `alone-1.0-py3-none-linux_x86_64.whl`: it needs ROCm, and does not need `fw`, which gets it (not-of-group)

    hint: name the wheel that others are built on first, and fuse the others alone

    exit 1:      Trusted what `build` knows of 6 of 6 wheels; `--from-bytes` reads every byte
    error: 1 wheel cannot be fused
      `bare-1.0-py3-none-linux_x86_64.whl`: it has no package with an `__init__.py` that could hold ROCm (no-hook)

    hint: pass `--framework` with a row that names its `root`
    ");
    assert!(!fused.exists() || listed(&fused).is_empty());
}
