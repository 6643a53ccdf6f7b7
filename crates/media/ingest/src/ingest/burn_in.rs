//! Burns one track of subtitles that are pictures into every size, on request.
//!
//! The pictures have places on a canvas, which is often larger than the film: discs store black bars, and rips cut them off. The canvas is scaled
//! to fit into the film as a whole, in its own shape, so that no line is lost: centred, and at the bottom. A canvas as wide as the stored film
//! has pixels of the same shape (DVDs); others have square ones.

use std::ffi::OsString;
use std::fmt;

use super::error::IngestError;
use super::jobs::words;
use crate::bitmap_subtitles::BitmapSubtitles;
use crate::language;
use crate::role::Role;
use crate::source::{Burnt, Source, Video};

/// Which subtitles to burn in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BurnIn {
    /// The track.
    pub track: BurnInTrack,
    /// Only subtitles of speech that the film's usual viewers don't understand.
    pub forced_only: bool,
}

/// A track of subtitles that are pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BurnInTrack {
    /// The number of the stream, as ffprobe and ingest's notes have it.
    Stream(u32),
    /// The first one in this language: BCP 47, or a tag of ISO 639.
    Language(String),
}

/// Follows the track if only forced subtitles are wanted.
const FORCED: &str = ":forced";

impl BurnIn {
    /// Reads `3`, `en`, `3:forced` or `en:forced`.
    pub fn parse(text: &str) -> Option<Self> {
        let (track, forced_only) =
            text.strip_suffix(FORCED).map_or((text, false), |track| (track, true));
        let track = match track.parse() {
            Ok(index) => BurnInTrack::Stream(index),
            Err(_) if language::is_language(track) => BurnInTrack::Language(track.to_owned()),
            Err(_) => return None,
        };
        Some(Self { track, forced_only })
    }

    /// Finds the stream in `source`.
    pub(super) fn choose(&self, source: &Source) -> Result<Burnt, IngestError> {
        let all = &source.bitmaps;
        let chosen = match &self.track {
            BurnInTrack::Stream(index) => all.iter().find(|one| one.index == *index),
            BurnInTrack::Language(tag) => self.in_language(all, language::bcp47(tag).as_deref()),
        };
        let Some(stream) = chosen.filter(|_| source.video.is_some()) else {
            let found: Vec<_> = all.iter().map(BitmapSubtitles::listed).collect();
            let why = match found.is_empty() {
                true => "it has no subtitles that are pictures; leave --burn-in out, because players show text without it".to_owned(),
                false => format!(
                    "its subtitles that are pictures are {}; choose one by its number or language, or leave --burn-in out",
                    found.join(", ")
                ),
            };
            return Err(IngestError::NothingToBurnIn { wanted: self.to_string(), why });
        };
        // A track of nothing but forced subtitles usually marks none of its pictures.
        let is_forced_track = is_forced(stream);
        let picks_forced = self.forced_only && !is_forced_track;
        if picks_forced && !stream.has_forced_pictures() {
            return Err(IngestError::NoForcedPictures(stream.listed()));
        }
        let is_forced_only = self.forced_only || is_forced_track;
        Ok(Burnt { stream: stream.clone(), picks_forced, is_forced_only })
    }

    /// The best track of a language: the forced one if forced subtitles are wanted, else one without a special purpose.
    fn in_language<'a>(
        &self,
        all: &'a [BitmapSubtitles],
        language: Option<&str>,
    ) -> Option<&'a BitmapSubtitles> {
        let matching = all.iter().filter(|one| one.label.language.as_deref() == language);
        matching.min_by_key(|one| (is_forced(one) != self.forced_only, one.label.roles.len()))
    }
}

fn is_forced(stream: &BitmapSubtitles) -> bool {
    stream.label.roles.contains(&Role::Forced)
}

impl fmt::Display for BurnIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.track {
            BurnInTrack::Stream(index) => write!(f, "{index}")?,
            BurnInTrack::Language(tag) => f.write_str(tag)?,
        }
        f.write_str(if self.forced_only { FORCED } else { "" })
    }
}

/// ffmpeg's arguments in front of the input.
pub(super) fn decoding(burnt: &Burnt) -> Vec<OsString> {
    match burnt.picks_forced {
        true => words(&format!("-forced_subs_only:{} 1", burnt.stream.index)),
        false => Vec::new(),
    }
}

/// The filters that lay `burnt` over the film, which `film` filters and scales to `width` by `height`. The result is `[out]`.
pub(super) fn graph(
    video: &Video,
    film: &str,
    burnt: &Burnt,
    (width, height): (u32, u32),
) -> String {
    let Place { x, y, width, height } = place(video, burnt.stream.canvas, width, height);
    // The subtitles are converted here, because the overlay would convert them by BT.601. Nothing follows them forever, so that the shortest
    // input is the film: otherwise subtitles after its end would go on with its last picture.
    format!(
        "[0:{}]{film}[film];\
         [0:{}]scale={width}:{height}:flags=bicubic:out_color_matrix=bt709:out_range=tv,setsar=1,format=yuva420p[some];\
         color=black@0:size={width}x{height}:rate=1,setsar=1,format=yuva420p[none];[some][none]concat[subtitles];\
         [film][subtitles]overlay=x={x}:y={y}:format=yuv420:shortest=1[out]",
        video.index, burnt.stream.index
    )
}

