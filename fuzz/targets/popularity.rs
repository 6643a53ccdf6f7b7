//! A node's report of what viewers watched, and a gateway's stored counts, both of any bytes.
//!
//! Checks that nothing panics; that a report that passes is within its limits and the same after writing and reading it; and that counts
//! stay within their limits and a forecast can be made for any stored and reported counts.

#![no_main]

use catalog::TitlePath;
use fleet_protocol::{Name, WatchCount, WatchReport};
use libfuzzer_sys::fuzz_target;
use placement::popularity::{COUNTS_MAX, FleetPopularity, KnownTitle, PinnedIn, PopularityState};

const NOW: u64 = 1_800_000_000;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(report) = serde_json::from_slice::<WatchReport>(bytes) {
        check_report(&report);
    }
    if let Ok(state) = PopularityState::from_bytes(bytes) {
        check_state(state);
    }
});

fn check_report(report: &WatchReport) {
    // Computed before the check, so it must not overflow.
    let _ = report.sum();
    if report.check().is_err() {
        return;
    }
    assert!(report.titles.len() <= 1000 && report.sum().bytes <= 1 << 53);
    assert!(report.titles.iter().all(|title| TitlePath::new(&title.path).is_ok()));
    let written = serde_json::to_vec(report).expect("it is plain JSON");
    let again: WatchReport = serde_json::from_slice(&written).expect("what was written");
    assert_eq!(again, *report);
    let mut popularity = FleetPopularity::default();
    count(&mut popularity, report);
    forecast(&popularity);
}

fn count(popularity: &mut FleetPopularity, report: &WatchReport) {
    let region: Name = "north".parse().expect("a name");
    let titles = report.titles.iter().map(|title| (title.path.as_str(), title.count().bounded()));
    popularity.add(&region, titles, report.rest.bounded(), report.seconds, NOW);
}

fn check_state(state: PopularityState) {
    let written = state.to_bytes();
    assert_eq!(PopularityState::from_bytes(&written).as_ref(), Ok(&state));
    let mut popularity = FleetPopularity::default();
    popularity.restore(state.clone(), NOW);
    popularity.restore(state, NOW);
    let some = WatchCount { starts: 1, bytes: 1 << 50 };
    popularity.add(&"north".parse().expect("a name"), [("films/a", some)], some, 60, NOW);
    assert!(popularity.counts() <= COUNTS_MAX);
    forecast(&popularity);
    let kept = popularity.state(NOW).to_bytes();
    assert!(PopularityState::from_bytes(&kept).is_ok());
}

fn forecast(popularity: &FleetPopularity) {
    let known = |path| KnownTitle {
        path,
        published_unix_seconds: NOW - 100_000,
        series: Some("films"),
        pinned: PinnedIn::Everywhere,
    };
    let mut titles = ["films/a", "films/b", "films/c", "films/d"].map(known);
    titles[3].published_unix_seconds = NOW;
    for region in popularity.forecast(&titles, NOW) {
        assert!(region.changed_permille <= 1000 && (250..=4000).contains(&region.day_permille));
        assert!(region.titles.iter().all(|title| title.title < 4));
    }
}
