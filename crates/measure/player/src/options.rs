//! A player's settings: how it chooses, how much it buffers, and what its viewer will do.

use crate::abr::Rule;
use crate::pathways::PathwayPolicy;
use std::sync::Arc;
use std::time::Duration;

/// A player's settings and its viewer's habits.
#[derive(Clone, Debug)]
pub struct PlayerOptions {
    /// The rule for choosing bit rates.
    pub rule: Rule,
    /// Limit on media buffered ahead of the playhead.
    pub buffer_max: Duration,
    /// Media to buffer before playback begins.
    pub start_at: Duration,
    /// Media to buffer before playback resumes after a stall or a seek.
    pub resume_at: Duration,
    /// The policy for choosing pathways.
    pub policy: PathwayPolicy,
    /// How long to wait for the first or the next byte of a response if there is no other pathway.
    pub patience: Duration,
    /// The session's name for CMCD, at most 64 characters. Without it, the player sends no CMCD.
    pub cmcd: Option<Arc<str>>,
    /// The viewer leaves after waiting this long for playback to begin or to resume.
    pub give_up_after: Option<Duration>,
    /// The viewer's actions, in order of time.
    pub plan: Vec<Act>,
    /// How long the viewer stays, from the beginning of the session.
    pub leave_after: Option<Duration>,
    /// The wall clock at time zero, since 1970, to compare with the dates of a live stream. `None`: its latency is measured by its list.
    pub clock: Option<Duration>,
}

impl Default for PlayerOptions {
    fn default() -> Self {
        Self {
            rule: Rule::Throughput,
            // The buffer of a viewer of this fleet: enough to survive the loss of a node.
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
            clock: None,
        }
    }
}

/// An action of the viewer, drawn before the session begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    /// The time, by the wall clock, since playback first began. If the player is stalled then, the action waits until it plays again.
    pub at: Duration,
    /// The action.
    pub deed: Deed,
}

/// Actions of a viewer other than watching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Jump to this position, or to the film's end if it is shorter.
    SeekTo(Duration),
    /// Jump forward by this much.
    SeekForward(Duration),
    /// Jump back by this much.
    SeekBack(Duration),
    /// Stop playing for this long.
    Pause(Duration),
}
