//! Ranges: several at once, of films of which only blocks are there, and of responses whose length is not known.

use crate::origin::{Manner, Origin};
use crate::{MIB, edge};
use fullbore_tests::{Plain, Response, eventually};
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// The parts of a multipart response: each with its `Content-Range`, and its bytes.
fn parts(answer: &Response) -> Vec<(String, Vec<u8>)> {
    let media_type = header(&answer.head, "Content-Type").unwrap();
    let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let (open, close) = (format!("--{boundary}\r\n"), format!("\r\n--{boundary}--\r\n"));
    let mut rest = answer.body.strip_suffix(close.as_bytes()).expect("its end");
    let mut parts = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix(b"\r\n").unwrap_or(rest);
        rest = rest.strip_prefix(open.as_bytes()).expect("the beginning of a part");
        let end = rest.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8(rest[..end].to_vec()).unwrap();
        let range = header(&head, "Content-Range").unwrap().to_owned();
        let (first, last) =
            range.split_once('/').unwrap().0["bytes ".len()..].split_once('-').unwrap();
        let length = last.parse::<usize>().unwrap() - first.parse::<usize>().unwrap() + 1;
        parts.push((range, rest[end..end + length].to_vec()));
        rest = &rest[end + length..];
    }
    parts
}

#[test]
fn several_ranges_of_a_film_cost_the_origin_their_blocks_once() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let film = origin.put("/film", 1, 5 * MIB + 3, LASTING);
    let size = film.len();
    // One of them goes across two blocks, and the last one counts from the end.
    let wanted = [0..10, 2 * MIB - 5..2 * MIB + 5, size - 2..size];
    let range = format!("Range: bytes=0-9,{}-{},-2\r\n", wanted[1].start, wanted[1].end - 1);
    for _ in 0..2 {
        let answer = Plain::connect(server.address).fetch_with("/film", &range);
        assert_eq!(answer.status, 206, "{}", answer.head);
        let expected = wanted.iter().map(|range| {
            let said = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            (said, film[range.clone()].to_vec())
        });
        assert!(parts(&answer).into_iter().eq(expected), "{}", answer.head);
    }
    let mut fetched: Vec<_> = origin.seen().into_iter().filter_map(|seen| seen.range).collect();
    fetched.sort_unstable();
    let mib = MIB as u64;
    let blocks = fetched.iter().flat_map(|(first, last)| first / mib..=last / mib);
    assert_eq!(blocks.collect::<Vec<_>>(), [0, 1, 2, 5], "{fetched:?}");
}

#[test]
fn several_ranges_of_a_response_that_is_stored_whole_come_from_the_cache() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let page = origin.put("/page", 1, 2 * MIB, LASTING);
    origin.change("/page", |object| object.etag = "W/\"v1\"".into());
    let fetch = |range: &str| Plain::connect(server.address).fetch_with("/page", range);
    eventually("it to be stored", || {
        fetch("").head.contains("Cache-Status: fullbore; hit").then_some(())
    });
    let asked = origin.count("/page");
    let answer = fetch("Range: bytes=5-9,2000000-2000009\r\n");
    let bodies: Vec<_> = parts(&answer).into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(bodies, [&page[5..10], &page[2_000_000..2_000_010]], "{}", answer.head);
    assert_eq!(origin.count("/page"), asked);
}

#[test]
fn an_origin_that_does_not_say_of_how_much_a_part_is_gives_films_all_the_same() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let fetch = |path: &str, range: &str| Plain::connect(server.address).fetch_with(path, range);
    // It knew the length when it was asked first.
    let known = origin.put("/known", 1, 3 * MIB, LASTING);
    assert_eq!(fetch("/known", "Range: bytes=0-9\r\n").body, known[..10]);
    origin.behave(Manner::NoTotal { is_known: true });
    assert!(fetch("/known", "").body == *known);
    // It says the length only of the whole.
    let film = origin.put("/film", 2, 3 * MIB + 1, LASTING);
    let part = fetch("/film", "Range: bytes=5-9\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &film[5..10]), "{}", part.head);
    assert!(fetch("/film", "").body == *film);
    assert_eq!(fetch("/film", "Range: bytes=-5\r\n").body, film[film.len() - 5..]);
    assert_eq!(origin.count("/film"), 2, "a part, and then all of it: {:?}", origin.seen());
}

