//! `Record`: the file RECORD, a CSV list of all files in a wheel with hash and size
//! ([PEP 376](https://peps.python.org/pep-0376/), [PEP 427](https://peps.python.org/pep-0427/)).

use std::{collections::HashSet, fmt, io::Read};

use crate::{
    digest::Sha256,
    error::Invalid,
    relpath::RelPath,
    wheel::base64::{self, InvalidBase64},
};

/// The rows of RECORD in their order. No path occurs twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    rows: Vec<RecordRow>,
}

/// The row of one file. The row of RECORD itself has neither hash nor size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRow {
    pub path: RelPath,
    pub digest: Option<Sha256>,
    pub len: Option<u64>,
}

/// Error of parsing a [`Record`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {row} of RECORD")]
pub struct InvalidRecord {
    row: usize,
    #[source]
    reason: RecordErrorReason,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum RecordErrorReason {
    #[error("not CSV in UTF-8")]
    Csv,
    #[error("three columns expected, not {0}")]
    Columns(usize),
    #[error(transparent)]
    Path(#[from] Invalid),
    #[error("a second row for `{0}`")]
    Twice(RelPath),
    #[error("not a `sha256=` hash: {0:?}")]
    Algorithm(String),
    #[error(transparent)]
    Digest(#[from] InvalidBase64),
    #[error("not a size: {0:?}")]
    Len(String),
}

/// A difference between a file and its row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("`{path}` has no hash in RECORD")]
    Unhashed { path: RelPath },
    #[error("`{path}` has {found} bytes, but {expected} in RECORD")]
    Len {
        path: RelPath,
        expected: u64,
        found: u64,
    },
    #[error("`{path}` has SHA-256 {found}, but {expected} in RECORD")]
    Digest {
        path: RelPath,
        expected: Sha256,
        found: Sha256,
    },
}

impl RecordRow {
    /// Checks the hash and the size of a file.
    pub fn verify(&self, digest: Sha256, len: u64) -> Result<(), Mismatch> {
        let path = || self.path.clone();
        match (self.digest, self.len) {
            (_, Some(expected)) if expected != len => Err(Mismatch::Len {
                path: path(),
                expected,
                found: len,
            }),
            (Some(expected), _) if expected != digest => Err(Mismatch::Digest {
                path: path(),
                expected,
                found: digest,
            }),
            (None, _) => Err(Mismatch::Unhashed { path: path() }),
            (Some(_), _) => Ok(()),
        }
    }
}

impl Record {
    /// Adds a file. The caller must not add a path twice.
    pub fn push(&mut self, path: RelPath, digest: Sha256, len: u64) {
        self.rows.push(RecordRow {
            path,
            digest: Some(digest),
            len: Some(len),
        });
    }

    /// Adds the row of RECORD itself, without a hash: a file cannot contain its own.
    pub fn push_self(&mut self, path: RelPath) {
        self.rows.push(RecordRow {
            path,
            digest: None,
            len: None,
        });
    }

    pub fn rows(&self) -> &[RecordRow] {
        &self.rows
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            // The CSV reader drops a byte order mark at the beginning, but a path may begin with
            // the same character. With an empty line before it, the character is kept.
            .from_reader(b"\n".chain(bytes));
        let mut seen = HashSet::new();
        let mut rows = Vec::new();
        for (index, row) in reader.records().enumerate() {
            let row = row
                .map_err(|_| RecordErrorReason::Csv)
                .and_then(|row| parse_row(&row))
                .and_then(|row| {
                    if seen.insert(row.path.clone()) {
                        Ok(row)
                    } else {
                        Err(RecordErrorReason::Twice(row.path))
                    }
                })
                .map_err(|reason| InvalidRecord {
                    row: index + 1,
                    reason,
                })?;
            rows.push(row);
        }
        Ok(Self { rows })
    }
}

fn parse_row(row: &csv::StringRecord) -> Result<RecordRow, RecordErrorReason> {
    let columns: Vec<&str> = row.iter().collect();
    let [path, hash, len] = columns[..] else {
        return Err(RecordErrorReason::Columns(columns.len()));
    };
    Ok(RecordRow {
        path: path.parse()?,
        digest: (!hash.is_empty()).then(|| parse_hash(hash)).transpose()?,
        len: (!len.is_empty()).then(|| parse_len(len)).transpose()?,
    })
}

fn parse_hash(text: &str) -> Result<Sha256, RecordErrorReason> {
    let digest = text
        .strip_prefix("sha256=")
        .ok_or_else(|| RecordErrorReason::Algorithm(text.to_owned()))?;
    Ok(base64::decode(digest)?)
}

fn parse_len(text: &str) -> Result<u64, RecordErrorReason> {
    let invalid = || RecordErrorReason::Len(text.to_owned());
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid());
    }
    text.parse().map_err(|_| invalid())
}

