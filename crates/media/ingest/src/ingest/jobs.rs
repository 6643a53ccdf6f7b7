//! The jobs of encoding, one file each: the arguments of ffmpeg for every rendition of a source.
//!
//! Every rendition begins at the film's zero and has its key frames at the same times as all others. To ensure this, the frame rate is
//! constant and the same in all of them, and every group of pictures is closed and has the same number of frames. Sound is cut at the same
//! intervals, but only approximately, because audio frames do not fit exactly. That does no harm: players can start at any audio frame.

use std::ffi::OsString;

use super::options::{HdrCodec, Options, Speed, VideoCodec};
use super::{burn_in, clock, hdr, segment_count, sound_jobs};
use crate::colour::TARGET_TAGS;
use crate::frame_rate::FrameRate;
use crate::hdr_metadata::HdrMetadata;
use crate::ladder::Rung;
use crate::layout::Layout;
use crate::mp4::VideoRange;
use crate::source::{Burnt, Label, Source, Video};

/// One file to make.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Its name in the title.
    pub(super) file: String,
    /// Its display name.
    pub(super) making: String,
    pub(super) kind: Kind,
    /// The arguments of ffmpeg, without the output.
    pub(super) arguments: Vec<OsString>,
    /// The dynamic range of an encoded picture.
    pub(super) range: Option<VideoRange>,
    /// The static metadata of high dynamic range that its file gets. `None`: as ffmpeg writes it.
    pub(super) metadata: Option<HdrMetadata>,
    /// The playing time stated by the source's stream.
    pub(super) says_seconds: Option<f64>,
    /// The cost of a second of it, compared with other jobs.
    pub(super) weight: f64,
    /// Its approximate peak rate, in bits per second of film. `None` if it is copied.
    pub(super) bits_per_second: Option<u64>,
    /// For a copy: the encoded version to use if one of the copy's segments is too long.
    pub(super) instead: Option<Box<Job>>,
}

