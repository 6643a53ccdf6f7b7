//! The DASH manifest (ISO/IEC 23009-1) of the on-demand profile: each track is one file, divided by its index.

use std::fmt::Write;

use super::made::{Made, Picture, Sound, Subtitles, Tiles};
use crate::captions::Captions;
use crate::mp4::{Cicp, Track};
use crate::role::Role;

/// The scheme of roles (section 5.8.5.5).
const ROLE: &str = "urn:mpeg:dash:role:2011";
/// The scheme of purposes for people with impairments (ETSI TS 103 285 section 7.1.2, DASH-IF IOP 4.3): 1 is for the visually impaired, 2 for
/// the hard of hearing.
const AUDIO_PURPOSE: &str = "urn:tva:metadata:cs:AudioPurposeCS:2007";
/// The scheme of channel arrangements (ISO/IEC 23091-3), which DASH-IF recommends for AAC (IOP part 8). Opus has no scheme of its own.
const CHANNELS: &str = "urn:mpeg:mpegB:cicp:ChannelConfiguration";
/// Begins the schemes of colours (ISO/IEC 23091-2), as DASH-IF's interoperability points use them.
const CICP: &str = "urn:mpeg:mpegB:cicp:";
/// Marks pictures that consist of thumbnails (DASH-IF IOP 4.3 section 6.2.6); the value says how many.
const TILES: &str = "http://dashif.org/guidelines/thumbnail_tile";
const PROFILE: &str = "urn:mpeg:dash:profile:isoff-on-demand:2011";

/// The default is 1. Players choose between the ladders by this, if they can show both.
const MAIN_PRIORITY: &str = " selectionPriority=\"2\"";

/// The manifest, with paths relative to the parent of `folder`.
pub(super) fn manifest(made: &Made, folder: &str) -> String {
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" profiles=\"{PROFILE}\" type=\"static\" \
         mediaPresentationDuration=\"{}\" minBufferTime=\"{}\">\n\
         <Period id=\"0\">\n",
        duration(made.seconds()),
        duration(buffer_seconds(made))
    );
    let ladders: Vec<_> = made.ladders().collect();
    for (index, ladder) in ladders.iter().enumerate() {
        let others_count = made.audio.len() + made.subtitles.len();
        let id = if index == 0 { 0 } else { others_count + index };
        text.push_str(&pictures(made, ladder, (id, ladders.len() > 1), folder));
    }
    for (index, one) in made.audio.iter().enumerate() {
        text.push_str(&sound(made, one, index + 1, folder));
    }
    for (index, one) in made.subtitles.iter().enumerate() {
        text.push_str(&subtitles(one, 1 + made.audio.len() + index, folder));
    }
    if let Some(all) = &made.tiles {
        text.push_str(&tiles(
            all,
            ladders.len().max(1) + made.audio.len() + made.subtitles.len(),
            folder,
        ));
    }
    text.push_str("</Period>\n</MPD>\n");
    text
}

// Writing to a String cannot fail, so this file ignores the result of `write!`.

/// The pictures of one dynamic range. If there are several ranges, players that don't evaluate colours prefer the first, and leave the
/// others out.
fn pictures(made: &Made, all: &[Picture], (id, has_others): (usize, bool), folder: &str) -> String {
    // Types of access points (ISO/IEC 14496-12 annex I): with type 3, some frames that are shown earlier are missing.
    let access = if all.iter().all(|one| one.track.is_independent) { 1 } else { 3 };
    let mut text = format!(
        "<AdaptationSet id=\"{id}\" contentType=\"video\" mimeType=\"video/mp4\"{} \
         subsegmentAlignment=\"true\" subsegmentStartsWithSAP=\"{access}\">\n{}",
        if has_others && id == 0 { MAIN_PRIORITY } else { "" },
        colours(all, has_others)
    );
    if id == 0 {
        text.push_str(&captions(&made.captions));
    }
    let hdr = if id == 0 { "" } else { "hdr-" };
    for (index, one) in all.iter().enumerate() {
        let attributes = format!(
            " width=\"{}\" height=\"{}\" frameRate=\"{}\" sar=\"1:1\"",
            one.width, one.height, one.frame_rate
        );
        text.push_str(&representation(
            &format!("video-{hdr}{index}"),
            &format!("{folder}/{}", one.file),
            (&one.track, buffer_seconds(made)),
            &attributes,
            "",
        ));
    }
    text.push_str("</AdaptationSet>\n");
    text
}

