//! `bench connections` with few viewers: all connect and are served, and its figures are there. No test asserts a time.

use fullbore_tests::program;
use serde_json::Value;
use std::process::{Command, Output};

fn number(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap_or_else(|| panic!("no {name}: {of}"))
}

/// Runs it for longer each time, until every viewer has got an answer: a busy machine may do only a part of its work in that time.
fn measured() -> (Output, Value) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("connections.json");
    for seconds in ["3", "12", "48"] {
        let output = Command::new(program())
            .args(["bench", "connections", "--viewers", "200,2000", "--total-gbps", "0.4"])
            .args(["--answer", "64", "--seconds", seconds, "--json"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let figures: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let is_answered = |row: &Value| number(row, "answers") > number(row, "connections");
        if figures["rows"].as_array().unwrap().iter().all(is_answered) {
            return (output, figures);
        }
    }
    panic!("not each viewer was answered");
}

#[test]
fn more_viewers_are_served_alike_and_their_memory_is_bounded() {
    let (output, figures) = measured();
    assert_eq!((&figures["version"], &figures["kind"]), (&1.into(), &"connections".into()));
    let rows = figures["rows"].as_array().unwrap();
    let viewers: Vec<_> = rows.iter().map(|row| number(row, "connections")).collect();
    assert_eq!(viewers, [200.0, 2000.0]);
    for row in rows {
        assert!(number(row, "gbps") > 0.0 && number(row, "cpu_ns_per_byte") > 0.0, "{row}");
        assert!(number(row, "jain") > 0.5, "{row}");
    }
    // Half of what 400,000 viewers may take each; the first few thousand pay for tables and the allocator's reserves, too.
    let each = number(&rows[1], "counted_bytes_per_connection");
    assert!((1000.0..4096.0).contains(&each), "{each} bytes for each viewer");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("times as much per byte"), "{said}");
    assert!(figures["machine"].is_object());
}