impl Job {
    /// Puts `input` in front of the arguments.
    fn read(&mut self, input: &[OsString]) {
        self.arguments.splice(0..0, input.iter().cloned());
        if let Some(instead) = &mut self.instead {
            instead.read(input);
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Video {
        width: u32,
        height: u32,
        frame_rate: FrameRate,
    },
    Audio {
        label: Label,
        layout: Layout,
        /// Which of the source's sounds it is.
        index: usize,
        /// Whether it is a version next to the basic one (`sound_jobs.rs`).
        is_other: bool,
        /// Whether it is encoded because a copy has long gaps.
        fills_gaps: bool,
    },
}

/// The abilities of this machine's ffmpeg, queried only if they matter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tools {
    /// The zscale filter, which is needed to map HDR to the range of ordinary screens.
    pub(super) has_zscale: bool,
    /// The SVT encoder for AV1; otherwise libaom's is used.
    pub(super) has_svt_av1: bool,
    /// The encoder for E-AC-3, which is needed for surround.
    pub(super) has_eac3: bool,
}

/// The jobs for a source: sound first, because it shows soonest whether the file is complete, then pictures, smallest first, those of high dynamic
/// range after the others. The basic versions of all sounds come before their other versions.
pub(super) fn jobs(source: &Source, options: &Options, tools: Tools) -> Vec<Job> {
    let audio = source.audio.iter().enumerate().map(|(index, audio)| {
        let (mut basic, mut others) = sound_jobs::jobs(index, audio, source.clock, options, tools);
        for job in [&mut basic].into_iter().chain(&mut others) {
            job.read(&input(source, &format!("0:{}", audio.index)));
        }
        (basic, others)
    });
    let (audio, others): (Vec<_>, Vec<_>) = audio.unzip();
    let video = source.video.iter().flat_map(|video| {
        let burnt = source.burnt.as_ref();
        let hdr_codec = hdr::wanted(source, options);
        let mut jobs = video_jobs(video, (burnt, hdr_codec), options, tools);
        for job in &mut jobs {
            let map = burnt.map_or_else(|| format!("0:{}", video.index), |_| "[out]".into());
            let before = burnt.map(burn_in::decoding).unwrap_or_default();
            job.read(&[before, input(source, &map)].concat());
        }
        jobs
    });
    audio.into_iter().chain(others.into_iter().flatten()).chain(video).collect()
}

/// The arguments for reading the source and taking the stream or the filters' output `map` of it.
fn input(source: &Source, map: &str) -> Vec<OsString> {
    let mut arguments = source.input();
    arguments.extend(clock::followed(source));
    arguments.extend(words(&format!("-map {map} -map_metadata -1 -map_chapters -1")));
    arguments
}

fn video_jobs(
    video: &Video,
    (burnt, hdr_codec): (Option<&Burnt>, Option<HdrCodec>),
    options: &Options,
    tools: Tools,
) -> Vec<Job> {
    if options.copy {
        return vec![copied_video(video, options)];
    }
    let rungs = options.ladder.rungs_for(video.width.min(video.height));
    let standard = rungs.iter().map(|rung| encoded_video(video, burnt, rung, options, tools));
    let high = hdr_codec.into_iter().flat_map(|codec| {
        rungs.iter().map(move |rung| hdr::job(video, rung, codec, options, tools))
    });
    standard.chain(high).collect()
}

fn copied_video(video: &Video, options: &Options) -> Job {
    let mut arguments = words("-c copy");
    if video.codec == "hevc" {
        arguments.extend(words("-tag:v hvc1"));
    }
    arguments.extend(video.colours.completing(&video.codec).iter().flat_map(|text| words(text)));
    // Fragments begin at the source's key frames, and are at least this long.
    let microseconds = (options.segment_seconds * 1e6) as u64;
    arguments.extend(words(&format!("-min_frag_duration {microseconds}")));
    arguments.extend(output(&format!("+frag_keyframe{}", copied_start(video.copy_begins_seconds))));
    let (width, height, frame_rate) = (video.width, video.height, video.frame_rate);
    Job {
        file: format!("video-{}.mp4", width.min(height)),
        making: "the video, copied".into(),
        kind: Kind::Video { width, height, frame_rate },
        arguments,
        range: None,
        metadata: None,
        says_seconds: video.seconds,
        weight: 1.0,
        bits_per_second: None,
        instead: None,
    }
}

fn encoded_video(
    video: &Video,
    burnt: Option<&Burnt>,
    rung: &Rung,
    options: &Options,
    tools: Tools,
) -> Job {
    let (width, height) = size(video, rung.height);
    let kbps = kbps(rung.kbps, video.frame_rate, options.video_codec);
    let scale = video.colours.scale_to_bt709(&format!("{width}:{height}"), tools.has_zscale);
    let film = filters(video, &scale);
    let mut arguments = match burnt {
        None => vec!["-vf".into(), film.into()],
        Some(burnt) => {
            let graph = burn_in::graph(video, &film, burnt, (width, height));
            vec!["-filter_complex".into(), graph.into()]
        }
    };
    let codec = options.video_codec;
    arguments.extend(encoder(codec, (kbps, ""), video.frame_rate, options, tools));
    arguments.extend(words(TARGET_TAGS));
    arguments.extend(output("+frag_keyframe"));
    Job {
        file: format!("video-{}.mp4", rung.height),
        making: format!("video {}", rung.height),
        kind: Kind::Video { width, height, frame_rate: video.frame_rate },
        arguments,
        range: Some(VideoRange::Sdr),
        metadata: Some(HdrMetadata::default()),
        says_seconds: video.seconds,
        weight: weight(video, width, height),
        bits_per_second: Some(u64::from(kbps) * 1000),
        instead: None,
    }
}

/// Decoding a pixel costs a fraction of encoding one.
pub(super) fn weight(video: &Video, width: u32, height: u32) -> f64 {
    let stored_pixels = f64::from(video.stored.0) * f64::from(video.stored.1);
    f64::from(width) * f64::from(height) + stored_pixels * 0.2
}

/// The filter that scales the picture to a shorter side of `side` pixels. Both sides are even, as 4:2:0 requires, and never enlarged.
pub(super) fn size(video: &Video, side: u32) -> (u32, u32) {
    let even = |pixels: f64| ((pixels / 2.0).round() as u32 * 2).max(2);
    let (short, long) = (video.width.min(video.height), video.width.max(video.height));
    let short_side = (side.min(short) / 2 * 2).max(2);
    let long_side =
        even(f64::from(long) * f64::from(short_side) / f64::from(short)).min((long / 2 * 2).max(2));
    if video.width < video.height { (short_side, long_side) } else { (long_side, short_side) }
}

/// A higher frame rate needs more bits, though not in proportion; newer codecs need less.
pub(super) fn kbps(kbps: u32, frame_rate: FrameRate, codec: VideoCodec) -> u32 {
    let frames = if frame_rate.per_second() > 31.0 { 1.5 } else { 1.0 };
    let codec = match codec {
        VideoCodec::H264 => 1.0,
        VideoCodec::Hevc => 0.65,
        VideoCodec::Av1 => 0.5,
    };
    (f64::from(kbps) * frames * codec).round().max(10.0) as u32
}

/// The filters of an encoded picture; `scale` has those that scale it and convert its colours.
pub(super) fn filters(video: &Video, scale: &str) -> String {
    let mut filters = vec![video.colours.labels()];
    if video.is_interlaced {
        filters.push("bwdif=mode=send_frame".to_owned());
    }
    filters.push(format!("fps={}:start_time=0", video.frame_rate));
    filters.push(scale.to_owned());
    filters.push("setsar=1".to_owned());
    filters.join(",")
}

/// Quality is constant (`-crf`) and the rate is bounded: a film with little motion takes less than its rung allows. `metadata` has further
/// parameters for x265 or SVT-AV1.
pub(super) fn encoder(
    codec: VideoCodec,
    (kbps, metadata): (u32, &str),
    frame_rate: FrameRate,
    options: &Options,
    tools: Tools,
) -> Vec<OsString> {
    let frames = segment_count::frames(options.segment_seconds, frame_rate);
    let buffer = kbps * 2;
    let words_of = |text: String| words(&text);
    match codec {
        VideoCodec::H264 => words_of(format!(
            "-c:v libx264 -preset {} -profile:v high -crf 21 -maxrate {kbps}k -bufsize {buffer}k \
             -g {frames} -keyint_min {frames} -sc_threshold 0 -flags +cgop",
            x26_preset(options.speed)
        )),
        VideoCodec::Hevc => words_of(format!(
            "-c:v libx265 -preset {} -crf 24 -tag:v hvc1 -x265-params \
             log-level=error:keyint={frames}:min-keyint={frames}:scenecut=0:open-gop=0:vbv-maxrate={kbps}:vbv-bufsize={buffer}{metadata}",
            x26_preset(options.speed)
        )),
        VideoCodec::Av1 if tools.has_svt_av1 => words_of(format!(
            "-c:v libsvtav1 -preset {} -crf 32 -g {frames} -svtav1-params \
             scd=0:irefresh-type=2:mbr={kbps}{metadata}",
            [12, 10, 8, 5][options.speed as usize]
        )),
        VideoCodec::Av1 => words_of(format!(
            "-c:v libaom-av1 -cpu-used {} -row-mt 1 -crf 30 -b:v {kbps}k -g {frames} \
             -keyint_min {frames}",
            [8, 7, 6, 4][options.speed as usize]
        )),
    }
}

fn x26_preset(speed: Speed) -> &'static str {
    match speed {
        Speed::Fastest => "ultrafast",
        Speed::Fast => "veryfast",
        Speed::Balanced => "medium",
        Speed::Best => "slow",
    }
}

