//! Findings about a package set. `observe` reads each file once, `rules` decides over the facts:
//! nothing here opens a file or prints. `docs/checks.md` explains every rule.

pub mod coverage;
pub mod demands;
pub mod facts;
pub mod finding;
mod host;
mod mention;
pub mod observe;
pub mod planned;
mod provider;
mod reach;
mod reasons;
mod requirement;
pub mod rule;
mod rules;
mod search;
pub mod selection;
mod site;
pub mod sparse;

pub use coverage::Coverage;
pub use demands::{Demands, Dotted};
pub use facts::SetFacts;
pub use finding::Finding;
pub use observe::{Watch, read_sdist, read_wheel};
pub use planned::{Digests, Planned};
pub use rule::{RULES, Rule, Severity};
pub use rules::{differences, findings};
pub use selection::{Pattern, Selection};
