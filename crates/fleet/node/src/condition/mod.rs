//! Decides whether a box wants viewers: its own control loop.
//!
//! Each second the box checks itself ([`Observed`]). Every reason to refuse viewers ("not me") has two times: it must hold for one before
//! the box reports it, and be gone for the other before the box takes it back. So nothing flaps, and a single bad second is ignored.
//!
//! The loop has no I/O and no clock: `observe.rs` collects the values, and passes the time. Each change of the reported condition (a turn)
//! is logged with everything that it follows from (`change_log.rs`), so that it can be replayed.

pub(crate) mod change_log;
pub(crate) mod observe;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fleet_protocol::{Condition, Load, SheddingReason};
use serde::{Deserialize, Serialize};

use crate::holding::Viewers;

/// The box's own measurements at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Observed {
    /// The server's counters, if it answered.
    pub(crate) server: Option<ServerCounters>,
    /// The share of the last ten seconds in which everything that could run waited for memory, in percent (PSI, `full`).
    pub(crate) memory_percent: f64,
    /// How often the processors were throttled because of heat, since the machine started.
    pub(crate) throttled_total: u64,
    /// CPU time of the machine since it started: busy, and total.
    pub(crate) cpu_ticks: (u64, u64),
    /// Free space for titles.
    pub(crate) free_bytes: u64,
}

/// Counters of the server, since it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServerCounters {
    /// Increases with time; a smaller value than before means another server.
    pub(crate) uptime_seconds: f64,
    /// Whether it is shutting down.
    pub(crate) is_draining: bool,
    /// A folder of the library is lost, or its disk hangs.
    pub(crate) has_lost_library: bool,
    /// Bytes sent.
    pub(crate) sent_bytes: u64,
    /// Connections open now.
    pub(crate) connections: u64,
    /// Responses that ended because a disk failed.
    pub(crate) disk_errors: u64,
    /// Pauses in accepting connections.
    pub(crate) accept_pauses: u64,
    /// Addresses with sessions whose players report and that received a real amount of bytes. Logs of older releases have sessions here.
    #[serde(alias = "sessions")]
    pub(crate) viewers: u64,
    /// How many of them have stalled lately. Older releases did not record it.
    #[serde(default = "unknown")]
    pub(crate) stalling: u64,
    /// Reported by their players: time played, and time in stalls.
    pub(crate) played_seconds: f64,
    /// As above.
    pub(crate) stalled_seconds: f64,
    /// Responses whose first byte has left, and the sum of their times to first byte.
    pub(crate) first_bytes: u64,
    /// As above.
    pub(crate) first_byte_seconds: f64,
    /// Windows read from disk, and the sum of their read times.
    pub(crate) disk_reads: u64,
    /// As above.
    pub(crate) disk_read_seconds: f64,
}

/// For a turn in a log of an older release, which did not record how many viewers stall.
fn unknown() -> u64 {
    u64::MAX
}

impl Observed {
    /// The measurements for everything that gives way to viewers; `None` if the server did not answer.
    pub(crate) fn viewers(&self) -> Option<Viewers> {
        let server = self.server.as_ref()?;
        Some(Viewers {
            first_bytes: server.first_bytes,
            first_byte_seconds: server.first_byte_seconds,
            disk_reads: server.disk_reads,
            disk_read_seconds: server.disk_read_seconds,
        })
    }
}

/// When a reason takes effect.
struct Rule {
    reason: SheddingReason,
    /// It must hold for this long.
    enters_after: Duration,
    /// It must be gone for this long.
    leaves_after: Duration,
}

const fn rule(reason: SheddingReason, enters: u64, leaves: u64) -> Rule {
    Rule {
        reason,
        enters_after: Duration::from_secs(enters),
        leaves_after: Duration::from_secs(leaves),
    }
}

