//! The findings of testssl.sh: protocols, kinds of ciphers, known attacks.

use fullbore_tests::{Launch, file, tool};
use serde_json::Value;
use std::fs;
use tempfile::tempdir;

/// Harmless severities; the rest are LOW to CRITICAL. WARN means that this machine cannot test something.
const HARMLESS: [&str; 3] = ["OK", "INFO", "WARN"];

/// The least number of checks, so that none is skipped unnoticed: 27 with version 3.0.
const CHECKS_MIN: usize = 20;

#[test]
fn testssl_finds_no_weak_protocol_no_weak_cipher_and_no_known_attack() {
    if !tool::are_here(&[("testssl", "testssl.sh"), ("openssl", "openssl")]) {
        return;
    }
    let folder = tempdir().unwrap();
    let report = folder.path().join("report.json");
    let library = tempdir().unwrap();
    file(library.path(), "a.mp4", 1000);
    let server = Launch::of(library.path()).start();
    let mut command = tool::command("testssl");
    command.args(["--quiet", "--warnings", "off", "--color", "0", "-p", "-s", "-U", "--jsonfile"]);
    let ran = tool::run(command.arg(&report).arg(server.address.to_string()));
    let findings: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    let findings = findings.as_array().expect("a list");
    let severity = |finding: &Value| finding["severity"].as_str().unwrap_or("none").to_owned();
    let bad: Vec<_> = findings.iter().filter(|f| !HARMLESS.contains(&&*severity(f))).collect();
    assert!(bad.is_empty(), "{bad:#?}\n{}", ran.text());
    let good = findings.iter().filter(|finding| severity(finding) == "OK").count();
    assert!(good >= CHECKS_MIN, "{good} checks passed: {findings:#?}");
}
