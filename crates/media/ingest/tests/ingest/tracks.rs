//! Which tracks become a title, what they are for, and what they are called.

use std::fs;
use std::path::{Path, PathBuf};

use catalog::Record;
use fullbore_ingest::ingest::{Ingested, Options, Outcome, SideSubtitles, TextPurpose};
use m3u8_rs::{AlternativeMedia, Playlist};
use tempfile::TempDir;

use crate::judge::judge;
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make};

/// A film of two seconds and 160x90 with one sound, from which others are made by copying.
fn base() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("base.mp4");
    make(
        "-f lavfi -i testsrc2=size=160x90:rate=25:duration=2 -f lavfi -i sine=440:duration=2 -c:v libx264 -preset ultrafast -g 25 -c:a aac",
        &path,
    );
    (folder, path)
}

/// Ingests `file` without encoding pictures.
fn copied(library: &Library, file: &Path) -> Ingested {
    let title = file.file_name().expect("a name").to_string_lossy().into_owned();
    let made = library.ingest(file, &title, &Options { copy: true, ..options() });
    made.unwrap_or_else(|error| panic!("{title}: {error}"))
}

/// The renditions of the title's playlist.
fn renditions(made: &Ingested) -> Vec<AlternativeMedia> {
    let text = fs::read(made.folder.join(&made.record.hls)).expect("a playlist");
    let Ok((_, Playlist::MasterPlaylist(master))) = m3u8_rs::parse_playlist(&text) else {
        panic!("a multivariant playlist")
    };
    master.alternatives
}

/// For each sound and subtitles: DEFAULT, AUTOSELECT, FORCED, and CHARACTERISTICS.
fn flags(made: &Ingested) -> Vec<(bool, bool, bool, String)> {
    let of = |one: AlternativeMedia| {
        (one.default, one.autoselect, one.forced, one.characteristics.unwrap_or_default())
    };
    renditions(made).into_iter().map(of).collect()
}

/// For each sound and subtitles: Accessibility, then Roles.
fn dash_roles(made: &Ingested) -> Vec<String> {
    let text = fs::read_to_string(made.folder.join(&made.record.dash)).expect("a manifest");
    let document = roxmltree::Document::parse(&text).expect("XML");
    let sets = document.descendants().filter(|node| node.tag_name().name() == "AdaptationSet");
    let sets = sets.filter(|node| matches!(node.attribute("contentType"), Some("audio" | "text")));
    let roles = sets.map(|set| {
        let described = set
            .children()
            .filter(|node| ["Role", "Accessibility"].contains(&node.tag_name().name()));
        let short = |node: roxmltree::Node| {
            let scheme = node.attribute("schemeIdUri").expect("a scheme");
            let value = node.attribute("value").expect("a value");
            let purpose = scheme.contains("AudioPurposeCS").then(|| format!("purpose {value}"));
            purpose.unwrap_or_else(|| value.to_owned())
        };
        described.map(short).collect::<Vec<_>>().join(" ")
    });
    roles.collect()
}

fn names(record: &Record) -> Vec<&str> {
    let sounds = record.audio.iter().map(|one| one.name.as_str());
    sounds.chain(record.subtitles.iter().map(|one| one.name.as_str())).collect()
}

const DIALOG: &str =
    "public.accessibility.transcribes-spoken-dialog,public.accessibility.describes-music-and-sound";

#[test]
fn a_still_picture_is_never_the_film() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, base) = base();
    let base = base.display();
    let still = folder.path().join("still.jpg");
    make("-f lavfi -i color=red:size=600x600 -frames:v 1", &still);
    let still = still.display();
    let library = Library::new();
    for (name, words) in [
        // A cover that another program added as an ordinary track.
        (
            "cover.mkv",
            format!(
                "-i {still} -i {base} -map 0 -map 1 -c copy -disposition:v:0 0 -disposition:v:1 default"
            ),
        ),
        (
            "default.mkv",
            format!(
                "-i {still} -i {base} -map 0 -map 1 -c copy -disposition:v:0 default -disposition:v:1 0"
            ),
        ),
        (
            "slow.mkv",
            format!(
                "-framerate 1/2 -i {still} -i {base} -map 0 -map 1 -c copy -disposition:v:0 default -disposition:v:1 0"
            ),
        ),
        // Matroska states when it ends, a second later than it lasts.
        (
            "late.mkv",
            format!(
                "-itsoffset 1 -i {still} -i {base} -map 0 -map 1 -c copy -disposition:v:0 default -disposition:v:1 0"
            ),
        ),
        (
            "cover.mov",
            format!("-i {still} -i {base} -map 0 -map 1 -c:v:0 png -c:v:1 copy -c:a copy"),
        ),
    ] {
        let file = folder.path().join(name);
        make(&words, &file);
        let made = copied(&library, &file);
        judge(&made.folder, &made.record);
        let [video] = &made.record.video[..] else { panic!("{name}: one size") };
        assert_eq!((video.width, video.height, made.record.audio.len()), (160, 90, 1), "{name}");
        assert!((made.record.duration_seconds - 2.0).abs() < 0.1, "{name}");
        let stream = match name {
            "cover.mov" => "png: a still picture",
            _ => "mjpeg: a still picture",
        };
        assert_eq!(made.notes, [format!("left out: video stream 0 ({stream})")]);
    }
    // Next to nothing but sound, it is the sound's cover.
    let file = folder.path().join("song.mkv");
    make(&format!("-i {still} -i {base} -map 0 -map 1:a -c copy -disposition:v:0 0"), &file);
    let made = copied(&library, &file);
    judge(&made.folder, &made.record);
    assert_eq!((made.record.video.len(), made.record.audio.len()), (0, 1));
}

