//! Tests of the gate (`token_gate.rs`).

use super::*;
use fullbore_http::{Parse, RequestLimits};
use token::Grant;

const NOW: u64 = 1_790_000_000;
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn keys() -> Arc<KeyRing> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url.key");
    token::make_key_file(&file).unwrap();
    Arc::new(KeyRing::read(&[file]).unwrap())
}

fn gate(required: &[&str]) -> Gate {
    let required: Vec<String> = required.iter().map(|path| (*path).into()).collect();
    Gate::new(keys(), &required, true)
}

fn token(gate: &Gate, prefix: &str) -> String {
    let prefix = prefix.as_bytes();
    let grant = Grant { prefix, expires_unix_seconds: NOW + 1, client: None };
    gate.keys.borrow().sign(&grant).expect("it signs")
}

fn request(target: &str) -> Request {
    let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
    let parsed = fullbore_http::parse(head.as_bytes(), &RequestLimits::default()).unwrap();
    let Parse::Complete { request, .. } = parsed else { panic!("{head:?}") };
    request
}

/// The path that is allowed, or why it is not.
fn admit(gate: &Gate, target: &str) -> Result<String, TokenFault> {
    gate.admit(&request(target), CLIENT, NOW, &mut Verified::default()).map(|resource| {
        match &*resource {
            Resource::File(path) => String::from_utf8(path.as_bytes().to_vec()).unwrap(),
            other => format!("{other:?}"),
        }
    })
}

#[test]
fn a_token_in_front_or_in_the_query_is_taken_off() {
    let gate = gate(&["/"]);
    let token = token(&gate, "films/a");
    let good = Ok("films/a/b.m4s".to_owned());
    assert_eq!(admit(&gate, &format!("/t/{token}/films/a/b.m4s")), good);
    assert_eq!(admit(&gate, &format!("/t/{token}/films/a/b.m4s?CMCD=br%3D1")), good);
    assert_eq!(admit(&gate, &format!("/films/a/b.m4s?token={token}")), good);
    assert_eq!(admit(&gate, &format!("/films/a/b.m4s?CMCD=su&token={token}&x")), good);
    assert_eq!(admit(&gate, &format!("/%74/{token}/f%69lms/a/b%2Em4s")), good);
}

#[test]
fn until_there_is_a_key_tokens_are_taken_off_and_not_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.pem");
    std::fs::write(&file, "").unwrap();
    let (gate, signing) = (gate(&["/"]), gate(&["/"]));
    gate.renew(Arc::new(KeyRing::read_perhaps_empty(&[file]).unwrap()));
    let token = token(&signing, "films/a");
    let (good, plain) = (format!("/t/{token}/films/a/b.m4s"), "/films/a/b.m4s");
    for target in [good.as_str(), plain, &format!("{plain}?token={token}")] {
        assert_eq!(admit(&gate, target), Ok("films/a/b.m4s".to_owned()), "{target}");
    }
    assert_eq!(admit(&gate, "/t/films/a"), Ok("t/films/a".to_owned()), "a folder of that name");
    assert_eq!(gate.without_token(&good.as_bytes()[1..]), b"films/a/b.m4s");
    assert_eq!(gate.without_token(b"t/films/a"), b"t/films/a");
    // With the key, only a real token counts.
    gate.renew(Arc::clone(&signing.keys.borrow()));
    assert_eq!(admit(&gate, &good), Ok("films/a/b.m4s".to_owned()));
    assert_eq!(admit(&gate, plain), Err(TokenFault::Missing));
}

#[test]
fn without_one_there_is_nothing() {
    let gate = gate(&["/"]);
    for target in ["/films/a", "/t/films", "/t", "/films/a?t=x", "/films/a?Token=x"] {
        assert_eq!(admit(&gate, target), Err(TokenFault::Missing), "{target}");
    }
    for target in ["/t/films/a", "/films/a?token=", "/t/../a", "/films/a?token=x"] {
        let expected = if target == "/t/../a" {
            Ok("Refused(DotSegment)".into())
        } else {
            Err(TokenFault::Malformed)
        };
        assert_eq!(admit(&gate, target), expected, "{target}");
    }
}

#[test]
fn a_path_cannot_climb_out_of_its_prefix() {
    let gate = gate(&["/"]);
    let token = token(&gate, "films/a");
    for path in ["films/a/../b", "films/a/%2e%2e/b", "films/a/./b", "films/a//../b", "films/a%2fb"]
    {
        let admitted = admit(&gate, &format!("/t/{token}/{path}"));
        assert!(
            admitted.as_ref().is_ok_and(|path| path.starts_with("Refused")),
            "{path}: {admitted:?}"
        );
    }
    for path in ["films/ab", "films/b", "films", "films/A/b", "films%2fa", "films//b", "/films/b"] {
        let admitted = admit(&gate, &format!("/t/{token}/{path}"));
        let refused = admitted.as_ref().is_ok_and(|path| path.starts_with("Refused"));
        assert!(refused || admitted == Err(TokenFault::Wrong), "{path}: {admitted:?}");
    }
}

