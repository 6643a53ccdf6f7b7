//! Objects that change at the origin: never a byte of one version among those of another.

use crate::origin::{Manner, Origin};
use crate::{MIB, edge};
use fullbore_tests::{bytes, until};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tempfile::tempdir;

/// A viewer's result: the version in its head, the offset of its bytes, and the bytes that arrived.
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) version: Option<u64>,
    pub(crate) start: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_whole: bool,
}

/// Fetches over a connection of its own; a response that breaks off is a result, too.
pub(crate) fn fetch(address: SocketAddr, path: &str, range: Option<(usize, usize)>) -> Got {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let line = range.map(|(first, last)| format!("Range: bytes={first}-{last}\r\n"));
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{}\r\n",
        line.unwrap_or_default()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "no answer after {head:?}");
    }
    let field = |name: &str| {
        let start = head.lines().find_map(|line| line.strip_prefix(name));
        start.map(|value| value.trim().to_owned())
    };
    let mut body = Vec::new();
    // A reset ends it as well.
    let _ = reader.read_to_end(&mut body);
    let length: usize = field("Content-Length:").unwrap().parse().unwrap();
    let version = field("ETag: \"v").map(|rest| rest.trim_end_matches('"').parse().unwrap());
    let start = field("Content-Range: bytes ");
    let start = start.map_or(0, |range| range.split('-').next().unwrap().parse().unwrap_or(0));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let is_whole = body.len() == length;
    Got { status, version, start, bytes: body, is_whole }
}

/// Signals that a test is over, however it ends.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The length of a version, between one block and three.
pub(crate) fn drawn_length(version: u64) -> usize {
    MIB + (version * 7_919_777 % (2 * MIB as u64)) as usize
}

/// Makes random changes at the origin and requests of viewers, by `seed`. Bytes under a tag must be of that version, every one. And it
/// must be the current version, unless the origin allowed an older one to be kept.
fn draw(count: u64, seed: u64) {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "--cache-gib 1");
    let mut random = seed;
    let mut next = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let lines = ["Cache-Control: no-cache\r\n", "Cache-Control: max-age=1\r\n"];
    let (mut version, mut whole) = (1, 0);
    let mut lasting = HashSet::new();
    origin.put("/film", version, drawn_length(version), lines[0]);
    for number in 0..count {
        match next(4) {
            0 => {
                version += 1;
                let lasts = next(8) == 0;
                origin.put("/film", version, drawn_length(version), lines[usize::from(lasts)]);
                if lasts {
                    lasting.insert(version);
                }
            }
            1 if next(3) == 0 => {
                origin.behave(Manner::Breaks(next(2 * MIB as u64) as usize));
            }
            2 if next(4) == 0 => origin.behave(Manner::Unconditional),
            _ => origin.behave(Manner::Good),
        }
        let first = next(drawn_length(version) as u64) as usize;
        let range = (next(3) > 0).then(|| (first, first + next(MIB as u64) as usize));
        let got = fetch(server.address, "/film", range);
        let what = format!("draw {number} of seed {seed}: version {version}, {range:?}");
        if got.status >= 400 {
            continue;
        }
        let named = got.version.expect("a tag");
        let expected = bytes(drawn_length(named), named);
        assert!(expected[got.start..].starts_with(&got.bytes), "{what}: wrong bytes of {named}");
        assert!(named == version || lasting.contains(&named), "{what}: {named} is old");
        whole += u64::from(got.is_whole);
    }
    assert!(whole > count / 3, "only {whole} of {count} were served whole");
}

#[test]
fn no_viewer_gets_a_byte_of_another_version() {
    draw(250, 1);
}

#[test]
#[ignore = "10,000 draws take minutes: ./run nightly"]
fn no_viewer_gets_a_byte_of_another_version_in_ten_thousand_draws() {
    (1..=10).for_each(|seed| draw(1000, seed));
}

#[test]
fn a_version_that_ends_under_its_viewers_breaks_off_and_is_never_mixed() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let lines = "Cache-Control: no-cache\r\n";
    origin.put("/film", 1, 12 * MIB, lines);
    origin.delay(Duration::from_millis(5));
    let server = edge(&origin, cache.path(), "--workers 2");
    let is_over = AtomicBool::new(false);
    let (begun, whole) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let watch = || {
        while !is_over.load(Relaxed) {
            begun.fetch_add(1, Relaxed);
            let got = fetch(server.address, "/film", None);
            let Some(version) = got.version else { continue };
            let expected = bytes(12 * MIB, version);
            assert!(expected.starts_with(&got.bytes), "wrong bytes of {version}");
            whole.fetch_add(usize::from(got.is_whole), Relaxed);
        }
    };
    std::thread::scope(|scope| {
        // Even if this thread fails, because the others would run for ever.
        let _ending = Ending(&is_over);
        let viewers: Vec<_> = (0..4).map(|_| scope.spawn(watch)).collect();
        for version in 2..12 {
            // Each version ends under viewers who have begun with it.
            let before = begun.load(Relaxed);
            until("viewers to begin", || {
                begun.load(Relaxed) > before + 1 || viewers.iter().any(|one| one.is_finished())
            });
            origin.put("/film", version, 12 * MIB, lines);
        }
        let before = whole.load(Relaxed);
        until("a viewer to be served whole", || {
            whole.load(Relaxed) > before || viewers.iter().any(|one| one.is_finished())
        });
    });
    assert_eq!(fetch(server.address, "/film", None).version, Some(11), "the newest in the end");
}

#[test]
fn an_object_that_shrinks_under_the_same_tag_is_not_mixed() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let film = origin.put("/film", 1, 3 * MIB, "Cache-Control: max-age=3600\r\n");
    let server = edge(&origin, cache.path(), "");
    let first = fetch(server.address, "/film", Some((0, 9)));
    assert_eq!(first.bytes, film[..10]);
    origin.behave(Manner::Shrunk);
    let part = fetch(server.address, "/film", Some((2 * MIB, 2 * MIB + 9)));
    assert_eq!((part.status, &part.bytes[..]), (206, &film[2 * MIB..2 * MIB + 10]));
    let end = fetch(server.address, "/film", Some((3 * MIB - 1, 3 * MIB)));
    assert_eq!(end.status, 416, "the object that is one byte shorter");
}
