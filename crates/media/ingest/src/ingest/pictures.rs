//! The poster, and the thumbnails that a player shows over its time bar: sheets of thumbnails, and a WebVTT file that maps times to parts
//! of the sheets, by media fragments (W3C Media Fragments URI 1.0 section 4.2.2).
//!
//! Both are made from a rendition, unless the poster is a picture of its own (`poster.rs`). An encoded rendition has square pixels and
//! BT.709 colours; a copied one has those of its source, which are converted here.

use std::ffi::OsString;
use std::fmt::{Display, Write};
use std::fs::{self, File};
use std::path::Path;

use super::error::{Attempt, IngestError};
use super::ffmpeg::{Run, RunLimits};
use super::jobs::words;
use super::made::{Made, Picture, Tiles};
use crate::colour::Colours;
use crate::formats;
use crate::probe::PIXEL_SHAPES;
use crate::source::Video;

pub(super) const POSTER: &str = "poster.jpg";
pub(super) const THUMBNAILS: &str = "thumbnails.vtt";
/// A sheet is this many thumbnails wide and high.
const SHEET: u32 = 5;
/// A thumbnail's longer side.
const SIDE_PIXELS: u32 = 160;
/// At least this many thumbnails, if the film is long enough, and no further apart than this.
const PICTURES: f64 = 100.0;
const SECONDS_APART_MAX: f64 = 10.0;
/// The poster is taken after this share of the film: after the opening titles.
const POSTER_PART: f64 = 0.1;
/// The most typical of this many frames becomes the poster, so it is neither a flash nor black.
const POSTER_CHOICE: u32 = 24;
/// The poster is not made from a larger picture than this.
const POSTER_SIDE_MAX: u32 = 1080;
/// The longer side of a poster that is made from any picture: that of 21:9, rounded up. A panorama or a scroll would be larger than a page.
const POSTER_LONG_SIDE_MAX: u32 = 2560;
/// The widths of smaller copies of the poster: of a card on the shelf, where a pixel of the page is one or two of the screen's.
const POSTER_WIDTHS: [u32; 2] = [320, 640];

/// JPEG files have the matrix of BT.601 and full range (JFIF 1.02). By way of RGB, because ffmpeg 7.0 doesn't convert one matrix to another. The
/// label is for pictures that were RGB: ffmpeg's scaler converts them to BT.709 and doesn't say so in the frame.
const TO_JPEG: &str = "setparams=colorspace=bt709:range=tv,format=gbrp,scale=out_color_matrix=bt601:out_range=pc,format=yuvj420p";

/// How to read the colours of renditions.
pub(super) struct Reading {
    pub(super) stored: Colours,
    /// As in [`super::jobs::Tools`].
    pub(super) has_zscale: bool,
}

/// Makes the poster in `folder` from a frame of the film.
pub(super) fn poster_of_film(
    made: &Made,
    colours: &Reading,
    folder: &Path,
    limits: &RunLimits<'_>,
) -> Result<(), IngestError> {
    let small_enough = |one: &&Picture| one.width.min(one.height) <= POSTER_SIDE_MAX;
    let ladder = made.main_ladder();
    let best = ladder.iter().rev().find(small_enough).or(ladder.first());
    let Some(best) = best else { return Ok(()) };
    // Start at the key frame before that time, which exists even in a film of a single frame.
    let begin = best.track.seconds() * POSTER_PART;
    let mut arguments = words(&format!("-noaccurate_seek -ss {begin:.3}"));
    arguments.extend(formats::rendition());
    // Frames before the time have negative timestamps; with a constant rate, ffmpeg would drop them. Both sides even, as zscale needs.
    let even = |side: u32| side.next_multiple_of(2);
    let Reading { stored, has_zscale } = colours;
    arguments.extend(words(&format!(
        "-vf {},{},thumbnail=n={POSTER_CHOICE},setsar=1,{TO_JPEG} -frames:v 1 -update 1 -fps_mode passthrough -q:v 3 {POSTER}",
        stored.labels(),
        stored.scale_to_bt709(&format!("{}:{}", even(best.width), even(best.height)), *has_zscale)
    )));
    run("the poster", &best.place, folder, &arguments, limits)?;
    present(folder, POSTER)
}

