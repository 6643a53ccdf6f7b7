//! The pages: the titles, the player, the dashboard and the fleet, as built by Vite (`web/`), inside the program.
//!
//! A page refers to everything by relative URLs, from the folder that its `<base>` names: the server's own `/-/`. Its position
//! depends on the depth of the page's own path, and a token may precede it (`/t/TOKEN/-/watch/film`); so the base is
//! filled in for each answer, and everything else follows from it: no page needs to know its own path.
//!
//! Built without `web/dist`, the program has no files, and each page says what to run.

use std::hash::{DefaultHasher, Hasher};

mod policy;
#[cfg(test)]
mod tests;

pub use policy::{BadSource, ContentPolicy, POLICY, policy_with_embedders};

/// A page's asset; except for the licences its name changes with its content.
#[derive(Debug)]
pub struct Asset {
    /// Its path below `/-/`, such as `assets/watch-1a2b3c4d.js`.
    pub path: &'static str,
    /// Its entity tag, with quotes.
    pub etag: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
    /// Its content compressed by Brotli (RFC 7932), if that is worth it.
    pub brotli: Option<&'static [u8]>,
    /// Its content compressed by gzip (RFC 1952), for clients without Brotli: curl, say, or a proxy's health check.
    pub gzip: Option<&'static [u8]>,
}

/// Sorted by path.
static FILES: &[Asset] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// For files whose names change with their content: a year, which is as good as forever (RFC 8246).
const FILE_CACHE_CONTROL: &str = "max-age=31536000, immutable";

/// For pages: cached, but revalidated each time, so that a new version of the server shows at once.
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
    /// All nodes of a fleet.
    Fleet,
}

/// A filled-in page: its text is these parts, one after the other. Everything but the base and the metadata is part of the program, so a
/// viewer who reads it slowly keeps no copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Html {
    /// The document up to the base.
    pub before_base: &'static str,
    /// The base.
    pub base: String,
    /// The rest of the head after it.
    pub after_base: &'static str,
    /// Metadata: the last elements of the head.
    pub metadata: String,
    /// The end of the head, and the text after it.
    pub after_head: &'static str,
    /// Its entity tag, with quotes.
    pub etag: String,
}

/// The placeholder for the base in a built page, between these two; `web/*.html` have it.
const BASE: &str = "./-/";
const BEFORE_BASE: &str = "href=\"";
const AFTER_BASE: &str = "\"";
/// Metadata is inserted before this.
const HEAD_END: &str = "</head>";

const NOT_BUILT: &str = include_str!("not-built.html");

/// The licences of the pages' components; the only file whose name never changes.
const LICENCES: &str = "licences.txt";

/// The asset at `path` below `/-/`; pages are not assets.
pub fn file(path: &[u8]) -> Option<&'static Asset> {
    if path.starts_with(b"assets/") || path == LICENCES.as_bytes() { built(path) } else { None }
}

impl Asset {
    /// Its `Cache-Control`.
    pub fn cache_control(&self) -> &'static str {
        if self.path == LICENCES { PAGE_CACHE_CONTROL } else { FILE_CACHE_CONTROL }
    }
}

fn built(path: &[u8]) -> Option<&'static Asset> {
    let index = FILES.binary_search_by(|file| file.path.as_bytes().cmp(path)).ok()?;
    Some(&FILES[index])
}

impl Page {
    fn name(self) -> &'static str {
        match self {
            Self::Shelf => "shelf.html",
            Self::Watch => "watch.html",
            Self::Dashboard => "dashboard.html",
            Self::Fleet => "fleet.html",
        }
    }

    /// The page at a path that is `depth` folders below `/-/`; `None` for one next to `-`, such as `/`.
    pub fn fill_in(self, depth: Option<usize>) -> Html {
        let base = match depth {
            None => "./-/".to_owned(),
            Some(0) => "./".to_owned(),
            Some(depth) => "../".repeat(depth),
        };
        let (text, etag) = match built(self.name().as_bytes()) {
            Some(file) => {
                let text = std::str::from_utf8(file.bytes).expect("Vite writes UTF-8");
                (text, file.etag.trim_matches('"'))
            }
            None => (NOT_BUILT, "not-built"),
        };
        let etag = format!("\"{etag}-{}\"", depth.map_or(0, |depth| depth + 1));
        let metadata = String::new();
        let parts = text.find(&[BEFORE_BASE, BASE, AFTER_BASE].concat()).and_then(|at| {
            let (before_base, rest) = text.split_at(at + BEFORE_BASE.len());
            let rest = &rest[BASE.len()..];
            Some((before_base, rest.split_at(rest.find(HEAD_END)?)))
        });
        match parts {
            Some((before_base, (after_base, after_head))) => {
                Html { before_base, base, after_base, metadata, after_head, etag }
            }
            // The page that says how to build the pages.
            None => {
                let base = String::new();
                Html { before_base: text, base, after_base: "", metadata, after_head: "", etag }
            }
        }
    }
}

impl Html {
    /// The same page with these elements at the end of its head, and with an entity tag of its own.
    #[must_use]
    pub fn with_metadata(self, metadata: String) -> Self {
        if metadata.is_empty() || self.after_head.is_empty() {
            return self;
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(metadata.as_bytes());
        let etag = format!("{}-{:016x}\"", self.etag.trim_end_matches('"'), hasher.finish());
        Self { metadata, etag, ..self }
    }
}

impl std::fmt::Display for Html {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { before_base, base, after_base, metadata, after_head, .. } = self;
        write!(f, "{before_base}{base}{after_base}{metadata}{after_head}")
    }
}
