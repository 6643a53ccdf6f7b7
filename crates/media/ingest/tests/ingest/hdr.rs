//! With `--hdr`, a PQ or HLG source gets all sizes twice: in standard range, as without it, and in its own range. Every manifest, file and
//! frame says which is which, and players of standard range are never led to the other.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::colours::{STATED, hdr, ingested, tags};
use crate::judge::{judge, master, probe, said};
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make, plain};
use catalog::{Record, VideoRecord};
use fullbore_ingest::ingest::{HdrCodec, IngestError, Ingested, Options, Progress, Stop};
use m3u8_rs::VariantStream;
use serde_json::Value;

fn asked(codec: HdrCodec) -> Options {
    Options { hdr: Some(codec), ..options() }
}

/// Static metadata for x265: mastered in P3 with 1,000 cd/m².
const MASTERED: &str = ":master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50):max-cll=980,390";

/// The largest pictures of standard and of high dynamic range.
fn largest(made: &Ingested) -> [&VideoRecord; 2] {
    let [.., standard, _, high] = &made.record.video[..] else { panic!("two ladders") };
    [standard, high]
}

/// An attribute of a variant, without quotes.
fn attribute(variant: &VariantStream, name: &str) -> Option<String> {
    let text = variant.other_attributes.as_ref()?.get(name)?.to_string();
    Some(text.trim_matches('"').to_owned())
}

fn range(variant: &VariantStream) -> String {
    attribute(variant, "VIDEO-RANGE").expect("a title of two ranges says the range of each")
}

#[test]
fn pq_and_hlg_become_two_ladders() {
    if !ffmpeg_is_here() {
        return;
    }
    for (transfer, word, codec, name) in [
        ("smpte2084", "pq", HdrCodec::Hevc, "hvc1.2.4.L"),
        ("arib-std-b67", "hlg", HdrCodec::Hevc, "hvc1.2.4.L"),
        ("smpte2084", "pq", HdrCodec::Av1, "av01.0."),
    ] {
        let source = hdr(transfer, &format!("{STATED}{MASTERED}"));
        let (_library, made) = ingested(&source, "film.mkv", &asked(codec));
        judge(&made.folder, &made.record);
        let video = &made.record.video;
        let ranges: Vec<_> = video.iter().map(|one| one.range.as_deref()).collect();
        assert_eq!(ranges, [None, None, Some(word), Some(word)]);
        let heights: Vec<_> = video.iter().map(|one| one.height).collect();
        assert_eq!(heights, [90, 180, 90, 180]);
        for one in &video[..2] {
            assert_eq!(tags(&made.folder.join(&one.file)), "tv,bt709,bt709,bt709");
            assert!(one.codec.starts_with("avc1."), "{one:?}");
        }
        for one in &video[2..] {
            let file = made.folder.join(&one.file);
            assert_eq!(tags(&file), format!("tv,bt2020nc,{transfer},bt2020"));
            let pixels = probe(&file, "stream=pix_fmt");
            assert_eq!(pixels.trim_end_matches(','), "yuv420p10le");
            assert!(one.codec.starts_with(name), "{one:?}");
            assert!(codec == HdrCodec::Hevc || one.codec.ends_with(".10"), "{one:?}");
        }
        playlists_lead_each_player_to_its_ladder(&made.folder, &made.record, &word.to_uppercase());
        let code = if word == "pq" { 16 } else { 18 };
        manifest_lets_others_leave_it_out(&made.folder.join("manifest.mpd"), code);
        let noted = made.notes.iter().any(|note| note.contains("kept in separate sizes"));
        assert!(noted, "{:?}", made.notes);
    }
}

