//! Films that are only for machines: HLS with segments of zeros, of the sizes that their bit rates say.

use std::fs;
use std::path::Path;

/// Length of a segment.
pub(crate) const SEGMENT_SECONDS: usize = 2;

/// Bit rates, lowest first.
pub(crate) const RUNGS: [usize; 3] = [400_000, 800_000, 1_600_000];

/// Bytes of a segment.
pub(crate) fn segment_bytes(rung: usize) -> usize {
    RUNGS[rung] * SEGMENT_SECONDS / 8
}

/// The playlist of all bit rates.
pub(crate) fn master() -> String {
    let variant = |(rung, bits): (usize, &usize)| {
        format!(
            "#EXT-X-STREAM-INF:BANDWIDTH={bits},CODECS=\"avc1.42c01e,mp4a.40.2\"\n{rung}.m3u8\n"
        )
    };
    let variants: String = RUNGS.iter().enumerate().map(variant).collect();
    format!("#EXTM3U\n#EXT-X-VERSION:7\n{variants}")
}

/// The playlist of one bit rate. Its segments are files of their own, or with `ranges` parts of one file.
pub(crate) fn playlist(rung: usize, segments: usize, ranges: bool) -> String {
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
pub(crate) fn make(folder: &Path, segments: usize) {
    let title = folder.join("film");
    fs::create_dir_all(&title).unwrap();
    fs::write(title.join("master.m3u8"), master()).unwrap();
    for rung in 0..RUNGS.len() {
        fs::write(title.join(format!("{rung}.m3u8")), playlist(rung, segments, false)).unwrap();
        for number in 0..segments {
            let file = fs::File::create(title.join(format!("{rung}-{number}.m4s"))).unwrap();
            file.set_len(segment_bytes(rung) as u64).unwrap();
        }
    }
}
