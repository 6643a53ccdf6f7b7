//! Checks a title with other programs: ffprobe and ffmpeg check its files and how they play, MediaInfo and mp4-atom their boxes, m3u8-rs
//! the playlists, roxmltree the DASH manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use catalog::Record;
use m3u8_rs::{
    AlternativeMedia, AlternativeMediaType, MasterPlaylist, MediaPlaylist, MediaSegment, Playlist,
};
use mp4_atom::{Any, ReadFrom};

/// The output of a program, which must not complain.
pub(crate) fn said(command: &mut Command) -> String {
    let output = command.output().expect("ffmpeg and ffprobe come together");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaints.is_empty(), "{command:?}: {complaints}");
    String::from_utf8(output.stdout).expect("plain text")
}

/// One stream's entries from ffprobe, separated by commas.
pub(crate) fn probe(file: &Path, entries: &str) -> String {
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-of", "csv=p=0", "-show_entries", entries]);
    if file.extension().is_some_and(|extension| extension == "jpg") {
        // By itself, ffprobe reads a picture's name as a pattern: `%d` stands for numbers.
        command.args(["-f", "jpeg_pipe"]);
    }
    command.arg(file);
    said(&mut command).trim().to_owned()
}

/// A line with a checksum for every frame of one stream of a manifest or file.
pub(crate) fn frames(source: &Path, stream: &str) -> Vec<String> {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error"]);
    if source.extension().is_some_and(|extension| extension == "mpd") {
        // For DASH, ffmpeg accepts no file named .vtt, as subtitles are.
        command.args(["-allowed_extensions", "ALL"]);
    }
    command.arg("-i").arg(source);
    command.args(["-map", stream, "-fps_mode", "passthrough", "-f", "framecrc", "-"]);
    said(&mut command).lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// Times of a stream's key frames in seconds, from ffprobe.
pub(crate) fn key_frames(file: &Path) -> Vec<String> {
    let mut command = Command::new("ffprobe");
    command.args([
        "-v",
        "error",
        "-select_streams",
        "v:0",
        "-show_entries",
        "packet=pts_time,flags",
    ]);
    let all = said(command.args(["-of", "csv=p=0"]).arg(file));
    let keys = all.lines().filter(|line| line.contains(",K"));
    keys.map(|line| line.split(',').next().unwrap_or_default().to_owned()).collect()
}

/// Runs all checks that apply to every title.
pub(crate) fn judge(title: &Path, record: &Record) {
    crate::played::is_the_same_in_both(title, record);
    crate::rates::are_right(title, record);
    crate::segments::none_is_too_short(title, record);
    let master = master(&title.join(&record.hls));
    for file in tracks(record) {
        boxes(&title.join(&file));
        probe(&title.join(&file), "stream=codec_name");
        mediainfo(&title.join(&file));
        byte_ranges(title, &file);
    }
    let (pictures, variants): (Vec<_>, Vec<_>) =
        master.variants.iter().partition(|variant| variant.is_i_frame);
    let groups: BTreeSet<_> = variants.iter().map(|one| one.audio.clone()).collect();
    assert_eq!(variants.len(), record.video.len().max(1) * groups.len());
    assert_eq!(pictures.len(), record.video.len());
    // Each says whether there are captions in its picture.
    assert!(variants.iter().all(|variant| variant.closed_captions.is_some()), "{variants:?}");
    for variant in &master.variants {
        assert!(variant.codecs.is_some() && variant.average_bandwidth.is_some(), "{variant:?}");
        assert!(variant.bandwidth >= variant.average_bandwidth.unwrap_or(0), "{variant:?}");
        media(&title.join(&variant.uri));
    }
    for (one, track) in pictures.iter().zip(&record.video) {
        let (head, last) = key_frame_ranges(&title.join(&one.uri), &title.join(&track.file));
        // Only the smallest, because each check starts processes; decoders of other codecs show a part of a picture, too.
        if track.file == record.video[0].file && track.codec.starts_with("avc1") {
            is_a_picture(&head, &last);
        }
    }
    one_target_duration(title, record);
    sounds(&master, title, record);
    let is_in_picture = AlternativeMediaType::ClosedCaptions;
    for one in master.alternatives.iter().filter(|one| one.media_type != is_in_picture) {
        media(&title.join(one.uri.as_ref().expect("a playlist of its own")));
    }
    dash(title, record);
}

/// The sounds of a group.
pub(crate) fn group<'m>(
    master: &'m MasterPlaylist,
    id: Option<&str>,
) -> impl Iterator<Item = &'m AlternativeMedia> {
    let is_sound = |one: &&AlternativeMedia| one.media_type == AlternativeMediaType::Audio;
    let id = id.unwrap_or_default().to_owned();
    master.alternatives.iter().filter(is_sound).filter(move |one| one.group_id == id)
}

