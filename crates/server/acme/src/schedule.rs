//! Decides when to order a certificate, and how long to wait after a failure. No clock, no I/O, no randomness: the caller passes the time,
//! and a fraction that it has drawn once.
//!
//! A certificate is renewed at the time that its authority suggests (RFC 9773), else when a third of its lifetime is left. Machines that
//! were installed together don't order together, because each has its own fraction. Times are seconds since 1970.
//!
//! Invariants:
//! - Two orders are at least `PAUSE_MIN` apart, whatever the clock and the authority say.
//! - Whatever the authority suggests, a renewal is due before the last twentieth of a certificate's lifetime.

use crate::contract::AcmeTrouble;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The shortest pause between two orders.
const PAUSE_MIN: u64 = MINUTE;

/// The longest pause that an authority can request: the limits of Let's Encrypt are counted over a week.
const PATIENCE_MAX: u64 = 7 * DAY;

/// How often to ask the authority for its suggested time, if it doesn't say: RFC 9773 section 4.3.3 has six hours.
const WINDOW_ASKED_EVERY: u64 = 6 * HOUR;

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Its start.
    pub begins: u64,
    /// Its end.
    pub ends: u64,
}

impl Lifetime {
    fn seconds(self) -> u64 {
        self.ends.saturating_sub(self.begins)
    }

    /// Whether it is valid at `now`.
    pub fn contains(self, now: u64) -> bool {
        (self.begins..self.ends).contains(&now)
    }

    /// The usual time: when a third of it is left, or up to a thirtieth of it earlier.
    fn usual_renewal(self, fraction: f64) -> u64 {
        let early = part(self.seconds() / 30, fraction);
        self.ends.saturating_sub(self.seconds() / 3).saturating_sub(early)
    }

    /// The latest time for a renewal.
    fn latest_renewal(self) -> u64 {
        self.ends.saturating_sub(self.seconds() / 20)
    }
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Order a certificate.
    Order,
    /// Ask the authority when to renew.
    AskWindow,
    /// Do nothing before this time.
    WaitUntil(u64),
}

/// Decides when to order the next certificate.
#[derive(Clone, Debug)]
pub struct Schedule {
    held: Option<Lifetime>,
    due: u64,
    /// No order before this time.
    paused_until: u64,
    /// When to ask the authority for its suggested time.
    window_at: Option<u64>,
    /// The last kind of failure, and the number of failures in a row.
    failing: Option<(AcmeTrouble, u32)>,
    /// 0 to 1: this machine's position among those that would act at the same time.
    fraction: f64,
}

impl Schedule {
    /// Starts with the certificate that is `held`, if there is a usable one.
    pub fn new(held: Option<Lifetime>, now: u64, fraction: f64) -> Self {
        let due = held.map_or(now, |held| held.usual_renewal(fraction));
        let window_at = held.map(|_| now);
        Self { held, due, paused_until: 0, window_at, failing: None, fraction }
    }

    /// When the current certificate expires.
    pub fn ends(&self) -> Option<u64> {
        self.held.map(|held| held.ends)
    }

    /// When a new one is due.
    pub fn due(&self) -> u64 {
        self.due
    }

    /// When the next order will be made, as of now.
    pub fn ordered_at(&self) -> u64 {
        self.due.max(self.paused_until)
    }

    /// The action at `now`.
    pub fn next(&self, now: u64) -> NextStep {
        let order_at = self.ordered_at();
        if order_at <= now {
            return NextStep::Order;
        }
        match self.window_at.filter(|_| self.due > now) {
            Some(at) if at <= now => NextStep::AskWindow,
            Some(at) => NextStep::WaitUntil(order_at.min(at)),
            None => NextStep::WaitUntil(order_at),
        }
    }

    /// Takes the authority's suggested window for the renewal, and when to ask again; or `None`.
    pub fn on_window(&mut self, now: u64, window: Option<(u64, u64)>, again_in: Option<u64>) {
        let pause = again_in.unwrap_or(WINDOW_ASKED_EVERY).clamp(MINUTE, DAY);
        self.window_at = Some(now.saturating_add(pause));
        let (Some(held), Some((begins, ends))) = (self.held, window) else { return };
        if begins < ends {
            let chosen = begins.saturating_add(part(ends - begins, self.fraction));
            self.due = chosen.min(held.latest_renewal());
        }
    }

    /// Takes a new certificate.
    pub fn on_obtained(&mut self, now: u64, lifetime: Lifetime) {
        *self = Self {
            window_at: Some(now.saturating_add(HOUR)),
            // Otherwise each round with a wrong clock would count as a first failure.
            failing: self.failing.filter(|_| !lifetime.contains(now)),
            // A certificate that expires too soon, or has expired according to a wrong clock, must not cause endless orders.
            paused_until: now.saturating_add((lifetime.seconds() / 6).clamp(PAUSE_MIN, HOUR)),
            ..Self::new(Some(lifetime), now, self.fraction)
        };
    }

    /// Takes a failure. The authority may have said how many seconds to wait.
    pub fn on_failed(&mut self, now: u64, why: AcmeTrouble, retry_after: Option<u64>) {
        let times = match self.failing {
            Some((before, times)) if before == why => times.saturating_add(1),
            _ => 1,
        };
        self.failing = Some((why, times));
        let (first, most) = pauses(why);
        let own = first.saturating_mul(1 << (times - 1).min(16)).min(most);
        let pause = match (why, retry_after) {
            (AcmeTrouble::RateLimited, Some(asked)) => asked.clamp(PAUSE_MIN, PATIENCE_MAX),
            (_, Some(asked)) => own.max(asked.min(DAY)),
            (_, None) => own,
        };
        self.paused_until =
            now.saturating_add(pause).saturating_add(part(pause / 10, self.fraction));
    }
}

/// The first pause after a failure, and the longest one; each is twice as long as the previous one.
fn pauses(why: AcmeTrouble) -> (u64, u64) {
    match why {
        AcmeTrouble::RateLimited => (HOUR, DAY),
        AcmeTrouble::Unreachable => (MINUTE, 4 * HOUR),
        AcmeTrouble::Malformed => (10 * MINUTE, 12 * HOUR),
        // Let's Encrypt allows five failures an hour for each name.
        AcmeTrouble::Rejected => (HOUR, 12 * HOUR),
        AcmeTrouble::Account => (MINUTE, 12 * HOUR),
        AcmeTrouble::Hook => (10 * MINUTE, 4 * HOUR),
        AcmeTrouble::Listen | AcmeTrouble::Disk => (MINUTE, HOUR),
        // The certificate was issued: five for the same names are allowed in a week.
        AcmeTrouble::Clock => (6 * HOUR, 2 * DAY),
    }
}

/// `fraction` of `whole`.
fn part(whole: u64, fraction: f64) -> u64 {
    (whole as f64 * fraction.clamp(0.0, 1.0)) as u64
}

#[cfg(test)]
mod tests;
