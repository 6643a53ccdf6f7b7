//! The sample film, as arguments of ffmpeg.
//!
//! The timecode is the one in the corner of ffmpeg's test picture, cut out and enlarged, so that the machine needs no font. The captions
//! count the seconds, so that people can see whether they match the picture.

use std::ffi::OsString;
use std::fmt::Write;

use crate::formats;
use crate::ingest::{Options, Speed, words};
use crate::ladder::{Ladder, Rung};

/// Length of a segment and distance between key frames. Two seconds are common in live streams, and short enough to watch a player switch.
const SEGMENT_SECONDS: f64 = 2.0;
const FRAMES_PER_SECOND: u32 = 30;
/// The position of the timecode in the test picture: width and height from the corner in pixels, for ffmpeg's fixed 8-pixel font, doubled.
const TIMECODE: (u32, u32) = (104, 20);
/// A low hum, and a beep for the first tenth of each second.
const SOUND: &str = "0.1*sin(2*PI*220*t)+0.4*sin(2*PI*880*t)*lt(mod(t,1),0.1)";
/// The file of captions, next to the film.
pub(super) const CAPTIONS: &str = "captions.srt";

/// The film to make.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Its length.
    pub seconds: u32,
    /// Its sizes. The picture is drawn at the largest one.
    pub ladder: Ladder,
}

impl Default for Recipe {
    /// One minute in three rungs.
    fn default() -> Self {
        let rungs = [(360, 800), (540, 1800), (720, 3500)];
        let rungs = rungs.map(|(height, kbps)| Rung { height, kbps }).to_vec();
        Self { seconds: 60, ladder: Ladder::new(rungs).expect("these are three rungs in order") }
    }
}

impl Recipe {
    /// A long film in small sizes, for many viewers at once: the lowest rung has 400 kb/s. A minute takes some 10 MB.
    pub fn small(seconds: u32) -> Self {
        let rungs = [(180, 400), (270, 1000), (360, 2000)];
        let rungs = rungs.map(|(height, kbps)| Rung { height, kbps }).to_vec();
        Self { seconds, ladder: Ladder::new(rungs).expect("these are three rungs in order") }
    }

    /// The ingest options for the film.
    pub(super) fn options(&self) -> Options {
        Options {
            ladder: self.ladder.clone(),
            speed: Speed::Fast,
            segment_seconds: SEGMENT_SECONDS,
            ..Options::default()
        }
    }

    /// Captions in SubRip form that count the seconds.
    pub(super) fn captions(&self) -> String {
        let clock = |second: u32| {
            format!("{:02}:{:02}:{:02},000", second / 3600, second / 60 % 60, second % 60)
        };
        (0..self.seconds).fold(String::new(), |mut text, second| {
            let (from, to) = (clock(second), clock(second + 1));
            // Writing to a String cannot fail.
            let _ = write!(text, "{}\n{from} --> {to}\nsecond {second}\n\n", second + 1);
            text
        })
    }

    /// The arguments, up to the output, that make ffmpeg draw the film, with the captions on standard input. The film is compressed quickly
    /// and only a little, because ingest compresses it again with care.
    pub(super) fn ffmpeg_arguments(&self) -> Vec<OsString> {
        let seconds = self.seconds;
        let (width, height) = self.size();
        let picture =
            format!("testsrc2=size={width}x{height}:rate={FRAMES_PER_SECOND}:duration={seconds}");
        let sound = format!("aevalsrc=exprs='{SOUND}':sample_rate=48000:duration={seconds}");
        let mut arguments = words("-f lavfi -i");
        arguments.push(picture.into());
        arguments.extend(words("-f lavfi -i"));
        arguments.push(sound.into());
        arguments.extend(formats::subtitles());
        arguments.extend(words("-filter_complex"));
        arguments.push(self.filter().into());
        arguments.extend(words(
            "-map [film] -map 1:a -map 2:s -c:v libx264 -preset ultrafast -qp 10 -c:a pcm_s16le -ac 2 -c:s srt \
             -metadata:s:a language=en -metadata:s:s language=en",
        ));
        arguments
    }

    /// The filter that shows the corner's timecode enlarged, in the lower middle.
    fn filter(&self) -> String {
        let (width, height) = TIMECODE;
        let scale = (self.size().0 / (2 * width)).max(1);
        let (large_width, large_height) = (width * scale, height * scale);
        format!(
            "[0:v]split[picture][corner];\
             [corner]crop={width}:{height}:0:0,scale={large_width}:{large_height}:flags=neighbor[timecode];\
             [picture][timecode]overlay=(W-w)/2:(H-h)/2,format=yuv420p[film]"
        )
    }

    /// The size of the picture: 16 to 9, both sides even.
    fn size(&self) -> (u32, u32) {
        let height = self.ladder.largest().height / 2 * 2;
        (height * 16 / 9 / 2 * 2, height)
    }
}
