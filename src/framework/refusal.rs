//! [`WheelRefusal`]: why a wheel is not tied or split. `docs/framework.md` explains each kind.

use itertools::Itertools as _;

use super::read::FrameworkWheel;
use rocwheel_base::{
    error::{Error, No, Result, hinted},
    quantity::many,
};

/// Why a wheel is not tied or split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WheelRefusal {
    pub kind: RefusalKind,
    /// The file name of the wheel.
    pub file: String,
    pub message: String,
    pub hint: &'static str,
}

/// The names of refusals, as docs/framework.md explains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum RefusalKind {
    Bundled,
    Damaged,
    DeviceWheels,
    Grafted,
    NameClash,
    NameTaken,
    NoHook,
    NothingToTie,
    OpaqueInit,
    OtherPlatform,
    OtherSoname,
    TiedOtherwise,
    UnknownLibrary,
    UnknownTarget,
    VersionText,
}

impl WheelRefusal {
    pub fn new(kind: RefusalKind, message: String, hint: &'static str) -> Self {
        Self { kind, file: String::new(), message, hint }
    }

    /// Names the wheel that is refused.
    pub(super) fn in_wheel(mut self, wheel: &FrameworkWheel) -> Self {
        self.file = wheel.name.to_string();
        self
    }

    /// Fails if there are refusals: one error for all of them, with each hint once. `done` says what was to be
    /// done: `tied`.
    pub(super) fn ensure_none(done: &str, refusals: &[Self]) -> Result<()> {
        if refusals.is_empty() {
            return Ok(());
        }
        let lines = refusals
            .iter()
            .map(|refusal| format!("`{}`: {} ({})", refusal.file, refusal.message, refusal.kind));
        let wheels = refusals.iter().map(|refusal| &refusal.file).unique().count();
        let title = format!("{} cannot be {done}", many(wheels, "wheel"));
        let error = Error::new(No::list(title, lines, usize::MAX));
        let hints = refusals.iter().map(|refusal| refusal.hint).unique();
        Err(hints.fold(error, hinted))
    }

    /// One refusal for each damage of a wheel.
    pub(super) fn of_damage(wheel: &FrameworkWheel) -> Vec<Self> {
        let hint = "build or download the wheel again";
        wheel
            .damage
            .iter()
            .map(|why| Self::new(RefusalKind::Damaged, why.clone(), hint).in_wheel(wheel))
            .collect()
    }
}
