//! Live streams: the origin answers one request for all who wait for the same, and what it holds keeps nothing else waiting.

use crate::origin::{Manner, Origin};
use crate::packager::{self, PARTS, Packager};
use crate::{edge, launch_at};
use fullbore_tests::{Plain, Server, may_open, until};
use std::net::{IpAddr, Ipv4Addr};
use tempfile::tempdir;

/// Another client.
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

fn live_edge(packager: &Packager, cache: &std::path::Path) -> Server {
    launch_at(&packager.url(), cache).arguments("--tls off --workers 2").start()
}

/// Viewers at eight addresses who have requested `path` with header `lines`.
fn crowd(server: &Server, count: usize, path: &str, lines: &str) -> Vec<Plain> {
    // Those before them are counted by then.
    server.wait_for_news();
    let before = server.counter("requests_total");
    let ask = |number: usize| {
        let from = Ipv4Addr::new(127, 0, 0, 1 + (number % 8) as u8);
        let mut viewer = Plain::connect_from(IpAddr::V4(from), server.address);
        viewer.ask_with(path, lines);
        viewer
    };
    let viewers = (0..count).map(ask).collect();
    server.wait_for_counter("requests_total", before + count as u64);
    viewers
}

/// What origins say of their playlists: a film to the edge, a response for all, one that has to be revalidated before each use, a variant.
const SAID: [&str; 5] = [
    "Cache-Control: no-cache\r\nETag: \"{parts}\"\r\n",
    "",
    "Cache-Control: no-cache\r\n",
    "Cache-Control: max-age=0, must-revalidate\r\nVary: Accept-Encoding\r\n",
    "Cache-Control: max-age=0\r\nVary: Origin\r\n",
];

#[test]
fn all_who_wait_for_the_next_playlist_or_part_share_one_request() {
    const VIEWERS: usize = 1000;
    /// With `Vary`, each viewer takes a place among the held requests.
    const VIEWERS_WITH_VARY: usize = 100;
    if !may_open(2 * VIEWERS) {
        return;
    }
    let (packager, cache) = (Packager::start(), tempdir().unwrap());
    let server = live_edge(&packager, cache.path());
    for (number, said) in SAID.into_iter().enumerate() {
        packager.say(said);
        let viewers = if said.contains("Vary") { VIEWERS_WITH_VARY } else { VIEWERS };
        let first = number as u64 * PARTS;
        let reload = format!("/live.m3u8?_HLS_msn={number}&_HLS_part=0");
        let announced = format!("/part{first}.m4s");
        let mut waiting = crowd(&server, viewers, &reload, "");
        let mut waiting_for_part = crowd(&server, viewers / 10, &announced, "");
        packager.make(PARTS);
        for viewer in &mut waiting {
            let answer = viewer.answer();
            let text = String::from_utf8_lossy(&answer.body);
            let is_new = text.contains(&format!("\"part{first}.m4s\"\n"));
            assert!(answer.status == 200 && is_new, "{said}: {}{text}", answer.head);
        }
        for viewer in &mut waiting_for_part {
            let answer = viewer.answer();
            let is_it = answer.status == 200 && answer.body == packager::part(first);
            assert!(is_it, "{said}: {}", answer.head);
        }
        assert_eq!((packager.count(&reload), packager.count(&announced)), (1, 1), "{said}");
    }
}

#[test]
fn what_is_for_one_viewer_is_not_shared_by_those_who_wait_for_it() {
    const VIEWERS: usize = 20;
    let (packager, cache) = (Packager::start(), tempdir().unwrap());
    let server = live_edge(&packager, cache.path());
    for (number, said) in ["private", "no-store"].into_iter().enumerate() {
        packager.say(&format!("Cache-Control: {said}\r\n"));
        let reload = format!("/live.m3u8?_HLS_msn={number}");
        let mut waiting = crowd(&server, VIEWERS, &reload, "");
        packager.make(PARTS);
        waiting.iter_mut().for_each(|viewer| assert_eq!(viewer.answer().status, 200));
        assert_eq!(packager.count(&reload), VIEWERS, "{said}");
    }
}

