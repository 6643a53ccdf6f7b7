//! Keys as OpenSSL writes them, ours of Ed25519: DER in blocks of base64 (RFC 7468, RFC 8410).

use std::fmt::Write;

use zeroize::Zeroizing;

use crate::key::{Key, PUBLIC_KEY_BYTES};

/// The bytes before the key in a SubjectPublicKeyInfo of Ed25519 (RFC 8410, section 4). The key's 32 bytes end it.
pub(crate) const PUBLIC_DER: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";
const PUBLIC: &str = "PUBLIC KEY";
const PRIVATE: &str = "PRIVATE KEY";

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The label of the block that begins with `line`, if one does.
pub(crate) fn label(line: &str) -> Option<&str> {
    line.strip_prefix(BEGIN)?.strip_suffix(DASHES)
}

/// The content of a block.
pub(crate) struct Block {
    /// It is a public key, and not a private one.
    pub(crate) is_public: bool,
    pub(crate) der: Zeroizing<Vec<u8>>,
}

/// Parses the block of this `label`, whose remaining lines come from `lines`; the error describes a valid block.
pub(crate) fn read<'t>(
    label: &str,
    lines: impl Iterator<Item = &'t str>,
) -> Result<Key, &'static str> {
    let Block { is_public, der } = read_block(label, lines)?;
    let key = if is_public { public(&der) } else { Key::private(&der) };
    key.ok_or("a block holds a key of Ed25519, as `openssl genpkey -algorithm ed25519` writes it")
}

/// As [`read`], for a key of any kind.
pub(crate) fn read_block<'t>(
    label: &str,
    lines: impl Iterator<Item = &'t str>,
) -> Result<Block, &'static str> {
    if label != PUBLIC && label != PRIVATE {
        return Err("a block is a PUBLIC KEY or a PRIVATE KEY");
    }
    let mut body = Zeroizing::new(String::with_capacity(512));
    let mut is_whole = false;
    for line in lines {
        if let Some(rest) = line.strip_prefix(END) {
            is_whole = rest.strip_suffix(DASHES) == Some(label);
            break;
        }
        body.push_str(line);
    }
    if !is_whole {
        return Err("this block has no end");
    }
    let der = decode(&body).ok_or("a block holds base64")?;
    Ok(Block { is_public: label == PUBLIC, der })
}

fn public(der: &[u8]) -> Option<Key> {
    let bytes: [u8; PUBLIC_KEY_BYTES] = der.strip_prefix(&PUBLIC_DER)?.try_into().ok()?;
    Key::public(bytes)
}

/// The block of a public key.
pub(crate) fn write_public(key: &[u8; PUBLIC_KEY_BYTES]) -> String {
    block(PUBLIC, &[&PUBLIC_DER[..], key].concat()).to_string()
}

/// The block of a private key.
pub(crate) fn write_private(pkcs8: &[u8]) -> Zeroizing<String> {
    block(PRIVATE, pkcs8)
}

/// Not more than 48 bytes, so that one line is enough (RFC 7468, section 2: 64 digits).
fn block(label: &str, der: &[u8]) -> Zeroizing<String> {
    // With capacity for all of it: a string that grows leaves copies of its content behind.
    let mut text = Zeroizing::new(String::with_capacity(256));
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{BEGIN}{label}{DASHES}");
    for three in der.chunks(3) {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit <= three.len() {
                char::from(ALPHABET[index as usize])
            } else {
                '='
            });
        }
    }
    let _ = writeln!(text, "\n{END}{label}{DASHES}");
    text
}

/// Base64 with its padding (RFC 4648, section 4); `None` for anything else.
fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let digits = text.trim_end_matches('=');
    if text.len() % 4 != 0 || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len() / 4 * 3));
    for four in digits.as_bytes().chunks(4) {
        let mut bits: u32 = 0;
        for digit in four {
            let value = ALPHABET.iter().position(|known| known == digit)?;
            bits = bits << 6 | u32::try_from(value).ok()?;
        }
        // 2, 3 or 4 digits give 1, 2 or 3 bytes.
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `openssl pkey -pubout` of the private key that is 32 bytes of 1.
    const BLOCK: &str = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEAiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=\n\
        -----END PUBLIC KEY-----\n";

    fn read_block(text: &str) -> Result<Key, &'static str> {
        let mut lines = text.lines();
        let label = label(lines.next().unwrap()).ok_or("no block")?;
        read(label, lines)
    }

    #[test]
    fn what_openssl_writes_is_read_and_written_alike() {
        let key = read_block(BLOCK).unwrap();
        assert!(!key.is_secret());
        assert_eq!(key.id, "34750f98bd59fcfc");
        assert_eq!(write_public(key.public_half().unwrap()), BLOCK);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for (from, to) in [
            ("MCow", "MCox"),
            ("PUBLIC KEY-----\nM", "CERTIFICATE-----\nM"),
            ("BEGIN PUBLIC", "BEGIN PRIVATE"),
            ("END PUBLIC", "END PRIVATE"),
            ("END", "ENDE"),
            ("b1w=", "b1w"),
            ("b1w=", "b1=="),
            ("b1w=", "b1w=b1w="),
            ("MCow", "MC w"),
        ] {
            let text = BLOCK.replacen(from, to, 1);
            assert_ne!(text, BLOCK);
            assert!(read_block(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(**decode(text).unwrap(), *bytes.as_bytes());
            assert!(block("X", bytes.as_bytes()).contains(&format!("\n{text}\n")));
        }
        for bad in ["Z", "Zg", "Zg=", "Z===", "Zg==Zg==", "Zm8=x", "Z-8="] {
            assert!(decode(bad).is_none(), "{bad}");
        }
    }
}
