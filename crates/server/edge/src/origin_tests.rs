use super::*;
use crate::contract::PATH_BYTES_MAX;

fn origin_with(settings: OriginSettings) -> Origin {
    let trusted = crate::origin_access::trusted().unwrap();
    let reach = Reach { trusted, silent_max: std::time::Duration::from_secs(1) };
    Origin::new(0, (settings, &OriginFiles::default()), reach, Arc::default()).unwrap()
}

fn origin_at(address: &str) -> Origin {
    origin_with(OriginSettings::at(address))
}

#[test]
fn an_origin_is_a_scheme_a_host_and_a_path() {
    let of = |text: &str, path: &str| {
        OriginAddress::parse(text).unwrap().of(path).map(|url| url.to_string())
    };
    assert_eq!(of("http://a", "/b c").as_deref(), None, "it is not encoded");
    assert_eq!(of("http://a", "/b%20c").as_deref(), Some("http://a/b%20c"));
    assert_eq!(of("https://a:1/x/", "/b").as_deref(), Some("https://a:1/x/b"));
    assert_eq!(of("http://a/x", "/../b"), None, "it leads elsewhere");
    assert_eq!(of("http://a/x", "/b?c=/../d").as_deref(), Some("http://a/x/b?c=/../d"));
    assert_eq!(of("http://a/x", "//evil/b").as_deref(), Some("http://a/x//evil/b"));
    let named = |value: &str| origin_at("http://192.0.2.1/x").path_of("/a", value);
    assert_eq!(named("/x/b?c").as_deref(), Some("/b?c"));
    assert_eq!(named("/b"), None, "not below the address");
    assert_eq!(named(&format!("/x/{}", "b".repeat(PATH_BYTES_MAX))), None);
    let parts = |text: &str| {
        let address = OriginAddress::parse(text).unwrap();
        (address.port(), address.is_named())
    };
    assert_eq!(parts("https://a.example/x"), (443, true));
    assert_eq!(parts("http://192.0.2.1"), (80, false));
    assert_eq!(parts("http://[2001:db8::1]:8080"), (8080, false));
    for text in ["a", "ftp://a", "http://", "http://u@a", "http://a?b", "http://a#b"] {
        assert!(OriginAddress::parse(text).is_err(), "{text}");
    }
}

#[test]
fn urls_of_the_origin_become_those_of_the_edge() {
    let below = origin_at("http://192.0.2.1:8080/films");
    let localized = |origin: &Origin, value: &str| {
        let mut fields = Fields::of(&[("Location", value), ("X-Other", value)]);
        origin.localize("/a/b", &mut fields, |_| true);
        assert_eq!(fields.first("x-other"), Some(value));
        fields.first("location").unwrap().to_owned()
    };
    for (named, local) in [
        ("/films/c?d=e#f", "/c?d=e#f"),
        ("http://192.0.2.1:8080/films/c", "/c"),
        ("//192.0.2.1:8080/films/c", "/c"),
        // The same for viewers, or not of this origin.
        ("c", "c"),
        ("../c?u=http://192.0.2.1:8080/films/x", "../c?u=http://192.0.2.1:8080/films/x"),
        ("/other", "/other"),
        ("http://192.0.2.1/films/c", "http://192.0.2.1/films/c"),
        ("https://cdn.example/films/c", "https://cdn.example/films/c"),
        // That would lead to another host.
        ("/films//evil.example/c", "/films//evil.example/c"),
        // UTF-8 that is not encoded, as its bytes are read; and bytes that are no UTF-8.
        ("/films/caf\u{c3}\u{a9}#caf\u{c3}\u{a9}", "/caf%C3%A9#caf\u{c3}\u{a9}"),
        ("/films/caf\u{e9}", "/films/caf\u{e9}"),
    ] {
        assert_eq!(localized(&below, named), local, "{named}");
    }
    let root = origin_at("http://192.0.2.1");
    assert_eq!(localized(&root, "http://192.0.2.1/c"), "/c");
    assert_eq!(localized(&root, "/c#d"), "/c#d");
    let host = Some("films.example".to_owned());
    let named = origin_with(OriginSettings { host, ..OriginSettings::at("http://192.0.2.1/x") });
    assert_eq!(localized(&named, "http://films.example/x/c"), "/c", "as it calls itself");
    assert_eq!(localized(&named, "http://192.0.2.1/x/c"), "/c");
    for other in ["https://films.example/x/c", "http://films.example:81/x/c"] {
        assert_eq!(localized(&named, other), other);
    }
}