/// Writes the file: CSV with quotes only where they are needed, and LF.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut writer = csv::WriterBuilder::new()
            .terminator(csv::Terminator::Any(b'\n'))
            .from_writer(Vec::new());
        for row in &self.rows {
            let hash = row
                .digest
                .map(|digest| format!("sha256={}", base64::encode(&digest)));
            let len = row.len.map(|len| len.to_string());
            writer
                .write_record([
                    row.path.as_str(),
                    &hash.unwrap_or_default(),
                    &len.unwrap_or_default(),
                ])
                .map_err(|_| fmt::Error)?;
        }
        let bytes = writer.into_inner().map_err(|_| fmt::Error)?;
        f.write_str(str::from_utf8(&bytes).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Error;

    fn path(text: &str) -> RelPath {
        text.parse().unwrap()
    }

    #[test]
    fn odd_names_are_quoted_and_read_back() {
        let mut record = Record::default();
        for name in [
            "a/plain.so",
            "a/b,c",
            "a/\"q\"",
            "a/two\nlines",
            "a/é b",
            "a/cr\r",
        ] {
            record.push(path(name), Sha256::of(name.as_bytes()), name.len() as u64);
        }
        record.push_self(path("x-1.dist-info/RECORD"));
        insta::assert_snapshot!(record.to_string().replace('\r', "<CR>"), @r#"
        a/plain.so,sha256=UZ3cauuw_wnQXXVZxCzSs8lVFWFm38q829N8blNUqCo,10
        "a/b,c",sha256=UyisiHgWZdZtLI_s0cJXsAADc_iYR3u6t1uBkbqqZIs,5
        "a/""q""",sha256=nU8wQ6ilyP2AR5c32gVTy9PtGxEsOlpzic4xKNs3bOI,5
        "a/two
        lines",sha256=X9Ad67TBMtyG5W2x5PhRG1MzIhM8z9vjZq-_fJgVKEk,11
        a/é b,sha256=8l7hKnaL8Xp8o8njBEh3qnqNhQ9pHm0hKjg9riBh7BM,6
        "a/cr<CR>",sha256=Wv5WM9GcLJXFytutEcHssLOCNn6fwc_et4ac3TXCkzQ,5
        x-1.dist-info/RECORD,,
        "#);
        assert_eq!(Record::parse(record.to_string().as_bytes()), Ok(record));
    }

    #[test]
    fn a_text_that_is_no_record_is_refused_in_words() {
        let hash = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";
        let refused: &[&[u8]] = &[
            b"a,b\n",
            b"a,,\nb,,,\n",
            b"/etc/passwd,,\n",
            b"../a,,\n",
            b"\"\",,\n",
            b"a,,\na,,\n",
            b"a,md5=1,\n",
            b"a,sha256=AAAA,1\n",
            &[b"a,", hash.as_bytes(), b",-1\n"].concat(),
            &[b"a,", hash.as_bytes(), b",+1\n"].concat(),
            &[b"a,", hash.as_bytes(), b",99999999999999999999\n"].concat(),
            b"a\xFF,,\n",
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|bytes| format!("{:#}", Error::from(Record::parse(bytes).unwrap_err())))
            .collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        row 1 of RECORD: three columns expected, not 2
        row 2 of RECORD: three columns expected, not 4
        row 1 of RECORD: an absolute path: "/etc/passwd"
        row 1 of RECORD: a path with `..`: "../a"
        row 1 of RECORD: an empty path: ""
        row 2 of RECORD: a second row for `a`
        row 1 of RECORD: not a `sha256=` hash: "md5=1"
        row 1 of RECORD: not the URL-safe base64 of 32 bytes: "AAAA"
        row 1 of RECORD: not a size: "-1"
        row 1 of RECORD: not a size: "+1"
        row 1 of RECORD: not a size: "99999999999999999999"
        row 1 of RECORD: not CSV in UTF-8
        "#);
    }

    #[test]
    fn a_row_tells_what_differs() {
        let mut record = Record::default();
        record.push(path("a"), Sha256::of(b"x"), 1);
        record.push_self(path("RECORD"));
        let [row, own] = record.rows() else {
            panic!("two rows")
        };
        assert_eq!(row.verify(Sha256::of(b"x"), 1), Ok(()));
        let messages = [
            row.verify(Sha256::of(b"x"), 2),
            row.verify(Sha256::of(b"y"), 1),
            own.verify(Sha256::of(b"x"), 1),
        ]
        .map(|result| result.unwrap_err().to_string());
        insta::assert_snapshot!(messages.join("\n"), @"
        `a` has 2 bytes, but 1 in RECORD
        `a` has SHA-256 a1fce4363854ff888cff4b8e7875d600c2682390412a8cf79b37d0b11148b0fa, but 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 in RECORD
        `RECORD` has no hash in RECORD
        ");
    }

    proptest! {
        #[test]
        fn every_record_reads_back(names in proptest::collection::hash_set("[^/\\\\\0.]{1,12}", 0..8)) {
            let mut record = Record::default();
            for name in names {
                record.push(path(&name), Sha256::of(name.as_bytes()), name.len() as u64);
            }
            prop_assert_eq!(Record::parse(record.to_string().as_bytes()), Ok(record));
        }

        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Record::parse(&bytes);
        }
    }
}
