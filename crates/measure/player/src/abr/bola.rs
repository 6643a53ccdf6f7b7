//! Buffer-based: BOLA of Spiteri, Urgaonkar, Sitaraman, "BOLA: Near-Optimal Bitrate Adaptation for Online Videos" (INFOCOM 2016).
//!
//! Each rung m has a utility v(m) = ln(S(m) / S(lowest)), and BOLA-BASIC takes the rung with the largest (V * (v(m) + gp) - buffered) /
//! S(m). Its variant BOLA-O rises no further than the measured rate allows, because viewers notice when it goes above that and back down.
//!
//! V and gp are the paper's, in seconds instead of segments, and follow from two conditions: the buffer fills only so far that one more
//! segment fits (the paper's V = (Qmax - 1) / (v(highest) + gp), times the segment's length), and with 10 s or less the lowest rung is
//! best, as in dash.js (`MINIMUM_BUFFER_S`).
//!
//! At the start and after a seek the buffer level means nothing yet. As in dash.js, the rung is then the highest that the measured rate
//! allows, until the buffer asks for at least as much.

use super::Situation;

/// With less than this buffered, the lowest rung is best: dash.js's `MINIMUM_BUFFER_S`.
const LOWEST_UP_TO_S: f64 = 10.0;

/// The share of the measured rate that a rung may need at the start: dash.js's `bandwidthSafetyFactor`.
const SHARE_AT_START: f64 = 0.9;

#[derive(Clone, Debug)]
pub(super) struct Bola {
    is_starting: bool,
}

impl Bola {
    pub(super) fn new() -> Self {
        Self { is_starting: true }
    }

    pub(super) fn handle_seek(&mut self) {
        self.is_starting = true;
    }

    pub(super) fn choose(&mut self, situation: &Situation<'_>) -> usize {
        let by_buffer = by_buffer(situation);
        if self.is_starting {
            let by_rate = situation.within(situation.estimate() * SHARE_AT_START);
            if by_buffer < by_rate || situation.bits_per_second.is_none() {
                return by_rate;
            }
            self.is_starting = false;
        }
        let Some(before) = situation.current else { return by_buffer };
        capped(by_buffer, before, situation.within(situation.estimate()))
    }
}

/// BOLA-O: a rise stops at the rung that the measured rate allows, but never below the previous rung.
fn capped(by_buffer: usize, before: usize, by_rate: usize) -> usize {
    if by_buffer > before { by_buffer.min(by_rate.max(before)) } else { by_buffer }
}

fn by_buffer(situation: &Situation<'_>) -> usize {
    let (Some(&lowest), Some(&highest)) = (situation.rungs.first(), situation.rungs.last()) else {
        return 0;
    };
    let weights = Weights::new(utility(highest, lowest), situation.full_s());
    weights.rung(situation.rungs, situation.buffered_s())
}

/// The natural logarithm of a rung's rate, counted from the lowest.
fn utility(rung: u64, lowest: u64) -> f64 {
    (rung.max(1) as f64 / lowest.max(1) as f64).ln()
}

/// The paper's V and gp.
#[derive(Clone, Copy, Debug)]
struct Weights {
    v_s: f64,
    gp: f64,
}

impl Weights {
    /// From V * (v(highest) + gp) = full, and V * (gp - 1) = the level up to which the lowest rung is best. At that level the derivative
    /// with respect to the bit rate is zero at the lowest rung.
    fn new(utility_max: f64, full_s: f64) -> Self {
        let lowest_up_to_s = LOWEST_UP_TO_S.min(full_s / 2.0);
        let v_s = ((full_s - lowest_up_to_s) / (utility_max + 1.0)).max(1e-3);
        Self { v_s, gp: 1.0 + lowest_up_to_s / v_s }
    }