#[test]
fn a_token_does_not_open_what_is_the_servers() {
    let gate = gate(&["/"]);
    let token = token(&gate, "");
    let admitted = admit(&gate, &format!("/t/{token}/-/status.json")).unwrap();
    assert!(admitted.starts_with("Reserved"), "{admitted}");
    let twice = admit(&gate, &format!("/t/{token}/t/{token}/a"));
    assert_eq!(twice, Ok(format!("t/{token}/a")), "one token is taken off, not two");
}

#[test]
fn the_servers_pages_are_open() {
    let gate = gate(&["/"]);
    for target in ["/", "/-/", "/-/watch/films/a", "/-/titles.json", "/films/"] {
        assert!(admit(&gate, target).is_ok(), "{target}");
    }
}

#[test]
fn a_list_names_what_the_token_allows() {
    let gate = gate(&["films"]);
    let named = |target: &str| {
        let request = request(target);
        let mut may_have = gate.may_have(&request, CLIENT, NOW);
        let paths = ["films/a", "films/ab", "films/b", "films/b/c", "open"];
        paths.into_iter().filter(|path| may_have(path.as_bytes())).collect::<Vec<_>>()
    };
    assert_eq!(named("/-/titles.json"), ["open"]);
    assert_eq!(named("/t/x/-/titles.json"), ["open"]);
    let film = token(&gate, "films/b");
    assert_eq!(named(&format!("/t/{film}/-/titles.json")), ["films/b", "films/b/c", "open"]);
    assert_eq!(named(&format!("/t/{}/-/titles.json", token(&gate, "films"))).len(), 5);
    assert_eq!(named(&format!("/t/{}/-/titles.json", token(&gate, "open"))), ["open"]);
}

#[test]
fn only_what_is_required_needs_one() {
    let gate = gate(&["/films/", "private/x.mp4"]);
    for (path, needs) in [
        ("films/a", true),
        ("films", true),
        ("films2/a", false),
        ("open/films/a", false),
        ("private/x.mp4", true),
        ("private/x.mp4x", false),
        ("private/y.mp4", false),
    ] {
        let admitted = admit(&gate, &format!("/{path}"));
        assert_eq!(admitted.is_err(), needs, "{path}: {admitted:?}");
    }
    assert_eq!(admit(&gate, "/t/anything/open/a"), Ok("open/a".into()));
}

#[test]
fn a_common_access_token_counts_in_each_of_its_places() {
    let keys = "k:0101010101010101010101010101010101010101010101010101010101010101";
    let cats = KeyRing::none().with_cats_of(keys, &Default::default()).unwrap();
    let (cat, _) = cats
        .sign_cat(&token::CatGrant {
            scope: token::CatScope::Folder("films/a"),
            issued_unix_seconds: NOW,
            expires_unix_seconds: NOW + 1,
            not_before_unix_seconds: None,
            networks: &[],
            methods: &["GET".to_owned()],
            issuer: None,
        })
        .unwrap();
    let gate = Gate::new(Arc::new(cats), &["/".to_owned()], true);
    let named = CAT_HEADER;
    let film = "/films/a/b.m4s";
    let (header, cookie) = (Some(CAT_HEADER), Some("CTA-Common-Access-Token, Cookie"));
    for (target, line, varies_by) in [
        (format!("/t/{cat}{film}"), String::new(), None),
        (format!("{film}?token={cat}"), String::new(), None),
        (format!("{film}?x&CAT={cat}&CMCD=y"), String::new(), None),
        (format!("{film}?token=a-players&CAT={cat}"), String::new(), None),
        (film.to_owned(), format!("{named}: {cat}\r\n"), header),
        (format!("{film}?token="), format!("{named}: {cat}\r\n"), header),
        (film.to_owned(), format!("Cookie: a=b; {named}={cat}\r\n"), cookie),
    ] {
        let admit = |method: &str, now| {
            let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{line}\r\n");
            let parsed = fullbore_http::parse(head.as_bytes(), &RequestLimits::default());
            let Ok(Parse::Complete { request, .. }) = parsed else { panic!("{head:?}") };
            assert_eq!(gate.varies_by(&request), varies_by, "{target} {line}");
            gate.admit(&request, CLIENT, now, &mut Verified::default()).map(|resource| {
                matches!(&*resource, Resource::File(path) if path.as_bytes() == b"films/a/b.m4s")
            })
        };
        assert_eq!(admit("GET", NOW), Ok(true), "{target} {line}");
        assert_eq!(admit("HEAD", NOW), Err(TokenFault::Wrong), "{target} {line}");
        assert_eq!(admit("GET", NOW + 1), Err(TokenFault::Expired), "{target} {line}");
    }
    let wrong = format!("/t/{cat}/films/ab");
    assert_eq!(admit(&gate, &wrong), Err(TokenFault::Wrong));
    assert_eq!(admit(&gate, film), Err(TokenFault::Missing));
    let listed = request(&format!("/t/{cat}/-/titles.json"));
    let mut may_have = gate.may_have(&listed, CLIENT, NOW);
    let paths = ["films/a/b", "films/ab", "films/a/c/d", "open"];
    let allowed = paths.map(|path| may_have(path.as_bytes()));
    assert_eq!(allowed, [true, false, true, false]);
    let mut may_list = gate.may_list(&listed, CLIENT, NOW);
    let titles = ["films/a", "films/a/b.mp4", "films/ab", "films", "open"];
    assert_eq!(titles.map(|path| may_list(path.as_bytes())), [true, true, false, false, false]);
    let own = self::gate(&["/"]);
    assert_eq!(admit(&own, &format!("{film}?CAT={cat}")), Err(TokenFault::Missing));
    assert_eq!(admit(&own, &format!("/t/{cat}{film}")), Err(TokenFault::Malformed));
}

