//! Joining: who is admitted, and who is refused.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fleet_protocol::{JoinAnswer, NodeKind, RenewAnswer, RenewRequest, ViewerRequest};
use fullbore_tests::PATIENCE;
use identity::{
    Credentials, InvitationToken, NODE_LIFETIME, NodeKey, RefusalReason, ViewerKey, client_config,
};
use reqwest::Response;
use store::Engine;
use store::records::{
    AuditRecord, InviteRecord, NodeRecord, Revoked, RevokedNameRecord, StoreRecord, load, load_all,
};

use crate::gateway::{
    Gateway, admitted_max, asking, client, eventually, is, name, now, refused, refused_at_last,
};

#[tokio::test]
async fn an_invited_box_gets_a_certificate_and_all_that_a_node_knows() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let token = gateway.invite(None, 60, 0).await;
    let key = NodeKey::draw();
    let answer: JoinAnswer =
        gateway.try_to_join(&asking(&token, "node-1", &key)).await.json().await.unwrap();
    assert_eq!((answer.node, answer.kind), (name("node-1"), NodeKind::Flash));
    assert_eq!(answer.place.cluster, name("west-1"));
    assert_eq!(answer.keys.gateways, gateway.here());
    assert_eq!(answer.keys.snapshots, [gateway.key]);
    let own = Credentials::new(key, answer.certificate, answer.authority).unwrap();
    assert_eq!(own.fingerprint(), token.fingerprint());
    let record = gateway.record("node-1").await.unwrap();
    assert_eq!(record.serials, [own.certificate().serial.as_str()]);
    assert_eq!(record.host, "node-1.example");
    assert_eq!(record.ceiling_bits_per_second, 0, "a box does not speak for its operator");
    let (log, _) = load_all::<AuditRecord>(&*gateway.engine).await.unwrap();
    assert_eq!(log[0].record.what, "join");
}

#[tokio::test]
async fn what_a_box_may_carry_is_for_its_invitation_to_say() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let token = gateway.invite(None, 60, 0).await;
    let stored = load::<InviteRecord>(&*gateway.engine, token.id()).await.unwrap().unwrap();
    let record = InviteRecord { ceiling_bits_per_second: 2_000_000_000, ..stored.record };
    gateway.engine.commit(&[], &[record.put(token.id()).unwrap()]).await.unwrap();
    let joined = gateway.try_to_join(&asking(&token, "node-1", &NodeKey::draw())).await;
    assert_eq!(joined.status(), 200);
    let record = gateway.record("node-1").await.unwrap();
    assert_eq!(record.ceiling_bits_per_second, 2_000_000_000, "it asked for five times as much");
}

#[tokio::test]
async fn a_token_works_once_and_a_lost_answer_is_given_again() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let token = gateway.invite(None, 60, 0).await;
    let key = NodeKey::draw();
    let first = asking(&token, "node-1", &key);
    assert_eq!(gateway.try_to_join(&first).await.status(), 200);
    // The same machine again, after the answer got lost.
    assert_eq!(gateway.try_to_join(&first).await.status(), 200);
    assert_eq!(gateway.record("node-1").await.unwrap().serials.len(), 2);
    // Another machine, with another name and with the same one.
    for node in ["node-2", "node-1"] {
        let replayed = gateway.try_to_join(&asking(&token, node, &NodeKey::draw())).await;
        assert_eq!(refused(replayed).await, is(403, RefusalReason::TokenUsed));
    }
    assert_eq!(gateway.count(RefusalReason::TokenUsed), 2);
    gateway.revoke("node-1").await;
    assert_eq!(refused(gateway.try_to_join(&first).await).await, is(403, RefusalReason::Revoked));
}

#[tokio::test]
async fn one_token_lets_one_of_many_in() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let token = gateway.invite(None, 60, 0).await;
    let mut boxes = tokio::task::JoinSet::new();
    for at in 0..8 {
        let (gateway, token) = (gateway.clone(), token.clone());
        boxes.spawn(async move {
            let request = asking(&token, &format!("node-{at}"), &NodeKey::draw());
            gateway.try_to_join(&request).await.status().as_u16()
        });
    }
    let mut statuses = boxes.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 403, 403, 403, 403, 403, 403, 403]);
}

