//! Finds out for one worker whether long queues in the kernel pay, by trying both again and again.
//!
//! A long queue spares the worker wake-ups. But where the kernel spreads a connection's packets over time by itself (BBR without the fq queueing
//! discipline), a long queue costs a timer for each packet. Which of the two costs more depends on the congestion control, the queueing discipline,
//! the core that handles acknowledgements, and how much the viewer takes at once. No socket option reports that, so the worker measures it: it serves
//! with long and with short queues in turn, and keeps those with less CPU time per byte (docs/notes/performance.md).
//!
//! A trial takes about a tenth of a second. The pause after it doubles while the result stays the same, so trials take less than a hundredth of
//! the worker's time.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// For each turn of a trial: long queues or short ones. This order cancels a load that rises or falls steadily.
const TURNS: [bool; 4] = [true, false, false, true];

/// How long queues take to reach their new length. A guess: a few wake-ups of each fast viewer.
const SETTLE: Duration = Duration::from_millis(5);

/// The shortest turn: a hundred times what a worker spends on one window.
const TURN_MIN: Duration = Duration::from_millis(20);

/// The least a worker has to send in a turn for its CPU time to be meaningful: a dozen windows.
const TURN_BYTES_MIN: u64 = 4 << 20;

/// A turn that takes longer ends the trial. Below an eighth of a gigabit per second, neither queue costs much.
const TURN_MAX: Duration = Duration::from_millis(250);

/// The pauses between trials.
const PAUSE_MIN: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// The share of CPU time that the other length has to save to replace the one in use. A guess at the random difference between trials.
const GAIN_MIN: f64 = 0.05;

/// The worker's totals at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    pub(crate) at: Instant,
    pub(crate) sent_bytes: u64,
}

/// One worker's trials.
#[derive(Debug)]
pub struct QueueTrial {
    state: Cell<State>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// The last trial's result.
    prefers_long: bool,
    pause: Duration,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Between trials. The next one begins at this time; `None` means at once.
    Pause(Option<Instant>),
    /// The queues have been changing their length since this time.
    Settling(Trial, Instant),
    /// A turn is measured: the totals and the worker's CPU time at its beginning.
    Measuring(Trial, Totals, Duration),
}

#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    turn: usize,
    /// Seconds of CPU time per byte, summed over the turns with short queues and over those with long ones.
    costs: [f64; 2],
}

impl Default for QueueTrial {
    fn default() -> Self {
        let state = State { prefers_long: true, pause: PAUSE_MIN, phase: Phase::Pause(None) };
        Self { state: Cell::new(state) }
    }
}

impl QueueTrial {
    /// Returns true if the queues of fast viewers should be long now.
    pub(crate) fn is_long(&self) -> bool {
        let state = self.state.get();
        match state.phase {
            Phase::Pause(_) => state.prefers_long,
            Phase::Settling(trial, _) | Phase::Measuring(trial, ..) => TURNS[trial.turn],
        }
    }

    /// Advances the trial. Call it often while there are fast viewers. `cpu_time` returns the CPU time of this worker's thread; it is called twice
    /// for each turn. Returns whether a trial has just finished.
    pub(crate) fn look(&self, now: Totals, cpu_time: impl Fn() -> Duration) -> bool {
        let mut has_result = false;
        let mut state = self.state.get();
        state.phase = match state.phase {
            Phase::Pause(Some(until)) if now.at < until => return false,
            Phase::Pause(_) => Phase::Settling(Trial::default(), now.at),
            Phase::Settling(_, since) if now.at < since + SETTLE => return false,
            Phase::Settling(trial, _) => Phase::Measuring(trial, now, cpu_time()),
            Phase::Measuring(mut trial, begin, cpu_before) => {
                let bytes = now.sent_bytes.wrapping_sub(begin.sent_bytes);
                let span = now.at - begin.at;
                if span > TURN_MAX {
                    Phase::Pause(Some(now.at + PAUSE_MIN))
                } else if span < TURN_MIN || bytes < TURN_BYTES_MIN {
                    return false;
                } else {
                    let cost = cpu_time().saturating_sub(cpu_before).as_secs_f64() / bytes as f64;
                    trial.costs[usize::from(TURNS[trial.turn])] += cost;
                    trial.turn += 1;
                    if trial.turn < TURNS.len() {
                        Phase::Settling(trial, now.at)
                    } else {
                        state.conclude(trial.costs);
                        has_result = true;
                        Phase::Pause(Some(now.at + state.pause))
                    }
                }
            }
        };
        self.state.set(state);
        has_result
    }
}

