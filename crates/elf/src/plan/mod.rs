//! Plans how a file gets its run path. Reads the headers, and writes nothing.
//!
//! The existing bytes of the file never move. `draft` appends the new strings, and `room` chooses
//! the segment that maps them into memory. `check` verifies every plan before it is returned. See
//! [Dynamic Linking] in the gABI.
//!
//! [Dynamic Linking]: https://www.sco.com/developers/gabi/latest/ch5.dynamic.html

mod draft;
mod room;

use std::ops::Range;

use goblin::elf::{
    dynamic::{
        DF_1_PIE, DT_FLAGS_1, DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ,
        DT_STRTAB,
    },
    program_header::{PT_DYNAMIC, PT_INTERP},
};

use itertools::Itertools as _;

use crate::{
    ElfError, Machine, Rpath, check,
    patch::{Patch, Replacement},
    plan::draft::PlanDraft,
    source::{ReadAt, read_exact_at, read_string_at},
    tables::{DynamicEntry, ENTRY, ElfTables, SEGMENT, Section, contains, last_value},
};
use rocwheel_base::error::{Context as _, Result, bail, ensure};

/// The end of the user addresses of x86-64. Sums of several addresses below the end do not overflow,
/// and so the planner adds without checks.
const CEILING: u64 = 1 << 47;
/// The kernel refuses a program header table of more than 64 KiB, which is 1170 entries.
const MAX_SEGMENTS: usize = 1170;

/// The edit after which a file has the wanted run path. The patch overwrites some bytes in place and
/// appends others. All other bytes keep their offsets.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Into)]
pub struct EditPlan {
    /// What changes in the file. It changes nothing if the strategy is [`Strategy::Unchanged`].
    pub patch: Patch,
    /// Which of the ways was possible.
    #[into(skip)]
    pub strategy: Strategy,
}

/// How a file gets its run path. Tests and the benchmark print it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum Strategy {
    /// The file stays as it is, for this reason.
    #[strum(to_string = "{0}")]
    Unchanged(Unchanged),
    /// An entry of the dynamic table changes, and no text.
    Retag,
    /// The run path takes the place of an old run path that is as long or longer.
    Overwrite,
    /// The last segment maps the appended strings, and grows.
    Extend,
    /// A new segment maps the appended strings. The table of the program headers has room for it.
    Slot,
    /// A new segment maps the appended strings. What follows the program headers moves for it.
    Evict,
    /// A new segment maps the appended strings. The program headers move for it.
    Relocate,
}

/// Why a file stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum Unchanged {
    /// It has the wished run path, and no other.
    #[strum(to_string = "has the run path")]
    Reached,
    /// It does not begin with the magic number of ELF.
    #[strum(to_string = "not ELF")]
    NotElf,
    /// Relocatable objects, core dumps and device code objects.
    #[strum(to_string = "not linked")]
    NotLinked,
    /// It is not for 64-bit x86, the only machine whose files are edited.
    #[strum(to_string = "for another machine")]
    OtherMachine,
    /// It has only the debug information of another file.
    #[strum(to_string = "only debug information")]
    DebugOnly,
    /// A program that the kernel starts without a loader: at a fixed address, or without a dynamic table.
    #[strum(to_string = "static")]
    Static,
    /// A static program that can be loaded at any address. It has a dynamic table, and no loader reads
    /// it.
    #[strum(to_string = "static-PIE")]
    StaticPie,
    /// The file is the dynamic loader itself, such as `ld-linux-x86-64.so.2`.
    #[strum(to_string = "the dynamic loader")]
    Loader,
    /// It has neither `DT_NEEDED` nor a run path, so the loader searches nothing for it.
    #[strum(to_string = "needs no library")]
    NeedsNothing,
}

/// Plans the edit after which `goal` is the only run path of the file, as `DT_RPATH`.
///
/// The plan changes nothing if the file already has that run path, must not have one, or has no use
/// for one.
pub fn plan_rpath(source: &dyn ReadAt, goal: &Rpath) -> Result<EditPlan, ElfError> {
    let unchanged = |reason| {
        let patch = Patch::nothing(source.len());
        Ok(EditPlan { patch, strategy: Strategy::Unchanged(reason) })
    };
    let Some(tables) = ElfTables::read(source)? else {
        return unchanged(Unchanged::NotElf);
    };
    let reasons = [
        (!tables.is_linked(), Unchanged::NotLinked),
        (tables.machine() != Machine::X86_64, Unchanged::OtherMachine),
        (tables.is_debug_only(), Unchanged::DebugOnly),
        (tables.first(PT_DYNAMIC).is_none(), Unchanged::Static),
    ];
    if let Some((_, reason)) = reasons.into_iter().find(|(applies, _)| *applies) {
        return unchanged(reason);
    }
    let parts = ElfParts::new(tables)?;
    if let Some(reason) = reason_to_keep(&parts)? {
        return unchanged(reason);
    }
    let goal = goal.to_string();
    let run_paths: Vec<_> = parts.run_paths().collect();
    let is_reached = match run_paths.as_slice() {
        [] => goal.is_empty(),
        [only] if only.tag == DT_RPATH => parts.string(only.value)? == goal.as_bytes(),
        _ => false,
    };
    if is_reached {
        return unchanged(Unchanged::Reached);
    }
    // The planner relies on a file that loads, and on strings that end where `DT_STRSZ` says. The plan is
    // checked by code that shares nothing with the planner but the headers it reads: an error in the
    // planner must not become a library that crashes on the machine of a user.
    check::ensure_loadable(source)?;
    let plan = plan_change(&parts, &goal)?;
    check::ensure_only_run_path_changed(source, &plan.patch, &goal)?;
    Ok(plan)
}

