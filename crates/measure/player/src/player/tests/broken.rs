//! Servers that misbehave. Each fault leads to the right reaction and is counted as what it is.

use crate::abr::Rule;
use crate::event::{Ending, GiveUp, PlayerEvent, StallReason};
use crate::failure::Failure;
use crate::options::PlayerOptions;
use crate::player::world::{Film, Reply, World, ms, s};
use crate::request::{PlayerRequest, RequestKind};

fn options() -> PlayerOptions {
    PlayerOptions { rule: Rule::Fixed(1), ..PlayerOptions::default() }
}

fn film() -> Film {
    Film { sound: None, ..Film::default() }
}

fn is_segment(request: &PlayerRequest, index: usize) -> bool {
    request.kind == RequestKind::Media && request.segment == Some(index)
}

fn failures(report: &crate::report::SessionReport, failure: Failure) -> u64 {
    report.failures[failure.kind()]
}

#[test]
fn a_missing_segment_is_left_out_after_a_few_attempts() {
    let mut world = World::new(film(), options());
    world.servers =
        Box::new(|request, _| is_segment(request, 10).then_some(Reply::Status(404, None)));
    let report = world.run(s(400));
    assert_eq!((report.ended, report.stall_count), (Ending::Finished, 0));
    assert_eq!((report.skips, report.skipped, report.played), (1, s(4), s(296)));
    assert_eq!(failures(&report, Failure::Status(404)), 3);
    assert_eq!(world.pictures().iter().filter(|index| **index == 10).count(), 3);
    let skipped = PlayerEvent::Skipped { position: s(40), length: s(4) };
    assert!(world.events.iter().any(|(_, event)| *event == skipped));
}

#[test]
fn a_segment_that_is_missing_at_one_bit_rate_is_played_at_another() {
    let mut world = World::new(film(), options());
    world.servers = Box::new(|request, _| {
        (is_segment(request, 10) && request.rendition == 1).then_some(Reply::Status(404, None))
    });
    let report = world.run(s(400));
    assert_eq!((report.ended, report.skips, report.played), (Ending::Finished, 0, s(300)));
    assert_eq!(
        report.rungs.iter().map(|(_, time)| time.as_secs()).collect::<Vec<_>>(),
        [4, 296, 0]
    );
}

#[test]
fn a_segment_of_a_wrong_length_is_damaged() {
    for wrong in [Reply::Bytes(100), Reply::Bytes(10_000_000), Reply::Status(200, None)] {
        let mut world = World::new(film(), options());
        let reply = wrong.clone();
        world.servers = Box::new(move |request, _| is_segment(request, 10).then(|| reply.clone()));
        let report = world.run(s(400));
        assert_eq!((report.ended, report.skips), (Ending::Finished, 1), "{wrong:?}");
        let damaged =
            failures(&report, Failure::WrongLength) + failures(&report, Failure::OtherRange);
        assert_eq!((damaged, report.failure_count()), (3, 3), "{wrong:?}");
    }
}

#[test]
fn a_title_that_is_taken_away_ends_after_what_is_buffered() {
    let mut world = World::new(film(), options());
    world.servers = Box::new(|request, at| {
        (request.kind == RequestKind::Media && at > s(60)).then_some(Reply::Status(404, None))
    });
    let report = world.run(s(400));
    assert_eq!(report.ended, Ending::GaveUp(GiveUp::Segments));
    assert!(report.played > s(170), "{:?}", report.played);
    assert!(report.failure_count() <= 40, "{}", report.failure_count());
}

#[test]
fn a_server_in_trouble_is_asked_again_with_pauses() {
    let mut world = World::new(film(), options());
    world.servers = Box::new(|request, at| {
        let is_bad = request.kind == RequestKind::Media && at > s(50) && at < s(110);
        is_bad.then_some(Reply::Status(503, None))
    });
    let report = world.run(s(400));
    assert_eq!((report.ended, report.stall_count, report.skips), (Ending::Finished, 0, 0));
    let count = failures(&report, Failure::Status(503));
    assert!((8..=14).contains(&count), "{count}");
}

#[test]
fn retry_after_is_honoured() {
    let mut world = World::new(film(), options());
    let mut refused = 0;
    world.servers = Box::new(move |request, at| {
        let is_bad = request.kind == RequestKind::Media && at > s(50) && refused < 1;
        refused += u32::from(is_bad);
        is_bad.then_some(Reply::Status(429, Some(s(30))))
    });
    let report = world.run(s(400));
    assert_eq!(failures(&report, Failure::Status(429)), 1);
    let media = world.sent(RequestKind::Media);
    let refused = media.iter().position(|(at, _)| *at > s(50)).expect("it was asked");
    let pause = media[refused + 1].0 - media[refused].0;
    assert!(pause >= s(30) && pause < s(31), "{pause:?}");
    assert_eq!(media[refused].1.segment, media[refused + 1].1.segment);
    assert_eq!((report.stall_count, report.ended), (0, Ending::Finished));
}

