//! Runs every bench, one after the other, as processes of this program.
//!
//! Each step is a command line that anyone can run by hand. If a step fails, its last output is kept and the next step runs. Ctrl-C is
//! passed on to the running step, which writes what it has; later steps are not started.

use super::Report;
use super::source::{self, Skipped};
use crate::versus::Workload;
use load::interrupt::Interrupt;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Other servers, measured if they are installed, and how to install them.
const PEERS: [(&str, &str); 2] = [
    ("nginx", "apt install nginx-light, or use ./run bench, which unpacks one"),
    ("h2o", "apt install h2o, or use ./run bench, which unpacks one"),
];

/// Other clients, and how to install those by other authors. They are measured with the first peer: the client decides how often a server
/// has to wake up, so figures with slow clients belong next to those with a fast one.
const CLIENTS: [(&str, Option<&str>); 3] = [
    ("small-reads", None),
    ("curl", Some("apt install curl, or use ./run bench, which installs it")),
    ("wrk", Some("apt install wrk, or use ./run bench, which installs it")),
];

/// What other clients draw, and what is measured under both usual congestion controls.
const BOTH: [Workload; 2] = [Workload::TlsWarm, Workload::HttpWarm];

/// The congestion control that the machine has set.
const SYSTEM_CONTROL: [&str; 2] = ["--congestion-control", "system"];

/// How many lines of a failed step's output are shown.
const LAST_LINES: usize = 4;

/// How long a step that has ended may take to deliver its last lines, if others still hold its standard error.
const LAST_WORDS_PATIENCE: Duration = Duration::from_secs(5);

/// Unmeasured seconds of a turn: warming up, comparing bytes, connecting.
const TURN_SECONDS: f64 = 3.0;

/// Seconds of a turn that searches for how many viewers can play.
const SEARCH_SECONDS: f64 = 100.0;

/// Arguments for so few playing viewers that no search is needed.
const QUICK_SWARM: [&str; 2] = ["--connections", "32"];

/// How much to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Figures to cite: takes about an hour with two other servers.
    Full,
    /// A few minutes, to check that everything works.
    Quick,
}

/// A step, run or not.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) name: String,
    pub(crate) fate: Fate,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    /// The end of its output.
    Failed(String),
    /// The reason.
    NotRun(String),
}

/// Something to run.
#[derive(Clone, Debug)]
struct Step {
    name: String,
    arguments: Vec<String>,
    /// Where to write its figures.
    json: PathBuf,
    seconds: f64,
}

/// Runs every bench with this program, writing files into a folder that is created if necessary, and reads them. `progress` gets each step
/// and each line that the steps print.
///
/// # Errors
/// If the folder cannot be created or this program cannot be found. A step's failure is in the report instead.
pub fn run_all(
    extent: Extent,
    files: &Path,
    interrupt: &Interrupt,
    mut progress: impl FnMut(&str),
) -> io::Result<Report> {
    fs::create_dir_all(files).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot create {}: {error}", files.display()))
    })?;
    let program = std::env::current_exe()?;
    let mut report = Report::default();
    let steps = plan(extent, files, is_installed, &mut report.steps);
    announce(&steps, &mut progress);
    for (index, step) in steps.iter().enumerate() {
        let fate = if interrupt.is_asked() {
            Fate::NotRun("the report was interrupted before it".to_owned())
        } else {
            progress(&format!(
                "[{}/{}] {}, {}",
                index + 1,
                steps.len(),
                step.name,
                duration(step.seconds)
            ));
            step.take(&program, interrupt, &mut progress)
        };
        if let Fate::Failed(why) = &fate {
            progress(&format!("  failed: {why}"));
        }
        report.steps.push(Taken { name: step.name.clone(), fate });
        report.read_step(step);
    }
    Ok(report)
}

impl Report {
    /// Reads what a step has written, if anything.
    fn read_step(&mut self, step: &Step) {
        if !step.json.exists() {
            return;
        }
        match source::read_file(&step.json) {
            Ok(sources) => self.sources.extend(sources),
            Err(why) => self.skipped.push(Skipped { file: step.json.display().to_string(), why }),
        }
    }
}