/// The times are guesses, with these constraints: a gateway hears from a box every 5 s, and declares it lost after 15 s of silence. A
/// player has 30 to 120 s of film, so a box whose viewers stall must report it within a few seconds.
static RULES: [Rule; 7] = [
    rule(SheddingReason::AtCeiling, 3, 10),
    rule(SheddingReason::DiskErrors, 0, 60),
    rule(SheddingReason::Pressure, 10, 30),
    rule(SheddingReason::AcceptPaused, 0, 15),
    rule(SheddingReason::ViewersStall, 3, 60),
    rule(SheddingReason::Hot, 2, 60),
    rule(SheddingReason::ServerSilent, 3, 3),
];

/// Load relative to the ceiling, in thousandths, at which a box is full, and at which it has room again.
const FULL_PERMILLE: u16 = 950;
const ROOMY_PERMILLE: u16 = 850;
/// Time spent waiting for memory, in percent.
const MEMORY_PERCENT: (f64, f64) = (20.0, 10.0);
/// The mean time to read a window from disk within [`WINDOW`], and the fewest reads that make a mean. A viewer still has the window before
/// it meanwhile: 512 KiB last half a second at 8 Mb/s. PSI does not show whether disks are slow: kernels also count a ring that waits for
/// connections.
const READ_SECONDS: (f64, f64) = (0.25, 0.1);
const READS_MIN: u64 = 20;
/// Disk errors within [`WINDOW`]. A single one may be a single bad sector, which the scrub finds and repairs.
const DISK_ERRORS: u64 = 3;
/// The share of time in stalls within [`WINDOW`], the fewest viewers that must report, and the fewest that must stall: one viewer's bad
/// line is not the box's fault, and one viewer's report must not send all others away.
const STALLED: (f64, f64) = (0.05, 0.01);
const VIEWERS_MIN: u64 = 5;
const STALLING_MIN: u64 = 3;
/// The window for rates.
const WINDOW: Duration = Duration::from_secs(10);

/// The control loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ControlLoop {
    ceiling_bits_per_second: u64,
    /// The last seconds, oldest first.
    seen: VecDeque<(Duration, Observed)>,
    /// Since when each reason has differed from the reported condition.
    turning: BTreeMap<SheddingReason, Duration>,
    told: Vec<SheddingReason>,
    was_up: bool,
}

impl ControlLoop {
    /// For a box that may send this much; 0 if unknown.
    pub(crate) fn new(ceiling_bits_per_second: u64) -> Self {
        let (seen, turning, told) = Default::default();
        Self { ceiling_bits_per_second, seen, turning, told, was_up: false }
    }

    /// Takes the measurements at `now`, a monotonic clock.
    pub(crate) fn handle(&mut self, observed: Observed, now: Duration) {
        self.was_up |= observed.server.is_some();
        self.seen.push_back((now, observed));
        while self.seen.len() > 2 && self.seen[1].0 + WINDOW <= now {
            self.seen.pop_front();
        }
        for rule in &RULES {
            self.judge(rule, now);
        }
    }

    fn judge(&mut self, rule: &Rule, now: Duration) {
        let was_told = self.told.contains(&rule.reason);
        if self.holds(rule.reason, was_told) == was_told {
            self.turning.remove(&rule.reason);
            return;
        }
        let since = *self.turning.entry(rule.reason).or_insert(now);
        let patience = if was_told { rule.leaves_after } else { rule.enters_after };
        if now - since < patience {
            return;
        }
        self.turning.remove(&rule.reason);
        if was_told {
            self.told.retain(|told| *told != rule.reason);
        } else {
            self.told.push(rule.reason);
        }
    }

