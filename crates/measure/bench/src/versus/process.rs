//! A process of a server, or of a client that others wrote: in a group of its own, pinned, and ended with all its
//! children when dropped.
//!
//! However the bench itself ends, the server ends too: the kernel signals it when its parent dies (`setpriv
//! --pdeathsig`, prctl(2)). That covers what no destructor can, a bench that is killed. Only a server that leaves its
//! process group escapes. Their command lines keep servers in the foreground, where none does that.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use rustix::time::Timespec;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take to end when asked to, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a client may take to print its results when asked to end. On a busy machine it may not run for a while.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(60);

/// Becomes the program in the arguments, unless the process `$0` is no longer its parent: one that ended before its child had asked for the signal
/// can't cause it any more, and the server would run forever.
const UNLESS_ORPHANED: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

/// How much of a server's output an error shows.
const TAIL_BYTES: usize = 2000;

/// Longest line with which a server reports that it is ready.
const LINE_BYTES_MAX: usize = 4096;

/// A running process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pid: Pid,
    log: PathBuf,
    said: Vec<u8>,
}

impl Process {
    /// Starts a program with arguments and environment variables on these cores (none: any core), by way of `entry`,
    /// which leads to its place. Its output goes to `log`. With `is_read`, its standard output is available from
    /// [`Self::line`] instead.
    ///
    /// # Errors
    /// Mostly, if there is no such program.
    pub(crate) fn start(
        entry: &[String],
        words: &[String],
        variables: &[(&str, PathBuf)],
        cpus: &[u32],
        log: &Path,
        is_read: bool,
    ) -> io::Result<Self> {
        let program = words.first().map_or("", String::as_str);
        find(program)?;
        let said = File::create(log)?;
        let output = if is_read { Stdio::piped() } else { said.try_clone()?.into() };
        let mut command = Command::new("setpriv");
        let parent = std::process::id().to_string();
        command.args(["--pdeathsig", "TERM", "/bin/sh", "-c", UNLESS_ORPHANED, &parent]);
        if !cpus.is_empty() {
            let cpus: Vec<_> = cpus.iter().map(u32::to_string).collect();
            command.args(["taskset", "-c", &cpus.join(",")]);
        }
        command
            .args(entry)
            .args(words)
            .envs(variables.iter().cloned())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(said);
        // A group of its own: Ctrl-C is for us, and everything that the server starts can be ended with it.
        let child = command.process_group(0).spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("setpriv and taskset of util-linux: {error}"))
        })?;
        let pid = Pid::from_child(&child);
        Ok(Self { child, pid, log: log.to_owned(), said: Vec::new() })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it has ended, for people, if it has. It keeps its number, and thus its group's, until this is dropped.
    ///
    /// # Errors
    /// None is known.
    pub(crate) fn ended(&self) -> io::Result<Option<String>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let Some(status) = waitid(WaitId::Pid(self.pid), options)? else { return Ok(None) };
        Ok(Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "for an unknown reason".to_owned(),
        }))
    }

    /// The first line of its standard output with this beginning, if there is one within `patience`.
    ///
    /// # Errors
    /// If it closes its output before that, or prints too much.
    pub(crate) fn line(
        &mut self,
        beginning: &str,
        patience: Duration,
    ) -> io::Result<Option<String>> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(line) = said_line(&self.said, beginning) {
                return Ok(Some(line));
            }
            if !self.hears_more(deadline.saturating_duration_since(Instant::now()))? {
                return Ok(None);
            }
        }
    }

    /// Reads more of its output, if there is any within `patience`.
    fn hears_more(&mut self, patience: Duration) -> io::Result<bool> {
        let output = self.child.stdout.as_mut().ok_or(io::ErrorKind::InvalidInput)?;
        let seconds = i64::try_from(patience.as_secs()).unwrap_or(i64::MAX);
        let timeout = Timespec { tv_sec: seconds, tv_nsec: patience.subsec_nanos().into() };
        if poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&timeout))? == 0 {
            return Ok(false);
        }
        let mut chunk = [0; 512];
        let bytes = output.read(&mut chunk)?;
        if bytes == 0 || self.said.len() > LINE_BYTES_MAX {
            return Err(io::Error::other(format!("it printed {:?}", text(&self.said))));
        }
        self.said.extend_from_slice(&chunk[..bytes]);
        Ok(true)
    }

    /// Ends it as Ctrl-C would, which lets some programs print their results first. Returns all its output.
    ///
    /// # Errors
    /// If it does not end.
    pub(crate) fn interrupt(&self) -> io::Result<String> {
        // It was not waited for yet, so the number is still its own.
        kill_process(self.pid, Signal::INT)?;
        if !self.ends_within(LAST_WORDS_WITHIN) {
            return Err(io::Error::other("it does not end on SIGINT"));
        }
        Ok(text(&fs::read(&self.log)?))
    }

    fn ends_within(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while matches!(self.ended(), Ok(None)) {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// The end of its output, to be appended to an error; empty if there is none.
    pub(crate) fn last_words(&self) -> String {
        let said = fs::read(&self.log).unwrap_or_default();
        let said = text(&said[said.len().saturating_sub(TAIL_BYTES)..]);
        match said.trim() {
            "" => String::new(),
            said => format!("; its last output was:\n{said}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Only the first process, which knows best how to end its children.
        let _ = kill_process(self.pid, Signal::TERM);
        self.ends_within(PATIENCE);
        // It was not waited for yet and still has its number, so everything in the group belongs to it.
        let _ = kill_process_group(self.pid, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Looks for a program as the shell would, so that the error is about it and not about what starts it.
///
/// # Errors
/// If there is none.
pub(crate) fn find(program: &str) -> io::Result<()> {
    let is_file = |path: &Path| path.is_file();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = if program.contains('/') {
        is_file(Path::new(program))
    } else {
        std::env::split_paths(&paths).any(|folder| is_file(&folder.join(program)))
    };
    let missing = || io::Error::new(io::ErrorKind::NotFound, "there is no such program");
    if found && !program.is_empty() { Ok(()) } else { Err(missing()) }
}

/// The first whole line with this beginning.
fn said_line(said: &[u8], beginning: &str) -> Option<String> {
    let lines = said.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let mut lines = lines.map(|line| text(line).trim_end().to_owned());
    lines.find(|line| line.starts_with(beginning))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str, log: &Path) -> Process {
        // A shell cannot trap what was ignored when it started, as SIGINT is in what a shell starts in the background.
        let words = ["env", "--default-signal=INT", "sh", "-c", script].map(str::to_owned);
        Process::start(&[], &words, &[], &[], log, true).unwrap()
    }

    fn is_running(process: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    }

    #[test]
    fn a_process_ends_with_its_children_even_if_it_has_ended_before_them() {
        let folder = tempfile::tempdir().unwrap();
        for script in [
            "sleep 600 & echo $!; wait",
            "sleep 600 & echo $!",
            "trap '' TERM; sleep 600 & echo $!",
        ] {
            let mut process = start(script, &folder.path().join("log"));
            let child = process.line("", Duration::from_secs(60)).unwrap().unwrap();
            assert!(is_running(&child), "{script}");
            drop(process);
            let deadline = Instant::now() + Duration::from_secs(60);
            while is_running(&child) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(!is_running(&child), "{script}: {child} is left");
        }
    }

    #[test]
    fn a_line_is_waited_for_while_others_come() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo first; sleep 0.1; printf 'wan'; sleep 0.1; echo ted; sleep 600";
        let mut process = start(script, &folder.path().join("log"));
        let line = |process: &mut Process, beginning| {
            process.line(beginning, Duration::from_secs(60)).unwrap().unwrap()
        };
        assert_eq!(line(&mut process, "wanted"), "wanted");
        assert_eq!(line(&mut process, ""), "first");
        let nothing = process.line("more", Duration::from_millis(1)).unwrap();
        assert_eq!(nothing, None);
    }

    #[test]
    fn what_is_interrupted_can_say_what_it_has_found() {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap 'echo found >&2; exit' INT; echo ready; while :; do sleep 0.01; done";
        let mut process = start(script, &folder.path().join("log"));
        assert!(process.line("ready", Duration::from_secs(60)).unwrap().is_some());
        assert_eq!(process.interrupt().unwrap(), "found\n");
    }

    #[test]
    fn its_last_words_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start("echo alas >&2; exit 3", &folder.path().join("log"));
        assert!(process.line("", Duration::from_secs(60)).is_err(), "it said nothing");
        assert_eq!(process.child.wait().unwrap().code(), Some(3));
        assert!(process.last_words().ends_with("\nalas"));
    }

    #[test]
    fn a_program_that_is_not_there_is_said_before_anything_starts() {
        let log = Path::new("/dev/null");
        for program in ["no-such-server", "/nowhere/server", ""] {
            let error =
                Process::start(&[], &[program.to_owned()], &[], &[], log, false).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{program}");
        }
    }
}
