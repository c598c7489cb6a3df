//! Which tests are for the night.

use std::path::Path;

pub(crate) use rocwheel_test_files::long::{is_on, rounds, seeds};

/// Each test that only `.ci/run --long` runs is ignored otherwise, and `.ci/run` skips it by its name.
#[test]
fn a_test_that_is_only_for_long_runs_has_it_in_its_name() {
    let mut wrong = Vec::new();
    let mut names = 0;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directories = ["tests/it", "crates"].map(|directory| root.join(directory));
    for entry in directories.into_iter().flat_map(walkdir::WalkDir::new) {
        let file = entry.unwrap().into_path();
        if file.extension().is_none_or(|end| end != "rs") {
            continue;
        }
        let code = fs_err::read_to_string(&file).unwrap();
        let mut is_long = false;
        for line in code.lines() {
            if let Some(name) = line.trim().strip_prefix("fn ") {
                let is_named = name.starts_with("long_");
                names += usize::from(is_named);
                if is_named != is_long {
                    wrong.push(format!("{}: {name}", file.display()));
                }
            }
            let is_attribute = line.trim().starts_with("#[");
            is_long = line.trim() == "#[ignore = \"long\"]" || is_long && is_attribute;
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(names > 20, "{names}");
}
