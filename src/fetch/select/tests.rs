//! Selections as a table: what was asked for, and the archives that it comes to.

use super::*;
use crate::fetch::source::tests::inventory;
use rocwheel_base::error::render;

/// A run with device code of its own, and variants.
const SPLIT: &str = "base_lib_generic.tar.zst base_dev_generic.tar.zst blas_lib_generic.tar.zst \
     blas_lib_gfx942.tar.zst blas_test_gfx942.tar.zst rccl_lib_gfx942:xnack+.tar.zst \
     blas_lib_gfx1100.tar.xz logs.txt";
/// A run that was built for whole families.
const FAMILIES: &str = "base_lib_generic.tar.zst blas_lib_gfx94X-dcgpu.tar.zst \
     blas_lib_gfx110X-all.tar.zst";

fn wish(line: &str) -> Wish {
    let mut wish = Wish::default();
    for word in line.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or(("include", word));
        match key {
            "group" => wish.groups.push(value.parse().unwrap()),
            "require" => wish.required.push(value.parse().unwrap()),
            "family" => wish.families = value.parse().unwrap(),
            "target" => wish.targets = value.parse().unwrap(),
            "component" => drop(wish.components.insert(value.parse().unwrap())),
            "exclude" => wish.exclude.push(value.parse().unwrap()),
            _ => wish.include.push(value.parse().unwrap()),
        }
    }
    wish
}

fn chosen(files: &str, line: &str) -> String {
    match select(&inventory(files), &wish(line)) {
        Ok(selection) => {
            let mut names = selection.archives.iter().map(|it| &it.name);
            names.join(" ").replace(".tar", "")
        }
        Err(error) => render(&error),
    }
}

#[test]
fn targets_and_families_choose_by_what_an_archive_is_for() {
    let everything = "base_dev_generic.zst base_lib_generic.zst blas_lib_generic.zst \
                      blas_lib_gfx1100.xz blas_lib_gfx942.zst blas_test_gfx942.zst \
                      rccl_lib_gfx942:xnack+.zst";
    let gfx942 = "base_dev_generic.zst base_lib_generic.zst blas_lib_generic.zst \
                  blas_lib_gfx942.zst blas_test_gfx942.zst rccl_lib_gfx942:xnack+.zst";
    let table = [
        ("", everything),
        ("target=gfx942", gfx942),
        ("target=gfx942:xnack+", gfx942),
        ("family=gfx94X-dcgpu", gfx942),
        ("group=gfx94X-dcgpu", gfx942),
        ("group=gfx94X-dcgpu-asan", gfx942),
        ("group=gfx94X-dcgpu group=gfx1100", everything),
        ("group=multi-arch-release target=gfx942", gfx942),
        ("target=gfx942 require=_gfx942 require=^base_dev_", gfx942),
        ("family=gfx94X-dcgpu target=gfx1100", everything),
        ("family=gfx94X-dcgpu,gfx110X-all", everything),
        ("group=generic", "base_dev_generic.zst base_lib_generic.zst blas_lib_generic.zst"),
    ];
    for (line, expected) in table {
        assert_eq!(chosen(SPLIT, line), expected, "{line}");
    }
    let by_family = "base_lib_generic.zst blas_lib_gfx94X-dcgpu.zst";
    assert_eq!(chosen(FAMILIES, "family=gfx94X-dcgpu"), by_family);
    assert_eq!(chosen(FAMILIES, "group=gfx94X-dcgpu"), by_family);
}

#[test]
fn patterns_match_anywhere_in_the_name_and_components_as_a_whole() {
    let table = [
        ("_lib_ target=gfx1100", "base_lib_generic.zst blas_lib_generic.zst blas_lib_gfx1100.xz"),
        ("^bla exclude=test exclude=gfx1100", "blas_lib_generic.zst blas_lib_gfx942.zst"),
        ("component=dev component=test", "base_dev_generic.zst blas_test_gfx942.zst"),
        ("xz$", "blas_lib_gfx1100.xz"),
        (r"rccl_lib_gfx942:xnack\+", "rccl_lib_gfx942:xnack+.zst"),
        ("dev component=dev", "base_dev_generic.zst"),
    ];
    for (line, expected) in table {
        assert_eq!(chosen(SPLIT, line), expected, "{line}");
    }
}

#[test]
fn a_name_that_only_the_run_knows_stands_for_itself() {
    let files =
        "blas_lib_gfx9999.tar.zst blas_lib_gfx9999:xnack+.tar.zst blas_lib_gfx99X-all.tar.zst";
    assert_eq!(chosen(files, "target=gfx9999"), "blas_lib_gfx9999.zst blas_lib_gfx9999:xnack+.zst");
    assert_eq!(chosen(files, "family=gfx99X-all"), "blas_lib_gfx99X-all.zst");
}

