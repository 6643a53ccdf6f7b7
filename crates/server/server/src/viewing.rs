//! Viewers' quality of experience, as the admin listener keeps it, and `/viewing.json`: the sessions that a fleet's agent passes on to gateways
//! ([`qoe::Tally`]).

use fullbore_http::Request;
use live_figures::audience::Audience;
use qoe::{Collector, Tally};
use serde_json::json;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use telemetry::since_1970;

/// The figures of all workers' viewers.
pub(crate) struct Viewing {
    collector: Mutex<Collector>,
    /// Names this run of the server: another one counts reports from 1 again.
    boot: String,
    started: Instant,
}

impl Viewing {
    /// Nothing yet. Reports count their times from `started`; `counted` is the counted part of a session, if it isn't the usual one.
    pub(crate) fn new(started: Instant, counted: Option<Duration>) -> Self {
        let mut collector = Collector::default();
        if let Some(counted) = counted {
            collector.count_with(Tally::of_the_first(millis(counted)));
        }
        let boot = format!("{:x}p{:x}", since_1970().as_nanos(), std::process::id());
        Self { collector: Mutex::new(collector), boot, started }
    }

    /// The figures up to now.
    pub(crate) fn up_to_now(&self, audiences: &[Arc<Audience>]) -> MutexGuard<'_, Collector> {
        let mut collector = self.collector.lock().expect("no holder of this lock can panic");
        audiences.iter().for_each(|audience| audience.give_to(&mut collector));
        collector.advance(millis(self.started.elapsed()));
        collector
    }

    /// The reports for the fleet that the agent doesn't have yet: its query names the run of the server and the number that it has.
    pub(crate) fn json(&self, request: &Request, audiences: &[Arc<Audience>]) -> String {
        let value = |name: &[u8]| {
            let mut pairs = request.query().unwrap_or_default().split(|byte| *byte == b'&');
            pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="))
        };
        let number = || std::str::from_utf8(value(b"after")?).ok()?.parse::<u64>().ok();
        let is_own = value(b"boot") == Some(self.boot.as_bytes());
        let after = number().filter(|_| is_own).unwrap_or(0);
        let collector = self.up_to_now(audiences);
        let (now, uptime_ms) = (since_1970().as_secs(), millis(self.started.elapsed()));
        let reports = collector.tally().after(after).map(|closed| {
            json!({
                "number": closed.number,
                "seconds": closed.took_ms.div_ceil(1000),
                "ended_unix_seconds": now.saturating_sub(uptime_ms.saturating_sub(closed.closed_ms) / 1000),
                "cells": closed.cells,
            })
        });
        let reports: Vec<_> = reports.collect();
        json!({ "version": 1, "boot": self.boot, "reports": reports }).to_string()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
