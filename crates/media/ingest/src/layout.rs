//! Arrangements of loudspeakers: those of sources, and those that players have in common.
//!
//! Opus has one arrangement for each number of channels (RFC 7845 section 5.1.1.2, mapping family 1: Vorbis' order), so 2.1, 3.1, 4.0 and
//! 4.1 don't exist in it. AAC has numbered arrangements (ISO/IEC 14496-3 table 1.19) and free ones, which browsers refuse. A source in another
//! arrangement gets the smallest one that has all its loudspeakers: 2.1 becomes 5.1, because 3.0 would lose the low frequencies, and the
//! added channels are silent. The only sound that moves is a single back centre, to both surround channels, and whatever the largest
//! arrangement lacks.
//!
//! Only Opus gets 7.1. ffmpeg's encoder for E-AC-3 ends at 5.1, and the one for AAC writes 7.1 with the number 7, which means 7.1 with wide front
//! loudspeakers: decoders disagree about where the back channels belong.

use crate::source::Audio;

/// An arrangement that ingest makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// ffmpeg's name.
    pub(crate) name: &'static str,
    /// Its number in ISO/IEC 23091-3, "ChannelConfiguration".
    pub(crate) cicp: u32,
    speakers: &'static str,
}

const fn layout(name: &'static str, cicp: u32, speakers: &'static str) -> Layout {
    Layout { name, cicp, speakers }
}

const MONO: Layout = layout("mono", 1, "FC");
const STEREO: Layout = layout("stereo", 2, "FL+FR");
const THREE: Layout = layout("3.0", 3, "FL+FR+FC");
const FOUR: Layout = layout("4.0", 4, "FL+FR+FC+BC");
const QUAD: Layout = layout("quad", 10, "FL+FR+BL+BR");
const FIVE: Layout = layout("5.0", 5, "FL+FR+FC+BL+BR");
const FIVE_ONE: Layout = layout("5.1", 6, "FL+FR+FC+LFE+BL+BR");
const SIX_ONE: Layout = layout("6.1", 11, "FL+FR+FC+LFE+BC+SL+SR");
const SEVEN_ONE: Layout = layout("7.1", 12, "FL+FR+FC+LFE+BL+BR+SL+SR");
/// Only in AAC that is copied: the older of its two arrangements of 7.1. ffprobe calls both of them 7.1.
const SEVEN_ONE_WIDE: Layout = layout("7.1(wide)", 7, "FL+FR+FC+LFE+BL+BR+FLC+FRC");

/// The arrangements that ffmpeg's encoders write with a number, smallest first.
const OPUS: &[Layout] = &[MONO, STEREO, THREE, QUAD, FIVE, FIVE_ONE, SIX_ONE, SEVEN_ONE];
const AAC: &[Layout] = &[MONO, STEREO, THREE, FOUR, FIVE, FIVE_ONE];
const EAC3: &[Layout] = &[MONO, STEREO, THREE, FOUR, QUAD, FIVE, FIVE_ONE];
/// Those of AC-3 and E-AC-3 (ATSC A/52) that have a number in ISO/IEC 23091-3.
const DOLBY_COPIED: &[Layout] = &[MONO, STEREO, THREE, FOUR, QUAD, FIVE, FIVE_ONE, SEVEN_ONE];
/// Those that a copied AAC stream may have.
const AAC_COPIED: &[Layout] =
    &[MONO, STEREO, THREE, FOUR, FIVE, FIVE_ONE, SIX_ONE, SEVEN_ONE, SEVEN_ONE_WIDE];

