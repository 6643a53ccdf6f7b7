//! Reports of a few nodes, bounded and added up over time.

use fleet_protocol::SumsCell;
use qoe::CELL_SESSIONS_MIN;

use super::*;
use crate::live::tests::title;

const BEGAN_UNIX_SECONDS: u64 = 1_800_000_000;

fn at(seconds: u64) -> Now {
    let unix_millis = (BEGAN_UNIX_SECONDS + seconds) * 1000;
    Now { uptime: Duration::from_secs(seconds), unix_millis }
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// Sums of sessions of which some stalled for a second each, and the others played well.
fn sums(sessions: u64, stalled: u64) -> SessionSums {
    let mut sums = SessionSums { sessions, stalled, stalls: stalled, ..SessionSums::default() };
    sums.stalled_ms = stalled * 1000;
    sums.played_ms = sessions * 100_000;
    (0..stalled).for_each(|_| sums.stall_ms.record(1000));
    (0..sessions).for_each(|_| sums.bitrate_kbps.record(3000));
    (0..sessions).for_each(|number| sums.play_delay_ms.record(500 + number % 100));
    sums
}

fn cell(by: &str, name: &str, sums: SessionSums) -> SumsCell {
    SumsCell { by: by.to_owned(), name: name.to_owned(), sums }
}

fn report(boot: &str, number: u64, seconds: u64, cells: Vec<SumsCell>) -> ExperienceReport {
    ExperienceReport {
        version: 1,
        node: name("n1"),
        boot: boot.to_owned(),
        number,
        seconds: 60,
        ended_unix_seconds: BEGAN_UNIX_SECONDS + seconds,
        cells,
    }
}

/// A gateway with nodes of 100 Mb/s, which can serve 100 sessions a second.
#[derive(Default)]
struct Ear(FleetExperience);

impl Ear {
    fn hear_of(
        &mut self,
        (node, site): (&str, &str),
        report: &ExperienceReport,
        seconds: u64,
    ) -> Result<(), RejectedMessage> {
        let (node, site, region) = (name(node), name(site), name("north"));
        let credible_bits_per_second = Some(100_000_000);
        let from = Speaker { name: &node, site: &site, region: &region, credible_bits_per_second };
        self.0.handle(&from, report, &[title("a"), title("b")], at(seconds))
    }

    fn hear(&mut self, report: &ExperienceReport, seconds: u64) -> Result<(), RejectedMessage> {
        self.hear_of(("n1", "paris"), report, seconds)
    }

    fn rows(&self, window: ExperienceWindow, by: RowsBy, seconds: u64) -> ExperienceRows {
        let region =
            |site: &Name| Some(name(if site.as_str() == "oslo" { "north" } else { "south" }));
        self.0.view(window, at(seconds)).rows(by, &RowsScope { sites: None, region: &region })
    }

    /// The sessions of a window.
    fn sessions(&self, window: ExperienceWindow, seconds: u64) -> u64 {
        self.rows(window, RowsBy::Site, seconds).total.sessions
    }
}

fn names_of(rows: &ExperienceRows) -> Vec<(Option<&str>, u64)> {
    rows.rows.iter().map(|row| (row.name.as_deref(), row.sessions)).collect()
}

#[test]
fn a_report_counts_once_also_after_a_restart_and_what_is_not_published_has_no_name() {
    let mut ear = Ear::default();
    let cells = vec![
        cell("all", "", sums(60, 6)),
        cell("title", "a", sums(40, 4)),
        cell("title", "x", sums(20, 2)),
    ];
    let first = report("b1", 1, 60, cells.clone());
    assert_eq!(ear.hear(&first, 60), Ok(()));
    assert_eq!(ear.hear(&first, 61), Err(RejectedMessage::Stale));
    assert_eq!(
        names_of(&ear.rows(ExperienceWindow::Now, RowsBy::Title, 62)),
        [(Some("a"), 40), (None, 20)]
    );
    assert_eq!(ear.0.counts().unknown_titles, 1);
    let kept = ear.0.unsaved(at(70)).expect("something new").to_json();
    assert!(ear.0.unsaved(at(71)).is_none());
    let mut again = Ear(FleetExperience::from_bytes(&kept, at(80)).expect("it is read"));
    assert_eq!(again.hear(&first, 90), Err(RejectedMessage::Stale));
    assert_eq!(again.hear(&report("b1", 2, 90, cells.clone()), 90), Ok(()));
    // The server started again, and counts from 1.
    assert_eq!(again.hear(&report("b2", 1, 95, cells), 95), Ok(()));
    assert_eq!(again.sessions(ExperienceWindow::Week, 100), 180);
    assert_eq!(
        names_of(&again.rows(ExperienceWindow::Day, RowsBy::Title, 100)),
        [(Some("a"), 120), (None, 60)]
    );
}

#[test]
fn sums_leave_each_window_when_its_time_is_over() {
    let mut ear = Ear::default();
    let hear = |ear: &mut Ear, number, seconds| {
        ear.hear(&report("b", number, seconds, vec![cell("all", "", sums(10, 0))]), seconds)
    };
    assert_eq!(hear(&mut ear, 1, 0), Ok(()));
    let sessions =
        |ear: &Ear, seconds| ExperienceWindow::ALL.map(|window| ear.sessions(window, seconds));
    assert_eq!(sessions(&ear, 600), [10, 10, 10]);
    assert_eq!(sessions(&ear, 1300), [0, 10, 10]);
    assert_eq!(sessions(&ear, 26 * 3600), [0, 0, 10]);
    assert_eq!(sessions(&ear, 9 * 86_400), [0, 0, 0]);
    // A report that waited for an hour counts for its time, and one from the future as of now.
    let late = report("b", 2, 26 * 3600, vec![cell("all", "", sums(10, 0))]);
    assert_eq!(ear.hear(&late, 27 * 3600), Ok(()));
    assert_eq!(sessions(&ear, 27 * 3600), [0, 10, 20]);
    let early = report("b", 3, 90 * 86_400, vec![cell("all", "", sums(10, 0))]);
    assert_eq!(ear.hear(&early, 27 * 3600), Ok(()));
    assert_eq!(sessions(&ear, 27 * 3600), [10, 20, 30]);
    // However long it goes on, a few slots are kept.
    for day in 30..80 {
        let cells = vec![cell("all", "", sums(10, 0))];
        assert_eq!(ear.hear(&report("b", day, day * 86_400, cells), day * 86_400), Ok(()));
    }
    // Each has the site's group and the node's.
    assert!(ear.0.counts().cells <= 2 * (6 + 27 + 10), "{}", ear.0.counts().cells);
}

#[test]
fn the_worst_group_is_the_one_that_is_surely_bad() {
    let mut ear = Ear::default();
    let of = |stalled: u64, sessions: u64| vec![cell("all", "", sums(sessions, stalled))];
    assert_eq!(ear.hear_of(("n1", "paris"), &report("b", 1, 0, of(3, 10)), 0), Ok(()));
    assert_eq!(ear.hear_of(("n2", "oslo"), &report("b", 1, 0, of(200, 1000)), 0), Ok(()));
    assert_eq!(ear.hear_of(("n3", "rome"), &report("b", 1, 0, of(1, 1000)), 0), Ok(()));
    let rows = ear.rows(ExperienceWindow::Now, RowsBy::Site, 1);
    let sites = [(Some("oslo"), 1000), (Some("paris"), 10), (Some("rome"), 1000)];
    assert_eq!(names_of(&rows), sites);
    assert_eq!(rows.total.sessions, 2010);
    let nodes = ear.rows(ExperienceWindow::Now, RowsBy::Node, 1);
    assert_eq!(names_of(&nodes), [(Some("n2"), 1000), (Some("n1"), 10), (Some("n3"), 1000)]);
    let regions = ear.rows(ExperienceWindow::Now, RowsBy::Region, 1);
    assert_eq!(names_of(&regions), [(Some("north"), 1000), (Some("south"), 1010)]);
    let json = serde_json::to_value(&rows.rows[0]).expect("JSON");
    assert_eq!((&json["stalled"]["count"], &json["stalled"]["share"]), (&200.into(), &0.2.into()));
    let median = &json["play_delay_seconds"]["median"];
    let number = |name: &str| median[name].as_f64().expect("a number");
    assert!(number("low") <= number("value") && number("value") <= number("high"), "{json}");
    assert!((number("value") - 0.55).abs() < 0.01, "{json}");
    // A partner sees their own sites only.
    let (own, region) = ([name("rome")], |_: &Name| None);
    let scope = RowsScope { sites: Some(&own), region: &region };
    let theirs = ear.0.view(ExperienceWindow::Now, at(1)).rows(RowsBy::Site, &scope);
    assert_eq!((names_of(&theirs), theirs.total.sessions), (vec![(Some("rome"), 1000)], 1000));
}

#[test]
fn a_node_cannot_have_served_more_sessions_than_its_ceiling_allows() {
    let mut ear = Ear::default();
    let said = |number: u64, sessions: u64| {
        let sums = SessionSums { sessions, not_started: sessions, ..SessionSums::default() };
        report("b", number, 0, vec![cell("all", "", sums)])
    };
    // An hour at 100 sessions a second.
    assert_eq!(ear.hear(&said(1, 360_001), 0), Err(RejectedMessage::OverCeiling));
    assert_eq!(ear.sessions(ExperienceWindow::Now, 0), 0, "nothing of it counts");
    assert_eq!(ear.hear(&said(1, 360_000), 0), Ok(()));
    assert_eq!(ear.hear(&said(2, 1001), 10), Err(RejectedMessage::OverCeiling));
    assert_eq!(ear.hear(&said(2, 1000), 10), Ok(()));
    // Nor can it say in titles what it does not say of all.
    let sums = SessionSums { sessions: 5000, not_started: 5000, ..SessionSums::default() };
    let titles = vec![
        cell("all", "", sums.clone()),
        cell("title", "a", sums.clone()),
        cell("title", "b", sums),
    ];
    let more = ear.hear(&report("c", 1, 20, titles), 20);
    assert!(matches!(more, Err(RejectedMessage::OutOfBounds(_))), "{more:?}");
    ear.0.keep_nodes(|_| false);
    assert!(ear.0.lines.is_empty());
}

#[test]
fn a_group_of_fewer_than_ten_sessions_is_refused_and_dimensions_of_later_releases_are_ignored() {
    let mut ear = Ear::default();
    let few = vec![cell("all", "", sums(CELL_SESSIONS_MIN - 1, 0))];
    assert!(matches!(ear.hear(&report("b", 1, 0, few), 0), Err(RejectedMessage::OutOfBounds(_))));
    let later = vec![cell("all", "", sums(20, 0)), cell("arm", "7/b", sums(20, 0))];
    assert_eq!(ear.hear(&report("b", 1, 0, later), 0), Ok(()));
    assert_eq!(
        (ear.sessions(ExperienceWindow::Now, 0), ear.0.counts().unknown_dimensions),
        (20, 1)
    );
}

#[test]
fn a_slot_takes_bounded_room_and_loses_no_session() {
    let mut slot = Slot::new(0);
    let (site, most) = (name("paris"), 20_000);
    let mut joined = 0;
    for number in 0..2000_u64 {
        let key = CellKey::new(&site, GroupedBy::Title, &format!("t{number}"));
        joined += slot.add_within(&key, &sums(10 + number % 50, 1), most);
        let buckets: usize = slot.cells.values().map(SessionSums::buckets).sum();
        assert!(buckets <= most, "{buckets}");
    }
    let sessions: u64 = slot.cells.values().map(|sums| sums.sessions).sum();
    assert_eq!(sessions, (0..2000_u64).map(|number| 10 + number % 50).sum::<u64>());
    assert!(joined > 1000 && slot.cells.contains_key(&CellKey::new(&site, GroupedBy::Title, "")));
}

/// Sums with as many buckets as a busy hour's.
fn wide(sessions: u64) -> SessionSums {
    let mut sums = SessionSums { sessions, ..SessionSums::default() };
    (0..sessions).for_each(|number| sums.play_delay_ms.record(100 + number * 9900 / sessions));
    (0..sessions).for_each(|number| sums.time_to_quality_ms.record(200 + number * 9900 / sessions));
    (0..sessions).for_each(|number| sums.bitrate_kbps.record(500 + number * 9000 / sessions));
    sums
}

#[test]
fn a_liar_takes_no_names_from_other_sites() {
    let mut slot = Slot::new(0);
    let (paris, rome) = (name("paris"), name("rome"));
    let key = |site, title: u64| CellKey::new(site, GroupedBy::Title, &format!("t{title}"));
    for title in 0..20 {
        slot.add_within(&key(&rome, title), &sums(10, 1), 20_000);
    }
    let lie = wide(3600);
    for title in 0..500 {
        slot.add_within(&key(&paris, title), &lie, 20_000);
    }
    let names = |site| (0..500).filter(|title| slot.cells.contains_key(&key(site, *title))).count();
    assert_eq!(names(&rome), 20);
    assert!(names(&paris) < 100, "{}", names(&paris));
    // A name that no honest node uses is none.
    let mut ear = Ear::default();
    let cells = vec![
        cell("all", "", sums(40, 0)),
        cell("player", "anna", sums(20, 0)),
        cell("player", "chrome", sums(20, 0)),
    ];
    assert_eq!(ear.hear(&report("b", 1, 0, cells), 0), Ok(()));
    let rows = ear.rows(ExperienceWindow::Now, RowsBy::Player, 1);
    assert_eq!(names_of(&rows), [(Some("chrome"), 20), (None, 20)]);
}

#[test]
fn a_slot_of_a_thousand_sites_and_ten_thousand_nodes_is_bounded_and_read_again() {
    let mut slot = Slot::new(0);
    let busy = wide(1000);
    let mut sessions = 0;
    for site in 0..1000 {
        let site = name(&format!("s{site}"));
        for (by, own) in [
            (GroupedBy::All, ""),
            (GroupedBy::Network, ""),
            (GroupedBy::Player, ""),
            (GroupedBy::Title, ""),
            (GroupedBy::Title, "films/a"),
        ] {
            slot.add(&CellKey::new(&site, by, own), &busy);
            sessions += busy.sessions;
        }
        for node in 0..10 {
            slot.add(&CellKey::new(&site, GroupedBy::Node, &format!("n{node}")), &busy);
            sessions += busy.sessions;
        }
    }
    let buckets = |slot: &Slot| slot.cells.values().map(SessionSums::buckets).sum::<usize>();
    assert!(buckets(&slot) <= slot::BUCKETS_MAX, "{}", buckets(&slot));
    let count = |slot: &Slot| slot.cells.values().map(|sums| sums.sessions).sum::<u64>();
    assert_eq!(count(&slot), sessions);
    let last = CellKey::new(&name("s999"), GroupedBy::All, "");
    assert!(slot.cells[&last].play_delay_ms.count() > 0, "all sessions have a play delay");
    let json = serde_json::to_vec(&slot).expect("JSON");
    let (again, unread) = Slot::restored(serde_json::from_slice(&json).expect("a slot"));
    assert_eq!((unread, again.cells == slot.cells), (0, true));
}

#[test]
fn a_slot_that_nothing_makes_smaller_still_takes_sums() {
    let mut slot = Slot::new(0);
    for site in 0..100 {
        slot.add_within(
            &CellKey::new(&name(&format!("s{site}")), GroupedBy::All, ""),
            &sums(10, 1),
            50,
        );
    }
    assert_eq!(slot.cells.len(), 100);
    assert!(slot.cells.values().all(|sums| sums.sessions == 10 && sums.buckets() == 20));
}

#[test]
fn a_clock_that_leaps_takes_no_history() {
    let mut ear = Ear::default();
    let of = |number, seconds| report("b", number, seconds, vec![cell("all", "", sums(10, 0))]);
    for day in 0..7 {
        assert_eq!(ear.hear(&of(day + 1, day * 86_400), day * 86_400), Ok(()));
    }
    let leap = 40 * 86_400;
    assert_eq!(ear.hear(&of(9, leap), leap), Ok(()));
    assert_eq!(ear.sessions(ExperienceWindow::Week, leap), 10);
    let kept = ear.0.unsaved(at(leap)).expect("new").to_json();
    let again = Ear(FleetExperience::from_bytes(&kept, at(6 * 86_400)).expect("it is read"));
    assert_eq!(again.sessions(ExperienceWindow::Week, 6 * 86_400), 70);
    assert_eq!(ear.sessions(ExperienceWindow::Week, 6 * 86_400), 70);
}

#[test]
fn a_gateway_that_was_away_says_from_when_it_has_all_reports() {
    let mut ear = Ear::default();
    let since = |ear: &Ear, seconds| {
        let rows = ear.rows(ExperienceWindow::Week, RowsBy::Site, seconds);
        rows.complete_since_unix_seconds - BEGAN_UNIX_SECONDS
    };
    assert_eq!(since(&ear, 50), 50, "it has nothing yet");
    let first = report("b", 1, 100, vec![cell("all", "", sums(10, 0))]);
    assert_eq!(ear.hear(&first, 100), Ok(()));
    assert_eq!(since(&ear, 9000), 100);
    let kept = ear.0.unsaved(at(9000)).expect("new").to_json();
    let restored =
        |seconds| Ear(FleetExperience::from_bytes(&kept, at(seconds)).expect("it is read"));
    assert_eq!(since(&restored(9000 + 3000), 20_000), 100, "nodes have kept what it missed");
    assert_eq!(since(&restored(9000 + 8000), 20_000), 9000 + 8000 - 3600);
}

/// In what a gateway answers, no subtraction of rows from the total leaves one to nine sessions: also for partners, and if groups lose names.
#[test]
fn rows_are_exactly_the_total_of_whatever_nodes_report() {
    let mut state = 7_u64;
    let mut any = |most: u64| {
        // Knuth's MMIX.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let rome = [name("rome")];
    for _ in 0..30 {
        let mut ear = Ear::default();
        for number in 1..=1 + any(9) {
            let node = [("n1", "paris"), ("n2", "rome"), ("n3", "rome")][any(3) as usize];
            let groups: Vec<_> = (0..1 + any(4)).map(|_| sums(10 + any(20), 0)).collect();
            let mut all = SessionSums::default();
            groups.iter().for_each(|group| all.add(group));
            let player = ["chrome", "none"][any(2) as usize];
            let networks = ["10.0.0.0/16", "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"];
            let named = |by: &str, names: [&str; 4]| {
                let cells = names.into_iter().zip(&groups);
                cells.map(|(name, sums)| cell(by, name, sums.clone())).collect::<Vec<_>>()
            };
            let cells = [
                vec![cell("all", "", all.clone())],
                named("network", networks),
                vec![cell("player", player, all.clone())],
                // Two of them are published.
                named("title", ["a", "b", "c", "d"]),
            ];
            let report = report("b", number, 0, cells.concat());
            assert_eq!(ear.hear_of(node, &report, number * 40), Ok(()));
        }
        for (window, by) in
            ExperienceWindow::ALL.iter().flat_map(|window| RowsBy::ALL.map(|by| (*window, by)))
        {
            for sites in [None, Some(&rome[..])] {
                let scope = RowsScope { sites, region: &|_| None };
                let made = ear.0.view(window, at(500)).rows(by, &scope);
                assert!(made.rows.iter().all(|row| row.sessions >= CELL_SESSIONS_MIN));
                let sum = made.rows.iter().map(|row| row.sessions).sum::<u64>();
                assert_eq!(sum, made.total.sessions, "{window:?} {by:?}");
            }
        }
    }
}

#[test]
fn what_is_no_file_of_sums_is_refused_and_a_damaged_group_is_left_out() {
    let mut ear = Ear::default();
    let cells = vec![cell("all", "", sums(20, 2)), cell("title", "a", sums(20, 2))];
    assert_eq!(ear.hear(&report("b", 1, 0, cells), 0), Ok(()));
    let text = String::from_utf8(ear.0.unsaved(at(1)).expect("new").to_json()).expect("JSON");
    for (from, to) in [("\"version\":1", "\"version\":2"), ("{\"version\"", "[\"version\"")] {
        assert!(text.contains(from), "{from}: {text}");
        let broken = text.replace(from, to);
        assert!(FleetExperience::from_bytes(broken.as_bytes(), at(2)).is_err(), "{to}");
    }
    for (from, to, unread) in [
        ("\"stalled\":2", "\"stalled\":21", 9),
        ("\"start\":1800000000", "\"start\":1800000001", 6),
        ("\"lines\":", "\"odd\":1,\"lines\":", 0),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        let read = FleetExperience::from_bytes(text.replace(from, to).as_bytes(), at(2));
        assert_eq!(read.expect(to).counts().unread, unread, "{to}: {text}");
    }
}
