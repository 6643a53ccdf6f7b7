//! A request for the caller to send.
//!
//! It shares its target with all viewers of the title, so that a request costs no allocation. Its address becomes text only on demand
//! ([`PlayerRequest::url`]), which never happens in virtual time.

use crate::cmcd::Cmcd;
use crate::presentation::{Presentation, Reference, Segments, Source};
use crate::url::Url;
use std::ops::Range;
use std::sync::Arc;

/// A request's name within its session. The player never uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(crate) u64);

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// The manifest: an HLS multivariant playlist or a DASH MPD.
    Manifest,
    /// An HLS media playlist.
    Playlist,
    /// A DASH index (`sidx`).
    Index,
    /// The content steering server's answer.
    Steering,
    /// An initialisation section.
    Start,
    /// A segment.
    Media,
    /// The first bytes of a segment, to measure a pathway.
    Probe,
}

impl RequestKind {
    /// The label under which it is counted.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Playlist => "playlist",
            Self::Index => "index",
            Self::Steering => "steering",
            Self::Start => "start",
            Self::Media => "media",
            Self::Probe => "probe",
        }
    }

    /// Returns true if the caller passes the parsed body to `handle_document`, instead of its bytes.
    pub fn is_document(self) -> bool {
        matches!(self, Self::Manifest | Self::Playlist | Self::Index | Self::Steering)
    }
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct PlayerRequest {
    /// Its name.
    pub id: RequestId,
    /// Its purpose.
    pub kind: RequestKind,
    /// The bytes to request; `None` for the whole resource.
    pub range: Option<Range<u64>>,
    /// Its pathway; 0 for the manifest and for steering.
    pub pathway: usize,
    /// The track; 0 for the manifest and for steering.
    pub track: usize,
    /// The rendition within the track; 0 for the manifest and for steering.
    pub rendition: usize,
    /// The segment's index in its list, for media and probes.
    pub segment: Option<usize>,
    /// Bytes of the body, if known beforehand.
    pub expected_bytes: Option<u64>,
    pub(crate) target: Target,
    pub(crate) cmcd: Option<Box<Cmcd>>,
}

/// The target of a request.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The manifest, or the steering server.
    Address(Arc<Url>),
    /// The document of a rendition.
    Document(Arc<Presentation>),
    /// A segment of a list, or the initialisation section before it.
    Segment(Arc<Segments>, usize),
    /// The list's first initialisation section.
    Start(Arc<Segments>),
}

impl PlayerRequest {
    /// The address to request, with CMCD in its query if the session sends any.
    pub fn url(&self) -> Url {
        let url = self.address();
        match &self.cmcd {
            Some(cmcd) => url.with_query_parameter("CMCD", &cmcd.text()),
            None => url.clone(),
        }
    }

    /// The address without CMCD: the base of relative references in a document, and a cache's key.
    pub fn address(&self) -> &Url {
        match &self.target {
            Target::Address(url) => url,
            _ => &self.reference().expect("everything but an address has a reference").url,
        }
    }

    /// The presentation's information about the document to fetch, for `Segments::parse`.
    pub fn source(&self) -> Option<&Source> {
        match &self.target {
            Target::Document(presentation) => Some(
                &presentation.tracks[self.track].renditions[self.rendition].sources[self.pathway],
            ),
            _ => None,
        }
    }

    fn reference(&self) -> Option<&Reference> {
        match &self.target {
            Target::Address(_) => None,
            Target::Document(_) => self.source()?.document(),
            Target::Segment(segments, index) if self.kind == RequestKind::Start => {
                segments.list[*index].start.as_ref()
            }
            Target::Segment(segments, index) => Some(&segments.list[*index].reference),
            Target::Start(segments) => segments.start.as_ref(),
        }
    }
}
