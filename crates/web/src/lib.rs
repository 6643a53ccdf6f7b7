//! The pages: the shelf, the player and the dashboard, as Vite has built them (`web/`), inside the program.
//!
//! A page refers to all by relative addresses, from the folder that its `<base>` names: the server's own `/-/`. Where that lies
//! depends on how deep the page's own address is, and a token may stand before it (`/t/TOKEN/-/watch/film`); so the base is
//! filled in for each answer, and everything else follows from it: no page needs to know where it is.
//!
//! Built without `web/dist`, the program has no files, and each page says what to run.

#[cfg(test)]
mod tests;

/// A file that pages refer to; but for the licences its name changes with its content.
#[derive(Debug)]
pub struct File {
    /// Where it is below `/-/`, such as `assets/watch-1a2b3c4d.js`.
    pub path: &'static str,
    /// Its entity tag, with quotes.
    pub etag: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
    /// Its content compressed by Brotli (RFC 7932), where that is worth it.
    pub brotli: Option<&'static [u8]>,
}

/// Sorted by path.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// What may run and be loaded on a page (Content-Security-Policy, level 3): only what this server has, nothing that is written
/// into the page. `blob:` is how a browser names a film that a script feeds to it; hls.js makes an empty track of captions as `data:`.
pub const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; \
    media-src 'self' blob: data:; connect-src 'self'; worker-src 'none'; object-src 'none'; base-uri 'self'; \
    form-action 'none'; frame-ancestors 'none'";

/// For files whose names change with their content: a year, which is as good as forever (RFC 8246).
const FILE_CACHE_CONTROL: &str = "public, max-age=31536000, immutable";

/// For pages: kept, but asked about each time, so that a new version of the server shows at once.
pub const PAGE_CACHE_CONTROL: &str = "no-cache";

/// One of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The titles.
    Shelf,
    /// One title.
    Watch,
    /// The server.
    Dashboard,
}

/// A page, filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Html {
    /// The document, UTF-8.
    pub bytes: Vec<u8>,
    /// Its entity tag, with quotes.
    pub etag: String,
}

/// What stands in a built page where the base belongs; `web/*.html` have it.
const BASE: &str = "href=\"./-/\"";

const NOT_BUILT: &str = include_str!("not-built.html");

/// The licences of what went into the pages; of all files the one whose name stays.
const LICENCES: &str = "licences.txt";

/// The file at `path` below `/-/`; pages are none.
pub fn file(path: &[u8]) -> Option<&'static File> {
    if path.starts_with(b"assets/") || path == LICENCES.as_bytes() { built(path) } else { None }
}

impl File {
    /// How long it may be kept without asking.
    pub fn cache_control(&self) -> &'static str {
        if self.path == LICENCES { PAGE_CACHE_CONTROL } else { FILE_CACHE_CONTROL }
    }
}

fn built(path: &[u8]) -> Option<&'static File> {
    let index = FILES.binary_search_by(|file| file.path.as_bytes().cmp(path)).ok()?;
    Some(&FILES[index])
}

impl Page {
    fn name(self) -> &'static str {
        match self {
            Self::Shelf => "shelf.html",
            Self::Watch => "watch.html",
            Self::Dashboard => "dashboard.html",
        }
    }

    /// The page at an address that lies `depth` folders below `/-/`; `None` for one that lies beside `-`, as `/` does.
    pub fn fill_in(self, depth: Option<usize>) -> Html {
        let base = match depth {
            None => "./-/".to_owned(),
            Some(0) => "./".to_owned(),
            Some(depth) => "../".repeat(depth),
        };
        let (text, etag) = match built(self.name().as_bytes()) {
            Some(file) => (String::from_utf8_lossy(file.bytes), file.etag.trim_matches('"')),
            None => (NOT_BUILT.into(), "not-built"),
        };
        let etag = format!("\"{etag}-{}\"", depth.map_or(0, |depth| depth + 1));
        Html { bytes: text.replacen(BASE, &format!("href=\"{base}\""), 1).into_bytes(), etag }
    }
}
