//! Manifests with pathways, made of the manifests that ingest has written.
//!
//! A title's own manifest has relative references and knows no node. It is read once, as a [`ManifestTemplate`], and then written for each
//! viewer with the nodes that he gets. Refused, because a viewer's player would leave the fleet or follow the wrong steering server: references
//! that lead out of the title's folder, pathways, steering servers and variables of the title's own.
//!
//! Read `template` first, then `hls` or `dash`.

mod attributes;
mod dash;
mod error;
mod hls;
mod reference;
mod template;
mod templates;

pub use error::DocumentError;
pub use template::{ManifestTemplate, NodeAddress};
pub(crate) use templates::Templates;

/// The longest document that is taken. Ingest's manifest of a film with ten bit rates, five languages and 40 subtitles has 20 KB.
pub const DOCUMENT_BYTES_MAX: usize = 256 << 10;

/// Which kind of manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManifestKind {
    /// HTTP Live Streaming: a multivariant playlist.
    Hls,
    /// Dynamic Adaptive Streaming over HTTP: a media presentation description.
    Dash,
}

impl ManifestKind {
    /// The name that a manifest of this kind has below `/play/TITLE/`.
    pub fn file(self) -> &'static str {
        match self {
            Self::Hls => "master.m3u8",
            Self::Dash => "manifest.mpd",
        }
    }

    /// Its media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Hls => "application/vnd.apple.mpegurl",
            Self::Dash => "application/dash+xml",
        }
    }

    /// Its steering server's path.
    pub(crate) fn steering_path(self) -> &'static str {
        match self {
            Self::Hls => "/steering/hls",
            Self::Dash => "/steering/dash",
        }
    }
}
