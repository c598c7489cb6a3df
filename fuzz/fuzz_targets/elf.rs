//! Damaged ELF files: an answer or an error, never a panic, never a file that a second look refuses.
//! The first byte picks a sound file, and the rest says what to change in it, three bytes at a
//! time; from 0xf0 on the rest is the file itself. `plan_rpath` checks its own result, so that what
//! is left to ask here is whether the result is one that it takes for done.
#![no_main]

use std::{io::Read as _, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use rocwheel_elf::{PatchedReader, plan_rpath};
use rocwheel_test_files::linker::{Executable, SharedObject, TableAt};

static SEEDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let library = SharedObject::new("libx.so.1")
        .needs("liby.so.2")
        .needs_version("libc.so.6", "GLIBC_2.2.5")
        .calls("x", "y")
        .build_id(&[7; 20]);
    let program = Executable::new().needs("liby.so.2").calls("y");
    let end = TableAt::End { spare: 3 };
    let pinned = TableAt::EndPinned { spare: 3 };
    vec![
        library.clone().spare_dynamic_entries(3).build(),
        library.clone().rpath("/a").runpath("/b").build(),
        library.clone().without_section_headers().bss(5000).build(),
        library.clone().code_first().build(),
        library.hollow_section(".hip_fatbin", 0x5123).program_headers(end).build(),
        program.clone().spare_dynamic_entries(2).build(),
        program.clone().at_fixed_address().build(),
        program.program_headers(pinned).build(),
    ]
});

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let file = if *first >= 0xf0 { rest.to_vec() } else { damaged(*first, rest) };
    let facts = rocwheel_elf::read(&file);
    let goal = "$ORIGIN/../lib:/opt/rocm/lib".parse().expect("a run path");
    let Ok(plan) = plan_rpath(&file, &goal) else {
        return;
    };
    if plan.patch.is_nothing() {
        return;
    }
    let total = plan.patch.total_len();
    let mut after = Vec::new();
    PatchedReader::new(file, plan).read_to_end(&mut after).expect("a stream of bytes in memory");
    assert_eq!(after.len() as u64, total);
    if facts.is_ok() {
        let facts =
            rocwheel_elf::read(&after).expect("facts as before").expect("an ELF file as before");
        assert_eq!(facts.rpath, Some(goal.to_string()));
        assert_eq!(facts.runpath, None);
    }
    assert!(plan_rpath(&after, &goal).expect("a file that is done").patch.is_nothing());
});

fn damaged(seed: u8, changes: &[u8]) -> Vec<u8> {
    let mut file = SEEDS[usize::from(seed) % SEEDS.len()].clone();
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        if at & 0x8000 != 0 {
            file.truncate(file.len().saturating_sub(at & 0x7fff));
        } else if let Some(place) = file.get_mut(at) {
            *place = change[2];
        }
    }
    file
}
