//! A running `fullbore serve`.

use crate::counters::Counters;
use crate::launch::Launch;
use crate::namespace::Namespace;
use crate::plain::Plain;
use crate::said::Said;
use crate::wait::{PATIENCE, eventually, until, within};
use rustix::process::{Pid, Signal, kill_process};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running server. Ended when dropped.
pub struct Server {
    child: Child,
    /// Its standard output, for the user who starts it.
    pub stdout: Said,
    /// Its standard error, for the operator.
    pub stderr: Said,
    /// Its URL, without a slash at the end.
    pub url: String,
    /// The same as a socket address.
    pub address: SocketAddr,
    /// The address of its admin listener.
    pub admin: SocketAddr,
    /// Its state directory.
    pub state: PathBuf,
    namespace: Option<Arc<Namespace>>,
    _scratch: TempDir,
}

impl Server {
    /// Serves `folder` with the arguments in `words`.
    ///
    /// # Panics
    /// As [`Launch::start`].
    pub fn start(folder: &Path, words: &str) -> Self {
        Launch::of(folder).arguments(words).start()
    }

    /// Waits until the program that was started in `child` is ready.
    pub(crate) fn new(
        mut child: Child,
        state: PathBuf,
        scratch: TempDir,
        namespace: Option<Arc<Namespace>>,
        patience: Duration,
    ) -> Self {
        let unknown = SocketAddr::from(([0; 4], 0));
        let mut server = Self {
            stdout: Said::listen(child.stdout.take().expect("piped")),
            stderr: Said::listen(child.stderr.take().expect("piped")),
            child,
            url: String::new(),
            address: unknown,
            admin: unknown,
            state,
            namespace,
            _scratch: scratch,
        };
        server.wait_until_ready(patience);
        server
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
        line.unwrap_or_else(|ended| {
            self.stderr.wait_for_rest();
            panic!("it ended ({ended}): {:?}", self.stderr.lines())
        })
    }

    /// The URL of a file of the library.
    pub fn url_of(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// All its output so far: first standard output, then standard error.
    pub fn said(&self) -> String {
        [self.stdout.lines(), self.stderr.lines()].concat().join("\n")
    }

    /// Its counters now.
    ///
    /// # Panics
    /// If the admin listener does not answer.
    pub fn counters(&self) -> Counters {
        self.beside(|| Counters::read(self.admin))
    }

    /// One of its counters, by its name and labels, without `fullbore_`; 0 if nothing was counted yet.
    ///
    /// # Panics
    /// As [`Self::counters`].
    pub fn counter(&self, name: &str) -> u64 {
        self.counters().value(name)
    }

    /// One of its numbers summed over all labels, by its name without `fullbore_`.
    ///
    /// # Panics
    /// As [`Self::counters`], and if there is none of this name.
    pub fn sum(&self, name: &str) -> u64 {
        self.counters().sum(name)
    }

    /// Waits until every worker has published its numbers again, which happens once a second.
    ///
    /// # Panics
    /// If one does not.
    pub fn wait_for_news(&self) {
        // Each worker's CPU time: publishing alone takes some.
        let published = || self.counters().with_labels("worker_cpu_");
        let before = published();
        until("every worker to publish its numbers", || {
            before.iter().zip(&published()).all(|(before, now)| before != now)
        });
    }

    /// Waits until a counter has reached `value`.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait_for_counter(&self, name: &str, value: u64) {
        eventually(&format!("{name} to reach {value}"), || {
            (self.counter(name) >= value).then_some(())
        });
    }

    /// The status and the text of a page of the admin listener.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn admin_page(&self, path: &str) -> (u16, String) {
        let response = self.beside(|| Plain::connect(self.admin).fetch(path));
        (response.status, String::from_utf8(response.body).expect("text"))
    }

    /// Runs `work` in the network of the server's addresses.
    fn beside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.namespace {
            Some(namespace) => namespace.inside(work),
            None => work(),
        }
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it is gone.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the server is there");
    }

    /// Stops it, and waits until it has ended.
    ///
    /// # Panics
    /// If it does not end.
    pub fn end(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// As [`Self::end`], and returns all its output. It must end cleanly.
    ///
    /// # Panics
    /// If it does not end, or with an exit code other than 0, with which leak checkers report.
    pub fn finish(mut self) -> String {
        let ended = self.end();
        self.stdout.wait_for_rest();
        self.stderr.wait_for_rest();
        let said = self.said();
        assert!(ended.success(), "it ended with {ended}: {said}");
        said
    }

    /// Kills it, so that it cannot clean up.
    ///
    /// # Panics
    /// Never: it is our child.
    pub fn kill(mut self) {
        self.child.kill().expect("our child");
        self.child.wait().expect("our child");
    }

    /// Its process id.
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

    /// As [`Self::wait`], but notices the end at once.
    ///
    /// # Panics
    /// If it does not end.
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

    /// Waits until it has ended.
    ///
    /// # Panics
    /// If it does not end.
    pub fn wait(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually("the server to end", || child.try_wait().expect("our child"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // This fails only if the child has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server said: {:#?}\n{:#?}", self.stdout.lines(), self.stderr.lines());
        }
    }
}
