//! One client requests more than the origin can answer: others notice nothing.

use crate::edge;
use crate::origin::{Manner, Origin};
use fullbore_tests::{Plain, eventually, may_open, until};
use std::net::IpAddr;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

/// Another client.
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

/// The origin answers nothing of the flood until the end, like one whose answers take for ever. So requests answered meanwhile have waited for none
/// of it, however fast or slow this machine is.
#[test]
fn a_flood_of_invented_paths_stalls_no_cached_film_and_no_other_client() {
    const FLOOD: usize = 3000;
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let film = origin.put("/film", 1, 1000, "Cache-Control: no-cache\r\n");
    let new = origin.put("/new", 2, 1000, LASTING);
    let list = origin.put("/list", 3, 1000, "Cache-Control: no-store\r\n");
    let server = edge(&origin, cache.path(), "");
    assert!(Plain::connect(server.address).fetch("/film").body == *film);
    origin.behave(Manner::Withholds("/random"));
    let asked = origin.count("/film");
    for number in 0..FLOOD {
        // Closed at once.
        Plain::connect(server.address).ask(&format!("/random{number}"));
    }
    server.wait_for_counter("requests_total", FLOOD as u64);
    assert!(Plain::connect(server.address).fetch("/film").body == *film, "for the same client");
    assert_eq!(origin.count("/film"), asked + 1, "it was revalidated");
    let mut other = Plain::connect_from(OTHER, server.address);
    assert!(other.fetch("/new").body == *new, "new to the edge");
    assert!(other.fetch("/list").body == *list, "passed through");
    until("what the client left behind to be forgotten", || {
        server.wait_for_news();
        server.counter("edge_waiting") == 0
    });
    assert!(server.counter("requests_refused_total{reason=\"edge_viewer_left\"}") > 0);
    origin.behave(Manner::Good);
    let again = origin.put("/again", 4, 1000, LASTING);
    assert!(Plain::connect(server.address).fetch("/again").body == *again, "places are free");
    let bothered = origin.count("/random");
    assert!((1..=30).contains(&bothered), "the origin was asked for {bothered} of {FLOOD}");
}

#[test]
fn viewers_of_one_address_who_are_too_many_get_503_and_the_others_wait() {
    const VIEWERS: usize = 400;
    if !may_open(2 * VIEWERS) {
        return;
    }
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    origin.behave(Manner::Withholds("/random"));
    let ask = |number: usize| {
        let mut viewer = Plain::connect(server.address);
        viewer.ask(&format!("/random{number}"));
        viewer
    };
    let viewers: Vec<_> = (0..VIEWERS).map(ask).collect();
    let refused = "requests_refused_total{reason=\"edge_address_queue_full\"}";
    // As many requests wait as when the last one was refused.
    let (waiting, refused) = eventually("everybody to wait or be refused", || {
        server.wait_for_news();
        let (waiting, refused) = (server.counter("edge_waiting"), server.counter(refused));
        (waiting + refused + 30 == VIEWERS as u64).then_some((waiting as usize, refused as usize))
    });
    assert!((100..VIEWERS).contains(&waiting) && refused > 0, "{waiting} wait, {refused} do not");
    server.stderr.wait_for("from 127.0.0.1 wait for the origin");
    let new = origin.put("/new", 2, 1000, LASTING);
    assert!(Plain::connect_from(OTHER, server.address).fetch("/new").body == *new);
    origin.behave(Manner::Good);
    let mut statuses = Vec::new();
    for mut viewer in viewers {
        let answer = viewer.answer();
        statuses.push(answer.status);
        if answer.status == 503 {
            assert!(answer.head.contains("Retry-After: "), "{}", answer.head);
        }
    }
    let count = |wanted| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((count(503), count(404)), (refused, VIEWERS - refused));
}

#[test]
fn while_many_films_have_to_be_revalidated_what_may_be_stale_is_served_stale() {
    const FILMS: usize = 200;
    if !may_open(2 * FILMS) {
        return;
    }
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    for number in 0..FILMS {
        origin.put(&format!("/random{number}"), 9, 100, "Cache-Control: no-cache\r\n");
    }
    let film = origin.put("/film", 1, 1000, "Cache-Control: max-age=0, stale-if-error=600\r\n");
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    for number in 0..FILMS {
        assert_eq!(viewer.fetch(&format!("/random{number}")).status, 200);
    }
    assert!(viewer.fetch("/film").body == *film);
    origin.behave(Manner::Withholds("/"));
    let ask = |number: usize| {
        let mut viewer = Plain::connect(server.address);
        viewer.ask(&format!("/random{number}"));
        viewer
    };
    let viewers: Vec<_> = (0..FILMS).map(ask).collect();
    // 24 of one client are under way.
    until("the others to wait", || {
        server.wait_for_news();
        server.counter("edge_waiting") as usize == FILMS - 24
    });
    assert!(viewer.fetch("/film").body == *film, "the origin allows it");
    server.wait_for_counter("edge_lookups_total{result=\"stale\"}", 1);
    origin.behave(Manner::Good);
    for mut viewer in viewers {
        assert_eq!(viewer.answer().status, 200);
    }
}

#[test]
fn who_closes_only_its_sending_half_is_answered() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let film = origin.put("/film", 1, 1000, LASTING);
    let server = edge(&origin, cache.path(), "");
    origin.behave(Manner::Withholds("/film"));
    let mut viewer = Plain::connect(server.address);
    viewer.ask("/film");
    viewer.finish();
    until("the origin to be asked", || origin.count("/film") == 1);
    origin.behave(Manner::Good);
    assert!(viewer.answer().body == *film);
}
