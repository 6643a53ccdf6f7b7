//! Reports when this box's clock begins to differ from a gateway's, and when it agrees again.

use crate::joining::CLOCK_MILLIS_MAX;

/// The last report about one gateway's clock.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    is_told: bool,
}

impl Clocks {
    /// A heartbeat was sent and answered at these times by our clock; the gateway's clock showed `gateway` in between. Returns our clock
    /// minus the gateway's, and a line for the operator if something has changed.
    pub(super) fn compare(
        &mut self,
        sent: i64,
        answered: i64,
        gateway: i64,
    ) -> (i64, Option<String>) {
        let half = answered.saturating_sub(sent) / 2;
        let ahead = sent.saturating_add(half).saturating_sub(gateway);
        // A slow answer is less precise.
        let differs = ahead.saturating_abs() > CLOCK_MILLIS_MAX.saturating_add(half);
        let agrees = ahead.saturating_abs() < CLOCK_MILLIS_MAX / 2;
        let line = if differs && !self.is_told {
            self.is_told = true;
            Some(format!("{}: check the time service of both", words(ahead)))
        } else if agrees && self.is_told {
            self.is_told = false;
            Some("this box's clock agrees with the gateway's again".to_owned())
        } else {
            None
        };
        (ahead, line)
    }
}

/// A clock difference, in words.
pub fn words(ahead_millis: i64) -> String {
    let direction = if ahead_millis > 0 { "ahead of" } else { "behind" };
    let seconds = ahead_millis.unsigned_abs() as f64 / 1000.0;
    format!("this box's clock is {seconds:.1} s {direction} the gateway's")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_told_once_when_it_begins_and_once_when_it_ends() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.compare(10_000, 10_010, 10_005), (0, None));
        let (ahead, line) = clocks.compare(70_000, 70_010, 10_005);
        assert_eq!(ahead, 60_000);
        assert!(line.unwrap().contains("60.0 s ahead"));
        assert_eq!(clocks.compare(70_000, 70_010, 10_005).1, None);
        assert_eq!(clocks.compare(10_800, 10_800, 10_000).1, None);
        assert!(clocks.compare(10_000, 10_000, 10_000).1.unwrap().contains("again"));
        assert!(clocks.compare(10_000, 10_000, 70_000).1.unwrap().contains("behind"));
    }

    #[test]
    fn a_slow_answer_does_not_make_clocks_differ() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.compare(0, 4_000, 200).1, None);
        assert!(clocks.compare(i64::MIN, i64::MAX, i64::MIN).0 != 1);
    }
}
