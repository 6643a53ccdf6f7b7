//! The parts of a manifest: periods, adaptation sets and representations. The children of each element are scanned once, so the time to
//! read a manifest grows only with its length.

use super::description::Description;
use super::duration::duration;
use crate::manifest::{ManifestError, codecs, date};
use crate::presentation::{TrackKind, WallClock};
use roxmltree::Node;
use std::time::Duration;

/// More periods than a day of live television with its advertisements has.
const PERIODS_MAX: usize = 2000;

/// An element that applies to the representations in it, reduced to what it says about the location of their segments.
pub(super) struct Level<'a> {
    pub(super) node: Node<'a, 'a>,
    pub(super) bases: Vec<Node<'a, 'a>>,
    pub(super) template: Option<Description<'a>>,
    pub(super) list: Option<Description<'a>>,
    /// Its SegmentBase.
    pub(super) index: Option<Description<'a>>,
}

impl<'a> Level<'a> {
    fn new(node: Node<'a, 'a>) -> Self {
        Self { node, bases: Vec::new(), template: None, list: None, index: None }
    }

    /// Stores a child if it is about segments; the first of each kind counts.
    fn take(&mut self, child: Node<'a, 'a>) -> Result<(), ManifestError> {
        let place = match child.tag_name().name() {
            "SegmentTemplate" => &mut self.template,
            "SegmentList" => &mut self.list,
            "SegmentBase" => &mut self.index,
            "BaseURL" => {
                self.bases.push(child);
                return Ok(());
            }
            _ => return Ok(()),
        };
        if place.is_none() {
            *place = Some(Description::read(child)?);
        }
        Ok(())
    }
}

/// The whole manifest.
pub(super) struct Manifest<'a> {
    pub(super) level: Level<'a>,
    pub(super) is_live: bool,
    /// When a live presentation's time zero was.
    pub(super) clock: Option<WallClock>,
    pub(super) steering: Option<Node<'a, 'a>>,
    pub(super) periods: Vec<Period<'a>>,
}

impl<'a> Manifest<'a> {
    pub(super) fn read(node: Node<'a, 'a>) -> Result<Self, ManifestError> {
        if node.tag_name().name() != "MPD" {
            return Err(ManifestError::Neither);
        }
        let mut level = Level::new(node);
        let (mut steering, mut periods) = (None, Vec::new());
        for child in node.children() {
            match child.tag_name().name() {
                "ContentSteering" => steering = steering.or(Some(child)),
                "Period" if periods.len() == PERIODS_MAX => {
                    return Err(ManifestError::Bound("periods"));
                }
                "Period" => periods.push(Period::read(child)?),
                _ => level.take(child)?,
            }
        }
        let total = node.attribute("mediaPresentationDuration").and_then(duration);
        place(&mut periods, total);
        let is_live = node.attribute("type") == Some("dynamic");
        let zero = node.attribute("availabilityStartTime").filter(|_| is_live);
        let clock = zero
            .and_then(date::since_1970)
            .map(|since_1970| WallClock { at: Duration::ZERO, since_1970 });
        Ok(Self { level, is_live, clock, steering, periods })
    }

    /// Its playing time, if known.
    pub(super) fn duration(&self) -> Option<Duration> {
        let last = self.periods.last()?;
        Some(last.begin + last.duration?)
    }
}

/// Fills in the begin and length of periods that do not give them (section 5.3.2.1). Each time is bounded, and so is the number of periods,
/// so their sum cannot overflow.
fn place(periods: &mut [Period<'_>], total: Option<Duration>) {
    let begins: Vec<_> = periods.iter().map(|period| period.says("start")).collect();
    let mut now = Duration::ZERO;
    for (index, period) in periods.iter_mut().enumerate() {
        period.begin = begins[index].unwrap_or(now);
        let end = begins.get(index + 1).map_or(total, |next| *next);
        let until_end = end.and_then(|end| end.checked_sub(period.begin));
        period.duration = period.says("duration").or(until_end);
        now = period.begin + period.duration.unwrap_or_default();
    }
}

/// A part of the presentation's time.
pub(super) struct Period<'a> {
    pub(super) level: Level<'a>,
    pub(super) begin: Duration,
    pub(super) duration: Option<Duration>,
    pub(super) sets: Vec<Set<'a>>,
}

impl<'a> Period<'a> {
    fn read(node: Node<'a, 'a>) -> Result<Self, ManifestError> {
        let (mut level, mut sets) = (Level::new(node), Vec::new());
        for child in node.children() {
            match child.tag_name().name() {
                "AdaptationSet" => sets.push(Set::read(child)?),
                _ => level.take(child)?,
            }
        }
        Ok(Self { level, begin: Duration::ZERO, duration: None, sets })
    }

