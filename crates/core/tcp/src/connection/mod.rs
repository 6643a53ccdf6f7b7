//! A connection after its handshake (and, for an active open, from its SYN on).
//!
//! `arrive.rs` checks a segment in the order of RFC 9293 section 3.10.7.4, `reports.rs` collects what an ACK and its SACK blocks report,
//! `acknowledge.rs` draws the conclusions, `room.rs` decides how much may be sent, `want.rs` which bytes to request, `supply.rs` cuts them to size,
//! `control.rs` writes headers and segments without payload, `expire.rs` handles the timers, `path.rs` tracks the segment size, `figures.rs` computes
//! when the timers are due. `state.rs` has the parts.
//!
//! Positions are offsets in the two streams. On the send side the FIN counts as one byte after the last: `sent_below`
//! and `acknowledged` may be `written + 1`.
//!
//! Invariants: `acknowledged <= sent_below <= written + 1`; the scoreboard covers `acknowledged..sent_below`;
//! `asked_below >= sent_below`, except for the FIN.

mod acknowledge;
mod arrive;
mod control;
mod declined;
mod expire;
mod figures;
mod path;
mod reports;
mod room;
mod state;
mod supply;
mod want;

use declined::Declined;
use path::Path;
use state::{
    Acking, DeliveryRate, Due, FirstRetransmission, News, PeerWindow, Probe, Queued, Stage, Stamps,
    Timers, Waiting,
};

use crate::agreed::Agreed;
use crate::alarms::Armed;
use crate::clock::{Time, micros};
use crate::congestion::{Congestion, Pace, Pacer, Start};
use crate::keyed::Pair;
use crate::rack::Rack;
use crate::receive::{Buffers, Receive};
use crate::rtt::Rtt;
use crate::scoreboard::Scoreboard;
use crate::seq::Seq;
use crate::{CloseReason, Config, Event, Statistics};

/// The parts of its endpoint that a connection needs while it works.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) config: &'a Config,
    pub(crate) statistics: &'a mut Statistics,
    pub(crate) buffers: &'a mut Buffers,
}

/// A connection's initial values.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) pair: Pair,
    pub(crate) isn: Seq,
    pub(crate) peer_isn: Seq,
    pub(crate) agreed: Agreed,
    pub(crate) timestamp_offset: u32,
    /// The peer's timestamp, from its SYN.
    pub(crate) timestamp_recent: u32,
    /// How long the answer in the handshake took, if known.
    pub(crate) rtt_us: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) pair: Pair,
    stage: Stage,
    agreed: Agreed,
    isn: Seq,
    peer_isn: Seq,
    stamps: Stamps,

    written: u64,
    finishing: bool,
    acknowledged: u64,
    sent_below: u64,
    asked_below: u64,
    /// New bytes that pacing has already counted.
    paced_below: u64,
    window: PeerWindow,
    segment_bytes: u64,
    path: Path,
    board: Scoreboard,
    rtt: Rtt,
    rack: Rack,
    congestion: Congestion,
    pacer: Pacer,
    probe: Probe,
    /// Duplicate ACKs, where there are no SACKs (RFC 5681 section 3.2).
    duplicate_acks: u64,
    first_retransmission: FirstRetransmission,
    /// Bytes retransmitted in this recovery and not reported as duplicate. At zero, there was no loss.
    undo_bytes: Option<u64>,
    /// Timeouts in a row without progress.
    timeouts: u32,
    cwr_owed: bool,
    waiting: Waiting,
    declined: Declined,
    /// SWS avoidance is overridden once (RFC 9293 section 3.8.6.2.1, case 4).
    crumbs_allowed: bool,
    persist_backoff: u32,
    retransmitted_bytes: u64,
    delivery: DeliveryRate,
    /// The time since which nothing has been in flight.
    idle_since: Time,
    /// The time since which the windows have allowed more than there is to send, if the rate is measured.
    spare_since: Time,

    receive: Receive,
    acking: Acking,
    finished_told: bool,
    /// The caller has released it.
    is_let_go: bool,
    /// Our FIN was sent before the peer's arrived: this side enters TIME-WAIT.
    closed_first: bool,

    heard_at: Time,
    progress_at: Time,
    silent_probes: u8,
    challenges: u8,
    challenges_since: Time,
    timers: Timers,
    due: Due,
    news: News,
    ended: Option<CloseReason>,
    pub(crate) queued: Queued,
    /// This connection's deadlines among the endpoint's.
    pub(crate) armed: Armed,
}

impl Connection {
    /// A connection that a peer has opened. Only the segment that completes its handshake is missing; pass that to [`Connection::arrive`] next.
    pub(crate) fn accepted(beginning: Beginning, cx: &mut Context<'_>) -> Self {
        cx.statistics.accepted += 1;
        let mut connection = Connection::new(beginning, cx);
        connection.news.accepted = true;
        connection
    }

