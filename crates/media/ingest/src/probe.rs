//! The contents of a media file, according to ffprobe.
//!
//! Only data that affects the packaging of a film is kept. Decoding shows whether the file is complete, not this.

mod container_colours;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::ops::RangeInclusive;

use serde::Deserialize;

use crate::bitmap_subtitles::BitmapSubtitles;
use crate::colour::{ColourTags, Colours};
use crate::confined::Bounds;
use crate::ffprobe::{ProbeError, ask};
use crate::formats::{JUMPING_FORMATS, MEASURED_FORMATS, ReadAhead, UNLISTED_FORMATS};
use crate::frame_rate::{FrameRate, constant_rate};
use crate::hdr_metadata::{HdrMetadata, HdrSideData};
use crate::ingest::{Stop, words};
use crate::role::{Medium, roles};
use crate::source::{Audio, Chapter, Clock, DolbyVision, Label, Source, Text, Video};
use crate::text_kind::{self, TextKind};
use crate::unplayable::Unplayable;
use crate::{formats, language};

/// The longest title of a stream or a chapter that is kept. Players show it in a menu.
pub(crate) const TITLE_LETTERS_MAX: usize = 200;

/// The most chapters that are kept. Films have some 30, audio books some hundreds.
pub(crate) const CHAPTERS_MAX: usize = 1000;

/// Width to height of pixels. Anamorphic films have 2 at most; others are damaged, and would make pictures of any size.
pub(crate) const PIXEL_SHAPES: RangeInclusive<f64> = 0.125..=8.0;

/// Examines a film with ffprobe. It reads further ahead if it does not find the sound at first: sound may begin late.
pub(crate) fn probe(film: &File, bounds: &Bounds, stop: &Stop) -> Result<Source, ProbeError> {
    let mut short = probe_ahead(film, bounds, stop, ReadAhead::Short)?;
    if short.may_have_more() {
        let far = probe_ahead(film, bounds, stop, ReadAhead::Far)?;
        // If there is no more to find, ingest saves the time of reading ahead in every run.
        if far.playable() > short.playable() {
            return Ok(far.into_source(ReadAhead::Far));
        }
    }
    if short.may_lack_colours() {
        short.add_colours(&container_colours::streams(film, bounds, stop)?);
    }
    Ok(short.into_source(ReadAhead::Short))
}

/// Examines a picture for a poster with ffprobe; if the file has several, the first.
pub(crate) fn probe_picture(
    picture: &File,
    bounds: &Bounds,
    stop: &Stop,
) -> Result<Option<Video>, ProbeError> {
    let probed = probe_input(picture, bounds, stop, formats::picture())?;
    probed.into_picture().map_err(|why| ProbeError::Unreadable(why.to_owned()))
}

fn probe_ahead(
    film: &File,
    bounds: &Bounds,
    stop: &Stop,
    ahead: ReadAhead,
) -> Result<Probed, ProbeError> {
    probe_input(film, bounds, stop, formats::film(ahead))
}

fn probe_input(
    film: &File,
    bounds: &Bounds,
    stop: &Stop,
    input: Vec<OsString>,
) -> Result<Probed, ProbeError> {
    let mut arguments = words("-show_format -show_streams -show_chapters");
    arguments.extend(input);
    let answer = ask(film, arguments, bounds, stop)?;
    serde_json::from_slice(&answer)
        .map_err(|error| ProbeError::Unreadable(format!("ffprobe's answer: {error}")))
}

#[derive(Deserialize)]
struct Probed {
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default)]
    chapters: Vec<ChapterEntry>,
    #[serde(default)]
    format: Format,
}

#[derive(Deserialize)]
struct ChapterEntry {
    start_time: Option<String>,
    end_time: Option<String>,
    #[serde(default)]
    tags: Tags,
}