#[test]
fn resets_and_early_ends_are_tried_again() {
    for failure in [Failure::Reset, Failure::ClosedEarly, Failure::Connect, Failure::Tls] {
        let mut world = World::new(film(), options());
        let mut count = 0;
        world.servers = Box::new(move |request, _| {
            count += u32::from(request.kind == RequestKind::Media);
            (count % 10 == 9).then_some(Reply::Fails(failure))
        });
        let report = world.run(s(400));
        assert_eq!((report.ended, report.skips, report.played), (Ending::Finished, 0, s(300)));
        assert!(failures(&report, failure) >= 7, "{failure}");
    }
}

#[test]
fn silence_ends_a_request_and_is_the_reason_of_the_stall() {
    let mut world = World::new(film(), PlayerOptions { buffer_max: s(8), ..options() });
    let mut is_silent = false;
    world.servers = Box::new(move |request, at| {
        let falls = is_segment(request, 5) && !is_silent && at < s(60);
        is_silent |= falls;
        falls.then_some(Reply::Stops(1000))
    });
    let report = world.run(s(400));
    assert_eq!(failures(&report, Failure::Silence), 1);
    assert_eq!((report.ended, report.stall_count), (Ending::Finished, 1));
    assert_eq!(report.stalls[0].reason, StallReason::Silence);
    assert!(report.stalled < s(10), "{:?}", report.stalled);
}

#[test]
fn failures_are_the_reason_of_the_stall_that_they_cause() {
    let mut world = World::new(film(), options());
    world.servers = Box::new(|request, at| {
        (request.kind == RequestKind::Media && at > s(20)).then_some(Reply::Fails(Failure::Reset))
    });
    let report = world.run(s(400));
    assert_eq!((report.stall_count, report.stalls[0].reason), (1, StallReason::Failures));
    // In the end they are eight seconds apart, for as long as the viewer stays.
    assert!(report.failure_count() < 60, "{}", report.failure_count());
    assert_eq!(report.ended, Ending::Watching);
}

#[test]
fn a_manifest_is_tried_again_unless_it_is_missing() {
    let manifest = |status: u16, until: u64| {
        let mut world = World::new(film(), options());
        world.servers = Box::new(move |request, at| {
            let is_bad = request.kind == RequestKind::Manifest && at < s(until);
            is_bad.then_some(Reply::Status(status, None))
        });
        world.run(s(400))
    };
    assert_eq!(manifest(503, 5).ended, Ending::Finished);
    assert_eq!(manifest(503, 400).ended, Ending::GaveUp(GiveUp::Manifest));
    let missing = manifest(404, 400);
    assert_eq!((missing.ended, missing.requests), (Ending::GaveUp(GiveUp::Manifest), 2));
    let mut world = World::new(film(), options());
    world.servers = Box::new(|request, _| {
        (request.kind == RequestKind::Manifest).then_some(Reply::Fails(Failure::Unreadable))
    });
    let report = world.run(s(400));
    assert_eq!((report.ended, report.play_delay), (Ending::GaveUp(GiveUp::Manifest), None));
    assert_eq!(failures(&report, Failure::Unreadable), 2);
}

#[test]
fn a_list_that_fails_is_tried_again_and_then_given_up() {
    let list = |until: u64| {
        let mut world = World::new(film(), options());
        world.servers = Box::new(move |request, at| {
            let is_bad = request.kind == RequestKind::Playlist && at < s(until);
            is_bad.then_some(Reply::Status(404, None))
        });
        world.run(s(400))
    };
    let late = list(1);
    assert_eq!((late.ended, late.failure_count()), (Ending::Finished, 2));
    assert_eq!(list(400).ended, Ending::GaveUp(GiveUp::Segments));
}

#[test]
fn an_initialisation_section_is_needed() {
    let mut world = World::new(film(), options());
    world.servers = Box::new(|request, at| {
        (request.kind == RequestKind::Start && at < ms(300)).then_some(Reply::Bytes(999))
    });
    let report = world.run(s(400));
    assert_eq!((report.ended, report.stall_count), (Ending::Finished, 0));
    assert!(failures(&report, Failure::WrongLength) >= 1);
}
