//! What is not tied, and why.

use std::slice::from_ref;

use super::{Place, damaged, set};
use crate::check::windows::dll;
use crate::support::{demo::HOOK, prelude::*};
use rocwheel_test_sets::sample::object;

/// What is said about a wheel after a change, by `--plan`.
fn refusal(change: impl FnOnce(&mut DemoWheel)) -> String {
    let mut wheel = DemoWheel::new();
    change(&mut wheel);
    refusal_with(&wheel, &[])
}

/// What is said about a wheel that is not tied with these flags.
fn refusal_with(wheel: &DemoWheel, flags: &[&str]) -> String {
    let place = Place::new();
    let wheel = place.write(wheel);
    let outcome = place.tie(&[wheel], &set(), flags);
    assert!(!place.tied().exists(), "something was written");
    // On a slow machine lines about the progress come first.
    let said = outcome.stderr.lines();
    let said = said.skip_while(|it| !it.starts_with("error")).skip(1);
    let said = said.map(str::trim).filter(|it| !it.is_empty());
    let said: Vec<&str> = said.collect();
    format!("exit {}: {}", outcome.code, said.join("\n  "))
}

#[test]
#[ignore = "slow"]
fn what_cannot_be_tied_is_refused_with_advice() {
    let extension = SharedObject::new("_C.so").needs("libamdhip64.so.7");
    let needs = |name: &str| {
        let object = extension.clone().needs(name);
        refusal(|it| it.add("fw/_C.so", object.build()))
    };
    let copy = SharedObject::new("libamdhip64-0a1b2c3d.so.7").needs("libc.so.6");
    let older_copy = SharedObject::new("libamdhip64.so.5").needs("libc.so.6");
    let other = "Requires-Dist: rocm==7.14.0\n";
    let refusals = [
        needs("libhipblas.so.9"),
        needs("libnowhere.so.1"),
        refusal(|it| it.add("fw.libs/libamdhip64-0a1b2c3d.so.7", copy.build())),
        refusal(|it| it.add("fw/lib/libamdhip64.so", older_copy.build())),
        refusal(|it| it.members.retain(|it| !it.0.ends_with(".so"))),
        refusal(|it| other.clone_into(&mut it.headers)),
        refusal(|it| it.add("fw/_rocm_init.py", "import os\n")),
    ];
    insta::assert_snapshot!(refusals.join("\n"), @"
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: `fw/_C.so` needs `libhipblas.so.9`; the set has `libhipblas.so.3` (1 of its 2 names of ROCm are there) (other-soname)
      hint: tie it to the set that it was built with
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: `fw/_C.so` needs `libnowhere.so.1`, which nothing provides (unknown-library)
      hint: ship it in the wheel, name the wheel that has it too, or pass `--host-provides`
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: it holds `fw.libs/libamdhip64-0a1b2c3d.so.7`, which is `libamdhip64.so.7` of the set (grafted)
      hint: build the wheel without copies of ROCm: `auditwheel repair` needs `--exclude` for each library
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: it holds `fw/lib/libamdhip64.so`, which is a copy of `libamdhip64.so.5`, of another ROCm (the set has `libamdhip64.so.7`) (grafted)
      hint: build the wheel without copies of ROCm: `auditwheel repair` needs `--exclude` for each library
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: it has no binaries (nothing-to-tie)
      hint: pass `--extras` if its Python uses ROCm, or check that it is the right wheel
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: it requires `rocm==7.14.0`, which the set 0.99.1.dev0 is not (tied-otherwise)
      hint: build it against this set, or pass `--requires` to replace the requirement
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: its `_rocm_init.py` is of no form that rocwheel knows (opaque-init)
      hint: remove the module, or pass `--init none` to leave it alone
    ");
}

#[test]
#[ignore = "slow"]
fn a_wheel_that_cannot_use_the_set_is_refused_with_the_reason() {
    let library = |needs: &str| SharedObject::new("_C.so").needs(needs).build();
    let mut aarch64 = library("libamdhip64.so.7");
    aarch64[18] = 183;
    let binaries: [(&str, &str, Vec<u8>); 5] = [
        ("linux_x86_64", "fw/_C.so", library("libhipblas.so.9")),
        ("linux_x86_64", "fw/_C.so", library("libcudart.so.12")),
        ("linux_aarch64", "fw/_C.so", aarch64),
        ("win_amd64", "fw/_C.pyd", dll(&[], &["amdhip64_7.dll"])),
        ("any", "fw/_C.dll", dll(&[], &["amdhip64_7.dll"])),
    ];
    let refused = |(platform, path, bytes): &(&str, &str, Vec<u8>)| {
        let change = |it: &mut DemoWheel| {
            it.platform = (*platform).to_owned();
            it.members.retain(|it| !it.0.ends_with(".so"));
            it.add(path, bytes.clone());
        };
        let said = refusal(change);
        assert_lacks!(said, "--extras");
        said
    };
    let refusals: Vec<String> = binaries.iter().map(refused).collect();
    insta::assert_snapshot!(refusals.join("\n"), @"
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: its only binary needs no library of the set: `fw/_C.so` needs `libhipblas.so.9`, and the set has `libhipblas.so.3` (nothing-to-tie)
      hint: build it against this set, or tie it to the set that it was built with
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: its only binary needs no library of the set: `fw/_C.so` needs `libcudart.so.12`, and that is a library of NVIDIA (nothing-to-tie)
      hint: take its build for ROCm
    exit 1: `fw-1.0-py3-none-linux_aarch64.whl`: `fw/_C.so` is for AArch64, and the set is for Linux on x86-64 (other-platform)
      hint: take its wheel for Linux on x86-64
    exit 1: `fw-1.0-py3-none-win_amd64.whl`: `fw/_C.pyd` is for Windows, and the set is for Linux on x86-64 (other-platform)
      hint: take its wheel for Linux, or pass the ROCm packages for Windows as `--set`
    exit 1: `fw-1.0-py3-none-any.whl`: `fw/_C.dll` is for Windows, and the set is for Linux on x86-64 (other-platform)
      hint: take its wheel for Linux, or pass the ROCm packages for Windows as `--set`
    ");
    // `check --with` says the same, as an error.
    let place = Place::new();
    let set = set();
    for (platform, path, bytes) in binaries {
        let mut wheel = DemoWheel::bare("fw");
        wheel.platform = platform.to_owned();
        wheel.add(path, bytes);
        let wheel = place.write(&wheel);
        let said = rocwheel(&["check", text(&set), "--with", text(&wheel)]);
        assert_eq!(said.code, 1, "{platform}");
        assert_has!(said.stdout, "RWF17 not-for-set");
    }
}

/// `--extras` says that the Python of a wheel uses ROCm, and the wheel itself says for what it was built.
#[test]
fn a_build_for_something_else_is_refused_with_extras_too() {
    let library = |needs: &str| SharedObject::new("_C.so").needs(needs).build();
    let changes: [&dyn Fn(&mut DemoWheel); 6] = [
        &|it| it.add("fw/_C.so", library("libcudart.so.12")),
        &|it| it.add("fw/_C.so", library("libamdhip64.so.6")),
        &|it| it.add("fw/_C.dll", dll(&[], &["amdhip64_7.dll"])),
        &|it| it.version = "1.0+cu126".to_owned(),
        &|it| it.version = "1.0+rocm6.4.1".to_owned(),
        &|it| {
            it.headers =
                "Requires-Dist: nvidia-ml-py\nRequires-Dist: nvidia-cublas-cu12==12.6\n".into();
        },
    ];
    let refused = |change: &&dyn Fn(&mut DemoWheel)| {
        let mut wheel = DemoWheel::bare("fw");
        wheel.add("fw/__init__.py", HOOK);
        change(&mut wheel);
        let said = refusal_with(&wheel, &["--extras", "libraries"]);
        assert_eq!(said, refusal_with(&wheel, &[]));
        said
    };
    let refusals: Vec<String> = changes.iter().map(refused).collect();
    insta::assert_snapshot!(refusals.join("\n"), @"
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: its only binary needs no library of the set: `fw/_C.so` needs `libcudart.so.12`, and that is a library of NVIDIA (nothing-to-tie)
      hint: take its build for ROCm
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: its only binary needs no library of the set: `fw/_C.so` needs `libamdhip64.so.6`, and the set has `libamdhip64.so.7` (nothing-to-tie)
      hint: build it against this set, or tie it to the set that it was built with
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: `fw/_C.dll` is for Windows, and the set is for Linux on x86-64 (other-platform)
      hint: take its wheel for Linux, or pass the ROCm packages for Windows as `--set`
    exit 1: `fw-1.0+cu126-py3-none-linux_x86_64.whl`: it has no binaries: its version 1.0+cu126 is for NVIDIA (nothing-to-tie)
      hint: take its build for ROCm
    exit 1: `fw-1.0+rocm6.4.1-py3-none-linux_x86_64.whl`: it has no binaries: its version 1.0+rocm6.4.1 is for another ROCm than 0.99.1.dev0 (nothing-to-tie)
      hint: build it against this set, or tie it to the set that it was built with
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: it has no binaries: it requires `nvidia-cublas-cu12`, and that is of NVIDIA (nothing-to-tie)
      hint: take its build for ROCm
    ");
    // What only reads the state of a device, or comes with an extra, says nothing.
    let mut wheel = DemoWheel::bare("fw");
    wheel.add("fw/__init__.py", HOOK);
    wheel.headers = "Requires-Dist: nvidia-ml-py\nProvides-Extra: cuda\n\
        Requires-Dist: nvidia-cublas-cu12; extra == 'cuda'\n"
        .to_owned();
    Place::new().tie_to_sample(&wheel, &["--extras", "libraries"]);
}

#[test]
fn a_library_that_several_files_need_is_one_refusal() {
    let said = refusal(|wheel| {
        for (number, names) in [(1, &["liba.so.1"][..]), (2, &["liba.so.1", "libb.so.1"])] {
            let object = SharedObject::new("x.so").needs("libamdhip64.so.7");
            let object = names.iter().fold(object, |object, name| object.needs(name));
            let object = object.needs("libhipblas.so.9");
            wheel.add(&format!("fw/x{number}.so"), object.build());
        }
    });
    insta::assert_snapshot!(said, @"
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: 2 files need `liba.so.1`, which nothing provides: `fw/x1.so` and 1 more (unknown-library)
      `fw-1.0-py3-none-linux_x86_64.whl`: `fw/x2.so` needs `libb.so.1`, which nothing provides (unknown-library)
      `fw-1.0-py3-none-linux_x86_64.whl`: 2 files need `libhipblas.so.9`; the set has `libhipblas.so.3`: `fw/x1.so` and 1 more (other-soname)
      hint: tie it to the set that it was built with
      hint: ship it in the wheel, name the wheel that has it too, or pass `--host-provides`
    ");
}

#[test]
fn a_wheel_with_device_code_only_is_tied_with_extras() {
    let mut wheel = DemoWheel::bare("fw");
    wheel.add("fw/__init__.py", HOOK);
    for (path, target) in [("a", "gfx942"), ("b", "gfx942"), ("c", "gfx1100")] {
        wheel.add(&format!("fw/hsa/{path}.co"), object(path, target, 200));
    }
    wheel.add("fw/hsa/text.co", "no code object");
    let place = Place::new();
    let path = place.write(&wheel);
    let shown = rocwheel(&["framework", "show", text(&path)]).ok();
    assert_has!(shown, "  code      1 file for gfx1100\n  code      2 files for gfx942\n");
    let said = refusal(|it| *it = wheel.clone());
    insta::assert_snapshot!(said, @"
    exit 1: `fw-1.0-py3-none-linux_x86_64.whl`: it has device code only (gfx1100, gfx942), and no library (nothing-to-tie)
      hint: pass `--extras` if its Python uses ROCm, or check that it is the right wheel
    ");
    let tied = place.tie_to_sample(&wheel, &["--extras", "libraries"]);
    assert!(tied.ends_with(path.file_name().unwrap()), "{}", tied.display());
    let mut split = place.0.command("framework split --dry-run");
    let said = Outcome::of(split.arg(&tied).output().unwrap()).ok();
    assert_has!(said, "its device code is in files of its own");
}

#[test]
fn a_wheel_with_any_damage_is_refused_or_unharmed() {
    let place = Place::new();
    let good = place.tie_to_sample(&DemoWheel::new(), &[]);
    let good = fs_err::read(good).unwrap();
    let bytes = DemoWheel::new().bytes();
    let path = place.0.path("fw-1.0-py3-none-linux_x86_64.whl");
    for seed in crate::support::long::seeds(12, 200) {
        let round = usize::try_from(seed).unwrap();
        fs_err::write(&path, damaged(&bytes, round)).unwrap();
        let _ = fs_err::remove_dir_all(place.tied());
        let outcome = place.tie(from_ref(&path), &set(), &[]);
        let is_refused = outcome.code != 0 && !place.tied().exists();
        let is_good = is_refused || fs_err::read(place.only()).unwrap() == good;
        assert!(is_good, "round {round}: {}", outcome.stderr);
    }
}
