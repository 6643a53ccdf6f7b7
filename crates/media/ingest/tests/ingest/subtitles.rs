//! Subtitles of every form: text stays text, and looks and places are kept as far as WebVTT has them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::judge::judge;
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make};
use fullbore_ingest::ingest::{Ingested, Options, SideSubtitles};
use tempfile::TempDir;

const SPECIAL_SRT: &str = "1\n00:00:01,000 --> 00:00:02,000\nQ&A: I <3 you\n\n2\n00:00:02,000 --> 00:00:03,000\nif a < b && c > d\n\n\
    3\n00:00:03,000 --> 00:00:04,000\narrow --> here &amp; there &lt;3\n";
const SPECIAL_VTT: &str = "WEBVTT\n\n00:01.000 --> 00:02.000\nQ&amp;A: I &lt;3 you\n\n\
    00:02.000 --> 00:03.000\nif a &lt; b &amp;&amp; c &gt; d\n\n00:03.000 --> 00:04.000\narrow --&gt; here &amp; there &lt;3\n";
const STYLE_VTT: &str = "WEBVTT\n\nSTYLE\n::cue(.y){color:yellow}\n\nREGION\nid:r\nwidth:40%\n\n00:01.000 --> 00:02.000 line:10%\n\
    <v Ann>Up here &amp; &lt;3\n";
const ASS_HEAD: &str = "[Script Info]\nScriptType: v4.00+\n[V4+ Styles]\nFormat: Name, Fontname, Fontsize, PrimaryColour, Italic, Alignment\n\
    Style: Default,Arial,16,&H00FFFFFF,0,2\nStyle: Sign,Arial,16,&H0000FFFF,-1,8\n[Events]\n\
    Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n";
const SPECIAL_ASS: &str = "Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,first\\N\\Nafter a blank line\n\
    Dialogue: 0,0:00:03.00,0:00:04.00,Default,,0,0,0,,{\\p1}m 0 0 l 100 0 100 100{\\p0}\n\
    Dialogue: 0,0:00:05.00,0:00:05.00,Default,,0,0,0,,no length\n";
const SIGNS_ASS: &str = "Dialogue: 0,0:00:02.00,0:00:03.00,Default,,0,0,0,,R&B <live> {\\i1\\c&HFF0000&}now{\\r}!\n\
    Dialogue: 0,0:00:01.00,0:00:02.00,Sign,,0,0,0,,EXIT\n\
    Dialogue: 1,0:00:01.00,0:00:02.00,Sign,,0,0,0,,EXIT\n\
    Dialogue: 0,0:00:04.00,0:00:05.00,Default,,0,0,0,,{\\an7\\pos(192,72)}there\n";
const SIGNS_VTT: &str = "WEBVTT\n\n00:01.000 --> 00:02.000 line:0\n<c.yellow><i>EXIT</i></c>\n\n\
    00:02.000 --> 00:03.000\nR&amp;B &lt;live&gt; <c.blue><i>now</i></c>!\n\n\
    00:04.000 --> 00:05.000 line:25% position:50% align:start\nthere\n";

/// A film of five seconds, which copies quickly, in a folder of its own.
fn film() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("film.mp4");
    let words =
        "-f lavfi -i testsrc2=size=160x90:rate=10:duration=5 -c:v libx264 -preset ultrafast";
    make(&format!("{words} -pix_fmt yuv420p -g 20"), &path);
    (folder, path)
}

fn ingested(film: &Path, side: &[(&str, &[u8])]) -> (Library, Ingested) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |(name, bytes): &(&str, &[u8])| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("a file");
        SideSubtitles { language: "en".into(), path, ..SideSubtitles::default() }
    };
    let subtitles = side.iter().map(file).collect();
    let library = Library::new();
    let options = Options { copy: true, subtitles, ..options() };
    let made = library.ingest(film, "words", &options).expect("a title");
    judge(&made.folder, &made.record);
    (library, made)
}

/// The files of subtitles in a title.
fn written(made: &Ingested) -> Vec<String> {
    let read = |file: &String| fs::read_to_string(made.folder.join(file)).expect("a file");
    made.record.subtitles.iter().map(|one| read(&one.file)).collect()
}

/// The subtitles of a film into which ffmpeg has put those in `file`, by the arguments in `words`.
fn of_track(file: &str, text: &str, words: &str, container: &str) -> (Vec<String>, Vec<String>) {
    let (folder, film) = film();
    let subtitles = folder.path().join(file);
    fs::write(&subtitles, text).expect("a file");
    let whole = folder.path().join(format!("whole.{container}"));
    make(
        &format!("-i {} -i {} -map 0 -map 1 -c copy {words}", film.display(), subtitles.display()),
        &whole,
    );
    let (_library, made) = ingested(&whole, &[]);
    (written(&made), made.notes)
}

#[test]
fn text_of_files_stays_text() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, film) = film();
    let special = format!("{ASS_HEAD}{SPECIAL_ASS}");
    let signs = format!("{ASS_HEAD}{SIGNS_ASS}");
    let utf16: Vec<u8> =
        format!("\u{feff}{SPECIAL_SRT}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let (_library, made) = ingested(
        &film,
        &[
            ("special.srt", SPECIAL_SRT.as_bytes()),
            ("wide.srt", &utf16),
            ("special.ass", special.as_bytes()),
            ("signs.ass", signs.as_bytes()),
        ],
    );
    let special = "WEBVTT\n\n00:01.000 --> 00:02.000\nfirst\nafter a blank line\n";
    assert_eq!(written(&made), [SPECIAL_VTT, SPECIAL_VTT, special, SIGNS_VTT]);
    assert!(made.notes.is_empty(), "{:?}", made.notes);
}

