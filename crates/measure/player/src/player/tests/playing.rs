//! A well-behaved server: playing, choosing bit rates, and viewers' actions.

use crate::abr::Rule;
use crate::event::{Ending, GiveUp, PlayerEvent, StallReason};
use crate::options::{Act, Deed, PlayerOptions};
use crate::player::world::{Film, Reply, World, ms, s};
use crate::request::RequestKind;
use std::time::Duration;

fn fixed(rung: usize) -> PlayerOptions {
    PlayerOptions { rule: Rule::Fixed(rung), ..PlayerOptions::default() }
}

#[test]
fn a_film_plays_from_its_beginning_to_its_end() {
    let mut world = World::new(Film::default(), fixed(1));
    let report = world.run(s(400));
    assert_eq!((report.ended, report.played), (Ending::Finished, s(300)));
    // Manifest, list, initialisation and segment: four round trips of 50 ms, and 4 Mb at up to 20 Mb/s.
    let delay = report.play_delay.expect("it played");
    assert!((ms(400)..ms(500)).contains(&delay), "{delay:?}");
    assert_eq!((report.stall_count, report.failure_count(), report.skips), (0, 0, 0));
    assert_eq!(report.bits_per_second, Some(1_000_000));
    assert_eq!(world.pictures(), (0..75).collect::<Vec<_>>());
    // Manifest, two lists, two initialisation sections, and 75 segments each.
    assert_eq!(report.requests, 1 + 2 + 2 + 150);
    assert_eq!(report.lasted, delay + s(300));
    assert_eq!(world.events.last().map(|(_, event)| event), Some(&PlayerEvent::Ended));
    let timeout = world.player.poll_timeout();
    assert_eq!((timeout, world.player.poll_request(s(999)).is_none()), (None, true));
}

#[test]
fn the_buffer_has_a_bound_and_sound_keeps_to_the_pictures() {
    let mut world = World::new(Film::default(), fixed(2));
    world.run(s(100));
    for (at, request) in world.sent(RequestKind::Media) {
        let until = s(4) * (request.segment.unwrap_or(0) as u32 + 1);
        let position = at.saturating_sub(ms(300));
        assert!(until.saturating_sub(position) <= s(121), "{at:?}: {request:?}");
    }
    let ends = [0, 1].map(|track| world.player.playback.end(track));
    assert!(ends[0].abs_diff(ends[1]) <= s(4) && ends[0] >= s(212), "{ends:?}");
}

#[test]
fn a_manifest_that_lists_its_segments_needs_no_more_documents() {
    let film = Film { has_lists: false, sound: None, ..Film::default() };
    let mut world = World::new(film, fixed(0));
    let report = world.run(s(400));
    assert_eq!((report.ended, report.requests), (Ending::Finished, 1 + 1 + 75));
}

#[test]
fn a_network_that_is_too_slow_for_the_bit_rate_stalls() {
    let mut world = World::new(Film { sound: None, ..Film::default() }, fixed(2));
    world.rates = Box::new(|_, _| 2e6);
    let report = world.run(s(300));
    // Three megabits of film take a second and a half each.
    let ratio = report.stall_ratio().expect("it played");
    assert!((0.30..0.36).contains(&ratio), "{ratio}");
    assert!(report.stall_count > 20);
    assert!(report.stalls.iter().all(|stall| stall.reason == StallReason::SlowNetwork));
    let waits: Duration = report.stalls.iter().map(|stall| stall.length).sum();
    assert_eq!(waits, report.stalled);
    assert_eq!(report.time_to_quality.map(|at| at < s(1)), Some(true));
}

#[test]
fn every_rule_reaches_the_top_of_a_fast_network_and_lasts_in_a_slow_one() {
    for rule in [Rule::Throughput, Rule::Bba, Rule::Bola] {
        let options = || PlayerOptions { rule, ..PlayerOptions::default() };
        let mut world = World::new(Film::default(), options());
        let report = world.run(s(400));
        let quality = report.time_to_quality;
        assert!(quality.is_some_and(|quality| quality < s(60)), "{rule}: {quality:?}");
        assert_eq!((report.ended, report.stall_count), (Ending::Finished, 0), "{rule}");
        let rungs: Duration = report.rungs.iter().map(|(_, time)| *time).sum();
        assert_eq!(rungs, s(300), "{rule}");
        let mut world = World::new(Film::default(), options());
        world.rates = Box::new(|_, at| if at < s(20) { 8e6 } else { 0.8e6 });
        let report = world.run(s(900));
        assert_eq!((report.ended, report.stall_count), (Ending::Finished, 0), "{rule}");
        assert!(report.switches > 0, "{rule}");
    }
}

#[test]
fn a_segment_that_would_stall_is_given_up_for_a_smaller_one() {
    let film = Film { sound: None, rungs: vec![400_000, 8_000_000], ..Film::default() };
    let mut world =
        World::new(film, PlayerOptions { buffer_max: s(12), ..PlayerOptions::default() });
    world.rates = Box::new(|_, at| if at < s(30) { 40e6 } else { 0.8e6 });
    let report = world.run(s(120));
    let given_up =
        world.events.iter().filter(|(_, of)| matches!(of, PlayerEvent::Abandoned { .. }));
    assert!(given_up.count() >= 1);
    assert!(report.stall_count <= 1 && report.stalled < s(3), "{:?}", report.stalls);
    assert!(report.wasted_bytes > 0);
}

fn acts(acts: &[(u64, Deed)]) -> PlayerOptions {
    let plan = acts.iter().map(|(at, deed)| Act { at: s(*at), deed: *deed }).collect();
    PlayerOptions { plan, ..fixed(1) }
}

