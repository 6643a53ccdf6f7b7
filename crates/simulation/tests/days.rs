//! Days of small fleets.

use fullbore_simulation::{DayOptions, DayReport, Planted, simulate};

fn day(seed: u64) -> DayOptions {
    DayOptions { nodes: 20, titles: 200, seed, hours: 24, planted: None }
}

fn clean(report: &DayReport) {
    assert_eq!(report.breaches, 0, "seed {}: {:#?}", report.seed, report.told);
    assert!(report.plays > 10_000 && report.looked_closely > 1_000 && report.asked_again > 1_000);
    assert!(report.moved > 0, "no node was lost");
    assert!(report.planned_bytes > 0 && report.planned_bytes <= report.churn_bytes_max);
}

#[test]
fn whatever_fails_what_must_hold_holds() {
    for seed in 0..4 {
        clean(&simulate(&day(seed)));
    }
}

#[test]
#[ignore = "a hundred days take minutes: cargo test --release -p fullbore-simulation --test days -- --ignored"]
fn what_must_hold_holds_on_a_hundred_days() {
    for seed in 100..200 {
        clean(&simulate(&day(seed)));
    }
}

#[test]
fn the_same_seed_gives_the_same_day() {
    let short = |seed| simulate(&DayOptions { hours: 4, ..day(seed) });
    assert_eq!(short(7), short(7));
    assert_ne!(short(7).watched_bytes, short(8).watched_bytes);
}

/// Each planted bug, and what is said of it.
const PLANTED: [(Planted, &str); 5] = [
    (Planted::Lacking, "lacks title"),
    (Planted::Ceiling, "passed over a node with room"),
    (Planted::OneDomain, "failure domains"),
    (Planted::Swing, "moved without need"),
    (Planted::Stampede, "from the origin"),
];

#[test]
fn planted_bugs_are_found() {
    for (planted, told) in PLANTED {
        let finds = |seed: u64| {
            let hours = if planted == Planted::Ceiling { 21 } else { 6 };
            let options = DayOptions { hours, planted: Some(planted), ..day(seed) };
            simulate(&options).told.iter().any(|breach| breach.contains(told))
        };
        assert!((0..10).any(finds), "{planted:?}");
    }
}