impl ChapterEntry {
    fn chapter(&self, begins_seconds: f64) -> Chapter {
        let after_begin = |text: &str| (time(text) - begins_seconds).max(0.0);
        Chapter {
            start_seconds: self.start_time.as_deref().map_or(0.0, after_begin),
            end_seconds: self.end_time.as_deref().map(after_begin),
            title: self.tags.title(),
        }
    }
}

#[derive(Default, Deserialize)]
struct Format {
    #[serde(default)]
    format_name: String,
    duration: Option<String>,
    start_time: Option<String>,
}

#[derive(Deserialize)]
struct Stream {
    index: u32,
    codec_type: Option<String>,
    codec_name: Option<String>,
    codec_tag_string: Option<String>,
    width: Option<u32>,
    height: Option<u32>,
    sample_aspect_ratio: Option<String>,
    avg_frame_rate: Option<String>,
    r_frame_rate: Option<String>,
    pix_fmt: Option<String>,
    color_range: Option<String>,
    color_primaries: Option<String>,
    color_transfer: Option<String>,
    color_space: Option<String>,
    field_order: Option<String>,
    channels: Option<u32>,
    channel_layout: Option<String>,
    duration: Option<String>,
    start_time: Option<String>,
    nb_frames: Option<String>,
    /// Whether some of its colours are stated only by the container.
    #[serde(skip)]
    has_colours_of_container: bool,
    /// Flags by name; newer versions of ffmpeg know more of them.
    #[serde(default)]
    disposition: HashMap<String, u8>,
    #[serde(default)]
    tags: Tags,
    #[serde(default)]
    side_data_list: Vec<SideData>,
}

#[derive(Default, Deserialize)]
struct Tags {
    language: Option<String>,
    title: Option<String>,
    /// Matroska's playing time of one stream, "00:01:02.345000000".
    #[serde(rename = "DURATION")]
    duration: Option<String>,
}

impl Tags {
    /// The title in one line, if there is one.
    fn title(&self) -> Option<String> {
        let letters = self.title.as_deref()?.trim().chars().take(TITLE_LETTERS_MAX);
        let plain = letters.map(|letter| if letter.is_control() { ' ' } else { letter });
        Some(plain.collect::<String>()).filter(|title| !title.trim().is_empty())
    }
}

#[derive(Deserialize)]
struct SideData {
    rotation: Option<f64>,
    dv_profile: Option<u32>,
    dv_bl_signal_compatibility_id: Option<u32>,
    #[serde(flatten)]
    hdr: HdrSideData,
}

impl SideData {
    fn dolby_vision(&self) -> Option<DolbyVision> {
        let is_compatible = self.dv_bl_signal_compatibility_id.is_some_and(|id| id != 0);
        Some(DolbyVision { profile: self.dv_profile?, is_compatible })
    }
}

/// Codecs of still pictures. A film in one of them is a row of these.
const PICTURE_CODECS: [&str; 8] =
    ["png", "mjpeg", "bmp", "gif", "webp", "tiff", "jpeg2000", "jpegxl"];

impl Format {
    fn is_one_of(&self, formats: &[&str]) -> bool {
        self.format_name.split(',').any(|name| formats.contains(&name))
    }

    /// The time of its first frame.
    fn begins_seconds(&self) -> f64 {
        self.start_time.as_deref().map_or(0.0, time)
    }

    /// The stated time from its first frame to the end of its last stream. Most containers count from zero, wherever the first frame is.
    /// Some writers of FLV count from the first frame; for these the result is too short, so that no whole film is refused.
    fn plays_seconds(&self) -> Option<f64> {
        let ends_seconds = self.duration.as_deref().and_then(positive)?;
        Some(ends_seconds - self.begins_seconds().max(0.0)).filter(|&seconds| seconds > 0.0)
    }
}

