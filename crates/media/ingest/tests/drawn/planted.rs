//! The judge finds planted faults of every kind, in the files that players read or in what was measured. `planted_draws.rs` plants them in drawn
//! films.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::containers::CONTAINERS;
use crate::draw::{Asked, Cue, Cut, Decoy, Film, Picture, Sound, Text};
use crate::judge::{Kind, judge};
use crate::make::make;
use crate::play::{Outcome, Played, made, made_of};
use crate::source::{Source, examine};
use crate::title::{Cicp, Title, listed};

/// A film with everything that can go wrong in a title.
pub(crate) fn film() -> Film {
    let container = CONTAINERS.iter().find(|one| one.extension == "mkv").expect("Matroska");
    let sound = |language, role| Sound {
        codec: "aac",
        layout: "stereo",
        sample_rate: 48_000,
        language: Some(language),
        role,
        title: None,
        late_seconds: 0.0,
        early_seconds: 0.0,
    };
    Film {
        seed: 0,
        container,
        seconds: 6.0,
        events: vec![0.8, 1.7, 2.9, 4.4],
        start_seconds: 0.0,
        picture: Some(Picture {
            codec: "h264",
            width: 160,
            height: 90,
            rate: "25",
            is_variable: false,
            group_frames: 50,
            b_frames: 2,
            is_open: false,
            is_interlaced: false,
            rotation: 0,
            pixel: "1/1",
            patch: [0, 192, 0],
            colour: Some("bt709"),
            wide: None,
            late_seconds: 0.0,
            early_seconds: 0.0,
        }),
        decoy: Decoy::None,
        sounds: vec![sound("eng", None), sound("ger", Some("visual_impaired"))],
        texts: vec![Text {
            codec: "subrip",
            language: Some("fre"),
            role: Some("forced"),
            title: None,
            cues: vec![
                Cue { start: 1.0, seconds: 0.8, line: 0 },
                Cue { start: 2.5, seconds: 0.8, line: 10 },
            ],
        }],
        cut: Cut::Whole,
        has_odd_tags: false,
        has_chapters: true,
        options: Asked { copy: false, keeps_channels: false, opus: false, hevc: false, hdr: false },
    }
}

fn played() -> &'static (TempDir, Played) {
    static PLAYED: OnceLock<(TempDir, Played)> = OnceLock::new();
    PLAYED.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let played = made(&film(), folder.path());
        (folder, played.unwrap_or_else(|_| panic!("an ordinary film becomes a title")))
    })
}

/// The faults of `title`, as text, with their kinds.
fn faults(title: &Title) -> Vec<(Kind, String)> {
    faults_of(&played().1.source, title)
}

fn faults_of(source: &Source, title: &Title) -> Vec<(Kind, String)> {
    let all = judge(&film(), source, title);
    all.into_iter().map(|fault| (fault.kind, fault.what)).collect()
}

/// The faults of the title with files changed by `edit`. Only if `is_decoded`, its pictures and sounds are decoded again.
fn changed(is_decoded: bool, edit: impl Fn(&Path, &Title)) -> Vec<(Kind, String)> {
    let (_, Played { title, .. }) = played();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("copy");
    let copied = Command::new("cp").arg("-r").arg(&title.folder).arg(&copy).status();
    assert!(copied.expect("cp").success());
    edit(&copy, title);
    let mut other = listed(&copy, &title.record, &title.notes).expect("a title that can be read");
    (other.by_hls, other.by_dash) = (title.by_hls.clone(), title.by_dash.clone());
    if is_decoded {
        other.decode().expect("a title that can be decoded");
    }
    faults(&other)
}

/// Changes a text file: what `old` matched first becomes `new`.
fn replace(file: PathBuf, old: &str, new: &str) {
    let text = fs::read_to_string(&file).expect("a text");
    assert!(text.contains(old), "{old} is not in {text}");
    fs::write(file, text.replacen(old, new, 1)).expect("written");
}

#[track_caller]
fn finds(kind: Kind, found: &[(Kind, String)]) {
    let before = faults(&played().1.title);
    let is_new = |fault: &&(Kind, String)| fault.0 == kind && !before.contains(fault);
    assert!(found.iter().any(|fault| is_new(&fault)), "{kind:?} is not new in {found:?}");
}

