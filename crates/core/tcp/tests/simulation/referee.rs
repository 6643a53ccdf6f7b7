//! Watches the wire and checks both endpoints against the rules. It is the reference model: per direction it knows which bytes the application wrote,
//! which arrived, and what the sender has learned. It does not see the endpoints' state.

use std::ops::Range;

use crate::ranges::Ranges;
use crate::stream::Stream;
use crate::wire::{ACK, FIN, Parsed, RST, SYN};

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Client, Self::Server];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// The segments that one end of a connection has sent and received. Offsets are stream offsets; a FIN has the offset after its stream's last byte.
#[derive(Clone, Debug, Default)]
struct End {
    /// The sequence number of its SYN, once settled.
    isn: Option<u32>,
    /// From its SYN.
    mss: Option<u16>,
    scale: Option<u8>,
    offers_timestamps: bool,
    /// Written by its application.
    written: u64,
    finished: bool,
    /// The end of the sent bytes, FIN included.
    sent_below: u64,
    /// Its bytes that arrived at the other end.
    arrived: Ranges,
    fin_arrived: bool,
    /// The announcements that it has received: how far it may send, and how far it is acknowledged.
    shown_edge: u64,
    heard_acknowledged: u64,
    /// The announcements that it has made: how far the other end may send, and how far that is acknowledged.
    said_edge: u64,
    said_acknowledged: u64,
}

/// One connection as the wire shows it.
#[derive(Clone, Debug)]
pub(crate) struct Referee {
    client: End,
    server: End,
    streams: [Stream; 2],
    /// The largest segment with its header, by side.
    segment_bytes_max: [usize; 2],
    receive_bytes_max: [u64; 2],
    pub(crate) first_sent_bytes: [u64; 2],
    pub(crate) sent_again_bytes: [u64; 2],
}

impl Referee {
    pub(crate) fn new(
        streams: [Stream; 2],
        segment_bytes_max: [usize; 2],
        receive_bytes_max: [u64; 2],
    ) -> Self {
        let (client, server) = (End::default(), End::default());
        let first_sent_bytes = [0; 2];
        let sent_again_bytes = [0; 2];
        Self {
            client,
            server,
            streams,
            segment_bytes_max,
            receive_bytes_max,
            first_sent_bytes,
            sent_again_bytes,
        }
    }