#[test]
fn a_seek_does_not_wait_for_all_that_an_origin_sends_to_say_how_long_a_film_is() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.behave(Manner::NoTotal { is_known: true });
    let part = |path: &str, first: usize| {
        let range = format!("Range: bytes={first}-{}\r\n", first + 9);
        Plain::connect(server.address).fetch_with(path, &range)
    };
    // A seek, and the beginning of a film that is too long for one body.
    let mut fetched = 0;
    for (path, first) in [("/seek", 6 * MIB), ("/start", 0)] {
        let film = origin.put(path, 1, 8 * MIB, LASTING);
        let answer = part(path, first);
        assert_eq!((answer.status, &answer.body[..]), (206, &film[first..first + 10]));
        server.wait_for_news();
        fetched += MIB as u64;
        assert_eq!(server.sum("edge_fetched_bytes_total"), fetched, "{path}: only its block");
        assert_eq!(origin.count(path), 2, "a part, and how long it is: {:?}", origin.seen());
        assert_eq!(part(path, 3 * MIB).body, film[3 * MIB..3 * MIB + 10]);
        fetched += MIB as u64;
    }
    assert_eq!(origin.seen().iter().filter(|seen| seen.range.is_none()).count(), 2);
}

#[test]
fn a_range_beyond_the_end_is_refused_though_the_origin_says_of_no_part_of_how_much_it_is() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let fetch = |range: &str| Plain::connect(server.address).fetch_with("/film", range);
    origin.behave(Manner::NoTotal { is_known: true });
    origin.put("/film", 1, 1000, "Cache-Control: max-age=0\r\n");
    // The second time, a film is known, and there is another version.
    for version in [1, 2] {
        let film = origin.put("/film", version, 1000, "Cache-Control: max-age=0\r\n");
        let answer = fetch("Range: bytes=2000000-\r\n");
        assert_eq!(answer.status, 416, "{version}: {}", answer.head);
        assert_eq!(header(&answer.head, "Content-Range"), Some("bytes */1000"));
        assert!(fetch("").body == *film, "{version}");
    }
}

#[test]
fn a_range_of_a_response_of_unknown_length_is_answered_with_what_there_is() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let fetch = |path: &str, range: &str| Plain::connect(server.address).fetch_with(path, range);
    for (name, manner) in
        [("chunked", Manner::Chunked), ("no-total", Manner::NoTotal { is_known: false })]
    {
        origin.behave(manner);
        for (kind, lines) in [("stored", LASTING), ("passed", "Cache-Control: no-store\r\n")] {
            let path = |size: &str| format!("/{name}-{kind}-{size}");
            // It arrives whole first, so its length is known by then.
            let small = origin.put(&path("small"), 1, 3000, lines);
            for (range, wanted) in [("-10", 2990..3000), ("2000-", 2000..3000), ("5-9", 5..10)] {
                // On a busy machine, it may take longer than the second after which it would come while it arrives.
                let part = eventually("all of it to arrive first", || {
                    let part = fetch(&path("small"), &format!("Range: bytes={range}\r\n"));
                    (part.status == 206).then_some(part)
                });
                assert_eq!(part.body, small[wanted.clone()], "{range}");
                let said = format!("bytes {}-{}/3000", wanted.start, wanted.end - 1);
                assert_eq!(header(&part.head, "Content-Range"), Some(&*said));
            }
            // It comes while it arrives. A 206 would have to say where it ends, so the viewer gets all of it (RFC 9110 section 14.2).
            let large = origin.put(&path("large"), 2, 3 * MIB, lines);
            let whole = fetch(&path("large"), "Range: bytes=-10\r\n");
            assert_eq!(whole.status, 200, "{}: {}", path("large"), whole.head);
            assert!(whole.body == *large);
        }
        let path = format!("/{name}-stored-large");
        eventually("the rest to be stored", || {
            fetch(&path, "").head.contains("Cache-Status: fullbore; hit").then_some(())
        });
        let asked = origin.count(&path);
        for range in ["-10", "3145718-"] {
            let part = fetch(&path, &format!("Range: bytes={range}\r\n"));
            assert_eq!((part.status, part.body.len()), (206, 10), "{range}: {}", part.head);
        }
        assert_eq!(origin.count(&path), asked);
    }
}