/// A start that is at most this far from zero counts as zero: edit lists have milliseconds.
pub(super) const AT_ZERO_SECONDS: f64 = 0.001;

/// The flag for a copied stream that begins late. Without it, ffmpeg lets decoding times begin at zero, and puts an empty edit in front, which
/// Chromium and Safari ignore: the stream would come early. With it, decoding times begin late. They cannot be negative, so a stream that
/// begins before zero (an encoder's priming) keeps its edit list.
pub(super) fn copied_start(begins_seconds: Option<f64>) -> &'static str {
    match begins_seconds {
        Some(seconds) if seconds > AT_ZERO_SECONDS => "+frag_discont",
        _ => "",
    }
}

/// The output: one track, a fragment per segment, and an index of them at the front. The edit list defines the start of the film in
/// decoding time, so that reordered frames and an encoder's priming samples shift nothing.
pub(super) fn output(flags: &str) -> Vec<OsString> {
    words(&format!(
        "-f mp4 -use_editlist 1 -movflags {flags}+cmaf+delay_moov+global_sidx+skip_trailer"
    ))
}

/// Splits a phrase whose words contain no spaces.
pub(crate) fn words(phrase: &str) -> Vec<OsString> {
    phrase.split_whitespace().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_even_keep_the_shape_and_never_grow() {
        assert_eq!(size(&Video::example(1920, 1080), 720), (1280, 720));
        assert_eq!(size(&Video::example(1080, 1920), 360), (360, 640));
        assert_eq!(size(&Video::example(853, 481), 481), (852, 480));
        assert_eq!(size(&Video::example(853, 481), 360), (638, 360));
        assert_eq!(size(&Video::example(3, 5), 3), (2, 4));
        for (width, height) in [(641, 359), (1, 1), (99, 4001), (1921, 1081)] {
            let side = width.min(height);
            let (w, h) = size(&Video::example(width, height), side);
            assert!(w % 2 == 0 && h % 2 == 0, "{w}x{h}");
            assert!(w <= width.max(2) && h <= height.max(2), "{width}x{height} as {w}x{h}");
        }
    }

    #[test]
    fn faster_films_get_more_and_newer_codecs_less() {
        let rate = |frames| FrameRate { frames, seconds: 1 };
        assert_eq!(kbps(1000, rate(30), VideoCodec::H264), 1000);
        assert_eq!(kbps(1000, rate(60), VideoCodec::H264), 1500);
        assert_eq!(kbps(1000, rate(25), VideoCodec::Hevc), 650);
        assert_eq!(kbps(1000, rate(25), VideoCodec::Av1), 500);
    }
}
