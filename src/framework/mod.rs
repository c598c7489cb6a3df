//! Wheels of frameworks on a set of ROCm packages: PyTorch, JAX, CuPy and every other project that links
//! the libraries of ROCm.
//!
//! A framework wheel finds its libraries in two ways, and a *tied* wheel has both: the run path of
//! each binary leads to the directories of the ROCm packages, and an init module loads what is opened
//! by name or is in another site directory.
//!
//! *Observe*: [`FrameworkWheel::read`] reads a wheel once, with the reader
//! of `check`; [`RocmLibraries`] takes from the facts of a set what frameworks find in it. *Decide*:
//! [`Providers`] says who provides each library, `run_path` which directories a file needs, `tags`
//! which hosts its symbols allow, `init_module` and `metadata` how the texts change; [`tie`] puts the
//! decisions into a plan that prints itself. *Act*: the plan is written by [`rocwheel_wheel::WheelEdit`]:
//! members that do not change are copied as they are compressed, a binary is patched while it is
//! packed. [`split`] does the same for the device code of a wheel: one plan, then a host wheel, archives
//! and device wheels.
//!
//! Policy is data: `frameworks.toml` says what wheels do not say, `manylinux.toml` says what hosts have.
//! Python is never run.

mod device_selector;
pub mod env;
mod facts;
mod init_module;
mod metadata;
mod policy;
mod providers;
mod python_source;
mod python_statements;
mod read;
mod refusal;
mod rocm;
mod rules;
mod run_path;
mod show;
pub mod split;
mod strings;
mod tags;
pub mod tie;
pub mod version;

use std::fmt;

use derive_more::Display;
use serde::Serialize;

use rocwheel_base::quantity::size;
use rocwheel_wheel::ChangedFile;

pub use device_selector::SelectorPlan;
pub use policy::Frameworks;
pub use providers::Providers;
pub use read::FrameworkWheel;
pub use rocm::RocmLibraries;
pub use rules::FrameworkCheck;
pub use show::FrameworkFacts;

/// A file that was written, as SHA256SUMS shows it, with its size.
#[derive(Clone, Copy, Debug, Display, Serialize)]
#[display("{}  {} ({})", _0.sha256, _0.file, size(_0.size))]
pub struct ShownFile<'a>(pub &'a ChangedFile);

/// Serialises a value as the text that shows it.
fn as_text<T: fmt::Display, S: serde::Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}
