//! Sessions of several titles, networks and players, counted as a fleet's gateways get them.

use proptest::prelude::*;

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
fn a_group_of_fewer_than_ten_sessions_is_not_what_others_leave_of_all() {
    let mut collector = Collector::default();
    for id in 0..31 {
        let title = ["a", "b", "c"][(id as usize / 10).min(2)];
        watch(&mut collector, 0, id, if id == 30 { "d" } else { title }, [192, 0, 2, 1]);
    }
    collector.advance(REPORTED_MS);
    assert_eq!(told(&collector), BTreeMap::new(), "a third would have no title");
    for minute in 1..11 {
        collector.advance(REPORTED_MS + minute * MINUTE_MS);
    }
    let told = told(&collector);
    assert_eq!(sessions(&told, "all", ""), 31);
    let titles: Vec<_> = ["a", "b", "c", "d", ""].map(|name| sessions(&told, "title", name)).into();
    assert_eq!(titles, [10, 10, 0, 0, 11], "c hides the session of d");
}

#[test]
fn fewer_than_ten_sessions_in_an_hour_are_in_no_report() {
    let mut collector = Collector::default();
    for id in 0..9 {
        watch(&mut collector, 0, id, "a", [192, 0, 2, 1]);
    }
    for minute in 0..70 {
        collector.advance(COUNTED_MS + minute * MINUTE_MS);
    }
    watch(&mut collector, 80 * MINUTE_MS, 10, "a", [192, 0, 2, 1]);
    for minute in 80..100 {
        collector.advance(minute * MINUTE_MS);
    }
    assert_eq!((told(&collector), collector.tally().dropped_total()), (BTreeMap::new(), 9));
}

#[test]
fn a_title_that_many_watch_keeps_its_name_among_many_rare_ones() {
    let mut collector = Collector::default();
    for id in 0..20 * CELLS_MAX as u64 {
        let title = if id % 20 == 19 { "popular".to_owned() } else { format!("t{id}") };
        watch(&mut collector, id % 1000, id, &title, [192, 0, 2, 1]);
    }
    collector.advance(10_000);
    collector.advance(REPORTED_MS);
    assert!(collector.tally().groups.iter().all(|groups| groups.len() <= WAITING_MAX));
    collector.advance(REPORTED_MS + 10 * MINUTE_MS);
    let told = told(&collector);
    assert!(told.len() <= CELLS_MAX, "{}", told.len());
    assert!(sessions(&told, "title", "popular") > 900, "{told:?}");
    let titles = told.iter().filter(|((by, _), _)| by == "title");
    assert_eq!(titles.map(|(_, count)| count).sum::<u64>(), 20 * CELLS_MAX as u64);
}

#[test]
fn a_report_has_bounded_groups_and_loses_no_session() {
    let mut collector = Collector::default();
    let sessions_count = 15 * CELLS_MAX as u64;
    for id in 0..sessions_count {
        watch(&mut collector, 0, id, &format!("t{}", id / 10), [192, 0, 2, 1]);
    }
    collector.advance(10_000);
    collector.advance(REPORTED_MS);
    collector.advance(REPORTED_MS + 10 * MINUTE_MS);
    let told = told(&collector);
    let titles = told.iter().filter(|((by, _), _)| by == "title");
    assert_eq!(titles.clone().count(), NAMES_MAX + 1);
    assert_eq!(titles.map(|(_, count)| count).sum::<u64>(), sessions_count);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever viewers do, no subtraction of a report's groups from all sessions leaves one to nine of them.
    #[test]
    fn subtraction_reveals_no_small_group(
        minutes in prop::collection::vec(prop::collection::vec((0..9_u32, 0..6_u8, 0..4_u8), 0..40), 1..30),
    ) {
        let mut tally = Tally::default();
        let mut counted = 0;
        for (minute, began) in minutes.iter().enumerate() {
            for (title, network, player) in began {
                let mut cmcd = Cmcd::default();
                cmcd.read(b"ot=v,su,bl=0");
                let report = QoeReport::new(0, 1, b"x/1.m4s", &cmcd);
                let mut session = Session::of(&report);
                session.take(&report);
                let agent = ["Roku", "VLC", "Tizen", "Lavf"][usize::from(*player)];
                session.group = Some(ViewerGroup::of([10, *network, 0, 1].into(), Some(agent.as_bytes())));
                // Some titles are watched more than others.
                tally.count(&format!("t{}", title * title / 9), &session);
                counted += 1;
            }
            tally.advance((minute as u64 + 1) * MINUTE_MS);
        }
        let mut reported = 0;
        // Only the last few are kept.
        for closed in tally.after(0) {
            let all = closed.cells[0].sums.sessions;
            prop_assert_eq!(closed.cells[0].by.as_str(), "all");
            reported += all;
            for of_one in closed.cells.chunk_by(|one, next| one.by == next.by) {
                let sessions = of_one.iter().map(|cell| cell.sums.sessions);
                prop_assert!(sessions.clone().all(|count| count >= CELL_SESSIONS_MIN));
                prop_assert_eq!(sessions.sum::<u64>(), all, "exactly the same sessions");
            }
            prop_assert_eq!(closed.cells.chunk_by(|one, next| one.by == next.by).count(), 4);
        }
        prop_assert!(reported <= counted);
    }
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
