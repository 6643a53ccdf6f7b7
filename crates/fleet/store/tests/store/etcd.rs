//! The store in etcd: three real members on loopback, some of which die.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullbore_store::{Engine, EtcdStore, StoreError};
use fullbore_tests::Etcd;
use tokio::net::TcpSocket;

use crate::conformance::{self, put, value};
use crate::forgetting;
use crate::patient::Patient;

/// Members of one etcd, stopped on drop.
pub(crate) struct Cluster(Etcd);

impl Deref for Cluster {
    type Target = Etcd;

    fn deref(&self) -> &Etcd {
        &self.0
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Etcd {
        &mut self.0
    }
}

impl Cluster {
    /// Starts it, and waits until it has a leader; `None`, with a message, if etcd is not installed.
    pub(crate) fn start(count: usize) -> Option<Self> {
        Etcd::start(count, None).map(Self)
    }

    /// Like [`Self::start`], with one member, whose clients use TLS.
    fn start_with_tls() -> Option<Self> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
        let made = made.expect("a certificate");
        let key = made.signing_key.serialize_pem();
        Etcd::start(1, Some([&made.cert.pem(), &key])).map(Self)
    }

    pub(crate) fn address(&self) -> String {
        let certificate = self.certificate();
        let ca = match certificate.exists() {
            true => format!("?ca={}", certificate.display()),
            false => String::new(),
        };
        format!("etcd://{}/test/fleet{ca}", self.hosts().join(","))
    }

    pub(crate) fn store(&self) -> Arc<dyn Engine> {
        Arc::new(EtcdStore::open(&self.address()).expect("an address"))
    }

