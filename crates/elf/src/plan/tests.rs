//! Plans, each way of making room seen to be taken.

use super::*;
use crate::{PatchedReader, source::read_exact_at};
use rocwheel_test_files::linker::{HashStyle, SharedObject, TableAt};

const GOAL: &str = "$ORIGIN/../lib";
const SLOT: usize = 56;

fn library() -> SharedObject {
    SharedObject::new("libx.so.1").needs("liby.so.2").function("x", 1).spare_dynamic_entries(2)
}

/// What the kpack split leaves: the program headers at the end, with room for three more.
fn kpack() -> Vec<u8> {
    library()
        .program_headers(TableAt::End { spare: 3 })
        .unloaded_section(".comment", b"text")
        .build()
}

fn plan(file: &[u8]) -> Result<EditPlan, String> {
    plan_rpath(&file, &GOAL.parse().unwrap()).map_err(|error| error.to_string())
}

fn strategy(file: &[u8]) -> Strategy {
    plan(file).unwrap().strategy
}

fn number(file: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(*file[at..].first_chunk().unwrap())).unwrap()
}

fn put(file: &mut [u8], at: usize, value: usize) {
    file[at..at + 8].copy_from_slice(&(value as u64).to_le_bytes());
}

/// Where the last program header of a kind stands.
fn segment(file: &[u8], kind: u32) -> usize {
    let start = number(file, 32);
    let count = usize::from(u16::from_le_bytes(*file[56..].first_chunk().unwrap()));
    let places = (0..count).map(|index| start + index * SLOT);
    let mut found = places.filter(|at| file[*at..].starts_with(&kind.to_le_bytes()));
    found.next_back().unwrap()
}

/// Where the spare slot behind the program headers is.
fn slot(file: &[u8]) -> usize {
    let count = usize::from(u16::from_le_bytes(*file[56..].first_chunk().unwrap()));
    number(file, 32) + count * SLOT
}

/// Where an entry of the dynamic table stands.
fn entry(file: &[u8], tag: usize) -> usize {
    let start = number(file, segment(file, 2) + 8);
    let mut places = (0..).map(|index| start + index * 16);
    places.find(|at| number(file, *at) == tag).unwrap()
}

#[test]
fn only_data_that_ends_file_and_memory_alike_grows() {
    let file = kpack();
    assert_eq!(strategy(&file), Strategy::Extend);
    let own = segment(&file, 1);
    let mut code = file.clone();
    code[own + 4] |= 1;
    assert_eq!(strategy(&code), Strategy::Slot);
    let mut zeros_behind = file.clone();
    let size = number(&file, own + 40);
    put(&mut zeros_behind, own + 40, size + 8);
    assert_eq!(strategy(&zeros_behind), Strategy::Slot);
}

#[test]
fn a_slot_that_holds_something_is_not_spare() {
    let mut file = kpack();
    file.push(0);
    assert_eq!(strategy(&file), Strategy::Slot);
    let mut used = file.clone();
    let spare = slot(&file);
    used[spare + 50] = 1;
    assert_eq!(strategy(&used), Strategy::Relocate);
    let mut left_by_patchelf = file.clone();
    left_by_patchelf[spare..spare + SLOT].fill(b'X');
    assert_eq!(strategy(&left_by_patchelf), Strategy::Slot);
    // The last section but one is `.comment`; now it owns the slot.
    let count = usize::from(u16::from_le_bytes(*file[60..].first_chunk().unwrap()));
    let section = number(&file, 40) + (count - 2) * 64;
    let mut owned = file.clone();
    put(&mut owned, section + 24, spare);
    put(&mut owned, section + 32, SLOT);
    assert_eq!(strategy(&owned), Strategy::Relocate);
}

#[test]
fn a_table_moves_only_if_the_loader_follows() {
    let file = library().hash_style(HashStyle::Both).build();
    assert_eq!(strategy(&file), Strategy::Evict);
    for tag in [4, 0x6fff_fef5] {
        let mut elsewhere = file.clone();
        let place = entry(&file, tag) + 8;
        let address = number(&file, place);
        put(&mut elsewhere, place, address + 4);
        let moved = plan(&elsewhere).map(|plan| plan.strategy);
        assert_eq!(moved, Ok(Strategy::Relocate), "{tag:#x}");
    }
}

