//! The rates in manifests, recomputed from the segments in the playlists by the definitions of RFC 8216 and ISO/IEC 23009-1.

use std::fs;
use std::path::Path;

use crate::judge::{group, judge, master, media};
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make};
use catalog::Record;
use fullbore_ingest::ingest::{Ingested, Options};

/// Seconds and bits of each segment of a playlist.
fn segments(playlist: &Path) -> Vec<(f64, f64)> {
    let range = |one: &m3u8_rs::MediaSegment| one.byte_range.as_ref().expect("a range").length;
    let segments = media(playlist).segments;
    segments.iter().map(|one| (f64::from(one.duration), range(one) as f64 * 8.0)).collect()
}

/// RFC 8216 section 4.1: the highest rate of any run of segments that lasts 0.5 to 1.5 target durations; without one, the mean.
fn peak(playlist: &Path) -> f64 {
    let (segments, target) = (segments(playlist), media(playlist).target_duration as f64);
    let mut peak = mean(playlist);
    for begin in 0..segments.len() {
        for end in begin + 1..=segments.len() {
            let run = &segments[begin..end];
            let seconds: f64 = run.iter().map(|one| one.0).sum();
            // Playlists round to microseconds.
            if (0.5 * target - 1e-4..=1.5 * target + 1e-4).contains(&seconds) {
                peak = peak.max(run.iter().map(|one| one.1).sum::<f64>() / seconds);
            }
        }
    }
    peak
}

fn mean(playlist: &Path) -> f64 {
    let segments = segments(playlist);
    segments.iter().map(|one| one.1).sum::<f64>() / segments.iter().map(|one| one.0).sum::<f64>()
}

fn is_near(written: u64, expected: f64) -> bool {
    (written as f64 - expected).abs() <= expected * 1e-4 + 2.0
}

/// Checks every rate of a title.
pub(crate) fn are_right(title: &Path, record: &Record) {
    let master = master(&title.join(&record.hls));
    for variant in &master.variants {
        let sounds = group(&master, variant.audio.as_deref());
        let sounds: Vec<_> = sounds.filter_map(|one| Some(title.join(one.uri.as_ref()?))).collect();
        let most = |rate: fn(&Path) -> f64| sounds.iter().map(|one| rate(one)).fold(0.0, f64::max);
        let playlist = title.join(&variant.uri);
        // A variant of a picture is played with the sound of the highest rate in its group; pictures of key frames are shown alone.
        let with_sound = !variant.is_i_frame && !sounds.contains(&playlist);
        let sum = |rate: fn(&Path) -> f64| match (variant.is_i_frame, with_sound) {
            (true, _) => rate(&playlist),
            (false, true) => rate(&playlist) + most(rate),
            (false, false) => most(rate),
        };
        assert!(is_near(variant.bandwidth, sum(peak)), "{variant:?}: {}", sum(peak));
        let average = variant.average_bandwidth.expect("a mean");
        assert!(is_near(average, sum(mean)), "{variant:?}: {}", sum(mean));
    }
    let video = record.video.iter().map(|one| (&one.playlist, one.bits_per_second_max));
    let audio = record.audio.iter().map(|one| (&one.playlist, one.bits_per_second_max));
    for (playlist, written) in video.chain(audio) {
        assert!(is_near(written, peak(&title.join(playlist))), "{playlist}: {written}");
    }
    rates_of_dash_suffice(title, record);
}