/// Each variant has one group of sounds, in which each of the film's sounds has one version, with the same attributes in every group
/// (RFC 8216 section 4.3.4.1.1). Every version is in a group, but other versions in the codec of basic ones. CODECS has that of each member, and
/// no other sound's.
fn sounds(master: &MasterPlaylist, title: &Path, record: &Record) {
    let is_basic = |one: &&catalog::AudioRecord| one.version_of.is_none();
    let count = record.audio.iter().filter(is_basic).count();
    assert_eq!(record.audio.iter().filter(|one| one.is_default).count(), count.min(1));
    let attributes = |one: &AlternativeMedia| {
        let AlternativeMedia { name, language, default, autoselect, characteristics, .. } = one;
        format!("{name} {language:?} {default} {autoselect} {characteristics:?}")
    };
    let mut listed = BTreeSet::new();
    let first: Vec<_> = group(master, Some("audio")).map(attributes).collect();
    for variant in master.variants.iter().filter(|one| !one.is_i_frame) {
        let members: Vec<_> = group(master, variant.audio.as_deref()).collect();
        assert_eq!(members.len(), count, "{variant:?}");
        assert_eq!(members.iter().filter(|one| one.default).count(), count.min(1));
        assert_eq!(members.iter().map(|one| attributes(one)).collect::<Vec<_>>(), first);
        let own: BTreeSet<_> = members.iter().filter_map(|one| one.uri.clone()).collect();
        let records = record.audio.iter().filter(|one| own.contains(&one.playlist));
        let mut expected: BTreeSet<_> = records.map(|one| one.codec.as_str()).collect();
        let pictures = record.video.iter().find(|one| one.playlist == variant.uri);
        expected.extend(pictures.map(|one| one.codec.as_str()));
        let codecs = variant.codecs.as_deref().expect("codecs").split(',').collect();
        assert_eq!(expected, codecs, "{variant:?}");
        for one in &members {
            let of = record.audio.iter().find(|audio| Some(&audio.playlist) == one.uri.as_ref());
            let channels = of.map(|audio| audio.channels.to_string());
            assert_eq!(one.channels, channels, "{one:?}");
        }
        listed.extend(own);
    }
    let basic: BTreeSet<_> = record.audio.iter().filter(is_basic).map(|one| &one.codec).collect();
    let has_group = |one: &&catalog::AudioRecord| is_basic(one) || !basic.contains(&one.codec);
    let expected = record.audio.iter().filter(has_group).map(|one| one.playlist.clone());
    assert_eq!(listed, expected.collect());
    one_group_for_each_codec(master);
    for version in record.audio.iter().filter_map(|one| one.version_of.as_ref()) {
        assert!(title.join(version).is_file(), "{version}");
    }
}

