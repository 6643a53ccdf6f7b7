//! The ladder of high dynamic range (`--hdr`): the sizes of a PQ or HLG source again, in the form that players of HDR expect. That is 10 bits
//! in the colours of ITU-R BT.2100, with the source's curve and static metadata (HDR10, or HLG), next to the sizes in standard range, which
//! everything plays.
//!
//! It has every size of the ladder, as Apple's authoring specification for HLS recommends (section 1, "at all resolutions"), so that
//! a player on a slow link can stay in its range. Apple's tables of rates give a size in HDR 1.2 times the rate of the same size in standard
//! range, in the same codec; so does this ladder.

use super::jobs::{self, Job, Kind, Tools, words};
use super::options::{HdrCodec, Options, VideoCodec};
use super::{Ingest, IngestError};
use crate::hdr_metadata::HdrMetadata;
use crate::ladder::Rung;
use crate::source::{Source, Video};

/// More than in standard range and the same codec: 7,000 kb/s after 5,800 for 1080 lines in Apple's tables, 13,900 after 11,600 for 2160.
const RATE_PART: f64 = 1.2;
/// The work of encoding a picture, compared with the same size in standard range: x265 took 1.2 times as much processor time and SVT-AV1 1.7 times,
/// for 12 s in 640x360 and 426x240 on a Xeon, with H.264 next to them.
const WORK_PART: f64 = 1.5;

impl HdrCodec {
    pub(super) fn codec(self) -> VideoCodec {
        match self {
            Self::Hevc => VideoCodec::Hevc,
            Self::Av1 => VideoCodec::Av1,
        }
    }
}

/// The codec of the ladder that `options` ask for, if `source` can have one. Subtitles are burnt in only in standard range.
pub(super) fn wanted(source: &Source, options: &Options) -> Option<HdrCodec> {
    let is_hdr = source.video.as_ref().is_some_and(|video| video.colours.is_hdr());
    options.hdr.filter(|_| is_hdr && !options.copy && source.burnt.is_none())
}

/// Refuses a source whose colours this ffmpeg can't convert.
pub(super) fn check(source: &Source, options: &Options, tools: Tools) -> Result<(), IngestError> {
    let needs_zscale = source.video.as_ref().is_some_and(|video| !video.colours.is_bt2100());
    match wanted(source, options) {
        Some(_) if needs_zscale && !tools.has_zscale => Err(IngestError::HdrNeedsZscale),
        _ => Ok(()),
    }
}

/// The job for one size.
pub(super) fn job(
    video: &Video,
    rung: &Rung,
    codec: HdrCodec,
    options: &Options,
    tools: Tools,
) -> Job {
    let codec = codec.codec();
    let (width, height) = jobs::size(video, rung.height);
    let kbps = f64::from(jobs::kbps(rung.kbps, video.frame_rate, codec)) * RATE_PART;
    let kbps = kbps.round() as u32;
    let mut arguments = words("-vf");
    let scale = video.colours.scale_to_bt2100(width, height);
    arguments.push(jobs::filters(video, &scale).into());
    let metadata = parameters(&video.hdr, codec);
    arguments.extend(jobs::encoder(codec, (kbps, &metadata), video.frame_rate, options, tools));
    arguments.extend(words(&video.colours.bt2100_tags()));
    arguments.extend(jobs::output("+frag_keyframe"));
    Job {
        file: format!("video-hdr-{}.mp4", rung.height),
        making: format!("HDR video {}", rung.height),
        kind: Kind::Video { width, height, frame_rate: video.frame_rate },
        arguments,
        range: Some(video.colours.range()),
        metadata: Some(video.hdr),
        says_seconds: video.seconds,
        weight: jobs::weight(video, width, height) * WORK_PART,
        bits_per_second: Some(u64::from(kbps) * 1000),
        instead: None,
    }
}

/// The static metadata for an encoder that takes it. `mp4/static_metadata.rs` writes it into the file in any case.
fn parameters(metadata: &HdrMetadata, codec: VideoCodec) -> String {
    match codec {
        VideoCodec::H264 => String::new(),
        VideoCodec::Hevc => metadata.for_x265(),
        VideoCodec::Av1 => metadata.for_svt_av1(),
    }
}

impl Ingest<'_> {
    /// The note about `--hdr`, if it made no difference.
    pub(super) fn hdr_note(&self) -> Option<String> {
        let video = self.source.video.as_ref()?;
        (self.options.hdr.is_some() && !video.colours.is_hdr()).then(|| {
            "its picture has no high dynamic range (PQ or HLG), so --hdr made no difference".into()
        })
    }
}
