//! Two years of renewals with a virtual clock.

use super::*;

const BEGIN: u64 = 1_700_000_000;
const TWO_YEARS: u64 = 730 * DAY;

/// The authority's reactions to orders and to requests for its window.
struct Authority<'a> {
    life: u64,
    /// The result of an order at this time.
    order: &'a dyn Fn(u64) -> Result<(), (AcmeTrouble, Option<u64>)>,
    /// The suggested window for a certificate that began then.
    window: &'a dyn Fn(u64) -> Option<(u64, u64)>,
}

/// The record of two years.
#[derive(Default)]
struct Years {
    obtained: Vec<u64>,
    failed: Vec<u64>,
    questions: usize,
    /// The time without a valid certificate, after the first one.
    without: u64,
}

fn live(authority: &Authority<'_>, fraction: f64) -> Years {
    let (mut years, mut now) = (Years::default(), BEGIN);
    let mut schedule = Schedule::new(None, now, fraction);
    let mut held: Option<Lifetime> = None;
    let mut last_order = 0;
    while now < BEGIN + TWO_YEARS {
        match schedule.next(now) {
            NextStep::WaitUntil(then) => {
                assert!(then > now, "time goes on");
                if let Some(held) = held {
                    years.without += then.saturating_sub(held.ends.max(now));
                }
                now = then;
            }
            NextStep::AskWindow => {
                years.questions += 1;
                let window = held.and_then(|held| (authority.window)(held.begins));
                schedule.on_window(now, window, None);
            }
            NextStep::Order => {
                assert!(now >= last_order + PAUSE_MIN, "two orders at once");
                last_order = now;
                match (authority.order)(now) {
                    Ok(()) => {
                        let lifetime = Lifetime { begins: now, ends: now + authority.life };
                        held = Some(lifetime);
                        schedule.on_obtained(now, lifetime);
                        years.obtained.push(now);
                    }
                    Err((why, retry_after)) => {
                        schedule.on_failed(now, why, retry_after);
                        years.failed.push(now);
                    }
                }
            }
        }
    }
    years
}

fn well(_: u64) -> Result<(), (AcmeTrouble, Option<u64>)> {
    Ok(())
}

#[test]
fn each_certificate_is_renewed_when_a_third_of_its_life_is_left() {
    for (days, fraction) in [(90, 0.0), (90, 0.5), (90, 1.0), (47, 0.3), (6, 0.7)] {
        let life = days * DAY;
        let years = live(&Authority { life, order: &well, window: &|_| None }, fraction);
        assert!(years.failed.is_empty() && years.without == 0);
        for pair in years.obtained.windows(2) {
            let (earliest, latest) = (life * 2 / 3 - life / 30 - 1, life * 2 / 3 + 1);
            assert!((earliest..=latest).contains(&(pair[1] - pair[0])), "{days} days: {pair:?}");
        }
        assert!(years.obtained.len() as u64 >= TWO_YEARS / life);
    }
}

#[test]
fn the_authoritys_window_decides_but_never_lets_a_certificate_end() {
    let life = 90 * DAY;
    let early = |begins: u64| Some((begins + 20 * DAY, begins + 22 * DAY));
    let years = live(&Authority { life, order: &well, window: &early }, 0.5);
    let apart: Vec<_> = years.obtained.windows(2).map(|pair| (pair[1] - pair[0]) / DAY).collect();
    assert!(apart.iter().all(|days| *days == 21), "{apart:?}");
    // Every six hours, and never in a loop.
    assert!(years.questions as u64 <= TWO_YEARS / WINDOW_ASKED_EVERY + 100);
    let late = |begins: u64| Some((begins + 200 * DAY, begins + 300 * DAY));
    let years = live(&Authority { life, order: &well, window: &late }, 0.5);
    assert!(years.without == 0 && years.obtained.len() as u64 >= TWO_YEARS / life);
    // A window in the past: the certificate is about to be revoked.
    let mut schedule = Schedule::new(Some(Lifetime { begins: 0, ends: life }), DAY, 0.5);
    schedule.on_window(DAY, Some((10, 20)), None);
    assert_eq!(schedule.next(DAY), NextStep::Order);
    // A window that ends before it begins is ignored.
    let mut schedule = Schedule::new(Some(Lifetime { begins: 0, ends: life }), DAY, 0.5);
    let due = schedule.due();
    schedule.on_window(DAY, Some((20, 10)), Some(0));
    assert!(schedule.due() == due && schedule.next(DAY) == NextStep::WaitUntil(DAY + MINUTE));
}

