//! A gateway on loopback, its operators, and nodes that send heartbeats.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleet_protocol::{
    Condition, Heartbeat, HeldTitle, Inventory, Load, Name, NodeKind, NodePlace, SteeringPolicy,
};
use fullbore_gateway::gateway::{Gateway, GatewayOptions, NewFleet};
use fullbore_gateway::{ServeOptions, Transport, Webhook, serve};
use fullbore_tests::PATIENCE;
use identity::NODE_LIFETIME;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use store::records::{NodeRecord, StoreRecord, Wanted};
use store::{Engine, FolderStore, Objects};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running gateway.
pub(crate) struct Running {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) public: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Its address for nodes.
    pub(crate) machines_url: String,
    http: reqwest::Client,
    pub(crate) token: String,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

impl Running {
    /// Starts a gateway in `folder`.
    pub(crate) async fn start(folder: &Path) -> Self {
        let state = folder.join("state");
        fullbore_gateway::prepare_state(&state).expect("a folder");
        let engine = FolderStore::open(&folder.join("store")).expect("a store");
        Self::start_on(folder, Arc::new(engine)).await
    }

    /// Starts a gateway on this store.
    pub(crate) async fn start_on(folder: &Path, engine: Arc<dyn Engine>) -> Self {
        Self::start_as("g1", folder, engine, NODE_LIFETIME).await
    }

    /// Starts a gateway with this name on this store. Nodes' certificates are valid for `node_lifetime`.
    pub(crate) async fn start_as(
        gateway: &str,
        folder: &Path,
        engine: Arc<dyn Engine>,
        node_lifetime: Duration,
    ) -> Self {
        let plain = |_: &Gateway| [Transport::Plain, Transport::Plain];
        Self::start_over(gateway, folder, engine, node_lifetime, plain).await
    }

    /// Starts a gateway with these transports for viewers and operators.
    pub(crate) async fn start_over(
        gateway: &str,
        folder: &Path,
        engine: Arc<dyn Engine>,
        node_lifetime: Duration,
        transports: impl FnOnce(&Gateway) -> [Transport; 2],
    ) -> Self {
        Self::start_with((gateway, folder, engine), node_lifetime, transports, None).await
    }

    /// Starts a gateway that reports issues to a webhook.
    pub(crate) async fn start_reporting(
        gateway: &str,
        folder: &Path,
        engine: Arc<dyn Engine>,
        webhook: Webhook,
    ) -> Self {
        let plain = |_: &Gateway| [Transport::Plain, Transport::Plain];
        Self::start_with((gateway, folder, engine), NODE_LIFETIME, plain, Some(webhook)).await
    }

    async fn start_with(
        (gateway, folder, engine): (&str, &Path, Arc<dyn Engine>),
        node_lifetime: Duration,
        transports: impl FnOnce(&Gateway) -> [Transport; 2],
        webhook: Option<Webhook>,
    ) -> Self {
        let objects = folder.join("objects").display().to_string();
        let (public, admin, machines) = (bind().await, bind().await, bind().await);
        let machines_url = format!("https://{}", machines.local_addr().expect("bound"));
        let policy =
            SteeringPolicy { scheme: "http".to_owned(), port: 8443, ..SteeringPolicy::default() };
        let options = GatewayOptions {
            name: name(gateway),
            state: folder.join("state"),
            engine,
            engine_name: "sqlite",
            objects: Arc::new(Objects::open(&objects).expect("objects")),
            machines_url: machines_url.clone(),
            region: Some(name("europe")),
            token_seconds: 60,
            plan_every: None,
            new_fleet: NewFleet { name: name("films"), policy, signs_addresses: false },
            webhook: webhook.map(Arc::new),
            decisions_bytes_max: 1 << 20,
            log: |line| {
                eprintln!("gateway: {line}");
                LOG.lock().expect("no panic in it").push(line.to_owned());
            },
        };
        let gateway = Gateway::start(options).await.expect("it starts");
        let (stop, stopped) = oneshot::channel();
        let addresses = [&public, &admin].map(|bound| bound.local_addr().expect("bound"));
        let [public_transport, admin_transport] = transports(&gateway);
        let options = ServeOptions {
            public,
            public_transport,
            machines,
            admin,
            admin_transport,
            hosts: vec!["127.0.0.1".to_owned()],
            public_url: None,
            node_lifetime,
        };
        let stopped = async move {
            let _ = stopped.await;
        };
        let served = tokio::spawn(serve(Arc::clone(&gateway), options, stopped));
        // Only the gateway that created the fleet has one.
        let token = std::fs::read_to_string(gateway.state().admin_token()).unwrap_or_default();
        let http = fullbore_gateway::client::plain_http().expect("a client");
        let token = token.trim().to_owned();
        let [public, admin] = addresses;
        Self { gateway, public, admin, machines_url, http, token, stop, served }
    }

    /// Stops it the way SIGTERM does.
    pub(crate) async fn stop(self) {
        self.stop.send(()).expect("it runs");
        drop(self.http);
        self.served.await.expect("no panic").expect("it ends cleanly");
    }

