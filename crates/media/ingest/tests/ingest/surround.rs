//! Surround, and sound in codecs that not every player plays, are kept next to a version that everything plays.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use catalog::AudioRecord;

use crate::in_sync::{are_in_sync, flashing, is_in_sync};
use crate::judge::{group, judge, master, probe, said};
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make};
use crate::sync::joined;
use fullbore_ingest::ingest::{AudioCodec, Channels, Ingested, Options};
use tempfile::TempDir;

/// A film of four seconds, whose sounds are encoded and labelled by `words`: 5.1, 5.1 and stereo.
fn film(words: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("film.mkv");
    let noise = "-f lavfi -i anoisesrc=d=4:a=0.1:r=48000";
    make(
        &format!(
            "-f lavfi -i testsrc2=size=320x180:rate=15:duration=4 {noise},aformat=channel_layouts=5.1(side) \
             {noise},aformat=channel_layouts=5.1 {noise},aformat=channel_layouts=stereo -map 0 -map 1 -map 2 -map 3 \
             -c:v libx264 -preset ultrafast -g 30 -pix_fmt yuv420p -metadata:s:a:0 language=eng -metadata:s:a:1 language=ger \
             -metadata:s:a:2 language=eng {words}"
        ),
        &path,
    );
    (folder, path)
}

fn ingested(film: &Path, options: &Options) -> (Library, Ingested) {
    let library = Library::new();
    let made = library.ingest(film, "film", options).expect("a title");
    judge(&made.folder, &made.record);
    assert!(library.faults("film").is_empty());
    (library, made)
}

/// Name, codec and channels of each sound.
fn sounds(made: &Ingested) -> Vec<(&str, &str, u32)> {
    let all = made.record.audio.iter();
    all.map(|one| (one.name.as_str(), one.codec.as_str(), one.channels)).collect()
}

/// Checksums of a stream's packets, without their times.
fn packets(file: &Path, stream: &str) -> Vec<String> {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(file);
    let text = said(command.args(["-map", stream, "-c", "copy", "-f", "framemd5", "-"]));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some(line.split(',').nth(5)?.trim().to_owned())).collect()
}

fn master_text(made: &Ingested) -> String {
    fs::read_to_string(made.folder.join(&made.record.hls)).expect("a playlist")
}

/// The file of each sound in a group of sounds, by the name in its last part.
fn in_group(made: &Ingested, id: &str) -> Vec<String> {
    let master = master(&made.folder.join(&made.record.hls));
    let uris = group(&master, Some(id)).filter_map(|one| one.uri.as_deref());
    uris.filter_map(|uri| Some(uri.rsplit('/').next()?.strip_suffix(".m3u8")?.to_owned())).collect()
}

fn file_of(made: &Ingested, one: &AudioRecord) -> PathBuf {
    made.folder.join(&one.file)
}

/// The codecs of the sounds of each group, in the order of the playlist.
fn sound_codecs(made: &Ingested) -> Vec<String> {
    let master = master(&made.folder.join(&made.record.hls));
    let variants = master.variants.iter().filter(|one| !one.is_i_frame);
    let mut all: Vec<_> = variants
        .filter_map(|one| Some(one.codecs.as_deref()?.split_once(',')?.1.to_owned()))
        .collect();
    all.dedup();
    all
}

const AAC: &str = "mp4a.40.2";

#[test]
fn surround_is_kept_next_to_stereo_in_groups_by_codec() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, path) =
        film("-c:a:0 ac3 -c:a:1 flac -c:a:2 aac -disposition:a:2 comment -disposition:a:0 default");
    let (_library, made) = ingested(&path, &options());
    assert_eq!(
        sounds(&made),
        [
            ("English", AAC, 2),
            ("German", AAC, 2),
            ("English (commentary)", AAC, 2),
            ("English (5.1, AC-3)", "ac-3", 6),
            ("German (5.1, E-AC-3)", "ec-3", 6),
        ]
    );
    assert_eq!(made.notes, [""; 0]);
    let basic = ["audio-1-en", "audio-2-de", "audio-3-en"];
    assert_eq!(in_group(&made, "audio"), basic);
    let (ac3, eac3) = ("audio-1-en-ac3", "audio-2-de-eac3");
    // What plays E-AC-3 plays AC-3, but not the other way round.
    assert_eq!(in_group(&made, "audio-ac3"), [ac3, "audio-2-de", "audio-3-en"]);
    assert_eq!(in_group(&made, "audio-eac3"), [ac3, eac3, "audio-3-en"]);
    // The codec that sets a group apart is the first, by which hls.js knows it.
    assert_eq!(sound_codecs(&made), [AAC, "ac-3,mp4a.40.2", "ec-3,ac-3,mp4a.40.2"]);
    let audio = &made.record.audio;
    assert_eq!(audio[3].version_of.as_ref(), Some(&audio[0].file));
    assert_eq!(audio[4].version_of.as_ref(), Some(&audio[1].file));
    // AC-3 is a copy, from its first packet on.
    assert_eq!(packets(&file_of(&made, &audio[3]), "0:a"), packets(&path, "0:a:0"));
    let what = "stream=codec_name,channel_layout,bit_rate";
    let probed = probe(&file_of(&made, &audio[4]), what);
    // A comma follows if ffprobe knows more about the stream.
    assert_eq!(probed.trim_end_matches(','), "eac3,5.1(side),384000");
    let dash = fs::read_to_string(made.folder.join("manifest.mpd")).expect("a manifest");
    assert_eq!(dash.matches("contentType=\"audio\"").count(), 5);
    assert_eq!(dash.matches("selectionPriority=\"2\"").count(), 3);
    assert!(dash.contains("<Label>English (5.1, AC-3)</Label>"), "{dash}");
    assert_eq!(dash.matches("ChannelConfiguration\" value=\"6\"").count(), 2, "{dash}");
}

