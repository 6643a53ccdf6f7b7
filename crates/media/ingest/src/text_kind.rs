//! The forms of text in streams of subtitles.

/// The form of a stream of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextKind {
    SubRip,
    Ass,
    WebVtt,
    MovText,
    /// CEA-608, as a track of its own.
    Captions,
    /// A codec for which this ffmpeg has no name. WebVTT as mkvmerge writes it (`S_TEXT/WEBVTT`) is one, recognisable by its header.
    Unnamed,
}

/// Stands for a codec that ffprobe does not name.
pub(crate) const UNNAMED: &str = "unknown";

impl TextKind {
    /// The form of a codec, by ffprobe's name.
    pub(crate) fn of(codec: &str) -> Option<Self> {
        Some(match codec {
            "subrip" | "srt" | "text" => Self::SubRip,
            "ass" | "ssa" => Self::Ass,
            "webvtt" => Self::WebVtt,
            "mov_text" => Self::MovText,
            "eia_608" => Self::Captions,
            UNNAMED => Self::Unnamed,
            _ => return None,
        })
    }
}

/// A note about a stream of subtitles that is left out: why, and what to do.
pub(crate) fn left_out(stream: u32, codec: &str) -> String {
    format!(
        "subtitle stream {stream} ({codec}: ingest does not read this kind; convert them to SubRip and add the file with --subtitle)"
    )
}
