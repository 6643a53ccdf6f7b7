//! The accepted formats. ffmpeg reads some 350, among them lists that refer to other files or hosts, scripts and screen captures. ffmpeg
//! itself refuses formats that are not listed here, after it has read the beginning of a file and before it opens anything else.
//!
//! A format may be listed if a single file contains all of it. docs/library.md lists the formats for users.

use std::ffi::OsString;

use crate::confined::FILM;

/// Films and sound, by ffmpeg's names.
const FILMS: &str = "mov,matroska,webm,mpegts,mpeg,avi,flv,asf,ogg,mxf,gxf,wtv,rm,nut,ivf,dv,\
    h264,hevc,obu,m4v,mpegvideo,vc1,gif,apng,yuv4mpegpipe,\
    wav,w64,aiff,au,caf,flac,mp3,aac,ac3,eac3,dts,truehd,amr,ape,tta,wv";
/// Subtitles in files of their own: SubRip, WebVTT, SubStation Alpha.
const SUBTITLES: &str = "srt,webvtt,ass";
/// Pictures for posters; AVIF and HEIC are read by `mov`. SVG is not among them: it may refer to other files.
const PICTURES: &str = "mov,png_pipe,jpeg_pipe,jpegls_pipe,jpegxl_pipe,jpegxl_anim,j2k_pipe,webp_pipe,gif,apng,bmp_pipe,tiff_pipe,\
    exr_pipe,hdr_pipe,dpx_pipe,dds_pipe,psd_pipe,qoi_pipe,sgi_pipe,sunrast_pipe,pcx_pipe,pam_pipe,pbm_pipe,pgm_pipe,pgmyuv_pipe,\
    ppm_pipe,pfm_pipe,phm_pipe,xbm_pipe,xpm_pipe,xwd_pipe,gem_pipe,pictor_pipe,photocd_pipe,cri_pipe,vbn_pipe";
/// The format that ingest itself makes.
const MADE: &str = "mov";

/// Formats that are lists of other files; the refusal says so.
const LISTS: [&str; 6] = ["hls", "dash", "concat", "imf", "sdp", "webm_dash_manifest"];

/// Containers whose clock may jump (AVFMT_TS_DISCONT in libavformat).
pub(crate) const JUMPING_FORMATS: [&str; 3] = ["mpegts", "mpeg", "ogg"];
/// Containers that do not list all of their streams at the front, so that more may begin at any time.
pub(crate) const UNLISTED_FORMATS: [&str; 3] = ["mpegts", "mpeg", "flv"];

/// Containers that state their playing time, by ffprobe's names. For others ffprobe estimates it from the rate of the first frames.
pub(crate) const MEASURED_FORMATS: [&str; 7] =
    ["mov", "matroska", "avi", "flv", "asf", "wav", "flac"];

/// How far ffmpeg reads ahead to find the streams of a film: 5 MB and 5 s (its defaults), or much further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReadAhead {
    #[default]
    Short,
    Far,
}

/// For [`ReadAhead::Far`]. ffmpeg keeps what it reads ahead in memory. This is a minute and a half of a Blu-ray disc, and hours of most
/// recordings; it takes 0.3 s from a fast disk.
pub(crate) const FAR_BYTES: u64 = 200 << 20;
const FAR_SECONDS: u64 = 3600;

/// ffmpeg's arguments for a film on standard input.
pub(crate) fn film(ahead: ReadAhead) -> Vec<OsString> {
    let mut arguments = Vec::new();
    if ahead == ReadAhead::Far {
        let microseconds = FAR_SECONDS * 1_000_000;
        let far = format!("-probesize {FAR_BYTES} -analyzeduration {microseconds}");
        arguments.extend(far.split(' ').map(OsString::from));
    }
    arguments.extend(input(FILMS));
    arguments
}

/// ffmpeg's arguments for a file of subtitles on standard input.
pub(crate) fn subtitles() -> Vec<OsString> {
    input(SUBTITLES)
}

/// ffmpeg's arguments for a picture on standard input.
pub(crate) fn picture() -> Vec<OsString> {
    input(PICTURES)
}

/// ffmpeg's arguments for a rendition on standard input.
pub(crate) fn rendition() -> Vec<OsString> {
    input(MADE)
}

fn input(formats: &str) -> Vec<OsString> {
    let words = ["-protocol_whitelist", "file", "-format_whitelist", formats, "-i", FILM];
    words.map(OsString::from).into()
}

/// Why a file was refused for its format, if ffmpeg's output says so.
pub(crate) fn refusal(said: &str) -> Option<String> {
    let line = said.lines().find(|line| line.contains("Format not on whitelist"))?;
    let speaker = line.trim().strip_prefix('[').and_then(|line| line.split_once(" @ "));
    let format = speaker.map_or("unknown", |(format, _)| format);
    if format.split(',').any(|name| LISTS.contains(&name)) {
        return Some(format!("it only refers to other files ({format})"));
    }
    Some(format!(
        "ingest does not support its format ({format}; docs/library.md lists the supported ones)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_format_is_named() {
        let said =
            "[hls @ 0x55] Format not on whitelist 'mov'\nfile:/proc/self/fd/0: Invalid argument";
        assert_eq!(refusal(said).unwrap(), "it only refers to other files (hls)");
        let said = "[png_pipe @ 0x55] Format not on whitelist 'mov'";
        assert!(
            refusal(said).unwrap().starts_with("ingest does not support its format (png_pipe;")
        );
        assert_eq!(refusal("[mov @ 0x5] moov atom not found"), None);
    }

    #[test]
    fn no_format_is_taken_that_names_other_files() {
        for list in LISTS.iter().chain(&[
            "image2",
            "lavfi",
            "rtsp",
            "avs",
            "vapoursynth",
            "vobsub",
            "svg_pipe",
        ]) {
            for taken in [FILMS, SUBTITLES, PICTURES, MADE] {
                assert!(!taken.split(',').any(|name| name == *list), "{list}");
            }
        }
    }
}
