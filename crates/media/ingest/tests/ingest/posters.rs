//! Posters: of a picture of the user's choice, of a cover, of a frame; and the sheets of thumbnails in the DASH manifest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use catalog::Record;
use fullbore_ingest::ingest::{Bounds, IngestError, Ingested, Options, Progress, Stop};

use crate::judge::{judge, probe};
use crate::library::{Library, names, options};
use crate::source::{ffmpeg_is_here, make, make_with, plain};

/// The sheets of thumbnails in a DASH manifest (DASH-IF IOP 4.3 section 6.2.6): those that a player asks for exist, are as large as stated, and are
/// the ones in the list of thumbnails.
pub(crate) fn tiles_are_right(title: &Path, record: &Record, manifest: roxmltree::Node) {
    let mut sets =
        manifest.descendants().filter(|node| node.attribute("contentType") == Some("image"));
    let Some(set) = sets.next() else {
        assert_eq!(record.thumbnails, None);
        return;
    };
    let of = |name: &str| {
        set.descendants().find(|node| node.tag_name().name() == name).expect("an element")
    };
    let number = |node: roxmltree::Node, name: &str| -> f64 {
        node.attribute(name).expect("an attribute").parse().expect("a number")
    };
    let tile = of("EssentialProperty");
    assert_eq!(tile.attribute("schemeIdUri"), Some("http://dashif.org/guidelines/thumbnail_tile"));
    assert_eq!(tile.attribute("value"), Some("5x5"));
    let (template, one) = (of("SegmentTemplate"), of("Representation"));
    let media = template.attribute("media").expect("a template");
    let seconds = number(template, "duration") / number(template, "timescale");
    let sheets = (record.duration_seconds / seconds).ceil() as u32;
    let size = format!("{},{}", number(one, "width"), number(one, "height"));
    let list =
        fs::read_to_string(title.join(record.thumbnails.as_ref().expect("a list"))).expect("text");
    let folder = format!("{}/", record.folder);
    let mut bytes_max = 0;
    for index in 1..=sheets {
        let path = media.replace("$Number$", &index.to_string());
        assert!(record.files.iter().any(|file| file.path == path), "{path}");
        assert_eq!(probe(&title.join(&path), "stream=width,height"), size, "{path}");
        let name = path.strip_prefix(&folder).expect("a file of the version");
        assert!(list.contains(&format!("\n{name}#xywh=")), "{name}");
        bytes_max = bytes_max.max(title.join(&path).metadata().expect("a file").len());
    }
    let next = media.replace("$Number$", &(sheets + 1).to_string());
    assert!(!title.join(next).exists(), "a sheet that no player asks for");
    assert!(number(one, "bandwidth") * seconds >= bytes_max as f64 * 8.0);
    assert!(sets.next().is_none());
}

/// A picture of one colour, in the format of the file's extension.
fn picture(folder: &Path, name: &str, colour: &str, size: &str) -> PathBuf {
    let path = folder.join(name);
    // By itself, ffmpeg gives a GIF colours of a fixed palette, and makes odd sizes even.
    let form = match name.rsplit('.').next() {
        Some("gif") => ",split[a][b];[a]palettegen=reserve_transparent=0[c];[b][c]paletteuse",
        Some("png") => ",format=rgb24",
        _ => "",
    };
    make(
        &format!("-f lavfi -i color={colour}:size={size}:duration=1{form} -frames:v 1 -update 1"),
        &path,
    );
    path
}

/// The JPEG file at `path` as from a camera that was held sideways: EXIF says to turn it by a quarter.
fn turned(path: &Path) -> PathBuf {
    let plain = fs::read(path).expect("a picture");
    // A little-endian TIFF header whose directory at 8 has one entry: tag 0x112 (orientation), one 16-bit number, 6.
    let exif =
        b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    let path = path.with_file_name("turned.jpg");
    fs::write(&path, [&plain[..2], exif, &plain[2..]].concat()).expect("written");
    path
}

