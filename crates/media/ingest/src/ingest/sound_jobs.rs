//! The jobs for a sound: a version that everything plays, and surround, or the stream of the source, next to it.
//!
//! Every sound has a basic version: AAC or Opus, in stereo unless the options keep more in it. By default a sound with more than two channels gets
//! a second one in surround, as Apple's authoring specification has it: AC-3 and E-AC-3 are copied, because televisions, Apple's devices and some
//! browsers play them and encoding them again would only lose quality; other codecs become E-AC-3. Its codec has to be another one than that of
//! the basic versions, so that players choose once (`SoundGroup` in `made.rs`). With `--copy`, the second version is the source's stream if it
//! has more than two channels, or is AC-3, E-AC-3 or FLAC. If it is AAC or Opus, a third version is surround in E-AC-3: HLS leaves out a second
//! version in the codec of the basic ones, and Apple's players take everything by HLS. Manifests offer all, and each player takes what it can play.
//!
//! A copy keeps the gaps of its source, as recordings have them, and the segment with a gap in it lasts as long as that. HLS has one target
//! duration for all tracks, so all players would buffer that much. Next to an encoded picture, such a copy becomes E-AC-3 with silence in the gaps
//! (`Job::instead`).

use std::ffi::OsString;

use super::clock;
use super::jobs::{Job, Kind, Tools, copied_start, output, words};
use super::options::{AudioCodec, Channels, Options};
use crate::language::three_letters;
use crate::layout::{Layout, is_discrete};
use crate::source::{Audio, Clock};

/// How a version of a sound is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// As it is in the source, in this arrangement.
    Copied(Layout),
    /// By this encoder, in this arrangement.
    Encoded(Encoder, Layout),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoder {
    Aac,
    Opus,
    /// Only for surround next to a basic version.
    Eac3,
}

impl Encoder {
    /// That of basic versions.
    fn basic(options: &Options) -> Self {
        match options.audio_codec {
            AudioCodec::Aac => Self::Aac,
            AudioCodec::Opus => Self::Opus,
        }
    }

    /// ffmpeg's name of the codec.
    fn codec(self) -> &'static str {
        match self {
            Self::Aac => "aac",
            Self::Opus => "opus",
            Self::Eac3 => "eac3",
        }
    }

    /// ffmpeg's name of the encoder.
    fn name(self) -> &'static str {
        if self == Self::Opus { "libopus" } else { self.codec() }
    }

    /// For each channel. ffmpeg's E-AC-3 needs about as much as its AAC; Apple's specification allows up to 384 kb/s for 5.1.
    fn kbps(self) -> u32 {
        if self == Self::Opus { 48 } else { 64 }
    }

    fn nearest(self, audio: &Audio) -> Version {
        Encoded(self, Layout::nearest(self.codec(), audio))
    }
}

use Version::{Copied, Encoded};

impl Version {
    fn is_eac3(self) -> bool {
        matches!(self, Encoded(Encoder::Eac3, _))
    }
}

/// Codecs that browsers play from CMAF.
const COPIED: [&str; 2] = ["aac", "opus"];
/// Codecs that televisions, Apple's devices and some browsers play from CMAF.
const DOLBY: [&str; 2] = ["ac3", "eac3"];
/// Most browsers play it, but it takes as much as a small picture.
const LOSSLESS: &str = "flac";
/// Sound that begins later than this gets silence in front, and so it must be encoded.
const LATE_SECONDS: f64 = 0.1;

/// Why a title has no copy of a sound in spite of `--copy`, if it has none.
pub(super) fn why_encoded(audio: &Audio, options: &Options) -> Option<String> {
    if !options.copy || is_copied(audio, options) {
        return None;
    }
    let mut codecs = COPIED.to_vec();
    if options.channels == Channels::Both {
        codecs.extend(DOLBY.iter().chain(&[LOSSLESS]));
    }
    why_not_copied(audio, &codecs)
}