    /// A connection that this side opens.
    pub(crate) fn opening(
        pair: Pair,
        isn: Seq,
        timestamp_offset: u32,
        cx: &mut Context<'_>,
    ) -> Self {
        let beginning = Beginning {
            pair,
            isn,
            peer_isn: Seq(0),
            agreed: Agreed::nothing(),
            timestamp_offset,
            timestamp_recent: 0,
            rtt_us: None,
        };
        let mut connection = Connection::new(beginning, cx);
        connection.stage = Stage::SynSent { tries: 0 };
        connection.due.syn = true;
        connection.timers.retransmit = cx.now.after_us(connection.rtt.rto_us());
        connection
    }

    fn new(beginning: Beginning, cx: &Context<'_>) -> Self {
        let Beginning { pair, agreed, .. } = beginning;
        let segment_bytes = u64::from(agreed.segment_bytes(&pair, cx.config.mtu_bytes));
        let mut connection = Connection {
            pair,
            stage: Stage::Open,
            agreed,
            isn: beginning.isn,
            peer_isn: beginning.peer_isn,
            stamps: Stamps {
                offset: beginning.timestamp_offset,
                recent: beginning.timestamp_recent,
                recent_at: cx.now,
            },
            written: 0,
            finishing: false,
            acknowledged: 0,
            sent_below: 0,
            asked_below: 0,
            paced_below: 0,
            window: PeerWindow { right: 0, seq: beginning.peer_isn, ack: 0, largest: 0 },
            segment_bytes,
            path: Path::new(segment_bytes),
            board: Scoreboard::default(),
            rtt: Rtt::new(cx.now),
            rack: Rack::new(),
            congestion: new_congestion(beginning.isn, segment_bytes, cx),
            pacer: Pacer::new(cx.config.pacing, u64::from(cx.config.pace_bytes_min)),
            probe: Probe::None,
            duplicate_acks: 0,
            first_retransmission: FirstRetransmission::None,
            undo_bytes: None,
            timeouts: 0,
            cwr_owed: false,
            waiting: Waiting::default(),
            declined: Declined::default(),
            crumbs_allowed: false,
            persist_backoff: 0,
            retransmitted_bytes: 0,
            delivery: DeliveryRate { round_end: 0, since: cx.now, bytes: 0, per_second: 0 },
            idle_since: cx.now,
            spare_since: Time::NEVER,
            receive: Receive::new(cx.config.receive_bytes_max, cx.config.receive_ranges_max),
            acking: Acking {
                unacknowledged_bytes: 0,
                last_sent: 0,
                segment_bytes: 1,
                quick: 4,
                echo_mark: false,
            },
            finished_told: false,
            is_let_go: false,
            closed_first: false,
            heard_at: cx.now,
            progress_at: cx.now,
            silent_probes: 0,
            challenges: 0,
            challenges_since: cx.now,
            timers: Timers::none(),
            due: Due::default(),
            news: News::default(),
            ended: None,
            queued: Queued::default(),
            armed: Armed::NOT,
        };
        if let Some(rtt_us) = beginning.rtt_us {
            connection.take_rtt(cx.now, rtt_us, 1);
        }
        connection
    }

    /// The sequence number of an offset of our stream: the SYN has the first one (RFC 9293 section 3.4).
    fn seq_of(&self, offset: u64) -> Seq {
        self.isn.plus(1).plus(offset)
    }

    /// The sequence number of an offset of the peer's stream.
    fn peer_seq_of(&self, offset: u64) -> Seq {
        self.peer_isn.plus(1).plus(offset)
    }

    /// Returns true if our FIN was sent at least once.
    fn fin_sent(&self) -> bool {
        self.sent_below > self.written
    }

    fn fin_acknowledged(&self) -> bool {
        self.acknowledged > self.written
    }

