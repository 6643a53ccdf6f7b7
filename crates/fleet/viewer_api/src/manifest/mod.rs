//! Manifests with pathways, derived from the manifests that ingest has written.
//!
//! A title's own manifest has relative references and no nodes. It is parsed once, into a [`ManifestTemplate`], and then written for each viewer
//! with that viewer's nodes. Some things are refused, because a player would leave the fleet or follow the wrong steering server: references out of
//! the title's folder, and a title's own pathways, steering servers and variables.
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

/// Longest document that is accepted. Ingest's manifest of a film with ten bit rates, five languages and 40 subtitles has 20 KB.
pub const DOCUMENT_BYTES_MAX: usize = 256 << 10;

/// Kinds of manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManifestKind {
    /// HTTP Live Streaming: a multivariant playlist.
    Hls,
    /// Dynamic Adaptive Streaming over HTTP: a media presentation description.
    Dash,
}

impl ManifestKind {
    /// The name of a manifest of this kind below `/play/TITLE/`.
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