#[test]
fn webvtt_is_taken_as_it_is() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, film) = film();
    let faulty = "WEBVTT\n\nfirst\n00:02.000 --> 00:03.000 align:end\n<c.loud>A</c>\n\n00:09,000 --> 00:10,000\ninvalid\n\n\
        00:01.000 --> 00:01.000\nno length\n";
    let (_library, made) =
        ingested(&film, &[("style.vtt", STYLE_VTT.as_bytes()), ("faulty.vtt", faulty.as_bytes())]);
    let mended = "WEBVTT\n\nfirst\n00:02.000 --> 00:03.000 align:end\n<c.loud>A</c>\n";
    assert_eq!(written(&made), [STYLE_VTT, mended]);
    let [note] = &made.notes[..] else { panic!("one note: {:?}", made.notes) };
    assert!(note.starts_with("left out: 2 invalid") && note.ends_with("faulty.vtt"), "{note}");
}

#[test]
fn text_of_tracks_stays_text() {
    if !ffmpeg_is_here() {
        return;
    }
    let (srt, notes) = of_track("a.srt", SPECIAL_SRT, "", "mkv");
    assert_eq!((srt, notes), (vec![SPECIAL_VTT.to_owned()], vec![]));
    let (ass, notes) = of_track("a.ass", &format!("{ASS_HEAD}{SIGNS_ASS}"), "", "mkv");
    assert_eq!((ass, notes), (vec![SIGNS_VTT.to_owned()], vec![]));
    let vtt = "WEBVTT\n\none\n00:01.000 --> 00:02.000 line:10%\n<v Ann>Up here &amp; &lt;3\n";
    let (webvtt, notes) = of_track("a.vtt", vtt, "", "mkv");
    assert_eq!((webvtt, notes), (vec![vtt.to_owned()], vec![]));
    // ffmpeg writes styles of 3GPP text, which count characters.
    let srt = "1\n00:00:01,000 --> 00:00:02,000\nÄ & <3 {x} <i>there</i> &amp; \\o/\n";
    let (mov, notes) = of_track("a.srt", srt, "-c:s mov_text", "mp4");
    let expected =
        "WEBVTT\n\n00:01.000 --> 00:02.000\nÄ &amp; &lt;3 {x} <i>there</i> &amp;amp; \\o/\n";
    assert_eq!((mov, notes), (vec![expected.to_owned()], vec![]));
}

#[test]
fn cues_of_a_film_that_begins_late_keep_their_place_in_it() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, film) = film();
    let subtitles = folder.path().join("a.srt");
    fs::write(&subtitles, SPECIAL_SRT).expect("a file");
    let whole = folder.path().join("whole.mkv");
    let inputs = format!("-i {} -i {}", film.display(), subtitles.display());
    make(&format!("{inputs} -c copy -output_ts_offset 10"), &whole);
    let library = Library::new();
    let made = library.ingest(&whole, "late", &options()).expect("a title");
    assert_eq!(written(&made), [SPECIAL_VTT]);
}

#[test]
fn a_track_of_captions_becomes_text() {
    if !ffmpeg_is_here() {
        return;
    }
    let scc = "Scenarist_SCC V1.0\n\n00:00:01:00\t9420 9420 94ae 94ae 9470 9470 c8e5 ecec ef80 942c 942c 942f 942f\n\n\
        00:00:03:00\t9420 9420 94ae 94ae 9470 9470 5768 79a1 942c 942c 942f 942f\n\n00:00:04:15\t942c 942c\n";
    let (text, notes) = of_track("a.scc", scc, "", "mov");
    let [text] = &text[..] else { panic!("one track: {text:?} {notes:?}") };
    assert!(text.contains("00:01.000 --> 00:03.000") && text.contains("\nHello\n"), "{text}");
    assert!(text.contains("\nWhy!\n"), "{text}");
}

/// mkvmerge names WebVTT differently from ffmpeg, which has no name for that codec before version 8.
#[test]
fn webvtt_by_its_other_name_is_recognised_by_its_header() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, film) = film();
    let subtitles = folder.path().join("a.vtt");
    let text = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>Up here &amp; &lt;3\n";
    fs::write(&subtitles, text).expect("a file");
    let whole = folder.path().join("whole.mkv");
    let words = "-map 0 -map 1 -c copy -metadata:s:s:0 title=WEBVTT";
    make(&format!("-i {} -i {} {words}", film.display(), subtitles.display()), &whole);
    let mut bytes = fs::read(&whole).expect("a file");
    // The title becomes the header: both elements have two bytes of name and one of length.
    for (old, new) in [
        (&b"D_WEBVTT/SUBTITLES"[..], &b"S_TEXT/WEBVTT\0\0\0\0\0"[..]),
        (b"\x53\x6e\x86WEBVTT", b"\x63\xa2\x86WEBVTT"),
    ] {
        let at = bytes.windows(old.len()).position(|part| part == old).expect("the old name");
        bytes[at..at + new.len()].copy_from_slice(new);
    }
    fs::write(&whole, bytes).expect("written");
    let (_library, made) = ingested(&whole, &[]);
    assert_eq!(written(&made), [text]);
}
