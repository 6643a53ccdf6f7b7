//! A token of any bytes, for a path of any bytes that the request parser accepts.
//!
//! The key ring has a key of each kind. Checks that nothing panics; that a token has only one text, and its prefix is whole segments of the path;
//! that no token is accepted that was not signed for this path; and that a signed token is good for everything below its prefix and for nothing
//! else.

#![no_main]

use std::net::IpAddr;
use std::sync::OnceLock;

use fullbore_fuzz::choices::Choices;
use libfuzzer_sys::fuzz_target;
use token::{Grant, KeyRing, NewPair, Token, TokenFault, Verified};

const NOW: u64 = 1_790_000_000;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let (path, expires) = (path(choices.some(64)), NOW + choices.number() as u64 - 1000);
    let client = IpAddr::from([192, 0, 2, choices.byte() % 2]);
    let (depth, is_bound) = (usize::from(choices.byte() % 5), choices.byte() % 2 == 1);
    check_any(choices.rest(), &path, client);
    check_signed(&path, depth, expires, is_bound.then_some(client));
});

/// Makes a path as a request can have it. No segment is empty or only dots, and there are no control bytes.
fn path(bytes: &[u8]) -> Vec<u8> {
    let segments = bytes.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty());
    let harmless = segments.filter(|segment| !segment.iter().all(|byte| *byte == b'.'));
    let cleaned: Vec<Vec<u8>> = harmless
        .map(|segment| segment.iter().map(|byte| byte.max(&b' ')).copied().collect())
        .collect();
    cleaned.join(&b'/')
}

fn check_any(text: &[u8], path: &[u8], client: IpAddr) {
    if let Some(token) = Token::parse(text) {
        let bound = if token.is_bound { "c" } else { "" };
        let signature = token.signature.as_ref();
        let hex: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
        let again =
            format!("{}.{hex}.{}.{}{bound}", token.expires_unix_seconds, token.key_id, token.depth);
        assert_eq!(again.as_bytes(), text, "one token, one text");
        if let Some(prefix) = token.prefix(path) {
            assert!(is_within(path, prefix), "{path:?} is not in {prefix:?}");
        }
    }
    // The secret is new in each run, so a good signature here would be a forged one.
    assert!(keys().check(text, path, client, NOW).is_err(), "forged");
}

fn check_signed(path: &[u8], depth: usize, expires_unix_seconds: u64, client: Option<IpAddr>) {
    let segments: Vec<_> = path.split(|byte| *byte == b'/').take(depth).collect();
    let prefix = segments.join(&b'/');
    let grant = Grant { prefix: &prefix, expires_unix_seconds, client };
    for signer in [keys(), halves()] {
        check_granted(&grant, path, &signer.sign(&grant).expect("it signs"));
    }
}

/// Checks a token that was signed for `grant`, twice, and with the memory of tokens that were verified before.
fn check_granted(grant: &Grant<'_>, path: &[u8], token: &str) {
    let Grant { prefix, expires_unix_seconds, client } = *grant;
    let from = client.unwrap_or(IpAddr::from([198, 51, 100, 1]));
    let mut verified = Verified::default();
    let mut check =
        |path: &[u8]| keys().check_again(&mut verified, token.as_bytes(), path, from, NOW);
    let good = if NOW < expires_unix_seconds { Ok(()) } else { Err(TokenFault::Expired) };
    assert_eq!(check(path), good);
    assert_eq!(check(path), good, "again");
    if !prefix.is_empty() {
        let beside = [prefix, b"x"].concat();
        assert_eq!(check(&beside), Err(TokenFault::Wrong));
        let below = [prefix, b"/x"].concat();
        assert_eq!(check(&below), good);
    }
}

fn is_within(path: &[u8], prefix: &[u8]) -> bool {
    match path.strip_prefix(prefix) {
        Some(rest) => prefix.is_empty() || rest.is_empty() || rest.starts_with(b"/"),
        None => false,
    }
}

/// An HMAC key with the id that the seeds use, and the public half of [`halves`].
fn keys() -> &'static KeyRing {
    static KEYS: OnceLock<KeyRing> = OnceLock::new();
    KEYS.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let made = folder.path().join("made");
        token::make_key_file(&made).expect("a key can be made");
        let line = std::fs::read_to_string(&made).expect("just made");
        let (_, secret) = line.split_once(':').expect("ID:SECRET");
        KeyRing::parse(&format!("k1:{secret}{}", halves().public_keys())).expect("a key file")
    })
}

/// A new Ed25519 key, which can sign.
fn halves() -> &'static KeyRing {
    static HALVES: OnceLock<KeyRing> = OnceLock::new();
    HALVES.get_or_init(|| {
        let pair = NewPair::draw().expect("a key can be drawn");
        KeyRing::parse(&pair.private).expect("a key file")
    })
}
