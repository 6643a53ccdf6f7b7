//! The server next to the agent: a process of its own, which continues to serve if the agent dies.
//!
//! The agent starts it in a process group of its own, saves its identity, and starts it again if it ends. An agent that was killed finds
//! its server again, by that file or by its command line. Only an agent that is asked to stop stops its server, which drains.

pub(crate) mod admin;
mod process;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::holding::lock;
use crate::persistence;
use crate::stop::Wakeup;
use process::{Identity, Process};

/// The wait before a server that ended is restarted: this at first, then doubled each time, up to [`BACKOFF_MAX`].
const BACKOFF: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// A server that ran this long was healthy: the wait is short again.
const WELL: Duration = Duration::from_secs(60);
/// How often the agent checks whether it has to stop.
const LOOK: Duration = Duration::from_millis(200);
/// A server that drains for longer than this after SIGTERM is killed; it limits draining to 30 s itself.
const DRAIN_MAX: Duration = Duration::from_secs(60);
/// If the log is larger than this, the next server begins a new one.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// How the server is started.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The program: this one.
    pub program: PathBuf,
    /// The agent's state folder; the server's is in it.
    pub state: PathBuf,
    /// The folders of the library.
    pub libraries: Vec<PathBuf>,
    /// Additional flags for `fullbore serve`.
    pub flags: Vec<String>,
    /// A file with the fleet's public keys for signed URLs; empty while the fleet signs none.
    pub keys: PathBuf,
    /// A file with the keys with which nodes prove that they copy titles; it may be empty.
    pub copy_keys: PathBuf,
    /// Files with the viewers' certificate and its key, if the flags name none.
    pub certificate: Option<[PathBuf; 2]>,
}

/// Supervises the server.
pub struct ServerProcess {
    options: ServerOptions,
    wakeup: Wakeup,
    is_up: AtomicBool,
    found: Mutex<Found>,
    runs: Mutex<Runs>,
    /// The folders that it should serve.
    libraries: Mutex<Vec<PathBuf>>,
    /// It serves other folders than these, so it has to be restarted.
    is_outdated: AtomicBool,
}

/// Whether a server runs.
#[derive(Clone, Debug, Default)]
enum Runs {
    /// Unknown: one of an earlier agent may be running, or one that has just been started.
    #[default]
    Unknown,
    /// None is running.
    No,
    /// This one is running.
    Yes(Identity),
}

/// The addresses that the server reported when it was ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Where viewers connect: `https://host:port/`.
    pub url: Option<String>,
    /// Its admin listener.
    pub admin: Option<SocketAddr>,
}

impl ServerProcess {
    /// Creates the supervisor. Does not start a server yet.
    ///
    /// # Errors
    /// If the server's state folder cannot be created.
    pub fn new(options: ServerOptions) -> io::Result<Self> {
        fs::create_dir_all(state(&options.state))?;
        let (wakeup, is_up, found, runs, is_outdated) = Default::default();
        let libraries = Mutex::new(options.libraries.clone());
        Ok(Self { options, wakeup, is_up, found, runs, libraries, is_outdated })
    }

    /// Sets the folders to serve. If they have changed, the server drains and is restarted.
    pub fn serve_folders(&self, folders: Vec<PathBuf>) {
        let mut libraries = lock(&self.libraries);
        // A server without folders would not start, and the running one reports what is wrong.
        if folders.is_empty() || *libraries == folders {
            return;
        }
        *libraries = folders;
        self.is_outdated.store(true, Ordering::Relaxed);
    }

