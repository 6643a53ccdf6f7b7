//! Events that a player reports while it plays.

use crate::Time;
use crate::failure::Failure;
use crate::pathways::Move;
use crate::request::RequestKind;
use std::time::Duration;

/// An event that a viewer, or someone who investigates a problem, would notice.
#[derive(Clone, Debug, PartialEq)]
pub enum PlayerEvent {
    /// Playback began.
    Started {
        /// The play delay.
        after: Duration,
    },
    /// The buffer ran empty.
    Stalled {
        /// The time.
        at: Time,
        /// The reason, as far as it is known when the stall begins.
        reason: StallReason,
    },
    /// Playback resumed after a stall or a seek.
    Resumed {
        /// The time.
        at: Time,
        /// How long the viewer waited.
        after: Duration,
    },
    /// The viewer jumped.
    Sought {
        /// The new position.
        to: Duration,
        /// True if the player had it in its buffer.
        is_buffered: bool,
    },
    /// The next segment has another bit rate.
    Switched {
        /// The track.
        track: usize,
        /// The previous rendition.
        from: usize,
        /// The new rendition.
        to: usize,
    },
    /// The player changed its pathway.
    Moved(Move),
    /// A probe of another pathway is complete.
    Probed {
        /// The pathway.
        pathway: usize,
        /// Bytes of the probe.
        bytes: u64,
        /// From the request to the last byte.
        took: Duration,
    },
    /// A request failed.
    Failed {
        /// The kind of request.
        kind: RequestKind,
        /// Its pathway.
        pathway: usize,
        /// Why it failed.
        failure: Failure,
    },
    /// The player gave up a request, because a lower bit rate or another pathway will be faster.
    Abandoned {
        /// The track.
        track: usize,
        /// The pathway of the request.
        pathway: usize,
        /// Bytes that were received in vain.
        bytes: u64,
    },
    /// A part of the film is missing, and the player skips it.
    Skipped {
        /// Where the part begins.
        position: Duration,
        /// The part's length.
        length: Duration,
    },
    /// The viewer or the player gave up.
    GaveUp {
        /// The reason.
        reason: GiveUp,
    },
    /// The film is over.
    Ended,
    /// The viewer left.
    Left,
}

/// Why the buffer ran empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StallReason {
    /// Bytes arrived, but too slowly.
    SlowNetwork,
    /// No bytes arrived.
    Silence,
    /// Requests failed.
    Failures,
    /// A playlist, an index or a live stream's next segment was missing.
    Manifest,
}

impl StallReason {
    /// All reasons, in the order of [`StallReason::index`].
    pub const ALL: [Self; 4] = [Self::SlowNetwork, Self::Silence, Self::Failures, Self::Manifest];

    /// The label under which it is counted.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SlowNetwork => "slow_network",
            Self::Silence => "silence",
            Self::Failures => "failures",
            Self::Manifest => "manifest",
        }
    }

    /// Its index in [`StallReason::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Why a session ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GiveUp {
    /// The viewer waited too long for playback to begin.
    Start,
    /// The viewer waited too long in a stall.
    Stall,
    /// The viewer waited too long after a seek.
    Seek,
    /// The manifest cannot be fetched or read.
    Manifest,
    /// Too many segments in a row are missing or damaged.
    Segments,
}

impl GiveUp {
    /// The label under which it is counted.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stall => "stall",
            Self::Seek => "seek",
            Self::Manifest => "manifest",
            Self::Segments => "segments",
        }
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It is still going on.
    Watching,
    /// The film is over.
    Finished,
    /// The viewer left as planned.
    Left,
    /// The viewer or the player gave up.
    GaveUp(GiveUp),
}

impl Ending {
    /// The label under which it is counted.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Watching => "watching",
            Self::Finished => "finished",
            Self::Left => "left",
            Self::GaveUp(_) => "gave_up",
        }
    }
}
