//! Properties of every rule, in any situation.

use std::time::Duration;

use fullbore_player::abr::{Abr, Rule, Situation};
use proptest::prelude::*;

/// One choice: buffered and segment in milliseconds, the rate, and whether the viewer seeks before it.
type Step = (u64, Option<f64>, bool);

fn rules() -> impl Strategy<Value = Rule> {
    prop_oneof![
        (0..200_usize).prop_map(Rule::Fixed),
        Just(Rule::Throughput),
        Just(Rule::Bba),
        Just(Rule::Bola)
    ]
}

/// The buffer-based rules. That of hls.js lacks the two properties for which these are used: with hardly anything buffered it prefers a low
/// rung in time to a high one that is late, but if none is in time it allows a high one.
fn rules_by_buffer() -> impl Strategy<Value = Rule> {
    prop_oneof![Just(Rule::Bba), Just(Rule::Bola)]
}

/// Ladders from one rung to as many as a manifest may have, some with equal rungs or nonsense values.
fn ladders() -> impl Strategy<Value = Vec<u64>> {
    let rung = prop_oneof![10 => 50_000..50_000_000_u64, 1 => Just(0), 1 => Just(u64::MAX)];
    prop::collection::vec(rung, 1..100).prop_map(|mut rungs| {
        rungs.sort_unstable();
        rungs
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rate = prop::option::of(prop_oneof![10 => 1e3..1e9_f64, 1 => Just(0.0)]);
    prop::collection::vec((0..400_000_u64, rate, prop::bool::weighted(0.05)), 1..50)
}

fn situation<'a>(rungs: &'a [u64], segment_ms: u64, buffer_max_ms: u64) -> Situation<'a> {
    Situation {
        now: Duration::ZERO,
        rungs,
        current: None,
        buffered: Duration::ZERO,
        buffer_max: Duration::from_millis(buffer_max_ms),
        segment: Duration::from_millis(segment_ms),
        bits_per_second: None,
        playing: true,
    }
}

/// Plays the steps. Returns the rule in its final state, and the last choice.
fn play(rule: Rule, mut situation: Situation<'_>, steps: &[Step]) -> (Abr, Option<usize>) {
    let mut abr = Abr::new(rule);
    for &(buffered_ms, bits_per_second, seeks) in steps {
        if seeks {
            abr.handle_seek();
        }
        situation.buffered = Duration::from_millis(buffered_ms);
        situation.bits_per_second = bits_per_second;
        let chosen = abr.choose(&situation);
        assert!(chosen < situation.rungs.len(), "{rule} chose {chosen} of {:?}", situation.rungs);
        situation.current = Some(chosen);
    }
    (abr, situation.current)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn no_rule_chooses_a_rung_that_is_not_there(
        rule in rules(), rungs in ladders(), segment_ms in 0..20_000_u64, buffer_max_ms in 0..400_000_u64, steps in steps(),
    ) {
        play(rule, situation(&rungs, segment_ms, buffer_max_ms), &steps);
    }

    #[test]
    fn more_in_the_buffer_never_lowers_the_rung(
        rule in rules_by_buffer(), rungs in ladders(), segment_ms in 500..10_000_u64, buffer_max_ms in 5_000..300_000_u64,
        steps in steps(), rate in 1e5..1e8_f64, levels in (0..300_000_u64, 0..300_000_u64),
    ) {
        let situation = situation(&rungs, segment_ms, buffer_max_ms);
        let (abr, current) = play(rule, situation, &steps);
        let full_ms = buffer_max_ms.saturating_sub(segment_ms);
        let chosen = |level_ms: u64| {
            let buffered = Duration::from_millis(level_ms.min(full_ms));
            abr.clone().choose(&Situation { current, buffered, bits_per_second: Some(rate), ..situation })
        };
        let (less, more) = (levels.0.min(levels.1), levels.0.max(levels.1));
        prop_assert!(chosen(less) <= chosen(more), "{} at {less}, {} at {more}", chosen(less), chosen(more));
    }

    #[test]
    fn a_faster_network_never_lowers_the_rung(
        rule in rules_by_buffer(), rungs in ladders(), steps in steps(), level_ms in 0..110_000_u64, rates in (1e4..1e8_f64, 1e4..1e8_f64),
    ) {
        let situation = situation(&rungs, 4_000, 120_000);
        let (abr, current) = play(rule, situation, &steps);
        let buffered = Duration::from_millis(level_ms);
        let chosen = |rate: f64| {
            abr.clone().choose(&Situation { current, buffered, bits_per_second: Some(rate), ..situation })
        };
        prop_assert!(chosen(rates.0.min(rates.1)) <= chosen(rates.0.max(rates.1)));
    }
}

const LADDER: [u64; 6] = [400_000, 800_000, 1_500_000, 3_000_000, 5_000_000, 8_000_000];

/// Plays ten minutes in a network of constant rate. Returns the rungs of the last five, and the lowest buffer level after the start.
fn settled(rule: Rule, network: f64) -> (Vec<usize>, f64) {
    let (mut abr, mut buffered_s, mut current) = (Abr::new(rule), 0.0_f64, None);
    let (mut time_s, mut chosen, mut least_s) = (0.0, Vec::new(), f64::MAX);
    while time_s < 600.0 {
        let situation = Situation {
            current,
            buffered: Duration::from_secs_f64(buffered_s),
            bits_per_second: current.map(|_| network),
            ..situation(&LADDER, 4_000, 120_000)
        };
        let rung = abr.choose(&situation);
        let took_s = LADDER[rung] as f64 * 4.0 / network;
        if current.is_some() {
            least_s = least_s.min(buffered_s - took_s);
        }
        buffered_s = (buffered_s - took_s).max(0.0) + 4.0;
        let wait_s = (buffered_s - 116.0).max(0.0);
        buffered_s -= wait_s;
        time_s += took_s + wait_s;
        current = Some(rung);
        if time_s > 300.0 {
            chosen.push(rung);
        }
    }
    (chosen, least_s)
}

#[test]
fn each_rule_uses_what_a_steady_network_carries() {
    for rule in [Rule::Throughput, Rule::Bba, Rule::Bola] {
        for (network, sustainable) in [(1.2e6, 1), (4.5e6, 3), (20e6, 5)] {
            let (chosen, least_s) = settled(rule, network);
            let mean =
                chosen.iter().map(|&rung| LADDER[rung] as f64).sum::<f64>() / chosen.len() as f64;
            assert!(least_s >= 0.0, "{rule} at {network}: the buffer ran dry");
            assert!(mean <= network * 1.05, "{rule} at {network}: {mean}");
            let expected = LADDER[sustainable] as f64;
            assert!(mean >= expected * 0.95, "{rule} at {network}: {mean}, not {expected}");
        }
    }
}

#[test]
fn a_network_below_the_lowest_rung_gets_the_lowest() {
    for rule in [Rule::Throughput, Rule::Bba, Rule::Bola] {
        assert!(settled(rule, 300e3).0.iter().all(|&rung| rung == 0), "{rule}");
    }
}
