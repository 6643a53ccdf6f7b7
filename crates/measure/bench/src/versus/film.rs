//! Films for viewers who play: playlists over the files of the library.
//!
//! No client decodes what a server sends here, so a film is a list of byte ranges of a file, as packagers write it for one file
//! of segments. A film that is longer than its file begins again at the file's start.

use crate::library::{Library, file_name};
use std::fmt::Write;
use std::fs;
use std::io;
use std::time::Duration;

/// Playing time of a segment: the shortest that packagers commonly use.
pub(super) const SEGMENT_SECONDS: u64 = 2;

/// The name of the playlist with which a player begins the film that is made of a file.
pub(super) fn name(file: usize) -> String {
    format!("film-{file}.m3u8")
}

fn media_name(file: usize) -> String {
    format!("film-{file}-media.m3u8")
}

/// Bytes of a segment.
pub(super) fn segment_bytes(bits_per_second: u64) -> u64 {
    (bits_per_second * SEGMENT_SECONDS / 8).max(1)
}

/// Writes a film of one bit rate for each file of the library.
///
/// # Errors
/// If the files are too small for a segment, or the playlists cannot be written.
pub(super) fn write(library: &Library, bits_per_second: u64, playing: Duration) -> io::Result<()> {
    let segment_bytes = segment_bytes(bits_per_second);
    if segment_bytes > library.file_bytes {
        return Err(io::Error::other(format!(
            "a segment of {segment_bytes} bytes does not fit into a file of {}: choose a lower --rate, or a larger --library",
            library.file_bytes
        )));
    }
    for file in 0..library.files {
        let main = format!(
            "#EXTM3U\n#EXT-X-VERSION:4\n#EXT-X-STREAM-INF:BANDWIDTH={bits_per_second}\n{}\n",
            media_name(file)
        );
        fs::write(library.root.join(name(file)), main)?;
        let media = media(file, segment_bytes, library.file_bytes, playing);
        fs::write(library.root.join(media_name(file)), media)?;
    }
    Ok(())
}

/// The list of a film's segments (RFC 8216).
fn media(file: usize, segment_bytes: u64, file_bytes: u64, playing: Duration) -> String {
    let in_a_file = file_bytes / segment_bytes;
    let segments = playing.as_secs().div_ceil(SEGMENT_SECONDS);
    let mut text = format!(
        "#EXTM3U\n#EXT-X-VERSION:4\n#EXT-X-TARGETDURATION:{SEGMENT_SECONDS}\n#EXT-X-PLAYLIST-TYPE:VOD\n"
    );
    for segment in 0..segments {
        let begin = segment % in_a_file * segment_bytes;
        let name = file_name(file);
        writeln!(
            text,
            "#EXTINF:{SEGMENT_SECONDS}.0,\n#EXT-X-BYTERANGE:{segment_bytes}@{begin}\n{name}"
        )
        .expect("writing to a string cannot fail");
    }
    text.push_str("#EXT-X-ENDLIST\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use player::{Presentation, Segments, Url};

    #[test]
    fn a_player_reads_the_films_and_their_ranges_lie_in_the_files() {
        let root = tempfile::tempdir().unwrap();
        let library = Library::at(root.path(), 2, 1_100_000);
        write(&library, 1_000_000, Duration::from_secs(21)).unwrap();
        let read = |name: &str| fs::read(root.path().join(name)).unwrap();
        let url: Url = format!("https://127.0.0.1:1/{}", name(1)).parse().unwrap();
        let film = Presentation::parse(&url, &read(&name(1))).unwrap();
        let [track] = &film.tracks[..] else { panic!("one track: {film:?}") };
        let [rendition] = &track.renditions[..] else { panic!("one rung: {film:?}") };
        assert_eq!(rendition.bits_per_second, 1_000_000);
        let source = &rendition.sources[0];
        let document = source.document().unwrap();
        assert_eq!(document.url.path_and_query(), format!("/{}", media_name(1)));
        let media = Segments::parse(source, &document.url, &read(&media_name(1))).unwrap();
        assert_eq!(media.list.len(), 11);
        let ranges: Vec<_> =
            media.list.iter().map(|segment| segment.reference.range.clone().unwrap()).collect();
        // Four whole segments fit into the file.
        assert_eq!((ranges[3].clone(), ranges[4].clone()), (750_000..1_000_000, 0..250_000));
        assert_eq!(media.list[4].reference.url.path_and_query(), format!("/{}", file_name(1)));
    }

    #[test]
    fn a_segment_that_does_not_fit_is_refused_with_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let library = Library::at(root.path(), 1, 1000);
        let error = write(&library, 1_000_000, Duration::from_secs(2)).unwrap_err().to_string();
        assert!(error.contains("--rate") && error.contains("--library"), "{error}");
    }
}
