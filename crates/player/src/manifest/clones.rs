//! Pathways that a steering server makes out of known ones (PATHWAY-CLONES).
//!
//! A media playlist that has a URI of its own in the answer is there; all other URLs are the base pathway's with another
//! host and with further parameters (RFC 8216, second edition, section 7.1). For HLS that concerns the playlists, whose
//! segments follow by relative references; for DASH it concerns segments.

use super::listing::Budget;
use super::{ManifestError, PATHWAYS_MAX, resolve};
use crate::presentation::{
    Index, Pathway, Presentation, Reference, Rendition, Segment, Segments, Source, TrackKind,
};
use crate::steering::PathwayClone;
use crate::url::{Url, UrlError};
use std::sync::Arc;

impl Presentation {
    /// Adds a pathway that is made out of another one. If there is one of this name already, nothing changes.
    ///
    /// # Errors
    /// If the other one is not known, if what results cannot be requested, or if there are too many pathways. Nothing has
    /// changed then.
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
        let mut budget = Budget::beside(self.listed_bytes());
        let mut sources = Vec::new();
        for track in &self.tracks {
            for rendition in &track.renditions {
                let source = &rendition.sources[base];
                sources.push(clone.source(track.kind, rendition, source, &mut budget)?);
            }
        }
        let renditions = self.tracks.iter_mut().flat_map(|track| &mut track.renditions);
        for (rendition, source) in renditions.zip(sources) {
            rendition.sources.push(source);
        }
        self.pathways.push(Pathway { id: clone.id.clone() });
        Ok(())
    }

    /// The memory that all lists take. A small manifest may have long ones.
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

impl PathwayClone {
    fn changes_segments(&self) -> bool {
        self.host.is_some() || !self.params.is_empty()
    }

    fn source(
        &self,
        kind: TrackKind,
        rendition: &Rendition,
        base: &Source,
        budget: &mut Budget,
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
                Source::Listed(Arc::new(self.segments(segments, budget)?))
            }
            Source::Listed(segments) => Source::Listed(Arc::clone(segments)),
            Source::Absent => Source::Absent,
        })
    }

    fn own_uri(&self, kind: TrackKind, id: &str) -> Option<&String> {
        let of_rendition = self.renditions.get(id).filter(|_| kind == TrackKind::Sound);
        of_rendition.or(self.variants.get(id))
    }

    fn segments(&self, base: &Segments, budget: &mut Budget) -> Result<Segments, ManifestError> {
        let optional = |start: &Option<Reference>| {
            start.as_ref().map(|start| self.reference(start)).transpose()
        };
        let one = |segment: &Segment| {
            let reference = self.reference(&segment.reference)?;
            let segment = Segment { reference, start: optional(&segment.start)?, ..*segment };
            budget.take(&segment).map(|()| segment)
        };
        let list: Result<Vec<_>, ManifestError> = base.list.iter().map(one).collect();
        Ok(Segments { start: optional(&base.start)?, list: list?, ..*base })
    }

    fn reference(&self, base: &Reference) -> Result<Reference, ManifestError> {
        let url = match &self.host {
            Some(host) => base.url.with_host(host).map_err(refused)?,
            None => base.url.clone(),
        };
        Ok(Reference { url: self.with_params(url)?, range: base.range.clone() })
    }

    fn with_params(&self, url: Url) -> Result<Url, ManifestError> {
        let add =
            |url: Url, (name, value): &(String, String)| url.with_query_parameter(name, value);
        self.params.iter().fold(url, add).unless_long().map_err(refused)
    }
}

fn refused(error: UrlError) -> ManifestError {
    ManifestError::Malformed(format!("a clone's URL: {error}"))
}
