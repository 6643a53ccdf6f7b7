//! Sessions of several titles, networks and players, counted as a fleet's gateways get them.

use super::*;
use crate::{Cmcd, Collector, Delivery, QoeReport, ViewerGroup};

const MINUTE_MS: u64 = 60_000;

/// When a session that began at 0 has been counted and reported.
const REPORTED_MS: u64 = COUNTED_MS + MINUTE_MS + 5000;

/// A viewer's session that begins at `at_ms` and plays.
fn watch(collector: &mut Collector, at_ms: u64, id: u64, title: &str, address: [u8; 4]) {
    let requests = [
        (0, "ot=m,su"),
        (100, "ot=v,su,d=4000,br=3000,bl=0"),
        (600, "ot=v,d=4000,br=3000,bl=4000"),
    ];
    for (after_ms, text) in requests {
        let mut cmcd = Cmcd::default();
        cmcd.read(text.as_bytes());
        let at_us = (at_ms + after_ms) * 1000;
        let path = format!("{title}/{}", if after_ms == 0 { "master.m3u8" } else { "1.m4s" });
        collector.take(vec![QoeReport::new(at_us, id, path.as_bytes(), &cmcd)]);
        let group = Some(ViewerGroup::of(address.into(), Some(b"AppleCoreMedia/1.0")));
        let (session, viewer, bytes) = (id, id, 1 << 20);
        collector.take_deliveries(vec![Delivery { at_us, session, viewer, group, bytes }]);
    }
}

/// The groups of all reports and their sessions, added up.
fn told(collector: &Collector) -> BTreeMap<(String, String), u64> {
    let mut told = BTreeMap::new();
    for cell in collector.tally().after(0).flat_map(|closed| &closed.cells) {
        assert!(cell.sums.sessions >= CELL_SESSIONS_MIN && cell.sums.is_sound(), "{cell:?}");
        *told.entry((cell.by.clone(), cell.name.clone())).or_default() += cell.sums.sessions;
    }
    told
}

fn sessions(told: &BTreeMap<(String, String), u64>, by: &str, name: &str) -> u64 {
    told.get(&(by.to_owned(), name.to_owned())).copied().unwrap_or(0)
}

#[test]
fn a_session_counts_in_its_groups_when_its_first_five_minutes_are_over() {
    let mut collector = Collector::default();
    for id in 0..30 {
        let address = if id < 12 { [198, 51, 100, 1] } else { [203, 0, 113, id as u8] };
        watch(&mut collector, 0, id, if id < 20 { "a" } else { "b" }, address);
    }
    collector.advance(COUNTED_MS);
    assert_eq!(told(&collector), BTreeMap::new());
    collector.advance(REPORTED_MS);
    let told = told(&collector);
    assert_eq!(sessions(&told, "all", ""), 30);
    assert_eq!((sessions(&told, "title", "a"), sessions(&told, "title", "b")), (20, 10));
    assert_eq!(sessions(&told, "network", "198.51.0.0/16"), 12);
    assert_eq!(sessions(&told, "network", "203.0.0.0/16"), 18);
    assert_eq!(sessions(&told, "player", "avplayer"), 30);
    assert_eq!(told.len(), 6);
    // They play on, and don't count again.
    for minute in 7..20 {
        let mut cmcd = Cmcd::default();
        cmcd.read(b"ot=v,d=4000,br=3000,bl=4000");
        let at_ms = minute * MINUTE_MS;
        let report = |id| QoeReport::new(at_ms * 1000, id, b"a/9.m4s", &cmcd);
        collector.take((0..30).map(report).collect());
        collector.advance(at_ms + 5000);
    }
    assert_eq!(collector.tally().after(0).count(), 1);
}

#[test]
fn a_group_of_fewer_than_ten_sessions_waits_for_more() {
    let mut collector = Collector::default();
    for id in 0..19 {
        watch(&mut collector, 0, id, if id < 10 { "a" } else { "b" }, [192, 0, 2, 1]);
    }
    collector.advance(REPORTED_MS);
    let first = told(&collector);
    assert_eq!((sessions(&first, "title", "a"), sessions(&first, "title", "b")), (10, 0));
    assert_eq!(sessions(&first, "all", ""), 19);
    watch(&mut collector, REPORTED_MS, 100, "b", [192, 0, 2, 1]);
    collector.advance(2 * REPORTED_MS);
    let second = told(&collector);
    assert_eq!(sessions(&second, "title", "b"), 10);
    assert_eq!(sessions(&second, "all", ""), 19, "one session more waits");
}

#[test]
fn a_group_that_stays_small_for_an_hour_loses_its_name() {
    let mut collector = Collector::default();
    for id in 0..14 {
        watch(&mut collector, 0, id, if id < 7 { "a" } else { "b" }, [192, 0, 2, 1]);
    }
    for minute in 0..70 {
        collector.advance(REPORTED_MS + minute * MINUTE_MS);
    }
    let told = told(&collector);
    assert_eq!((sessions(&told, "title", "a"), sessions(&told, "title", "")), (0, 14));
}

#[test]
fn groups_are_bounded_and_no_session_is_lost() {
    let mut collector = Collector::default();
    let sessions_count = 20 * CELLS_MAX as u64;
    for id in 0..sessions_count {
        watch(&mut collector, id % 1000, id, &format!("t{}", id / 10), [192, 0, 2, 1]);
        if id % 20_000 == 19_999 {
            collector.advance(10_000);
        }
    }
    collector.advance(10_000);
    collector.advance(REPORTED_MS);
    let told = told(&collector);
    assert!(told.len() <= CELLS_MAX, "{}", told.len());
    let titles = told.iter().filter(|((by, _), _)| by == "title");
    assert_eq!(titles.map(|(_, count)| count).sum::<u64>(), sessions_count);
    assert_eq!(sessions(&told, "all", ""), sessions_count);
    assert!(sessions(&told, "title", "") > 0);
}

#[test]
fn a_session_from_elsewhere_does_not_count() {
    let mut collector = Collector::default();
    for id in 0..50 {
        let mut cmcd = Cmcd::default();
        cmcd.read(b"ot=v,d=4000,br=3000,bl=9000");
        collector.take(vec![QoeReport::new(0, id, b"a/7.m4s", &cmcd)]);
    }
    collector.advance(REPORTED_MS);
    assert_eq!(told(&collector), BTreeMap::new());
}

#[test]
fn reports_have_numbers_of_their_own_and_the_last_ones_are_kept() {
    let mut collector = Collector::default();
    collector.count_with(Tally::of_the_first(1000));
    for turn in 0..30 {
        let at_ms = turn * 10_000;
        for id in 0..10 {
            watch(&mut collector, at_ms, turn * 100 + id, "a", [192, 0, 2, 1]);
        }
        collector.advance(at_ms + 9000);
    }
    let numbers: Vec<_> = collector.tally().after(0).map(|closed| closed.number).collect();
    assert_eq!(numbers, (21..=30).collect::<Vec<_>>());
    assert_eq!(collector.tally().after(29).count(), 1);
}