/// The size of a picture, and its mean colour.
fn seen(path: &Path) -> (String, [u8; 3]) {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(path);
    command.args(["-vf", "scale=1:1:flags=area,format=rgb24", "-f", "rawvideo", "-"]);
    let output = command.output().expect("ffmpeg");
    let colour = output.stdout.try_into().expect("one pixel");
    (probe(path, "stream=width,height"), colour)
}

fn poster(made: &Ingested) -> (String, [u8; 3]) {
    seen(&made.folder.join(made.record.poster.as_ref().expect("a poster")))
}

/// Pages ask for the poster in these widths, by these names, and every one of them is among the title's verified files.
#[track_caller]
fn smaller_ones_are_right(made: &Ingested, size: &str, colour: [u8; 3]) {
    let (width, height) = size.split_once(',').expect("a size");
    let (width, height): (u32, u32) = (width.parse().unwrap(), height.parse().unwrap());
    let record = &made.record;
    let smaller: Vec<_> = [320, 640].into_iter().filter(|small| *small < width).collect();
    let all = smaller.iter().copied().chain((!smaller.is_empty()).then_some(width));
    assert_eq!(record.poster_widths, all.collect::<Vec<_>>());
    let poster = record.poster.as_ref().expect("a poster");
    for small in smaller {
        let name = poster.replace(".jpg", &format!("-{small}.jpg"));
        let (found, seen_colour) = seen(&made.folder.join(&name));
        let lines = 2.0 * (f64::from(height * small) / f64::from(width) / 2.0).round();
        assert_eq!(found, format!("{small},{lines}"), "{name}");
        is_about(&name, seen_colour, colour);
        assert!(record.files.iter().any(|file| file.path == name), "{name} is not in the record");
    }
}

#[track_caller]
fn is_about(name: &str, found: [u8; 3], wanted: [u8; 3]) {
    let is_near = found.iter().zip(wanted).all(|(found, wanted)| found.abs_diff(wanted) <= 6);
    assert!(is_near, "{name}: {found:?} instead of {wanted:?}");
}

const RED: [u8; 3] = [255, 0, 0];
const GREEN: [u8; 3] = [32, 144, 96];

/// Sound with a cover of one colour, in the format of the file's extension.
fn song(folder: &Path, name: &str, words: &str, cover: &Path) -> PathBuf {
    let song = folder.join(name);
    let words = format!(
        "-f lavfi -i sine=440:duration=3 -i {} -map 0 -map 1 {words} -disposition:v:0 attached_pic",
        cover.display()
    );
    make(&words, &song);
    song
}

#[test]
fn sound_has_its_cover_as_poster() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, library) = (tempfile::tempdir().expect("a folder"), Library::new());
    let cover = picture(folder.path(), "cover.png", "red", "300x300");
    for (name, words) in [
        ("song.mp3", "-c:v png"),
        ("song.m4a", "-c:v mjpeg -pix_fmt yuvj420p"),
        ("song.flac", "-c:v copy"),
        ("song.mka", "-c:v mjpeg -pix_fmt yuvj420p"),
    ] {
        let made = library.ingest(&song(folder.path(), name, words, &cover), name, &options());
        let made = made.expect("a title");
        judge(&made.folder, &made.record);
        let (size, colour) = poster(&made);
        assert_eq!(size, "300,300", "{name}");
        is_about(&made.record.title, colour, RED);
        assert_eq!((made.record.video.len(), &made.record.thumbnails), (0, &None));
        assert!(made.notes.is_empty(), "{:?}", made.notes);
        assert_eq!(library.faults(name), []);
    }
    let silent = folder.path().join("plain.mp3");
    make("-f lavfi -i sine=440:duration=3", &silent);
    let made = library.ingest(&silent, "plain", &options()).expect("a title");
    assert_eq!(made.record.poster, None);
}