fn why_not_copied(audio: &Audio, codecs: &[&str]) -> Option<String> {
    if !codecs.contains(&audio.codec.as_str()) {
        return Some(format!("no browser plays {}", audio.codec));
    }
    if Layout::copied(audio).is_none() {
        let channels = layout_name(audio);
        return Some(format!("no browser plays {} with {channels}", audio.codec));
    }
    let late = audio.late_seconds;
    (late > LATE_SECONDS).then(|| format!("it begins {late:.1} s late"))
}

/// Whether the title has a copy of a sound's stream.
pub(super) fn is_copied(audio: &Audio, options: &Options) -> bool {
    let (basic, others) = versions(audio, options);
    [basic].iter().chain(&others).any(|one| matches!(one, Copied(_)))
}

/// Whether a title lacks the surround of a sound because ffmpeg can't encode it.
pub(super) fn lacks_surround(audio: &Audio, options: &Options, tools: Tools) -> bool {
    !tools.has_eac3 && needs_eac3(audio, options)
}

/// Whether a version of a sound may be encoded in E-AC-3: that is certain, or depends on gaps.
pub(super) fn may_need_eac3(audio: &Audio, options: &Options) -> bool {
    let others = versions(audio, options).1;
    needs_eac3(audio, options) || !options.copy && !others.is_empty()
}

/// Whether a version of a sound is encoded in E-AC-3.
fn needs_eac3(audio: &Audio, options: &Options) -> bool {
    versions(audio, options).1.into_iter().any(Version::is_eac3)
}

/// The basic version, and the other ones.
fn versions(audio: &Audio, options: &Options) -> (Version, Vec<Version>) {
    let is_plain = options.copy && why_not_copied(audio, &COPIED).is_none();
    let copied = Layout::copied(audio).filter(|_| is_plain);
    let is_surround = |layout: &Layout| layout.channels() > 2;
    let encoder = Encoder::basic(options);
    let stereo = Encoded(encoder, Layout::at_most_stereo(audio));
    let basic = copied.filter(|layout| !is_surround(layout)).map_or(stereo, Copied);
    match options.channels {
        Channels::Stereo => (basic, Vec::new()),
        Channels::Source => (copied.map_or_else(|| encoder.nearest(audio), Copied), Vec::new()),
        Channels::Both => {
            let kept = kept(audio, options);
            let own = copied.filter(is_surround).or(kept).map(Copied);
            let has_more = audio.channels > 2 && !is_discrete(audio);
            let surround = has_more && kept.is_none();
            let surround = surround.then(|| Encoder::Eac3.nearest(audio));
            (basic, own.into_iter().chain(surround).collect())
        }
    }
}

/// The arrangement of a stream in a codec that not every browser plays, if it is kept next to the basic version.
fn kept(audio: &Audio, options: &Options) -> Option<Layout> {
    let codec = audio.codec.as_str();
    let is_wanted = match DOLBY.contains(&codec) {
        true => options.copy || audio.channels > 2,
        false => options.copy && codec == LOSSLESS,
    };
    Layout::copied(audio).filter(|_| is_wanted && audio.late_seconds <= LATE_SECONDS)
}

/// The jobs for sound `index` of the source: its basic version, and the other ones.
pub(super) fn jobs(
    index: usize,
    audio: &Audio,
    clock: Clock,
    options: &Options,
    tools: Tools,
) -> (Job, Vec<Job>) {
    let (basic, others) = versions(audio, options);
    let others = others.into_iter().filter(|one| tools.has_eac3 || !one.is_eac3());
    let others = others.map(|version| Job {
        instead: filled(index, audio, version, clock, options).filter(|_| tools.has_eac3),
        ..job(index, audio, version, true, clock, options)
    });
    (job(index, audio, basic, false, clock, options), others.collect())
}

