//! The results of a run, as text and as JSON.

use crate::tally::{ErrorKind, Snapshot};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use telemetry::Buckets;

/// A thread that used more of its time than this was the bottleneck.
const BUSY: f64 = 0.95;

/// Latencies in microseconds. An octave has 1024 buckets, so each percentile is off by less than a thousandth.
pub type Latencies = Buckets<10>;

/// The results. Unless stated otherwise, they cover only the measured time: from the end of the ramp to the end.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Seconds from the first connection to the end, ramp included.
    pub wall_seconds: f64,
    /// Seconds that the figures cover.
    pub measured_seconds: f64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Complete responses.
    pub requests: u64,
    /// Responses that viewers aborted on purpose.
    pub aborted: u64,
    /// In the open loop: requests that had become due, ramp included, but were not answered at the end. They are in no latency, so if there
    /// are many, the real latencies are worse.
    pub overdue: u64,
    /// TLS handshakes.
    pub handshakes: u64,
    /// How many of these resumed a session.
    pub resumed: u64,
    /// Connections opened, ramp included.
    pub connections_opened: u64,
    /// Connections that were open at the end.
    pub connections_open: u64,
    /// Responses compared byte for byte and found correct, ramp included.
    pub verified: u64,
    /// All errors, ramp included, by kind.
    pub errors: BTreeMap<&'static str, ErrorKind>,
    /// Time from the request (or its scheduled time, if there is a schedule) to the response's head, in microseconds. For handshakes: from
    /// the start of the connection to the end of the handshake.
    pub first_byte: Latencies,
    /// The rate of each viewer that was present all the time. Empty if there are no viewers: in the open loop, and if connections only do
    /// handshakes or idle.
    pub viewer_bits_per_second: Vec<f64>,
    /// CPU time of the generator's own threads.
    pub cpu_seconds: f64,
    /// CPU time per second of the busiest thread.
    pub busiest_thread: f64,
    /// The user interrupted.
    pub interrupted: bool,
    /// Nothing succeeded at all, so the run ended itself.
    pub gave_up: bool,
}

impl Outcome {
    pub(crate) fn count(&mut self, counts: Snapshot) {
        self.body_bytes += counts.body_bytes;
        self.requests += counts.requests;
        self.aborted += counts.aborted;
        self.handshakes += counts.handshakes;
        self.resumed += counts.resumed;
        self.connections_open += counts.connections_open;
    }

    /// Gigabits of bodies per second.
    pub fn gbps(&self) -> f64 {
        self.per_second(self.body_bytes) * 8e-9
    }

    /// Complete responses per second.
    pub fn requests_per_second(&self) -> f64 {
        self.per_second(self.requests)
    }

    /// Handshakes per second.
    pub fn handshakes_per_second(&self) -> f64 {
        self.per_second(self.handshakes)
    }

    fn per_second(&self, count: u64) -> f64 {
        if self.measured_seconds > 0.0 { count as f64 / self.measured_seconds } else { 0.0 }
    }

    /// The time to the first byte, in milliseconds, that this percentage of requests did not exceed; `None` if there were no requests.
    pub fn first_byte_ms(&self, percentile: f64) -> Option<f64> {
        self.first_byte.quantile_floor(percentile / 100.0).map(|us| us as f64 / 1e3)
    }

    /// The rate in Mb/s that this percentage of viewers did not exceed; `None` if there were no viewers.
    pub fn viewer_mbps(&self, percentile: f64) -> Option<f64> {
        percentile_of(&self.viewer_bits_per_second, percentile).map(|rate| rate / 1e6)
    }

