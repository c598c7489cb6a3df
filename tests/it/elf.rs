//! ELF files against the judges of this machine: its dynamic loader, its linkers, its tools.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test has nobody to hand an error to"
)]

mod layouts;
mod load;
mod written;
