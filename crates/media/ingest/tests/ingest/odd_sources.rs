//! Sources that users really have and that fail elsewhere.

use std::fs;
use std::path::PathBuf;

use crate::judge::{frames, judge, key_frames, probe};
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make, plain};
use fullbore_ingest::ingest::{Channels, Ingested, Options};
use tempfile::TempDir;

/// A source made by the arguments in `words`, ingested.
fn made(words: &str, file: &str, options: &Options) -> Option<(Library, Ingested)> {
    if !ffmpeg_is_here() {
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join(file);
    make(words, &source);
    let library = Library::new();
    let made = library.ingest(&source, "odd", options).expect("a title");
    judge(&made.folder, &made.record);
    Some((library, made))
}

fn sizes(made: &Ingested) -> Vec<(u32, u32)> {
    made.record.video.iter().map(|one| (one.width, one.height)).collect()
}

/// As phones do: the picture is stored sideways, and the file says so.
fn turned() -> (TempDir, PathBuf) {
    let (folder, source) = plain();
    let turned = folder.path().join("turned.mp4");
    make(&format!("-i {} -c copy -metadata:s:v rotate=90", source.display()), &turned);
    // Newer versions of ffmpeg take no such tag, but have an option that means the same.
    if !probe(&turned, "stream_side_data=rotation").contains("90") {
        make(&format!("-display_rotation:v:0 90 -i {} -c copy", source.display()), &turned);
    }
    (folder, turned)
}

#[test]
fn a_phones_upright_film_stays_upright() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, turned) = turned();
    let library = Library::new();
    let made = library.ingest(&turned, "upright", &options()).expect("a title");
    judge(&made.folder, &made.record);
    assert_eq!(sizes(&made), [(90, 160), (180, 320)]);
    let poster = made.folder.join(made.record.poster.as_ref().expect("a poster"));
    assert_eq!(probe(&poster, "stream=width,height"), "180,320");
}

#[test]
fn a_film_that_lies_on_its_side_is_upright_even_where_it_is_copied() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, turned) = turned();
    let library = Library::new();
    let copy = Options { copy: true, ..options() };
    let made = library.ingest(&turned, "upright", &copy).expect("a title");
    judge(&made.folder, &made.record);
    assert_eq!(sizes(&made), [(180, 320)]);
    // The pixels are unchanged; the file says how to turn them.
    let file = made.folder.join(&made.record.video[0].file);
    assert!(probe(&file, "stream_side_data=rotation").contains("90"));
    let poster = made.folder.join(made.record.poster.as_ref().expect("a poster"));
    assert_eq!(probe(&poster, "stream=width,height"), "180,320");
}

#[test]
fn a_rate_that_varies_becomes_constant_and_key_frames_stay_aligned() {
    let words = "-f lavfi -i testsrc2=size=320x180:rate=30:duration=6 \
                 -vf select=lt(mod(n\\,30)\\,20) -fps_mode vfr -c:v libx264 -preset ultrafast";
    let Some((_library, made)) = made(words, "vfr.mp4", &options()) else { return };
    assert_eq!(made.record.video[0].frames_per_second, 30.0);
    let keys: Vec<_> =
        made.record.video.iter().map(|one| key_frames(&made.folder.join(&one.file))).collect();
    assert_eq!(keys[0].len(), 3);
    assert_eq!(keys[0], keys[1]);
    assert!((made.record.duration_seconds - 6.0).abs() < 0.5, "{}", made.record.duration_seconds);
}

#[test]
fn odd_sizes_become_even_and_never_larger() {
    let words = "-f lavfi -i testsrc2=size=321x181:rate=15:duration=3,format=yuv444p \
                 -c:v libx264 -preset ultrafast";
    let Some((_library, made)) = made(words, "odd.mkv", &options()) else { return };
    assert_eq!(sizes(&made), [(160, 90), (320, 180)]);
    assert!(made.record.audio.is_empty());
    assert_eq!(probe(&made.folder.join(&made.record.video[1].file), "stream=pix_fmt"), "yuv420p");
}

