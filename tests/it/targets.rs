//! `targets`: names, forms, sets, and the GPUs of recorded machines.

mod bootstrap;
mod detect;
mod forms;
pub(crate) mod machine;
mod usable;