#[test]
fn sound_100_ms_late_is_found() {
    if !crate::ffmpeg_is_here() {
        return;
    }
    let late = changed(true, |folder, title| {
        let file = folder.join(&title.record.audio[1].file);
        let mut bytes = fs::read(&file).expect("a file");
        let found: Vec<_> = (8..bytes.len()).filter(|at| bytes[at - 4..*at] == *b"tfdt").collect();
        for at in found {
            // A version of 1 byte and flags of 3 bytes; a time of 4 or 8 bytes, at 48 kHz.
            let end = at + 4 + if bytes[at] == 1 { 8 } else { 4 };
            let low = u32::from_be_bytes(bytes[end - 4..end].try_into().expect("four bytes"));
            bytes[end - 4..end].copy_from_slice(&(low + 4800).to_be_bytes());
        }
        fs::write(file, bytes).expect("written");
    });
    finds(Kind::Sync, &late);
}

#[test]
fn a_missing_sound_a_wrong_language_and_a_lost_role_are_found() {
    if !crate::ffmpeg_is_here() {
        return;
    }
    let (hls, dash) = ("master.m3u8", "manifest.mpd");
    let missing = changed(false, |folder, _| {
        let text = fs::read_to_string(folder.join(hls)).expect("a playlist");
        let lines = text.lines().filter(|line| !line.contains("LANGUAGE=\"de\""));
        fs::write(folder.join(hls), lines.collect::<Vec<_>>().join("\n") + "\n").expect("written");
    });
    finds(Kind::Missing, &missing);
    for (file, old, new, kind) in [
        (hls, "LANGUAGE=\"de\"", "LANGUAGE=\"fr\"", Kind::Language),
        (dash, "lang=\"de\"", "lang=\"fr\"", Kind::Language),
        (hls, "FORCED=YES", "FORCED=NO", Kind::Role),
        (hls, "describes-video", "describes-nothing", Kind::Role),
        (dash, "value=\"description\"", "value=\"alternate\"", Kind::Role),
        (dash, "value=\"forced-subtitle\"", "value=\"subtitle\"", Kind::Role),
        (dash, "lang=\"fr\"", "lang=\"de\"", Kind::Language),
        (hls, "CHANNELS=\"2\"", "CHANNELS=\"6\"", Kind::Channels),
        (dash, "ChannelConfiguration\" value=\"2\"", "Channels\" value=\"6\"", Kind::Channels),
        (hls, "com.apple.hls.chapters", "com.example.chapters", Kind::Chapter),
    ] {
        finds(kind, &changed(false, |folder, _| replace(folder.join(file), old, new)));
    }
}

#[test]
fn text_that_is_not_escaped_or_comes_late_is_found() {
    if !crate::ffmpeg_is_here() {
        return;
    }
    for (old, new) in [
        ("Hello there", "Hello <3 there"),
        ("Hello there", "Hello &amp;amp; there"),
        ("Hello", "Hello\n\n"),
        ("there", "--> there"),
        ("01.0", "01.2"),
        ("--> 00:01.8", "--> 00:01.0"),
    ] {
        let text = changed(false, |folder, title| {
            replace(folder.join(&title.record.subtitles[0].file), old, new);
        });
        finds(Kind::Text, &text);
    }
}

#[test]
fn a_lost_chapter_and_a_segment_without_length_are_found() {
    if !crate::ffmpeg_is_here() {
        return;
    }
    let lost = changed(false, |folder, title| {
        let file = title.record.chapters.as_deref().expect("chapters");
        replace(folder.join(file), "Two & more", "One");
    });
    finds(Kind::Chapter, &lost);
    let short = changed(false, |folder, title| {
        let file = folder.join(&title.record.video[0].playlist);
        replace(file, "#EXTINF:2.000000,", "#EXTINF:0.040000,");
    });
    finds(Kind::Segment, &short);
}

#[test]
fn a_film_that_is_refused_is_found() {
    if !crate::ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let film = film();
    let file = make(&film, folder.path()).expect("an ordinary film");
    let source = examine(&film, &file).expect("an ordinary film");
    let bytes = fs::read(&file).expect("a film");
    fs::write(&file, &bytes[..bytes.len() / 2]).expect("written");
    let Err(Outcome::Wrong(found)) = made_of(&film, source, &file, folder.path()) else {
        panic!("half a film became a title");
    };
    assert_eq!(found[0].kind, Kind::Refused);
}

