//! Three servers, one of which fails.

use crate::abr::Rule;
use crate::event::{Ending, PlayerEvent};
use crate::failure::Failure;
use crate::options::PlayerOptions;
use crate::pathways::MoveReason;
use crate::player::Document;
use crate::player::world::{Film, Reply, World, ms, s};
use crate::presentation::Segments;
use crate::request::{PlayerRequest, RequestKind};
use std::sync::Arc;

/// The first pathway is the fastest, so that players stay there.
fn rate(pathway: usize) -> f64 {
    if pathway == 0 { 20e6 } else { 8e6 }
}

fn world() -> World {
    let film = Film { pathways: 3, ..Film::default() };
    let options = PlayerOptions { rule: Rule::Fixed(2), ..PlayerOptions::default() };
    let mut world = World::new(film, options);
    world.rates = Box::new(|pathway, _| rate(pathway));
    world
}

fn moves(world: &World) -> Vec<(usize, MoveReason)> {
    let moved = world.events.iter().filter_map(|(_, event)| match event {
        PlayerEvent::Moved(moved) => Some((moved.from, moved.reason)),
        _ => None,
    });
    moved.collect()
}

#[test]
fn the_first_segments_test_all_pathways_and_probes_cost_little() {
    let mut world = world();
    let report = world.run(s(400));
    assert_eq!((report.ended, report.stall_count), (Ending::Finished, 0));
    let tested = world.sent(RequestKind::Media);
    for pathway in 0..3 {
        assert!(tested.iter().take(30).any(|(_, of)| of.pathway == pathway), "{pathway}");
    }
    let probes = world.sent(RequestKind::Probe);
    assert!(!probes.is_empty());
    assert!(probes.iter().all(|(_, of)| of.range.as_ref().is_some_and(|of| of.end > of.start)));
    let bytes: u64 = report.bytes_by_pathway.iter().sum();
    assert!(report.probe_bytes * 100 <= bytes, "{} of {bytes}", report.probe_bytes);
    assert!(report.probe_bytes > 0);
    assert!(world.events.iter().any(|(_, event)| matches!(event, PlayerEvent::Probed { .. })));
}

#[test]
fn a_pathway_that_dies_goes_silent_or_slows_down_is_left_without_a_stall() {
    let faults: [(&str, MoveReason, Option<Reply>); 4] = [
        ("dies", MoveReason::FirstFailure, Some(Reply::Fails(Failure::Connect))),
        ("is silent", MoveReason::Silence, Some(Reply::Silent)),
        ("stops in the middle", MoveReason::TooSlow, Some(Reply::Stops(5000))),
        ("slows down", MoveReason::TooSlow, None),
    ];
    for (name, reason, fault) in faults {
        let mut world = world();
        let begins = s(100);
        let reply = fault.clone();
        world.servers = Box::new(move |request, at| {
            reply.clone().filter(|_| {
                request.pathway == 0 && at > begins && request.kind != RequestKind::Manifest
            })
        });
        if fault.is_none() {
            world.rates =
                Box::new(move |at, now| if at == 0 && now > begins { 0.2e6 } else { rate(at) });
        }
        let report = world.run(s(400));
        assert_eq!((report.ended, report.stall_count), (Ending::Finished, 0), "{name}");
        assert!(moves(&world).contains(&(0, reason)), "{name}: {:?}", moves(&world));
        let elsewhere = world.sent(RequestKind::Media);
        let elsewhere = elsewhere.iter().filter(|(at, of)| *at > s(130) && of.pathway != 0);
        assert!(elsewhere.count() >= 10, "{name}");
    }
}

#[test]
fn a_pathway_that_is_dead_from_the_beginning_delays_the_start_only() {
    for reply in [Reply::Fails(Failure::Connect), Reply::Silent] {
        let mut world = world();
        world.servers = Box::new(move |request, _| {
            (request.pathway == 0 && request.kind != RequestKind::Manifest).then(|| reply.clone())
        });
        let report = world.run(s(400));
        assert_eq!((report.ended, report.stall_count), (Ending::Finished, 0));
        assert!(report.play_delay.is_some_and(|delay| delay < s(6)), "{:?}", report.play_delay);
    }
}

#[test]
fn a_segment_that_one_pathway_lacks_comes_from_another() {
    let mut world = world();
    world.servers = Box::new(|request, _| {
        let is_it = request.kind == RequestKind::Media && request.segment == Some(40);
        (is_it && request.pathway == 0).then_some(Reply::Status(404, None))
    });
    let report = world.run(s(400));
    assert_eq!((report.ended, report.skips, report.stall_count), (Ending::Finished, 0, 0));
}

#[test]
fn a_segment_that_all_lack_is_left_out() {
    let mut world = world();
    world.servers = Box::new(|request, _| {
        let is_it = request.kind == RequestKind::Media && request.segment == Some(40);
        (is_it && request.track == 0).then_some(Reply::Status(404, None))
    });
    let report = world.run(s(400));
    assert_eq!((report.ended, report.skips, report.stall_count), (Ending::Finished, 1, 0));
    assert_eq!(report.failures[Failure::Status(404).kind()], 5);
}

#[test]
fn all_pathways_dead_is_a_stall_with_pauses_between_attempts() {
    let mut world = world();
    world.servers = Box::new(|request, at| {
        (at > s(60) && request.kind != RequestKind::Manifest)
            .then_some(Reply::Fails(Failure::Connect))
    });
    let report = world.run(s(600));
    assert_eq!((report.ended, report.stall_count), (Ending::Watching, 1));
    assert!(report.failure_count() < 800, "{}", report.failure_count());
}

/// Segments in separate files have no lengths in their lists, and are larger or smaller than their bit rate suggests.
fn without_lengths(film: &Film, request: &PlayerRequest) -> Reply {
    let mut segments = Segments::clone(&film.list(request));
    segments.list.iter_mut().for_each(|segment| segment.reference.range = None);
    Reply::Document(Document::Segments(Arc::new(segments)))
}

#[test]
fn a_segment_that_crawls_is_left_although_more_has_come_than_its_bit_rate_says() {
    for begins in (20_000..22_000).step_by(250).map(ms) {
        let film = Film { pathways: 2, rungs: vec![1_000_000], sound: None, ..Film::default() };
        let mut world = World::new(film.clone(), PlayerOptions::default());
        world.servers = Box::new(move |request, _| match request.kind {
            RequestKind::Playlist => Some(without_lengths(&film, request)),
            // Twice the size of four seconds at this bit rate.
            RequestKind::Media => Some(Reply::Bytes(1_000_000)),
            _ => None,
        });
        world.rates = Box::new(move |pathway, now| match pathway {
            0 if now >= begins => 10e3,
            0 => 8e6,
            _ => 6e6,
        });
        let report = world.run(s(200));
        assert_eq!(report.stall_count, 0, "{begins:?}: {:?}", report.stalls);
    }
}
