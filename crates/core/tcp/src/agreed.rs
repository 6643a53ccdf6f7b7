//! The parameters that two ends agree on in their SYNs, and the resulting segment size.

use crate::Config;
use crate::header::{Flags, Options, Timestamps};
use crate::keyed::Pair;

/// For a peer that announces nothing: the size that every IPv4 or IPv6 host accepts (RFC 9293 section 3.7.1).
const MSS_DEFAULT_V4: u16 = 536;
const MSS_DEFAULT_V6: u16 = 1220;

/// Smaller values are ignored: segments of a few bytes only cause work. IPv4's least MTU of 68 leaves 28 bytes of payload, but no such path exists.
const MSS_MIN: u16 = 64;

/// The timestamps option with its padding.
const TIMESTAMP_BYTES: u16 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// The largest segment that the peer takes, options included.
    pub(crate) peer_mss: u16,
    /// The peer's window scale. None: the peer does not scale windows, so neither do we.
    pub(crate) peer_shift: Option<u8>,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) ecn: bool,
}

/// IP and TCP header without options.
fn header_bytes(pair: &Pair) -> u16 {
    if pair.remote.is_ipv6() { 60 } else { 40 }
}

/// RFC 9293 section 3.7.1: the MSS option counts neither IP nor TCP options.
fn mss_of(pair: &Pair, mtu_bytes: u16) -> u16 {
    mtu_bytes.saturating_sub(header_bytes(pair)).max(MSS_MIN)
}

/// The smallest shift that can announce the whole receive buffer (RFC 7323 section 2.3: 14 at most).
fn receive_shift(config: &Config) -> u8 {
    (0..14).find(|shift| config.receive_bytes_max >> shift <= 0xffff).unwrap_or(14)
}

impl Agreed {
    /// From the peer's SYN or SYN-ACK: the features that both sides support.
    pub(crate) fn from_syn(config: &Config, pair: &Pair, options: &Options, ecn: bool) -> Agreed {
        let default = if pair.remote.is_ipv6() { MSS_DEFAULT_V6 } else { MSS_DEFAULT_V4 };
        Agreed {
            peer_mss: options.mss.unwrap_or(default).max(MSS_MIN),
            peer_shift: options.window_scale.filter(|_| config.window_scaling),
            sack: config.sack && options.sack_permitted,
            timestamps: config.timestamps && options.timestamps.is_some(),
            ecn: config.ecn && ecn,
        }
    }

    /// A cookie's timestamp may come back with any value: this keeps only what we could have agreed to.
    pub(crate) fn within(self, config: &Config) -> Agreed {
        Agreed {
            peer_shift: self.peer_shift.filter(|_| config.window_scaling),
            sack: self.sack && config.sack,
            timestamps: self.timestamps && config.timestamps,
            ecn: self.ecn && config.ecn,
            ..self
        }
    }

    /// Before the peer has sent anything.
    pub(crate) fn nothing() -> Agreed {
        Agreed {
            peer_mss: MSS_DEFAULT_V4,
            peer_shift: None,
            sack: false,
            timestamps: false,
            ecn: false,
        }
    }

    /// Payload of one segment over a path of this MTU.
    pub(crate) fn segment_bytes(&self, pair: &Pair, mtu_bytes: u16) -> u16 {
        let options = if self.timestamps { TIMESTAMP_BYTES } else { 0 };
        self.peer_mss.min(mss_of(pair, mtu_bytes)) - options
    }

    pub(crate) fn send_shift(&self) -> u8 {
        self.peer_shift.unwrap_or(0)
    }

    pub(crate) fn receive_shift(&self, config: &Config) -> u8 {
        if self.peer_shift.is_some() { receive_shift(config) } else { 0 }
    }

    /// The options of a SYN-ACK: only those that the SYN offered (RFC 7323 section 1.3, RFC 2018 section 2).
    pub(crate) fn syn_ack_options(
        &self,
        config: &Config,
        pair: &Pair,
        timestamps: Timestamps,
    ) -> Options {
        Options {
            mss: Some(mss_of(pair, config.mtu_bytes)),
            window_scale: self.peer_shift.map(|_| receive_shift(config)),
            sack_permitted: self.sack,
            timestamps: self.timestamps.then_some(timestamps),
            ..Options::default()
        }
    }
}

/// The options of a SYN.
pub(crate) fn syn_options(config: &Config, pair: &Pair, timestamp: u32) -> Options {
    Options {
        mss: Some(mss_of(pair, config.mtu_bytes)),
        window_scale: config.window_scaling.then(|| receive_shift(config)),
        sack_permitted: config.sack,
        timestamps: config.timestamps.then_some(Timestamps { value: timestamp, echo: 0 }),
        ..Options::default()
    }
}

/// RFC 3168 section 6.1.1: a SYN asks for ECN with both bits, a SYN-ACK agrees with one.
pub(crate) fn syn_asks_for_ecn(flags: Flags) -> bool {
    flags.has(Flags::ECE.with(Flags::CWR))
}

/// See [`syn_asks_for_ecn`].
pub(crate) fn syn_ack_agrees_to_ecn(flags: Flags) -> bool {
    flags.has(Flags::ECE) && !flags.has(Flags::CWR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::tests::pair;

    fn offered() -> Options {
        Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo: 0 }),
            ..Options::default()
        }
    }

    #[test]
    fn timestamps_take_their_room_from_the_segment() {
        let agreed = Agreed::from_syn(&Config::default(), &pair(1), &offered(), false);
        assert_eq!(agreed.segment_bytes(&pair(1), 1500), 1448);
        assert_eq!(agreed.segment_bytes(&pair(1), 1280), 1228);
    }

    #[test]
    fn what_is_not_offered_is_not_answered() {
        let config = Config::default();
        let agreed = Agreed::from_syn(&config, &pair(1), &Options::default(), true);
        let answer = agreed.syn_ack_options(&config, &pair(1), Timestamps { value: 1, echo: 1 });
        assert_eq!(answer, Options { mss: Some(1460), ..Options::default() });
        assert_eq!((agreed.segment_bytes(&pair(1), 1500), agreed.ecn), (536, true));
    }

    #[test]
    fn segments_of_a_few_bytes_are_not_agreed_to() {
        let tiny = Options { mss: Some(1), ..offered() };
        let agreed = Agreed::from_syn(&Config::default(), &pair(1), &tiny, false);
        assert_eq!(agreed.segment_bytes(&pair(1), 1500), 52);
    }

    #[test]
    fn large_buffers_are_announced_scaled() {
        let config = Config { receive_bytes_max: 1 << 20, ..Config::default() };
        let agreed = Agreed::from_syn(&config, &pair(1), &offered(), false);
        assert_eq!(agreed.receive_shift(&config), 5);
    }
}
