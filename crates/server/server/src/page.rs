//! The responses of the public listener under `/-/`: the pages, their assets, and the list of titles.
//!
//! | path | what |
//! |---|---|
//! | `/-/` | the page of titles, also at `/` if the library has no `index.html` |
//! | `/-/watch/TITLE` | the player; the page itself checks whether the title exists |
//! | `/-/assets/NAME` | files that pages refer to, cached for good, because names change with content |
//! | `/-/titles.json` | the titles; those that need a token only if the request's token allows them |
//! | `/-/oembed.json?url=URL` | what other sites show of a link to a title's player |

use crate::libraries::Library;
use crate::link_preview;
use crate::title_listing::List;
use crate::worker::Worker;
use config::Config;
use fullbore_http::{Context, PageBody, Part, Request, Response, respond_page};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// The settings of the public pages.
pub struct PageSettings {
    /// The scheme of their addresses.
    pub(crate) scheme: String,
    /// The host of their addresses, in place of the request's; none without `page_url`.
    pub(crate) host: Option<String>,
    /// The Content-Security-Policy of the player.
    player_policy: String,
    /// Set if other sites may show the player in a frame.
    is_player_embeddable: bool,
}

impl PageSettings {
    /// The settings of the configuration.
    pub(crate) fn of(config: &Config) -> Self {
        let sites = &config.page_embedders;
        let public = config.page_scheme_and_host();
        let own_scheme = if config.tls.enabled { "https" } else { "http" };
        Self {
            scheme: public.map_or(own_scheme, |(scheme, _)| scheme).to_owned(),
            host: public.map(|(_, host)| host.to_owned()),
            player_policy: web::policy_with_embedders(sites),
            is_player_embeddable: !sites.is_empty(),
        }
    }
}

/// Header fields of all other responses: no page of another site needs them.
const PART_FIELDS: &[(&str, &str)] = &[("Cross-Origin-Resource-Policy", "same-origin")];

/// A library's own page at `/`.
pub const FRONT: &[u8] = b"index.html";

/// The page of titles at `/`.
pub fn shelf(worker: &Worker, request: &Request) -> Response {
    document(worker, request, web::Page::Shelf, None)
}

/// The response for `path` below `/-/`; `None` if there is none. The list contains the titles, by path, that `may_name` allows.
pub fn reserved(
    worker: &Worker,
    library: &Library,
    request: &Request,
    path: &[u8],
    may_name: Option<impl FnMut(&[u8]) -> bool>,
) -> Option<Response> {
    let listing = library.listing.as_ref()?;
    let is_folder = is_folder(request);
    let address = || {
        let above = path_above(request, path);
        let pages = &worker.libraries.pages;
        link_preview::library_url(pages, library.is_of_site(), request, above)
    };
    if path.starts_with(b"watch/") || (path == b"watch" && is_folder) {
        let place = path.strip_prefix(b"watch/").unwrap_or_default();
        let metadata = metadata(&listing.list(), address(), place, may_name);
        let depth = Some(depth_of(request, path));
        let html = web::Page::Watch.fill_in(depth).with_metadata(metadata.unwrap_or_default());
        let policy = &worker.libraries.pages.player_policy;
        return Some(worker.with_context(|context| respond_html(request, html, policy, context)));
    }
    match (path, is_folder) {
        (b"", true) => {
            Some(document(worker, request, web::Page::Shelf, Some(depth_of(request, path))))
        }
        (_, true) => None,
        (b"titles.json", false) => {
            let mut list = listing.list();
            if let Some(mut may_name) = may_name {
                list = list.only(|title| may_name(title.as_os_str().as_bytes()));
            }
            let body = vec![Part::Shared(Arc::clone(&list.json))];
            let gzip = list.gzip.clone().map(Part::Shared);
            let etag = Some(&*list.etag);
            Some(respond(worker, request, PageBody { etag, body, gzip, ..json() }))
        }
        (b"oembed.json", false) => {
            let pages = &worker.libraries.pages;
            let report = oembed(pages, &listing.list(), request, &address()?, may_name)?;
            let body = vec![Part::Bytes(report.into_bytes())];
            Some(respond(worker, request, PageBody { body, ..json() }))
        }
        (path, false) => worker.with_context(|context| asset(request, path, context)),
    }
}

/// What the player's page says to other sites about the title at `place` of the library at the address `library`; `None` if there is no such title,
/// or none that `may_name` allows.
fn metadata(
    list: &List,
    library: Option<String>,
    place: &[u8],
    may_name: Option<impl FnMut(&[u8]) -> bool>,
) -> Option<String> {
    link_preview::open_graph(named(list, place, may_name)?, &library?)
}

/// The answer to `oembed.json`; `None` if the request's query names no title, or none that `may_name` allows.
fn oembed(
    pages: &PageSettings,
    list: &List,
    request: &Request,
    library: &str,
    may_name: Option<impl FnMut(&[u8]) -> bool>,
) -> Option<String> {
    let (asked, place) = link_preview::asked_title(request, library)?;
    // Without `page_url`, only the question has the scheme of a proxy in front.
    let library = if pages.host.is_some() { library } else { &asked };
    let title = named(list, &place, may_name)?;
    link_preview::oembed(title, library, request, pages.is_player_embeddable)
}

/// The title at `place`, as JSON, if `may_name` allows it.
fn named<'l>(
    list: &'l List,
    place: &[u8],
    may_name: Option<impl FnMut(&[u8]) -> bool>,
) -> Option<&'l [u8]> {
    let (name, title) = list.title(place)?;
    let is_allowed = may_name.is_none_or(|mut may_name| may_name(name.as_os_str().as_bytes()));
    is_allowed.then_some(title)
}

