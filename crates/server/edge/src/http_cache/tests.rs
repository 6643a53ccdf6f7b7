//! Each question as a table, with the section that decides.

use super::*;
use std::time::Duration;

/// Names and values of header fields.
type Lines<'a> = &'a [(&'a str, &'a str)];

const NOW: u64 = 784_111_780;
const DATE: (&str, &str) = ("Date", "Sun, 06 Nov 1994 08:49:40 GMT");
const LATER: &str = "Sun, 06 Nov 1994 08:50:40 GMT";
const DAY_BEFORE: &str = "Sat, 05 Nov 1994 08:49:40 GMT";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn how_long_a_response_is_fresh() {
    let table: &[(&str, u16, Lines, u64)] = &[
        ("4.2.1", 200, &[("Cache-Control", "max-age=5")], 5),
        ("4.2.1", 200, &[("Cache-Control", "max-age=5, s-maxage=9")], 9),
        ("4.2.1", 200, &[("Cache-Control", "MAX-AGE=\"5\"")], 5),
        ("4.2.1", 200, &[("Cache-Control", "max-age=5.5")], 0),
        ("4.2.1", 200, &[("Cache-Control", "max-age=9, max-age=5")], 5),
        ("4.2.1", 200, &[("Cache-Control", "a=\"max-age=9\"")], 0),
        ("5.2.2.4", 200, &[("Cache-Control", "no-cache, max-age=5")], 0),
        ("5.2.2.4", 200, &[("Cache-Control", "no-cache=\"a, b\", max-age=5")], 5),
        ("5.3", 200, &[("Expires", LATER), DATE], 60),
        ("5.3", 200, &[("Expires", "0"), DATE], 0),
        ("5.3", 200, &[("Expires", LATER), ("Expires", LATER), DATE], 0),
        ("5.3", 200, &[("Expires", LATER), DATE, ("Cache-Control", "max-age=0")], 0),
        ("5.3", 200, &[("Expires", LATER), ("Date", "now")], 60),
        ("5.1", 200, &[("Cache-Control", "max-age=60"), ("Age", "50, 3")], 10),
        ("5.1", 200, &[("Cache-Control", "max-age=60"), ("Age", "50;a")], 10),
        ("5.1", 200, &[("Cache-Control", "max-age=60"), ("Age", "50"), ("Age", "0")], 10),
        ("5.1", 200, &[("Cache-Control", "max-age=60"), ("Age", "-50")], 60),
        ("5.1", 200, &[("Cache-Control", "max-age=60"), ("Age", "50.0")], 60),
        ("5.1", 200, &[("Cache-Control", "max-age=60"), ("Age", "99999999999")], 0),
        ("1.2.2", 200, &[("Cache-Control", "max-age=99999999999")], 365 * 24 * 3600),
        ("4.2.2", 200, &[("Last-Modified", DAY_BEFORE), DATE], 8640),
        ("4.2.2", 404, &[("Last-Modified", DAY_BEFORE), DATE], 8640),
        ("4.2.2", 403, &[("Last-Modified", DAY_BEFORE), DATE], 0),
        ("4.2.2", 599, &[("Last-Modified", DAY_BEFORE), DATE, ("Cache-Control", "public")], 8640),
        ("4.2.2", 200, &[], 0),
        ("9213 2.1", 200, &[("CDN-Cache-Control", "max-age=9"), ("Cache-Control", "no-cache")], 9),
        ("edge-arch", 200, &[("Surrogate-Control", "max-age=9"), ("Cache-Control", "no-cache")], 9),
        ("edge-arch", 200, &[("Surrogate-Control", "max-age=9;other")], 0),
        ("9213 2.1", 200, &[("CDN-Cache-Control", "&"), ("Cache-Control", "max-age=5")], 5),
        (
            "9213 2.1",
            200,
            &[("CDN-Cache-Control", "max-age=\"9\""), ("Cache-Control", "max-age=5")],
            5,
        ),
    ];
    for (section, status, fields, fresh) in table {
        let lasts = lifetime("/a", *status, &Fields::of(fields), NOW, LifetimeRule::default());
        assert_eq!(lasts.fresh, seconds(*fresh), "section {section}: {status} {fields:?}");
    }
}

