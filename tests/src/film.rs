//! Films only for machines: HLS with segments of zeros, of the sizes that their bit rates imply.

use crate::title::{VERSION_FOLDER, record_of};
use std::fs;
use std::path::Path;

/// Length of a segment.
pub const SEGMENT_SECONDS: usize = 2;

/// Bit rates, lowest first.
pub const RUNGS: [usize; 3] = [400_000, 800_000, 1_600_000];

/// Bytes of a segment.
pub fn segment_bytes(rung: usize) -> usize {
    RUNGS[rung] * SEGMENT_SECONDS / 8
}

/// The playlist of all bit rates.
pub fn master() -> String {
    master_of(&RUNGS)
}

fn master_of(rungs: &[usize]) -> String {
    let variant = |(rung, bits): (usize, &usize)| {
        format!(
            "#EXT-X-STREAM-INF:BANDWIDTH={bits},CODECS=\"avc1.42c01e,mp4a.40.2\"\n{rung}.m3u8\n"
        )
    };
    let variants: String = rungs.iter().enumerate().map(variant).collect();
    format!("#EXTM3U\n#EXT-X-VERSION:7\n{variants}")
}

/// The playlist of one bit rate. Its segments are files of their own, or with `ranges` parts of one file.
pub fn playlist(rung: usize, segments: usize, ranges: bool) -> String {
    let segment = |number: usize| {
        let bytes = segment_bytes(rung);
        let (range, name) = match ranges {
            true => {
                (format!("#EXT-X-BYTERANGE:{bytes}@{}\n", number * bytes), format!("{rung}.mp4"))
            }
            false => (String::new(), format!("{rung}-{number}.m4s")),
        };
        format!("#EXTINF:{SEGMENT_SECONDS}.0,\n{range}{name}\n")
    };
    let list: String = (0..segments).map(segment).collect();
    format!(
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{SEGMENT_SECONDS}\n#EXT-X-PLAYLIST-TYPE:VOD\n{list}#EXT-X-ENDLIST\n"
    )
}

/// Puts a film into the library `folder`.
///
/// # Panics
/// If it cannot be written.
pub fn make(folder: &Path, segments: usize) {
    make_of(folder, &RUNGS, segments);
}

/// As [`make`], with the caller's bit rates.
///
/// # Panics
/// As [`make`].
pub fn make_of(folder: &Path, rungs: &[usize], segments: usize) {
    let title = folder.join("film");
    fs::create_dir_all(&title).unwrap();
    fs::write(title.join("master.m3u8"), master_of(rungs)).unwrap();
    make_tracks(&title, rungs, segments);
}

/// Puts a film with a record into the library `folder`, as a fleet publishes it.
///
/// # Panics
/// If it cannot be written.
pub fn make_with_record(folder: &Path, segments: usize) {
    let title = folder.join("film");
    fs::create_dir_all(title.join(VERSION_FOLDER)).unwrap();
    make_tracks(&title.join(VERSION_FOLDER), &RUNGS, segments);
    let tracks = |line: &str| match line.ends_with(".m3u8") {
        true => format!("{VERSION_FOLDER}/{line}\n"),
        false => format!("{line}\n"),
    };
    fs::write(title.join("master.m3u8"), master().lines().map(tracks).collect::<String>()).unwrap();
    fs::write(title.join("manifest.mpd"), mpd(segments)).unwrap();
    fs::write(title.join(catalog::RECORD), record_of(&title).seal()).unwrap();
}

/// A DASH manifest of the highest bit rate.
fn mpd(segments: usize) -> String {
    let (rung, bits) = (RUNGS.len() - 1, RUNGS[RUNGS.len() - 1]);
    let urls = (0..segments)
        .map(|number| format!("<SegmentURL media=\"{VERSION_FOLDER}/{rung}-{number}.m4s\"/>"));
    format!(
        "<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" profiles=\"urn:mpeg:dash:profile:isoff-main:2011\" type=\"static\" \
         mediaPresentationDuration=\"PT{}S\" minBufferTime=\"PT2S\"><Period><AdaptationSet mimeType=\"video/mp4\">\
         <Representation id=\"0\" bandwidth=\"{bits}\" codecs=\"avc1.42c01e\"><SegmentList duration=\"{SEGMENT_SECONDS}\">{}</SegmentList>\
         </Representation></AdaptationSet></Period></MPD>\n",
        segments * SEGMENT_SECONDS,
        urls.collect::<String>()
    )
}

/// Playlists and segments, below `folder`.
fn make_tracks(folder: &Path, rungs: &[usize], segments: usize) {
    for (rung, bits_per_second) in rungs.iter().enumerate() {
        fs::write(folder.join(format!("{rung}.m3u8")), playlist(rung, segments, false)).unwrap();
        for number in 0..segments {
            let file = fs::File::create(folder.join(format!("{rung}-{number}.m4s"))).unwrap();
            file.set_len((bits_per_second * SEGMENT_SECONDS / 8) as u64).unwrap();
        }
    }
}
