//! Every size of a title shows the colours of its source, and states them. Sources are one colour, stored and tagged in the ways that people's
//! films are; renditions, poster and thumbnails are decoded to RGB by what they state.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::judge::{judge, probe};
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make};
use fullbore_ingest::ingest::{IngestError, Ingested, Options};
use fullbore_ingest::{Ladder, Rung};
use tempfile::TempDir;

type Rgb = [u8; 3];

const GREEN: Rgb = [0, 192, 0];
/// A source of that colour, before its first filter.
const IN_GREEN: &str = "color=c=0x00C000:rate=5:duration=0.4";

/// Rounding and compression may change a colour by this much.
const NEAR: u8 = 3;

/// The colour of a picture's first frame, near its corner, by the range and the matrix that the file states.
fn rgb(file: &Path) -> Rgb {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(file);
    command.args(["-frames:v", "1", "-vf", "scale=out_range=pc,format=rgb24,crop=1:1:40:40"]);
    let output = command.args(["-f", "rawvideo", "-"]).output().expect("there is an ffmpeg");
    let said = String::from_utf8_lossy(&output.stderr);
    output.stdout.try_into().unwrap_or_else(|_| panic!("{}: {said}", file.display()))
}

fn near(a: Rgb, b: Rgb) -> bool {
    a.iter().zip(b).all(|(&a, b)| a.abs_diff(b) <= NEAR)
}

/// What the file states: range, matrix, transfer, primaries.
pub(crate) fn tags(file: &Path) -> String {
    let tags = probe(file, "stream=color_range,color_space,color_transfer,color_primaries");
    // A comma follows if there is more information about the stream.
    tags.trim_end_matches(',').to_owned()
}

/// The title of a source made by the arguments in `words`.
pub(crate) fn ingested(words: &str, file: &str, options: &Options) -> (Library, Ingested) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join(file);
    make(words, &source);
    let library = Library::new();
    let made =
        library.ingest(&source, "film", options).unwrap_or_else(|error| panic!("{words}: {error}"));
    (library, made)
}

/// The colours of its renditions, smallest first, then of its poster and thumbnails.
fn all_colours(made: &Ingested) -> Vec<(String, Rgb)> {
    let mut files: Vec<_> = made.record.video.iter().map(|one| one.file.clone()).collect();
    files.extend(made.record.poster.clone());
    files.push(format!("{}/thumbnails-1.jpg", made.record.folder));
    files.into_iter().map(|file| (file.clone(), rgb(&made.folder.join(&file)))).collect()
}

/// Ingests the source in one size, and checks that it is of this colour and says BT.709.
fn becomes(words: &str, file: &str, expected: Rgb) -> Ingested {
    let ladder = Ladder::new(vec![Rung { height: 90, kbps: 300 }]).expect("a ladder");
    let (_library, made) = ingested(words, file, &Options { ladder, ..options() });
    is_bt709(&made);
    let found = rgb(&made.folder.join(&made.record.video[0].file));
    assert!(near(found, expected), "{words}: {found:?}, not {expected:?}");
    made
}

fn is_bt709(made: &Ingested) {
    for one in &made.record.video {
        assert_eq!(tags(&made.folder.join(&one.file)), "tv,bt709,bt709,bt709");
    }
}

const H264: &str = "-c:v libx264 -preset ultrafast -qp 4";

/// A source of H.264 with this filter.
fn green(size: &str, filter: &str, arguments: &str) -> String {
    format!("-f lavfi -i {IN_GREEN}:size={size},{filter} {H264} {arguments}")
}

/// From RGB to this matrix, without a tag that says so.
fn stored(matrix: &str, format: &str) -> String {
    format!(
        "format=gbrp,scale=out_color_matrix={matrix},format={format},setparams=colorspace=unknown:range=unknown"
    )
}

#[test]
fn an_untagged_film_is_read_by_its_size_and_all_sizes_show_the_same_colour() {
    if !ffmpeg_is_here() {
        return;
    }
    let rungs = vec![Rung { height: 90, kbps: 300 }, Rung { height: 720, kbps: 2000 }];
    let ladder = Ladder::new(rungs).expect("a ladder");
    let words = green("1280x720", &stored("bt709", "yuv420p"), "");
    let (_library, made) = ingested(&words, "hd.mp4", &Options { ladder, ..options() });
    judge(&made.folder, &made.record);
    assert_eq!(made.record.video.len(), 2);
    is_bt709(&made);
    for (file, found) in all_colours(&made) {
        assert!(near(found, GREEN), "{found:?} in {file}");
    }
    // Cinemascope, and a phone's upright picture: both are HD.
    becomes(&green("1280x536", &stored("bt709", "yuv420p"), ""), "scope.mp4", GREEN);
    becomes(&green("404x720", &stored("bt709", "yuv420p"), ""), "upright.mp4", GREEN);
    // SD: television of 576 lines, and smaller.
    becomes(&green("720x576", &stored("bt601", "yuv420p"), ""), "pal.mkv", GREEN);
    becomes(&green("320x180", &stored("bt601", "yuv422p"), ""), "small.mov", GREEN);
    // Theora has no other matrix, however large the picture.
    let filter = stored("bt601", "yuv420p");
    let words = format!("-f lavfi -i {IN_GREEN}:size=1280x720,{filter} -c:v libtheora -q:v 10");
    becomes(&words, "large.ogv", GREEN);
}

