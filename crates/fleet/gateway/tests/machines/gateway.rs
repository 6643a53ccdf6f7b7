//! A gateway's machines' API over real sockets and real TLS, on a store in memory.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fleet_protocol::{
    Digest, FleetSnapshot, JoinAnswer, JoinRequest, Name, NodeKind, NodePlace, PublishedTitle,
    SigningKey, Site, TitleDocument, ViewerKeys,
};
use fullbore_gateway::clock::Clock;
use fullbore_gateway::live::{Core, JoinedNode, LiveFleet, WantedNode, World};
use fullbore_gateway::machines::{self, Machines, Reread};
use fullbore_tests::PATIENCE;
use identity::{
    AcceptBounds, Authority, Credentials, InvitationToken, NodeKey, RefusalLog, RefusalReason,
    client_config, joining_config,
};
use listener::{Descriptors, Places};
use reqwest::{Client, Response};
use store::records::{InviteRecord, NodeRecord, Revoked, StoreRecord, load, load_all};
use store::{Check, Engine, Entry, StoreAnswer, StoreError, Write};
use tokio::net::TcpListener;

/// A title of the fleet of which no bytes exist.
pub(crate) fn title(path: &str) -> PublishedTitle {
    let document = TitleDocument { path: "a".to_owned(), sha256: Digest::of(b"a") };
    PublishedTitle {
        path: path.to_owned(),
        version: Digest::of(path.as_bytes()),
        bytes: 1,
        duration_seconds: 60.0,
        record: document.clone(),
        hls: document.clone(),
        dash: document,
        origin: "file:///library".to_owned(),
        published_unix_seconds: 1,
    }
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// Waits until `holds`, or for as long as things may take on a busy machine.
pub(crate) async fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if holds() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

/// A store in memory only.
#[derive(Default)]
pub(crate) struct Memory(Mutex<(u64, BTreeMap<String, Entry>)>);

impl Engine for Memory {
    fn get<'a>(&'a self, key: &'a str) -> StoreAnswer<'a, Option<Entry>> {
        Box::pin(async move { Ok(self.0.lock().unwrap().1.get(key).cloned()) })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreAnswer<'a, Vec<(String, Entry)>> {
        Box::pin(async move {
            let own = self.0.lock().unwrap();
            let all = own.1.iter().filter(|(key, _)| key.starts_with(prefix));
            Ok(all.map(|(key, entry)| (key.clone(), entry.clone())).collect())
        })
    }

    fn commit<'a>(&'a self, checks: &'a [Check], writes: &'a [Write]) -> StoreAnswer<'a, u64> {
        Box::pin(async move {
            let mut own = self.0.lock().unwrap();
            let holds = |check: &Check| match check {
                Check::Absent(key) => !own.1.contains_key(key),
                Check::At(key, at) => own.1.get(key).is_some_and(|entry| entry.revision == *at),
            };
            if !checks.iter().all(holds) {
                return Err(StoreError::Conflict);
            }
            own.0 += 1;
            let revision = own.0;
            for write in writes {
                match write {
                    Write::Put(key, value) => {
                        own.1.insert(key.clone(), Entry { value: value.clone(), revision })
                    }
                    Write::Delete(key) => own.1.remove(key),
                };
            }
            Ok(revision)
        })
    }

    fn revision(&self) -> StoreAnswer<'_, u64> {
        Box::pin(async move { Ok(self.0.lock().unwrap().0) })
    }

    fn lease<'a>(
        &'a self,
        _key: &'a str,
        _owner: &'a str,
        _seconds: u32,
    ) -> StoreAnswer<'a, Option<u64>> {
        Box::pin(async { Ok(None) })
    }
}

/// Updates a gateway's live state from the store.
struct Reader {
    engine: Arc<Memory>,
    live: Arc<LiveFleet>,
    gateways: Vec<String>,
    clock: Clock,
}

impl Reread for Reader {
    fn reread(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.read_store())
    }
}

