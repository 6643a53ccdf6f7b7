//! A real gateway in its own process, with a fleet in its store, and nodes that send heartbeats to it over real connections.
//!
//! The gateway's first start creates the fleet. Then the bench adds sites, nodes and titles to its store (records.rs), and starts the
//! gateway again, on the servers' core. The gateway gets no help: it inherits the limit on open files that the bench was started with, so a
//! gateway that did not raise it would lose nodes here as anywhere else.
//!
//! Nodes ([`Crowd`]) have certificates from the fleet's own authority and one connection each. They send heartbeats as agents do, from the
//! clients' cores.

mod crowd;
mod documents;
mod http;
mod node;
mod records;
mod store;
mod tally;

pub(crate) use crowd::{Crowd, CrowdOptions, check_open_files, sleep_for};
pub(crate) use http::get;
pub(crate) use store::StoreWritten;
pub(crate) use tally::{Tallied, Tally};

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::fleet_protocol::HeldTitle;
use ::store::records::{GatewayRecord, load};
use identity::Authority;
use tokio::runtime::Runtime;

use crate::accounting::{Account, Reading};
use crate::versus::SERVER_CPU;
use crate::versus::process::Process;
use store::Store;

/// Time limit for a gateway's start: with 10,000 nodes in its store, reading them takes a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// The gateway's name.
const NAME: &str = "g1";

/// The size of a fleet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FleetSize {
    pub(crate) nodes: u32,
    /// Titles that every node should hold.
    pub(crate) titles: u32,
}

/// A running gateway of a fleet.
pub(crate) struct Populated {
    /// The address for viewers.
    pub(crate) public: SocketAddr,
    /// The address for nodes.
    machines: SocketAddr,
    admin: SocketAddr,
    token: String,
    authority: Arc<Authority>,
    held: Arc<Vec<HeldTitle>>,
    store: Store,
    account: Account,
    process: Process,
}

/// Figures from the gateway's metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// Nodes that are sent viewers.
    pub(crate) serving: u64,
    /// The number of the newest snapshot.
    pub(crate) snapshot: u64,
    /// Requests and connections of machines that the gateway refused.
    pub(crate) refused: u64,
    /// Lines missing from the log of decisions.
    pub(crate) decisions_dropped: u64,
}

impl Populated {
    /// Creates a fleet in `scratch`, and starts its gateway on the servers' core. `arguments` are added to its command line.
    ///
    /// # Errors
    /// If the gateway does not start, with its last output; or the store cannot be written.
    pub(crate) fn start(
        scratch: &Path,
        size: FleetSize,
        arguments: &[&str],
        runtime: &Runtime,
    ) -> io::Result<Self> {
        let state = scratch.join("gateway");
        // This start only creates the fleet.
        drop(serve(&state, scratch, arguments)?);
        let store = Store::open(&state.join("store"))?;
        let objects = state.join("objects");
        let written = runtime.block_on(records::write(store.engine(), &objects, size))?;
        let (mut process, public, admin) = serve(&state, scratch, arguments)?;
        let machines = runtime.block_on(machines_address(&store));
        let machines = machines.map_err(|error| {
            io::Error::new(error.kind(), format!("{error}{}", process.last_words()))
        })?;
        let token = std::fs::read_to_string(state.join("admin.token"))?.trim().to_owned();
        let mut account = Account::of(process.id());
        account.read()?;
        check_running(&mut process)?;
        Ok(Self {
            public,
            machines,
            admin,
            token,
            authority: Arc::new(written.authority),
            held: Arc::new(written.held),
            store,
            account,
            process,
        })
    }

    /// The gateway's cost so far.
    ///
    /// # Errors
    /// If it has exited, with its last output.
    pub(crate) fn read(&mut self) -> io::Result<Reading> {
        check_running(&mut self.process)?;
        self.account.read()
    }

    /// The account of its process, for callers that read it often.
    pub(crate) fn account(&mut self) -> &mut Account {
        &mut self.account
    }

    /// Its peak of resident bytes, and the bytes it has written to disk.
    ///
    /// # Errors
    /// If it has exited.
    pub(crate) fn peaks(&self) -> io::Result<(u64, u64)> {
        let field = |file: &str, name: &str| {
            let text = std::fs::read_to_string(format!("/proc/{}/{file}", self.process.id()))?;
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let value = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            value.ok_or_else(|| io::Error::other(format!("the kernel reports no {name} in {file}")))
        };
        Ok((field("status", "VmHWM:")? * 1024, field("io", "write_bytes:")?))
    }

    /// Its store.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The paths of its titles.
    pub(crate) fn titles(&self) -> impl Iterator<Item = &str> {
        self.held.iter().map(|held| held.path.as_str())
    }

