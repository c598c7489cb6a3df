//! `Record`: the file RECORD, a CSV list of all files in a wheel with hash and size
//! ([PEP 376](https://peps.python.org/pep-0376/), [PEP 427](https://peps.python.org/pep-0427/)).

use std::{collections::HashSet, fmt, io::Read};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use rocwheel_base::{
    digest::Sha256,
    error::{Context as _, Result, anyhow, bail, ensure},
    relpath::RelPath,
};

/// The rows of RECORD in their order. No path occurs twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record(Vec<RecordRow>);

/// The row of one file. The row of RECORD itself has neither hash nor size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRow {
    /// Where the file is in the wheel; once it is installed, relative to `site-packages`.
    pub path: RelPath,
    /// The SHA-256; `None` if the row has none.
    pub digest: Option<Sha256>,
    /// The size; `None` if the row has none.
    pub len: Option<u64>,
}

impl RecordRow {
    /// What differs between a file and its row; `None` if nothing.
    pub fn mismatch(&self, digest: Sha256, len: u64) -> Option<String> {
        match (self.digest, self.len) {
            (_, Some(expected)) if expected != len => {
                Some(format!("has {len} bytes, but {expected} in RECORD"))
            }
            (Some(expected), _) if expected != digest => {
                Some(format!("has SHA-256 {digest}, but {expected} in RECORD"))
            }
            (None, _) => Some("has no hash in RECORD".to_owned()),
            (Some(_), _) => None,
        }
    }

    fn parse(row: &csv::StringRecord) -> Result<Self> {
        let [path, hash, len] = row.iter().collect::<Vec<_>>()[..] else {
            bail!("three columns expected, not {}", row.len());
        };
        let digest = parse_hash(hash)?;
        let size = || {
            let is_number = len.bytes().all(|byte| byte.is_ascii_digit());
            let size = len.parse().ok().filter(|_| is_number);
            size.with_context(|| format!("not a size: {len:?}"))
        };
        Ok(Self { path: path.parse()?, digest, len: (!len.is_empty()).then(size).transpose()? })
    }
}

/// The digest in the second column of RECORD: `sha256=47DEQpj8…`. `None` for an empty one.
pub fn parse_hash(hash: &str) -> Result<Option<Sha256>> {
    match hash.strip_prefix("sha256=") {
        Some(digest) => Ok(Some(decode_sha256(digest)?)),
        None if hash.is_empty() => Ok(None),
        None => bail!("not a `sha256=` hash: {hash:?}"),
    }
}

impl Record {
    /// Adds a file with its hash and size. RECORD itself has neither: a file cannot contain its own
    /// hash. The caller must not add a path twice.
    pub fn push(&mut self, path: RelPath, content: Option<(Sha256, u64)>) {
        let (digest, len) = content.unzip();
        self.0.push(RecordRow { path, digest, len });
    }

    /// The rows in the order of the file.
    pub fn rows(&self) -> &[RecordRow] {
        &self.0
    }

    /// Reads the bytes of RECORD. Fails if a path is none in a wheel, or a hash is no SHA-256 although
    /// the row has one.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            // The CSV reader drops a byte order mark at the beginning, but a path may begin with
            // the same character. With an empty line before it, the character is kept.
            .from_reader(b"\n".chain(bytes));
        let mut rows = Vec::new();
        let mut seen = HashSet::new();
        for (index, row) in reader.records().enumerate() {
            let parsed = row
                .map_err(|_| anyhow!("not CSV in UTF-8"))
                .and_then(|fields| RecordRow::parse(&fields))
                .and_then(|row| {
                    ensure!(seen.insert(row.path.clone()), "a second row for `{}`", row.path);
                    Ok(row)
                });
            rows.push(parsed.with_context(|| format!("row {} of RECORD", index + 1))?);
        }
        Ok(Self(rows))
    }
}

