//! Multivariant playlists: the renditions, their pathways, and the sound that goes with them.
//!
//! Variants are the same rendition on different pathways if they have the same STABLE-VARIANT-ID, or else the same attributes. Variants
//! without PATHWAY-ID and with the same attributes are redundant streams: the second one's pathway is "..", and so on, as in hls.js.
//! Sound-only variants are left out if there are others, and so are those in another codec or another VIDEO-RANGE than the first, and
//! those that only differ from others in the codec or the channels of their sound.

use super::attributes::Attributes;
use super::{Line, UNNAMED_PATHWAY, lines, malformed};
use crate::manifest::{ManifestError, PATHWAYS_MAX, RENDITIONS_MAX, codecs, resolve};
use crate::presentation::{
    Format, Pathway, Presentation, Reference, Rendition, Source, SteeringServer, Track, TrackKind,
};
use crate::url::Url;
use std::collections::{BTreeMap, HashSet};

/// More variants than renditions on pathways, because each may be listed once per group of sound.
const VARIANTS_MAX: usize = 4096;

/// HLS does not state the bit rate of sound in separate playlists. This is a guess: AAC in stereo, as packagers make it.
const SOUND_BITS_PER_SECOND: u64 = 128_000;

/// An EXT-X-STREAM-INF and its URI.
#[derive(Clone)]
struct Variant<'a> {
    attributes: Attributes<'a>,
    bits_per_second: u64,
    uri: &'a str,
    url: Url,
}

impl<'a> Variant<'a> {
    fn new(base: &Url, attributes: Attributes<'a>, uri: &'a str) -> Result<Self, ManifestError> {
        let bandwidth = attributes.value("BANDWIDTH").and_then(|text| text.parse::<u64>().ok());
        let bandwidth = bandwidth.ok_or_else(|| malformed("a variant without BANDWIDTH"))?;
        Ok(Self { attributes, bits_per_second: bandwidth.max(1), uri, url: resolve(base, uri)? })
    }

    fn stable_id(&self) -> Option<&'a str> {
        self.attributes.value("STABLE-VARIANT-ID")
    }

    fn codecs(&self) -> &'a str {
        self.attributes.value("CODECS").unwrap_or("")
    }

    fn is_sound(&self) -> bool {
        self.attributes.value("RESOLUTION").is_none() && codecs::are_sound(self.codecs())
    }

    /// Returns true if a player that started with `first` can switch to it. Missing attributes count as matching.
    fn fits(&self, first: &Self) -> bool {
        let range = |of: &Self| of.attributes.value("VIDEO-RANGE").unwrap_or("SDR");
        let kinds = codecs::of_pictures(self.codecs()).zip(codecs::of_pictures(first.codecs()));
        kinds.is_none_or(|(own, other)| own == other) && range(self) == range(first)
    }

    /// A key that is the same on all pathways.
    fn key(&self) -> String {
        if let Some(id) = self.stable_id() {
            return format!("id {id}");
        }
        let said = ["CODECS", "RESOLUTION", "FRAME-RATE", "VIDEO-RANGE", "HDCP-LEVEL"]
            .map(|name| self.attributes.value(name).unwrap_or(""));
        format!("{} {}", self.bits_per_second, said.join(" "))
    }
}

/// The contents of a playlist.
#[derive(Default)]
struct Playlist<'a> {
    variants: Vec<Variant<'a>>,
    /// EXT-X-MEDIA tags of sound.
    media: Vec<Attributes<'a>>,
    steering: Option<SteeringServer>,
}

fn read<'a>(url: &Url, text: &'a str) -> Result<Playlist<'a>, ManifestError> {
    let mut playlist = Playlist::default();
    let mut variant = None;
    for line in lines(text) {
        match line {
            Line::Tag("#EXT-X-STREAM-INF", value) => variant = Some(Attributes(value)),
            Line::Tag("#EXT-X-MEDIA", value)
                if Attributes(value).value("TYPE") == Some("AUDIO") =>
            {
                playlist.media.push(Attributes(value));
            }
            Line::Tag("#EXT-X-CONTENT-STEERING", value) => {
                playlist.steering = steering(url, Attributes(value));
            }
            Line::Tag("#EXT-X-DEFINE", _) => {
                return Err(ManifestError::Unsupported("a variable (EXT-X-DEFINE)"));
            }
            Line::Tag(..) => {}
            Line::Uri(uri) => {
                if let Some(attributes) = variant.take() {
                    playlist.variants.push(Variant::new(url, attributes, uri)?);
                }
            }
        }
        if playlist.variants.len() > VARIANTS_MAX || playlist.media.len() > VARIANTS_MAX {
            return Err(ManifestError::Bound("variants"));
        }
    }
    Ok(playlist)
}

