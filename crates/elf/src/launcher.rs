//! The launcher: a small executable that replaces a symlink to a program, because wheels cannot
//! contain symlinks.
//!
//! A compiled program is embedded as bytes, with room for the path of its target, which packaging
//! fills in. The bytes are checked in instead of being compiled with rocwheel: each compiler
//! version makes other bytes, and wheels must not depend on the compiler that built rocwheel. The
//! source is `tests/it/launcher/source/program.rs`; the tests beside it compile the source and
//! compare.

use rocwheel_base::error::{Context as _, Result, ensure};

/// The longest path that the kernel accepts: `PATH_MAX` without the NUL.
const MAX_TARGET: usize = 4095;
const MARK: &[u8] = b"rocwheel launcher runs: ";
const TEMPLATE: &[u8] = include_bytes!("launcher.elf");

/// The bytes of a static executable for x86-64 Linux that runs the program at `relative_target`,
/// with the arguments and the environment of the launcher. The path is relative to the directory of
/// the launcher.
pub fn launcher(relative_target: &[u8]) -> Result<Vec<u8>> {
    let len = relative_target.len();
    let shown = relative_target.escape_ascii();
    ensure!(len > 0, "launcher target is empty");
    ensure!(len <= MAX_TARGET, "launcher target is longer than {MAX_TARGET} bytes: {len}");
    ensure!(!relative_target.contains(&0), "launcher target contains a NUL byte: `{shown}`");
    ensure!(!relative_target.starts_with(b"/"), "launcher target is absolute: `{shown}`");
    let mark = TEMPLATE
        .windows(MARK.len())
        .position(|window| window == MARK)
        .context("the launcher has no mark")?;
    // Behind the mark are `MAX_TARGET` zeros and one more: the NUL that ends the longest path.
    let room = mark + MARK.len();
    let mut bytes = TEMPLATE.to_vec();
    bytes[room..][..len].copy_from_slice(relative_target);
    Ok(bytes)
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
    fn the_template_has_room_for_the_longest_target_behind_its_only_mark() {
        let marks: Vec<usize> =
            (0..TEMPLATE.len()).filter(|at| TEMPLATE[*at..].starts_with(MARK)).collect();
        let [mark] = marks[..] else {
            panic!("{marks:?}");
        };
        let room = &TEMPLATE[mark + MARK.len()..][..=MAX_TARGET];
        assert!(room.iter().all(|byte| *byte == 0));
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
        let segments: Vec<_> =
            elf.program_headers.iter().map(|segment| (segment.p_type, segment.p_flags)).collect();
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
            let marked = [MARK, target.as_slice()].concat();
            let mark = bytes.windows(marked.len()).position(|it| it == marked).unwrap();
            let end = mark + marked.len();
            prop_assert_eq!(&bytes[..mark], &TEMPLATE[..mark]);
            prop_assert_eq!(&bytes[end..], &TEMPLATE[end..]);
        }
    }
}