#[test]
fn ten_bits_of_high_dynamic_range_become_eight_of_the_standard_one_and_it_says_so() {
    let words = "-f lavfi -i testsrc2=size=320x180:rate=15:duration=3,format=yuv420p10le \
                 -c:v libx265 -preset ultrafast -x265-params log-level=error \
                 -color_primaries bt2020 -color_trc smpte2084 -colorspace bt2020nc";
    let Some((_library, made)) = made(words, "hdr.mkv", &options()) else { return };
    let video = made.folder.join(&made.record.video[1].file);
    let entries = "stream=pix_fmt,color_transfer,color_primaries";
    let told = probe(&video, entries);
    assert!(told.starts_with("yuv420p,") && !told.contains("2084"), "{told}");
    assert!(made.notes.iter().any(|note| note.contains("dynamic range")), "{:?}", made.notes);
}

#[test]
fn surround_is_mixed_down_or_kept_alone_on_request() {
    let words = "-f lavfi -i testsrc2=size=160x90:rate=15:duration=3 \
                 -f lavfi -i anoisesrc=duration=3:amplitude=0.1,aformat=channel_layouts=5.1(side) \
                 -c:v libx264 -preset ultrafast -c:a ac3";
    let mixed = Options { channels: Channels::Stereo, ..options() };
    let Some((_library, stereo)) = made(words, "surround.mkv", &mixed) else { return };
    let [sound] = &stereo.record.audio[..] else { panic!("{:?}", stereo.record.audio) };
    assert_eq!(sound.channels, 2);
    assert!(stereo.notes.iter().any(|note| note.contains("6 channels were mixed down to 2")));
    let kept = Options { channels: Channels::Source, ..options() };
    let Some((_library, made)) = made(words, "surround.mkv", &kept) else { return };
    let [sound] = &made.record.audio[..] else { panic!("{:?}", made.record.audio) };
    assert_eq!(sound.channels, 6);
    let file = made.folder.join(&made.record.audio[0].file);
    assert_eq!(probe(&file, "stream=channels"), "6");
}

#[test]
fn a_picture_without_sound_is_a_title_too() {
    let words =
        "-f lavfi -i testsrc2=size=160x90:rate=15:duration=3 -c:v libx264 -preset ultrafast";
    let Some((_library, made)) = made(words, "silent.mp4", &options()) else { return };
    assert!(made.record.audio.is_empty());
    let master = fs::read_to_string(made.folder.join("master.m3u8")).expect("a playlist");
    assert!(!master.contains("AUDIO") && !master.contains("mp4a"), "{master}");
    assert_eq!(frames(&made.folder.join("master.m3u8"), "0:v:0").len(), 45);
}

#[test]
fn a_single_frame_is_a_title_with_a_poster() {
    let words = "-f lavfi -i testsrc2=size=160x90:rate=15 -frames:v 1 -c:v libx264";
    let Some((_library, made)) = made(words, "frame.mp4", &options()) else { return };
    let poster = made.folder.join(made.record.poster.as_ref().expect("a poster"));
    assert_eq!(probe(&poster, "stream=width,height"), "160,90");
}

#[test]
fn sound_alone_is_a_title_too() {
    let words = "-f lavfi -i sine=440:duration=5 -c:a libmp3lame";
    let Some((_library, made)) = made(words, "song.mp3", &options()) else { return };
    assert!(made.record.video.is_empty() && made.record.poster.is_none());
    assert!(!frames(&made.folder.join("master.m3u8"), "0:a:0").is_empty());
}

#[test]
fn sound_that_begins_late_stays_with_its_picture() {
    let words = "-f lavfi -i testsrc2=size=160x90:rate=15:duration=4 \
                 -itsoffset 1.5 -f lavfi -i sine=440:duration=2.5 -c:v libx264 -preset ultrafast -c:a aac";
    let Some((_library, made)) = made(words, "late.mkv", &options()) else { return };
    // The silence before it is encoded with it.
    let seconds = probe(&made.folder.join(&made.record.audio[0].file), "stream=duration");
    let seconds: f64 = seconds.parse().expect("a number");
    assert!((seconds - 4.0).abs() < 0.2, "{seconds}");
}

