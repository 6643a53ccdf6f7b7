//! Sound in arrangements of channels that Opus or browsers lack: every channel stays audible, and the manifests say what there is.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::judge::{judge, probe};
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make};
use fullbore_ingest::ingest::{AudioCodec, Channels, Ingested, Options};

/// Ingests sound in the arrangement `layout` of `channels` channels. One of them has a tone, which is low, because encoders cut everything else
/// from LFE.
fn made(layout: &str, channels: usize, loud: usize, options: &Options) -> (Library, Ingested) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (raw, source) = (folder.path().join("sound.raw"), folder.path().join("sound.wav"));
    let mut samples = Vec::new();
    for index in 0..24_000 {
        let tone = (f64::from(index) * 60.0 / 48_000.0 * std::f64::consts::TAU).sin() * 12_000.0;
        for channel in 0..channels {
            let sample = if channel == loud { tone as i16 } else { 0 };
            samples.extend(sample.to_le_bytes());
        }
    }
    fs::write(&raw, samples).expect("a file");
    let all = (0..channels).map(|index| index.to_string()).collect::<Vec<_>>().join("|");
    // WAV says where channels belong, and so keeps 2.1 apart from 3.0.
    let words = format!(
        "-f s16le -ar 48000 -ac {channels} -i {} -af channelmap={all}:{layout} -c:a pcm_s16le",
        raw.display()
    );
    make(&words, &source);
    ingested(&source, options)
}

fn ingested(source: &Path, options: &Options) -> (Library, Ingested) {
    let library = Library::new();
    let made = library.ingest(source, "sound", options).expect("a title");
    judge(&made.folder, &made.record);
    (library, made)
}

/// The decoded channels that have sound.
fn loud(file: &Path) -> Vec<String> {
    let layout = probe(file, "stream=channel_layout");
    // A comma follows if ffprobe knows more about the stream.
    let names: Vec<_> = match layout.trim_end_matches(',') {
        "4.0" => "FL FR FC BC",
        "quad" => "FL FR BL BR",
        "quad(side)" => "FL FR SL SR",
        "5.0" => "FL FR FC BL BR",
        "5.1" => "FL FR FC LFE BL BR",
        "5.1(side)" => "FL FR FC LFE SL SR",
        "6.1" => "FL FR FC LFE BC SL SR",
        "7.1" => "FL FR FC LFE BL BR SL SR",
        other => panic!("{other}"),
    }
    .split(' ')
    .collect();
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(file);
    let samples = command.args(["-f", "s16le", "-"]).output().expect("ffmpeg").stdout;
    let mut peaks = vec![0; names.len()];
    for (index, sample) in samples.chunks_exact(2).enumerate() {
        let peak: &mut i16 = &mut peaks[index % names.len()];
        *peak = (*peak).max(i16::from_le_bytes([sample[0], sample[1]]).saturating_abs());
    }
    let heard = names.iter().zip(peaks).filter(|(_, peak)| *peak > 400);
    heard.map(|(name, _)| (*name).to_owned()).collect()
}

/// The value of each AudioChannelConfiguration.
fn configurations(made: &Ingested) -> Vec<String> {
    let text = fs::read_to_string(made.folder.join("manifest.mpd")).expect("a manifest");
    let document = roxmltree::Document::parse(&text).expect("XML");
    let of_channels = document
        .descendants()
        .filter(|one| one.tag_name().name() == "AudioChannelConfiguration")
        .inspect(|one| {
            let scheme = one.attribute("schemeIdUri");
            assert_eq!(scheme, Some("urn:mpeg:mpegB:cicp:ChannelConfiguration"));
        });
    of_channels.map(|one| one.attribute("value").expect("a value").to_owned()).collect()
}

