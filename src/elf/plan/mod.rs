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
    elf::{
        Machine, Rpath, check,
        patch::{Patch, Replacement},
        plan::draft::PlanDraft,
        source::{ReadAt, read_exact_at, text_at},
        tables::{DynamicEntry, ENTRY, ElfTables, SEGMENT, Section, Segment, contains, last_value},
    },
    error::{Context as _, Result, bail, ensure},
};

/// The end of the user addresses of x86-64. Sums of several addresses below it do not overflow.
const CEILING: u64 = 1 << 47;
/// The kernel refuses a program header table of more than 64 KiB, which is 1170 entries.
const MAX_SEGMENTS: usize = 1170;

/// The edit after which a file has the wanted run path. The patch overwrites some bytes in place and
/// appends others. All other bytes keep their offsets.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Into)]
pub struct EditPlan {
    pub patch: Patch,
    #[into(skip)]
    pub strategy: Strategy,
}

/// How a file gets its run path. Tests and the benchmark print it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum Strategy {
    #[strum(to_string = "{0}")]
    Unchanged(Unchanged),
    /// An entry of the dynamic table changes, and no text.
    Retag,
    /// The run path takes the place of a text that is as long or longer.
    Overwrite,
    /// Appended strings are mapped by the last segment, which grows.
    Extend,
    /// They are mapped by a new segment, for which there is room in the table of the program headers.
    Slot,
    /// They are mapped by a new segment, for which what follows the program headers moves.
    Evict,
    /// They are mapped by a new segment, for which the program headers move.
    Relocate,
}

/// Why a file stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum Unchanged {
    #[strum(to_string = "has the run path")]
    Reached,
    #[strum(to_string = "not ELF")]
    NotElf,
    /// Relocatable objects, core dumps and device code objects.
    #[strum(to_string = "not linked")]
    NotLinked,
    #[strum(to_string = "for another machine")]
    OtherMachine,
    /// It has only the debug information of another file.
    #[strum(to_string = "only debug information")]
    DebugOnly,
    #[strum(to_string = "static")]
    Static,
    #[strum(to_string = "static-PIE")]
    StaticPie,
    #[strum(to_string = "the dynamic loader")]
    Loader,
    #[strum(to_string = "needs no library")]
    NeedsNothing,
}