#[test]
fn a_stream_of_television_begins_at_zero() {
    // MPEG-TS: time stamps begin anywhere, pixels are not square, pictures are interlaced.
    let words = "-f lavfi -i testsrc2=size=360x288:rate=25:duration=4 -f lavfi -i sine=440:duration=4 \
                 -vf setsar=64/45 -c:v mpeg2video -flags +ilme+ildct -top 1 -c:a mp2 -output_ts_offset 5000 -f mpegts";
    let Some((_library, made)) = made(words, "tv.ts", &options()) else { return };
    assert_eq!(sizes(&made).last(), Some(&(320, 180)));
    assert_eq!(key_frames(&made.folder.join(&made.record.video[0].file))[0], "0.000000");
    let text = fs::read_to_string(made.folder.join("manifest.mpd")).expect("a manifest");
    assert!(text.contains("sar=\"1:1\""), "{text}");
}

#[test]
fn a_stream_of_television_is_copied_as_well() {
    // In MPEG-TS both H.264 and AAC are framed differently than in MP4.
    let words = "-f lavfi -i testsrc2=size=320x180:rate=25:duration=4 -f lavfi -i sine=440:duration=4 \
                 -c:v libx264 -preset ultrafast -g 25 -c:a aac -output_ts_offset 5000 -f mpegts";
    let copy = Options { copy: true, ..options() };
    let Some((_library, made)) = made(words, "tv.ts", &copy) else { return };
    assert!(made.notes.is_empty(), "{:?}", made.notes);
    assert_eq!(frames(&made.folder.join("master.m3u8"), "0:v:0").len(), 100);
}

#[test]
fn vp9_is_copied_and_its_codec_named_with_its_colours() {
    let copy = Options { copy: true, segment_seconds: 1.0, ..options() };
    let encoder = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 15";
    let picture = "-f lavfi -i testsrc2=size=160x90:rate=15:duration=3";
    let pq =
        "-pix_fmt yuv420p10le -color_primaries bt2020 -color_trc smpte2084 -colorspace bt2020nc";
    let hlg = "-pix_fmt yuv420p10le -color_trc arib-std-b67";
    let bt709 = "-color_primaries bt709 -color_trc bt709 -colorspace bt709 -color_range tv";
    for (tags, file, codec) in [
        ("", "film.webm", "vp09.00.10.08"),
        (bt709, "hd.webm", "vp09.00.10.08.01.01.01.01.00"),
        (pq, "hdr.mkv", "vp09.02.10.10.01.09.16.09.00"),
        (hlg, "hlg.mkv", "vp09.02.10.10.01.09.18.09.00"),
    ] {
        let words = format!("{picture} {encoder} {tags}");
        let Some((_library, made)) = made(&words, file, &copy) else { return };
        let found = &made.record.video[0].codec;
        // The level, the second number, depends on the encoder's version.
        let without_level = |codec: &str| [&codec[..8], &codec[10..]].concat();
        assert_eq!(without_level(found), without_level(codec), "{found}");
        for manifest in ["master.m3u8", "manifest.mpd"] {
            let text = fs::read_to_string(made.folder.join(manifest)).expect("a manifest");
            assert!(text.contains(found.as_str()), "{text}");
            assert_eq!(frames(&made.folder.join(manifest), "0:v:0").len(), 45, "{manifest}");
        }
        let master = fs::read_to_string(made.folder.join("master.m3u8")).expect("a playlist");
        let ranges: Vec<_> = master.split("VIDEO-RANGE=").skip(1).collect();
        let expected = match file {
            "hdr.mkv" => Some("PQ"),
            "hlg.mkv" => Some("HLG"),
            _ => None,
        };
        // Of the picture, and of its key frames.
        assert_eq!(ranges.len(), expected.map_or(0, |_| 2), "{master}");
        assert!(ranges.iter().all(|rest| expected.is_some_and(|range| rest.starts_with(range))));
        assert_eq!(made.record.video[0].range, expected.map(str::to_lowercase));
    }
}

#[test]
fn copied_segments_are_called_independent_only_if_they_are() {
    let copy = Options { copy: true, segment_seconds: 1.0, ..options() };
    for (open, is_independent) in [(0, true), (1, false)] {
        let words = format!(
            "-f lavfi -i testsrc2=size=320x180:rate=25:duration=4 -f lavfi -i sine=440:duration=4 -c:a aac -c:v libx264 \
             -preset veryfast -x264-params open-gop={open}:keyint=26:scenecut=0:bframes=3:b-adapt=0"
        );
        let Some((_library, made)) = made(&words, "film.mp4", &copy) else { return };
        let text = |name: &str| fs::read_to_string(made.folder.join(name)).expect("a text");
        let (master, media) = (text("master.m3u8"), text(&made.record.video[0].playlist));
        for playlist in [master, media] {
            assert_eq!(playlist.contains("INDEPENDENT-SEGMENTS"), is_independent, "{playlist}");
        }
        let access = format!("StartsWithSAP=\"{}\"", if is_independent { 1 } else { 3 });
        assert!(text("manifest.mpd").contains(&access), "{open}");
    }
}