    fn says(&self, name: &str) -> Option<Duration> {
        self.level.node.attribute(name).and_then(duration)
    }

    /// The representations of a track, from the lowest bit rate to the highest; for pictures, those in the first one's codec.
    pub(super) fn ladder<'b>(&'b self, kind: TrackKind) -> Vec<Representation<'a, 'b>> {
        let of = |content: Content| self.sets.iter().filter(move |set| set.content == content);
        let sets: Vec<_> = match kind {
            TrackKind::Pictures if of(Content::Pictures).next().is_some() => {
                of(Content::Pictures).collect()
            }
            TrackKind::Pictures => of(Content::Unknown).collect(),
            TrackKind::Sound => {
                let main = of(Content::Sound).find(|set| set.is_main);
                main.or(of(Content::Sound).next()).into_iter().collect()
            }
        };
        let all = sets
            .into_iter()
            .flat_map(|set| set.levels.iter().map(move |level| Representation::new(set, level)));
        let mut ladder: Vec<_> = all.collect();
        if let Some(kind) = ladder.iter().find_map(Representation::codec) {
            ladder.retain(|other| other.codec().is_none_or(|own| own == kind));
        }
        ladder.sort_by_key(|representation| representation.bits_per_second);
        ladder
    }
}

/// Content of an adaptation set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Pictures,
    Sound,
    /// Subtitles, thumbnails, trick modes, high dynamic range next to others.
    Other,
    /// Not specified.
    Unknown,
}

/// Representations that a player may switch between.
pub(super) struct Set<'a> {
    pub(super) level: Level<'a>,
    content: Content,
    is_main: bool,
    /// The levels above its representations.
    pub(super) levels: Vec<Level<'a>>,
}

impl<'a> Set<'a> {
    fn read(node: Node<'a, 'a>) -> Result<Self, ManifestError> {
        let (mut level, mut levels) = (Level::new(node), Vec::new());
        let (mut is_main, mut is_special) = (false, false);
        for child in node.children() {
            match child.tag_name().name() {
                "Representation" => {
                    let mut of_representation = Level::new(child);
                    child.children().try_for_each(|child| of_representation.take(child))?;
                    levels.push(of_representation);
                }
                "Role" => is_main |= child.attribute("value") == Some("main"),
                "EssentialProperty" => is_special |= is_trick_mode(child) || is_hdr(child),
                _ => level.take(child)?,
            }
        }
        let content = if is_special { Content::Other } else { content(node, levels.first()) };
        Ok(Self { level, content, is_main, levels })
    }
}

/// According to the guidelines of DASH-IF, section 3.2.9.
fn is_trick_mode(property: Node<'_, '_>) -> bool {
    property.attribute("schemeIdUri") == Some("http://dashif.org/guidelines/trickmode")
}

/// Pictures of high dynamic range that other players should leave out: PQ or HLG (ISO/IEC 23091-2).
fn is_hdr(property: Node<'_, '_>) -> bool {
    let is_transfer =
        property.attribute("schemeIdUri") == Some("urn:mpeg:mpegB:cicp:TransferCharacteristics");
    is_transfer && matches!(property.attribute("value"), Some("16" | "18"))
}

fn content(set: Node<'_, '_>, first: Option<&Level<'_>>) -> Content {
    let of_first = first.and_then(|level| level.node.attribute("mimeType"));
    let said = set.attribute("contentType").or(set.attribute("mimeType")).or(of_first);
    match said.map(|said| said.split('/').next().unwrap_or(said)) {
        None => Content::Unknown,
        Some("video") => Content::Pictures,
        Some("audio") => Content::Sound,
        Some(_) => Content::Other,
    }
}

/// A representation, and the set that contains it.
#[derive(Clone, Copy)]
pub(super) struct Representation<'a, 'b> {
    pub(super) set: &'b Level<'a>,
    pub(super) level: &'b Level<'a>,
    pub(super) id: &'a str,
    pub(super) bits_per_second: u64,
}

impl<'a, 'b> Representation<'a, 'b> {
    fn new(set: &'b Set<'a>, level: &'b Level<'a>) -> Self {
        let bandwidth = level.node.attribute("bandwidth").and_then(|text| text.parse().ok());
        Self {
            set: &set.level,
            level,
            id: level.node.attribute("id").unwrap_or(""),
            bits_per_second: bandwidth.unwrap_or(0),
        }
    }

    /// The kind of its picture codec, if specified.
    fn codec(&self) -> Option<&'a str> {
        let said = |level: &Level<'a>| level.node.attribute("codecs");
        codecs::of_pictures(said(self.level).or(said(self.set))?)
    }
}
