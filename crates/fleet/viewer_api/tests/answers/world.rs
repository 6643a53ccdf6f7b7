//! A small fleet, a real server on loopback that answers for it, and a client.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fleet_protocol::{
    Announced, Digest, FleetSnapshot, Name, NodeKind, NodePlace, PublishedTitle, Site,
    SnapshotNode, State, SteeringPolicy, TitleDocument,
};
use fullbore_viewer_api::session::SessionKey;
use fullbore_viewer_api::{Options, Source, router};
use player::Url;
use steering::{Fleet, Logged};

pub(crate) const HLS: &str =
    include_str!("../../../../measure/player/tests/manifests/samples/ingest-master.m3u8");
pub(crate) const DASH: &str =
    include_str!("../../../../measure/player/tests/manifests/samples/ingest.mpd");

/// A name with every character that has a special meaning in one of the formats.
pub(crate) const ODD: &str = "films/A film, 50% off & <b>\"x\"</b> 'y' \u{e4}#?+;=\u{1f3ac}.final";

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn site(own: &str) -> Site {
    let everybody =
        Announced { prefix: "127.0.0.0/8".parse().expect("a prefix"), as_path_length: 0, med: 0 };
    Site {
        name: name(own),
        region: name("r"),
        latitude: None,
        longitude: None,
        announced: if own == "home" { vec![everybody] } else { Vec::new() },
    }
}

fn node(own: &str, site: &str, titles: u32) -> SnapshotNode {
    SnapshotNode {
        name: name(own),
        host: format!("{own}.example"),
        place: NodePlace { site: name(site), cluster: name("c"), rack: None },
        kind: NodeKind::Storage,
        state: State::Serving,
        not_me: Vec::new(),
        ceiling_bits_per_second: 10_000_000_000,
        load_permille: 100,
        full: false,
        holds: (0..titles).collect(),
    }
}

fn title(path: &str, hls: &str, dash: &str) -> PublishedTitle {
    let document = |path: &str, text: &str| TitleDocument {
        path: path.to_owned(),
        sha256: Digest::of(text.as_bytes()),
    };
    PublishedTitle {
        path: path.to_owned(),
        version: Digest::of(path.as_bytes()),
        bytes: 5_000_000,
        duration_seconds: 5.312,
        record: document("title.json", "{}"),
        hls: document("master.m3u8", hls),
        dash: document("manifest.mpd", dash),
        origin: "file:///srv/library".into(),
        published_unix_seconds: 1_790_000_000,
    }
}

/// A home site, two more, and a fourth node that is joining at yet another.
pub(crate) fn snapshot() -> FleetSnapshot {
    let mut titles = vec![
        title(
            "broken",
            "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nhttps://elsewhere.example/\n",
            "<",
        ),
        title("films/a", HLS, DASH),
        title(ODD, HLS, DASH),
    ];
    titles.sort_by(|one, next| one.path.cmp(&next.path));
    let count = titles.len() as u32;
    let mut nodes = vec![
        node("node-1", "home", count),
        node("node-2", "near", count),
        node("node-3", "third", count),
        node("node-4", "fourth", count),
    ];
    nodes[3].state = State::Joining;
    FleetSnapshot {
        version: 1,
        epoch: 3,
        gateway: name("gateway"),
        number: 7,
        made_unix_millis: 1_790_000_000_000,
        policy: SteeringPolicy { scheme: "https".into(), port: 8443, ..Default::default() },
        sites: ["fourth", "home", "near", "third"].map(site).into(),
        nodes,
        titles,
    }
}

/// A source whose fleet a test may change.
#[derive(Default)]
pub(crate) struct World {
    fleet: Mutex<Option<Arc<Fleet>>>,
    documents: Mutex<HashMap<Digest, Bytes>>,
    pub(crate) signs: Mutex<bool>,
    pub(crate) logged: Mutex<Vec<Logged>>,
    pub(crate) counts: Mutex<HashMap<&'static str, usize>>,
}

