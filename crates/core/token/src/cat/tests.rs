//! Whole tokens: ours, those of RFC 8392, and those of other programs.

use std::net::IpAddr;

use coset::cbor::Value;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER, HEXUPPER};
use proptest::prelude::*;

use super::claims::label;
use super::*;
use crate::{KeyRing, TokenFault, Verified, without_signatures};

const NOW: u64 = 1_790_000_000;

/// An HMAC key of 32 bytes of 1.
const SHARED: &str = "k1:0101010101010101010101010101010101010101010101010101010101010101\n";

/// A private key of Ed25519: 32 bytes of 1.
const ED25519: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB\n\
    -----END PRIVATE KEY-----\n";

fn client() -> IpAddr {
    "192.0.2.7".parse().unwrap()
}

fn ring(text: &str) -> KeyRing {
    KeyRing::none().with_cats_of(text, &CatSettings::default()).unwrap()
}

fn request(path: &str) -> CatRequest<'_> {
    CatRequest {
        method: "GET",
        is_tls: true,
        host: b"tv.example",
        paths: [path.as_bytes(); 2],
        query: b"",
        client: client(),
        now_unix_seconds: NOW,
    }
}

fn grant(scope: CatScope<'_>) -> CatGrant<'_> {
    CatGrant {
        scope,
        issued_unix_seconds: NOW,
        expires_unix_seconds: NOW + 10,
        not_before_unix_seconds: None,
        networks: &[],
        methods: &[],
        issuer: None,
    }
}

/// A token of [`SHARED`] with these claims.
fn with_claims(claims: &[(i128, Value)]) -> String {
    let entry =
        |(label, value): &(i128, Value)| (i64::try_from(*label).unwrap().into(), value.clone());
    let keys = CatKeys::parse(SHARED, &CatSettings::default()).unwrap();
    keys.sign_claims(Value::Map(claims.iter().map(entry).collect()))
}

fn check(ring: &KeyRing, token: &str, path: &str) -> Result<(), CatFault> {
    ring.check_cat(token.as_bytes(), &request(path))
}

/// A text of PEM with this DER.
fn pem(label: &str, der: &[u8]) -> String {
    let body = data_encoding::BASE64.encode(der);
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}

#[test]
fn what_is_issued_is_accepted_for_what_it_is_for() {
    let networks = ["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
    let methods = ["GET".to_owned(), "HEAD".to_owned()];
    for keys in [SHARED, ED25519] {
        let ring = ring(keys);
        let issue = |grant: &CatGrant<'_>| ring.sign_cat(grant).unwrap().0;
        let folder = issue(&grant(CatScope::Folder("films/a%20b")));
        assert_eq!(check(&ring, &folder, "films/a b/x.m4s"), Ok(()));
        let not_allowed = |claim| Err(CatFault::NotAllowed(claim));
        for path in ["films/a b", "films/a bc/x", "films/x", ""] {
            assert_eq!(check(&ring, &folder, path), not_allowed("catu"), "{path}");
        }
        let file = issue(&grant(CatScope::File("films/a.mp4")));
        assert_eq!(check(&ring, &file, "films/a.mp4"), Ok(()));
        assert_eq!(check(&ring, &file, "films/a.mp4/x"), not_allowed("catu"));
        let narrow = issue(&CatGrant {
            not_before_unix_seconds: Some(NOW),
            networks: &networks,
            methods: &methods,
            issuer: Some("me"),
            ..grant(CatScope::All)
        });
        let at = |change: fn(&mut CatRequest<'_>)| {
            let mut request = request("any/thing");
            change(&mut request);
            ring.check_cat(narrow.as_bytes(), &request)
        };
        assert_eq!(at(|_| {}), Ok(()));
        assert_eq!(at(|request| request.method = "HEAD"), Ok(()));
        assert_eq!(at(|request| request.method = "POST"), not_allowed("catm"));
        assert_eq!(at(|request| request.client = "::ffff:192.0.2.9".parse().unwrap()), Ok(()));
        assert_eq!(at(|request| request.client = "2001:db8::1".parse().unwrap()), Ok(()));
        let from = |request: &mut CatRequest<'_>| request.client = "192.0.3.1".parse().unwrap();
        assert_eq!(at(from), not_allowed("catnip"));
        assert_eq!(at(|request| request.now_unix_seconds = NOW - 1), Err(CatFault::NotYet));
        assert_eq!(at(|request| request.now_unix_seconds = NOW + 10), Err(CatFault::Expired));
    }
}

#[test]
fn no_character_of_a_token_can_be_changed() {
    // With another key of the same algorithm, a token needs its key's id, which is not signed.
    let second = crate::NewPair::draw().unwrap();
    let other = SHARED.replace("k1:01", "k2:02");
    for (keys, other) in [(SHARED, &*other), (ED25519, &*second.private)] {
        let ring = ring(&format!("{keys}{other}"));
        let token = ring.sign_cat(&grant(CatScope::Folder("a"))).unwrap().0.into_bytes();
        for index in 0..token.len() {
            let mut changed = token.clone();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            let checked = ring.check_cat(&changed, &request("a/b"));
            assert!(checked.is_err(), "{index}: {}", String::from_utf8_lossy(&changed));
        }
        assert!(ring.check_cat(&token[..token.len() - 1], &request("a/b")).is_err());
        assert!(ring.check_cat(&[&token[..], b"AAAA"].concat(), &request("a/b")).is_err());
    }
}

#[test]
fn the_example_of_rfc_8392_is_genuine() {
    // Appendices A.2.3 and A.3: its key, and a token signed with it. A.4 has a shorter MAC, which is refused.
    let point = "04143329cce7868e416927599cf65a34f3ce2ffda55a7eca69ed8919a394d42f0f\
        60f7f1a780d8a783bfb7a2dd6b2796e8128dbbcef9d3d168db9529971a36e7b9";
    let der = "3059301306072a8648ce3d020106082a8648ce3d030107034200".to_owned() + point;
    let pem = pem("PUBLIC KEY", &HEXLOWER.decode(der.as_bytes()).unwrap());
    let keys = format!("kid AsymmetricECDSA256\n{pem}");
    let token = "d28443a10126a104524173796d6d657472696345434453413235365850a701756\
        36f61703a2f2f61732e6578616d706c652e636f6d02656572696b77037818636f\
        61703a2f2f6c696768742e6578616d706c652e636f6d041a5612aeb0051a5610d\
        9f0061a5610d9f007420b7158405427c1ff28d23fbad1f29c4c7c6a555e601d6f\
        a29f9179bc3d7438bacaca5acd08c8d4d4f96131680c429a01f85951ecee743a5\
        2b9b63632c57209120e1c9e30";
    let bytes = HEXLOWER.decode(token.as_bytes()).unwrap();
    let audiences = ["coap://light.example.com".to_owned()];
    let issuers = ["coap://as.example.com".to_owned()];
    let settings = CatSettings { keys: &[], issuers: &issuers, audiences: &audiences };
    let ours = KeyRing::none().with_cats_of(&keys, &settings).unwrap();
    let at = |ring: &KeyRing, bytes: &[u8], now_unix_seconds| {
        let request = CatRequest { now_unix_seconds, ..request("x") };
        ring.check_cat(BASE64URL_NOPAD.encode(bytes).as_bytes(), &request)
    };
    assert_eq!(at(&ours, &bytes, 1_443_944_944), Ok(()));
    assert_eq!(at(&ours, &bytes, 1_443_944_943), Err(CatFault::NotYet));
    assert_eq!(at(&ours, &bytes, 1_444_064_944), Err(CatFault::Expired));
    assert_eq!(at(&ours, &bytes[1..], 1_443_944_944), Ok(()), "without the tag of COSE_Sign1");
    let tagged = [&[0xd8, 61][..], &bytes].concat();
    assert_eq!(at(&ours, &tagged, 1_443_944_944), Ok(()), "with the tag of a CBOR Web Token");
    let as_mac = [&[0xd1][..], &bytes[1..]].concat();
    assert!(matches!(at(&ours, &as_mac, 1_443_944_944), Err(CatFault::Malformed(_))));
    assert_eq!(at(&ring(&keys), &bytes, 1_443_944_944), Err(CatFault::NotAllowed("aud")));
    let other = CatSettings { issuers: &audiences, ..settings };
    let other = KeyRing::none().with_cats_of(&keys, &other).unwrap();
    assert_eq!(at(&other, &bytes, 1_443_944_944), Err(CatFault::NotAllowed("iss")));
}

#[test]
fn a_claim_that_cannot_be_kept_refuses_a_genuine_token() {
    let ring = ring(SHARED);
    let (zero, text) = (Value::from(0), Value::from("x"));
    for (claim, is_fine) in [
        ((label::SUBJECT, text.clone()), true),
        ((label::TOKEN_ID, Value::Bytes(vec![1])), true),
        ((label::ISSUED_AT, Value::from(NOW + 5)), true),
        ((label::REPLAY, zero.clone()), true),
        ((label::REPLAY, 1.into()), false),
        ((label::REPLAY, 2.into()), false),
        ((label::VERSION, 1.into()), true),
        ((label::VERSION, 2.into()), false),
        ((8, Value::Map(vec![])), false),
        ((309, Value::Array(vec![])), false),
        ((314, Value::Array(vec![])), false),
        ((316, Value::Array(vec!["SE".into()])), false),
        ((323, Value::Map(vec![(0.into(), 2.into())])), false),
        ((999, zero.clone()), false),
        ((-65_600, zero.clone()), false),
        ((label::NETWORKS, Value::Array(vec![64_496.into()])), false),
    ] {
        let token = with_claims(&[(label::EXPIRES, Value::from(NOW + 1)), claim.clone()]);
        let checked = check(&ring, &token, "a");
        match is_fine {
            true => assert_eq!(checked, Ok(()), "{claim:?}"),
            false => assert!(matches!(checked, Err(CatFault::Unsupported(_))), "{claim:?}"),
        }
    }
    let forged = with_claims(&[(323, zero)]).replace("2D3R", "0Q");
    assert!(matches!(check(&ring, &forged, "a"), Err(CatFault::Malformed(_))));
}

#[test]
fn a_date_may_have_a_fraction_and_a_token_none() {
    let ring = ring(SHARED);
    for (claims, expected) in [
        (vec![], Ok(())),
        (vec![(label::EXPIRES, Value::from(NOW as f64 + 0.5))], Err(CatFault::Expired)),
        (vec![(label::EXPIRES, Value::from(NOW as f64 + 1.5))], Ok(())),
        (vec![(label::NOT_BEFORE, Value::from(NOW as f64 + 0.5))], Err(CatFault::NotYet)),
        (vec![(label::EXPIRES, Value::from(-1))], Err(CatFault::Expired)),
        (vec![(label::NOT_BEFORE, Value::from(-1))], Ok(())),
    ] {
        assert_eq!(check(&ring, &with_claims(&claims), "a"), expected, "{claims:?}");
    }
    for wrong in [Value::from(f64::NAN), "soon".into(), Value::Null] {
        let checked = check(&ring, &with_claims(&[(label::EXPIRES, wrong.clone())]), "a");
        assert!(matches!(checked, Err(CatFault::Malformed(_))), "{wrong:?}");
    }
    let twice = [(label::EXPIRES, Value::from(1)), (label::EXPIRES, Value::from(NOW + 9))];
    assert!(matches!(check(&ring, &with_claims(&twice), "a"), Err(CatFault::Malformed(_))));
}

#[test]
fn a_key_is_found_by_its_id_and_is_for_one_algorithm() {
    let (shared, pair) = (ring(SHARED), ring(ED25519));
    let token = shared.sign_cat(&grant(CatScope::All)).unwrap().0;
    assert_eq!(check(&pair, &token, "a"), Err(CatFault::UnknownKey));
    let renamed = ring(&format!("kid k1\n{ED25519}"));
    assert_eq!(check(&renamed, &token, "a"), Err(CatFault::Forged), "a pair is no secret");
    let (_, secret) = SHARED.split_once(':').unwrap();
    assert_eq!(
        check(&ring(&SHARED.replace("k1", "kidney")), &token, "a"),
        Err(CatFault::UnknownKey)
    );
    let by_name = ring(&format!("kid hex:6b31\n{secret}"));
    assert_eq!(check(&by_name, &token, "a"), Ok(()));
    let both = ring(&format!("{ED25519}{SHARED}"));
    assert_eq!(check(&both, &token, "a"), Ok(()));
    let (_, signer) = both.sign_cat(&grant(CatScope::All)).unwrap();
    assert_eq!(signer, "34750f98bd59fcfc", "the first one signs, with the id of our own tokens");
    assert!(!KeyRing::none().takes_cats() && both.takes_cats());
    assert_eq!(check(&KeyRing::none(), &token, "a"), Err(CatFault::UnknownKey));
}

#[test]
fn without_an_id_the_only_key_of_the_algorithm_counts() {
    let protected = Value::Bytes(HEXLOWER.decode(b"a10105").unwrap());
    let payload = Value::Bytes(vec![0xa0]);
    let mut covered = Vec::new();
    let parts = ["MAC0".into(), protected.clone(), Value::Bytes(vec![]), payload.clone()];
    coset::cbor::into_writer(&Value::Array(parts.into()), &mut covered).unwrap();
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &[1; 32]);
    let tag = Value::Bytes(aws_lc_rs::hmac::sign(&key, &covered).as_ref().to_vec());
    let mut token = Vec::new();
    let parts = [protected, Value::Map(vec![]), payload, tag];
    coset::cbor::into_writer(&Value::Array(parts.into()), &mut token).unwrap();
    let token = BASE64URL_NOPAD.encode(&token);
    assert_eq!(check(&ring(SHARED), &token, "a"), Ok(()));
    assert_eq!(check(&ring(&format!("{ED25519}{SHARED}")), &token, "a"), Ok(()));
    let two = format!("{SHARED}{}", SHARED.replace("k1", "k2"));
    assert_eq!(check(&ring(&two), &token, "a"), Err(CatFault::UnknownKey));
}

#[test]
fn what_the_headers_of_cose_may_not_have() {
    let ring = ring(SHARED);
    // The algorithm is 5 and the key k1; then claims, a critical parameter, another algorithm, and another key id.
    for (protected, unprotected, is_known) in [
        ("a10105", "a104426b31", true),
        ("a2010504426b31", "a104426b31", true),
        ("a10105", "a204426b310fa0", false),
        ("a201050fa10401", "a104426b31", false),
        ("a201050281182a", "a104426b31", false),
        ("a10105", "a204426b310126", false),
        ("a2010504426b32", "a104426b31", false),
        ("a10104", "a104426b31", false),
    ] {
        let head = format!("84{:02x}{protected}{unprotected}41a05820", 0x40 + protected.len() / 2);
        let token = HEXLOWER.decode((head + &"00".repeat(32)).as_bytes()).unwrap();
        let fault = check(&ring, &BASE64URL_NOPAD.encode(&token), "a").unwrap_err();
        match is_known {
            true => assert_eq!(fault, CatFault::Forged),
            false => assert!(matches!(fault, CatFault::Malformed(_)), "{fault}"),
        }
    }
}

#[test]
fn what_is_no_key_file_is_refused_in_words() {
    let parse = |text: &str| match KeyRing::none().with_cats_of(text, &CatSettings::default()) {
        Ok(_) => panic!("{text}"),
        Err(fault) => fault.to_string(),
    };
    let nameless = "3059301306072a8648ce3d020106082a8648ce3d030107034200\
        04143329cce7868e416927599cf65a34f3ce2ffda55a7eca69ed8919a394d42f0f\
        60f7f1a780d8a783bfb7a2dd6b2796e8128dbbcef9d3d168db9529971a36e7b9";
    let nameless = pem("PUBLIC KEY", &HEXLOWER.decode(nameless.as_bytes()).unwrap());
    for (text, told) in [
        (String::new(), "holds no key"),
        (nameless, "kid NAME"),
        ("kid \n".to_owned(), "1 to 128 bytes"),
        (format!("kid hex:6b3\n{SHARED}"), "hex:DIGITS"),
        (format!("kid a\n{SHARED}"), "hex digits"),
        (format!("{SHARED}kid a\n"), "comes its key"),
        (format!("kid a\nkid b\n{SHARED}"), "comes its key"),
        (SHARED.repeat(2), "k1 is there twice"),
        (SHARED.replace("01\n", "\n"), "64 to 128"),
        (pem("PUBLIC KEY", &[1; 40]), "Ed25519 or P-256"),
        (pem("CERTIFICATE", &[1; 40]), "PUBLIC KEY"),
    ] {
        let said = parse(&text);
        assert!(said.contains(told) && !said.contains("010101"), "{text}: {said}");
    }
    assert_eq!(
        format!(
            "{:?}",
            CatKeys::parse(SHARED, &CatSettings::default())
                .unwrap()
                .sign(&grant(CatScope::All))
                .unwrap()
                .1
        ),
        "\"k1\""
    );
}

#[test]
fn a_genuine_token_is_verified_once_and_compared_with_each_request() {
    let (ring, other) = (ring(SHARED), ring(ED25519));
    let token = ring.sign_cat(&grant(CatScope::Folder("a"))).unwrap().0;
    let mut verified = Verified::default();
    let mut check = |ring: &KeyRing, path: &str, now_unix_seconds| {
        let request = CatRequest { now_unix_seconds, ..request(path) };
        ring.check_cat_again(&mut verified, token.as_bytes(), &request)
    };
    for _ in 0..2 {
        assert_eq!(check(&ring, "a/b", NOW), Ok(()));
        assert_eq!(check(&ring, "b", NOW), Err(CatFault::NotAllowed("catu")));
        assert_eq!(check(&ring, "a/b", NOW + 10), Err(CatFault::Expired));
    }
    assert_eq!(check(&other, "a/b", NOW), Err(CatFault::UnknownKey), "the key was removed");
}

#[test]
fn a_truncated_file_of_own_keys_is_noticed_next_to_keys_of_these_tokens() {
    let own = KeyRing::parse(SHARED).unwrap();
    let with_both = own.with_cats_of(SHARED, &CatSettings::default()).unwrap();
    let without_own = ring(SHARED);
    assert!(!without_own.is_empty() && without_own.has_lost_keys(&with_both));
    assert!(!without_own.has_lost_keys(&without_own) && !with_both.has_lost_keys(&with_both));
    assert!(!with_both.has_lost_keys(&without_own), "the first keys have come");
}

/// A token without what comes after its claims.
fn claims_of(token: &str) -> &str {
    let claims_end = cose::claims_end(token.as_bytes()).unwrap();
    &token[..(claims_end * 4).div_ceil(3)]
}

#[test]
fn tokens_in_text_lose_their_signatures() {
    let bare = |token: &str| {
        let bytes = BASE64URL_NOPAD.decode(token.as_bytes()).unwrap();
        BASE64URL_NOPAD.encode(&bytes[3..])
    };
    let encoded = |text: &str| {
        text.bytes().map(|byte| format!("%{}", HEXUPPER.encode(&[byte]))).collect::<String>()
    };
    for keys in [SHARED, ED25519] {
        let token = ring(keys).sign_cat(&grant(CatScope::Folder("films"))).unwrap().0;
        for token in [token.clone(), bare(&token)] {
            let kept = claims_of(&token);
            assert!(token.len() - kept.len() >= 43, "32 bytes of a signature are left out");
            let shown = format!("{kept}-");
            for around in [
                "/t/TOKEN/films/a.m4s?CAT=TOKEN&x",
                "/page?src=%2ft%2fTOKEN%2Ffilms%252FTOKEN%252f",
                "CTA-Common-Access-Token=TOKEN; a=b",
                "see \"TOKEN\".",
            ] {
                let redacted =
                    without_signatures(around.replace("TOKEN", &token).as_bytes()).into_owned();
                let expected = around.replace("TOKEN", &shown);
                assert_eq!(String::from_utf8(redacted).unwrap(), expected);
            }
            let whole = format!("/t/{}/x", encoded(&token));
            let redacted = without_signatures(whole.as_bytes()).into_owned();
            let expected = format!("/t/{}-/x", encoded(kept));
            assert_eq!(String::from_utf8(redacted).unwrap(), expected);
            for around in ["/t/TOKEN", "?u=x_TOKEN", "see_2D3RTOKEN", "?u=hEOhTOKEN/x"] {
                let cut = &token[..token.len() - 3];
                for shown_as in [format!("{token}films"), format!("{token}_small"), cut.into()] {
                    let redacted =
                        without_signatures(around.replace("TOKEN", &shown_as).as_bytes())
                            .into_owned();
                    let expected = around.replace("TOKEN", &shown);
                    assert_eq!(String::from_utf8(redacted).unwrap(), expected, "{shown_as}");
                }
            }
            assert_eq!(*without_signatures(kept.as_bytes()), *kept.as_bytes(), "nothing is left");
        }
    }
    // HMAC 256/64: eight bytes.
    let short =
        BASE64URL_NOPAD.encode(&HEXLOWER.decode(b"d18443a10104a041a0480102030405060708").unwrap());
    let redacted = without_signatures(short.as_bytes()).into_owned();
    assert_eq!(String::from_utf8(redacted).unwrap(), format!("{}-", &short[..12]));
    for name in ["0".repeat(100), "2D3R".repeat(30), "hEOhAQWg".repeat(20), "2".repeat(5000)] {
        assert_eq!(*without_signatures(name.as_bytes()), *name.as_bytes(), "a file's name");
    }
}

#[test]
fn places_of_tokens_are_read() {
    assert_eq!(cat_in_query(b"a=1&CAT=x&CAT=y"), Some(&b"x"[..]));
    assert_eq!(cat_in_query(b"cat=x&CATS=x&XCAT=y&CAT"), None);
    let cookie = b"a=b; cta-common-access-token=x=; c";
    assert_eq!(cat_in_cookie(cookie), Some(&b"x="[..]));
    assert_eq!(cat_in_cookie(b"CTA-Common-Access-Tokens=x; y"), None);
    assert!(is_cat(b"abc") && !is_cat(b"") && !is_cat(b"1.2.3.4"));
}

#[test]
fn deep_and_long_texts_are_refused() {
    let ring = ring(SHARED);
    let nested = [&[0x81; 3000][..], &[0]].concat();
    let headers = [&[0x84, 0x43, 0xa1, 0x01, 0x05, 0xa1, 0x07][..], &[0x81; 1000]].concat();
    let long = [0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let bytes = [0x5b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    for bytes in [&nested[..], &headers, &long, &bytes, &[0; 4000]] {
        let text = BASE64URL_NOPAD.encode(bytes);
        let fault = check(&ring, &text, "a").unwrap_err();
        assert_eq!(TokenFault::from(fault), TokenFault::Malformed);
    }
}

proptest! {
    #[test]
    fn any_claims_are_checked_without_a_panic(bytes: Vec<u8>, text in "[a-zA-Z0-9_-]{0,200}") {
        let keys = CatKeys::parse(SHARED, &CatSettings::default()).unwrap();
        let _ = Claims::parse(&bytes);
        prop_assert!(keys.open(text.as_bytes()).is_err());
        let _ = without_signatures(&bytes);
    }
}
