//! Counters, per worker, summed when somebody reads them.
//!
//! What players tell of their viewers goes the same way: handed over once a second, taken when somebody reads.
//!
//! A worker is the only writer of its counters, so counting is a plain addition; readers see each counter whole but not
//! all of them at one instant.

use crate::busiest::{Busiest, Share};
use crate::first_byte::{FirstByte, Waits};
use catalog::KnownTitles;
use qoe::Report;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A number that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Number {
    /// Adds `by`. Only its worker's thread may.
    pub fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    /// Takes `by` away: for gauges. Only its worker's thread may.
    pub fn subtract(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(by), Ordering::Relaxed);
    }

    /// Sets it: for gauges.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// What it is now.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether a number only grows or says how things are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// How things are.
    Gauge,
}

macro_rules! numbers {
    ($($kind:ident $name:ident $help:literal;)*) => {
        /// One worker's numbers.
        #[derive(Debug, Default)]
        pub struct Numbers {
            $(#[doc = $help] pub $name: Number,)*
            labelled: Mutex<BTreeMap<(Family, &'static str), u64>>,
            reports: Mutex<Vec<Report>>,
            /// How long first bytes take.
            pub first_byte: FirstByte,
            busiest: Mutex<Busiest>,
        }

        impl Numbers {
            /// Every number with its kind, name and help.
            pub fn each(&self, mut see: impl FnMut(Kind, &'static str, &'static str, u64)) {
                $(see(Kind::$kind, stringify!($name), $help, self.$name.value());)*
            }
        }
    };
}

numbers! {
    Gauge connections "Connections open now.";
    Gauge sending "Responses on their way now.";
    Counter connections_accepted_total "Connections accepted.";
    Counter accept_pauses_total "Pauses in accepting, for want of descriptors or memory.";
    Counter requests_total "Requests read.";
    Counter body_bytes_sent_total "Bytes of responses given to the kernel, heads included, encryption not.";
    Counter wire_bytes_sent_total "Bytes given to the kernel, encryption included unless the kernel does it.";
    Counter windows_total "Windows pulled: one read and one send each, if all goes well.";
    Counter windows_taken_in_part_total "Windows of which TCP took only a part at first.";
    Counter send_pauses_total "Pauses in sending, for want of memory in the kernel.";
    Counter take_backs_total "Buffers taken back from stalled viewers.";
    Counter records_made_again_total "TLS records sealed again: after a take-back, or because they were lost or left only in part (bypass).";
    Counter bypass_wants_total "Ranges that our own TCP asked for (bypass).";
    Counter bypass_reread_bytes_total "Bytes of files read again because they were lost on the way (bypass).";
    Gauge bypass_connection_bytes "Memory of TCP and of send streams, tags included (bypass).";
    Gauge bypass_in_flight_bytes "Bytes that are on their way to viewers (bypass).";
    Counter key_updates_received_total "TLS key updates received.";
    Counter key_updates_sent_total "TLS key updates sent.";
    Counter read_resident_bytes_total "Bytes read that were in the page cache.";
    Counter read_cached_bytes_total "Bytes read from disk into the page cache.";
    Counter read_once_bytes_total "Bytes read from disk with RWF_DONTCACHE.";
    Counter read_direct_bytes_total "Bytes read from disk with O_DIRECT.";
    Counter read_refused_total "Reads for which the filesystem refused the way asked for.";
    Counter sendfile_bytes_total "Bytes of files that the kernel sent from its page cache by itself.";
    Counter brought_bytes_total "Bytes of those that were brought into the page cache for it.";
    Gauge bringing_bytes "Bytes on their way into the page cache, or there and not sent yet, for the kernel to send.";
    Counter windows_not_held_total "Windows read into a buffer although the kernel could send them, for want of a lease on the file.";
    Counter files_open_for_writing_total "Times a file was opened that another program had open for writing, so that the server cannot be sure to see every change of it.";
    Counter windows_not_brought_total "Windows read into a buffer although they are worth memory: too many were on their way, or the page cache had no room.";
    Counter buffer_waits_total "Times a session waited for a buffer.";
    Gauge read_buffers_free "Read buffers that nobody holds.";
    Gauge read_buffers "Read buffers.";
    Gauge send_buffers_free "Send buffers that nobody holds.";
    Gauge send_buffers "Send buffers.";
    Gauge open_files "Library files remembered as open.";
    Gauge response_bytes "Bytes of memory that responses hold: pages, lists, heads of parts.";
    Counter cmcd_reports_total "Requests that told of a viewer's experience (CMCD).";
    Counter cmcd_sessionless_total "Requests with CMCD that names no session.";
    Counter cmcd_malformed_total "Parts of CMCD that make no sense.";
    Counter cmcd_reports_lost_total "Requests with CMCD that were not counted: too many at once.";
    Counter access_log_lost_total "Access log lines lost because the disk under the log was too slow.";
    Counter tasks_panicked_total "Sessions ended by a fault of this program.";
    Counter cpu_microseconds_total "Processor time of the worker's thread.";
}

/// Families of counters that have a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Connections ended, by reason.
    Ends,
    /// Connections turned away or closed before they were sessions, by reason.
    ConnectionsRefused,
    /// Handshakes done, by version and suite.
    Handshakes,
    /// Handshakes taken up from a ticket, or full.
    Resumptions,
    /// Responses, by status.
    Responses,
    /// Requests refused, by reason.
    Refusals,
    /// Connections established, by who seals.
    Routes,
    /// Connections whose keys the kernel did not take, by reason.
    KernelTlsRefusals,
    /// What our own TCP has counted.
    Tcp,
    /// Ranges that our own TCP asked for and did not let go whole, by reason.
    Held,
    /// Frames, by what was done with them.
    Frames,
    /// Frames not taken, by reason.
    FramesRefused,
}

impl Family {
    /// Every family with its metric's name, its label's name and what it counts.
    pub const ALL: [(Family, &'static str, &'static str, &'static str); 12] = [
        (Self::Ends, "connections_ended_total", "reason", "Connections ended, by reason."),
        (
            Self::ConnectionsRefused,
            "connections_refused_total",
            "reason",
            "Connections turned away, by reason.",
        ),
        (
            Self::Handshakes,
            "handshakes_total",
            "suite",
            "TLS handshakes done, by version and cipher suite.",
        ),
        (
            Self::Resumptions,
            "handshakes_by_kind_total",
            "kind",
            "TLS handshakes done, full or resumed.",
        ),
        (Self::Responses, "responses_total", "status", "Responses, by status."),
        (Self::Refusals, "requests_refused_total", "reason", "Requests refused, by reason."),
        (Self::Routes, "connections_by_route_total", "route", "Connections established, by route."),
        (
            Self::KernelTlsRefusals,
            "kernel_tls_refused_total",
            "reason",
            "Connections that the kernel did not seal for, by reason.",
        ),
        (Self::Tcp, "tcp_total", "event", "What our own TCP has counted (bypass)."),
        (
            Self::Held,
            "bypass_held_total",
            "reason",
            "Ranges that our own TCP asked for and did not let go whole, by reason (bypass).",
        ),
        (Self::Frames, "frames_total", "event", "Frames of a network device (bypass)."),
        (
            Self::FramesRefused,
            "frames_refused_total",
            "reason",
            "Frames not taken, by reason (bypass).",
        ),
    ];
}

impl Numbers {
    /// Counts one under a label. Not for the path of a byte: it takes the worker's own, uncontended lock.
    pub fn count(&self, family: Family, label: &'static str) {
        *self.lock().entry((family, label)).or_default() += 1;
    }

    /// Sets a labelled counter that is kept elsewhere.
    pub fn set(&self, family: Family, label: &'static str, count: u64) {
        if count > 0 {
            self.lock().insert((family, label), count);
        }
    }

    /// The labelled counters.
    pub fn labelled(&self) -> BTreeMap<(Family, &'static str), u64> {
        self.lock().clone()
    }

    /// Hands over what players told, once a second. What was not taken since the last time stays, and nothing is added to it.
    pub fn hand_over(&self, reports: &mut Vec<Report>) {
        let mut waiting = self.reports.lock().expect("no holder of this lock can panic");
        if waiting.is_empty() {
            std::mem::swap(&mut *waiting, reports);
        }
    }

    /// Takes what was handed over.
    pub fn take_reports(&self) -> Vec<Report> {
        std::mem::take(&mut *self.reports.lock().expect("no holder of this lock can panic"))
    }

    /// Counts a response's bytes for its title; `path` is that of its file. Once per response, as [`Self::count`].
    pub fn count_title(&self, path: &[u8], bytes: u64) {
        self.busiest.lock().expect("no holder of this lock can panic").note(path, bytes);
    }

    /// The titles since the last time with their bytes, and the folders that were found to be titles; see [`Busiest::take`].
    pub fn take_busiest(&self, known: &Arc<KnownTitles>) -> (Vec<Share>, Vec<Box<[u8]>>) {
        self.busiest.lock().expect("no holder of this lock can panic").take(known)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Family, &'static str), u64>> {
        self.labelled.lock().expect("no holder of this lock can panic")
    }
}

/// The sum over workers, in the form that Prometheus reads.
pub fn prometheus<'a>(workers: impl Iterator<Item = &'a Numbers> + Clone) -> String {
    let totals = Totals::of(workers.clone());
    let mut text = String::with_capacity(8 << 10);
    let describe = |text: &mut String, kind: Kind, name: &str, help: &str| {
        let kind = if kind == Kind::Counter { "counter" } else { "gauge" };
        text.push_str(&format!("# HELP fullbore_{name} {help}\n# TYPE fullbore_{name} {kind}\n"));
    };
    for (kind, name, help, value) in &totals.plain {
        describe(&mut text, *kind, name, help);
        text.push_str(&format!("fullbore_{name} {value}\n"));
    }
    for (family, name, label, help) in Family::ALL {
        describe(&mut text, Kind::Counter, name, help);
        for ((_, value), count) in totals.labelled.iter().filter(|((of, _), _)| *of == family) {
            text.push_str(&format!("fullbore_{name}{{{label}=\"{value}\"}} {count}\n"));
        }
    }
    let waits = Waits::of(workers.map(|worker| &worker.first_byte));
    text.push_str(&waits.prometheus("fullbore_first_byte_seconds"));
    text
}

/// The same sums as JSON.
pub fn json<'a>(
    workers: impl Iterator<Item = &'a Numbers>,
) -> serde_json::Map<String, serde_json::Value> {
    let totals = Totals::of(workers);
    let mut object = serde_json::Map::new();
    for (_, name, _, value) in totals.plain {
        object.insert(name.into(), value.into());
    }
    for (family, name, _, _) in Family::ALL {
        let of_family = totals.labelled.iter().filter(|((of, _), _)| *of == family);
        let counts: serde_json::Map<_, _> =
            of_family.map(|((_, label), count)| ((*label).to_owned(), (*count).into())).collect();
        object.insert(name.into(), counts.into());
    }
    object
}

