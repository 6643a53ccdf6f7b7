//! The parts of a title according to its manifest: pathways, tracks, renditions and segments.
//!
//! A [`Presentation`] is read once and shared by all viewers of the title. It may refer to further documents, namely HLS media playlists
//! and the indexes of DASH files ([`Source::document`]). Their contents are [`Segments`].

use crate::url::Url;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The kind of manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// HTTP Live Streaming (RFC 8216 and its second edition).
    Hls,
    /// Dynamic Adaptive Streaming over HTTP (ISO/IEC 23009-1).
    Dash,
}

/// A title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presentation {
    /// The kind of manifest that it comes from.
    pub format: Format,
    /// Its playing time. `None` if it is live, or if only its media playlists contain it.
    pub duration: Option<Duration>,
    /// The sources of its bytes: at least one, in the manifest's order. A manifest that names none has one called ".".
    pub pathways: Vec<Pathway>,
    /// The server to ask about pathways.
    pub steering: Option<SteeringServer>,
    /// Pictures, with or without sound, then separate sound. Subtitles, trick modes and I-frame playlists are left out.
    pub tracks: Vec<Track>,
    /// When to fetch the manifest again, for a live DASH presentation. At least a second.
    pub reload_after: Option<Duration>,
}

/// A set of servers that has the title. HLS calls it a pathway, DASH a service location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pathway {
    /// Its name, which steering uses.
    pub id: String,
}

/// A content steering server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteeringServer {
    /// The URL to ask.
    pub url: Url,
    /// The pathway to start with.
    pub first: Option<String>,
    /// Set if the player must ask before the first segment (DASH's `queryBeforeStart`).
    pub before_start: bool,
}

/// The content of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackKind {
    /// Pictures, and sound if it is in the same segments.
    Pictures,
    /// Sound only.
    Sound,
}

/// One kind of media at several bit rates. A player needs one rendition of each track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Its content.
    pub kind: TrackKind,
    /// From the lowest bit rate to the highest; at least one.
    pub renditions: Vec<Rendition>,
}

/// A track at one bit rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendition {
    /// The manifest's name for it: a stable id, a DASH representation's id, or its URI.
    pub id: String,
    /// At least 1, and 1 if the manifest does not state it.
    pub bits_per_second: u64,
    /// The locations of its segments: one source for each pathway, in the order of [`Presentation::pathways`].
    pub sources: Vec<Source>,
}

/// How to find a rendition's segments on one pathway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In an HLS media playlist, which has to be fetched.
    Document(Reference),
    /// In the segment index of an MP4 file, which has to be fetched.
    Index(Index),
    /// They are known already.
    Listed(Arc<Segments>),
    /// This pathway does not have the rendition.
    Absent,
}

impl Source {
    /// The document to fetch before [`Segments::parse`] can list the segments.
    pub fn document(&self) -> Option<&Reference> {
        match self {
            Self::Document(reference) => Some(reference),
            Self::Index(index) => Some(&index.reference),
            Self::Listed(_) | Self::Absent => None,
        }
    }
}

/// A file and a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The file.
    pub url: Url,
    /// Its byte range; `None` for the whole file. Never empty.
    pub range: Option<Range<u64>>,
}

/// The location of a file's segment index, and what the manifest says about the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The index itself.
    pub reference: Reference,
    /// The initialisation section.
    pub start: Option<Reference>,
    /// When the first segment plays.
    pub begin: Duration,
    /// The file's playing time, if the manifest states it.
    pub duration: Option<Duration>,
}

/// The segments of a rendition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// The initialisation section that the first segment needs.
    pub start: Option<Reference>,
    /// In order.
    pub list: Vec<Segment>,
    /// The number of the first one. It grows as segments are removed from the beginning of a live stream's list.
    pub first_number: u64,
    /// When to fetch the list again: it is live and has not ended. At least a second.
    pub reload_after: Option<Duration>,
    /// Where a new viewer begins. `None` if the list does not say so.
    pub entry: Option<StartPoint>,
    /// When its media was made. `None` if the list does not say so.
    pub clock: Option<WallClock>,
}

/// Where a new viewer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartPoint {
    /// This long after the list's beginning.
    AfterBegin(Duration),
    /// This long before the list's end.
    BeforeEnd(Duration),
}

/// One moment of a stream by two clocks, from HLS's EXT-X-PROGRAM-DATE-TIME or DASH's availabilityStartTime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    /// When it plays, on the list's timeline.
    pub at: Duration,
    /// When it was made, since 1970.
    pub since_1970: Duration,
}

impl Segments {
    /// Total playing time.
    pub fn duration(&self) -> Duration {
        self.list.iter().map(|segment| segment.duration).sum()
    }

    /// The initialisation section that the segment at `index` needs.
    pub fn start_of(&self, index: usize) -> Option<&Reference> {
        let until = self.list.iter().take(index.saturating_add(1));
        until.rev().find_map(|segment| segment.start.as_ref()).or(self.start.as_ref())
    }
}

/// A piece of media that is fetched at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// When it plays, relative to the presentation's beginning. In a live HLS playlist: relative to the playlist's first segment.
    pub begin: Duration,
    /// Its playing time.
    pub duration: Duration,
    /// Its bytes.
    pub reference: Reference,
    /// A new initialisation section before it. Never on the first one of a list.
    pub start: Option<Reference>,
}