#[test]
fn arrangements_that_an_encoder_lacks_become_the_nearest_that_has_all_their_channels() {
    if !ffmpeg_is_here() {
        return;
    }
    use AudioCodec::{Aac, Opus};
    for (layout, source_channels, loudspeaker, codec, channels, configuration, heard) in [
        ("2.1", 3, 2, Opus, 6, "6", "LFE"),
        ("4.0", 4, 3, Opus, 5, "5", "BL BR"),
        ("5.0", 5, 2, Opus, 5, "5", "FC"),
        ("6.1", 7, 5, Opus, 7, "11", "SL"),
        ("quad", 4, 2, Opus, 4, "10", "BL"),
        ("6.1(back)", 7, 6, Opus, 7, "11", "BC"),
        ("2.1", 3, 2, Aac, 6, "6", "LFE"),
        ("4.0", 4, 3, Aac, 4, "4", "BC"),
        ("quad", 4, 2, Aac, 5, "5", "BL"),
        ("7.0", 7, 6, Aac, 6, "6", "BR"),
    ] {
        let asked = Options { audio_codec: codec, channels: Channels::Source, ..options() };
        let (_library, made) = made(layout, source_channels, loudspeaker, &asked);
        let [sound] = &made.record.audio[..] else { panic!("{:?}", made.record.audio) };
        assert_eq!(sound.channels, channels, "{layout}");
        assert_eq!(configurations(&made), [configuration], "{layout}");
        let expected: Vec<_> = heard.split(' ').map(str::to_owned).collect();
        assert_eq!(loud(&made.folder.join(&sound.file)), expected, "{layout} {codec:?}");
        let noted = made.notes.iter().any(|note| note.contains(&format!("{layout} became")));
        let is_same = match codec {
            Opus => ["quad", "5.0", "6.1", "6.1(back)"].contains(&layout),
            Aac => layout == "4.0" || channels < source_channels as u32,
        };
        assert_eq!(noted, !is_same, "{layout}: {:?}", made.notes);
        let master = fs::read_to_string(made.folder.join("master.m3u8")).expect("a playlist");
        assert!(master.contains(&format!("CHANNELS=\"{channels}\"")), "{master}");
    }
}

#[test]
fn surround_next_to_stereo_has_all_channels_of_its_source() {
    if !ffmpeg_is_here() {
        return;
    }
    for (layout, channels, loudspeaker, kept, configuration, heard) in [
        ("2.1", 3, 2, 6, "6", "LFE"),
        ("4.0", 4, 3, 4, "4", "BC"),
        ("quad", 4, 2, 4, "10", "SL"),
        ("5.1", 6, 5, 6, "6", "SR"),
        ("6.1", 7, 4, 6, "6", "SL SR"),
        ("7.1", 8, 4, 6, "6", "SL"),
        ("7.1", 8, 7, 6, "6", "SR"),
    ] {
        let (_library, made) = made(layout, channels, loudspeaker, &options());
        let [_, surround] = &made.record.audio[..] else { panic!("{:?}", made.record.audio) };
        assert_eq!((surround.codec.as_str(), surround.channels), ("ec-3", kept), "{layout}");
        assert_eq!(configurations(&made), ["2", configuration], "{layout}");
        let expected: Vec<_> = heard.split(' ').map(str::to_owned).collect();
        assert_eq!(loud(&made.folder.join(&surround.file)), expected, "{layout}");
        let noted = made.notes.iter().any(|note| note.contains("mixed down to 6"));
        assert_eq!(noted, channels > 6, "{layout}: {:?}", made.notes);
    }
}

#[test]
fn sixteen_and_nine_channels_become_titles() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("many.wav");
    for (channels, kept, configuration) in [(16, 6, "6"), (9, 2, "2")] {
        let silence = folder.path().join("silence.raw");
        fs::write(&silence, vec![0; 2 * channels * 24_000]).expect("a file");
        let words = format!("-f s16le -ar 48000 -ac {channels} -i {}", silence.display());
        make(&words, &source);
        let all = Options { channels: Channels::Source, ..options() };
        let (_library, made) = ingested(&source, &all);
        assert_eq!(made.record.audio[0].channels, kept);
        assert_eq!(configurations(&made), [configuration]);
        let mixed = Options { channels: Channels::Stereo, ..options() };
        let (_library, stereo) = ingested(&source, &mixed);
        assert_eq!(stereo.record.audio[0].channels, 2);
        assert!(stereo.notes[0].contains(&format!("{channels} channels were mixed down to 2")));
    }
}

#[test]
fn an_arrangement_of_aac_that_browsers_refuse_is_not_copied() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (layout, is_copied) in [("quad", false), ("6.1", false), ("5.1", true)] {
        let source = folder.path().join("sound.mp4");
        make(
            &format!(
                "-f lavfi -i anoisesrc=d=1:a=0.1 -af aformat=channel_layouts={layout} -c:a aac"
            ),
            &source,
        );
        let copy = Options { copy: true, channels: Channels::Source, ..options() };
        let (_library, made) = ingested(&source, &copy);
        let encoded = made.notes.iter().any(|note| note.contains("re-encoded, no browser plays"));
        assert_eq!(encoded, !is_copied, "{layout}: {:?}", made.notes);
        let file = made.folder.join(&made.record.audio[0].file);
        assert_eq!(probe(&file, "stream=codec_name"), "aac", "{layout}");
    }
}
