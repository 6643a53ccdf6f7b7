//! The live state of one node: its reports, and the state derived from them.

use std::time::Duration;

use fleet_protocol::{
    Condition, Digest, FillProgress, Heartbeat, Load, Receipt, ServedAt, SheddingReason,
    SnapshotNode, State,
};

use steering::NodeWeight;

use super::edges::EdgeStanding;
use super::refused::{Refused, TWO_MACHINES};
use super::world::WantedNode;
use crate::clock::Now;

/// A node is lost when it has been silent for this long: three heartbeats.
pub const SILENCE_OF_DEATH: Duration = Duration::from_secs(15);

/// Replaced agents remembered per node. If more machines than this share one name, alternating between them goes unnoticed.
const BOOTS_BEFORE_MAX: usize = 8;

/// A node's reports, or its state from before this gateway started.
#[derive(Debug, Default)]
pub(super) struct LiveNode {
    /// Its newest heartbeat; `None` until this gateway gets one.
    pub(super) heard: Option<Heard>,
    /// Its entry in the gateway's snapshot on disk, until its first heartbeat.
    pub(super) restored: Option<SnapshotNode>,
    /// When it last sent a heartbeat, for measuring silence. `None` for an unknown node: it is joining, and cannot fall silent.
    pub(super) spoke: Option<Duration>,
    /// The inventory on which `held` is based.
    pub(super) inventory: Option<Digest>,
    /// The versions that it holds: their numbers in the shelf, ascending.
    pub(super) held: Vec<u32>,
    /// Its reports on its edge.
    pub(super) edge: EdgeStanding,
    /// It has sent its list of revocations and withdrawals, to a gateway whose store comes from a backup.
    pub(super) gave_back: bool,
    /// The state logged last, and since when it holds.
    pub(super) told: Option<(State, u64)>,
    /// Its refused heartbeats.
    pub(super) refused: Refused,
    /// Its weight in the newest snapshot.
    pub(super) weight: Option<NodeWeight>,
}

/// The saved part of a heartbeat.
#[derive(Debug)]
pub(super) struct Heard {
    /// The agent that sent it.
    pub(super) boot: String,
    /// The agents before that one, most recent last.
    pub(super) boots_before: Vec<String>,
    pub(super) sequence: u64,
    pub(super) condition: Condition,
    pub(super) load: Load,
    /// How far its clock is ahead of the gateway's.
    pub(super) clock_ahead_millis: i64,
    pub(super) fill: Option<FillProgress>,
    pub(super) fill_bytes_per_day: Option<u64>,
    pub(super) served_at: Option<ServedAt>,
}

impl LiveNode {
    /// Whether `beat` is not newer than the last one: it is a duplicate, late, or from a replaced agent.
    pub(super) fn is_stale(&mut self, beat: &Heartbeat, now: Now) -> bool {
        let Some(heard) = &self.heard else { return false };
        let is_repeated = heard.boot == beat.boot && beat.sequence <= heard.sequence;
        let is_replaced = heard.boots_before.contains(&beat.boot);
        if is_replaced {
            self.refused.note_replaced(now);
        }
        is_repeated || is_replaced
    }

    /// Handles a heartbeat, and returns its receipts.
    pub(super) fn hear(&mut self, beat: Heartbeat, now: Now) -> Vec<Receipt> {
        let boots_before = self.heard.take().map(|heard| heard.boots_before_next(&beat.boot));
        let ahead = i128::from(beat.sent_unix_millis) - i128::from(now.unix_millis);
        self.heard = Some(Heard {
            boot: beat.boot,
            boots_before: boots_before.unwrap_or_default(),
            sequence: beat.sequence,
            condition: beat.condition,
            load: beat.load,
            fill: beat.fill,
            fill_bytes_per_day: beat.fill_bytes_per_day,
            served_at: beat.served_at,
            clock_ahead_millis: i64::try_from(ahead).unwrap_or(if ahead < 0 {
                i64::MIN
            } else {
                i64::MAX
            }),
        });
        self.restored = None;
        self.spoke = Some(now.uptime);
        beat.receipts
    }

    /// How long it has been silent; `None` if it has never sent a heartbeat.
    pub(super) fn silence(&self, now: Now) -> Option<Duration> {
        self.spoke.map(|spoke| now.uptime.saturating_sub(spoke))
    }

