//! docs/action.md lists what action.yml takes and gives. That the inputs are flags is a unit test of the
//! command line.

use super::runner::read;

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
        let names: Vec<&str> = names
            .map(|(name, _)| name)
            .filter(|name| !name.starts_with('#'))
            .collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            assert!(listed.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}

#[test]
fn action_yml_fits_on_two_screens() {
    assert!(read("action.yml").lines().count() < 120);
}
