//! Long transfers: how much of a path they use, how fairly they share it, and how much they send for nothing.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use middlebox::Chance;

use crate::scenario::Scenario;
use crate::world::{Outcome, World};

/// The bottleneck of [`Scenario::bulk`].
const RATE_MBITS: f64 = 100.0;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn run(scenario: Scenario) -> (World, Outcome) {
    let mut world = World::new(scenario, false);
    let outcome = world.run();
    (world, outcome)
}

/// The goodput of the applications, in Mbit/s, until the last byte was read.
fn goodput_mbits(outcome: &Outcome) -> f64 {
    outcome.first_sent_bytes as f64 * 8.0 / outcome.last_byte.as_secs_f64() / 1e6
}

/// All cells, in the file's format.
fn table() -> String {
    let mut text = String::from(
        "Goodput in Mbit/s over a bottleneck of 100 Mbit/s with a queue of one round trip, slow start included; in brackets\n\
         what was sent again, in per mille. 8 MB a flow. Virtual time, so the same everywhere; written by simulation/bulk.rs.\n\n\
         flows   rtt    loss 0           0.1%             1%               3%\n",
    );
    for flows in [1, 4] {
        for rtt in [1, 20, 100, 200] {
            write!(text, "{flows:>5} {rtt:>3} ms").expect("memory");
            for loss_per_million in [0, 1000, 10_000, 30_000] {
                let loss = Chance::per_million(loss_per_million);
                let (_, outcome) = run(Scenario::bulk(loss, ms(rtt), flows, 8_000_000));
                let again = outcome.sent_again_bytes as f64 / outcome.first_sent_bytes as f64;
                let (goodput, again) = (goodput_mbits(&outcome), again * 1000.0);
                write!(text, "  {goodput:>6.2} ({again:>5.1})").expect("memory");
            }
            text.push('\n');
        }
    }
    text
}

#[test]
fn goodput_is_what_the_table_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulation/goodput.txt");
    let now = table();
    if std::env::var_os("FULLBORE_WRITE").is_some() {
        std::fs::write(&file, &now).expect("the sources can be written");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == now, "kept:\n{kept}\nnow:\n{now}\nif that is meant, FULLBORE_WRITE=1 keeps it");
}

#[test]
fn a_clean_path_is_used_and_nothing_is_sent_twice() {
    for rtt in [1, 20, 100] {
        let mut scenario = Scenario::bulk(Chance::NEVER, ms(rtt), 1, 8_000_000);
        // A window of one round trip: it fills the path, and never the queue.
        scenario.configs[1].window_bytes_max = (rtt as u32 * 12_500).max(64 << 10);
        let (_, outcome) = run(scenario);
        assert_eq!(outcome.sent_again_bytes, 0, "{rtt} ms");
        let goodput = goodput_mbits(&outcome);
        // This includes slow start: ten round trips of 0.1 s, for a transfer of 0.64 s.
        assert!(goodput > RATE_MBITS * 0.4, "{rtt} ms: {goodput} Mbit/s");
    }
}

/// Slow start overshoots and every other segment of a window is dropped, a thousand of them: more holes than ranges are
/// remembered.
#[test]
fn an_overshoot_sends_again_what_was_dropped_and_nothing_else() {
    for (rtt, queue_bytes) in [(100, 200_000), (100, 1_250_000), (200, 600_000), (200, 5_000_000)] {
        let mut scenario = Scenario::bulk(Chance::NEVER, ms(rtt), 1, 60_000_000);
        scenario.impairments[1].queue_bytes = queue_bytes;
        let (_, outcome) = run(scenario);
        let dropped_bytes = outcome.dropped_packets * 1448;
        let again = outcome.sent_again_bytes;
        eprintln!(
            "{rtt} ms, queue {queue_bytes}: {dropped_bytes} bytes dropped, {again} sent again"
        );
        assert!(again <= dropped_bytes + dropped_bytes / 50, "{rtt} ms: {outcome:?}");
    }
}

/// Between two paced sends, less is in flight than the window allows. The window counts as used all the same, and grows.
#[test]
fn pacing_in_large_pieces_costs_no_goodput() {
    for (rtt, loss_per_million) in [(20, 0), (20, 1000), (20, 10_000), (100, 1000)] {
        let goodput = |pacing, pace_bytes_min| {
            let loss = Chance::per_million(loss_per_million);
            let mut scenario = Scenario::bulk(loss, ms(rtt), 1, 20_000_000);
            scenario.configs[1].pacing = pacing;
            scenario.configs[1].pace_bytes_min = pace_bytes_min;
            goodput_mbits(&run(scenario).1)
        };
        let (unpaced, fine, coarse) =
            (goodput(false, 0), goodput(true, 0), goodput(true, 32 << 10));
        eprintln!(
            "{rtt} ms, {loss_per_million}: unpaced {unpaced:.2}, {fine:.2}, coarse {coarse:.2} Mbit/s"
        );
        assert!(coarse > 0.8 * unpaced, "{rtt} ms, {loss_per_million}");
    }
}

/// Jain, Chiu and Hawe, "A quantitative measure of fairness", 1984: 1 if all are equal, 1/n if one has all.
fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    sum * sum / (rates.len() as f64 * squares)
}

/// Bytes read by `at`.
fn read_by(progress: &[(Duration, u64)], at: Duration) -> f64 {
    let count = progress.partition_point(|(when, _)| *when <= at);
    count.checked_sub(1).map_or(0, |last| progress[last].1) as f64
}

#[test]
fn four_flows_share_a_bottleneck_fairly() {
    for (rtt, loss) in [(10, 0), (20, 0), (50, 0), (20, 1000)] {
        let loss = Chance::per_million(loss);
        let (world, _) = run(Scenario::bulk(loss, ms(rtt), 4, 25_000_000));
        // All four are running at that time: together they need 8 s.
        let (from, until) = (Duration::from_secs(1), Duration::from_secs(6));
        let rate = |progress: &Vec<_>| read_by(progress, until) - read_by(progress, from);
        let rates: Vec<_> = world.progress.iter().map(rate).collect();
        let fairness = jain(&rates);
        eprintln!("{rtt} ms, loss {loss}: {fairness:.3}");
        assert!(fairness >= 0.9, "{rtt} ms: {fairness} of {rates:?}");
    }
}
