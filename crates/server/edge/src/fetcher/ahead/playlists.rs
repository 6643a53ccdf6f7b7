//! Which segment follows which, by the HLS playlists that viewers have requested lately (RFC 8216).

use crate::reference::resolved;
use escape::{percent, unicode};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The longest playlist that is read.
pub(super) const PLAYLIST_BYTES_MAX: u64 = 1 << 20;

/// The most playlists, and the most bytes of their segments' paths. A film of two hours has some 1,800 segments of 40 bytes.
const PLAYLISTS_MAX: usize = 256;
const BYTES_MAX: usize = 8 << 20;

/// The most segments of one playlist, and the most bytes of their paths: what follows is not fetched ahead. That is a recording of a day.
const SEGMENTS_MAX: usize = 20_000;
const PLAYLIST_PATHS_BYTES_MAX: usize = BYTES_MAX / 2;

/// The latest playlists.
#[derive(Default)]
pub(super) struct Playlists {
    /// The segment after each one; none after the last of a playlist.
    next: HashMap<Arc<str>, Option<Arc<str>>>,
    /// The oldest first.
    kept: VecDeque<Kept>,
    bytes: usize,
}

struct Kept {
    path: String,
    /// The number of the file that it was read from.
    file: u64,
    segments: Vec<Arc<str>>,
}

impl Playlists {
    /// Whether the playlist at `path` has been read from this file.
    pub(super) fn has(&self, path: &str, file: u64) -> bool {
        self.kept.iter().any(|kept| kept.file == file && kept.path == path)
    }

    /// Adds the segments of a playlist that was read from this file. It takes the place of an earlier version.
    pub(super) fn add(&mut self, path: &str, file: u64, segments: Vec<Arc<str>>) {
        if let Some(at) = self.kept.iter().position(|kept| kept.path == path) {
            if let Some(former) = self.kept.remove(at) {
                self.forget(&former);
            }
        }
        if let Some(last) = segments.last() {
            self.next.entry(Arc::clone(last)).or_default();
        }
        for pair in segments.windows(2) {
            self.next.insert(Arc::clone(&pair[0]), Some(Arc::clone(&pair[1])));
        }
        self.bytes += bytes_of(&segments);
        self.kept.push_back(Kept { path: path.to_owned(), file, segments });
        while self.kept.len() > PLAYLISTS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.forget(&oldest);
        }
    }

    /// Whether a playlist has a segment at `path`.
    pub(super) fn names(&self, path: &str) -> bool {
        self.next.contains_key(path)
    }

    /// The segments after the one at `path`, at most `count`.
    pub(super) fn after(&self, path: &str, count: u64) -> Vec<String> {
        let next = |path: &str| self.next.get(path).and_then(Option::as_ref);
        let following = std::iter::successors(next(path), |one| next(one));
        following.take(count as usize).map(|one| one.to_string()).collect()
    }

    fn forget(&mut self, kept: &Kept) {
        self.bytes -= bytes_of(&kept.segments);
        for pair in kept.segments.windows(2) {
            // Another playlist may have the same segment.
            let next = self.next.get(&pair[0]).and_then(Option::as_ref);
            if next.is_some_and(|next| Arc::ptr_eq(next, &pair[1])) {
                self.next.remove(&pair[0]);
            }
        }
        let last = kept.segments.last();
        if let Some(last) = last.filter(|last| self.next.get(*last).is_some_and(Option::is_none)) {
            self.next.remove(last);
        }
    }
}

/// The bytes of memory of these paths, roughly: the text, and two entries of the map.
fn bytes_of(segments: &[Arc<str>]) -> usize {
    segments.iter().map(|segment| segment.len() + 64).sum()
}

