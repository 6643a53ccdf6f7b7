//! Answers viewers from the box's own snapshot, as a gateway does: for hours when no gateway can be reached.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use answers::decisions::DecisionLog;
use answers::session::SessionKey;
use answers::{Options, Source, router};
use bytes::Bytes;
use fleet::Digest;
use steering::{Fleet, Logged};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::agent::Agent;
use crate::holding::lock;

/// What the session key is made of: a secret of this box alone, which every node has.
const SECRET: &str = "node.key";
/// No key file is longer.
const SECRET_BYTES_MAX: u32 = 64 << 10;
/// Nodes sign no addresses, so this is of no account.
const TOKEN_SECONDS: u64 = 0;
/// Below the agent's state folder.
pub(crate) const DECISIONS: &str = "decisions";
/// A hundred thousand decisions or so, besides the snapshots that they follow from.
const DECISIONS_BYTES_MAX: u64 = 64 << 20;

/// The box as a source of answers.
struct OwnSnapshot {
    agent: Arc<Agent>,
    decisions: DecisionLog,
    /// The snapshot that the log knows.
    logged: Mutex<Option<Arc<Fleet>>>,
}

impl Source for OwnSnapshot {
    fn fleet(&self) -> Option<Arc<Fleet>> {
        let fleet = self.agent.told().fleet()?;
        let mut logged = lock(&self.logged);
        // Only those from which somebody is answered: most boxes answer nobody while there is a gateway.
        if !logged.as_ref().is_some_and(|logged| Arc::ptr_eq(logged, &fleet)) {
            *logged = Some(Arc::clone(&fleet));
            self.decisions.snapshot(Arc::clone(&fleet));
        }
        Some(fleet)
    }

    fn document(&self, sha256: &Digest) -> Option<Bytes> {
        self.agent.document(sha256).map(Bytes::from)
    }

    /// A box has public keys only: viewers bring their tokens.
    fn sign(&self, _title: &str, _expires_unix_seconds: u64) -> Option<String> {
        None
    }

    fn log(&self, logged: Logged) {
        self.decisions.decision(logged);
    }
}

/// Answers on a listener. Dropping it ends that.
#[derive(Debug)]
pub struct AnswersListener {
    /// Where it listens.
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
    let secret = smallfile::read(&state.join(SECRET), SECRET_BYTES_MAX)
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
    let service = routes.into_make_service_with_connect_info::<SocketAddr>();
    let task = tokio::spawn(async move {
        // It ends with the task.
        let _ = axum::serve(listener, service).await;
    });
    Ok(AnswersListener { address: bound, task })
}