impl Probed {
    /// Whether reading further ahead may show more to play.
    fn may_have_more(&self) -> bool {
        let has = |kind| self.streams.iter().any(|one| one.is_playable(kind));
        let is_unclear = |one: &Stream| {
            let kind = one.codec_type.as_deref();
            let is_cover = one.is("attached_pic");
            kind.is_some_and(|kind| {
                matches!(kind, "audio" | "video") && !is_cover && !one.is_playable(kind)
            })
        };
        let is_listed = self.lists_streams() || has("audio") && has("video");
        self.streams.iter().any(is_unclear) || !is_listed
    }

    fn lists_streams(&self) -> bool {
        !self.format.is_one_of(&UNLISTED_FORMATS)
    }

    fn playable(&self) -> usize {
        let is_playable = |one: &&Stream| one.is_playable("audio") || one.is_playable("video");
        self.streams.iter().filter(is_playable).count()
    }

    fn into_source(self, ahead: ReadAhead) -> Source {
        let clock = match self.format.is_one_of(&JUMPING_FORMATS) {
            true => Clock::MayJump,
            false => Clock::Steady,
        };
        let seconds = self.format.duration.as_deref().and_then(positive);
        let mut source = Source {
            seconds: self.format.plays_seconds().or(seconds),
            stated_seconds: None,
            clock,
            begins_seconds: self.format.begins_seconds(),
            ahead,
            lists_streams: self.lists_streams(),
            ..Source::default()
        };
        let begins_seconds = self.format.begins_seconds();
        let chapters = self.chapters.iter().take(CHAPTERS_MAX);
        source.chapters = chapters.map(|one| one.chapter(begins_seconds)).collect();
        let film = self.film();
        for stream in &self.streams {
            source.add(stream, film, &self.format);
        }
        if self.format.is_one_of(&MEASURED_FORMATS) {
            source.stated_seconds = self.stated_seconds(&source);
        }
        source
    }

    /// The index of the stream of pictures that is the film: never a still picture in front of one, else one that is marked as default, else
    /// the longest, else the first. A still picture next to nothing but sound is its cover, and no film.
    fn film(&self) -> Option<u32> {
        let has_sound = self.streams.iter().any(|one| one.codec_type.as_deref() == Some("audio"));
        let videos = self
            .streams
            .iter()
            .filter(|stream| stream.is_video(&self.format) && !stream.is("attached_pic"));
        let candidates =
            videos.filter(|stream| !(has_sound && stream.is_still_picture(&self.format)));
        let all_seconds = self.format.duration.as_deref().and_then(positive).unwrap_or(0.0);
        let seconds = |stream: &Stream| stream.seconds(&self.format).unwrap_or(all_seconds);
        let by_merit = |a: &&Stream, b: &&Stream| {
            let flags =
                |one: &Stream| (one.is_still(&self.format), one.may_be_still(), !one.is("default"));
            flags(a).cmp(&flags(b)).then(seconds(b).total_cmp(&seconds(a)))
        };
        candidates.min_by(by_merit).map(|stream| stream.index)
    }

    /// The stated playing time of the pictures and sounds of `source`: streams that are not part of the title may last longer.
    fn stated_seconds(&self, source: &Source) -> Option<f64> {
        let whole = self.format.plays_seconds()?;
        let streams = source.video.iter().map(|one| one.index);
        let streams = streams.chain(source.audio.iter().map(|one| one.index));
        let ends = streams.map(|index| {
            let stream = self.streams.iter().find(|one| one.index == index)?;
            let late = stream.late_seconds(self.format.begins_seconds());
            Some(late + stream.seconds(&self.format)?)
        });
        let last =
            ends.collect::<Option<Vec<f64>>>().map(|ends| ends.into_iter().fold(0.0, f64::max));
        Some(last.map_or(whole, |last| last.min(whole)))
    }
}

