//! Compressed forms of text files, `NAME.br` and `NAME.gz`, as clients choose them. The server never looks into a form, so the forms here are any
//! bytes.

use crate::support::content::Content;
use crate::support::served::{Served, await_that};
use crate::support::viewer::{Protocol, Response, Viewer};
use config::HeaderRule;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use token::{Grant, KeyRing};

/// The text of a file, and its forms.
const TEXT: &[u8] = &[b'a'; 3000];
const BROTLI: &[u8] = &[b'b'; 700];
const GZIP: &[u8] = &[b'g'; 900];

const ALL: &str = "Accept-Encoding: gzip, deflate, br\r\n";

/// A moment of last year or so.
fn moment(number: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000 + 100 * number, 123_456_789)
}

/// Writes a file under another name and renames it to `path`, with this modification time.
fn put(path: &Path, bytes: &[u8], modified: SystemTime) {
    let new = path.with_file_name(".new");
    fs::write(&new, bytes).unwrap();
    File::options().write(true).open(&new).unwrap().set_modified(modified).unwrap();
    fs::rename(&new, path).unwrap();
}

/// A library with `NAME`, `NAME.br` and `NAME.gz`.
fn library(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (suffix, bytes) in [("", TEXT), (".br", BROTLI), (".gz", GZIP)] {
        put(&folder.path().join(format!("{name}{suffix}")), bytes, moment(0));
    }
    folder
}

