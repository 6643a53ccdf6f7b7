//! HLS playlists (RFC 8216): one for each track, with byte ranges of its single file, and the multivariant playlist.

use std::fmt::Write;

use super::chapters::CHAPTERS;
use super::made::{Made, Picture, Sound, SoundGroup, Subtitles, beside};
use crate::captions::Captions;
use crate::mp4::{Track, VideoRange};
use crate::role::{Medium, Role};

/// Version 7 has everything used here: byte ranges, maps and independent segments.
const VERSION: u32 = 7;

/// The extension of playlists of key frames.
const KEY_FRAMES: &str = "iframes.m3u8";

/// The name of chapters in session data (section 4.3.4.4), as Apple defines it.
const CHAPTERS_ID: &str = "com.apple.hls.chapters";

/// A playlist and its file's name.
pub(super) struct Playlist {
    pub(super) file: String,
    pub(super) text: String,
}

/// A playlist for each track, for its key frames if it is a picture, and for each file of subtitles, in their folder.
pub(super) fn media(made: &Made) -> Vec<Playlist> {
    let target = made.target_seconds();
    let tracks = made.tracks().map(|(file, track)| Playlist {
        file: beside(file, "m3u8"),
        text: of_track(file, track, target),
    });
    let pictures = made.video.iter().filter_map(|one| {
        let text = of_key_frames(&one.file, &one.track, target)?;
        Some(Playlist { file: beside(&one.file, KEY_FRAMES), text })
    });
    let subtitles = made.subtitles.iter().map(|one| Playlist {
        file: beside(&one.file, "m3u8"),
        text: of_subtitles(&one.file, made.seconds()),
    });
    tracks.chain(pictures).chain(subtitles).collect()
}

// Writing to a String cannot fail, so this file ignores the result of `write!`.

fn of_track(file: &str, track: &Track, target_seconds: u32) -> String {
    let bytes = track.segments.iter().map(|segment| segment.bytes);
    head(target_seconds, track.is_independent) + &ranges(file, track, bytes)
}

/// Pictures to show while a viewer seeks (section 4.3.3.6): for each segment, its first frame with the bytes before it.
fn of_key_frames(file: &str, track: &Track, target_seconds: u32) -> Option<String> {
    let bytes = track.key_frames.as_ref()?.iter().copied();
    let head = head(target_seconds, true) + "#EXT-X-I-FRAMES-ONLY\n";
    Some(head + &ranges(file, track, bytes))
}

/// The first `bytes` of each segment.
fn ranges(file: &str, track: &Track, bytes: impl Iterator<Item = u64>) -> String {
    let mut text = format!("#EXT-X-MAP:URI=\"{file}\",BYTERANGE=\"{}@0\"\n", track.head_bytes);
    for (segment, bytes) in track.segments.iter().zip(bytes) {
        let _ = writeln!(text, "#EXTINF:{:.6},", track.seconds_of(segment));
        let _ = writeln!(text, "#EXT-X-BYTERANGE:{bytes}@{}\n{file}", segment.offset);
    }
    text.push_str("#EXT-X-ENDLIST\n");
    text
}

fn of_subtitles(file: &str, seconds: f64) -> String {
    let mut text = head(seconds.round().max(1.0) as u32, true);
    let _ = writeln!(text, "#EXTINF:{seconds:.6},\n{file}\n#EXT-X-ENDLIST");
    text
}

/// The beginning of a playlist. Only subtitles may have a target duration of their own.
fn head(target_seconds: u32, is_independent: bool) -> String {
    format!(
        "#EXTM3U\n#EXT-X-VERSION:{VERSION}\n#EXT-X-TARGETDURATION:{target_seconds}\n\
         #EXT-X-PLAYLIST-TYPE:VOD\n{}",
        independence(is_independent)
    )
}

/// The tag for segments that can be shown without others (section 4.3.5.1). If a copied picture has open groups, frames of the segment
/// before are missing.
fn independence(is_independent: bool) -> &'static str {
    if is_independent { "#EXT-X-INDEPENDENT-SEGMENTS\n" } else { "" }
}

/// The multivariant playlist, with paths relative to the parent of `folder`.
pub(super) fn master(made: &Made, folder: &str) -> String {
    let independence = independence(made.tracks().all(|(_, track)| track.is_independent));
    let mut text = format!("#EXTM3U\n#EXT-X-VERSION:{VERSION}\n{independence}");
    if made.has_chapters {
        let _ = writeln!(
            text,
            "#EXT-X-SESSION-DATA:DATA-ID=\"{CHAPTERS_ID}\",URI=\"{folder}/{CHAPTERS}\""
        );
    }
    text.push('\n');
    let groups = made.sound_groups();
    for group in &groups {
        let members = group.members.iter();
        let keys = members.map(|one| (one.language.as_deref(), &one.roles[..], one.is_default));
        let may_choose = autoselected(&keys.collect::<Vec<_>>());
        for (one, may_choose) in group.members.iter().zip(may_choose) {
            text.push_str(&sound(one, &group.id, folder, may_choose));
        }
    }
    let keys = made.subtitles.iter().map(|one| (one.language.as_deref(), &one.roles[..], false));
    for (one, may_choose) in made.subtitles.iter().zip(autoselected(&keys.collect::<Vec<_>>())) {
        text.push_str(&subtitles(one, folder, may_choose));
    }
    text.push_str(&captions(&made.captions));
    text.push('\n');
    if groups.is_empty() {
        text.extend(made.video.iter().map(|one| variant(made, one, None, folder)));
    }
    // The first variants are those that everything plays.
    for group in &groups {
        text.extend(made.video.iter().map(|one| variant(made, one, Some(group), folder)));
        if made.video.is_empty() {
            text.push_str(&sound_alone(made, group, folder));
        }
    }
    text.extend(made.video.iter().filter_map(|one| key_frames(made, one, folder)));
    text
}