/// Arrangements of sources whose name doesn't list their loudspeakers (libavutil/channel_layout.c).
const NAMED: [(&str, &str); 24] = [
    ("mono", "FC"),
    ("stereo", "FL+FR"),
    ("downmix", "FL+FR"),
    ("2.1", "FL+FR+LFE"),
    ("3.0", "FL+FR+FC"),
    ("3.0(back)", "FL+FR+BC"),
    ("4.0", "FL+FR+FC+BC"),
    ("quad", "FL+FR+BL+BR"),
    ("quad(side)", "FL+FR+SL+SR"),
    ("3.1", "FL+FR+FC+LFE"),
    ("5.0", "FL+FR+FC+BL+BR"),
    ("5.0(side)", "FL+FR+FC+SL+SR"),
    ("4.1", "FL+FR+FC+LFE+BC"),
    ("5.1", "FL+FR+FC+LFE+BL+BR"),
    ("5.1(side)", "FL+FR+FC+LFE+SL+SR"),
    ("6.0", "FL+FR+FC+BC+SL+SR"),
    ("6.0(front)", "FL+FR+FLC+FRC+SL+SR"),
    ("hexagonal", "FL+FR+FC+BL+BR+BC"),
    ("6.1", "FL+FR+FC+LFE+BC+SL+SR"),
    ("6.1(back)", "FL+FR+FC+LFE+BL+BR+BC"),
    ("7.0", "FL+FR+FC+BL+BR+SL+SR"),
    ("7.1", "FL+FR+FC+LFE+BL+BR+SL+SR"),
    ("7.1(wide)", "FL+FR+FC+LFE+BL+BR+FLC+FRC"),
    ("7.1(wide-side)", "FL+FR+FC+LFE+FLC+FRC+SL+SR"),
];
/// What ffmpeg assumes for sources that only have a number of channels (AV_CHANNEL_LAYOUT_*, `av_channel_layout_default`).
const ASSUMED: [&str; 8] = ["mono", "stereo", "2.1", "4.0", "5.0", "5.1", "6.1", "7.1"];
/// The only larger number that has such an arrangement.
const ASSUMED_ABOVE: u32 = 16;

impl Layout {
    /// The number of channels.
    pub(crate) fn channels(self) -> u32 {
        self.speakers.split('+').count() as u32
    }

    /// Mono for one channel, and stereo for more.
    pub(crate) fn at_most_stereo(audio: &Audio) -> Self {
        if audio.channels == 1 { MONO } else { STEREO }
    }

    /// The nearest arrangement that the encoder of `codec` ("aac", "opus" or "eac3") has for `audio`.
    pub(crate) fn nearest(codec: &str, audio: &Audio) -> Self {
        if is_discrete(audio) {
            return STEREO;
        }
        let speakers = speakers(audio);
        let (all, largest) = match codec {
            "opus" => (OPUS, SEVEN_ONE),
            "eac3" => (EAC3, FIVE_ONE),
            _ => (AAC, FIVE_ONE),
        };
        all.iter().copied().find(|one| one.holds(&speakers)).unwrap_or(largest)
    }

    /// Whether it has a place for each channel of `audio`.
    pub(crate) fn has_all_of(self, audio: &Audio) -> bool {
        !is_discrete(audio) && self.holds(&speakers(audio))
    }

    /// The arrangement of `audio`, if players play its stream unchanged.
    pub(crate) fn copied(audio: &Audio) -> Option<Self> {
        // More channels without an arrangement: AAC with a free one, or Opus with separate channels.
        if audio.layout.is_none() && audio.channels > 2 {
            return None;
        }
        let speakers = speakers(audio);
        let all = match audio.codec.as_str() {
            // FLAC has the same arrangements as Opus (RFC 9639 section 9.1.3, RFC 7845).
            "opus" | "flac" => OPUS,
            "ac3" | "eac3" => DOLBY_COPIED,
            _ => AAC_COPIED,
        };
        let is_same = |one: &Layout| one.holds(&speakers) && one.channels() == audio.channels;
        all.iter().copied().find(is_same)
    }

    /// Whether it has each of these loudspeakers, or the one that stands in for it.
    fn holds(self, speakers: &[&str]) -> bool {
        let has = |name: &str| self.speakers.split('+').any(|own| own == name);
        let surrounds = speakers.iter().filter(|name| ["BL", "SL"].contains(name)).count();
        speakers.iter().all(|&name| match name {
            // A single pair of surround channels is at the side or at the back.
            "BL" | "BR" | "SL" | "SR" if surrounds == 1 => has("BL") || has("SL"),
            "BC" if surrounds == 0 => has("BC") || has("BL"),
            name => has(name),
        })
    }
}

fn speakers(audio: &Audio) -> Vec<&str> {
    let assumed = (audio.channels as usize).checked_sub(1).and_then(|index| ASSUMED.get(index));
    let name = audio.layout.as_deref().or(assumed.copied()).unwrap_or_default();
    let listed = NAMED.iter().find(|(known, _)| *known == name).map(|(_, speakers)| *speakers);
    // Without a name: "5 channels (FL+FR+FC+BL+BR)".
    let own = || name.split_once('(').map_or(name, |(_, list)| list.trim_end_matches(')'));
    listed.unwrap_or_else(own).split('+').collect()
}