/// A picture for a poster.
pub(super) struct Still<'a> {
    pub(super) file: &'a File,
    /// ffmpeg's arguments for reading it.
    pub(super) input: Vec<OsString>,
    /// The stream in the file.
    pub(super) picture: &'a Video,
    /// As in [`super::jobs::Tools`].
    pub(super) has_zscale: bool,
}

/// Makes the poster in `folder` from a picture.
pub(super) fn poster_of_still(
    making: &str,
    still: Still<'_>,
    folder: &Path,
    limits: &RunLimits<'_>,
) -> Result<(), IngestError> {
    let Still { file, input, picture, has_zscale } = still;
    // By itself, ffmpeg fills the part of a JPEG that is missing with grey, and reports success. Of other formats, it would refuse good files: TIFF
    // with tags that it doesn't know.
    let mut arguments = match picture.codec.as_str() {
        "mjpeg" => words("-err_detect explode"),
        _ => Vec::new(),
    };
    arguments.extend(input);
    arguments.extend(words(&format!(
        "-map 0:{} -vf {},{},setsar=1,{TO_JPEG} -frames:v 1 -update 1 -fps_mode passthrough -q:v 3 {POSTER}",
        picture.index,
        picture.colours.labels(),
        picture.colours.scale_to_bt709(&poster_size(), has_zscale)
    )));
    let run = Run { making, film: Some(file), folder, arguments: &arguments };
    let made = run.run(limits, |_| {}).and_then(|_| present(folder, POSTER));
    if made.is_err() {
        // ffmpeg may have written a part of it. The title may do without a poster, and its record lists every file in the folder.
        let _ = fs::remove_file(folder.join(POSTER));
    }
    made
}

/// Makes smaller copies of the poster in `folder`. Returns the widths of all, smallest first, the poster's own last; none if no copy is smaller.
pub(super) fn smaller_posters(
    folder: &Path,
    limits: &RunLimits<'_>,
) -> Result<Vec<u32>, IngestError> {
    let poster = folder.join(POSTER);
    let width = jpeg_width(&fs::read(&poster).attempt("read", &poster)?);
    let width = width.ok_or_else(|| IngestError::Unusable {
        making: POSTER.to_owned(),
        why: "it is not a JPEG".into(),
    })?;
    let mut widths: Vec<_> = POSTER_WIDTHS.into_iter().filter(|small| *small < width).collect();
    if widths.is_empty() {
        return Ok(widths);
    }
    let mut arguments = formats::picture();
    for small in &widths {
        let file = smaller_poster(*small);
        arguments.extend(words(&format!(
            "-vf scale={small}:-2,setsar=1,format=yuvj420p -frames:v 1 -update 1 -q:v 3 {file}"
        )));
    }
    run("smaller posters", &poster, folder, &arguments, limits)?;
    for small in &widths {
        present(folder, &smaller_poster(*small))?;
    }
    widths.push(width);
    Ok(widths)
}

fn smaller_poster(width: u32) -> String {
    format!("poster-{width}.jpg")
}

/// The width of a JPEG file, from its frame header (ITU-T T.81 section B.2.2).
fn jpeg_width(bytes: &[u8]) -> Option<u32> {
    let mut rest = bytes.strip_prefix(&[0xff, 0xd8])?;
    loop {
        let [0xff, marker, high, low, ..] = *rest else { return None };
        // Between them, 0xc4, 0xc8 and 0xcc are other segments.
        if matches!(marker, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf) {
            let width = rest.get(7..9)?;
            return Some(u32::from(u16::from_be_bytes([width[0], width[1]])));
        }
        rest = rest.get(2 + usize::from(u16::from_be_bytes([high, low]))..)?;
    }
}