/// Plans the edit after which `goal` is the only run path of the file, as `DT_RPATH`.
///
/// The plan changes nothing if the file already has that run path, must not have one, or has no use
/// for one.
pub fn plan_rpath(source: &dyn ReadAt, goal: &Rpath) -> Result<EditPlan> {
    let unchanged = |why| {
        let patch = Patch::nothing(source.len());
        let strategy = Strategy::Unchanged(why);
        Ok(EditPlan { patch, strategy })
    };
    let Some(image) = ElfTables::read(source)? else {
        return unchanged(Unchanged::NotElf);
    };
    let reasons = [
        (!image.is_linked(), Unchanged::NotLinked),
        (image.machine() != Machine::X86_64, Unchanged::OtherMachine),
        (image.is_debug_only(), Unchanged::DebugOnly),
        (image.first(PT_DYNAMIC).is_none(), Unchanged::Static),
    ];
    if let Some((_, reason)) = reasons.into_iter().find(|(applies, _)| *applies) {
        return unchanged(reason);
    }
    let parts = ElfParts::new(image)?;
    if let Some(reason) = untouchable(&parts)? {
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
    check::loadable(source)?;
    let plan = change(&parts, &goal)?;
    check::accept(source, &plan.patch, &goal)?;
    Ok(plan)
}

/// Refuses programs and libraries that must not get a run path, or have no use for one.
fn untouchable(parts: &ElfParts<'_>) -> Result<Option<Unchanged>> {
    let last = |tag| last_value(&parts.entries, tag);
    if parts.tables.first(PT_INTERP).is_none() {
        if parts.tables.is_fixed() {
            return Ok(Some(Unchanged::Static));
        }
        // The startup code of a static-PIE program is glibc's own loader, which asserts that there
        // is no run path. The program would not start.
        if last(DT_FLAGS_1).is_some_and(|flags| flags & DF_1_PIE != 0) {
            return Ok(Some(Unchanged::StaticPie));
        }
    }
    if let Some(name) = last(DT_SONAME) {
        let name = parts.string(name)?;
        if name.starts_with(b"ld-linux") || name.starts_with(b"ld-musl") {
            return Ok(Some(Unchanged::Loader));
        }
    }
    let works = [DT_NEEDED, DT_RPATH, DT_RUNPATH].map(last) != [None; 3];
    Ok((!works).then_some(Unchanged::NeedsNothing))
}

/// Plans the edit, with the least change that is possible: if no run path is wanted, or an old one ends
/// with the wanted text, it is enough to rewrite the dynamic table. Text that fits over an old run path
/// goes there. Otherwise strings are appended.
fn change(parts: &ElfParts<'_>, goal: &str) -> Result<EditPlan> {
    let in_place = |place, text: Option<Replacement>, strategy| {
        let table = parts.overlay(&parts.with_run_path(place));
        let overlays = [table].into_iter().chain(text).collect();
        Ok(EditPlan {
            patch: Patch::new(parts.tables.len(), parts.tables.len(), overlays, Vec::new())?,
            strategy,
        })
    };
    if goal.is_empty() {
        return in_place(None, None, Strategy::Retag);
    }
    for entry in parts.run_paths() {
        let old = parts.string(entry.value)?;
        if let Some(before) = old.strip_suffix(goal.as_bytes()) {
            let place = entry.value.saturating_add(before.len() as u64);
            return in_place(Some(place), None, Strategy::Retag);
        }
    }
    for entry in parts.run_paths() {
        let mut text = goal.as_bytes().to_vec();
        let len = parts.string(entry.value)?.len();
        let place = entry.value..entry.value.saturating_add(len as u64);
        // Linkers merge strings with a common end, so a symbol name may be the end of the old run path.
        if text.len() <= len && !parts.tables.is_named(&parts.entries, &place)? {
            text.resize(len, 0);
            let text = Replacement::bytes(parts.strings.start.saturating_add(place.start), text);
            return in_place(Some(place.start), Some(text), Strategy::Overwrite);
        }
    }
    PlanDraft::plan(parts, goal)
}

/// The headers of a file, validated for planning: every range lies within the file, and addresses
/// are small enough that the planner can add them without an overflow.
struct ElfParts<'a> {
    tables: ElfTables<'a>,
    /// The offset of the dynamic table in the file.
    dynamic: u64,
    /// All entries of the dynamic table before the terminating `DT_NULL`.
    entries: Vec<DynamicEntry>,
    /// Number of unused entries behind the terminating one. GNU ld reserves some; lld does not.
    spare: usize,
    /// The range of the dynamic strings in the file.
    strings: Range<u64>,
}

impl<'a> ElfParts<'a> {
    fn new(tables: ElfTables<'a>) -> Result<Self> {
        let slots = tables.slots()?;
        let used = slots.iter().position(|entry| entry.tag == DT_NULL);
        let used = used.context("the dynamic table has no end")?;
        let (entries, end) = slots.split_at_checked(used).unwrap_or_default();
        let spare = end.iter().skip(1);
        ensure_bounded(&tables)?;
        Ok(Self {
            dynamic: tables.first(PT_DYNAMIC).map_or(0, |place| place.offset),
            spare: spare.take_while(|it| it.tag == DT_NULL && it.value == 0).count(),
            entries: entries.to_vec(),
            strings: strings(&tables, entries)?,
            tables,
        })
    }

    /// The dynamic string at an offset in the string table.
    fn string(&self, offset: u64) -> Result<Vec<u8>> {
        let start = self.strings.start.saturating_add(offset);
        let text = text_at(self.tables.source, start, self.strings.end)?;
        text.context("the dynamic string has no end")
    }

