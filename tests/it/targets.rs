//! `targets`: names, forms, sets, and the GPUs of recorded machines.

mod detect;
mod forms;
mod machine;
mod of_set;
mod usable;
