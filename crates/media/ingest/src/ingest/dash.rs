//! The DASH manifest (ISO/IEC 23009-1) of the on-demand profile: each track is one file, divided by its index.

use std::fmt::Write;

use super::made::{Made, Picture, Sound, Subtitles};
use crate::mp4::Track;

/// Schemes of roles (section 5.8.5.5), and of channels in the arrangements of ISO/IEC 23091-3.
const ROLE: &str = "urn:mpeg:dash:role:2011";
const CHANNELS: &str = "urn:mpeg:dash:23003:3:audio_channel_configuration:2011";
const PROFILE: &str = "urn:mpeg:dash:profile:isoff-on-demand:2011";

/// The manifest, with paths relative to the parent of `folder`.
pub(super) fn manifest(made: &Made, folder: &str) -> String {
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" profiles=\"{PROFILE}\" type=\"static\" \
         mediaPresentationDuration=\"{}\" minBufferTime=\"{}\">\n\
         <Period id=\"0\">\n",
        duration(made.seconds()),
        duration(made.longest_seconds())
    );
    if !made.video.is_empty() {
        text.push_str(&pictures(&made.video, folder));
    }
    for (index, one) in made.audio.iter().enumerate() {
        text.push_str(&sound(one, index + 1, folder));
    }
    for (index, one) in made.subtitles.iter().enumerate() {
        text.push_str(&subtitles(one, 1 + made.audio.len() + index, folder));
    }
    text.push_str("</Period>\n</MPD>\n");
    text
}

// Writing to a String cannot fail, so this file ignores the result of `write!`.

fn pictures(all: &[Picture], folder: &str) -> String {
    // Types of access points (ISO/IEC 14496-12 annex I): with type 3, some frames that are shown earlier are missing.
    let access = if all.iter().all(|one| one.track.is_independent) { 1 } else { 3 };
    let mut text = format!(
        "<AdaptationSet id=\"0\" contentType=\"video\" mimeType=\"video/mp4\" \
         subsegmentAlignment=\"true\" subsegmentStartsWithSAP=\"{access}\">\n",
    );
    for (index, one) in all.iter().enumerate() {
        let attributes = format!(
            " width=\"{}\" height=\"{}\" frameRate=\"{}\" sar=\"1:1\"",
            one.width, one.height, one.frame_rate
        );
        text.push_str(&representation(
            &format!("video-{index}"),
            &format!("{folder}/{}", one.file),
            &one.track,
            &attributes,
            "",
        ));
    }
    text.push_str("</AdaptationSet>\n");
    text
}

fn sound(one: &Sound, id: usize, folder: &str) -> String {
    let role = if one.is_default { "main" } else { "alternate" };
    let mut text = format!(
        "<AdaptationSet id=\"{id}\" contentType=\"audio\" mimeType=\"audio/mp4\"{} \
         subsegmentAlignment=\"true\" subsegmentStartsWithSAP=\"1\">\n{}",
        language(one.language.as_deref()),
        described(role, &one.name)
    );
    let channels = format!(
        "<AudioChannelConfiguration schemeIdUri=\"{CHANNELS}\" value=\"{}\"/>\n",
        channel_configuration(one.channels)
    );
    let file = format!("{folder}/{}", one.file);
    text.push_str(&representation(&format!("audio-{id}"), &file, &one.track, "", &channels));
    text.push_str("</AdaptationSet>\n");
    text
}

/// The number of the channel configuration: up to six channels it is their count; eight, front and surround, are configuration 12.
fn channel_configuration(channels: u32) -> u32 {
    match channels {
        7 => 11,
        8 => 12,
        channels => channels,
    }
}

fn subtitles(one: &Subtitles, id: usize, folder: &str) -> String {
    let role = if one.is_forced { "forced-subtitle" } else { "subtitle" };
    format!(
        "<AdaptationSet id=\"{id}\" contentType=\"text\" mimeType=\"text/vtt\"{}>\n{}\
         <Representation id=\"text-{id}\" bandwidth=\"256\">\n<BaseURL>{folder}/{}</BaseURL>\n\
         </Representation>\n</AdaptationSet>\n",
        language(one.language.as_deref()),
        described(role, &one.name),
        one.file
    )
}

fn language(language: Option<&str>) -> String {
    language.map_or_else(String::new, |language| format!(" lang=\"{language}\""))
}

/// In the order of the standard's schema.
fn described(role: &str, name: &str) -> String {
    // XML cannot contain control characters at all (XML 1.0 section 2.2).
    let label = escape::xml::escape_text(&name.replace(char::is_control, ""));
    format!("<Label>{label}</Label>\n<Role schemeIdUri=\"{ROLE}\" value=\"{role}\"/>\n")
}

fn representation(
    id: &str,
    file: &str,
    track: &Track,
    attributes: &str,
    description: &str,
) -> String {
    let Track { codec, timescale, head_bytes, index, .. } = track;
    let mut text = format!(
        "<Representation id=\"{id}\" codecs=\"{codec}\" bandwidth=\"{}\"{attributes}>\n{description}\
         <BaseURL>{file}</BaseURL>\n",
        track.bits_per_second_max()
    );
    // Ranges name their last byte.
    let _ = writeln!(
        text,
        "<SegmentBase timescale=\"{timescale}\" indexRange=\"{}-{}\" indexRangeExact=\"true\">\n\
         <Initialization range=\"0-{}\"/>\n</SegmentBase>\n</Representation>",
        index.start,
        index.end - 1,
        head_bytes - 1
    );
    text
}

/// xs:duration, to the millisecond.
fn duration(seconds: f64) -> String {
    format!("PT{seconds:.3}S")
}