#[test]
fn how_long_a_film_is_served_while_it_is_revalidated() {
    for (cache_control, age, lasts) in [
        ("max-age=60, stale-while-revalidate=30", 0, 30),
        ("max-age=60, stale-while-revalidate=30", 60, 30),
        ("max-age=60, stale-while-revalidate=30", 80, 10),
        ("max-age=60, stale-while-revalidate=30", 100, 0),
        ("stale-while-revalidate=30", 100, 30),
        ("max-age=60", 0, 0),
        ("max-age=60, must-revalidate, stale-while-revalidate=30", 0, 0),
        ("s-maxage=60, stale-while-revalidate=30", 0, 0),
        ("no-cache, stale-while-revalidate=30", 0, 0),
    ] {
        let times = (seconds(age), seconds(0));
        let lasted = while_revalidating(cache_control, times, LifetimeRule::default());
        assert_eq!(lasted, seconds(lasts), "{cache_control}, {age} s old");
    }
}

#[test]
fn an_operators_lifetimes_hold_for_a_film_that_is_being_revalidated() {
    let rule = |fresh: Option<u64>, stale: Option<u64>| LifetimeRule {
        fresh: fresh.map(seconds),
        stale: stale.map(seconds),
        ..LifetimeRule::default()
    };
    for (rule, said, expired, lasts) in [
        (rule(None, Some(0)), "max-age=60, stale-while-revalidate=30", 0, 0),
        (rule(Some(9), Some(0)), "max-age=60, stale-while-revalidate=30", 0, 0),
        (rule(None, Some(9)), "max-age=60, stale-while-revalidate=30", 0, 10),
        (rule(Some(100), None), "max-age=60, stale-while-revalidate=30", 0, 30),
        (rule(Some(100), None), "no-cache, stale-while-revalidate=30", 5, 25),
        (rule(Some(100), None), "must-revalidate, stale-while-revalidate=30", 0, 0),
    ] {
        let lasted = while_revalidating(said, (seconds(80), seconds(expired)), rule);
        assert_eq!(lasted, seconds(lasts), "{rule:?}: {said}");
    }
}

#[test]
fn how_long_what_a_live_stream_is_made_of_is_fresh() {
    let changed = ("Last-Modified", "Sun, 06 Nov 1994 08:49:38 GMT");
    let table: &[(&str, u16, Lines, u64)] = &[
        ("/a.m3u8", 200, &[], 1000),
        ("/a.m3u8", 200, &[changed, DATE], 1000),
        ("/a.m3u8", 200, &[("Last-Modified", DAY_BEFORE), DATE], 1000),
        ("/a.mpd?b", 200, &[("Cache-Control", "max-age=5")], 5000),
        ("/a.mpd", 200, &[("Cache-Control", "no-cache")], 0),
        ("/a.mpd", 301, &[], 0),
        ("/a.m4s", 200, &[], 10_000),
        ("/a.m4s", 200, &[changed, DATE], 10_000),
        ("/a.m4s", 200, &[("Last-Modified", DAY_BEFORE), DATE], 8_640_000),
        ("/a.m4s", 404, &[], 250),
        ("/a", 410, &[], 250),
        ("/a", 404, &[("Cache-Control", "max-age=5")], 5000),
        ("/a", 200, &[("Content-Type", "application/dash+xml")], 1000),
    ];
    for (path, status, fields, fresh) in table {
        let lasts = lifetime(path, *status, &Fields::of(fields), NOW, LifetimeRule::default());
        assert_eq!(lasts.fresh, Duration::from_millis(*fresh), "{path} {status} {fields:?}");
    }
    let stale = |path: &str, fields: &[(&str, &str)]| {
        lifetime(path, 200, &Fields::of(fields), NOW, LifetimeRule::default()).if_unreachable
    };
    assert_eq!(stale("/a.m3u8", &[changed, DATE]), seconds(10));
    assert_eq!(stale("/a.m3u8", &[]), seconds(10));
    assert_eq!(stale("/a.m3u8", &[("Last-Modified", DAY_BEFORE), DATE]), seconds(24 * 3600));
    assert_eq!(stale("/a.m3u8", &[("Cache-Control", "stale-if-error=60")]), seconds(60));
    assert_eq!(stale("/a.m4s", &[]), seconds(24 * 3600));
}

