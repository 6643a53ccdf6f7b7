//! The properties of a complete title.

use std::fs;
use std::path::Path;

use crate::judge::{frames, judge, key_frames, probe};
use crate::library::{Library, names, options};
use crate::source::{FRAMES, SECONDS, ffmpeg_is_here, film, plain};
use catalog::{Form, Record, titles};
use fullbore_ingest::ingest::{
    AudioCodec, Options, Outcome, Progress, SideSubtitles, Stop, VideoCodec,
};

fn near(seconds: f64) -> bool {
    (seconds - SECONDS).abs() < 0.1
}

#[test]
fn a_film_becomes_a_title_that_plays_in_every_size_and_language_by_both_manifests() {
    if !ffmpeg_is_here() {
        return;
    }
    let library = Library::new();
    let mut heard = Vec::new();
    let made = library
        .ingest_with(film(), "A film", &options(), &Stop::default(), |progress| {
            heard.push(progress)
        })
        .expect("a title");
    let Record { video, audio, subtitles, .. } = &made.record;
    assert_eq!(made.outcome, Outcome::Made);
    assert!(made.notes.is_empty(), "{:?}", made.notes);
    assert_eq!(library.names(), ["A film"]);
    judge(&made.folder, &made.record);

    assert!(near(made.record.duration_seconds), "{}", made.record.duration_seconds);
    let sizes: Vec<_> = video.iter().map(|one| (one.width, one.height)).collect();
    assert_eq!(sizes, [(160, 90), (320, 180)]);
    assert!(video.iter().all(|one| one.codec.starts_with("avc1.") && one.segments == 3));
    for (index, _) in video.iter().enumerate() {
        let stream = format!("0:v:{index}");
        for manifest in ["master.m3u8", "manifest.mpd"] {
            assert_eq!(frames(&made.folder.join(manifest), &stream).len(), FRAMES, "{manifest}");
        }
    }
    let keys = key_frames(&made.folder.join(&video[0].file));
    assert_eq!(keys, ["0.000000", "2.000000", "4.000000"]);
    assert_eq!(keys, key_frames(&made.folder.join(&video[1].file)));

    let languages: Vec<_> = audio.iter().map(|one| one.language.as_deref()).collect();
    assert_eq!(languages, [Some("en"), Some("de")]);
    let named: Vec<_> = audio.iter().map(|one| (one.name.as_str(), one.is_default)).collect();
    assert_eq!(named, [("English", false), ("Kommentar", true)]);
    assert!(audio.iter().all(|one| one.codec == "mp4a.40.2" && one.channels == 1));

    assert_eq!(subtitles[0].language.as_deref(), Some("fr"));
    let words = fs::read_to_string(made.folder.join(&subtitles[0].file)).expect("subtitles");
    assert!(words.starts_with("WEBVTT") && words.contains("Über &amp; out"), "{words}");
    assert!(matches!(heard.first(), Some(Progress::Making { number: 1, of: 4, .. })));
    assert_eq!(heard.last(), Some(&Progress::Finishing));
    pictures(&made.folder, &made.record);
    let found = titles(library.path()).expect("a library");
    let forms: Vec<_> = found[0].streams.iter().map(|stream| stream.form).collect();
    assert_eq!((found.len(), forms), (1, vec![Form::Hls, Form::Dash]));
}

fn pictures(folder: &Path, record: &Record) {
    let poster = folder.join(record.poster.as_ref().expect("a poster"));
    assert_eq!(probe(&poster, "stream=codec_name,width,height"), "mjpeg,320,180");
    let list = folder.join(record.thumbnails.as_ref().expect("thumbnails"));
    let text = fs::read_to_string(&list).expect("a list");
    let pictures: Vec<_> = text.lines().filter(|line| line.contains("#xywh=")).collect();
    assert_eq!(
        pictures,
        [
            "thumbnails-1.jpg#xywh=0,0,160,90",
            "thumbnails-1.jpg#xywh=160,0,160,90",
            "thumbnails-1.jpg#xywh=320,0,160,90",
            // The sound lasts a few milliseconds longer than the picture.
            "thumbnails-1.jpg#xywh=480,0,160,90",
        ]
    );
    assert!(text.contains("00:00:04.000 --> 00:00:06.000"), "{text}");
    let sheet = list.with_file_name("thumbnails-1.jpg");
    assert_eq!(probe(&sheet, "stream=width,height"), "800,450");
}