/// hls.js changes sizes by rate among variants of the same codecs, of which it reads the first picture and the first sound, and the same dynamic
/// range (`abr-controller.ts`, `level.ts`). If these had several groups of sounds, it would change between these, too.
fn one_group_for_each_codec(master: &MasterPlaylist) {
    let mut groups = BTreeMap::new();
    for variant in master.variants.iter().filter(|one| !one.is_i_frame) {
        let codecs = variant.codecs.as_deref().unwrap_or_default().split(',');
        let count = if variant.resolution.is_some() { 2 } else { 1 };
        let kinds: Vec<_> = codecs.map(|codec| codec.split('.').next()).take(count).collect();
        let range = variant.other_attributes.as_ref().and_then(|all| all.get("VIDEO-RANGE"));
        let key = format!("{kinds:?} {range:?}");
        let known = groups.entry(key).or_insert(&variant.audio);
        assert_eq!(*known, &variant.audio, "{variant:?}");
    }
}

pub(crate) fn tracks(record: &Record) -> Vec<String> {
    let video = record.video.iter().map(|one| one.file.clone());
    video.chain(record.audio.iter().map(|one| one.file.clone())).collect()
}

/// Another parser reads every box to its end, and finds a head, one index, then nothing but fragments. Where the index has become shorter,
/// because its last two segments are one, there is a gap in front of it; another one
/// is behind the head, if static metadata was written into it.
fn boxes(file: &Path) {
    let mut reader = fs::File::open(file).expect("a file");
    let mut kinds = String::new();
    loop {
        let atom = Option::<Any>::read_from(&mut reader);
        // This parser knows Opus only with one or two channels; ffprobe and MediaInfo read the rest.
        if matches!(&atom, Err(mp4_atom::Error::Unsupported("OPUS channel mapping"))) {
            return;
        }
        let atom = atom.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let Some(atom) = atom else { break };
        kinds.push(match atom {
            Any::Ftyp(_) => 't',
            Any::Moov(moov) => {
                assert_eq!(moov.trak.len(), 1);
                'h'
            }
            Any::Sidx(_) => 'i',
            Any::Moof(moof) => {
                assert_eq!(moof.traf.len(), 1);
                'f'
            }
            Any::Mdat(_) => 'd',
            Any::Free(_) => '_',
            other => panic!("{}: {other:?}", file.display()),
        });
    }
    let fragments = kinds.strip_prefix("th").map(|rest| rest.trim_start_matches('_'));
    let fragments = fragments.and_then(|rest| rest.strip_prefix('i'));
    let fragments = fragments.unwrap_or_else(|| panic!("{kinds}"));
    assert!(!fragments.is_empty() && fragments.replace("fd", "").is_empty(), "{kinds}");
}

/// A third parser finds one stream, with as many frames as ffprobe counts, and nothing truncated or wrong.
fn mediainfo(file: &Path) {
    static IS_HERE: OnceLock<bool> = OnceLock::new();
    let is_here = IS_HERE.get_or_init(|| {
        let here = Command::new("mediainfo").arg("--Version").output().is_ok();
        if !here {
            fullbore_tests::tool::skip(
                "there is no mediainfo on this machine (apt install mediainfo)",
            );
        }
        here
    });
    if !is_here {
        return;
    }
    let text = said(Command::new("mediainfo").arg("--Output=JSON").arg(file));
    assert!(!text.contains("IsTruncated") && !text.contains("ConformanceErrors"), "{text}");
    let told: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    // It lists each channel of captions in the picture as a stream.
    let is_in_picture = |one: &serde_json::Value| {
        one["@type"] == "Text"
            && one["Format"].as_str().is_some_and(|name| name.starts_with("EIA-"))
    };
    let all = told["media"]["track"].as_array().expect("tracks");
    let streams: Vec<_> = all.iter().filter(|one| !is_in_picture(one)).collect();
    let [_, stream] = streams[..] else { panic!("one stream: {text}") };
    if stream["@type"] == "Video" {
        let mut ffprobe = Command::new("ffprobe");
        ffprobe.args(["-v", "error", "-count_packets", "-of", "csv=p=0"]);
        let frames = said(ffprobe.args(["-show_entries", "stream=nb_read_packets"]).arg(file));
        // A comma follows if there is more information about the stream.
        assert_eq!(stream["FrameCount"], frames.trim().trim_end_matches(','), "{text}");
    }
}

