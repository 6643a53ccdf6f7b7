//! `fullbore serve --origin URL --cache DIR`: a caching edge in front of an HTTP origin or a bucket.
//!
//! The real program is in front of an origin that behaves as the test wants ([`origin`]).

mod addresses;
mod ahead;
mod ahead_numbered;
mod any_length;
mod bucket;
mod bucket_role;
mod cache_status;
mod changes;
mod crashes;
mod drawn_viewers;
mod faults;
mod flaky;
mod flood;
mod forwarding;
mod http_cache_suite;
mod inquiring;
mod invalidation;
mod leaving;
mod live;
mod live_ffmpeg;
mod lost_helpers;
mod low_latency;
mod names;
mod one_viewer;
mod origin;
mod origin_certificates;
mod origin_paths;
mod origin_settings;
mod origins;
mod packager;
mod passing;
mod passing_faults;
mod purging;
mod ranges;
mod revalidating;
mod rules;
mod rules_headers;
mod rules_lifetimes;
#[path = "../../../crates/core/s3/tests/s3_server/mod.rs"]
#[allow(dead_code, reason = "the client's own tests use the rest")]
mod s3_server;
mod serving;
mod shared_arrivals;
mod signed;
mod slowhttp;
mod tier;
mod warm;

use fullbore_tests::{Launch, Server};
use origin::Origin;
use std::path::Path;

/// The size of a block.
const MIB: usize = 1 << 20;

/// An edge does not give up on the origin while a test holds answers back, or while this machine is busy.
const PATIENT: &str = "[edge]\nsilent_seconds = 300.0\n";

/// One that does so soon, for origins that are silent on purpose: later than a busy machine lets an origin wait.
const IMPATIENT: &str = "[edge]\nsilent_seconds = 5.0\n";

/// An edge in front of `origin`, over plain HTTP.
fn edge(origin: &Origin, cache: &Path, words: &str) -> Server {
    launch(origin, cache).arguments("--tls off").arguments(words).start()
}

fn launch(origin: &Origin, cache: &Path) -> Launch {
    launch_at(&origin.url(), cache)
}

fn launch_at(origin: &str, cache: &Path) -> Launch {
    Launch::bare()
        .config(PATIENT)
        .arguments("--origin")
        .argument(origin)
        .arguments("--cache")
        .argument(cache)
}