#[test]
fn an_entry_behind_the_end_mark_is_not_written_over() {
    let mut file = library().build();
    let end = entry(&file, 0);
    put(&mut file, end + 16, 0x1234);
    let reader = PatchedReader::new(file.clone(), plan(&file).unwrap());
    let mut after = vec![0; usize::try_from(reader.len()).unwrap()];
    read_exact_at(&reader, 0, &mut after).unwrap();
    assert_eq!(number(&after, end + 16), 0x1234);
    assert!(number(&after, segment(&after, 2) + 8) >= file.len());
}

#[test]
fn debug_information_alone_is_left_alone() {
    let file = library().build();
    let table = segment(&file, 2);
    let mut empty = file.clone();
    put(&mut empty, table + 32, 0);
    assert_eq!(strategy(&empty), Strategy::Unchanged(Unchanged::DebugOnly));
    // As binutils before 2.35 left it: the section has no bytes, the segment says it has.
    let mut old = file.clone();
    let address = number(&file, table + 16);
    let sections = number(&file, 40);
    let headers = (sections..file.len()).step_by(64);
    let mut found = headers.filter(|at| number(&file, at + 16) == address);
    old[found.next().unwrap() + 4] = 8;
    assert_eq!(strategy(&old), Strategy::Unchanged(Unchanged::DebugOnly));
}

