//! SHA-256 in the form of RECORD ([PEP 427](https://peps.python.org/pep-0427/)): base64 with the
//! URL-safe alphabet, without padding.

use crate::digest::Sha256;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Error of parsing a SHA-256 in base64.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the URL-safe base64 of 32 bytes: {0:?}")]
pub struct InvalidBase64(String);

/// Encodes a digest to 43 characters.
pub(super) fn encode(digest: &Sha256) -> String {
    let mut text = String::with_capacity(43);
    for three in digest.bytes().chunks(3) {
        let at = |place: usize| three.get(place).copied().map_or(0, u32::from);
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..=three.len() {
            let six = bits >> (18 - 6 * place) & 63;
            text.push(char::from(ALPHABET[six as usize]));
        }
    }
    text
}

/// Decodes text in the URL-safe alphabet. `None` if it has other characters.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(33);
    for four in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for c in four {
            let (six, _) = (0..).zip(ALPHABET).find(|(_, own)| *own == c)?;
            bits = bits << 6 | six;
        }
        bits <<= 6 * (4 - four.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len().max(1)]);
    }
    Some(bytes)
}

pub fn decode(text: &str) -> Result<Sha256, InvalidBase64> {
    let invalid = || InvalidBase64(text.to_owned());
    let digest = decode_base64(text)
        .and_then(|bytes| bytes.try_into().ok())
        .map(<Sha256 as From<[u8; 32]>>::from)
        .ok_or_else(invalid)?;
    // Accept only one spelling of each digest: a longer text, or one whose unused last bits are
    // set, would decode to the same bytes.
    if encode(&digest) == text {
        Ok(digest)
    } else {
        Err(invalid())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_digest_of_nothing_is_the_known_one() {
        insta::assert_snapshot!(encode(&Sha256::of(b"")), @"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU");
    }

    #[test]
    fn a_text_that_is_no_digest_is_refused_in_words() {
        let nothing = encode(&Sha256::of(b""));
        let refused = [
            String::new(),
            nothing[1..].to_owned(),
            format!("{nothing}="),
            format!("{nothing}A"),
            nothing.replace('-', "+"),
            nothing.replace("SuFU", "SuFV"),
            "é".to_owned(),
        ];
        let messages: Vec<String> = refused
            .iter()
            .map(|text| decode(text).unwrap_err().to_string())
            .collect();
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
        fn every_digest_reads_back(bytes: [u8; 32]) {
            let digest = Sha256::from(bytes);
            prop_assert_eq!(decode(&encode(&digest)), Ok(digest));
        }

        #[test]
        fn any_text_is_a_digest_or_an_error(text in "[A-Za-z0-9_-]{41,45}") {
            if let Ok(digest) = decode(&text) {
                prop_assert_eq!(encode(&digest), text);
            }
        }
    }
}