#[test]
fn how_long_a_stale_response_is_used() {
    for (status, said, revalidating, unreachable, error) in [
        (200, "max-age=1", 0, 24 * 3600, 0),
        (301, "max-age=1", 0, 24 * 3600, 0),
        (404, "max-age=1", 0, 0, 0),
        (404, "max-age=1, stale-if-error=8", 0, 8, 8),
        (200, "max-age=1, stale-while-revalidate=7, stale-if-error=8", 7, 8, 8),
        (200, "max-age=1, must-revalidate, stale-if-error=8", 0, 0, 0),
        (200, "s-maxage=1, stale-while-revalidate=7", 0, 0, 0),
        (200, "proxy-revalidate", 0, 0, 0),
    ] {
        let lasts = lifetime(
            "/a",
            status,
            &Fields::of(&[("Cache-Control", said)]),
            NOW,
            LifetimeRule::default(),
        );
        let lasts = [lasts.while_revalidating, lasts.if_unreachable, lasts.if_error];
        assert_eq!(lasts, [revalidating, unreachable, error].map(seconds), "{status} {said}");
    }
}

#[test]
fn what_may_be_stored() {
    let signed = &[("Authorization", "Basic eA==")][..];
    // As an application behind CGI reads it, too.
    let with_token = &[("X_Emby_Token", "a")][..];
    // The origin may check it, where this server does not.
    let with_cat = &[("CTA-Common-Access-Token", "a")][..];
    let with_cookie = &[("Cookie", "a=b")][..];
    let table: &[(&str, Lines, u16, Lines, bool)] = &[
        ("3", &[], 200, &[], true),
        ("3", &[], 200, &[("Cache-Control", "no-store")], false),
        ("3", &[], 200, &[("Cache-Control", "private, max-age=5")], false),
        ("5.2.2.7", &[], 200, &[("Cache-Control", "private=\"a\", max-age=5")], true),
        ("3", &[("Cache-Control", "no-store")], 200, &[], false),
        ("3", &[], 201, &[], false),
        ("3", &[], 201, &[("Cache-Control", "max-age=5")], true),
        ("3.3", &[], 206, &[("Cache-Control", "max-age=5")], false),
        ("5.2.2.3", &[], 599, &[("Cache-Control", "max-age=5, must-understand")], false),
        ("5.2.2.3", &[], 200, &[("Cache-Control", "no-store, must-understand")], true),
        ("3.5", signed, 200, &[("Cache-Control", "max-age=5")], false),
        ("3.5", signed, 200, &[("Cache-Control", "public")], true),
        ("3.5", signed, 200, &[("Cache-Control", "s-maxage=5")], true),
        ("token", with_token, 200, &[("Cache-Control", "max-age=5")], false),
        ("token", with_token, 200, &[("Cache-Control", "public")], true),
        ("token", with_cat, 200, &[("Cache-Control", "max-age=5")], false),
        ("token", with_cat, 200, &[("Cache-Control", "public")], true),
        ("3.5", with_cookie, 200, &[("Cache-Control", "max-age=5")], false),
        ("3.5", with_cookie, 200, &[("Cache-Control", "public")], true),
        ("4.1", &[], 200, &[("Vary", "a, *")], false),
        ("stream", &[], 200, &[("Content-Type", "Text/Event-Stream; charset=utf-8")], false),
        ("stream", &[], 200, &[("Content-Type", "multipart/x-mixed-replace;boundary=a")], false),
        ("7.3", &[], 200, &[("Set-Cookie", "a=b")], false),
        ("7.3", &[], 200, &[("Set-Cookie", "a=b"), ("Cache-Control", "max-age=5")], false),
        ("7.3", &[], 200, &[("Set-Cookie", "a=b"), ("Cache-Control", "public")], true),
        ("5.2.2.7", &[], 200, &[("Cache-Control", "private=\"a\", max-age=5, private")], false),
        ("5.2.2.7", &[], 200, &[("Cache-Control", "private=\"\", max-age=5")], false),
        ("5.2.2.7", &[], 200, &[("Cache-Control", "private =\"a\", max-age=5")], false),
        ("misspelled", &[], 200, &[("Cache-Control", "private; max-age=5")], false),
        ("misspelled", &[], 200, &[("Cache-Control", "max-age=5; No-Store")], false),
        ("misspelled", &[], 200, &[("Cache-Control", "a=\"b, private, max-age=5")], false),
        ("misspelled", &[], 200, &[("Cache-Control", "a=\"b; private, c\", max-age=5")], true),
        (
            "7.6.1",
            &[],
            200,
            &[("Connection", "cache-control"), ("Cache-Control", "private")],
            false,
        ),
    ];
    for (section, request, status, response, expected) in table {
        let response = end_to_end(Fields::of(response));
        let allowed = may_store(&Fields::of(request), *status, &response);
        assert_eq!(allowed.is_ok(), *expected, "section {section}: {response:?}: {allowed:?}");
    }
}

