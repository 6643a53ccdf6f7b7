//! The session, which a viewer's player sends back with each steering request: it is signed, in the steering address.
//!
//! A gateway stores nothing about viewers. Everything it needs for the next answer is in the address that the manifest names:
//! `VERSION.VIEWER.NODES.SIGNATURE.TITLE`, where
//! * VERSION is 1;
//! * VIEWER is a random number, 16 hex digits, which spreads moves over time; it is not derived from the viewer's address;
//! * NODES are the pathways of the manifest, separated by `_`: to the player, all others are clones;
//! * SIGNATURE is HMAC-SHA256 (RFC 2104) of the rest, truncated to 128 bits, 32 hex digits;
//! * TITLE is the title's path, in last position because it may have any character.
//!
//! The signature keeps strangers from having invented titles and pathways looked up and logged. It does not protect a secret, and it does not
//! expire: the token in the addresses of segments does.

use std::fmt::{self, Write};

use aws_lc_rs::hmac;
use catalog::TitlePath;
use data_encoding::HEXLOWER;
use fleet_protocol::Name;

/// Most nodes in a manifest.
pub const NODES_MAX: usize = 3;

/// Longest session that is parsed: more than the longest title that a file system can hold.
const TEXT_BYTES_MAX: usize = 6 << 10;

const VERSION: &str = "1";

/// Prefix of the signed text, so that no signature is valid in another context.
const CONTEXT: &str = "fullbore-session-1\n";

/// Bytes of a signature. A forger gets one answer per guess, and only learns what /api/v1/route tells any viewer.
const SIGNATURE_BYTES: usize = 16;

/// A viewer who plays a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewerSession {
    /// Random, and the same for as long as the viewer plays.
    pub viewer: u64,
    /// The pathways of the viewer's manifest, preferred one first: 1 to [`NODES_MAX`].
    pub nodes: Vec<Name>,
    /// The title that is playing.
    pub title: TitlePath,
}

/// Signs sessions. All servers behind one address need the same key.
pub struct SessionKey(hmac::Key);

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

impl SessionKey {
    /// Derives the key from a secret: the fleet's signing key on gateways, a node's own key on nodes. The secret cannot be recovered from it.
    pub fn derive(secret: &[u8]) -> Self {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let own = hmac::sign(&secret, b"fullbore session key 1");
        Self(hmac::Key::new(hmac::HMAC_SHA256, own.as_ref()))
    }
}

/// The result of parsing a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadSession {
    /// The signature is valid.
    Signed(ViewerSession),
    /// The signature is invalid: it is from another key, or invented.
    Unsigned(ViewerSession),
    /// It is not a session.
    Unreadable,
}

impl ViewerSession {
    /// Its text. Only the title needs quoting, and the caller percent-encodes that with the rest.
    pub fn seal(&self, key: &SessionKey) -> String {
        let signature = HEXLOWER.encode(&signature(&key.0, &self.signed_part()));
        let nodes = self.nodes.iter().map(Name::as_str).collect::<Vec<_>>().join("_");
        format!("{VERSION}.{:016x}.{nodes}.{signature}.{}", self.viewer, self.title)
    }

    /// Parses the output of [`seal`](Self::seal), or any other text.
    pub fn open(text: &str, key: &SessionKey) -> ReadSession {
        let Some((session, signature)) = Self::parse(text) else { return ReadSession::Unreadable };
        let tag = hmac::sign(&key.0, session.signed_part().as_bytes());
        let is_right = aws_lc_rs::constant_time::verify_slices_are_equal(
            &tag.as_ref()[..SIGNATURE_BYTES],
            &signature,
        );
        match is_right {
            Ok(()) => ReadSession::Signed(session),
            Err(_) => ReadSession::Unsigned(session),
        }
    }

