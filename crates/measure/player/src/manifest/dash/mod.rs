//! DASH manifests (ISO/IEC 23009-1): their representations, service locations, and segments by template, by list, or by the file's own
//! index.
//!
//! All adaptation sets with pictures form one track, with those of their representations that are in the first one's codec; trick modes are
//! left out. Of the sets with sound, the one with the role "main" is used, or else the first. The first period defines the renditions; each
//! later period contributes the representation of the same id, or else of the same rank.
//!
//! Read [`element`] for the parts of a manifest, [`location`] for pathways, [`segments`] for lists of segments.

mod description;
mod duration;
mod element;
mod location;
mod segments;
mod template;
mod timeline;

use super::listing::Budget;
use super::{ManifestError, RENDITIONS_MAX};
use crate::presentation::{
    Format, Pathway, Presentation, Rendition, SteeringServer, Track, TrackKind,
};
use crate::url::Url;
use element::{Manifest, Period, Representation};
use roxmltree::{Document, ParsingOptions};
use std::time::Duration;

pub(super) use duration::duration;

/// Limit on a manifest's elements and texts; a timeline has at most one element per segment.
const NODES_MAX: u32 = 1_000_000;

/// Limit on equals signs from one `<` to the next, and so on the attributes of an element, because the parser compares each attribute with
/// all the others of its element. Five times more than any element has, including queries in its URLs.
const EQUALS_MAX: usize = 128;

/// Limit on namespace declarations, because the parser keeps those in scope for each element that declares one.
const NAMESPACES_MAX: usize = 2048;

/// The shortest time between two reloads. Zero means "before each segment", and this is close to that.
const RELOAD_MIN: Duration = Duration::from_secs(1);

/// Refuses input that takes the parser more than linear time or memory.
fn check(text: &str) -> Result<(), ManifestError> {
    let is_heavy = |tag: &str| {
        let equals = tag.bytes().filter(|byte| *byte == b'=').count();
        equals > EQUALS_MAX && !tag.starts_with("!--")
    };
    if text.split('<').any(is_heavy) {
        return Err(ManifestError::Bound("attributes"));
    }
    if text.matches("xmlns").count() > NAMESPACES_MAX {
        return Err(ManifestError::Bound("namespaces"));
    }
    Ok(())
}

/// Reads the manifest from `url`.
pub(super) fn presentation(url: &Url, text: &str) -> Result<Presentation, ManifestError> {
    check(text)?;
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| ManifestError::Malformed(error.to_string()))?;
    let manifest = Manifest::read(document.root_element())?;
    let pathways = location::pathways(&manifest)?;
    Reader { url, manifest, pathways }.read()
}

/// A manifest that is being converted to a presentation.
struct Reader<'a> {
    url: &'a Url,
    manifest: Manifest<'a>,
    pathways: Vec<String>,
}

impl<'a> Reader<'a> {
    fn read(self) -> Result<Presentation, ManifestError> {
        let reload_after = self.reload_after();
        let mut budget = Budget::new();
        let mut tracks = Vec::new();
        for kind in [TrackKind::Pictures, TrackKind::Sound] {
            let renditions = self.renditions(kind, reload_after, &mut budget)?;
            if !renditions.is_empty() {
                tracks.push(Track { kind, renditions });
            }
        }
        if tracks.is_empty() {
            return Err(ManifestError::Empty);
        }
        Ok(Presentation {
            format: Format::Dash,
            duration: if self.manifest.is_live { None } else { self.manifest.duration() },
            pathways: self.pathways.into_iter().map(|id| Pathway { id }).collect(),
            steering: steering(self.url, &self.manifest),
            tracks,
            reload_after,
        })
    }

    fn reload_after(&self) -> Option<Duration> {
        let period = self.manifest.level.node.attribute("minimumUpdatePeriod").and_then(duration);
        period.filter(|_| self.manifest.is_live).map(|period| period.max(RELOAD_MIN))
    }

    /// The renditions of a track, each with its segments on each pathway.
    fn renditions(
        &self,
        kind: TrackKind,
        reload_after: Option<Duration>,
        budget: &mut Budget,
    ) -> Result<Vec<Rendition>, ManifestError> {
        let ladders: Vec<_> =
            self.manifest.periods.iter().map(|period| period.ladder(kind)).collect();
        let Some(first) = ladders.first() else { return Ok(Vec::new()) };
        if first.len() > RENDITIONS_MAX {
            return Err(ManifestError::Bound("renditions"));
        }
        let mut renditions = Vec::with_capacity(first.len());
        for (rank, representation) in first.iter().enumerate() {
            let across = self.across(&ladders, rank, representation.id);
            let mut sources = Vec::with_capacity(self.pathways.len());
            for pathway in &self.pathways {
                let listing = segments::PlayerRequest {
                    manifest: &self.manifest,
                    url: self.url,
                    pathway,
                    reload_after,
                };
                sources.push(listing.source(&across, budget)?);
            }
            renditions.push(Rendition {
                id: representation.id.to_owned(),
                bits_per_second: representation.bits_per_second.max(1),
                sources,
            });
        }
        Ok(renditions)
    }

    /// One rendition across all periods that have its track.
    fn across<'b>(
        &'b self,
        ladders: &[Vec<Representation<'a, 'b>>],
        rank: usize,
        id: &str,
    ) -> Vec<(&'b Period<'a>, Representation<'a, 'b>)> {
        let one = |(period, ladder): (&'b Period<'a>, &Vec<Representation<'a, 'b>>)| {
            let same = ladder.iter().find(|other| other.id == id && !id.is_empty());
            let last = ladder.len().checked_sub(1)?;
            Some((period, *same.unwrap_or(&ladder[rank.min(last)])))
        };
        self.manifest.periods.iter().zip(ladders).filter_map(one).collect()
    }
}

/// A steering server with an unusable URL counts as none: players continue without it.
fn steering(url: &Url, manifest: &Manifest<'_>) -> Option<SteeringServer> {
    let element = manifest.steering?;
    let first = element.attribute("defaultServiceLocation");
    Some(SteeringServer {
        url: url.resolve(element.text()?).ok()?,
        first: first.and_then(|names| names.split_whitespace().next()).map(str::to_owned),
        before_start: matches!(element.attribute("queryBeforeStart"), Some("true" | "1")),
    })
}
