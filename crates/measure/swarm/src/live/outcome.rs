//! The results of a run over real sockets, as text and as JSON.

use super::lag::Own;
use super::standing::{FailureKind, Moment};
use crate::outcome::Outcome;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The results of a run.
#[derive(Clone, Debug)]
pub struct LiveOutcome {
    /// What the viewers saw.
    pub seen: Outcome,
    /// How long the run took.
    pub wall_seconds: f64,
    /// The planned number of viewers. Some may not have come before the end.
    pub viewers: usize,
    /// The viewers' states every second, or at longer intervals in long runs.
    pub course: Vec<Moment>,
    /// The viewers' states and all counts at the end.
    pub last: Moment,
    /// Failed requests, by kind.
    pub errors: BTreeMap<&'static str, FailureKind>,
    /// The swarm's own lag, and its use of the machine.
    pub own: Own,
    /// The user interrupted.
    pub interrupted: bool,
    /// Nothing succeeded at all, so the run ended itself.
    pub gave_up: bool,
}

impl LiveOutcome {
    /// Returns true if everything requested arrived. Stalls are not failures: they are what a run measures.
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.last.requests > 0
    }

    /// As text.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("writing to a string cannot fail");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let ended = if self.interrupted { "interrupted after" } else { "watched for" };
        writeln!(text, "{ended} {:.1} s", self.wall_seconds)?;
        text.push_str(&self.seen.describe());
        let last = &self.last;
        writeln!(
            text,
            "  bodies        {:.3} Gb/s, {} bytes, {} responses",
            last.body_bytes as f64 * 8e-9 / self.wall_seconds.max(1e-3),
            last.body_bytes,
            last.requests
        )?;
        writeln!(
            text,
            "  connections   {} opened, {} handshakes, {} of them resumed",
            last.connections_opened, last.handshakes, last.resumed
        )?;
        if self.errors.is_empty() {
            let what =
                if self.is_clean() { "none" } else { "none, but there were no answers either" };
            writeln!(text, "  errors        {what}")?;
        }
        for (kind, failure) in &self.errors {
            let FailureKind { count, example } = failure;
            writeln!(text, "  ERRORS        {count} x {kind}, the first: {example}")?;
        }
        writeln!(
            text,
            "  swarm itself  lag p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms; CPU {:.2} s, busiest thread {:.0}%",
            self.own.lag_ms_p50,
            self.own.lag_ms_p99,
            self.own.lag_ms_max,
            self.own.cpu_seconds,
            100.0 * self.own.busiest_thread
        )?;
        match self.own.doubt() {
            Some(doubt) => writeln!(text, "  {doubt}"),
            None => Ok(()),
        }
    }

    /// As JSON: what the viewers saw, as in a run in virtual time, and the figures that only a live run has.
    pub fn to_json(&self) -> Value {
        let mut all = self.seen.to_json();
        let live = json!({
            "version": 1,
            "kind": "swarm",
            "wall_seconds": self.wall_seconds,
            "viewers_planned": self.viewers,
            "body_bytes": self.last.body_bytes,
            "gbps": self.last.body_bytes as f64 * 8e-9 / self.wall_seconds.max(1e-3),
            "responses": self.last.requests,
            "connections_opened": self.last.connections_opened,
            "handshakes": self.last.handshakes,
            "resumed": self.last.resumed,
            "errors": self.errors,
            "course": self.course,
            "own": self.own.to_json(),
            "interrupted": self.interrupted,
            "ended_itself": self.gave_up,
            "clean": self.is_clean(),
        });
        if let (Value::Object(all), Value::Object(live)) = (&mut all, live) {
            all.extend(live);
        }
        all
    }
}
