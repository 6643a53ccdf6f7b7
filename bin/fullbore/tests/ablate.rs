//! `bench ablate`, tiny: its output has the promised shape, it reports what it could not measure, and it leaves nothing behind. No
//! test asserts a time.

use fullbore_tests::{eventually, program, tool, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

/// So few viewers that any machine can serve them: the search ends at this bound.
const VIEWERS: &str = "4";

/// The seconds of each step to try, in turn: a machine that is busy with other tests may leave viewers without their rate for half a second.
const SECONDS: [&str; 4] = ["0.5", "2", "8", "32"];

fn ablate(seconds: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["bench", "ablate", "--quick", "--seconds", seconds, "--rate", "8M"]);
    command.args(["--viewers", VIEWERS, "--library", "64"]).args(arguments);
    command
}

/// Runs it until each row is `complete`, for longer each time, and returns its output.
fn outcome(arguments: &[&str], is_complete: impl Fn(&Value) -> bool) -> (Output, Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ablate.json");
    for seconds in SECONDS {
        let output = ablate(seconds, arguments).arg("--json").arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let written = std::fs::read(&file).unwrap_or_else(|error| panic!("{error}: {said}"));
        let outcome: Value = serde_json::from_slice(&written).unwrap();
        let is_whole = outcome["rows"].as_array().unwrap().iter().all(&is_complete);
        if is_whole && output.status.success() {
            return (output, outcome);
        }
        eprintln!("with steps of {seconds} s not all is there: {outcome:#}{said}");
    }
    panic!("steps of {SECONDS:?} s were not enough");
}

/// Whether a row has this figure, and its baseline, too.
fn has(row: &Value, figure: &str) -> bool {
    [row, &row["baseline"]].iter().all(|of| of[figure].as_f64().is_some_and(|value| value > 0.0))
}

#[test]
fn every_switch_of_the_server_is_among_the_ablations() {
    let names = bench::ablate::names();
    for (_, name, _) in config::Switch::ALL {
        assert!(
            names.contains(&name),
            "add {name} to the bench's list, with the work it matters in"
        );
    }
}

#[test]
fn each_row_has_its_figures_and_those_of_its_baseline() {
    let serves_all = |row: &Value| {
        [row, &row["baseline"]].iter().all(|of| of["viewers"].as_u64() == VIEWERS.parse().ok())
    };
    let (output, outcome) = outcome(&["--switch", "handout,lifo,tls,ahead"], serves_all);
    assert_eq!((&outcome["version"], &outcome["kind"]), (&1.into(), &"ablate".into()));
    assert_eq!(outcome["rate_bits_per_second"], 8_000_000);
    assert!(outcome["machine"].is_object() && outcome["workload"] == "warm");
    let rows = outcome["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["switch"].as_str().unwrap()).collect();
    assert_eq!(names, ["handout", "tls", "lifo", "ahead"]);
    for row in rows {
        assert!(row["skipped"].is_null() && row["what"].is_string(), "{row:#}");
        for of in [row, &row["baseline"]] {
            for figure in ["gbps", "cpu_percent", "gbps_per_cpu_percent"] {
                assert!(of[figure].as_f64().unwrap() > 0.0, "{figure} of {row:#}");
            }
            assert_eq!(of["viewers"].to_string(), VIEWERS);
        }
        assert!(row["change"].as_f64().unwrap() > 0.0);
        assert!(row["stopped_by"].as_str().unwrap().contains("viewers were not tried"));
    }
    assert!(rows.iter().all(|row| row["seed"].is_null()), "there is no published figure");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("warm       (nothing)") && said.contains("cold       ahead"), "{said}");
    let progress = String::from_utf8_lossy(&output.stderr);
    assert!(progress.contains("4 switches and 2 baselines") && !progress.contains('\r'));
}

#[test]
fn handshakes_are_counted_where_they_are_the_work() {
    let (_, outcome) = outcome(&["--switch", "tickets"], |row| has(row, "handshakes_per_second"));
    let row = &outcome["rows"][0];
    assert_eq!(
        (&row["unit"], &row["workload"]),
        (&"handshakes_per_second".into(), &"handshakes".into())
    );
    for of in [row, &row["baseline"]] {
        assert!(of["handshakes_per_second"].as_f64().unwrap() > 0.0, "{row:#}");
    }
}

#[test]
fn what_this_machine_cannot_show_is_skipped_with_the_reason_and_the_rest_is_measured() {
    let is_told = |row: &Value| row["skipped"].is_string() || has(row, "gbps");
    let (output, outcome) = outcome(&["--switch", "vaes,heat,gso,mtu"], is_told);
    let said = String::from_utf8_lossy(&output.stdout);
    let rows = outcome["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let name = row["switch"].as_str().unwrap();
        match row["skipped"].as_str() {
            None => assert!(row["gbps"].as_f64().unwrap() > 0.0, "{row:#}"),
            Some(why) => {
                tool::skip(&format!("{name}: {why}"));
                assert!(row["gbps"].is_null() && said.contains(&format!("SKIPPED {name}: {why}")));
            }
        }
    }
}

#[test]
fn a_switch_that_there_is_not_is_refused_with_those_that_there_are() {
    let output = ablate(SECONDS[0], &["--switch", "warp"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("onepass"), "{said}");
}

#[test]
fn an_interruption_prints_what_is_there_and_leaves_no_server() {
    let mut bench = ablate(SECONDS[0], &["--switch", "lifo,handout"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = bench.id();
    let mut progress = BufReader::new(bench.stderr.take().unwrap()).lines();
    // The first step's line: the baseline's server is running, and there are more steps to come.
    let line =
        progress.by_ref().map(Result::unwrap).find(|line| line.contains("without (nothing)"));
    assert!(line.unwrap().contains("Gb/s"));
    // The next step's server, or still the first one's: whichever is running must be gone afterwards.
    let children = eventually("a server that is running", || {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        Some(children).filter(|children| !children.trim().is_empty())
    });
    kill_process(Pid::from_child(&bench), Signal::INT).unwrap();
    progress.for_each(drop);
    let output = bench.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(130) && said.contains("interrupted"), "{said}");
    // An orphaned process stays in /proc until its new parent reaps it.
    for server in children.split_ascii_whitespace() {
        until(&format!("{server} to be gone"), || {
            !std::path::Path::new(&format!("/proc/{server}")).exists()
        });
    }
}