/// Writes the file: CSV with quotes only where they are needed, and LF.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut writer = csv::WriterBuilder::new()
            .terminator(csv::Terminator::Any(b'\n'))
            .from_writer(Vec::new());
        for row in &self.0 {
            let hash =
                row.digest.map(|it| format!("sha256={}", URL_SAFE_NO_PAD.encode(it.bytes())));
            let written = writer.serialize((row.path.as_str(), hash, row.len));
            written.map_err(|_| fmt::Error)?;
        }
        let bytes = writer.into_inner().map_err(|_| fmt::Error)?;
        f.write_str(str::from_utf8(&bytes).map_err(|_| fmt::Error)?)
    }
}

/// Decodes a SHA-256 in the form of RECORD: base64 with the URL-safe alphabet, without padding.
fn decode_sha256(text: &str) -> Result<Sha256> {
    let bytes = URL_SAFE_NO_PAD
        .decode(text)
        .ok()
        .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
        .with_context(|| format!("not the URL-safe base64 of 32 bytes: {text:?}"))?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> RelPath {
        text.parse().unwrap()
    }

    #[expect(clippy::unnecessary_wraps, reason = "`push` takes it like this")]
    fn content(text: &str) -> Option<(Sha256, u64)> {
        Some((Sha256::of(text.as_bytes()), text.len() as u64))
    }

    #[test]
    fn odd_names_are_quoted_and_read_back() {
        let mut record = Record::default();
        for name in ["a/plain.so", "a/b,c", "a/\"q\"", "a/two\nlines", "a/é b", "a/cr\r"] {
            record.push(path(name), content(name));
        }
        record.push(path("x-1.dist-info/RECORD"), None);
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
        assert_eq!(Record::parse(record.to_string().as_bytes()).unwrap(), record);
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
            .map(|bytes| format!("{:#}", Record::parse(bytes).unwrap_err()))
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
        record.push(path("a"), content("x"));
        record.push(path("RECORD"), None);
        let [row, own] = record.rows() else { panic!("two rows") };
        assert_eq!(row.mismatch(Sha256::of(b"x"), 1), None);
        let messages = [
            row.mismatch(Sha256::of(b"x"), 2),
            row.mismatch(Sha256::of(b"y"), 1),
            own.mismatch(Sha256::of(b"x"), 1),
        ]
        .map(Option::unwrap);
        insta::assert_snapshot!(messages.join("\n"), @"
        has 2 bytes, but 1 in RECORD
        has SHA-256 a1fce4363854ff888cff4b8e7875d600c2682390412a8cf79b37d0b11148b0fa, but 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 in RECORD
        has no hash in RECORD
        ");
    }

    #[test]
    fn a_text_that_is_no_digest_is_refused_in_words() {
        let nothing = URL_SAFE_NO_PAD.encode(Sha256::of(b"").bytes());
        let refused = [
            String::new(),
            nothing[1..].to_owned(),
            format!("{nothing}="),
            format!("{nothing}A"),
            nothing.replace('-', "+"),
            nothing.replace("SuFU", "SuFV"),
            "é".to_owned(),
        ];
        let messages: Vec<String> =
            refused.iter().map(|text| decode_sha256(text).unwrap_err().to_string()).collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        not the URL-safe base64 of 32 bytes: ""
        not the URL-safe base64 of 32 bytes: "7DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
        not the URL-safe base64 of 32 bytes: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="
        not the URL-safe base64 of 32 bytes: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFUA"
        not the URL-safe base64 of 32 bytes: "47DEQpj8HBSa+_TImW+5JCeuQeRkm5NMpJWZG3hSuFU"
        not the URL-safe base64 of 32 bytes: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFV"
        not the URL-safe base64 of 32 bytes: "é"
        "#);
    }

    proptest! {
        #[test]
        fn every_record_reads_back(names in proptest::collection::hash_set("[^/\\\\\0.]{1,12}", 0..8)) {
            let mut record = Record::default();
            for name in names {
                record.push(path(&name), content(&name));
            }
            prop_assert_eq!(Record::parse(record.to_string().as_bytes()).unwrap(), record);
        }

        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Record::parse(&bytes);
        }
    }
}
