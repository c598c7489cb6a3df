//! One integration binary, so that it links once.

mod elf;
mod launcher;
mod store;