    /// A session and its signature, which has not been verified yet.
    fn parse(text: &str) -> Option<(Self, [u8; SIGNATURE_BYTES])> {
        let mut parts = text.splitn(5, '.');
        let (version, viewer, nodes) = (parts.next()?, parts.next()?, parts.next()?);
        let (signature, title) = (parts.next()?, parts.next()?);
        if text.len() > TEXT_BYTES_MAX || version != VERSION {
            return None;
        }
        let nodes: Vec<Name> = nodes
            .split('_')
            .take(NODES_MAX + 1)
            .map(|name| name.parse().ok())
            .collect::<Option<_>>()?;
        let is_twice = |nth: usize| nodes[..nth].contains(&nodes[nth]);
        if nodes.len() > NODES_MAX || (0..nodes.len()).any(is_twice) {
            return None;
        }
        let viewer = u64::from_be_bytes(from_hex(viewer)?);
        let session = Self { viewer, nodes, title: TitlePath::new(title).ok()? };
        Some((session, from_hex(signature)?))
    }

    /// Neither names nor the number have a line feed, so no two sessions have the same text.
    fn signed_part(&self) -> String {
        let mut text = format!("{CONTEXT}{:016x}\n", self.viewer);
        for node in &self.nodes {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{node}");
        }
        text + "\n" + self.title.as_str()
    }
}

fn signature(key: &hmac::Key, text: &str) -> Vec<u8> {
    hmac::sign(key, text.as_bytes()).as_ref()[..SIGNATURE_BYTES].to_vec()
}

/// Accepts lower-case digits only, so that each session has only one text.
fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn session(title: &str, nodes: &[&str]) -> ViewerSession {
        let nodes = nodes.iter().map(|name| name.parse().expect("a name")).collect();
        ViewerSession { viewer: 7, nodes, title: TitlePath::new(title).expect("a title") }
    }

    fn key() -> SessionKey {
        SessionKey::derive(b"secret")
    }

    #[test]
    fn what_is_sealed_opens() {
        for title in ["a", "films/A film, 50% off.final", "ä/ö \u{1f3ac}", "1.2.3.4.5"] {
            let session = session(title, &["node-a", "b", "c"]);
            let text = session.seal(&key());
            assert_eq!(ViewerSession::open(&text, &key()), ReadSession::Signed(session), "{text}");
        }
    }

    #[test]
    fn the_form_is_the_one_that_is_documented() {
        let text = session("films/a.b", &["node-a", "node-b"]).seal(&key());
        let parts: Vec<_> = text.splitn(5, '.').collect();
        assert_eq!(parts[..3], ["1", "0000000000000007", "node-a_node-b"]);
        assert_eq!((parts[3].len(), parts[4]), (32, "films/a.b"));
    }

    #[test]
    fn another_key_and_any_change_are_noticed() {
        let text = session("films/a", &["node-a", "node-b"]).seal(&key());
        let other = SessionKey::derive(b"other");
        assert!(matches!(ViewerSession::open(&text, &other), ReadSession::Unsigned(_)));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'b' { b'c' } else { b'b' };
            let changed = String::from_utf8(bytes).expect("text");
            let read = ViewerSession::open(&changed, &key());
            assert!(!matches!(read, ReadSession::Signed(_)), "{changed}");
        }
    }

    #[test]
    fn what_is_not_a_session_is_unreadable() {
        let tag = "0".repeat(32);
        for bad in [
            String::new(),
            "....".into(),
            format!("2.0000000000000007.a.{tag}.t"),
            format!("1.7.a.{tag}.t"),
            format!("1.000000000000000G.a.{tag}.t"),
            format!("1.0000000000000007..{tag}.t"),
            format!("1.0000000000000007.A.{tag}.t"),
            format!("1.0000000000000007.a_a.{tag}.t"),
            format!("1.0000000000000007.a_b_c_d.{tag}.t"),
            format!("1.0000000000000007.a.{tag}0.t"),
            format!("1.0000000000000007.a.{tag}."),
            format!("1.0000000000000007.a.{tag}.../x"),
            format!("1.0000000000000007.a.{tag}.{}", "t/".repeat(4000) + "t"),
            format!("1.0000000000000007.{}.{tag}.t", "a_".repeat(3000)),
        ] {
            let read = ViewerSession::open(&bad, &key());
            assert_eq!(read, ReadSession::Unreadable, "{}", &bad[..bad.len().min(90)]);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(1\\.[0-9a-f]{16}\\.)?.{0,80}") {
            prop_assert!(!matches!(ViewerSession::open(&text, &key()), ReadSession::Signed(_)));
        }
    }
}