/// The job for an encoded version, without gaps, of one that is copied. With `--copy` there is none: the picture has the same gaps.
fn filled(
    index: usize,
    audio: &Audio,
    version: Version,
    clock: Clock,
    options: &Options,
) -> Option<Box<Job>> {
    if options.copy || !matches!(version, Copied(_)) {
        return None;
    }
    let mut filled = job(index, audio, Encoder::Eac3.nearest(audio), true, clock, options);
    if let Kind::Audio { fills_gaps, .. } = &mut filled.kind {
        *fills_gaps = true;
    }
    Some(Box::new(filled))
}

fn job(
    index: usize,
    audio: &Audio,
    version: Version,
    is_other: bool,
    clock: Clock,
    options: &Options,
) -> Job {
    let (layout, mut arguments, bits_per_second) = match version {
        Copied(layout) => (layout, copying(audio), copied_rate(audio)),
        Encoded(encoder, layout) => {
            let (arguments, rate) = encoding(encoder, layout, audio, clock);
            (layout, arguments, Some(rate))
        }
    };
    let is_copied = matches!(version, Copied(_));
    let microseconds = (options.segment_seconds * 1e6) as u64;
    arguments.extend(words(&format!("-frag_duration {microseconds}")));
    arguments.extend(output(if is_copied { copied_start(audio.copy_begins_seconds) } else { "" }));
    let number = index + 1;
    let language = audio.label.language.as_deref().unwrap_or("und");
    // For readers of the file alone: players take the language from the manifests.
    let letters = three_letters(language);
    arguments.extend(words(&format!("-metadata:s:a:0 language={letters}")));
    let suffix = match (is_other, version) {
        (false, _) => String::new(),
        (true, Copied(_)) => format!("-{}", audio.codec),
        (true, Encoded(encoder, _)) => format!("-{}", encoder.codec()),
    };
    let how = match (is_other, is_copied) {
        (_, true) => ", copied",
        (true, false) => ", surround",
        (false, false) => "",
    };
    Job {
        file: format!("audio-{number}-{language}{suffix}.mp4"),
        making: format!("audio {number} ({language}){how}"),
        kind: Kind::Audio {
            label: audio.label.clone(),
            layout,
            index,
            is_other,
            fills_gaps: false,
        },
        arguments,
        range: None,
        metadata: None,
        says_seconds: audio.seconds,
        // About the cost of a picture of some 100 by 100.
        weight: 1e4,
        bits_per_second,
        instead: None,
    }
}

/// ffmpeg calls FLAC in MP4 experimental up to version 6.0, because its specification was a draft. The form has not changed since.
const FLAC_COPY: &str = "-c copy -strict experimental";

/// In MPEG-TS each AAC frame has a header of its own, which MP4 does not use. For other sources the filter changes nothing.
const AAC_FILTER: &str = "aac_adtstoasc";

/// Drops what a clip hides before its start: up to a group of pictures if it was cut without encoding. The copy would hide it by an edit list,
/// which not every player applies to sound (ffmpeg plays it). The last 0.1 s stay hidden, because decoders need a few frames in front: Opus 80 ms
/// (RFC 7845 section 4.6), AAC up to 2,112 samples.
const HIDDEN_FILTER: &str = "noise=drop=lt(pts*tb\\,-0.1)";
const HIDDEN_SECONDS_MAX: f64 = 0.1;

fn copying(audio: &Audio) -> Vec<OsString> {
    let hides_much = audio.copy_begins_seconds.is_some_and(|seconds| seconds < -HIDDEN_SECONDS_MAX);
    let filters =
        [(audio.codec == "aac").then_some(AAC_FILTER), hides_much.then_some(HIDDEN_FILTER)];
    let filters: Vec<_> = filters.into_iter().flatten().collect();
    let mut arguments = words(if audio.codec == LOSSLESS { FLAC_COPY } else { "-c copy" });
    if !filters.is_empty() {
        arguments.extend(["-bsf:a".into(), filters.join(",").into()]);
    }
    arguments
}

