//! Limits on what a peer may send or request.

/// Limits on one request. The defaults suit players and browsers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Largest head in bytes, request line and final empty line included; above: 431. A session's read buffer must hold at least this much. Default
    /// 16 KiB, which browsers with many cookies do not exceed.
    pub head_bytes_max: usize,
    /// Largest request-target in bytes; above: 414. RFC 9112 section 3 recommends at least 8000. Default 8 KiB.
    pub uri_bytes_max: usize,
    /// Most header lines; above: 431. At most [`RequestLimits::HEADERS_CEILING`]. Default 100.
    pub headers_max: usize,
    /// Most ranges in one Range header; above, the header is ignored (RFC 9110 section 14.2). Default 64.
    pub ranges_max: usize,
    /// Most ranges of less than 16 KiB in one answer, after near ones are merged; above, the header is ignored, because each costs a read and a send
    /// of its own. Default 8, more than any player or downloader requests at once.
    pub small_ranges_max: usize,
    /// How many bytes of a request body, its chunk framing included, are read and discarded; above: 413. Default 64 KiB. No request to this server
    /// needs a body, so this only keeps the connections of odd clients usable.
    pub body_drain_bytes_max: u64,
    /// Set if the caller reads bodies itself and judges their size. Then neither a large body nor a client that waits for 100 (Continue) is refused
    /// here. Default false.
    pub are_bodies_taken: bool,
    /// The end of the paths to which clients may post a body that the caller reads, such as `/-/post`. There a large body is refused as too large,
    /// and not because of its method. Default none.
    pub posts_at: Option<&'static str>,
    /// Set if the caller forwards methods that this crate does not know; otherwise they are refused with 501. Default false.
    pub are_other_methods_taken: bool,
}

impl RequestLimits {
    /// The largest useful `headers_max`: the parser's table of lines is on the stack (32 bytes each).
    pub const HEADERS_CEILING: usize = 128;
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            head_bytes_max: 16 * 1024,
            uri_bytes_max: 8 * 1024,
            headers_max: 100,
            ranges_max: 64,
            small_ranges_max: 8,
            body_drain_bytes_max: 64 * 1024,
            are_bodies_taken: false,
            posts_at: None,
            are_other_methods_taken: false,
        }
    }
}
