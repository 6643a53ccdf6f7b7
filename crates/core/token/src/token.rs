//! The text of a token, and the content of its signature.
//!
//! A token is `EXPIRY.SIGNATURE.KEY.DEPTH`, with a `c` after DEPTH if it is for one address only:
//! * EXPIRY: seconds since 1970, decimal; from then on the token allows nothing.
//! * SIGNATURE, in lower-case hex digits, in one of two forms that their lengths distinguish: HMAC-SHA256 (RFC 2104) has 64 digits; Ed25519
//!   (RFC 8032) has 136, which are the signature and the first 4 bytes of the SHA-256 of the signed text.
//! * KEY: the id of the key.
//! * DEPTH: how many leading segments of the requested path are the signed prefix, decimal; 0 is the whole library.
//!
//! The signature covers `fullbore-url-1` (HMAC) or `fullbore-url-2` (Ed25519), EXPIRY, the address (empty for any address) and the prefix,
//! with a line feed between them. None of them can contain a line feed, and the prefix comes last, so no two grants have the same text. DEPTH
//! and KEY need no signature: another depth means another prefix, and another key makes another signature.

use std::fmt::Write;
use std::net::IpAddr;

use data_encoding::HEXLOWER;

/// Bytes of a signature of HMAC-SHA256.
pub(crate) const HMAC_BYTES: usize = 32;

/// Bytes of a signature of Ed25519.
pub(crate) const ED25519_BYTES: usize = 64;

/// Bytes after a signature of Ed25519 that reveal another path without verification.
pub(crate) const CHECK_BYTES: usize = 4;

/// Digits of an expiry: enough for 30,000 years, and few enough not to overflow.
const EXPIRY_DIGITS_MAX: usize = 12;

/// Digits of a depth: enough for more segments than the kernel accepts in a path (PATH_MAX is 4096 bytes).
const DEPTH_DIGITS_MAX: usize = 4;

/// Bytes of a key's id.
pub(crate) const KEY_ID_BYTES_MAX: usize = 32;

/// The access that a token gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant<'a> {
    /// The path of a file, or of a folder with everything below it, as the server opens it: decoded, without a slash at either end. Empty for
    /// the whole library.
    pub prefix: &'a [u8],
    /// The time when it ends, in seconds since 1970.
    pub expires_unix_seconds: u64,
    /// The only address that may use it; none for any address.
    pub client: Option<IpAddr>,
}

impl Grant<'_> {
    /// The number of segments of the prefix.
    pub(crate) fn depth(&self) -> usize {
        if self.prefix.is_empty() { 0 } else { self.prefix.split(|byte| *byte == b'/').count() }
    }

    /// The text to sign.
    pub(crate) fn message(&self, form: Form) -> Vec<u8> {
        let mut text = format!("{}\n{}\n", form.name(), self.expires_unix_seconds);
        if let Some(client) = self.client {
            // A listener for both IP versions sees 192.0.2.1 as `::ffff:192.0.2.1`. Writing to a String cannot fail.
            let _ = write!(text, "{}", client.to_canonical());
        }
        text.push('\n');
        let mut message = text.into_bytes();
        message.extend_from_slice(self.prefix);
        message
    }
}

/// The two forms of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Hmac,
    Ed25519,
}

impl Form {
    /// The first line of the signed text, so that a signature of one form is invalid in the other.
    fn name(self) -> &'static str {
        match self {
            Self::Hmac => "fullbore-url-1",
            Self::Ed25519 => "fullbore-url-2",
        }
    }
}

/// A token's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signature {
    /// HMAC-SHA256.
    Hmac([u8; HMAC_BYTES]),
    /// Ed25519, and the beginning of the SHA-256 of what is signed.
    Ed25519([u8; ED25519_BYTES + CHECK_BYTES]),
}

impl Signature {
    fn parse(hex: &str) -> Option<Self> {
        // Lower-case digits only, so that a signature has one text.
        let bytes = HEXLOWER.decode(hex.as_bytes()).ok()?;
        match bytes.len() {
            HMAC_BYTES => bytes.try_into().map(Self::Hmac).ok(),
            _ => bytes.try_into().map(Self::Ed25519).ok(),
        }
    }
}

impl AsRef<[u8]> for Signature {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Hmac(bytes) => bytes,
            Self::Ed25519(bytes) => bytes,
        }
    }
}

/// A parsed token. Nothing in it has been verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'t> {
    /// When it claims to expire, in seconds since 1970.
    pub expires_unix_seconds: u64,
    /// Its signature.
    pub signature: Signature,
    /// The id of the key that it claims to be signed with.
    pub key_id: &'t str,
    /// How many leading segments of the path were signed.
    pub depth: usize,
    /// It is for one address only.
    pub is_bound: bool,
}

impl<'t> Token<'t> {
    /// Parses `text`. There is exactly one text for each token: anything else is `None`.
    pub fn parse(text: &'t [u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(text).ok()?.split('.');
        let (expiry, signature, key_id, depth) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let (depth, is_bound) = match depth.strip_suffix('c') {
            Some(depth) => (depth, true),
            None => (depth, false),
        };
        if parts.next().is_some() || !is_key_id(key_id) {
            return None;
        }
        Some(Self {
            expires_unix_seconds: decimal(expiry, EXPIRY_DIGITS_MAX)?,
            signature: Signature::parse(signature)?,
            key_id,
            depth: usize::try_from(decimal(depth, DEPTH_DIGITS_MAX)?).ok()?,
            is_bound,
        })
    }

