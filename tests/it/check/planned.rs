//! A set beside the plan that it was built from.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use super::{Set, add, member, rocwheel};
use crate::support::{
    place::TEMPORARY,
    program::succeed,
    published::{self, TestSet},
};

/// The plan of the sample, in a file.
fn plan() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| plan_of(published::sample()))
}

fn plan_of(set: &TestSet) -> PathBuf {
    let place = Path::new(TEMPORARY).join(format!("check-plan-{}.json", set.name));
    let mut command = rocwheel();
    command.args(["build", "--plan", "--format", "json", "--artifact-dir"]);
    command.arg(set.artifacts()).arg("--dest-dir").arg(&place);
    fs_err::write(&place, succeed(&mut command).stdout).unwrap();
    place
}

pub(super) fn artifacts() -> PathBuf {
    published::sample().artifacts()
}

fn found(set: &Set, with_artifacts: bool) -> String {
    let (plan, artifacts) = (plan().to_str().unwrap(), artifacts());
    let mut arguments = vec!["--select", "RW9", "--plan", plan];
    if with_artifacts {
        arguments.extend(["--artifact-dir", artifacts.to_str().unwrap()]);
    }
    set.found(&arguments)
}

#[test]
fn every_set_is_what_was_planned() {
    for set in published::sets() {
        let plan = plan_of(set);
        let mut alone = rocwheel();
        alone
            .arg("check")
            .arg(set.dist())
            .args(["--fail-on", "warning", "--plan"]);
        alone.arg(&plan);
        let mut with_artifacts = rocwheel();
        with_artifacts.args(alone.get_args());
        with_artifacts.arg("--artifact-dir").arg(set.artifacts());
        for check in [&mut alone, &mut with_artifacts] {
            succeed(check);
        }
    }
}

