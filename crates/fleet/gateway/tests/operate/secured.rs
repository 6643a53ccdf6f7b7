//! Viewers and operators over TLS: operators' certificates, refusals, and renewed certificates. The client is curl.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fullbore_gateway::Transport;
use fullbore_tests::{Said, may_open, tool};
use identity::{NODE_LIFETIME, NodeKey, OperatorAuthority, RefusalReason, SigningRequest};
use serde_json::{Value, json};
use store::FolderStore;
use tls::Certificates;

use crate::fleet::{DESCRIPTORS, Running, eventually, folder, name};
use crate::pki::{Ca, Pair};

/// A gateway with TLS at both listeners, and the authorities of the gateway and its operators.
struct Secured {
    running: Running,
    web: Ca,
    operators: Ca,
}

/// curl's result of one request.
#[derive(Debug)]
struct Answer {
    /// 0 if there was no answer.
    status: u16,
    /// The HTTP version.
    version: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }
}

fn curl(ca: &Path, words: &[&str]) -> Answer {
    let mut command = tool::command("curl");
    command.args(["-sS", "--max-time", "60", "-w", "\n%{http_code} %{http_version}", "--cacert"]);
    let ran = tool::run(command.arg(ca).args(words));
    let text = ran.text();
    let (body, last) = text.rsplit_once('\n').unwrap_or_default();
    let (status, version) = last.split_once(' ').unwrap_or_default();
    Answer {
        status: status.parse().unwrap_or(0),
        version: version.to_owned(),
        body: body.to_owned(),
    }
}

