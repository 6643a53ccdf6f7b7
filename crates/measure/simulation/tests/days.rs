//! Days of small fleets.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use fullbore_simulation::{DayOptions, DayReport, NewTitles, Planted, simulate};

fn day(seed: u64) -> DayOptions {
    let (room_percent, healthy) = (100, false);
    let (new, planted) = (NewTitles::Known, None);
    DayOptions { nodes: 20, titles: 200, seed, hours: 24, room_percent, healthy, new, planted }
}

/// Six nodes at three sites: the smallest fleet that has three failure domains and can lose a node.
fn small_day(seed: u64) -> DayOptions {
    DayOptions { nodes: 6, titles: 100, ..day(seed) }
}

fn clean(report: &DayReport) {
    assert_eq!(report.breaches, 0, "seed {}: {:#?}", report.seed, report.told);
    let plays = u64::from(report.nodes) * 1_500;
    assert!(report.plays > plays && report.asked_again > plays / 10, "seed {}", report.seed);
    assert!(report.planned_bytes <= report.churn_bytes_max);
}

/// Runs `check` for each seed, on all cores.
fn each(seeds: Range<u64>, check: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds.start);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let seeds_left = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        seeds_left.take_while(|seed| *seed < seeds.end).for_each(&check);
    };
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
}

#[test]
fn whatever_fails_what_must_hold_holds() {
    for seed in 0..2 {
        let report = simulate(&day(seed));
        clean(&report);
        assert!(report.moved > 0 && report.planned_bytes > 0, "seed {seed}");
    }
}

#[test]
fn what_must_hold_holds_on_a_hundred_small_days() {
    each(1_000..1_100, |seed| clean(&simulate(&small_day(seed))));
}

#[test]
#[ignore = "takes a quarter of an hour: ./run nightly"]
fn what_must_hold_holds_on_many_days() {
    each(10_000..20_000, |seed| clean(&simulate(&small_day(seed))));
    each(100..600, |seed| clean(&simulate(&day(seed))));
    clean(&simulate(&DayOptions { nodes: 1_000, titles: 5_000, ..day(7) }));
}

#[test]
fn the_same_seed_gives_the_same_day() {
    let short = |seed| simulate(&DayOptions { hours: 4, ..day(seed) });
    assert_eq!(short(7), short(7));
    assert_ne!(short(7).watched_bytes, short(8).watched_bytes);
}

#[test]
fn a_fleet_that_knows_the_series_of_new_titles_serves_them_nearly_as_one_that_knows_all() {
    let of = |new| {
        let share = |seed| {
            let day = DayOptions { nodes: 60, titles: 1_000, room_percent: 50, new, ..day(seed) };
            let report = simulate(&DayOptions { healthy: true, ..day });
            clean(&report);
            report.new_titles
        };
        let days = [1, 2].map(share);
        let watched: u64 = days.iter().map(|day| day.watched_bytes).sum();
        days.iter().map(|day| day.first_choice_bytes).sum::<u64>() * 1000 / watched
    };
    let [known, series, unknown] =
        [NewTitles::Known, NewTitles::Series, NewTitles::Unknown].map(of);
    println!("new titles from the first choice, in thousandths: {known}, {series}, {unknown}");
    assert!(unknown + 100 < series && series + 50 > known, "{known} {series} {unknown}");
}

/// Each planted bug, and a part of the breach that it must cause.
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