/// Where the canvas goes.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    x: u32,
    y: u32,
    width: u32,
    height: u32,
}

/// Shapes that differ by less than this share are the same.
const SHAPE_PART: f64 = 0.02;

fn place(video: &Video, canvas: Option<(u32, u32)>, width: u32, height: u32) -> Place {
    let is_given = |&(w, h): &(u32, u32)| w > 0 && h > 0;
    let (canvas_width, canvas_height) = canvas.filter(is_given).unwrap_or(video.stored);
    let shape_of = |(w, h): (u32, u32)| f64::from(w) / f64::from(h);
    let pixel = match canvas_width == video.stored.0 {
        true => shape_of((video.width, video.height)) / shape_of(video.stored),
        false => 1.0,
    };
    let shape = shape_of((canvas_width, canvas_height)) * pixel / shape_of((width, height));
    // Halves of chroma need even numbers.
    let even = |pixels: f64| ((pixels / 2.0).round() as u32 * 2).max(2);
    let (width_part, height_part) = match shape {
        shape if (shape - 1.0).abs() < SHAPE_PART => (1.0, 1.0),
        shape if shape > 1.0 => (1.0, 1.0 / shape),
        shape => (shape, 1.0),
    };
    let own_width = even(f64::from(width) * width_part).min(width);
    let own_height = even(f64::from(height) * height_part).min(height);
    let x = (width - own_width) / 4 * 2;
    Place { x, y: height - own_height, width: own_width, height: own_height }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Label;

    fn stream(index: u32, language: &str, roles: &[Role]) -> BitmapSubtitles {
        let label =
            Label { language: Some(language.into()), roles: roles.to_vec(), ..Label::default() };
        BitmapSubtitles { index, codec: "hdmv_pgs_subtitle".into(), label, canvas: None }
    }

    fn chosen(text: &str) -> Result<(u32, bool), String> {
        let bitmaps = vec![
            stream(2, "en", &[Role::HardOfHearing]),
            stream(3, "en", &[Role::Forced]),
            stream(4, "en", &[]),
            stream(5, "de", &[]),
            BitmapSubtitles { codec: "dvb_subtitle".into(), ..stream(6, "fr", &[]) },
        ];
        let source = Source { video: Some(Video::example(64, 36)), bitmaps, ..Source::default() };
        let chosen = BurnIn::parse(text).expect("a track").choose(&source);
        chosen.map(|one| (one.stream.index, one.picks_forced)).map_err(|error| error.to_string())
    }

    #[test]
    fn tracks_are_chosen_by_number_language_and_purpose() {
        assert_eq!(chosen("2"), Ok((2, false)));
        assert_eq!(chosen("eng"), Ok((4, false)));
        assert_eq!(chosen("en:forced"), Ok((3, false)));
        assert_eq!(chosen("de:forced"), Ok((5, true)));
        assert_eq!(chosen("4:forced"), Ok((4, true)));
        let missing = chosen("pl").expect_err("none");
        assert!(missing.contains("--burn-in pl") && missing.contains("5 (de, hdmv_pgs_subtitle)"));
        assert!(chosen("fr:forced").expect_err("not marked").contains("6 (fr, dvb_subtitle)"));
        for wrong in ["", ":forced", "e n", "-1:forced", "en:all"] {
            assert_eq!(BurnIn::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_whole_canvas_fits_into_the_film_in_its_own_shape() {
        let film = |width, height, stored| Video { stored, ..Video::example(width, height) };
        let at = |video: &Video, canvas, width, height| {
            let Place { x, y, width, height } = place(video, Some(canvas), width, height);
            (x, y, width, height)
        };
        let disc = film(1920, 1080, (1920, 1080));
        assert_eq!(at(&disc, (1920, 1080), 640, 360), (0, 0, 640, 360));
        // Black bars are cut off; DVDs have pixels that aren't square; a canvas wider than the film.
        let wide = film(1920, 800, (1920, 800));
        assert_eq!(at(&wide, (1920, 1080), 960, 400), (124, 0, 712, 400));
        let dvd = film(1024, 576, (720, 576));
        assert_eq!(at(&dvd, (720, 576), 640, 360), (0, 0, 640, 360));
        let old = film(1440, 1080, (1440, 1080));
        assert_eq!(at(&old, (1920, 1080), 720, 540), (0, 134, 720, 406));
        let unknown = place(&wide, Some((0, 0)), 960, 400);
        assert_eq!(unknown, Place { x: 0, y: 0, width: 960, height: 400 });
    }
}