    /// Fetches the gateway's metrics.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) async fn told(&self) -> io::Result<Told> {
        let authorization = format!("Bearer {}", self.token);
        let answer = get(self.admin, "/metrics", &[("Authorization", &authorization)]).await?;
        if answer.status != 200 {
            return Err(io::Error::other(format!("its metrics: status {}", answer.status)));
        }
        let text = String::from_utf8_lossy(&answer.body);
        let of = |series: &str| sum(&text, series);
        Ok(Told {
            serving: of("fullbore_fleet_nodes{state=\"serving\"}"),
            snapshot: of("fullbore_fleet_snapshot"),
            refused: of("fullbore_fleet_machines_refused_total"),
            decisions_dropped: of("fullbore_fleet_decision_lines_dropped_total"),
        })
    }

    /// The end of its output, to append to an error.
    pub(crate) fn last_words(&self) -> String {
        self.process.last_words()
    }
}

/// The sum of the series whose names and labels begin with `beginning`.
fn sum(metrics: &str, beginning: &str) -> u64 {
    let series = metrics.lines().filter(|line| line.starts_with(beginning));
    series.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

fn check_running(process: &mut Process) -> io::Result<()> {
    match process.ended()? {
        None => Ok(()),
        Some(status) => {
            let last_words = process.last_words();
            Err(io::Error::other(format!("the gateway has ended ({status}){last_words}")))
        }
    }
}

/// Starts a gateway and waits until it is ready. Returns the addresses for viewers and for operators.
fn serve(
    state: &Path,
    scratch: &Path,
    arguments: &[&str],
) -> io::Result<(Process, SocketAddr, SocketAddr)> {
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    let state = state.to_string_lossy();
    let anywhere = "127.0.0.1:0";
    let words = ["control", "serve", "--name", NAME, "--state", &*state, "--public", anywhere];
    let places = ["--machines", anywhere, "--admin", anywhere];
    let words = words.into_iter().chain(places).chain(arguments.iter().copied());
    let words: Vec<_> = std::iter::once(program).chain(words.map(str::to_owned)).collect();
    let log = scratch.join("gateway.log");
    let mut process = Process::start(&[], &words, &[], &[SERVER_CPU], &log, true)?;
    let line = process.line("ready ", PATIENCE);
    let ready = line.ok().flatten().and_then(|line| addresses(&line));
    match ready {
        Some((public, admin)) => Ok((process, public, admin)),
        None => {
            let last_words = process.last_words();
            Err(io::Error::other(format!("the gateway does not start{last_words}")))
        }
    }
}

/// The two addresses in `ready http://A:P/ (admin http://A:P/)`.
fn addresses(ready: &str) -> Option<(SocketAddr, SocketAddr)> {
    let mut all = ready.split("http://").skip(1).map(|rest| rest.split('/').next()?.parse().ok());
    Some((all.next()??, all.next()??))
}

/// The address that the gateway advertises to nodes. It chose the port itself.
async fn machines_address(store: &Store) -> io::Result<SocketAddr> {
    let told = load::<GatewayRecord>(store.engine(), NAME).await.map_err(io::Error::other)?;
    let url = told.map(|told| told.record.machines).unwrap_or_default();
    let address = url.strip_prefix("https://").and_then(|address| address.parse().ok());
    address.ok_or_else(|| {
        io::Error::other(format!("the gateway advertises no usable address to nodes: {url:?}"))
    })
}

/// A runtime on the clients' cores, with one thread on each.
///
/// # Errors
/// If it cannot be created.
pub(crate) fn runtime_on(cpus: &[u32]) -> io::Result<Runtime> {
    let mut set = rustix::thread::CpuSet::new();
    cpus.iter().filter_map(|cpu| usize::try_from(*cpu).ok()).for_each(|cpu| set.set(cpu));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cpus.len())
        .on_thread_start(move || {
            // A thread that cannot be pinned only makes the figures less exact.
            let _ = rustix::thread::sched_setaffinity(None, &set);
        })
        .enable_all()
        .build()
}

/// The bench's scratch folder.
pub(crate) struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    /// Below `parent`, or in the system's temporary folder.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn make(parent: Option<&PathBuf>) -> io::Result<Self> {
        let folder = crate::scratch::folder(parent)?;
        Ok(Self { folder })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_says_ready_has_both_addresses() {
        let line = "ready http://127.0.0.1:8700/ (admin http://127.0.0.1:8701/)";
        let (public, admin) = addresses(line).expect("two addresses");
        assert_eq!((public.port(), admin.port()), (8700, 8701));
        assert_eq!(addresses("ready http://127.0.0.1:8700/"), None);
    }

    #[test]
    fn series_of_a_family_are_summed() {
        let text = "# HELP a_total 9\na_total{reason=\"x\"} 3\na_total{reason=\"y\"} 4\nab 5\n";
        assert_eq!((sum(text, "a_total"), sum(text, "a_total{reason=\"y\"}")), (7, 4));
        assert_eq!(sum(text, "b"), 0);
    }
}
