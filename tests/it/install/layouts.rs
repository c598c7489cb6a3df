//! `install` into environments that are no virtual ones: those of conda, and those that the system manages.

use super::{built, install, sandbox, told};
use crate::support::{
    prelude::*,
    pythons::{write_conda, write_debian, write_marker},
};

#[test]
fn an_environment_of_conda_is_used_unless_the_system_manages_its_packages() {
    let set = built(sample());
    let t = sandbox().shows(text(&set), "SET");
    write_conda(&t.path("conda"));
    write_debian(&t.path("usr"));
    let managed = write_conda(&t.path("managed"));
    write_marker(managed.parent().unwrap());
    fs_err::create_dir_all(t.path("empty/conda-meta")).unwrap();
    t.write("empty/conda-meta/history", "");
    let before = ["managed", "usr", "empty"].map(|place| tree(&t.path(place)));
    let line = "--target gfx942 --dry-run --venv";
    assert_has!(
        install(&t, &set, &format!("{line} conda")).ok(),
        "install into the existing `HERE/conda`"
    );
    let refusals = ["managed", "usr", "empty"].map(|place| {
        let line = format!("{line} {place}");
        told(&line, &install(&t, &set, &line))
    });
    insta::assert_snapshot!(refusals.concat(), @"
    --target gfx942 --dry-run --venv managed => 2
    error: `HERE/managed` is not to be changed: the system manages its packages (`EXTERNALLY-MANAGED`)

    hint: name another directory, where a virtual environment is made
    --target gfx942 --dry-run --venv usr => 2
    error: `HERE/usr` is not to be changed: the system manages its packages (`EXTERNALLY-MANAGED`)

    hint: name another directory, where a virtual environment is made
    --target gfx942 --dry-run --venv empty => 2
    error: the conda environment `HERE/empty` has no Python

    hint: run `conda install --prefix HERE/empty python`, or name another directory
    ");
    assert_eq!(["managed", "usr", "empty"].map(|place| tree(&t.path(place))), before);
}

/// As uv does it: a virtual environment is stronger, and nothing is installed into `base` unasked.
#[test]
fn the_active_environment_of_conda_is_the_default_unless_it_is_base() {
    let set = built(sample());
    let t = sandbox();
    write_conda(&t.path("conda"));
    write_conda(&t.path("pixi"));
    t.write("pixi/conda-meta/pixi", "{}");
    let here = |name: &str| text(&t.path(name)).to_owned();
    let (conda, pixi, other) = (here("conda"), here("pixi"), here("other"));
    let [of_conda, of_pixi, new, of_other] = [
        "install into the existing `HERE/conda`",
        "install into the existing `HERE/pixi`",
        "create `HERE/.venv`",
        "create `HERE/other`",
    ];
    let prefix = |path: &str| format!("CONDA_PREFIX={path}");
    for (variables, plan) in [
        (vec![prefix(&conda)], of_conda),
        (vec![prefix(&conda), "CONDA_DEFAULT_ENV=conda".to_owned()], of_conda),
        // An environment without a name.
        (vec![prefix(&conda), format!("CONDA_DEFAULT_ENV={conda}")], of_conda),
        (vec![prefix(&conda), "CONDA_DEFAULT_ENV=base".to_owned()], new),
        (vec![prefix(&conda), format!("_CONDA_ROOT={conda}")], new),
        (vec![prefix(&pixi), "CONDA_DEFAULT_ENV=project".to_owned()], of_pixi),
        (vec![prefix(&conda), format!("VIRTUAL_ENV={other}")], of_other),
        (vec!["CONDA_PREFIX=".to_owned()], new),
    ] {
        let mut command =
            t.command(&format!("install '{}' --target gfx942 --dry-run", set.display()));
        command.envs(variables.iter().filter_map(|it| it.split_once('=')));
        assert_has!(t.outcome(&mut command).ok(), plan);
    }
}

/// And what `doctor` prints for a damaged one mends it.
#[test]
#[ignore = "slow"]
fn packages_in_an_environment_of_conda_run_and_are_mended() {
    for installer in ["uv", "pip"] {
        let t = sandbox();
        let site = write_conda(&t.path("conda"));
        if installer == "pip" {
            succeed(&mut t.shell("conda/bin/python -m ensurepip >/dev/null 2>&1"));
        }
        let line = format!("--target gfx942 --venv conda --installer {installer}");
        install(&t, &built(sample()), &line).ok();
        succeed(&mut t.shell("conda/bin/rocm-sdk version"));
        let doctor = "doctor conda --target gfx942";
        t.run(doctor).ok();
        fs_err::remove_file(site.join("_rocm_sdk_core/lib/libamdhip64.so.7")).unwrap();
        let said = t.run(&format!("{doctor} --format json"));
        let report: Value = serde_json::from_str(&said.stdout).unwrap();
        let mut checks = report["checks"].as_array().unwrap().iter();
        let problem = checks.find(|it| it["status"] == "problem").unwrap();
        let way_out = problem["way-out"].as_str().unwrap();
        assert!(way_out.starts_with("rocwheel install "), "{way_out}");
        let here = text(&t.path("")).to_owned();
        let line = way_out.trim_start_matches("rocwheel ").replace("HERE/", &here);
        t.run(&line).ok();
        t.run(doctor).ok();
    }
}
