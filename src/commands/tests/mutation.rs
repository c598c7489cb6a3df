//! Wheels of the sample, each damaged once at random, and how many of them were found.
//!
//! `cargo test --bin rocwheel mutation -- --nocapture` tells of each that was not.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    ops::Range,
    sync::Arc,
};

use rocwheel_test_files::long;

use super::sets::{make, options, sample};
use crate::{
    check::{
        self, CheckOptions, SetFacts,
        observe::{Outline, PackageReader, ReadWatch, read_sdist},
    },
    package::assemble::Reuse,
};
use rocwheel_base::error::Stop;

/// In short and in long.
const DAMAGES: [usize; 2] = [40, 200];
/// Others find 199 or 200 as well.
const SEED: u64 = 7;

/// Numbers that look random and are the same everywhere (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }
}

/// What was done to a wheel.
fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) -> String {
    let at = dice.roll(bytes.len());
    let end = bytes.len().min(at + 1 + dice.roll(64));
    match dice.roll(4) {
        0 => {
            let bit = dice.roll(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
        1 => {
            bytes.drain(at..end);
            format!("bytes {at} to {end} cut out")
        }
        2 => {
            bytes[at..end].fill(0);
            format!("bytes {at} to {end} zeroed")
        }
        _ => {
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
            format!("bytes {at} to {end} doubled")
        }
    }
}

fn is_found(set: &SetFacts) -> bool {
    let report = check::judge(set, &CheckOptions::default(), Vec::new()).report;
    !report.findings.is_empty()
}

struct InMemory<'a>(&'a [u8]);

impl PackageReader for InMemory<'_> {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn stream(&self, range: Range<u64>) -> io::Result<Box<dyn Read + Send + '_>> {
        let place = |offset: u64| usize::try_from(offset).unwrap().min(self.0.len());
        Ok(Box::new(&self.0[place(range.start)..place(range.end)]))
    }
}

#[test]
#[ignore = "slow"]
#[expect(clippy::print_stderr, reason = "the run is a report as well")]
fn of_many_damaged_wheels_nearly_all_are_found() {
    let stop = Stop::default();
    let watch = ReadWatch { binaries: None, stop: &stop, progress: &|_| () };
    let mut set = SetFacts::default();
    let mut wheels: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let place = tempfile::tempdir().unwrap();
    let [artifacts, packages] = ["artifacts", "packages"].map(|name| place.path().join(name));
    sample(&artifacts);
    make(&artifacts, &packages, &Reuse::default(), &options());
    for entry in fs_err::read_dir(packages.join("dist")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = fs_err::read(&path).unwrap();
        let kind = path.extension().and_then(|it| it.to_str());
        if kind == Some("whl") {
            wheels.insert(name, bytes);
        } else if kind == Some("gz") {
            let sdist = read_sdist(&name, Box::new(bytes.as_slice()), &watch).unwrap();
            set.sdists.push(Arc::new(sdist));
        }
    }
    let read = |name: &str, bytes: &[u8]| {
        let source = InMemory(bytes);
        let outline = Outline::read(name, &source);
        let facts = outline.read_portion(&source, &outline.whole(), &watch);
        Arc::new(outline.finish(vec![facts.unwrap()]))
    };
    set.wheels = wheels.iter().map(|(name, bytes)| read(name, bytes)).collect();
    assert!(!is_found(&set));
    let damages = long::rounds(DAMAGES[0], DAMAGES[1]);
    let mut dice = Dice(SEED);
    let mut missed = Vec::new();
    let mut done = 0;
    while done < damages {
        let index = dice.roll(wheels.len());
        let (name, whole) = wheels.iter().nth(index).unwrap();
        let mut bytes = whole.clone();
        let what = damage(&mut bytes, &mut dice);
        if bytes == *whole {
            continue;
        }
        done += 1;
        let sound = std::mem::replace(&mut set.wheels[index], read(name, &bytes));
        if !is_found(&set) {
            missed.push(format!("{name}: {what}"));
        }
        set.wheels[index] = sound;
    }
    let shown = missed.join("\n");
    let found = damages - missed.len();
    eprintln!("{found} of {damages} were found, and not these:\n{shown}");
    // A wheel has bits that no reader looks at.
    assert!(missed.len() <= 3, "{shown}");
}
