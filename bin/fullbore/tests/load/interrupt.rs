//! Ctrl-C: what was measured so far, and nothing left behind.

use crate::bad::Bad;
use crate::program::{command, library, load_until, serve};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Ctrl-C.
pub(crate) fn interrupt(child: &Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

/// Waits until the process has opened as many sockets as it has viewers: then the run is under way.
fn wait_until_connected(child: &Child, connections: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let folder = format!("/proc/{}/fd", child.id());
    let sockets = || {
        let entries = std::fs::read_dir(&folder).unwrap().flatten();
        let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    };
    while sockets() < connections {
        assert!(Instant::now() < deadline, "it never connected");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn one_interruption_ends_the_run_with_what_was_measured() {
    let library = library(1);
    let server = serve(library.path(), "");
    let url = [format!("{}/0.mp4", server.url)];
    let json = library.path().join("figures.json");
    // In the ramp, and after it.
    for ramp in ["10m", "0"] {
        let words = format!("--insecure --duration 10m --ramp {ramp} --connections 1");
        let mut command = command(&words, &url);
        command.arg("--json").arg(&json).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        wait_until_connected(&child, 1);
        interrupt(&child);
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with("interrupted") && said.contains("Gb/s"), "{said}");
        let figures: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        assert_eq!(figures["interrupted"], true);
        assert!(!std::path::Path::new(&format!("/proc/{pid}/fd")).exists(), "it left a process");
    }
}

#[test]
fn progress_is_not_drawn_into_a_pipe() {
    let library = library(1);
    let server = serve(library.path(), "");
    let url = [format!("{}/0.mp4", server.url)];
    // A run is not clean if it wrote to standard error. Progress is drawn every second.
    load_until("--insecure", &url, |ran| ran.number("wall_seconds") >= 1.5);
}

#[test]
fn an_interruption_ends_a_run_that_waits_for_a_silent_server() {
    let bad = Bad::start(|stream, _| Bad::linger(stream));
    let mut child = command("--duration 10m --patience 10m --connections 1", &[bad.url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_connected(&child, 1);
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("there were no answers"), "{said}");
}
