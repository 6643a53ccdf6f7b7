//! The store in etcd: three real members on loopback, some of which die.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullbore_control::store::{Engine, EtcdStore, StoreError};
use fullbore_tests::tool;
use tempfile::{TempDir, tempdir};

use crate::conformance::{self, put, value};
use crate::forgetting;

/// Members of one etcd, ended when this goes.
pub(crate) struct Cluster {
    folder: TempDir,
    /// Whether clients come over TLS, by a certificate in the folder.
    tls: bool,
    ports: Vec<(u16, u16)>,
    members: Vec<Option<Child>>,
}

/// Ports that nobody uses now.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("its address").port()).collect()
}

impl Cluster {
    /// Starts it, and waits until it has a leader; `None`, loudly, if there is no etcd here.
    pub(crate) async fn start(count: usize) -> Option<Self> {
        Self::start_with(count, false).await
    }

    async fn start_with(count: usize, tls: bool) -> Option<Self> {
        if !tool::are_here(&[("etcd", "etcd-server")]) {
            return None;
        }
        let ports = free_ports(2 * count);
        let ports = ports.chunks(2).map(|two| (two[0], two[1])).collect();
        let folder = tempdir().expect("a folder");
        let members = (0..count).map(|_| None).collect();
        let mut own = Self { folder, tls, ports, members };
        if tls {
            let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
            let made = made.expect("a certificate");
            std::fs::write(own.file("cert.pem"), made.cert.pem()).expect("written");
            std::fs::write(own.file("key.pem"), made.signing_key.serialize_pem()).expect("written");
        }
        for member in 0..count {
            own.start_member(member);
        }
        let store = own.store();
        let ends = Instant::now() + Duration::from_secs(60);
        while store.revision().await.is_err() {
            assert!(Instant::now() < ends, "etcd does not come up");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Some(own)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start_member(&mut self, member: usize) {
        let all = self.ports.iter().enumerate();
        let all: Vec<_> =
            all.map(|(at, (_, peer))| format!("m{at}=http://127.0.0.1:{peer}")).collect();
        let (client, peer) = self.ports[member];
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.file(&format!("m{member}.log")))
            .expect("a log");
        let mut etcd = Command::new("etcd");
        etcd.arg("--name").arg(format!("m{member}"));
        etcd.arg("--data-dir").arg(self.file(&format!("m{member}")));
        for (flag, port) in [("client", client), ("peer", peer)] {
            let scheme = if self.tls && flag == "client" { "https" } else { "http" };
            let url = format!("{scheme}://127.0.0.1:{port}");
            etcd.arg(format!("--listen-{flag}-urls={url}"));
            let advertise =
                if flag == "client" { "advertise-client" } else { "initial-advertise-peer" };
            etcd.arg(format!("--{advertise}-urls={url}"));
        }
        if self.tls {
            etcd.arg("--cert-file").arg(self.file("cert.pem"));
            etcd.arg("--key-file").arg(self.file("key.pem"));
        }
        etcd.arg(format!("--initial-cluster={}", all.join(",")));
        let etcd = etcd.stdout(Stdio::null()).stderr(log).spawn().expect("etcd");
        self.members[member] = Some(etcd);
    }

    fn kill(&mut self, member: usize) {
        if let Some(mut etcd) = self.members[member].take() {
            etcd.kill().expect("killed");
            etcd.wait().expect("ended");
        }
    }

    pub(crate) fn address(&self) -> String {
        let hosts: Vec<_> =
            self.ports.iter().map(|(client, _)| format!("127.0.0.1:{client}")).collect();
        let ca = format!("?ca={}", self.file("cert.pem").display());
        format!("etcd://{}/test/fleet{}", hosts.join(","), if self.tls { &ca } else { "" })
    }

    pub(crate) fn store(&self) -> Arc<dyn Engine> {
        Arc::new(EtcdStore::open(&self.address()).expect("an address"))
    }

    /// One request of etcd's own, by curl, to a member without TLS.
    fn curl(port: u16, path: &str, body: &str) -> serde_json::Value {
        let mut curl = Command::new("curl");
        let address = format!("http://127.0.0.1:{port}/v3/{path}");
        let answer = curl.args(["-s", "-m", "5", "-d", body, &address]).output().expect("curl");
        serde_json::from_slice(&answer.stdout).expect("JSON")
    }

    /// The member that leads, as each says of itself.
    fn leader(&self) -> usize {
        let leads = |answer: &serde_json::Value| answer["leader"] == answer["header"]["member_id"];
        self.ports
            .iter()
            .position(|(client, _)| leads(&Self::curl(*client, "maintenance/status", "{}")))
            .expect("a leader")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in 0..self.members.len() {
            self.kill(member);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_does_what_every_engine_promises() {
    let Some(etcd) = Cluster::start(1).await else { return };
    conformance::all((etcd.store(), etcd.store())).await;
    conformance::behaves_like_a_map(&etcd.store(), 100).await;
    // Others in the same etcd are neither seen nor counted.
    let address = etcd.address().replace("/test/fleet", "/test/fleet2");
    let other: Arc<dyn Engine> = Arc::new(EtcdStore::open(&address).expect("an address"));
    forgetting::all(&other).await;
    let before = etcd.store().revision().await;
    other.commit(&[], &[put("node/a", "other")]).await.expect("made");
    assert_eq!(value(&etcd.store(), "node/a").await, None);
    assert_eq!(etcd.store().revision().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_many_pages_is_whole() {
    let Some(etcd) = Cluster::start(1).await else { return };
    let store = etcd.store();
    for hundred in 0..25 {
        let writes: Vec<_> =
            (0..100).map(|at| put(&format!("title/{:04}", hundred * 100 + at), "x")).collect();
        store.commit(&[], &writes).await.expect("made");
    }
    let list = store.list("title/").await.expect("it answers");
    let keys: BTreeSet<_> = list.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!((list.len(), keys.len()), (2500, 2500));
}

/// Commits until one is made.
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
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let Some(mut etcd) = Cluster::start(3).await else { return };
    let store = etcd.store();
    store.commit(&[], &[put("node/a", "1")]).await.expect("made");

    let leader = etcd.leader();
    etcd.kill(leader);
    assert_eq!(value(&store, "node/a").await.as_deref(), Some("1"), "reads go on");
    change_again(&store, "node/b").await;

    let second = (leader + 1) % 3;
    etcd.kill(second);
    let error = store.commit(&[], &[put("node/a", "lost")]).await.expect_err("no quorum");
    assert!(
        matches!(&error, StoreError::Unavailable(text) if text.contains("no quorum") && !text.contains('\n')),
        "{error}"
    );
    assert!(store.revision().await.is_err(), "the poll tells it");
    assert!(store.lease("leader", "one", 5).await.is_err());
    // Also a gateway that starts now reads what there is.
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
    let port = free_ports(1)[0];
    let store = EtcdStore::open(&format!("etcd://127.0.0.1:{port}")).expect("an address");
    let error = store.get("fleet").await.expect_err("nobody there").to_string();
    assert!(error.contains(&port.to_string()) && error.contains("refused"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_only_the_named_authority_is_believed() {
    let Some(etcd) = Cluster::start_with(1, true).await else { return };
    let store = etcd.store();
    store.commit(&[], &[put("node/a", "1")]).await.expect("made");
    assert_eq!(value(&store, "node/a").await.as_deref(), Some("1"));
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("one");
    std::fs::write(etcd.file("other.pem"), other.cert.pem()).expect("written");
    let stranger = EtcdStore::open(&etcd.address().replace("cert.pem", "other.pem"));
    let error = stranger.expect("an address").get("node/a").await.expect_err("another authority");
    assert!(error.to_string().contains("certificate"), "{error}");
    let none = EtcdStore::open(&etcd.address().replace("cert.pem", "none.pem")).map(|_| ());
    assert!(matches!(none, Err(StoreError::NotUsable(text)) if text.contains("none.pem")));
}

#[tokio::test(flavor = "multi_thread")]
async fn etcds_own_users_log_in_again_when_their_token_ends() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let Some(mut etcd) = Cluster::start(1).await else { return };
    let port = etcd.ports[0].0;
    for (path, body) in [
        ("auth/user/add", r#"{"name":"root","password":"secret"}"#),
        ("auth/role/add", r#"{"name":"root"}"#),
        ("auth/user/grant", r#"{"user":"root","role":"root"}"#),
        ("auth/enable", "{}"),
    ] {
        let answer = Cluster::curl(port, path, body);
        assert!(answer.get("error").is_none(), "{path}: {answer}");
    }
    let file = etcd.file("password");
    std::fs::write(&file, "secret\n").expect("written");
    let address = format!("etcd://root@127.0.0.1:{port}?password-file={}", file.display());
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