/// For each track of a group, given by its language, its roles and whether it is the default: whether players may choose it by themselves,
/// for the viewer's languages and needs. That is one track for each language and purpose (section 4.3.4.1.1), and none that is for viewers
/// who ask for it, such as commentary.
fn autoselected(tracks: &[(Option<&str>, &[Role], bool)]) -> Vec<bool> {
    let on_request = [Role::Commentary, Role::Lyrics, Role::Karaoke];
    let is_chosen = |(index, &(language, roles, is_default)): (usize, &(_, &[Role], bool))| {
        let mut others = tracks.iter().enumerate().filter(|&(at, _)| at != index);
        let has_rival = others
            .any(|(at, other)| (other.0, other.1) == (language, roles) && (other.2 || at < index));
        let is_on_request = roles.iter().any(|role| on_request.contains(role));
        is_default || !has_rival && !is_on_request
    };
    tracks.iter().enumerate().map(is_chosen).collect()
}

/// The attribute CHARACTERISTICS (section 4.3.4.1) with the tags of Apple's authoring specification and media characteristics; empty for a
/// track without any.
fn characteristics(roles: &[Role], medium: Medium) -> String {
    let tags = roles.iter().filter_map(|role| match (role, medium) {
        (Role::Commentary, _) => Some("public.auxiliary-content"),
        (Role::AudioDescription, _) => Some("public.accessibility.describes-video"),
        (Role::HardOfHearing, Medium::Sound) => {
            Some("public.accessibility.enhances-speech-intelligibility")
        }
        (Role::HardOfHearing, Medium::Text) => Some(
            "public.accessibility.transcribes-spoken-dialog,public.accessibility.describes-music-and-sound",
        ),
        (Role::Dub, _) => Some("public.translation.dubbed"),
        (Role::Original, _) => Some("public.original-content"),
        (Role::Forced | Role::Lyrics | Role::Karaoke, _) => None,
    });
    let tags: Vec<_> = tags.collect();
    if tags.is_empty() { String::new() } else { format!(",CHARACTERISTICS=\"{}\"", tags.join(",")) }
}

fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "YES" } else { "NO" }
}

fn sound(one: &Sound, group: &str, folder: &str, may_choose: bool) -> String {
    let mut text = format!("#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"{group}\",{}", named(&one.name));
    push_language(&mut text, one.language.as_deref());
    let _ = writeln!(
        text,
        ",DEFAULT={},AUTOSELECT={}{},CHANNELS=\"{}\",URI=\"{folder}/{}\"",
        yes_or_no(one.is_default),
        yes_or_no(may_choose),
        characteristics(&one.roles, Medium::Sound),
        one.layout.channels(),
        beside(&one.file, "m3u8")
    );
    text
}

fn subtitles(one: &Subtitles, folder: &str, may_choose: bool) -> String {
    let mut text =
        format!("#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"subtitles\",{}", named(&one.name));
    push_language(&mut text, one.language.as_deref());
    let _ = writeln!(
        text,
        ",DEFAULT=NO,AUTOSELECT={},FORCED={}{},URI=\"{folder}/{}\"",
        yes_or_no(may_choose),
        yes_or_no(one.is_forced()),
        characteristics(&one.roles, Medium::Text),
        beside(&one.file, "m3u8")
    );
    text
}

/// Captions in the picture. Their languages are unknown, so players may choose only the first by themselves.
fn captions(captions: &Captions) -> String {
    let media = |(index, name): (usize, String)| {
        let may_choose = yes_or_no(index == 0);
        format!(
            "#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID=\"captions\",NAME=\"{name}\",DEFAULT=NO,\
             AUTOSELECT={may_choose},INSTREAM-ID=\"{name}\"\n"
        )
    };
    let channels = captions.channels.iter().map(|channel| format!("CC{channel}"));
    let services = captions.services.iter().map(|service| format!("SERVICE{service}"));
    channels.chain(services).enumerate().map(media).collect()
}

fn push_language(text: &mut String, language: Option<&str>) {
    if let Some(language) = language {
        let _ = write!(text, ",LANGUAGE=\"{language}\"");
    }
}

fn named(name: &str) -> String {
    format!("NAME=\"{}\"", plain(name))
}

