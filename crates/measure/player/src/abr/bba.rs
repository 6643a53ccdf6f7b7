//! Buffer-based: BBA-2 of Huang, Johari, McKeown, Trunnell, Watson, "A Buffer-Based Approach to Rate Adaptation" (SIGCOMM 2014).
//!
//! In the steady state a map assigns a rate to each buffer level (section 4): the lowest up to the reservoir, the highest from the end of
//! the cushion, a straight line between them. The rung changes only when the map reaches the next rung up or down (Algorithm 1), so it does
//! not flap. At the start and after a seek the buffer level means nothing yet, so the rung rises by one whenever a segment arrived much
//! faster than it plays (section 6). That ends when less is buffered than before, or when the map asks for more.
//!
//! The paper's map is over the sizes of the coming segments (BBA-1, section 5). Here a rung has one rate, so the reservoir that section 5
//! computes from the sizes has its smallest value, and grows only by the protection of section 7.

use super::Situation;

/// The shares of a 240 s buffer at which the map of section 4 ends and begins: 216 s, and 90 s of those 216.
const CUSHION_END: f64 = 216.0 / 240.0;
const RESERVOIR_MAX: f64 = 90.0 / 216.0;

/// The smallest reservoir of section 5, which bounds it to 8 to 140 s.
const RESERVOIR_MIN_S: f64 = 8.0;

/// The amount that each segment adds to the reservoir while the buffer grows and is less than three quarters full (section 7). It survives
/// outages that the map alone would not.
const PROTECTION_S: f64 = 0.4;
const PROTECTED_BELOW: f64 = 0.75;

/// The share of a segment's length that its download must leave unused for the rung to rise: 0.875 with nothing buffered, falling to 0.5 at
/// the end of the cushion (section 6). That means downloads eight times, then twice as fast as playback.
const SPARE_EMPTY: f64 = 0.875;
const SPARE_FULL: f64 = 0.5;

#[derive(Clone, Debug)]
pub(super) struct Bba {
    is_starting: bool,
    buffered_before_s: f64,
    protection_s: f64,
}

impl Bba {
    pub(super) fn new() -> Self {
        Self { is_starting: true, buffered_before_s: 0.0, protection_s: 0.0 }
    }

    pub(super) fn handle_seek(&mut self) {
        self.is_starting = true;
        self.buffered_before_s = 0.0;
    }

    pub(super) fn choose(&mut self, situation: &Situation<'_>) -> usize {
        let map = Map::of(situation, self.protection_s);
        let level_s = situation.buffered_s();
        let by_map = map.rung(situation.rungs, situation.current(), level_s);
        let rung =
            if self.is_still_starting(situation, by_map) { start(situation, &map) } else { by_map };
        self.remember(situation);
        rung
    }

    fn is_still_starting(&mut self, situation: &Situation<'_>, by_map: usize) -> bool {
        let shrinks = situation.buffered_s() < self.buffered_before_s;
        self.is_starting &= !shrinks && by_map <= situation.current();
        self.is_starting
    }

    fn remember(&mut self, situation: &Situation<'_>) {
        let level_s = situation.buffered_s();
        let below_s = situation.buffer_max.as_secs_f64() * PROTECTED_BELOW;
        if !self.is_starting && level_s > self.buffered_before_s && level_s < below_s {
            // A bound for the sum only: the map has its own.
            self.protection_s = (self.protection_s + PROTECTION_S).min(below_s);
        }
        self.buffered_before_s = level_s;
    }
}

/// The rung at the start: one higher if the previous segment arrived fast enough.
fn start(situation: &Situation<'_>, map: &Map) -> usize {
    let current = situation.current();
    let Some(rate) = situation.bits_per_second else { return current };
    let Some(&needed) = situation.rungs.get(current) else { return 0 };
    let spare = 1.0 - needed as f64 / rate.max(1.0);
    let share = (situation.buffered_s() / map.end_s.max(1e-3)).min(1.0);
    let is_fast = spare > SPARE_EMPTY - (SPARE_EMPTY - SPARE_FULL) * share;
    if is_fast { (current + 1).min(situation.top()) } else { current }
}

