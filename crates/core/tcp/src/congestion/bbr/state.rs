//! The states, each with its rate and its bytes in flight.

/// The flow's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Doubles its rate each round trip, to find what the path carries.
    Startup,
    /// Empties the queue that Startup has made.
    Drain,
    /// Empties a queue, and leaves room for other flows.
    Down,
    /// Keeps the rate that the path carries.
    Cruise,
    /// Fills the path for a round trip, so that the probe does not measure its own filling.
    Refill,
    /// Probes for more.
    Up,
    /// Shrinks for a moment, to measure the round trip without a queue.
    ProbeRtt,
}

impl State {
    /// The sending rate, in percent of the rate that the path carries. Startup: 4 ln 2, the least with which the rate can double in a round trip.
    pub(super) fn pacing_percent(self) -> u64 {
        match self {
            State::Startup => 277,
            State::Drain => 50,
            State::Down => 90,
            State::Cruise | State::Refill | State::ProbeRtt => 100,
            State::Up => 125,
        }
    }

    /// The bytes that may be in flight, in percent of what fills the path. Twice, because acknowledgements come late and in bunches; a little more
    /// for a probe; half to see the path empty.
    pub(super) fn cwnd_percent(self) -> u64 {
        match self {
            State::Up => 225,
            State::ProbeRtt => 50,
            _ => 200,
        }
    }

    /// Within the cycle of probing for bandwidth: ProbeBW.
    pub(super) fn is_in_cycle(self) -> bool {
        matches!(self, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// True while it fills the path on purpose: BBRIsProbingBW().
    pub(super) fn is_probing(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }
}