/// The colours of the pictures, unless they are those of BT.709, which players assume. If there are other pictures, the properties are essential:
/// players that don't know them leave these out (ISO/IEC 23009-1 section 5.8.4.8). Otherwise they are supplemental, because such a player
/// would have nothing to play.
fn colours(all: &[Picture], has_others: bool) -> String {
    let stated = all.first().and_then(|one| one.track.colours);
    let Some(Cicp { primaries, transfer, matrix }) = stated.filter(|one| *one != Cicp::BT709)
    else {
        return String::new();
    };
    let codes = [
        ("ColourPrimaries", primaries),
        ("TransferCharacteristics", transfer),
        ("MatrixCoefficients", matrix),
    ];
    let kind = if has_others { "EssentialProperty" } else { "SupplementalProperty" };
    let property =
        |(name, code)| format!("<{kind} schemeIdUri=\"{CICP}{name}\" value=\"{code}\"/>\n");
    codes.map(property).concat()
}

/// Captions in the picture, of an unknown language (SCTE 214-1 section 7.2).
fn captions(captions: &Captions) -> String {
    let described = |standard: &str, values: Vec<String>| match values.join(";") {
        values if values.is_empty() => String::new(),
        values => format!(
            "<Accessibility schemeIdUri=\"urn:scte:dash:cc:{standard}:2015\" value=\"{values}\"/>\n"
        ),
    };
    let channels = captions.channels.iter().map(|channel| format!("CC{channel}=und"));
    let services = captions.services.iter().map(|service| format!("{service}=lang:und"));
    described("cea-608", channels.collect()) + &described("cea-708", services.collect())
}

/// A sound, or another version of it, which has the same language and roles. Players that can't play its codec pass over it.
fn sound(made: &Made, one: &Sound, id: usize, folder: &str) -> String {
    let mut text = format!(
        "<AdaptationSet id=\"{id}\" contentType=\"audio\" mimeType=\"audio/mp4\"{} \
         subsegmentAlignment=\"true\" subsegmentStartsWithSAP=\"1\"{}>\n{}",
        language(one.language.as_deref()),
        priority(made, one),
        described(&one.label, &one.roles, &sound_roles(one))
    );
    let channels = format!(
        "<AudioChannelConfiguration schemeIdUri=\"{CHANNELS}\" value=\"{}\"/>\n",
        arrangement(one)
    );
    let file = format!("{folder}/{}", one.file);
    let track = (&one.track, buffer_seconds(made));
    text.push_str(&representation(&format!("audio-{id}"), &file, track, "", &channels));
    text.push_str("</AdaptationSet>\n");
    text
}

/// The number of a sound's arrangement of channels. AAC has the same numbers (ISO/IEC 14496-3 table 1.19), and its file decides: ffprobe doesn't
/// tell its two arrangements of 7.1 apart.
fn arrangement(one: &Sound) -> u32 {
    one.track.channel_configuration.unwrap_or(one.layout.cicp)
}

/// Players that don't choose by the number of channels, such as dash.js, would take the version with the highest rate. The basic version is
/// preferred (section 5.3.3.2; the default is 1), and players for more loudspeakers choose the other one.
fn priority(made: &Made, one: &Sound) -> &'static str {
    let has_other = made.audio.iter().any(|other| other.is_other);
    if has_other && !one.is_other { " selectionPriority=\"2\"" } else { "" }
}

/// The values of Role for a sound (ISO/IEC 23009-1 section 5.8.5.5). The scheme has none for the original language.
fn sound_roles(one: &Sound) -> Vec<&'static str> {
    let own = one.roles.iter().filter_map(|role| match role {
        Role::Commentary => Some("commentary"),
        Role::AudioDescription => Some("description"),
        Role::HardOfHearing => Some("enhanced-audio-intelligibility"),
        Role::Dub => Some("dub"),
        Role::Karaoke | Role::Lyrics => Some("karaoke"),
        Role::Original | Role::Forced => None,
    });
    [if one.is_default { "main" } else { "alternate" }].into_iter().chain(own).collect()
}