/// The highest rate of a copied stream, where the codec bounds it: AC-3 has 640 kb/s at most (ATSC A/52), and E-AC-3 in practice 1 Mb/s.
fn copied_rate(audio: &Audio) -> Option<u64> {
    match audio.codec.as_str() {
        "ac3" => Some(640_000),
        "eac3" => Some(1_024_000),
        _ => None,
    }
}

/// The arguments of the encoder, and its rate in bits per second.
fn encoding(encoder: Encoder, layout: Layout, audio: &Audio, clock: Clock) -> (Vec<OsString>, u64) {
    // Added channels are silent and take no share.
    let kbps = layout.channels().min(audio.channels) * encoder.kbps();
    let filters = filters(layout, audio, clock);
    let channels = match layout.channels() {
        channels @ 1..=2 => format!("-ac {channels}"),
        // Their number alone would mean another arrangement. Without the mapping family, ffmpeg swaps channels of 5.0 and 6.1.
        _ if encoder == Encoder::Opus => "-mapping_family 1".to_owned(),
        _ => String::new(),
    };
    let name = encoder.name();
    let words = words(&format!("-af {filters} -c:a {name} -b:a {kbps}k -ar 48000 {channels}"));
    (words, u64::from(kbps) * 1000)
}

/// Fills a late start and gaps of the sound with silence, so that it stays in sync with its picture. More than two channels go where
/// the encoder has them.
fn filters(layout: Layout, audio: &Audio, clock: Clock) -> String {
    let mut filters = String::new();
    if is_discrete(audio) {
        // Nothing says what the channels are, so each is heard on one side. `<` keeps the sum within range.
        let every_second = |first: u32| {
            let channels = (first..audio.channels).step_by(2).map(|index| format!("c{index}"));
            channels.collect::<Vec<_>>().join("+")
        };
        filters = format!("pan=stereo|FL<{}|FR<{},", every_second(0), every_second(1));
    }
    filters.push_str("aresample=async=1:first_pts=0");
    filters.push_str(clock::gaps(clock));
    if layout.channels() > 2 {
        filters.push_str(",aformat=channel_layouts=");
        filters.push_str(layout.name);
    }
    filters
}