#[tokio::test]
async fn forged_and_expired_tokens_are_refused() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (token, other) = (gateway.invite(None, 60, 0).await, gateway.invite(None, 60, 0).await);
    let ask = async |token: &str| {
        let mut request = asking(&other, "node-1", &NodeKey::draw());
        request.token = token.to_owned();
        refused(gateway.try_to_join(&request).await).await
    };
    let (token, other) = (token.to_string(), other.to_string());
    // The ID of one invitation with the secret of another.
    let mixed = format!("{}{}", &token[..17], &other[17..]);
    let unknown = InvitationToken::draw(gateway.authority.fingerprint()).to_string();
    let foreign = InvitationToken::draw(fleet_protocol::Digest::of(b"another fleet")).to_string();
    for forged in [mixed.as_str(), &unknown, &foreign, &token[1..], "", "../../secret/ca"] {
        assert_eq!(ask(forged).await, is(403, RefusalReason::TokenUnknown), "{forged}");
    }
    let expired = gateway.invite(None, 60, 60).await.to_string();
    assert_eq!(ask(&expired).await, is(403, RefusalReason::TokenExpired));
    assert_eq!(gateway.count(RefusalReason::TokenUnknown), 6);
    assert!(gateway.record("node-1").await.is_none());
}

#[tokio::test]
async fn a_fresh_node_is_known_to_every_gateway_at_once() {
    let [gateway, second] = Gateway::start_some(NODE_LIFETIME).await;
    for number in 1..=5 {
        let node = format!("node-{number}");
        let (token, key) = (gateway.invite(None, 60, 0).await, NodeKey::draw());
        let joined = gateway.try_to_join(&asking(&token, &node, &key)).await;
        let answer: JoinAnswer = joined.json().await.unwrap();
        let own = Credentials::new(key, answer.certificate, answer.authority).unwrap();
        for gateway in [&second, &gateway] {
            let client = client(client_config(&own).unwrap());
            let url = format!("{}/machine/v1/keys", gateway.url);
            assert_eq!(client.get(url).send().await.unwrap().status(), 200);
            assert_eq!(gateway.count(RefusalReason::UnknownNode), 0);
        }
    }
}

#[tokio::test]
async fn a_name_is_given_once() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    gateway.node("node-1").await;
    let token = gateway.invite(None, 60, 0).await;
    let ask = async |token: &InvitationToken, node: &str| {
        refused(gateway.try_to_join(&asking(token, node, &NodeKey::draw())).await).await
    };
    assert_eq!(ask(&token, "node-1").await, is(409, RefusalReason::NameTaken));
    gateway.revoke("node-1").await;
    assert_eq!(ask(&token, "node-1").await, is(409, RefusalReason::NameTaken));
    let named = gateway.invite(Some("node-2"), 60, 0).await;
    assert_eq!(ask(&named, "node-3").await, is(403, RefusalReason::TokenForOther));
    // The refusal has not used up the invitation.
    let response = gateway.try_to_join(&asking(&named, "node-2", &NodeKey::draw())).await;
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn a_signing_request_for_another_name_is_refused() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let token = gateway.invite(None, 60, 0).await;
    let mut request = asking(&token, "node-1", &NodeKey::draw());
    request.request = NodeKey::draw().request(&name("node-2"));
    let expected = is(400, RefusalReason::BadSigningRequest);
    assert_eq!(refused(gateway.try_to_join(&request).await).await, expected);
    request.request = "no request".to_owned();
    assert_eq!(refused(gateway.try_to_join(&request).await).await, expected);
    request.host = "host with spaces".to_owned();
    let expected = is(400, RefusalReason::OutOfBounds);
    assert_eq!(refused(gateway.try_to_join(&request).await).await, expected);
}

#[tokio::test]
async fn a_node_renews_for_itself_and_no_other() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (own, client) = gateway.node("node-1").await;
    let url = format!("{}/machine/v1/renew", gateway.url);
    let renew = async |request: String| {
        client.post(&url).json(&RenewRequest { version: 1, request }).send().await.unwrap()
    };
    let answer: RenewAnswer = renew(own.request()).await.json().await.unwrap();
    let renewed = own.renewed(answer.certificate).unwrap();
    assert_ne!(renewed.certificate().serial, own.certificate().serial);
    assert_eq!(gateway.record("node-1").await.unwrap().serials.len(), 2);
    let other = NodeKey::draw().request(&name("node-2"));
    assert_eq!(refused(renew(other).await).await, is(400, RefusalReason::BadSigningRequest));
    let stranger = gateway.stranger().post(&url).body("{}").send().await.unwrap();
    assert_eq!(refused(stranger).await, is(401, RefusalReason::NoCertificate));
}

#[tokio::test]
async fn a_store_remembers_a_bounded_number_of_certificates() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (own, client) = gateway.node("node-1").await;
    let url = format!("{}/machine/v1/renew", gateway.url);
    for _ in 0..20 {
        let request = RenewRequest { version: 1, request: own.request() };
        assert_eq!(client.post(&url).json(&request).send().await.unwrap().status(), 200);
    }
    assert_eq!(gateway.record("node-1").await.unwrap().serials.len(), 16);
}

