//! What a player is told before it begins: how it chooses, how much it holds, and what its viewer will do.

use crate::abr::Rule;
use crate::pathways::PathwayPolicy;
use std::sync::Arc;
use std::time::Duration;

/// A player's settings and its viewer's habits.
#[derive(Clone, Debug)]
pub struct PlayerOptions {
    /// How the player chooses among bit rates.
    pub rule: Rule,
    /// The most media that the player holds ahead of the playhead.
    pub buffer_max: Duration,
    /// Media to hold before playback begins.
    pub start_at: Duration,
    /// Media to hold before playback goes on after a stall or a seek.
    pub resume_at: Duration,
    /// How the player chooses among pathways.
    pub policy: PathwayPolicy,
    /// How long to wait for the first or the next byte of a response if there is no other pathway.
    pub patience: Duration,
    /// The session's name for CMCD, at most 64 characters; without it the player sends no CMCD.
    pub cmcd: Option<Arc<str>>,
    /// The viewer leaves after waiting this long for playback to begin or to go on.
    pub give_up_after: Option<Duration>,
    /// What the viewer does while watching, in the order of time.
    pub plan: Vec<Act>,
    /// How long the viewer stays, counted from the session's beginning.
    pub leave_after: Option<Duration>,
}

impl Default for PlayerOptions {
    fn default() -> Self {
        Self {
            rule: Rule::Throughput,
            // What a viewer of this fleet holds: enough to outlast the loss of a node.
            buffer_max: Duration::from_secs(120),
            start_at: Duration::from_secs(2),
            resume_at: Duration::from_secs(2),
            policy: PathwayPolicy::default(),
            // hls.js gives a fragment 10 s for its first byte.
            patience: Duration::from_secs(10),
            cmcd: None,
            give_up_after: None,
            plan: Vec::new(),
            leave_after: None,
        }
    }
}

/// Something that the viewer does, drawn before the session begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    /// When, by the wall clock, counted from when playback first began. If the player is stalled then, the act waits
    /// until it plays again.
    pub at: Duration,
    /// What.
    pub deed: Deed,
}

/// What a viewer does besides watching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Jump to this position of the film, or to its end if it is shorter.
    SeekTo(Duration),
    /// Jump this far ahead.
    SeekForward(Duration),
    /// Jump this far back.
    SeekBack(Duration),
    /// Stop playing for this long.
    Pause(Duration),
}
