//! `EditPlan`: how a file gets its run path.

use std::fmt;

use crate::elf::{
    ElfError,
    patch::{Patch, PatchPiece, Replacement},
};

/// A patch that lays bytes over a file and appends others. Nothing in the file moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditPlan {
    pub(super) patch: Patch,
    strategy: Strategy,
}

/// How the room for a run path is found; each is tried before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The file is right as it is.
    Nothing,
    /// The file is none that has a run path, and is left as it is.
    Skip(Untouchable),
    /// The text is in the file already; the dynamic table alone changes.
    Retag,
    /// The last segment ends where the file ends, and grows.
    Extend,
    /// The program header table has room for one more segment.
    Slot,
    /// What follows the program header table moves to the end and makes room.
    Evict,
    /// The program header table moves to the end.
    Relocate,
}

/// Why a file is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untouchable {
    NotElf,
    /// A relocatable object or a core dump.
    NotLinked,
    /// Not for 64-bit little-endian x86-64: a device code object, say.
    ForeignMachine,
    /// No dynamic table.
    Static,
    /// The debug information of another file.
    DebugOnly,
    /// A static program at any address: the C library refuses to start it with a run path.
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
