//! What the sample film is, as arguments of ffmpeg.
//!
//! Key frames come every [`SEGMENT_SECONDS`] in every rung, so that a player can change rung at each segment. The timecode is the
//! one that ffmpeg's test picture carries in its corner, cut out and shown large: that needs no font on the machine.

use std::fmt::Write;

/// Length of a segment and distance of key frames. Two seconds is common in live and short enough to see a player switch.
const SEGMENT_SECONDS: u32 = 2;
const FRAMES_PER_SECOND: u32 = 30;
/// Where the test picture has its timecode, in pixels: width and height from the corner, for ffmpeg's fixed 8-pixel font, doubled.
const TIMECODE: (u32, u32) = (104, 20);
/// A low hum, and a beep for the first tenth of each second.
const SOUND: &str = "0.1*sin(2*PI*220*t)+0.4*sin(2*PI*880*t)*lt(mod(t,1),0.1)";

/// One size of the film.
#[derive(Clone, Copy, Debug)]
pub struct Rung {
    /// Width in pixels, even.
    pub width: u32,
    /// Height in pixels, even.
    pub height: u32,
    /// Mean rate of the video, in kilobits per second.
    pub kbps: u32,
}

/// What film to make.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// How long it is.
    pub seconds: u32,
    /// Its sizes, smallest first, at least one. The picture is drawn at the last one's size.
    pub rungs: Vec<Rung>,
}

impl Default for Recipe {
    /// A minute in three rungs, some 45 MB.
    fn default() -> Self {
        let rungs = vec![
            Rung { width: 640, height: 360, kbps: 800 },
            Rung { width: 960, height: 540, kbps: 1800 },
            Rung { width: 1280, height: 720, kbps: 3500 },
        ];
        Self { seconds: 60, rungs }
    }
}

impl Recipe {
    /// The arguments that make ffmpeg write the title into its working directory.
    pub(super) fn ffmpeg_arguments(&self) -> Vec<String> {
        let mut arguments = self.inputs();
        for index in 0..self.rungs.len() {
            arguments.extend(["-map".to_owned(), format!("[rung{index}]")]);
        }
        arguments.extend(words("-map 1:a"));
        arguments.extend(self.video());
        arguments.extend(words("-c:a aac -b:a 128k -ac 2"));
        arguments.extend(output());
        arguments
    }

    fn inputs(&self) -> Vec<String> {
        let seconds = self.seconds;
        let Rung { width, height, .. } = self.largest();
        let picture =
            format!("testsrc2=size={width}x{height}:rate={FRAMES_PER_SECOND}:duration={seconds}");
        let sound = format!("aevalsrc=exprs='{SOUND}':sample_rate=48000:duration={seconds}");
        let mut arguments = words("-f lavfi -i");
        arguments.push(picture);
        arguments.extend(words("-f lavfi -i"));
        arguments.push(sound);
        arguments.push("-filter_complex".to_owned());
        arguments.push(self.filters());
        arguments
    }

    fn filters(&self) -> String {
        let (width, height) = TIMECODE;
        let scale = (self.largest().width / (2 * width)).max(1);
        let (large_width, large_height) = (width * scale, height * scale);
        let mut filters = format!(
            "[0:v]split[picture][corner];\
             [corner]crop={width}:{height}:0:0,scale={large_width}:{large_height}:flags=neighbor[timecode];\
             [picture][timecode]overlay=(W-w)/2:H-h-H/12,format=yuv420p,split={}",
            self.rungs.len()
        );
        for index in 0..self.rungs.len() {
            let _ = write!(filters, "[copy{index}]"); // writing to a String cannot fail
        }
        for (index, Rung { width, height, .. }) in self.rungs.iter().enumerate() {
            let _ = write!(filters, ";[copy{index}]scale={width}:{height}[rung{index}]");
        }
        filters
    }

    fn video(&self) -> Vec<String> {
        let key_frames = SEGMENT_SECONDS * FRAMES_PER_SECOND;
        let mut arguments = words("-c:v libx264 -preset veryfast -profile:v main -sc_threshold 0");
        arguments.extend(words(&format!("-g {key_frames} -keyint_min {key_frames}")));
        for (index, Rung { kbps, .. }) in self.rungs.iter().enumerate() {
            let (most, buffer) = (kbps * 5 / 4, kbps * 5 / 2);
            arguments.extend(words(&format!(
                "-b:v:{index} {kbps}k -maxrate:v:{index} {most}k -bufsize:v:{index} {buffer}k"
            )));
        }
        arguments
    }

    fn largest(&self) -> Rung {
        *self.rungs.last().expect("a recipe has at least one rung")
    }
}

/// One file per rendition, a segment index at its front, both manifests over them.
fn output() -> Vec<String> {
    let mut arguments = words(
        "-f dash -single_file 1 -single_file_name $RepresentationID$.mp4 -global_sidx 1 -hls_playlist 1",
    );
    arguments.extend(words(&format!("-seg_duration {SEGMENT_SECONDS}")));
    arguments.extend(["-adaptation_sets".to_owned(), "id=0,streams=v id=1,streams=a".to_owned()]);
    arguments.push("manifest.mpd".to_owned());
    arguments
}

/// Splits a phrase without spaces inside its words.
fn words(phrase: &str) -> Vec<String> {
    phrase.split_whitespace().map(str::to_owned).collect()
}