#[tokio::test]
async fn a_node_cannot_have_its_certificate_renewed_without_end() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (own, client) = gateway.node("node-1").await;
    let url = format!("{}/machine/v1/renew", gateway.url);
    let request = RenewRequest { version: 1, request: own.request() };
    let renew = async || client.post(&url).json(&request).send().await.unwrap();
    for _ in 0..20 {
        assert_eq!(renew().await.status(), 200);
    }
    assert_eq!(refused(renew().await).await, is(429, RefusalReason::Flood));
    let (log, _) = load_all::<AuditRecord>(&*gateway.engine).await.unwrap();
    assert_eq!(log.len(), 21, "to join, and to renew");
    // Its present certificate still works.
    let url = format!("{}/machine/v1/keys", gateway.url);
    assert_eq!(client.get(url).send().await.unwrap().status(), 200);
}

/// The answer to a machine that asks to join with this host.
async fn join_with_host(gateway: &Gateway, node: &str, host: &str) -> Response {
    let token = gateway.invite(None, 60, 0).await;
    let mut request = asking(&token, node, &NodeKey::draw());
    request.host = host.to_owned();
    gateway.try_to_join(&request).await
}

#[tokio::test]
async fn no_box_joins_as_the_host_of_another_node_or_of_a_gateway() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    gateway.node("node-1").await;
    for host in ["node-1.example", "NODE-1.Example", "gateway.example", "tv.example"] {
        let answer = join_with_host(&gateway, "node-2", host).await;
        assert_eq!(refused(answer).await, is(409, RefusalReason::HostTaken), "{host}");
    }
    for host in ["1.2.3.4.5", "node-1.example.", "a..b", "0.0.0.0", "a:443"] {
        let answer = join_with_host(&gateway, "node-2", host).await;
        assert_eq!(refused(answer).await, is(400, RefusalReason::OutOfBounds), "{host}");
    }
    assert!(gateway.record("node-2").await.is_none());
    // Several nodes on one machine, in a test fleet.
    for node in ["node-3", "node-4"] {
        assert_eq!(join_with_host(&gateway, node, "127.0.0.1").await.status(), 200);
    }
    // A machine that replaces a revoked one.
    gateway.revoke("node-1").await;
    assert_eq!(join_with_host(&gateway, "node-5", "node-1.example").await.status(), 200);
}

#[tokio::test]
async fn an_invitation_may_name_the_host_and_then_also_that_of_a_gateway() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let token = gateway.invite(None, 60, 0).await;
    let invite = load::<InviteRecord>(&*gateway.engine, token.id()).await.unwrap().unwrap();
    let fixed = InviteRecord { host: Some("gateway.example".to_owned()), ..invite.record };
    gateway.engine.commit(&[], &[fixed.put(token.id()).unwrap()]).await.unwrap();
    let mut request = asking(&token, "node-1", &NodeKey::draw());
    let other = refused(gateway.try_to_join(&request).await).await;
    assert_eq!(other, is(403, RefusalReason::TokenForOther));
    request.host = "Gateway.example".to_owned();
    assert_eq!(gateway.try_to_join(&request).await.status(), 200);
    let again = join_with_host(&gateway, "node-2", "gateway.example").await;
    assert_eq!(refused(again).await, is(409, RefusalReason::HostTaken));
}

/// Nodes with the same host may exist from before that was refused.
#[tokio::test]
async fn of_two_nodes_with_one_host_the_first_may_ask_for_its_certificate() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, first) = gateway.node("node-1").await;
    let (_, second) = gateway.node("node-2").await;
    let mut record = gateway.record("node-2").await.unwrap();
    (record.host, record.joined_unix_seconds) = ("node-1.example".to_owned(), now() + 1);
    gateway.engine.commit(&[], &[record.put("node-2").unwrap()]).await.unwrap();
    let is_changed = || gateway.live.world().nodes[&name("node-2")].host == "node-1.example";
    assert!(eventually(is_changed).await);
    let folder = tempfile::tempdir().unwrap();
    let key = ViewerKey::at(&folder.path().join("key")).unwrap();
    let pem = key.request("node-1.example").unwrap();
    let url = format!("{}/machine/v1/certificate-request", gateway.url);
    let ask = async |client: &reqwest::Client, node: &str| {
        let request = ViewerRequest { version: 1, node: name(node), request: pem.clone() };
        client.put(&url).json(&request).send().await.unwrap()
    };
    let refusal = refused(ask(&second, "node-2").await).await;
    assert_eq!(refusal, is(409, RefusalReason::HostTaken));
    assert_eq!(ask(&first, "node-1").await.status(), 204);
}

