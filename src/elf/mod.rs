//! To come.
mod launcher;
pub use launcher::{InvalidLauncherTarget, launcher};
