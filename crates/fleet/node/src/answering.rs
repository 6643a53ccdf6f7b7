//! Answers viewers from the box's own snapshot, as a gateway does: for hours, if no gateway can be reached.

use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fleet_protocol::Digest;
use listener::{Descriptors, PlaceBounds, Places, PlainListener, RefusedCounts, RequestBounds};
use steering::{Fleet, Logged};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use viewer_api::decisions::DecisionLog;
use viewer_api::session::SessionKey;
use viewer_api::{Options, Source, router};

use crate::agent::Agent;
use crate::holding::lock;

/// The session key is derived from this: a secret of this box, which every node has.
const SECRET: &str = "node.key";
/// No key file is larger.
const SECRET_BYTES_MAX: u32 = 64 << 10;
/// Nodes do not sign addresses, so this is unused.
const TOKEN_SECONDS: u64 = 0;
/// Below the agent's state folder.
pub(crate) const DECISIONS: &str = "decisions";
/// About a hundred thousand decisions, plus the snapshots that they follow from.
const DECISIONS_BYTES_MAX: u64 = 64 << 20;

/// The box as a source of answers.
struct OwnSnapshot {
    agent: Arc<Agent>,
    decisions: DecisionLog,
    /// The last snapshot that was logged.
    logged: Mutex<Option<Arc<Fleet>>>,
}

impl Source for OwnSnapshot {
    fn fleet(&self) -> Option<Arc<Fleet>> {
        let fleet = self.agent.gateway_state().fleet()?;
        let mut logged = lock(&self.logged);
        // Only log snapshots that are used: most boxes answer no viewers while a gateway is up.
        if !logged.as_ref().is_some_and(|logged| Arc::ptr_eq(logged, &fleet)) {
            *logged = Some(Arc::clone(&fleet));
            self.decisions.snapshot(Arc::clone(&fleet));
        }
        Some(fleet)
    }

    fn document(&self, sha256: &Digest) -> Option<Bytes> {
        self.agent.document(sha256).map(Bytes::from)
    }

    /// A box has public keys only: viewers already have their tokens.
    fn sign(&self, _title: &str, _expires_unix_seconds: u64) -> Option<String> {
        None
    }

    fn log(&self, logged: Logged) {
        self.decisions.decision(logged);
    }
}

/// Answers on a listener. Dropping it stops them.
#[derive(Debug)]
pub struct AnswersListener {
    /// The bound address.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for AnswersListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers viewers on `address`. `state` is the agent's state folder.
///
/// # Errors
/// A sentence for the operator.
pub async fn answer(
    agent: Arc<Agent>,
    state: &Path,
    address: SocketAddr,
) -> Result<AnswersListener, String> {
    let secret = files::read(&state.join(SECRET), SECRET_BYTES_MAX)
        .map_err(|error| format!("cannot read {}: {error}", state.join(SECRET).display()))?;
    let folder = state.join(DECISIONS);
    let decisions = DecisionLog::open(&folder, DECISIONS_BYTES_MAX)
        .map_err(|error| format!("cannot log decisions in {}: {error}", folder.display()))?;
    let cannot =
        |error| format!("cannot listen on {address}: {error} (choose another with --answers)");
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let bound = listener.local_addr().map_err(cannot)?;
    let options = Options {
        session_key: SessionKey::derive(&secret),
        address: None,
        scheme: "http",
        region: None,
        token_seconds: TOKEN_SECONDS,
    };
    let own = OwnSnapshot { agent, decisions, logged: Mutex::default() };
    let routes = router(Arc::new(own), options);
    let counts = Arc::new(RefusedCounts::default());
    let descriptors = Descriptors::of_process();
    // The agent needs the rest to talk to gateways, fetch titles and watch the server.
    let share = descriptors.share(descriptors.max() / 2);
    let places = Places::new(PlaceBounds::default(), share, Arc::clone(&counts));
    let viewers = PlainListener::new(listener, places, |address: SocketAddr| address);
    let serving = listener::serve(viewers, routes, RequestBounds::default(), counts, pending());
    let task = tokio::spawn(serving);
    Ok(AnswersListener { address: bound, task })
}
