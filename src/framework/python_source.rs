//! [`PythonSource`]: a file of Python, whose first lines may name another encoding than UTF-8
//! ([PEP 263](https://peps.python.org/pep-0263/)).

use rocwheel_base::error::{Result, bail};

/// The text of a file of Python. **Contract:** if `text` is only added to, and only by ASCII, then what `encoding`
/// makes of it has the old bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PythonSource {
    pub text: String,
    pub encoding: SourceEncoding,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SourceEncoding {
    #[default]
    Utf8,
    /// One byte for each character, as in Latin-1, and ASCII below 128. Which characters the upper half stands for is
    /// never asked: each byte is read as the character with its number.
    SingleByte,
}

/// The beginnings of the names of encodings with one byte for each character, in lower case with `-` for `_`.
const SINGLE_BYTE: [&str; 10] = [
    "latin",
    "l1",
    "iso-8859-",
    "iso8859-",
    "iso-latin-",
    "cp125",
    "windows-125",
    "koi8-",
    "cp437",
    "cp850",
];

impl PythonSource {
    pub(super) fn decode(bytes: Vec<u8>) -> Result<Self> {
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { text, encoding: SourceEncoding::Utf8 }),
            Err(error) => Self::decode_other(error.as_bytes()),
        }
    }

    /// Decodes a source that is not UTF-8. Python refuses such a source, too, if it does not name its encoding.
    fn decode_other(bytes: &[u8]) -> Result<Self> {
        let text: String = bytes.iter().copied().map(char::from).collect();
        let Some(name) = named_encoding(&text) else {
            bail!("it is not UTF-8, and no coding line names its encoding");
        };
        if !SINGLE_BYTE.iter().any(|start| name.starts_with(start)) {
            bail!("it is in the encoding `{name}`: only UTF-8 and encodings like Latin-1 are read");
        }
        Ok(Self { text, encoding: SourceEncoding::SingleByte })
    }
}

impl SourceEncoding {
    /// The bytes of a text that was decoded with this encoding, and to which only ASCII was added.
    pub(super) fn encode(self, text: &str) -> Vec<u8> {
        match self {
            Self::Utf8 => text.as_bytes().to_vec(),
            // No character is above 255: see the contract of `PythonSource`.
            Self::SingleByte => text.chars().map(|it| u8::try_from(it).unwrap_or(b'?')).collect(),
        }
    }
}

/// The encoding that a comment in one of the first two lines names: `# -*- coding: latin-1 -*-`. The second line
/// counts only if the first line is a comment or empty.
fn named_encoding(text: &str) -> Option<String> {
    for line in text.lines().take(2) {
        let code = line.trim_start_matches([' ', '\t', '\u{c}']);
        if !code.is_empty() && !code.starts_with('#') {
            return None;
        }
        let mut names = code.match_indices("coding").filter_map(|(at, word)| {
            let value = code[at + word.len()..].strip_prefix([':', '='])?;
            let name = value.trim_start_matches([' ', '\t']);
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let end = name.find(|c| !is_of_name(c)).unwrap_or(name.len());
            (end > 0).then(|| name[..end].to_ascii_lowercase().replace('_', "-"))
        });
        if let Some(name) = names.next() {
            return Some(name);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_comes_back() {
        let all_upper: Vec<u8> = (0x80..=0xff).collect();
        for line in
            ["# -*- coding: latin-1 -*-", "#!/usr/bin/python\n# vim: set fileencoding=cp1252 :"]
        {
            let bytes = [line.as_bytes(), b"\n# ", &all_upper].concat();
            let source = PythonSource::decode(bytes.clone()).unwrap();
            assert_eq!(source.encoding, SourceEncoding::SingleByte);
            assert_eq!(source.encoding.encode(&source.text), bytes);
        }
        let utf8 = PythonSource::decode("# coding: latin-1\n# é".into()).unwrap();
        assert_eq!(utf8.encoding.encode(&utf8.text), "# coding: latin-1\n# é".as_bytes());
    }

    #[test]
    fn what_python_refuses_or_reads_otherwise_is_refused() {
        let sources: [&[u8]; 4] = [
            b"# \xe9\n",
            b"import os\n# coding: latin-1\n# \xe9\n",
            b"\n\n# coding: latin-1\n# \xe9\n",
            b"# coding: shift_jis\n# \xe9\n",
        ];
        let messages = sources.map(|it| PythonSource::decode(it.to_vec()).unwrap_err().to_string());
        insta::assert_snapshot!(messages.join("\n"), @"
        it is not UTF-8, and no coding line names its encoding
        it is not UTF-8, and no coding line names its encoding
        it is not UTF-8, and no coding line names its encoding
        it is in the encoding `shift-jis`: only UTF-8 and encodings like Latin-1 are read
        ");
    }
}
