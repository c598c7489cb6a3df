//! `Digest`: a SHA-256, in hexadecimal for pages and in base64 for RECORD.

use std::{fmt, str::FromStr};

use sha2::{Digest as _, Sha256};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Why a text is not a `Digest`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {text:?}")]
pub struct InvalidDigest {
    text: String,
    reason: &'static str,
}

impl Digest {
    /// The digest of bytes that are at hand.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from(Sha256::digest(bytes))
    }

    /// The URL-safe alphabet without padding, 43 characters.
    pub fn base64(&self) -> String {
        let mut text = String::with_capacity(43);
        for three in self.0.chunks(3) {
            let at = |place: usize| three.get(place).copied().map_or(0, u32::from);
            let bits = at(0) << 16 | at(1) << 8 | at(2);
            for place in 0..=three.len() {
                let six = bits >> (18 - 6 * place) & 63;
                text.push(char::from(ALPHABET[six as usize]));
            }
        }
        text
    }

    pub fn from_base64(text: &str) -> Result<Self, InvalidDigest> {
        let invalid = || InvalidDigest {
            text: text.to_owned(),
            reason: "not the URL-safe base64 of 32 bytes",
        };
        let mut bytes = Vec::with_capacity(33);
        for four in text.as_bytes().chunks(4) {
            let mut bits = 0_u32;
            for c in four {
                let (six, _) = (0..)
                    .zip(ALPHABET)
                    .find(|(_, own)| *own == c)
                    .ok_or_else(invalid)?;
                bits = bits << 6 | six;
            }
            bits <<= 6 * (4 - four.len());
            bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
        }
        let digest = bytes
            .first_chunk()
            .map(|bytes| Self(*bytes))
            .ok_or_else(invalid)?;
        // One spelling only: neither longer, nor with bits set where nothing is left to say.
        if digest.base64() == text {
            Ok(digest)
        } else {
            Err(invalid())
        }
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl<T: Into<[u8; 32]>> From<T> for Digest {
    fn from(bytes: T) -> Self {
        Self(bytes.into())
    }
}

/// Hexadecimal, lower case.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidDigest {
            text: text.to_owned(),
            reason: "not a SHA-256 in 64 hexadecimal digits",
        };
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect();
        let digits: [u8; 64] = digits
            .and_then(|digits| digits.try_into().ok())
            .ok_or_else(invalid)?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_digest_of_nothing_is_the_known_one() {
        let nothing = Digest::of(b"");
        insta::assert_snapshot!(nothing, @"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        insta::assert_snapshot!(nothing.base64(), @"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU");
    }

    #[test]
    fn a_text_that_is_no_digest_is_refused_in_words() {
        let nothing = Digest::of(b"").base64();
        let refused = [
            String::new(),
            nothing[1..].to_owned(),
            format!("{nothing}="),
            format!("{nothing}A"),
            nothing.replace('-', "+"),
            nothing.replace("SuFU", "SuFV"),
            "é".to_owned(),
        ];
        let mut messages: Vec<String> = refused
            .iter()
            .map(|text| Digest::from_base64(text).unwrap_err().to_string())
            .collect();
        let hex = Digest::of(b"").to_string();
        for text in [
            "",
            &hex[1..],
            &hex.replace('e', "g"),
            &format!("{hex}0"),
            "é",
        ] {
            messages.push(text.parse::<Digest>().unwrap_err().to_string());
        }
        insta::assert_snapshot!(messages.join("\n"), @r#"
        not the URL-safe base64 of 32 bytes: ""
        not the URL-safe base64 of 32 bytes: "7DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
        not the URL-safe base64 of 32 bytes: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="
        not the URL-safe base64 of 32 bytes: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFUA"
        not the URL-safe base64 of 32 bytes: "47DEQpj8HBSa+_TImW+5JCeuQeRkm5NMpJWZG3hSuFU"
        not the URL-safe base64 of 32 bytes: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFV"
        not the URL-safe base64 of 32 bytes: "é"
        not a SHA-256 in 64 hexadecimal digits: ""
        not a SHA-256 in 64 hexadecimal digits: "3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        not a SHA-256 in 64 hexadecimal digits: "g3b0c44298fc1c149afbf4c8996fb92427ag41g4649b934ca495991b7852b855"
        not a SHA-256 in 64 hexadecimal digits: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b8550"
        not a SHA-256 in 64 hexadecimal digits: "é"
        "#);
    }

    proptest! {
        #[test]
        fn both_forms_read_back(bytes: [u8; 32]) {
            let digest = Digest::from(bytes);
            prop_assert_eq!(Digest::from_base64(&digest.base64()), Ok(digest));
            prop_assert_eq!(digest.to_string().parse(), Ok(digest));
            prop_assert_eq!(digest.to_string().to_uppercase().parse(), Ok(digest));
        }

        #[test]
        fn any_text_is_a_digest_or_an_error(text in "[A-Za-z0-9_-]{41,45}") {
            if let Ok(digest) = Digest::from_base64(&text) {
                prop_assert_eq!(digest.base64(), text);
            }
        }
    }
}
