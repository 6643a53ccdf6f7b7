//! What a title consists of, as its manifest says: pathways, tracks, renditions and segments.
//!
//! A [`Presentation`] is read once and shared by all who watch the title. It may refer to further documents, namely HLS
//! media playlists and the indexes of DASH files ([`Source::document`]); what is in them is [`Segments`].

use crate::url::Url;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Which kind of manifest it is.
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
    /// Which kind of manifest it comes from.
    pub format: Format,
    /// How long it is. `None` if it is live, or if only its media playlists tell.
    pub duration: Option<Duration>,
    /// Where its bytes may come from: at least one, in the manifest's order. A manifest that names none has one called ".".
    pub pathways: Vec<Pathway>,
    /// Whom to ask about pathways.
    pub steering: Option<SteeringServer>,
    /// Pictures, with or without sound, then sound alone. Subtitles, trick modes and I-frame playlists are left out.
    pub tracks: Vec<Track>,
    /// When to fetch the manifest again: a live DASH presentation. At least a second.
    pub reload_after: Option<Duration>,
}

/// A set of servers that has the title: HLS says pathway, DASH says service location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pathway {
    /// Its name, which steering uses.
    pub id: String,
}

/// A content steering server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteeringServer {
    /// Where to ask.
    pub url: Url,
    /// The pathway to begin with.
    pub first: Option<String>,
    /// Whether to ask before the first segment (DASH's `queryBeforeStart`).
    pub before_start: bool,
}

/// What a track carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackKind {
    /// Pictures, and sound if it is in the same segments.
    Pictures,
    /// Sound alone.
    Sound,
}

/// One kind of media at several bit rates. A player needs one rendition of each track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// What it carries.
    pub kind: TrackKind,
    /// From the lowest bit rate to the highest; at least one.
    pub renditions: Vec<Rendition>,
}

/// A track at one bit rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendition {
    /// The manifest's name for it: a stable id, a DASH representation's id, or its URI.
    pub id: String,
    /// At least 1, and 1 if the manifest does not say.
    pub bits_per_second: u64,
    /// Where its segments are: one source for each pathway, in the order of [`Presentation::pathways`].
    pub sources: Vec<Source>,
}

/// How to learn a rendition's segments on one pathway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// From an HLS media playlist, which has to be fetched.
    Document(Reference),
    /// From the segment index of an MP4 file, which has to be fetched.
    Index(Index),
    /// They are known.
    Listed(Arc<Segments>),
    /// This pathway does not have the rendition.
    Absent,
}

impl Source {
    /// What has to be fetched before [`Segments::parse`] knows the segments.
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
    /// The bytes of it; `None` for all. Never empty.
    pub range: Option<Range<u64>>,
}

/// Where the segment index of a file is, and what the manifest says about the file besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The index itself.
    pub reference: Reference,
    /// The initialisation section.
    pub start: Option<Reference>,
    /// When the first segment plays.
    pub begin: Duration,
    /// How long the file plays, if the manifest says so.
    pub duration: Option<Duration>,
}

/// The segments of a rendition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments {
    /// The initialisation section that the first segment needs.
    pub start: Option<Reference>,
    /// In order.
    pub list: Vec<Segment>,
    /// The number of the first one. It grows as the beginning of a live stream is taken off the list.
    pub first_number: u64,
    /// When to fetch the list again: it is live and has not ended. At least a second.
    pub reload_after: Option<Duration>,
}

impl Segments {
    /// How long all of them play.
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
    /// When it plays, since the presentation's beginning. In a live HLS playlist: since the playlist's first segment.
    pub begin: Duration,
    /// How long it plays.
    pub duration: Duration,
    /// Its bytes.
    pub reference: Reference,
    /// A new initialisation section in front of it. Never on the first one of a list.
    pub start: Option<Reference>,
}