impl State {
    fn conclude(&mut self, costs: [f64; 2]) {
        let (own, other) =
            (costs[usize::from(self.prefers_long)], costs[usize::from(!self.prefers_long)]);
        if other < own * (1.0 - GAIN_MIN) {
            self.prefers_long = !self.prefers_long;
            self.pause = PAUSE_MIN;
        } else {
            self.pause = PAUSE_MAX.min(2 * self.pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker in virtual time. Each KiB costs it a given CPU time, which differs between short queues and long ones.
    struct Worker {
        trial: QueueTrial,
        start: Instant,
        now: Duration,
        sent_bytes: u64,
        cpu_time: Duration,
        long: Duration,
    }

    impl Worker {
        fn new() -> Self {
            Self {
                trial: QueueTrial::default(),
                start: Instant::now(),
                now: Duration::ZERO,
                sent_bytes: 0,
                cpu_time: Duration::ZERO,
                long: Duration::ZERO,
            }
        }

        fn serve(&mut self, time: Duration, bytes_per_ms: u64, costs: [u64; 2]) {
            let end = self.now + time;
            while self.now < end {
                let is_long = self.trial.is_long();
                self.now += Duration::from_millis(1);
                self.sent_bytes += bytes_per_ms;
                self.cpu_time +=
                    Duration::from_nanos((bytes_per_ms >> 10) * costs[usize::from(is_long)]);
                if is_long {
                    self.long += Duration::from_millis(1);
                }
                let totals = Totals { at: self.start + self.now, sent_bytes: self.sent_bytes };
                self.trial.look(totals, || self.cpu_time);
            }
        }
    }

    const FAST: u64 = 1 << 20;
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_keeps_the_length_that_costs_less_and_follows_when_that_changes() {
        let mut worker = Worker::new();
        worker.serve(SECOND, FAST, [100, 150]);
        assert!(!worker.trial.is_long());
        worker.serve(100 * SECOND, FAST, [100, 50]);
        assert!(worker.trial.is_long());
        worker.serve(100 * SECOND, FAST, [100, 150]);
        assert!(!worker.trial.is_long());
    }

    #[test]
    fn a_difference_that_may_be_chance_changes_nothing() {
        let mut worker = Worker::new();
        worker.serve(SECOND, FAST, [98, 100]);
        assert!(worker.trial.is_long());
        worker.serve(SECOND, FAST, [100, 100]);
        assert!(worker.trial.is_long());
    }

    #[test]
    fn trials_take_little_of_the_time() {
        let mut worker = Worker::new();
        worker.serve(1000 * SECOND, FAST, [100, 200]);
        assert!(worker.long < 2 * SECOND, "{:?}", worker.long);
    }

    #[test]
    fn a_worker_with_little_to_send_comes_to_no_result() {
        let mut worker = Worker::new();
        worker.serve(100 * SECOND, 10 << 10, [100, 200]);
        assert!(worker.trial.is_long());
        let longer = worker.long.as_secs_f64() / worker.now.as_secs_f64();
        assert!(longer > 0.9, "{longer}");
    }

    #[test]
    fn a_pause_of_the_load_ends_a_trial_without_a_result() {
        let mut worker = Worker::new();
        worker.serve(Duration::from_millis(40), FAST, [100, 200]);
        worker.serve(SECOND, 1 << 10, [100, 10_000]);
        assert!(worker.trial.is_long());
        worker.serve(5 * SECOND, FAST, [100, 200]);
        assert!(!worker.trial.is_long());
    }
}
