//! Other load generators: every answer must be right, and no connection may break.

use fullbore_tests::tool::{self, Ran};
use fullbore_tests::{Server, bytes, file, until};
use std::fs;
use tempfile::{TempDir, tempdir};

const CONNECTIONS: &str = "64";
/// A segment of some windows, so that connections take turns.
const SEGMENT_BYTES: usize = 700_003;

fn library() -> TempDir {
    let folder = tempdir().unwrap();
    file(folder.path(), "segment.m4s", SEGMENT_BYTES);
    fs::write(folder.path().join("small.m4s"), bytes(1000, 1)).unwrap();
    folder
}

/// Loads TLS and plain, a small file and a segment, with the command that `generator` runs for a URL.
fn load(generator: impl Fn(&str) -> Ran, is_clean: impl Fn(&str) -> bool) {
    let folder = library();
    for words in ["--tls on", "--tls off"] {
        let server = Server::start(folder.path(), words);
        for name in ["small.m4s", "segment.m4s"] {
            let ran = generator(&server.url_of(name));
            let said = ran.text();
            assert!(ran.success && is_clean(&said), "{words} {name}: {said}{}", ran.stderr);
        }
        // The generator leaves in the middle of answers, which the server counts once it has noticed.
        until("every request to be answered with 200", || {
            let counters = server.counters();
            let right = counters.value("responses_total{status=\"200\"}");
            right > 0 && counters.value("requests_total") == right
        });
        let counters = server.counters();
        assert_eq!(counters.value("tasks_panicked_total"), 0);
    }
}

#[test]
fn wrk_runs_clean() {
    if !tool::are_here(&[("wrk", "wrk")]) {
        return;
    }
    let run = |url: &str| {
        let mut command = tool::command("wrk");
        tool::run(command.args(["-t", "1", "-c", CONNECTIONS, "-d", "2s", "--timeout", "30s", url]))
    };
    load(run, |said| {
        // It mentions either only if there were any.
        said.contains("Requests/sec")
            && !said.contains("Socket errors")
            && !said.contains("Non-2xx")
    });
}

#[test]
fn h2load_runs_clean() {
    if !tool::are_here(&[("h2load", "nghttp2-client")]) {
        return;
    }
    let run = |url: &str| {
        let mut command = tool::command("h2load");
        tool::run(command.args(["--h1", "-c", CONNECTIONS, "-n", "2000", url]))
    };
    load(run, |said| {
        said.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout")
            && said.contains("status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx")
    });
}