#[test]
fn doubled_slashes_change_nothing() {
    let gate = gate(&["private"]);
    let token = token(&gate, "private/a");
    for target in ["//private/b", "/private//b", "//private//a/x", "/t//x//private/a/x"] {
        assert!(admit(&gate, target).is_err(), "{target}");
    }
    let good = Ok("private/a/x".to_owned());
    for path in ["private/a/x", "/private//a/x", "private///a//x"] {
        assert_eq!(admit(&gate, &format!("/t/{token}/{path}")), good, "{path}");
        assert_eq!(admit(&gate, &format!("//t//{token}//{path}")), good, "{path}");
        assert_eq!(admit(&gate, &format!("//{path}?token={token}")), good, "{path}");
    }
    let other = admit(&gate, &format!("/t/{token}//private//b"));
    assert_eq!(other, Err(TokenFault::Wrong), "the token is for another title");
}

#[test]
fn a_rule_and_a_token_cover_every_spelling_of_a_name() {
    let (composed, decomposed) = ("priv%C3%A9", "prive%CC%81");
    for required in ["priv\u{e9}", "prive\u{301}"] {
        let gate = gate(&[required]);
        let signed = [token(&gate, "priv\u{e9}"), token(&gate, "prive\u{301}")];
        for path in [composed, decomposed, "priv\u{e9}", "prive\u{301}"] {
            let plain = admit(&gate, &format!("/{path}/x"));
            assert_eq!(plain, Err(TokenFault::Missing), "{path}");
            let with_bytes = admit(&gate, &format!("/{path}/%ff"));
            assert_eq!(with_bytes, Err(TokenFault::Missing), "{path}");
            let admitted = admit(&gate, &format!("/t/{}/{path}/x", signed[0]));
            assert_eq!(admitted, Ok("priv\u{e9}/x".into()), "{path}");
        }
        // A signer of another make, who signed the name on a Mac's disk.
        let admitted = admit(&gate, &format!("/t/{}/{decomposed}/x", signed[1]));
        assert_eq!(admitted, Ok("priv\u{e9}/x".into()));
        let other = admit(&gate, &format!("/t/{}/prive/x", signed[0]));
        assert_eq!(other, Ok("prive/x".into()), "another name, which needs no token");
        let request = request("/-/titles.json");
        let mut may_have = gate.may_have(&request, CLIENT, NOW);
        assert!(!may_have("priv\u{e9}/x".as_bytes()) && !may_have("prive\u{301}/x".as_bytes()));
    }
}

/// Else, a list of a thousand titles from a Mac would cost two thousand signatures for each request.
#[test]
fn a_list_of_decomposed_names_costs_one_signature_for_each_form() {
    let checked = std::cell::Cell::new(0);
    let mut last_of_forms = ListedForms::default();
    for number in 0..1000 {
        let spellings = ["priv\u{e9}", "prive\u{301}"].map(|name| format!("{name}/{number}"));
        let is_signed = last_of_forms.are_signed(
            [spellings[0].as_bytes(), spellings[1].as_bytes()],
            |last, path| {
                let prefix = path.split(|byte| *byte == b'/').next().unwrap();
                last.is_signed(prefix, || {
                    checked.set(checked.get() + 1);
                    prefix == "prive\u{301}".as_bytes()
                })
            },
        );
        assert!(is_signed, "{number}");
    }
    assert_eq!(checked.get(), 2);
}