/// A name as playlists have it: a quoted string cannot contain quotes or line ends (section 4.2).
pub(super) fn plain(name: &str) -> String {
    let plain = |letter: char| match letter {
        '"' => '\'',
        letter if letter.is_control() => ' ',
        letter => letter,
    };
    name.chars().map(plain).collect()
}

fn variant(made: &Made, one: &Picture, group: Option<&SoundGroup<'_>>, folder: &str) -> String {
    let mut text = rates(made, Some(&one.track), group);
    let _ = write!(
        text,
        ",RESOLUTION={}x{},FRAME-RATE={:.3}",
        one.width,
        one.height,
        one.frame_rate.per_second()
    );
    push_range(&mut text, made, &one.track);
    push_score(&mut text, made, one);
    if let Some(SoundGroup { id, .. }) = group {
        let _ = write!(text, ",AUDIO=\"{id}\"");
    }
    end_variant(text, made, &one.file, folder)
}

/// The playlist of a picture's key frames. Its rates count only the key frames (section 4.3.4.3).
fn key_frames(made: &Made, one: &Picture, folder: &str) -> Option<String> {
    let Picture { track, width, height, .. } = one;
    let frames = track.key_frames.as_ref()?;
    let mean = frames.iter().sum::<u64>() as f64 * 8.0 / track.seconds();
    let mean = mean.ceil() as u64;
    let max = track.rate_max(frames, made.target_seconds()).max(mean);
    let mut text = format!(
        "#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH={max},AVERAGE-BANDWIDTH={mean},CODECS=\"{}\",\
         RESOLUTION={width}x{height}",
        track.codec,
    );
    push_range(&mut text, made, track);
    let _ = writeln!(text, ",URI=\"{folder}/{}\"", beside(&one.file, KEY_FRAMES));
    Some(text)
}

fn sound_alone(made: &Made, group: &SoundGroup<'_>, folder: &str) -> String {
    let Some(one) = group.members.iter().find(|one| one.is_default) else { return String::new() };
    let text = rates(made, None, Some(group)) + &format!(",AUDIO=\"{}\"", group.id);
    end_variant(text, made, &one.file, folder)
}

/// The dynamic range (draft-pantos-hls-rfc8216bis section 4.4.6.2). A title without high dynamic range doesn't need it: SDR is the default.
fn push_range(text: &mut String, made: &Made, track: &Track) {
    let is_standard = |one: &Picture| one.track.range() == VideoRange::Sdr;
    if !made.video.iter().all(is_standard) {
        text.push_str(match track.range() {
            VideoRange::Sdr => ",VIDEO-RANGE=SDR",
            VideoRange::Hlg => ",VIDEO-RANGE=HLG",
            VideoRange::Pq => ",VIDEO-RANGE=PQ",
        });
    }
}

/// How good a variant is compared with the others (draft-pantos-hls-rfc8216bis section 4.4.6.2): by size, and of the same size high dynamic
/// range first. Players leave out what their screen can't show before they compare. Without several ranges, rates say the same.
fn push_score(text: &mut String, made: &Made, one: &Picture) {
    if made.ladders().count() < 2 {
        return;
    }
    let key = |one: &Picture| (one.width.min(one.height), one.track.range() != VideoRange::Sdr);
    let worse = made.video.iter().filter(|other| key(other) < key(one)).count();
    let _ = write!(text, ",SCORE={}.0", worse + 1);
}

fn end_variant(mut text: String, made: &Made, file: &str, folder: &str) -> String {
    if !made.subtitles.is_empty() {
        text.push_str(",SUBTITLES=\"subtitles\"");
    }
    // Without the attribute, players look into the picture, and some offer captions that are not there.
    let captions = if made.captions.is_empty() { "NONE" } else { "\"captions\"" };
    let _ = writeln!(text, ",CLOSED-CAPTIONS={captions}\n{folder}/{}", beside(file, "m3u8"));
    text
}

/// Rates and codecs of a picture together with the sound of the highest rate in its group: the largest sum of peaks, and the largest sum of means, of
/// anything that can be played together (section 4.3.4.2).
fn rates(made: &Made, picture: Option<&Track>, group: Option<&SoundGroup<'_>>) -> String {
    let sounds = group.map(SoundGroup::by_codec).unwrap_or_default();
    let of = |rate: &dyn Fn(&Track) -> u64| {
        let sound = sounds.iter().map(|one| rate(&one.track)).max();
        picture.map_or(0, rate) + sound.unwrap_or(0)
    };
    let target = made.target_seconds();
    let mut codecs: Vec<&str> = picture.iter().map(|track| track.codec.as_str()).collect();
    for one in &sounds {
        if !codecs.contains(&one.track.codec.as_str()) {
            codecs.push(&one.track.codec);
        }
    }
    format!(
        "#EXT-X-STREAM-INF:BANDWIDTH={},AVERAGE-BANDWIDTH={},CODECS=\"{}\"",
        of(&|track| track.bits_per_second_max(target)),
        of(&Track::bits_per_second),
        codecs.join(",")
    )
}
