//! The server's own pages: their URLs, their header fields, and their content.

use crate::support::served::{Served, await_that};
use crate::support::viewer::{Protocol, Response, Viewer};
use std::io::Read;
use std::path::Path;

/// Writes a file below `root`, and makes its folders.
pub(crate) fn write(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// A library with a title that ingest could have made and a plain file.
fn library() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| write(root.path(), path, content);
    write("a film/master.m3u8", "#EXTM3U\n");
    write(
        "a film/title.json",
        r#"{"version":1,"kind":"title","title":"a film","duration_seconds":61.5,"video":[{"width":640,"height":360}],
           "audio":[{"language":"en"},{"language":"de"},{"language":"en"}],"poster":"v-1/poster.jpg","more":[1]}"#,
    );
    write("clip.mp4", "");
    root
}

fn serve(library: &Path) -> Served {
    Served::start(library, Protocol::Tls13, |_| {})
}

/// The list of titles, once it is complete.
pub(crate) fn titles(viewer: &mut Viewer) -> String {
    let mut text = String::new();
    await_that(
        || {
            text = String::from_utf8(viewer.ask("/-/titles.json").body).unwrap();
            text.contains("\"is_complete\":true")
        },
        || "the titles are never listed".into(),
    );
    text
}

fn assert_is_page(response: &Response, base: &str) {
    assert_eq!(response.status, 200);
    assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8"));
    let policy = response.field("Content-Security-Policy").unwrap();
    assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"));
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"));
    assert_eq!(response.field("Referrer-Policy"), Some("no-referrer"));
    assert_eq!(response.field("Access-Control-Allow-Origin"), None);
    let text = String::from_utf8_lossy(&response.body);
    if text.contains("without its pages") {
        fullbore_tests::tool::skip("in part: this build has no pages; run ./run build");
    } else {
        assert!(text.contains(&format!("<base href=\"{base}\"")), "{text}");
    }
}

#[test]
fn the_shelf_and_the_player_are_pages_wherever_they_are() {
    let library = library();
    let served = serve(library.path());
    let mut viewer = served.viewer();
    for (path, base) in [
        ("/", "./-/"),
        ("/?a/b", "./-/"),
        ("/-/", "./"),
        ("/-/watch/film", "../"),
        ("/-/watch/a/film?x=/", "../../"),
        ("/-/watch/film/", "../../"),
        ("/-/watch/", "../"),
        ("/-/watch/%66ilm%20one", "../"),
    ] {
        assert_is_page(&viewer.ask(path), base);
    }
    for path in
        ["/-", "/-/watch", "/-/other", "/-/assets/none.js", "/-/shelf.html", "/-/titles.json/"]
    {
        assert_eq!(viewer.ask(path).status, 404, "{path}");
    }
    served.stop();
}

#[test]
fn a_librarys_own_page_goes_before_the_shelf() {
    let library = library();
    std::fs::write(library.path().join("index.html"), "own").unwrap();
    let served = serve(library.path());
    let mut viewer = served.viewer();
    let own = viewer.ask("/");
    assert_eq!((own.status, &*own.body), (200, &b"own"[..]));
    assert_is_page(&viewer.ask("/-/"), "./");
    served.stop();
}

#[test]
fn without_pages_there_is_nothing_but_files() {
    let library = library();
    std::fs::write(library.path().join("index.html"), "own").unwrap();
    let served = Served::start(library.path(), Protocol::Plain, |config| config.page = false);
    let mut viewer = served.viewer();
    for path in ["/", "/-/", "/-/watch/film", "/-/titles.json"] {
        assert_eq!(viewer.ask(path).status, 404, "{path}");
    }
    assert_eq!(viewer.ask("/index.html").body, b"own");
    served.stop();
}

#[test]
fn pages_without_a_modification_date_ignore_conditions_by_date() {
    let library = library();
    let served = serve(library.path());
    let mut viewer = served.viewer();
    for path in ["/", "/-/", "/-/watch/film", "/-/titles.json", "/-/licences.txt"] {
        let whole = viewer.ask(path);
        for field in ["If-Unmodified-Since", "If-Modified-Since"] {
            let date = "Sun, 06 Nov 1994 08:49:37 GMT";
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{field}: {date}\r\n\r\n");
            viewer.send(request.as_bytes()).unwrap();
            assert_eq!(viewer.response(true).unwrap().status, whole.status, "{field} on {path}");
        }
    }
    served.stop();
}

