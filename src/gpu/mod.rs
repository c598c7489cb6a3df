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

/// Why no GPU was detected. Windows has no interface that tells the target of a GPU without ROCm.
pub const UNDETECTED: &str = if cfg!(windows) {
    "cannot detect GPUs on Windows"
} else if cfg!(target_os = "linux") {
    "no AMD GPU was found"
} else {
    "GPUs are only detected on Linux"
};
