//! A side: a server in a process group of its own, pinned to a core, and what it costs. It ends when this is dropped.

use super::peer::{Recipe, version};
use crate::accounting::{Account, Reading};
use crate::counters::Counters;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Of what a server said, the part that an error shows.
const TAIL_BYTES: usize = 2000;

/// A running server.
#[derive(Debug)]
pub(crate) struct Side {
    /// Its name in reports.
    pub(crate) name: String,
    /// What it says of its version.
    pub(crate) version: Option<String>,
    /// How it was started.
    pub(crate) command: String,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    account: Account,
    child: Group,
    log: PathBuf,
}

/// What a side is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    /// The library's root.
    pub(crate) library: &'a Path,
    /// A folder for certificates, configuration and logs.
    pub(crate) scratch: &'a Path,
    /// The core to run on; else any.
    pub(crate) cpu: Option<u32>,
}

impl Side {
    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// When it cannot be started, ends, or does not listen in time: with what it said and what to do.
    pub(crate) fn start(recipe: &Recipe, given: &Given<'_>) -> io::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let words = given.fill(recipe, port)?;
        let log = given.scratch.join(format!("{}.log", recipe.name));
        let mut child = spawn(&words, given.cpu, &log).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("{} cannot be started: {error}; {}", recipe.name, recipe.advice),
            )
        })?;
        let stdout = child.0.stdout.take();
        let mut side = Self {
            name: recipe.name.clone(),
            version: version(recipe),
            command: words.join(" "),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            account: Account::of(child.0.id()),
            child,
            log,
        };
        let listens = if recipe.says_ready {
            side.read_address(stdout)
        } else {
            side.wait_until_it_listens()
        };
        listens.map_err(|error| {
            let Self { name, log, .. } = &side;
            io::Error::other(format!(
                "{name} did not start: {error}; {}{}",
                recipe.advice,
                tail(log)
            ))
        })?;
        Ok(side)
    }

    fn read_address(&mut self, stdout: Option<ChildStdout>) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(stdout.expect("it was asked for")).read_line(&mut line)?;
        let address = line.trim_end().trim_end_matches('/').rsplit("//").next();
        self.address = address
            .and_then(|address| address.parse().ok())
            .ok_or_else(|| io::Error::other(format!("it said {line:?}")))?;
        Ok(())
    }

    fn wait_until_it_listens(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).is_err() {
            self.check()?;
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("it does not listen on {}", self.address)));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// When it has ended: with what it said.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        match self.child.0.try_wait()? {
            Some(status) => {
                Err(io::Error::other(format!("it has ended ({status}){}", tail(&self.log))))
            }
            None => Ok(()),
        }
    }

    /// What it has cost so far.
    ///
    /// # Errors
    /// When it is gone.
    pub(crate) fn read(&mut self) -> io::Result<Reading> {
        self.account.read()
    }

    /// Hardware counters of its threads, where there are any.
    pub(crate) fn counters(&self) -> Option<Counters> {
        Counters::of(self.account.processes())
    }
}

impl Given<'_> {
    /// The words of the command line, pinned, after the configuration is written.
    fn fill(&self, recipe: &Recipe, port: u16) -> io::Result<Vec<String>> {
        let state = self.scratch.join("state");
        let path = self.scratch.join(format!("{}.conf", recipe.name));
        let cpu = self.cpu.map_or_else(String::new, |cpu| cpu.to_string());
        let values = [
            ("@PORT@", port.to_string()),
            ("@LIBRARY@", self.library.display().to_string()),
            ("@CERT@", state.join("self-signed-cert.pem").display().to_string()),
            ("@KEY@", state.join("self-signed-key.pem").display().to_string()),
            ("@SCRATCH@", self.scratch.display().to_string()),
            ("@CPU@", cpu),
            ("@CONFIG@", path.display().to_string()),
        ];
        let fill = |text: &str| {
            values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
        };
        if let Some(config) = &recipe.config {
            fs::write(&path, fill(config))?;
        }
        Ok(recipe.command.iter().map(|word| fill(word)).collect())
    }
}

fn spawn(words: &[String], cpu: Option<u32>, log: &Path) -> io::Result<Group> {
    let mut command = match cpu {
        None => Command::new(&words[0]),
        Some(cpu) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu.to_string(), &words[0]]);
            command
        }
    };
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(log)?);
    // A group of its own: Ctrl-C is for us, and whatever the server starts can be ended with it.
    command.process_group(0).spawn().map(Group)
}

/// The end of what a server said, if it said anything.
fn tail(log: &Path) -> String {
    let said = fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said[said.len().saturating_sub(TAIL_BYTES)..]).into_owned();
    if said.trim().is_empty() { String::new() } else { format!("; it said:\n{}", said.trim_end()) }
}

/// A process group, by its first process.
#[derive(Debug)]
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        use rustix::process::{Signal, kill_process, kill_process_group};
        let pid = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw);
        let Some(pid) = pid else { return };
        let _ = kill_process(pid, Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Its children too, should they outlive it; the group's number is not given away while one of them lives.
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.0.wait();
    }
}
