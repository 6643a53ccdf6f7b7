//! A worker's experience with NICs that encrypt: which versions and ciphers each takes, and whether it has room.
//!
//! Neither the kernel nor a driver reports that in advance. A kernel falls back to the CPU silently, and only its counters show it. So the first
//! connection of each kind is an attempt, and its result decides about the next. A refusal expires after a while, each time a longer one. So the
//! worker notices when an updated kernel or driver takes more, or a NIC has room again.
//!
//! No I/O and no clock: time is an argument.

use std::time::{Duration, Instant};
use tls::{Suite, TlsVersion};

/// How long a refusal counts: at first, and at most. Guesses: a full NIC stays full for about as long as a viewer watches, and one connection a
/// minute that the CPU encrypts costs nothing.
const REFUSED_FOR_MIN: Duration = Duration::from_secs(1);
const REFUSED_FOR_MAX: Duration = Duration::from_secs(64);

/// The version and cipher of a connection.
pub(crate) type Kind = (TlsVersion, Suite);

/// The encrypting side of a connection whose keys the kernel got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// The NIC.
    Nic,
    /// The kernel on the CPU.
    Cpu,
    /// The counters do not show it: another connection was handed over at the same moment.
    Unclear,
}

/// The expectation for a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// It may take the connection.
    MayTake,
    /// It has never taken a connection of this kind, and refused the last.
    DoesNotTake,
    /// It takes this kind, and refused the last one: it has no room.
    NoRoom,
}

/// Experience with one NIC and one kind of connection.
#[derive(Debug)]
struct OffloadRecord {
    nic: u32,
    kind: Kind,
    has_taken: bool,
    refused_until: Option<Instant>,
    refused_for: Duration,
}

/// One worker's experience. There are few NICs and six kinds, so a list is enough.
#[derive(Debug, Default)]
pub(crate) struct OffloadHistory(Vec<OffloadRecord>);

impl OffloadHistory {
    /// The expectation for a connection of this `kind` that leaves by `nic`, should it be handed over.
    pub(crate) fn expect(&self, nic: u32, kind: Kind, now: Instant) -> Expect {
        let record = self.0.iter().find(|record| (record.nic, record.kind) == (nic, kind));
        match record.filter(|record| record.refused_until.is_some_and(|until| now < until)) {
            None => Expect::MayTake,
            Some(record) if record.has_taken => Expect::NoRoom,
            Some(_) => Expect::DoesNotTake,
        }
    }

    /// Returns true if the NIC has taken a connection of this kind.
    pub(crate) fn has_taken(&self, nic: u32, kind: Kind) -> bool {
        self.0.iter().any(|record| (record.nic, record.kind) == (nic, kind) && record.has_taken)
    }

    /// Records the result of handing one over.
    pub(crate) fn learn(&mut self, nic: u32, kind: Kind, got: Got, now: Instant) {
        let at = self.0.iter().position(|record| (record.nic, record.kind) == (nic, kind));
        let at = at.unwrap_or_else(|| {
            let (refused_until, refused_for) = (None, REFUSED_FOR_MIN);
            self.0.push(OffloadRecord { nic, kind, has_taken: false, refused_until, refused_for });
            self.0.len() - 1
        });
        let record = &mut self.0[at];
        match got {
            Got::Nic => {
                record.has_taken = true;
                (record.refused_until, record.refused_for) = (None, REFUSED_FOR_MIN);
            }
            Got::Cpu => {
                record.refused_until = Some(now + record.refused_for);
                record.refused_for = REFUSED_FOR_MAX.min(2 * record.refused_for);
            }
            Got::Unclear => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TLS12: Kind = (TlsVersion::Tls12, Suite::Aes128Gcm);
    const TLS13: Kind = (TlsVersion::Tls13, Suite::Aes128Gcm);

    fn at(seconds: u64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_secs(seconds)
    }

    #[test]
    fn what_a_card_does_not_take_is_tried_again_after_ever_longer_times() {
        let mut history = OffloadHistory::default();
        assert_eq!(history.expect(2, TLS13, at(0)), Expect::MayTake);
        let mut now = 0;
        for pause in [1, 2, 4, 8, 16, 32, 64, 64] {
            history.learn(2, TLS13, Got::Cpu, at(now));
            assert_eq!(history.expect(2, TLS13, at(now + pause - 1)), Expect::DoesNotTake);
            now += pause;
            assert_eq!(history.expect(2, TLS13, at(now)), Expect::MayTake);
        }
        history.learn(2, TLS13, Got::Nic, at(now));
        assert_eq!(history.expect(2, TLS13, at(now)), Expect::MayTake, "the kernel takes it now");
    }

    #[test]
    fn a_card_that_has_taken_a_kind_and_refuses_it_has_no_room() {
        let mut history = OffloadHistory::default();
        history.learn(2, TLS12, Got::Nic, at(0));
        history.learn(2, TLS12, Got::Cpu, at(0));
        assert_eq!(history.expect(2, TLS12, at(0)), Expect::NoRoom);
        assert_eq!(history.expect(2, TLS13, at(0)), Expect::MayTake, "another kind");
        assert_eq!(history.expect(3, TLS12, at(0)), Expect::MayTake, "another card");
        assert!(history.has_taken(2, TLS12));
        assert!(!history.has_taken(2, TLS13) && !history.has_taken(3, TLS12));
        history.learn(2, TLS12, Got::Unclear, at(0));
        assert_eq!(history.expect(2, TLS12, at(0)), Expect::NoRoom);
        assert_eq!(history.expect(2, TLS12, at(1)), Expect::MayTake);
        history.learn(2, TLS12, Got::Nic, at(1));
        history.learn(2, TLS12, Got::Cpu, at(1));
        assert_eq!(
            history.expect(2, TLS12, at(2)),
            Expect::MayTake,
            "a refusal counts from the shortest time again"
        );
    }
}