#[test]
fn a_film_has_its_cover_as_poster_if_that_is_asked_for() {
    if !ffmpeg_is_here() {
        return;
    }
    let ((folder, film), library) = (plain(), Library::new());
    let cover = picture(folder.path(), "cover.jpg", "red", "200x300");
    let with_cover = folder.path().join("with-cover.mp4");
    make(
        &format!(
            "-i {} -i {} -map 0 -map 1 -c copy -disposition:v:1 attached_pic",
            film.display(),
            cover.display()
        ),
        &with_cover,
    );
    let made = library.ingest(&with_cover, "film", &options()).expect("a title");
    assert_eq!(poster(&made).0, "320,180", "a frame");
    let options = Options { cover: true, ..options() };
    let made = library.ingest(&with_cover, "film", &options).expect("a title");
    judge(&made.folder, &made.record);
    let (size, colour) = poster(&made);
    assert_eq!(size, "200,300");
    is_about(&made.record.title, colour, RED);
    let made = library.ingest(&film, "other", &options).expect("a title");
    assert_eq!(poster(&made).0, "320,180", "there is no cover");
}

#[test]
fn any_picture_can_be_the_poster() {
    if !ffmpeg_is_here() {
        return;
    }
    let ((folder, film), library) = (plain(), Library::new());
    let options_of = |chosen| Options { poster: Some(chosen), copy: true, ..options() };
    for (name, size, shown) in [
        ("a.jpg", "640x360", "640,360"),
        ("b.png", "3000x1000", "2560,854"),
        ("c.bmp", "10x10", "10,10"),
        ("d.tiff", "1200x1800", "1080,1620"),
        ("odd.png", "300x451", "300,452"),
        ("panorama.png", "20000x1000", "2560,128"),
        ("e.gif", "64x64", "64,64"),
        ("f.ppm", "64x64", "64,64"),
        // Large, and not RGB: its matrix is that of BT.601 all the same.
        ("photo.webp", "1280x720", "1280,720"),
        // The first frame of another film.
        ("g.mp4", "320x180", "320,180"),
    ] {
        let chosen = picture(folder.path(), name, "0x209060", size);
        let made = library.ingest(&film, "film", &options_of(chosen)).expect("a title");
        let (size, colour) = poster(&made);
        assert_eq!(size, shown, "{name}");
        is_about(name, colour, GREEN);
        smaller_ones_are_right(&made, &size, GREEN);
        assert!(made.record.thumbnails.is_some());
    }
    let chosen = turned(&picture(folder.path(), "camera.jpg", "0x209060", "640x360"));
    let made = library.ingest(&film, "film", &options_of(chosen)).expect("a title");
    assert_eq!(poster(&made).0, "360,640");
    // Instead of a cover, too; and another picture of the same name makes the title again.
    let cover = picture(folder.path(), "cover.png", "red", "64x64");
    let song = song(folder.path(), "song.mp3", "-c:v png", &cover);
    for (colour, wanted) in [("0x209060", GREEN), ("red", RED)] {
        let chosen = picture(folder.path(), "chosen.png", colour, "32x32");
        let made = library.ingest(&song, "song", &options_of(chosen)).expect("a title");
        is_about(colour, poster(&made).1, wanted);
    }
}

/// The same file, after the pixels of its PNG were overwritten. The PNG's header, which says how large it is, stays.
fn damaged(path: PathBuf) -> PathBuf {
    let mut bytes = fs::read(&path).expect("a file");
    let at = bytes.windows(4).position(|four| four == b"IDAT").expect("a PNG");
    bytes[at + 4..at + 40].fill(0x55);
    fs::write(&path, bytes).expect("written");
    path
}

/// The same file without its second half, as after a download that broke off.
fn cut_short(path: PathBuf) -> PathBuf {
    let bytes = fs::read(&path).expect("a file");
    fs::write(&path, &bytes[..bytes.len() / 2]).expect("written");
    path
}