impl Reader {
    /// Does what a gateway does when the store's revision has changed.
    async fn read_store(&self) {
        let (nodes, bad) = load_all::<NodeRecord>(&*self.engine).await.unwrap();
        assert_eq!(bad, vec![]);
        let site = Site {
            name: name("west"),
            region: name("europe"),
            latitude: None,
            longitude: None,
            announced: vec![],
        };
        let joined = nodes.iter().map(|stored| {
            let NodeRecord { joined_unix_seconds, serials, .. } = &stored.record;
            let joined =
                JoinedNode { unix_seconds: *joined_unix_seconds, serials: serials.clone() };
            (name(&stored.name), joined)
        });
        let joined: BTreeMap<_, _> = joined.collect();
        let nodes = nodes.into_iter().map(|stored| {
            let record = stored.record;
            let wanted = WantedNode {
                place: record.place,
                kind: record.kind,
                host: record.host,
                ceiling_bits_per_second: None,
                drain: None,
                is_revoked: record.revoked.is_some(),
            };
            (name(&stored.name), wanted)
        });
        let nodes: BTreeMap<_, _> = nodes.collect();
        let known = self.live.world();
        if known.nodes == nodes && known.joined == joined && !known.sites.is_empty() {
            return;
        }
        let sites = [(name("west"), site)].into();
        let gateways = self.gateways.clone();
        let world = World { epoch: 1, sites, nodes, joined, gateways, ..World::default() };
        self.live.set_world(Arc::new(world), self.clock.now());
        self.live.make_snapshot(self.clock.now()).expect("a snapshot");
    }
}

/// A gateway under test.
pub(crate) struct Gateway {
    pub(crate) engine: Arc<Memory>,
    pub(crate) live: Arc<LiveFleet>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) refusals: Arc<RefusalLog>,
    pub(crate) key: fleet_protocol::PublicKey,
    pub(crate) url: String,
    clock: Clock,
}

impl Gateway {
    /// Starts a gateway that issues certificates valid for `lifetime`.
    pub(crate) async fn start(lifetime: Duration) -> Arc<Self> {
        let [one] = Self::start_some(lifetime).await;
        one
    }

    /// From now on nodes get these keys, regardless of the store.
    pub(crate) fn tell_keys(&self, revision: u64, text: &str) {
        let viewer_keys = Arc::new(ViewerKeys::new(text.to_owned()));
        let world = World::clone(&self.live.world());
        let world = World { viewer_keys, viewer_keys_revision: revision, ..world };
        self.live.set_world(Arc::new(world), self.clock.now());
    }

