//! What a gateway knows of one node, and which state follows from it.

use std::time::Duration;

use fleet::{
    Condition, Digest, FillProgress, Heartbeat, Load, NotMe, Receipt, ServedAt, SnapshotNode, State,
};

use super::world::{WantedDrain, WantedNode};
use crate::clock::Now;

/// A node is lost when it has been silent for this long: three heartbeats.
pub const SILENCE_OF_DEATH: Duration = Duration::from_secs(15);

/// What a node has said, or what was known of it before this gateway started.
#[derive(Debug, Default)]
pub(super) struct LiveNode {
    /// Its newest heartbeat; `None` until this gateway gets one.
    pub(super) heard: Option<Heard>,
    /// What the gateway's snapshot on disk said of it, until it speaks.
    pub(super) restored: Option<SnapshotNode>,
    /// When it last spoke, for measuring silence. `None` for a node of which nothing is known: it is joining, and cannot fall silent.
    pub(super) spoke: Option<Duration>,
    /// The inventory that `held` is from.
    pub(super) inventory: Option<Digest>,
    /// What it holds: numbers of the shelf, rising.
    pub(super) held: Vec<u32>,
    /// It has said what it knows to be gone, to a gateway whose store came out of a backup.
    pub(super) gave_back: bool,
    /// The state that was told last, and since when.
    pub(super) told: Option<(State, u64)>,
}

/// A heartbeat, as far as it is kept.
#[derive(Debug)]
pub(super) struct Heard {
    /// The agent that sent it.
    pub(super) boot: String,
    /// The agent before that one.
    pub(super) boot_before: Option<String>,
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
    /// Whether `beat` is not newer than what is known: it comes twice, late, or from an agent that another one replaced.
    pub(super) fn is_stale(&self, beat: &Heartbeat) -> bool {
        self.heard.as_ref().is_some_and(|heard| {
            let is_repeated = heard.boot == beat.boot && beat.sequence <= heard.sequence;
            is_repeated || heard.boot_before.as_ref() == Some(&beat.boot)
        })
    }

    /// Takes a heartbeat, and gives back the receipts in it.
    pub(super) fn hear(&mut self, beat: Heartbeat, now: Now) -> Vec<Receipt> {
        let before = self.heard.take();
        let boot_before = before.and_then(|heard| match heard.boot == beat.boot {
            true => heard.boot_before,
            false => Some(heard.boot),
        });
        let ahead = i128::from(beat.sent_unix_millis) - i128::from(now.unix_millis);
        self.heard = Some(Heard {
            boot: beat.boot,
            boot_before,
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

    /// How long it has been silent; `None` if it has not spoken yet.
    pub(super) fn silence(&self, now: Now) -> Option<Duration> {
        self.spoke.map(|spoke| now.uptime.saturating_sub(spoke))
    }

    /// Its state. `is_doubted`: the gateway doubts its own hearing, so silence means nothing.
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
    pub(super) fn not_me(&self) -> &[NotMe] {
        match (&self.heard, &self.restored) {
            (Some(Heard { condition: Condition::NotMe(reasons), .. }), _) => reasons,
            (None, Some(restored)) => &restored.not_me,
            _ => &[],
        }
    }

    /// What it may carry: what it says, but no more than the operator allows.
    pub(super) fn ceiling_bits_per_second(&self, wanted: &WantedNode) -> u64 {
        let said = match (&self.heard, &self.restored) {
            (Some(heard), _) => heard.load.ceiling_bits_per_second,
            (None, Some(restored)) => restored.ceiling_bits_per_second,
            (None, None) => 0,
        };
        said.min(wanted.ceiling_bits_per_second.unwrap_or(u64::MAX))
    }

    /// Load beside ceiling, in thousandths.
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
    fn state(&self, is_draining: bool) -> State {
        match (is_draining, &self.condition) {
            (true, _) if self.load.connections == 0 => State::Drained,
            (true, _) => State::Draining,
            (false, Condition::Starting) => State::Joining,
            (false, Condition::Ready | Condition::NotMe(_)) => State::Serving,
        }
    }
}

/// A state from disk is believed until the node speaks, but for what the operator has changed meanwhile.
fn restored_state(state: State, is_draining: bool) -> State {
    match (state, is_draining) {
        (State::Serving, true) => State::Draining,
        (State::Draining | State::Drained | State::Revoked, false) => State::Serving,
        (state, _) => state,
    }
}

/// Why a node is in its state, in words, if it does not just serve.
pub(super) fn why(
    state: State,
    silence: Option<Duration>,
    drain: Option<&WantedDrain>,
) -> Option<String> {
    match state {
        State::Serving => None,
        State::Joining => Some("it has not said yet that it serves".to_owned()),
        State::Draining | State::Drained => drain.map(|drain| drain.reason.clone()),
        State::Lost => Some(silence.map_or_else(
            || "silent since before this gateway started".to_owned(),
            |silence| format!("silent for {} s", silence.as_secs()),
        )),
        State::Revoked => Some("revoked".to_owned()),
    }
}