#[test]
fn sound_that_begins_late_is_not_copied_and_a_picture_that_does_is_refused() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, source) = plain();
    let source = source.display();
    let copy = Options { copy: true, ..options() };
    let library = Library::new();

    let late = folder.path().join("late sound.mkv");
    make(&format!("-i {source} -itsoffset 1.5 -i {source} -map 0:v -map 1:a -c copy"), &late);
    let made = library.ingest(&late, "sound", &copy).expect("a title");
    judge(&made.folder, &made.record);
    assert_eq!(made.notes, ["Audio: re-encoded, it begins 1.5 s late"]);

    let late = folder.path().join("late picture.mkv");
    make(&format!("-itsoffset 1.5 -i {source} -i {source} -map 0:v -map 1:a -c copy"), &late);
    let error = library.ingest(&late, "picture", &copy).expect_err("it cannot be repaired");
    assert!(error.to_string().contains("begins 1.5 s after its sound"), "{error}");
    let made = library.ingest(&late, "picture", &options()).expect("a title");
    judge(&made.folder, &made.record);
    assert!((made.record.duration_seconds - 7.5).abs() < 0.2, "{}", made.record.duration_seconds);
}

#[test]
fn subtitles_that_cannot_be_read_are_left_out_with_a_note() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, source) = plain();
    let words = folder.path().join("words.srt");
    fs::write(&words, "1\n00:00:01,000 --> 00:00:02,000\nXXXXX\n").expect("a file");
    let whole = folder.path().join("whole.mkv");
    let arguments = format!("-i {} -i {} -c copy -c:s srt", source.display(), words.display());
    make(&arguments, &whole);
    // Like a file in Latin 1 that was never converted: ffmpeg does not write one, so the bytes are changed afterwards.
    let mut bytes = fs::read(&whole).expect("a file");
    let at = bytes.windows(5).position(|part| part == b"XXXXX").expect("the words");
    bytes[at..at + 5].fill(0xfc);
    fs::write(&whole, bytes).expect("written");
    let library = Library::new();
    let copy = Options { copy: true, ..options() };
    let made = library.ingest(&whole, "words", &copy).expect("a title");
    judge(&made.folder, &made.record);
    assert!(made.record.subtitles.is_empty());
    assert!(
        made.notes[0].contains("left out: subtitle stream 2 (Invalid UTF-8"),
        "{:?}",
        made.notes
    );
}

#[test]
fn streams_with_nothing_to_play_are_named() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, source) = plain();
    let path = |name: &str| folder.path().join(name);
    let empty = "[Script Info]\nScriptType: v4.00+\n\n[Events]\n\
        Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n";
    fs::write(path("empty.ass"), empty).expect("a file");
    fs::write(path("font.ttf"), "this is no font").expect("a file");
    let (from, words, font) = (source.display(), path("empty.ass"), path("font.ttf"));
    let attached = format!("-attach {} -metadata:s:t mimetype=font/ttf", font.display());
    make(
        &format!("-i {from} -i {} -map 0 -map 1 -c copy {attached}", words.display()),
        &path("font.mkv"),
    );
    make(&format!("-i {from} -c copy -timecode 01:00:00:00"), &path("data.mov"));
    let library = Library::new();
    let copy = Options { copy: true, ..options() };
    let notes = |name: &str| {
        let made = library.ingest(&path(name), name, &copy).expect("a title");
        judge(&made.folder, &made.record);
        made.notes
    };
    let left_out = notes("font.mkv");
    let expected = ["left out: subtitle stream 2 (it is empty)", "left out: attachments: stream 3"];
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    assert!(left_out.iter().zip(expected).all(|(note, is)| note.starts_with(is)), "{left_out:?}");
    let left_out = notes("data.mov");
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert!(left_out[0].starts_with("left out: data: stream 2"), "{left_out:?}");
}