/// ISO/IEC 23009-1 section 5.3.5.2: a player that receives at this rate and waits for `minBufferTime` never waits again, wherever it starts;
/// and the rate is not higher than that, unless it is the mean.
fn rates_of_dash_suffice(title: &Path, record: &Record) {
    let text = fs::read_to_string(title.join(&record.dash)).expect("a manifest");
    let document = roxmltree::Document::parse(&text).expect("XML");
    let buffer = document.root_element().attribute("minBufferTime").expect("a time");
    let buffer: f64 = buffer["PT".len()..buffer.len() - 1].parse().expect("seconds");
    let is = |one: &roxmltree::Node<'_, '_>, name: &str| one.tag_name().name() == name;
    let tracks = document.descendants().filter(|one| is(one, "Representation"));
    let tracks = tracks.filter(|one| one.children().any(|child| is(&child, "SegmentBase")));
    let tracks: Vec<_> = tracks.collect();
    assert_eq!(tracks.len(), record.video.len() + record.audio.len());
    for one in tracks {
        let file = one.children().find(|child| is(child, "BaseURL")).and_then(|base| base.text());
        let playlist = title.join(file.expect("a file")).with_extension("m3u8");
        let rate: u64 = one.attribute("bandwidth").expect("a rate").parse().expect("a number");
        let segments = segments(&playlist);
        assert!(!waits(&segments, rate as f64 * (1.0 + 1e-5), buffer), "{file:?} waits at {rate}");
        let is_mean = is_near(rate, mean(&playlist));
        assert!(is_mean || waits(&segments, rate as f64 * 0.999, buffer), "{file:?} at {rate}");
    }
}

/// Plays from each segment: whether one is not complete when its turn comes.
fn waits(segments: &[(f64, f64)], rate: f64, buffer: f64) -> bool {
    (0..segments.len()).any(|start| {
        let (mut bits, mut due) = (0.0, buffer);
        segments[start..].iter().any(|(seconds, size)| {
            bits += size;
            let is_late = bits / rate > due;
            due += seconds;
            is_late
        })
    })
}

/// Half of the film is black, the rest noise, with key frames only at `keys`.
fn uneven(keys: &str, sound: &str, options: &Options) -> Option<(Library, Ingested)> {
    if !ffmpeg_is_here() {
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("uneven.mp4");
    let size = "size=64x64:rate=5:duration=12";
    make(
        &format!(
            "-f lavfi -i color=black:{size} -f lavfi -i color=gray:{size},noise=alls=100:allf=t {sound} \
             -filter_complex [0][1]concat -c:v libx264 -preset ultrafast -crf 30 -g 9999 -sc_threshold 0 \
             -force_key_frames {keys} -pix_fmt yuv420p"
        ),
        &source,
    );
    let library = Library::new();
    let made = library.ingest(&source, "uneven", options).expect("a title");
    judge(&made.folder, &made.record);
    Some((library, made))
}

#[test]
fn the_peak_is_that_of_a_run_of_segments_where_the_longest_is_much_longer() {
    let copy = Options { copy: true, segment_seconds: 4.0, ..options() };
    let Some((_library, made)) = uneven("0,12,16,20", "", &copy) else { return };
    let [video] = &made.record.video[..] else { panic!("one size: {:?}", made.record.video) };
    assert_eq!(video.segments, 4);
    // The noise is twice as much as the mean of noise and black.
    assert!(video.bits_per_second_max as f64 > video.bits_per_second as f64 * 1.9, "{video:?}");
}

#[test]
fn the_peak_of_the_sound_is_added_to_that_of_the_picture() {
    let copy = Options { copy: true, segment_seconds: 2.0, ..options() };
    let sound = "-f lavfi -i anoisesrc=d=24:a=0.3 -c:a aac -b:a 96k";
    let Some((_library, made)) = uneven("0,9,11,20", sound, &copy) else { return };
    let master = master(&made.folder.join("master.m3u8"));
    let sum = made.record.video[0].bits_per_second_max + made.record.audio[0].bits_per_second_max;
    assert_eq!(master.variants[0].bandwidth, sum);
}

#[test]
fn sizes_that_are_encoded_have_the_peak_of_their_segments() {
    let encoded = Options { segment_seconds: 5.0, ..options() };
    let Some((_library, made)) = uneven("0,12", "", &encoded) else { return };
    let video = &made.record.video[0];
    assert!(video.bits_per_second_max > video.bits_per_second, "{video:?}");
}
