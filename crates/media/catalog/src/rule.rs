//! The rule from a path to its title.
//!
//! **A title is the outermost folder that has a manifest, with everything below it. Everywhere else, each file that players can open
//! directly is a title of its own.** A folder that contains a version's folder counts as having a manifest, because ingest puts one next to
//! the other.
//!
//! Why this rule:
//! * The first segment of a path is too coarse: `films/a` and `films/b` are two films.
//! * A file's own folder is too fine: many packagers put each rendition into a folder below the manifest's. So the outermost counts.
//! * Only the library's folder shows where manifests are, but code that sees only requests learns it soon enough
//!   ([`KnownTitles`](crate::KnownTitles)): players request the manifest first.
//!
//! A file that is neither (a segment whose manifest has not been requested yet) counts for its folder. The empty path is the library
//! itself, which is a title if it has a manifest at its top.

/// Extensions of files that players can open directly.
const PLAYABLE: [&str; 6] = ["mp4", "m4v", "mkv", "webm", "mov", "ts"];

/// Playlists of HLS (RFC 8216) and manifests of DASH (ISO/IEC 23009-1).
const MANIFESTS: [&str; 2] = ["m3u8", "mpd"];

/// Hexadecimal digits in the name of a version.
const VERSION_DIGITS: usize = 12;

/// The rule by example: the files of one library, and the title of each. All code that uses the rule is tested with these.
pub const EXAMPLES: [(&str, &str); 17] = [
    ("alone.mp4", "alone.mp4"),
    ("apple/1080p/1.ts", "apple"),
    ("apple/1080p/media.m3u8", "apple"),
    ("apple/master.m3u8", "apple"),
    ("films/a/master.m3u8", "films/a"),
    ("films/a/title.json", "films/a"),
    ("films/a/v-0123456789ab/video-720.m3u8", "films/a"),
    ("films/a/v-0123456789ab/video-720.mp4", "films/a"),
    ("films/b/audio/en/1.m4s", "films/b"),
    ("films/b/manifest.mpd", "films/b"),
    ("films/b/video.mp4", "films/b"),
    ("films/c.mp4", "films/c.mp4"),
    ("films/d.MKV", "films/d.MKV"),
    ("live/1.ts", "live"),
    ("live/INDEX.M3U8", "live"),
    ("v-for-vendetta/extras/making.webm", "v-for-vendetta/extras/making.webm"),
    ("v-for-vendetta/film.mp4", "v-for-vendetta/film.mp4"),
];

/// The title of the file at `path`. Paths are as the server opens them: relative to the library, decoded, without a slash at either end.
pub fn title_of(path: &[u8], has_manifest: impl Fn(&[u8]) -> bool) -> &[u8] {
    match outermost(path, has_manifest) {
        Some(folder) => folder,
        None if is_playable(path) => path,
        None => folder_of(path),
    }
}

/// The outermost folder above `path` that is a title.
pub(crate) fn outermost(path: &[u8], has_manifest: impl Fn(&[u8]) -> bool) -> Option<&[u8]> {
    if has_manifest(b"") || is_version(first_segment(path)) {
        return Some(b"");
    }
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let mut folders = slashes.map(|(at, _)| (&path[..at], &path[at + 1..]));
    let is_title =
        |folder: &[u8], below: &[u8]| is_version(first_segment(below)) || has_manifest(folder);
    folders.find(|(folder, below)| is_title(folder, below)).map(|(folder, _)| folder)
}

/// The folder of a file: empty if that is the library.
pub(crate) fn folder_of(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&[], |end| &path[..end])
}

fn first_segment(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Whether `path` is an HLS playlist or a DASH manifest, by its extension.
pub fn is_manifest(path: &[u8]) -> bool {
    has_extension(path, &MANIFESTS)
}

/// Whether players can open the file at `path` directly, by its extension.
pub fn is_playable(path: &[u8]) -> bool {
    has_extension(path, &PLAYABLE)
}

pub(crate) fn has_extension(path: &[u8], extensions: &[&str]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    // A name that is all extension, such as `.ts`, has none.
    let Some(dot) = name.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0) else {
        return false;
    };
    extensions.iter().any(|known| name[dot + 1..].eq_ignore_ascii_case(known.as_bytes()))
}