/// The origin answers none of them until the end. So requests answered meanwhile have waited for none of them, however slow this machine is.
#[test]
fn held_requests_are_bounded_and_take_no_place_of_others() {
    const PLACES: usize = 256;
    const BY_CLIENT: usize = 192;
    if !may_open(2 * PLACES) {
        return;
    }
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let film = origin.put("/film", 1, 1000, LASTING);
    let asked = origin.put("/asked", 2, 1000, "Cache-Control: no-cache\r\n");
    let new = origin.put("/new.mp4", 3, 1000, LASTING);
    let list = origin.put("/list", 4, 1000, "Cache-Control: no-store\r\n");
    let mut viewer = Plain::connect(server.address);
    assert!(viewer.fetch("/film").body == *film && viewer.fetch("/asked").body == *asked);
    origin.behave(Manner::Withholds("/live"));
    let reload = |number: usize| format!("/live.m3u8?_HLS_msn={number}");
    let hold = |number: usize| {
        let from = if number < BY_CLIENT { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { OTHER };
        let mut viewer = Plain::connect_from(from, server.address);
        viewer.ask(&reload(number));
        viewer
    };
    let refused = |from: [u8; 4]| {
        let answer = Plain::connect_from(from.into(), server.address).fetch(&reload(9999));
        assert!(answer.status == 503 && answer.head.contains("Retry-After: "), "{}", answer.head);
    };
    let mut held: Vec<_> = (0..BY_CLIENT).map(hold).collect();
    until("the origin to hold those of one client", || origin.count("/live") == BY_CLIENT);
    refused([127, 0, 0, 1]);
    held.extend((BY_CLIENT..PLACES).map(hold));
    until("the origin to hold all that may be", || origin.count("/live") == PLACES);
    refused([127, 0, 0, 3]);
    let before = origin.count("/asked");
    assert!(viewer.fetch("/film").body == *film, "a cached film");
    assert!(viewer.fetch("/asked").body == *asked && origin.count("/asked") == before + 1);
    assert!(viewer.fetch("/new.mp4").body == *new, "a film that is new to the edge");
    assert!(viewer.fetch("/list").body == *list, "a response that is passed on");
    server.wait_for_counter("edge_held", PLACES as u64);
    server.wait_for_counter("requests_refused_total{reason=\"edge_held_full\"}", 2);
    server.stderr.wait_for("holds as many requests for live playlists");
    origin.behave(Manner::Good);
    held.iter_mut().for_each(|viewer| assert_eq!(viewer.answer().status, 404));
    until("their places to be free", || {
        server.wait_for_news();
        server.counter("edge_held") == 0
    });
}

#[test]
fn media_that_the_origin_holds_leave_their_places_to_others() {
    /// More than one client may ask about at once, and more than it may have passed on.
    const PARTS_HELD: usize = 60;
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let (new, list) = (
        origin.put("/new", 1, 1000, LASTING),
        origin.put("/list", 2, 1000, "Cache-Control: no-store\r\n"),
    );
    origin.behave(Manner::Withholds("/live"));
    for (kind, lines) in [("all", ""), ("mine", "Authorization: Basic YQ==\r\n")] {
        let hold = |number: usize| {
            let mut viewer = Plain::connect(server.address);
            viewer.ask_with(&format!("/live/{kind}{number}.m4s"), lines);
            viewer
        };
        let mut held: Vec<_> = (0..PARTS_HELD).map(hold).collect();
        let prefix = format!("/live/{kind}");
        until("the origin to hold them", || origin.count(&prefix) == PARTS_HELD);
        assert!(Plain::connect(server.address).fetch("/new").body == *new);
        assert!(Plain::connect(server.address).fetch("/list").body == *list);
        origin.behave(Manner::Good);
        held.iter_mut().for_each(|viewer| assert_eq!(viewer.answer().status, 404));
        origin.behave(Manner::Withholds("/live"));
    }
}

#[test]
fn a_segment_that_is_being_made_is_fetched_once_and_reaches_all_viewers_as_it_is_made() {
    const VIEWERS: usize = 50;
    let (packager, cache) = (Packager::start(), tempdir().unwrap());
    let server = live_edge(&packager, cache.path());
    packager.say("");
    packager.make(1);
    let mut early = crowd(&server, VIEWERS, "/segment0.m4s", "");
    // The head, and the first part at least: those who come later may get more at once.
    let begins = |viewer: &mut Plain| {
        let (status, head, _) = viewer.head();
        assert!(status == 200 && head.contains("Transfer-Encoding: chunked\r\n"), "{head}");
        let mut got = viewer.chunk();
        while got.len() < packager::part(0).len() {
            got.extend(viewer.chunk());
        }
        (head, got)
    };
    for viewer in &mut early {
        assert!(begins(viewer).1 == packager::part(0), "before the second one is made");
    }
    packager.make(1);
    let mut late = crowd(&server, VIEWERS, "/segment0.m4s", "");
    let begun: Vec<_> = late.iter_mut().map(begins).collect();
    // Those who came first leave, and the others get all of it.
    drop(early);
    let head = &begun[0].0;
    assert!(head.contains("; collapsed\r\n") && head.contains("Age: "), "{head}");
    packager.make(PARTS - 2);
    for (viewer, (_, mut got)) in late.iter_mut().zip(begun) {
        while let chunk @ [_, ..] = &*viewer.chunk() {
            got.extend_from_slice(chunk);
        }
        assert!(got == packager::segment(0));
    }
    let stored = Plain::connect(server.address).fetch("/segment0.m4s");
    assert!(stored.body == packager::segment(0) && stored.head.contains("Content-Length: "));
    assert_eq!(packager.count("/segment0.m4s"), 1);
}

/// They may have another viewer's name in them, and few origins say `private`.
#[test]
fn events_and_pictures_come_to_each_viewer_by_a_request_of_its_own() {
    const TYPES: [&str; 2] = ["Text/Event-Stream; charset=utf-8", "multipart/x-mixed-replace"];
    let (packager, cache) = (Packager::start(), tempdir().unwrap());
    let server = live_edge(&packager, cache.path());
    for (number, media_type) in TYPES.into_iter().enumerate() {
        for (query, said) in ["", "Cache-Control: no-cache\r\n", LASTING].into_iter().enumerate() {
            packager.say(&format!("Content-Type: {media_type}\r\n{said}"));
            let path = format!("/segment{number}.m4s?{query}");
            if query == 0 {
                packager.make(1);
            }
            let mut viewers = crowd(&server, 2, &path, "");
            viewers.push(Plain::connect(server.address));
            assert_eq!(viewers[0].head().0, 200);
            assert_eq!(viewers[1].head().0, 200);
            // A later one.
            viewers[2].ask(&path);
            assert_eq!(viewers[2].head().0, 200);
            assert_eq!(packager.count(&path), 3, "{media_type} {said}");
        }
        packager.make(PARTS - 1);
    }
}

#[test]
fn a_segment_whose_viewers_have_all_left_is_not_fetched_any_more() {
    let (packager, cache) = (Packager::start(), tempdir().unwrap());
    let server = live_edge(&packager, cache.path());
    packager.make(1);
    let mut viewers = crowd(&server, 10, "/segment0.m4s", "");
    viewers.iter_mut().for_each(|viewer| assert_eq!(viewer.head().0, 200));
    drop(viewers);
    let objects = cache.path().join("objects");
    until("its file to be removed", || std::fs::read_dir(&objects).unwrap().count() == 0);
    assert_eq!(Plain::connect(server.address).fetch("/part0.m4s").status, 200);
    let mut again = crowd(&server, 1, "/segment0.m4s", "");
    packager.make(PARTS - 1);
    assert!(again[0].answer().body == packager::segment(0));
    assert_eq!(packager.count("/segment0.m4s"), 2);
}

#[test]
#[ignore = "takes 20,000 descriptors: ./run nightly"]
fn while_ten_thousand_wait_for_a_playlist_a_cached_film_is_served() {
    const VIEWERS: usize = 10_000;
    if !may_open(VIEWERS) {
        return;
    }
    let (packager, cache) = (Packager::start(), tempdir().unwrap());
    let server = live_edge(&packager, cache.path());
    packager.say("Cache-Control: max-age=3600\r\nETag: \"v1\"\r\n");
    packager.make(PARTS);
    let mut viewer = Plain::connect(server.address);
    assert!(viewer.fetch("/segment0.m4s").body == packager::segment(0));
    let reload = "/live.m3u8?_HLS_msn=1";
    let mut waiting = crowd(&server, VIEWERS, reload, "");
    for _ in 0..100 {
        assert!(viewer.fetch("/segment0.m4s").body == packager::segment(0));
    }
    packager.make(PARTS);
    waiting.iter_mut().for_each(|viewer| assert_eq!(viewer.answer().status, 200));
    assert_eq!((packager.count(reload), packager.count("/segment0.m4s")), (1, 1));
}