#[test]
fn a_seek_waits_without_a_stall_and_drops_what_is_on_its_way() {
    let deeds = acts(&[(10, Deed::SeekTo(s(200))), (20, Deed::SeekForward(s(10)))]);
    let mut world = World::new(Film::default(), deeds);
    world.rates = Box::new(|_, _| 3e6);
    let report = world.run(s(400));
    assert_eq!((report.ended, report.seeks, report.stall_count), (Ending::Finished, 2, 0));
    assert!(report.seek_waits > ms(500) && report.seek_waits < s(4), "{:?}", report.seek_waits);
    // Ten seconds; 200 to 210 less the wait; 220 to the end.
    assert!(report.played > s(95) && report.played < s(101), "{:?}", report.played);
    assert!(report.wasted_bytes > 0);
    let jumps: Vec<_> = world
        .events
        .iter()
        .filter_map(|(_, event)| match event {
            PlayerEvent::Sought { to, is_buffered } => Some((*to, *is_buffered)),
            _ => None,
        })
        .collect();
    assert_eq!(jumps[0], (s(200), false));
    assert!(jumps[1].1, "{jumps:?}");
}

#[test]
fn seeks_beyond_the_film_end_it_and_seeks_before_it_begin_it() {
    let deeds = acts(&[(10, Deed::SeekBack(s(99))), (20, Deed::SeekTo(s(9999)))]);
    let report = World::new(Film::default(), deeds).run(s(400));
    assert_eq!((report.ended, report.seeks), (Ending::Finished, 2));
    assert!(report.lasted < s(23), "{:?}", report.lasted);
}

#[test]
fn a_pause_takes_time_and_is_no_stall() {
    let deeds = acts(&[(10, Deed::Pause(s(60)))]);
    let report = World::new(Film::default(), deeds).run(s(400));
    let delay = report.play_delay.expect("it played");
    assert_eq!((report.lasted, report.played), (delay + s(360), s(300)));
    assert_eq!((report.stall_count, report.ended), (0, Ending::Finished));
}

#[test]
fn a_viewer_leaves_when_planned_or_when_told() {
    let options = PlayerOptions { leave_after: Some(s(30)), ..fixed(1) };
    let mut world = World::new(Film::default(), options);
    let report = world.run(s(400));
    assert_eq!((report.ended, report.lasted), (Ending::Left, s(30)));
    let mut world = World::new(Film::default(), fixed(1));
    world.run(s(5));
    world.player.leave(s(6));
    let report = world.player.report(s(99));
    assert_eq!((report.ended, report.lasted, world.player.is_over()), (Ending::Left, s(6), true));
}

#[test]
fn a_viewer_gives_up_a_start_a_stall_and_a_seek_that_take_too_long() {
    let patient = |plan: &[(u64, Deed)]| PlayerOptions { give_up_after: Some(s(5)), ..acts(plan) };
    let mut world = World::new(Film::default(), patient(&[]));
    world.servers =
        Box::new(|request, _| (request.kind == RequestKind::Media).then_some(Reply::Silent));
    let report = world.run(s(60));
    assert_eq!((report.ended, report.play_delay), (Ending::GaveUp(GiveUp::Start), None));
    assert_eq!(report.lasted, s(5));

    let mut world = World::new(Film::default(), patient(&[]));
    world.rates = Box::new(|_, at| if at < s(1) { 20e6 } else { 0.0 });
    let report = world.run(s(200));
    assert_eq!(report.ended, Ending::GaveUp(GiveUp::Stall));
    assert_eq!((report.stall_count, report.stalled), (1, s(5)));

    let mut world = World::new(Film::default(), patient(&[(2, Deed::SeekTo(s(280)))]));
    world.rates = Box::new(|_, at| if at < s(2) { 20e6 } else { 0.0 });
    let report = world.run(s(200));
    assert_eq!((report.ended, report.stall_count), (Ending::GaveUp(GiveUp::Seek), 0));
}

#[test]
fn a_return_to_a_bit_rate_needs_no_second_initialisation_section() {
    let mut world = World::new(Film { sound: None, ..Film::default() }, PlayerOptions::default());
    world.rates = Box::new(|_, at| if at.as_secs() / 40 % 2 == 0 { 8e6 } else { 1.2e6 });
    let report = world.run(s(900));
    assert!(report.switches > 2, "{}", report.switches);
    assert!(world.sent(RequestKind::Start).len() <= 3);
    assert!(world.sent(RequestKind::Playlist).len() <= 3);
}

#[test]
fn a_viewer_who_leaves_after_a_seek_has_waited() {
    let options = PlayerOptions { leave_after: Some(s(30)), ..acts(&[(10, Deed::SeekTo(s(280)))]) };
    let mut world = World::new(Film::default(), options);
    world.rates = Box::new(|_, at| if at < s(10) { 20e6 } else { 0.0 });
    let report = world.run(s(60));
    assert_eq!((report.ended, report.stall_count), (Ending::Left, 0));
    assert!(report.seek_waits > s(19), "{:?}", report.seek_waits);
}

#[test]
fn a_buffer_that_is_smaller_than_a_segment_does_not_stall_by_itself() {
    let film = Film { segment: s(6), sound: None, ..Film::default() };
    let report = World::new(film, PlayerOptions { buffer_max: s(5), ..fixed(1) }).run(s(500));
    assert_eq!((report.ended, report.stall_count), (Ending::Finished, 0), "{:?}", report.stalls);
}
