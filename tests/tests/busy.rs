//! `./run busy N COMMAND`, as `./run test --busy N` uses it: the loops run next to the command, and none outlives it.

use fullbore_tests::{eventually, until};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};

const LOOPS: usize = 2;

/// A process and its start time, because process ids are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: u64,
    began: u64,
}

/// The kernel's data on a process: its parent, its processor time in ticks, and its start time. None if it has ended.
fn stat(pid: u64) -> Option<(u64, u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = text.rsplit_once(") ")?.1.split(' ').collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    (fields[0] != "Z").then_some(())?;
    Some((number(1)?, number(11)? + number(12)?, number(19)?))
}

fn children(of: u64) -> Vec<Process> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let child =
        |pid| stat(pid).filter(|(parent, ..)| *parent == of).map(|(_, _, began)| (pid, began));
    pids.filter_map(child).map(|(pid, began)| Process { pid, began }).collect()
}

impl Process {
    fn lives(self) -> bool {
        stat(self.pid).is_some_and(|(.., began)| began == self.began)
    }
}

/// The script as at a terminal: Ctrl-C ends it, even if these tests run in the background of a script, where it is ignored.
fn run(words: &[&str]) -> Command {
    let mut command = Command::new("env");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../run");
    command.args(["--default-signal=INT,QUIT".as_ref(), script.as_os_str()]);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A command that waits for a line next to busy loops, each of which has had processor time.
struct Busy {
    child: Child,
    stdin: Option<ChildStdin>,
    loops: Vec<Process>,
}

impl Busy {
    fn begin() -> Self {
        let script = "echo $$; read -r line; exit 7";
        let mut command = run(&["busy", &LOOPS.to_string(), "sh", "-c", script]);
        // A terminal's Ctrl-C goes to a group of processes.
        let mut child = command.process_group(0).spawn().unwrap();
        let mut own = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut own).unwrap();
        let own: u64 = own.trim().parse().expect("the command's process");
        let loops: Vec<_> =
            children(child.id().into()).into_iter().filter(|process| process.pid != own).collect();
        assert_eq!(loops.len(), LOOPS, "{loops:?}");
        let ticks = |process: &Process| stat(process.pid).map_or(0, |(_, ticks, _)| ticks);
        until("the loops to be busy", || loops.iter().all(|process| ticks(process) > 0));
        let stdin = child.stdin.take();
        Self { child, stdin, loops }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until the script and its loops are gone. Returns the script's exit code.
    fn ended(mut self) -> Option<i32> {
        let code = eventually("the script to end", || self.child.try_wait().unwrap()).code();
        until("the loops to end", || !self.loops.iter().any(|process| process.lives()));
        code
    }
}

#[test]
fn loops_end_with_their_command_whose_exit_code_is_returned() {
    let mut busy = Busy::begin();
    busy.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(busy.ended(), Some(7));
}

#[test]
fn the_command_runs_where_the_caller_is() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(&["busy", "1", "pwd"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), folder.path().to_str().unwrap());
}

#[test]
fn loops_end_by_ctrl_c_by_sigterm_and_when_the_script_is_killed() {
    let busy = Busy::begin();
    kill_process_group(busy.pid(), Signal::INT).unwrap();
    assert_ne!(busy.ended(), Some(0));
    for signal in [Signal::TERM, Signal::KILL] {
        let busy = Busy::begin();
        kill_process(busy.pid(), signal).unwrap();
        assert_ne!(busy.ended(), Some(0));
    }
}

#[test]
fn a_wrong_number_of_loops_is_refused_with_an_example() {
    let refused = |words: &[&str]| {
        let Output { status, stderr, .. } = run(words).output().unwrap();
        let text = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{words:?}: {text}");
        assert!(text.contains("such as: ./run") || text.contains("Such as: ./run"), "{text}");
    };
    refused(&["test", "--busy"]);
    refused(&["test", "--busy=", "-p", "fullbore-disk"]);
    refused(&["test", "-p", "fullbore-disk", "--busy", "some"]);
    refused(&["busy", "0", "true"]);
    refused(&["busy", "4"]);
}