#[tokio::test]
async fn a_revoked_name_of_which_no_more_is_known_is_not_given_again() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let revoked = Revoked { reason: "stolen".to_owned(), since_unix_seconds: now() };
    let record = RevokedNameRecord { revoked };
    gateway.engine.commit(&[], &[record.put("node-1").unwrap()]).await.unwrap();
    let token = gateway.invite(None, 60, 0).await;
    let asked = gateway.try_to_join(&asking(&token, "node-1", &NodeKey::draw())).await;
    assert_eq!(refused(asked).await, is(409, RefusalReason::NameTaken));
    assert!(gateway.record("node-1").await.is_none());
}

/// The store was lost, including the revocation of a node, and its name was reused.
#[tokio::test]
async fn a_certificate_from_before_its_name_was_given_again_is_worth_nothing() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, former) = gateway.node("node-1").await;
    let url = format!("{}/machine/v1/keys", gateway.url);
    let ask = || former.get(&url).send();
    let put = async |joined: u64, serials: &[&str]| {
        let record = gateway.record("node-1").await.unwrap();
        let serials = serials.iter().map(|serial| (*serial).to_owned()).collect();
        let record = NodeRecord { joined_unix_seconds: joined, serials, ..record };
        gateway.engine.commit(&[], &[record.put("node-1").unwrap()]).await.unwrap();
        let is_known = || gateway.live.world().joined[&name("node-1")].unix_seconds == joined;
        assert!(eventually(is_known).await);
    };
    // The record comes from a backup made before it renewed its certificate: it can continue.
    put(now() - 1000, &["0a"]).await;
    assert_eq!(ask().await.unwrap().status(), 200);
    // Another machine has joined under its name.
    put(now() + 1000, &["0b"]).await;
    assert_eq!(refused_at_last(ask).await, is(403, RefusalReason::Revoked));
}

#[tokio::test]
async fn guessing_tokens_is_slow() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let forged = InvitationToken::draw(gateway.authority.fingerprint());
    let request = asking(&forged, "node-1", &NodeKey::draw());
    let url = format!("{}/machine/v1/join", gateway.url);
    let client = gateway.stranger();
    let begin = Instant::now();
    while gateway.count(RefusalReason::Flood) < 5 {
        assert!(Instant::now() < begin + PATIENCE, "it is not slow: {:?}", gateway.refusals);
        // A stranger's connection ends after half a minute.
        let _ = client.post(&url).json(&request).send().await;
    }
    let (guesses, bound) = (gateway.count(RefusalReason::TokenUnknown), admitted_max(begin, 50, 1));
    assert!(guesses <= bound, "{guesses} of {bound}");
}

/// By hand, with an operator's usual tools.
#[tokio::test(flavor = "multi_thread")]
async fn curl_joins_with_what_openssl_made() {
    let gateway = Gateway::start(Duration::from_secs(600)).await;
    let token = gateway.invite(None, 60, 0).await;
    let folder = tempfile::tempdir().unwrap();
    let run = |program: &str, arguments: &[&str], input: &str| {
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program}: {said}");
        String::from_utf8(output.stdout).unwrap()
    };
    std::fs::write(folder.path().join("ca.pem"), gateway.authority.certificate_pem()).unwrap();
    let curve = ["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "sec1.key"];
    run("openssl", &curve, "");
    let pkcs8 = ["pkcs8", "-topk8", "-nocrypt", "-in", "sec1.key", "-out", "node.key"];
    run("openssl", &pkcs8, "");
    let request = run("openssl", &["req", "-new", "-key", "node.key", "-subj", "/CN=node-1"], "");
    let mut wish = asking(&token, "node-1", &NodeKey::draw());
    wish.request = request;
    let url = format!("{}/machine/v1/join", gateway.url);
    let join = ["-sS", "--fail-with-body", "--cacert", "ca.pem", "-d", "@-", &url];
    let answer = run("curl", &join, &serde_json::to_string(&wish).unwrap());
    let answer: JoinAnswer = serde_json::from_str(&answer).unwrap();
    std::fs::write(folder.path().join("node.pem"), &answer.certificate).unwrap();
    assert!(eventually(|| gateway.live.world().nodes.contains_key(&name("node-1"))).await);
    let url = format!("{}/machine/v1/keys", gateway.url);
    let keys =
        ["-sS", "--cacert", "ca.pem", "--cert", "node.pem", "--key", "node.key", url.as_str()];
    assert!(run("curl", &keys, "").contains(&gateway.url));
    let dates = run("openssl", &["x509", "-in", "node.pem", "-noout", "-enddate"], "");
    assert!(dates.starts_with("notAfter="), "{dates}");
}