impl Source {
    fn add(&mut self, stream: &Stream, film: Option<u32>, format: &Format) {
        let codec = stream.codec_name.clone().unwrap_or_else(|| text_kind::UNNAMED.into());
        let tag = stream.codec_tag_string.as_deref();
        match stream.codec_type.as_deref() {
            // Pictures of chapters have both flags.
            Some("video") if stream.is("timed_thumbnails") => {}
            Some("video") if stream.is("attached_pic") => self.add_cover(stream.video(format)),
            Some("video") if film == Some(stream.index) => self.video = stream.video(format),
            Some("video")
                if film.is_none() && self.cover.is_none() && stream.is_still_picture(format) =>
            {
                self.add_cover(stream.video(format));
            }
            Some("video") => {
                let still = if stream.is_still(format) { ": a still picture" } else { "" };
                self.left_out.push(format!("video stream {} ({codec}{still})", stream.index));
            }
            Some("audio") => match stream.audio(format) {
                Some(audio) => self.audio.push(audio),
                None => {
                    let lost = format!("audio stream {} ({codec})", stream.index);
                    self.lost_sound.get_or_insert_with(|| lost.clone());
                    self.left_out.push(lost);
                }
            },
            Some("subtitle") => match TextKind::of(&codec) {
                Some(kind) => {
                    let label = stream.label(Medium::Text);
                    self.text.push(Text { index: stream.index, kind, label });
                }
                None if BitmapSubtitles::is_codec(&codec) => {
                    let label = stream.label(Medium::Text);
                    let canvas = stream.width.zip(stream.height);
                    self.bitmaps.push(BitmapSubtitles {
                        index: stream.index,
                        codec,
                        label,
                        canvas,
                    });
                }
                None => self.left_out.push(text_kind::left_out(stream.index, &codec)),
            },
            // MP4 has the titles of chapters in a stream of their own.
            Some(_) if tag == Some("text") && !self.chapters.is_empty() => {}
            Some(kind) => {
                let (kind, codec) = (kind.to_owned(), stream.codec_name.clone());
                self.unplayable.push(Unplayable { kind, codec, index: stream.index });
            }
            None => {}
        }
    }
}

impl Probed {
    /// The first picture. Fails for photos that are stored as tiles: each is a stream, and ffmpeg's tools put them together only if they
    /// are addressed by other means than a stream's number.
    fn into_picture(self) -> Result<Option<Video>, &'static str> {
        let is_tile = |stream: &Stream| stream.is("dependent");
        let tiles: Vec<_> =
            self.streams.iter().filter(|one| is_tile(one)).map(|one| one.index).collect();
        let source = self.into_source(ReadAhead::Short);
        let picture = source.video.or(source.cover);
        if picture.as_ref().is_some_and(|picture| tiles.contains(&picture.index)) {
            return Err("it is stored as tiles, as phones do in HEIC files");
        }
        Ok(picture)
    }
}

impl Source {
    /// The first cover counts: further ones show the back, the disc or an artist.
    fn add_cover(&mut self, cover: Option<Video>) {
        self.cover = self.cover.take().or(cover);
    }
}

impl Stream {
    fn is(&self, disposition: &str) -> bool {
        self.disposition.get(disposition).is_some_and(|&flag| flag != 0)
    }

    /// Whether it has pictures of a known size.
    fn is_video(&self, format: &Format) -> bool {
        self.codec_type.as_deref() == Some("video") && self.video(format).is_some()
    }

    /// Whether it is only one frame, as far as the container says.
    fn is_still(&self, format: &Format) -> bool {
        if let Some(count) = self.nb_frames.as_deref() {
            return count == "1";
        }
        // Matroska states times but no count. Its times are rounded, so a single frame may last a bit longer than the rate says.
        let rate = self.avg_frame_rate.as_deref().and_then(|text| fraction(text, '/'));
        match (self.seconds(format), rate) {
            (Some(seconds), Some((frames, of_seconds))) => {
                seconds * f64::from(frames) / f64::from(of_seconds) < 2.0
            }
            (None, Some(_)) => false,
            // A rate is measured between frames, so ffprobe has found only one.
            (_, None) => self.has_picture_codec(),
        }
    }