    /// Finds the server or starts it, and supervises it.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let server = Arc::clone(self);
        std::thread::Builder::new().name("server".into()).spawn(move || server.look_after())
    }

    /// Stops the server and the thread.
    pub fn stop(&self) {
        self.wakeup.stop();
    }

    /// Whether the process is running.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// The addresses that it reported when it was ready.
    pub fn found(&self) -> Found {
        lock(&self.found).clone()
    }

    /// The files that the server has open, by device and inode: those that it is sending, or has sent within the last seconds.
    ///
    /// # Errors
    /// If the files cannot be listed.
    pub fn open_files(&self) -> io::Result<HashSet<(u64, u64)>> {
        let runs = lock(&self.runs).clone();
        match runs {
            Runs::Unknown => Err(io::Error::other("the agent has not looked for the server yet")),
            Runs::No => Ok(HashSet::new()),
            Runs::Yes(identity) => identity.open_files(),
        }
    }

    fn look_after(&self) {
        let mut backoff = BACKOFF;
        while !self.wakeup.is_stopped() {
            let begun = Instant::now();
            let ended = match self.find_or_start() {
                Ok((process, child)) => self.watch(&process, child),
                Err(error) => {
                    crate::tell(&format!("cannot start the server: {error}"));
                    None
                }
            };
            if self.wakeup.is_stopped() {
                return;
            }
            if self.is_outdated.swap(false, Ordering::Relaxed) {
                crate::tell("restarting the server without the lost folders");
                continue;
            }
            backoff = if begun.elapsed() > WELL { BACKOFF } else { backoff };
            let log = match is_under_systemd() {
                true => "the journal".to_owned(),
                false => self.place(LOG).display().to_string(),
            };
            crate::tell(&format!(
                "the server has ended{} (see {log}); it is restarted in {backoff:?}",
                ended.map(how).unwrap_or_default()
            ));
            self.wakeup.pause(backoff);
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    fn find_or_start(&self) -> io::Result<(Process, Option<Child>)> {
        let state = state(&self.options.state);
        let noted = persistence::read_json::<Identity>(&self.place(NOTE));
        let by_note = noted.and_then(|noted| Some((noted.process()?, noted)));
        // The file can be missing if the agent was killed just after it had started the server.
        let by_line = || {
            let identity = Identity::find(&self.options.program, state.to_str()?)?;
            Some((identity.process()?, identity))
        };
        if let Some((process, identity)) = by_note.or_else(by_line) {
            crate::tell(&format!("found the server again: process {}", identity.pid));
            let is_outdated = identity.libraries() != *lock(&self.libraries);
            self.is_outdated.store(is_outdated, Ordering::Relaxed);
            persistence::write_json(&self.place(NOTE), &identity)?;
            *lock(&self.runs) = Runs::Yes(identity);
            return Ok((process, None));
        }
        self.is_outdated.store(false, Ordering::Relaxed);
        // From here on a server may be running that is not known yet.
        *lock(&self.runs) = Runs::Unknown;
        let mut child = self.command()?.spawn()?;
        let gone = || io::Error::other("it ended at once");
        // A number that does not fit is not a process ID.
        let identity = i32::try_from(child.id()).ok().and_then(Identity::of);
        let found = identity.and_then(|identity| Some((identity.process()?, identity)));
        let Some((process, identity)) = found else {
            child.wait()?;
            return Err(gone());
        };
        persistence::write_json(&self.place(NOTE), &identity)?;
        *lock(&self.runs) = Runs::Yes(identity);
        Ok((process, Some(child)))
    }

    /// Waits until the server ends, or has to end. Returns how it has ended, if this agent started it.
    fn watch(&self, process: &Process, child: Option<Child>) -> Option<ExitStatus> {
        self.is_up.store(true, Ordering::Relaxed);
        while !process.wait(LOOK).unwrap_or(false) {
            if lock(&self.found).admin.is_none() {
                *lock(&self.found) = said(&self.place(SAID));
            }
            if self.wakeup.is_stopped() || self.is_outdated.load(Ordering::Relaxed) {
                self.end(process);
                break;
            }
        }
        self.is_up.store(false, Ordering::Relaxed);
        *lock(&self.found) = Found::default();
        *lock(&self.runs) = Runs::No;
        // It has ended: this only reaps it.
        let ended = child.and_then(|mut child| child.wait().ok());
        let _ = fs::remove_file(self.place(NOTE));
        ended
    }

    fn end(&self, process: &Process) {
        process.signal(Signal::TERM);
        let deadline = Instant::now() + DRAIN_MAX;
        while !process.wait(LOOK).unwrap_or(false) {
            if Instant::now() >= deadline {
                crate::tell("the server does not stop: killing it");
                process.signal(Signal::KILL);
            }
        }
    }

    fn command(&self) -> io::Result<Command> {
        let (said, log) = (self.place(SAID), self.place(LOG));
        if fs::metadata(&log).is_ok_and(|log| log.len() > LOG_BYTES_MAX) {
            fs::rename(&log, self.place("server.log.1"))?;
        }
        let mut command = Command::new(&self.options.program);
        command.args(self.arguments()?).stdin(Stdio::null()).process_group(0);
        command.stdout(File::create(said)?);
        // A pipe would break when the agent dies; the journal does not.
        if !is_under_systemd() {
            command.stderr(OpenOptions::new().create(true).append(true).open(log)?);
        }
        // Only the agent notifies systemd.
        command.env_remove("NOTIFY_SOCKET");
        // Only the agent reads origins.
        for name in s3::CREDENTIALS {
            command.env_remove(name);
        }
        Ok(command)
    }

    fn arguments(&self) -> io::Result<Vec<OsString>> {
        let options = &self.options;
        let mut arguments: Vec<OsString> = vec!["serve".into()];
        for library in lock(&self.libraries).iter() {
            arguments.extend(["--library".into(), library.into()]);
        }
        arguments.extend(["--state".into(), state(&options.state).into()]);
        let names = |flag: &str| {
            let with_value = format!("{flag}=");
            options.flags.iter().any(|one| one == flag || one.starts_with(&with_value))
        };
        for (flag, value) in [("--listen", LISTEN), ("--admin", ADMIN)] {
            if !names(flag) {
                arguments.extend([flag.into(), value.into()]);
            }
        }
        if !names("--config") {
            let config = self.place("server.toml");
            // A JSON string is also a TOML string.
            let text = |path: &Path| serde_json::to_string(&path.to_string_lossy());
            let (keys, copies) = (text(&options.keys)?, text(&options.copy_keys)?);
            persistence::write(
                &config,
                format!("[signing]\nkeys = [{keys}]\nmay_be_empty = true\ncopies = {copies}\n")
                    .as_bytes(),
            )?;
            arguments.extend(["--config".into(), config.into()]);
        }
        for (flag, file) in
            ["--cert", "--key"].into_iter().zip(options.certificate.iter().flatten())
        {
            arguments.extend([flag.into(), file.into()]);
        }
        arguments.extend(options.flags.iter().map(Into::into));
        Ok(arguments)
    }

    fn place(&self, name: &str) -> PathBuf {
        self.options.state.join(name)
    }
}

/// The server's identity.
const NOTE: &str = "server.json";
/// Its standard output: where it listens.
const SAID: &str = "server.out";
/// Its standard error.
const LOG: &str = "server.log";
/// Where a node's server listens, unless its flags say otherwise.
const LISTEN: &str = "[::]:8443";
const ADMIN: &str = "127.0.0.1:8444";

/// Whether this process logs to the journal.
fn is_under_systemd() -> bool {
    std::env::var_os("JOURNAL_STREAM").is_some()
}

/// How the server has ended, for the log.
fn how(ended: ExitStatus) -> String {
    match (ended.code(), ended.signal()) {
        (Some(2), _) => {
            ", because it refuses its flags or its configuration: check the flags after --"
                .to_owned()
        }
        (Some(code), _) => format!(" with exit code {code}"),
        (None, Some(signal)) => format!(" by signal {signal}"),
        (None, None) => String::new(),
    }
}

/// The server's own state folder.
fn state(of_agent: &Path) -> PathBuf {
    of_agent.join("server")
}

/// Parses the output of a server that is ready: `ready URL/`, `admin     http://ADDRESS/ ...`.
fn said(place: &Path) -> Found {
    let text = fs::read_to_string(place).unwrap_or_default();
    // A line that is still being written has no end yet.
    let lines = || text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let after = |start: &str| lines().find_map(|line| line.strip_prefix(start).map(str::trim));
    let admin = after("admin ").and_then(|rest| rest.strip_prefix("http://"));
    Found {
        url: after("ready ").map(str::to_owned),
        admin: admin.and_then(|rest| rest.split('/').next()?.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_by_what_it_said() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("said");
        assert_eq!(said(&place), Found::default());
        fs::write(&place, "ready https://127.0.0.1:8443/\nadmin     http://127.0.0.1:84").unwrap();
        assert_eq!(said(&place).url.as_deref(), Some("https://127.0.0.1:8443/"));
        assert_eq!(said(&place).admin, None);
        fs::write(
            &place,
            "ready http://x/\nadmin     http://127.0.0.1:8444/ (dashboard), /status.json\n",
        )
        .unwrap();
        assert_eq!(said(&place).admin, Some("127.0.0.1:8444".parse().unwrap()));
    }

    /// The agent restarted the server forever, and logged nothing but where the log is.
    #[test]
    fn a_server_that_ends_is_told_with_the_reason() {
        let told = |words: &str| how(Command::new("sh").args(["-c", words]).status().unwrap());
        assert!(told("exit 2").contains("check the flags after --"), "{}", told("exit 2"));
        assert_eq!(told("exit 1"), " with exit code 1");
        assert_eq!(told("kill -9 $$"), " by signal 9");
    }

    #[test]
    fn flags_of_the_operator_come_before_what_a_node_chooses() {
        let folder = tempfile::tempdir().unwrap();
        let options = |flags: &[&str]| ServerOptions {
            program: "fullbore".into(),
            state: folder.path().to_owned(),
            libraries: vec!["/a".into(), "/b".into()],
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            keys: folder.path().join("keys.pem"),
            copy_keys: folder.path().join("copy-keys"),
            certificate: None,
        };
        let line = |flags: &[&str]| {
            let arguments = ServerProcess::new(options(flags)).unwrap().arguments().unwrap();
            arguments.iter().map(|one| one.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        let state = folder.path().display();
        assert_eq!(
            line(&["--workers", "1"]),
            format!(
                "serve --library /a --library /b --state {state}/server --listen {LISTEN} --admin {ADMIN} --config {state}/server.toml --workers 1"
            )
        );
        let config = fs::read_to_string(folder.path().join("server.toml")).unwrap();
        for (key, file) in [("keys = [", "keys.pem\"]"), ("copies = ", "copy-keys\"")] {
            let line = config.lines().find(|line| line.starts_with(key)).unwrap();
            assert!(line.ends_with(file), "{line}");
        }
        assert!(!line(&["--listen=127.0.0.1:0"]).contains(LISTEN));
        assert!(!line(&["--config", "own.toml"]).contains("server.toml"));
    }
}