    fn end(&mut self, side: Side) -> &mut End {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// The application of `side` extends its stream.
    pub(crate) fn write(&mut self, side: Side, bytes: u64) {
        self.end(side).written += bytes;
    }

    /// The application of `side` will write no more.
    pub(crate) fn finish(&mut self, side: Side) {
        self.end(side).finished = true;
    }

    /// How much of the stream of `side` arrived without a gap.
    pub(crate) fn arrived(&mut self, side: Side) -> u64 {
        self.end(side).arrived.unbroken()
    }

    /// How long the stream of `side` is, and whether it is finished.
    pub(crate) fn length(&mut self, side: Side) -> (u64, bool) {
        (self.end(side).written, self.end(side).finished)
    }

    /// `from` puts a segment on the wire.
    pub(crate) fn sent(&mut self, from: Side, segment: &[u8]) {
        let parsed = Parsed::new(segment);
        let longest = self.segment_bytes_max[from as usize];
        assert!(segment.len() <= longest, "{} of {longest} bytes", segment.len());
        assert_eq!(segment[16..18], [0; 2], "the checksum is the device's to write");
        if parsed.has(RST) {
            return;
        }
        if parsed.has(SYN) {
            self.syn_sent(from, &parsed);
            return;
        }
        assert!(parsed.has(ACK), "a segment without ACK after the SYN");
        self.check_timestamps(&parsed);
        self.check_data(from, &parsed);
        self.check_acknowledgement(from, &parsed);
    }

    fn syn_sent(&mut self, from: Side, parsed: &Parsed<'_>) {
        assert!(parsed.payload.is_empty() && !parsed.has(FIN));
        assert_eq!(parsed.has(ACK), from == Side::Server);
        let end = self.end(from);
        end.mss = parsed.options.mss;
        end.scale = parsed.options.scale;
        end.offers_timestamps = parsed.options.timestamps.is_some();
        if from == Side::Client {
            let isn = *end.isn.get_or_insert(parsed.sequence);
            assert_eq!(isn, parsed.sequence, "a SYN is repeated as it was");
        }
    }

    /// RFC 7323 section 3.2: once agreed on, in every segment but RST.
    fn check_timestamps(&self, parsed: &Parsed<'_>) {
        let agreed = self.client.offers_timestamps && self.server.offers_timestamps;
        assert_eq!(parsed.options.timestamps.is_some(), agreed, "timestamps, as agreed");
    }

    fn check_data(&mut self, from: Side, parsed: &Parsed<'_>) {
        let stream = self.streams[from as usize];
        let peer_mss = self.end(from.other()).mss.unwrap_or(536);
        let end = self.end(from);
        let isn = end.isn.expect("nothing is sent before the SYN arrived");
        let start = offset(isn, parsed.sequence, end.sent_below);
        if parsed.payload.is_empty() && !parsed.has(FIN) {
            assert!(start <= end.sent_below as i64 + 1, "an ACK at {start}, beyond what was sent");
            return;
        }
        let start = u64::try_from(start).expect("payload before the stream");
        let until = start + parsed.payload.len() as u64;
        assert!(until <= end.written, "{start}..{until} of {} bytes written", end.written);
        let edge = end.shown_edge;
        assert!(until <= edge || parsed.payload.is_empty(), "{start}..{until} beyond {edge}");
        let with_fin = until + u64::from(parsed.has(FIN));
        assert!(with_fin > end.heard_acknowledged, "{start}..{until} sent after its ACK came");
        assert_eq!(stream.difference(start, parsed.payload), None, "other bytes at {start}");
        let options_bytes = parsed.header_bytes - 20;
        assert!(parsed.payload.len() + options_bytes <= usize::from(peer_mss), "RFC 6691");
        if parsed.has(FIN) {
            assert!(end.finished && until == end.written, "FIN at {until} of {}", end.written);
        }
        let again = end.sent_below.min(until).saturating_sub(start);
        end.sent_below = end.sent_below.max(with_fin);
        self.sent_again_bytes[from as usize] += again;
        self.first_sent_bytes[from as usize] += parsed.payload.len() as u64 - again;
    }

    fn check_acknowledgement(&mut self, from: Side, parsed: &Parsed<'_>) {
        let both_scale = self.client.scale.is_some() && self.server.scale.is_some();
        let receive_bytes_max = self.receive_bytes_max[from as usize];
        let (end, peer) = match from {
            Side::Client => (&mut self.client, &self.server),
            Side::Server => (&mut self.server, &self.client),
        };
        let isn = peer.isn.expect("nothing is acknowledged before it came");
        let acknowledged = offset(isn, parsed.ack, end.said_acknowledged);
        let acknowledged = u64::try_from(acknowledged).expect("an ACK of what precedes the SYN");
        let whole = peer.arrived.unbroken();
        let may = whole + u64::from(peer.fin_arrived && whole == peer.written);
        assert!(acknowledged <= may, "{acknowledged} acknowledged, {may} came");
        assert!(acknowledged >= end.said_acknowledged, "an ACK goes back to {acknowledged}");
        end.said_acknowledged = acknowledged;
        let scale = if both_scale { end.scale.unwrap_or(0) } else { 0 };
        let window = u64::from(parsed.window) << scale;
        assert!(window < receive_bytes_max + (1 << scale), "a window of {window}");
        // Bytes that do not fit the scale may be lost to rounding (RFC 7323 section 2.4).
        let edge = acknowledged + window;
        assert!(edge + (1 << scale) > end.said_edge, "the window shrinks to {edge}");
        end.said_edge = end.said_edge.max(edge);
        for (from, until) in &parsed.options.sack {
            let at = |sequence| offset(isn, sequence, acknowledged);
            check_block(&peer.arrived, at(*from)..at(*until), peer.fin_arrived, peer.written);
        }
    }

    /// A segment arrives at `to`.
    pub(crate) fn delivered(&mut self, to: Side, segment: &[u8]) {
        let parsed = Parsed::new(segment);
        if parsed.has(RST) {
            return;
        }
        let both_scale = self.client.scale.is_some() && self.server.scale.is_some();
        let (end, peer) = match to {
            Side::Client => (&mut self.client, &mut self.server),
            Side::Server => (&mut self.server, &mut self.client),
        };
        let mut is_acceptable = true;
        if parsed.has(SYN) {
            // A listener that keeps nothing may answer two SYNs with two numbers: the first one that arrives counts.
            peer.isn.get_or_insert(parsed.sequence);
        } else if let Some(isn) = peer.isn {
            let start = offset(isn, parsed.sequence, peer.sent_below);
            // RFC 9293 section 3.10.7.4: a segment outside the window may be ignored, including its ACK.
            let whole = peer.arrived.unbroken();
            let expected = whole + u64::from(peer.fin_arrived && whole == peer.written);
            let until = start + parsed.payload.len() as i64 + i64::from(parsed.has(FIN));
            is_acceptable = start < end.said_edge as i64
                && (until > expected as i64 || start >= expected as i64);
            if !parsed.payload.is_empty() {
                let start = u64::try_from(start).expect("checked when sent");
                peer.arrived.insert(start..start + parsed.payload.len() as u64);
            }
            peer.fin_arrived |= parsed.has(FIN);
        }
        if let (true, Some(isn)) = (parsed.has(ACK), end.isn) {
            let acknowledged = offset(isn, parsed.ack, end.heard_acknowledged);
            let acknowledged = u64::try_from(acknowledged).unwrap_or(0);
            let scale = match peer.scale {
                Some(scale) if both_scale && !parsed.has(SYN) => scale,
                _ => 0,
            };
            let edge = acknowledged + (u64::from(parsed.window) << scale);
            if is_acceptable {
                end.heard_acknowledged = end.heard_acknowledged.max(acknowledged);
            }
            end.shown_edge = end.shown_edge.max(edge);
        }
    }
}

/// The offset of `sequence` in the stream that follows the SYN at `isn`: the one nearest to `near`.
fn offset(isn: u32, sequence: u32, near: u64) -> i64 {
    let expected = isn.wrapping_add(1).wrapping_add(near as u32);
    near as i64 + i64::from(sequence.wrapping_sub(expected) as i32)
}

/// RFC 2018, RFC 2883: only bytes that arrived are reported, whether they are new or arrived twice.
fn check_block(arrived: &Ranges, block: Range<i64>, fin_arrived: bool, written: u64) {
    assert!(0 <= block.start && block.start < block.end, "SACK of {block:?}");
    let (start, mut end) = (block.start as u64, block.end as u64);
    if fin_arrived && end == written + 1 {
        end = written;
    }
    assert!(start == end || arrived.holds(&(start..end)), "SACK of {block:?}, {arrived:?} came");
}
