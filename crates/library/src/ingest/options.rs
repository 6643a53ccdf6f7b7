//! What a title is to be made of.

use std::path::PathBuf;

use crate::confined::Bounds;
use crate::ladder::Ladder;

/// How pictures are encoded.
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

/// How sound is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AudioCodec {
    /// AAC-LC, which everything plays.
    #[default]
    Aac,
    /// Opus: better at the same size; not played by older Apple devices.
    Opus,
}

/// How many channels of sound are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channels {
    /// At most two: more are mixed down.
    #[default]
    Stereo,
    /// As many as the source has.
    Source,
}

/// How much time is spent on how good a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speed {
    /// For trying things out.
    Fastest,
    /// In a hurry.
    Fast,
    /// For most.
    #[default]
    Balanced,
    /// Made once, watched often.
    Best,
}

/// Subtitles from a file of their own: SubRip, WebVTT or SubStation Alpha.
#[derive(Clone, Debug)]
pub struct SideSubtitles {
    /// BCP 47, or a tag of ISO 639.
    pub language: String,
    /// The file.
    pub path: PathBuf,
}

/// How a title is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The sizes.
    pub ladder: Ladder,
    /// How pictures are encoded.
    pub video_codec: VideoCodec,
    /// How sound is encoded.
    pub audio_codec: AudioCodec,
    /// How many channels are kept.
    pub channels: Channels,
    /// How much time is spent.
    pub speed: Speed,
    /// Keep the pictures, and the sound where browsers play it, as they are.
    pub copy: bool,
    /// How long a segment is, and how far key frames are apart; at least 0.5, at most 20.
    pub segment_seconds: f64,
    /// Besides those in the file.
    pub subtitles: Vec<SideSubtitles>,
    /// Make the title although it is there already, from the same file and with the same options.
    pub again: bool,
    /// What ffmpeg may take of the machine.
    pub bounds: Bounds,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ladder: Ladder::default(),
            video_codec: VideoCodec::default(),
            audio_codec: AudioCodec::default(),
            channels: Channels::default(),
            speed: Speed::default(),
            copy: false,
            // Long enough for the encoder to be efficient, short enough to change rung before a buffer runs dry.
            segment_seconds: 4.0,
            subtitles: Vec::new(),
            again: false,
            bounds: Bounds::default(),
        }
    }
}
