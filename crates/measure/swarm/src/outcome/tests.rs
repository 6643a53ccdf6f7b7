use super::*;
use player::event::{GiveUp, StallReason};
use player::report::Stall;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// An hour of a viewer on two pathways, with this many stalls of two seconds each.
fn report(stalls: u32, bytes: [u64; 2]) -> SessionReport {
    let stall = |number| Stall {
        at: SECOND * (100 * (number + 1)),
        length: SECOND * 2,
        reason: StallReason::Silence,
        pathway: 1,
    };
    SessionReport {
        began: Duration::ZERO,
        lasted: SECOND * 3600,
        play_delay: Some(SECOND / 2),
        stalls: (0..stalls).map(stall).collect(),
        stall_count: u64::from(stalls),
        stalled: SECOND * 2 * stalls,
        played: SECOND * (3600 - 2 * stalls),
        bits_per_second: Some(4_000_000),
        switches: 3,
        time_to_quality: Some(SECOND * 6),
        rungs: Vec::new(),
        seeks: 1,
        seek_waits: Duration::ZERO,
        left_waiting: Duration::ZERO,
        skips: 0,
        skipped: Duration::ZERO,
        requests: 600,
        bytes_by_pathway: bytes.to_vec(),
        segments_elsewhere: bytes.map(|bytes| (bytes > 10).then_some(0)).to_vec(),
        probe_bytes: 10,
        wasted_bytes: 5,
        failures: [0; Failure::KINDS],
        moves: Vec::new(),
        move_count: 0,
        live: None,
        ended: Ending::Left,
    }
}

fn names() -> [String; 2] {
    ["a".to_owned(), "b".to_owned()]
}

#[test]
fn sessions_are_counted_by_title_and_by_the_pathway_that_brought_most() {
    let mut outcome = Outcome::default();
    outcome.record(0, 0, &names(), &report(0, [1000, 10]));
    outcome.record(1, 0, &names(), &report(2, [10, 1000]));
    outcome.record(2, 4, &names(), &report(0, [500, 500]));
    assert_eq!((outcome.all.sessions, outcome.all.without_stall), (3, 2));
    let sessions = |name: &str| outcome.pathways[name].group.sessions;
    assert_eq!((sessions("a"), sessions("b")), (2, 1));
    assert_eq!((outcome.pathways["a"].bytes, outcome.pathways["b"].bytes), (1510, 1510));
    assert_eq!((outcome.pathways["a"].stalls, outcome.pathways["b"].stalls), (0, 2));
    assert_eq!(outcome.titles.keys().collect::<Vec<_>>(), [&0, &4]);
    assert_eq!((outcome.bytes, outcome.probe_bytes), (3020, 30));
    let ratio = outcome.stall_ratio().expect("they watched");
    assert!((ratio - 4.0 / 10_800.0).abs() < 1e-9, "{ratio}");
}

#[test]
fn the_fewest_segments_after_a_pathway_was_left_are_said_for_each() {
    let mut outcome = Outcome::default();
    for (viewer, elsewhere) in
        [[Some(30), Some(0)], [Some(12), Some(0)], [Some(0), None]].into_iter().enumerate()
    {
        let seen = SessionReport { segments_elsewhere: elsewhere.to_vec(), ..report(0, [1, 2]) };
        outcome.record(viewer, 0, &names(), &seen);
    }
    let json = outcome.to_json();
    assert_eq!(json["pathways"]["a"]["sessions_that_used_it"], json!(3));
    assert_eq!(json["pathways"]["a"]["sessions_that_left_it"], json!(2));
    assert_eq!(json["pathways"]["a"]["segments_elsewhere_min"], json!(12));
    assert_eq!(json["pathways"]["b"]["segments_elsewhere_min"], Value::Null);
    let text = outcome.describe();
    assert!(text.contains("left by 2 of 3, who had at least 12 segments elsewhere"), "{text}");
}

#[test]
fn stalls_are_listed_with_their_viewer_and_their_reason() {
    let mut outcome = Outcome::default();
    outcome.record(7, 2, &names(), &report(2, [1, 2]));
    let listed = outcome.stalls.first();
    assert_eq!(listed.len(), 2);
    assert_eq!((listed[0].viewer, listed[0].title, listed[0].at), (7, 2, SECOND * 100));
    assert_eq!((listed[1].pathway.as_str(), listed[1].reason), ("b", "silence"));
}