impl Secured {
    async fn start(folder: &Path) -> Self {
        let state = folder.join("state");
        fullbore_gateway::prepare_state(&state).expect("a folder");
        let engine = FolderStore::open(&folder.join("store")).expect("a store");
        let (web, operators) = (Ca::make(folder, "web"), Ca::make(folder, "operators"));
        let shown = web.server("gateway");
        let running =
            Running::start_over("g1", folder, Arc::new(engine), NODE_LIFETIME, |gateway| {
                let load = || {
                    let pairs = vec![(shown.cert.clone(), shown.key.clone())];
                    Arc::new(Certificates::load(pairs).expect("certificates"))
                };
                let operators = OperatorAuthority::read(&operators.file, gateway.authority());
                let operators = Some(operators.expect("an authority"));
                [
                    Transport::Tls { certificates: load(), operators: None },
                    Transport::Tls { certificates: load(), operators },
                ]
            });
        Self { running: running.await, web, operators }
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.running.admin)
    }

    /// A request of an operator with a certificate.
    fn ask(&self, own: &Pair, path: &str, more: &[&str]) -> Answer {
        let (cert, key) = (own.cert.to_str().expect("text"), own.key.to_str().expect("text"));
        let url = self.url(path);
        let words = [&["--cert", cert, "--key", key, &url], more].concat();
        curl(&self.web.file, &words)
    }

    /// A POST by the admin, with a token.
    fn done(&self, path: &str, body: &Value) -> Value {
        let token = format!("Authorization: Bearer {}", self.running.token);
        let answer =
            curl(&self.web.file, &["-H", &token, "-d", &body.to_string(), &self.url(path)]);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Adds an operator without a token, and returns their certificate.
    fn add(&self, id: &str, role: &str) -> Pair {
        let body = json!({ "id": id, "role": role, "token": false });
        let answer = self.done("/api/v1/operators", &body);
        assert_eq!(answer["token"], Value::Null, "{answer}");
        self.operators.operator(id)
    }

    /// Checks that this certificate gets no connection, for this reason.
    async fn is_out(&self, own: &Pair, reason: RefusalReason) {
        let before = self.refused(reason);
        let answer = self.ask(own, "/api/v1/nodes", &[]);
        assert_eq!(answer.status, 0, "{reason:?}: {answer:?}");
        eventually(|| (self.refused(reason) == before + 1).then_some(())).await;
    }

    fn refused(&self, reason: RefusalReason) -> u64 {
        self.running.gateway.operators_refused().count(reason)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_by_certificate_may_what_their_role_says_until_they_are_revoked() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let folder = folder();
    let fleet = Secured::start(folder.path()).await;
    let (anna, otto) = (fleet.add("anna", "read"), fleet.add("otto", "operate"));
    let drain = ["-d", r#"{"reason":"new disks"}"#];
    let nodes = fleet.ask(&anna, "/api/v1/nodes", &[]);
    assert_eq!((nodes.status, nodes.version.as_str()), (200, "2"), "{nodes:?}");
    assert_eq!(fleet.ask(&anna, "/api/v1/nodes", &["--http1.1", "--tls-max", "1.2"]).status, 200);
    assert_eq!(fleet.ask(&anna, "/api/v1/nodes/n1/drain", &drain).status, 403);
    assert_eq!(fleet.ask(&anna, "/api/v1/operators", &[]).status, 403);
    // The node is not there, so the role was enough.
    assert_eq!(fleet.ask(&otto, "/api/v1/nodes/n1/drain", &drain).status, 404);
    assert_eq!(fleet.ask(&otto, "/api/v1/audit", &[]).status, 403);
    let admin = fleet.operators.operator("admin");
    assert_eq!(
        fleet
            .ask(&admin, "/api/v1/sites/paris", &["-X", "PUT", "-d", r#"{"region":"europe"}"#])
            .status,
        200
    );
    let lines = fleet.ask(&admin, "/api/v1/audit", &[]).json();
    assert_eq!(lines["lines"][0]["who"], "admin", "{lines}");
    // A token takes precedence over a certificate.
    let wrong = ["-H", "Authorization: Bearer wrong"];
    assert_eq!(fleet.ask(&admin, "/api/v1/nodes", &wrong).status, 401);
    let token = format!("Authorization: Bearer {}", fleet.running.token);
    assert_eq!(fleet.ask(&anna, "/api/v1/audit", &["-H", &token]).status, 200);
    // A revoked operator sees no more, even on an open stream.
    let (cert, key) = (anna.cert.to_str().expect("text"), anna.key.to_str().expect("text"));
    let mut command = tool::command("curl");
    command.args(["-sSN", "--cert", cert, "--key", key, &fleet.url("/api/v1/fleet"), "--cacert"]);
    let mut stream =
        command.arg(&fleet.web.file).stdout(std::process::Stdio::piped()).spawn().expect("curl");
    Said::listen(stream.stdout.take().expect("piped")).wait_for("event: fleet");
    assert_eq!(stream.try_wait().expect("a child"), None);
    fleet.done("/api/v1/operators/anna/revoke", &json!({ "reason": "left" }));
    let refused = fleet.ask(&anna, "/api/v1/nodes", &[]);
    assert!(refused.status == 401 && refused.body.contains("anna"), "{refused:?}");
    eventually(|| stream.try_wait().expect("a child")).await;
    fleet.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_are_nobodys_open_nothing() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let folder = folder();
    let fleet = Secured::start(folder.path()).await;
    let others = Ca::make(folder.path(), "others");
    fleet
        .is_out(&others.operator_with("of-others", "admin", |_| {}), RefusalReason::OtherAuthority)
        .await;
    let ended = fleet.operators.operator_with("ended", "admin", |own| {
        own.not_before = rcgen::date_time_ymd(2020, 1, 1);
        own.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    fleet.is_out(&ended, RefusalReason::Expired).await;
    let server = fleet.operators.operator_with("server", "admin", |own| {
        own.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    });
    fleet.is_out(&server, RefusalReason::NotAnOperator).await;
    let any = fleet.operators.operator_with("any", "admin", |own| own.extended_key_usages.clear());
    fleet.is_out(&any, RefusalReason::NotAnOperator).await;
    fleet.is_out(&node_called(&fleet, "admin", folder.path()), RefusalReason::OtherAuthority).await;
    // From the right authority, but of an unknown operator: the answer says so.
    let stranger = fleet.ask(&fleet.operators.operator("eve"), "/api/v1/nodes", &[]);
    assert!(stranger.status == 401 && stranger.body.contains("eve"), "{stranger:?}");
    let nobody = curl(&fleet.web.file, &[&fleet.url("/api/v1/nodes")]);
    assert!(nobody.status == 401 && nobody.body.contains("certificate"), "{nobody:?}");
    // A browser also sends the certificate with requests from other sites' pages.
    let admin = fleet.operators.operator("admin");
    for header in ["Sec-Fetch-Site: cross-site", "Origin: https://evil.example"] {
        let answer = fleet.ask(&admin, "/api/v1/nodes", &["-H", header]);
        assert!(answer.status == 403 && answer.body.contains("another site"), "{answer:?}");
    }
    let own = format!("Origin: https://{}", fleet.running.admin);
    assert_eq!(fleet.ask(&admin, "/api/v1/nodes", &["-H", &own]).status, 200);
    let metrics = fleet.ask(&admin, "/metrics", &[]).body;
    let counted =
        "fullbore_fleet_handshakes_refused_total{listener=\"admin\",reason=\"other_authority\"} 2";
    assert!(metrics.contains(counted), "{metrics}");
    fleet.running.stop().await;
}

/// A node's certificate, from the fleet's own authority, with an operator's name.
fn node_called(fleet: &Secured, operator: &str, folder: &Path) -> Pair {
    let key = NodeKey::draw();
    let request = SigningRequest::check(&key.request(&name(operator)), &name(operator));
    let now = fleet.running.gateway.now().unix_seconds();
    let authority = fleet.running.gateway.authority();
    let issued = authority.sign_node(&request.expect("fine"), Duration::from_secs(3600), now);
    let pair = Pair { cert: folder.join("node.cert.pem"), key: folder.join("node.key.pem") };
    std::fs::write(&pair.cert, issued.expect("signed").pem).expect("written");
    std::fs::write(&pair.key, key.to_pem().as_bytes()).expect("written");
    pair
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_and_silence_at_a_tls_port_end_clearly_and_hold_up_nobody() {
    if !tool::are_here(&[("curl", "curl")]) || !may_open(DESCRIPTORS) {
        return;
    }
    let folder = folder();
    let fleet = Secured::start(folder.path()).await;
    let doors = [fleet.running.public, fleet.running.admin];
    let connect = |_| doors.map(|door| TcpStream::connect(door).expect("connected"));
    let silent: Vec<_> = (0..100).flat_map(connect).collect();
    for door in doors {
        let answer = curl(&fleet.web.file, &[&format!("https://{door}/healthz")]);
        assert!(matches!(answer.status, 200 | 503), "{answer:?}");
        let mut plain = TcpStream::connect(door).expect("connected");
        plain.write_all(b"GET / HTTP/1.1\r\nHost: gw\r\n\r\n").expect("sent");
        let mut said = String::new();
        plain.read_to_string(&mut said).expect("a clear end");
        assert!(said.starts_with("HTTP/1.1 400") && said.contains("use https://"), "{said}");
    }
    // It is counted after the answer has been sent.
    let viewers = fleet.running.gateway.viewers_refused();
    let counted =
        || [fleet.refused(RefusalReason::PlainHttp), viewers.count(RefusalReason::PlainHttp)];
    eventually(|| (counted() == [1, 1]).then_some(())).await;
    drop(silent);
    fleet.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_replaced_is_shown() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let folder = folder();
    let fleet = Secured::start(folder.path()).await;
    let works = |ca: &Path| {
        let urls = [fleet.running.public, fleet.running.admin];
        urls.iter().all(|door| curl(ca, &[&format!("https://{door}/-/none")]).status == 404)
    };
    let new = Ca::make(folder.path(), "new");
    assert!(works(&fleet.web.file) && !works(&new.file));
    new.server("gateway");
    eventually(|| works(&new.file).then_some(())).await;
    assert!(!works(&fleet.web.file));
    fleet.running.stop().await;
}