#[test]
fn which_fields_are_stored() {
    let response = Fields::of(&[
        ("Connection", "a, B"),
        ("A", "1"),
        ("b", "2"),
        ("c", "3"),
        ("Transfer-Encoding", "chunked"),
        ("Cache-Control", "no-cache=\"d\", private=\"e\", private=\"f, G\""),
        ("D", "4"),
        ("E", "5"),
        ("F", "6"),
        ("g", "7"),
        ("Authentication-Info", "nextnonce=\"x\""),
        ("set-cookie", "session=1"),
    ]);
    let stored = stored_fields(&response);
    let names: Vec<_> = stored.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["c", "Cache-Control"]);
}

#[test]
fn a_request_selects_a_variant_by_what_vary_names() {
    let response = Fields::of(&[("Vary", "Foo, accept-language, Accept-Encoding")]);
    let first = Fields::of(&[("foo", "1,2"), ("Accept-Language", "en, de"), ("Bar", "1")]);
    let selecting = Selecting::of(&first, &response);
    for (fields, expected) in [
        (&[("Foo", " 1 , 2"), ("accept-language", "EN,De")][..], true),
        (&[("Foo", "1,2"), ("accept-language", "de,en")], false),
        (&[("Foo", "1"), ("Foo", "2"), ("accept-language", "en,de"), ("Bar", "2")], true),
        (&[("Foo", "2,1"), ("accept-language", "en,de")], false),
        (&[("Foo", "1,2")], false),
        (&[], false),
    ] {
        assert_eq!(selecting.matches(&Fields::of(fields)), expected, "{fields:?}");
    }
    assert!(Selecting::of(&first, &Fields::default()).is_empty());
}

/// An origin may take `tv,` for another device than `tv`.
#[test]
fn requests_that_select_the_same_response_are_sent_in_the_same_form() {
    for (name, same) in [
        ("x-device", &["tv", "tv,", " tv ", ",tv", "tv, ,"][..]),
        ("x-device", &["tv, 4k", "tv,4k", "tv ,, 4k"]),
        ("x-device", &["", ",", " , "]),
        ("user-agent", &["A (KHTML, like B)", "A (KHTML,like B)"]),
        ("accept-language", &["en;q=0.8, DE", "de,en;q=0.8"]),
    ] {
        let vary = Fields::of(&[("Vary", name)]);
        let sent: Vec<(Fields, Selecting)> = same
            .iter()
            .map(|value| {
                let mut request = Fields::of(&[("A", "1"), (name, value), ("B", "2")]);
                let before = Selecting::of(&request, &vary);
                send_as_selected(&mut request, name);
                let after = Selecting::of(&request, &vary);
                assert_eq!(before, after, "{value:?}");
                (request, after)
            })
            .collect();
        assert!(sent.iter().all(|one| *one == sent[0]), "{sent:?}");
        assert!(sent[0].0.has("A") && sent[0].0.has("B"));
    }
    let agent = "Mozilla/5.0 (X11; Linux) AppleWebKit/537.36 (KHTML, like Gecko)";
    let mut request = Fields::of(&[("User-Agent", agent)]);
    send_as_selected(&mut request, "user-agent");
    assert_eq!(request, Fields::of(&[("user-agent", agent)]));
    send_as_selected(&mut request, "x-none");
    assert!(!request.has("x-none"));
    let mut lines = Fields::of(&[("X-A", "1"), ("x-a", "2")]);
    send_as_selected(&mut lines, "x-a");
    assert_eq!(lines, Fields::of(&[("x-a", "1, 2")]));
}