/// The paths of a media playlist's segments, in its order. None of a multivariant playlist, which names playlists; nor of one whose segments are
/// ranges of files, or have variables in their URIs.
pub(super) fn segments(path: &str, text: &str) -> Vec<Arc<str>> {
    let is_media = text.starts_with("#EXTM3U") && text.contains("#EXTINF:");
    let others = ["#EXT-X-STREAM-INF", "#EXT-X-BYTERANGE", "#EXT-X-DEFINE"];
    if !is_media || others.iter().any(|tag| text.contains(tag)) {
        return Vec::new();
    }
    let (mut paths, mut bytes, mut is_gap) = (Vec::<Arc<str>>::new(), 0, false);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('#') {
            is_gap |= line == "#EXT-X-GAP";
            continue;
        }
        let has_gap = std::mem::take(&mut is_gap);
        let Some(path) = segment(path, line).filter(|_| !has_gap) else { continue };
        bytes += path.len();
        if paths.len() == SEGMENTS_MAX || bytes > PLAYLIST_PATHS_BYTES_MAX {
            break;
        }
        paths.push(path);
    }
    // A film that is one file.
    paths.dedup();
    paths
}

/// The path of a segment as viewers' requests for it have it. Only for plain URIs on the same server, and of paths that viewers may request: what a
/// rule makes of a query, only the server knows.
fn segment(playlist: &str, uri: &str) -> Option<Arc<str>> {
    let path = resolved(playlist, uri)?;
    if path.contains('?') {
        return None;
    }
    let decoded = percent::decode(path.strip_prefix('/')?.as_bytes())?;
    is_requestable(&decoded).then(|| crate::escaped(&unicode::composed(&decoded)).into())
}

