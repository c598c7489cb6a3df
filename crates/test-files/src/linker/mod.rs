//! Writes small ELF files for x86-64 Linux that really load and run, without a compiler.
//!
//! The built-in sample is made of them, and so are the fixtures of the tests. The same calls give
//! the same bytes.

/// Appends numbers to bytes, the lowest byte of each first.
macro_rules! append {
    ($bytes:expr, $($number:expr),+ $(,)?) => {
        $($bytes.extend($number.to_le_bytes());)+
    };
}

mod code;
mod cursor;
mod device;
mod layout;
mod object;
mod plan;
mod sections;
mod shape;
mod symbols;
mod tables;

pub use object::{Executable, SharedObject};
pub use plan::{DeviceRelocations, HashStyle};
pub use shape::TableAt;
