//! `EditPlan`: the edit after which a file has the wanted run path.

use std::fmt;

use crate::elf::{
    ElfError,
    patch::{Patch, PatchPiece, Replacement},
};

/// A patch that overwrites some bytes of a file in place and appends others. All other bytes keep
/// their offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditPlan {
    pub(super) patch: Patch,
    strategy: Strategy,
}

/// How the file gets room for a run path, in the order in which `plan` tries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The file already has the wanted run path.
    Nothing,
    /// The file must not have a run path, or has no use for one. It stays unchanged.
    Skip(Untouchable),
    /// The file already contains the text, or no run path is wanted. Only the dynamic table
    /// changes.
    Retag,
    /// The last segment ends where the file ends, and grows.
    Extend,
    /// The program header table has room for one more segment.
    Slot,
    /// The sections behind the program header table move to the end, to make room for one more
    /// segment.
    Evict,
    /// The program header table moves to the end.
    Relocate,
}

/// Why a file is not edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untouchable {
    NotElf,
    /// A relocatable object or a core dump.
    NotLinked,
    /// Not for 64-bit little-endian x86-64: for example a device code object.
    ForeignMachine,
    /// It has no dynamic table, or is a program without a dynamic loader (`PT_INTERP`).
    Static,
    /// It has only the debug information of another file.
    DebugOnly,
    /// A static position-independent program. The C library refuses to start it with a run path.
    StaticPie,
    /// The dynamic loader itself.
    Loader,
    /// It needs no library and has no run path.
    NeedsNothing,
}

impl EditPlan {
    pub(super) fn nothing(source_len: u64, strategy: Strategy) -> Self {
        Self {
            patch: Patch::nothing(source_len),
            strategy,
        }
    }

    pub(super) fn new(
        source_len: u64,
        overlays: Vec<Replacement>,
        tail: Vec<PatchPiece>,
        strategy: Strategy,
    ) -> Result<Self, ElfError> {
        Ok(Self {
            patch: Patch::new(source_len, source_len, overlays, tail)?,
            strategy,
        })
    }

    /// Whether the file stays as it is, byte for byte.
    pub fn is_noop(&self) -> bool {
        self.patch.is_nothing()
    }

    /// The length of the changed file.
    pub fn total_len(&self) -> u64 {
        self.patch.total_len()
    }

    pub fn strategy(&self) -> Strategy {
        self.strategy
    }
}

impl From<EditPlan> for Patch {
    fn from(plan: EditPlan) -> Self {
        plan.patch
    }
}

impl fmt::Display for Untouchable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotElf => "not an ELF file",
            Self::NotLinked => "neither an executable nor a shared object",
            Self::ForeignMachine => "not for x86-64",
            Self::Static => "statically linked",
            Self::DebugOnly => "debug information alone",
            Self::StaticPie => "statically linked, position independent",
            Self::Loader => "the dynamic loader",
            Self::NeedsNothing => "needs no library and has no run path",
        })
    }
}
