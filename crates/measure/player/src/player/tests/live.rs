//! Live streams: lists that grow at one end and shrink at the other.

use crate::abr::Rule;
use crate::event::{Ending, StallReason};
use crate::options::PlayerOptions;
use crate::player::Document;
use crate::player::world::{Film, Reply, World, ms, s};
use crate::presentation::Segments;
use crate::request::{PlayerRequest, RequestKind};
use std::sync::Arc;
use std::time::Duration;

const SHOWN: usize = 6;

/// The list at time `at`: segments of 4 s, of which the last six are shown, until the stream ends.
fn list(film: &Film, request: &PlayerRequest, at: Duration, ends: Duration) -> Reply {
    let now = at.min(ends) + s(40);
    let made = (now.as_secs() / 4) as usize;
    let whole = film.list(request);
    let first = made - SHOWN;
    let begin = whole.list[first].begin;
    let shown = whole.list[first..made].iter().cloned().map(|mut segment| {
        segment.begin -= begin;
        segment
    });
    let segments = Segments {
        start: whole.start.clone(),
        list: shown.collect(),
        first_number: 1000 + first as u64,
        reload_after: (at < ends).then_some(s(4)),
    };
    Reply::Document(Document::Segments(Arc::new(segments)))
}

fn fixed() -> PlayerOptions {
    PlayerOptions { rule: Rule::Fixed(1), ..PlayerOptions::default() }
}

fn world(ends: Duration) -> World {
    let film = Film { count: 200, ..Film::default() };
    let mut world = World::new(film.clone(), fixed());
    world.servers = Box::new(move |request, at| {
        (request.kind == RequestKind::Playlist).then(|| list(&film, request, at, ends))
    });
    world
}

#[test]
fn a_stream_is_played_near_its_end_until_it_is_over() {
    let mut world = world(s(200));
    let report = world.run(s(400));
    assert_eq!((report.ended, report.stall_count, report.skips), (Ending::Finished, 0, 0));
    // Playback began at segment 7 of ten, and ended at 60.
    assert_eq!(report.played, s(4 * (60 - 7)));
    let starts: Vec<_> = world.sent(RequestKind::Start).iter().map(|(at, _)| *at).collect();
    assert_eq!(starts.len(), 2, "{starts:?}");
    let lists = world.sent(RequestKind::Playlist).len();
    assert!((90..=110).contains(&lists), "{lists}");
    assert_eq!(world.sent(RequestKind::Media).len(), 2 * (60 - 7));
}

#[test]
fn a_list_that_stops_growing_stalls_by_its_own_fault() {
    let mut world = world(s(1000));
    let film = world.film.clone();
    world.servers = Box::new(move |request, at| {
        let at = if at > s(60) && at < s(100) { s(60) } else { at };
        (request.kind == RequestKind::Playlist).then(|| list(&film, request, at, s(1000)))
    });
    let report = world.run(s(200));
    assert_eq!((report.stall_count, report.stalls[0].reason), (1, StallReason::Manifest));
    // It resumes where the list begins by then: segments that have left it are lost.
    assert!(report.skips == 1 && report.skipped >= s(4), "{:?}", report.skipped);
    let unchanged = world.sent(RequestKind::Playlist);
    let unchanged = unchanged.iter().filter(|(at, of)| *at > s(70) && *at < s(95) && of.track == 0);
    // The player asks twice in four seconds.
    assert!((11..=14).contains(&unchanged.count()));
}

#[test]
fn a_viewer_who_changes_the_bit_rate_stays_in_time() {
    let mut world = world(s(200));
    world.player = crate::player::Player::new(
        PlayerOptions::default(),
        crate::player::world::url("http://play.example/live.m3u8"),
        Duration::ZERO,
    );
    world.rates = Box::new(|_, at| if at.as_secs() / 30 % 2 == 0 { 8e6 } else { 1.5e6 });
    let report = world.run(s(400));
    assert!(report.switches > 1);
    assert_eq!((report.ended, report.skips), (Ending::Finished, 0));
    assert!(report.stalled < s(2), "{:?}", report.stalls);
    assert!(report.played > s(205) && report.lasted > ms(200_000));
}

#[test]
fn a_list_that_one_pathway_no_longer_has_is_followed_on_another() {
    let film = Film { pathways: 2, count: 200, ..Film::default() };
    let mut world = World::new(film.clone(), fixed());
    world.servers = Box::new(move |request, at| {
        if request.kind != RequestKind::Playlist {
            return None;
        }
        let fails = request.pathway == 0 && at > s(60);
        Some(if fails { Reply::Status(503, None) } else { list(&film, request, at, s(300)) })
    });
    let report = world.run(s(200));
    assert!(report.stalled < s(2) && report.skips == 0, "{:?}", report.stalls);
    let lists = world.sent(RequestKind::Playlist).len();
    assert!((90..=160).contains(&lists), "{lists}");
}