/// The width and the height of a poster, as ffmpeg's scaler takes them: of the picture's shape, even, and not enlarged. The scaler evaluates
/// them, because only there is a photo upright that its camera held sideways: the file's description has the size before that.
fn poster_size() -> String {
    let (least, most) = (PIXEL_SHAPES.start(), PIXEL_SHAPES.end());
    let width = format!("iw*if(between(sar,{least},{most}),sar,1)");
    let shrink = format!(
        "min(1,min({POSTER_SIDE_MAX}/min({width},ih),{POSTER_LONG_SIDE_MAX}/max({width},ih)))"
    );
    let side = |pixels: &str| format!("'max(2,2*round({pixels}*{shrink}/2))'");
    format!("{}:{}", side(&width), side("ih"))
}

/// Makes the sheets and their list in `folder`. It decodes only key frames, so it is fast even for a long film.
pub(super) fn thumbnails(
    made: &Made,
    colours: &Reading,
    folder: &Path,
    limits: &RunLimits<'_>,
) -> Result<Option<Tiles>, IngestError> {
    let Some(smallest) = made.main_ladder().first() else { return Ok(None) };
    let plan = Plan::of(smallest, made.seconds());
    let mut arguments = words("-skip_frame nokey");
    arguments.extend(formats::rendition());
    // The last key frame is repeated until the last sheet is full.
    let Reading { stored, has_zscale } = colours;
    arguments.extend(words(&format!(
        "-vf {},tpad=stop_mode=clone:stop=-1,fps=1/{}:start_time=0,{},setsar=1,\
         tile={SHEET}x{SHEET},{TO_JPEG} -frames:v {} -q:v 5 thumbnails-%d.jpg",
        stored.labels(),
        plan.seconds_apart,
        stored.scale_to_bt709(&format!("{}:{}", plan.width, plan.height), *has_zscale),
        plan.sheets()
    )));
    run("the thumbnails", &smallest.place, folder, &arguments, limits)?;
    present(folder, &sheet(plan.sheets()))?;
    let path = folder.join(THUMBNAILS);
    fs::write(&path, plan.list()).attempt("write", &path)?;
    plan.tiles(folder).map(Some)
}

fn run(
    making: &str,
    rendition: &Path,
    folder: &Path,
    arguments: &[OsString],
    limits: &RunLimits<'_>,
) -> Result<(), IngestError> {
    let film = Some(&File::open(rendition).attempt("open", rendition)?);
    Run { making, film, folder, arguments }.run(limits, |_| {}).map(drop)
}

fn present(folder: &Path, file: &str) -> Result<(), IngestError> {
    if folder.join(file).is_file() {
        return Ok(());
    }
    Err(IngestError::Unusable { making: file.to_owned(), why: "it was not written".into() })
}

fn sheet(number: impl Display) -> String {
    format!("thumbnails-{number}.jpg")
}

/// The thumbnails to make.
struct Plan {
    seconds: f64,
    seconds_apart: f64,
    count: u32,
    width: u32,
    height: u32,
}

impl Plan {
    /// For a film of `seconds`, which is as long as its longest picture or sound: a manifest has sheets for all of it.
    fn of(picture: &Picture, seconds: f64) -> Self {
        // No closer than key frames, because there would be no new pictures. Whole seconds keep the times readable.
        let least = picture.track.longest_seconds().min(SECONDS_APART_MAX);
        let seconds_apart = (seconds / PICTURES).clamp(least, SECONDS_APART_MAX).round().max(1.0);
        let longer = f64::from(picture.width.max(picture.height));
        let side = |pixels: u32| {
            let scaled = f64::from(pixels) * f64::from(SIDE_PIXELS) / longer;
            ((scaled / 2.0).round() as u32 * 2).max(2)
        };
        Self {
            seconds,
            seconds_apart,
            count: ((seconds / seconds_apart).ceil() as u32).max(1),
            width: side(picture.width),
            height: side(picture.height),
        }
    }

    fn sheets(&self) -> u32 {
        self.count.div_ceil(SHEET * SHEET)
    }