#[test]
fn the_order_of_languages_is_that_of_their_weights() {
    let response = Fields::of(&[("Vary", "Accept-Language")]);
    let of = |value: &str| Fields::of(&[("Accept-Language", value)]);
    for (one, other, expected) in [
        ("en, de", "de, en", false),
        ("en;q=0.8, de", "de, en;q=0.8", true),
        ("en;q=0.8 , DE", "de,en;Q=0.8", true),
        ("a;q=0.5, b;q=0.5, c", "c, a;q=0.5, b;q=0.5", true),
        ("a;q=0.5, b;q=0.5, c", "c, b;q=0.5, a;q=0.5", false),
        ("a;q=2, b", "b, a;q=2", false),
    ] {
        let selecting = Selecting::of(&of(one), &response);
        assert_eq!(selecting.matches(&of(other)), expected, "{one}: {other}");
    }
}

#[test]
fn a_304_updates_what_does_not_describe_the_body() {
    let mut stored = Fields::of(&[("ETag", "\"a\""), ("A", "1"), ("B", "1"), ("Age", "9")]);
    let newer = Fields::of(&[
        ("ETag", "\"b\""),
        ("a", "2"),
        ("Content-Length", "0"),
        ("Keep-Alive", "x"),
        ("Age", "7"),
        ("C", "3"),
    ]);
    update(&mut stored, &newer);
    let expected = Fields::of(&[("ETag", "\"a\""), ("B", "1"), ("a", "2"), ("C", "3")]);
    assert_eq!(stored, expected);
    assert_eq!(validators(&stored), Fields::of(&[("If-None-Match", "\"a\"")]));
}

#[test]
fn passwords_and_cookies_select_by_every_byte() {
    for (name, one, other) in [
        ("Cookie", "a=1,b", "a=1, b"),
        ("Authorization", "Digest username=\"a,b\"", "Digest username=\"a, b\""),
    ] {
        let selecting = Selecting::of(&Fields::of(&[(name, one)]), &Fields::of(&[("Vary", name)]));
        assert!(selecting.matches(&Fields::of(&[(name, one)])), "{name}");
        assert!(!selecting.matches(&Fields::of(&[(name, other)])), "{name}");
    }
}