    fn run_paths(&self) -> impl Iterator<Item = DynamicEntry> {
        self.entries.iter().copied().filter(is_run_path)
    }

    /// The entries with one `DT_RPATH` instead of all run paths, or with no run path for `None`.
    ///
    /// There is never a `DT_RUNPATH` beside it: glibc ignores `DT_RPATH` if a file has both.
    fn with_run_path(&self, place: Option<u64>) -> Vec<DynamicEntry> {
        let first = self.entries.iter().position(is_run_path);
        let mut entries = self.entries.clone();
        entries.retain(|entry| !is_run_path(entry));
        if let Some(value) = place {
            let tag = DT_RPATH;
            entries.insert(first.unwrap_or(entries.len()), DynamicEntry { tag, value });
        }
        entries
    }

    /// Overwrites the dynamic table in place. Unused entries become zeros, which is `DT_NULL`.
    fn overlay(&self, entries: &[DynamicEntry]) -> Replacement {
        let mut bytes = to_bytes(entries);
        let used = self.entries.len().max(entries.len()) + 1;
        bytes.resize(used * ENTRY, 0);
        Replacement::bytes(self.dynamic, bytes)
    }

    /// The highest address of all loaded segments, with their `.bss`.
    fn address_end(&self) -> u64 {
        let ends = self.tables.loads().map(|load| load.memory().end);
        ends.max().unwrap_or(0)
    }

    /// The program header table, with room for `more` entries.
    fn headers(&self, more: u64) -> Range<u64> {
        let table = self.tables.table_range();
        table.start..table.end + more * SEGMENT
    }

    /// The loaded segment that contains a whole range of the file.
    fn load_of(&self, range: &Range<u64>) -> Option<&Segment> {
        self.tables.loads().find(|load| load.covers(range))
    }

    /// The ranges of the file that belong to sections.
    fn section_files(&self) -> impl Iterator<Item = Range<u64>> {
        let files = self.tables.sections.iter().map(Section::file);
        files.filter(|file| !file.is_empty())
    }
}

fn to_bytes(entries: &[DynamicEntry]) -> Vec<u8> {
    let pairs = entries.iter().flat_map(|entry| [entry.tag, entry.value]);
    pairs.flat_map(u64::to_le_bytes).collect()
}

fn is_run_path(entry: &DynamicEntry) -> bool {
    matches!(entry.tag, DT_RPATH | DT_RUNPATH)
}

/// Refuses headers whose ranges the planner could not add and compare safely.
fn ensure_bounded(tables: &ElfTables<'_>) -> Result<()> {
    let len = tables.len();
    // An overflow of a segment's range ends at `u64::MAX`, which is outside as well.
    let is_within = |range: Range<u64>, end| contains(&(0..end), &range);
    ensure!(
        tables.segments.len() <= MAX_SEGMENTS,
        "{} program headers, which is more than the kernel takes",
        tables.segments.len()
    );
    ensure!(
        len <= CEILING && tables.table() <= len && tables.section_table() <= len,
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

/// The range of the dynamic strings in the file.
///
/// The last byte must be NUL. Otherwise the loader would read the last string beyond the table, and
/// get another string once the table is copied.
fn strings(tables: &ElfTables<'_>, entries: &[DynamicEntry]) -> Result<Range<u64>> {
    let [address, size] = [DT_STRTAB, DT_STRSZ].map(|tag| {
        let named = entries.iter().filter(|entry| entry.tag == tag);
        named.exactly_one().ok().map(|entry| entry.value)
    });
    let (Some(address), Some(size)) = (address, size) else {
        bail!("the dynamic table does not name its strings once");
    };
    let start = tables.place(address, size).filter(|_| size > 0);
    let start = start.context("the dynamic string table is in no segment")?;
    let end = start.saturating_add(size);
    let mut last = [0];
    read_exact_at(tables.source, end.saturating_sub(1), &mut last)?;
    ensure!(last == [0], "the dynamic string table has no end");
    Ok(start..end)
}

#[cfg(test)]
mod tests;