/// Failures of one kind on 20 of each 100 days, from before a renewal is due until after it: the old certificate bridges them.
#[test]
fn every_kind_of_failure_ends_with_a_renewal_in_time_and_without_a_storm() {
    let life = 90 * DAY;
    for why in AcmeTrouble::ALL {
        let is_bad = |now: u64| (55..75).contains(&((now - BEGIN) / DAY % 100));
        let order = |now: u64| if is_bad(now) { Err((why, None)) } else { Ok(()) };
        let years = live(&Authority { life, order: &order, window: &|_| None }, 0.5);
        assert!(!years.failed.is_empty(), "{why:?}: no renewal fell into a bad time");
        assert_eq!(years.without, 0, "{why:?}");
        let (_, most) = pauses(why);
        // Each bad period: some doublings, then one order in each longest pause.
        let orders_max = 8 * (20 + 20 * DAY / most) as usize;
        assert!(years.failed.len() <= orders_max, "{why:?}: {} orders", years.failed.len());
        let late = years.obtained.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(late <= 75 * DAY + most + most / 10 + DAY, "{why:?}: {} days", late / DAY);
    }
}

#[test]
fn an_outage_longer_than_a_certificate_ends_with_a_new_one_soon_after_it() {
    let outage = BEGIN + 50 * DAY..BEGIN + 200 * DAY;
    let order = |now: u64| match outage.contains(&now) {
        true => Err((AcmeTrouble::Unreachable, None)),
        false => Ok(()),
    };
    let years = live(&Authority { life: 90 * DAY, order: &order, window: &|_| None }, 1.0);
    let after = years.obtained.iter().find(|at| **at > outage.end).unwrap() - outage.end;
    assert!(after <= 5 * HOUR, "{after} s");
    assert!(years.without > 0 && years.without <= 115 * DAY);
}

#[test]
fn an_authority_that_asks_for_patience_gets_it() {
    let failed = |why, retry_after| {
        let mut schedule = Schedule::new(None, BEGIN, 0.0);
        schedule.on_failed(BEGIN, why, retry_after);
        schedule.ordered_at() - BEGIN
    };
    assert_eq!(failed(AcmeTrouble::RateLimited, Some(3 * DAY)), 3 * DAY);
    assert_eq!(failed(AcmeTrouble::RateLimited, Some(0)), PAUSE_MIN);
    assert_eq!(failed(AcmeTrouble::RateLimited, Some(u64::MAX)), PATIENCE_MAX);
    assert_eq!(failed(AcmeTrouble::RateLimited, None), HOUR);
    assert_eq!(failed(AcmeTrouble::Unreachable, None), MINUTE);
    assert_eq!(failed(AcmeTrouble::Unreachable, Some(HOUR)), HOUR);
    assert_eq!(failed(AcmeTrouble::Unreachable, Some(u64::MAX)), DAY);
    assert_eq!(failed(AcmeTrouble::Rejected, None), HOUR);
}

#[test]
fn pauses_double_up_to_their_bound_and_begin_anew_with_another_kind() {
    let mut schedule = Schedule::new(None, BEGIN, 0.0);
    let mut pauses = Vec::new();
    for _ in 0..40 {
        schedule.on_failed(BEGIN, AcmeTrouble::Unreachable, None);
        pauses.push(schedule.ordered_at() - BEGIN);
    }
    assert_eq!(pauses[..4], [60, 120, 240, 480]);
    assert_eq!(pauses[39], 4 * HOUR);
    schedule.on_failed(BEGIN, AcmeTrouble::Disk, None);
    assert_eq!(schedule.ordered_at() - BEGIN, MINUTE);
}

/// A clock that is a year ahead: each new certificate has already expired by it.
#[test]
fn a_wrong_clock_does_not_make_a_storm_of_orders() {
    let (mut schedule, mut now, mut orders) = (Schedule::new(None, BEGIN, 0.5), BEGIN, 0);
    while now < BEGIN + 60 * DAY {
        match schedule.next(now) {
            NextStep::WaitUntil(then) => now = then,
            NextStep::AskWindow => schedule.on_window(now, None, None),
            NextStep::Order => {
                orders += 1;
                let ends = now - 275 * DAY;
                schedule.on_obtained(now, Lifetime { begins: ends - 90 * DAY, ends });
                schedule.on_failed(now, AcmeTrouble::Clock, None);
            }
        }
    }
    assert!(orders <= 34, "{orders} orders");
}