/// A steering server with an unusable URL counts as none: players continue without it.
fn steering(url: &Url, attributes: Attributes<'_>) -> Option<SteeringServer> {
    Some(SteeringServer {
        url: url.resolve(attributes.value("SERVER-URI")?).ok()?,
        first: attributes.value("PATHWAY-ID").map(str::to_owned),
        before_start: false,
    })
}

/// Reads the multivariant playlist from `url`.
pub(super) fn presentation(url: &Url, text: &str) -> Result<Presentation, ManifestError> {
    let mut playlist = read(url, text)?;
    let has_pictures = playlist.variants.iter().any(|variant| !variant.is_sound());
    if has_pictures {
        playlist.variants.retain(|variant| !variant.is_sound());
        if let Some(first) = playlist.variants.first().cloned() {
            playlist.variants.retain(|variant| variant.fits(&first));
        }
    }
    keep_one_kind_of_sound(&mut playlist, has_pictures);
    let mut ladder = Ladder::new(&playlist.variants);
    playlist.variants.sort_by_key(|variant| variant.bits_per_second);
    for variant in &playlist.variants {
        ladder.add(variant)?;
    }
    let kind = if has_pictures { TrackKind::Pictures } else { TrackKind::Sound };
    let mut tracks = vec![Track { kind, renditions: ladder.renditions() }];
    if tracks[0].renditions.is_empty() {
        return Err(ManifestError::Empty);
    }
    if has_pictures {
        tracks.extend(sound(url, &playlist.media, &ladder)?);
    }
    let pathways = ladder.pathways.into_iter().map(|pathway| Pathway { id: pathway.id }).collect();
    Ok(Presentation {
        format: Format::Hls,
        duration: None,
        pathways,
        steering: playlist.steering,
        tracks,
        reload_after: None,
    })
}

/// Leaves out variants that have the same picture as another one, but sound in another codec or with another number of channels than the first
/// variant, such as AC-3 in surround next to AAC in stereo. If there is only sound, leaves out all of that kind.
fn keep_one_kind_of_sound(playlist: &mut Playlist<'_>, has_pictures: bool) {
    let defaults = defaults(&playlist.media);
    let kind = |variant: &Variant<'_>| {
        let group = variant.attributes.value("AUDIO").and_then(|group| defaults.get(group));
        let channels = group.and_then(|default| default.value("CHANNELS"));
        (codecs::of_sounds(variant.codecs()).join(","), channels.map(str::to_owned))
    };
    let place = |variant: &Variant<'_>| {
        (variant.attributes.value("PATHWAY-ID").map(str::to_owned), variant.url.clone())
    };
    let Some(wanted) = playlist.variants.first().map(kind) else { return };
    let of_wanted = playlist.variants.iter().filter(|variant| kind(variant) == wanted);
    let places: HashSet<_> = of_wanted.map(place).collect();
    playlist.variants.retain(|variant| {
        kind(variant) == wanted || has_pictures && !places.contains(&place(variant))
    });
}

/// A pathway, and the sound groups that its variants name, in order.
struct Place<'a> {
    id: String,
    groups: Vec<&'a str>,
}

/// A rendition and its locations: the index of each pathway, with the URL there.
struct Rung {
    id: String,
    bits_per_second: u64,
    found: Vec<(usize, Url)>,
}

