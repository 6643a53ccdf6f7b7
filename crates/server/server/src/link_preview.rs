//! What other sites show of a link to a title: [Open Graph](https://ogp.me) in the player's page, and [oEmbed](https://oembed.com).
//!
//! Such sites run no scripts, and they need absolute URLs. These begin with `page_url`, or else with the server's scheme and the request's `Host`.
//! The request's token follows.

use crate::page::PageSettings;
use fullbore_http::{Field, Request};
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write;

/// The size of a title whose record has none, as for a plain file.
const SIZE: (u64, u64) = (1280, 720);

/// The members of a title in `titles.json` that a preview shows.
#[derive(Deserialize)]
struct Title {
    name: String,
    path: String,
    file: Option<String>,
    poster: Option<String>,
    duration_seconds: Option<f64>,
    #[serde(default)]
    width: u64,
    #[serde(default)]
    height: u64,
}

impl Title {
    /// A name for people, as the pages show it: without folders, and without the parts that only computers need.
    fn shown_name(&self) -> String {
        let last = self.name.rsplit('/').next().unwrap_or_default();
        let bare = match last.rsplit_once('.') {
            Some((bare, ending)) if self.file.is_some() && (2..=4).contains(&ending.len()) => bare,
            _ => last,
        };
        if bare.contains(' ') {
            return bare.to_owned();
        }
        let spaced = bare.replace(['_', '.'], " ");
        let words: Vec<_> = spaced.split_whitespace().collect();
        if words.is_empty() { last.to_owned() } else { words.join(" ") }
    }
}

/// The address of the library as a viewer sees it, with a slash at its end: `https://films.example/t/TOKEN/`. `path` is the request's path
/// to there. A site's library is only at its own hosts, so its address keeps the request's.
pub(crate) fn library_url(
    settings: &PageSettings,
    is_of_site: bool,
    request: &Request,
    path: &[u8],
) -> Option<String> {
    let host = match &settings.host {
        Some(host) if !is_of_site => host.as_str(),
        // The host may be empty (RFC 9112 section 3.2).
        _ => {
            std::str::from_utf8(request.field(Field::Host)?).ok().filter(|host| !host.is_empty())?
        }
    };
    let path = std::str::from_utf8(path).ok()?.trim_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    Some(format!("{}://{host}/{path}{slash}", settings.scheme))
}

/// The elements that show the title, an element of `titles.json`, where someone shares the address of its player.
pub(crate) fn open_graph(title: &[u8], library: &str) -> Option<String> {
    let title: Title = serde_json::from_slice(title).ok()?;
    let page = player_url(&title, library);
    let mut html = String::new();
    let mut meta = |kind: &str, name: &str, content: &str| {
        let content = escape::xml::escape_attribute(content);
        let _ = write!(html, "<meta {kind}=\"{name}\" content=\"{content}\" />");
    };
    meta("property", "og:type", "video.other");
    meta("property", "og:title", &title.shown_name());
    meta("property", "og:url", &page);
    if let Some(poster) = &title.poster {
        meta("property", "og:image", &format!("{library}{poster}"));
        meta("name", "twitter:card", "summary_large_image");
    }
    if let Some(seconds) = title.duration_seconds {
        meta("property", "video:duration", &format!("{:.0}", seconds.ceil()));
    }
    let asks = format!("{library}-/oembed.json?url={}", escape::percent::encode(&page));
    let asks = escape::xml::escape_attribute(&asks);
    let _ =
        write!(html, "<link rel=\"alternate\" type=\"application/json+oembed\" href=\"{asks}\" />");
    Some(html)
}

/// The title whose player the request's query asks about: the library's address as in that question, and the title's place there.
pub(crate) fn asked_title(request: &Request, library: &str) -> Option<(String, Vec<u8>)> {
    let url = parameter(request, "url")?;
    // A proxy in front may speak TLS.
    let (scheme, url) = url.split_once("://")?;
    let (_, library) = library.split_once("://")?;
    let path = url.strip_prefix(library)?.strip_prefix("-/watch/")?;
    let path = path.split(['?', '#']).next()?.trim_matches('/');
    let place = escape::percent::decode(path.as_bytes())?;
    matches!(scheme, "http" | "https").then(|| (format!("{scheme}://{library}"), place))
}

/// The report of oEmbed (section 2.3) about the title, an element of `titles.json`; none in another format than JSON. With `is_embeddable` it has
/// the player in a frame that fits into the size that the request's query gives.
pub(crate) fn oembed(
    title: &[u8],
    library: &str,
    request: &Request,
    is_embeddable: bool,
) -> Option<String> {
    let title: Title = serde_json::from_slice(title).ok()?;
    if parameter(request, "format").is_some_and(|format| format != "json") {
        return None;
    }
    let name = title.shown_name();
    let mut report = json!({
        "version": "1.0",
        "type": "link",
        "title": name,
        "provider_name": "Fullbore",
        "provider_url": library,
    });
    if is_embeddable {
        let (width, height) = frame_size(&title, request);
        let page = player_url(&title, library);
        let (page, name) =
            (escape::xml::escape_attribute(&page), escape::xml::escape_attribute(&name));
        let html = format!(
            "<iframe src=\"{page}\" width=\"{width}\" height=\"{height}\" title=\"{name}\" \
             allow=\"fullscreen; picture-in-picture\" allowfullscreen></iframe>"
        );
        report["type"] = "video".into();
        report["html"] = html.into();
        (report["width"], report["height"]) = (width.into(), height.into());
    }
    Some(report.to_string())
}

fn player_url(title: &Title, library: &str) -> String {
    format!("{library}-/watch/{}", title.path)
}

/// The title's size, made smaller until it fits into `maxwidth` and `maxheight`.
fn frame_size(title: &Title, request: &Request) -> (u64, u64) {
    let (width, height) = match (title.width, title.height) {
        (0, _) | (_, 0) => SIZE,
        size => size,
    };
    let bound = |name| parameter(request, name).and_then(|text| text.parse::<u32>().ok());
    let fit = |(width, height): (u64, u64), bound: Option<u32>| match bound.map(u64::from) {
        Some(bound) if bound < width => (bound.max(1), (height * bound / width).max(1)),
        _ => (width, height),
    };
    let (width, height) = fit((width, height), bound("maxwidth"));
    let (height, width) = fit((height, width), bound("maxheight"));
    (width, height)
}

/// A parameter of the request's query, decoded.
fn parameter(request: &Request, name: &str) -> Option<String> {
    let query = std::str::from_utf8(request.query()?).ok()?;
    let value = query.split('&').find_map(|one| one.strip_prefix(name)?.strip_prefix('='))?;
    let value = escape::percent::decode(value.replace('+', " ").as_bytes())?;
    String::from_utf8(value).ok()
}