    /// Whether it could be a still picture: nothing says how many frames it has, and the one may be shown late.
    fn may_be_still(&self) -> bool {
        self.has_picture_codec() && self.nb_frames.is_none()
    }

    fn is_still_picture(&self, format: &Format) -> bool {
        self.has_picture_codec() && self.is_still(format)
    }

    fn has_picture_codec(&self) -> bool {
        self.codec_name.as_deref().is_some_and(|codec| PICTURE_CODECS.contains(&codec))
    }

    fn video(&self, format: &Format) -> Option<Video> {
        let (stored_width, stored_height) = (self.width?, self.height?);
        if stored_width == 0 || stored_height == 0 {
            return None;
        }
        let pixel = self.sample_aspect_ratio.as_deref().and_then(|text| fraction(text, ':'));
        let pixel = pixel.map_or(1.0, |(x, y)| f64::from(x) / f64::from(y));
        let pixel = if PIXEL_SHAPES.contains(&pixel) { pixel } else { 1.0 };
        let width = (f64::from(stored_width) * pixel).round().max(1.0) as u32;
        let is_turned =
            self.side_data_list.iter().filter_map(|data| data.rotation).any(is_sideways);
        let (width, height) =
            if is_turned { (stored_height, width) } else { (width, stored_height) };
        Some(Video {
            index: self.index,
            codec: self.codec_name.clone()?,
            width,
            height,
            stored: (stored_width, stored_height),
            frame_rate: self.frame_rate(),
            colours: Colours::new(&self.colour_tags(), stored_width, stored_height),
            hdr: HdrMetadata::of(self.side_data_list.iter().map(|data| &data.hdr)),
            loses_captions: false, // only frames say so
            dolby_vision: self.side_data_list.iter().find_map(SideData::dolby_vision),
            is_interlaced: matches!(self.field_order.as_deref(), Some("tt" | "bb" | "tb" | "bt")),
            late_seconds: self.late_seconds(format.begins_seconds()),
            copy_begins_seconds: None,
            seconds: self.seconds(format),
        })
    }

    fn colour_tags(&self) -> ColourTags<'_> {
        ColourTags {
            codec: self.codec_name.as_deref(),
            pixels: self.pix_fmt.as_deref(),
            range: self.color_range.as_deref(),
            primaries: self.color_primaries.as_deref(),
            transfer: self.color_transfer.as_deref(),
            matrix: self.color_space.as_deref(),
            is_of_container: self.has_colours_of_container,
        }
    }

    fn audio(&self, format: &Format) -> Option<Audio> {
        Some(Audio {
            index: self.index,
            codec: self.codec_name.clone()?,
            channels: self.channels.filter(|&channels| channels > 0)?,
            layout: self.channel_layout.clone().filter(|layout| layout != "unknown"),
            label: self.label(Medium::Sound),
            late_seconds: self.late_seconds(format.begins_seconds()),
            copy_begins_seconds: None,
            seconds: self.seconds(format),
        })
    }

    fn label(&self, medium: Medium) -> Label {
        let title = self.tags.title();
        Label {
            language: self.tags.language.as_deref().and_then(language::bcp47),
            roles: roles(medium, |flag| self.is(flag), title.as_deref()),
            title,
            is_default: self.is("default"),
        }
    }

    fn late_seconds(&self, begins_seconds: f64) -> f64 {
        self.start_time.as_deref().map_or(0.0, |start| (time(start) - begins_seconds).max(0.0))
    }

    /// The stated time from its first frame to its end.
    fn seconds(&self, format: &Format) -> Option<f64> {
        let begins_seconds = self.start_time.as_deref().map_or(0.0, time).max(0.0);
        let own = self.duration.as_deref().and_then(positive);
        // Matroska's tag and the duration of ASF count from zero.
        let own =
            own.map(|own| if format.is_one_of(&["asf"]) { own - begins_seconds } else { own });
        let tag = self.tags.duration.as_deref().and_then(clock_seconds);
        let seconds = own.or_else(|| Some(tag? - begins_seconds));
        seconds.filter(|&seconds| seconds > 0.0)
    }

    /// Whether it is a picture or a sound, by `kind`, of which enough is known to play it.
    fn is_playable(&self, kind: &str) -> bool {
        let is_known = match kind {
            "audio" => self.channels.is_some_and(|channels| channels > 0),
            _ => self.width.is_some_and(|width| width > 0),
        };
        self.codec_type.as_deref() == Some(kind) && self.codec_name.is_some() && is_known
    }

    fn frame_rate(&self) -> FrameRate {
        let parsed = |text: &Option<String>| text.as_deref().and_then(|text| fraction(text, '/'));
        constant_rate(parsed(&self.avg_frame_rate), parsed(&self.r_frame_rate))
    }
}

