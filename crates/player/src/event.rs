//! What a player has to tell while it plays.

use crate::Time;
use crate::failure::Failure;
use crate::pathways::Move;
use crate::request::RequestKind;
use std::time::Duration;

/// Something happened that a viewer, or somebody who looks for a cause, would notice.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Playback began.
    Started {
        /// The play delay.
        after: Duration,
    },
    /// The buffer ran empty.
    Stalled {
        /// When.
        at: Time,
        /// Why, as far as is known when it begins.
        reason: StallReason,
    },
    /// Playback goes on after a stall or a seek.
    Resumed {
        /// When.
        at: Time,
        /// How long the viewer waited.
        after: Duration,
    },
    /// The viewer jumped.
    Sought {
        /// To this position.
        to: Duration,
        /// Whether the player had it in its buffer.
        is_buffered: bool,
    },
    /// The next segment has another bit rate.
    Switched {
        /// The track.
        track: usize,
        /// The rendition before.
        from: usize,
        /// The rendition from now on.
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
        /// What was requested.
        kind: RequestKind,
        /// Where.
        pathway: usize,
        /// Why it failed.
        failure: Failure,
    },
    /// The player gave a request up, because a lower bit rate or another pathway will be faster.
    Abandoned {
        /// The track.
        track: usize,
        /// Where.
        pathway: usize,
        /// Bytes that came for nothing.
        bytes: u64,
    },
    /// A part of the film is missing, and the player leaves it out.
    Skipped {
        /// Where the part begins.
        position: Duration,
        /// How long it is.
        length: Duration,
    },
    /// The viewer or the player gave up.
    GaveUp {
        /// Why.
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
    /// Bytes came, but too slowly.
    SlowNetwork,
    /// No bytes came.
    Silence,
    /// Requests failed.
    Failures,
    /// A playlist, an index or a live stream's next segment was missing.
    Manifest,
}

impl StallReason {
    /// All of them, in the order of [`StallReason::index`].
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

    /// Its place in [`StallReason::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Why a session ended before its time.
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
    /// It has not ended.
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
