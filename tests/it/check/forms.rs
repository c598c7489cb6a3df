//! What `check` answers, in each form, and what the flags change.

use super::{Set, add, replace, rocwheel, sample};

fn shown(set: &Set, arguments: &[&str]) -> String {
    let output = set.check(arguments);
    let place = set.0.path().to_str().unwrap().to_owned();
    let stream = |bytes| String::from_utf8(bytes).unwrap().replace(&place, "[set]");
    let code = output.status.code().unwrap();
    let (stdout, stderr) = (stream(output.stdout), stream(output.stderr));
    format!("exit {code}\n--- stdout\n{stdout}--- stderr\n{stderr}")
}

/// What is said of a place that is no set.
fn outcome(place: &str) -> String {
    let output = rocwheel().args(["check", place]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

fn broken() -> Set {
    let set = Set::new();
    set.remove("rocm_sdk_device_gfx1100");
    set.edit("rocm_sdk_core", |members| {
        add(members, "_rocm_sdk_core/lib/a.pdb", "1");
        add(members, "_rocm_sdk_core/lib/b.pdb", "2");
    });
    set
}

#[test]
fn the_sample_has_no_finding() {
    insta::assert_snapshot!(shown(&Set::new(), &["--fail-on", "warning", "--no-progress"]), @"
    exit 0
    --- stdout
    library                 gfx1100      gfx942
    libhipblaslt.so.1.0      32 KiB      64 KiB
    librccl.so.1.0           32 KiB      32 KiB
    librocblas.so.5.1        64 KiB     128 KiB
    rocblas                  32 KiB      64 KiB

    nothing found in 7 packages
    --- stderr
         Checked 7 packages: nothing found
    ");
}

#[test]
fn findings_are_listed_by_package_with_ways_out() {
    insta::assert_snapshot!(shown(&broken(), &["--no-progress"]), @"
    exit 1
    --- stdout
    rocm-0.0.1.dev0.tar.gz
      error   RW202 missing-device-wheel: it promises `rocm-sdk-device-gfx1100`, which is not in the set
    rocm_sdk_core-0.0.1.dev0-py3-none-linux_x86_64.whl
      warning RW605 debug-leftover: `_rocm_sdk_core/lib/a.pdb`: a leftover of building or debugging
      warning RW605 debug-leftover: `_rocm_sdk_core/lib/b.pdb`: a leftover of building or debugging

    ways out
      RW202: build the device package of the target, or stop promising the target
      RW605: leave it to the `dbg` artifacts: users download it for nothing

    library                  gfx942
    libhipblaslt.so.1.0      64 KiB
    librccl.so.1.0           32 KiB
    librocblas.so.5.1       128 KiB
    rocblas                  64 KiB

    1 error, 2 warnings in 6 packages
    --- stderr
         Checked 6 packages: 1 error, 2 warnings
    error: check: 1 error in the package set

    hint: docs/checks.md explains each; `--ignore` passes over a rule
    ");
}

#[test]
fn on_github_each_rule_is_one_annotation() {
    insta::assert_snapshot!(shown(&broken(), &["--format", "github", "--no-progress"]), @"
    exit 1
    --- stdout
    rocm-0.0.1.dev0.tar.gz
      error   RW202 missing-device-wheel: it promises `rocm-sdk-device-gfx1100`, which is not in the set
    rocm_sdk_core-0.0.1.dev0-py3-none-linux_x86_64.whl
      warning RW605 debug-leftover: `_rocm_sdk_core/lib/a.pdb`: a leftover of building or debugging
      warning RW605 debug-leftover: `_rocm_sdk_core/lib/b.pdb`: a leftover of building or debugging

    ways out
      RW202: build the device package of the target, or stop promising the target
      RW605: leave it to the `dbg` artifacts: users download it for nothing

    library                  gfx942
    libhipblaslt.so.1.0      64 KiB
    librccl.so.1.0           32 KiB
    librocblas.so.5.1       128 KiB
    rocblas                  64 KiB

    1 error, 2 warnings in 6 packages
    --- stderr
         Checked 6 packages: 1 error, 2 warnings
    ::error title=RW202 missing-device-wheel::rocm-0.0.1.dev0.tar.gz: it promises `rocm-sdk-device-gfx1100`, which is not in the set%0Away out: build the device package of the target, or stop promising the target
    ::warning title=RW605 debug-leftover::rocm_sdk_core-0.0.1.dev0-py3-none-linux_x86_64.whl: _rocm_sdk_core/lib/a.pdb: a leftover of building or debugging%0Arocm_sdk_core-0.0.1.dev0-py3-none-linux_x86_64.whl: _rocm_sdk_core/lib/b.pdb: a leftover of building or debugging%0Away out: leave it to the `dbg` artifacts: users download it for nothing
    error: check: 1 error in the package set

    hint: docs/checks.md explains each; `--ignore` passes over a rule
    ::error title=check%3A 1 error in the package set::hint: docs/checks.md explains each; `--ignore` passes over a rule
    ");
}

#[test]
fn json_has_findings_and_coverage() {
    insta::assert_snapshot!(shown(&broken(), &["--format", "json", "-q"]), @r#"
    exit 1
    --- stdout
    {"schema":"rocwheel-check-v1","packages":6,"errors":1,"warnings":2,"notes":0,"findings":[{"id":"RW202","name":"missing-device-wheel","severity":"error","file":"rocm-0.0.1.dev0.tar.gz","member":null,"fact":"it promises `rocm-sdk-device-gfx1100`, which is not in the set","way-out":"build the device package of the target, or stop promising the target"},{"id":"RW605","name":"debug-leftover","severity":"warning","file":"rocm_sdk_core-0.0.1.dev0-py3-none-linux_x86_64.whl","member":"_rocm_sdk_core/lib/a.pdb","fact":"a leftover of building or debugging","way-out":"leave it to the `dbg` artifacts: users download it for nothing"},{"id":"RW605","name":"debug-leftover","severity":"warning","file":"rocm_sdk_core-0.0.1.dev0-py3-none-linux_x86_64.whl","member":"_rocm_sdk_core/lib/b.pdb","fact":"a leftover of building or debugging","way-out":"leave it to the `dbg` artifacts: users download it for nothing"}],"coverage":{"targets":["gfx942"],"libraries":{"libhipblaslt.so.1.0":{"gfx942":{"files":0,"code-objects":2,"bytes":65556}},"librccl.so.1.0":{"gfx942":{"files":0,"code-objects":1,"bytes":32778}},"librocblas.so.5.1":{"gfx942":{"files":0,"code-objects":4,"bytes":131112}},"rocblas":{"gfx942":{"files":6,"code-objects":0,"bytes":65797}}}}}
    --- stderr
    error: check: 1 error in the package set

    hint: docs/checks.md explains each; `--ignore` passes over a rule
    "#);
}

#[test]
fn rules_are_selected_and_ignored() {
    let set = broken();
    assert_eq!(set.found(&["--select", "RW3"]), "exit 0\n");
    assert_eq!(set.found(&["--ignore", "RW2,debug-leftover"]), "exit 0\n");
    let set = Set::new();
    set.edit("rocm_sdk_core", |members| {
        add(members, "_rocm_sdk_core/a.pdb", "1");
    });
    assert!(set.found(&[]).starts_with("exit 0\n"));
    assert!(set.found(&["--fail-on", "warning"]).starts_with("exit 1\n"));
}

#[test]
fn what_cannot_be_tried_is_said_in_words() {
    let set = Set::new();
    let empty = tempfile::tempdir().unwrap();
    let refused = [
        shown(&set, &["--select", "RW999"]),
        shown(&set, &["--glibc-max", "new"]),
        shown(&set, &["--require-targets", "gfx9999"]),
        shown(&Set(empty), &[]),
        outcome("tests/nowhere-1-py3-none-any.whl"),
        outcome(sample().join("rocm-0.0.1.dev0.tar.gz").to_str().unwrap()),
        outcome("Cargo.toml"),
    ];
    let refused = refused.map(|it| it.replace(sample().to_str().unwrap(), "[sample]"));
    insta::assert_snapshot!(refused.concat(), @r#"
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'RW999' for '--select <IDS>': no rule is called that: "RW999"

    For more information, try '--help'.
    exit 2
    --- stdout
    --- stderr
    error: invalid value 'new' for '--glibc-max <VERSION>': not a version of numbers such as `2.28`: "new"

    For more information, try '--help'.
    exit 2
    --- stdout
    --- stderr
    error: unknown GPU family: `gfx9999`

    hint: a family is one of dcgpu-all, dgpu-all, gfx101X-all, gfx101X-dgpu, gfx103X-all, gfx103X-dgpu, gfx103X-igpu, gfx110X-all, gfx110X-dgpu, gfx110X-igpu, gfx115X-all, gfx115X-igpu, gfx120X-all, gfx125X-all, gfx125X-dcgpu, gfx900-dgpu, gfx906-dgpu, gfx908-dcgpu, gfx90a-dcgpu, gfx90c-igpu, gfx94X-all, gfx94X-dcgpu, gfx950-all, gfx950-dcgpu, igpu-all; a target is one of gfx1010, gfx1011, gfx1012, gfx1030, gfx1031, gfx1032, gfx1033, gfx1034, gfx1035, gfx1036, gfx1100, gfx1101, gfx1102, gfx1103, gfx1150, gfx1151, gfx1152, gfx1153, gfx1200, gfx1201, gfx1250, gfx900, gfx906, gfx908, gfx90a, gfx90c, gfx942, gfx950
    exit 2
    --- stdout
    --- stderr
    error: no wheel or sdist in `[set]`

    hint: pass the directory that `rocwheel build` wrote to
    error: no such directory: `tests/nowhere-1-py3-none-any.whl`

    hint: pass the directory that `rocwheel build` wrote to
    error: `[sample]/rocm-0.0.1.dev0.tar.gz` is one package, and not a set

    hint: pass the directory that it lies in
    error: no wheel or sdist, and no index: `Cargo.toml`

    hint: pass what holds `simple/`, `set.json` or `dist/`, or the address of a page with links
    "#);
}

#[test]
fn a_required_target_has_a_wheel_and_an_extra() {
    let set = Set::new();
    assert_eq!(
        set.found(&["--require-targets", "gfx94X-dcgpu"]),
        "exit 0\n"
    );
    insta::assert_snapshot!(set.found(&["--require-targets", "gfx90a,gfx942:xnack+"]), @"
    exit 1
    the set
      error   RW304 required-target: no device wheel for `gfx90a`
    ");
}

#[test]
fn metadata_of_one_package_is_that_of_its_name() {
    let set = Set::new();
    set.edit("rocm_profiler", |members| {
        replace(
            members,
            "/METADATA",
            "Name: rocm-profiler",
            "Name: rocm-prof",
        );
    });
    insta::assert_snapshot!(set.found(&[]), @"
    exit 1
    rocm_profiler.whl
      error   RW111 metadata-disagrees: `rocm_profiler-0.0.1.dev0.dist-info/METADATA`: it is of `rocm-prof`, and the file name of `rocm-profiler`
    ");
}

#[test]
fn any_number_of_threads_says_the_same() {
    let set = broken();
    let alone = shown(&set, &["--jobs", "1", "--no-progress"]);
    for jobs in ["2", "3", "16"] {
        assert_eq!(shown(&set, &["--jobs", jobs, "--no-progress"]), alone);
    }
}
