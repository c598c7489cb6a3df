//! `EditPlan`: what changes in a file, as bytes laid over it and bytes appended to it.

use std::{fmt, ops::Range};

/// Changes to one file of a known length. Nothing in the file ever moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditPlan {
    source_len: u64,
    /// Sorted by offset and disjoint.
    overlays: Vec<ByteOverlay>,
    tail: Vec<TailPiece>,
    strategy: Strategy,
    warning: Option<Warning>,
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

/// What is wrong with the file before and after, and is not made worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// An executable whose program headers kernels before 5.18 look for in the wrong place.
    MisplacedProgramHeaders,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ByteOverlay {
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    /// So many zeros behind the bytes.
    pub(super) zeros: u64,
}

/// A piece of what is appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TailPiece {
    Bytes(Vec<u8>),
    /// Bytes of the file itself, as they are before any change.
    Copy {
        offset: u64,
        len: u64,
    },
    Zeros(u64),
}

impl EditPlan {
    pub(super) fn nothing(source_len: u64, strategy: Strategy) -> Self {
        Self::new(source_len, Vec::new(), Vec::new(), strategy)
    }

    pub(super) fn new(
        source_len: u64,
        mut overlays: Vec<ByteOverlay>,
        tail: Vec<TailPiece>,
        strategy: Strategy,
    ) -> Self {
        overlays.sort_by_key(|overlay| overlay.offset);
        Self {
            source_len,
            overlays,
            tail,
            strategy,
            warning: None,
        }
    }

    pub(super) fn with_warning(mut self, warning: Option<Warning>) -> Self {
        self.warning = warning;
        self
    }

    /// Whether the file stays as it is, byte for byte.
    pub fn is_noop(&self) -> bool {
        self.overlays.is_empty() && self.tail.is_empty()
    }

    /// The length of the changed file.
    pub fn total_len(&self) -> u64 {
        let tail = self.tail.iter().map(TailPiece::len);
        tail.fold(self.source_len, u64::saturating_add)
    }

    /// The length of the file that the plan was made for.
    pub fn source_len(&self) -> u64 {
        self.source_len
    }

    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Why the file is left alone, when it is none that has a run path.
    pub fn skipped(&self) -> Option<Untouchable> {
        match self.strategy {
            Strategy::Skip(reason) => Some(reason),
            _ => None,
        }
    }

    pub fn warning(&self) -> Option<Warning> {
        self.warning
    }

    pub(super) fn overlays(&self) -> &[ByteOverlay] {
        &self.overlays
    }

    pub(super) fn tail(&self) -> &[TailPiece] {
        &self.tail
    }
}

impl ByteOverlay {
    pub(super) fn new(offset: u64, bytes: Vec<u8>) -> Self {
        Self {
            offset,
            bytes,
            zeros: 0,
        }
    }

    pub(super) fn blank(range: &Range<u64>) -> Self {
        Self {
            offset: range.start,
            bytes: Vec::new(),
            zeros: range.end.saturating_sub(range.start),
        }
    }

    pub(super) fn end(&self) -> u64 {
        let bytes = self.offset.saturating_add(self.bytes.len() as u64);
        bytes.saturating_add(self.zeros)
    }
}

impl TailPiece {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Copy { len, .. } | Self::Zeros(len) => *len,
        }
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

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MisplacedProgramHeaders => {
                "kernels before 5.18 look for its program headers in the wrong place"
            }
        })
    }
}