#[test]
fn what_cannot_be_planned_is_said() {
    let file = library().build();
    let with = |at: usize, value: usize| {
        let mut file = file.clone();
        put(&mut file, at, value);
        plan(&file).unwrap_err()
    };
    let strings = number(&file, entry(&file, 5) + 8);
    let mut endless = file.clone();
    endless[strings + number(&file, entry(&file, 10) + 8) - 1] = b'x';
    let load = segment(&file, 1);
    let seen = [
        plan(&endless).unwrap_err(),
        with(entry(&file, 5), 0x1234),
        with(entry(&file, 10), 5),
        with(entry(&file, 5) + 8, 0x12_3456),
        with(load + 16, 1 << 47),
        with(load + 16, number(&file, load + 16) + 8),
        with(load + 16, number(&file, load + 8)),
        with(number(&file, 40) + 64 + 24, file.len()),
    ];
    insta::assert_snapshot!(seen.join("\n"), @r"
    the dynamic string table has no end
    the dynamic table does not name its strings once
    the dynamic table does not name its strings once
    the dynamic string table is in no segment
    a segment lies outside the file or memory: number 3
    the address and the offset of a segment disagree by its alignment: 0x220e and 0x206 by 0x1000
    segments overlap or descend: 0x206 after 0x11f7
    a section lies outside the file or memory: number 1
    ");
}

/// A library of many names, as it is after the change.
fn with_many_names(more: fn(SharedObject) -> SharedObject) -> Vec<u8> {
    let object = (0..300).fold(library(), |object, index| {
        object.function(&format!("a_name_of_its_own_{index:04}"), 1)
    });
    let file = more(object).build();
    let plan = plan_rpath(&file, &GOAL.parse().unwrap()).unwrap();
    let reader = PatchedReader::new(file, plan);
    let mut after = vec![0; usize::try_from(reader.len()).unwrap()];
    read_exact_at(&reader, 0, &mut after).unwrap();
    after
}

#[test]
fn where_strings_were_there_are_zeros_unless_it_is_not_known_what_else_is_there() {
    let count = |file: &[u8]| {
        let name = b"a_name_of_its_own_0299\0";
        file.windows(name.len()).filter(|bytes| bytes == name).count()
    };
    let after = with_many_names(|object| object);
    assert_eq!(count(&after), 1);
    // A second change moves them again, and leaves them once again.
    let plan = plan_rpath(&after, &"$ORIGIN".parse().unwrap()).unwrap();
    let reader = PatchedReader::new(after, plan);
    let mut again = vec![0; usize::try_from(reader.len()).unwrap()];
    read_exact_at(&reader, 0, &mut again).unwrap();
    assert_eq!(count(&again), 1);
    assert_eq!(count(&with_many_names(SharedObject::without_section_headers)), 2);
}

/// Where an address of the dynamic table leads in the file.
fn at_tag(file: &[u8], tag: u64) -> usize {
    let elf = goblin::elf::Elf::parse(file).unwrap();
    let mut entries = elf.dynamic.as_ref().unwrap().dyns.iter();
    let address = entries.find(|it| it.d_tag == tag).unwrap().d_val;
    let inside = elf.program_headers.iter().filter_map(|load| {
        let inside = address.checked_sub(load.p_vaddr)?;
        (load.p_type == 1 && inside < load.p_filesz).then_some(load.p_offset + inside)
    });
    usize::try_from(inside.min().unwrap()).unwrap()
}

#[test]
fn a_string_outside_of_the_dynamic_strings_is_refused() {
    let goal = "$ORIGIN/../lib".parse().unwrap();
    let refusal = |file: &Vec<u8>| plan_rpath(file, &goal).unwrap_err().to_string();
    let mut auxiliary = library().build();
    let elf = goblin::elf::Elf::parse(&auxiliary).unwrap();
    let table = elf.program_headers.iter().find(|it| it.p_type == 2).unwrap();
    let used = elf.dynamic.as_ref().unwrap().dyns.len() - 1;
    let at = usize::try_from(table.p_offset).unwrap() + used * 16;
    auxiliary[at..at + 8].copy_from_slice(&0x7fff_fffd_u64.to_le_bytes());
    auxiliary[at + 8..at + 16].copy_from_slice(&0x4321_u64.to_le_bytes());
    insta::assert_snapshot!(refusal(&auxiliary), @"the string of dynamic entry 0x7ffffffd is outside: 0x4321");
    let mut version = library().needs_version("liby.so.2", "Y_1.0").build();
    let record = at_tag(&version, 0x6fff_fffe);
    version[record + 16 + 8..record + 16 + 12].copy_from_slice(&0x4321_u32.to_le_bytes());
    insta::assert_snapshot!(refusal(&version), @"a version name is outside of the dynamic strings: 0x4321");
}

/// The strategy, by how much the file grows, and the run path that the loader reads then.
fn changed(file: &[u8]) -> (Strategy, u64, String) {
    let plan = plan(file).unwrap();
    let strategy = plan.strategy;
    let growth = plan.patch.total_len() - file.len() as u64;
    let reader = PatchedReader::new(file.to_vec(), plan);
    let facts = crate::read(&reader).unwrap().unwrap();
    assert_eq!(facts.runpath, None);
    (strategy, growth, facts.rpath.unwrap_or_default())
}

#[test]
fn a_run_path_that_fits_into_an_old_one_costs_nothing() {
    let with = |old: &str| library().runpath(old).build();
    let longer = with("/builder/lib/python3.12/site-packages/_rocm_sdk_devel/lib");
    assert_eq!(changed(&longer), (Strategy::Overwrite, 0, GOAL.to_owned()));
    let end = with("/opt/rocm/lib:$ORIGIN/../lib");
    assert_eq!(changed(&end), (Strategy::Retag, 0, GOAL.to_owned()));
    let shorter = with("/opt");
    assert_eq!(changed(&shorter).0, Strategy::Evict);
    // Where the last symbol has the end of the old run path as its name, that stays as it is.
    let mut shared = longer.clone();
    let name = number(&longer, entry(&longer, 29) + 8) + 30;
    let elf = goblin::elf::Elf::parse(&longer).unwrap();
    let last = at_tag(&longer, 6) + (elf.dynsyms.len() - 1) * 24;
    shared[last..last + 4].copy_from_slice(&u32::try_from(name).unwrap().to_le_bytes());
    assert_eq!(changed(&shared).0, Strategy::Evict);
    // Nothing says how many symbols there are.
    let stripped = library().runpath("/builder/lib/python3.12/site-packages/x/lib");
    let stripped = stripped.without_section_headers().build();
    assert_eq!(changed(&stripped).0, Strategy::Extend);
}