/// The folder name of a version whose content has the SHA-256 `sum`. It contains enough digits that no two versions of a title share a
/// name.
pub fn version_name(sum: &str) -> String {
    format!("v-{}", &sum[..VERSION_DIGITS])
}

/// Whether `folder` is the folder name of a version: `v-` and twelve hexadecimal digits, and a number if the title had that name before
/// (`v-0123456789ab-2`). The test is strict because a film may well be in a folder `v-for-vendetta`.
pub fn is_version(folder: &[u8]) -> bool {
    let Some(name) = folder.strip_prefix(b"v-") else { return false };
    let Some((digits, number)) = name.split_at_checked(VERSION_DIGITS) else { return false };
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let is_numbered = number.is_empty() || number.strip_prefix(b"-").is_some_and(is_number);
    digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) && is_numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title<'p>(path: &'p str, manifests: &[&str]) -> &'p str {
        let has_manifest =
            |folder: &[u8]| manifests.iter().any(|path| folder_of(path.as_bytes()) == folder);
        std::str::from_utf8(title_of(path.as_bytes(), has_manifest)).unwrap()
    }

    #[test]
    fn each_example_has_its_title() {
        let paths = EXAMPLES.map(|(path, _)| path);
        let manifests: Vec<_> =
            paths.into_iter().filter(|path| is_manifest(path.as_bytes())).collect();
        for (path, expected) in EXAMPLES {
            assert_eq!(title(path, &manifests), expected, "{path}");
        }
    }

    #[test]
    fn without_knowing_a_manifest_a_version_still_tells_its_title() {
        assert_eq!(title("films/a/v-0123456789ab/video-720.mp4", &[]), "films/a");
        assert_eq!(title("films/a/v-0123456789ab-12/video-720.m3u8", &[]), "films/a");
        assert_eq!(title("films/a/v-0123456789ab", &[]), "films/a");
        assert_eq!(title("v-0123456789ab/video-720.mp4", &[]), "");
    }

    #[test]
    fn what_is_not_known_counts_for_its_folder_and_a_film_for_itself() {
        assert_eq!(title("films/a/video/1.m4s", &[]), "films/a/video");
        assert_eq!(title("films/a/master.m3u8", &[]), "films/a");
        assert_eq!(title("films/a.mp4", &[]), "films/a.mp4");
        assert_eq!(title("films/.ts", &[]), "films");
        assert_eq!(title("index.html", &[]), "");
    }

    #[test]
    fn a_manifest_at_the_top_makes_the_library_a_title() {
        assert_eq!(title("master.m3u8", &[]), "");
        assert_eq!(title("1080p/1.ts", &["master.m3u8"]), "");
        assert_eq!(title("a/v-0123456789ab/1.ts", &["master.m3u8"]), "");
    }

    #[test]
    fn the_outermost_manifest_counts() {
        let both = ["series/master.m3u8", "series/1/master.m3u8"];
        assert_eq!(title("series/1/1.ts", &both), "series");
        assert_eq!(title("series/1/1.ts", &both[1..]), "series/1");
        assert_eq!(title("series/12/1.m4s", &both[1..]), "series/12");
    }

    #[test]
    fn only_what_ingest_names_so_is_a_version() {
        for name in ["v-0123456789ab", "v-0123456789ab-2"] {
            assert!(is_version(name.as_bytes()), "{name}");
        }
        for name in [
            "",
            "v-",
            "..",
            "v-../..",
            "v-a/b",
            "v-0123456789a",
            "v-0123456789abc",
            "v-0123456789AB",
            "v-0123456789ab-",
            "v-0123456789ab-x",
            "v-for-vendetta",
            "master.m3u8",
            "/",
        ] {
            assert!(!is_version(name.as_bytes()), "{name}");
        }
    }
}