    /// Returns true if everything requested arrived and was correct.
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty() && !self.answered_nothing()
    }

    /// Nothing failed, but there were no answers either: the server holds them back for longer than the run. Bytes count as an answer if a
    /// response that began in the ramp is still arriving, and open connections count if there is nothing else.
    fn answered_nothing(&self) -> bool {
        let answers = self.first_byte.count() + self.body_bytes + self.requests;
        answers == 0 && (self.connections_open == 0 || !self.viewer_bits_per_second.is_empty())
    }

    /// Returns true if the generator itself was out of CPU time, so that its own speed was measured.
    pub fn is_client_bound(&self) -> bool {
        self.busiest_thread > BUSY
    }

    /// As text.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("writing to a string cannot fail");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let ended = if self.interrupted { "interrupted; measured" } else { "measured" };
        writeln!(text, "{ended} {:.1} s of {:.1} s", self.measured_seconds, self.wall_seconds)?;
        writeln!(text, "  bodies      {:.3} Gb/s, {} bytes", self.gbps(), self.body_bytes)?;
        write!(
            text,
            "  requests    {:.1}/s, {} in total",
            self.requests_per_second(),
            self.requests
        )?;
        if self.aborted > 0 {
            write!(text, ", {} aborted", self.aborted)?;
        }
        if self.overdue > 0 {
            write!(text, ", {} due and not answered at the end", self.overdue)?;
        }
        writeln!(text)?;
        writeln!(
            text,
            "  handshakes  {:.1}/s, {} of {} resumed",
            self.handshakes_per_second(),
            self.resumed,
            self.handshakes
        )?;
        writeln!(
            text,
            "  connections {} opened, {} open at the end",
            self.connections_opened, self.connections_open
        )?;
        self.write_distributions(text)?;
        self.write_errors(text)?;
        writeln!(
            text,
            "  own CPU     {:.2} s, busiest thread {:.0}%",
            self.cpu_seconds,
            100.0 * self.busiest_thread
        )?;
        if self.is_client_bound() {
            writeln!(
                text,
                "  The generator was out of CPU time: these are its limits, not the server's. Give it more --threads or --cpus."
            )?;
        }
        Ok(())
    }

    fn write_distributions(&self, text: &mut String) -> std::fmt::Result {
        if let [Some(p50), Some(p99), Some(p999)] =
            [50.0, 99.0, 99.9].map(|p| self.first_byte_ms(p))
        {
            writeln!(text, "  first byte  p50 {p50:.2} ms, p99 {p99:.2} ms, p99.9 {p999:.2} ms")?;
        }
        if let [Some(p1), Some(p50), Some(p99)] = [1.0, 50.0, 99.0].map(|p| self.viewer_mbps(p)) {
            writeln!(
                text,
                "  per viewer  p1 {p1:.2} Mb/s, p50 {p50:.2} Mb/s, p99 {p99:.2} Mb/s, {} viewers",
                self.viewer_bits_per_second.len()
            )?;
        }
        Ok(())
    }

    fn write_errors(&self, text: &mut String) -> std::fmt::Result {
        if self.verified > 0 {
            writeln!(text, "  verified    {} responses, byte for byte", self.verified)?;
        }
        if self.errors.is_empty() {
            let what =
                if self.is_clean() { "none" } else { "none, but there were no answers either" };
            return writeln!(text, "  errors      {what}");
        }
        for (kind, error) in &self.errors {
            writeln!(text, "  ERRORS      {} x {kind}, the first: {}", error.count, error.example)?;
        }
        Ok(())
    }

    /// As JSON. Names carry units.
    pub fn to_json(&self) -> serde_json::Value {
        let first_byte = |percentile| self.first_byte_ms(percentile);
        let viewer = |percentile| self.viewer_mbps(percentile);
        json!({
            "version": 1,
            "kind": "load",
            "wall_seconds": self.wall_seconds,
            "measured_seconds": self.measured_seconds,
            "gbps": self.gbps(),
            "body_bytes": self.body_bytes,
            "requests": self.requests,
            "requests_per_second": self.requests_per_second(),
            "aborted": self.aborted,
            "overdue": self.overdue,
            "handshakes": self.handshakes,
            "handshakes_per_second": self.handshakes_per_second(),
            "resumed": self.resumed,
            "connections_opened": self.connections_opened,
            "connections_open": self.connections_open,
            "verified": self.verified,
            "errors": self.errors,
            "first_byte_ms": {
                "p50": first_byte(50.0),
                "p99": first_byte(99.0),
                "p999": first_byte(99.9),
                "max": first_byte(100.0),
                "count": self.first_byte.count(),
            },
            "viewer_mbps": {
                "p1": viewer(1.0),
                "p50": viewer(50.0),
                "p99": viewer(99.0),
                "count": self.viewer_bits_per_second.len(),
            },
            "cpu_seconds": self.cpu_seconds,
            "busiest_thread": self.busiest_thread,
            "client_bound": self.is_client_bound(),
            "interrupted": self.interrupted,
            "gave_up": self.gave_up,
            "clean": self.is_clean(),
        })
    }
}

/// The smallest figure that this percentage of all figures does not exceed (nearest rank).
fn percentile_of(figures: &[f64], percentile: f64) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percentile / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let figures: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile_of(&figures, 1.0), Some(2.0));
        assert_eq!(percentile_of(&figures, 50.0), Some(100.0));
        assert_eq!(percentile_of(&figures, 99.0), Some(198.0));
        assert_eq!(percentile_of(&figures, 100.0), Some(200.0));
        assert_eq!(percentile_of(&[7.0], 1.0), Some(7.0));
        assert_eq!(percentile_of(&[], 50.0), None);
    }
}
