//! One broken set for each rule: the sample with one thing changed.

use crate::support::linker::SharedObject;

mod baseline;
mod causes;
pub(super) mod clean;
mod complete;
mod devel;
mod loadable;
mod published;
pub(super) mod python;
mod valid;

use super::{Members, Set, add, launches, library, member, replace};

const CORE: &str = "rocm_sdk_core";
const GFX942: &str = "rocm_sdk_device_gfx942";
const LIB: &str = "_rocm_sdk_core/lib";

/// What is found after one change.
fn after(change: impl FnOnce(&Set)) -> String {
    let set = Set::new();
    change(&set);
    set.found(&[])
}

/// What is found after a change to the members of a wheel, with a RECORD that says the same.
fn edited(wheel: &str, edit: impl FnOnce(&mut Members)) -> String {
    after(|set| set.edit(wheel, edit))
}

fn with_library(object: &SharedObject, name: &str) -> String {
    edited(CORE, |members| {
        add(members, &format!("{LIB}/{name}"), object.build());
    })
}

/// The findings of one rule only.
fn only(rule: &str, shown: &str) -> String {
    let lines = shown.lines().filter(|line| line.contains(rule));
    lines.map(str::trim).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_file_of_another_target_is_found() {
    insta::assert_snapshot!(edited(GFX942, |members| {
        let name = "Kernels.so-000-gfx942.hsaco";
        let place = member(members, name);
        place.0 = place.0.replace("gfx942", "gfx90a");
        replace(members, "gfx942.json", name, "Kernels.so-000-gfx90a.hsaco");
    }), @"
    exit 1
    rocm_sdk_device_gfx942.whl
      error   RW301 foreign-device-file: `_rocm_sdk_libraries/lib/rocblas/library/Kernels.so-000-gfx90a.hsaco`: a file for `gfx90a` in the package of `gfx942`
    ");
}

#[test]
fn a_list_of_links_that_says_something_else_is_found() {
    insta::assert_snapshot!(edited(GFX942, |members| {
        add(members, "_rocm_sdk_libraries/lib/rocblas/library/b_gfx942.dat", "1");
        replace(members, "gfx942.json", "\"../../../../_rocm_sdk_libraries/lib/rocblas/library/T", "\"T");
    }), @"
    exit 1
    rocm_sdk_device_gfx942.whl
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `_rocm_sdk_libraries/lib/rocblas/library/b_gfx942.dat` is not listed
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `lib/rocblas/library/TensileLibrary_gfx942-xnack+.co` leads to `TensileLibrary_gfx942-xnack+.co`
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `lib/rocblas/library/TensileLibrary_gfx942-xnack+.dat` leads to `TensileLibrary_gfx942-xnack+.dat`
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `lib/rocblas/library/TensileLibrary_gfx942.co` leads to `TensileLibrary_gfx942.co`
      error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `lib/rocblas/library/TensileLibrary_gfx942.dat` leads to `TensileLibrary_gfx942.dat`
    ");
}

/// Adds rows to the list of links: names, each with the file that it leads to.
fn link(members: &mut Members, rows: &[(&str, &str)]) {
    let list = member(members, "gfx942.json");
    let mut json: serde_json::Value = serde_json::from_slice(&list.2).unwrap();
    let links = json["links"].as_array_mut().unwrap();
    for (name, file) in rows {
        let climb = "../".repeat(name.split('/').count());
        let target = format!("{climb}_rocm_sdk_libraries/{file}");
        links.push(serde_json::json!({ "relpath": name, "target": target }));
    }
    list.2 = serde_json::to_vec(&json).unwrap();
}

#[test]
fn a_device_library_has_several_names_and_python_files_are_files() {
    let kernels = "lib/hipdnn_plugins/libkernels_gfx942.so.1";
    let with_library = |rows: &[(&str, &str)]| {
        edited(GFX942, |members| {
            let bytes = library("libkernels_gfx942.so.1").build();
            add(members, &format!("_rocm_sdk_libraries/{kernels}"), bytes);
            let python = "lib/rocblas/library/tune_gfx942.py";
            add(members, &format!("_rocm_sdk_libraries/{python}"), "");
            add(members, "_rocm_sdk_libraries/__init__.py", "");
            link(members, rows);
            link(members, &[(python, python)]);
        })
    };
    let alias = "lib/hipdnn_plugins/libkernels_gfx942.so";
    let found = with_library(&[(kernels, kernels), (alias, kernels)]);
    assert!(!found.contains("RW302"), "{found}");
    insta::assert_snapshot!(only("RW302", &with_library(&[(kernels, kernels), (alias, "lib/none.so")])), @"error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `lib/hipdnn_plugins/libkernels_gfx942.so` leads to `../../../_rocm_sdk_libraries/lib/none.so`");
    insta::assert_snapshot!(only("RW302", &with_library(&[(alias, kernels), (alias, kernels)])), @"
    error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `_rocm_sdk_libraries/lib/hipdnn_plugins/libkernels_gfx942.so.1` is not listed
    error   RW302 devel-links-disagree: `_rocm_sdk_libraries/.devel_links/gfx942.json`: `lib/hipdnn_plugins/libkernels_gfx942.so` is listed twice
    ");
}

#[test]
fn a_gap_in_the_coverage_is_found() {
    insta::assert_snapshot!(edited("rocm_sdk_device_gfx1100", |members| {
        members.retain(|member| !member.0.contains("rccl_lib"));
        let list = member(members, "gfx1100.json");
        let mut json: serde_json::Value = serde_json::from_slice(&list.2).unwrap();
        let links = json["links"].as_array_mut().unwrap();
        links.retain(|link| !link["relpath"].as_str().unwrap().contains("rccl_lib"));
        list.2 = serde_json::to_vec(&json).unwrap();
    }), @"
    exit 1
    rocm_sdk_device_gfx1100.whl
      error   RW303 uncovered-library: `librccl.so.1.0` has code for gfx942, but none for gfx1100
    ");
}

#[test]
fn an_empty_device_wheel_is_found() {
    insta::assert_snapshot!(edited("rocm_sdk_device_gfx1100", |members| {
        members.retain(|it| it.0.contains("dist-info") || it.0.contains(".devel_links"));
        member(members, "gfx1100.json").2 = b"{\"version\": \"0.0.1.dev0\", \"links\": []}".to_vec();
    }), @"
    exit 1
    rocm_sdk_device_gfx1100.whl
      error   RW305 empty-device-wheel: it has no file for `gfx1100`
    ");
}

#[test]
fn device_code_that_everybody_downloads_is_found() {
    insta::assert_snapshot!(edited("rocm_sdk_libraries", |members| {
        add(members, "_rocm_sdk_libraries/lib/rocblas/library/K_gfx942.co", "1");
    }), @"
    exit 0
    rocm_sdk_libraries.whl
      warning RW307 device-file-in-host-wheel: `_rocm_sdk_libraries/lib/rocblas/library/K_gfx942.co`: device code of one target
    ");
}
