//! The segments of a representation: by template, by list, by the file's own index, or the whole file as the only one.

use super::description::{Described, Description};
use super::element::{Level, Manifest, Period, Representation};
use super::location;
use super::template::Template;
use super::timeline::{Scale, Span, of_list, of_template};
use crate::manifest::listing::{Budget, Listing};
use crate::manifest::{ManifestError, range_of, resolve};
use crate::presentation::{Index, Reference, Segments, Source};
use crate::url::Url;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The segments to find: of which manifest, on which pathway.
pub(super) struct PlayerRequest<'a, 'b> {
    pub(super) manifest: &'b Manifest<'a>,
    pub(super) url: &'b Url,
    pub(super) pathway: &'b str,
    pub(super) reload_after: Option<Duration>,
}

impl<'a> PlayerRequest<'a, '_> {
    /// The location of a rendition's segments; it has a representation in each of these periods.
    pub(super) fn source(
        &self,
        across: &[(&Period<'a>, Representation<'a, '_>)],
        budget: &mut Budget,
    ) -> Result<Source, ManifestError> {
        let mut listing = Listing::new(budget);
        for (period, representation) in across {
            listing.take_part()?;
            let levels =
                [&self.manifest.level, &period.level, representation.set, representation.level];
            let Some(base) = location::base(self.url, levels, self.pathway)? else {
                return Ok(Source::Absent);
            };
            let is_live = self.manifest.is_live;
            let mut part = Part { period, representation, is_live, base, listing: &mut listing };
            if let Some(index) = part.add()? {
                return match across {
                    [_] => Ok(Source::Index(index)),
                    _ => Err(ManifestError::Unsupported(
                        "a segment index in a manifest of several periods",
                    )),
                };
            }
        }
        let segments = listing.finish(self.reload_after)?;
        let clock = self.manifest.clock;
        Ok(Source::Listed(Arc::new(Segments { clock, ..segments })))
    }
}

/// A representation in its period, whose segments are being added to a list.
struct Part<'a, 'b, 'c> {
    period: &'b Period<'a>,
    representation: &'b Representation<'a, 'b>,
    is_live: bool,
    base: Url,
    listing: &'b mut Listing<'c>,
}

impl<'a, 'b> Part<'a, 'b, '_> {
    /// Adds its segments, or returns where their index is. Templates take precedence over lists, and lists over indexes.
    fn add(&mut self) -> Result<Option<Index>, ManifestError> {
        if let Some(template) = self.described(|level| level.template.as_ref()) {
            return self.by_template(&template).map(|()| None);
        }
        if let Some(list) = self.described(|level| level.list.as_ref()) {
            return self.by_list(&list).map(|()| None);
        }
        match self.described(|level| level.index.as_ref()) {
            Some(index) => self.by_index(&index),
            None => self.whole().map(|()| None),
        }
    }

    /// The elements of one kind that apply, nearest first.
    fn described(
        &self,
        of: fn(&'b Level<'a>) -> Option<&'b Description<'a>>,
    ) -> Option<Described<'a, 'b>> {
        let (period, representation): (&'b Period<'a>, &'b Representation<'a, 'b>) =
            (self.period, self.representation);
        let levels = [representation.level, representation.set, &period.level];
        let elements: Vec<_> = levels.into_iter().filter_map(of).collect();
        (!elements.is_empty()).then_some(Described(elements))
    }

    fn by_template(&mut self, described: &Described<'a, '_>) -> Result<(), ManifestError> {
        let Representation { id, bits_per_second, .. } = *self.representation;
        let template = |name| {
            let text = described.attribute(name);
            text.map(|text| Template::parse(text, id, bits_per_second)).transpose()
        };
        let media = template("media")?
            .ok_or_else(|| ManifestError::Malformed("a SegmentTemplate without media".into()))?;
        let start = match template("initialization")? {
            Some(template) => Some(self.file(&template.fill(0, 0))?),
            None => None,
        };
        let first_number = self.begin(described, start)?;
        let scale = Scale::of(described)?;
        let spans = of_template(described, scale, self.period.duration, self.is_live)?;
        for (index, span) in spans.into_iter().enumerate() {
            let number = first_number.checked_add(index as u64).ok_or(ManifestError::Range)?;
            let reference = self.file(&media.fill(number, span.start))?;
            self.push(scale, span, reference)?;
        }
        Ok(())
    }

    fn by_list(&mut self, described: &Described<'a, '_>) -> Result<(), ManifestError> {
        let start = self.initialization(described)?;
        self.begin(described, start)?;
        let scale = Scale::of(described)?;
        let segments = described.segments();
        let spans = of_list(described, scale, self.period.duration, segments.len() as u64)?;
        for (segment, span) in segments.iter().zip(spans) {
            let url = match segment.attribute("media") {
                Some(media) => resolve(&self.base, media)?,
                None => self.base.clone(),
            };
            let range = segment.attribute("mediaRange").map(byte_range).transpose()?;
            self.push(scale, span, Reference { url, range })?;
        }
        Ok(())
    }

    fn by_index(&mut self, described: &Described<'a, '_>) -> Result<Option<Index>, ManifestError> {
        let Some(range) = described.attribute("indexRange") else {
            return self.whole().map(|()| None);
        };
        Ok(Some(Index {
            reference: Reference { url: self.base.clone(), range: Some(byte_range(range)?) },
            start: self.initialization(described)?,
            begin: self.period.begin,
            duration: self.period.duration,
        }))
    }

    /// Uses the whole file as the only segment.
    fn whole(&mut self) -> Result<(), ManifestError> {
        let duration = self
            .period
            .duration
            .ok_or_else(|| ManifestError::Malformed("its length is not given".into()))?;
        let reference = Reference { url: self.base.clone(), range: None };
        self.listing.start_with(None);
        self.listing.push(self.period.begin, duration, reference)
    }

    /// Notes the initialisation section, and returns the first number.
    fn begin(
        &mut self,
        described: &Described<'a, '_>,
        start: Option<Reference>,
    ) -> Result<u64, ManifestError> {
        let first_number = described.number("startNumber", 1)?;
        if self.listing.is_empty() {
            self.listing.number_from(first_number);
        }
        self.listing.start_with(start);
        Ok(first_number)
    }

    fn push(
        &mut self,
        scale: Scale,
        span: Span,
        reference: Reference,
    ) -> Result<(), ManifestError> {
        let (begin, duration) = scale.times(self.period.begin, span);
        self.listing.push(begin, duration, reference)
    }

    fn initialization(
        &self,
        described: &Described<'a, '_>,
    ) -> Result<Option<Reference>, ManifestError> {
        let Some(node) = described.initialization() else { return Ok(None) };
        let url = match node.attribute("sourceURL") {
            Some(text) => resolve(&self.base, text)?,
            None => self.base.clone(),
        };
        let range = node.attribute("range").map(byte_range).transpose()?;
        Ok(Some(Reference { url, range }))
    }

    fn file(&self, reference: &str) -> Result<Reference, ManifestError> {
        Ok(Reference { url: resolve(&self.base, reference)?, range: None })
    }
}

/// Parses `first-last`, both inclusive.
fn byte_range(text: &str) -> Result<Range<u64>, ManifestError> {
    let (first, last) = text.split_once('-').ok_or(ManifestError::Range)?;
    let parse = |text: &str| text.trim().parse::<u64>().map_err(|_| ManifestError::Range);
    let (first, last) = (parse(first)?, parse(last)?);
    let length = last.checked_sub(first).and_then(|length| length.checked_add(1));
    range_of(first, length.ok_or(ManifestError::Range)?)
}
