//! Clients that break TLS on purpose, or use rare features: `tls_by_hand.py`, with tlslite-ng.

use fullbore_tests::{Launch, Server, tool};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};

/// The server's reaction to each case (RFC 8446 section 6, RFC 5246 section 7.2).
const EXPECTED: [(&str, &str); 20] = [
    ("KeyUpdate whole", "data; warning 0; end"),
    ("KeyUpdate in two pieces", "data; warning 0; end"),
    ("KeyUpdate in five pieces that asks for ours", "new keys; data; warning 0; end"),
    ("KeyUpdate of two bytes", "fatal 50; end"),
    ("KeyUpdate of an unknown request", "fatal 47; end"),
    ("KeyUpdate cut by data", "fatal 10; end"),
    ("ClientHello after the handshake of TLS 1.3", "fatal 10; end"),
    ("empty alert, TLS 1.3", "fatal 10; end"),
    ("empty alert, TLS 1.2", "fatal 10; end"),
    ("alert of one byte", "fatal 50; end"),
    ("heartbeat, TLS 1.3", "fatal 10; end"),
    ("heartbeat, TLS 1.2", "fatal 10; end"),
    ("nothing but padding", "fatal 10; end"),
    ("nothing but padding for Finished", "fatal 10; end"),
    ("data for Finished", "fatal 10; end"),
    ("renegotiation", "warning 100; warning 0; end"),
    ("damaged record with more behind it, TLS 1.3", "fatal 20; end"),
    ("damaged record with more behind it, TLS 1.2", "fatal 20; end"),
    ("heartbeat first", "fatal 10; end"),
    ("ClientHello of 65,516 bytes", "fatal 50; end"),
];

/// The folder in which `./run` keeps Python packages; reports if there is no tlslite-ng and returns `None`.
fn packages() -> Option<PathBuf> {
    if !tool::are_here(&[("python3", "python3")]) {
        return None;
    }
    let folder = std::env::var_os("FULLBORE_PYTHON").map(PathBuf::from);
    let found = folder.filter(|folder| folder.join("tlslite").is_dir());
    if found.is_none() {
        tool::skip("there is no tlslite-ng: ./run test gets it, and sets FULLBORE_PYTHON");
    }
    found
}

/// A server with a short film.
fn served(words: &str) -> (TempDir, Server) {
    let folder = tempdir().unwrap();
    fullbore_tests::file(folder.path(), "a.mp4", 1000);
    let server = Launch::of(folder.path()).arguments(words).start();
    (folder, server)
}

/// The server's reaction to each case, by the case's name.
fn outcomes(server: &Server, packages: &Path) -> HashMap<String, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls_by_hand.py");
    let mut command = tool::command("python3");
    command.arg(script).arg(server.address.port().to_string());
    command.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
    let ran = tool::run(&mut command);
    assert!(ran.success, "{}\n{}", ran.text(), ran.stderr);
    let lines = ran.text();
    lines
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(a, b)| (a.into(), b.into()))
        .collect()
}

#[track_caller]
fn assert_expected(server: &Server, packages: &Path) {
    let outcomes = outcomes(server, packages);
    assert_eq!(outcomes.len(), EXPECTED.len(), "{outcomes:?}");
    for (case, expected) in EXPECTED {
        assert_eq!(outcomes.get(case).map(String::as_str), Some(expected), "{case}");
    }
}

#[test]
fn each_breach_is_answered_by_its_alert_and_what_is_legal_is_taken() {
    let Some(packages) = packages() else { return };
    let (_folder, server) = served("--route userspace");
    assert_expected(&server, &packages);
    let counters = server.counters();
    assert_eq!(counters.value("connections_ended_total{reason=\"internal\"}"), 0);
    assert_eq!(counters.value("connections_ended_total{reason=\"renegotiation\"}"), 1);
}

#[test]
fn it_is_the_same_where_the_kernel_seals() {
    let Some(packages) = packages() else { return };
    if !Path::new("/proc/net/tls_stat").exists() {
        return tool::skip("this kernel has no TLS: modprobe tls");
    }
    let (_folder, server) = served("--route kernel");
    assert_expected(&server, &packages);
}
