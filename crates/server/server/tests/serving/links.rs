//! What other sites show of a link to a title, and whether they may show its player in a frame.

use crate::pages::{titles, write};
use crate::support::served::Served;
use crate::support::viewer::{Protocol, Response, Viewer};
use config::HostedSite;
use fullbore_tests::eventually;
use std::path::Path;
use token::{Grant, KeyRing};

/// A title with a poster, a plain file with an odd name, and one in a folder.
fn library() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| write(root.path(), path, content);
    write("films/a_film/master.m3u8", "#EXTM3U\n");
    write(
        "films/a_film/title.json",
        r#"{"version":1,"kind":"title","title":"a film","duration_seconds":61.5,"video":[{"width":640,"height":480}],
           "audio":[],"poster":"v-1/poster.jpg"}"#,
    );
    write(r#"b "1" <i>&amp;.mp4"#, "");
    write("Ame\u{301}lie.mp4", "");
    root
}

/// The page of a title, with the elements that other sites read.
fn metadata(viewer: &mut Viewer, path: &str) -> String {
    let response = viewer.ask(path);
    assert_eq!(response.status, 200, "{path}");
    String::from_utf8(response.body).unwrap()
}

fn oembed(viewer: &mut Viewer, query: &str) -> Response {
    viewer.ask(&format!("/-/oembed.json?{query}"))
}

fn json(response: &Response) -> serde_json::Value {
    assert_eq!(response.status, 200);
    assert_eq!(response.field("Content-Type"), Some("application/json"));
    serde_json::from_slice(&response.body).unwrap()
}

fn are_pages_built(text: &str) -> bool {
    let are_built = !text.contains("without its pages");
    if !are_built {
        fullbore_tests::tool::skip("this build has no pages; run ./run build");
    }
    are_built
}

fn policy(viewer: &mut Viewer, path: &str) -> String {
    viewer.ask(path).field("Content-Security-Policy").unwrap().to_owned()
}

fn serve(library: &Path, protocol: Protocol, embedders: &[&str]) -> Served {
    let embedders = embedders.iter().map(|site| (*site).to_owned()).collect();
    Served::start(library, protocol, |config| config.page_embedders = embedders)
}