fn parsed(path: &Path) -> Playlist {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match m3u8_rs::parse_playlist(&text) {
        Ok(([], playlist)) => playlist,
        other => panic!("{}: {other:?}", path.display()),
    }
}

pub(crate) fn master(path: &Path) -> MasterPlaylist {
    match parsed(path) {
        Playlist::MasterPlaylist(master) => {
            assert!(master.unknown_tags.is_empty(), "{:?}", master.unknown_tags);
            master
        }
        Playlist::MediaPlaylist(_) => panic!("{} is no master playlist", path.display()),
    }
}

pub(crate) fn media(path: &Path) -> MediaPlaylist {
    match parsed(path) {
        Playlist::MediaPlaylist(media) => {
            assert!(media.end_list && media.unknown_tags.is_empty(), "{media:?}");
            for segment in &media.segments {
                assert!(segment.duration.round() as u64 <= media.target_duration, "{segment:?}");
            }
            media
        }
        Playlist::MasterPlaylist(_) => panic!("{} is no media playlist", path.display()),
    }
}

/// The playlist of a track covers its file from the first byte to the last except for the index, and each part begins a fragment.
fn byte_ranges(title: &Path, file: &str) {
    let path = title.join(file);
    let bytes = fs::read(&path).expect("a file");
    let media = media(&path.with_extension("m3u8"));
    let map = media.segments[0].map.as_ref().expect("a head");
    let head = map.byte_range.as_ref().expect("a range");
    assert_eq!(head.offset, Some(0));
    assert_eq!(&bytes[head.length as usize + 4..head.length as usize + 8], b"sidx");
    let mut expected = None;
    for segment in &media.segments {
        let range = segment.byte_range.as_ref().expect("a range");
        let offset = range.offset.expect("each says where it begins");
        assert!(expected.is_none_or(|end| end == offset), "a gap before {offset}");
        assert_eq!(&bytes[offset as usize + 4..offset as usize + 8], b"moof");
        expected = Some(offset + range.length);
    }
    assert_eq!(expected, Some(bytes.len() as u64));
}

/// Pictures and sounds have one target duration (RFC 8216 section 6.2.4).
fn one_target_duration(title: &Path, record: &Record) {
    let of = |file: &String| media(&title.join(file).with_extension("m3u8")).target_duration;
    let targets: BTreeSet<_> = tracks(record).iter().map(of).collect();
    assert_eq!(targets.len(), 1, "{targets:?}");
}

/// The playlist of key frames has one for each segment, at its beginning. Returns the head and the last one.
fn key_frame_ranges(playlist: &Path, file: &Path) -> (Vec<u8>, Vec<u8>) {
    let (pictures, whole) = (media(playlist), media(&file.with_extension("m3u8")));
    assert!(pictures.i_frames_only && !whole.i_frames_only);
    assert_eq!(pictures.target_duration, whole.target_duration);
    assert_eq!(pictures.segments.len(), whole.segments.len());
    let bytes = fs::read(file).expect("a file");
    let head = pictures.segments[0].map.as_ref().expect("a head").byte_range.as_ref();
    let head = &bytes[..head.expect("a range").length as usize];
    for (picture, segment) in pictures.segments.iter().zip(&whole.segments) {
        let range = |one: &MediaSegment| {
            let range = one.byte_range.clone().expect("a range");
            (range.offset.expect("each says where it begins") as usize, range.length as usize)
        };
        let ((from, length), (begin, all)) = (range(picture), range(segment));
        assert!(from == begin && length <= all && picture.duration == segment.duration);
    }
    let last = pictures.segments.last().and_then(|last| last.byte_range.as_ref()).expect("a range");
    let from = last.offset.expect("each says where it begins") as usize;
    (head.to_vec(), bytes[from..from + last.length as usize].to_vec())
}

