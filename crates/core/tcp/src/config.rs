//! An endpoint's limits and switches.

use std::time::Duration;

/// The settings of an [`Endpoint`](crate::Endpoint). All limits are hard: anything beyond one is refused and counted.
#[derive(Debug, Clone)]
pub struct Config {
    /// Ports that accept connections.
    pub listen: Vec<u16>,
    /// The largest IP packet that the interface sends (its MTU), in bytes. A SYN announces it, and no packet exceeds it.
    pub mtu_bytes: u16,
    /// Largest payload of one [`Transmit`](crate::Transmit), in bytes: how much the device can cut into segments (TSO). Zero turns that off: each
    /// transmit is one segment.
    pub tso_bytes_max: u32,
    /// The smallest want, in bytes. Smaller ranges are wanted only if nothing else is in flight, or if they are an eighth of the window.
    pub want_bytes_min: u32,
    /// The largest [`ByteRequest`](crate::ByteRequest), in bytes; at least a segment.
    pub want_bytes_max: u32,
    /// Allows the bytes in hand to end in a short segment although the stream continues. If false, such an end is withheld while something is in
    /// flight ([`Withheld::TooFew`](crate::Withheld::TooFew)).
    pub short_segments: bool,
    /// Spreads sending over the round trip (pacing) instead of sending bursts. Wants then come one by one at that pace, and wanted bytes are sent as
    /// soon as the caller has them.
    pub pacing: bool,
    /// With pacing, this many bytes are wanted and sent at once even if that is more than a millisecond's worth, but
    /// not more than a sixteenth of the window. Not with BBR, whose pieces are a millisecond's worth.
    pub pace_bytes_min: u32,
    /// Decides how much may be in flight, and how fast it leaves.
    pub congestion_control: CongestionControl,
    /// Agrees to ECN (RFC 3168), and requests it in active opens. Not with BBR, which ignores marks.
    pub ecn: bool,
    /// Agrees to selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Agrees to timestamps (RFC 7323).
    pub timestamps: bool,
    /// Agrees to window scaling (RFC 7323).
    pub window_scaling: bool,
    /// Processes only the last of several pure acknowledgements of a connection in one batch, on behalf of all of them.
    pub merges_acknowledgements: bool,
    /// The receive buffer of one connection, in bytes, which is announced as the window. Requests are small.
    pub receive_bytes_max: u32,
    /// How many out-of-order ranges that buffer may have; more are dropped. A client that downloads needs hundreds.
    pub receive_ranges_max: u16,
    /// The first congestion window in segments (RFC 6928: 10).
    pub initial_window_segments: u32,
    /// Upper limit of the congestion window, in bytes: it bounds what one peer can have in flight.
    pub window_bytes_max: u32,
    /// Limit on connections. Connections that their caller has released make room for others.
    pub connections_max: usize,
    /// Limit on half-open connections; further SYNs are answered with cookies (RFC 4987 section 3.6).
    pub half_open_max: usize,
    /// Limit on connections in TIME-WAIT; the oldest makes room (RFC 9293 section 3.6.1 wants them kept, but memory is
    /// finite).
    pub time_wait_max: usize,
    /// How long TIME-WAIT lasts: twice the longest life of a segment. RFC 9293 says 4 minutes; common practice is one.
    pub time_wait: Duration,
    /// After segments were made smaller, because a router reported it or nothing larger got through: how long to wait before trying larger ones, and
    /// between tries (RFC 4821 section 7.3 says ten minutes).
    pub larger_segments_after: Duration,
    /// Probes a connection that has not received a segment for some time (RFC 9293 section 3.8.4). None: never.
    pub keep_alive: Option<KeepAlive>,
    /// A connection with data to send ends if nothing is acknowledged for this long, because of loss or of a window held shut. This is the user
    /// timeout of RFC 9293 section 3.8.3.
    pub stall: Duration,
    /// How long the peer may take to send its FIN after it has acknowledged ours.
    pub fin_wait: Duration,
}

/// The algorithm by which a sender finds out what the path carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongestionControl {
    /// RFC 9438: sends more until something is lost, then less.
    Cubic,
    /// draft-ietf-ccwg-bbr, version 3: sends at the rate at which bytes arrive. It needs [`Config::pacing`].
    Bbr,
    /// Version 1, which Linux calls `bbr`: more aggressive in front of short queues. It needs pacing too.
    Bbr1,
}

/// Probing of silent connections.
#[derive(Debug, Clone, Copy)]
pub struct KeepAlive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Between two probes.
    pub interval: Duration,
    /// This many probes without an answer end the connection.
    pub probes: u8,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: Vec::new(),
            mtu_bytes: 1500,
            tso_bytes_max: 61_440,
            want_bytes_min: 32 << 10,
            want_bytes_max: 256 << 10,
            short_segments: false,
            pacing: true,
            pace_bytes_min: 0,
            congestion_control: CongestionControl::Cubic,
            ecn: true,
            sack: true,
            timestamps: true,
            window_scaling: true,
            merges_acknowledgements: true,
            receive_bytes_max: 16 << 10,
            receive_ranges_max: 4,
            initial_window_segments: 10,
            window_bytes_max: 16 << 20,
            connections_max: 65_536,
            half_open_max: 1024,
            time_wait_max: 16_384,
            time_wait: Duration::from_secs(60),
            larger_segments_after: Duration::from_secs(600),
            keep_alive: Some(KeepAlive {
                idle: Duration::from_secs(120),
                interval: Duration::from_secs(15),
                probes: 4,
            }),
            stall: Duration::from_secs(300),
            fin_wait: Duration::from_secs(60),
        }
    }
}

/// The key from which initial sequence numbers (RFC 6528), SYN cookies, timestamp offsets and the connection table's
/// hash are derived. It must be random and secret.
#[derive(Clone, Copy)]
pub struct Secret(pub [u8; 16]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}
