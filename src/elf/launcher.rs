//! The executable that stands where a link stood: wheels hold no links.
//!
//! The program is embedded as bytes with room for a path, which packaging fills. The bytes are checked
//! in and not compiled by each build: every compiler makes others of the source, and wheels must not
//! depend on the one that built rocwheel. The source is `tests/it/launcher/source/program.rs`; the tests
//! beside it compile it again and compare.

/// The longest path that the kernel takes.
const MAX_TARGET: usize = 4095;
const MARK: &[u8] = b"rocwheel launcher runs: ";
const TEMPLATE: &[u8] = include_bytes!("launcher.elf");
/// Where the path goes, found when the crate is compiled.
const SLOT: usize = slot(TEMPLATE);

/// Why there is no launcher for a path.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLauncherTarget {
    #[error("launcher target is empty")]
    Empty,
    #[error("launcher target is absolute: `{}`", .0.escape_ascii())]
    Absolute(Vec<u8>),
    #[error("launcher target contains a NUL byte: `{}`", .0.escape_ascii())]
    Nul(Vec<u8>),
    #[error("launcher target is longer than {MAX_TARGET} bytes: {0}")]
    TooLong(usize),
}

/// The bytes of an executable (Linux, `x86_64`, static) that runs what lies at `relative_target`,
/// seen from the executable's own directory, with arguments and environment as they are.
pub fn launcher(relative_target: &[u8]) -> Result<Vec<u8>, InvalidLauncherTarget> {
    use InvalidLauncherTarget as Invalid;
    match relative_target {
        [] => Err(Invalid::Empty),
        long if long.len() > MAX_TARGET => Err(Invalid::TooLong(long.len())),
        nul if nul.contains(&0) => Err(Invalid::Nul(nul.to_vec())),
        [b'/', ..] => Err(Invalid::Absolute(relative_target.to_vec())),
        target => {
            let (before, room) = TEMPLATE.split_at(SLOT);
            let (_, after) = room.split_at(target.len());
            Ok([before, target, after].concat())
        }
    }
}

/// Where the only mark ends, followed by room for the longest target and the NUL that closes it.
const fn slot(file: &[u8]) -> usize {
    let mut found = None;
    let mut at = 0;
    while at + MARK.len() + MAX_TARGET < file.len() {
        if is_mark(file, at) {
            assert!(found.is_none(), "the launcher has two marks");
            found = Some(at + MARK.len());
        }
        at += 1;
    }
    let slot = found.expect("the launcher has no mark");
    let mut at = slot;
    while at <= slot + MAX_TARGET {
        assert!(file[at] == 0, "the launcher's room is taken");
        at += 1;
    }
    slot
}

const fn is_mark(file: &[u8], start: usize) -> bool {
    let mut at = 0;
    while at < MARK.len() {
        if file[start + at] != MARK[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use goblin::elf::{Elf, header, program_header};
    use proptest::prelude::*;

    fn refusal(target: &[u8]) -> String {
        launcher(target).unwrap_err().to_string()
    }

    #[test]
    fn a_target_that_cannot_be_a_relative_path_is_refused() {
        insta::assert_snapshot!(refusal(b""), @"launcher target is empty");
        insta::assert_snapshot!(refusal(b"/usr/bin/clang"), @"launcher target is absolute: `/usr/bin/clang`");
        insta::assert_snapshot!(refusal(b"a\0\xffb"), @r"launcher target contains a NUL byte: `a\x00\xffb`");
        insta::assert_snapshot!(refusal(&[b'a'; 4096]), @"launcher target is longer than 4095 bytes: 4096");
        assert!(launcher(&[b'a'; 4095]).is_ok());
    }

    #[test]
    fn a_launcher_is_a_few_kilobytes() {
        let len = launcher(b"clang-22").unwrap().len();
        assert!((MAX_TARGET..8192).contains(&len), "{len}");
    }

    #[test]
    fn a_launcher_is_static_and_needs_no_interpreter() {
        let bytes = launcher(b"clang-22").unwrap();
        let elf = Elf::parse(&bytes).unwrap();
        assert_eq!(elf.header.e_type, header::ET_EXEC);
        assert_eq!(elf.header.e_machine, header::EM_X86_64);
        assert_eq!(elf.header.e_ident[header::EI_OSABI], header::ELFOSABI_NONE);
        assert_eq!(elf.interpreter, None);
        assert!(elf.dynamic.is_none());
        let names: Vec<_> = elf
            .section_headers
            .iter()
            .map(|section| elf.shdr_strtab.get_at(section.sh_name).unwrap())
            .collect();
        assert_eq!(names, ["", ".rodata", ".text", ".shstrtab"]);
    }

    #[test]
    fn no_memory_of_a_launcher_can_be_both_written_and_run() {
        let bytes = launcher(b"clang-22").unwrap();
        let elf = Elf::parse(&bytes).unwrap();
        let segments: Vec<_> = elf
            .program_headers
            .iter()
            .map(|segment| (segment.p_type, segment.p_flags))
            .collect();
        let (read, run) = (program_header::PF_R, program_header::PF_X);
        assert_eq!(
            segments,
            [
                (program_header::PT_LOAD, read),
                (program_header::PT_LOAD, read | run),
                (program_header::PT_GNU_STACK, read | program_header::PF_W),
            ]
        );
        for segment in &elf.program_headers[..2] {
            assert_eq!(segment.p_align, 4096);
            assert_eq!(segment.p_vaddr % 4096, segment.p_offset % 4096);
            assert_eq!(segment.p_filesz, segment.p_memsz);
        }
    }

    #[test]
    fn a_launcher_says_nothing_of_where_it_was_built() {
        let text = String::from_utf8_lossy(TEMPLATE);
        for word in [env!("CARGO_MANIFEST_DIR"), "rustc", ".rs", "LLD"] {
            assert!(!text.contains(word), "{word}");
        }
    }

    proptest! {
        #[test]
        fn the_target_is_all_that_differs(target in prop::collection::vec(1..=u8::MAX, 1..=MAX_TARGET)) {
            prop_assume!(target[0] != b'/');
            let bytes = launcher(&target).unwrap();
            prop_assert_eq!(&bytes, &launcher(&target).unwrap());
            let (before, rest) = bytes.split_at(SLOT);
            let (filled, after) = rest.split_at(target.len());
            prop_assert!(before.ends_with(MARK));
            prop_assert_eq!(filled, &target);
            prop_assert_eq!(before, &TEMPLATE[..SLOT]);
            prop_assert_eq!(after, &TEMPLATE[SLOT + target.len()..]);
        }
    }
}