#[test]
fn copies_keep_each_sound_that_some_player_plays() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, path) = film("-c:a:0 eac3 -c:a:1 aac -c:a:2 flac -sample_fmt:a:2 s32");
    let (_library, made) = ingested(&path, &Options { copy: true, ..options() });
    assert_eq!(
        sounds(&made),
        [
            ("English", AAC, 2),
            ("German", AAC, 2),
            ("English 2", AAC, 2),
            ("English (5.1, E-AC-3)", "ec-3", 6),
            ("German (5.1)", AAC, 6),
            ("German (5.1, E-AC-3)", "ec-3", 6),
            ("English 2 (FLAC)", "fLaC", 2),
        ]
    );
    assert_eq!(made.notes, [""; 0]);
    for (one, stream) in [(3, "0:a:0"), (4, "0:a:1"), (6, "0:a:2")] {
        let copy = file_of(&made, &made.record.audio[one]);
        assert_eq!(packets(&copy, "0:a"), packets(&path, stream), "{stream}");
    }
    let (first, second) = ("audio-1-en", "audio-2-de");
    let in_eac3 = ["audio-1-en-eac3", "audio-2-de-eac3", "audio-3-en"];
    assert_eq!(in_group(&made, "audio-eac3"), in_eac3);
    assert_eq!(in_group(&made, "audio-flac"), [first, second, "audio-3-en-flac"]);
    // AAC in 5.1 next to AAC in stereo is only in DASH; by HLS, its surround is E-AC-3.
    assert!(!master_text(&made).contains("audio-2-de-aac"));
    let dash = fs::read_to_string(made.folder.join(&made.record.dash)).expect("a manifest");
    assert!(dash.contains("audio-2-de-aac.mp4") && dash.contains("<Label>German (5.1)</Label>"));
}

#[test]
fn copies_are_in_stereo_on_request() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, path) = film("-c:a:0 eac3 -c:a:1 aac -c:a:2 aac");
    let options = Options { copy: true, channels: Channels::Stereo, ..options() };
    let (_library, made) = ingested(&path, &options);
    assert_eq!(sounds(&made), [("English", AAC, 2), ("German", AAC, 2), ("English 2", AAC, 2)]);
    assert!(made.notes.contains(&"German: 6 channels were mixed down to 2".to_owned()));
    let stereo = file_of(&made, &made.record.audio[2]);
    assert_eq!(packets(&stereo, "0:a"), packets(&path, "0:a:2"), "it was stereo");
}

/// The number of channels and of their arrangement, in DASH, of each sound of a title of 7.1.
fn of_seven_one(source: &Path, options: &Options) -> (Vec<(u32, String)>, Vec<String>) {
    let (_library, made) = ingested(source, options);
    let dash = fs::read_to_string(made.folder.join(&made.record.dash)).expect("a manifest");
    let numbers = dash.split("ChannelConfiguration\" value=\"").skip(1);
    let numbers = numbers.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
    let channels = made.record.audio.iter().map(|one| one.channels);
    (channels.zip(numbers).collect(), made.notes.clone())
}

#[test]
fn seven_channels_have_the_number_of_their_arrangement() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = |name: &str, words: &str| {
        let path = folder.path().join(name);
        let noise = "-f lavfi -i anoisesrc=d=2:a=0.1:r=48000 -af aformat=channel_layouts=7.1";
        make(&format!("{noise} {words}"), &path);
        path
    };
    let (wav, aac) = (source("sound.wav", "-c:a pcm_s16le"), source("sound.mp4", "-c:a aac"));
    let owned = |all: &[(u32, &str)]| -> Vec<(u32, String)> {
        all.iter().map(|(channels, number)| (*channels, (*number).to_owned())).collect()
    };
    let (found, notes) = of_seven_one(&wav, &options());
    assert_eq!(found, owned(&[(2, "2"), (6, "6")]));
    assert_eq!(notes, ["Audio: 8 channels were mixed down to 6"]);
    let source = Options { channels: Channels::Source, ..options() };
    assert_eq!(of_seven_one(&wav, &source).0, owned(&[(6, "6")]));
    let opus = Options { audio_codec: AudioCodec::Opus, ..source.clone() };
    assert_eq!(of_seven_one(&wav, &opus).0, owned(&[(8, "12")]));
    // ffmpeg's AAC says 7, which is 7.1 with wide front loudspeakers, and ffprobe calls it 7.1. The manifest says what the file says.
    let copy = Options { copy: true, ..source };
    assert_eq!(of_seven_one(&aac, &copy).0, owned(&[(8, "7")]));
}