    /// Sends a request to the operator's API, with or without a token.
    pub(crate) async fn ask(
        &self,
        token: Option<&str>,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> (StatusCode, Value) {
        let mut request = self.http.request(method, format!("http://{}{path}", self.admin));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        let bytes = answer.bytes().await.expect("all of it");
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// The admin's token.
    pub(crate) fn admin_token(&self) -> String {
        self.token.clone()
    }

    /// A GET by the admin.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask(Some(&self.token), Method::GET, path, None).await;
        assert_eq!(status, StatusCode::OK, "{path}: {answer}");
        answer
    }

    /// A POST by the admin.
    pub(crate) async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.ask(Some(&self.token), Method::POST, path, Some(body)).await
    }

    /// A POST by the admin that succeeds.
    pub(crate) async fn done(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.post(path, body).await;
        assert_eq!(status, StatusCode::OK, "{path}: {answer}");
        answer
    }

    /// The body of a GET to the admin listener, as text.
    pub(crate) async fn text(&self, path: &str) -> String {
        let request =
            self.http.get(format!("http://{}{path}", self.admin)).bearer_auth(&self.token);
        request.send().await.expect("an answer").text().await.expect("all of it")
    }

    /// Sends raw bytes to the admin listener, and returns its answer.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(self.admin).await.expect("connected");
        stream.write_all(bytes).await.expect("written");
        // With a complete request, the answer follows. Otherwise the listener would wait for the rest.
        if !String::from_utf8_lossy(bytes).contains("Connection: close") {
            // It may have answered garbage already, and closed the connection.
            let _ = stream.shutdown().await;
        }
        let mut answer = Vec::new();
        // Closing the connection without an answer also counts as one.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The token of a new operator.
    pub(crate) async fn operator(&self, id: &str, role: &str, sites: Option<&[&str]>) -> String {
        let body = json!({ "id": id, "role": role, "sites": sites });
        let answer = self.done("/api/v1/operators", body).await;
        answer["token"].as_str().expect("a token").to_owned()
    }

    /// Creates sites and nodes the way joining does, and sends one heartbeat of each.
    pub(crate) async fn nodes(&self, nodes: &[(&str, &str)]) {
        for (node, site) in nodes {
            let body = json!({ "cluster": format!("{site}-1"), "site": site });
            self.done("/api/v1/invites", body).await;
            let record = NodeRecord {
                place: NodePlace {
                    site: name(site),
                    cluster: name(&format!("{site}-1")),
                    rack: None,
                },
                kind: NodeKind::Storage,
                host: format!("{node}.example"),
                ceiling_bits_per_second: 0,
                serials: Vec::new(),
                wanted: Wanted::Serving,
                joined_unix_seconds: 1,
                revoked: None,
            };
            let write = record.put(node).expect("a record");
            self.gateway.engine().commit(&[], &[write]).await.expect("kept");
        }
        let names = || self.gateway.live().world().nodes.len();
        eventually(|| (names() == nodes.len()).then_some(())).await;
        for (node, _) in nodes {
            self.beat(node, 1, &[]);
        }
    }

    /// Sends a node's heartbeat and inventory.
    pub(crate) fn beat(&self, node: &str, sequence: u64, held: &[HeldTitle]) {
        self.beat_with(node, sequence, held, Condition::Ready);
    }

    /// Sends the heartbeat of a node without titles in this condition.
    pub(crate) fn beat_as(&self, node: &str, sequence: u64, condition: Condition) {
        self.beat_with(node, sequence, &[], condition);
    }

    fn beat_with(&self, node: &str, sequence: u64, held: &[HeldTitle], condition: Condition) {
        let now = self.gateway.now();
        let inventory = Inventory::new(name(node), held.to_vec());
        let beat = Heartbeat {
            version: 1,
            node: name(node),
            boot: "b1".to_owned(),
            sequence,
            sent_unix_millis: now.unix_millis,
            condition,
            load: Load {
                ceiling_bits_per_second: 1_000_000,
                connections: 2,
                free_bytes: 1 << 40,
                ..Load::default()
            },
            inventory: inventory.digest(),
            snapshot: 0,
            receipts: Vec::new(),
            fill: None,
            fill_bytes_per_day: None,
            served_at: None,
            sightings: Vec::new(),
        };
        let live = self.gateway.live();
        let answer = live.handle_heartbeat(&name(node), beat, now).expect("it is heard");
        if answer.wants_inventory {
            live.handle_inventory(&name(node), inventory).expect("it is taken");
        }
    }
}

/// The log of all gateways in this process.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Number of log lines that contain this text, which should name something unique to the test.
pub(crate) fn logged(text: &str) -> usize {
    LOG.lock().expect("no panic in it").iter().filter(|line| line.contains(text)).count()
}

/// Descriptors for all connections that tests of this program have open at the same time, at both ends.
pub(crate) const DESCRIPTORS: usize = 4000;

async fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a free port")
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Asks repeatedly until there is a result.
pub(crate) async fn eventually<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it happens in time")
}