/// The values of Role for subtitles. dash.js takes the kind from the first.
fn text_roles(one: &Subtitles) -> Vec<&'static str> {
    let has = |role| one.roles.contains(&role);
    let kind = if one.is_forced() {
        "forced-subtitle"
    } else if has(Role::HardOfHearing) {
        "caption"
    } else {
        "subtitle"
    };
    let commentary = has(Role::Commentary).then_some("commentary");
    let songs = (has(Role::Karaoke) || has(Role::Lyrics)).then_some("karaoke");
    [kind].into_iter().chain(commentary).chain(songs).collect()
}

fn subtitles(one: &Subtitles, id: usize, folder: &str) -> String {
    format!(
        "<AdaptationSet id=\"{id}\" contentType=\"text\" mimeType=\"text/vtt\"{}>\n{}\
         <Representation id=\"text-{id}\" bandwidth=\"256\">\n<BaseURL>{folder}/{}</BaseURL>\n\
         </Representation>\n</AdaptationSet>\n",
        language(one.language.as_deref()),
        described(&one.name, &one.roles, &text_roles(one)),
        one.file
    )
}

/// The sheets of thumbnails. They come last, and so does their id, so that all other tracks keep theirs.
fn tiles(all: &Tiles, id: usize, folder: &str) -> String {
    let Tiles { files, width, height, per_row, seconds, bits_per_second } = all;
    format!(
        "<AdaptationSet id=\"{id}\" contentType=\"image\" mimeType=\"image/jpeg\">\n\
         <SegmentTemplate media=\"{folder}/{files}\" timescale=\"1\" duration=\"{seconds}\" startNumber=\"1\"/>\n\
         <Representation id=\"thumbnails\" bandwidth=\"{bits_per_second}\" width=\"{width}\" height=\"{height}\">\n\
         <EssentialProperty schemeIdUri=\"{TILES}\" value=\"{per_row}x{per_row}\"/>\n\
         </Representation>\n</AdaptationSet>\n"
    )
}

fn language(language: Option<&str>) -> String {
    language.map_or_else(String::new, |language| format!(" lang=\"{language}\""))
}

/// A label, the purpose for people with impairments, and the roles, in the order of the standard's schema.
fn described(name: &str, own: &[Role], roles: &[&str]) -> String {
    // XML cannot contain control characters at all (XML 1.0 section 2.2).
    let label = escape::xml::escape_text(&name.replace(char::is_control, ""));
    let mut text = format!("<Label>{label}</Label>\n");
    let purposes = own.iter().filter_map(|role| match role {
        Role::AudioDescription => Some(1),
        Role::HardOfHearing => Some(2),
        _ => None,
    });
    for purpose in purposes {
        let _ =
            writeln!(text, "<Accessibility schemeIdUri=\"{AUDIO_PURPOSE}\" value=\"{purpose}\"/>");
    }
    for role in roles {
        let _ = writeln!(text, "<Role schemeIdUri=\"{ROLE}\" value=\"{role}\"/>");
    }
    text
}

fn representation(
    id: &str,
    file: &str,
    (track, buffer_seconds): (&Track, f64),
    attributes: &str,
    description: &str,
) -> String {
    let Track { codec, timescale, head_bytes, index, .. } = track;
    let mut text = format!(
        "<Representation id=\"{id}\" codecs=\"{codec}\" bandwidth=\"{}\"{attributes}>\n{description}\
         <BaseURL>{file}</BaseURL>\n",
        track.bits_per_second_buffered(buffer_seconds)
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

/// How much a player should buffer before it begins to play: the longest segment, as [`duration`] writes it. Each representation's rate is
/// the one that suffices with this buffer.
fn buffer_seconds(made: &Made) -> f64 {
    (made.longest_seconds() * 1000.0).ceil() / 1000.0
}

/// xs:duration, to the millisecond.
fn duration(seconds: f64) -> String {
    format!("PT{seconds:.3}S")
}
