//! Refusals, counted by reason and logged. A flood of refusals must not become a flood of log lines, so each reason gets a few lines per period;
//! the next line has the number of those that were omitted.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::RefusalReason;

/// Most lines for one reason in one [`PERIOD`].
const LINES_MAX: u32 = 10;

const PERIOD: Duration = Duration::from_secs(10);

/// The log. Lines contain only this program's words, names, addresses and numbers, and no text from peers.
type Log = Box<dyn Fn(&str) + Send + Sync>;

/// Counts and logs refusals.
pub struct RefusalLog {
    counts: [AtomicU64; RefusalReason::ALL.len()],
    periods: Mutex<[Period; RefusalReason::ALL.len()]>,
    log: Log,
}

#[derive(Clone, Copy)]
struct Period {
    began: Instant,
    lines: u32,
    left_out: u64,
}

impl RefusalLog {
    /// Logs to `log`.
    pub fn new(log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let period = Period { began: Instant::now(), lines: 0, left_out: 0 };
        Self {
            counts: [const { AtomicU64::new(0) }; RefusalReason::ALL.len()],
            periods: Mutex::new([period; RefusalReason::ALL.len()]),
            log: Box::new(log),
        }
    }

    /// Counts and logs a refusal of `who`.
    pub fn refuse(&self, reason: RefusalReason, who: &dyn Display) {
        self.counts[reason as usize].fetch_add(1, Relaxed);
        if let Some(left_out) = self.may_log(reason, Instant::now()) {
            let more = match left_out {
                0 => String::new(),
                some => format!(" (and {some} more since the last line)"),
            };
            (self.log)(&format!("refused {who}: {}{more}", reason.as_str()));
        }
    }

    /// The number of lines omitted before this one; `None` if this one must be omitted as well.
    fn may_log(&self, reason: RefusalReason, now: Instant) -> Option<u64> {
        let mut periods = self.periods.lock().unwrap_or_else(PoisonError::into_inner);
        let period = &mut periods[reason as usize];
        if now.duration_since(period.began) >= PERIOD {
            (period.began, period.lines) = (now, 0);
        }
        if period.lines >= LINES_MAX {
            period.left_out += 1;
            return None;
        }
        period.lines += 1;
        Some(std::mem::take(&mut period.left_out))
    }

    /// Number of refusals for this reason.
    pub fn count(&self, reason: RefusalReason) -> u64 {
        self.counts[reason as usize].load(Relaxed)
    }

    /// All counts, by reason.
    pub fn counts(&self) -> impl Iterator<Item = (RefusalReason, u64)> + '_ {
        RefusalReason::ALL.into_iter().map(|reason| (reason, self.count(reason)))
    }
}

impl std::fmt::Debug for RefusalLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let some = self.counts().filter(|(_, count)| *count > 0);
        f.debug_map().entries(some.map(|(reason, count)| (reason.as_str(), count))).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn every_reason_has_its_own_counter() {
        let refusals = RefusalLog::new(|_| {});
        for (at, reason) in RefusalReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at);
            refusals.refuse(reason, &"somebody");
            assert_eq!(refusals.count(reason), 1, "{reason:?}");
        }
    }

    #[test]
    fn a_flood_of_refusals_is_counted_and_takes_a_few_lines() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lines);
        let refusals = RefusalLog::new(move |line| log.lock().unwrap().push(line.to_owned()));
        for _ in 0..1000 {
            refusals.refuse(RefusalReason::Flood, &"node-1");
        }
        assert_eq!(refusals.count(RefusalReason::Flood), 1000);
        assert_eq!(lines.lock().unwrap().len(), LINES_MAX as usize);
        assert_eq!(lines.lock().unwrap()[0], "refused node-1: flood");
        assert_eq!(refusals.may_log(RefusalReason::Flood, Instant::now() + PERIOD), Some(990));
    }
}
