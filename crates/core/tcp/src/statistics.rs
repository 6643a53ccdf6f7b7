//! Counters: one for every early exit, named by its reason.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of an endpoint since it was made.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Statistics {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Statistics {
            /// Every counter with its name, for telemetry.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Segments passed in.
    segments_received,
    /// Acknowledgements that were not processed, because a later one of the same batch included them.
    acknowledgements_merged,
    /// Segments passed out; a super-segment counts once.
    segments_sent,
    /// Payload bytes passed out, both new ones and retransmissions.
    payload_bytes_sent,
    /// Payload bytes that had been sent before.
    retransmitted_bytes,
    /// Payload bytes accepted from peers.
    payload_bytes_received,
    /// Deadlines that came due, including those that had been postponed meanwhile.
    alarms,
    /// Connections accepted.
    accepted,
    /// Connections opened actively.
    connected,
    /// Connections that ended, for any reason.
    ended,
    /// Segments that are too short, or whose header gives more bytes than there are.
    header_malformed,
    /// Options with a wrong length.
    option_malformed,
    /// Segments without a connection or a listener.
    no_connection,
    /// Resets sent to such segments.
    resets_sent,
    /// Replies without a connection that were dropped because too many were waiting to be sent.
    replies_dropped,
    /// SYNs with flags that make no sense (RFC 9293 does not say what FIN or RST with it means).
    syn_malformed,
    /// SYNs without ACK that came while we opened a connection to their sender.
    simultaneous_opens_refused,
    /// SYNs that made a half-open connection.
    syn_queued,
    /// SYNs answered with a cookie because the queue was full.
    syn_cookies_sent,
    /// Connections made from a cookie.
    syn_cookies_accepted,
    /// ACKs that may have answered a cookie, but do not verify: dropped.
    syn_cookies_refused,
    /// Half-open connections given up after the last SYN-ACK.
    half_open_expired,
    /// Last ACKs of a handshake that found the table of connections full, with no connection that could make room.
    connections_full,
    /// Segments with a sequence number outside the receive window.
    outside_window,
    /// Segments with a timestamp older than the last one (PAWS, RFC 7323 section 5).
    paws_refused,
    /// Segments without timestamps, although they were agreed on (RFC 7323 section 3.2).
    timestamp_missing,
    /// Segments without the ACK bit in a synchronized state.
    ack_missing,
    /// ACKs for data that was never sent.
    ack_unsent,
    /// ACKs older than any window would allow (RFC 5961 section 5).
    ack_ancient,
    /// RSTs outside the window: dropped.
    reset_outside_window,
    /// RSTs in the window but not at its edge: challenged (RFC 5961 section 3).
    reset_challenged,
    /// Valid RSTs.
    reset_received,
    /// SYNs on a synchronized connection: challenged (RFC 5961 section 4).
    syn_challenged,
    /// Challenge ACKs sent.
    challenges_sent,
    /// Challenge ACKs not sent because there were too many (RFC 5961 section 7).
    challenges_throttled,
    /// SACK blocks that are empty, backwards, or name bytes that were never sent.
    sack_invalid,
    /// SACK blocks ignored: they contain no whole segment, or there are more segments in flight than can be remembered.
    sack_disregarded,
    /// How often a peer seems to have taken back a SACK (RFC 2018 section 8).
    sack_reneged,
    /// Duplicates reported by the peer (RFC 2883).
    dsack_received,
    /// How often the in-flight bookkeeping had to give up everything in flight as lost to stay within its limit.
    ranges_forgotten,
    /// How often RACK (RFC 8985) or duplicate ACKs found a range lost.
    losses,
    /// Loss recoveries entered.
    recoveries,
    /// Recoveries undone because nothing had been lost.
    recoveries_undone,
    /// Retransmission timeouts.
    timeouts,
    /// Tail loss probes sent (RFC 8985 section 7).
    tail_probes,
    /// Window reductions because of ECN.
    ecn_reductions,
    /// Segments that arrived with a congestion mark.
    ecn_marks_received,
    /// Zero-window probes.
    window_probes,
    /// Keep-alive probes.
    keep_alive_probes,
    /// How often the segment size was lowered because nothing larger seemed to get through.
    black_holes,
    /// Path MTU messages accepted.
    path_mtu_lowered,
    /// Segments sent that were larger than usual, to find out whether the path carries them now (RFC 4821 section 7).
    larger_segments_tried,
    /// Such segments that arrived, so that the segment size was raised.
    path_mtu_raised,
    /// Path MTU messages refused: about no data in flight, about data that has arrived, or with an unreasonable size.
    path_mtu_refused,
    /// Path MTU messages ignored because they came within a round trip of the one before.
    path_mtu_too_soon,
    /// Payload bytes beyond the receive window, cut off.
    payload_bytes_outside,
    /// Payload bytes that had already been received.
    payload_bytes_duplicate,
    /// Payload bytes out of order that did not fit the bounded list of gaps.
    payload_bytes_unordered_dropped,
    /// Segments with data after the peer's FIN, or with a FIN at another place than the first.
    after_finish,
    /// Urgent pointers; the data counts as ordinary data.
    urgent_ignored,
    /// TIME-WAIT entries evicted before their time.
    time_wait_evicted,
    /// Segments that found a TIME-WAIT entry.
    time_wait_hits,
    /// SYNs that opened a new connection over one in TIME-WAIT (RFC 6191).
    time_wait_reused,
    /// Connections ended because nothing they sent was acknowledged.
    stalled,
    /// Connections ended because of silence.
    silent,
    /// Connections ended because the peer never finished.
    never_finished,
    /// Connections that their caller had released and that made room for others.
    orphans_evicted,
}
