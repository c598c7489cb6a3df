//! What a set lost or gained since another one.

use regex::Regex;

use super::{Set, add, broken::edits::CORE};

/// What is found when a changed sample is compared with the sample.
fn since(change: impl FnOnce(&Set)) -> String {
    let (old, new) = (Set::new(), Set::new());
    change(&new);
    new.found(&["--select", "RW8", "--baseline", old.place()])
}

#[test]
fn the_same_set_has_lost_nothing() {
    assert_eq!(since(|_| ()), "exit 0\n");
}

#[test]
fn packages_and_targets_that_are_gone_are_found() {
    insta::assert_snapshot!(since(|set| {
        set.remove("rocm_profiler");
        set.remove("rocm_sdk_device_gfx1100");
    }), @"
    exit 1
    the set
      error   RW801 package-gone: the baseline has `rocm-profiler`
      error   RW801 package-gone: the baseline has `rocm-sdk-device-gfx1100`
    ");
}

#[test]
fn files_that_are_gone_are_found() {
    let change = |set: &Set| {
        set.edit(CORE, |members| {
            members
                .retain(|member| !member.0.contains("/share/") && !member.0.contains("/include/"));
        });
    };
    insta::assert_snapshot!(since(change), @"
    exit 0
    the set
      warning RW803 files-gone: `rocm-sdk-core` lacks files of the baseline: `_rocm_sdk_core/include/hip/hip_runtime.h`, `_rocm_sdk_core/lib/llvm/lib/clang/22/include/stddef.h`, `_rocm_sdk_core/lib/rocm_sysdeps/share/licenses/a, b [c] ü.txt` and 6 more
    ");
}

#[test]
#[ignore = "slow"]
fn packages_that_grew_are_found() {
    let change = |set: &Set| {
        set.edit(CORE, |members| {
            let hash = |at: u32| *rocwheel_base::digest::Sha256::of(&at.to_le_bytes()).bytes();
            let noise: Vec<u8> = (0..100_000).flat_map(hash).collect();
            add(members, "_rocm_sdk_core/share/noise", noise);
        });
    };
    let numbers = Regex::new(r"\b\d{3,}\b").unwrap();
    insta::assert_snapshot!(numbers.replace_all(&since(change), "N"), @"
    exit 0
    the set
      warning RW804 package-grown: `rocm-sdk-core` has N bytes, N % more than the baseline's N
    ");
}

#[test]
fn the_index_alone_is_a_baseline_too() {
    let old = Set::new();
    old.index();
    let document = old.0.path().join("set.json");
    for entry in fs_err::read_dir(old.0.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && path != document {
            fs_err::remove_file(path).unwrap();
        }
    }
    let new = Set::new();
    new.remove("rocm_profiler");
    let baseline = document.to_str().unwrap();
    insta::assert_snapshot!(new.found(&["--select", "RW8", "--baseline", baseline]), @"
    exit 1
    the set
      error   RW801 package-gone: the baseline has `rocm-profiler`
    ");
}
