//! Subtitles that are pictures: from Blu-ray discs (PGS), DVDs (VobSub), broadcasts (DVB) and DivX files (XSUB).
//!
//! Players of HLS and DASH show text only, so these are left out with a note, or one of them is burnt into the picture (`ingest/burn_in.rs`).

use crate::source::Label;

const CODECS: [&str; 4] = ["hdmv_pgs_subtitle", "dvd_subtitle", "dvb_subtitle", "xsub"];
/// Those whose decoder can pick the pictures that are marked as forced (`-forced_subs_only`).
const CODECS_WITH_FORCED: [&str; 2] = ["hdmv_pgs_subtitle", "dvd_subtitle"];

/// A stream of them.
#[derive(Clone, Debug)]
pub(crate) struct BitmapSubtitles {
    pub(crate) index: u32,
    pub(crate) codec: String,
    pub(crate) label: Label,
    /// The size in pixels of the canvas on which the pictures have their places, if the stream says so; else that of the film's picture.
    pub(crate) canvas: Option<(u32, u32)>,
}

impl BitmapSubtitles {
    pub(crate) fn is_codec(codec: &str) -> bool {
        CODECS.contains(&codec)
    }

    pub(crate) fn has_forced_pictures(&self) -> bool {
        CODECS_WITH_FORCED.contains(&self.codec.as_str())
    }

    /// A note for a title without them: why, and what to do.
    pub(crate) fn left_out(&self) -> String {
        let Self { index, codec, .. } = self;
        format!(
            "subtitle stream {index} ({codec}: pictures, not text; burn them in with --burn-in {index}, or convert them to text by OCR \
             and add the file with --subtitle)"
        )
    }

    /// Its entry in a list of streams: "3 (en, hdmv_pgs_subtitle)".
    pub(crate) fn listed(&self) -> String {
        let language = self.label.language.as_deref().unwrap_or("und");
        format!("{} ({language}, {})", self.index, self.codec)
    }
}
