//! Long responses that are no films, because they have no strong entity tag: viewers who come while one arrives share it.

use crate::origin::{Manner, Origin};
use crate::{MIB, edge};
use fullbore_tests::{Plain, until};
use tempfile::tempdir;

const LENGTH: usize = 3 * MIB;

/// The rest of an answer whose head has been read: is it all of the body?
fn is_whole(viewer: &mut Plain, length: usize) -> bool {
    length == LENGTH && viewer.body(length).iter().all(|byte| *byte == b'x')
}

#[test]
fn ten_viewers_at_once_of_a_file_without_a_strong_tag_cost_the_origin_one_request() {
    let modified = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
    for (path, lines) in [
        ("/film.mp4", format!("public\r\n{modified}")),
        ("/data.bin", format!("no-cache\r\n{modified}")),
        ("/plain.bin", "max-age=60\r\nETag: W/\"v\"".to_owned()),
        ("/nothing.bin", "public".to_owned()),
    ] {
        let (origin, cache) = (Origin::start(), tempdir().unwrap());
        let server = edge(&origin, cache.path(), "");
        let lines: &'static str = Box::leak(lines.into_boxed_str());
        // The origin answers once all of them have asked.
        origin.behave(Manner::Withholds("/"));
        let ask = |number: u8| {
            let mut viewer =
                Plain::connect_from([127, 0, 0, 1 + number % 3].into(), server.address);
            viewer.ask(path);
            viewer
        };
        let mut viewers: Vec<_> = (0..10).map(ask).collect();
        until("the origin to be asked", || origin.count(path) == 1);
        server.wait_for_news();
        origin.behave(Manner::Drips("/", Some(LENGTH), lines));
        // The first one leaves, as does another one, and the rest get all of it.
        for mut leaving in viewers.drain(..2) {
            assert_eq!(leaving.head().2, LENGTH, "{path}");
        }
        for viewer in &mut viewers {
            let (status, head, length) = viewer.head();
            assert!(status == 200 && is_whole(viewer, length), "{path}: {head}");
        }
        assert_eq!(origin.count(path), 1, "{path}");
    }
}

#[test]
fn a_viewer_who_comes_while_a_file_arrives_gets_what_is_there_and_then_the_rest() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.behave(Manner::Drips("/", Some(LENGTH), "max-age=3600"));
    let mut first = Plain::connect(server.address);
    first.ask("/film.mp4");
    assert_eq!(first.head().2, LENGTH);
    assert!(first.body(MIB).iter().all(|byte| *byte == b'x'));
    let mut range = Plain::connect(server.address);
    let part = range.fetch_with("/film.mp4", "Range: bytes=0-9\r\n");
    assert!(part.status == 206 && part.body == [b'x'; 10], "{}", part.head);
    assert!(part.head.contains("collapsed") || part.head.contains("hit"), "{}", part.head);
    let mut late = Plain::connect(server.address);
    late.ask("/film.mp4");
    let (status, head, length) = late.head();
    // All viewers leave, and it is stored all the same.
    drop((first, range));
    assert!(status == 200 && is_whole(&mut late, length), "{head}");
    drop(late);
    let mut after = Plain::connect(server.address);
    until("it to be stored", || {
        let answer = after.fetch("/film.mp4");
        answer.body.len() == LENGTH && answer.head.contains("Cache-Status: fullbore; hit")
    });
    assert_eq!(origin.count("/film.mp4"), 1);
}

#[test]
fn a_file_that_breaks_off_ends_the_connections_of_all_who_share_it() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.put("/film.mp4", 1, LENGTH, "Cache-Control: max-age=3600\r\n");
    origin.change("/film.mp4", |object| object.etag = "W/\"v1\"".into());
    origin.behave(Manner::LongerThanSaid);
    let ask = |_| {
        let mut viewer = Plain::connect(server.address);
        viewer.ask("/film.mp4");
        viewer
    };
    let viewers: Vec<_> = (0..4).map(ask).collect();
    for mut viewer in viewers {
        let (status, _, length) = viewer.head();
        assert!(status == 502 || length == LENGTH + 7 && viewer.rest().len() < length, "{status}");
    }
}