fn is_sideways(degrees: f64) -> bool {
    (degrees.abs() % 180.0 - 90.0).abs() < 1.0
}

/// The time of a start, which may be negative; zero if it cannot be parsed.
fn time(text: &str) -> f64 {
    text.parse().ok().filter(|seconds: &f64| seconds.is_finite()).unwrap_or(0.0)
}

fn positive(text: &str) -> Option<f64> {
    text.parse().ok().filter(|&seconds: &f64| seconds.is_finite() && seconds > 0.0)
}

fn fraction(text: &str, between: char) -> Option<(u32, u32)> {
    let (over, under) = text.split_once(between)?;
    let (over, under) = (over.parse().ok()?, under.parse().ok()?);
    (over > 0 && under > 0).then_some((over, under))
}

fn clock_seconds(text: &str) -> Option<f64> {
    let mut parts = text.split(':').map(|part| part.parse::<f64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    Some(hours * 3600.0 + minutes * 60.0 + seconds).filter(|&seconds| seconds > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(json: &str) -> Source {
        serde_json::from_str::<Probed>(json).unwrap().into_source(ReadAhead::Short)
    }

    #[test]
    fn a_phones_film_is_upright() {
        let source = source(
            r#"{"streams": [{"index": 0, "codec_type": "video", "codec_name": "h264", "width": 1920,
            "height": 1080, "avg_frame_rate": "30/1", "r_frame_rate": "30/1",
            "side_data_list": [{"side_data_type": "Display Matrix", "rotation": -90}]}],
            "format": {"format_name": "mov,mp4,m4a,3gp,3g2,mj2", "duration": "10.5"}}"#,
        );
        let video = source.video.unwrap();
        assert_eq!((video.width, video.height), (1080, 1920));
        assert_eq!((source.seconds, source.stated_seconds), (Some(10.5), Some(10.5)));
    }

    #[test]
    fn a_length_that_is_guessed_is_none_to_hold_a_file_to() {
        let source = source(
            r#"{"streams": [{"index": 0, "codec_type": "audio", "codec_name": "mp3", "channels": 2}],
            "format": {"format_name": "mp3", "duration": "10.5"}}"#,
        );
        assert_eq!((source.seconds, source.stated_seconds), (Some(10.5), None));
    }

    #[test]
    fn pixels_that_are_not_square_are_made_so() {
        let source = source(
            r#"{"streams": [{"index": 0, "codec_type": "video", "codec_name": "mpeg2video", "width": 720,
            "height": 576, "sample_aspect_ratio": "64:45", "field_order": "tt"}]}"#,
        );
        let video = source.video.unwrap();
        assert_eq!((video.width, video.height, video.is_interlaced), (1024, 576, true));
    }

    #[test]
    fn covers_are_no_films_and_pictures_of_words_are_named_as_left_out() {
        let source = source(
            r#"{"streams": [
            {"index": 0, "codec_type": "audio", "codec_name": "mp3", "channels": 2, "tags": {"language": "ger"}},
            {"index": 1, "codec_type": "video", "codec_name": "mjpeg", "width": 9, "height": 9, "disposition": {"attached_pic": 1}},
            {"index": 2, "codec_type": "subtitle", "codec_name": "hdmv_pgs_subtitle"},
            {"index": 3, "codec_type": "subtitle", "codec_name": "ass"},
            {"index": 4, "codec_type": "data", "codec_tag_string": "text"}]}"#,
        );
        assert_eq!(source.unplayable.iter().map(|one| one.index).collect::<Vec<_>>(), [4]);
        assert!(source.video.is_none());
        assert_eq!(source.cover.map(|cover| (cover.index, cover.width)), Some((1, 9)));
        assert_eq!(source.audio[0].label.language.as_deref(), Some("de"));
        assert_eq!(source.text.len(), 1);
        let [bitmaps] = &source.bitmaps[..] else { panic!("{:?}", source.bitmaps) };
        assert_eq!(
            bitmaps.left_out(),
            "subtitle stream 2 (hdmv_pgs_subtitle: pictures, not text; burn them in with --burn-in 2, or convert them to text by OCR and \
             add the file with --subtitle)"
        );
    }

    #[test]
    fn a_picture_without_a_rate_is_a_cover_unless_there_is_nothing_else() {
        let picture = r#"{"index": 0, "codec_type": "video", "codec_name": "png", "width": 9, "height": 9,
            "avg_frame_rate": "0/0", "r_frame_rate": "1000/1"}"#;
        let sound = r#"{"index": 1, "codec_type": "audio", "codec_name": "mp3", "channels": 2}"#;
        let song = source(&format!(r#"{{"streams": [{picture}, {sound}]}}"#));
        assert_eq!(song.cover.map(|cover| cover.index), Some(0));
        assert!(song.video.is_none() && song.audio.len() == 1 && song.left_out.is_empty());
        let alone = source(&format!(r#"{{"streams": [{picture}]}}"#));
        assert!(alone.video.is_some() && alone.left_out.is_empty());
    }

    #[test]
    fn a_tile_of_a_photo_is_no_picture() {
        let with = |flag: u8| -> Probed {
            let stream = format!(
                r#"{{"index": 0, "codec_type": "video", "codec_name": "hevc", "width": 512, "height": 512,
                "disposition": {{"dependent": {flag}}}}}"#
            );
            serde_json::from_str(&format!(r#"{{"streams": [{stream}]}}"#)).expect("JSON")
        };
        assert_eq!(with(0).into_picture().expect("a picture").map(|one| one.width), Some(512));
        assert!(with(1).into_picture().is_err());
    }

    #[test]
    fn chapters_count_from_the_films_beginning_and_are_bounded() {
        let long = "x".repeat(TITLE_LETTERS_MAX + 1);
        let one = |title: &str| {
            format!(
                r#"{{"start_time": "12.5", "end_time": "20.0", "tags": {{"title": "{title}"}}}}"#
            )
        };
        let all = [vec![one("a\\nb"), one(&long), one(" ")], vec![one("c"); CHAPTERS_MAX]].concat();
        let track =
            r#""streams": [{"index": 0, "codec_type": "data", "codec_tag_string": "text"}]"#;
        let with_track = format!(r#"{{"chapters": [{}], {track}}}"#, one("a"));
        let json =
            format!(r#"{{"chapters": [{}], "format": {{"start_time": "10.0"}}}}"#, all.join(","));
        let (of_chapters, source) = (source(&with_track).unplayable, source(&json));
        assert!(of_chapters.is_empty(), "they are kept in another form");
        let chapters = source.chapters;
        assert_eq!(chapters.len(), CHAPTERS_MAX);
        assert_eq!((chapters[0].start_seconds, chapters[0].end_seconds), (2.5, Some(10.0)));
        assert_eq!(chapters[0].title.as_deref(), Some("a b"));
        assert_eq!(chapters[1].title.as_ref().map(String::len), Some(TITLE_LETTERS_MAX));
        assert_eq!(chapters[2].title, None);
    }
}
