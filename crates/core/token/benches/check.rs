//! The cost of a token: nanoseconds to make one, to check one as a connection's first request does, and to check it again as later
//! requests do. One thread; pin it with taskset.
//!
//! Prints the median and the median absolute deviation of the rounds. `--rounds N` (default 9).

use std::hint::black_box;
use std::net::IpAddr;

use fullbore_tests::stopwatch::{argument, print};
use fullbore_token::{
    CatGrant, CatRequest, CatScope, CatSettings, Grant, KeyRing, NewPair, Verified, make_key_file,
};

const NOW: u64 = 1_790_000_000;
const PATH: &[u8] = b"films/big-buck-bunny/video/1080p.mp4";

fn main() {
    let rounds = argument("--rounds", 9);
    for (kind, keys) in [("HMAC", hmac()), ("Ed25519", ed25519())] {
        measure(kind, &keys, rounds);
    }
    let secret = format!("k:{}", "01".repeat(32));
    for (kind, text) in
        [("CAT, HMAC", &secret), ("CAT, Ed25519", &NewPair::draw().expect("a key").private)]
    {
        let keys = KeyRing::none().with_cats_of(text, &CatSettings::default());
        measure_cat(kind, &keys.expect("a key file"), rounds);
    }
}

fn measure_cat(kind: &str, keys: &KeyRing, rounds: usize) {
    let grant = CatGrant {
        scope: CatScope::Folder("films/big-buck-bunny"),
        issued_unix_seconds: NOW,
        expires_unix_seconds: NOW + 1,
        not_before_unix_seconds: None,
        networks: &[],
        methods: &[],
        issuer: None,
    };
    let (token, _) = keys.sign_cat(&grant).expect("it signs");
    let request = CatRequest {
        method: "GET",
        is_tls: true,
        host: b"tv.example",
        paths: [PATH; 2],
        query: b"",
        client: IpAddr::from([192, 0, 2, 1]),
        now_unix_seconds: NOW,
    };
    print(&format!("{kind}, check"), rounds, || {
        assert_eq!(keys.check_cat(black_box(token.as_bytes()), black_box(&request)), Ok(()));
    });
    let mut verified = Verified::default();
    print(&format!("{kind}, check again"), rounds, || {
        let text = black_box(token.as_bytes());
        assert_eq!(keys.check_cat_again(&mut verified, text, black_box(&request)), Ok(()));
    });
}

fn hmac() -> KeyRing {
    let file = std::env::temp_dir().join(format!("token-bench-{}.key", std::process::id()));
    make_key_file(&file).expect("a key can be made");
    let keys = KeyRing::read(&[&file]).expect("just made");
    let _ = std::fs::remove_file(&file);
    keys
}

fn ed25519() -> KeyRing {
    KeyRing::parse(&NewPair::draw().expect("a key can be drawn").private).expect("just drawn")
}

fn measure(kind: &str, keys: &KeyRing, rounds: usize) {
    let client = IpAddr::from([192, 0, 2, 1]);
    let prefix = b"films/big-buck-bunny";
    let grant = Grant { prefix, expires_unix_seconds: NOW + 1, client: None };
    let token = keys.sign(&grant).expect("it signs");
    let text = || black_box(token.as_bytes());
    print(&format!("{kind}, sign"), rounds, || {
        black_box(keys.sign(black_box(&grant)));
    });
    print(&format!("{kind}, check"), rounds, || {
        assert_eq!(keys.check(text(), black_box(PATH), client, NOW), Ok(()));
    });
    print(&format!("{kind}, check for another path"), rounds, || {
        assert!(keys.check(text(), black_box(b"films/another/video.mp4"), client, NOW).is_err());
    });
    let mut verified = Verified::default();
    print(&format!("{kind}, check again"), rounds, || {
        let checked = keys.check_again(&mut verified, text(), black_box(PATH), client, NOW);
        assert_eq!(checked, Ok(()));
    });
}
