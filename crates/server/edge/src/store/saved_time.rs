//! Times that outlast a process.
//!
//! The wall clock may be set back between two processes, and a response must not become younger by that. So within one boot of the machine, the time
//! that has passed is by the clock that counts from the boot. Only after a reboot the wall clock has to do, and it is not trusted if it is behind.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where Linux names the current boot.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// A moment by both clocks, in milliseconds. One from an earlier boot may be before the clock of this one began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedTime {
    unix_ms: i64,
    boot: String,
    since_boot_ms: i64,
}

/// The name of this boot, which a confined helper can't read. Without it, only the wall clock counts.
static NAME: OnceLock<String> = OnceLock::new();

/// The name of this boot. Call this first while the file can still be read.
pub(super) fn boot() -> &'static str {
    NAME.get_or_init(|| fs::read_to_string(BOOT).unwrap_or_default().trim().to_owned())
}

impl SavedTime {
    /// The moment some time `ago`.
    pub(super) fn before(ago: Duration) -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since_boot = clock_gettime(ClockId::Boottime);
        let since_boot_ms = since_boot.tv_sec * 1000 + since_boot.tv_nsec / 1_000_000;
        let ago = millis(ago);
        Self {
            unix_ms: millis(unix).saturating_sub(ago),
            boot: boot().to_owned(),
            since_boot_ms: since_boot_ms.saturating_sub(ago),
        }
    }

    /// The instant, if it can be known how long ago it was.
    pub(super) fn instant(&self) -> Option<Instant> {
        Instant::now().checked_sub(Self::before(Duration::ZERO).since(self)?)
    }

    fn since(&self, earlier: &Self) -> Option<Duration> {
        let passed = |now: i64, then: i64| u64::try_from(now.checked_sub(then)?).ok();
        let is_same_boot = !self.boot.is_empty() && self.boot == earlier.boot;
        let ms = match is_same_boot {
            true => passed(self.since_boot_ms, earlier.since_boot_ms),
            false => passed(self.unix_ms, earlier.unix_ms),
        };
        ms.map(Duration::from_millis)
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_although_the_wall_clock_is_set_back() {
        let at = |unix_ms, boot: &str, since_boot_ms| SavedTime {
            unix_ms,
            boot: boot.into(),
            since_boot_ms,
        };
        let saved = at(100_000, "one", 5_000);
        let passed = |now: SavedTime| now.since(&saved).map(|passed| passed.as_millis());
        assert_eq!(passed(at(103_000, "one", 8_000)), Some(3_000));
        assert_eq!(passed(at(40_000, "one", 8_000)), Some(3_000), "set back");
        assert_eq!(passed(at(900_000, "one", 8_000)), Some(3_000), "set ahead");
        assert_eq!(passed(at(109_000, "two", 1_000)), Some(9_000), "after a reboot");
        assert_eq!(passed(at(99_999, "two", 9_000)), None, "the clock is behind");
        assert_eq!(passed(at(99_999, "one", 4_000)), None);
        let unnamed = at(100_000, "", 5_000);
        assert_eq!(at(101_000, "", 1).since(&unnamed), Some(Duration::from_secs(1)));
        assert_eq!(at(i64::MAX, "", 0).since(&at(i64::MIN, "", 0)), None, "it is no time");
    }

    #[test]
    fn a_moment_before_the_boot_stays_as_far_away() {
        // Between two looks at a clock time may pass, and times are in milliseconds.
        const ROUNDED: Duration = Duration::from_millis(5);
        let (start, long) = (Instant::now(), Duration::from_secs(1 << 33));
        let moment = SavedTime::before(long).instant().unwrap();
        assert!(moment + long + ROUNDED >= start);
        assert!(moment + long <= Instant::now() + ROUNDED);
    }
}