    /// Starts several gateways of one fleet.
    pub(crate) async fn start_some<const COUNT: usize>(lifetime: Duration) -> [Arc<Self>; COUNT] {
        let authority = Arc::new(Authority::make(&name("films"), now()).unwrap());
        let (_, signing) = SigningKey::draw().unwrap();
        let engine = Arc::new(Memory::default());
        let mut listeners = Vec::new();
        for _ in 0..COUNT {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let url = |listener: &TcpListener| format!("https://{}", listener.local_addr().unwrap());
        let urls: Vec<_> = listeners.iter().map(url).collect();
        let mut gateways = Vec::new();
        for listener in listeners {
            let url = url(&listener);
            let signing = SigningKey::from_pkcs8(&signing).unwrap();
            let fleet = (Arc::clone(&authority), Arc::clone(&engine), signing);
            gateways.push(Self::of(fleet, listener, url, urls.clone(), lifetime).await);
        }
        gateways.try_into().ok().unwrap()
    }

    async fn of(
        (authority, engine, signing): (Arc<Authority>, Arc<Memory>, SigningKey),
        listener: TcpListener,
        url: String,
        gateways: Vec<String>,
        lifetime: Duration,
    ) -> Arc<Self> {
        let key = signing.public();
        let live = Arc::new(LiveFleet::new(Core::new(name("gateway-1")), signing));
        let clock = Clock::start();
        let refusals = Arc::new(RefusalLog::new(|_| {}));
        let reader = Arc::new(Reader {
            engine: Arc::clone(&engine),
            live: Arc::clone(&live),
            gateways,
            clock,
        });
        reader.read_store().await;
        let machines = Machines {
            live: Arc::clone(&live),
            clock,
            engine: engine.clone(),
            store: reader.clone(),
            authority: Arc::clone(&authority),
            gateway: name("gateway-1"),
            hosts: vec!["127.0.0.1".to_owned(), "gateway.example".to_owned()],
            public_host: Some("tv.example".to_owned()),
            snapshot_key: key,
            refusals: Arc::clone(&refusals),
            node_lifetime: lifetime,
            sign: Arc::new(|title, expires| Some(format!("{expires}.{title}"))),
        };
        let bounds = AcceptBounds::default();
        let places = Descriptors::of_process().share(0);
        let places = Places::new(bounds.places(), places, Arc::default());
        tokio::spawn(machines::serve(listener, machines, places, bounds));
        let own = Arc::new(Self { engine, live, authority, refusals, key, url, clock });
        let watching = Arc::downgrade(&own);
        tokio::spawn(async move {
            while watching.strong_count() > 0 {
                reader.read_store().await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        own
    }

    pub(crate) fn now(&self) -> fullbore_gateway::clock::Now {
        self.clock.now()
    }

    /// An invitation made `age` seconds ago that expires `seconds` after that.
    pub(crate) async fn invite(
        &self,
        node: Option<&str>,
        seconds: u64,
        age: u64,
    ) -> InvitationToken {
        let token = InvitationToken::draw(self.authority.fingerprint());
        let made_unix_seconds = now() - age;
        let record = InviteRecord {
            sha256: token.digest(),
            place: NodePlace { site: name("west"), cluster: name("west-1"), rack: None },
            kind: NodeKind::Flash,
            node: node.map(name),
            host: None,
            ceiling_bits_per_second: 0,
            made_unix_seconds,
            expires_unix_seconds: made_unix_seconds + seconds,
            used: None,
        };
        self.engine.commit(&[], &[record.put(token.id()).unwrap()]).await.unwrap();
        token
    }

    pub(crate) async fn revoke(&self, node: &str) {
        let stored = load::<NodeRecord>(&*self.engine, node).await.unwrap().unwrap();
        let mut record = stored.record;
        record.revoked = Some(Revoked { reason: "stolen".into(), since_unix_seconds: now() });
        self.engine.commit(&[], &[record.put(node).unwrap()]).await.unwrap();
    }

    pub(crate) async fn record(&self, node: &str) -> Option<NodeRecord> {
        let stored = load::<NodeRecord>(&*self.engine, node).await.unwrap();
        stored.map(|stored| stored.record)
    }

    /// Its address, for a machine that knows no other gateway.
    pub(crate) fn here(&self) -> Vec<String> {
        vec![self.url.clone()]
    }

    pub(crate) fn count(&self, reason: RefusalReason) -> u64 {
        self.refusals.count(reason)
    }

    pub(crate) fn stranger(&self) -> Client {
        client(joining_config(self.authority.fingerprint()).unwrap())
    }

    pub(crate) async fn try_to_join(&self, request: &JoinRequest) -> Response {
        let url = format!("{}/machine/v1/join", self.url);
        self.stranger().post(url).json(request).send().await.unwrap()
    }

    /// A node that has joined, and a client with its certificate.
    pub(crate) async fn node(&self, node: &str) -> (Credentials, Client) {
        let token = self.invite(None, 60, 0).await;
        let key = NodeKey::draw();
        let response = self.try_to_join(&asking(&token, node, &key)).await;
        assert_eq!(response.status(), 200);
        let answer: JoinAnswer = response.json().await.unwrap();
        let own = Credentials::new(key, answer.certificate, answer.authority).unwrap();
        assert!(eventually(|| self.live.world().nodes.contains_key(&name(node))).await);
        let client = client(client_config(&own).unwrap());
        (own, client)
    }

    pub(crate) fn snapshot(&self) -> FleetSnapshot {
        let signed = self.live.signed_snapshot().unwrap();
        FleetSnapshot::from_bytes(&signed.bytes).unwrap()
    }
}

pub(crate) fn client(tls: rustls::ClientConfig) -> Client {
    Client::builder().use_preconfigured_tls(tls).no_proxy().build().unwrap()
}

pub(crate) fn asking(token: &InvitationToken, node: &str, key: &NodeKey) -> JoinRequest {
    JoinRequest {
        version: 1,
        token: token.to_string(),
        node: name(node),
        host: format!("{node}.example"),
        ceiling_bits_per_second: 10_000_000_000,
        request: key.request(&name(node)),
    }
}

/// The most requests that a rate limit has admitted since `begin`, however long they took.
pub(crate) fn admitted_max(begin: Instant, at_once: u64, per_second: u64) -> u64 {
    at_once + per_second * (begin.elapsed().as_secs() + 1)
}

/// The status, and the reason in the body.
pub(crate) async fn refused(response: Response) -> (u16, String) {
    try_refused(response).await.unwrap()
}

async fn try_refused(response: Response) -> reqwest::Result<(u16, String)> {
    let status = response.status().as_u16();
    let told: HashMap<String, serde_json::Value> = response.json().await?;
    assert!(!told["error"].as_str().unwrap().is_empty());
    Ok((status, told["reason"].as_str().unwrap().to_owned()))
}

/// The refusal of a request from a node that may not stay. Twice a second, the gateway closes the connections of such nodes, and perhaps this one
/// before it has answered.
pub(crate) async fn refused_at_last<F>(ask: impl Fn() -> F) -> (u16, String)
where
    F: Future<Output = reqwest::Result<Response>>,
{
    let ends = Instant::now() + PATIENCE;
    loop {
        let refused = match ask().await {
            Ok(response) => try_refused(response).await,
            Err(error) => Err(error),
        };
        match refused {
            Ok(refused) => return refused,
            Err(error) => assert!(Instant::now() < ends, "{error}"),
        }
    }
}

pub(crate) fn is(status: u16, reason: RefusalReason) -> (u16, String) {
    (status, reason.as_str().to_owned())
}
