//! ELF files against the judges of this machine: its dynamic loader, its linkers, its tools.

pub(crate) mod compiled;
mod cost;
mod damaged_tables;
mod layouts;
mod linkers;
mod load;
mod mutated;
mod real;
mod written;
