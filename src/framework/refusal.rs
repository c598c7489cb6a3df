//! [`WheelRefusal`]: why a wheel is not tied or split. `docs/framework.md` explains each kind.

use itertools::Itertools as _;

use super::read::FrameworkWheel;
use crate::{
    console::many,
    error::{Error, No, Result, hinted},
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
    Damaged,
    DeviceWheels,
    Grafted,
    NameClash,
    NameTaken,
    NoHook,
    NothingToTie,
    OpaqueInit,
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

    /// The same, of a wheel.
    pub(super) fn in_wheel(mut self, wheel: &FrameworkWheel) -> Self {
        self.file = wheel.name.to_string();
        self
    }

    /// One error for all refusals, with the hints of all, if there are any. `what` is what was not done:
    /// `tied`.
    pub(super) fn none(what: &str, refusals: &[Self]) -> Result<()> {
        if refusals.is_empty() {
            return Ok(());
        }
        let lines =
            refusals.iter().map(|it| format!("`{}`: {} ({})", it.file, it.message, it.kind));
        let wheels = refusals.iter().map(|it| &it.file).unique().count();
        let title = format!("{} cannot be {what}", many(wheels, "wheel"));
        let error = Error::new(No::list(title, lines, usize::MAX));
        let hints = refusals.iter().map(|it| it.hint).unique();
        Err(hints.fold(error, hinted))
    }

    /// One for each damage of a wheel.
    pub(super) fn of_damage(wheel: &FrameworkWheel) -> Vec<Self> {
        let damage = wheel.damage.iter();
        let hint = "build or download the wheel again";
        damage
            .map(|what| Self::new(RefusalKind::Damaged, what.clone(), hint).in_wheel(wheel))
            .collect()
    }
}