#[test]
fn a_session_that_never_began_is_in_no_distribution_but_counted() {
    let mut outcome = Outcome::default();
    let ended = Ending::GaveUp(GiveUp::Start);
    let never = SessionReport { play_delay: None, ended, ..report(0, [0, 0]) };
    outcome.record(0, 0, &names(), &never);
    let all = &outcome.all;
    assert_eq!((all.sessions, all.started, all.without_stall, all.gave_up), (1, 0, 0, 1));
    assert_eq!((all.play_delay.count(), all.mbps.count()), (0, 0));
    assert_eq!(outcome.gave_up.get("start"), Some(&1));
    assert_eq!(outcome.all.smooth_share(), Some(0.0));
    let left = SessionReport { ended: Ending::Left, ..never };
    outcome.record(1, 0, &names(), &left);
    assert_eq!((outcome.all.sessions, outcome.all.left_before_start), (2, 1));
}

#[test]
fn waits_after_seeks_are_no_stalls_and_have_figures_of_their_own() {
    let mut outcome = Outcome::default();
    let waited = SessionReport { seeks: 2, seek_waits: SECOND * 30, ..report(0, [1, 2]) };
    outcome.record(0, 0, &names(), &waited);
    assert_eq!(outcome.all.seek_wait.mean(), Some(15.0));
    assert_eq!((outcome.seek_waits.seconds(), outcome.stall_ratio()), (30.0, Some(0.0)));
}

#[test]
fn the_outcome_is_the_same_whatever_the_threads_and_the_order() {
    let sessions: Vec<_> = (0..50).map(|n| report(n % 3, [u64::from(n) * 100, 2000])).collect();
    let mut one = Outcome::default();
    for (viewer, report) in sessions.iter().enumerate() {
        one.record(viewer, viewer % 5, &names(), report);
    }
    let mut two = [Outcome::default(), Outcome::default()];
    for (viewer, report) in sessions.iter().enumerate().rev() {
        two[viewer % 2].record(viewer, viewer % 5, &names(), report);
    }
    let [mut sum, other] = two;
    sum.add(&other);
    assert_eq!(format!("{:#}", one.to_json()), format!("{:#}", sum.to_json()));
    assert_eq!(one.describe(), sum.describe());
}

#[test]
fn the_json_names_units_and_has_a_version() {
    let mut outcome = Outcome::default();
    outcome.record(0, 0, &names(), &report(1, [100, 900]));
    let json = outcome.to_json();
    assert_eq!((&json["version"], &json["kind"]), (&json!(1), &json!("swarm")));
    assert_eq!(json["play_delay_seconds"]["p50"], json!(0.5));
    assert_eq!(json["mbps"]["count"], json!(1));
    assert_eq!(json["stalls"]["by_reason"]["silence"], json!(1));
    assert_eq!(json["stalls"]["first"][0]["seconds"], json!(2.0));
    assert_eq!(json["pathways"]["b"]["bytes"], json!(900));
    assert_eq!(json["titles"][0]["title"], json!(0));
    assert_eq!(json["probe_share"], json!(0.01));
}

#[test]
fn live_streams_have_a_latency_and_tell_of_their_playlists() {
    let mut outcome = Outcome::default();
    outcome.record(0, 0, &names(), &report(0, [100, 900]));
    assert!(!outcome.describe().contains("live"), "{}", outcome.describe());
    assert_eq!(outcome.to_json()["latency_seconds"]["count"], json!(0));
    let seen = player::LiveSeen {
        latency: Some(SECOND * 6),
        is_by_date: true,
        reloads: 30,
        unchanged: 4,
        jumps: 1,
        missed_segments: 3,
        ..player::LiveSeen::default()
    };
    outcome.record(1, 0, &names(), &SessionReport { live: Some(seen), ..report(0, [100, 900]) });
    let mut both = Outcome::default();
    both.add(&outcome);
    both.add(&outcome);
    let json = both.to_json();
    assert_eq!(
        (&json["latency_seconds"]["mean"], &json["live"]["sessions"]),
        (&json!(6.0), &json!(2))
    );
    assert_eq!(
        (&json["live"]["reloads"], &json["live"]["missed_segments"]),
        (&json!(60), &json!(6))
    );
    let text = both.describe();
    for part in
        ["latency, s", "live: 2 sessions", "60 reloads, 8 without news; 2 jumps over 6 segments"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn people_read_what_happened() {
    let mut outcome = Outcome::default();
    outcome.record(0, 0, &names(), &report(1, [100, 900]));
    let text = outcome.describe();
    for part in [
        "1 sessions: 1 started, 0 without a stall",
        "play delay, s",
        "stalls 1: 1 silence",
        "pathway b",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(Outcome::default().describe().contains("0 sessions"));
}

#[test]
fn who_leaves_in_a_long_wait_after_a_seek_was_not_without_a_stall() {
    let mut outcome = Outcome::default();
    let names = ["a".to_owned(), "b".to_owned()];
    for (viewer, seconds) in [0, 1, 5, 60].into_iter().enumerate() {
        let left = SessionReport { left_waiting: SECOND * seconds, ..report(0, [1, 2]) };
        outcome.record(viewer, 0, &names, &left);
    }
    assert_eq!((outcome.all.started, outcome.all.without_stall), (4, 2));
}
