//! Mutual TLS over real sockets: a gateway's acceptor under axum, and clients that may or may not be permitted.

use std::future::pending;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use fleet_protocol::{Digest, Name};
use fullbore_identity::{
    AcceptBounds, Acceptor, Authority, Caller, Credentials, GatewayTls, NODE_LIFETIME,
    NodeCertificate, NodeKey, NodeStanding, RefusalLog, RefusalReason, Register, SigningRequest,
    client_config, joining_config,
};
use listener::{Accept, Descriptors, ListenerRefusal, Places, RefusedCounts, serve};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// Reports the same, configurable standing for every node.
#[derive(Default)]
struct Says(AtomicU8);

impl Says {
    fn revoke(&self) {
        self.0.store(1, Relaxed);
    }
}

impl Register for Says {
    fn standing(&self, certificate: &NodeCertificate) -> NodeStanding {
        if certificate.node.as_str() == "stranger" {
            return NodeStanding::Unknown;
        }
        if self.0.load(Relaxed) == 1 { NodeStanding::Revoked } else { NodeStanding::Good }
    }
}

struct Gateway {
    authority: Arc<Authority>,
    address: SocketAddr,
    refusals: Arc<RefusalLog>,
    counts: Arc<RefusedCounts>,
    says: Arc<Says>,
}

impl Gateway {
    async fn start(bounds: AcceptBounds) -> Self {
        let authority = Arc::new(Authority::make(&name("films"), now()).unwrap());
        Self::of(authority, bounds).await
    }

    async fn of(authority: Arc<Authority>, bounds: AcceptBounds) -> Self {
        let hosts = vec!["127.0.0.1".to_owned()];
        let tls = GatewayTls::new(Arc::clone(&authority), name("gateway-1"), hosts, NODE_LIFETIME)
            .unwrap();
        let config = Arc::new(tls).server_config().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (refusals, says) = (Arc::new(RefusalLog::new(|_| {})), Arc::new(Says::default()));
        let register = Arc::clone(&says);
        let counts = Arc::new(RefusedCounts::default());
        let share = Descriptors::of_process().share(0);
        let places = Places::new(bounds.places(), share, Arc::clone(&counts));
        let of_requests = bounds.requests();
        let log = Arc::clone(&refusals);
        let acceptor = Acceptor::start(listener, config, register, log, places, bounds).unwrap();
        let address = acceptor.local_addr().unwrap();
        let asked = Arc::clone(&says);
        let who = get(move |ConnectInfo(caller): ConnectInfo<Caller>| async move {
            match caller.node(&*asked) {
                Ok(peer) => format!("{} {}", peer.node, peer.serial),
                Err(reason) => reason.as_str().to_owned(),
            }
        });
        let app = Router::new().route("/who", who);
        tokio::spawn(serve(acceptor, app, of_requests, Arc::clone(&counts), pending()));
        Self { authority, address, refusals, counts, says }
    }

    fn node(&self, node: &str, lifetime: Duration, from: u64) -> Credentials {
        let (key, node) = (NodeKey::draw(), name(node));
        let request = SigningRequest::check(&key.request(&node), &node).unwrap();
        let issued = self.authority.sign_node(&request, lifetime, from).unwrap();
        Credentials::new(key, issued.pem, self.authority.certificate_pem().to_owned()).unwrap()
    }

    async fn connect(&self, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        let dialled = ServerName::from(self.address.ip());
        TlsConnector::from(Arc::new(config)).connect(dialled, stream).await
    }

    /// The answer to one request on a new connection.
    async fn ask(&self, config: ClientConfig) -> std::io::Result<String> {
        let mut stream = self.connect(config).await?;
        ask(&mut stream).await
    }
}

