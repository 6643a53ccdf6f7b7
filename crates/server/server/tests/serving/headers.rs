//! `Cache-Control` and further headers of files, by their paths.

use crate::support::content::Content;
use crate::support::served::Served;
use crate::support::viewer::{Protocol, Response, Viewer};
use config::Config;
use config::{HeaderRule, Route};
use std::path::Path;
use tempfile::TempDir;
use token::{Grant, KeyRing};

fn rule(path: &str, cache_control: Option<&str>, fields: &[(&str, &str)]) -> HeaderRule {
    let fields = fields.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let cache_control = cache_control.map(str::to_owned);
    HeaderRule { path: path.into(), cache_control, content_type: None, fields: fields.collect() }
}

/// Films stay for good, except for a trailer; manifests are revalidated after two seconds.
fn with_rules(config: &mut Config) {
    config.http.cache_control = "max-age=60".into();
    config.http.headers = vec![
        rule("/films/trailer*", None, &[("Content-Disposition", "inline")]),
        rule("/films/*.mp4", Some("max-age=9, immutable"), &[("X-A", "1"), ("X-B", "b, c")]),
        rule("*.mpd", Some("max-age=2"), &[]),
        rule("/index.html", None, &[("Content-Security-Policy", "default-src 'self'")]),
    ];
}

fn library() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("films")).unwrap();
    for name in ["films/a b.mp4", "films/trailer.mp4", "films/a.mpd", "a.mp4", "index.html"] {
        Content::new(1, 100_000).write(&folder.path().join(name)).unwrap();
    }
    folder
}

fn ask(viewer: &mut Viewer, method: &str, path: &str, lines: &str) -> Response {
    viewer.send(format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{lines}\r\n").as_bytes()).unwrap();
    viewer.response(method == "GET").unwrap()
}

/// The headers that a rule may set.
fn set(response: &Response) -> [Option<&str>; 4] {
    ["Cache-Control", "X-A", "X-B", "Content-Disposition"].map(|name| response.field(name))
}

fn assert_headers(library: &Path, protocol: Protocol, route: Route) {
    let served = Served::start(library, protocol, |config| {
        config.route = route;
        with_rules(config);
    });
    let mut viewer = served.viewer();
    let of_film = [Some("max-age=9, immutable"), Some("1"), Some("b, c"), None];
    // The second time from the open file. The address may be written in any way.
    for path in ["/films/a%20b.mp4", "/films/a%20%62.mp4?q=/x.mpd"] {
        for (method, lines, status) in [
            ("GET", "", 200),
            ("HEAD", "", 200),
            ("GET", "Range: bytes=5-9\r\n", 206),
            ("GET", "Range: bytes=0-0,50000-69999\r\n", 206),
            ("GET", "If-None-Match: *\r\n", 304),
        ] {
            let response = ask(&mut viewer, method, path, lines);
            assert_eq!((response.status, set(&response)), (status, of_film), "{method} {lines}");
        }
    }
    let unsatisfied = ask(&mut viewer, "GET", "/films/a%20b.mp4", "Range: bytes=100000-\r\n");
    assert_eq!(unsatisfied.status, 416);
    assert_eq!(set(&unsatisfied), [Some("no-store"), None, None, None]);
    for (path, expected) in [
        ("/films/trailer.mp4", [Some("max-age=60"), None, None, Some("inline")]),
        ("/films/a.mpd", [Some("max-age=2"), None, None, None]),
        ("/a.mp4", [Some("max-age=60"), None, None, None]),
    ] {
        let response = viewer.ask(path);
        assert_eq!((response.status, set(&response)), (200, expected), "{path}");
    }
    let front = viewer.ask("/");
    assert_eq!(front.field("Content-Security-Policy"), Some("default-src 'self'"));
    let missing = viewer.ask("/films/none.mp4");
    assert_eq!((missing.status, missing.field("X-A")), (404, None));
    served.stop();
}

#[test]
fn the_first_rule_that_matches_counts_in_every_answer_about_a_file() {
    let library = library();
    for protocol in Protocol::ALL {
        assert_headers(library.path(), protocol, Route::Userspace);
    }
    assert_headers(library.path(), Protocol::Plain, Route::Kernel);
}

#[test]
fn a_path_is_matched_without_its_token() {
    let (library, keys) = (library(), tempfile::tempdir().unwrap());
    let key = keys.path().join("url.key");
    token::make_key_file(&key).unwrap();
    let grant = Grant { prefix: b"films", expires_unix_seconds: u32::MAX.into(), client: None };
    let token = KeyRing::read(&[&key]).unwrap().sign(&grant).unwrap();
    let served = Served::start(library.path(), Protocol::Plain, |config| {
        with_rules(config);
        config.signing.keys = vec![key];
    });
    let response = served.viewer().ask(&token::url_path(&token, "films/a%20b.mp4"));
    assert_eq!((response.status, response.field("X-A")), (200, Some("1")));
    let refused = served.viewer().ask("/films/a%20b.mp4");
    assert_eq!((refused.status, set(&refused)), (403, [Some("no-store"), None, None, None]));
    served.stop();
}

#[test]
fn a_rule_sets_the_media_type_of_files_that_no_extension_explains() {
    let library = library();
    for name in ["clip.tod", "clip.m2ts"] {
        Content::new(1, 1000).write(&library.path().join(name)).unwrap();
    }
    let served = Served::start(library.path(), Protocol::Plain, |config| {
        let content_type = Some("video/x-camera".to_owned());
        config.http.headers = vec![HeaderRule { content_type, ..rule("*.tod", None, &[]) }];
    });
    let mut viewer = served.viewer();
    for (method, lines) in [("GET", ""), ("HEAD", ""), ("GET", "Range: bytes=5-9\r\n")] {
        let of = |path: &str, viewer: &mut Viewer| {
            let response = ask(viewer, method, path, lines);
            response.field("Content-Type").map(str::to_owned)
        };
        assert_eq!(of("/clip.tod", &mut viewer).as_deref(), Some("video/x-camera"), "{lines}");
        assert_eq!(of("/clip.m2ts", &mut viewer).as_deref(), Some("video/mp2t"), "{lines}");
    }
    served.stop();
}