#[test]
fn copying_keeps_the_picture_and_the_sound_bit_by_bit() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = plain();
    let library = Library::new();
    let copy = Options { copy: true, ..options() };
    let made = library.ingest(&source, "copied", &copy).expect("a title");
    judge(&made.folder, &made.record);
    let [video] = &made.record.video[..] else { panic!("one size: {:?}", made.record.video) };
    assert_eq!((video.width, video.height), (320, 180));
    // Key frames are a second apart and fragments two.
    assert_eq!(video.segments, 3);
    let file = made.folder.join(&video.file);
    assert_eq!(frames(&file, "0:v"), frames(&source, "0:v"));
    let sum = |lines: Vec<String>| -> Vec<String> {
        lines.iter().map(|line| line.rsplit(',').next().unwrap_or_default().to_owned()).collect()
    };
    let sound = made.folder.join(&made.record.audio[0].file);
    // ffmpeg may drop one more of the encoder's priming frames from one form of the file than from the other.
    let (copied, original) = (sum(frames(&sound, "0:a")), sum(frames(&source, "0:a")));
    assert!(copied.ends_with(&original) && copied.len() <= original.len() + 1);
}

#[test]
fn other_codecs_are_named_and_cut_alike() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = plain();
    let library = Library::new();
    for (codec, name, audio, sound) in [
        (VideoCodec::Hevc, "hvc1.1.", AudioCodec::Opus, "opus"),
        (VideoCodec::Av1, "av01.0.", AudioCodec::Aac, "mp4a.40.2"),
    ] {
        let options = Options { video_codec: codec, audio_codec: audio, ..options() };
        let made = library.ingest(&source, "codecs", &options).expect("a title");
        judge(&made.folder, &made.record);
        assert!(made.notes.is_empty(), "{:?}", made.notes);
        for video in &made.record.video {
            assert!(video.codec.starts_with(name) && video.segments == 3, "{video:?}");
            let keys = key_frames(&made.folder.join(&video.file));
            assert_eq!(keys, ["0.000000", "2.000000", "4.000000"]);
        }
        assert_eq!(made.record.audio[0].codec, sound);
    }
}

#[test]
fn subtitles_from_files_beside_are_carried_over() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, source) = plain();
    let side = |language: &str, file: &str, text: &str| {
        let path = folder.path().join(file);
        fs::write(&path, text).expect("a file");
        SideSubtitles { language: language.into(), path, ..SideSubtitles::default() }
    };
    let subtitles = vec![
        side("eng", "a.srt", "1\n00:00:00,500 --> 00:00:01,000\nOne\n"),
        side("de", "b.vtt", "WEBVTT\n\n00:00.500 --> 00:01.000\nEins\n"),
        side("de", "c.vtt", "WEBVTT\n\n00:00.500 --> 00:01.000\nZwei\n"),
    ];
    let library = Library::new();
    let copy = Options { copy: true, subtitles, ..options() };
    let made = library.ingest(&source, "words", &copy).expect("a title");
    judge(&made.folder, &made.record);
    let names: Vec<_> = made.record.subtitles.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["English", "German", "German 2"]);
    let third =
        fs::read_to_string(made.folder.join(&made.record.subtitles[2].file)).expect("a file");
    assert!(third.contains("Zwei"), "{third}");

    let none = vec![side("en", "none.srt", "no subtitles in here")];
    let error = library
        .ingest(&source, "none", &Options { subtitles: none, ..copy })
        .expect_err("there are none");
    assert!(error.to_string().contains("no subtitles in"), "{error}");
    assert!(!library.title("none").exists());
}

#[test]
fn names_that_need_care_in_urls_and_shells_are_titles_like_any() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, source) = plain();
    let odd = folder.path().join("-i %d \"50%\" 'é' a:b?.mp4");
    fs::rename(&source, &odd).expect("a name like any");
    let library = Library::new();
    let copy = Options { copy: true, ..options() };
    let made = library.ingest(&odd, "-i %d \"50%\" 'é' a:b?", &copy).expect("a title");
    judge(&made.folder, &made.record);
    let forms = [catalog::BROTLI, catalog::GZIP];
    let mut names = names(&made.folder);
    names.retain(|name| !forms.iter().any(|form| name.ends_with(form)));
    assert_eq!(names.len(), 4, "{names:?}");
}
