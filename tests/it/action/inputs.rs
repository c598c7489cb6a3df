//! docs/action.md lists what action.yml takes and gives. That the inputs are flags is a unit test of the
//! command line.

use super::runner::read;
use crate::support::prelude::*;

#[test]
fn the_page_lists_every_input_and_every_output() {
    let (action, page) = (read("action.yml"), read("docs/action.md"));
    let (inputs, rest) = action.split_once("\noutputs:\n").unwrap();
    let (_, inputs) = inputs.split_once("\ninputs:\n").unwrap();
    let (outputs, _) = rest.split_once("\nruns:\n").unwrap();
    let (page_outputs, page_inputs) = page.split_once("\n## Inputs\n").unwrap();
    for (declared, listed) in [(inputs, page_inputs), (outputs, page_outputs)] {
        let lines = declared.lines().filter(|line| !line.starts_with("   "));
        let names = lines.filter_map(|line| line.trim().split_once(':'));
        let names: Vec<&str> =
            names.map(|(name, _)| name).filter(|name| !name.starts_with('#')).collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            assert!(listed.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}

/// Asserts that a later step can read all that a command wrote to `GITHUB_OUTPUT`. What `fetch` says about a run
/// is one document, which has the fields that have no output.
pub(crate) fn assert_declared(written: &str) {
    let action = read("action.yml");
    let names = written.lines().filter_map(|line| {
        let (name, delimiter) = line.split_once("<<")?;
        delimiter.starts_with("rocwheel_").then_some(name)
    });
    let names: Vec<&str> = names.collect();
    assert!(!names.is_empty(), "{written}");
    for name in names {
        let value = format!("  {name}: {{ description: ");
        let reads = format!("value: \"${{{{ steps.run.outputs.{name} }}}}\" }}");
        let mut lines = action.lines();
        let is_declared = lines.any(|line| line.starts_with(&value) && line.ends_with(&reads));
        assert!(is_declared || name.starts_with("run-"), "`{name}` is not in action.yml");
    }
}

#[test]
fn what_a_command_writes_a_later_step_can_read() {
    let t = Sandbox::new().with("GITHUB_OUTPUT", "outputs");
    for line in [
        "place --run-id 7 --offline --platform linux",
        "place --product core --release-type nightly",
        "targets gfx94X-dcgpu",
        "version --release-type nightly --base-version 7.14.0",
        "pipeline --sample --output-dir out",
    ] {
        t.write("outputs", "");
        t.run(line).ok();
        assert_declared(&t.read("outputs"));
    }
}

#[test]
fn action_yml_fits_on_two_screens() {
    assert!(read("action.yml").lines().count() < 120);
}
