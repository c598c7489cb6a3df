//! ELF files against the judges of this machine: its dynamic loader, its linkers, its tools. One binary, so that it
//! links once. It needs Linux, because it loads and runs what was edited.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cost;
mod damaged_tables;
mod layouts;
mod mutated;
mod real;
mod written;

use std::io::Read as _;

use rocwheel_elf::{EditPlan, ElfError, PatchedReader, plan_rpath};

/// The plan for a run path, and the file after it.
fn with_rpath(file: &[u8], goal: &str) -> Result<(EditPlan, Vec<u8>), ElfError> {
    let plan = plan_rpath(&file, &goal.parse().unwrap())?;
    let mut changed = Vec::new();
    let mut reader = PatchedReader::new(file.to_vec(), plan.clone());
    reader.read_to_end(&mut changed).unwrap();
    assert_eq!(changed.len() as u64, plan.patch.total_len());
    Ok((plan, changed))
}
