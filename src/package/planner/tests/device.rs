//! Device packages, alone and together.

use crate::package::{
    plan::{BuildPlan, MemberSource},
    planner::tests::fixture::{Fixture, file, library, program},
};

fn split() -> Fixture {
    Fixture::new()
        .artifact("blas_lib_generic")
        .file("lib/librocblas.so.5", library("librocblas.so.5"))
}

fn links(plan: &BuildPlan) -> String {
    let members = plan.members();
    let lists = members.filter(|(path, _)| path.as_str().contains(".devel_links"));
    lists
        .map(|(path, member)| match member {
            MemberSource::Text(text) => format!("{path}\n{text}\n"),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn variants_of_a_target_share_a_package_and_the_links_climb_from_the_file_itself() {
    let fixture = split()
        .artifact("blas_lib_gfx942")
        .file("lib/rocblas/library/k_gfx942.co", file())
        .artifact("blas_lib_gfx942:xnack+")
        .file(".kpack/é\u{7f}\u{1f600}.kpack", file());
    insta::assert_snapshot!(fixture.shows("rocm-sdk-device-gfx942"), @r#"
    copy   "_rocm_sdk_libraries/.kpack/é\u{7f}😀.kpack" < blas_lib_gfx942:xnack+
    copy   _rocm_sdk_libraries/lib/rocblas/library/k_gfx942.co < blas_lib_gfx942
    "#);
    insta::assert_snapshot!(links(&fixture.plan()), @r#"
    _rocm_sdk_libraries/.devel_links/gfx942.json
    {
      "version": "1.0",
      "links": [
        {
          "relpath": ".kpack/\u00e9\u007f\ud83d\ude00.kpack",
          "target": "../../_rocm_sdk_libraries/.kpack/\u00e9\u007f\ud83d\ude00.kpack"
        },
        {
          "relpath": "lib/rocblas/library/k_gfx942.co",
          "target": "../../../../_rocm_sdk_libraries/lib/rocblas/library/k_gfx942.co"
        }
      ]
    }
    "#);
}

#[test]
fn a_library_for_a_device_ships_once_and_all_its_names_are_linked() {
    let fixture = split()
        .artifact("rccl_lib_gfx942")
        .file("lib/sub/libr.so.1.2", library("libr.so.1"))
        .link("lib/sub/libr.so.1", "libr.so.1.2")
        .link("lib/libr.so", "sub/libr.so.1")
        .file("lib/tool", program())
        .link("bin/tool", "../lib/tool");
    insta::assert_snapshot!(fixture.shows("rocm-sdk-device-gfx942"), @"
    launch _rocm_sdk_libraries/bin/tool* -> ../lib/tool
    relink _rocm_sdk_libraries/lib/sub/libr.so.1 < rccl_lib_gfx942 [$ORIGIN:$ORIGIN/../../../_rocm_sdk_core/lib:$ORIGIN/../../../_rocm_sdk_core/lib/rocm_sysdeps/lib:$ORIGIN/../lib/sub:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    relink _rocm_sdk_libraries/lib/tool* < rccl_lib_gfx942 [$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib]
    ");
    insta::assert_snapshot!(links(&fixture.plan()), @r#"
    _rocm_sdk_libraries/.devel_links/gfx942.json
    {
      "version": "1.0",
      "links": [
        {
          "relpath": "bin/tool",
          "target": "../../_rocm_sdk_libraries/bin/tool"
        },
        {
          "relpath": "lib/libr.so",
          "target": "../../_rocm_sdk_libraries/lib/sub/libr.so.1"
        },
        {
          "relpath": "lib/sub/libr.so.1",
          "target": "../../../_rocm_sdk_libraries/lib/sub/libr.so.1"
        },
        {
          "relpath": "lib/sub/libr.so.1.2",
          "target": "../../../_rocm_sdk_libraries/lib/sub/libr.so.1"
        },
        {
          "relpath": "lib/tool",
          "target": "../../_rocm_sdk_libraries/lib/tool"
        }
      ]
    }
    "#);
}

#[test]
fn a_family_has_no_device_package() {
    let fixture = split()
        .artifact("blas_lib_gfx942")
        .file("lib/rocblas/library/k_gfx942.co", file())
        .artifact("blas_lib_gfx94X-dcgpu")
        .file("lib/librocblas.so.6", library("librocblas.so.6"))
        .artifact("rand_lib_gfx94X-dcgpu")
        .file("lib/librand.so.1", library("librand.so.1"))
        .artifact("blas_test_gfx94X-dcgpu")
        .file("bin/test", program());
    insta::assert_snapshot!(fixture.refusal(), @"
    error: a set with split device code has packages for targets, but `blas_lib_gfx94X-dcgpu`, `rand_lib_gfx94X-dcgpu` is for the family `gfx94X-dcgpu`

    hint: `--kpack split` takes device code out of fat artifacts; of a run that is split, fetch the artifacts of its targets
    ");
}

#[test]
fn code_that_gpus_share_has_no_package() {
    for (scope, kind) in [
        ("gfx11-generic", "a generic target of LLVM"),
        ("amdgcnspirv", "SPIR-V, which the runtime compiles for the GPU of the machine"),
        ("gpu-generic", "the family of `amdgcnspirv`, which is SPIR-V for every GPU"),
    ] {
        let artifact = format!("blas_lib_{scope}");
        let fixture = split().artifact(&artifact).file("lib/rocblas/library/k.co", file());
        let refusal = format!(
            "error: no package can have the code of `{artifact}`: `{scope}` is {kind}\n\n\
             hint: remove `{artifact}` from the artifact directory\n"
        );
        assert_eq!(fixture.refusal(), refusal);
    }
}

#[test]
fn links_that_a_wheel_cannot_hold_are_refused() {
    let device = || split().artifact("blas_lib_gfx942").file("lib/a", file());
    insta::assert_snapshot!(device().link("lib/b", "c").refusal(), @"
    error: failed to plan `rocm-sdk-device-gfx942`
      caused by: link `lib/b` of artifact `blas_lib_gfx942` leads to nothing: `c`

    hint: a device package holds files only: ship the file itself, or leave the link out
    ");
    insta::assert_snapshot!(device().directory("share").link("s", "share").refusal(), @"
    error: failed to plan `rocm-sdk-device-gfx942`
      caused by: link `s` of artifact `blas_lib_gfx942` leads to a directory: `share`

    hint: a device package holds files only: ship the file itself, or leave the link out
    ");
    insta::assert_snapshot!(device().link("lib/b", "../../lib/c").refusal(), @"
    error: failed to plan `rocm-sdk-device-gfx942`
      caused by: link `lib/b` of artifact `blas_lib_gfx942` leads out of it: `../../lib/c`

    hint: make it relative and point it at a file of the same artifact
    ");
}

#[test]
fn a_target_without_files_is_no_package() {
    let empty = split().artifact("blas_lib_gfx942").directory("lib");
    insta::assert_snapshot!(empty.refusal(), @"
    error: failed to plan `rocm-sdk-device-gfx942`: its artifacts hold no files
    ");
}

#[test]
fn variants_that_differ_about_a_file_are_refused() {
    let fixture = split()
        .artifact("blas_lib_gfx942")
        .file("lib/k.co", file())
        .artifact("blas_lib_gfx942:xnack+")
        .link("lib/k.co", "j.co");
    insta::assert_snapshot!(fixture.refusal(), @"
    error: two artifacts have different files at one path: `lib/k.co` differs between `blas_lib_gfx942/stage` and `blas_lib_gfx942:xnack+/stage`

    hint: build them so that one of them has it; `rocwheel build --on-collision last` takes the last by name
    ");
}

#[test]
fn packages_over_one_directory_may_not_differ_about_a_file() {
    let other = || crate::artifact::FileFacts { len: 2, ..file() };
    let two = || {
        split().artifact("blas_lib_gfx1100").file("lib/k.dat", file()).artifact("blas_lib_gfx942")
    };
    insta::assert_snapshot!(two().file("lib/k.dat", other()).refusal(), @"
    error: packages `device-gfx1100` and `device-gfx942` install `lib/k.dat`, which differs between `blas_lib_gfx1100/stage` and `blas_lib_gfx942/stage`

    hint: give the file a name of its own for each target; `rocwheel build --on-collision last` ships both
    ");
    insta::assert_snapshot!(two().file("lib/librocblas.so.5", other()).refusal(), @"
    error: packages `libraries` and `device-gfx942` install `lib/librocblas.so.5`, which differs between `blas_lib_generic/stage` and `blas_lib_gfx942/stage`

    hint: give the file a name of its own for each target; `rocwheel build --on-collision last` ships both
    ");
    insta::assert_snapshot!(two().file("lib/k.dat", other()).last_counts().plan().notes.join("\n"), @"
    no artifacts for `rocm-profiler`: it is left out
    packages `device-gfx1100` and `device-gfx942` install `lib/k.dat`, which differs between `blas_lib_gfx1100/stage` and `blas_lib_gfx942/stage`: the one installed last counts
    ");
    insta::assert_snapshot!(two().file("lib/k.dat", file()).plan().notes.join("\n"), @"no artifacts for `rocm-profiler`: it is left out");
}

#[test]
fn device_code_without_libraries_to_lay_it_over_is_refused() {
    let fixture = Fixture::new().artifact("blas_lib_gfx942").file("lib/k.co", file());
    insta::assert_snapshot!(fixture.refusal(), @"
    error: device code for `gfx942`, and no files for package `libraries`, which it is laid over

    hint: fetch the `generic` artifacts of the same run
    ");
}

#[test]
fn without_the_libraries_there_are_no_device_packages() {
    let without = |mut fixture: Fixture| {
        let names = ["libraries".to_owned()];
        fixture.options.catalog = fixture.options.catalog.without(&names).unwrap();
        let plan = fixture.plan();
        let absent = "ABSENT_PACKAGES.append('device')";
        let mut told = plan.members().filter_map(|(path, member)| match member {
            MemberSource::Text(text) if path.as_str() == "rocm_sdk_core/_dist_info.py" => {
                Some(text.matches(absent).count())
            }
            _ => None,
        });
        assert_eq!(told.next(), Some(1));
        let paths = plan.packages.iter().map(|it| it.label.dist.clone());
        paths.collect::<Vec<_>>().join(" ")
    };
    let code = |name| split().artifact(name).file("lib/k.co", file());
    let set = code("blas_lib_gfx942").promised("gfx942");
    assert_eq!(without(set), "rocm-sdk-core rocm-sdk-devel rocm");
    let legacy = code("blas_lib_gfx94X-dcgpu").legacy();
    assert_eq!(without(legacy), "rocm-sdk-core rocm-sdk-devel rocm");
}

#[test]
fn tests_of_a_target_make_no_package_for_it() {
    let plan = split().artifact("blas_test_gfx942").file("bin/test", program()).plan();
    assert!(plan.targets.is_empty());
    assert!(!plan.packages.iter().any(|it| it.path().contains("device")));
}
