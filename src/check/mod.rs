//! Checks a package set. `observe` reads each package once, `facts` holds what was read, and
//! `rules` turns facts into findings. Nothing here opens a file or prints. `docs/checks.md`
//! explains every rule.

mod accept;
mod annotations;
pub mod baseline;
pub mod coverage;
mod device_targets;
mod earlier;
mod error_lines;
mod explanation;
pub mod facts;
pub mod finding;
mod installed;
pub mod observe;
mod observed;
mod options;
mod parts;
mod path_facts;
pub mod planned;
mod provider;
mod python;
mod reach;
mod read;
mod report;
mod requirement;
pub mod rule;
mod rules;
mod sarif;
pub mod selection;
pub mod sparse;

pub use accept::{AcceptList, Accepted, AcceptedFinding};
pub use annotations::{annotations, level};
pub use baseline::{Comparison, PackageInventory};
pub use coverage::Coverage;
pub use earlier::{inventory, sdists};
pub use facts::{SdistFile, SetFacts, WheelFile};
pub use finding::Finding;
pub use observe::{
    ObserveProgress, Outline, PackageReader, Portion, PortionFacts, read_sdist, read_wheel,
};
pub use observed::{Judged, facts_of, judge};
pub use options::CheckOptions;
pub use planned::{Digests, originals};
pub use report::Report;
pub use rule::{RULES, Rule, Severity};
pub use rules::{covers, differences};
pub use sarif::sarif;
pub use selection::{RulePattern, RuleSelection};
