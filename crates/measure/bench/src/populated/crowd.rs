//! Thousands of simulated nodes, on their own runtime.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::fleet_protocol::HeldTitle;
use identity::Authority;
use load::interrupt::Interrupt;
use rustix::process::{Resource, getrlimit};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use super::node::Node;
use super::{Populated, Tally};

/// Concurrent handshakes. A gateway takes 128 from one source, because it cannot know a source before the handshake has shown a
/// certificate.
const HANDSHAKES_MAX: usize = 64;

/// Descriptors that the bench needs in addition to one per node.
const OTHER_FILES: u64 = 200;

/// How often to check for an interrupt or the end of a wait.
const GLANCE: Duration = Duration::from_millis(50);

/// How nodes behave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrowdOptions {
    pub(crate) nodes: u32,
    /// Mean time between heartbeats; a fifth of it is random.
    pub(crate) interval: Duration,
    /// If set, each heartbeat reports a different load, as those of busy nodes do. Then there is a new snapshot every second.
    pub(crate) varies: bool,
    /// How often a node fetches the snapshot; `None`: never.
    pub(crate) snapshots: Option<Duration>,
}

/// State that the nodes share.
pub(super) struct Shared {
    pub(super) options: CrowdOptions,
    pub(super) gateway: SocketAddr,
    pub(super) authority: Arc<Authority>,
    pub(super) held: Arc<Vec<HeldTitle>>,
    pub(super) tally: Tally,
    pub(super) handshakes: Semaphore,
}

/// Running nodes. Dropping it ends them.
pub(crate) struct Crowd {
    shared: Arc<Shared>,
    tasks: tokio::task::JoinSet<()>,
}

impl Crowd {
    /// Starts nodes that send heartbeats to `gateway`. They connect one after the other within an interval, or more slowly if the gateway
    /// is slower.
    ///
    /// # Errors
    /// If this process cannot raise its limit on open files.
    pub(crate) fn start(
        gateway: &Populated,
        options: CrowdOptions,
        runtime: &Runtime,
    ) -> io::Result<Self> {
        machine::raise_nofile()?;
        let shared = Arc::new(Shared {
            options,
            gateway: gateway.machines,
            authority: Arc::clone(&gateway.authority),
            held: Arc::clone(&gateway.held),
            tally: Tally::default(),
            handshakes: Semaphore::new(HANDSHAKES_MAX),
        });
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..options.nodes {
            tasks.spawn_on(Node::live(Arc::clone(&shared), number), runtime.handle());
        }
        Ok(Self { shared, tasks })
    }

    /// Counts of what the nodes experienced.
    pub(crate) fn tally(&self) -> &Tally {
        &self.shared.tally
    }

    /// Waits until the gateway knows all nodes and their inventories.
    ///
    /// # Errors
    /// If it takes too long, with the first problem; or if a node has ended, which none does by itself.
    pub(crate) fn wait_until_known(&mut self, interrupt: &Interrupt) -> io::Result<()> {
        let (nodes, interval) = (self.shared.options.nodes, self.shared.options.interval);
        // Two hundred handshakes a second would be slow. Add some heartbeats until each inventory has been accepted.
        let patience = Duration::from_secs(60) + interval * 10 + Duration::from_millis(5) * nodes;
        let deadline = Instant::now() + patience;
        while self.tally().known() < u64::from(nodes) {
            interrupt.check()?;
            if self.tasks.try_join_next().is_some() {
                return Err(io::Error::other(
                    "a simulated node has ended: this is a bug in the bench",
                ));
            }
            if Instant::now() > deadline {
                return Err(io::Error::other(format!(
                    "after {} s the gateway knows only {} of {nodes} nodes; the first problem: {}",
                    patience.as_secs(),
                    self.tally().known(),
                    self.tally().first_trouble().unwrap_or_else(|| "none".to_owned())
                )));
            }
            std::thread::sleep(GLANCE);
        }
        Ok(())
    }
}

/// Checks that this process may open a connection for each of this many nodes. It does not raise the limit yet, because a gateway started
/// later must not inherit it.
///
/// # Errors
/// If it may not, with the remedy.
pub(crate) fn check_open_files(nodes: u32) -> io::Result<()> {
    check_files(nodes, getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX))
}

/// Checks that `allowed` descriptors are enough.
fn check_files(nodes: u32, allowed: u64) -> io::Result<()> {
    let needed = u64::from(nodes) + OTHER_FILES;
    if allowed >= needed {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{nodes} nodes need {needed} open files, and this process may have {allowed}: raise the hard limit (ulimit -Hn {needed}), \
         or simulate fewer with --nodes {}",
        allowed.saturating_sub(OTHER_FILES)
    )))
}

/// Sleeps, unless the user interrupts.
///
/// # Errors
/// [`io::ErrorKind::Interrupted`], if the user does.
pub(crate) fn sleep_for(time: Duration, interrupt: &Interrupt) -> io::Result<()> {
    let until = Instant::now() + time;
    loop {
        interrupt.check()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(GLANCE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_descriptors_are_said_with_what_to_do() {
        assert!(check_files(800, 1000).is_ok());
        let error = check_files(10_000, 4096).unwrap_err().to_string();
        assert!(error.contains("ulimit -Hn 10200") && error.contains("--nodes 3896"), "{error}");
    }
}