/// A head and a key frame are a picture, and all of their bytes are needed for it.
fn is_a_picture(head: &[u8], key_frame: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let alone = folder.path().join("picture.mp4");
    for (bytes, expected) in [(key_frame, "I"), (&key_frame[..key_frame.len() - 1], "")] {
        fs::write(&alone, [head, bytes].concat()).expect("room");
        assert_eq!(shown(&alone), expected, "{} bytes of {}", bytes.len(), key_frame.len());
    }
}

/// The kind of the first frame that ffprobe can read completely. It complains about the missing data after it.
fn shown(file: &Path) -> String {
    let mut command = Command::new("ffprobe");
    command.args(["-v", "quiet", "-read_intervals", "%+#1", "-of", "csv=p=0"]);
    command.args(["-show_entries", "frame=pict_type"]).arg(file);
    let output = command.output().expect("ffprobe was here a moment ago");
    let text = String::from_utf8(output.stdout).expect("plain text");
    text.trim().trim_end_matches(',').to_owned()
}

/// The manifest lists every track with the ranges of its head and its index, every file exists, and there are no duplicates.
fn dash(title: &Path, record: &Record) {
    let text = fs::read_to_string(title.join(&record.dash)).expect("a manifest");
    let document = roxmltree::Document::parse(&text).expect("XML");
    let root = document.root_element();
    assert_eq!(root.tag_name().namespace(), Some("urn:mpeg:dash:schema:mpd:2011"));
    elements_have_their_form(&document);
    let mut ids = Vec::new();
    let mut track_count = 0;
    for one in document.descendants().filter(|node| node.tag_name().name() == "Representation") {
        ids.push(one.attribute("id").expect("an id"));
        let child = |name| one.children().find(|node| node.tag_name().name() == name);
        if is_image(&one) {
            continue;
        }
        let file = child("BaseURL").and_then(|node| node.text()).expect("a file");
        let bytes = fs::read(title.join(file)).expect("the file it names");
        if let Some(segments) = child("SegmentBase") {
            track_count += 1;
            let (from, to) = segments
                .attribute("indexRange")
                .and_then(|range| range.split_once('-'))
                .expect("a range");
            let (from, to): (usize, usize) =
                (from.parse().expect("a number"), to.parse().expect("a number"));
            assert_eq!(&bytes[from + 4..from + 8], b"sidx");
            assert_eq!(&bytes[to + 5..to + 9], b"moof");
        }
    }
    assert_eq!(track_count, record.video.len() + record.audio.len());
    let images = usize::from(record.thumbnails.is_some());
    assert_eq!(ids.len(), track_count + record.subtitles.len() + images);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), track_count + record.subtitles.len() + images);
    let sets = root.descendants().filter(|node| node.tag_name().name() == "AdaptationSet");
    let mut set_ids: Vec<_> = sets.map(|set| set.attribute("id").expect("an id")).collect();
    let set_count = set_ids.len();
    set_ids.sort_unstable();
    set_ids.dedup();
    assert_eq!(set_ids.len(), set_count, "two sets have one id: {text}");
    crate::posters::tiles_are_right(title, record, root);
    schema(&title.join(&record.dash));
}

fn is_image(representation: &roxmltree::Node) -> bool {
    let set = representation.parent().expect("an AdaptationSet");
    set.attribute("contentType") == Some("image")
}

