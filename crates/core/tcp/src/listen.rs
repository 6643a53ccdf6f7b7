//! Segments without a connection: handshakes on the passive side, TIME-WAIT, and strays.

use crate::agreed::{Agreed, syn_asks_for_ecn};
use crate::alarms::Owner;
use crate::clock::Time;
use crate::connection::{Beginning, Connection};
use crate::cookie;
use crate::endpoint::{Endpoint, Slot};
use crate::half_open::{HalfOpen, Meaning, syn_ack};
use crate::header::{Flags, Incoming, Options, Outgoing};
use crate::keyed::Pair;
use crate::segment::Transmit;
use crate::seq::Seq;
use crate::time_wait::Verdict;
use crate::{Ecn, Id};

/// RFC 6191 does not say how far ahead the numbers of a reused pair must be: we use the span of one unscaled window, as
/// Linux does.
const REUSE_AHEAD: u64 = 65_537;

impl Endpoint {
    /// RFC 9293 section 3.10.7.1 and 3.10.7.2: CLOSED and LISTEN.
    pub(crate) fn arrive_unknown(
        &mut self,
        now: Time,
        pair: &Pair,
        ecn: Ecn,
        segment: &Incoming<'_>,
    ) {
        if segment.flags.has(Flags::RST) {
            self.statistics.no_connection += 1;
            return;
        }
        let listens = self.config.listen.contains(&pair.local.port());
        let syn = segment.flags.has(Flags::SYN);
        if listens && syn && !segment.flags.has(Flags::ACK) {
            let isn = self.keyed.isn(now, pair);
            return self.arrive_syn(now, pair, isn, segment);
        }
        if listens && !syn && segment.flags.has(Flags::ACK) && self.expects_cookies(now) {
            return self.arrive_cookie(now, pair, ecn, segment);
        }
        self.statistics.no_connection += 1;
        self.send_reset(pair, segment);
    }

    fn arrive_syn(&mut self, now: Time, pair: &Pair, isn: Seq, segment: &Incoming<'_>) {
        if segment.flags.has(Flags::FIN) {
            self.statistics.syn_malformed += 1;
            return;
        }
        let asks_for_ecn = syn_asks_for_ecn(segment.flags);
        let agreed = Agreed::from_syn(&self.config, pair, &segment.options, asks_for_ecn);
        let offset = self.keyed.timestamp_offset(pair);
        let half_open = HalfOpen::new(*pair, isn, segment, agreed, offset);
        match self.half_open.insert(half_open) {
            Some(id) => {
                self.statistics.syn_queued += 1;
                self.pairs.insert(*pair, Slot::HalfOpen(id));
                self.answer(now, id);
            }
            None => self.send_cookie(now, pair, segment, &agreed),
        }
    }

    /// Sends a half-open connection's SYN-ACK.
    fn answer(&mut self, now: Time, id: Id) {
        let Some(half_open) = self.half_open.get_mut(id) else { return };
        let transmit = half_open.answer(now, &self.config);
        self.alarms.set(Owner::HalfOpen(id), half_open.deadline(), &mut half_open.armed);
        self.reply(transmit);
    }

    pub(crate) fn wake_half_open(&mut self, now: Time, time: Time, id: Id) {
        let Some(half_open) = self.half_open.get_mut(id) else { return };
        if !half_open.armed.take(time) {
            return;
        }
        if half_open.deadline() > now {
            let deadline = half_open.deadline();
            self.alarms.set(Owner::HalfOpen(id), deadline, &mut half_open.armed);
        } else if half_open.is_spent() {
            self.statistics.half_open_expired += 1;
            self.forget_half_open(id);
        } else {
            self.answer(now, id);
        }
    }

    fn forget_half_open(&mut self, id: Id) -> Option<HalfOpen> {
        let half_open = self.half_open.remove(id)?;
        self.pairs.remove(&half_open.pair);
        Some(half_open)
    }

    pub(crate) fn arrive_half_open(&mut self, now: Time, id: Id, ecn: Ecn, segment: &Incoming<'_>) {
        let window = self.config.receive_bytes_max;
        let Some(half_open) = self.half_open.get(id) else { return };
        let pair = half_open.pair;
        match half_open.meaning(segment, window) {
            Meaning::Nothing => self.statistics.outside_window += 1,
            Meaning::Again => self.answer_again(now, id),
            Meaning::Aborts => {
                self.statistics.reset_received += 1;
                self.forget_half_open(id);
            }
            Meaning::Wrong => {
                self.statistics.ack_unsent += 1;
                self.send_reset(&pair, segment);
            }
            Meaning::Completes => self.complete(now, id, ecn, segment),
        }
    }

    /// Answers a repeated SYN. This neither moves the answer's timer nor uses up a try: a flood of one SYN keeps nothing alive.
    fn answer_again(&mut self, now: Time, id: Id) {
        let Some(half_open) = self.half_open.get_mut(id) else { return };
        let transmit = half_open.repeat(now, &self.config);
        self.reply(transmit);
    }

