//! Selections as a table: what was asked for, and the archives that it comes to.

use super::*;
use crate::{error::render, fetch::inventory::tests::inventory};

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
            "group" => wish.group = Some(value.parse().unwrap()),
            "family" => wish.families.push(value.into()),
            "target" => wish.targets.push(value.into()),
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
        ("family=gfx94X-dcgpu target=gfx1100", everything),
        ("family=gfx94X-dcgpu family=gfx110X-all", everything),
        (
            "group=generic",
            "base_dev_generic.zst base_lib_generic.zst blas_lib_generic.zst",
        ),
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
        (
            "_lib_ target=gfx1100",
            "base_lib_generic.zst blas_lib_generic.zst blas_lib_gfx1100.xz",
        ),
        (
            "^bla exclude=test exclude=gfx1100",
            "blas_lib_generic.zst blas_lib_gfx942.zst",
        ),
        (
            "component=dev component=test",
            "base_dev_generic.zst blas_test_gfx942.zst",
        ),
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
    assert_eq!(
        chosen(files, "target=gfx9999"),
        "blas_lib_gfx9999.zst blas_lib_gfx9999:xnack+.zst"
    );
    assert_eq!(
        chosen(files, "family=gfx99X-all"),
        "blas_lib_gfx99X-all.zst"
    );
}

#[test]
fn all_that_is_not_there_is_named_and_what_is_there_is_listed() {
    insta::assert_snapshot!(chosen(SPLIT, "target=gfx950 family=gfx120X-all component=doc rocblaz _lib_"), @"
    error: the run does not have family `gfx120X-all`, nor target `gfx950`, nor component `doc`, nor pattern `rocblaz`

    hint: it has 7 artifacts: base, blas, rccl (lib, dev, test) for generic, gfx1100, gfx942, gfx942:xnack+
    ");
    insta::assert_snapshot!(chosen(FAMILIES, "target=gfx942"), @"
    error: the run does not have target `gfx942`

    hint: it has 3 artifacts: base, blas (lib) for generic, gfx110X-all, gfx94X-dcgpu
    ");
    insta::assert_snapshot!(chosen(SPLIT, "test exclude=gfx942"), @"
    error: the run does not have an archive without `gfx942`

    hint: it has 7 artifacts: base, blas, rccl (lib, dev, test) for generic, gfx1100, gfx942, gfx942:xnack+
    ");
    insta::assert_snapshot!(chosen(SPLIT, "dev component=test"), @"
    error: the run does not have an archive that all of this is true of

    hint: it has 7 artifacts: base, blas, rccl (lib, dev, test) for generic, gfx1100, gfx942, gfx942:xnack+
    ");
    assert_eq!(chosen(SPLIT, "group=multi-arch-release"), chosen(SPLIT, ""));
}

#[test]
fn an_unknown_family_is_refused_with_what_may_have_been_meant() {
    let error = chosen(SPLIT, "family=gfx94x-dcgpu");
    let first: Vec<&str> = error.split(" a family is one of").collect();
    insta::assert_snapshot!(first[0], @"
    error: unknown GPU family: `gfx94x-dcgpu`

    hint: did you mean `gfx94X-dcgpu`?
    ");
}

#[test]
fn the_targets_of_a_family_that_are_not_there_are_remarked_on() {
    let absent = |files: &str, line: &str| {
        let selection = select(&inventory(files), &wish(line)).unwrap();
        let absent = selection.absent.iter().map(Scope::to_string);
        absent.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        absent(SPLIT, "family=gfx110X-all"),
        "gfx1101 gfx1102 gfx1103"
    );
    assert_eq!(absent(SPLIT, "family=gfx94X-dcgpu"), "");
    assert_eq!(absent(FAMILIES, "family=gfx110X-all"), "");
    assert_eq!(absent(SPLIT, ""), "");
}

#[test]
fn patterns_and_components_ask_for_a_part() {
    let part = |line: &str| select(&inventory(SPLIT), &wish(line)).unwrap().is_part;
    assert!(!part("family=gfx94X-dcgpu"));
    for line in ["base", "exclude=test", "component=lib"] {
        assert!(part(line), "{line}");
    }
}
