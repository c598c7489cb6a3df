//! The sample with one thing broken, and what `check` then says: a table for each subject, with a row
//! for each damage that somebody or something could do. Each damage leaves a RECORD that agrees,
//! unless RECORD is what it damages.

use std::fmt::Write as _;

mod archives;
pub(super) mod edits;
mod files;
mod python;
mod sets;

use super::{Set, run, sample};

/// What happens, and how it is done to a set.
pub(super) type Damage = (&'static str, fn(&Set));

/// The findings of one damage that are shown.
const MOST: usize = 6;

/// What is found after each of these.
pub(super) fn found(damages: &[Damage]) -> String {
    let mut shown = String::new();
    for (name, damage) in damages {
        let set = Set::new();
        damage(&set);
        let found = set.found(&["--fail-on", "warning"]);
        let is_one = |it: &&str| it.starts_with("  ") && !it.starts_with("  note");
        let findings: Vec<&str> = found.lines().filter(is_one).collect();
        let is_refused = found.starts_with("exit 1");
        assert_eq!(is_refused, !findings.is_empty(), "{name}: {found}");
        writeln!(shown, "{name}").unwrap();
        for finding in findings.iter().take(MOST) {
            writeln!(shown, "{finding}").unwrap();
        }
        if findings.len() > MOST {
            writeln!(shown, "  … and {} more", findings.len() - MOST).unwrap();
        }
    }
    shown
}

/// Nothing else has the bytes to compare with: `check` finds these with `set.json` alone, and `diff`
/// beside the set as it was built.
#[test]
#[ignore = "slow"]
fn what_check_cannot_see_diff_does() {
    for (name, damage) in [files::UNSEEN, python::UNSEEN].concat() {
        let set = Set::new();
        damage(&set);
        assert_eq!(set.found(&["--fail-on", "warning"]), "exit 0\n", "{name}");
        let built = sample();
        let sets = [built.to_str().unwrap(), set.place()];
        let diff = run(&[&["diff", "--exit-code"], &sets[..]].concat());
        assert_eq!(diff.code, 1, "{name}");
    }
}