    fn complete(&mut self, now: Time, id: Id, ecn: Ecn, segment: &Incoming<'_>) {
        if !self.has_place() {
            // It stays half-open: there may be room when the peer's next segment arrives, or its SYN-ACKs run out.
            self.statistics.connections_full += 1;
            return;
        }
        let Some(half_open) = self.forget_half_open(id) else { return };
        let beginning = Beginning {
            pair: half_open.pair,
            isn: half_open.isn,
            peer_isn: half_open.peer_isn,
            agreed: half_open.agreed,
            timestamp_offset: half_open.timestamp_offset,
            timestamp_recent: half_open.timestamp,
            rtt_us: half_open.rtt_us(now),
        };
        self.begin(now, beginning, ecn, segment);
    }

    fn begin(&mut self, now: Time, beginning: Beginning, ecn: Ecn, segment: &Incoming<'_>) {
        let connection = Connection::accepted(beginning, &mut self.context(now));
        if let Some(id) = self.admit(now, connection) {
            self.with(now, id, |connection, cx| connection.arrive(ecn, segment, cx));
        }
    }

    fn expects_cookies(&self, now: Time) -> bool {
        self.cookie_sent_at.is_set() && now.since_us(self.cookie_sent_at) <= cookie::lifetime_us()
    }

    /// Without room for a half-open connection, its whole state goes into the answer.
    fn send_cookie(&mut self, now: Time, pair: &Pair, segment: &Incoming<'_>, agreed: &Agreed) {
        self.statistics.syn_cookies_sent += 1;
        self.cookie_sent_at = now;
        let mut agreed = *agreed;
        if !agreed.timestamps {
            // Without timestamps, nothing comes back that could carry these options.
            agreed = Agreed { peer_shift: None, sack: false, ecn: false, ..agreed };
        }
        let isn = cookie::make(&self.keyed, now, pair, segment.seq, agreed.peer_mss);
        let stamp = self.keyed.timestamp_offset(pair).wrapping_add(now.milliseconds() as u32);
        let stamp = cookie::stamp_with_options(stamp, &agreed);
        let echo = segment.options.timestamps.map_or(0, |timestamps| timestamps.value);
        self.reply(syn_ack(&self.config, pair, isn, segment.seq, &agreed, stamp, echo));
    }

    fn arrive_cookie(&mut self, now: Time, pair: &Pair, ecn: Ecn, segment: &Incoming<'_>) {
        let (isn, peer_isn) = (segment.ack.minus(1), segment.seq.minus(1));
        let Some(peer_mss) = cookie::check(&self.keyed, now, pair, peer_isn, isn) else {
            // No RST: it may be a later segment that has overtaken the one with the cookie, and a flood of guesses deserves no answers.
            self.statistics.syn_cookies_refused += 1;
            return;
        };
        if !self.has_place() {
            self.statistics.connections_full += 1;
            return;
        }
        self.statistics.syn_cookies_accepted += 1;
        let timestamps = segment.options.timestamps;
        let agreed = match timestamps {
            Some(timestamps) => cookie::options_of(timestamps.echo, peer_mss).within(&self.config),
            None => Agreed { peer_mss, ..Agreed::nothing() },
        };
        let beginning = Beginning {
            pair: *pair,
            isn,
            peer_isn,
            agreed,
            timestamp_offset: self.keyed.timestamp_offset(pair),
            timestamp_recent: timestamps.map_or(0, |timestamps| timestamps.value),
            rtt_us: None,
        };
        self.begin(now, beginning, ecn, segment);
    }

    pub(crate) fn arrive_in_time_wait(
        &mut self,
        now: Time,
        id: Id,
        pair: &Pair,
        segment: &Incoming<'_>,
    ) {
        self.statistics.time_wait_hits += 1;
        match self.time_wait.judge(now, id, segment) {
            Verdict::Ignore => {}
            Verdict::Acknowledge(transmit) => self.reply(transmit),
            Verdict::Reuse(_) if !self.config.listen.contains(&pair.local.port()) => {}
            Verdict::Reuse(beyond) => {
                self.statistics.time_wait_reused += 1;
                self.time_wait.remove(id);
                self.pairs.remove(pair);
                let isn = self.keyed.isn(now, pair);
                let isn = if isn.ahead_of(beyond) > 0 { isn } else { beyond.plus(REUSE_AHEAD) };
                self.arrive_syn(now, pair, isn, segment);
            }
        }
    }

    /// RFC 9293 section 3.10.7.1: sends a RST that the sender of `segment` accepts.
    fn send_reset(&mut self, pair: &Pair, segment: &Incoming<'_>) {
        let (seq, ack, flags) = if segment.flags.has(Flags::ACK) {
            (segment.ack, Seq(0), Flags::RST)
        } else {
            (Seq(0), segment.seq.plus(segment.sequence_bytes()), Flags::RST.with(Flags::ACK))
        };
        self.statistics.resets_sent += 1;
        let header = Outgoing {
            source: pair.local.port(),
            destination: pair.remote.port(),
            seq,
            ack,
            flags,
            window: 0,
            options: Options::default(),
        };
        self.reply(Transmit::without_payload(pair, header.emit()));
    }
}