/// All steps to run. Those that cannot be run go to `taken` at once.
fn plan(
    extent: Extent,
    files: &Path,
    is_installed: impl Fn(&str) -> bool,
    taken: &mut Vec<Taken>,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for (peer, advice) in PEERS {
        if is_installed(peer) {
            steps.extend(Workload::ALL.map(|(workload, _)| versus(extent, files, peer, workload)));
        } else {
            taken.push(not_installed(&format!("versus {peer}"), peer, advice));
        }
    }
    for (client, advice) in CLIENTS.iter().filter(|_| is_installed(PEERS[0].0)) {
        if let Some(advice) = advice.filter(|_| !is_installed(client)) {
            taken.push(not_installed(&format!("--client {client}"), client, advice));
        } else {
            steps.extend(BOTH.map(|workload| with_client(client, extent, files, workload)));
        }
    }
    let is_quick = extent == Extent::Quick;
    let quick: &[&str] = if is_quick { &["--quick"] } else { &[] };
    let rounds: &[&str] = if is_quick { &["--rounds", "3"] } else { &[] };
    let short: &[&str] =
        if is_quick { &["--rounds", "2", "--seconds", "0.2", "--library", "64"] } else { &[] };
    steps.push(Step::new(files, &["limit"], short, if is_quick { 20.0 } else { 90.0 }));
    steps.push(Step::new(files, &["ablate"], quick, if is_quick { 300.0 } else { 1800.0 }));
    steps.push(Step::new(files, &["start"], rounds, 5.0));
    let short: &[&str] = if is_quick { &["--rounds", "2", "--seconds", "0.2"] } else { &[] };
    steps.push(Step::new(files, &["disk"], short, if is_quick { 10.0 } else { 60.0 }));
    steps
}

fn not_installed(step: &str, program: &str, advice: &str) -> Taken {
    let why = format!("{program} is not installed: {advice}");
    Taken { name: step.to_owned(), fate: Fate::NotRun(why) }
}

/// A comparison with the first peer and another client.
fn with_client(client: &str, extent: Extent, files: &Path, workload: Workload) -> Step {
    let (peer, _) = PEERS[0];
    let mut step = versus(extent, files, peer, workload);
    step.arguments.extend(["--client", client].map(str::to_owned));
    step.name = format!("{} --client {client}", step.name);
    step.json = files.join(format!("versus-{peer}-{}-{client}.json", workload.name()));
    step
}

fn versus(extent: Extent, files: &Path, peer: &str, workload: Workload) -> Step {
    let quick: &[&str] = &["--rounds", "2", "--seconds", "0.3", "--library", "64"];
    let (further, turns, seconds) =
        if extent == Extent::Quick { (quick, 4.0, 0.3) } else { (&[][..], 10.0, 4.0) };
    // Whether long queues pay depends on client and congestion control, so what is bound by sending is measured under both usual
    // ones (the bench's default). The rest takes long enough under one.
    let is_under_both = extent == Extent::Full && BOTH.contains(&workload);
    let parts = match workload {
        Workload::Mixed => 4.0,
        _ if is_under_both => 2.0,
        _ => 1.0,
    };
    let is_search = workload == Workload::Swarm && extent == Extent::Full;
    let beside = if is_search { SEARCH_SECONDS } else { TURN_SECONDS };
    let estimate = turns * parts * (seconds + beside);
    let mut step =
        Step::new(files, &["versus", peer, "--workload", workload.name()], further, estimate);
    if !is_under_both {
        step.arguments.extend(SYSTEM_CONTROL.map(str::to_owned));
    }
    if workload == Workload::Swarm && extent == Extent::Quick {
        step.arguments.extend(QUICK_SWARM.map(str::to_owned));
    }
    step.name = format!("versus {peer} {}", workload.name());
    step.json = files.join(format!("versus-{peer}-{}.json", workload.name()));
    step
}

fn announce(steps: &[Step], progress: &mut impl FnMut(&str)) {
    let seconds = steps.iter().map(|step| step.seconds).sum();
    progress(&format!("{} steps, {} in total:", steps.len(), duration(seconds)));
    for step in steps {
        progress(&format!("  {}, {}", step.name, duration(step.seconds)));
    }
}

/// An estimate, so in large units.
fn duration(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("about {seconds:.0} s")
    } else {
        format!("about {:.0} min", seconds / 60.0)
    }
}

/// Returns true if a program is on the PATH.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

impl Step {
    fn new(files: &Path, words: &[&str], further: &[&str], seconds: f64) -> Self {
        let arguments = [&["bench"], words, further].concat();
        let arguments = arguments.into_iter().map(str::to_owned).collect();
        Self {
            name: words[0].to_owned(),
            arguments,
            json: files.join(format!("{}.json", words[0])),
            seconds,
        }
    }