/// Maps a buffer level to a rate (section 4).
#[derive(Clone, Copy, Debug)]
struct Map {
    reservoir_s: f64,
    /// The end of the cushion, from where on the map gives the highest rate.
    end_s: f64,
}

impl Map {
    fn of(situation: &Situation<'_>, protection_s: f64) -> Self {
        // In a small buffer, room for one segment may be more than a tenth of it. The highest rung must stay within reach.
        let end_s = (situation.buffer_max.as_secs_f64() * CUSHION_END).min(situation.full_s());
        let reservoir_s = (RESERVOIR_MIN_S + protection_s).min(end_s * RESERVOIR_MAX);
        Self { reservoir_s, end_s }
    }

    /// The rate at this level, between the lowest and the highest, in bits per second.
    fn rate(&self, lowest: f64, highest: f64, level_s: f64) -> f64 {
        let share = (level_s - self.reservoir_s) / (self.end_s - self.reservoir_s);
        lowest + (highest - lowest) * share
    }

    /// Algorithm 1: keeps the previous rung until the map reaches the next one up or down.
    fn rung(&self, rungs: &[u64], before: usize, level_s: f64) -> usize {
        let top = rungs.len().saturating_sub(1);
        let (Some(&lowest), Some(&highest)) = (rungs.first(), rungs.last()) else { return 0 };
        if level_s <= self.reservoir_s {
            return 0;
        }
        if level_s >= self.end_s {
            return top;
        }
        let rate = self.rate(lowest as f64, highest as f64, level_s);
        let is_below = |rung: &u64| (*rung as f64) < rate;
        let above = rungs[(before + 1).min(top)];
        let below = rungs[before.saturating_sub(1)];
        if rate >= above as f64 {
            rungs.iter().rposition(is_below).unwrap_or(before).max(before)
        } else if rate <= below as f64 {
            let is_above = |rung: &u64| *rung as f64 > rate;
            rungs.iter().position(is_above).unwrap_or(before).min(before)
        } else {
            before
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A ladder like Netflix's at that time, in kb/s.
    const RUNGS: [u64; 9] = [235, 375, 560, 750, 1050, 1750, 2350, 3000, 4300];

    /// The map of section 4: a buffer of 240 s, a reservoir of 90 s, the highest rate from 216 s on.
    const PAPER: Map = Map { reservoir_s: 90.0, end_s: 216.0 };

    fn situation(buffered_s: f64, current: usize, kilobits: Option<f64>) -> Situation<'static> {
        Situation {
            now: Duration::ZERO,
            rungs: &RUNGS,
            current: Some(current),
            buffered: Duration::from_secs_f64(buffered_s),
            buffer_max: Duration::from_secs(240),
            segment: Duration::from_secs(4),
            bits_per_second: kilobits,
            playing: true,
        }
    }

    #[test]
    fn the_map_is_that_of_section_4() {
        assert_eq!(PAPER.rate(235.0, 4300.0, 90.0), 235.0);
        assert_eq!(PAPER.rate(235.0, 4300.0, 153.0), (235.0 + 4300.0) / 2.0);
        assert_eq!(PAPER.rate(235.0, 4300.0, 216.0), 4300.0);
    }

    #[test]
    fn the_reservoir_gets_the_lowest_rung_and_the_end_of_the_cushion_the_highest() {
        for before in 0..RUNGS.len() {
            assert_eq!(PAPER.rung(&RUNGS, before, 90.0), 0);
            assert_eq!(PAPER.rung(&RUNGS, before, 216.0), RUNGS.len() - 1);
        }
    }

    /// At 120 s the map gives 235 + 4065 * 30 / 126 = 1202.9 kb/s. From below, the highest rung under it is 1050; from above, the lowest
    /// rung over it is 1750; and either one stays once reached.
    #[test]
    fn a_rung_stays_until_the_map_reaches_the_next() {
        assert_eq!(RUNGS[PAPER.rung(&RUNGS, 0, 120.0)], 1050);
        assert_eq!(RUNGS[PAPER.rung(&RUNGS, 8, 120.0)], 1750);
        assert_eq!(RUNGS[PAPER.rung(&RUNGS, 4, 120.0)], 1050);
        assert_eq!(RUNGS[PAPER.rung(&RUNGS, 5, 120.0)], 1750);
    }

    #[test]
    fn with_the_full_protection_the_map_is_nearly_that_of_section_4() {
        let map = Map::of(&situation(0.0, 0, None), 80.0);
        assert_eq!((map.reservoir_s, map.end_s), (88.0, 216.0));
    }

    /// Section 6: with an empty buffer, eight times as fast as it plays; at the end of the cushion, twice as fast.
    #[test]
    fn at_the_start_the_rung_rises_when_segments_arrive_fast() {
        let mut bba = Bba::new();
        assert_eq!(bba.choose(&situation(0.0, 0, None)), 0);
        assert_eq!(Bba::new().choose(&situation(0.0, 0, Some(8.0 * 235.0 - 1.0))), 0);
        assert_eq!(Bba::new().choose(&situation(0.0, 0, Some(8.0 * 235.0 + 1.0))), 1);
        // Halfway to 216 s: 1 - 1 / x > 0.6875 from x = 3.2 on. The map gives 2189 kb/s there, so 2350 stays.
        let mut at_half = Bba::new();
        at_half.buffered_before_s = 108.0;
        assert_eq!(at_half.choose(&situation(108.0, 6, Some(3.19 * 2350.0))), 6);
        assert_eq!(at_half.choose(&situation(108.0, 6, Some(3.21 * 2350.0))), 7);
    }

    #[test]
    fn the_start_ends_when_the_buffer_shrinks() {
        let mut bba = Bba::new();
        assert_eq!(bba.choose(&situation(20.0, 4, Some(1e6))), 5);
        assert_eq!(bba.choose(&situation(19.0, 5, Some(1e6))), 2); // the map: 450 kb/s
        assert_eq!(bba.choose(&situation(20.0, 2, Some(1e6))), 2);
    }

    #[test]
    fn the_start_ends_when_the_map_wants_more() {
        let mut bba = Bba::new();
        assert_eq!(bba.choose(&situation(150.0, 1, Some(1e6))), 7); // 235 + 4065 * 142 / 208 = 3010
        assert!(!bba.is_starting);
    }

    #[test]
    fn a_seek_starts_again() {
        let mut bba = Bba::new();
        bba.choose(&situation(20.0, 4, Some(1e6)));
        bba.choose(&situation(10.0, 4, Some(1e6)));
        assert_eq!(bba.choose(&situation(0.0, 4, Some(1e6))), 0);
        bba.handle_seek();
        assert_eq!(bba.choose(&situation(0.0, 4, Some(1e6))), 5);
    }

    #[test]
    fn protection_grows_with_the_buffer_and_is_bounded() {
        let mut bba = Bba::new();
        bba.is_starting = false;
        for level in 1..=10 {
            bba.choose(&situation(f64::from(level), 0, Some(1e3)));
        }
        assert!((bba.protection_s - 4.0).abs() < 1e-9);
        bba.choose(&situation(10.0, 0, Some(1e3)));
        assert!((bba.protection_s - 4.0).abs() < 1e-9, "a level buffer adds nothing");
        let map = Map::of(&situation(0.0, 0, None), 1e9);
        assert_eq!(map.reservoir_s, 90.0);
    }

    #[test]
    fn in_a_small_buffer_the_highest_rung_is_within_reach() {
        let mut bba = Bba::new();
        let small = Situation { buffer_max: Duration::from_secs(12), ..situation(8.0, 0, None) };
        assert_eq!(bba.choose(&small), RUNGS.len() - 1);
    }
}
