//! What an endpoint may use and how it behaves: every bound and every switch.

use std::time::Duration;

/// The settings of an [`Endpoint`](crate::Endpoint). All bounds are hard: what would exceed one is refused and counted.
#[derive(Debug, Clone)]
pub struct Config {
    /// Ports that accept connections.
    pub listen: Vec<u16>,
    /// The largest IP packet that the way out carries, in bytes (an interface's MTU): what a SYN announces and an upper bound of what is sent.
    pub mtu_bytes: u16,
    /// Largest payload of one [`Transmit`](crate::Transmit), in bytes: how much the device cuts into segments (TSO). Zero switches
    /// that off: one segment at a time.
    pub tso_bytes_max: u32,
    /// The least that is worth asking for, in bytes: less is only wanted when nothing else is under way, or if it is an eighth of the window.
    pub want_bytes_min: u32,
    /// The most that one [`Want`](crate::Want) asks for, in bytes; a segment at least.
    pub want_bytes_max: u32,
    /// Whether what the caller holds may end in a segment that is not full, although the stream goes on. Else such an end is withheld while something
    /// is in flight ([`Withheld::TooFew`](crate::Withheld::TooFew)).
    pub short_segments: bool,
    /// Whether sending is spread over the round trip (pacing) instead of leaving in bursts: wants come one by one at that pace, and what was asked
    /// for leaves when it is brought.
    pub pacing: bool,
    /// With pacing, so much is asked for and leaves at once even if it is more than a millisecond's worth, in bytes; but not more than a
    /// sixteenth of the window.
    pub pace_bytes_min: u32,
    /// Whether ECN (RFC 3168) is agreed to, or asked for by an active open.
    pub ecn: bool,
    /// Whether selective acknowledgements (RFC 2018) are agreed to.
    pub sack: bool,
    /// Whether timestamps (RFC 7323) are agreed to.
    pub timestamps: bool,
    /// Whether window scaling (RFC 7323) is agreed to.
    pub window_scaling: bool,
    /// The receive buffer of one connection, in bytes: what is announced as the window. Requests are small.
    pub receive_bytes_max: u32,
    /// How many ranges out of order are kept within that buffer; more are dropped. A client that downloads wants hundreds.
    pub receive_ranges_max: u16,
    /// The first congestion window in segments (RFC 6928: 10).
    pub initial_window_segments: u32,
    /// The congestion window never exceeds this many bytes: the bound of what one peer can have in flight.
    pub window_bytes_max: u32,
    /// Connections at once. Those that their caller has let go of make room for others.
    pub connections_max: usize,
    /// Half-open connections at once; more SYNs are answered with cookies (RFC 4987 section 3.6).
    pub half_open_max: usize,
    /// Connections remembered in TIME-WAIT at once; the oldest makes room (RFC 9293 section 3.6.1 wants them kept, memory is finite).
    pub time_wait_max: usize,
    /// How long TIME-WAIT lasts: twice the longest life of a segment. RFC 9293 has 4 minutes; common practice is one.
    pub time_wait: Duration,
    /// After segments were made smaller, since a router said so or nothing larger got through, larger ones are tried after so long and at such
    /// intervals (RFC 4821 section 7.3 has ten minutes).
    pub larger_segments_after: Duration,
    /// A connection without a segment from the peer for so long is probed (RFC 9293 section 3.8.4). None: never.
    pub keep_alive: Option<KeepAlive>,
    /// A connection that has something to send and gets nothing of it acknowledged for so long is ended, be it by loss or by a window
    /// held shut. The user time-out of RFC 9293 section 3.8.3.
    pub stall: Duration,
    /// After our FIN is acknowledged, how long the peer may take to send its own.
    pub fin_wait: Duration,
}

/// Probing of silent connections.
#[derive(Debug, Clone, Copy)]
pub struct KeepAlive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Between two probes.
    pub interval: Duration,
    /// So many probes without an answer end the connection.
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
            ecn: true,
            sack: true,
            timestamps: true,
            window_scaling: true,
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

/// The key behind initial sequence numbers (RFC 6528), SYN cookies, timestamp offsets and the connection table. It must be random and secret.
#[derive(Clone, Copy)]
pub struct Secret(pub [u8; 16]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}
