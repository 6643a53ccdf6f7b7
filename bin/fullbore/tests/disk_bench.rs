//! `bench disk`: direct reads of a file are measured, and each way that is unavailable gives its reason. No test asserts a time.

use fullbore_tests::program;
use serde_json::Value;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(["bench", "disk", "--rounds", "2", "--seconds", "0.1", "--library", "16"]);
    command.args(arguments).output().unwrap()
}

#[test]
fn direct_reads_are_measured_and_other_ways_say_why_not() {
    // Not in memory, where there are no direct reads.
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut direct = std::fs::OpenOptions::new();
    direct.write(true).create(true).custom_flags(libc::O_DIRECT);
    if let Err(error) = direct.open(scratch.path().join("probe")) {
        fullbore_tests::tool::skip(&format!(
            "{} has no direct reads: {error}",
            scratch.path().display()
        ));
        return;
    }
    let file = scratch.path().join("disk.json");
    let folder = scratch.path().to_str().unwrap();
    let output = bench(&["--scratch", folder, "--json", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&figures["version"], &figures["kind"]), (&1.into(), &"disk".into()));
    let ways = figures["ways"].as_array().unwrap();
    let names: Vec<_> = ways.iter().map(|way| way["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["interrupts", "polled", "passthrough", "passthrough, polled"]);
    let interrupts = &ways[0];
    assert!(interrupts["unavailable"].is_null(), "{interrupts}");
    assert_eq!(interrupts["compared_bytes"], 16 * (128 << 10), "a read in each slot");
    for figure in ["gbps_per_cpu_second", "reads_per_second", "us_median", "reads_at_once"] {
        assert!(interrupts[figure].as_f64().unwrap() > 0.0, "{interrupts}");
    }
    for way in &ways[2..] {
        let why = way["unavailable"].as_str().unwrap();
        assert!(way["gbps"].is_null() && why.contains("NVMe disk"), "{way}: a file is no disk");
    }
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("passthrough          not available"), "{said}");
}

#[test]
fn what_cannot_be_read_is_named_with_the_reason() {
    for (arguments, words) in [
        (["--", "/nonexistent"], "cannot read /nonexistent: No such file"),
        (["--", "/dev/null"], "cannot read /dev/null: it is neither a file nor a block device"),
        (["--read", "5"], "multiple of 4"),
    ] {
        let output = bench(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
}