    fn is_open(&self) -> bool {
        self.stage == Stage::Open && self.ended.is_none()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Ends the connection. Only its last event remains.
    fn end(&mut self, reason: CloseReason, cx: &mut Context<'_>) {
        if self.ended.is_some() {
            return;
        }
        cx.statistics.ended += 1;
        self.ended = Some(reason);
        self.news.ended = true;
        self.timers = Timers::none();
        // If a FIN ends it, that FIN is still acknowledged.
        self.due = Due { ack: reason == CloseReason::Closed && self.due.ack, ..Due::default() };
        self.receive.release(cx.buffers);
    }

    /// Returns true if both directions are finished and everything is acknowledged.
    fn is_closed(&self) -> bool {
        self.fin_acknowledged() && self.receive.is_finished()
    }

    /// Unread bytes keep a closed connection, though not forever.
    fn end_if_closed(&mut self, cx: &mut Context<'_>) {
        if !self.is_open() || !self.is_closed() {
            return;
        }
        if self.receive.readable_bytes() == 0 {
            self.end(CloseReason::Closed, cx);
        } else if !self.timers.fin_wait.is_set() {
            self.timers.fin_wait = cx.now.after_us(micros(cx.config.fin_wait));
        }
    }

    /// Returns true if the endpoint has to remember this connection in TIME-WAIT (RFC 9293 section 3.6.1).
    pub(crate) fn leaves_time_wait(&self) -> bool {
        self.ended == Some(CloseReason::Closed) && self.closed_first
    }

    /// The next event, in the order of [`Event`].
    pub(crate) fn take_event(&mut self) -> Option<Event> {
        let take = std::mem::take::<bool>;
        if take(&mut self.news.accepted) {
            return Some(Event::Accepted);
        }
        if take(&mut self.news.connected) {
            return Some(Event::Connected);
        }
        if take(&mut self.news.readable) {
            return Some(Event::Readable);
        }
        if take(&mut self.news.acknowledged) {
            return Some(Event::Acknowledged { below: self.acknowledged.min(self.written) });
        }
        if take(&mut self.news.sendable) {
            return Some(Event::Sendable);
        }
        if take(&mut self.news.finished) {
            return Some(Event::Finished);
        }
        if take(&mut self.news.ended) {
            return self.ended.map(Event::Ended);
        }
        None
    }

    pub(crate) fn has_event(&self) -> bool {
        let News { accepted, connected, readable, acknowledged, sendable, finished, ended } =
            self.news;
        accepted || connected || readable || acknowledged || sendable || finished || ended
    }

    pub(crate) fn write(&mut self, bytes: u64) {
        debug_assert!(!self.finishing, "written after finish");
        if !self.finishing {
            self.written += bytes;
        }
    }

    pub(crate) fn finish(&mut self) {
        self.finishing = true;
    }

    /// Releases the connection: its caller reads and writes no more. False: it has ended, or was released before.
    pub(crate) fn let_go(&mut self, cx: &mut Context<'_>) -> bool {
        if self.ended.is_some() || std::mem::replace(&mut self.is_let_go, true) {
            return false;
        }
        self.finishing = true;
        self.receive.throw_away(cx.buffers);
        self.end_if_closed(cx);
        self.ended.is_none()
    }

    pub(crate) fn limit_rate(&mut self, bytes_per_second: Option<u64>) {
        self.pacer.limit(bytes_per_second);
    }

    /// Returns received bytes. If that opens the window enough, the new window is announced.
    pub(crate) fn read(&mut self, into: &mut [u8], cx: &mut Context<'_>) -> usize {
        let count = self.receive.read(into, cx.buffers);
        if self.is_open()
            && !self.receive.end_is_known()
            && self.receive.window_growth(self.acking.segment_bytes) > 0
        {
            // Only if the peer may be waiting for it, because less than half of the buffer was left.
            self.due.ack |= self.receive.window() < u64::from(cx.config.receive_bytes_max) / 2;
        }
        self.end_if_closed(cx);
        count
    }

    /// Returns true if the peer should answer: it owes an acknowledgement for bytes in flight, or for bytes that it has reported by SACK and never
    /// acknowledged. If everything else is lost, it is up to the caller to act.
    fn peer_owes(&self) -> bool {
        self.board.outstanding_bytes() > 0 || self.board.ranges() > 0 && !self.board.has_lost()
    }

    /// Estimated bytes in the network. Without SACKs each duplicate ACK stands for a segment that has left the network
    /// (RFC 5681 section 3.2). A FIN takes no room: it is not payload, and one byte must not delay a segment.
    pub(crate) fn in_flight(&self) -> u64 {
        let fin = u64::from(self.fin_sent() && !self.fin_acknowledged());
        self.board
            .outstanding_bytes()
            .saturating_sub(self.duplicate_acks * self.segment_bytes + fin)
    }

    /// Takes one measurement that stands for those of `acks` acknowledgements.
    fn take_rtt(&mut self, now: Time, rtt_us: u64, acks: u32) {
        let samples = self.board.outstanding_bytes().div_ceil(2 * self.segment_bytes);
        let samples = samples.div_ceil(acks.into());
        self.rtt.sample(now, rtt_us, samples);
        // Sends within a 16th of a round trip are remembered as one, so that a full window is few ranges. That is a quarter of RACK's waiting time.
        self.board.set_spread_us_max(self.rtt.srtt_us() / 16);
    }

    fn update_pace(&mut self) {
        let (srtt_us, least_us) = (self.rtt.srtt_us(), self.rtt.minimum_us());
        match self.congestion.pace() {
            Pace::Window { bytes, slow_start } => {
                self.pacer.update(bytes.max(self.in_flight()), srtt_us, least_us, slow_start);
            }
            Pace::Rate(bytes_per_second) => self.pacer.follow(bytes_per_second, least_us),
        }
    }
}

fn new_congestion(isn: Seq, segment_bytes: u64, cx: &Context<'_>) -> Congestion {
    let start = Start {
        now: cx.now,
        mss: segment_bytes,
        initial_segments: u64::from(cx.config.initial_window_segments.max(1)),
        cwnd_max: u64::from(cx.config.window_bytes_max),
        // Differs between connections, and is the same for the same secret.
        seed: u64::from(isn.0),
    };
    Congestion::new(cx.config.congestion_control, &start)
}