#[derive(Default)]
struct Totals {
    plain: Vec<(Kind, &'static str, &'static str, u64)>,
    labelled: BTreeMap<(Family, &'static str), u64>,
}

impl Totals {
    fn of<'a>(workers: impl Iterator<Item = &'a Numbers>) -> Self {
        let mut totals = Self::default();
        for worker in workers {
            let mut index = 0;
            worker.each(|kind, name, help, value| {
                match totals.plain.get_mut(index) {
                    Some(total) => total.3 += value,
                    None => totals.plain.push((kind, name, help, value)),
                }
                index += 1;
            });
            for (key, count) in worker.labelled() {
                *totals.labelled.entry(key).or_default() += count;
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_summed() {
        let (one, two) = (Numbers::default(), Numbers::default());
        one.requests_total.add(2);
        two.requests_total.add(3);
        one.count(Family::Ends, "peer_closed");
        two.count(Family::Ends, "peer_closed");
        two.count(Family::Ends, "idle_timeout");
        let text = prometheus([&one, &two].into_iter());
        assert!(
            text.contains("# TYPE fullbore_requests_total counter\nfullbore_requests_total 5\n")
        );
        assert!(text.contains("fullbore_connections_ended_total{reason=\"peer_closed\"} 2\n"));
        let object = json([&one, &two].into_iter());
        assert_eq!(object["connections_ended_total"]["idle_timeout"], 1);
    }
}