#[test]
fn what_confirms_a_stored_response_makes_nothing_of_one_viewer_everyones() {
    let plain: &[(&str, &str)] = &[];
    let signed = &[("Authorization", "Basic eA==")][..];
    let with_cookie = &[("Cookie", "a=b")][..];
    let fresh = ("Cache-Control", "max-age=5");
    let long = "x".repeat(500);
    // The stored response has Vary: Foo, and A: 1. These are the answer's lines, and those that are stored then, but for Vary.
    let table: &[(&str, Lines, Lines, Option<Lines>)] = &[
        ("3.2", plain, &[("A", "2")], Some(&[fresh, ("A", "2")])),
        ("7.3", plain, &[("Set-Cookie", "id=1")], Some(&[fresh, ("A", "1")])),
        ("7.3", plain, &[("set-cookie", "id=1")], Some(&[fresh, ("A", "1")])),
        (
            "7615",
            signed,
            &[("Authentication-Info", "x"), ("Cache-Control", "public")],
            Some(&[("A", "1"), ("Cache-Control", "public")]),
        ),
        (
            "5.2.2.7",
            plain,
            &[("Cache-Control", "max-age=5, private=\"b\""), ("B", "1")],
            Some(&[("A", "1"), ("Cache-Control", "max-age=5, private=\"b\"")]),
        ),
        ("request", signed, &[("A", "2")], None),
        ("request", with_cookie, &[("A", "2")], None),
        ("request", &[("Cache-Control", "no-store")], &[("A", "2")], None),
        ("size", plain, &[("A", &long)], None),
    ];
    let before = Fields::of(&[fresh, ("Vary", "Foo"), ("A", "1")]);
    let of = |request: &[(&str, &str)], newer: &[(&str, &str)]| {
        let request = Fields::of(request);
        let selecting = Selecting::of(&request, &before);
        renewal(&request, 200, (&before, &selecting), &Fields::of(newer), 500)
    };
    for (section, request, newer, expected) in table {
        let made = match (of(request, newer), expected) {
            (Renewal::Unchanged, None) => continue,
            (Renewal::Renewed(mut made), Some(_)) => {
                made.remove(|name| name == "Vary");
                made
            }
            (other, _) => panic!("section {section}: {newer:?}: {other:?}"),
        };
        assert_eq!(Some(made), expected.map(Fields::of), "section {section}: {newer:?}");
    }
    for newer in [
        ("Cache-Control", "private"),
        ("Cache-Control", "no-store, max-age=5"),
        ("Vary", "*"),
        ("Vary", "Foo, Bar"),
        ("Vary", "Bar"),
    ] {
        assert_eq!(of(plain, &[newer]), Renewal::Ended, "{newer:?}");
    }
}

#[test]
fn what_a_client_asks_of_a_cache() {
    let of = |fields: &[(&str, &str)]| RequestDirectives::of(&Fields::of(fields));
    assert!(of(&[("Pragma", "no-cache")]).no_cache);
    assert!(!of(&[("Pragma", "no-cache"), ("Cache-Control", "max-age=1")]).no_cache);
    assert_eq!(of(&[("Cache-Control", "max-stale")]).max_stale, Some(Duration::MAX));
    assert_eq!(of(&[("Cache-Control", "max-stale=5")]).max_stale, Some(seconds(5)));
    assert!(of(&[("Cache-Control", "only-if-cached, no-store")]).only_if_cached);
    assert!(is_invalidating("M-SEARCH", 200) && !is_invalidating("POST", 500));
    assert!(!is_invalidating("GET", 200));
}

