//! The states, and how fast and how full each of them runs the path.

/// What the flow is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Doubles its rate each round trip, to find what the path carries.
    Startup,
    /// Lets the queue run empty that Startup has made.
    Drain,
    /// Lets a queue run empty, and leaves room for others.
    Down,
    /// Keeps the rate that the path carries.
    Cruise,
    /// Fills the path for a round trip, so that the probe does not measure its own filling.
    Refill,
    /// Probes for more.
    Up,
    /// Becomes small for a moment, to see the round trip without a queue.
    ProbeRtt,
}

impl State {
    /// What is sent, in percent of the rate that the path carries. Startup: 4 ln 2, the least with which the rate can
    /// double in a round trip.
    pub(super) fn pacing_percent(self) -> u64 {
        match self {
            State::Startup => 277,
            State::Drain => 50,
            State::Down => 90,
            State::Cruise | State::Refill | State::ProbeRtt => 100,
            State::Up => 125,
        }
    }

    /// What may be in flight, in percent of what fills the path. Twice, because acknowledgements come late and in
    /// bunches; a little more for a probe; half to see the path empty.
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

    /// It fills the path on purpose: BBRIsProbingBW().
    pub(super) fn is_probing(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }
}
