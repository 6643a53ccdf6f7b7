//! A server to be replaced, and its replacements.

use fullbore_tests::{Launch, Plain, Said, Server, bytes, program, until, within};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A film of some windows.
pub(crate) const FILM_BYTES: usize = 700_003;

/// How long an upgrade may take, and how long a replaced server may take to end. It has to end within `drain_seconds`, which is 60 here.
pub(crate) const REPLACED_WITHIN: Duration = Duration::from_secs(300);

/// A library, a state directory and a configuration, and the processes that came to serve.
pub(crate) struct Stage {
    pub(crate) folder: TempDir,
    pub(crate) film: Vec<u8>,
    /// The arguments of all servers.
    words: Vec<String>,
    successors: RefCell<Vec<Pid>>,
}

/// A running `fullbore upgrade`.
pub(crate) struct Upgrade {
    child: Child,
    pub(crate) said: Said,
}

impl Stage {
    /// Servers with the arguments in `words`.
    pub(crate) fn new(words: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let film = bytes(FILM_BYTES, 1);
        fs::create_dir(folder.path().join("library")).unwrap();
        fs::write(folder.path().join("library/film.mp4"), &film).unwrap();
        fs::write(folder.path().join("library/note.txt"), "this is the note").unwrap();
        let words = words.split_whitespace().map(str::to_owned).collect();
        let stage = Self { folder, film, words, successors: RefCell::default() };
        stage.configure("");
        stage
    }

    /// Writes the configuration, with these lines more.
    pub(crate) fn configure(&self, lines: &str) {
        self.configure_all("library", 60, lines);
    }

    /// Writes the configuration, with another folder or time than usual.
    pub(crate) fn configure_all(&self, library: &str, drain_seconds: u32, lines: &str) {
        let library = self.path(library);
        let text = format!("library = {library:?}\ndrain_seconds = {drain_seconds}\n{lines}\n");
        fs::write(self.path("fullbore.toml"), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The upgrade socket of its servers, if they listen on a port of the kernel's choice.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path("state/upgrade-127.0.0.1:0.sock")
    }

    pub(crate) fn launch(&self) -> Launch {
        let launch = Launch::bare().state(&self.path("state"));
        let launch = launch.argument("--config").argument(self.path("fullbore.toml"));
        self.words.iter().fold(launch, Launch::argument)
    }

    /// The arguments of a server, for a command that passes them on to one.
    pub(crate) fn arguments(&self, more: &str) -> Vec<OsString> {
        let mut arguments = vec!["--config".into(), self.path("fullbore.toml").into()];
        arguments.extend(["--state".into(), self.path("state").into()]);
        arguments.extend(["--admin", "127.0.0.1:0"].map(OsString::from));
        if !more.contains("--listen") {
            arguments.extend(["--listen", "127.0.0.1:0"].map(OsString::from));
        }
        arguments.extend(self.words.iter().map(OsString::from));
        arguments.extend(more.split_whitespace().map(OsString::from));
        arguments
    }

    /// Begins an upgrade, with options of its own and more arguments for the new server.
    pub(crate) fn begin(&self, options: &[&str], more: &str) -> Upgrade {
        let mut command = Command::new(program());
        command.arg("upgrade").args(options).args(self.arguments(more));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = Said::listen(child.stderr.take().unwrap());
        Upgrade { child, said }
    }

    /// Upgrades, which must succeed. Returns the new server's process.
    pub(crate) fn upgrade(&self, more: &str) -> Pid {
        // As long as the test waits: a busy machine is no failure.
        let mut upgrade = self.begin(&["--settle-seconds", "0.3", "--ready-seconds", "300"], more);
        let status = upgrade.wait();
        let said = upgrade.said.lines();
        assert!(status.success(), "{said:?}");
        let line = upgrade.said.wait_for("serves now");
        let new = self.note(&line, "process ");
        until("the new one to be there", || test_kill_process(new).is_ok());
        new
    }

    /// Notes the process that `line` names after `before`, to be killed in the end.
    pub(crate) fn note(&self, line: &str, before: &str) -> Pid {
        let number = line.split(before).nth(1).and_then(|rest| rest.split(' ').next());
        let number = number.and_then(|number| number.parse().ok()).and_then(Pid::from_raw);
        let process = number.unwrap_or_else(|| panic!("no process in {line:?}"));
        self.successors.borrow_mut().push(process);
        process
    }
}

/// How many servers name the stage's `folder`, and their memory in KiB, each shared page counted once across all of them.
pub(crate) fn servers(folder: &Path) -> (usize, u64) {
    let own = folder.as_os_str().as_encoded_bytes();
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    // A process that has just ended has no memory any more.
    let pss = processes.filter_map(|process| {
        let line = fs::read(process.path().join("cmdline")).ok()?;
        let is_server = line.split(|byte| *byte == 0).nth(1) == Some(b"serve");
        (is_server && line.windows(own.len()).any(|part| part == own)).then_some(())?;
        let rollup = fs::read_to_string(process.path().join("smaps_rollup")).ok()?;
        let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        pss.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    pss.fold((0, 0), |(count, all), kib: u64| (count + 1, all + kib))
}

impl Drop for Stage {
    fn drop(&mut self) {
        for process in self.successors.borrow().iter() {
            let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            // Another process may have its number by now.
            let own = self.folder.path().as_os_str().as_encoded_bytes();
            if line.windows(own.len()).any(|part| part == own) {
                let _ = kill_process(*process, Signal::KILL);
            }
        }
    }
}

impl Upgrade {
    pub(crate) fn wait(&mut self) -> ExitStatus {
        within(REPLACED_WITHIN, "the upgrade to end", || self.child.try_wait().unwrap())
    }

    /// Waits until it has failed, and returns its messages.
    pub(crate) fn fails(self) -> String {
        self.fails_with().1
    }

    /// As [`Self::fails`], with the exit code.
    pub(crate) fn fails_with(mut self) -> (Option<i32>, String) {
        let status = self.wait();
        until("its last words", || self.said.has_ended());
        let said = self.said.lines().join("\n");
        assert!(!status.success(), "{said}");
        (status.code(), said)
    }
}

/// A server that serves as if no upgrade had been tried.
#[track_caller]
pub(crate) fn serves_on(server: &mut Server, kept: &mut Plain) {
    assert!(server.is_running());
    assert_eq!(kept.fetch("/note.txt").body, b"this is the note", "the connection from before");
    let fresh = Plain::connect(server.address).fetch("/note.txt");
    assert!(fresh.status == 200 && !fresh.head.contains("Connection: close"), "{}", fresh.head);
    assert_eq!(server.admin_page("/healthz").0, 200);
}

/// Writes a program that the shell runs.
pub(crate) fn script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
