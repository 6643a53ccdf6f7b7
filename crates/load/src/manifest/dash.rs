//! DASH manifests (ISO/IEC 23009-1) of films: for each period, one representation of the video, with its initialisation
//! and its segments in order, by template, by list or by the file's own index. Audio is left out, and live streams are
//! refused.

use super::template::Template;
use super::{ManifestError, Reference, SEGMENTS_MAX, Source, bring, index, pick, push, range_of};
use crate::url::Url;
use roxmltree::{Document, Node, ParsingOptions};
use std::ops::Range;

/// Limit on a manifest's elements and texts; a timeline has at most one element per segment.
const NODES_MAX: u32 = 1_000_000;

/// Segments of the manifest `text`, which was at `url`.
pub(super) fn segments(
    source: &mut impl Source,
    url: &Url,
    text: &str,
    rung: Option<usize>,
) -> Result<Vec<Reference>, ManifestError> {
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| ManifestError::Malformed(error.to_string()))?;
    let mpd = document.root_element();
    if mpd.tag_name().name() != "MPD" {
        return Err(ManifestError::Neither);
    }
    if mpd.attribute("type") == Some("dynamic") {
        return Err(ManifestError::Unsupported("a live stream (a manifest of type dynamic)"));
    }
    let mut references = Vec::new();
    for period in children(mpd, "Period") {
        let representation = representation(mpd, period, rung)?;
        Segments { source, manifest: url, representation, references: &mut references }.add(url)?;
    }
    Ok(references)
}

fn children<'a>(node: Node<'a, 'a>, name: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    node.children().filter(move |child| child.tag_name().name() == name)
}

fn child<'a>(node: Node<'a, 'a>, name: &'static str) -> Option<Node<'a, 'a>> {
    children(node, name).next()
}

/// A representation with the elements around it, outermost first.
#[derive(Clone, Copy)]
struct Representation<'a> {
    mpd: Node<'a, 'a>,
    period: Node<'a, 'a>,
    set: Node<'a, 'a>,
    node: Node<'a, 'a>,
}

/// The representation to play in a period: video if there is any.
fn representation<'a>(
    mpd: Node<'a, 'a>,
    period: Node<'a, 'a>,
    rung: Option<usize>,
) -> Result<Representation<'a>, ManifestError> {
    let all = || {
        children(period, "AdaptationSet").flat_map(move |set| {
            children(set, "Representation").map(move |node| Representation {
                mpd,
                period,
                set,
                node,
            })
        })
    };
    let mut chosen: Vec<_> = all().filter(Representation::is_video).collect();
    if chosen.is_empty() {
        chosen = all().collect();
    }
    chosen.sort_by_key(Representation::bandwidth);
    pick(chosen, rung)
}

impl<'a> Representation<'a> {
    fn is_video(&self) -> bool {
        let says = |node: Node<'_, '_>| {
            node.attribute("contentType") == Some("video")
                || node.attribute("mimeType").is_some_and(|kind| kind.starts_with("video/"))
        };
        says(self.set) || says(self.node)
    }

