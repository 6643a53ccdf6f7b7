//! Live streams: lists that grow at one end and shrink at the other.

use crate::abr::Rule;
use crate::event::{Ending, StallReason};
use crate::live::LiveSeen;
use crate::options::{Act, Deed, PlayerOptions};
use crate::player::lists::Place;
use crate::player::open::{Open, Slot};
use crate::player::world::{Film, Reply, World, ms, s, url};
use crate::player::{Document, Player};
use crate::presentation::{Format, Segments, Source, WallClock};
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
        ..Segments::default()
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
    assert_eq!(seen(&report).stood_still, 1);
}

#[test]
fn a_viewer_who_changes_the_bit_rate_stays_in_time() {
    let mut world = world(s(200));
    world.player = player(PlayerOptions::default());
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

fn player(options: PlayerOptions) -> Player {
    Player::new(options, url("http://play.example/live.m3u8"), Duration::ZERO)
}

fn seen(report: &crate::SessionReport) -> LiveSeen {
    report.live.expect("a live stream")
}

/// A stream whose lists are changed by what `change` makes of each, at its time.
fn changed(change: impl Fn(Duration) -> Duration + 'static, number: fn(Duration) -> u64) -> World {
    let mut world = world(s(1000));
    let film = world.film.clone();
    world.servers = Box::new(move |request, at| {
        if request.kind != RequestKind::Playlist {
            return None;
        }
        let Reply::Document(Document::Segments(list)) = list(&film, request, change(at), s(1000))
        else {
            return None;
        };
        let first_number = list.first_number + number(at) - 1000;
        let list = Segments { first_number, ..(*list).clone() };
        Some(Reply::Document(Document::Segments(Arc::new(list))))
    });
    world
}

#[test]
fn a_film_has_no_figures_of_a_live_stream() {
    let report = World::new(Film::default(), fixed()).run(s(60));
    assert_eq!(report.live, None);
}

#[test]
fn a_stream_that_grows_as_it_should_is_loaded_again_once_for_each_segment() {
    let report = world(s(1000)).run(s(200));
    let seen = seen(&report);
    assert!((45..=51).contains(&seen.reloads), "{seen:?}");
    // Now and then a list is a moment too young, because a load takes time.
    assert!(seen.unchanged <= 3, "{seen:?}");
    assert_eq!((seen.jumps, seen.went_back, seen.stood_still), (0, 0, 0));
}

#[test]
fn a_list_that_jumps_shows_what_is_missed() {
    let jump = |at: Duration| if at > s(60) { at + s(80) } else { at };
    let report = changed(jump, |_| 1000).run(s(150));
    let seen = seen(&report);
    // Twenty segments more than usual, of which the list shows six: one follows by itself.
    assert_eq!((seen.jumps, seen.missed_segments), (1, 15), "{seen:?}");
    assert_eq!((seen.went_back, report.skips), (0, 1), "{report:?}");
}

#[test]
fn a_list_that_goes_back_for_a_moment_does_no_harm() {
    let back = |at: Duration| if at > s(60) && at < s(66) { at - s(8) } else { at };
    let report = changed(back, |_| 1000).run(s(150));
    let seen = seen(&report);
    assert!(seen.went_back >= 1 && seen.jumps == 0, "{seen:?}");
    assert_eq!((report.skips, report.stall_count), (0, 0), "{report:?}");
}

#[test]
fn a_stream_whose_numbers_begin_again_plays_on() {
    let report = changed(|at| at, |at| if at > s(60) { 0 } else { 1000 }).run(s(200));
    let seen = seen(&report);
    assert_eq!((seen.went_back, seen.jumps), (1, 0), "{seen:?}");
    assert!(report.stalled < s(10) && report.played > s(180), "{report:?}");
}

#[test]
fn an_earlier_list_is_a_new_beginning_once_nothing_else_comes() {
    let back = |at: Duration| if at > s(60) && at < s(90) { s(48) } else { at };
    let report = changed(back, |_| 1000).run(s(200));
    let seen = seen(&report);
    assert!(seen.went_back >= 2 && seen.stood_still >= 1, "{seen:?}");
    // What the earlier list has lasts until newer ones come: for pictures and for sound.
    assert!(report.stalled < s(5) && report.played > s(190), "{report:?}");
    assert!(report.stalls.iter().all(|stall| stall.reason == StallReason::Manifest));
}

#[test]
fn a_buffer_never_holds_more_than_the_list_does() {
    let mut world = world(s(1000));
    let pause = Act { at: s(20), deed: Deed::Pause(s(100)) };
    world.player = player(PlayerOptions { plan: vec![pause], ..fixed() });
    for now in 1..=200 {
        world.run(s(now));
        for track in [0, 1] {
            let ahead = world.player.playback.ahead(track, world.now);
            assert!(ahead <= s(4 * SHOWN as u64), "{ahead:?} at {now} s");
        }
    }
    let report = world.player.report(s(200));
    assert!(report.skips >= 1 && report.stall_count == 0, "{report:?}");
}

#[test]
fn the_latency_is_by_the_streams_dates_or_by_its_list() {
    const ZERO: u64 = 1_800_000_000;
    for has_dates in [true, false] {
        let mut world = world(s(1000));
        let film = world.film.clone();
        world.player = player(PlayerOptions { clock: Some(s(ZERO)), ..fixed() });
        world.servers = Box::new(move |request, at| {
            if request.kind != RequestKind::Playlist {
                return None;
            }
            let Reply::Document(Document::Segments(list)) = list(&film, request, at, s(1000))
            else {
                return None;
            };
            // Ten segments were made before time zero.
            let since_1970 = s(ZERO - 40 + 4 * (list.first_number - 1000));
            let clock = has_dates.then_some(WallClock { at: Duration::ZERO, since_1970 });
            let list = Segments { clock, ..(*list).clone() };
            Some(Reply::Document(Document::Segments(Arc::new(list))))
        });
        let seen = seen(&world.run(s(100)));
        assert_eq!(seen.is_by_date, has_dates);
        let latency = seen.latency.expect("it played");
        // Three segments, and the time until playback began. The list lags by up to one.
        let expected = if has_dates { s(12)..s(14) } else { s(8)..s(13) };
        assert!(expected.contains(&latency), "{latency:?}");
    }
}

/// A DASH stream as it is at the time that `change` makes of the real one. Its manifest is loaded each second, and shows `shown` segments of 4 s.
/// Their times go on. They have numbers only if `has_numbers` is set: without startNumber, every list begins at 1.
fn dash(change: fn(Duration) -> Duration, shown: fn(usize) -> usize, has_numbers: bool) -> World {
    let film = Film { count: 100, has_lists: false, ..Film::default() };
    let mut world = World::new(film.clone(), fixed());
    world.servers = Box::new(move |request, at| {
        if request.kind != RequestKind::Manifest {
            return None;
        }
        let made = ((change(at) + s(40)).as_secs() / 4) as usize;
        let first = made - shown(made);
        let mut manifest = (*film.presentation()).clone();
        (manifest.format, manifest.reload_after) = (Format::Dash, Some(s(1)));
        let renditions = manifest.tracks.iter_mut().flat_map(|track| &mut track.renditions);
        for source in renditions.flat_map(|rendition| &mut rendition.sources) {
            let Source::Listed(whole) = source else { continue };
            *source = Source::Listed(Arc::new(Segments {
                start: whole.start.clone(),
                list: whole.list[first..made].to_vec(),
                first_number: if has_numbers { 1 + first as u64 } else { 1 },
                reload_after: manifest.reload_after,
                ..Segments::default()
            }));
        }
        Some(Reply::Document(Document::Presentation(Arc::new(manifest))))
    });
    world
}

#[test]
fn a_dash_manifest_loaded_several_times_for_each_segment_does_not_stand_still() {
    let report = dash(|at| at, |_| SHOWN, true).run(s(100));
    let seen = seen(&report);
    assert!((90..=99).contains(&seen.reloads), "{seen:?}");
    // Three of four reloads fall within a segment.
    assert!((65..=75).contains(&seen.unchanged), "{seen:?}");
    assert_eq!((seen.stood_still, report.stall_count), (0, 0), "{report:?}");
}

#[test]
fn a_dash_manifest_that_stands_still_is_counted() {
    let still = |at: Duration| if at > s(50) && at < s(80) { s(50) } else { at };
    let report = dash(still, |_| SHOWN, true).run(s(100));
    assert_eq!(seen(&report).stood_still, 1, "{report:?}");
    assert_eq!(report.stalls[0].reason, StallReason::Manifest);
}

#[test]
fn a_dash_manifest_without_numbers_is_compared_by_its_times() {
    // A list of seven segments, then of six: it has gone on all the same.
    let shown = |made: usize| SHOWN + made % 2;
    let report = dash(|at| at, shown, false).run(s(100));
    let even = seen(&report);
    assert!((65..=75).contains(&even.unchanged), "{even:?}");
    assert_eq!((even.jumps, even.went_back, even.stood_still), (0, 0, 0), "{even:?}");
    let jump = |at: Duration| if at > s(60) { at + s(80) } else { at };
    let jumped = seen(&dash(jump, |_| SHOWN, false).run(s(100)));
    assert_eq!((jumped.jumps, jumped.missed_segments, jumped.went_back), (1, 15, 0), "{jumped:?}");
    let back = |at: Duration| if at > s(60) && at < s(62) { at - s(8) } else { at };
    let back = seen(&dash(back, |_| SHOWN, false).run(s(100)));
    assert!(back.went_back >= 1 && back.jumps == 0 && back.stood_still == 0, "{back:?}");
}

#[test]
fn a_list_of_another_pathway_says_nothing_about_the_one_that_is_played() {
    let film = Film { pathways: 2, count: 200, ..Film::default() };
    let mut world = World::new(film.clone(), fixed());
    let of = film.clone();
    world.servers = Box::new(move |request, at| {
        (request.kind == RequestKind::Playlist).then(|| list(&of, request, at, s(1000)))
    });
    world.run(s(59));
    let played = world.player.tracks[0].place.expect("it plays");
    let other = Place { pathway: 1 - played.pathway, ..played };
    let of = film.clone();
    world.servers = Box::new(move |request, at| {
        let at = if request.pathway == played.pathway { at.min(s(60)) } else { at };
        (request.kind == RequestKind::Playlist).then(|| list(&of, request, at, s(1000)))
    });
    let (_, asked) = world.sent(RequestKind::Playlist)[0];
    let asked = PlayerRequest { pathway: other.pathway, ..asked.clone() };
    let slot = Slot::document(0);
    let mut lists_of_the_other = 0;
    for now in 60..100 {
        world.run(s(now));
        let Reply::Document(Document::Segments(newer)) = list(&film, &asked, s(now), s(1000))
        else {
            continue;
        };
        let player = &mut world.player;
        if player.open.is_free(slot) && player.tracks[0].place == Some(played) {
            // It is there to measure the other pathway.
            player.tracks[0].wanted = Some(other);
            let (pathway, rendition) = (other.pathway as u16, other.rendition as u16);
            let open = Open::new(RequestKind::Playlist, s(now));
            player.open.open(slot, Open { pathway, rendition, ..open });
            player.handle_list(slot, &newer, s(now));
            lists_of_the_other += 1;
        }
    }
    assert!(lists_of_the_other > 20, "{lists_of_the_other}");
    let seen = seen(&world.player.report(s(100)));
    let loads = world.sent(RequestKind::Playlist);
    let loads = loads.iter().filter(|(_, request)| request.track == 0).count() as u64;
    assert_eq!(seen.stood_still, 1, "{seen:?}");
    assert!(seen.reloads < loads, "{seen:?} of {loads} loads");
}
