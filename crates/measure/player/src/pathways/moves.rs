//! A player's move from one pathway to another, and the reason.

use std::time::Duration;

use crate::Time;

/// A move from one pathway to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The time.
    pub at: Time,
    /// The pathway that was left.
    pub from: usize,
    /// The pathway of the next segments.
    pub to: usize,
    /// The reason.
    pub reason: MoveReason,
}

/// Why a player moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MoveReason {
    /// A request failed.
    FirstFailure,
    /// A request received no byte for too long.
    Silence,
    /// The buffer would not have lasted.
    TooSlow,
    /// The other pathway was measured to be faster.
    Better,
    /// Steering prefers the other pathway.
    Steered,
    /// Steering no longer names the pathway.
    Removed,
}

impl MoveReason {
    /// All reasons, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::FirstFailure,
        Self::Silence,
        Self::TooSlow,
        Self::Better,
        Self::Steered,
        Self::Removed,
    ];

    /// A stable name for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FirstFailure => "first_failure",
            Self::Silence => "silence",
            Self::TooSlow => "too_slow",
            Self::Better => "better",
            Self::Steered => "steered",
            Self::Removed => "removed",
        }
    }
}

/// The failure of a request, as far as it matters for the choice of a pathway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// It failed: no connection, a reset, an error status, wrong bytes.
    Failure {
        /// The response's `Retry-After`. The penalty lasts at least this long.
        retry_after: Option<Duration>,
    },
    /// It received no byte for [`PathwayPolicy::silence_max`](super::PathwayPolicy::silence_max).
    Silence,
}

impl Outage {
    pub(super) fn reason(self) -> MoveReason {
        match self {
            Self::Failure { .. } => MoveReason::FirstFailure,
            Self::Silence => MoveReason::Silence,
        }
    }

    pub(super) fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Failure { retry_after } => retry_after,
            Self::Silence => None,
        }
    }
}
