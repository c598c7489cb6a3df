//! Extension headers, which extend the header of the next member: pax records and GNU long names.

use crate::error::{Context, Result, bail, ensure};

/// Far longer than any name, and small enough to hold in memory.
pub(super) const MAX_LEN: u64 = 1 << 20;

/// Values that override those of the next member's header.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extension {
    pub(super) path: Option<String>,
    pub(super) link: Option<String>,
    pub(super) size: Option<u64>,
}

pub(super) fn is_extension(kind: u8) -> bool {
    matches!(kind, b'x' | b'g' | b'L' | b'K')
}

impl Extension {
    pub(super) fn add(&mut self, kind: u8, content: &[u8]) -> Result<()> {
        match kind {
            b'L' => set(&mut self.path, "path", || long_name(content)),
            b'K' => set(&mut self.link, "linkpath", || long_name(content)),
            b'x' => records(content)?
                .into_iter()
                .try_for_each(|(key, value)| self.add_record(key, value)),
            _ => records(content)?
                .into_iter()
                .try_for_each(|(key, _)| check_global(key)),
        }
    }

    fn add_record(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match key {
            b"path" => set(&mut self.path, "path", || super::text(value)),
            b"linkpath" => set(&mut self.link, "linkpath", || super::text(value)),
            b"size" => set(&mut self.size, "size", || number(value)),
            _ if is_sparse(key) => bail!("the next member is a sparse file"),
            // Owners, times and attributes are not kept.
            _ => Ok(()),
        }
    }
}

/// Sets a value once. Of two values, some readers take the first and others the last. A checked
/// archive must not look different to another reader, so the second one is an error.
fn set<T>(slot: &mut Option<T>, key: &str, value: impl FnOnce() -> Result<T>) -> Result<()> {
    ensure!(slot.is_none(), "two values for `{key}`");
    *slot = Some(value()?);
    Ok(())
}

/// Rejects a global header that would give all members the same path, link target or size. No
/// archiver writes such a header.
fn check_global(key: &[u8]) -> Result<()> {
    let decides = matches!(key, b"path" | b"linkpath" | b"size") || is_sparse(key);
    ensure!(
        !decides,
        "a global header with `{}`",
        String::from_utf8_lossy(key)
    );
    Ok(())
}

fn is_sparse(key: &[u8]) -> bool {
    key.starts_with(b"GNU.sparse.")
}

fn long_name(content: &[u8]) -> Result<String> {
    super::text(content.strip_suffix(b"\0").unwrap_or(content))
}

fn number(value: &[u8]) -> Result<u64> {
    let digits = std::str::from_utf8(value).ok();
    digits
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .with_context(|| format!("not a size: {:?}", String::from_utf8_lossy(value)))
}

/// The `LENGTH KEY=VALUE\n` records of a pax header.
///
/// They are split by their lengths and not at line feeds, because a value may contain line feeds.
fn records(mut content: &[u8]) -> Result<Vec<(&[u8], &[u8])>> {
    let mut records = Vec::new();
    while !content.is_empty() {
        let (record, rest) = next_record(content).context("not a list of pax records")?;
        records.push(record);
        content = rest;
    }
    Ok(records)
}

type Record<'a> = (&'a [u8], &'a [u8]);

fn next_record(content: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let digits = content.iter().position(|&byte| byte == b' ')?;
    let len = std::str::from_utf8(content.get(..digits)?).ok()?;
    let (record, rest) = content.split_at_checked(len.parse().ok()?)?;
    let record = record.get(digits + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|&byte| byte == b'=')?;
    let (key, value) = record.split_at_checked(equals)?;
    Some(((key, value.get(1..)?), rest))
}