#[test]
fn a_picture_that_takes_too_much_memory_costs_no_finished_part() {
    if !ffmpeg_is_here() {
        return;
    }
    let ((folder, film), library) = (plain(), Library::new());
    let stop = Stop::default();
    let stop_at_second = |now| {
        if matches!(now, Progress::Making { number: 2, .. }) {
            stop.stop();
        }
    };
    let stopped = library.ingest_with(&film, "film", &options(), &stop, stop_at_second);
    assert!(matches!(stopped, Err(IngestError::Interrupted)), "{stopped:?}");
    let finished = || names(&library.title(".ingest-film"));
    let before = finished();
    assert_eq!(before.len(), 1, "{before:?}");
    let large = picture(folder.path(), "large.tiff", "red", "12000x12000");
    let bounds = Bounds { memory_bytes_max: 200 << 20, ..Bounds::default() };
    let options = Options { poster: Some(large), bounds, ..options() };
    let error = library.ingest(&film, "film", &options).expect_err("too large");
    assert!(matches!(error, IngestError::PosterUnusable { .. }), "{error}");
    assert_eq!(finished(), before);
}

#[test]
fn a_picture_that_cannot_be_the_poster_is_refused_before_anything_is_encoded() {
    if !ffmpeg_is_here() {
        return;
    }
    let ((folder, film), library) = (plain(), Library::new());
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    };
    let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"><image href=\"/etc/passwd\"/></svg>";
    let list = "#EXTM3U\n#EXTINF:1,\n/etc/passwd\n#EXT-X-ENDLIST\n";
    for path in [
        file("words.jpg", "not a picture"),
        file("empty.png", ""),
        file("drawing.svg", svg),
        file("list.jpg", list),
        damaged(picture(folder.path(), "damaged.png", "red", "64x64")),
        cut_short(picture(folder.path(), "cut.jpg", "red", "640x480")),
    ] {
        let options = Options { poster: Some(path.clone()), ..options() };
        let progress =
            |now| assert!(!matches!(now, Progress::Making { .. }), "{path:?}: it encodes");
        let error = library.ingest_with(&film, "film", &options, &Stop::default(), progress);
        let error = error.expect_err("no picture");
        assert!(
            matches!(&error, IngestError::PosterUnusable { path: named, .. } if *named == path),
            "{error}"
        );
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    let options = Options { poster: Some(folder.path().join("none.jpg")), ..options() };
    assert!(library.ingest(&film, "film", &options).is_err());
    assert!(library.names().is_empty(), "{:?}", library.names());
}

#[test]
fn a_damaged_cover_costs_the_poster_and_not_the_title() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, library) = (tempfile::tempdir().expect("a folder"), Library::new());
    let cover = picture(folder.path(), "cover.png", "red", "64x64");
    let song = damaged(song(folder.path(), "song.mp3", "-c:v copy", &cover));
    let made = library.ingest(&song, "song", &options()).expect("a title");
    judge(&made.folder, &made.record);
    assert_eq!(made.record.poster, None);
    assert!(
        made.notes.iter().any(|note| note.starts_with("left out: its cover (png: ")),
        "{:?}",
        made.notes
    );
}

#[test]
fn sheets_cover_a_film_whose_sound_outlasts_its_picture() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, library) = (tempfile::tempdir().expect("a folder"), Library::new());
    let film = folder.path().join("film.mkv");
    let words = "-f lavfi -i testsrc2=size=160x90:rate=5:duration=20 -f lavfi -i sine=440:duration=60 \
                 -c:v libx264 -preset ultrafast -g 5 -c:a aac";
    make_with(&words.split_whitespace().collect::<Vec<_>>(), &film);
    let made = library.ingest(&film, "film", &options()).expect("a title");
    // More than the picture's sheet; `judge` looks at all of them.
    judge(&made.folder, &made.record);
    assert!(made.record.duration_seconds > 59.0);
    assert!(made.record.files.iter().any(|file| file.path.ends_with("thumbnails-2.jpg")));
}
