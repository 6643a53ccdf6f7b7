//! The limits of a listener for its peers.

use std::time::Duration;

/// The capacity of a listener for connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceBounds {
    /// Connections in total.
    pub connections_max: usize,
    /// Connections that have not sent a complete request yet, TLS handshakes included.
    pub fresh_max: usize,
    /// How long a new connection has for its handshake or its first request before it may be closed to make room.
    pub fresh_min: Duration,
    /// Connections from one IPv4 address or one /64 of IPv6, the least that one customer gets. Known peers do not count.
    pub per_address_max: usize,
    /// Connections from one /48 of IPv6, which is what one site gets. Known peers do not count.
    pub per_site_max: usize,
}

impl Default for PlaceBounds {
    /// For viewers: a thousand may share one address, and two connections each are usual.
    fn default() -> Self {
        Self {
            connections_max: 20_000,
            fresh_max: 8192,
            fresh_min: Duration::from_secs(1),
            per_address_max: 2048,
            per_site_max: 4 * 2048,
        }
    }
}

/// The limits of a listener for each connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestBounds {
    /// How long a request's head may take from its first byte, and a connection's first head from the start of the connection. The box's
    /// server uses the same.
    pub head_max: Duration,
    /// How long a connection stays open with no request in progress.
    pub idle_max: Duration,
    /// The rate at which the peer must receive data after `idle_max`, on average since then.
    pub bytes_per_second_min: u64,
    /// The most requests in progress on one HTTP/2 connection.
    pub streams_max: u32,
    /// Which requests may have a body.
    pub bodies: Bodies,
}

impl Default for RequestBounds {
    fn default() -> Self {
        Self {
            head_max: Duration::from_secs(10),
            // As the box's server keeps idle connections.
            idle_max: Duration::from_secs(75),
            // A tenth of the rate of the slowest viewer who can play anything.
            bytes_per_second_min: 4 << 10,
            // RFC 9113 section 6.5.2 recommends at least 100, for pages with many files. No client here needs many.
            streams_max: 32,
            bodies: Bodies::None,
        }
    }
}

/// The request bodies that a listener accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bodies {
    /// None: a request with a body is refused and its connection closed.
    None,
    /// Those whose length the head gives. Without one: 411 (RFC 9110 section 15.5.12). A chunked body has two readers,
    /// ours and hyper's, and where they disagree about its end, one request hides in another.
    OfKnownLength,
}
