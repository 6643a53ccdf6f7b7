//! SYN cookies (RFC 4987 section 3.6): without room for half-open connections, the state that would have to be kept travels in the sequence number
//! and the timestamp of the SYN-ACK, and comes back with the ACK.
//!
//! Sequence number: 5 bits of a slow clock, 3 bits for a segment size, 24 bits of a keyed hash over both, the addresses
//! and the peer's initial sequence number. Timestamp, if the peer uses them: its low 6 bits carry window scale, SACK
//! and ECN.

use crate::agreed::Agreed;
use crate::clock::Time;
use crate::keyed::{Keyed, Pair, Purpose};
use crate::seq::Seq;

/// One tick of the slow clock. A cookie is valid for one to two ticks.
const TICK_US: u64 = 64_000_000;

/// The possible segment sizes: IPv4's default, IPv6's, tunnels, PPPoE, Ethernet, jumbo frames.
const SIZES: [u16; 8] = [64, 536, 1220, 1360, 1400, 1440, 1460, 8940];

/// The low bits of the timestamp that carry options.
const OPTION_BITS: u32 = 6;
const NO_SHIFT: u32 = 15;

pub(crate) fn lifetime_us() -> u64 {
    2 * TICK_US
}

/// The initial sequence number that is a cookie for this SYN.
pub(crate) fn make(keyed: &Keyed, now: Time, pair: &Pair, peer_isn: Seq, peer_mss: u16) -> Seq {
    let size = SIZES.iter().rposition(|size| *size <= peer_mss).unwrap_or(0);
    Seq(cookie(keyed, now.0 / TICK_US, pair, peer_isn, size as u32))
}

fn cookie(keyed: &Keyed, tick: u64, pair: &Pair, peer_isn: Seq, size: u32) -> u32 {
    let bound = tick << 35 | u64::from(size) << 32 | u64::from(peer_isn.0);
    let hash = keyed.value(Purpose::Cookie, pair, bound) as u32 & 0x00ff_ffff;
    (tick as u32 & 0x1f) << 27 | size << 24 | hash
}

/// The segment size in a cookie, if the cookie is ours and not too old.
pub(crate) fn check(keyed: &Keyed, now: Time, pair: &Pair, peer_isn: Seq, isn: Seq) -> Option<u16> {
    let size = isn.0 >> 24 & 0x7;
    let tick = now.0 / TICK_US;
    let good = [Some(tick), tick.checked_sub(1)]
        .into_iter()
        .flatten()
        .any(|tick| cookie(keyed, tick, pair, peer_isn, size) == isn.0);
    good.then(|| SIZES[size as usize])
}

/// A timestamp that carries options. It is not later than `stamp`, so that later timestamps are not older.
pub(crate) fn stamp_with_options(stamp: u32, agreed: &Agreed) -> u32 {
    let shift = agreed.peer_shift.map_or(NO_SHIFT, u32::from);
    let options = shift | u32::from(agreed.sack) << 4 | u32::from(agreed.ecn) << 5;
    let mask = (1 << OPTION_BITS) - 1;
    let carrying = stamp & !mask | options;
    if options > stamp & mask { carrying.wrapping_sub(1 << OPTION_BITS) } else { carrying }
}

/// The agreed options, from the timestamp that came back.
pub(crate) fn options_of(stamp: u32, peer_mss: u16) -> Agreed {
    let shift = stamp & 0xf;
    Agreed {
        peer_mss,
        peer_shift: (shift != NO_SHIFT).then_some(shift as u8),
        sack: stamp >> 4 & 1 == 1,
        timestamps: true,
        ecn: stamp >> 5 & 1 == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;
    use crate::keyed::tests::pair;

    #[test]
    fn a_cookie_is_good_for_its_pair_and_for_a_while() {
        let keyed = Keyed::new(Secret([3; 16]));
        let (made, isn) = (Time(1000 * TICK_US + 5), Seq(77));
        let cookie = make(&keyed, made, &pair(1), isn, 1460);
        let check = |ticks: u64, port, isn, cookie| {
            check(&keyed, Time((1000 + ticks) * TICK_US), &pair(port), isn, cookie)
        };
        assert_eq!(check(0, 1, isn, cookie), Some(1460));
        assert_eq!(check(1, 1, isn, cookie), Some(1460));
        assert_eq!(check(2, 1, isn, cookie), None, "too old");
        assert_eq!(check(0, 2, isn, cookie), None, "another peer");
        assert_eq!(check(0, 1, Seq(78), cookie), None, "another SYN");
        assert_eq!(check(0, 1, isn, Seq(cookie.0 ^ 1)), None, "a guess");
    }

    #[test]
    fn sizes_are_rounded_down_to_one_that_can_be_named() {
        let keyed = Keyed::new(Secret([3; 16]));
        for (offered, named) in [(1459, 1440), (65_535, 8940), (70, 64)] {
            let cookie = make(&keyed, Time(0), &pair(1), Seq(1), offered);
            assert_eq!(check(&keyed, Time(0), &pair(1), Seq(1), cookie), Some(named));
        }
    }

    #[test]
    fn options_travel_in_a_timestamp_that_is_not_ahead() {
        for stamp in [0, 5, 63, 64, 1000, u32::MAX] {
            for (peer_shift, sack, ecn) in
                [(None, true, false), (Some(7), false, true), (Some(14), true, true)]
            {
                let agreed = Agreed { peer_mss: 1460, peer_shift, sack, timestamps: true, ecn };
                let carrying = stamp_with_options(stamp, &agreed);
                assert!(carrying.wrapping_sub(stamp) as i32 <= 0);
                assert_eq!(options_of(carrying, 1460), agreed);
            }
        }
    }
}
