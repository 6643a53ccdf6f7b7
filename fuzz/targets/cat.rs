//! A Common Access Token of any bytes, and one with any claims that a key of the server signed.
//!
//! Checks that nothing panics; that no token is accepted that was not signed; that a token with claims for one folder allows nothing outside it,
//! whatever other claims it has; and that text with a genuine token loses the token's signature, and keeps everything else.

#![no_main]

use std::net::IpAddr;
use std::sync::OnceLock;

use fullbore_fuzz::choices::Choices;
use libfuzzer_sys::fuzz_target;
use token::{
    CatFault, CatGrant, CatRequest, CatScope, CatSettings, KeyRing, Verified, has_cat_form,
    without_own_signatures, without_signatures,
};

const NOW: u64 = 1_790_000_000;

/// What the key of the seeds signs: the claims of an issuer who is not careful.
const SECRET: &str = "seed:0101010101010101010101010101010101010101010101010101010101010101\n";

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let path = choices.some(64).to_vec();
    let request = CatRequest {
        method: if choices.byte() % 2 == 0 { "GET" } else { "HEAD" },
        is_tls: choices.byte() % 2 == 0,
        host: b"tv.example:8443",
        paths: [&path, &path],
        query: b"a=1",
        client: IpAddr::from([192, 0, 2, choices.byte()]),
        now_unix_seconds: NOW,
    };
    let text = choices.rest();
    // The secret is new in each run, so a good signature would be a forged one.
    assert!(drawn().check_cat(text, &request).is_err(), "forged");
    check_seeded(text, &request);
    check_issued(&path, &request);
    check_redacted(text);
});

/// Checks a token that the key `SECRET` may have signed: those in `seeds/cat` are.
fn check_seeded(text: &[u8], request: &CatRequest<'_>) {
    let mut verified = Verified::default();
    let first = seeded().check_cat_again(&mut verified, text, request);
    assert_eq!(first, seeded().check_cat_again(&mut verified, text, request), "again");
    if matches!(first, Ok(()) | Err(CatFault::NotAllowed(_) | CatFault::Expired | CatFault::NotYet))
    {
        assert!(has_cat_form(text), "it is found in a URL");
        let redacted = without_signatures(text);
        let is_cut = text.starts_with(redacted.strip_suffix(b"-").unwrap_or(text));
        assert!(redacted.len() < text.len() && is_cut, "it is redacted in a log");
    }
}

fn check_issued(path: &[u8], request: &CatRequest<'_>) {
    let grant = CatGrant {
        scope: CatScope::Folder("films/a"),
        issued_unix_seconds: NOW,
        expires_unix_seconds: NOW + 1,
        not_before_unix_seconds: None,
        networks: &[],
        methods: &[],
        issuer: None,
    };
    let (token, _) = drawn().sign_cat(&grant).expect("it signs");
    let is_within = path.starts_with(b"films/a/");
    assert_eq!(drawn().check_cat(token.as_bytes(), request).is_ok(), is_within, "{path:?}");
}

fn check_redacted(text: &[u8]) {
    let redacted = without_signatures(text);
    assert!(redacted.len() <= text.len());
    assert_eq!(without_signatures(&redacted), redacted, "nothing is left to take out");
    let _ = without_own_signatures(text);
}

fn seeded() -> &'static KeyRing {
    static KEYS: OnceLock<KeyRing> = OnceLock::new();
    KEYS.get_or_init(|| {
        KeyRing::none().with_cats_of(SECRET, &CatSettings::default()).expect("a key file")
    })
}

fn drawn() -> &'static KeyRing {
    static KEYS: OnceLock<KeyRing> = OnceLock::new();
    KEYS.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let made = folder.path().join("made");
        token::make_key_file(&made).expect("a key can be made");
        let text = std::fs::read_to_string(&made).expect("just made");
        KeyRing::none().with_cats_of(&text, &CatSettings::default()).expect("a key file")
    })
}
