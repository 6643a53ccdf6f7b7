//! The limit on unsent bytes in the kernel, below which it asks for more (`TCP_NOTSENT_LOWAT`, tcp(7)): as many bytes as the viewer takes in a
//! moment.
//!
//! A long queue costs memory, and a viewer at the pace of a film needs none. For a viewer who takes gigabits, a short queue costs a wake-up and a
//! small send for every few acknowledgements (docs/notes/performance.md). So a connection starts with the listener's limit, and its responses raise
//! it to what the viewer recently took in some milliseconds, unless the worker has found that its long queues do not pay ([`crate::QueueTrial`]). The
//! queues of all viewers together then hold what the server sends in that time: 62 MB of sealed bytes at 100 Gb/s.

use crate::link::Link;
use crate::queue_trial::Totals;
use crate::resources::Resources;
use std::time::{Duration, Instant};

/// How long a queue may become.
#[derive(Clone, Copy)]
pub(crate) struct Reach {
    /// As many bytes as the viewer takes in this time.
    horizon: Duration,
    /// And no more than this.
    bytes_max: u32,
}

/// For sealed bytes, which are copies and should leave while they are in a cache. A longer queue gained nothing.
pub(crate) const SEALED: Reach = Reach { horizon: Duration::from_millis(5), bytes_max: 512 << 10 };

/// For pages of the page cache, which take no memory of their own while they wait. 4 MiB is the kernel's bound for a send
/// buffer (`net.ipv4.tcp_wmem`).
pub(crate) const PAGES: Reach = Reach { horizon: Duration::from_millis(20), bytes_max: 4 << 20 };

/// The shortest time over which a rate is measured: a few turns of the other viewers.
const SPAN_MIN: Duration = Duration::from_millis(2);

/// One connection's limit, for the duration of a response.
pub(crate) struct UnsentLimit {
    bytes: u32,
    /// `None` if the limit is fixed.
    bounds: Option<Bounds>,
    woken: Option<Woken>,
}

#[derive(Clone, Copy)]
struct Bounds {
    bytes_min: u32,
    reach: Reach,
}

/// A moment at which the kernel asked for more: the queue had shrunk to the limit.
#[derive(Clone, Copy)]
struct Woken {
    at: Instant,
    taken_bytes: u64,
}

impl UnsentLimit {
    /// The limit at the start of a response.
    pub(crate) fn new(link: &Link, reach: Reach) -> Self {
        let bytes_min = link.resources.limits.unsent_bytes_min;
        let bounds = bytes_min.map(|bytes_min| Bounds { bytes_min, reach });
        Self { bytes: bytes_min.unwrap_or(0), bounds, woken: None }
    }

    /// Call it when the kernel asks for more after a wait. The bytes that it has taken since it last asked are what the viewer took.
    pub(crate) fn woken(&mut self, link: &Link) {
        let Some(bounds) = self.bounds else { return };
        let now = Woken { at: Instant::now(), taken_bytes: link.taken_bytes() };
        let Some(last) = self.woken else {
            self.woken = Some(now);
            return;
        };
        let span = now.at - last.at;
        if span < SPAN_MIN {
            return;
        }
        self.woken = Some(now);
        let by_rate = bounds.wanted(now.taken_bytes - last.taken_bytes, span);
        let is_fast = by_rate / 2 >= bounds.bytes_min;
        let wanted =
            if is_fast && long_queues_pay(link, now.at) { by_rate } else { bounds.bytes_min };
        // A system call for each small change would cost more than it gains.
        if wanted / 2 >= self.bytes || wanted <= self.bytes / 2 {
            self.set(link, wanted);
        }
    }

    /// Call it when the response was taken. Restores the limit, so that the next response starts as this one did.
    pub(crate) fn end(&mut self, link: &Link) {
        if let Some(bounds) = self.bounds.filter(|bounds| bounds.bytes_min != self.bytes) {
            self.set(link, bounds.bytes_min);
        }
    }

    fn set(&mut self, link: &Link, bytes: u32) {
        if bytes > self.bytes {
            link.resources.numbers.unsent_limits_raised_total.add(1);
        }
        self.bytes = bytes;
        link.socket.ask_below(bytes);
    }
}

impl Bounds {
    /// The limit for a viewer who took `bytes` in `span`.
    fn wanted(self, bytes: u64, span: Duration) -> u32 {
        let Reach { horizon, bytes_max } = self.reach;
        let wanted = u128::from(bytes) * horizon.as_micros() / span.as_micros().max(1);
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        wanted.min(bytes_max).max(self.bytes_min)
    }
}

/// The result of the worker's trials at this moment.
fn long_queues_pay(link: &Link, at: Instant) -> bool {
    let Resources { queue_trial, numbers, .. } = &*link.resources;
    let sent_bytes = numbers.transport_sent_bytes_total.value();
    if queue_trial.look(Totals { at, sent_bytes }, thread_cpu_time) {
        numbers.queue_trials_total.add(1);
        numbers.queues_short.set(u64::from(!queue_trial.is_long()));
    }
    queue_trial.is_long()
}

fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_the_rate_between_its_bounds() {
        let bounds = Bounds { bytes_min: 32 << 10, reach: SEALED };
        let second = Duration::from_secs(1);
        let wanted = |bits_per_second: u64| bounds.wanted(bits_per_second / 8, second);
        assert_eq!(wanted(0), 32 << 10);
        assert_eq!(wanted(5_000_000), 32 << 10, "the pace of a film");
        assert_eq!(wanted(400_000_000), 250_000);
        assert_eq!(wanted(10_000_000_000), 512 << 10);
        assert_eq!(bounds.wanted(u64::MAX, Duration::ZERO), 512 << 10);
    }

    #[test]
    fn a_listener_with_a_higher_limit_keeps_it() {
        let bounds = Bounds { bytes_min: 1 << 20, reach: SEALED };
        assert_eq!(bounds.wanted(u64::MAX, Duration::ZERO), 1 << 20);
    }
}
