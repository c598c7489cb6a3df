//! Device code against the machine's linkers and its loader, and what the commands say about it.

mod families;
mod linked;
mod linter;
mod looking;
mod page;
mod real;
mod runtime;
mod splitting;
mod unusual;
mod wheels;

use rocwheel_test_files::binaries;