/// Whether nothing says where its channels belong, not even their number. ffmpeg can't mix such sound by itself.
pub(crate) fn is_discrete(audio: &Audio) -> bool {
    let is_assumed = audio.channels as usize <= ASSUMED.len() || audio.channels == ASSUMED_ABOVE;
    audio.layout.is_none() && !is_assumed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audio(codec: &str, layout: Option<&str>, channels: u32) -> Audio {
        Audio {
            codec: codec.into(),
            layout: layout.map(str::to_owned),
            channels,
            ..Audio::default()
        }
    }

    #[test]
    fn each_source_gets_the_smallest_arrangement_that_has_its_loudspeakers() {
        for (source, channels, opus, aac, eac3) in [
            ("mono", 1, "mono", "mono", "mono"),
            ("stereo", 2, "stereo", "stereo", "stereo"),
            ("2.1", 3, "5.1", "5.1", "5.1"),
            ("3.0", 3, "3.0", "3.0", "3.0"),
            ("3.0(back)", 3, "quad", "4.0", "4.0"),
            ("4.0", 4, "5.0", "4.0", "4.0"),
            ("quad", 4, "quad", "5.0", "quad"),
            ("quad(side)", 4, "quad", "5.0", "quad"),
            ("3.1", 4, "5.1", "5.1", "5.1"),
            ("4.1", 5, "5.1", "5.1", "5.1"),
            ("5.0(side)", 5, "5.0", "5.0", "5.0"),
            ("5.1(side)", 6, "5.1", "5.1", "5.1"),
            ("6.0", 6, "6.1", "5.1", "5.1"),
            ("6.1", 7, "6.1", "5.1", "5.1"),
            ("6.1(back)", 7, "6.1", "5.1", "5.1"),
            ("7.0", 7, "7.1", "5.1", "5.1"),
            ("7.1(wide)", 8, "7.1", "5.1", "5.1"),
            ("3 channels (FL+FR+LFE)", 3, "5.1", "5.1", "5.1"),
            ("16 channels (FL+FR+FC+LFE+TFL+TFR)", 16, "7.1", "5.1", "5.1"),
            ("hexadecagonal", 16, "7.1", "5.1", "5.1"),
        ] {
            let audio = audio("flac", Some(source), channels);
            let to = |codec| Layout::nearest(codec, &audio).name;
            assert_eq!((to("opus"), to("aac"), to("eac3")), (opus, aac, eac3), "{source}");
            let has_all = |codec| Layout::nearest(codec, &audio).has_all_of(&audio);
            assert_eq!(has_all("eac3"), channels < 6 || source == "5.1(side)", "{source}");
        }
        let to = |channels| Layout::nearest("opus", &audio("pcm_s16le", None, channels)).name;
        assert_eq!([to(3), to(4), to(6), to(9), to(16)], ["5.1", "5.0", "5.1", "stereo", "7.1"]);
    }

    #[test]
    fn sound_in_an_arrangement_that_no_browser_plays_is_not_copied() {
        let copied = |codec: &str, layout: Option<&str>, channels| {
            Layout::copied(&audio(codec, layout, channels)).map(|layout| layout.cicp)
        };
        assert_eq!(copied("aac", Some("5.1"), 6), Some(6));
        assert_eq!(copied("aac", None, 2), Some(2));
        assert_eq!(copied("aac", Some("7.1(wide)"), 8), Some(7));
        assert_eq!(copied("opus", Some("quad"), 4), Some(10));
        assert_eq!(copied("aac", Some("quad"), 4), None);
        assert_eq!(copied("aac", Some("2.1"), 3), None);
        assert_eq!(copied("aac", None, 6), None);
        assert_eq!(copied("opus", None, 3), None);
        assert_eq!(copied("ac3", Some("5.1(side)"), 6), Some(6));
        assert_eq!(copied("ac3", Some("3.0(back)"), 3), None);
        assert_eq!(copied("ac3", Some("4.1"), 5), None);
        assert_eq!(copied("flac", Some("6.1"), 7), Some(11));
    }
}
