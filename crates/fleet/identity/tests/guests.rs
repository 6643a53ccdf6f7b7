//! Guests of a gateway over real sockets: causes for ending a handshake, and isolation from others.

use std::future::pending;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use fullbore_identity::{
    AcceptBounds, Guest, GuestListener, RefusalLog, RefusalReason, guest_bounds, guest_config,
};
use listener::{Descriptors, ListenerRefusal, Places, RefusedCounts, serve};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio::net::TcpListener;

struct Door {
    address: SocketAddr,
    refusals: Arc<RefusalLog>,
    counts: Arc<RefusedCounts>,
    certificate: CertificateDer<'static>,
}

impl Door {
    async fn open(bounds: AcceptBounds) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap().der().clone();
        let der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let certified = CertifiedKey::from_der(vec![certificate.clone()], der, &provider).unwrap();
        let config = guest_config(Arc::new(SingleCertAndKey::from(certified)), None).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let refusals = Arc::new(RefusalLog::new(|_| {}));
        let counts = Arc::new(RefusedCounts::default());
        let share = Descriptors::of_process().share(0);
        let places = Places::new(bounds.places(), share, Arc::clone(&counts));
        let of_requests = bounds.requests();
        let log = Arc::clone(&refusals);
        let guests = GuestListener::start(listener, config, log, places, bounds).unwrap();
        let who = get(|ConnectInfo(guest): ConnectInfo<Guest>| async move {
            format!("{} {}", guest.address.ip(), guest.operator.is_some())
        });
        let app = Router::new().route("/who", who);
        tokio::spawn(serve(guests, app, of_requests, Arc::clone(&counts), pending()));
        Self { address, refusals, counts, certificate }
    }

    /// The answer to a viewer's request.
    fn ask(&self) -> String {
        use std::io::Write;
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut stream = StreamOwned::new(client, socket);
        stream.write_all(b"GET /who HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        // The gateway may close the connection without close_notify.
        let _ = stream.read_to_string(&mut text);
        text
    }

    fn silent(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_nothing_is_closed_and_holds_up_nobody() {
    // The viewer's own handshake has to fit in, which depends on the machine.
    let bounds = AcceptBounds { handshake_max: Duration::from_secs(5), ..guest_bounds() };
    let door = Door::open(bounds).await;
    let mut silent: Vec<_> = (0..100).map(|_| door.silent()).collect();
    assert!(door.ask().ends_with("127.0.0.1 false"), "{}", door.ask());
    for socket in &mut silent {
        assert_eq!(socket.read(&mut [0; 16]).unwrap(), 0);
    }
    // Each is counted just after it is closed.
    let counted = || door.refusals.count(RefusalReason::HandshakeSlow);
    for _ in 0..3000 {
        if counted() == 100 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(counted(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_take_all_connections() {
    let bounds = AcceptBounds {
        strangers_per_source_max: 3,
        handshake_min: Duration::ZERO,
        ..guest_bounds()
    };
    let door = Door::open(bounds).await;
    let mut silent: Vec<_> = (0..3).map(|_| door.silent()).collect();
    // The oldest silent connection is dropped for each new one, so the others are still there.
    assert!(door.ask().ends_with("127.0.0.1 false"));
    assert_eq!(silent[0].read(&mut [0; 16]).unwrap_or(0), 0);
    for socket in &mut silent[1..] {
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert!(socket.read(&mut [0; 16]).is_err(), "it is open");
    }
    assert_eq!(door.counts.count(ListenerRefusal::GaveWay), 1);
    assert_eq!(door.counts.count(ListenerRefusal::NoPlace), 0);
}