#[test]
fn a_players_page_names_its_title_and_its_poster() {
    let library = library();
    for (protocol, scheme) in [(Protocol::Plain, "http"), (Protocol::Tls13, "https")] {
        let served = serve(library.path(), protocol, &[]);
        let mut viewer = served.viewer();
        titles(&mut viewer);
        let page = metadata(&mut viewer, "/-/watch/films/a_film");
        if !are_pages_built(&page) {
            return served.stop();
        }
        for element in [
            r#"<meta property="og:title" content="a film" />"#.to_owned(),
            format!(r#"<meta property="og:url" content="{scheme}://h/-/watch/films/a_film" />"#),
            format!(
                r#"<meta property="og:image" content="{scheme}://h/films/a_film/v-1/poster.jpg" />"#
            ),
            r#"<meta property="video:duration" content="62" />"#.to_owned(),
        ] {
            assert!(page.contains(&element), "{element} is not in {page}");
        }
        // The link leads to the report.
        let link = page.split(r#"json+oembed" href=""#).nth(1).unwrap();
        let link = link.split('"').next().unwrap().replace("&amp;", "&");
        let path = link.strip_prefix(&format!("{scheme}://h")).unwrap();
        let report = json(&viewer.ask(path));
        assert_eq!((&report["type"], &report["title"]), (&"link".into(), &"a film".into()));
        assert_eq!(report["version"], "1.0");
        served.stop();
    }
}

#[test]
fn a_name_adds_no_element_and_a_page_without_a_title_names_none() {
    let library = library();
    let served = serve(library.path(), Protocol::Plain, &["https://blog.example"]);
    let mut viewer = served.viewer();
    titles(&mut viewer);
    let odd = "b%20%221%22%20%3Ci%3E%26amp%3B.mp4";
    let page = metadata(&mut viewer, &format!("/-/watch/{odd}"));
    if are_pages_built(&page) {
        let title = r#"content="b &quot;1&quot; &lt;i&gt;&amp;amp;""#;
        assert!(page.contains(title), "{page}");
        assert!(!page.contains("<i>") && !page.contains("og:image"), "{page}");
        for path in ["/-/watch/none", "/-/watch/", "/-/watch/films", "/-/"] {
            assert!(!metadata(&mut viewer, path).contains("og:"), "{path}");
        }
    }
    let report =
        json(&oembed(&mut viewer, &format!("url=http://h/-/watch/{}", odd.replace('%', "%25"))));
    let html = report["html"].as_str().unwrap();
    assert_eq!(html.matches('<').count(), 2, "{html}");
    served.stop();
}

#[test]
fn a_site_that_may_embed_gets_a_player_that_fits_and_nobody_else_does() {
    let library = library();
    let served =
        serve(library.path(), Protocol::Plain, &["https://blog.example", "https://*.uni.example"]);
    let mut viewer = served.viewer();
    titles(&mut viewer);
    let allowed = "frame-ancestors https://blog.example https://*.uni.example";
    assert!(policy(&mut viewer, "/-/watch/films/a_film").ends_with(allowed));
    for path in ["/", "/-/"] {
        assert!(policy(&mut viewer, path).ends_with("frame-ancestors 'none'"), "{path}");
    }
    let url = "url=https%3A%2F%2Fh%2F-%2Fwatch%2Ffilms%2Fa_film";
    for (bounds, width, height) in [
        ("", 640, 480),
        ("&maxwidth=320", 320, 240),
        ("&maxheight=120&format=json", 160, 120),
        ("&maxwidth=64&maxheight=120", 64, 48),
        ("&maxwidth=0", 1, 1),
        ("&maxwidth=x&maxheight=-1", 640, 480),
    ] {
        // By either form of Unicode; one of them is on disk.
        for name in ["Am%C3%A9lie.mp4", "Ame%CC%81lie.mp4"] {
            let page = metadata(&mut viewer, &format!("/-/watch/{name}"));
            assert!(page.contains("og:title") || !are_pages_built(&page), "{name}");
            let asked = format!("url=http://h/-/watch/{}", name.replace('%', "%25"));
            assert_eq!(oembed(&mut viewer, &asked).status, 200, "{name}");
        }
        let report = json(&oembed(&mut viewer, &format!("{url}{bounds}")));
        assert_eq!(
            (&report["width"], &report["height"]),
            (&width.into(), &height.into()),
            "{bounds}"
        );
        assert_eq!(report["type"], "video");
        // The frame has the scheme that was asked with.
        let source = r#"src="https://h/-/watch/films/a_film""#;
        assert!(report["html"].as_str().unwrap().contains(source), "{report}");
    }
    for bad in [
        "",
        "url=",
        "url=https://h/-/watch/none",
        "url=https://h/-/watch/",
        "url=https://h/films/a_film",
        "url=https://other/-/watch/films/a_film",
        "url=https://h.other/-/watch/films/a_film",
        "url=javascript://h/-/watch/films/a_film",
        "url=/-/watch/films/a_film",
        "url=https://h/-/watch/films/a_film%25zz",
        "url=https://h/-/watch/films/a_film&format=xml",
        "url=%zz",
    ] {
        assert_eq!(oembed(&mut viewer, bad).status, 404, "{bad}");
    }
    served.stop();
}

/// The server is behind a proxy that ends TLS and sends a `Host` of its own.
#[test]
fn addresses_begin_with_the_page_url_and_a_sites_with_its_own_host() {
    let (library, of_site) = (library(), library());
    let site = HostedSite { hosts: vec!["a.example".into()], library: vec![of_site.path().into()] };
    let served = Served::start(library.path(), Protocol::Plain, |config| {
        config.page_url = Some("https://tv.example.org:8443/".into());
        config.page_embedders = vec!["https://blog.example".into()];
        config.sites = vec![site];
    });
    let mut viewer = served.viewer();
    titles(&mut viewer);
    let page = metadata(&mut viewer, "/-/watch/films/a_film");
    let at = "https://tv.example.org:8443";
    if are_pages_built(&page) {
        for element in [
            format!(r#"property="og:url" content="{at}/-/watch/films/a_film""#),
            format!(r#"property="og:image" content="{at}/films/a_film/v-1/poster.jpg""#),
            format!(r#"href="{at}/-/oembed.json?url=https%3A%2F%2Ftv.example.org%3A8443%2F"#),
        ] {
            assert!(page.contains(&element), "{element} is not in {page}");
        }
        assert!(!page.contains("http://h"), "{page}");
    }
    // The scheme that is asked with may be another, because a proxy may redirect it.
    for scheme in ["http", "https"] {
        let url = format!("url={scheme}://tv.example.org:8443/-/watch/films/a_film");
        let report = json(&oembed(&mut viewer, &url));
        assert_eq!(report["provider_url"], format!("{at}/"));
        let source = format!(r#"src="{at}/-/watch/films/a_film""#);
        assert!(report["html"].as_str().unwrap().contains(&source), "{report}");
    }
    assert_eq!(oembed(&mut viewer, "url=http://h/-/watch/films/a_film").status, 404);
    let query = "url=https://a.example/-/watch/films/a_film";
    let request = format!("GET /-/oembed.json?{query} HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let report = eventually("the site's list has its titles", || {
        viewer.send(request.as_bytes()).unwrap();
        let response = viewer.response(true).unwrap();
        (response.status == 200).then(|| json(&response))
    });
    assert_eq!(report["provider_url"], "https://a.example/");
    served.stop();
}

#[test]
fn a_title_that_needs_a_token_is_named_only_to_those_who_have_it() {
    let library = library();
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("url.key");
    token::make_key_file(&key).unwrap();
    let grant =
        Grant { prefix: b"films/a_film", expires_unix_seconds: u32::MAX.into(), client: None };
    let token = KeyRing::read(&[&key]).unwrap().sign(&grant).unwrap();
    let served = Served::start(library.path(), Protocol::Plain, |config| {
        config.signing.keys = vec![key];
        config.signing.required = vec!["/films".into()];
    });
    let mut viewer = served.viewer();
    titles(&mut viewer);
    let page = metadata(&mut viewer, "/-/watch/films/a_film");
    assert!(!page.contains("og:") && !page.contains("a film"), "{page}");
    let url = "url=http://h/-/watch/films/a_film";
    assert_eq!(oembed(&mut viewer, url).status, 404);
    let signed = viewer
        .ask(&format!("/t/{token}/-/oembed.json?url=http://h/t/{token}/-/watch/films/a_film"));
    assert_eq!(json(&signed)["title"], "a film");
    let page = metadata(&mut viewer, &format!("/t/{token}/-/watch/films/a_film"));
    if are_pages_built(&page) {
        let poster = format!("http://h/t/{token}/films/a_film/v-1/poster.jpg");
        assert!(page.contains(&poster), "{poster} is not in {page}");
    }
    served.stop();
}
