use super::*;

fn parse(json: &str) -> OriginSettings {
    serde_json::from_str(json).unwrap()
}

fn refused(json: &str) -> String {
    parse(json).check().unwrap_err()
}

#[test]
fn an_origin_is_an_address_or_a_table() {
    let plain = parse("\"http://a/x\"");
    assert_eq!(plain, OriginSettings::at("http://a/x"));
    assert_eq!(serde_json::to_string(&plain).unwrap(), "\"http://a/x\"");
    let text = r#"{"url":"http://a","host":"b:1","headers":{"X-A":"1","X-B":{"file":"/b"}}}"#;
    let table = parse(text);
    assert_eq!(serde_json::to_string(&table).unwrap(), text);
    table.check().unwrap();
    assert_eq!(
        table.files().collect::<Vec<_>>(),
        [(Path::new("/b"), "a header for an origin", true)]
    );
    assert_eq!(table.header_names().collect::<Vec<_>>(), ["x-a", "x-b"]);
    for (text, said) in [
        (r#"{"url":"http://a","hots":"b"}"#, "unknown field `hots`"),
        (r#"{"host":"b"}"#, "missing field `url`"),
        (r#"{"url":"http://a","headers":{"X":{"path":"/b"}}}"#, "{ file = \"/path\" }"),
        ("7", "or a table with its url"),
    ] {
        let error = serde_json::from_str::<OriginSettings>(text).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn headers_that_the_edge_makes_are_refused_with_what_to_set_instead() {
    for (name, advice) in [
        ("Host", "set host instead"),
        ("Connection", "one connection"),
        ("Proxy-Authorization", "one connection"),
        ("transfer-encoding", "one connection"),
        ("Content-Length", "for each request"),
        ("Range", "for each request"),
        ("If-None-Match", "for each request"),
        ("Cookie", "edge.cookies"),
        ("X-Forwarded-For", "edge.forwarded_for"),
        ("X-Forwarded-Proto", "edge.public_url"),
        ("X Y", "not the name of a header"),
        ("", "not the name of a header"),
    ] {
        let said = refused(&format!(r#"{{"url":"http://a","headers":{{"{name}":"v"}}}}"#));
        assert!(said.starts_with("edge.origin http://a/: ") && said.contains(advice), "{said}");
    }
    let twice = refused(r#"{"url":"http://a","headers":{"X-A":"1","x-a":"2"}}"#);
    assert!(twice.contains("x-a twice"), "{twice}");
    for value in ["", "a\\r\\nX: b", "a\\nb", "\u{e9}"] {
        let said = refused(&format!(r#"{{"url":"http://a","headers":{{"X-A":"{value}"}}}}"#));
        assert!(said.contains("X-A") && (value.is_empty() || !said.contains(value)), "{said}");
    }
    let many: Vec<_> = (0..21).map(|number| format!("\"X-{number}\":\"v\"")).collect();
    let many = refused(&format!(r#"{{"url":"http://a","headers":{{{}}}}}"#, many.join(",")));
    assert!(many.contains("at most 20"), "{many}");
    let long: Vec<_> =
        (0..3).map(|number| format!("\"X-{number}\":\"{}\"", "v".repeat(4000))).collect();
    let long = refused(&format!(r#"{{"url":"http://a","headers":{{{}}}}}"#, long.join(",")));
    assert!(long.contains("into files"), "{long}");
}

#[test]
fn a_host_is_a_name_and_buckets_have_no_settings() {
    for host in ["", "a b", "a/b", "a\\r\\nX: b", "u@a"] {
        let said = refused(&format!(r#"{{"url":"http://a","host":"{host}"}}"#));
        assert!(said.contains("films.example"), "{said}");
    }
    let said = refused(r#"{"url":"s3://films","host":"a"}"#);
    assert!(said.contains("bucket"), "{said}");
    parse("\"s3://films\"").check().unwrap();
}

#[test]
fn a_user_has_a_password_in_a_file_and_no_other_authorization() {
    for (settings, said) in [
        (r#""user":"a""#, "no password_file"),
        (r#""password_file":"/p""#, "no user"),
        (r#""user":"a:b","password_file":"/p""#, "without a colon"),
        (r#""user":"","password_file":"/p""#, "without a colon"),
        (r#""user":"a","password_file":"/p","headers":{"authorization":"b"}"#, "leave one"),
    ] {
        let refused = refused(&format!(r#"{{"url":"http://a",{settings}}}"#));
        assert!(refused.contains(said), "{settings}: {refused}");
    }
    let named = parse(r#"{"url":"http://a","user":"a","password_file":"/p"}"#);
    named.check().unwrap();
    assert_eq!(named.files().next().unwrap().0, Path::new("/p"));
}

#[test]
fn certificates_are_for_https_and_have_a_key() {
    for (settings, said) in [
        (r#""url":"https://a","cert":"/c""#, "no key"),
        (r#""url":"https://a","key":"/k""#, "no cert"),
        (r#""url":"http://a","cert":"/c","key":"/k""#, "https://"),
        (r#""url":"http://a","ca":"/c""#, "https://"),
    ] {
        let refused = refused(&format!("{{{settings}}}"));
        assert!(refused.contains(said), "{settings}: {refused}");
    }
    let files = parse(r#"{"url":"https://a","cert":"/c","key":"/k","ca":"/a"}"#);
    files.check().unwrap();
    let files: Vec<_> = files.files().map(|(file, ..)| file).collect();
    assert_eq!(files, ["/c", "/k", "/a"].map(Path::new));
}

#[test]
fn a_password_that_travels_unencrypted_to_another_machine_is_warned_of() {
    let with = |url: &str, more: &str| parse(&format!(r#"{{"url":"{url}"{more}}}"#)).unencrypted();
    let header = r#","headers":{"X-A":"swordfish"}"#;
    let warning = with("http://a.example/films", header).unwrap();
    assert!(warning.contains("http://a.example") && !warning.contains("swordfish"), "{warning}");
    let password = r#","user":"a","password_file":"/p""#;
    assert!(with("http://a.example", password).is_some());
    for (url, more) in [
        ("https://a.example", header),
        ("http://127.0.0.1:80", header),
        ("http://localhost", header),
        ("http://[::1]:80", password),
        ("http://a.example", ""),
    ] {
        assert_eq!(with(url, more), None, "{url}");
    }
}

#[test]
fn no_value_of_a_header_is_printed() {
    let settings = parse(r#"{"url":"http://a","headers":{"X-A":"swordfish","X-B":{"file":"/b"}}}"#);
    let shown = format!("{settings:?}");
    assert!(!shown.contains("swordfish") && shown.contains("/b"), "{shown}");
    assert!(!format!("{:?}", value("swordfish").unwrap()).contains("swordfish"));
}

#[test]
fn patterns_of_paths_are_checked_and_a_bucket_may_have_them_too() {
    for url in ["http://a", "s3://films/hd?endpoint=http://127.0.0.1:1"] {
        let table = parse(&format!(r#"{{"url":"{url}","paths":["/live/*","*.m3u8"]}}"#));
        table.check().unwrap();
        assert_eq!(table.patterns().unwrap().len(), 2);
    }
    let said = refused(r#"{"url":"http://a","paths":["live/"]}"#);
    assert!(said.contains("its path \"live/\"") && said.contains("a slash"), "{said}");
    let many = vec!["\"/a*\""; PATHS_MAX + 1].join(",");
    let said = refused(&format!(r#"{{"url":"http://a","paths":[{many}]}}"#));
    assert!(said.contains("it has 17 paths"), "{said}");
    let said = refused(r#"{"url":"s3://films","host":"a"}"#);
    assert!(said.contains("all settings of an origin but paths"), "{said}");
}
