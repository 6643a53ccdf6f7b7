//! Pathways that a steering server derives from known ones (PATHWAY-CLONES).
//!
//! A media playlist whose URI is in the steering answer is at that URI. All other URLs are the base pathway's with another host and
//! additional parameters (RFC 8216, second edition, section 7.1). In HLS this applies to playlists, and their segments follow by relative
//! references; in DASH it applies to segments. In DASH the host may include a port: dash.js replaces host and port by the given text, and
//! servers that are not on the default port have to take that into account.

use super::listing::Budget;
use super::{ManifestError, PATHWAYS_MAX, resolve};
use crate::presentation::{
    Format, Index, Pathway, Presentation, Reference, Rendition, Segment, Segments, Source,
    TrackKind,
};
use crate::steering::PathwayClone;
use crate::url::{Url, UrlError};
use std::sync::Arc;

impl Presentation {
    /// Adds a pathway that is derived from another one. If there is already one of this name, nothing changes.
    ///
    /// # Errors
    /// If the other pathway is unknown, a resulting URL cannot be requested, or there are too many pathways. Then nothing has changed.
    pub fn clone_pathway(&mut self, clone: &PathwayClone) -> Result<(), ManifestError> {
        let index_of = |id: &str| self.pathways.iter().position(|pathway| pathway.id == id);
        if index_of(&clone.id).is_some() {
            return Ok(());
        }
        let base = index_of(&clone.base_id).ok_or_else(|| {
            ManifestError::Malformed(format!("there is no pathway {:?} to clone", clone.base_id))
        })?;
        if self.pathways.len() >= PATHWAYS_MAX {
            return Err(ManifestError::Bound("pathways"));
        }
        let mut making =
            Making { clone, format: self.format, budget: Budget::beside(self.listed_bytes()) };
        let mut sources = Vec::new();
        for track in &self.tracks {
            for rendition in &track.renditions {
                let source = &rendition.sources[base];
                sources.push(making.source(track.kind, rendition, source)?);
            }
        }
        let renditions = self.tracks.iter_mut().flat_map(|track| &mut track.renditions);
        for (rendition, source) in renditions.zip(sources) {
            rendition.sources.push(source);
        }
        self.pathways.push(Pathway { id: clone.id.clone() });
        Ok(())
    }

    /// Memory that all lists take. Even a small manifest may have long ones.
    pub fn listed_bytes(&self) -> usize {
        let renditions = self.tracks.iter().flat_map(|track| &track.renditions);
        let sources = renditions.flat_map(|rendition| &rendition.sources);
        let bytes = sources.map(|source| match source {
            Source::Listed(segments) => segments.listed_bytes(),
            _ => 0,
        });
        bytes.sum()
    }
}

/// A clone under construction.
struct Making<'c> {
    clone: &'c PathwayClone,
    format: Format,
    budget: Budget,
}

impl Making<'_> {
    fn changes_segments(&self) -> bool {
        self.clone.host.is_some() || !self.clone.params.is_empty()
    }

    fn source(
        &mut self,
        kind: TrackKind,
        rendition: &Rendition,
        base: &Source,
    ) -> Result<Source, ManifestError> {
        Ok(match base {
            Source::Document(reference) => match self.own_uri(kind, &rendition.id) {
                Some(uri) => {
                    let url = self.with_params(resolve(&reference.url, uri)?)?;
                    Source::Document(Reference { url, range: None })
                }
                None => Source::Document(self.reference(reference)?),
            },
            Source::Index(index) => Source::Index(Index {
                reference: self.reference(&index.reference)?,
                start: index.start.as_ref().map(|start| self.reference(start)).transpose()?,
                ..*index
            }),
            Source::Listed(segments) if self.changes_segments() => {
                Source::Listed(Arc::new(self.segments(segments)?))
            }
            Source::Listed(segments) => Source::Listed(Arc::clone(segments)),
            Source::Absent => Source::Absent,
        })
    }

    fn own_uri(&self, kind: TrackKind, id: &str) -> Option<&String> {
        let of_rendition = self.clone.renditions.get(id).filter(|_| kind == TrackKind::Sound);
        of_rendition.or(self.clone.variants.get(id))
    }

    fn segments(&mut self, base: &Segments) -> Result<Segments, ManifestError> {
        let mut list = Vec::with_capacity(base.list.len());
        for segment in &base.list {
            let reference = self.reference(&segment.reference)?;
            let segment = Segment { reference, start: self.start(&segment.start)?, ..*segment };
            self.budget.take(&segment)?;
            list.push(segment);
        }
        Ok(Segments { start: self.start(&base.start)?, list, ..*base })
    }

    fn start(&self, base: &Option<Reference>) -> Result<Option<Reference>, ManifestError> {
        base.as_ref().map(|start| self.reference(start)).transpose()
    }

    fn reference(&self, base: &Reference) -> Result<Reference, ManifestError> {
        let url = match (&self.clone.host, self.format) {
            (Some(host), Format::Hls) => base.url.with_host(host).map_err(refused)?,
            (Some(host), Format::Dash) => base.url.with_host_or_port(host).map_err(refused)?,
            (None, _) => base.url.clone(),
        };
        Ok(Reference { url: self.with_params(url)?, range: base.range.clone() })
    }

    fn with_params(&self, url: Url) -> Result<Url, ManifestError> {
        let add =
            |url: Url, (name, value): &(String, String)| url.with_query_parameter(name, value);
        self.clone.params.iter().fold(url, add).unless_long().map_err(refused)
    }
}

fn refused(error: UrlError) -> ManifestError {
    ManifestError::Malformed(format!("a clone's URL: {error}"))
}
