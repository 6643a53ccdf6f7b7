//! HLS playlists (RFC 8216, and its second edition where a tag is newer): multivariant playlists ([`multivariant`]) and
//! media playlists ([`media`]).
//!
//! Both are read line by line, once. Tests compare this reader with `m3u8-rs`. That crate is not used here, because it takes quadratic time
//! on some inputs and 700 bytes per segment, and rounds times to 24 bits.

mod attributes;
mod media;
mod multivariant;

pub(super) use media::segments;

use super::ManifestError;
use super::listing::Budget;
use crate::presentation::{
    Format, Pathway, Presentation, Reference, Rendition, Source, Track, TrackKind,
};
use crate::url::Url;
use std::sync::Arc;

/// Tags that occur only in media playlists (sections 4.3.2 and 4.3.3), and so tell them from multivariant playlists.
const MEDIA_TAGS: [&str; 5] = [
    "#EXTINF",
    "#EXT-X-TARGETDURATION",
    "#EXT-X-MEDIA-SEQUENCE",
    "#EXT-X-PLAYLIST-TYPE",
    "#EXT-X-ENDLIST",
];

/// Tags that occur only in multivariant playlists (section 4.3.4).
const MULTIVARIANT_TAGS: [&str; 4] =
    ["#EXT-X-STREAM-INF", "#EXT-X-I-FRAME-STREAM-INF", "#EXT-X-MEDIA", "#EXT-X-CONTENT-STEERING"];

/// The id of a pathway that the manifest does not name (RFC 8216, second edition, section 4.4.6.2).
pub(super) const UNNAMED_PATHWAY: &str = ".";

/// A line that is neither empty nor a comment.
enum Line<'a> {
    /// A tag, including its number sign, and the text after its colon.
    Tag(&'a str, &'a str),
    Uri(&'a str),
}

/// The lines of a playlist without empty ones and comments.
fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.filter_map(|line| {
        if !line.starts_with('#') {
            return Some(Line::Uri(line));
        }
        let (tag, value) = line.split_once(':').unwrap_or((line, ""));
        tag.starts_with("#EXT").then_some(Line::Tag(tag, value.trim()))
    })
}

/// Reads a playlist of either kind.
pub(super) fn presentation(url: &Url, text: &str) -> Result<Presentation, ManifestError> {
    if is_multivariant(text)? { multivariant::presentation(url, text) } else { alone(url, text) }
}

fn is_multivariant(text: &str) -> Result<bool, ManifestError> {
    let kind = |line| match line {
        Line::Tag(tag, _) if MULTIVARIANT_TAGS.contains(&tag) => Some(true),
        Line::Tag(tag, _) if MEDIA_TAGS.contains(&tag) => Some(false),
        _ => None,
    };
    lines(text).find_map(kind).ok_or(ManifestError::Empty)
}

/// A media playlist alone is a title of one rendition.
fn alone(url: &Url, text: &str) -> Result<Presentation, ManifestError> {
    let segments = media::segments(url, text)?;
    let is_live = segments.reload_after.is_some();
    let duration = (!is_live).then(|| segments.duration());
    let bits_per_second = media::bits_per_second(&segments);
    let source = if is_live {
        Source::Document(Reference { url: url.clone(), range: None })
    } else {
        Source::Listed(Arc::new(segments))
    };
    let rendition = Rendition { id: url.path().to_owned(), bits_per_second, sources: vec![source] };
    Ok(Presentation {
        format: Format::Hls,
        duration,
        pathways: vec![Pathway { id: UNNAMED_PATHWAY.into() }],
        steering: None,
        tracks: vec![Track { kind: TrackKind::Pictures, renditions: vec![rendition] }],
        reload_after: None,
    })
}

fn malformed(how: &str) -> ManifestError {
    ManifestError::Malformed(how.to_owned())
}