impl World {
    pub(crate) fn set(&self, snapshot: FleetSnapshot) {
        let fleet = Fleet::new(snapshot, None).expect("a good snapshot");
        *self.fleet.lock().expect("fleet") = Some(Arc::new(fleet));
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut FleetSnapshot)) {
        let mut snapshot = self.fleet().expect("a fleet").snapshot().clone();
        snapshot.number += 1;
        change(&mut snapshot);
        self.set(snapshot);
    }

    pub(crate) fn count(&self, label: &str) -> usize {
        self.counts.lock().expect("counts").get(label).copied().unwrap_or(0)
    }
}

impl Source for World {
    fn fleet(&self) -> Option<Arc<Fleet>> {
        self.fleet.lock().expect("fleet").clone()
    }

    fn document(&self, sha256: &Digest) -> Option<Bytes> {
        self.documents.lock().expect("documents").get(sha256).cloned()
    }

    fn sign(&self, title: &str, expires_unix_seconds: u64) -> Option<String> {
        let token = format!("{expires_unix_seconds}.{}.k.1", Digest::of(title.as_bytes()));
        self.signs.lock().expect("signs").then_some(token)
    }

    fn log(&self, logged: Logged) {
        self.logged.lock().expect("log").push(logged);
    }

    fn count(&self, answer: &'static str) {
        *self.counts.lock().expect("counts").entry(answer).or_default() += 1;
    }
}

/// A response.
pub(crate) struct Got {
    pub(crate) status: u16,
    /// Lines of the response head.
    pub(crate) head: Vec<String>,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let is_named = |line: &&String| {
            line.split_once(':').is_some_and(|(own, _)| own.eq_ignore_ascii_case(name))
        };
        self.head.iter().find(is_named)?.split_once(':').map(|(_, value)| value.trim())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// A server, which stops with the test.
pub(crate) struct Server {
    pub(crate) world: Arc<World>,
    pub(crate) at: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    pub(crate) fn start() -> Self {
        let world = World::default();
        for text in [HLS, DASH] {
            let bytes = Bytes::from_static(text.as_bytes());
            world.documents.lock().expect("documents").insert(Digest::of(&bytes), bytes);
        }
        world.set(snapshot());
        for title in snapshot().titles.iter().filter(|title| title.path == "broken") {
            let text = b"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nhttps://elsewhere.example/\n";
            let bytes = Bytes::from_static(text);
            world.documents.lock().expect("documents").insert(title.hls.sha256, bytes);
        }
        Self::serve(world, SessionKey::derive(b"secret"))
    }

    pub(crate) fn serve(world: World, session_key: SessionKey) -> Self {
        let world = Arc::new(world);
        let options = Options {
            session_key,
            address: None,
            scheme: "http",
            region: None,
            token_seconds: 3600,
        };
        let router = router(world.clone(), options);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener =
            runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a listener");
        let at = listener.local_addr().expect("an address");
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        runtime.spawn(async move { axum::serve(listener, service).await });
        Self { world, at, _runtime: runtime }
    }

    pub(crate) fn url(&self, path_and_query: &str) -> Url {
        format!("http://{}{path_and_query}", self.at).parse().expect("a URL")
    }

    pub(crate) fn get(&self, path_and_query: &str) -> Got {
        self.ask("GET", path_and_query, &format!("Host: {}\r\n", self.at))
    }

    /// Fetches a URL like a player.
    pub(crate) fn fetch(&self, url: &Url) -> Got {
        assert_eq!((url.host(), url.port()), ("127.0.0.1", self.at.port()));
        self.get(&url.path_and_query())
    }

    pub(crate) fn ask(&self, method: &str, target: &str, fields: &str) -> Got {
        let mut stream = TcpStream::connect(self.at).expect("a connection");
        let request = format!("{method} {target} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8(bytes).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Got {
            status: status.expect("a status"),
            head: head.lines().map(str::to_owned).collect(),
            body: body.to_owned(),
        }
    }
}
