//! What ingest knows of a media file: its streams, and how they belong together.
//!
//! Only data that affects the packaging of a film is kept. `probe.rs` gets it from ffprobe.

use std::ffi::OsString;

use crate::bitmap_subtitles::BitmapSubtitles;
use crate::colour::Colours;
use crate::formats::{self, ReadAhead};
use crate::frame_rate::FrameRate;
use crate::hdr_metadata::HdrMetadata;
use crate::role::Role;
use crate::text_kind::TextKind;
use crate::unplayable::Unplayable;

/// A media file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    /// The playing time from ffprobe, if there is one: from the container, or estimated from the rate.
    pub(crate) seconds: Option<f64>,
    /// The playing time of its pictures and sounds that the container states, so that truncation can be detected.
    pub(crate) stated_seconds: Option<f64>,
    pub(crate) clock: Clock,
    /// The time of its first frame.
    pub(crate) begins_seconds: f64,
    /// How far to read ahead to find all of its streams.
    pub(crate) ahead: ReadAhead,
    /// Whether its container lists all of its streams at the front. Otherwise more may begin at any time.
    pub(crate) lists_streams: bool,
    pub(crate) video: Option<Video>,
    /// A still picture that comes with the film or the sound, if there is one.
    pub(crate) cover: Option<Video>,
    pub(crate) audio: Vec<Audio>,
    pub(crate) text: Vec<Text>,
    /// Subtitles that are pictures.
    pub(crate) bitmaps: Vec<BitmapSubtitles>,
    /// The one of them that is burnt into the picture.
    pub(crate) burnt: Option<Burnt>,
    /// At most [`crate::probe::CHAPTERS_MAX`], in the source's order.
    pub(crate) chapters: Vec<Chapter>,
    /// Parts that are not carried over, as messages.
    pub(crate) left_out: Vec<String>,
    /// Streams with nothing to play.
    pub(crate) unplayable: Vec<Unplayable>,
    /// The first sound that is not carried over, as a message.
    pub(crate) lost_sound: Option<String>,
}

/// The clock behind the timestamps of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Clock {
    /// It begins at one time for all streams, and never jumps.
    #[default]
    Steady,
    /// ffmpeg corrects its start and its jumps, by the streams in use (`ingest/clock.rs`).
    MayJump,
}

/// A stream of pictures.
#[derive(Clone, Debug)]
pub(crate) struct Video {
    /// Its index among all streams of the file.
    pub(crate) index: u32,
    pub(crate) codec: String,
    /// The display size: upright, with square pixels.
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// The stored size, before pixels become square and the picture upright.
    pub(crate) stored: (u32, u32),
    pub(crate) frame_rate: FrameRate,
    pub(crate) colours: Colours,
    pub(crate) dolby_vision: Option<DolbyVision>,
    /// From its description; completed by its first frame if the dynamic range matters.
    pub(crate) hdr: HdrMetadata,
    /// Whether it has data of captions (CEA-608, CEA-708) and its encoder is known to drop them.
    pub(crate) loses_captions: bool,
    pub(crate) is_interlaced: bool,
    /// How long after the beginning of the file it starts.
    pub(crate) late_seconds: f64,
    /// When a copy of it starts, from the beginning of the file, if it can be copied: at its first key frame. Frames before zero are not
    /// shown.
    pub(crate) copy_begins_seconds: Option<f64>,
    pub(crate) seconds: Option<f64>,
}

/// Subtitles that are burnt into the picture.
#[derive(Clone, Debug)]
pub(crate) struct Burnt {
    pub(crate) stream: BitmapSubtitles,
    /// Whether to pick only the pictures that are marked as forced.
    pub(crate) picks_forced: bool,
    /// Whether only forced subtitles are shown: these, or all of a track of forced ones.
    pub(crate) is_forced_only: bool,
}

/// Metadata of Dolby Vision, from the configuration record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DolbyVision {
    pub(crate) profile: u32,
    /// Whether a decoder that ignores the metadata shows the right colours, as HDR10, HLG or SDR. Profile 5 does not.
    pub(crate) is_compatible: bool,
}

/// A stream of sound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audio {
    pub(crate) index: u32,
    pub(crate) codec: String,
    pub(crate) channels: u32,
    /// Where its channels belong, by ffmpeg's name, if the source says so.
    pub(crate) layout: Option<String>,
    pub(crate) label: Label,
    /// How long after the beginning of the file it starts.
    pub(crate) late_seconds: f64,
    /// When a copy of it starts, from the beginning of the file, if it can be copied: at its first key frame. Frames before zero are not
    /// shown.
    pub(crate) copy_begins_seconds: Option<f64>,
    pub(crate) seconds: Option<f64>,
}

/// A stream of subtitles, as text.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) index: u32,
    pub(crate) kind: TextKind,
    pub(crate) label: Label,
}

/// The properties that distinguish a stream from others of its kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Label {
    /// BCP 47.
    pub(crate) language: Option<String>,
    /// At most [`crate::probe::TITLE_LETTERS_MAX`] letters.
    pub(crate) title: Option<String>,
    pub(crate) is_default: bool,
    /// Its purposes, each once; usually none.
    pub(crate) roles: Vec<Role>,
}

/// A chapter, in seconds from the beginning of the file.
#[derive(Clone, Debug)]
pub(crate) struct Chapter {
    pub(crate) start_seconds: f64,
    pub(crate) end_seconds: Option<f64>,
    /// At most [`crate::probe::TITLE_LETTERS_MAX`] letters, without control characters.
    pub(crate) title: Option<String>,
}

impl Source {
    /// The first sound that the container lists, if none can be played: the title would be silent by mistake.
    pub(crate) fn lost_sound(&self) -> Option<&str> {
        self.lost_sound.as_deref().filter(|_| self.audio.is_empty())
    }

    /// ffmpeg's arguments for reading it on standard input.
    pub(crate) fn input(&self) -> Vec<OsString> {
        formats::film(self.ahead)
    }
}

#[cfg(test)]
impl Video {
    /// A picture of this size, for tests.
    pub(crate) fn example(width: u32, height: u32) -> Self {
        Self {
            index: 0,
            codec: "h264".into(),
            width,
            height,
            stored: (width, height),
            frame_rate: FrameRate { frames: 30, seconds: 1 },
            colours: Colours::target(),
            dolby_vision: None,
            hdr: HdrMetadata::default(),
            loses_captions: false,
            is_interlaced: false,
            late_seconds: 0.0,
            copy_begins_seconds: None,
            seconds: None,
        }
    }
}