#[test]
fn tags_are_believed_whatever_the_size() {
    if !ffmpeg_is_here() {
        return;
    }
    let tagged = |matrix: &str| {
        let filter = format!("format=gbrp,scale=out_color_matrix={matrix},format=yuv420p");
        green("320x180", &filter, &format!("-colorspace {matrix}"))
    };
    becomes(&tagged("bt709"), "bt709.mp4", GREEN);
    becomes(&tagged("smpte240m"), "smpte240m.mp4", GREEN);
    becomes(&tagged("fcc"), "fcc.mkv", GREEN);
    let filter = "format=gbrp,scale=out_color_matrix=bt470bg,format=yuv420p";
    let words = green("1280x720", filter, "-colorspace bt470bg -color_trc gamma28");
    becomes(&words, "bt470bg.mkv", GREEN);
}

/// Wider or narrower primaries, converted in linear light: values by the matrices of BT.2087 and SMPTE RP 177, computed apart.
#[test]
fn other_primaries_are_converted() {
    if !ffmpeg_is_here() {
        return;
    }
    let grey_green = "color=c=0x60A060:rate=5:duration=0.4:size=320x180";
    let words = |matrix: &str, format: &str, tags: &str| {
        let filter = format!("format=gbrp,scale=out_color_matrix={matrix},format={format}");
        format!("-f lavfi -i {grey_green},{filter} {H264} {tags}")
    };
    let american = "-color_primaries smpte170m -color_trc smpte170m -colorspace smpte170m";
    becomes(&words("smpte170m", "yuv420p", american), "american.mp4", AMERICAN);
    let wide = "-color_primaries bt2020 -color_trc bt2020-10 -colorspace bt2020nc";
    becomes(&words("bt2020", "yuv420p10le", wide), "wide.mp4", WIDE);
    let phone = "-color_primaries smpte432 -color_trc bt709 -colorspace bt709";
    becomes(&words("bt709", "yuv420p", phone), "phone.mov", PHONE);
}

const AMERICAN: Rgb = [100, 158, 96];
const WIDE: Rgb = [14, 167, 87];
const PHONE: Rgb = [74, 162, 89];

#[test]
fn odd_tags_are_read_as_players_read_them() {
    if !ffmpeg_is_here() {
        return;
    }
    // The matrix is "GBR" although the picture has none, reserved, or YCgCo, which is one.
    let patched = |code: u8| format!("-bsf:v h264_metadata=matrix_coefficients={code}");
    becomes(&green("320x180", &stored("bt601", "yuv420p"), &patched(0)), "gbr.mp4", GREEN);
    becomes(&green("320x180", &stored("bt601", "yuv420p"), &patched(3)), "reserved.mkv", GREEN);
    let words = format!(
        "-f lavfi -i {IN_GREEN}:size=320x180,format=yuv444p,geq=lum=112:cb=80:cr=80,format=yuv420p {H264} {}",
        patched(8)
    );
    becomes(&words, "ycgco.mkv", YCGCO);
}

const YCGCO: Rgb = [112, 57, 221];

#[test]
fn tags_that_only_the_container_has_are_read() {
    if !ffmpeg_is_here() {
        return;
    }
    // Some versions of ffmpeg tag the MOV file, and let each frame of ProRes say "unknown".
    let filter = "format=gbrp,scale=out_color_matrix=bt709,format=yuv422p10le";
    let tags = "-colorspace bt709 -color_primaries bt709 -color_trc bt709";
    let words = format!("-f lavfi -i {IN_GREEN}:size=320x180,{filter} -c:v prores {tags}");
    becomes(&words, "prores.mov", GREEN);
    // AV1 in Matroska, whose sequence header doesn't say.
    let filter = stored("bt709", "yuv420p");
    let unknown =
        "-bsf:v av1_metadata=color_primaries=2:transfer_characteristics=2:matrix_coefficients=2";
    let words = format!(
        "-f lavfi -i {IN_GREEN}:size=320x180,{filter} -c:v libaom-av1 -cpu-used 8 {unknown} {tags}"
    );
    becomes(&words, "av1.mkv", GREEN);
}

