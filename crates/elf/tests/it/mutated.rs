//! Damaged headers: an answer or an error, never a panic, and never a file that is worse.

use goblin::elf::{Elf, section_header::SHT_DYNSYM};

use rocwheel_test_files::{
    linker::{Executable, SharedObject, TableAt},
    long,
};

use crate::with_rpath;

/// How many files are tried, in short and in long.
const ROUNDS: [u64; 2] = [2_000, 20_000];
const GOAL: &str = "$ORIGIN/../lib:/opt/rocm/lib";

#[test]
fn damaged_headers_give_an_answer_or_an_error() {
    let rounds = long::rounds(ROUNDS[0], ROUNDS[1]);
    let seeds = seeds();
    let (mut changed, mut refused) = (0, 0);
    for round in long::seeds(ROUNDS[0], ROUNDS[1]) {
        let mut random = Random(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
        let mut file = random.pick(&seeds).clone();
        for _ in 0..=random.below(4) {
            mutate(&mut file, &mut random);
        }
        let _ = rocwheel_elf::read(&file);
        let _ = rocwheel_elf::faults(&file);
        match with_rpath(&file, GOAL) {
            Ok((plan, _)) if plan.patch.is_nothing() => {}
            Ok((_, after)) => {
                changed += 1;
                assert_sound(round, &file, &after);
            }
            Err(_) => refused += 1,
        }
    }
    // The mutations are neither all harmless nor all fatal.
    let is_mixed = changed.min(refused) > rounds / 10;
    assert!(is_mixed, "{changed} {refused}");
}

/// What a parser that shares nothing with ours says of the file afterwards.
fn assert_sound(round: u64, before: &[u8], after: &[u8]) {
    // A name that is no text keeps facts from being read, before as after.
    if rocwheel_elf::read(&before).is_err() {
        return;
    }
    let facts = rocwheel_elf::read(&after).unwrap().unwrap();
    assert_eq!(facts.rpath.as_deref(), Some(GOAL), "round {round}");
    assert_eq!(facts.runpath, None, "round {round}");
    let (again, same) = with_rpath(after, GOAL).unwrap();
    assert!(again.patch.is_nothing() && same == after, "round {round}");
    // A damaged hash table may have read as a sound one by what happened to lie behind it.
    let (Ok(before), Ok(after)) = (Elf::parse(before), Elf::parse(after)) else {
        return;
    };
    assert_eq!(after.libraries, before.libraries, "round {round}");
    assert_eq!(after.soname, before.soname, "round {round}");
    assert_eq!(after.interpreter, before.interpreter, "round {round}");
    // Only so many symbols are there as the section has; a damaged hash table may tell of more.
    let mut tables = before.section_headers.iter();
    let table = tables.find(|it| it.sh_type == SHT_DYNSYM);
    let dynamic = before.dynamic.as_ref();
    let address = dynamic.map(|it| it.info.symtab as u64);
    let table = table.filter(|table| Some(table.sh_addr) == address);
    let count = table.map_or(0, |table| usize::try_from(table.sh_size / 24).unwrap());
    for (one, other) in before.dynsyms.iter().zip(&after.dynsyms).take(count) {
        assert_eq!(one, other, "round {round}");
        let name = |elf: &Elf| elf.dynstrtab.get_at(one.st_name).map(str::to_owned);
        let is_same = name(&before).is_none_or(|it| Some(it) == name(&after));
        assert!(is_same, "round {round}");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let library = SharedObject::new("libx.so.1")
        .needs("liby.so.2")
        .needs_version("libc.so.6", "GLIBC_2.2.5")
        .function("x_one", 1)
        .calls("x", "y_answer")
        .build_id(&[7; 20]);
    let program = Executable::new().needs("liby.so.2").calls("y_answer");
    let both = library.clone().rpath("/a").runpath("/b");
    let hollow = library.clone().hollow_section(".hip_fatbin", 0x5123);
    let pinned = TableAt::EndPinned { spare: 3 };
    vec![
        library.clone().spare_dynamic_entries(3).build(),
        library.clone().runpath("$ORIGIN").build(),
        both.without_phdr().build(),
        library.clone().without_section_headers().bss(5000).build(),
        library.code_first().build(),
        hollow.program_headers(TableAt::End { spare: 3 }).build(),
        program.clone().spare_dynamic_entries(2).build(),
        program.clone().at_fixed_address().bss(5000).build(),
        program.program_headers(pinned).build(),
    ]
}

/// Changes a byte or a word where headers, tables and strings are.
fn mutate(file: &mut Vec<u8>, random: &mut Random) {
    if file.len() < 64 {
        return;
    }
    let long = |at: usize| u64::from_le_bytes(*file[at..].first_chunk().unwrap());
    let index = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    let (headers, sections) = (index(long(32)), index(long(40)));
    let len = file.len();
    let (start, size) = match random.below(8) {
        0 => (0, 64),
        1..=3 => (headers, 14 * 56),
        4 => (sections, 20 * 64),
        _ => (0, len),
    };
    let at = start.saturating_add(random.below(size));
    match random.below(6) {
        0 => file.truncate(random.below(len) + 1),
        1 | 2 => {
            let at = at & !7;
            let value = random.value(len as u64);
            if let Some(place) = file.get_mut(at..at.saturating_add(8)) {
                place.copy_from_slice(&value.to_le_bytes());
            }
        }
        _ => {
            let value = random.value(256).to_le_bytes()[0];
            if let Some(place) = file.get_mut(at) {
                *place = value;
            }
        }
    }
}

/// The same numbers every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// A number that is often on an edge.
    fn value(&mut self, len: u64) -> u64 {
        let small = [0, 1, 7, 0xfff, 0x1000, len - 1, len, len + 1];
        let high = [u64::MAX >> 1, u64::MAX - 0xfff, u64::MAX];
        let edges = [&small[..], &[1 << 31, 1 << 32, 1 << 47], &high].concat();
        match self.below(3) {
            0 => *self.pick(&edges),
            1 => self.next() % (len * 2),
            _ => self.next() >> self.below(64),
        }
    }
}