/// The answer to a health check of a healthy server.
pub fn well(request: &Request, context: &Context<'_>) -> Response {
    let body = vec![Part::Static(b"ok\n")];
    let page = PageBody {
        content_type: "text/plain; charset=utf-8",
        cache_control: "no-store",
        body,
        ..part(None)
    };
    respond_page(request, page, context)
}

/// Whether the URL without its query ends with a slash.
fn is_folder(request: &Request) -> bool {
    sent_path(request).ends_with(b"/")
}

fn sent_path(request: &Request) -> &[u8] {
    request.target().split(|byte| *byte == b'?').next().unwrap_or_default()
}

/// How many folders below `/-/` the browser sees the page at `path` below it. A browser counts each slash that it sent, doubled ones too.
fn depth_of(request: &Request, path: &[u8]) -> usize {
    slashes_behind(sent_path(request), segments(path).count()).saturating_sub(1)
}

/// The path that was sent, up to the library: what comes before `/-/` and the page at `path` below it.
fn path_above<'r>(request: &'r Request, path: &[u8]) -> &'r [u8] {
    let sent = request.path_and_query().unwrap_or_default();
    let sent = sent.split('?').next().unwrap_or_default().as_bytes();
    &sent[..end_before(sent, segments(path).count() + 1)]
}

/// The slashes in the end of `sent` that has the last `count` segments, and the slashes before those.
fn slashes_behind(sent: &[u8], count: usize) -> usize {
    sent[end_before(sent, count)..].iter().filter(|byte| **byte == b'/').count()
}

/// The end of the segment before the last `count` ones; 0 if there is none.
fn end_before(sent: &[u8], count: usize) -> usize {
    let before = segments(sent).count().saturating_sub(count);
    segments(sent).take(before).last().map_or(0, |(start, segment)| start + segment.len())
}

/// The segments that are not empty, each with its start.
fn segments(path: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut start = 0;
    let starts = path.split(|byte| *byte == b'/').map(move |segment| {
        let at = start;
        start += segment.len() + 1;
        (at, segment)
    });
    starts.filter(|(_, segment)| !segment.is_empty())
}

/// The dashboard, for the admin listener's root.
pub fn dashboard(request: &Request, context: &Context<'_>) -> Response {
    respond_document(request, web::Page::Dashboard, None, context)
}

/// A page's asset at `path` below `/-/`; `None` if there is none of that name.
pub fn asset(request: &Request, path: &[u8], context: &Context<'_>) -> Option<Response> {
    web::file(path).map(|file| respond_page(request, part(Some(file)), context))
}

fn document(worker: &Worker, request: &Request, page: web::Page, depth: Option<usize>) -> Response {
    worker.with_context(|context| respond_document(request, page, depth, context))
}

fn respond_document(
    request: &Request,
    page: web::Page,
    depth: Option<usize>,
    context: &Context<'_>,
) -> Response {
    respond_html(request, page.fill_in(depth), web::POLICY, context)
}

fn respond_html(
    request: &Request,
    html: web::Html,
    policy: &str,
    context: &Context<'_>,
) -> Response {
    let page = PageBody {
        content_type: "text/html; charset=utf-8",
        etag: Some(&html.etag),
        cache_control: web::PAGE_CACHE_CONTROL,
        // Permissions of pages, no Referer for other sites (the URL may contain a token), and no handle to a page that another site has opened.
        fields: &[
            ("Content-Security-Policy", policy),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
        ],
        body: vec![
            Part::Static(html.before_base.as_bytes()),
            Part::Bytes(html.base.into_bytes()),
            Part::Static(html.after_base.as_bytes()),
            Part::Bytes(html.metadata.into_bytes()),
            Part::Static(html.after_head.as_bytes()),
        ],
        brotli: None,
        gzip: None,
    };
    respond_page(request, page, context)
}

/// A response for a page's asset; without one, a template for other parts.
fn part(file: Option<&'static web::Asset>) -> PageBody<'static> {
    PageBody {
        content_type: fullbore_http::content_type(file.map_or(b"", |file| file.path.as_bytes())),
        etag: file.map(|file| file.etag),
        cache_control: file.map_or(web::PAGE_CACHE_CONTROL, web::Asset::cache_control),
        fields: PART_FIELDS,
        body: file.map(|file| Part::Static(file.bytes)).into_iter().collect(),
        brotli: file.and_then(|file| file.brotli).map(Part::Static),
        gzip: file.and_then(|file| file.gzip).map(Part::Static),
    }
}

/// A template for JSON.
fn json() -> PageBody<'static> {
    PageBody { content_type: "application/json", ..part(None) }
}

fn respond(worker: &Worker, request: &Request, page: PageBody<'_>) -> Response {
    worker.with_context(|context| respond_page(request, page, context))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_of_a_page_counts_the_slashes_that_were_sent() {
        let depth = |sent: &str, count| slashes_behind(sent.as_bytes(), count) - 1;
        for (sent, count, expected) in [
            ("/-/", 0, 0),
            ("/-//", 0, 1),
            ("//-/", 0, 0),
            ("/-/watch/a", 2, 1),
            ("/-/watch/films/a", 3, 2),
            ("/-/watch//films/a", 3, 3),
            ("/-/watch/films/a/", 3, 3),
            ("/-//watch/a", 2, 2),
            ("//t/x//-/watch/a", 2, 1),
            ("http://h/-/watch/a", 2, 1),
        ] {
            assert_eq!(depth(sent, count), expected, "{sent}");
        }
    }
}
