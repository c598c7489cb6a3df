//! `targets`: names, forms, sets, and the GPUs of recorded machines.

mod bootstrap;
mod forms;
mod machine;
mod usable;