/// The arrangement of a source's channels, for messages: "5.1(side)", or "9 channels".
pub(super) fn layout_name(audio: &Audio) -> String {
    audio.layout.clone().unwrap_or_else(|| format!("{} channels", audio.channels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_leaves_out_what_a_clip_hides() {
        let filters = |codec: &str, begins: Option<f64>| {
            let audio =
                Audio { codec: codec.into(), copy_begins_seconds: begins, ..Audio::default() };
            let arguments = copying(&audio);
            let at = arguments.iter().position(|one| one == "-bsf:a");
            at.map(|at| arguments[at + 1].to_string_lossy().into_owned())
        };
        assert_eq!(filters("ac3", Some(-0.032)), None);
        assert_eq!(filters("ac3", None), None);
        assert_eq!(filters("flac", Some(-1.0)).as_deref(), Some(HIDDEN_FILTER));
        assert_eq!(filters("aac", Some(-0.048)).as_deref(), Some(AAC_FILTER));
        let both = format!("{AAC_FILTER},{HIDDEN_FILTER}");
        assert_eq!(filters("aac", Some(-1.0)), Some(both));
    }

    fn made(codec: &str, layout: &str, channels: u32, options: &Options) -> (String, String) {
        let audio = Audio {
            codec: codec.into(),
            layout: Some(layout.into()),
            channels,
            ..Audio::default()
        };
        let shown = |one: Version| match one {
            Copied(layout) => format!("copied {}", layout.name),
            Encoded(encoder, layout) => format!("{} {}", encoder.codec(), layout.name),
        };
        let (basic, others) = versions(&audio, options);
        (shown(basic), others.into_iter().map(shown).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn surround_is_kept_next_to_stereo_in_another_codec() {
        let encode = Options::default();
        let copy = Options { copy: true, ..Options::default() };
        let (stereo, surround) = ("aac stereo", "eac3 5.1");
        // A copy in AAC is only in DASH.
        let both = "copied 5.1, eac3 5.1";
        for (codec, layout, channels, encoded, copied) in [
            ("aac", "stereo", 2, (stereo, ""), ("copied stereo", "")),
            ("aac", "5.1", 6, (stereo, surround), (stereo, both)),
            ("opus", "5.1", 6, (stereo, surround), (stereo, both)),
            ("ac3", "5.1(side)", 6, (stereo, "copied 5.1"), (stereo, "copied 5.1")),
            ("ac3", "stereo", 2, (stereo, ""), (stereo, "copied stereo")),
            ("ac3", "2.1", 3, (stereo, surround), (stereo, surround)),
            ("eac3", "5.1(side)", 6, (stereo, "copied 5.1"), (stereo, "copied 5.1")),
            ("eac3", "7.1", 8, (stereo, "copied 7.1"), (stereo, "copied 7.1")),
            ("flac", "5.1", 6, (stereo, surround), (stereo, "copied 5.1")),
            ("flac", "stereo", 2, (stereo, ""), (stereo, "copied stereo")),
            ("dts", "5.1(side)", 6, (stereo, surround), (stereo, surround)),
            ("truehd", "7.1", 8, (stereo, surround), (stereo, surround)),
            ("mp3", "mono", 1, ("aac mono", ""), ("aac mono", "")),
        ] {
            let of = |options| made(codec, layout, channels, options);
            let owned = |(one, other): (&str, &str)| (one.to_owned(), other.to_owned());
            assert_eq!(of(&encode), owned(encoded), "{codec} {layout}");
            assert_eq!(of(&copy), owned(copied), "{codec} {layout} copied");
        }
    }

    #[test]
    fn one_version_is_made_on_request() {
        for (codec, copy, channels, expected) in [
            ("ac3", false, Channels::Stereo, "aac stereo"),
            ("ac3", false, Channels::Source, "aac 5.1"),
            ("ac3", true, Channels::Stereo, "aac stereo"),
            ("aac", true, Channels::Stereo, "aac stereo"),
            ("aac", true, Channels::Source, "copied 5.1"),
        ] {
            let options = Options { channels, copy, ..Options::default() };
            let (basic, other) = made(codec, "5.1", 6, &options);
            assert_eq!((basic.as_str(), other.as_str()), (expected, ""), "{codec} {channels:?}");
        }
    }

    #[test]
    fn late_sound_is_encoded_and_without_an_encoder_there_is_only_stereo() {
        let mut audio = Audio {
            codec: "ac3".into(),
            layout: Some("5.1(side)".into()),
            channels: 6,
            ..Audio::default()
        };
        let options = Options::default();
        assert!(is_copied(&audio, &options) && !needs_eac3(&audio, &options));
        audio.late_seconds = 0.5;
        assert!(!is_copied(&audio, &options) && needs_eac3(&audio, &options));
        let without = Tools::default();
        let with = Tools { has_eac3: true, ..without };
        let others = |audio: &Audio, options: &Options, tools| -> Vec<String> {
            let others = jobs(0, audio, Clock::default(), options, tools).1;
            others.into_iter().map(|job| job.file).collect()
        };
        assert!(lacks_surround(&audio, &options, without));
        assert!(others(&audio, &options, without).is_empty());
        assert_eq!(others(&audio, &options, with), ["audio-1-und-eac3.mp4"]);
        // Next to a copy in AAC, it is for HLS.
        let audio = Audio { codec: "aac".into(), late_seconds: 0.0, ..audio };
        let copy = Options { copy: true, ..options };
        assert!(is_copied(&audio, &copy) && lacks_surround(&audio, &copy, without));
        assert_eq!(others(&audio, &copy, without), ["audio-1-und-aac.mp4"]);
        let both = ["audio-1-und-aac.mp4", "audio-1-und-eac3.mp4"];
        assert_eq!(others(&audio, &copy, with), both);
    }
}