    /// For tests in which no member dies.
    pub(crate) fn patient_store(&self) -> Arc<dyn Engine> {
        Arc::new(Patient(EtcdStore::open(&self.address()).expect("an address")))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_does_what_every_engine_promises() {
    let Some(etcd) = Cluster::start(1) else { return };
    conformance::all((etcd.patient_store(), etcd.patient_store())).await;
    conformance::behaves_like_a_map(&etcd.patient_store(), 100).await;
    // Other fleets in the same etcd are neither seen nor counted.
    let address = etcd.address().replace("/test/fleet", "/test/fleet2");
    let other: Arc<dyn Engine> = Arc::new(Patient(EtcdStore::open(&address).expect("an address")));
    forgetting::all(&other).await;
    let before = etcd.patient_store().revision().await;
    other.commit(&[], &[put("node/a", "other")]).await.expect("made");
    assert_eq!(value(&etcd.patient_store(), "node/a").await, None);
    assert_eq!(etcd.patient_store().revision().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_many_pages_is_whole() {
    let Some(etcd) = Cluster::start(1) else { return };
    let store = etcd.patient_store();
    for hundred in 0..25 {
        let writes: Vec<_> =
            (0..100).map(|at| put(&format!("title/{:04}", hundred * 100 + at), "x")).collect();
        store.commit(&[], &writes).await.expect("made");
    }
    let list = store.list("title/").await.expect("it answers");
    let keys: BTreeSet<_> = list.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!((list.len(), keys.len()), (2500, 2500));
}

/// Waits until this member has applied a change. Without a quorum, it never learns that a change in its log was committed.
async fn has(etcd: &Cluster, member: usize, key: &str) {
    let address = format!("etcd://{}/test/fleet", etcd.hosts()[member]);
    let only = EtcdStore::open(&address).expect("an address");
    let ends = Instant::now() + Duration::from_secs(60);
    while !matches!(only.get(key).await, Ok(Some(_))) {
        assert!(Instant::now() < ends, "member {member} lacks {key}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Commits repeatedly until one commit succeeds.
async fn change_again(store: &Arc<dyn Engine>, key: &str) {
    let ends = Instant::now() + Duration::from_secs(60);
    loop {
        match store.commit(&[], &[put(key, "made")]).await {
            Ok(_) => return,
            Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error}"),
        }
        assert!(Instant::now() < ends, "no change is possible any more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcds_leader_dies_then_its_quorum_and_all_comes_back() {
    let Some(mut etcd) = Cluster::start(3) else { return };
    let store = etcd.store();
    store.commit(&[], &[put("node/a", "1")]).await.expect("made");

    let leader = etcd.leader();
    etcd.kill(leader);
    assert_eq!(value(&store, "node/a").await.as_deref(), Some("1"), "reads go on");
    change_again(&store, "node/b").await;

    let second = (leader + 1) % 3;
    has(&etcd, (leader + 2) % 3, "node/b").await;
    etcd.kill(second);
    let error = store.commit(&[], &[put("node/a", "lost")]).await.expect_err("no quorum");
    assert!(
        matches!(&error, StoreError::Unavailable(text) if text.contains("no quorum") && !text.contains('\n')),
        "{error}"
    );
    assert!(store.revision().await.is_err(), "the poll tells it");
    assert!(store.lease("leader", "one", 5).await.is_err());
    // A gateway that starts now can still read.
    for reader in [&store, &etcd.store()] {
        assert_eq!(value(reader, "node/a").await.as_deref(), Some("1"));
        let keys = reader.list("node/").await.expect("reads go on").len();
        assert_eq!(keys, 2);
    }
    let started = Instant::now();
    for _ in 0..20 {
        value(&store, "node/a").await;
    }
    assert!(started.elapsed() < Duration::from_secs(40), "reads do not wait for a quorum each");

    etcd.start_member(leader);
    change_again(&store, "node/c").await;
    assert_eq!(value(&store, "node/a").await.as_deref(), Some("1"), "what was refused is not made");
    etcd.start_member(second);
    assert_eq!(store.list("node/").await.expect("all back").len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_etcd_is_told_so() {
    // It refuses connections, and keeps its port from others.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let port = socket.local_addr().expect("its address").port();
    let store = EtcdStore::open(&format!("etcd://127.0.0.1:{port}")).expect("an address");
    let error = store.get("fleet").await.expect_err("nobody there").to_string();
    assert!(error.contains(&port.to_string()) && error.contains("refused"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_only_the_named_authority_is_believed() {
    let Some(etcd) = Cluster::start_with_tls() else { return };
    let store = etcd.store();
    store.commit(&[], &[put("node/a", "1")]).await.expect("made");
    assert_eq!(value(&store, "node/a").await.as_deref(), Some("1"));
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("one");
    std::fs::write(etcd.folder().join("other.pem"), other.cert.pem()).expect("written");
    let stranger = EtcdStore::open(&etcd.address().replace("cert.pem", "other.pem"));
    let error = stranger.expect("an address").get("node/a").await.expect_err("another authority");
    assert!(error.to_string().contains("certificate"), "{error}");
    let none = EtcdStore::open(&etcd.address().replace("cert.pem", "none.pem")).map(|_| ());
    assert!(matches!(none, Err(StoreError::NotUsable(text)) if text.contains("none.pem")));
}

/// Makes etcd require a login, and adds the user `root` with the password `secret`. Returns the store's address, and the file with the password.
fn require_password(etcd: &Etcd) -> (String, PathBuf) {
    for (path, body) in [
        ("auth/user/add", r#"{"name":"root","password":"secret"}"#),
        ("auth/role/add", r#"{"name":"root"}"#),
        ("auth/user/grant", r#"{"user":"root","role":"root"}"#),
        ("auth/enable", "{}"),
    ] {
        let answer = etcd.ask(0, path, body);
        assert!(answer.get("error").is_none(), "{path}: {answer}");
    }
    let file = etcd.folder().join("password");
    std::fs::write(&file, "secret\n").expect("written");
    let address = format!("etcd://root@{}?password-file={}", etcd.hosts()[0], file.display());
    (address, file)
}

#[tokio::test(flavor = "multi_thread")]
async fn etcds_own_users_log_in_again_when_their_token_ends() {
    let Some(mut etcd) = Cluster::start(1) else { return };
    let (address, file) = require_password(&etcd);
    let open = || -> Arc<dyn Engine> { Arc::new(EtcdStore::open(&address).expect("an address")) };
    let store = open();
    store.commit(&[], &[put("node/a", "1")]).await.expect("made");
    // etcd keeps the tokens of logins in memory.
    etcd.kill(0);
    etcd.start_member(0);
    change_again(&store, "node/b").await;
    assert_eq!(value(&store, "node/a").await.as_deref(), Some("1"));

    let nobody = etcd.store().commit(&[], &[put("node/a", "lost")]).await.expect_err("no user");
    assert!(nobody.to_string().contains("etcd refuses"), "{nobody}");
    std::fs::write(&file, "wrong").expect("written");
    let error = open().get("node/a").await.expect_err("a wrong password").to_string();
    assert!(error.contains("authentication failed") && !error.contains("wrong"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_etcds_users_does_not_cut_off_who_has_a_json_web_token() {
    let keys = tempfile::tempdir().expect("a folder");
    let key = keys.path().join("key");
    std::fs::write(&key, [7; 32]).expect("written");
    let tokens = format!("--auth-token=jwt,sign-method=HS256,priv-key={},ttl=10m", key.display());
    let Some(etcd) = Etcd::start_with(vec![tokens]) else { return };
    let (address, _) = require_password(&etcd);
    let store: Arc<dyn Engine> = Arc::new(EtcdStore::open(&address).expect("an address"));
    store.commit(&[], &[put("node/a", "1")]).await.expect("made");

    // Like `etcdctl user add` while the gateway runs.
    let login = etcd.ask(0, "auth/authenticate", r#"{"name":"root","password":"secret"}"#);
    let token = login["token"].as_str().expect("a token");
    let body = r#"{"name":"other","password":"x"}"#;
    let added = etcd.ask_as(token, 0, "auth/user/add", body);
    assert!(added.get("error").is_none(), "{added}");
    let refused = etcd.ask_as(token, 0, "kv/range", r#"{"key":"YQ=="}"#);
    let why = refused["error"].as_str().unwrap_or_default();
    assert!(why.contains("revision of auth store is old"), "what it is about: {refused}");
    assert_eq!(value(&store, "node/a").await.as_deref(), Some("1"));
    store.commit(&[], &[put("node/b", "2")]).await.expect("made");
    assert!(store.lease("leader", "one", 5).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_poll_says_that_etcd_is_full() {
    let Some(etcd) = Cluster::start(1) else { return };
    let store = etcd.store();
    store.commit(&[], &[put("node/a", "1")]).await.expect("made");
    let status = etcd.ask(0, "maintenance/status", "{}");
    let member = status["header"]["member_id"].as_str().expect("its number");
    let alarm = |action: &str| {
        let body = format!(r#"{{"action":"{action}","memberID":"{member}","alarm":"NOSPACE"}}"#);
        etcd.ask(0, "maintenance/alarm", &body)
    };
    alarm("ACTIVATE");
    // Alarms are polled every few seconds.
    let ends = Instant::now() + Duration::from_secs(60);
    let polled = async |is_well: bool| loop {
        let polled = store.revision().await;
        if polled.is_ok() == is_well {
            return polled;
        }
        assert!(Instant::now() < ends, "it is never told: {polled:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let error = polled(false).await.expect_err("it is full").to_string();
    assert!(error.contains("full") && error.contains("alarm disarm"), "{error}");
    let refused = store.commit(&[], &[put("node/a", "2")]).await.expect_err("it is full");
    assert_eq!(refused.to_string(), error);
    assert_eq!(value(&store, "node/a").await.as_deref(), Some("1"), "reads go on");
    alarm("DEACTIVATE");
    polled(true).await.expect("it takes changes again");
    store.commit(&[], &[put("node/a", "3")]).await.expect("made");
}
