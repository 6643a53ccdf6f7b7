//! Pinned titles are in the hot set before viewers request them, and stay there.

use crate::support::content::Content;
use crate::support::served::{Served, await_that};
use crate::support::viewer::Protocol;
use config::Route;
use fullbore_tests::settle;
use rustix::fs::Advice;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A block of the hot set.
const BLOCK: u64 = 2 * MIB;

const PLAYLIST: &[u8] = b"#EXTM3U\n";

/// A title of two films and a playlist, and a film that is not pinned.
struct Library {
    folder: TempDir,
    /// Three blocks and a little.
    large: Content,
    /// One block that is not full.
    small: Content,
    other: Content,
}

impl Library {
    fn new() -> Self {
        let library = Self {
            folder: tempfile::tempdir().unwrap(),
            large: Content::new(1, 3 * BLOCK + 12_345),
            small: Content::new(2, MIB + 5),
            other: Content::new(3, 20 * BLOCK),
        };
        let title = library.folder.path().join("series/one");
        fs::create_dir_all(&title).unwrap();
        fs::write(title.join("master.m3u8"), PLAYLIST).unwrap();
        library.large.write(&title.join("large.mp4")).unwrap();
        library.small.write(&title.join("small.mp4")).unwrap();
        library.other.write(&library.folder.path().join("other.mp4")).unwrap();
        for name in ["master.m3u8", "large.mp4", "small.mp4"] {
            forget(&title.join(name));
        }
        forget(&library.folder.path().join("other.mp4"));
        settle(library.folder.path());
        library
    }

    /// Serves it with a hot set of this many blocks.
    fn serve(&self, pins: &[&str], blocks: u64) -> Served {
        Served::start(self.folder.path(), Protocol::Tls13, |config| {
            config.route = Route::Userspace;
            config.memory.hot_bytes = Some(blocks * BLOCK);
            config.memory.pins = pins.iter().map(|pin| (*pin).into()).collect();
        })
    }
}

/// Evicts a file from the page cache.
fn forget(path: &Path) {
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

/// Bytes that viewers' requests have read from the disk.
fn from_disk(served: &Served) -> u64 {
    served.await_news();
    served.number(|n| &n.read_direct_bytes_total)
        + served.number(|n| &n.read_cached_bytes_total)
        + served.number(|n| &n.read_once_bytes_total)
        + served.number(|n| &n.brought_bytes_total)
}

#[track_caller]
fn await_pinned(served: &Served, bytes: u64) {
    let pinned = || served.number(|n| &n.hot_pinned_bytes);
    await_that(|| pinned() == bytes, || format!("{} bytes are pinned, not {bytes}", pinned()));
}

#[test]
fn the_first_viewer_of_a_pinned_title_waits_for_no_disk() {
    let library = Library::new();
    let served = library.serve(&["missing", "series/one"], 16);
    await_pinned(&served, 5 * BLOCK);
    assert_eq!(served.number(|n| &n.requests_total), 0);
    let mut viewer = served.viewer();
    assert_eq!(viewer.ask("/series/one/master.m3u8").body, PLAYLIST);
    let small = viewer.ask("/series/one/small.mp4").body;
    library.small.assert_holds(0, &small, "small");
    let large = viewer.ask("/series/one/large.mp4").body;
    library.large.assert_holds(0, &large, "large");
    assert_eq!((small.len() as u64, large.len() as u64), (library.small.size, library.large.size));
    assert_eq!(from_disk(&served), 0);
    let other = viewer.ask("/other.mp4").body;
    library.other.assert_holds(0, &other, "what is not pinned");
    assert!(from_disk(&served) > 0, "and what is not pinned is not in memory");
    served.stop();
}

#[test]
fn a_scan_of_the_rest_of_the_library_does_not_push_a_pinned_title_out() {
    let library = Library::new();
    let served = library.serve(&["series/one"], 10);
    await_pinned(&served, 5 * BLOCK);
    let mut viewer = served.viewer();
    let range = |block: u64| format!("bytes={0}-{0}", block * BLOCK);
    // More requests than the set remembers before it forgets half of them.
    for _ in 0..50 {
        for block in 0..library.other.size / BLOCK {
            let head =
                format!("GET /other.mp4 HTTP/1.1\r\nHost: h\r\nRange: {}\r\n\r\n", range(block));
            viewer.send(head.as_bytes()).unwrap();
            assert_eq!(viewer.response(true).unwrap().status, 206);
        }
    }
    served.await_news();
    assert!(served.number(|n| &n.hot_evicted_bytes_total) > 0, "others compete for the set");
    // A block may just be giving way to another one.
    let hot = || served.number(|n| &n.hot_bytes);
    await_that(|| hot() == 10 * BLOCK, || format!("they fill {} bytes", hot()));
    // A pinned block may have been replaced since it was last counted. Then it comes back, and is not replaced again.
    let comes_from_memory = || {
        await_pinned(&served, 5 * BLOCK);
        let before = from_disk(&served);
        let large = viewer.ask("/series/one/large.mp4").body;
        library.large.assert_holds(0, &large, "after the scan");
        from_disk(&served) == before
    };
    await_that(comes_from_memory, || "it is never in memory whole".into());
    served.stop();
}

#[test]
fn a_new_version_of_a_pinned_title_takes_the_place_of_the_old_one() {
    let library = Library::new();
    let served = library.serve(&["series/one"], 16);
    await_pinned(&served, 5 * BLOCK);
    let (newer, title) = (Content::new(9, 2 * BLOCK), library.folder.path().join("series/one"));
    newer.write(&title.join(".new")).unwrap();
    forget(&title.join(".new"));
    fs::rename(title.join(".new"), title.join("large.mp4")).unwrap();
    await_pinned(&served, 3 * BLOCK);
    let before = from_disk(&served);
    newer.assert_holds(0, &served.viewer().ask("/series/one/large.mp4").body, "the new version");
    assert_eq!(from_disk(&served), before);
    // A title that is gone is not pinned any more.
    fs::rename(library.folder.path().join("series"), library.folder.path().join(".gone")).unwrap();
    await_pinned(&served, 0);
    served.stop();
}

#[test]
fn a_title_that_takes_more_than_half_of_the_set_is_not_pinned() {
    let library = Library::new();
    let served = library.serve(&["other.mp4", "series/one"], 12);
    await_pinned(&served, 5 * BLOCK);
    served.await_news();
    assert_eq!(served.number(|n| &n.hot_bytes), 5 * BLOCK);
    served.stop();
}
