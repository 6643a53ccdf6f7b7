use super::*;
use serde_json::{Value, json};

fn rules(rules: Value, sends_cookies: bool) -> PathRules {
    let rules: Vec<EdgeRule> = serde_json::from_value(rules).unwrap();
    rules.iter().for_each(|rule| rule.check(false).unwrap());
    PathRules::new(&rules, sends_cookies)
}

#[test]
fn the_first_rule_that_matches_decides_about_the_query() {
    let list = json!([
        { "path": "/keep/*" },
        { "path": "*.m3u8", "query_keep": ["_HLS_*"], "query": "sort" },
        { "path": "/only/*", "query": "drop", "query_keep": ["v"] },
        { "path": "/sort/*", "query": "sort", "query_drop": ["utm_*"] },
        { "path": "/drop/*", "query": "drop" },
    ]);
    let rules = rules(list, false);
    for (path, query, sent) in [
        ("keep/a.m3u8", "b=1&a&token=t", "b=1&a"),
        ("live/a.m3u8", "x=1&_HLS_part=2&_HLS_msn=1", "_HLS_msn=1&_HLS_part=2"),
        ("only/a", "a=1&v=2&%76=3&vv=4&v", "v=2&%76=3&v"),
        ("sort/a", "b=2&utm_source=x&a=9&%75tm_y=1&b=1&a", "a=9&a&b=2&b=1"),
        ("sort/a", "b=2&%61=1&a=3&%zz=4", "%zz=4&%61=1&a=3&b=2"),
        ("sort/a", "utm_%zz=1&%75tm_%z=2&a", "a"),
        ("drop/a", "a=1&b=2", ""),
        ("drop", "a=1&&b=2", "a=1&b=2"),
    ] {
        let is = rules.at(path.as_bytes()).query_sent_on(query.as_bytes());
        assert_eq!(String::from_utf8(is).unwrap(), sent, "{path}?{query}");
        let stored = rules.stored_under(&format!("/{path}?{query}"));
        assert_eq!(
            stored,
            format!("/{path}?{sent}").trim_end_matches('?'),
            "as the origin names it"
        );
    }
    assert_eq!(rules.stored_under("/drop/a"), "/drop/a");
}

#[test]
fn a_rule_holds_for_a_path_however_it_is_encoded() {
    let rules = rules(json!([{ "path": "/caf\u{e9}/*", "cache": false }]), false);
    for path in ["/caf%C3%A9/a", "/cafe%CC%81/a?x=/", "/c%61f%c3%a9/"] {
        assert!(!rules.at_stored(path).is_kept, "{path}");
    }
    for path in ["/cafe/a", "/a?/caf%C3%A9/a", "/%zz"] {
        assert!(rules.at_stored(path).is_kept, "{path}");
    }
}

#[test]
fn a_rule_decides_about_cookies_or_leaves_that_to_the_edge() {
    let list =
        json!([{ "path": "/films/*", "cookies": false }, { "path": "/api/*", "query": "sort" }]);
    let rules = rules(list, true);
    let sends = |path: &str| rules.at(path.as_bytes()).sends_cookies;
    assert_eq!([sends("films/a"), sends("api/a"), sends("a")], [false, true, true]);
}

#[test]
fn a_dropped_header_is_known_in_each_spelling() {
    let rules = rules(json!([{ "path": "*", "headers_drop": ["X-Device", "dnt"] }]), false);
    let settings = rules.at(b"a");
    for (name, is_dropped) in
        [("x-device", true), ("x_device", true), ("dnt", true), ("x-devices", false)]
    {
        assert_eq!(settings.drops_header(name), is_dropped, "{name}");
    }
    assert_eq!(settings.rule().map(|(number, _)| number), Some(1));
}

/// Programs behind CGI and WSGI read it as the header that the key has.
#[test]
fn a_header_that_makes_the_key_has_one_spelling() {
    let rules = rules(json!([{ "path": "*", "headers_vary": ["X-My-Device"] }]), false);
    let settings = rules.at(b"a");
    for (name, is_it) in [
        ("x_my_device", true),
        ("x-my_device", true),
        ("x-my-device", false),
        ("x-my-devices", false),
        ("x_mydevice", false),
    ] {
        assert_eq!(settings.misspells_vary(name), is_it, "{name}");
    }
    let rule: EdgeRule =
        serde_json::from_value(json!({ "path": "*", "headers_vary": ["X_Device"] })).unwrap();
    assert!(rule.check(false).unwrap_err().to_string().contains("with hyphens"));
}
