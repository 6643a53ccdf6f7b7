//! The external account that an authority requires for a new account (external account binding, RFC 8555 section 7.3.4).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use instant_acme::ExternalAccountKey;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Such a key has 32 to 64 bytes, in base64.
const KEY_FILE_BYTES_MAX: u32 = 4 << 10;

/// The external account, and the file of its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeExternalAccount {
    /// The ID of its key at the authority.
    pub key_id: String,
    /// A file with the key (HMAC), in base64 as authorities show it.
    pub key_file: PathBuf,
}

/// Reads the key in `file`.
///
/// # Errors
/// If it cannot be read, or is not a key.
pub fn read_key(file: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let text = Zeroizing::new(files::read(file, KEY_FILE_BYTES_MAX)?);
    decoded(&text).filter(|key| !key.is_empty()).ok_or_else(|| {
        let why = "it must contain only the key, in base64 as the authority shows it";
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// Authorities show keys in base64url; some tools convert them to plain base64, or pad them.
fn decoded(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let digits = text.trim_ascii().iter().map(|byte| match byte {
        b'+' => b'-',
        b'/' => b'_',
        other => *other,
    });
    let digits: Zeroizing<Vec<u8>> = Zeroizing::new(digits.collect());
    let end = digits.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    URL_SAFE_NO_PAD.decode(&digits[..end]).ok().map(Zeroizing::new)
}

impl AcmeExternalAccount {
    pub(crate) fn key(&self) -> io::Result<ExternalAccountKey> {
        Ok(ExternalAccountKey::new(self.key_id.clone(), &read_key(&self.key_file)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_in_either_alphabet_and_with_or_without_padding() {
        let key = [0xfb, 0xff, 0x00, 0x01];
        for text in ["-_8AAQ", "+/8AAQ==", "-_8AAQ==\n", "  +/8AAQ \n"] {
            let read = decoded(text.as_bytes());
            assert_eq!(read.as_ref().map(|read| &read[..]), Some(&key[..]), "{text}");
        }
        for wrong in ["key: -_8AAQ", "-_8A AQ", "a"] {
            assert!(decoded(wrong.as_bytes()).is_none(), "{wrong}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = read_key(file.path()).unwrap_err();
        assert!(error.to_string().contains("base64"), "{error}");
    }
}