#[test]
fn packages_and_files_that_are_missing_or_too_many_are_found() {
    let set = Set::new();
    set.remove("rocm_sdk_device_gfx942");
    let extra = set.0.path().join("rocm_extra-1-py3-none-any.whl");
    fs_err::copy(set.package("rocm_profiler"), extra).unwrap();
    set.edit("rocm_sdk_core", |members| {
        members.retain(|it| !it.0.ends_with("hip_runtime.h"));
        add(members, "_rocm_sdk_core/lib/libnew.so", "new");
    });
    insta::assert_snapshot!(found(&set, false), @"
    exit 1
    rocm_extra-1-py3-none-any.whl
      error   RW902 unplanned: in the set, and not planned
    rocm_sdk_core.whl
      error   RW901 planned-missing: `_rocm_sdk_core/include/hip/hip_runtime.h`: planned, and not in the package
      error   RW902 unplanned: `_rocm_sdk_core/lib/libnew.so`: in the package, and not planned
    rocm_sdk_device_gfx942.whl
      error   RW901 planned-missing: planned, and not in the set
    ");
}

#[test]
fn files_of_other_content_than_planned_are_found() {
    let set = Set::new();
    set.edit("rocm_sdk_core", |members| {
        member(members, "hip_runtime.h").2.push(b'\n');
        let launcher = member(members, "_rocm_sdk_core/bin/amdclang");
        launcher.2 = super::launches("../lib/llvm/bin/clang");
        member(members, "_rocm_sdk_core/__init__.py").1 = 0o100_755;
        let library = member(members, "libhiprtc.so.7");
        library.2 = super::library("libhiprtc.so.7").rpath("/opt").build();
        member(members, "/WHEEL").2[0] = b'w';
    });
    insta::assert_snapshot!(found(&set, false), @"
    exit 1
    rocm_sdk_core.whl
      error   RW903 not-as-planned: `_rocm_sdk_core/__init__.py`: it is a program, which was not planned
      error   RW903 not-as-planned: `_rocm_sdk_core/bin/amdclang`: it runs `../lib/llvm/bin/clang`, but `../lib/llvm/bin/amdllvm` was planned
      error   RW903 not-as-planned: `_rocm_sdk_core/include/hip/hip_runtime.h`: 14 bytes, but 13 were planned
      error   RW903 not-as-planned: `_rocm_sdk_core/lib/libhiprtc.so.7`: its run path is `/opt`, but `$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib` was planned
      error   RW903 not-as-planned: `rocm_sdk_core-0.0.1.dev0.dist-info/WHEEL`: another text than planned
    ");
}

#[test]
fn with_the_artifacts_every_byte_counts() {
    let set = Set::new();
    set.edit("rocm_sdk_core", |members| {
        let header = &mut member(members, "hip_runtime.h").2;
        *header = vec![b'x'; header.len()];
        // A number in the code of a library whose run path is as planned.
        let library = &mut member(members, "libhiprtc.so.7").2;
        let at = library.iter().rposition(|byte| *byte != 0).unwrap();
        library[at] ^= 0x40;
    });
    assert_eq!(found(&set, false), "exit 0\n");
    let artifacts = artifacts();
    let artifacts = [
        "--select",
        "RW9",
        "--artifact-dir",
        artifacts.to_str().unwrap(),
    ];
    assert_eq!(set.found(&artifacts), found(&set, true));
    assert_eq!(Set::new().found(&artifacts), "exit 0\n");
    insta::assert_snapshot!(found(&set, true), @"
    exit 1
    rocm_sdk_core.whl
      error   RW903 not-as-planned: `_rocm_sdk_core/include/hip/hip_runtime.h`: its bytes are not those made from `hip_runtime.h`
      error   RW903 not-as-planned: `_rocm_sdk_core/lib/libhiprtc.so.7`: its bytes are not those made from `libhiprtc.so.7.1.0`
    ");
}

#[test]
fn the_bytes_of_development_files_and_of_the_sdist_count_too() {
    let set = Set::new();
    set.edit("rocm_sdk_devel", |members| {
        let tar = &mut member(members, "_devel.tar").2;
        let text = b"rocprim";
        let at = tar.windows(text.len()).rposition(|it| it == text);
        tar[at.unwrap()] ^= 1;
    });
    super::broken::python::unpacked(&set, |files| {
        let file = files
            .iter_mut()
            .find(|it| it.0.ends_with("rocm_sdk/_lock.py"));
        file.unwrap().1.extend(b"\n# more\n");
    });
    insta::assert_snapshot!(found(&set, true), @"
    exit 1
    rocm-0.0.1.dev0.tar.gz
      error   RW903 not-as-planned: `src/rocm_sdk/_lock.py`: another text than planned
    rocm_sdk_devel.whl
      error   RW903 not-as-planned: `_rocm_sdk_devel/lib/cmake/rocprim/rocprim-config.cmake`: its bytes are not those made from `rocprim-config.cmake`
    ");
}

#[test]
fn what_a_set_goes_without_is_not_planned() {
    let place = tempfile::tempdir().unwrap();
    let mut build = rocwheel();
    build.arg("build").arg("--artifact-dir").arg(artifacts());
    build.args(["--without", "fft,rocgdb,profiler", "--dest-dir"]);
    succeed(build.arg(place.path()));
    let check = |with_set_json: bool| {
        let mut check = rocwheel();
        let artifacts = artifacts();
        check.args(["check", "--select", "RW9", "--artifact-dir"]);
        let dist = place.path().join("dist");
        let set = if with_set_json { place.path() } else { &dist };
        String::from_utf8(succeed(check.arg(artifacts).arg(set)).stdout).unwrap()
    };
    // Its Python says so too.
    for with_set_json in [true, false] {
        let said = check(with_set_json);
        assert!(
            said.ends_with("\nOK, no problems in 6 packages\n"),
            "{said}"
        );
    }
}

#[test]
fn what_is_no_plan_is_refused_in_words() {
    let set = Set::new();
    let output = set.check(&["--plan", "Cargo.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    insta::assert_snapshot!(said.lines().filter(|it| !it.contains("Check")).collect::<Vec<_>>().join("\n"), @"
    error: failed to compare with `Cargo.toml`
      caused by: failed to read a plan
      caused by: expected value at line 1 column 2

    hint: write it with `rocwheel build --dry-run --format json`
    ");
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    let output = set.check(&["--artifact-dir", empty]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr)
        .unwrap()
        .replace(empty, "[empty]");
    insta::assert_snapshot!(said.lines().filter(|it| !it.contains("Check")).collect::<Vec<_>>().join("\n"), @"
    error: failed to plan what `[empty]` makes
      caused by: no artifacts in `[empty]`, which is empty

    hint: `rocwheel fetch` puts artifacts there
    ");
    let plan = plan().to_str().unwrap();
    let output = set.check(&["--plan", plan, "--artifact-dir", empty]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("hint: pass the directory with the artifacts"),
        "{said}"
    );
}
