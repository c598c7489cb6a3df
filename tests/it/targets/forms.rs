//! The forms of targets, and the build systems that read them.

use rocwheel_base::target::{Target, TargetTable};

use crate::support::prelude::*;

fn emitted(form: &str) -> String {
    let line = format!("targets gfx94X-dcgpu gfx110X-all --emit {form}");
    Sandbox::new().run(&line).ok()
}

#[test]
fn each_form_is_what_its_reader_takes() {
    let forms = ["list", "table", "cmake", "extras", "github", "commas"];
    let lines = forms.map(|form| format!("## {form}\n{}", emitted(form)));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn every_name_of_therock_expands_as_its_script_does() {
    let table = TargetTable::builtin();
    let answers = include_str!("therock.txt").lines().skip(1);
    let answers: BTreeMap<&str, &str> = answers.map(|it| it.split_once(": ").unwrap()).collect();
    assert_eq!(answers.len(), 53);
    for (name, targets) in &answers {
        let selected = table.select(&[name.parse().unwrap()]).unwrap();
        let selected: Vec<&str> = selected.iter().map(Target::as_str).collect();
        assert_eq!(selected.join(","), *targets, "{name}");
    }
    // All in one line: each target once, in the order of the names.
    let mut once: Vec<&str> = Vec::new();
    for target in answers.values().flat_map(|it| it.split(',')) {
        if !once.contains(&target) {
            once.push(target);
        }
    }
    let list = answers.keys().copied().collect::<Vec<_>>().join(";");
    let script = Sandbox::new().run(&format!("targets --amdgpu-families {list}"));
    assert_eq!(script.ok(), format!("{}\n", once.join(",")));
}

#[test]
fn cmake_and_packaging_read_what_is_for_them() {
    let t = Sandbox::new();
    let script = "list(LENGTH GPU_TARGETS length)\nmessage(\"${length}: ${GPU_TARGETS}\")\n";
    let script = t.write("read.cmake", script);
    let mut cmake = Command::new(tool("cmake"));
    cmake.arg(emitted("cmake").trim_end());
    let output = succeed(cmake.arg("-P").arg(script));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"5: gfx942;gfx1100;gfx1101;gfx1102;gfx1103");
    let read = "import sys\nfrom packaging.requirements import Requirement\n\
                        print(sorted(Requirement(f'rocm[libraries,{sys.argv[1]}]').extras))";
    let line = emitted("extras");
    let output = succeed(Command::new(tool("python")).args(["-c", read, line.trim_end()]));
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @"['device-gfx1100', 'device-gfx1101', 'device-gfx1102', 'device-gfx1103', 'device-gfx942', 'libraries']");
}

#[test]
fn the_runners_of_a_run_are_always_the_same() {
    let t = Sandbox::new();
    let label = |run: u32| {
        let text = t.run(&format!("targets gfx942 --emit github --run-id {run}"));
        let matrix: Value = serde_json::from_str(&text.ok()).unwrap();
        matrix["include"][0]["runner"].as_str().unwrap().to_owned()
    };
    let labels: Vec<String> = (100..130).map(label).collect();
    assert_eq!(label(107), labels[7]);
    let rare = "linux-gfx942-1gpu-ccs-ossci-rocm";
    let few = labels.iter().filter(|it| *it == rare).count();
    assert!((1..15).contains(&few), "{labels:?}");
}

#[test]
fn a_step_has_outputs_for_the_next() {
    let t = Sandbox::new();
    t.run("targets gfx120X-all gfx942:xnack+ --run-id 1 --github-output outputs").ok();
    insta::assert_snapshot!(t.read("outputs"));
}

#[test]
fn wrong_lines_are_refused_in_words() {
    let t = Sandbox::new();
    let told = [
        "",
        "gfx9999",
        "gfx94X-dcpu mi300",
        "amdgcnspirv",
        "gfx942 --detect",
        "gfx942 --emit make",
        "--amdgpu-families gfx94X-dcgp",
    ]
    .map(|line| format!("## {line}\n{}", t.run(&format!("targets {line}")).all()));
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn lines_of_therock_are_answered_as_its_script_does() {
    let variants =
        "--amdgpu-families gfx942:xnack+,gfx94X-dcgpu;gfx1201 --output-mode device-extras";
    for (line, expected) in [
        ("--amdgpu-families ' ; '", ""),
        ("--amdgpu-families gfx94x-DCGPU", "gfx942"),
        (variants, "device-gfx942,device-gfx1201"),
    ] {
        let said = Sandbox::new().run(&format!("targets {line}")).ok();
        assert_eq!(said.trim_end(), expected, "{line}");
    }
}