/// The rules of draft-pantos-hls-rfc8216bis and of Apple's authoring specification (sections 1 and 6).
fn playlists_lead_each_player_to_its_ladder(title: &Path, record: &Record, high: &str) {
    let text = fs::read_to_string(title.join(&record.hls)).expect("a playlist");
    assert!(!text.contains("SUPPLEMENTAL-CODECS"), "{text}");
    let master = master(&title.join(&record.hls));
    let of =
        |is_i_frame: bool| master.variants.iter().filter(move |one| one.is_i_frame == is_i_frame);
    // A player that knows no ranges begins with the first, or knows the codec of the others.
    let order: Vec<_> = of(false).map(range).collect();
    assert_eq!(order, ["SDR", "SDR", high, high]);
    // Pictures for seeking are in both ranges, too.
    assert_eq!(of(true).map(range).collect::<Vec<_>>(), order);
    // Each range has every size, so that no player has to leave its range.
    let sizes = |wanted: &str| -> BTreeSet<_> {
        of(false)
            .filter(|one| range(one) == wanted)
            .map(|one| one.resolution.map(|it| it.height))
            .collect()
    };
    assert_eq!(sizes("SDR"), sizes(high));
    // A player that can show both prefers HDR in a size, but a larger size over HDR.
    let score = |one: &VariantStream| -> f64 {
        attribute(one, "SCORE").expect("each has a score").parse().expect("a number")
    };
    let scores: Vec<_> = of(false).map(score).collect();
    assert_eq!(scores, [1.0, 3.0, 2.0, 4.0]);
    for one in of(false) {
        let codecs = one.codecs.as_deref().expect("codecs");
        assert_eq!(codecs.starts_with("avc1."), range(one) == "SDR", "{codecs}");
    }
}

/// ISO/IEC 23009-1 section 5.8.4.8: players leave out sets with an essential property that they don't know.
fn manifest_lets_others_leave_it_out(manifest: &Path, transfer: u32) {
    let text = fs::read_to_string(manifest).expect("a manifest");
    let document = roxmltree::Document::parse(&text).expect("XML");
    let is_video = |one: &roxmltree::Node<'_, '_>| one.attribute("contentType") == Some("video");
    let sets: Vec<_> = document.descendants().filter(is_video).collect();
    let properties = |set: &roxmltree::Node<'_, '_>| -> Vec<_> {
        let all = set.children().filter(|one| one.tag_name().name().ends_with("Property"));
        all.map(|one| {
            let text = |name| one.attribute(name).expect("an attribute");
            format!("{} {} {}", one.tag_name().name(), text("schemeIdUri"), text("value"))
        })
        .collect()
    };
    let [standard, high] = &sets[..] else { panic!("two sets: {text}") };
    assert_eq!(standard.attribute("selectionPriority"), Some("2"));
    assert_eq!((high.attribute("selectionPriority"), properties(standard).len()), (None, 0));
    let cicp = "EssentialProperty urn:mpeg:mpegB:cicp:";
    let expected = [
        format!("{cicp}ColourPrimaries 9"),
        format!("{cicp}TransferCharacteristics {transfer}"),
        format!("{cicp}MatrixCoefficients 9"),
    ];
    assert_eq!(properties(high), expected);
    let is_set = |one: &roxmltree::Node<'_, '_>| one.tag_name().name() == "AdaptationSet";
    let ids: Vec<_> =
        document.descendants().filter(is_set).filter_map(|one| one.attribute("id")).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{text}");
}

/// The mean of each plane of the first frame of a 10-bit picture, after it was scaled.
fn planes(file: &Path, scale: &str) -> Vec<f64> {
    let mut command = std::process::Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(file).args(["-frames:v", "1", "-vf"]);
    command.arg(format!("{scale}signalstats,metadata=mode=print:file=-"));
    let text = said(command.args(["-f", "null", "-"]));
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.split_once(name));
        line.and_then(|(_, value)| value.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    ["YAVG=", "UAVG=", "VAVG="].map(value).into()
}

fn are_near(one: &[f64], other: &[f64], most: f64) -> bool {
    one.iter().zip(other).all(|(one, other)| (one - other).abs() <= most)
}

