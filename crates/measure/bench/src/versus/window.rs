//! The part of a trial in which all viewers are there: what they got, and what it cost the server.

use super::side::Side;
use crate::accounting::{CoreShares, CoreTimes, Reading};
use load::Snapshot;
use std::io;
use std::time::Instant;
use swarm::live::Moment;

/// The part of a trial in which all viewers are there.
pub(super) struct Window<'a> {
    side: &'a mut Side,
    /// The server's core.
    cpu: u32,
    opens_after: f64,
    seconds: f64,
    begin: Option<Mark>,
    end: Option<Mark>,
    failed: Option<io::Error>,
}

/// Readings at one moment.
struct Mark {
    at: Instant,
    seconds: f64,
    counts: Snapshot,
    cost: Reading,
    core: CoreTimes,
}

/// The counts of the measured time.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) counts: Snapshot,
    /// Memory is that at the end.
    pub(super) cost: Reading,
    pub(super) shares: CoreShares,
    pub(super) wall_seconds: f64,
}

impl<'a> Window<'a> {
    /// Begins `opens_after` seconds after the trial's start, and lasts for `seconds`.
    pub(super) fn new(side: &'a mut Side, cpu: u32, opens_after: f64, seconds: f64) -> Self {
        Self { side, cpu, opens_after, seconds, begin: None, end: None, failed: None }
    }

    /// Reads what is due. The swarm calls it about once a second.
    pub(super) fn look(&mut self, moment: &Moment) {
        let due = match &self.begin {
            None => self.opens_after,
            Some(begin) => begin.seconds + self.seconds,
        };
        if moment.seconds < due || self.end.is_some() || self.failed.is_some() {
            return;
        }
        match self.mark(moment) {
            Err(error) => self.failed = Some(error),
            Ok(mark) if self.begin.is_none() => self.begin = Some(mark),
            Ok(mark) => self.end = Some(mark),
        }
    }

    fn mark(&mut self, moment: &Moment) -> io::Result<Mark> {
        let counts = Snapshot {
            body_bytes: moment.body_bytes,
            requests: moment.requests,
            handshakes: moment.handshakes,
            resumed: moment.resumed,
            connections_opened: moment.connections_opened,
            errors: moment.failures,
            ..Snapshot::default()
        };
        let (cost, core) = (self.side.read()?, CoreTimes::read(self.cpu)?);
        Ok(Mark { at: Instant::now(), seconds: moment.seconds, counts, cost, core })
    }

    /// `None` if the trial ended before its time, as it does if every request fails.
    ///
    /// # Errors
    /// If the server's accounts could not be read.
    pub(super) fn measured(self) -> io::Result<Option<Measured>> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let (Some(begin), Some(end)) = (self.begin, self.end) else { return Ok(None) };
        Ok(Some(Measured {
            counts: end.counts.since(begin.counts),
            cost: Reading {
                cpu_seconds: end.cost.cpu_seconds - begin.cost.cpu_seconds,
                rss_bytes: end.cost.rss_bytes,
                anonymous_bytes: end.cost.anonymous_bytes,
                wakeups: end.cost.wakeups - begin.cost.wakeups,
            },
            shares: end.core.since(&begin.core),
            wall_seconds: end.at.duration_since(begin.at).as_secs_f64(),
        }))
    }
}