    /// The rung with the largest value; the lowest one if several are equal.
    fn rung(&self, rungs: &[u64], buffered_s: f64) -> usize {
        let lowest = rungs.first().copied().unwrap_or(1);
        let mut best = (0, f64::NEG_INFINITY);
        for (index, &rung) in rungs.iter().enumerate() {
            let worth = self.v_s * (utility(rung, lowest) + self.gp) - buffered_s;
            let value = worth / rung.max(1) as f64;
            if value > best.1 {
                best = (index, value);
            }
        }
        best.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Big Buck Bunny in kb/s, the ladder of the paper's evaluation.
    const BUNNY: [u64; 10] = [230, 331, 477, 688, 991, 1427, 2056, 2962, 5027, 6000];

    /// The level in seconds at which the rung first rises to `rung`.
    fn threshold(weights: &Weights, rungs: &[u64], rung: usize) -> f64 {
        let mut levels = (0..100_000).map(|level| f64::from(level) / 1000.0);
        levels.find(|&level| weights.rung(rungs, level) >= rung).unwrap()
    }

    /// The picture in dash.js's guide to BOLA (from Spiteri, Sitaraman, Sparacio, "From Theory to Practice", MMSys 2018): rungs of 1000,
    /// 2500 and 5000 kb/s and a capacity of 18 s, with thresholds at 5 s and 10 s. V and gp follow from the capacity and the first
    /// threshold, and must then give the second.
    #[test]
    fn three_rungs_have_the_thresholds_of_the_published_picture() {
        let rungs = [1000, 2500, 5000];
        let first = -(2.5_f64.ln()) / 1.5; // (v(1) * S(2) - v(2) * S(1)) / (S(2) - S(1))
        let v_s = (18.0 - 5.0) / (5.0_f64.ln() - first);
        let weights = Weights { v_s, gp: 5.0 / v_s - first };
        assert!((threshold(&weights, &rungs, 1) - 5.0).abs() < 0.01);
        assert!((threshold(&weights, &rungs, 2) - 10.0).abs() < 0.15);
    }

    /// BOLA-BASIC at 25 s of buffer, segments of 3 s and gp = 5, as in the paper's evaluation. The thresholds were computed independently
    /// of this code, from V * (gp + (v(m-1) * S(m) - v(m) * S(m-1)) / (S(m) - S(m-1))).
    #[test]
    fn the_ladder_of_the_paper_has_the_thresholds_that_its_formula_gives() {
        let weights = Weights { v_s: (25.0 - 3.0) / (utility(6000, 230) + 5.0), gp: 5.0 };
        let expected = [11.107, 12.078, 13.052, 14.026, 14.998, 15.969, 16.942, 18.100, 19.094];
        for (rung, expected) in (1..).zip(expected) {
            let found = threshold(&weights, &BUNNY, rung);
            assert!((found - expected).abs() < 0.002, "{rung}: {found}, not {expected}");
        }
    }

    fn situation(buffered_s: f64, current: Option<usize>, kilobits: f64) -> Situation<'static> {
        Situation {
            now: Duration::ZERO,
            rungs: &BUNNY,
            current,
            buffered: Duration::from_secs_f64(buffered_s),
            buffer_max: Duration::from_secs(120),
            segment: Duration::from_secs(4),
            bits_per_second: Some(kilobits),
            playing: true,
        }
    }

    fn steady() -> Bola {
        Bola { is_starting: false }
    }

    #[test]
    fn ten_seconds_get_the_lowest_rung_and_a_full_buffer_the_highest() {
        assert_eq!(steady().choose(&situation(10.0, Some(5), 1e6)), 0);
        assert_eq!(steady().choose(&situation(116.0, Some(5), 1e6)), 9);
    }

    #[test]
    fn nothing_is_worth_waiting_for_while_a_segment_fits() {
        let weights = Weights::new(utility(6000, 230), 116.0);
        let worth_of_the_highest = weights.v_s * (utility(6000, 230) + weights.gp) - 116.0;
        assert!(worth_of_the_highest.abs() < 1e-9, "{worth_of_the_highest}");
    }

    #[test]
    fn a_rise_ends_at_what_the_rate_carries() {
        assert_eq!(steady().choose(&situation(116.0, Some(4), 2100.0)), 6);
        assert_eq!(steady().choose(&situation(116.0, Some(4), 500.0)), 4);
        assert_eq!(steady().choose(&situation(10.0, Some(4), 6000.0)), 0);
    }

    #[test]
    fn the_start_follows_the_rate_until_the_buffer_asks_for_as_much() {
        let mut bola = Bola::new();
        assert_eq!(bola.choose(&situation(0.0, None, 1600.0)), 5);
        assert_eq!(bola.choose(&situation(8.0, Some(5), 1600.0)), 5);
        assert_eq!(bola.choose(&situation(100.0, Some(5), 1600.0)), 5);
        assert!(!bola.is_starting);
        assert_eq!(bola.choose(&situation(8.0, Some(5), 1600.0)), 0);
        bola.handle_seek();
        assert_eq!(bola.choose(&situation(0.0, Some(0), 1600.0)), 5);
    }
}