#[test]
fn rgb_and_full_range_become_limited_bt709() {
    if !ffmpeg_is_here() {
        return;
    }
    let pure = "color=c=0x00FF00:rate=5:duration=0.4";
    let words = format!(
        "-f lavfi -i {pure}:size=1280x720,format=gbrp -c:v libx264rgb -qp 0 -preset ultrafast"
    );
    becomes(&words, "rgb.mkv", [0, 255, 0]);
    let words = format!("-f lavfi -i {IN_GREEN}:size=320x180,format=bgr24 -c:v png");
    becomes(&words, "screen.mov", GREEN);
    let words = format!("-f lavfi -i {pure}:size=320x180,format=pal8");
    becomes(&words, "palette.gif", [0, 252, 0]); // the palette has no other green
    let full = "format=gbrp,scale=out_color_matrix=bt601:out_range=pc,format=yuvj420p";
    becomes(&green("320x180", full, ""), "camera.mp4", GREEN);
    let full = "format=gbrp,scale=out_color_matrix=bt709:out_range=pc,format=yuv420p";
    let tags = "-color_range pc -colorspace bt709";
    becomes(&green("1280x720", full, tags), "screencast.mkv", GREEN);
    let words = format!("-f lavfi -i {IN_GREEN}:size=320x180,format=yuvj422p -c:v mjpeg -q:v 1");
    becomes(&words, "camera.avi", GREEN);
    let words =
        format!("-f lavfi -i color=c=0x808080:rate=5:duration=0.4:size=320x180,format=gray {H264}");
    becomes(&words, "grey.mkv", [128; 3]);
}

/// A film of high dynamic range, all of its colours stored as in BT.2020.
pub(crate) fn hdr(transfer: &str, tags: &str) -> String {
    let filter = "format=gbrp10le,scale=out_color_matrix=bt2020,format=yuv420p10le";
    format!(
        "-f lavfi -i color=c=0x609060:rate=5:duration=0.4:size=320x180,{filter} -c:v libx265 -preset ultrafast \
         -x265-params log-level=error:transfer={transfer}{tags}"
    )
}

pub(crate) const STATED: &str = ":colorprim=bt2020:colormatrix=bt2020nc";

#[test]
fn high_dynamic_range_without_primaries_and_matrix_has_those_of_bt2020() {
    if !ffmpeg_is_here() {
        return;
    }
    for transfer in ["smpte2084", "arib-std-b67"] {
        let (_library, whole) = ingested(&hdr(transfer, STATED), "whole.mkv", &options());
        let expected = rgb(&whole.folder.join(&whole.record.video[0].file));
        // Still a green, and neither black nor white.
        assert!(expected[1] > expected[0] && expected[1] > expected[2], "{expected:?}");
        assert!((16..240).contains(&expected[1]), "{expected:?}");
        let made = becomes(&hdr(transfer, ""), "bare.mkv", expected);
        assert!(made.notes.iter().any(|note| note.contains("dynamic range")), "{:?}", made.notes);
        becomes(&hdr(transfer, ":colormatrix=bt2020nc"), "half.mp4", expected);
    }
}

/// The attributes of the last line of a playlist that begins with `tag`.
fn line<'t>(text: &'t str, tag: &str) -> &'t str {
    text.lines().rfind(|line| line.starts_with(tag)).expect("a line")
}

