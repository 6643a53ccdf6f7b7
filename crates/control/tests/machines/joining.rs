//! Who may join, and who may not.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use fleet::{JoinAnswer, NodeKind, RenewAnswer, RenewRequest};
use fullbore_control::store::records::{AuditRecord, load_all};
use identity::{
    Credentials, InvitationToken, NODE_LIFETIME, NodeKey, RefusalReason, client_config,
};

use crate::gateway::{Gateway, asking, client, eventually, is, name, refused};

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
    let (log, _) = load_all::<AuditRecord>(&*gateway.engine).await.unwrap();
    assert_eq!(log[0].record.what, "join");
}

#[tokio::test]
async fn a_token_works_once_and_a_lost_answer_is_given_again() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let token = gateway.invite(None, 60, 0).await;
    let key = NodeKey::draw();
    let first = asking(&token, "node-1", &key);
    assert_eq!(gateway.try_to_join(&first).await.status(), 200);
    // The same box, which has not got its answer.
    assert_eq!(gateway.try_to_join(&first).await.status(), 200);
    assert_eq!(gateway.record("node-1").await.unwrap().serials.len(), 2);
    // Another box, as another name and as the same one.
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
    // The name of one invitation with the secret of another.
    let mixed = format!("{}{}", &token[..17], &other[17..]);
    let unknown = InvitationToken::draw(gateway.authority.fingerprint()).to_string();
    let foreign = InvitationToken::draw(fleet::Digest::of(b"another fleet")).to_string();
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
    // What was refused has not used it up.
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
async fn guessing_tokens_is_slow() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let forged = InvitationToken::draw(gateway.authority.fingerprint());
    let request = asking(&forged, "node-1", &NodeKey::draw());
    let url = format!("{}/machine/v1/join", gateway.url);
    let client = gateway.stranger();
    for _ in 0..60 {
        client.post(&url).json(&request).send().await.unwrap();
    }
    assert!(gateway.count(RefusalReason::Flood) >= 5, "{:?}", gateway.refusals);
    assert!(gateway.count(RefusalReason::TokenUnknown) <= 55);
}

/// What an operator would try by hand.
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