    /// The leading segments of `path` that the token claims to cover; `None` if the path has fewer.
    pub fn prefix<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        leading(path, self.depth)
    }
}

/// The `depth` leading segments of `path`; `None` if it has fewer.
pub(crate) fn leading(path: &[u8], depth: usize) -> Option<&[u8]> {
    let Some(last) = depth.checked_sub(1) else { return Some(&[]) };
    let slashes = (0..path.len()).filter(|index| path[*index] == b'/');
    let end = slashes.chain([path.len()]).nth(last)?;
    if path.is_empty() { None } else { Some(&path[..end]) }
}

/// The text of a token.
pub(crate) fn text(grant: &Grant<'_>, key_id: &str, signature: &Signature) -> String {
    let bound = if grant.client.is_some() { "c" } else { "" };
    let (expiry, depth) = (grant.expires_unix_seconds, grant.depth());
    format!("{expiry}.{}.{key_id}.{depth}{bound}", HEXLOWER.encode(signature.as_ref()))
}

/// Whether `text` can be a key's id: short, safe in a URL, and without the dots that separate a token's parts.
pub(crate) fn is_key_id(text: &str) -> bool {
    (1..=KEY_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_of_key_id)
}

/// Whether a key's id may have this character.
pub(crate) fn is_of_key_id(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Parses a number without sign or leading zeros.
fn decimal(text: &str, digits_max: usize) -> Option<u64> {
    let plain = text == "0" || !text.starts_with('0');
    let digits = (1..=digits_max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if plain && digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zeros() -> String {
        "00".repeat(HMAC_BYTES)
    }

    #[test]
    fn a_token_has_exactly_one_text() {
        let good = format!("1790000000.{}.k-1_A.2c", zeros());
        let token = Token::parse(good.as_bytes()).unwrap();
        assert_eq!(
            (token.expires_unix_seconds, token.depth, token.is_bound),
            (1_790_000_000, 2, true)
        );
        assert_eq!(token.key_id, "k-1_A");
        let z = zeros();
        for bad in [
            String::new(),
            "...".into(),
            format!("01.{z}.k.2"),
            format!("+1.{z}.k.2"),
            format!("1.{z}.k.02"),
            format!("1.{z}.k.c"),
            format!("1.{z}.k.2C"),
            format!("1.{z}.k.2cc"),
            format!("1.{z}.k.2.3"),
            format!("1.{z}..2"),
            format!("1.{z}.k/.2"),
            format!("1.{z}.{}.2", "k".repeat(33)),
            format!("1.{}.k.2", "0".repeat(63)),
            format!("1.{}.k.2", "0".repeat(66)),
            format!("1.{}.k.2", "0".repeat(128)),
            format!("1.{}.k.2", "0".repeat(138)),
            format!("1.{}.k.2", "A0".repeat(32)),
            format!("1234567890123.{z}.k.2"),
            format!("1.{z}.k.99999"),
            format!("1.{z}.k.\u{661}"),
        ] {
            assert_eq!(Token::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(Token::parse(b"\xff"), None);
    }

    #[test]
    fn a_prefix_ends_where_a_segment_does() {
        let of_depth = |depth: usize, path: &'static str| {
            let text = format!("1.{}.k.{depth}", zeros());
            let prefix = Token::parse(text.as_bytes()).unwrap().prefix(path.as_bytes());
            prefix.map(|prefix| std::str::from_utf8(prefix).unwrap())
        };
        assert_eq!(of_depth(0, "a/b/c"), Some(""));
        assert_eq!(of_depth(1, "a/b/c"), Some("a"));
        assert_eq!(of_depth(2, "a/b/c"), Some("a/b"));
        assert_eq!(of_depth(3, "a/b/c"), Some("a/b/c"));
        assert_eq!(of_depth(4, "a/b/c"), None);
        assert_eq!(of_depth(0, ""), Some(""));
        assert_eq!(of_depth(1, ""), None);
    }

    #[test]
    fn an_address_is_signed_as_the_one_that_it_is() {
        let message = |client: &str| {
            let client = Some(client.parse().unwrap());
            Grant { prefix: b"a", expires_unix_seconds: 7, client }.message(Form::Hmac)
        };
        assert_eq!(message("::ffff:192.0.2.1"), message("192.0.2.1"));
        assert_eq!(message("2001:DB8:0::1"), b"fullbore-url-1\n7\n2001:db8::1\na");
        assert_ne!(message("192.0.2.1"), message("::192.0.2.1"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            expiry in 0..10u64.pow(12), prefix in "(x{1,3}(/y{1,3}){0,5})?", bound: bool, hmac: [u8; 32], is_hmac: bool
        ) {
            let mut long = [0; ED25519_BYTES + CHECK_BYTES];
            long[..HMAC_BYTES].copy_from_slice(&hmac);
            let signature = if is_hmac { Signature::Hmac(hmac) } else { Signature::Ed25519(long) };
            let client = bound.then_some(IpAddr::from([192, 0, 2, 1]));
            let grant = Grant { prefix: prefix.as_bytes(), expires_unix_seconds: expiry, client };
            let text = text(&grant, "key", &signature);
            let token = Token::parse(text.as_bytes()).unwrap();
            prop_assert_eq!(&token, &Token {
                expires_unix_seconds: expiry, signature, key_id: "key", depth: grant.depth(), is_bound: bound,
            });
            prop_assert_eq!(token.prefix(prefix.as_bytes()), Some(prefix.as_bytes()));
        }
    }
}