/// The mean square error against the source, as PSNR in dB, of the luma of all frames.
fn psnr(file: &Path, source: &Path, size: &str) -> f64 {
    let mut command = std::process::Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "info", "-i"]).arg(file).arg("-i").arg(source);
    let graph = format!("[1:v]scale={size}:flags=bicubic,format=yuv420p10le[s];[0:v][s]psnr");
    let output = command.args(["-lavfi", &graph, "-f", "null", "-"]).output().expect("ffmpeg");
    let text = String::from_utf8_lossy(&output.stderr);
    let luma = text.rsplit_once(" y:").map(|(_, rest)| rest.split(' ').next().unwrap_or_default());
    luma.and_then(|luma| luma.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn frames_are_those_of_the_source_and_standard_range_is_as_without_it() {
    if !ffmpeg_is_here() {
        return;
    }
    for codec in [HdrCodec::Hevc, HdrCodec::Av1] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = folder.path().join("film.mkv");
        make(&hdr("smpte2084", STATED), &source);
        let library = Library::new();
        let plain = library.ingest(&source, "plain", &options()).expect("a title");
        let both = library.ingest(&source, "both", &asked(codec)).expect("a title");
        let expected = planes(&source, "");
        for one in &both.record.video[2..] {
            let found = planes(&both.folder.join(&one.file), "");
            // Of 1023.
            assert!(are_near(&found, &expected, 2.0), "{found:?} {expected:?}");
        }
        let file = |made: &Ingested, index: usize| {
            fs::read(made.folder.join(&made.record.video[index].file)).expect("a file")
        };
        assert!((0..2).all(|index| file(&plain, index) == file(&both, index)));
        for (name, is_of_plain) in [("poster.jpg", true), ("thumbnails-1.jpg", true)] {
            let read = |made: &Ingested| fs::read(made.folder.join(&made.record.folder).join(name));
            let same = read(&plain).expect("a picture") == read(&both).expect("a picture");
            assert_eq!(same, is_of_plain, "{name}");
        }
    }
    // A picture with detail, moving.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("film.mkv");
    let words = hdr("arib-std-b67", STATED)
        .replace("color=c=0x609060:rate=5:duration=0.4", "testsrc2=rate=10:duration=1");
    make(&words.replace("320x180", "160x90"), &source);
    let made = Library::new();
    let made = made.ingest(&source, "film", &asked(HdrCodec::Hevc)).expect("a title");
    let [_, high] = &made.record.video[..] else { panic!("{:?}", made.record.video) };
    let db = psnr(&made.folder.join(&high.file), &source, "160x90");
    assert!(db > 35.0, "{db} dB");
}

/// Colours that aren't BT.2100's are converted to it: all sources here show the same colour.
#[test]
fn other_primaries_matrices_and_ranges_become_bt2100() {
    if !ffmpeg_is_here() {
        return;
    }
    let colour = "color=c=0x707c70:rate=5:duration=0.4:size=160x90,format=gbrp10le";
    let to_wide = "scale=out_color_matrix=bt2020:out_range=tv,format=yuv420p10le";
    let bt2020 =
        "setparams=color_primaries=bt2020:color_trc=smpte2084:colorspace=bt2020nc:range=tv";
    let x265 = "-c:v libx265 -preset ultrafast -crf 10 -x265-params log-level=error";
    let source = |filters: &str, encoder: &str| format!("-f lavfi -i {colour},{filters} {encoder}");
    let high = |words: &str| {
        let (_library, made) = ingested(words, "film.mkv", &asked(HdrCodec::Hevc));
        let file = made.folder.join(&made.record.video.last().expect("a picture").file);
        assert_eq!(tags(&file), "tv,bt2020nc,smpte2084,bt2020", "{words}");
        planes(&file, "")
    };
    let full = "scale=out_color_matrix=bt2020:out_range=pc,format=yuv420p10le";
    let ffv1 = "-c:v ffv1 -color_primaries bt2020 -color_trc smpte2084";
    let phone =
        format!("{to_wide},{bt2020},zscale=p=smpte432:t=smpte2084:m=bt2020nc,format=yuv420p10le");
    let ictcp =
        format!("{to_wide},{bt2020},zscale=p=bt2020:t=smpte2084:m=ictcp,format=yuv420p10le");
    let pq = ":transfer=smpte2084:colormatrix=";
    let stated = format!("{x265}{pq}bt2020nc:colorprim=bt2020");
    let expected = high(&source(&format!("{to_wide},{bt2020}"), &stated));
    for words in [
        source(
            &format!("{full},{bt2020}").replace("range=tv", "range=pc"),
            &format!("{ffv1} -colorspace bt2020nc -color_range pc"),
        ),
        source("format=gbrp10le", ffv1),
        source(&phone, &format!("{x265}{pq}bt2020nc:colorprim=smpte432")),
        source(&ictcp, &format!("{x265}{pq}ictcp:colorprim=bt2020")),
    ] {
        let found = high(&words);
        assert!(are_near(&found, &expected, 4.0), "{found:?} {expected:?} {words}");
    }
}

/// The metadata that a file's description has, and that of its first frame.
fn metadata(file: &Path) -> [Vec<Value>; 2] {
    let of = |rest: &[&str]| {
        let mut command = std::process::Command::new("ffprobe");
        let text = said(command.args(["-v", "error", "-of", "json"]).args(rest).arg(file));
        let all: Value = serde_json::from_str(&text).expect("JSON");
        let lists = ["streams", "frames"].map(|kind| all[kind][0]["side_data_list"].clone());
        let entries = lists.into_iter().filter_map(|list| list.as_array().cloned()).flatten();
        let is_static = |one: &Value| {
            ["Mastering display metadata", "Content light level metadata"]
                .iter()
                .any(|name| one["side_data_type"] == *name)
        };
        entries.filter(is_static).collect()
    };
    [of(&["-show_streams"]), of(&["-read_intervals", "%+#1", "-show_frames"])]
}

