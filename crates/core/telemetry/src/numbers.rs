//! One worker's numbers, and the list of them.

use crate::crossings::Crossings;
use crate::family::Family;
use crate::histogram::{Buckets, Histogram};
use crate::metric::{Kind, Metric, StoredUnit};
use crate::number::Number;
use crate::totals::Totals;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// The time to first byte in microseconds, up to 8.4 s. Buckets are a quarter of an octave wide, so a quantile read from them is off by a
/// tenth at most.
pub(crate) type FirstByteBuckets = Buckets<2>;

pub(crate) const FIRST_BYTE_MICROSECONDS_MAX: u64 = (1 << 23) - 1;

/// The metric of the time to first byte.
pub(crate) const FIRST_BYTE: Metric = Metric::new(
    Kind::Histogram,
    "fullbore_first_byte_seconds",
    "Time from the end of a request until TCP accepted the first byte of its response.",
)
.stored(StoredUnit::Millionths);

macro_rules! numbers {
    ($($kind:ident $name:ident $(by $label:ident)? $(in $stored:ident)? $help:literal;)*) => {
        /// One worker's numbers. They are aligned so that two workers share neither a cache line nor the pair of lines that
        /// processors fetch together.
        #[derive(Debug)]
        #[repr(align(128))]
        pub struct Numbers {
            $(#[doc = $help] pub $name: Number,)*
            labelled: Mutex<BTreeMap<(Family, &'static str), u64>>,
            /// Bytes served, by their source and the card that they left by, on machines with several silos.
            pub crossings: Crossings,
            /// Times to first byte, in microseconds.
            pub first_byte: Histogram<2>,
        }

        impl Default for Numbers {
            fn default() -> Self {
                Self {
                    $($name: Number::default(),)*
                    labelled: Mutex::default(),
                    crossings: Crossings::default(),
                    first_byte: Histogram::up_to(FIRST_BYTE_MICROSECONDS_MAX),
                }
            }
        }

        /// The metric of each plain number, in the order of [`Totals::each`].
        pub(crate) const PLAIN: &[Metric] = &[$(
            Metric::new(Kind::$kind, concat!("fullbore_", stringify!($name)), $help)
                $(.by(stringify!($label)))?
                $(.stored(StoredUnit::$stored))?,
        )*];

        /// The plain numbers of several workers, summed.
        #[derive(Clone, Debug, Default)]
        pub struct Counted {
            $(#[doc = $help] pub $name: u64,)*
        }

        impl Counted {
            pub(crate) fn add(&mut self, worker: &Numbers) {
                $(self.$name = self.$name.wrapping_add(worker.$name.value());)*
            }

            pub(crate) fn values(&self) -> impl Iterator<Item = u64> {
                [$(self.$name,)*].into_iter()
            }
        }
    };
}

numbers! {
    Gauge connections "Connections open now.";
    Gauge sending "Responses being sent now.";
    Counter connections_accepted_total "Connections accepted.";
    Counter connections_moved_total "Connections that came from a worker of another silo, because their film's disk is in this one (--silo disk).";
    Counter accept_pauses_total "Pauses in accepting connections, because file descriptors or memory ran out.";
    Counter requests_total "Requests read.";
    Counter response_sent_bytes_total "Bytes of responses that TCP accepted, heads and bodies, before encryption.";
    Counter sent_to_nodes_bytes_total "Bytes of responses to nodes that copy titles from here, as accepted by TCP. transport_sent_bytes_total includes them; counts by title do not.";
    Counter transport_sent_bytes_total "Bytes that TCP accepted, including TLS handshakes and record overhead (excluding that overhead when the kernel encrypts).";
    Counter windows_total "Windows pulled: normally one read and one send each.";
    Counter windows_waited_total "Windows that waited until TCP could accept more; each wait is a wake-up.";
    Counter queue_trials_total "Times that the worker compared its CPU time per byte with long and with short queues of unsent bytes.";
    Gauge queues_short "Workers that keep fast viewers' queues of unsent bytes short, because that took less CPU time per byte.";
    Counter unsent_limits_raised_total "Times that the limit on a connection's unsent bytes was raised, because its viewer took bytes fast.";
    Counter windows_taken_in_part_total "Windows that TCP accepted only in part at first.";
    Counter send_pauses_total "Pauses in sending, because the kernel had no memory.";
    Counter total_rate_waits_total "Windows that waited for their turn, because net.total_bits_per_second limits the rate of all viewers together.";
    Counter take_backs_total "Buffers taken back from stalled viewers.";
    Counter records_made_again_total "TLS records sealed again: after a take-back, or because they were lost or sent only in part (bypass).";
    Counter bypass_wants_total "Byte ranges that the server's own TCP requested (bypass).";
    Counter bypass_reread_bytes_total "Bytes of files read again because packets were lost (bypass).";
    Gauge bypass_connection_bytes "Memory of TCP and of send streams, tags included (bypass).";
    Gauge bypass_in_flight_bytes "Bytes in flight to viewers (bypass).";
    Counter key_updates_received_total "TLS key updates received.";
    Counter key_updates_sent_total "TLS key updates sent.";
    Counter read_hot_bytes_total "Bytes taken from the hot set, which needs no read.";
    Counter hot_filled_bytes_total "Bytes read from disk into the hot set.";
    Counter hot_evicted_bytes_total "Bytes of the hot set that were replaced by others or given back to the kernel.";
    Gauge hot_bytes "Memory in use by the hot set.";
    Gauge hot_pinned_bytes "Bytes of pinned titles in the hot set.";
    Gauge hot_pins_missing_bytes "Bytes of pinned titles that the hot set does not have: they wait to be read, cannot be read, or find no room.";
    Gauge hot_bytes_max "The most memory that the hot set may use.";
    Counter read_resident_bytes_total "Bytes read from the page cache.";
    Counter read_cached_bytes_total "Bytes read from disk into the page cache.";
    Counter read_once_bytes_total "Bytes read from disk with RWF_DONTCACHE.";
    Counter read_direct_bytes_total "Bytes read from disk with O_DIRECT.";
    Counter read_refused_total "Reads that fell back to another mode, because the filesystem refused O_DIRECT or RWF_DONTCACHE.";
    Counter disk_reads_total "Windows that came from disk, or could not be read.";
    Counter disk_read_seconds_total in Millionths "Total time that windows took to arrive from disk.";
    Counter sendfile_bytes_total "Bytes of files that the kernel sent directly from its page cache.";
    Counter brought_bytes_total "Bytes read from disk into the page cache so that the kernel could send them.";
    Counter sent_once_bytes_total "Bytes of films that a network card encrypted from the page cache, and that were dropped from there once their viewer had them.";
    Gauge bringing_bytes "Bytes being read into the page cache for the kernel to send, and bytes there that it has not sent yet.";
    Counter windows_not_held_total "Windows read into a buffer, although the kernel could send them, because the server had no lease on the file.";
    Counter files_open_for_writing_total "Files opened while another program had them open for writing, so that the server may miss a change.";
    Counter windows_not_brought_total "Windows read into a buffer, although they are worth caching, because too many were on their way or the page cache had no room.";
    Counter loads_stalled_total "Parts of films that io_uring loaded into the page cache in place of a disk's loading threads, because the disk answered none of them for a second: check the disk.";
    Counter buffer_waits_total "Times a session waited for a buffer.";
    Gauge read_buffers_free "Read buffers that are free.";
    Gauge read_buffers "Read buffers.";
    Gauge send_buffers_free "Send buffers that are free.";
    Gauge send_buffers "Send buffers.";
    Gauge open_files "Library files kept open.";
    Gauge response_memory_bytes "Memory held by responses: pages, lists, heads of parts.";
    Counter card_tls_retransmitted_bytes_total "Bytes sent again on connections that a network card encrypts, of each whole MiB that a connection sent.";
    Counter cmcd_reports_total "Requests in which a player reported its viewer's experience (CMCD).";
    Counter cmcd_sessionless_total "Requests and events whose CMCD names no session.";
    Counter cmcd_malformed_total "Parts of CMCD that could not be parsed.";
    Counter cmcd_reports_lost_total "Requests with CMCD that were not counted, because too many came at once.";
    Counter cmcd_events_total "Events that players posted to /-/cmcd (CMCD version 2).";
    Counter cmcd_events_lost_total "Events that players posted and that were not counted, because too many came at once.";
    Counter access_log_lost_total "Access log lines dropped, because the disk under the log was too slow or full.";
    Counter tasks_panicked_total "Sessions ended by a bug in this program.";
    Counter edge_fetched_bytes_total "Bytes of bodies fetched from the origin (caching edge).";
    Gauge edge_origin_down "Whether the last request to the origin had no answer, or an error of the origin's: 1 or 0. With several origins: none had a better answer (caching edge).";
    Gauge edge_origins_passed_over "Origins that requests pass over, because they failed several times in a row (caching edge).";
    Gauge edge_waiting "Requests that wait for their turn at the origin (caching edge).";
    Gauge edge_held "Requests that the origin holds until there is an answer, such as the next playlist of a live stream (caching edge).";
    Gauge edge_ahead_paused "Whether nothing is fetched ahead of viewers, because too much of it was wasted: 1 or 0 (caching edge).";
    Counter worker_cpu_seconds_total by worker in Millionths "CPU time of each worker's thread.";
}

impl Numbers {
    /// Adds one to a labelled counter. It takes a lock, the worker's own and uncontended, so it is not for the path of a byte.
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

    /// The totals of this worker alone.
    pub fn totals(&self) -> Totals {
        Totals::of([self])
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Family, &'static str), u64>> {
        self.labelled.lock().expect("no holder of this lock can panic")
    }
}