    /// Whether a reason holds now. A reported one holds until it is clearly over.
    fn holds(&self, reason: SheddingReason, was_told: bool) -> bool {
        let Some((_, now)) = self.seen.back() else { return false };
        let above = |value: f64, (enters, leaves): (f64, f64)| {
            value >= if was_told { leaves } else { enters }
        };
        match reason {
            SheddingReason::AtCeiling => {
                let bound = if was_told { ROOMY_PERMILLE } else { FULL_PERMILLE };
                self.load().permille() >= bound
            }
            SheddingReason::DiskErrors => {
                let is_lost = now.server.as_ref().is_some_and(|server| server.has_lost_library);
                is_lost || self.growth(|server| server.disk_errors) >= DISK_ERRORS
            }
            SheddingReason::Pressure => {
                let read = self.read_seconds().unwrap_or(0.0);
                above(now.memory_percent, MEMORY_PERCENT) || above(read, READ_SECONDS)
            }
            SheddingReason::AcceptPaused => self.growth(|server| server.accept_pauses) > 0,
            SheddingReason::ViewersStall => {
                let are_many = was_told
                    || now.server.as_ref().is_some_and(|server| server.stalling >= STALLING_MIN);
                are_many && self.stalled().is_some_and(|share| above(share, STALLED))
            }
            SheddingReason::Hot => {
                let first = self.seen.front().map_or(0, |(_, first)| first.throttled_total);
                now.throttled_total > first
            }
            SheddingReason::ServerSilent => {
                let is_silent = now.server.as_ref().is_none_or(|server| server.is_draining);
                self.was_up && is_silent
            }
            // From another release: this one has no rule for it.
            SheddingReason::Other => false,
        }
    }

    /// The first and the last answer of the current server within the window, and the time between them.
    fn ends(&self) -> Option<(&ServerCounters, &ServerCounters, Duration)> {
        let answered = self.seen.iter().filter_map(|(at, seen)| Some((*at, seen.server.as_ref()?)));
        let (last_at, last) = answered.clone().next_back()?;
        // Answers of an earlier server have other counters.
        let born = last_at.as_secs_f64() - last.uptime_seconds;
        let of_this = |(at, server): &(Duration, &ServerCounters)| {
            (at.as_secs_f64() - server.uptime_seconds - born).abs() < 2.0
        };
        let (first_at, first) = answered.clone().find(of_this)?;
        Some((first, last, last_at - first_at))
    }

    fn growth(&self, of: impl Fn(&ServerCounters) -> u64) -> u64 {
        self.ends().map_or(0, |(first, last, _)| of(last).saturating_sub(of(first)))
    }

    /// The mean time to read a window from disk, if there were enough reads.
    fn read_seconds(&self) -> Option<f64> {
        let (first, last, _) = self.ends()?;
        let reads = last.disk_reads.saturating_sub(first.disk_reads);
        let took = last.disk_read_seconds - first.disk_read_seconds;
        (reads >= READS_MIN).then(|| took / reads as f64)
    }

    /// The share of time in stalls, if enough players report.
    fn stalled(&self) -> Option<f64> {
        let (first, last, _) = self.ends()?;
        let stalled = last.stalled_seconds - first.stalled_seconds;
        let all = stalled + last.played_seconds - first.played_seconds;
        // A few seconds of a few viewers prove nothing.
        (last.viewers >= VIEWERS_MIN && all >= VIEWERS_MIN as f64).then(|| stalled / all)
    }

    /// Whether the box wants viewers.
    pub(crate) fn condition(&self) -> Condition {
        match (self.was_up, self.told.is_empty()) {
            (false, _) => Condition::Starting,
            (true, true) => Condition::Ready,
            (true, false) => Condition::NotMe(self.told.clone()),
        }
    }

    /// Its current load.
    pub(crate) fn load(&self) -> Load {
        let Some((_, now)) = self.seen.back() else { return Load::default() };
        let seconds = self.ends().map_or(0.0, |(_, _, time)| time.as_secs_f64());
        let sent = self.growth(|server| server.sent_bytes) as f64 * 8.0;
        let (busy, all) = self.seen.front().map_or((0, 0), |(_, first)| first.cpu_ticks);
        let busy = now.cpu_ticks.0.saturating_sub(busy) * 1000;
        let cpu = busy.checked_div(now.cpu_ticks.1.saturating_sub(all)).unwrap_or(0);
        Load {
            bits_per_second: if seconds > 0.0 { (sent / seconds) as u64 } else { 0 },
            ceiling_bits_per_second: self.ceiling_bits_per_second,
            connections: now.server.as_ref().map_or(0, |server| server.connections),
            cpu_permille: u16::try_from(cpu).unwrap_or(1000).min(1000),
            free_bytes: now.free_bytes,
        }
    }
}
