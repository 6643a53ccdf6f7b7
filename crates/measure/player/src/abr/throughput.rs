//! Follows the measured rate of the network, as hls.js does (`abr-controller`: `getNextABRAutoLevel`, `findBestLevel`).
//!
//! Chooses the highest rung that the rate allows, with a larger safety margin for rising than for staying. A rung must also arrive before
//! the buffer is empty. If none does, one may be late by a segment's length, 4 s at most; failing that, the lowest is chosen.

use std::time::Duration;

use super::Situation;

/// The share of the rate that the current rung or a lower one may need: hls.js's `abrBandWidthFactor`.
const SHARE_TO_STAY: f64 = 0.95;

/// The share that a higher rung may need: hls.js's `abrBandWidthUpFactor`.
const SHARE_TO_RISE: f64 = 0.7;

/// How late a segment may be if all would be late: hls.js's `maxStarvationDelay`.
const LATE_MAX: Duration = Duration::from_secs(4);

pub(super) fn choose(situation: &Situation<'_>) -> usize {
    let late_max = situation.segment.min(LATE_MAX);
    let in_time = best(situation, situation.buffered);
    in_time.or_else(|| best(situation, situation.buffered + late_max)).unwrap_or(0)
}

/// The highest rung that the rate allows and that arrives within `time`.
fn best(situation: &Situation<'_>, time: Duration) -> Option<usize> {
    let segment_s = situation.segment.as_secs_f64();
    let rungs = situation.rungs.iter().map(|&rung| rung as f64).enumerate();
    let mut from_the_top = rungs.rev();
    from_the_top.find_map(|(index, rung)| {
        let is_rise = situation.current.is_none_or(|current| index > current);
        let share = if is_rise { SHARE_TO_RISE } else { SHARE_TO_STAY };
        let usable = situation.estimate() * share;
        let fits = usable > rung && rung * segment_s / usable < time.as_secs_f64();
        fits.then_some(index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNGS: [u64; 5] = [400_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000];

    fn chosen(bits_per_second: f64, current: Option<usize>, buffered_s: u64) -> usize {
        choose(&Situation {
            now: Duration::ZERO,
            rungs: &RUNGS,
            current,
            buffered: Duration::from_secs(buffered_s),
            buffer_max: Duration::from_secs(30),
            segment: Duration::from_secs(4),
            bits_per_second: Some(bits_per_second),
            playing: true,
        })
    }

    #[test]
    fn a_higher_rung_must_fit_in_seven_tenths() {
        assert_eq!(chosen(4e6 / 0.7 - 1.0, Some(2), 20), 2);
        assert_eq!(chosen(4e6 / 0.7 + 1.0, Some(2), 20), 3);
    }

    #[test]
    fn the_present_rung_stays_within_nineteen_twentieths() {
        assert_eq!(chosen(4e6 / 0.95 + 1.0, Some(3), 20), 3);
        assert_eq!(chosen(4e6 / 0.95 - 1.0, Some(3), 20), 2);
    }

    #[test]
    fn the_first_segment_is_a_rise_from_nothing() {
        assert_eq!(chosen(4.5e6, None, 0), 2);
    }

    #[test]
    fn half_a_megabit_is_assumed_before_the_first_segment() {
        let situation = Situation {
            now: Duration::ZERO,
            rungs: &[200_000, 300_000, 400_000],
            current: None,
            buffered: Duration::ZERO,
            buffer_max: Duration::from_secs(30),
            segment: Duration::from_secs(4),
            bits_per_second: None,
            playing: false,
        };
        assert_eq!(choose(&situation), 1); // 0.7 * 500 kb/s = 350 kb/s
    }

    /// 8 Mb/s of 8.5 are within the share, but the segment would take 3.96 s, and 2 s are buffered.
    #[test]
    fn a_segment_must_arrive_before_the_buffer_is_empty() {
        assert_eq!(chosen(8.5e6, Some(4), 4), 4);
        assert_eq!(chosen(8.5e6, Some(4), 2), 3);
    }

    #[test]
    fn with_an_empty_buffer_a_segment_may_be_late_by_its_length() {
        assert_eq!(chosen(4.5e6, Some(3), 0), 3);
    }

    #[test]
    fn a_rate_below_the_ladder_gets_the_lowest_rung() {
        assert_eq!(chosen(1e3, Some(4), 20), 0);
    }
}