fn ask(viewer: &mut Viewer, method: &str, path: &str, lines: &str) -> Response {
    viewer.send(format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{lines}\r\n").as_bytes()).unwrap();
    viewer.response(method == "GET").unwrap()
}

fn coding(response: &Response) -> Option<&str> {
    response.field("Content-Encoding")
}

fn assert_form(served: &Served, (name, bytes): (&str, &[u8]), others: &[String]) -> String {
    let mut viewer = served.viewer();
    let accepted = format!("Accept-Encoding: {name}\r\n");
    let mut ask = |method: &str, lines: &str| {
        ask(&mut viewer, method, "/film.m3u8", &format!("{accepted}{lines}"))
    };
    let whole = ask("GET", "");
    let length = bytes.len().to_string();
    assert_eq!((whole.status, &whole.body[..]), (200, bytes));
    assert_eq!((coding(&whole), whole.field("Vary")), (Some(name), Some("Accept-Encoding")));
    assert_eq!(whole.field("Content-Length"), Some(&*length));
    assert_eq!(whole.field("Content-Type"), Some("application/vnd.apple.mpegurl"));
    let tag = whole.field("ETag").unwrap().to_owned();
    assert!(tag.starts_with('"') && !others.contains(&tag), "{tag}");
    let without_date = |response: &Response| {
        let fields = response.fields.iter().filter(|(name, _)| name != "Date");
        fields.cloned().collect::<Vec<_>>()
    };
    let head = ask("HEAD", "");
    assert_eq!((head.status, without_date(&head)), (200, without_date(&whole)));

    let same = ask("GET", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((same.status, same.field("Vary")), (304, Some("Accept-Encoding")));
    assert_eq!((same.field("ETag"), same.body.len()), (Some(&*tag), 0));
    for other in others {
        let fresh = ask("GET", &format!("If-None-Match: {other}\r\n"));
        assert_eq!((fresh.status, &fresh.body[..]), (200, bytes));
        assert_eq!(ask("GET", &format!("If-Match: {other}\r\n")).status, 412);
        let fresh = ask("GET", &format!("Range: bytes=3-40\r\nIf-Range: {other}\r\n"));
        assert_eq!((fresh.status, &fresh.body[..]), (200, bytes));
    }
    let part = ask("GET", &format!("Range: bytes=3-40\r\nIf-Range: {tag}\r\n"));
    assert_eq!((part.status, coding(&part)), (206, Some(name)));
    assert_eq!(part.field("Content-Range"), Some(&*format!("bytes 3-40/{length}")));
    assert_eq!(part.field("Vary"), Some("Accept-Encoding"));
    assert_eq!(part.body, bytes[3..=40]);
    let date = whole.field("Last-Modified").unwrap();
    let dated = ask("GET", &format!("Range: bytes=3-40\r\nIf-Range: {date}\r\n"));
    assert_eq!((dated.status, &dated.body[..]), (200, bytes), "all forms have this date");
    let several = ask("GET", "Range: bytes=0-1,500-501\r\n");
    assert_eq!((several.status, &several.body[..]), (200, bytes), "a multipart body has no coding");
    let beyond = ask("GET", &format!("Range: bytes={length}-\r\n"));
    assert_eq!(beyond.field("Content-Range"), Some(&*format!("bytes */{length}")));
    tag
}

#[test]
fn each_form_has_a_length_a_tag_and_ranges_of_its_own() {
    let library = library("film.m3u8");
    for protocol in Protocol::ALL {
        let served = Served::start(library.path(), protocol, |_| {});
        let plain = ask(&mut served.viewer(), "GET", "/film.m3u8", "");
        assert_eq!((coding(&plain), plain.field("Vary")), (None, Some("Accept-Encoding")));
        assert_eq!(plain.body, TEXT);
        let mut tags = vec![plain.field("ETag").unwrap().to_owned()];
        for form in [("br", BROTLI), ("gzip", GZIP)] {
            tags.push(assert_form(&served, form, &tags));
        }
        let mut viewer = served.viewer();
        let mut ask = |lines: &str| ask(&mut viewer, "GET", "/film.m3u8", lines);
        let same = ask(&format!("If-None-Match: {}\r\n", tags[0]));
        assert_eq!((same.status, same.field("Vary")), (304, Some("Accept-Encoding")));
        let part = ask("Range: bytes=3-40\r\n");
        assert_eq!((part.status, part.field("Vary")), (206, Some("Accept-Encoding")));
        assert_eq!((coding(&part), &part.body[..]), (None, &TEXT[3..=40]));
        served.stop();
    }
}

#[test]
fn the_client_chooses_among_the_forms_that_are_there() {
    let (both, gzip_only) = (library("film.m3u8"), library("film.m3u8"));
    fs::remove_file(gzip_only.path().join("film.m3u8.br")).unwrap();
    let served = Served::start(both.path(), Protocol::Plain, |_| {});
    let served_gzip = Served::start(gzip_only.path(), Protocol::Plain, |_| {});
    for (accepted, of_both, of_gzip_only) in [
        (None, None, None),
        (Some(""), None, None),
        (Some("gzip, deflate, br, zstd"), Some("br"), Some("gzip")),
        (Some("gzip"), Some("gzip"), Some("gzip")),
        (Some("BR"), Some("br"), None),
        (Some("br;q=0.5, gzip"), Some("gzip"), Some("gzip")),
        (Some("br ; q=0.5 , gzip;q=0.4"), Some("br"), Some("gzip")),
        (Some("br, identity;q=0.5, gzip;q=0.2"), Some("br"), None),
        (Some("gzip;q=0, br;q=0"), None, None),
        (Some("gzip;q=0.2, identity"), None, None),
        (Some("*"), None, None),
        (Some("*;q=0"), None, None),
        (Some("identity;q=0, *"), Some("br"), Some("gzip")),
        (Some("identity;q=0, br"), Some("br"), None),
        (Some("deflate"), None, None),
    ] {
        let line = accepted.map(|value| format!("Accept-Encoding: {value}\r\n"));
        for (served, expected) in [(&served, of_both), (&served_gzip, of_gzip_only)] {
            let response =
                ask(&mut served.viewer(), "GET", "/film.m3u8", line.as_deref().unwrap_or(""));
            assert_eq!((response.status, coding(&response)), (200, expected), "{accepted:?}");
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{accepted:?}");
            let bytes = match expected {
                None => TEXT,
                Some("br") => BROTLI,
                Some(_) => GZIP,
            };
            assert!(response.body == bytes, "{accepted:?}");
        }
    }
    [served, served_gzip].iter().for_each(Served::stop);
}

/// nginx's modules serve all of these.
#[test]
fn a_form_of_another_version_is_never_served() {
    let library = library("film.m3u8");
    let file = library.path().join("film.m3u8");
    let brotli = library.path().join("film.m3u8.br");
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let mut viewer = served.viewer();
    let mut ask = || ask(&mut viewer, "GET", "/film.m3u8", "Accept-Encoding: br\r\n");
    assert_eq!(ask().body, BROTLI);
    for (text, form, what) in [
        (1, 0, "the file is newer"),
        (
            1,
            2,
            "the form is newer: an older file came back, or the form belongs to the next version",
        ),
        (0, 0, ""),
        (3, 0, "newer again"),
    ] {
        let bytes = format!("version {text}").repeat(100);
        put(&file, bytes.as_bytes(), moment(text));
        put(&brotli, BROTLI, moment(form));
        if text == form {
            // The server may remember for a second that there was none.
            await_that(|| ask().body == BROTLI, || "the form is never found".into());
        } else {
            let response = ask();
            assert_eq!((coding(&response), &response.body[..]), (None, bytes.as_bytes()), "{what}");
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{what}");
        }
    }
    // One nanosecond.
    let later = moment(5) + Duration::from_nanos(1);
    put(&file, TEXT, moment(5));
    put(&brotli, BROTLI, later);
    assert_eq!(ask().body, TEXT);
    // Without its file, a form is only a file of its own.
    fs::remove_file(&file).unwrap();
    let missing = ask();
    assert_eq!((missing.status, coding(&missing)), (404, None));
    assert_eq!(viewer.ask("/film.m3u8.br").body, BROTLI);
    served.stop();
}

#[test]
fn a_form_that_appears_is_served_within_seconds() {
    let library = library("film.m3u8");
    let gzip = library.path().join("film.m3u8.gz");
    fs::remove_file(&gzip).unwrap();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let mut viewer = served.viewer();
    let mut ask = || ask(&mut viewer, "GET", "/film.m3u8", "Accept-Encoding: gzip\r\n").body;
    assert_eq!(ask(), TEXT);
    put(&gzip, GZIP, moment(0));
    await_that(|| ask() == GZIP, || "the form is never found".into());
    fs::remove_file(&gzip).unwrap();
    await_that(|| ask() == TEXT, || "the form is still sent".into());
    served.stop();
}

/// The head of a film's response, as it was before there were forms.
#[test]
fn segments_and_pictures_have_no_forms_and_the_heads_that_they_had() {
    let library = tempfile::tempdir().unwrap();
    for name in ["a.mp4", "a.m4s", "a.ts", "a.jpg", "a.m3u8.gz", "m3u8"] {
        for suffix in ["", ".br", ".gz"] {
            put(&library.path().join(format!("{name}{suffix}")), TEXT, moment(0));
        }
    }
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let mut viewer = served.viewer();
    for (name, content_type) in [
        ("a.mp4", "video/mp4"),
        ("a.m4s", "video/iso.segment"),
        ("a.ts", "video/mp2t"),
        ("a.jpg", "image/jpeg"),
        ("a.m3u8.gz", "application/octet-stream"),
        ("m3u8", "application/octet-stream"),
    ] {
        let response = ask(&mut viewer, "GET", &format!("/{name}"), ALL);
        let names: Vec<_> = response.fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names.join(" "),
            "Server Date Accept-Ranges ETag Last-Modified Cache-Control X-Content-Type-Options \
             Access-Control-Allow-Origin Access-Control-Expose-Headers Timing-Allow-Origin Cross-Origin-Resource-Policy \
             Content-Type Content-Length",
            "{name}"
        );
        assert_eq!(
            (response.field("Content-Type"), response.body.len()),
            (Some(content_type), 3000)
        );
        let part =
            ask(&mut viewer, "GET", &format!("/{name}"), &format!("{ALL}Range: bytes=0-9\r\n"));
        assert_eq!((part.status, part.field("Vary"), coding(&part)), (206, None, None), "{name}");
    }
    served.stop();
}

/// A form that was asked for by its own name first must not bring that name's rule along.
#[test]
fn rules_and_tokens_are_those_of_the_path_that_was_asked_for() {
    let (library, keys) = (library("film.m3u8"), tempfile::tempdir().unwrap());
    let key = keys.path().join("url.key");
    token::make_key_file(&key).unwrap();
    let served = Served::start(library.path(), Protocol::Plain, |config| {
        let rule = |path: &str, cache_control: &str| HeaderRule {
            path: path.into(),
            cache_control: Some(cache_control.into()),
            content_type: None,
            fields: std::iter::once(("X-Rule".to_owned(), path.to_owned())).collect(),
        };
        config.http.headers = vec![rule("*.m3u8", "max-age=2"), rule("*.gz", "max-age=9")];
        config.signing.keys = vec![key.clone()];
        config.signing.required = vec!["/film.m3u8".into()];
    });
    let mut viewer = served.viewer();
    let gz = "Accept-Encoding: gzip\r\n";
    let own = ask(&mut viewer, "GET", "/film.m3u8.gz", gz);
    assert_eq!((own.field("X-Rule"), coding(&own), &own.body[..]), (Some("*.gz"), None, GZIP));
    let refused = ask(&mut viewer, "GET", "/film.m3u8", gz);
    assert_eq!((refused.status, coding(&refused)), (403, None));
    let grant = Grant { prefix: b"film.m3u8", expires_unix_seconds: u32::MAX.into(), client: None };
    let token = KeyRing::read(&[&key]).unwrap().sign(&grant).unwrap();
    let path = token::url_path(&token, "film.m3u8");
    let response = ask(&mut viewer, "GET", &path, gz);
    assert_eq!((response.status, &response.body[..]), (200, GZIP));
    assert_eq!(response.field("Cache-Control"), Some("max-age=2"));
    assert_eq!(response.field("X-Rule"), Some("*.m3u8"));
    served.stop();
}

#[test]
fn what_may_not_be_served_is_no_form() {
    let (library, outside) = (library("index.html"), tempfile::tempdir().unwrap());
    let secret = outside.path().join("secret");
    put(&secret, b"secret", moment(0));
    for name in ["linked.m3u8", "folder.m3u8"] {
        put(&library.path().join(name), TEXT, moment(0));
    }
    symlink(&secret, library.path().join("linked.m3u8.br")).unwrap();
    fs::create_dir(library.path().join("folder.m3u8.br")).unwrap();
    let served = Served::start(library.path(), Protocol::Plain, |_| {});
    let mut viewer = served.viewer();
    for path in ["/linked.m3u8", "/folder.m3u8"] {
        let response = ask(&mut viewer, "GET", path, ALL);
        assert_eq!((coding(&response), response.body.len()), (None, TEXT.len()), "{path}");
    }
    // The library's own page has forms under either name.
    for path in ["/", "/index.html"] {
        let response = ask(&mut viewer, "GET", path, ALL);
        assert_eq!((coding(&response), &response.body[..]), (Some("br"), BROTLI), "{path}");
        assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
    }
    served.stop();
}

/// A form is sent like any other file, through all of its windows.
#[test]
fn a_long_form_arrives_whole() {
    let library = tempfile::tempdir().unwrap();
    let (file, form) = (library.path().join("a.json"), library.path().join("a.json.gz"));
    Content::new(1, 3 << 20).write(&file).unwrap();
    Content::new(2, 2_000_001).write(&form).unwrap();
    for path in [&file, &form] {
        File::options().write(true).open(path).unwrap().set_modified(moment(1)).unwrap();
    }
    for protocol in Protocol::ALL {
        let served = Served::start(library.path(), protocol, |_| {});
        let response = ask(&mut served.viewer(), "GET", "/a.json", ALL);
        assert_eq!(coding(&response), Some("gzip"));
        assert!(response.body == fs::read(&form).unwrap());
        served.stop();
    }
}