fn number(fraction: &Value) -> f64 {
    let (over, under) =
        fraction.as_str().and_then(|text| text.split_once('/')).expect("a fraction");
    over.parse::<f64>().expect("a number") / under.parse::<f64>().expect("a number")
}

#[test]
fn static_metadata_is_kept_in_streams_and_in_files() {
    if !ffmpeg_is_here() {
        return;
    }
    // In MPEG-TS only frames have it.
    for (codec, file) in [(HdrCodec::Hevc, "film.ts"), (HdrCodec::Av1, "film.mkv")] {
        let source = hdr("smpte2084", &format!("{STATED}{MASTERED}"));
        let (_library, made) = ingested(&source, file, &asked(codec));
        let [standard, high] = largest(&made);
        for found in metadata(&made.folder.join(&high.file)) {
            let [screen, light] = &found[..] else { panic!("{found:?}") };
            // SVT-AV1 rounds to 1/16,384 cd/m².
            for (name, expected) in [
                ("red_x", 0.68),
                ("green_y", 0.69),
                ("blue_x", 0.15),
                ("white_point_y", 0.329),
                ("max_luminance", 1000.0),
                ("min_luminance", 0.005),
            ] {
                assert!((number(&screen[name]) - expected).abs() < 1e-4, "{name}: {screen}");
            }
            assert_eq!((&light["max_content"], &light["max_average"]), (&980.into(), &390.into()));
        }
        let found = metadata(&made.folder.join(&standard.file));
        assert!(found.iter().all(Vec::is_empty), "{found:?}");
        // A film whose container has it, too: pictures in standard range get nothing of it.
        let library = Library::new();
        let again = library.ingest(&made.folder.join(&high.file), "again", &options());
        let again = again.expect("a title");
        let found = metadata(&again.folder.join(&again.record.video[0].file));
        assert!(found.iter().all(Vec::is_empty), "{found:?}");
    }
    let (_library, made) = ingested(&hdr("smpte2084", STATED), "film.mkv", &asked(HdrCodec::Hevc));
    let found = metadata(&made.folder.join(&largest(&made)[1].file));
    assert!(found.iter().all(Vec::is_empty), "{found:?}");
}

#[test]
fn a_film_of_standard_range_gets_one_ladder_and_a_note() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = plain();
    let library = Library::new();
    let made = library.ingest(&source, "film", &asked(HdrCodec::Hevc)).expect("a title");
    judge(&made.folder, &made.record);
    assert_eq!(made.record.video.len(), 2);
    assert!(made.record.video.iter().all(|one| one.range.is_none()));
    assert!(made.notes.iter().any(|note| note.contains("--hdr made no difference")));
    let master = fs::read_to_string(made.folder.join("master.m3u8")).expect("a playlist");
    assert!(!master.contains("VIDEO-RANGE") && !master.contains("SCORE"), "{master}");
    // Nothing is done for the same title without the option.
    let kept = library.ingest(&source, "film", &options()).expect("a title");
    assert_eq!(kept.outcome, fullbore_ingest::ingest::Outcome::Kept);
}

#[test]
fn an_interrupted_ladder_continues_with_its_next_size() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("film.mkv");
    make(&hdr("smpte2084", STATED), &source);
    let (library, stop, options) = (Library::new(), Stop::default(), asked(HdrCodec::Hevc));
    let error = library.ingest_with(&source, "film", &options, &stop, |progress| {
        if matches!(progress, Progress::Making { number, of, .. } if number == of) {
            stop.stop();
        }
    });
    assert!(matches!(error, Err(IngestError::Interrupted)), "{error:?}");
    let (mut kept, mut making) = (Vec::new(), Vec::new());
    let made =
        library.ingest_with(
            &source,
            "film",
            &options,
            &Stop::default(),
            |progress| match progress {
                Progress::Kept { part } => kept.push(part),
                Progress::Making { part, .. } => making.push(part),
                _ => {}
            },
        );
    judge(&made.as_ref().expect("a title").folder, &made.as_ref().expect("a title").record);
    assert_eq!(kept, ["video 90", "video 180", "HDR video 90"]);
    assert_eq!(making, ["HDR video 180"]);
    assert!(library.faults("film").is_empty());
}