#[test]
fn compressed_forms_are_for_who_asks_for_them() {
    let library = library();
    let served = serve(library.path());
    let mut viewer = served.viewer();
    let page = String::from_utf8(viewer.ask("/").body).unwrap();
    let script =
        page.split('"').find(|text| text.starts_with("./assets/") && text.ends_with(".js"));
    let Some(script) = script.map(|path| path.trim_start_matches('.')) else {
        fullbore_tests::tool::skip("this build has no pages; run ./run build");
        return;
    };
    let whole = viewer.ask(&format!("/-{script}"));
    assert_eq!(whole.field("Content-Encoding"), None);
    let mut tags = vec![whole.field("ETag").unwrap().to_owned()];
    for (accepted, coding) in [("gzip", "gzip"), ("gzip, br", "br"), ("br;q=0, gzip", "gzip")] {
        let request =
            format!("GET /-{script} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {accepted}\r\n\r\n");
        viewer.send(request.as_bytes()).unwrap();
        let response = viewer.response(true).unwrap();
        assert_eq!(response.field("Content-Encoding"), Some(coding), "{accepted}");
        assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
        assert!(response.body.len() < whole.body.len());
        tags.push(response.field("ETag").unwrap().to_owned());
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 3, "each form has a tag of its own: {tags:?}");
    served.stop();
}

#[test]
fn the_list_of_titles_is_compressed_for_clients_that_accept_gzip() {
    let library = library();
    for index in 0..200 {
        std::fs::write(library.path().join(format!("film {index}.mp4")), "").unwrap();
    }
    let served = serve(library.path());
    let mut viewer = served.viewer();
    let whole = titles(&mut viewer);
    let ask = "GET /-/titles.json HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n";
    viewer.send(format!("{ask}\r\n").as_bytes()).unwrap();
    let response = viewer.response(true).unwrap();
    assert_eq!(response.field("Content-Encoding"), Some("gzip"));
    assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
    assert!(response.body.len() * 5 < whole.len(), "{} of {}", response.body.len(), whole.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*response.body).read_to_string(&mut text).unwrap();
    assert_eq!(text, whole);
    // A page that has the list asks whether it has changed.
    let tag = response.field("ETag").unwrap();
    viewer.send(format!("{ask}If-None-Match: {tag}\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(viewer.response(false).unwrap().status, 304);
    served.stop();
}

#[test]
fn what_pages_refer_to_is_kept_for_good() {
    let library = library();
    let served = serve(library.path());
    let mut viewer = served.viewer();
    let page = String::from_utf8(viewer.ask("/").body).unwrap();
    let mut seen = 0;
    for path in page.split('"').filter_map(|text| text.strip_prefix("./assets/")) {
        let response = viewer.ask(&format!("/-/assets/{path}"));
        assert_eq!(response.status, 200, "{path}");
        assert!(response.field("Cache-Control").unwrap().contains("immutable"));
        assert_eq!(response.field("Content-Type"), Some(type_of(path)));
        seen += 1;
    }
    if seen == 0 {
        fullbore_tests::tool::skip("this build has no pages; run ./run build");
    }
    served.stop();
}

fn type_of(path: &str) -> &'static str {
    match path.rsplit_once('.').unwrap().1 {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "webmanifest" => "application/manifest+json",
        other => panic!("a type that no page should need: {other}"),
    }
}

#[test]
fn titles_are_listed_with_what_their_records_say_and_anew_when_they_change() {
    let library = library();
    let served = serve(library.path());
    let mut viewer = served.viewer();
    let text = titles(&mut viewer);
    for part in [
        r#""name":"a film""#,
        r#""path":"a%20film""#,
        r#""hls":"a%20film/master.m3u8""#,
        r#""duration_seconds":61.5"#,
        r#""height":360"#,
        r#""languages":["en","de"]"#,
        r#""poster":"a%20film/v-1/poster.jpg""#,
        r#""file":"clip.mp4""#,
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    std::fs::write(library.path().join("new.mp4"), "").unwrap();
    await_that(|| titles(&mut viewer).contains("new.mp4"), || "a new title is never listed".into());
    served.stop();
}

#[test]
fn a_broken_record_makes_a_title_without_facts() {
    let library = library();
    let record = library.path().join("a film/title.json");
    for broken in ["", "{", "[]", "{\"duration_seconds\":\"x\"}", "\u{0}"] {
        std::fs::write(&record, broken).unwrap();
        let served = serve(library.path());
        let text = titles(&mut served.viewer());
        assert!(text.contains("a film") && !text.contains("duration_seconds"), "{text}");
        served.stop();
    }
    std::fs::remove_file(&record).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &record).unwrap();
    let served = serve(library.path());
    assert!(titles(&mut served.viewer()).contains("a film"));
    served.stop();
}
