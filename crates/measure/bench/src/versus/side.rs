//! A side: a server pinned to a core, where it listens, and what it costs. It ends when this is dropped.

use super::network::Network;
use super::peer::{Recipe, version};
use super::process::Process;
use crate::accounting::{Account, Reading};
use crate::counters::Counters;
use load::interrupt::Interrupt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a server may take to listen: it may share its core with other programs, and have a library to read.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often to check whether it does.
const GLANCE: Duration = Duration::from_millis(20);

/// A running server.
#[derive(Debug)]
pub(crate) struct Side {
    /// Its name in reports.
    pub(crate) name: String,
    /// The version it reports.
    pub(crate) version: Option<String>,
    /// How it was started.
    pub(crate) command: String,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    account: Account,
    process: Process,
}

/// What a side needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    /// The library's root.
    pub(crate) library: &'a Path,
    /// A folder for certificates, configuration and logs.
    pub(crate) scratch: &'a Path,
    /// The core to run on; `None` for any.
    pub(crate) cpu: Option<u32>,
    /// The network over which it is reached.
    pub(crate) network: &'a Network,
    /// Ends the wait for it.
    pub(crate) interrupt: &'a Interrupt,
}

impl Side {
    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// If it cannot be started, ends, or does not listen in time. The error has its output and what to do.
    pub(crate) fn start(recipe: &Recipe, given: &Given<'_>) -> io::Result<Self> {
        let Recipe { name, advice, .. } = recipe;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        given.network.await_room(recipe)?;
        let ip = given.network.address(recipe);
        let words = given.fill(recipe, SocketAddr::from((ip, port)))?;
        let log = given.scratch.join(format!("{name}.log"));
        let variables = given.write_files(recipe)?;
        let entry = given.network.entry(Some(recipe));
        let process = Process::start(
            &entry,
            &words,
            &variables,
            given.cpu.as_slice(),
            &log,
            recipe.says_ready,
        );
        let process = process.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start {name}: {error}; {advice}"))
        })?;
        let mut side = Self {
            name: name.clone(),
            version: version(recipe),
            command: recipe.shown(),
            address: SocketAddr::from((ip, port)),
            account: Account::of(process.id()),
            process,
        };
        side.wait_until_it_listens(recipe.says_ready, given.interrupt).map_err(|error| {
            if given.interrupt.is_asked() {
                return error;
            }
            let last_words = side.process.last_words();
            io::Error::other(format!("{name} did not start: {error}; {advice}{last_words}"))
        })?;
        given.network.settle(recipe)?;
        Ok(side)
    }

    fn wait_until_it_listens(&mut self, says_ready: bool, interrupt: &Interrupt) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !(if says_ready { self.says_address()? } else { self.answers() }) {
            interrupt.check()?;
            self.check()?;
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("it does not listen on {}", self.address)));
            }
        }
        Ok(())
    }

    /// Waits a moment for the line with its address.
    fn says_address(&mut self) -> io::Result<bool> {
        let Some(line) = self.process.line("", GLANCE)? else { return Ok(false) };
        let address = line.trim_end().trim_end_matches('/').rsplit("//").next();
        self.address = address
            .and_then(|address| address.parse().ok())
            .ok_or_else(|| io::Error::other(format!("it printed {line:?}")))?;
        Ok(true)
    }

    /// The address of its dashboard, which our server prints after it is ready.
    ///
    /// # Errors
    /// If it prints none.
    pub(crate) fn admin_address(&mut self) -> io::Result<SocketAddr> {
        let line = self.process.line("admin ", PATIENCE)?.unwrap_or_default();
        let address = line.split("//").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.and_then(|address| address.parse().ok());
        address.ok_or_else(|| io::Error::other("it did not print where its dashboard is"))
    }

    /// Waits a moment if it does not accept connections yet. If nothing listens, a connection to a port in the range of
    /// client ports may connect to itself (RFC 9293 section 3.5, simultaneous open): that is no answer.
    fn answers(&self) -> bool {
        let answers = TcpStream::connect(self.address)
            .is_ok_and(|stream| stream.local_addr().is_ok_and(|own| own != self.address));
        if !answers {
            std::thread::sleep(GLANCE);
        }
        answers
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    /// Checks that it still runs.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.process.ended()? {
            Some(status) => Err(io::Error::other(format!("it has ended ({status})"))),
            None => Ok(()),
        }
    }

    /// The end of its output, to be appended to an error; empty if there is none.
    pub(crate) fn last_words(&self) -> String {
        self.process.last_words()
    }

    /// What it has cost so far.
    ///
    /// # Errors
    /// If it is gone.
    pub(crate) fn read(&mut self) -> io::Result<Reading> {
        self.account.read()
    }

    /// Hardware counters of its threads, if there are any.
    pub(crate) fn counters(&self) -> Option<Counters> {
        Counters::of(self.account.processes())
    }
}

impl Given<'_> {
    /// Writes the files that environment variables point to; returns the variables.
    fn write_files(&self, recipe: &Recipe) -> io::Result<Vec<(&'static str, PathBuf)>> {
        let write = |(variable, name, contents): &(&'static str, &str, &str)| {
            let path = self.scratch.join(name);
            fs::write(&path, contents).map(|()| (*variable, path))
        };
        recipe.files.iter().map(write).collect()
    }

    /// The words of the command line, pinned to a core, after the configuration is written.
    fn fill(&self, recipe: &Recipe, address: SocketAddr) -> io::Result<Vec<String>> {
        let state = self.scratch.join("state");
        let path = self.scratch.join(format!("{}.conf", recipe.name));
        let cpu = self.cpu.map_or_else(String::new, |cpu| cpu.to_string());
        let values = [
            ("@ADDRESS@", address.ip().to_string()),
            ("@PORT@", address.port().to_string()),
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
        if let Some(config) = recipe.config.clone().or_else(|| self.network.config(recipe)) {
            fs::write(&path, fill(&config))?;
        }
        Ok(recipe.command.iter().map(|word| fill(word)).collect())
    }
}
