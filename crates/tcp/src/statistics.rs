//! Counters: one for every early exit, named by its reason.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What an endpoint has counted since it was made.
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
    /// Segments that were handed in.
    segments_received,
    /// Segments handed out, a super-segment as one.
    segments_sent,
    /// Payload bytes handed out, first sendings and retransmissions.
    payload_bytes_sent,
    /// Payload bytes that had left before.
    retransmitted_bytes,
    /// Payload bytes accepted from peers.
    payload_bytes_received,
    /// Connections accepted.
    accepted,
    /// Connections that were opened actively.
    connected,
    /// Connections that ended, for whatever reason.
    ended,
    /// Too short, or its header says more than there is.
    header_malformed,
    /// An option with a wrong length.
    option_malformed,
    /// A segment for no connection and no listener.
    no_connection,
    /// Resets sent to such segments.
    resets_sent,
    /// Replies without a connection that were dropped since too many were waiting to leave.
    replies_dropped,
    /// A SYN with flags that make no sense (RFC 9293 has nothing to say about FIN or RST with it).
    syn_malformed,
    /// SYNs without ACK that came while we opened a connection to their sender.
    simultaneous_opens_refused,
    /// SYNs that made a half-open connection.
    syn_queued,
    /// SYNs that were answered with a cookie, since the queue was full.
    syn_cookies_sent,
    /// Connections made from a cookie.
    syn_cookies_accepted,
    /// An ACK that may have been an answer to a cookie, but does not verify: dropped.
    syn_cookies_refused,
    /// Half-open connections given up after the last SYN-ACK.
    half_open_expired,
    /// A handshake's last ACK that found the table of connections full, and nobody in it who could make room.
    connections_full,
    /// A sequence number outside the receive window.
    outside_window,
    /// A timestamp older than the last one (PAWS, RFC 7323 section 5).
    paws_refused,
    /// A segment without timestamps, although they were agreed on (RFC 7323 section 3.2).
    timestamp_missing,
    /// A segment without the ACK bit in a synchronized state.
    ack_missing,
    /// An ACK for data that was never sent.
    ack_unsent,
    /// An ACK older than any window would allow (RFC 5961 section 5).
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
    /// Challenge ACKs not sent since there were too many (RFC 5961 section 7).
    challenges_throttled,
    /// SACK blocks that are empty, backwards, or name what was never sent.
    sack_invalid,
    /// SACK blocks disregarded: there is no whole segment in them, or there are more segments in flight than can be remembered.
    sack_disregarded,
    /// Times that a peer seems to have gone back on a SACK (RFC 2018 section 8).
    sack_reneged,
    /// Duplicates reported by the peer (RFC 2883).
    dsack_received,
    /// Times that the in-flight bookkeeping had to give up all that was in flight as lost to stay within its bound.
    ranges_forgotten,
    /// Times that a range was found lost by RACK (RFC 8985) or by duplicate ACKs.
    losses,
    /// Loss recoveries entered.
    recoveries,
    /// Recoveries undone since nothing had been lost.
    recoveries_undone,
    /// Retransmission time-outs.
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
    /// Times that the segment size was lowered since nothing larger seemed to get through.
    black_holes,
    /// Path MTU messages believed.
    path_mtu_lowered,
    /// Segments sent that were larger than usual, to find out whether the path carries them by now (RFC 4821 section 7).
    larger_segments_tried,
    /// Such segments that arrived: the segment size was raised.
    path_mtu_raised,
    /// Path MTU messages not believed: for no data in flight, for data that has arrived, or for a size out of reason.
    path_mtu_refused,
    /// Path MTU messages disregarded since they came within a round trip of the one before.
    path_mtu_too_soon,
    /// Payload bytes beyond the receive window, cut off.
    payload_bytes_outside,
    /// Payload bytes that had been received before.
    payload_bytes_duplicate,
    /// Payload bytes out of order that did not fit the bounded list of gaps.
    payload_bytes_unordered_dropped,
    /// Segments with data after the peer's FIN, or a FIN at another place than the first.
    after_finish,
    /// Urgent pointers, which are taken for ordinary data.
    urgent_ignored,
    /// TIME-WAIT entries that had to go before their time.
    time_wait_evicted,
    /// Segments that found a TIME-WAIT entry.
    time_wait_hits,
    /// SYNs that opened a new connection over one in TIME-WAIT (RFC 6191).
    time_wait_reused,
    /// Connections ended because nothing of what was sent got acknowledged.
    stalled,
    /// Connections ended because of silence.
    silent,
    /// Connections ended because the peer never finished.
    never_finished,
    /// Connections that their caller had let go of and that made room for others.
    orphans_evicted,
}