#[test]
fn sound_alone_has_its_surround_too() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, words, codec) in [
        ("song.ac3", "aformat=channel_layouts=5.1(side) -c:a ac3", "ac-3"),
        ("song.wav", "aformat=channel_layouts=5.0 -c:a pcm_s16le", "ec-3"),
    ] {
        let path = folder.path().join(name);
        make(&format!("-f lavfi -i anoisesrc=d=5:a=0.1:r=48000 -af {words}"), &path);
        let (_library, made) = ingested(&path, &options());
        let [basic, other] = &made.record.audio[..] else { panic!("{:?}", made.record.audio) };
        assert_eq!((basic.channels, other.codec.as_str()), (2, codec));
    }
}

/// A playlist of the title in `made` with its first size and the sounds of one group only.
fn only_group(made: &Ingested, id: &str) -> &'static str {
    const NAME: &str = "only.m3u8";
    let text = master_text(made);
    let mut lines = text.lines();
    let mut only = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with("#EXT-X-STREAM-INF") {
            let uri = lines.next().expect("a variant's playlist");
            if line.contains(&format!("AUDIO=\"{id}\"")) {
                only.extend([line, uri]);
            }
        } else if !line.contains("GROUP-ID") || line.contains(&format!("GROUP-ID=\"{id}\"")) {
            only.push(line);
        }
    }
    fs::write(made.folder.join(NAME), only.join("\n")).expect("room");
    NAME
}

#[test]
fn surround_is_in_sync_with_an_encoded_picture() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let film = flashing().display();
    let picture = "-c:v libx264 -preset veryfast -g 25";
    let ac3 = &format!("{picture} -c:a ac3 -ac 6");
    let jumps = |starts: &[u32]| {
        let folder = folder.path().join(format!("{starts:?}"));
        fs::create_dir(&folder).expect("a folder");
        joined(&folder, ac3, "mpegts", starts)
    };
    let late = |name: &str, words: &str| {
        let path = folder.path().join(name);
        make(&format!("-i {film} -itsoffset 0.06 -i {film} -map 0:v -map 1:a {words}"), &path);
        path
    };
    for (source, codec, group) in [
        (late("ac3.mkv", ac3), "ac-3", "audio-ac3"),
        (late("flac.mkv", &format!("{picture} -c:a flac -ac 6")), "ec-3", "audio-eac3"),
        (jumps(&[50, 3, 300]), "ac-3", "audio-ac3"),
        // Two seconds forwards; six back, of which ffmpeg makes a gap of six.
        (jumps(&[300, 306]), "ac-3", "audio-ac3"),
        (jumps(&[306, 304]), "ec-3", "audio-eac3"),
    ] {
        // For segments of four seconds, a gap of two isn't long.
        let options = Options { segment_seconds: 4.0, ..options() };
        let (_library, made) = ingested(&source, &options);
        let [_, other] = &made.record.audio[..] else { panic!("{:?}", made.record.audio) };
        assert_eq!(other.codec, codec, "{}", source.display());
        is_in_sync(&source, &made.folder, &made.record);
        are_in_sync(&source, &made.folder, &[only_group(&made, group)]);
    }
}

#[test]
fn surround_with_a_long_gap_has_silence_in_it_and_short_segments() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = "-c:v libx264 -preset veryfast -g 25 -c:a ac3 -ac 6";
    // Four seconds from 3 s on, and from 15 s on.
    let source = joined(folder.path(), words, "mpegts", &[3, 15]);
    let (_library, made) = ingested(&source, &options());
    let [_, other] = &made.record.audio[..] else { panic!("{:?}", made.record.audio) };
    assert_eq!((other.codec.as_str(), other.channels), ("ec-3", 6));
    assert!(made.notes[0].contains("has long gaps"), "{:?}", made.notes);
    let playlist = fs::read_to_string(made.folder.join(&other.playlist)).expect("a playlist");
    assert!(playlist.contains("#EXT-X-TARGETDURATION:2\n"), "{playlist}");
    is_in_sync(&source, &made.folder, &made.record);
    are_in_sync(&source, &made.folder, &[only_group(&made, "audio-eac3")]);
    // With --copy, the picture has the gap, too.
    let copy = Options { copy: true, ..options() };
    let (_library, made) = ingested(&source, &copy);
    assert_eq!(made.record.audio[1].codec, "ac-3");
}
