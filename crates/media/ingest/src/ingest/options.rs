//! The options for making a title.

use std::path::PathBuf;

use catalog::TitleName;

use super::burn_in::BurnIn;
use crate::confined::Bounds;
use crate::ladder::Ladder;
use crate::role::Role;

/// The codec for pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VideoCodec {
    /// H.264 (AVC), which everything plays.
    #[default]
    H264,
    /// H.265 (HEVC): some 35% smaller; not played by every browser.
    Hevc,
    /// AV1: some 50% smaller, slow to make; not played by older devices.
    Av1,
}

impl VideoCodec {
    /// Whether ffmpeg's encoder keeps captions in the picture (CEA-608, CEA-708). libx264 does (`-a53cc`, on by default). libx265,
    /// SVT-AV1 and libaom drop them in ffmpeg 5.1. Later versions may keep them, so manifests go by the encoded file.
    pub(crate) fn keeps_captions(self) -> bool {
        self == Self::H264
    }
}

/// The codec for pictures of high dynamic range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HdrCodec {
    /// H.265 (HEVC), Main 10, which screens and players of HDR have in common.
    #[default]
    Hevc,
    /// AV1: smaller; not played by older devices.
    Av1,
}

/// The codec for sound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AudioCodec {
    /// AAC-LC, which everything plays.
    #[default]
    Aac,
    /// Opus: better at the same size; not played by older Apple devices.
    Opus,
}

/// The number of audio channels to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channels {
    /// At most two, and, for a source with more, a second version in surround.
    #[default]
    Both,
    /// At most two: more are mixed down.
    Stereo,
    /// As many as the source has.
    Source,
}

/// Encoder speed against picture quality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speed {
    /// For trying things out.
    Fastest,
    /// Fast.
    Fast,
    /// Good for most uses.
    #[default]
    Balanced,
    /// Best picture, for titles that are watched often.
    Best,
}

/// Subtitles from a separate file: SubRip, WebVTT or SubStation Alpha.
#[derive(Clone, Debug, Default)]
pub struct SideSubtitles {
    /// BCP 47, or a tag of ISO 639.
    pub language: String,
    /// What they are for, if they are not simply all that is said.
    pub purpose: Option<TextPurpose>,
    /// The file.
    pub path: PathBuf,
    /// If the file has no subtitles that can be read, make the title without them.
    pub is_optional: bool,
}

/// What subtitles from a separate file are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPurpose {
    /// Only speech that the film's usual viewers don't understand. Players show them unasked.
    Forced,
    /// They also name sounds and speakers (SDH).
    HardOfHearing,
}

impl TextPurpose {
    /// The purpose that `word` means in file names and on the command line, in any case: `forced`, `sdh`, `hi` or `cc`.
    pub fn parse(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "forced" => Some(Self::Forced),
            "sdh" | "hi" | "cc" => Some(Self::HardOfHearing),
            _ => None,
        }
    }

    pub(super) fn role(self) -> Role {
        match self {
            Self::Forced => Role::Forced,
            Self::HardOfHearing => Role::HardOfHearing,
        }
    }
}

/// The options for making a title.
#[derive(Clone, Debug)]
pub struct Options {
    /// The sizes.
    pub ladder: Ladder,
    /// The codec for pictures.
    pub video_codec: VideoCodec,
    /// For a source of high dynamic range (PQ or HLG): make all sizes in this range, too, next to those in standard range. Has no effect on
    /// other sources, and with `copy`.
    pub hdr: Option<HdrCodec>,
    /// The codec for sound.
    pub audio_codec: AudioCodec,
    /// The number of audio channels to keep.
    pub channels: Channels,
    /// Encoder speed against picture quality.
    pub speed: Speed,
    /// Keep the pictures unchanged, and the sound, too, if players can play it.
    pub copy: bool,
    /// Length of a segment and distance between key frames: 0.5 to 20.
    pub segment_seconds: f64,
    /// Subtitles in addition to those in the file.
    pub subtitles: Vec<SideSubtitles>,
    /// Subtitles that are pictures, to be burnt into every size.
    pub burn_in: Option<BurnIn>,
    /// A picture to use as the poster. Without one, the poster of a film is one of its frames, and that of sound is its cover.
    pub poster: Option<PathBuf>,
    /// Use a film's cover as its poster, if it has one.
    pub cover: bool,
    /// The series that the title belongs to.
    pub series: Option<TitleName>,
    /// Replace the title if it already exists, even from the same file with the same options.
    pub again: bool,
    /// Limits on what ffmpeg may use of the machine.
    pub bounds: Bounds,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ladder: Ladder::default(),
            video_codec: VideoCodec::default(),
            hdr: None,
            audio_codec: AudioCodec::default(),
            channels: Channels::default(),
            speed: Speed::default(),
            copy: false,
            // Long enough for an efficient encoder, short enough to change the rung before a buffer runs dry.
            segment_seconds: 4.0,
            subtitles: Vec::new(),
            burn_in: None,
            poster: None,
            cover: false,
            series: None,
            again: false,
            bounds: Bounds::default(),
        }
    }
}
