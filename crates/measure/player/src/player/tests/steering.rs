//! Content steering: when the player asks, and what the answers do.

use crate::abr::Rule;
use crate::event::Ending;
use crate::failure::Failure;
use crate::options::PlayerOptions;
use crate::player::Document;
use crate::player::world::{Film, Reply, World, s, url};
use crate::presentation::{Presentation, SteeringServer};
use crate::request::RequestKind;
use crate::steering::{Answer, PathwayClone};
use std::collections::BTreeMap;
use std::sync::Arc;

fn world(before_start: bool) -> World {
    let server = SteeringServer {
        url: url("http://steer.example/?session=1"),
        first: Some("p1".into()),
        before_start,
    };
    let film = Film { pathways: 2, steering: Some(server), ..Film::default() };
    World::new(film, PlayerOptions { rule: Rule::Fixed(1), ..PlayerOptions::default() })
}

fn answer(ttl: u64, priority: &[&str]) -> Reply {
    let priority = priority.iter().map(|id| (*id).to_owned()).collect();
    let answer = Answer { ttl: s(ttl), reload: None, priority, clones: Vec::new() };
    Reply::Document(Document::Steering(Arc::new(answer)))
}

/// Plays with a steering server that replies like this, and returns the times of the requests to it.
fn asked(reply: &Reply) -> Vec<u64> {
    let mut world = world(false);
    let reply = reply.clone();
    world.servers =
        Box::new(move |of, _| (of.kind == RequestKind::Steering).then(|| reply.clone()));
    let report = world.run(s(1000));
    assert_eq!((report.ended, report.stall_count), (Ending::Finished, 0), "{:?}", report.stalls);
    world.sent(RequestKind::Steering).iter().map(|(at, _)| at.as_secs()).collect()
}

#[test]
fn it_is_asked_again_as_it_says_and_playback_never_needs_it() {
    assert_eq!(asked(&answer(100, &["p0", "p1"])), [0, 100, 200, 300]);
    assert_eq!(asked(&Reply::Fails(Failure::Connect)), [0, 300]);
    assert_eq!(asked(&Reply::Status(404, None)), [0, 300]);
    assert_eq!(asked(&Reply::Status(500, Some(s(1)))), [0, 300]);
    assert_eq!(asked(&Reply::Status(410, None)), [0]);
    assert_eq!(asked(&Reply::Status(429, Some(s(120)))), [0, 120, 240]);
    assert_eq!(asked(&Reply::Silent), [0]);
}

#[test]
fn the_request_tells_the_pathway_and_its_throughput() {
    let mut world = world(false);
    world.servers =
        Box::new(|of, _| (of.kind == RequestKind::Steering).then(|| answer(10, &["p1", "p0"])));
    world.run(s(30));
    let asked = world.sent(RequestKind::Steering);
    let urls: Vec<_> = asked.iter().map(|(_, of)| of.url().to_string()).collect();
    assert!(
        urls[0].starts_with("http://steer.example/?session=1&_HLS_pathway=%22p1%22"),
        "{urls:?}"
    );
    assert!(urls[1].contains("&_HLS_throughput="), "{urls:?}");
}

#[test]
fn the_first_pathway_and_later_ones_are_those_that_it_names() {
    let mut world = world(false);
    world.servers = Box::new(|of, at| {
        let order: &[&str] = if at < s(50) { &["p1", "p0"] } else { &["p0", "p1"] };
        (of.kind == RequestKind::Steering).then(|| answer(60, order))
    });
    world.run(s(250));
    let media = world.sent(RequestKind::Media);
    assert_eq!(media[0].1.pathway, 1);
    let late = media.iter().filter(|(at, _)| *at > s(70));
    let there = late.clone().filter(|(_, of)| of.pathway == 0).count();
    assert!(there > 10 && there + 2 >= late.count());
}

#[test]
fn a_first_answer_may_be_awaited_but_not_for_ever() {
    for (reply, waits) in [(answer(60, &["p0"]), s(0)), (Reply::Silent, s(9))] {
        let mut world = world(true);
        let told = reply.clone();
        world.servers =
            Box::new(move |of, _| (of.kind == RequestKind::Steering).then(|| told.clone()));
        let report = world.run(s(60));
        let delay = report.play_delay.expect("it played");
        assert!(delay > waits && delay < waits + s(3), "{reply:?}: {delay:?}");
    }
}

/// An answer that derives the pathway "c" from "p0", and prefers it.
fn cloning() -> Answer {
    let clone = PathwayClone {
        base_id: "p0".into(),
        id: "c".into(),
        host: Some("c.example".into()),
        params: Vec::new(),
        variants: BTreeMap::new(),
        renditions: BTreeMap::new(),
    };
    Answer {
        ttl: s(60),
        reload: Some(url("http://steer.example/?session=2")),
        priority: vec!["c".into(), "p0".into()],
        clones: vec![clone],
    }
}

#[test]
fn a_clone_and_what_is_known_of_it_outlast_a_new_manifest() {
    let mut world = world(false);
    let presentation =
        Presentation { reload_after: Some(s(5)), ..(*world.film.presentation()).clone() };
    let manifest = Document::Presentation(Arc::new(presentation));
    let answer = Document::Steering(Arc::new(cloning()));
    world.servers = Box::new(move |of, _| match of.kind {
        RequestKind::Manifest => Some(Reply::Document(manifest.clone())),
        RequestKind::Steering => Some(Reply::Document(answer.clone())),
        _ => None,
    });
    let report = world.run(s(100));
    assert!(world.sent(RequestKind::Manifest).len() > 15);
    assert_eq!(world.sent(RequestKind::Steering).len(), 2);
    let media = world.sent(RequestKind::Media);
    let late: Vec<_> = media.iter().filter(|(at, _)| *at > s(8)).collect();
    assert!(late.len() > 10 && late.iter().all(|(_, of)| of.pathway == 2), "{}", late.len());
    assert!(report.move_count <= 2 && report.stall_count == 0, "{:?}", report.moves);
}

#[test]
fn a_clone_is_a_pathway_of_its_own() {
    let mut world = world(false);
    let answer = cloning();
    world.servers = Box::new(move |of, _| {
        let answer = Document::Steering(Arc::new(answer.clone()));
        (of.kind == RequestKind::Steering).then_some(Reply::Document(answer))
    });
    let report = world.run(s(100));
    let ids: Vec<_> = world
        .player
        .presentation()
        .map_or(Vec::new(), |of| of.pathways.iter().map(|pathway| pathway.id.clone()).collect());
    assert_eq!(ids, ["p0", "p1", "c"]);
    assert!(report.bytes_by_pathway[2] > report.bytes_by_pathway[0], "{report:?}");
    let there = world.requests.iter().filter(|(_, of)| of.pathway == 2);
    // The list at the clone is the base's, so its segments are at the base's addresses.
    assert!(there.clone().any(|(_, of)| of.url().host() == "c.example"));
    let asked = world.sent(RequestKind::Steering);
    assert!(asked[1].1.url().to_string().contains("session=2"), "{asked:?}");
    assert_eq!(report.stall_count, 0);
    assert_eq!(report.failures, [0; Failure::KINDS]);
}