/// Whether viewers can request this path. The server refuses control characters, hidden names and empty ones, and has pages of its own below `-`.
fn is_requestable(path: &[u8]) -> bool {
    let is_name =
        |name: &[u8]| !name.is_empty() && name[0] != b'.' && !name.iter().any(u8::is_ascii_control);
    let mut names = path.split(|byte| *byte == b'/');
    names.clone().next() != Some(b"-") && names.all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(playlists: &mut Playlists, path: &str, file: u64, text: &str) {
        playlists.add(path, file, segments(path, text));
    }

    fn playlist(uris: &[&str]) -> String {
        let segments: String = uris.iter().map(|uri| format!("#EXTINF:4,\n{uri}\n")).collect();
        format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MAP:URI=\"init.mp4\"\n{segments}")
    }

    #[test]
    fn segments_follow_each_other_as_in_the_playlist_that_viewers_got_last() {
        let mut playlists = Playlists::default();
        let path = "/live/hd/list.m3u8?session=1";
        let uris =
            ["1.ts", "2.ts", "../sd/e\u{301}.ts", "/live/4%2b.ts", "https://other/5.ts", "6.ts?x"];
        read(&mut playlists, path, 7, &playlist(&uris));
        assert!(playlists.has(path, 7) && !playlists.has(path, 8) && !playlists.has("/", 7));
        assert_eq!(playlists.after("/live/hd/1.ts", 1), ["/live/hd/2.ts"]);
        assert!(playlists.names("/live/hd/2.ts") && playlists.names("/live/4%2B.ts"));
        assert!(!playlists.names("/live/hd/6.ts"));
        assert_eq!(playlists.after("/live/hd/2.ts", 9), ["/live/sd/%C3%A9.ts", "/live/4%2B.ts"]);
        assert_eq!(playlists.after("/live/hd/none.ts", 9), [] as [String; 0]);
        read(&mut playlists, path, 8, &playlist(&["2.ts", "3.ts"]));
        assert_eq!(playlists.after("/live/hd/1.ts", 9), [] as [String; 0]);
        assert_eq!(playlists.after("/live/hd/2.ts", 9), ["/live/hd/3.ts"]);
        assert!(!playlists.names("/live/4%2B.ts") && playlists.names("/live/hd/3.ts"));
        read(&mut playlists, path, 9, &playlist(&[]));
        assert!(playlists.next.is_empty());
    }

    #[test]
    fn only_media_playlists_have_segments_and_parts_of_a_file_are_one() {
        let mut playlists = Playlists::default();
        read(
            &mut playlists,
            "/a.m3u8",
            1,
            "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nhd.m3u8\nsd.m3u8\n",
        );
        read(&mut playlists, "/b.m3u8", 2, "1.ts\n2.ts\n");
        read(&mut playlists, "/c.m3u8", 3, &playlist(&["film.mp4", "film.mp4"]));
        assert_eq!(playlists.after("/film.mp4", 3), [] as [String; 0]);
        assert!(playlists.names("/film.mp4") && playlists.next.len() == 1);
        read(&mut playlists, "/d.m3u8", 4, &playlist(&["1.ts", "2.ts", "1.ts", "2.ts"]));
        assert_eq!(playlists.after("/1.ts", 3), ["/2.ts", "/1.ts", "/2.ts"], "however it repeats");
    }

    #[test]
    fn segments_that_viewers_may_not_request_or_that_are_no_files_are_left_out() {
        let uris = [
            "1.ts",
            ".hidden.ts",
            "/.git/a.ts",
            "/%2ehidden/a.ts",
            "c/%2e%2e/b.ts", // dots, as browsers read it
            "/-/metrics",
            "/-",
            "/%2d/metrics",
            "/a//b.ts",
            "/a%00.ts",
            "folder/",
            "/-a/2.ts",
        ];
        assert_eq!(
            *segments("/a/list.m3u8", &playlist(&uris)),
            ["/a/1.ts", "/a/b.ts", "/-a/2.ts"].map(Arc::from)
        );
        let text = playlist(&["1.ts", "2.ts"]);
        let ranges = text.replace("2.ts", "#EXT-X-BYTERANGE:100@0\n2.ts");
        let variables = format!("{text}#EXT-X-DEFINE:NAME=\"a\",VALUE=\"b\"\n");
        for text in [ranges, variables] {
            assert!(segments("/a/list.m3u8", &text).is_empty(), "{text}");
        }
        let gap = playlist(&["1.ts", "2.ts", "3.ts"]).replace("2.ts", "#EXT-X-GAP\n2.ts");
        assert_eq!(*segments("/list.m3u8", &gap), ["/1.ts", "/3.ts"].map(Arc::from));
    }

    #[test]
    fn a_playlist_is_read_up_to_a_bound() {
        let text = format!("#EXTM3U\n#EXTINF:4,\n{}", "a\nb\n".repeat(SEGMENTS_MAX));
        assert_eq!(segments("/list.m3u8", &text).len(), SEGMENTS_MAX);
        let folder = "folder".repeat(1000);
        let long = segments(&format!("/{folder}/list.m3u8"), &text);
        let bytes: usize = long.iter().map(|path| path.len()).sum();
        assert!(bytes <= PLAYLIST_PATHS_BYTES_MAX && long.len() > 100, "{}", long.len());
    }

    #[test]
    fn playlists_are_bounded_in_number_and_in_bytes() {
        let mut playlists = Playlists::default();
        for number in 0..2 * PLAYLISTS_MAX as u64 {
            read(&mut playlists, &format!("/{number}.m3u8"), number, &playlist(&["1.ts", "2.ts"]));
        }
        assert_eq!(playlists.kept.len(), PLAYLISTS_MAX);
        let uris: Vec<String> =
            (0..10_000).map(|number| format!("segment-{number:07}.ts")).collect();
        let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
        for number in 0..50 {
            read(&mut playlists, &format!("/{number}/list.m3u8"), number, &playlist(&uris));
            assert!(playlists.bytes <= BYTES_MAX && playlists.next.len() <= BYTES_MAX / 64);
        }
        assert_eq!(playlists.after("/49/segment-0000001.ts", 1), ["/49/segment-0000002.ts"]);
        assert!(playlists.kept.len() < 10);
    }
}