/// Why a program or library stays as it is: it must not get a run path, or has no use for one.
fn reason_to_keep(parts: &ElfParts<'_>) -> Result<Option<Unchanged>> {
    let last = |tag| last_value(&parts.entries, tag);
    if parts.tables.first(PT_INTERP).is_none() {
        // A program at a fixed address that asks for no loader is started without one.
        if parts.tables.is_fixed() {
            return Ok(Some(Unchanged::Static));
        }
        // The startup code of a static-PIE program is glibc's own loader, which asserts that there
        // is no run path. The program would not start.
        if last(DT_FLAGS_1).is_some_and(|flags| flags & DF_1_PIE != 0) {
            return Ok(Some(Unchanged::StaticPie));
        }
    }
    // The loader relocates itself before it reads any run path, and glibc asserts that it has none.
    if let Some(offset) = last(DT_SONAME) {
        let soname = parts.string(offset)?;
        if soname.starts_with(b"ld-linux") || soname.starts_with(b"ld-musl") {
            return Ok(Some(Unchanged::Loader));
        }
    }
    // A file that needs no library may still have a run path for `dlopen`, which is then replaced.
    let is_searched = [DT_NEEDED, DT_RPATH, DT_RUNPATH].map(last) != [None; 3];
    Ok((!is_searched).then_some(Unchanged::NeedsNothing))
}

/// Plans the edit with the least change that is possible. If no run path is wanted, or an old run path
/// ends with the wanted text, it is enough to rewrite the dynamic table. A text that fits over an old run
/// path goes there. Otherwise strings are appended.
fn plan_change(parts: &ElfParts<'_>, goal: &str) -> Result<EditPlan> {
    // `offset` is where the run path begins in the dynamic strings.
    let plan_in_place = |offset, text: Option<Replacement>, strategy| {
        let table = parts.overlay_table(&parts.with_run_path(offset));
        let overlays = [table].into_iter().chain(text).collect();
        Ok(EditPlan {
            patch: Patch::new(
                parts.tables.file_len(),
                parts.tables.file_len(),
                overlays,
                Vec::new(),
            )?,
            strategy,
        })
    };
    if goal.is_empty() {
        return plan_in_place(None, None, Strategy::Retag);
    }
    for entry in parts.run_paths() {
        let old = parts.string(entry.value)?;
        // The NUL behind the old run path ends the new one too, so no string has to change.
        if let Some(before) = old.strip_suffix(goal.as_bytes()) {
            let offset = entry.value.saturating_add(before.len() as u64);
            return plan_in_place(Some(offset), None, Strategy::Retag);
        }
    }
    for entry in parts.run_paths() {
        let mut text = goal.as_bytes().to_vec();
        let len = parts.string(entry.value)?.len();
        let place = entry.value..entry.value.saturating_add(len as u64);
        // Linkers merge strings with a common end, so a symbol name may be the end of the old run path.
        if text.len() <= len && !parts.tables.is_named(&parts.entries, &place)? {
            // Zeros over the rest: the table stays as long as it was, and the old text does not remain.
            text.resize(len, 0);
            let start = parts.strings.start.saturating_add(place.start);
            let overlay = Replacement::bytes(start, text);
            return plan_in_place(Some(place.start), Some(overlay), Strategy::Overwrite);
        }
    }
    PlanDraft::plan(parts, goal)
}

/// The headers of a file, validated for planning.
///
/// **Contract:** every range lies within the file, and addresses are small enough that the planner can
/// add them without an overflow.
struct ElfParts<'a> {
    tables: ElfTables<'a>,
    /// The offset of the dynamic table in the file.
    dynamic: u64,
    /// All entries of the dynamic table before the terminating `DT_NULL`.
    entries: Vec<DynamicEntry>,
    /// The number of unused entries behind the terminating entry. GNU ld reserves some; lld does not.
    spare: usize,
    /// The range of the dynamic strings in the file.
    strings: Range<u64>,
}

impl<'a> ElfParts<'a> {
    fn new(tables: ElfTables<'a>) -> Result<Self> {
        let slots = tables.slots()?;
        let used = slots
            .iter()
            .position(|entry| entry.tag == DT_NULL)
            .context("the dynamic table has no end")?;
        let (entries, terminated) = slots.split_at_checked(used).unwrap_or_default();
        // Only zeros are certainly unused.
        let spare = terminated
            .iter()
            .skip(1)
            .take_while(|entry| entry.tag == DT_NULL && entry.value == 0)
            .count();
        ensure_bounded(&tables)?;
        Ok(Self {
            dynamic: tables.first(PT_DYNAMIC).map_or(0, |segment| segment.offset),
            spare,
            entries: entries.to_vec(),
            strings: find_strings(&tables, entries)?,
            tables,
        })
    }

