//! The GPUs of this machine: which they are, and whether this process can use them.
//!
//! [`detect`] decides from files alone, which [`SysDirectory`] reads.

mod access;
mod detect;
mod files;

pub use self::{
    access::{DeviceAccess, Obstacle, Opened, obstacle, of_state, render},
    detect::{Gpu, GpuState, detect, targets},
    files::{SysDirectory, SysFiles},
};