#[test]
fn of_several_films_the_default_one_is_taken_else_the_longest() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, base) = base();
    let other = folder.path().join("other.mp4");
    make(
        "-f lavfi -i testsrc2=size=128x72:rate=25:duration=1 -c:v libx264 -preset ultrafast -g 25",
        &other,
    );
    let inputs = format!("-i {} -i {} -map 0:v -map 1:v -map 1:a", other.display(), base.display());
    let library = Library::new();
    for (name, words, height) in [
        ("default.mkv", "-c copy -disposition:v:0 default -disposition:v:1 0", 72),
        ("second.mkv", "-c copy -disposition:v:0 0 -disposition:v:1 default", 90),
        ("longest.mkv", "-c copy -disposition:v:0 0 -disposition:v:1 0", 90),
        ("both.mkv", "-c copy -disposition:v:0 default -disposition:v:1 default", 90),
        ("longest.ts", "-c copy -f mpegts", 90),
    ] {
        let file = folder.path().join(name);
        make(&format!("{inputs} {words}"), &file);
        let made = copied(&library, &file);
        assert_eq!(made.record.video[0].height, height, "{name}");
        let left_out = if height == 72 { 1 } else { 0 };
        assert_eq!(made.notes, [format!("left out: video stream {left_out} (h264)")], "{name}");
    }
}

#[test]
fn tracks_say_what_they_are_for_in_both_manifests() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, base) = base();
    let words = folder.path().join("words.srt");
    fs::write(&words, "1\n00:00:00,500 --> 00:00:01,000\nHello\n").expect("a file");
    let inputs = format!("-i {} -i {}", base.display(), words.display());
    let file = folder.path().join("roles.mkv");
    make(
        &format!(
            "{inputs} -map 0:v -map 0:a -map 0:a -map 0:a -map 0:a -map 1 -map 1 -map 1 -c copy -c:s srt \
             -metadata:s:a language=eng -metadata:s:a:3 language=ger -metadata:s:s language=eng \
             -disposition:a:0 comment -disposition:a:1 visual_impaired -disposition:a:2 original -disposition:a:3 dub \
             -disposition:s:0 0 -disposition:s:1 hearing_impaired -disposition:s:2 forced"
        ),
        &file,
    );
    let library = Library::new();
    let made = copied(&library, &file);
    judge(&made.folder, &made.record);
    let no = |tags: &str| (false, true, false, tags.to_owned());
    assert_eq!(
        flags(&made),
        [
            (false, false, false, "public.auxiliary-content".to_owned()),
            no("public.accessibility.describes-video"),
            (true, true, false, "public.original-content".to_owned()),
            no("public.translation.dubbed"),
            no(""),
            no(DIALOG),
            (false, true, true, String::new()),
        ]
    );
    let expected = [
        "alternate commentary",
        "purpose 1 alternate description",
        "main",
        "alternate dub",
        "subtitle",
        "purpose 2 caption",
        "forced-subtitle",
    ];
    assert_eq!(dash_roles(&made), expected);
    let expected = [
        "English (commentary)",
        "English (audio description)",
        "English (original)",
        "German (dubbed)",
        "English",
        "English (SDH)",
        "English (forced)",
    ];
    assert_eq!(names(&made.record), expected);
    assert_eq!(made.record.audio[1].roles, ["audio-description"]);
    assert_eq!((made.record.subtitles[2].is_forced, library.faults("roles.mkv").len()), (true, 0));
}