/// The allowed contents of an element: required attributes, optional ones, and its children in order; as far as they are used here (ISO/IEC
/// 23009-1, the tables of clause 5.3 and annex B). We may not copy the whole schema; if you have it, set FULLBORE_MPD_SCHEMA=DASH-MPD.xsd.
type Form =
    (&'static str, &'static [&'static str], &'static [&'static str], &'static [&'static str]);

const FORMS: &[Form] = &[
    ("MPD", &["profiles", "minBufferTime", "mediaPresentationDuration"], &["type"], &["Period"]),
    ("Period", &[], &["id"], &["AdaptationSet"]),
    (
        "AdaptationSet",
        &["mimeType"],
        &[
            "id",
            "contentType",
            "lang",
            "selectionPriority",
            "subsegmentAlignment",
            "subsegmentStartsWithSAP",
        ],
        &[
            "EssentialProperty",
            "SupplementalProperty",
            "Label",
            "Accessibility",
            "Role",
            "SegmentTemplate",
            "Representation",
        ],
    ),
    (
        "Representation",
        &["id", "bandwidth"],
        &["codecs", "width", "height", "frameRate", "sar"],
        &["AudioChannelConfiguration", "EssentialProperty", "BaseURL", "SegmentBase"],
    ),
    ("SegmentTemplate", &["media", "duration"], &["timescale", "startNumber"], &[]),
    ("SegmentBase", &["indexRange"], &["timescale", "indexRangeExact"], &["Initialization"]),
    ("Initialization", &["range"], &[], &[]),
    ("Role", &["schemeIdUri", "value"], &[], &[]),
    ("Accessibility", &["schemeIdUri", "value"], &[], &[]),
    ("EssentialProperty", &["schemeIdUri", "value"], &[], &[]),
    ("SupplementalProperty", &["schemeIdUri", "value"], &[], &[]),
    ("AudioChannelConfiguration", &["schemeIdUri", "value"], &[], &[]),
    ("BaseURL", &[], &[], &[]),
    ("Label", &[], &[], &[]),
];

fn elements_have_their_form(document: &roxmltree::Document) {
    for element in document.descendants().filter(roxmltree::Node::is_element) {
        let name = element.tag_name().name();
        let (_, required, optional, order) =
            FORMS.iter().find(|(known, ..)| *known == name).expect("a known element");
        for wanted in *required {
            assert!(element.has_attribute(*wanted), "{name} has no {wanted}");
        }
        for attribute in element.attributes() {
            let (key, value) = (attribute.name(), attribute.value());
            assert!(required.contains(&key) || optional.contains(&key), "{key} in {name}");
            assert!(is_valid(key, value), "{key}=\"{value}\" in {name}");
        }
        let children = element.children().filter(roxmltree::Node::is_element);
        let places = children.map(|child| {
            let found = order.iter().position(|known| *known == child.tag_name().name());
            found.unwrap_or_else(|| panic!("{} in {name}", child.tag_name().name()))
        });
        assert!(places.is_sorted(), "what is in {name} is not in order");
    }
}

/// The types of the schema, by the attributes that have them.
fn is_valid(attribute: &str, value: &str) -> bool {
    let number = |text: &str| text.parse::<u32>().is_ok_and(|number| number > 0);
    let two = |between| value.split_once(between).map(|(a, b)| (a.to_owned(), b.to_owned()));
    match attribute {
        "bandwidth"
        | "width"
        | "height"
        | "timescale"
        | "selectionPriority"
        | "duration"
        | "startNumber"
        | "subsegmentStartsWithSAP" => number(value),
        "indexRangeExact" | "subsegmentAlignment" => value == "true",
        "frameRate" => two('/').is_some_and(|(a, b)| number(&a) && number(&b)),
        "sar" => two(':').is_some_and(|(a, b)| number(&a) && number(&b)),
        "range" | "indexRange" => two('-')
            .and_then(|(a, b)| Some((a.parse::<u64>().ok()?, b.parse::<u64>().ok()?)))
            .is_some_and(|(from, to)| from < to),
        "mediaPresentationDuration" | "minBufferTime" => value
            .strip_prefix("PT")
            .and_then(|rest| rest.strip_suffix('S'))
            .is_some_and(|seconds| seconds.parse::<f64>().is_ok_and(|seconds| seconds > 0.0)),
        "type" => value == "static",
        "contentType" => ["video", "audio", "text", "image"].contains(&value),
        _ => !value.is_empty() && !value.contains(char::is_whitespace),
    }
}

fn schema(manifest: &Path) {
    let Some(schema) = std::env::var_os("FULLBORE_MPD_SCHEMA") else { return };
    let mut xmllint = Command::new("xmllint");
    let output =
        xmllint.args(["--noout", "--nonet", "--schema"]).arg(schema).arg(manifest).output();
    let output = output.expect("xmllint: apt install libxml2-utils");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