    fn take(&self, program: &Path, interrupt: &Interrupt, progress: &mut impl FnMut(&str)) -> Fate {
        // A file of an earlier run must not be mistaken for this one's.
        if let Err(error) = fs::remove_file(&self.json) {
            if error.kind() != io::ErrorKind::NotFound {
                return Fate::Failed(format!("cannot replace {}: {error}", self.json.display()));
            }
        }
        match self.run(program, interrupt, progress) {
            Ok((status, _)) if status.success() => Fate::Done,
            Ok(_) if interrupt.is_asked() => Fate::Failed("it was interrupted".to_owned()),
            Ok((status, said)) if said.is_empty() => {
                Fate::Failed(format!("it ended with {status}"))
            }
            Ok((_, said)) => Fate::Failed(said.join(" / ")),
            Err(error) => Fate::Failed(format!("cannot run it: {error}")),
        }
    }

    /// Runs the step. Returns its exit status and its last lines.
    fn run(
        &self,
        program: &Path,
        interrupt: &Interrupt,
        progress: &mut impl FnMut(&str),
    ) -> io::Result<(ExitStatus, Vec<String>)> {
        let mut child = Command::new(program)
            .args(&self.arguments)
            .arg("--json")
            .arg(&self.json)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // A separate process group: a terminal's Ctrl-C reaches only us, and we pass it on to the step once.
            .process_group(0)
            .spawn()?;
        let lines = lines_of(child.stderr.take().expect("it was asked for"));
        let mut last = VecDeque::new();
        let (mut is_told, mut ended) = (false, None);
        loop {
            match lines.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => {
                    progress(&format!("  {line}"));
                    last.push_back(line);
                    last.drain(..last.len().saturating_sub(LAST_LINES));
                }
                Err(RecvTimeoutError::Disconnected) => break,
                // Its last output may still arrive, but processes that it left running may never close the pipe.
                Err(RecvTimeoutError::Timeout) if child.try_wait()?.is_some() => {
                    if ended.get_or_insert_with(Instant::now).elapsed() > LAST_WORDS_PATIENCE {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            // Once it has been waited for, its number may be that of another process.
            if interrupt.is_asked() && !is_told && ended.is_none() {
                is_told = true;
                end(&child);
            }
        }
        Ok((child.wait()?, last.into()))
    }
}

/// A process's output, line by line, read by a separate thread because reading blocks.
fn lines_of(stderr: ChildStderr) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stderr);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            let said = String::from_utf8_lossy(&line).trim_end().to_owned();
            if !said.is_empty() && sender.send(said).is_err() {
                return;
            }
            line.clear();
        }
    });
    lines
}

/// Ends it as Ctrl-C would.
fn end(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may just have exited by itself.
        let _ = kill_process(pid, Signal::INT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_installed_peer_is_measured_in_every_workload_and_a_missing_one_is_named() {
        let mut taken = Vec::new();
        let is_there = |program: &str| ["nginx", "wrk"].contains(&program);
        let steps = plan(Extent::Full, Path::new("f"), is_there, &mut taken);
        // wrk and small reads add two workloads each.
        assert_eq!(steps.len(), Workload::ALL.len() + 2 * 2 + 4);
        assert_eq!(taken.len(), 2);
        for (taken, advice) in taken.iter().zip(["apt install h2o", "apt install curl"]) {
            assert!(matches!(&taken.fate, Fate::NotRun(why) if why.contains(advice)), "{taken:?}");
        }
        let mut files: Vec<_> = steps.iter().map(|step| &step.json).collect();
        files.dedup();
        assert_eq!(files.len(), steps.len(), "each step has a file of its own");
    }

    fn step(script: &str, folder: &Path) -> (Fate, Vec<String>) {
        let mut said = Vec::new();
        let mut step = Step::new(folder, &["start"], &[], 1.0);
        step.arguments = vec!["-c".to_owned(), script.to_owned()];
        let mut progress = |line: &str| said.push(line.to_owned());
        let fate = step.take(Path::new("/bin/sh"), &Interrupt::default(), &mut progress);
        (fate, said)
    }

    #[test]
    fn a_step_that_fails_is_known_by_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let (fate, said) = step("echo working >&2; echo no such thing >&2; exit 1", folder.path());
        assert_eq!(fate, Fate::Failed("working / no such thing".into()));
        assert_eq!(said, ["  working", "  no such thing"]);
        let (fate, _) = step("exit 3", folder.path());
        assert!(matches!(fate, Fate::Failed(why) if why.contains('3')));
    }

    #[test]
    fn an_older_file_is_not_taken_for_what_a_failed_step_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("start.json");
        fs::write(&json, "{}").unwrap();
        let (fate, _) = step("exit 1", folder.path());
        assert!(fate != Fate::Done && !json.exists());
    }
}
