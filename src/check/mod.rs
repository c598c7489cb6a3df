//! Checks a package set. `read` opens the packages of a place, `observe` reads each once, `facts` holds what
//! was read, and `rules` turns facts into findings and opens nothing. `docs/checks.md` explains every rule.

mod accept;
pub mod coverage;
pub mod facts;
pub mod observe;
mod path_facts;
mod python;
mod read;
mod remembered;
mod report;
pub mod rule;
mod rules;
mod sparse;

pub use accept::{AcceptList, AcceptedFinding};
pub use coverage::Coverage;
pub use facts::SetFacts;
pub use observe::facts_of_built;
pub use path_facts::is_library;
pub use read::{facts_of, facts_without_contents};
pub use remembered::VerdictMemory;
pub use report::{Report, annotations, level};
pub use rule::{Finding, RULES, Rule, RulePattern, RuleSelection, Severity};
pub use rules::{
    CheckOptions, Destination, Judgement, conflicting_bundles, defects_beside_ours, install_tree,
    judge, others_with_rocm,
};
