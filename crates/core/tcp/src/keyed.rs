//! Values derived from the secret: initial sequence numbers, timestamp offsets, the hash of the connection table.

use std::hash::{BuildHasher, Hash, Hasher};
use std::net::SocketAddr;

use siphasher::sip::SipHasher13;

use crate::Secret;
use crate::clock::Time;
use crate::seq::Seq;

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Pair {
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// A keyed pseudo-random function over pairs of addresses. A peer that cannot guess its values can neither guess
/// sequence numbers nor fill one bucket of a table.
#[derive(Clone)]
pub(crate) struct Keyed {
    key: [u8; 16],
}

/// The purpose of a value: each purpose has values of its own.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Table = 0,
    Isn = 1,
    Timestamp = 2,
    Cookie = 3,
}

impl Keyed {
    pub(crate) fn new(secret: Secret) -> Self {
        Keyed { key: secret.0 }
    }

    pub(crate) fn value(&self, purpose: Purpose, pair: &Pair, more: u64) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write_u8(purpose as u8);
        pair.hash(&mut hasher);
        hasher.write_u64(more);
        hasher.finish()
    }

    /// RFC 6528 section 3: a clock of 4 microseconds plus a secret function of the addresses.
    pub(crate) fn isn(&self, now: Time, pair: &Pair) -> Seq {
        let function = self.value(Purpose::Isn, pair, 0) as u32;
        Seq(function.wrapping_add((now.0 / 4) as u32))
    }

    /// The start of a connection's millisecond clock. It reveals nothing about this machine or other connections (RFC 7323 section 5.4).
    pub(crate) fn timestamp_offset(&self, pair: &Pair) -> u32 {
        self.value(Purpose::Timestamp, pair, 0) as u32
    }
}

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write_u8(Purpose::Table as u8);
        hasher
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn pair(port: u16) -> Pair {
        Pair {
            remote: SocketAddr::from(([192, 0, 2, 7], port)),
            local: SocketAddr::from(([198, 51, 100, 1], 443)),
        }
    }

    #[test]
    fn initial_sequence_numbers_advance_with_the_clock_and_differ_by_pair() {
        let keyed = Keyed::new(Secret([7; 16]));
        let early = keyed.isn(Time(0), &pair(1000));
        assert_eq!(keyed.isn(Time(4_000_000), &pair(1000)).ahead_of(early), 1_000_000);
        assert_ne!(keyed.isn(Time(0), &pair(1001)), early);
        assert_ne!(Keyed::new(Secret([8; 16])).isn(Time(0), &pair(1000)), early);
    }
}
