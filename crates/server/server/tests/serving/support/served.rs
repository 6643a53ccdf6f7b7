//! A server in this process, on a port of its own.

use super::viewer::{Protocol, Viewer};
use config::Config;
use fullbore_server::Server;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use telemetry::{Family, Number, Numbers};
use tempfile::TempDir;

/// How long to wait for something that must happen: far longer than it takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running server.
pub(crate) struct Served {
    /// Behind a lock, so that the threads of a test can share it.
    server: Mutex<Server>,
    address: SocketAddr,
    numbers: Vec<Arc<Numbers>>,
    protocol: Protocol,
    /// Certificates; goes away with the server.
    _state: TempDir,
}

impl Served {
    /// Serves `library` by `protocol` with one worker, on the route that `FULLBORE_ROUTE` names (the lab runs these tests
    /// on kernels that seal); `adjust` changes the configuration before.
    pub(crate) fn start(
        library: &Path,
        protocol: Protocol,
        adjust: impl FnOnce(&mut Config),
    ) -> Self {
        let state = tempfile::tempdir().unwrap();
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut config = Config {
            library: vec![library.into()],
            listen: any_port,
            admin: any_port,
            state: state.path().into(),
            workers: 1,
            sandbox: false,
            ..Config::default()
        };
        if let Ok(route) = std::env::var("FULLBORE_ROUTE") {
            assert_eq!(
                route, "kernel",
                "FULLBORE_ROUTE is for the route that is not the usual one"
            );
            config.route = config::Route::Kernel;
        }
        config.tls.enabled = protocol != Protocol::Plain;
        config.tls.versions = match protocol {
            Protocol::Plain => config::Versions::Both,
            Protocol::Tls12 => config::Versions::Tls12,
            Protocol::Tls13 => config::Versions::Tls13,
        };
        adjust(&mut config);
        let server = Server::start(config).unwrap();
        let (address, numbers) = (server.address(), server.numbers().to_vec());
        Self { server: Mutex::new(server), address, numbers, protocol, _state: state }
    }

    /// The address that it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of its admin listener.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.server.lock().unwrap().admin_address()
    }

    /// Its start lines.
    pub(crate) fn describe(&self) -> String {
        self.server.lock().unwrap().describe().join("\n")
    }

    /// A new viewer who speaks the server's protocol.
    pub(crate) fn viewer(&self) -> Viewer {
        Viewer::connect(self.address(), self.protocol, None)
    }

    /// As [`Self::viewer`], for a server that may refuse or be ending.
    pub(crate) fn try_viewer(&self) -> std::io::Result<Viewer> {
        Viewer::try_connect(self.address(), self.protocol, None)
    }

    /// A viewer whose TCP accepts few bytes at a time.
    pub(crate) fn narrow_viewer(&self, receive_buffer_bytes: usize) -> Viewer {
        Viewer::connect(self.address(), self.protocol, Some(receive_buffer_bytes))
    }

    /// A counter or gauge, summed over the workers.
    pub(crate) fn number(&self, pick: impl Fn(&Numbers) -> &Number) -> u64 {
        self.numbers.iter().map(|numbers| pick(numbers).value()).sum()
    }

    /// A labelled counter, summed over the workers.
    pub(crate) fn count(&self, family: Family, label: &str) -> u64 {
        let of_label = |numbers: &Numbers| -> u64 {
            let labelled = numbers.labelled();
            labelled.iter().filter(|((f, l), _)| (*f, *l) == (family, label)).map(|(_, n)| n).sum()
        };
        self.numbers.iter().map(|numbers| of_label(numbers)).sum()
    }

    /// A labelled counter, summed over its labels and the workers.
    pub(crate) fn total(&self, family: Family) -> u64 {
        let of = |numbers: &Numbers| -> u64 {
            numbers.labelled().iter().filter(|((f, _), _)| *f == family).map(|(_, n)| n).sum()
        };
        self.numbers.iter().map(|numbers| of(numbers)).sum()
    }

    /// The workers' numbers.
    pub(crate) fn workers(&self) -> &[Arc<Numbers>] {
        &self.numbers
    }

    /// Waits until a labelled counter has reached `count`.
    #[track_caller]
    pub(crate) fn await_count(&self, family: Family, label: &str, count: u64) {
        let all = || -> Vec<_> { self.numbers.iter().map(|n| n.labelled()).collect() };
        await_that(
            || self.count(family, label) >= count,
            || format!("{family:?} {label:?} did not reach {count}: {:?}", all()),
        );
    }

    /// Waits until no buffer is in use. The gauges are refreshed once a second, so this waits for a refresh first.
    #[track_caller]
    pub(crate) fn await_buffers_back(&self) {
        let free = || {
            let n = |pick: fn(&Numbers) -> &Number| self.number(pick);
            n(|n| &n.read_buffers) > 0
                && n(|n| &n.read_buffers_free) == n(|n| &n.read_buffers)
                && n(|n| &n.send_buffers_free) == n(|n| &n.send_buffers)
        };
        await_that(free, || "buffers are missing".into());
    }

    /// Waits until the numbers that are set once a second have all been updated.
    #[track_caller]
    pub(crate) fn await_news(&self) {
        // A worker's time is the last of them. The first change may be of numbers that were being set before.
        for _ in 0..2 {
            let before = self.number(|n| &n.worker_cpu_seconds_total);
            let is_new = || self.number(|n| &n.worker_cpu_seconds_total) != before;
            await_that(is_new, || "the numbers are never updated".into());
        }
    }

    /// Ends it in order, and fails if it does not end or a session panicked. Afterwards all numbers are final; before, some of
    /// them are up to a second old.
    #[track_caller]
    pub(crate) fn stop(&self) {
        let mut server = self.server.lock().unwrap();
        server.drain();
        assert!(server.join(Instant::now() + PATIENCE).unwrap(), "the server did not end");
        assert_eq!(self.number(|n| &n.tasks_panicked_total), 0, "a session panicked");
        let buffers = self.number(|n| &n.send_buffers);
        assert_eq!(self.number(|n| &n.send_buffers_free), buffers, "a send buffer is missing");
    }
}

/// Whether this kernel has TLS; if not, reports a skip.
pub(crate) fn kernel_seals() -> bool {
    let probed = net::tls::probe();
    if let Err(error) = &probed {
        fullbore_tests::tool::skip(&format!(
            "this kernel does not seal ({error}); the lab's do: ./run lab"
        ));
    }
    probed.is_ok()
}

/// Polls until `holds`, and fails with `otherwise` if it never does.
#[track_caller]
pub(crate) fn await_that(mut holds: impl FnMut() -> bool, otherwise: impl FnOnce() -> String) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{}", otherwise());
        std::thread::sleep(Duration::from_millis(2));
    }
}