    fn bandwidth(&self) -> u64 {
        self.node.attribute("bandwidth").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The elements called `name` that apply to it, nearest first: what one leaves out, the next one may give.
    fn inherited(&self, name: &'static str) -> Vec<Node<'a, 'a>> {
        [self.node, self.set, self.period]
            .into_iter()
            .filter_map(|node| child(node, name))
            .collect()
    }

    /// The base of its references.
    fn base(&self, manifest: &Url) -> Result<Url, ManifestError> {
        let mut base = manifest.clone();
        for node in [self.mpd, self.period, self.set, self.node] {
            if let Some(text) = child(node, "BaseURL").and_then(|base| base.text()) {
                base = resolve(&base, text)?;
            }
        }
        Ok(base)
    }

    /// The length of its period, in seconds.
    fn seconds(&self) -> Option<f64> {
        let duration = self.period.attribute("duration");
        duration.or_else(|| self.mpd.attribute("mediaPresentationDuration")).and_then(seconds)
    }
}

/// The first of the elements that has the attribute.
fn attribute<'a>(nodes: &[Node<'a, 'a>], name: &str) -> Option<&'a str> {
    nodes.iter().find_map(|node| node.attribute(name))
}

/// An attribute's number; `otherwise` if no element has the attribute.
fn number(nodes: &[Node<'_, '_>], name: &str, otherwise: u64) -> Result<u64, ManifestError> {
    attribute(nodes, name).map_or(Ok(otherwise), |text| {
        text.parse()
            .map_err(|_| ManifestError::Malformed(format!("{name}={text:?} is not a number")))
    })
}

fn resolve(base: &Url, reference: &str) -> Result<Url, ManifestError> {
    base.resolve(reference)
        .map_err(|error| ManifestError::Malformed(format!("the reference {reference:?}: {error}")))
}

/// `first-last`, both included.
fn byte_range(text: &str) -> Result<Range<u64>, ManifestError> {
    let (first, last) = text.split_once('-').ok_or(ManifestError::Range)?;
    let parse = |text: &str| text.trim().parse::<u64>().map_err(|_| ManifestError::Range);
    let (first, last) = (parse(first)?, parse(last)?);
    let length = last.checked_sub(first).and_then(|length| length.checked_add(1));
    range_of(first, length.ok_or(ManifestError::Range)?)
}

/// The state of listing one representation's segments.
struct Segments<'a, 'b, S> {
    source: &'b mut S,
    manifest: &'b Url,
    representation: Representation<'a>,
    references: &'b mut Vec<Reference>,
}

impl<'a, S: Source> Segments<'a, '_, S> {
    fn add(&mut self, manifest: &Url) -> Result<(), ManifestError> {
        let base = self.representation.base(manifest)?;
        let found =
            |name| Some(self.representation.inherited(name)).filter(|nodes| !nodes.is_empty());
        if let Some(nodes) = found("SegmentTemplate") {
            return self.by_template(&base, &nodes);
        }
        if let Some(nodes) = found("SegmentList") {
            return self.by_list(&base, &nodes);
        }
        match found("SegmentBase") {
            Some(nodes) => self.by_index(&base, &nodes),
            // The whole file is the only segment.
            None => self.push(base, None),
        }
    }

    fn push(&mut self, url: Url, range: Option<Range<u64>>) -> Result<(), ManifestError> {
        push(self.references, Reference { url, range })
    }

    fn by_template(&mut self, base: &Url, nodes: &[Node<'a, 'a>]) -> Result<(), ManifestError> {
        let node = self.representation.node;
        let id = node.attribute("id").unwrap_or("");
        let template = |name| {
            attribute(nodes, name)
                .map(|text| Template::parse(text, id, self.representation.bandwidth()))
        };
        let (initialization, media) =
            (template("initialization").transpose()?, template("media").transpose()?);
        let media = media
            .ok_or_else(|| ManifestError::Malformed("a SegmentTemplate without media".into()))?;
        if let Some(initialization) = initialization {
            self.push(resolve(base, &initialization.fill(0, 0))?, None)?;
        }
        let first = number(nodes, "startNumber", 1)?;
        for (index, time) in self.times(nodes)?.into_iter().enumerate() {
            let number = first.checked_add(index as u64).ok_or(ManifestError::Range)?;
            self.push(resolve(base, &media.fill(number, time))?, None)?;
        }
        Ok(())
    }

    /// When each segment starts, in the template's own unit.
    fn times(&self, nodes: &[Node<'a, 'a>]) -> Result<Vec<u64>, ManifestError> {
        let timescale = number(nodes, "timescale", 1)?.max(1);
        let end = self.representation.seconds().map(|seconds| (seconds * timescale as f64) as u64);
        if let Some(timeline) = nodes.iter().find_map(|node| child(*node, "SegmentTimeline")) {
            return timeline_times(timeline, end);
        }
        let duration = number(nodes, "duration", 0)?;
        let (Some(end), true) = (end, duration > 0) else {
            return Err(ManifestError::Malformed("the number of segments is not given".into()));
        };
        let count = end.div_ceil(duration);
        if count > SEGMENTS_MAX as u64 {
            return Err(ManifestError::TooMany);
        }
        (0..count).map(|index| index.checked_mul(duration).ok_or(ManifestError::Range)).collect()
    }

