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
