//! What is learned from the bytes of one file while they pass.

use std::io::{self, Read, Write as _};

use crate::{
    audit::{
        facts::{Code, Content, Elf, ElfFile, HostCode},
        observe::code::{self, Sifting},
    },
    digest::Hasher,
    elf::{self, Machine},
    error::Stop,
};

const ELF_MAGIC: &[u8] = b"\x7fELF";
/// An ELF file is examined in memory, one at a time; one that is larger is hashed only.
const LONGEST_ELF: u64 = 1 << 30;
/// METADATA, RECORD and manifests; the RECORD of 100,000 files has 12 MiB.
const LONGEST_TEXT: u64 = 64 << 20;
/// What stands before the target in a launcher.
const LAUNCHER_MARK: &[u8] = b"rocwheel launcher runs: ";

/// Whether the bytes of a file are kept for the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Bytes,
    Facts,
}

/// Hashes what is read, and ends when the user asks to.
pub(super) struct Hashed<'a, R> {
    inner: R,
    hasher: Hasher,
    stop: &'a Stop,
}

impl<'a, R: Read> Hashed<'a, R> {
    pub(super) fn new(inner: R, stop: &'a Stop) -> Self {
        Self {
            inner,
            hasher: Hasher::default(),
            stop,
        }
    }

    /// Reads what is left, and says what all of it was.
    pub(super) fn finish(mut self) -> io::Result<Content> {
        io::copy(&mut self, &mut io::sink())?;
        let (sha256, len) = self.hasher.finish();
        Ok(Content {
            len,
            sha256,
            kept: None,
            elf: None,
            code: None,
        })
    }
}

impl<R: Read> Read for Hashed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop.check().map_err(io::Error::other)?;
        let count = self.inner.read(buffer)?;
        self.hasher
            .write_all(buffer.get(..count).unwrap_or_default())?;
        Ok(count)
    }
}

/// Reads a file to its end.
pub(super) fn read(source: impl Read, keep: Keep, stop: &Stop) -> io::Result<Content> {
    let mut source = Hashed::new(source, stop);
    let mut bytes = Vec::new();
    source.by_ref().take(4).read_to_end(&mut bytes)?;
    let is_elf = bytes == ELF_MAGIC;
    let code = match keep {
        Keep::Facts => device_code(&bytes, source.by_ref())?,
        Keep::Bytes => None,
    };
    let longest = match keep {
        Keep::Bytes => LONGEST_TEXT,
        Keep::Facts if is_elf => LONGEST_ELF,
        Keep::Facts => 0,
    };
    source.by_ref().take(longest).read_to_end(&mut bytes)?;
    let mut content = source.finish()?;
    content.code = code;
    let is_whole = content.len == bytes.len() as u64;
    if is_elf {
        content.code = code::of_elf(&bytes);
        content.elf = Some(if is_whole {
            examine(&bytes)
        } else {
            Elf::TooLarge
        });
    }
    if keep == Keep::Bytes && is_whole {
        content.kept = Some(bytes);
    }
    Ok(content)
}

/// What the device code in a file is for, of which `begin` has been read.
fn device_code(begin: &[u8], mut source: impl Read) -> io::Result<Option<Code>> {
    let Some(mut sifting) = Sifting::of(begin) else {
        return Ok(None);
    };
    sifting.take(begin);
    let mut buffer = vec![0; 128 << 10];
    loop {
        let count = source.read(&mut buffer)?;
        if count == 0 {
            return Ok(Some(sifting.finish()));
        }
        sifting.take(buffer.get(..count).unwrap_or_default());
    }
}

fn examine(bytes: &[u8]) -> Elf {
    match elf::read(bytes) {
        Err(error) => Elf::Damaged(error.to_string()),
        Ok(None) => Elf::Damaged("it is cut off after its first bytes".to_owned()),
        Ok(Some(facts)) => {
            let loads = facts.machine == Machine::X86_64 && facts.kind != elf::Kind::Other;
            let faults = if loads {
                elf::faults(bytes)
            } else {
                Ok(Vec::new())
            };
            match faults {
                Err(error) => Elf::Damaged(error.to_string()),
                Ok(faults) => Elf::Read(Box::new(ElfFile {
                    launches: launches(bytes),
                    code: if loads {
                        code::of_host(bytes, facts.kpack_ref)
                    } else {
                        HostCode::None
                    },
                    facts,
                    faults,
                })),
            }
        }
    }
}

fn launches(bytes: &[u8]) -> Option<String> {
    /// A launcher is a few kilobytes; nothing larger is searched.
    const LARGEST: usize = 64 << 10;
    let bytes = Some(bytes).filter(|bytes| bytes.len() <= LARGEST)?;
    let mut windows = bytes.windows(LAUNCHER_MARK.len());
    let at = windows.position(|window| window == LAUNCHER_MARK)?;
    let rest = bytes.get(at.saturating_add(LAUNCHER_MARK.len())..)?;
    let target = rest.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(target).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bytes: &[u8], keep: Keep) -> Content {
        read(bytes, keep, &Stop::default()).unwrap()
    }

    #[test]
    fn a_launcher_says_what_it_runs() {
        let bytes = elf::launcher(b"../lib/llvm/bin/clang").unwrap();
        let Some(Elf::Read(elf)) = seen(&bytes, Keep::Facts).elf else {
            panic!("not read");
        };
        assert_eq!(elf.launches.as_deref(), Some("../lib/llvm/bin/clang"));
        assert_eq!(elf.faults, Vec::<String>::new());
    }

    #[test]
    fn a_damaged_elf_file_is_a_fact() {
        let whole = elf::write::SharedObject::new("liba.so.1").build();
        for end in [4, 5, 64, whole.len() - 1] {
            let content = seen(&whole[..end], Keep::Facts);
            assert_eq!(content.len, end as u64);
            assert!(content.elf.is_some());
        }
    }

    #[test]
    fn bytes_are_kept_only_when_asked_for() {
        assert_eq!(seen(b"abc", Keep::Facts).kept, None);
        assert_eq!(seen(b"abc", Keep::Bytes).kept.as_deref(), Some(&b"abc"[..]));
        assert_eq!(seen(b"", Keep::Bytes).kept.as_deref(), Some(&b""[..]));
    }
}
