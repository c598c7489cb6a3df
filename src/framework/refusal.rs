//! [`WheelRefusal`]: why a wheel is not tied or split. `docs/framework.md` explains each kind.

use itertools::Itertools as _;

use super::read::FrameworkWheel;
use crate::{
    console::many,
    error::{Error, No, anyhow, hinted},
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
    AlreadySplit,
    Damaged,
    DeviceWheels,
    ForWindows,
    Grafted,
    NameClash,
    NameTaken,
    NoDeviceCode,
    NoHook,
    NotOfGroup,
    NothingToTie,
    OpaqueInit,
    OtherSoname,
    TiedOtherwise,
    TooLarge,
    UnknownLibrary,
    UnknownPreload,
    UnknownTarget,
    UnprovableTag,
    VersionText,
}

impl WheelRefusal {
    pub fn new(kind: RefusalKind, message: String, hint: &'static str) -> Self {
        Self {
            kind,
            file: String::new(),
            message,
            hint,
        }
    }

    /// One error for all refusals, with the hints of all. `what` is what was not done: `tied`.
    pub fn all(what: &str, refusals: &[Self]) -> Error {
        let lines = refusals
            .iter()
            .map(|it| format!("`{}`: {} ({})", it.file, it.message, it.kind));
        let wheels = refusals.iter().map(|it| &it.file).unique().count();
        let title = format!("{} cannot be {what}", many(wheels, "wheel"));
        let message = [title].into_iter().chain(lines).join("\n  ");
        let error = anyhow!(No(message));
        let hints = refusals.iter().map(|it| it.hint).unique();
        hints.fold(error, hinted)
    }

    /// One for each damage of a wheel.
    pub(super) fn of_damage(wheel: &FrameworkWheel) -> Vec<Self> {
        let damage = wheel.damage.iter();
        let refusals = damage.map(|what| Self {
            file: wheel.name.to_string(),
            ..Self::new(
                RefusalKind::Damaged,
                what.clone(),
                "build or download the wheel again",
            )
        });
        refusals.collect()
    }
}
