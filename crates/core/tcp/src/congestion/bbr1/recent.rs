//! The highest rate of the last ten round trips, in which each flow has probed once.

/// A cycle has eight phases, a round trip each; two more are a margin. The current round trip counts too.
const ROUNDS: usize = 11;

#[derive(Debug, Default)]
pub(super) struct Recent {
    /// The highest of each round trip, by its number modulo [`ROUNDS`].
    highest: [u64; ROUNDS],
    /// The newest round trip that has one.
    round: u64,
}

impl Recent {
    pub(super) fn value(&self) -> u64 {
        self.highest.into_iter().max().unwrap_or(0)
    }

    /// Old values are forgotten only here: a flow that measures nothing forgets nothing.
    pub(super) fn note(&mut self, rate: u64, round: u64) {
        for forgotten in (self.round + 1..=round).take(ROUNDS) {
            self.highest[forgotten as usize % ROUNDS] = 0;
        }
        self.round = round;
        let highest = &mut self.highest[round as usize % ROUNDS];
        *highest = rate.max(*highest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_for_ten_round_trips() {
        let mut recent = Recent::default();
        recent.note(9, 3);
        recent.note(5, 3);
        for round in 4..=13 {
            recent.note(round % 4, round);
            assert_eq!(recent.value(), 9, "round trip {round}");
        }
        recent.note(1, 14);
        assert_eq!(recent.value(), 3);
        recent.note(2, 1_000_000);
        assert_eq!(recent.value(), 2);
    }
}