    fn by_list(&mut self, base: &Url, nodes: &[Node<'a, 'a>]) -> Result<(), ManifestError> {
        self.initialization(base, nodes)?;
        let list = nodes.iter().find(|node| child(**node, "SegmentURL").is_some());
        for segment in list.into_iter().flat_map(|list| children(*list, "SegmentURL")) {
            let url = segment
                .attribute("media")
                .map_or(Ok(base.clone()), |media| resolve(base, media))?;
            let range = segment.attribute("mediaRange").map(byte_range).transpose()?;
            self.push(url, range)?;
        }
        Ok(())
    }

    fn by_index(&mut self, base: &Url, nodes: &[Node<'a, 'a>]) -> Result<(), ManifestError> {
        let Some(range) = attribute(nodes, "indexRange") else {
            return self.push(base.clone(), None);
        };
        let range = byte_range(range)?;
        self.initialization(base, nodes)?;
        let start = range.start;
        let reference = Reference { url: base.clone(), range: Some(range) };
        let document = bring(self.source, self.manifest, &reference)?;
        for segment in index::segments(&document, start)? {
            self.push(base.clone(), Some(segment))?;
        }
        Ok(())
    }

    fn initialization(&mut self, base: &Url, nodes: &[Node<'a, 'a>]) -> Result<(), ManifestError> {
        let Some(node) = nodes.iter().find_map(|node| child(*node, "Initialization")) else {
            return Ok(());
        };
        let url = node.attribute("sourceURL").map_or(Ok(base.clone()), |url| resolve(base, url))?;
        let range = node.attribute("range").map(byte_range).transpose()?;
        self.push(url, range)
    }
}

/// The start times in a SegmentTimeline (section 5.3.9.6): `S` has start, duration and repeats, where -1 repeats means
/// up to the next one's start or the period's end.
fn timeline_times(timeline: Node<'_, '_>, end: Option<u64>) -> Result<Vec<u64>, ManifestError> {
    let entries: Vec<_> = children(timeline, "S").collect();
    let mut times = Vec::new();
    let mut time = 0u64;
    for (index, entry) in entries.iter().enumerate() {
        let this = [*entry];
        time = number(&this, "t", time)?;
        let duration = number(&this, "d", 0)?;
        if duration == 0 {
            return Err(ManifestError::Malformed(
                "a segment without duration in its timeline".into(),
            ));
        }
        let count = match entry.attribute("r") {
            Some(text) if text.trim().starts_with('-') => {
                let next =
                    entries.get(index + 1).and_then(|next| next.attribute("t")?.parse().ok());
                let end: u64 =
                    next.or(end).ok_or(ManifestError::Unsupported("a timeline without end"))?;
                end.saturating_sub(time).div_ceil(duration)
            }
            _ => number(&this, "r", 0)?.saturating_add(1),
        };
        if count > (SEGMENTS_MAX - times.len()) as u64 {
            return Err(ManifestError::TooMany);
        }
        for _ in 0..count {
            times.push(time);
            time = time.checked_add(duration).ok_or(ManifestError::Range)?;
        }
    }
    Ok(times)
}

/// Seconds of an ISO 8601 duration such as `PT1H2M3.5S`. Years and months have no fixed length and are not accepted.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let (date, time) = match text.trim().strip_prefix('P')?.split_once('T') {
        Some((date, time)) => (date, time),
        None => (text.trim().strip_prefix('P')?, ""),
    };
    let mut seconds = 0.0;
    for (part, units) in
        [(date, [('D', 86_400.0)].as_slice()), (time, &[('H', 3600.0), ('M', 60.0), ('S', 1.0)])]
    {
        let mut rest = part;
        while !rest.is_empty() {
            let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
            let unit = rest[end..].chars().next()?;
            let (_, length) = units.iter().find(|(name, _)| *name == unit)?;
            let count: f64 = rest[..end]
                .parse()
                .ok()
                .filter(|count: &f64| count.is_finite() && *count >= 0.0)?;
            seconds += count * length;
            rest = &rest[end + 1..];
        }
    }
    Some(seconds)
}