#[test]
fn an_operators_lifetime_takes_the_place_of_the_origins_or_of_none() {
    let rule = |fresh: Option<u64>, unsaid: Option<u64>, stale: Option<u64>| LifetimeRule {
        fresh: fresh.map(seconds),
        fresh_unsaid: unsaid.map(seconds),
        stale: stale.map(seconds),
    };
    let always = rule(Some(100), None, None);
    let default = rule(None, Some(100), None);
    let down = rule(None, None, Some(100));
    let both = rule(Some(100), None, Some(100));
    let day = 24 * 3600;
    let table: &[(LifetimeRule, u16, Lines, [u64; 4])] = &[
        (always, 200, &[("Cache-Control", "max-age=5"), ("Age", "50")], [100, 0, day, 0]),
        (always, 200, &[("Cache-Control", "no-cache"), DATE], [100, 0, day, 0]),
        (always, 200, &[("Expires", "0")], [100, 0, day, 0]),
        (always, 200, &[("CDN-Cache-Control", "s-maxage=5")], [100, 0, day, 0]),
        (always, 200, &[("Cache-Control", "max-age=5, must-revalidate")], [100, 0, 0, 0]),
        (always, 200, &[("Cache-Control", "stale-while-revalidate=7")], [100, 7, day, 0]),
        (always, 301, &[], [100, 0, day, 0]),
        (always, 302, &[("Cache-Control", "max-age=5")], [5, 0, day, 0]),
        (both, 307, &[("Cache-Control", "max-age=5")], [5, 0, day, 0]),
        (both, 200, &[("Cache-Control", "max-age=5")], [100, 0, 100, 100]),
        (always, 404, &[], [0, 0, 0, 0]),
        (default, 200, &[("Last-Modified", DAY_BEFORE), DATE], [100, 0, day, 0]),
        (default, 200, &[("Cache-Control", "max-age=5")], [5, 0, day, 0]),
        (default, 200, &[("Cache-Control", "no-cache")], [0, 0, 0, 0]),
        (default, 200, &[("Expires", LATER), DATE], [60, 0, day, 0]),
        (default, 404, &[], [0, 0, 0, 0]),
        (down, 200, &[("Cache-Control", "max-age=5, stale-if-error=7")], [5, 0, 100, 100]),
        (down, 200, &[("Cache-Control", "no-cache")], [0, 0, 0, 0]),
        (down, 200, &[("Cache-Control", "s-maxage=5")], [5, 0, 0, 0]),
        (down, 404, &[("Cache-Control", "max-age=5")], [5, 0, 0, 0]),
        (both, 200, &[("Cache-Control", "s-maxage=5")], [100, 0, 100, 100]),
        (both, 200, &[("Cache-Control", "no-cache")], [100, 0, 100, 100]),
        (both, 200, &[("Cache-Control", "proxy-revalidate")], [100, 0, 0, 0]),
    ];
    for (rule, status, fields, expected) in table {
        let is = lifetime("/a", *status, &Fields::of(fields), 784_111_780, *rule);
        let is = [is.fresh, is.while_revalidating, is.if_unreachable, is.if_error];
        assert_eq!(is.map(|time| time.as_secs()), *expected, "{rule:?} {status} {fields:?}");
    }
    // Neither is a stale response served while it is revalidated, nor to a viewer who takes one.
    let said = Fields::of(&[("Cache-Control", "max-age=5, stale-while-revalidate=7")]);
    for (stale, expected) in [(0, (0, false)), (1, (7, true))] {
        let is = lifetime("/a", 200, &said, NOW, rule(None, None, Some(stale)));
        assert_eq!((is.while_revalidating.as_secs(), is.may_be_stale), expected, "{stale}");
    }
    let live = lifetime("/a.m3u8", 200, &Fields::default(), NOW, default);
    assert_eq!((live.fresh, live.if_unreachable), (seconds(100), seconds(10)));
}

#[test]
fn a_rule_lengthens_nothing_that_others_share_only_by_the_origins_word() {
    let always = LifetimeRule { fresh: Some(seconds(100)), ..LifetimeRule::default() };
    let default = LifetimeRule { fresh_unsaid: Some(seconds(100)), ..LifetimeRule::default() };
    let down = LifetimeRule { stale: Some(seconds(100)), ..LifetimeRule::default() };
    let never = LifetimeRule { fresh: Some(seconds(0)), stale: Some(seconds(0)), ..always };
    let both = LifetimeRule { stale: Some(seconds(100)), ..always };
    let signed = &[("Authorization", "Basic eA==")][..];
    let with_token = &[("X_Plex_Token", "a")][..];
    let with_cookie = &[("Cookie", "a=b")][..];
    // The times fresh, and stale in place of an error.
    let table: &[(LifetimeRule, Lines, &str, [u64; 2])] = &[
        (always, &[], "max-age=0, must-revalidate", [100, 0]),
        (always, signed, "max-age=0, must-revalidate", [0, 0]),
        (always, with_token, "max-age=0, must-revalidate", [0, 0]),
        (always, signed, "must-revalidate, max-age=5", [5, 0]),
        (always, signed, "public, max-age=0, must-revalidate", [0, 0]),
        (always, with_cookie, "s-maxage=0", [0, 0]),
        (both, with_cookie, "s-maxage=5", [5, 0]),
        (both, &[], "s-maxage=5", [100, 100]),
        (default, signed, "must-revalidate", [0, 0]),
        (down, signed, "public, max-age=5, stale-if-error=7", [5, 7]),
        (never, signed, "public, max-age=5, stale-if-error=7", [0, 0]),
    ];
    for (rule, request, said, expected) in table {
        let (request, response) = (Fields::of(request), Fields::of(&[("Cache-Control", said)]));
        assert!(may_store(&request, 200, &response).is_ok(), "{said}");
        let is = lifetime_for(&request, "/a", (200, &response), NOW, *rule);
        assert_eq!([is.fresh, is.if_error].map(|time| time.as_secs()), *expected, "{said}");
    }
}
