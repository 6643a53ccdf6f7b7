//! How a `fullbore serve` is started.

use crate::namespace::Namespace;
use crate::program::program;
use crate::server::Server;
use crate::tool::{self, Ran};
use crate::wait::PATIENCE;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// How to start a server.
#[derive(Clone)]
pub struct Launch {
    program: PathBuf,
    under: Vec<OsString>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    config: Option<String>,
    state: Option<PathBuf>,
    listen: Option<String>,
    admin: String,
    namespace: Option<Arc<Namespace>>,
    patience: Duration,
}

impl Launch {
    /// A server of the library `folder`, on loopback.
    pub fn of(folder: &Path) -> Self {
        Self::bare().argument(folder)
    }

    /// A server without a library.
    pub fn bare() -> Self {
        Self {
            program: program().to_owned(),
            under: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            config: None,
            state: None,
            listen: Some("127.0.0.1:0".into()),
            admin: "127.0.0.1:0".into(),
            namespace: None,
            patience: PATIENCE,
        }
    }

    /// Adds one argument.
    pub fn argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds the arguments in `words`, separated by spaces.
    pub fn arguments(self, words: &str) -> Self {
        words.split_whitespace().fold(self, Self::argument)
    }

    /// Adds a configuration file with this text.
    pub fn config(mut self, text: &str) -> Self {
        self.config = Some(text.into());
        self
    }

    /// Starts the server in this namespace. Requests to its admin listener are made from there, too.
    pub fn namespace(mut self, namespace: &Arc<Namespace>) -> Self {
        self.namespace = Some(Arc::clone(namespace));
        self
    }

    /// Sets an environment variable.
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Starts it through another program that becomes the server, such as `prlimit`.
    pub fn under(mut self, words: &str) -> Self {
        self.under.extend(words.split_whitespace().map(OsString::from));
        self
    }

    /// Uses a program other than the one that was built.
    pub fn program(mut self, program: &Path) -> Self {
        self.program = program.to_owned();
        self
    }

    /// Uses the caller's state directory.
    pub fn state(mut self, folder: &Path) -> Self {
        self.state = Some(folder.to_owned());
        self
    }

    /// Listens on an address other than IPv4's loopback.
    pub fn listen(mut self, address: &str) -> Self {
        self.listen = Some(address.into());
        self
    }

    /// Listens on the addresses in its configuration or its other arguments.
    pub fn listen_as_configured(mut self) -> Self {
        self.listen = None;
        self
    }

    /// Puts the admin listener on an address other than IPv4's loopback.
    pub fn admin(mut self, address: &str) -> Self {
        self.admin = address.into();
        self
    }

    /// Allows more time than [`PATIENCE`] to become ready.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Panics
    /// If it does not become ready, with its output.
    pub fn start(self) -> Server {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let state = self.state.clone().unwrap_or_else(|| scratch.path().join("state"));
        let mut command = self.command(&state, scratch.path());
        let child = match &self.namespace {
            Some(namespace) => namespace.inside(|| command.spawn()),
            None => command.spawn(),
        };
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Server::new(child, state, scratch, self.namespace, self.patience)
    }

    /// Starts it and waits until it has ended, because something is wrong or because of `--check`.
    ///
    /// # Panics
    /// If the program is missing.
    pub fn run(self) -> Ran {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let state = self.state.clone().unwrap_or_else(|| scratch.path().join("state"));
        let seconds = self.patience.as_secs().to_string();
        // One that does start is ended after a while.
        let launch = Self {
            under: ["timeout", "--kill-after=5", &seconds]
                .map(OsString::from)
                .into_iter()
                .chain(self.under)
                .collect(),
            ..self
        };
        tool::run(&mut launch.command(&state, scratch.path()))
    }

    fn command(&self, state: &Path, scratch: &Path) -> Command {
        let mut line = self.under.iter().cloned().chain([self.program.clone().into_os_string()]);
        let mut command = Command::new(line.next().expect("the program is always there"));
        command.args(line).args(["serve", "--admin", &self.admin]).arg("--state").arg(state);
        if let Some(address) = &self.listen {
            command.args(["--listen", address]);
        }
        if let Some(text) = &self.config {
            let path = scratch.join("fullbore.toml");
            std::fs::write(&path, text).expect("a temporary folder can be written");
            command.arg("--config").arg(path);
        }
        command.args(&self.arguments).envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}
