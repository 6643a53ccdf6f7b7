//! HLS playlists (RFC 8216): one variant of a multivariant playlist; the segments of a media playlist in order, with
//! each initialisation section (EXT-X-MAP) before the first segment that needs it. Separate audio is left out.

use super::{ManifestError, Reference, Source, bring, pick, push, range_of};
use crate::url::Url;
use m3u8_rs::{ByteRange, MasterPlaylist, MediaPlaylist, Playlist};

/// Segments of the playlist `text`, which was at `url`.
pub(super) fn segments(
    source: &mut impl Source,
    url: &Url,
    text: &str,
    rung: Option<usize>,
) -> Result<Vec<Reference>, ManifestError> {
    let master = match parse(text)? {
        Playlist::MediaPlaylist(media) => return media_segments(url, &media),
        Playlist::MasterPlaylist(master) => master,
    };
    let variant = resolve(url, &variant(master, rung)?)?;
    let document = bring(source, url, &Reference { url: variant.clone(), range: None })?;
    let text = std::str::from_utf8(&document).map_err(|_| ManifestError::NotText)?;
    match parse(text)? {
        Playlist::MediaPlaylist(media) => media_segments(&variant, &media),
        Playlist::MasterPlaylist(_) => Err(ManifestError::TooDeep),
    }
}

fn parse(text: &str) -> Result<Playlist, ManifestError> {
    m3u8_rs::parse_playlist_res(text.as_bytes())
        .map_err(|_| ManifestError::Malformed("it does not follow RFC 8216".into()))
}

/// The URI of the chosen variant.
fn variant(master: MasterPlaylist, rung: Option<usize>) -> Result<String, ManifestError> {
    let mut variants = master.variants;
    variants.retain(|variant| !variant.is_i_frame);
    variants.sort_by_key(|variant| variant.bandwidth);
    // The same rendition may be listed once for each audio group.
    variants.dedup_by(|one, other| one.uri == other.uri);
    Ok(pick(variants, rung)?.uri)
}

fn media_segments(url: &Url, playlist: &MediaPlaylist) -> Result<Vec<Reference>, ManifestError> {
    let mut references: Vec<Reference> = Vec::new();
    let mut section = None;
    let mut end = 0;
    for segment in &playlist.segments {
        if let Some(map) = &segment.map {
            let range = map.byte_range.as_ref().map(|range| span(range, 0)).transpose()?;
            let reference = Reference { url: resolve(url, &map.uri)?, range };
            if section.as_ref() != Some(&reference) {
                push(&mut references, reference.clone())?;
                section = Some(reference);
            }
        }
        // A range without an offset begins where the last one ended (RFC 8216 section 4.3.2.2).
        let range = segment.byte_range.as_ref().map(|range| span(range, end)).transpose()?;
        end = range.as_ref().map_or(0, |range| range.end);
        push(&mut references, Reference { url: resolve(url, &segment.uri)?, range })?;
    }
    Ok(references)
}

fn span(range: &ByteRange, default_start: u64) -> Result<std::ops::Range<u64>, ManifestError> {
    range_of(range.offset.unwrap_or(default_start), range.length)
}

fn resolve(base: &Url, reference: &str) -> Result<Url, ManifestError> {
    base.resolve(reference)
        .map_err(|error| ManifestError::Malformed(format!("the reference {reference:?}: {error}")))
}