    /// The sheets in `folder`, for a manifest.
    fn tiles(&self, folder: &Path) -> Result<Tiles, IngestError> {
        let mut bytes_max = 0;
        for number in 1..=self.sheets() {
            let path = folder.join(sheet(number));
            bytes_max = path.metadata().attempt("look at", &path)?.len().max(bytes_max);
        }
        let seconds = self.seconds_apart * f64::from(SHEET * SHEET);
        Ok(Tiles {
            files: sheet("$Number$"),
            width: self.width * SHEET,
            height: self.height * SHEET,
            per_row: SHEET,
            seconds,
            bits_per_second: (bytes_max as f64 * 8.0 / seconds).ceil() as u64,
        })
    }

    fn list(&self) -> String {
        let mut text = String::from("WEBVTT\n");
        let Self { width, height, .. } = self;
        for index in 0..self.count {
            let from = f64::from(index) * self.seconds_apart;
            let to = (from + self.seconds_apart).min(self.seconds);
            let (in_sheet, number) = (index % (SHEET * SHEET), index / (SHEET * SHEET) + 1);
            let (x, y) = (in_sheet % SHEET * width, in_sheet / SHEET * height);
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "\n{} --> {}\n{}#xywh={x},{y},{width},{height}\n",
                clock(from),
                clock(to),
                sheet(number)
            );
        }
        text
    }
}

/// A WebVTT timestamp.
fn clock(seconds: f64) -> String {
    let milliseconds = (seconds * 1000.0).round() as u64;
    let (seconds, milliseconds) = (milliseconds / 1000, milliseconds % 1000);
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    format!("{:02}:{:02}:{seconds:02}.{milliseconds:03}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::{Bounds, Stop};
    use tempfile::tempdir;

    #[test]
    fn the_width_of_a_jpeg_is_in_its_frame_header() {
        // An application segment, Huffman tables, a frame of 640 by 360, and the beginning of its components.
        let jpeg = b"\xff\xd8\xff\xe0\0\x04JF\xff\xc4\0\x03x\xff\xc2\0\x0b\x08\x01\x68\x02\x80\x01";
        assert_eq!(jpeg_width(jpeg), Some(640));
        for length in 0..jpeg.len() - 1 {
            assert_eq!(jpeg_width(&jpeg[..length]), None, "{length} bytes");
        }
        assert_eq!(jpeg_width(b"\x89PNG\r\n\x1a\n"), None);
        assert_eq!(jpeg_width(b"\xff\xd8\xff\xe0\0\0\0\0\0\0"), None);
    }

    #[test]
    fn a_poster_that_fails_leaves_no_part_of_it() {
        let folder = tempdir().unwrap();
        let place = folder.path().join(POSTER);
        // As if ffmpeg had written it before it failed.
        fs::write(&place, "a part").unwrap();
        let file = File::open("/dev/null").unwrap();
        let picture = &Video::example(64, 64);
        let input = formats::picture();
        let still = Still { file: &file, input, picture, has_zscale: false };
        let (stop, bounds) = (&Stop::default(), &Bounds::default());
        let limits = RunLimits { stop, bounds, output: (folder.path(), 1 << 20) };
        assert!(poster_of_still("the cover", still, folder.path(), &limits).is_err());
        assert!(!place.exists());
    }

    #[test]
    fn each_moment_of_a_film_has_one_picture_on_one_sheet() {
        let plan = Plan { seconds: 260.5, seconds_apart: 10.0, count: 27, width: 160, height: 90 };
        let list = plan.list();
        assert_eq!(plan.sheets(), 2);
        assert_eq!(list.matches("-->").count(), 27);
        assert!(list.contains("00:00:10.000 --> 00:00:20.000\nthumbnails-1.jpg#xywh=160,0,160,90"));
        assert!(
            list.contains("00:04:00.000 --> 00:04:10.000\nthumbnails-1.jpg#xywh=640,360,160,90")
        );
        assert!(list.contains("00:04:20.000 --> 00:04:20.500\nthumbnails-2.jpg#xywh=160,0,160,90"));
    }

    #[test]
    fn times_past_the_hour_are_written_out() {
        assert_eq!(clock(3723.0405), "01:02:03.041");
    }
}
