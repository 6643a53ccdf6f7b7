//! Reports of a few nodes, bounded and added up over time.

use fleet_protocol::SumsCell;
use qoe::CELL_SESSIONS_MIN;

use super::slot::Slot;
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

/// SessionSums of sessions of which some stalled for a second each, and the others played well.
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
        self.0.rows(window, by, &RowsScope { sites: None, region: &region }, at(seconds))
    }

    /// The sessions of a window.
    fn sessions(&self, window: ExperienceWindow, seconds: u64) -> u64 {
        self.rows(window, RowsBy::Site, seconds).total.sessions
    }
}

fn names(rows: &ExperienceRows) -> Vec<(Option<&str>, u64)> {
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
        names(&ear.rows(ExperienceWindow::Now, RowsBy::Title, 62)),
        [(Some("a"), 40), (None, 20)]
    );
    assert_eq!(ear.0.counts().unknown_titles, 1);
    let kept = ear.0.unsaved(at(70)).expect("something new");
    assert_eq!(ear.0.unsaved(at(71)), None);
    let mut again = Ear(FleetExperience::from_bytes(&kept, at(80)).expect("it is read"));
    assert_eq!(again.hear(&first, 90), Err(RejectedMessage::Stale));
    assert_eq!(again.hear(&report("b1", 2, 90, cells.clone()), 90), Ok(()));
    // The server started again, and counts from 1.
    assert_eq!(again.hear(&report("b2", 1, 95, cells), 95), Ok(()));
    assert_eq!(again.sessions(ExperienceWindow::Week, 100), 180);
    assert_eq!(
        names(&again.rows(ExperienceWindow::Day, RowsBy::Title, 100)),
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
    ear.0.unsaved(at(20 * 86_400));
    assert_eq!(ear.0.counts().cells, 0);
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
    assert_eq!(names(&rows), sites);
    assert_eq!(rows.total.sessions, 2010);
    let nodes = ear.rows(ExperienceWindow::Now, RowsBy::Node, 1);
    assert_eq!(names(&nodes), [(Some("n2"), 1000), (Some("n1"), 10), (Some("n3"), 1000)]);
    let regions = ear.rows(ExperienceWindow::Now, RowsBy::Region, 1);
    assert_eq!(names(&regions), [(Some("north"), 1000), (Some("south"), 1010)]);
    let json = serde_json::to_value(&rows.rows[0]).expect("JSON");
    assert_eq!((&json["stalled"]["count"], &json["stalled"]["share"]), (&200.into(), &0.2.into()));
    let median = &json["play_delay_seconds"]["median"];
    let number = |name: &str| median[name].as_f64().expect("a number");
    assert!(number("low") <= number("value") && number("value") <= number("high"), "{json}");
    assert!((number("value") - 0.55).abs() < 0.01, "{json}");
    // A partner sees their own sites only.
    let (own, region) = ([name("rome")], |_: &Name| None);
    let scope = RowsScope { sites: Some(&own), region: &region };
    let theirs = ear.0.rows(ExperienceWindow::Now, RowsBy::Site, &scope, at(1));
    assert_eq!((names(&theirs), theirs.total.sessions), (vec![(Some("rome"), 1000)], 1000));
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
    let titles = vec![cell("title", "a", sums.clone()), cell("title", "b", sums)];
    assert_eq!(ear.hear(&report("c", 1, 20, titles), 20), Err(RejectedMessage::OverCeiling));
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
    assert!(slot.is_sound());
}

#[test]
fn what_is_no_file_of_sums_is_refused() {
    let mut ear = Ear::default();
    let cells = vec![cell("all", "", sums(20, 2)), cell("title", "a", sums(20, 2))];
    assert_eq!(ear.hear(&report("b", 1, 0, cells), 0), Ok(()));
    let text = String::from_utf8(ear.0.unsaved(at(1)).expect("new")).expect("JSON");
    for (from, to) in [
        ("\"version\":1", "\"version\":2"),
        ("\"stalled\":2", "\"stalled\":21"),
        ("\"start\":18", "\"start\":17"),
        ("{\"version\"", "[\"version\""),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        let broken = text.replace(from, to);
        assert!(FleetExperience::from_bytes(broken.as_bytes(), at(2)).is_err(), "{to}");
    }
    let newer = text.replacen("\"lines\":", "\"odd\":1,\"lines\":", 1);
    assert!(FleetExperience::from_bytes(newer.as_bytes(), at(2)).is_ok());
    // Whole lines of it name neither an address nor a session.
    assert!(!text.contains("sid") && !text.contains("address"), "{text}");
}