#[test]
fn an_error_names_what_is_missing_and_lists_what_exists() {
    insta::assert_snapshot!(chosen(SPLIT, "target=gfx950 family=gfx120X-all component=doc rocblaz _lib_"), @"
    error: no artifact of the run matches family `gfx120X-all`, nor target `gfx950`, nor component `doc`, nor pattern `rocblaz`

    hint: it has 7 artifacts: base, blas, rccl (lib, dev, test) for generic, gfx1100, gfx942, gfx942:xnack+
    ");
    insta::assert_snapshot!(chosen(FAMILIES, "target=gfx942"), @"
    error: no artifact of the run matches target `gfx942`

    hint: it has 3 artifacts: base, blas (lib) for generic, gfx110X-all, gfx94X-dcgpu
    ");
    insta::assert_snapshot!(chosen(SPLIT, "test exclude=gfx942"), @"
    error: no artifact of the run matches all of this at once

    hint: it has 7 artifacts: base, blas, rccl (lib, dev, test) for generic, gfx1100, gfx942, gfx942:xnack+
    ");
    insta::assert_snapshot!(chosen(SPLIT, "dev component=test"), @"
    error: no artifact of the run matches all of this at once

    hint: it has 7 artifacts: base, blas, rccl (lib, dev, test) for generic, gfx1100, gfx942, gfx942:xnack+
    ");
    assert_eq!(chosen(SPLIT, "group=multi-arch-release"), chosen(SPLIT, ""));
}

#[test]
fn an_unknown_family_is_refused_with_what_may_have_been_meant() {
    let error = chosen(SPLIT, "family=gfx94X-dcgp");
    let first: Vec<&str> = error.split(" `rocwheel targets all").collect();
    insta::assert_snapshot!(first[0], @"
    error: unknown GPU target or family: `gfx94X-dcgp`

    hint: did you mean `gfx94X-dcgpu`?
    ");
}

#[test]
fn patterns_and_components_ask_for_a_part() {
    let part = |line: &str| select(&inventory(SPLIT), &wish(line)).unwrap().is_part;
    assert!(!part("family=gfx94X-dcgpu"));
    for line in ["base", "exclude=test", "component=lib"] {
        assert!(part(line), "{line}");
    }
}

#[test]
fn what_there_is_is_said_in_few_words() {
    let archives = inventory(
        "blas_lib_gfx942.tar.zst blas_dev_generic.tar.zst base_lib_generic.tar.xz \
         rccl_test_gfx942:xnack+.tar.zst",
    );
    insta::assert_snapshot!(
        summarize(&archives),
        @"base, blas, rccl (lib, dev, test) for generic, gfx942, gfx942:xnack+"
    );
}

const RUN: &str = "base_lib_generic.tar.zst core-hip_lib_generic.tar.zst \
    core-hip_dev_generic.tar.zst blas_lib_generic.tar.zst blas_lib_gfx942.tar.zst \
    rand_lib_gfx942.tar.zst blas_lib_gfx1100.tar.zst blas_test_gfx1100.tar.zst";

fn report(files: &str, wish: &Wish) -> String {
    let inventory = inventory(files);
    let selection = select(&inventory, wish).unwrap();
    let catalog = Catalog::built_in().unwrap();
    let lacks = find_lacks(&selection, &inventory, &catalog, Platform::Linux, None).unwrap();
    lacks.join("; ")
}

fn targets(names: &[&str]) -> Wish {
    Wish { targets: names.join(",").parse().unwrap(), ..Wish::default() }
}

#[test]
fn enough_for_packages_is_said_nothing_about() {
    assert_eq!(report(RUN, &targets(&["gfx942"])), "");
    let families = "base_lib_generic.tar.zst blas_lib_gfx94X-dcgpu.tar.zst";
    assert_eq!(report(families, &Wish::default()), "");
}

#[test]
fn code_that_needs_xnack_does_not_stand_for_its_target() {
    let without = RUN.replace("blas_lib_gfx942.", "blas_lib_gfx942:xnack+.");
    insta::assert_snapshot!(report(&without, &Wish::default()), @"no `blas_lib_gfx942`; `blas_lib_gfx942:xnack+` runs only where XNACK is on");
    let only = "base_lib_generic.tar.zst core-hip_lib_generic.tar.zst \
        blas_lib_gfx942:xnack+.tar.zst";
    assert_eq!(report(only, &Wish::default()), "");
}

#[test]
fn without_the_manifest_or_a_required_package_there_is_not_enough() {
    let files = "blas_lib_gfx942.tar.zst blas_test_gfx1100.tar.zst";
    insta::assert_snapshot!(report(files, &targets(&["gfx942", "gfx1100"])), @"no `base_lib_generic`, which says what was built; no artifact for `rocm-sdk-core`; no device code for `gfx1100`");
    let files = "base_lib_generic.tar.zst core-hip_lib_generic.tar.zst blas_lib_gfx942.tar.zst \
        blas_test_gfx1100.tar.zst";
    assert_eq!(report(files, &Wish::default()), "", "only tests, for a target that nobody named");
}

#[test]
fn what_packages_are_made_of_is_known_where_device_code_is_apart() {
    let refused = |files: &str, name: &str| {
        let inventory = inventory(files);
        let all = select(&inventory, &Wish::default()).unwrap();
        let catalog = Catalog::built_in().unwrap();
        let names = [name.to_owned()];
        let refused = find_subset(&names, &all, &inventory, &catalog, Platform::Windows);
        render(&refused.unwrap_err())
    };
    let families = "base_lib_generic.tar.zst blas_lib_gfx94X-dcgpu.tar.zst";
    insta::assert_snapshot!(refused(families, "core"), @"
    error: `--only` needs a run with split device code, and this one is fat

    hint: fetch all of it, without `--only`
    ");
    insta::assert_snapshot!(refused(RUN, "profiler"), @"error: no package `profiler` in this set, which has `core`, `devel`, `device`, `device-gfx1100`, `device-gfx942`, `libraries`, `meta`, `rocm`, `rocm-sdk-core`, `rocm-sdk-devel`, `rocm-sdk-device-gfx1100`, `rocm-sdk-device-gfx942`, `rocm-sdk-libraries`");
}