#[test]
fn subtitle_files_say_what_they_are_for_in_both_manifests() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, base) = base();
    let words = folder.path().join("words.srt");
    fs::write(&words, "1\n00:00:00,500 --> 00:00:01,000\nHello\n").expect("a file");
    let side = |purpose| SideSubtitles {
        language: "en".into(),
        purpose,
        path: words.clone(),
        ..SideSubtitles::default()
    };
    let purposes = [None, Some(TextPurpose::HardOfHearing), Some(TextPurpose::Forced)];
    let library = Library::new();
    let options = |count: usize| Options {
        copy: true,
        subtitles: purposes[..count].iter().map(|purpose| side(*purpose)).collect(),
        ..options()
    };
    let made = library.ingest(&base, "film", &options(3)).expect("a title");
    judge(&made.folder, &made.record);
    let subtitles = flags(&made).split_off(1);
    let expected = [
        (false, true, false, String::new()),
        (false, true, false, DIALOG.to_owned()),
        (false, true, true, String::new()),
    ];
    assert_eq!(subtitles, expected);
    assert_eq!(dash_roles(&made)[1..], ["subtitle", "purpose 2 caption", "forced-subtitle"]);
    assert_eq!(names(&made.record)[1..], ["English", "English (SDH)", "English (forced)"]);
    // A file for another purpose is another title.
    let plain = Options { subtitles: vec![side(None)], ..options(0) };
    let again = library.ingest(&base, "film", &plain).expect("a title");
    assert_eq!(again.outcome, Outcome::Replaced);
    let forced = Options { subtitles: vec![side(Some(TextPurpose::Forced))], ..options(0) };
    let again = library.ingest(&base, "film", &forced).expect("a title");
    assert_eq!(again.outcome, Outcome::Replaced);
}

#[test]
fn titles_of_tracks_say_it_where_no_flag_does_and_commentary_is_never_the_default() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, base) = base();
    let words = folder.path().join("words.srt");
    fs::write(&words, "1\n00:00:00,500 --> 00:00:01,000\nHello\n").expect("a file");
    let file = folder.path().join("titles.mkv");
    let mut arguments: Vec<String> = format!(
        "-i {} -i {} -map 0:v -map 0:a -map 0:a -map 0:a -map 1 -map 1 -c copy -c:s srt -disposition:a:0 default \
         -disposition:a:1 0 -disposition:a:2 0 -disposition:s:0 0 -metadata:s:a language=eng -metadata:s:s language=eng",
        base.display(),
        words.display()
    )
    .split_whitespace()
    .map(str::to_owned)
    .collect();
    for (stream, title) in [
        ("a:0", "Director's Commentary"),
        ("a:1", "Surround"),
        ("a:2", "Surround"),
        ("s:0", "English SDH"),
        ("s:1", "Forced"),
    ] {
        arguments.extend([format!("-metadata:s:{stream}"), format!("title={title}")]);
    }
    crate::source::make_with(&arguments, &file);
    let library = Library::new();
    let made = copied(&library, &file);
    judge(&made.folder, &made.record);
    let expected =
        ["Director's Commentary", "Surround", "Surround · English", "English SDH", "Forced"];
    assert_eq!(names(&made.record), expected);
    let some = |is_default, may_choose, is_forced, tags: &str| {
        (is_default, may_choose, is_forced, tags.to_owned())
    };
    assert_eq!(
        flags(&made),
        [
            some(false, false, false, "public.auxiliary-content"),
            some(true, true, false, ""),
            // The same language and purpose as the one before, so players don't choose between them.
            some(false, false, false, ""),
            some(false, true, false, DIALOG),
            some(false, true, true, ""),
        ]
    );

    // In MPEG-TS, a descriptor has the purpose.
    let file = folder.path().join("described.ts");
    let words = format!(
        "-i {} -map 0:v -map 0:a -map 0:a -c copy -disposition:a:0 visual_impaired -f mpegts",
        base.display()
    );
    make(&format!("{words} -metadata:s:a language=eng"), &file);
    let made = copied(&library, &file);
    let expected = ["purpose 1 alternate description", "main"];
    assert_eq!(dash_roles(&made), expected);
}

#[test]
fn languages_have_the_shortest_tag_of_bcp_47() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, base) = base();
    let library = Library::new();
    for (name, tags, expected) in [
        ("langs.mkv", ["tam", "may", "baq", "nob"], ["ta", "ms", "eu", "nb"]),
        ("tags.mkv", ["pt-BR", "zh-hant", "tib", "gsw"], ["pt-BR", "zh-Hant", "bo", "gsw"]),
        ("codes.mp4", ["mac", "ben", "tel", "tgl"], ["mk", "bn", "te", "tl"]),
    ] {
        let mut words = format!("-i {} -map 0:v", base.display());
        for (index, tag) in tags.iter().enumerate() {
            words = format!("{words} -map 0:a -metadata:s:a:{index} language={tag}");
        }
        let file = folder.path().join(name);
        make(&format!("{words} -c copy"), &file);
        let made = copied(&library, &file);
        let found: Vec<_> = made.record.audio.iter().flat_map(|one| &one.language).collect();
        assert_eq!(found, expected, "{name}");
        let listed: Vec<_> = renditions(&made).into_iter().flat_map(|one| one.language).collect();
        assert_eq!(listed, expected, "{name}");
        let text = fs::read_to_string(made.folder.join("manifest.mpd")).expect("a manifest");
        assert!(expected.iter().all(|tag| text.contains(&format!("lang=\"{tag}\""))), "{text}");
    }
}