/// The body of the answer to one request.
async fn ask(stream: &mut TlsStream<TcpStream>) -> std::io::Result<String> {
    stream.write_all(b"GET /who HTTP/1.1\r\nhost: gateway\r\n\r\n").await?;
    let mut bytes = vec![0; 4096];
    let count = stream.read(&mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
    let body = text.split("\r\n\r\n").nth(1).map(str::to_owned);
    body.ok_or_else(|| std::io::Error::other(format!("no answer: {text:?}")))
}

/// The time limit for steps that take a moment on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `holds`, or for as long as things may take on a busy machine.
async fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if holds() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_without_gateways_leaves_a_node_its_certificate() {
    const DAY_SECONDS: u64 = 24 * 3600;
    let gateway = Gateway::start(AcceptBounds::default()).await;
    // It was due for renewal when the gateways died, a day ago.
    let died = now() - DAY_SECONDS;
    let node = gateway.node("node-1", NODE_LIFETIME, died - 20 * DAY_SECONDS);
    assert_eq!(node.certificate().renew_unix_seconds(), died);
    let answer = gateway.ask(client_config(&node).unwrap()).await.unwrap();
    assert!(answer.starts_with("node-1 "), "{answer}");
}

#[tokio::test]
async fn a_node_is_known_by_its_name_and_serial() {
    let gateway = Gateway::start(AcceptBounds::default()).await;
    let own = gateway.node("node-1", NODE_LIFETIME, now());
    let answer = gateway.ask(client_config(&own).unwrap()).await.unwrap();
    assert_eq!(answer, format!("node-1 {}", own.certificate().serial));
}

#[tokio::test]
async fn a_box_without_a_certificate_gets_in_and_is_nobody() {
    let gateway = Gateway::start(AcceptBounds::default()).await;
    let config = joining_config(gateway.authority.fingerprint()).unwrap();
    assert_eq!(gateway.ask(config).await.unwrap(), "no_certificate");
}

#[tokio::test]
async fn a_box_does_not_speak_to_a_gateway_of_another_fleet() {
    let (gateway, other) = (
        Gateway::start(AcceptBounds::default()).await,
        Gateway::start(AcceptBounds::default()).await,
    );
    let invited = joining_config(other.authority.fingerprint()).unwrap();
    let error = gateway.connect(invited).await.unwrap_err();
    assert!(error.to_string().contains("OtherFleet"), "{error}");
    let of_other = other.node("node-1", NODE_LIFETIME, now());
    assert!(gateway.connect(client_config(&of_other).unwrap()).await.is_err());
    assert!(gateway.connect(joining_config(Digest::of(b"forged")).unwrap()).await.is_err());
}

#[tokio::test]
async fn a_node_of_another_fleet_is_refused_though_fleet_and_node_have_its_names() {
    let gateway = Gateway::start(AcceptBounds::default()).await;
    let impostor = Authority::make(&name("films"), now()).unwrap();
    let (key, node) = (NodeKey::draw(), name("node-1"));
    let request = SigningRequest::check(&key.request(&node), &node).unwrap();
    let issued = impostor.sign_node(&request, NODE_LIFETIME, now()).unwrap();
    // It trusts the gateway, but uses a certificate from its own authority.
    let own_authority = gateway.authority.certificate_pem().to_owned();
    let forged = Credentials::new(key, issued.pem, own_authority).unwrap();
    assert!(gateway.ask(client_config(&forged).unwrap()).await.is_err());
    assert!(eventually(|| gateway.refusals.count(RefusalReason::OtherAuthority) == 1).await);
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let gateway = Gateway::start(AcceptBounds::default()).await;
    let old = gateway.node("node-1", Duration::from_secs(60), now() - 61);
    assert!(gateway.ask(client_config(&old).unwrap()).await.is_err());
    assert!(eventually(|| gateway.refusals.count(RefusalReason::Expired) == 1).await);
}

#[tokio::test]
async fn a_certificate_that_expires_meanwhile_ends_its_connection() {
    let gateway = Gateway::start(AcceptBounds::default()).await;
    // As short as possible while a request still fits in, which depends on the machine.
    let mut answered = None;
    for seconds in [2, 4, 8, 16, 32] {
        let short = gateway.node("node-1", Duration::from_secs(seconds), now());
        let Ok(mut stream) = gateway.connect(client_config(&short).unwrap()).await else {
            continue;
        };
        match ask(&mut stream).await {
            Ok(who) if who.starts_with("node-1") => {
                answered = Some(stream);
                break;
            }
            Ok(who) => assert_eq!(who, "expired"),
            Err(_) => {}
        }
    }
    let mut stream = answered.expect("a request takes less than half a minute");
    let ended = tokio::time::timeout(PATIENCE, stream.read_u8()).await;
    assert!(ended.expect("it ends").is_err());
    assert!(gateway.refusals.count(RefusalReason::Expired) >= 1);
}

#[tokio::test]
async fn a_revoked_node_is_cut_off_at_once_and_told_why_if_it_comes_back() {
    let gateway = Gateway::start(AcceptBounds::default()).await;
    let own = gateway.node("node-1", NODE_LIFETIME, now());
    let mut stream = gateway.connect(client_config(&own).unwrap()).await.unwrap();
    assert!(ask(&mut stream).await.unwrap().starts_with("node-1"));
    gateway.says.revoke();
    let ended = tokio::time::timeout(PATIENCE, stream.read_u8()).await;
    assert!(ended.expect("it ends").is_err());
    assert_eq!(refusal(&gateway, &own).await, "revoked");
    let unknown = gateway.node("stranger", NODE_LIFETIME, now());
    assert_eq!(refusal(&gateway, &unknown).await, "unknown_node");
}

/// The answer to a node that may not stay. Twice a second, the gateway closes the connections of such nodes, and perhaps this one before it has
/// answered.
async fn refusal(gateway: &Gateway, node: &Credentials) -> String {
    let ends = Instant::now() + PATIENCE;
    loop {
        match gateway.ask(client_config(node).unwrap()).await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < ends, "{error}"),
        }
    }
}