    /// Its state. `is_doubted`: the gateway distrusts its own connection, so silence is inconclusive.
    pub(super) fn state(&self, wanted: &WantedNode, now: Now, is_doubted: bool) -> State {
        let is_silent = self.silence(now).is_some_and(|silence| silence >= SILENCE_OF_DEATH);
        if wanted.is_revoked {
            return State::Revoked;
        }
        if is_silent && !is_doubted {
            return State::Lost;
        }
        let is_draining =
            wanted.drain.as_ref().is_some_and(|drain| drain.holds(now.unix_seconds()));
        match (&self.heard, &self.restored) {
            (Some(heard), _) => heard.state(is_draining),
            (None, Some(restored)) => restored_state(restored.state, is_draining),
            (None, None) => State::Joining,
        }
    }

    /// Why it wants no new viewers.
    pub(super) fn not_me(&self) -> &[SheddingReason] {
        match (&self.heard, &self.restored) {
            (Some(Heard { condition: Condition::NotMe(reasons), .. }), _) => reasons,
            (None, Some(restored)) => &restored.not_me,
            _ => &[],
        }
    }

    /// Whether it has ever sent a heartbeat, as far as this gateway knows.
    pub(super) fn has_spoken(&self) -> bool {
        self.heard.is_some()
            || self.restored.as_ref().is_some_and(|node| node.ceiling_bits_per_second > 0)
    }

    /// The ceiling that it reports; 0 if it reports none. Before its first heartbeat since this gateway started, its last known weight.
    pub(super) fn stated_bits_per_second(&self) -> u64 {
        match (&self.heard, &self.restored) {
            (Some(heard), _) => heard.load.ceiling_bits_per_second,
            (None, Some(restored)) => restored.ceiling_bits_per_second,
            (None, None) => 0,
        }
    }

    /// Its ceiling: the one that it reports, limited by the operator's; 0 if there is neither. Its weight relative to others is bounded further
    /// (`weights.rs`).
    pub(super) fn ceiling_bits_per_second(&self, wanted: &WantedNode) -> u64 {
        match (self.stated_bits_per_second(), wanted.ceiling_bits_per_second) {
            (stated, None) => stated,
            (0, Some(set)) => set,
            (stated, Some(set)) => stated.min(set),
        }
    }

    /// Load relative to the ceiling, in thousandths.
    pub(super) fn load_permille(&self, wanted: &WantedNode) -> u16 {
        match (&self.heard, &self.restored) {
            (Some(heard), _) => {
                let ceiling_bits_per_second = self.ceiling_bits_per_second(wanted);
                Load { ceiling_bits_per_second, ..heard.load }.permille()
            }
            (None, Some(restored)) => restored.load_permille,
            (None, None) => 0,
        }
    }
}

impl Heard {
    /// The agents before the next one.
    fn boots_before_next(self, boot: &str) -> Vec<String> {
        let mut before = self.boots_before;
        if self.boot != boot {
            before.push(self.boot);
            let too_many = before.len().saturating_sub(BOOTS_BEFORE_MAX);
            before.drain(..too_many);
        }
        before
    }

    fn state(&self, is_draining: bool) -> State {
        match (is_draining, &self.condition) {
            (true, _) if self.load.connections == 0 => State::Drained,
            (true, _) => State::Draining,
            (false, Condition::Starting) => State::Joining,
            (false, Condition::Ready | Condition::NotMe(_)) => State::Serving,
        }
    }
}

/// A state from disk stays valid until the node reports, apart from changes that the operator has made since.
fn restored_state(state: State, is_draining: bool) -> State {
    match (state, is_draining) {
        (State::Serving, true) => State::Draining,
        (State::Draining | State::Drained | State::Revoked, false) => State::Serving,
        (state, _) => state,
    }
}

/// Why a node is in its state, in words, plus further problems; `None` if it serves normally.
pub(super) fn why(live: &LiveNode, state: State, wanted: &WantedNode, now: Now) -> Option<String> {
    let why = match state {
        State::Serving => None,
        State::Joining => Some(match live.refused.reason(now) {
            None => "it has not reported yet that it serves".to_owned(),
            Some(refusal) => told_refused(refusal),
        }),
        State::Draining | State::Drained => wanted.drain.as_ref().map(|drain| drain.reason.clone()),
        State::Lost => Some(match (live.refused.reason(now), live.silence(now)) {
            (Some(refusal), _) => told_refused(refusal),
            (None, None) => "silent since before this gateway started".to_owned(),
            (None, Some(silence)) => format!("silent for {} s", silence.as_secs()),
        }),
        State::Revoked => Some("revoked".to_owned()),
    };
    match (live.refused.are_two(now), why) {
        (true, None) => Some(TWO_MACHINES.to_owned()),
        (true, Some(why)) => Some(format!("{why}; {TWO_MACHINES}")),
        (false, why) => why,
    }
}

fn told_refused(refusal: &str) -> String {
    format!("not silent: its heartbeats are refused ({refusal})")
}