/// Variants arranged by rendition and pathway.
#[derive(Default)]
struct Ladder<'a> {
    pathways: Vec<Place<'a>>,
    rungs: Vec<Rung>,
    /// The rung for variants with this key. If one pathway has several, they are numbered in order.
    by_key: BTreeMap<(String, usize), usize>,
    /// How many variants with this key a pathway has.
    counts: BTreeMap<(Option<&'a str>, String), usize>,
    urls: HashSet<(Option<&'a str>, Url)>,
}

impl<'a> Ladder<'a> {
    /// Pathways are in the manifest's order, while variants are added from the lowest bit rate up.
    fn new(variants: &[Variant<'a>]) -> Self {
        let mut ladder = Self::default();
        for variant in variants {
            let id = variant.attributes.value("PATHWAY-ID").unwrap_or(UNNAMED_PATHWAY);
            ladder.pathway(id);
        }
        ladder
    }

    /// The index of a pathway, which is added if it is unknown.
    fn pathway(&mut self, id: &str) -> usize {
        let known = self.pathways.iter().position(|pathway| pathway.id == id);
        known.unwrap_or_else(|| {
            // One more than the limit is enough to show that there are too many.
            if self.pathways.len() <= PATHWAYS_MAX {
                self.pathways.push(Place { id: id.to_owned(), groups: Vec::new() });
            }
            self.pathways.len() - 1
        })
    }

    fn add(&mut self, variant: &Variant<'a>) -> Result<(), ManifestError> {
        let named = variant.attributes.value("PATHWAY-ID");
        // A variant may be listed once per group of sound; the lowest bit rate comes first.
        let is_new = self.urls.insert((named, variant.url.clone()));
        let mut nth = 0;
        let key = variant.key();
        if is_new {
            let count = self.counts.entry((named, key.clone())).or_default();
            nth = *count;
            *count += 1;
        }
        let pathway = match named {
            Some(id) => self.pathway(id),
            None => self.pathway(&UNNAMED_PATHWAY.repeat(nth.min(PATHWAYS_MAX) + 1)),
        };
        if self.pathways.len() > PATHWAYS_MAX {
            return Err(ManifestError::Bound("pathways"));
        }
        if let Some(group) = variant.attributes.value("AUDIO") {
            let groups = &mut self.pathways[pathway].groups;
            if groups.len() < RENDITIONS_MAX && !groups.contains(&group) {
                groups.push(group);
            }
        }
        if is_new { self.place(variant, (key, named.map_or(0, |_| nth)), pathway) } else { Ok(()) }
    }

    fn place(
        &mut self,
        variant: &Variant<'a>,
        key: (String, usize),
        pathway: usize,
    ) -> Result<(), ManifestError> {
        let rung = *self.by_key.entry(key).or_insert_with(|| {
            self.rungs.push(Rung {
                id: variant.stable_id().unwrap_or(variant.uri).to_owned(),
                bits_per_second: variant.bits_per_second,
                found: Vec::new(),
            });
            self.rungs.len() - 1
        });
        if self.rungs.len() > RENDITIONS_MAX {
            return Err(ManifestError::Bound("renditions"));
        }
        self.rungs[rung].found.push((pathway, variant.url.clone()));
        Ok(())
    }

    fn renditions(&self) -> Vec<Rendition> {
        let renditions = self.rungs.iter().map(|rung| Rendition {
            id: rung.id.clone(),
            bits_per_second: rung.bits_per_second,
            sources: sources(self.pathways.len(), &rung.found),
        });
        renditions.collect()
    }
}

/// One source per pathway.
fn sources(count: usize, found: &[(usize, Url)]) -> Vec<Source> {
    let mut sources = vec![Source::Absent; count];
    for (pathway, url) in found {
        sources[*pathway] = Source::Document(Reference { url: url.clone(), range: None });
    }
    sources
}

/// The track of separate sound: one rendition per group, which is the group's default.
fn sound(
    url: &Url,
    media: &[Attributes<'_>],
    ladder: &Ladder<'_>,
) -> Result<Option<Track>, ManifestError> {
    let defaults = defaults(media);
    let mut rungs: Vec<(String, Rung)> = Vec::new();
    for (pathway, place) in ladder.pathways.iter().enumerate() {
        for (nth, group) in place.groups.iter().enumerate() {
            let Some(default) = defaults.get(group) else { continue };
            let Some(uri) = default.value("URI") else { continue };
            let place = (pathway, resolve(url, uri)?);
            // Groups differ in some of their sounds only.
            if rungs.iter().any(|(_, rung)| rung.found.contains(&place)) {
                continue;
            }
            let stable_id = default.value("STABLE-RENDITION-ID");
            let key = stable_id.map_or_else(|| nth.to_string(), |id| format!("id {id}"));
            let id = stable_id.or(default.value("NAME")).unwrap_or(uri).to_owned();
            let known = rungs.iter().position(|(known, _)| *known == key);
            let rung = known.unwrap_or_else(|| {
                let bits_per_second = SOUND_BITS_PER_SECOND;
                rungs.push((key, Rung { id, bits_per_second, found: Vec::new() }));
                rungs.len() - 1
            });
            rungs[rung].1.found.push(place);
        }
    }
    let renditions = rungs.into_iter().map(|(_, rung)| Rendition {
        id: rung.id,
        bits_per_second: rung.bits_per_second,
        sources: sources(ladder.pathways.len(), &rung.found),
    });
    let renditions: Vec<_> = renditions.collect();
    if renditions.len() > RENDITIONS_MAX {
        return Err(ManifestError::Bound("renditions"));
    }
    Ok((!renditions.is_empty()).then_some(Track { kind: TrackKind::Sound, renditions }))
}

/// In each group, the rendition that plays if the viewer chooses none.
fn defaults<'a>(media: &[Attributes<'a>]) -> BTreeMap<&'a str, Attributes<'a>> {
    let rank = |one: &Attributes<'_>| (one.is_yes("DEFAULT"), one.is_yes("AUTOSELECT"));
    let mut defaults = BTreeMap::new();
    for one in media {
        let Some(group) = one.value("GROUP-ID") else { continue };
        let default = defaults.entry(group).or_insert(*one);
        if rank(one) > rank(default) {
            *default = *one;
        }
    }
    defaults
}