#[tokio::test]
async fn a_nodes_certificate_does_not_make_a_gateway() {
    let gateway = Gateway::start(AcceptBounds::default()).await;
    let thief = gateway.node("node-1", NODE_LIFETIME, now());
    let state = tempfile::tempdir().unwrap();
    thief.keep(state.path()).unwrap();
    // A server with a node's certificate, at an address where nodes expect a gateway. No other test binds ports of this address, so none takes
    // the port before openssl does.
    let listener = std::net::TcpListener::bind("127.43.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let file = |name: &str| state.path().join(name);
    let mut server = Command::new("openssl")
        .args(["s_server", "-quiet", "-accept", &address.to_string()])
        .arg("-cert")
        .arg(file("node.pem"))
        .arg("-key")
        .arg(file("node.key"))
        .arg("-cert_chain")
        .arg(file("ca.pem"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let victim = gateway.node("node-2", NODE_LIFETIME, now());
    let (mut outcome, begin) = (None, Instant::now());
    while begin.elapsed() < PATIENCE {
        if let Ok(stream) = TcpStream::connect(address).await {
            let config = Arc::new(client_config(&victim).unwrap());
            let dialled = ServerName::from(address.ip());
            outcome = Some(TlsConnector::from(config).connect(dialled, stream).await);
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.kill().unwrap();
    server.wait().unwrap();
    let error = outcome.expect("openssl listens").unwrap_err().to_string();
    assert!(error.contains("extended key usage") || error.contains("InvalidPurpose"), "{error}");
}

#[tokio::test]
async fn a_peer_that_says_nothing_does_not_hold_up_others() {
    let bounds = AcceptBounds {
        // The node's own handshake has to fit in, which depends on the machine.
        handshake_max: Duration::from_secs(5),
        handshake_min: Duration::ZERO,
        handshakes_max: 4,
        ..AcceptBounds::default()
    };
    let gateway = Gateway::start(bounds).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(TcpStream::connect(gateway.address).await.unwrap());
    }
    let own = gateway.node("node-1", NODE_LIFETIME, now());
    assert!(gateway.ask(client_config(&own).unwrap()).await.unwrap().starts_with("node-1"));
    // Four handshakes may be in progress: five have been dropped for others, and the rest are too slow.
    let ended = || {
        let slow = gateway.refusals.count(RefusalReason::HandshakeSlow);
        (slow, gateway.refusals.count(RefusalReason::TooManyConnections))
    };
    assert!(eventually(|| ended().0 + ended().1 == 8).await, "{:?}", ended());
    assert_eq!(gateway.counts.count(ListenerRefusal::GaveWay), ended().1);
    assert!(ended().1 >= 4, "{:?}", ended());
}

#[tokio::test]
async fn strangers_of_one_source_have_a_few_connections_and_little_time() {
    let bounds = AcceptBounds {
        strangers_per_source_max: 3,
        handshake_min: Duration::ZERO,
        // Four handshakes have to fit in, which depends on the machine.
        stranger_max: Duration::from_secs(5),
        ..AcceptBounds::default()
    };
    let gateway = Gateway::start(bounds).await;
    let mut strangers = Vec::new();
    for _ in 0..3 {
        let config = joining_config(gateway.authority.fingerprint()).unwrap();
        strangers.push(gateway.connect(config).await.unwrap());
    }
    // The oldest is dropped for a fourth.
    let config = joining_config(gateway.authority.fingerprint()).unwrap();
    strangers.push(gateway.connect(config.clone()).await.unwrap());
    let oldest = tokio::time::timeout(PATIENCE, strangers[0].read_u8()).await;
    assert!(oldest.expect("it is closed").is_err());
    assert_eq!(gateway.counts.count(ListenerRefusal::GaveWay), 1);
    for mut stream in strangers {
        let ended = tokio::time::timeout(PATIENCE, stream.read_u8()).await;
        assert!(ended.expect("a stranger's time runs out").is_err());
    }
    assert_eq!(gateway.ask(config).await.unwrap(), "no_certificate");
}

/// The output of `openssl s_client` after one request.
fn s_client(gateway: &Gateway, state: &std::path::Path, arguments: &[&str]) -> String {
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &gateway.address.to_string(), "-CAfile"])
        .arg(state.join("ca.pem"))
        .args(["-verify_return_error", "-verify_ip", "127.0.0.1", "-ign_eof"])
        .args(arguments)
        .current_dir(state)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let request = b"GET /who HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n";
    // The gateway may already have closed the connection.
    let _ = client.stdin.take().unwrap().write_all(request);
    let output = client.wait_with_output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn openssl_agrees_with_what_certificates_are_good_for() {
    let gateway = Gateway::start(AcceptBounds::default()).await;
    let state = tempfile::tempdir().unwrap();
    gateway.node("node-1", NODE_LIFETIME, now()).keep(state.path()).unwrap();
    let said = s_client(&gateway, state.path(), &["-cert", "node.pem", "-key", "node.key"]);
    assert!(said.contains("Verify return code: 0 (ok)") && said.contains("node-1 "), "{said}");
    let said = s_client(&gateway, state.path(), &[]);
    assert!(said.contains("no_certificate"), "{said}");
    let said = s_client(&gateway, state.path(), &["-tls1_2"]);
    assert!(said.contains("protocol version"), "{said}");
    let verified = |purpose: &str| {
        let output = Command::new("openssl")
            .args(["verify", "-CAfile", "ca.pem", "-purpose", purpose, "node.pem"])
            .current_dir(state.path())
            .output();
        output.unwrap().status.success()
    };
    assert!(verified("sslclient") && !verified("sslserver"));
}
