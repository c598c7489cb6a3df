//! The forms of targets, and the build systems that read them.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use rocwheel::target::{Target, TargetTable};

use crate::{
    judges::tool,
    support::{
        place::{self, text},
        program::{Outcome, command, rocwheel, succeed},
    },
};

const FAMILIES: [&str; 2] = ["gfx94X-dcgpu", "gfx110X-all"];

fn emitted(form: &str) -> String {
    let families = ["targets", FAMILIES[0], FAMILIES[1], "--emit", form];
    rocwheel(&families).ok()
}

#[test]
fn each_form_is_what_its_reader_takes() {
    assert_eq!(
        emitted("cmake"),
        "-DGPU_TARGETS=gfx942;gfx1100;gfx1101;gfx1102;gfx1103\n"
    );
    let forms = ["list", "table", "cmake", "extras", "github", "commas"];
    let lines = forms.map(|form| format!("## {form}\n{}", emitted(form)));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn every_name_of_therock_expands_as_its_script_does() {
    let table = TargetTable::builtin();
    let families = table.families().map(ToString::to_string);
    let known: BTreeSet<String> = families
        .chain(table.known().map(ToString::to_string))
        .collect();
    let answers = include_str!("therock.txt").lines().skip(1);
    let answers: BTreeMap<&str, &str> = answers.map(|it| it.split_once(": ").unwrap()).collect();
    assert_eq!(answers.len(), 53);
    assert!(answers.keys().copied().eq(known.iter().map(String::as_str)));
    for (name, targets) in &answers {
        let expanded = table.expand(&[*name]).unwrap();
        let expanded: Vec<&str> = expanded.iter().map(Target::as_str).collect();
        assert_eq!(expanded.join(","), *targets, "{name}");
        let resolved = table.resolve(&[*name]).unwrap();
        assert!(resolved.iter().map(Target::as_str).eq(expanded), "{name}");
    }
    // All in one line: each target once, in the order of the names.
    let all = answers.values().flat_map(|it| it.split(','));
    let mut once: Vec<&str> = Vec::new();
    for target in all {
        if !once.contains(&target) {
            once.push(target);
        }
    }
    let list = answers.keys().copied().collect::<Vec<_>>().join(";");
    let script = rocwheel(&["targets", "--amdgpu-families", &list]).ok();
    assert_eq!(script, format!("{}\n", once.join(",")));
}

#[test]
fn cmake_reads_the_flag_that_is_for_it() {
    let directory = place::empty("targets/cmake");
    let script = directory.join("read.cmake");
    let lines = "foreach(name GPU_TARGETS)\n\
                 list(LENGTH ${name} length)\nmessage(\"${name} ${length}: ${${name}}\")\n\
                 endforeach()\n";
    fs_err::write(&script, lines).unwrap();
    let mut cmake = Command::new(tool("cmake"));
    cmake.arg(emitted("cmake").trim_end());
    let output = succeed(cmake.arg("-P").arg(&script));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"
    GPU_TARGETS 5: gfx942;gfx1100;gfx1101;gfx1102;gfx1103
    ");
}

#[test]
fn the_extras_are_those_of_a_requirement() {
    const READ: &str = "import sys\nfrom packaging.requirements import Requirement\n\
                        print(sorted(Requirement(f'rocm[libraries,{sys.argv[1]}]').extras))";
    let line = emitted("extras");
    let output = succeed(Command::new(tool("python")).args(["-c", READ, line.trim_end()]));
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @"['device-gfx1100', 'device-gfx1101', 'device-gfx1102', 'device-gfx1103', 'device-gfx942', 'libraries']");
}

#[test]
fn the_runners_of_a_run_are_always_the_same() {
    let label = |run: &str| {
        let line = ["targets", "gfx942", "--emit", "github", "--run-id", run];
        let text = rocwheel(&line).ok();
        let matrix: serde_json::Value = serde_json::from_str(&text).unwrap();
        matrix["include"][0]["runner"].as_str().unwrap().to_owned()
    };
    let labels: Vec<String> = (100..130).map(|run| label(&run.to_string())).collect();
    assert_eq!(label("107"), labels[7]);
    let few = labels
        .iter()
        .filter(|it| *it == "linux-gfx942-1gpu-ccs-ossci-rocm")
        .count();
    assert!((1..15).contains(&few), "{labels:?}");
}

#[test]
fn a_step_has_outputs_for_the_next() {
    let directory = place::empty("targets/outputs");
    let file = directory.join("outputs");
    let line = [
        "targets",
        "gfx120X-all",
        "gfx942:xnack+",
        "--run-id",
        "1",
        "--github-output",
        text(&file),
    ];
    rocwheel(&line).ok();
    insta::assert_snapshot!(fs_err::read_to_string(file).unwrap());
}

#[test]
fn wrong_lines_are_refused_in_words() {
    let run = |arguments: &[&str]| {
        let mut all = command();
        let outcome = Outcome::of(all.arg("targets").args(arguments).output().unwrap());
        assert_eq!(outcome.stdout, "");
        format!(
            "## {}\nexit {}\n{}",
            arguments.join(" "),
            outcome.code,
            outcome.stderr
        )
    };
    let told = [
        run(&[]),
        run(&["gfx9999"]),
        run(&["gfx94X-dcpu", "mi300"]),
        run(&["gfx942", "--detect"]),
        run(&["gfx942", "--common"]),
        run(&["gfx1030", "--except", "hipblas"]),
        run(&["gfx1030", "--except", "hipblaslt"]),
        run(&["gfx942", "--emit", "make"]),
        run(&["--amdgpu-families", "gfx94x-dcgpu"]),
    ];
    insta::assert_snapshot!(told.join("\n"));
    let blank = ["targets", "--amdgpu-families", " ; "];
    assert_eq!(rocwheel(&blank).ok(), "");
    let script = [
        "targets",
        "--amdgpu-families",
        "gfx942:xnack+,gfx94X-dcgpu;gfx1201",
    ];
    let extras = [&script[..], &["--output-mode", "device-extras"]].concat();
    assert_eq!(rocwheel(&extras).ok(), "device-gfx942,device-gfx1201\n");
    let without = [
        "targets",
        "gfx1030",
        "gfx1100",
        "gfx942",
        "--except",
        "hipblaslt,hipSPARSELt",
    ];
    assert_eq!(rocwheel(&without).ok(), "gfx942\n");
}