/// How DASH declares the one ladder of a PQ film.
const PQ: Cicp = Cicp { numbers: [9, 16, 9], is_essential: false };

#[test]
fn a_high_dynamic_range_that_is_not_declared_is_found() {
    if !crate::ffmpeg_is_here() {
        return;
    }
    let (_, Played { source, title }) = played();
    let (mut source, mut title) = (source.clone(), title.clone());
    source.picture.as_mut().expect("a picture").wide = Some("smpte2084");
    title.colours.iter_mut().for_each(|one| one.transfer = "smpte2084".into());
    title.hls.pictures.iter_mut().for_each(|one| one.range = Some("PQ".into()));
    title.hls.key_frame_ranges.iter_mut().for_each(|one| *one = Some("PQ".into()));
    title.dash.pictures.iter_mut().for_each(|one| one.cicp = Some(PQ));
    // Nothing else is asked of a copy.
    let copied = |title: &Title| {
        let mut film = film();
        film.options.copy = true;
        let all = judge(&film, &source, title);
        all.into_iter().map(|fault| (fault.kind, fault.what)).collect::<Vec<_>>()
    };
    assert_eq!(copied(&title), []);
    let edits: [fn(&mut Title); 5] = [
        |title| title.hls.pictures[1].range = None,
        |title| title.hls.key_frame_ranges[0] = Some("SDR".into()),
        |title| title.dash.pictures[0].cicp = Some(Cicp { numbers: [9, 18, 9], ..PQ }),
        |title| title.dash.pictures[0].cicp = Some(Cicp { is_essential: true, ..PQ }),
        |title| title.colours[0].transfer = "bt709".into(),
    ];
    for edit in edits {
        let mut title = title.clone();
        edit(&mut title);
        let found = copied(&title);
        assert!(found.iter().any(|fault| fault.0 == Kind::Colour), "{found:?}");
    }
}

#[test]
fn a_stream_that_is_left_out_without_a_word_is_found() {
    if !crate::ffmpeg_is_here() {
        return;
    }
    let (_, Played { source, title }) = played();
    let mut source = source.clone();
    source.left_out.push(9);
    finds(Kind::Missing, &faults_of(&source, title));
}

#[test]
fn a_rate_that_is_too_low_is_found() {
    if !crate::ffmpeg_is_here() {
        return;
    }
    let low = changed(false, |folder, title| {
        let says = title.hls.pictures[0].bandwidth;
        let (old, new) = (format!("BANDWIDTH={says}"), format!("BANDWIDTH={}", says * 9 / 10));
        replace(folder.join("master.m3u8"), &old, &new);
    });
    finds(Kind::Bandwidth, &low);
}

#[test]
fn wrong_colours_times_and_sizes_are_found() {
    if !crate::ffmpeg_is_here() {
        return;
    }
    type Edit = fn(&mut Title);
    let edits: [(Kind, Edit); 12] = [
        (Kind::Channels, |title| title.record.audio[0].channels = 0),
        (Kind::Language, |title| title.sound_headers[0].1 = "und".into()),
        (Kind::Missing, |title| title.record.video.clear()),
        // A still instead of the film.
        (Kind::Time, |title| title.by_hls.seen[0].flashes.clear()),
        (Kind::Colour, |title| title.colours[0].matrix = "smpte170m".into()),
        (Kind::Colour, |title| title.colours[1].transfer.clear()),
        (Kind::Time, |title| title.by_dash.seen[0].flashes.truncate(3)),
        (Kind::Time, |title| title.by_hls.heard[0].beeps[2] += 0.1),
        (Kind::Duration, |title| title.record.duration_seconds += 0.5),
        (Kind::Pause, |title| title.paused.push(("video-72.mp4".into(), 0.34))),
        (Kind::Shape, |title| title.record.video[0].width = 90),
        (Kind::Rate, |title| title.record.video[0].frames_per_second = 50.0),
    ];
    for (kind, edit) in edits {
        let mut title = played().1.title.clone();
        edit(&mut title);
        finds(kind, &faults(&title));
    }
}

#[test]
fn an_ordinary_title_has_no_faults() {
    if !crate::ffmpeg_is_here() {
        return;
    }
    let faults = faults(&played().1.title);
    assert!(faults.is_empty(), "{faults:?}");
}