#[test]
fn copied_high_dynamic_range_is_declared_by_both_manifests() {
    if !ffmpeg_is_here() {
        return;
    }
    let copy = Options { copy: true, ..options() };
    for (transfer, range, code, tags_of) in [
        ("smpte2084", "PQ", 16, STATED),
        ("smpte2084", "PQ", 16, ""),
        ("arib-std-b67", "HLG", 18, STATED),
    ] {
        let (_library, made) = ingested(&hdr(transfer, tags_of), "film.mkv", &copy);
        judge(&made.folder, &made.record);
        let text = |name: &str| fs::read_to_string(made.folder.join(name)).expect("a manifest");
        let master = text("master.m3u8");
        for tag in ["#EXT-X-STREAM-INF", "#EXT-X-I-FRAME-STREAM-INF"] {
            assert!(line(&master, tag).contains(&format!(",VIDEO-RANGE={range}")), "{master}");
        }
        let manifest = text("manifest.mpd");
        for (name, code) in
            [("ColourPrimaries", 9), ("TransferCharacteristics", code), ("MatrixCoefficients", 9)]
        {
            let property = format!("schemeIdUri=\"urn:mpeg:mpegB:cicp:{name}\" value=\"{code}\"/>");
            assert!(manifest.contains(&property), "{manifest}");
        }
        // The stream in the file says the same, for players that look there.
        let file = made.folder.join(&made.record.video[0].file);
        assert_eq!(tags(&file), format!("tv,bt2020nc,{transfer},bt2020"));
        let (_library, encoded) = ingested(&hdr(transfer, STATED), "film.mkv", &options());
        let [.., (_, poster), (_, thumbnail)] = &all_colours(&made)[..] else { panic!("pictures") };
        let expected = rgb(&encoded.folder.join(&encoded.record.video[0].file));
        assert!(near(*poster, expected) && near(*thumbnail, expected), "{poster:?} {expected:?}");
    }
    let (_library, made) = ingested(&green("320x180", "format=yuv420p", ""), "film.mp4", &copy);
    let master = fs::read_to_string(made.folder.join("master.m3u8")).expect("a playlist");
    assert!(!master.contains("VIDEO-RANGE"), "{master}");
}

#[test]
fn metadata_of_hdr10_plus_is_noted_if_it_is_left_out() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("film.hevc");
    make(&hdr("smpte2084", STATED), &path);
    let plain = fs::read(&path).expect("a film");
    // The shortest message of ST 2094-40: one window, no curve. It goes in front of the first frame, a unit of one of the types below 32.
    let message = b"\0\0\0\x01\x4e\x01\x04\x16\xb5\0\x3c\0\x01\x04\x01\x40\0\x0c\x80\x07\xd0\x03\xe8\x01\xf4\0\x7d\0\0\x03\0\x80";
    let is_frame = |at: &usize| plain[*at..].starts_with(&[0, 0, 1]) && plain[at + 3] >> 1 < 32;
    let at = (0..plain.len() - 3).find(is_frame).expect("a frame");
    fs::write(&path, [&plain[..at], message, &plain[at..]].concat()).expect("room");
    let library = Library::new();
    let is_noted = || {
        let made = library.ingest(&path, "film", &options()).expect("a title");
        made.notes.iter().any(|note| note.contains("left out: its HDR10+ metadata"))
    };
    assert!(is_noted());
    fs::write(&path, plain).expect("room");
    assert!(!is_noted());
}

/// A film whose head says Dolby Vision of this profile, with or without a compatible picture: the muxer can't write that.
fn dolby_vision(profile: u8, compatibility: u8) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("film.mp4");
    make(&format!("{} -tag:v hvc1", hdr("smpte2084", STATED)), &path);
    let mut bytes = fs::read(&path).expect("a film");
    // Version 1.0; profile and level 1; the enhancement's metadata and the base picture are there.
    let record = [1, 0, profile << 1, 1 << 3 | 5, compatibility << 4];
    let mut configuration = [&32_u32.to_be_bytes()[..], b"dvcC", &record].concat();
    configuration.resize(32, 0);
    let place = |bytes: &[u8], kind: &[u8]| {
        let at = bytes.windows(4).rposition(|part| part == kind).expect("a box");
        (at - 4, u32::from_be_bytes(bytes[at - 4..at].try_into().expect("four bytes")))
    };
    // The head is the last box of the file, so nothing else moves.
    let (entry, size) = place(&bytes, b"hvc1");
    let end = entry + size as usize;
    bytes.splice(end..end, configuration);
    for kind in [b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"hvc1"] {
        let (at, size) = place(&bytes, kind);
        bytes[at..at + 4].copy_from_slice(&(size + 32).to_be_bytes());
    }
    fs::write(&path, bytes).expect("room");
    (folder, path)
}

#[test]
fn dolby_vision_without_a_compatible_picture_is_refused_and_other_profiles_are_noted() {
    if !ffmpeg_is_here() {
        return;
    }
    let library = Library::new();
    let copy = Options { copy: true, ..options() };
    let (_folder, only) = dolby_vision(5, 0);
    for options in [&options(), &copy] {
        let error = library.ingest(&only, "film", options).expect_err("wrong colours");
        assert!(matches!(error, IngestError::DolbyVisionOnly(5)), "{error}");
    }
    let (_folder, compatible) = dolby_vision(8, 1);
    for (options, note) in [
        (&options(), "left out: its Dolby Vision metadata (profile 8)"),
        (&copy, "its Dolby Vision metadata (profile 8) is not declared"),
    ] {
        let made = library.ingest(&compatible, "film", options).expect("a title");
        assert!(made.notes.iter().any(|one| one.contains(note)), "{:?}", made.notes);
    }
}