    /// The dynamic string at an offset in the string table.
    fn string(&self, offset: u64) -> Result<Vec<u8>> {
        let start = self.strings.start.saturating_add(offset);
        read_string_at(self.tables.source, start, self.strings.end)?
            .context("the dynamic string has no end")
    }

    fn run_paths(&self) -> impl Iterator<Item = DynamicEntry> {
        self.entries.iter().copied().filter(is_run_path)
    }

    /// The entries with one `DT_RPATH` instead of all run paths, or with no run path for `None`. `offset`
    /// is where the run path begins in the dynamic strings.
    ///
    /// There is never a `DT_RUNPATH` beside the `DT_RPATH`: glibc ignores `DT_RPATH` if a file has both.
    fn with_run_path(&self, offset: Option<u64>) -> Vec<DynamicEntry> {
        let first = self.entries.iter().position(is_run_path);
        let mut entries = self.entries.clone();
        entries.retain(|entry| !is_run_path(entry));
        if let Some(value) = offset {
            let index = first.unwrap_or(entries.len());
            entries.insert(index, DynamicEntry { tag: DT_RPATH, value });
        }
        entries
    }

    /// Overwrites the dynamic table in place. Entries that are no longer used become zeros, which is
    /// `DT_NULL`.
    ///
    /// **Contract:** there are at most `spare` more entries than before.
    fn overlay_table(&self, entries: &[DynamicEntry]) -> Replacement {
        let mut bytes = render_entries(entries);
        let used = self.entries.len().max(entries.len()) + 1;
        bytes.resize(used * ENTRY, 0);
        Replacement::bytes(self.dynamic, bytes)
    }

    /// The highest address of all loaded segments, with their `.bss`.
    fn address_end(&self) -> u64 {
        self.tables.loads().map(|load| load.memory().end).max().unwrap_or(0)
    }

    /// The program header table, with room for `more` entries.
    fn headers(&self, more: u64) -> Range<u64> {
        let table = self.tables.segment_table_range();
        table.start..table.end + more * SEGMENT
    }

    /// The ranges of the file that belong to sections.
    fn section_files(&self) -> impl Iterator<Item = Range<u64>> {
        self.tables.sections.iter().map(Section::file).filter(|file| !file.is_empty())
    }
}

fn render_entries(entries: &[DynamicEntry]) -> Vec<u8> {
    entries.iter().flat_map(|entry| [entry.tag, entry.value]).flat_map(u64::to_le_bytes).collect()
}

fn is_run_path(entry: &DynamicEntry) -> bool {
    matches!(entry.tag, DT_RPATH | DT_RUNPATH)
}

/// Refuses headers whose ranges the planner could not add and compare safely.
fn ensure_bounded(tables: &ElfTables<'_>) -> Result<()> {
    let len = tables.file_len();
    // A range whose end would overflow ends at `u64::MAX`, which is outside as well.
    let is_within = |range: Range<u64>, end| contains(&(0..end), &range);
    ensure!(
        tables.segments.len() <= MAX_SEGMENTS,
        "{} program headers, which is more than the kernel takes",
        tables.segments.len()
    );
    ensure!(
        len <= CEILING && tables.segment_table_at() <= len && tables.section_table_at() <= len,
        "a table lies outside the file"
    );
    for (index, segment) in tables.segments.iter().enumerate() {
        ensure!(
            is_within(segment.file(), len) && is_within(segment.memory(), CEILING),
            "a segment lies outside the file or memory: number {index}"
        );
    }
    for (index, section) in tables.sections.iter().enumerate() {
        let file = section.file();
        ensure!(
            (file.is_empty() || is_within(file, len)) && is_within(section.memory(), CEILING),
            "a section lies outside the file or memory: number {index}"
        );
    }
    Ok(())
}

/// Finds the range of the dynamic strings in the file.
///
/// The last byte must be NUL. Otherwise the loader would read the last string beyond the table, and
/// get another string once the table is copied.
fn find_strings(tables: &ElfTables<'_>, entries: &[DynamicEntry]) -> Result<Range<u64>> {
    // If a tag is repeated, loaders and tools need not use the same entry.
    let [address, size] = [DT_STRTAB, DT_STRSZ].map(|tag| {
        let entry = entries.iter().filter(|entry| entry.tag == tag).exactly_one().ok()?;
        Some(entry.value)
    });
    let (Some(address), Some(size)) = (address, size) else {
        bail!("the dynamic table does not name its strings once");
    };
    let start = tables
        .place(address, size)
        .filter(|_| size > 0)
        .context("the dynamic string table is in no segment")?;
    let end = start.saturating_add(size);
    let mut last = [0];
    read_exact_at(tables.source, end.saturating_sub(1), &mut last)?;
    ensure!(last == [0], "the dynamic string table has no end");
    Ok(start..end)
}

#[cfg(test)]
mod tests;
