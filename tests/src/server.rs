//! One `fullbore serve`, from its start to its end.

use crate::counters::Counters;
use crate::plain::Plain;
use crate::program::program;
use crate::said::Said;
use crate::wait::{PATIENCE, eventually, within};
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How to start a server.
pub struct Launch {
    program: PathBuf,
    under: Vec<OsString>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    state: Option<PathBuf>,
    listen: String,
    admin: String,
    patience: Duration,
}

impl Launch {
    /// A server of the library `folder`, on loopback.
    pub fn of(folder: &Path) -> Self {
        Self::bare().argument(folder)
    }

    /// A server that is given no library.
    pub fn bare() -> Self {
        Self {
            program: program().to_owned(),
            under: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            state: None,
            listen: "127.0.0.1:0".into(),
            admin: "127.0.0.1:0".into(),
            patience: PATIENCE,
        }
    }

    /// With one argument more.
    pub fn argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// With the arguments in `words`, which are divided by spaces.
    pub fn arguments(self, words: &str) -> Self {
        words.split_whitespace().fold(self, Self::argument)
    }

    /// With an environment variable.
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Started by another program that ends up being the server, such as `prlimit`.
    pub fn under(mut self, words: &str) -> Self {
        self.under.extend(words.split_whitespace().map(OsString::from));
        self
    }

    /// From another place than where it was built.
    pub fn program(mut self, program: &Path) -> Self {
        self.program = program.to_owned();
        self
    }

    /// With a state directory of the caller's.
    pub fn state(mut self, folder: &Path) -> Self {
        self.state = Some(folder.to_owned());
        self
    }

    /// On another address than IPv4's loopback.
    pub fn listen(mut self, address: &str) -> Self {
        self.listen = address.into();
        self
    }

    /// With its admin listener on another address than IPv4's loopback.
    pub fn admin(mut self, address: &str) -> Self {
        self.admin = address.into();
        self
    }

    /// With more time than [`PATIENCE`] to become ready.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Panics
    /// When it does not become ready; with what it said.
    pub fn start(self) -> Server {
        let own_state = tempfile::tempdir().expect("a temporary folder");
        let state = self.state.clone().unwrap_or_else(|| own_state.path().join("state"));
        let mut child = self.command(&state).spawn().expect("the program starts");
        let stdout = Said::listen(child.stdout.take().expect("piped"));
        let stderr = Said::listen(child.stderr.take().expect("piped"));
        let mut server = Server {
            child,
            stdout,
            stderr,
            url: String::new(),
            address: SocketAddr::from(([0; 4], 0)),
            admin: SocketAddr::from(([0; 4], 0)),
            state,
            _own_state: own_state,
        };
        server.wait_until_ready(self.patience);
        server
    }

    fn command(&self, state: &Path) -> Command {
        let mut line = self.under.iter().cloned().chain([self.program.clone().into_os_string()]);
        let mut command = Command::new(line.next().expect("the program is always there"));
        command.args(line).args(["serve", "--listen", &self.listen, "--admin", &self.admin]);
        command.arg("--state").arg(state).args(&self.arguments);
        command.envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// A running server. Ended when dropped.
pub struct Server {
    child: Child,
    /// What it says to its starter.
    pub stdout: Said,
    /// What it says to its operator.
    pub stderr: Said,
    /// Where it serves, without a slash at the end.
    pub url: String,
    /// The same as an address.
    pub address: SocketAddr,
    /// Its admin listener.
    pub admin: SocketAddr,
    /// Its state directory.
    pub state: PathBuf,
    _own_state: TempDir,
}

impl Server {
    /// Serves `folder` with the arguments in `words`.
    ///
    /// # Panics
    /// As [`Launch::start`].
    pub fn start(folder: &Path, words: &str) -> Self {
        Launch::of(folder).arguments(words).start()
    }

    fn wait_until_ready(&mut self, patience: Duration) {
        let ready = self.wait_for_line("ready ", patience);
        self.url = ready["ready ".len()..].trim_end_matches('/').to_owned();
        let host = self.url.split_once("://").expect("a URL").1.replace("localhost", "127.0.0.1");
        self.address = host.parse().expect("an address");
        let admin = self.wait_for_line("admin ", patience);
        let (_, admin) = admin.split_once("://").expect("a URL");
        self.admin =
            admin.split('/').next().and_then(|host| host.parse().ok()).expect("an address");
    }

    fn wait_for_line(&mut self, start: &str, patience: Duration) -> String {
        let (stdout, child) = (self.stdout.clone(), &mut self.child);
        let line =
            within(patience, &format!("the line that begins with {start:?}"), || {
                match stdout.lines().into_iter().find(|line| line.starts_with(start)) {
                    Some(line) => Some(Ok(line)),
                    None => child.try_wait().expect("our child").map(Err),
                }
            });
        line.unwrap_or_else(|ended| panic!("it ended ({ended}): {:?}", self.stderr.lines()))
    }

    /// The URL of a file of the library.
    pub fn url_of(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Its counters now.
    ///
    /// # Panics
    /// When the admin listener does not answer.
    pub fn counters(&self) -> Counters {
        Counters::read(self.admin)
    }

    /// Waits until a counter has reached `value`.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait_for_counter(&self, name: &str, value: u64) {
        eventually(&format!("{name} to reach {value}"), || {
            (self.counters().value(name) >= value).then_some(())
        });
    }

    /// The status of a page of the admin listener, and its text.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn admin_page(&self, path: &str) -> (u16, String) {
        let response = Plain::connect(self.admin).fetch(path);
        (response.status, String::from_utf8(response.body).expect("text"))
    }

    /// Sends it a signal by name: `TERM`, `HUP`.
    ///
    /// # Panics
    /// When it is gone.
    pub fn signal(&self, name: &str) {
        // The shell's own: the program of this name is not on every machine.
        let kill = format!("kill -s {name} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &kill]).status().expect("there is a shell");
        assert!(sent.success(), "the server is gone");
    }

    /// Its process.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    ///
    /// # Panics
    /// Never: it is our child.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_none()
    }

    /// As [`Self::wait`], for what is to be looked at in the very moment of its end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn wait_closely(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait().expect("our child") {
                Some(status) => return status,
                None => assert!(Instant::now() < deadline, "the server does not end"),
            }
            std::thread::yield_now();
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end.
    pub fn wait(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually("the server to end", || child.try_wait().expect("our child"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing to be done about a child that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server said: {:#?}\n{:#?}", self.stdout.lines(), self.stderr.lines());
        }
    }
}
