//! The agent's side, with a real agent: joining, heartbeats, fetching, renewing.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleet_protocol::{
    Condition, Desired, Digest, HeartbeatAnswer, HeldTitle, Inventory, Keys, Load, Receipt, Signed,
    State, WatchReport,
};
use identity::{Credentials, NODE_LIFETIME, RefusalReason};
use node::BoxState;
use node::beating::{self, Beating, BeatingOptions};
use node::joining::{JoiningError, Membership, Wish, join};

use crate::gateway::{Gateway, eventually, name, now};
use crate::watched::{publish, report};

/// A node that records everything it gets from gateways.
#[derive(Default)]
struct Noted {
    answers: Vec<(String, HeartbeatAnswer, i64)>,
    desired: Vec<Desired>,
    keys: Vec<Keys>,
    copy_keys: Vec<String>,
    snapshots: Vec<Signed>,
    revocations: usize,
    /// Requests that found no further report, by task: there is one for each gateway.
    asked_in_vain: HashMap<tokio::task::Id, usize>,
}

struct NotingBox {
    inventory: Arc<Inventory>,
    reports: Mutex<Vec<Arc<WatchReport>>>,
    noted: Mutex<Noted>,
}

impl NotingBox {
    fn new(node: &str) -> Arc<Self> {
        let held = HeldTitle { path: "films/a".to_owned(), version: Digest::of(b"a") };
        let inventory = Arc::new(Inventory::new(name(node), vec![held]));
        Arc::new(Self { inventory, reports: Mutex::default(), noted: Mutex::default() })
    }

    fn noted<T>(&self, of: impl FnOnce(&Noted) -> T) -> T {
        of(&self.noted.lock().unwrap())
    }
}

impl BoxState for NotingBox {
    fn condition(&self) -> Condition {
        Condition::Ready
    }

    fn load(&self) -> Load {
        Load { ceiling_bits_per_second: 1_000_000_000, ..Load::default() }
    }

    fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.inventory)
    }

    fn receipts(&self) -> Vec<Receipt> {
        vec![]
    }

    fn handle_answer(&self, gateway: &str, answer: &HeartbeatAnswer, ahead: i64) {
        self.noted.lock().unwrap().answers.push((gateway.to_owned(), answer.clone(), ahead));
    }

    fn handle_revocation(&self, _gateway: &str) {
        self.noted.lock().unwrap().revocations += 1;
    }

    fn handle_desired(&self, desired: Desired) -> bool {
        self.noted.lock().unwrap().desired.push(desired);
        true
    }

    fn watched_after(&self, number: u64) -> Option<Arc<WatchReport>> {
        let reports = self.reports.lock().unwrap();
        let next = reports.iter().find(|report| report.number > number).cloned();
        if let (None, Some(task)) = (&next, tokio::task::try_id()) {
            *self.noted.lock().unwrap().asked_in_vain.entry(task).or_default() += 1;
        }
        next
    }

    fn handle_keys(&self, keys: Keys) {
        self.noted.lock().unwrap().keys.push(keys);
    }

    fn handle_snapshot(&self, _gateway: &str, signed: Signed) -> Option<usize> {
        self.noted.lock().unwrap().snapshots.push(signed);
        Some(1)
    }

    fn handle_copy_keys(&self, text: &str) -> Result<(), String> {
        self.noted.lock().unwrap().copy_keys.push(text.to_owned());
        Ok(())
    }

    fn missing_documents(&self) -> Vec<Digest> {
        vec![]
    }

    fn handle_document(&self, _bytes: Vec<u8>) {}
}

fn wish(node: &str) -> Wish {
    let host = format!("{node}.example");
    Wish { node: name(node), host, ceiling_bits_per_second: 0 }
}

fn quick() -> BeatingOptions {
    let short = Duration::from_millis(200);
    BeatingOptions {
        interval: short,
        snapshot_interval: short,
        inventory_interval: short,
        ..BeatingOptions::default()
    }
}

fn beat(state: &Path, own: &Arc<NotingBox>) -> Beating {
    let membership = Membership::read(state).unwrap().unwrap();
    let credentials = Credentials::read(state).unwrap();
    let own = Arc::clone(own);
    beating::start(membership, credentials, state.to_owned(), own, quick()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_box_joins_beats_and_gets_all_that_is_news() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let token = gateway.invite(None, 60, 0).await;
    let folder = tempfile::tempdir().unwrap();
    // The first gateway does not exist.
    let gateways = ["https://127.0.0.1:1".to_owned(), gateway.url.clone()];
    let joined = join(&gateways, &token, wish("node-1"), folder.path()).await.unwrap();
    assert_eq!(joined.membership.keys.gateways, gateway.here());
    assert_eq!(joined.clock_ahead_millis, None);
    let own = NotingBox::new("node-1");
    let _beating = beat(folder.path(), &own);
    assert!(eventually(|| own.noted(|noted| noted.snapshots.len() == 1)).await);
    let serves = |noted: &Noted| {
        let last = noted.answers.last();
        last.is_some_and(|(_, answer, _)| answer.state == State::Serving && !answer.wants_inventory)
    };
    assert!(eventually(|| own.noted(serves)).await);
    assert!(eventually(|| own.noted(|noted| noted.copy_keys.len() == 1)).await);
    own.noted(|noted| {
        assert_eq!((noted.desired.len(), noted.keys.len()), (1, 1));
        // A slow answer makes it less precise, by half of the time that it takes.
        assert!(noted.answers.iter().all(|(_, _, ahead)| ahead.abs() < 10_000));
        assert_eq!(noted.answers[0].0, gateway.url);
    });
    assert!(
        gateway
            .key
            .open(
                fleet_protocol::FleetSnapshot::CONTEXT,
                &own.noted(|noted| noted.snapshots[0].clone())
            )
            .is_ok()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_says_why_it_failed_and_may_be_tried_again() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let other = Gateway::start(NODE_LIFETIME).await;
    let folder = tempfile::tempdir().unwrap();
    let said = async |gateways: &[String], token| {
        join(gateways, &token, wish("node-1"), folder.path()).await.unwrap_err().to_string()
    };
    let here = gateway.here();
    let expired = gateway.invite(None, 1, 1).await;
    assert!(said(&here, expired).await.contains("expired"));
    let of_other = other.invite(None, 60, 0).await;
    let text = said(&here, of_other).await;
    assert!(text.contains("not a gateway of the fleet"), "{text}");
    let nowhere = ["https://127.0.0.1:1".to_owned()];
    let text = said(&nowhere, gateway.invite(None, 60, 0).await).await;
    assert!(text.contains("127.0.0.1:1") && text.contains("refused"), "{text}");
    assert_eq!(other.count(RefusalReason::TokenUnknown), 0);
    let token = gateway.invite(None, 60, 0).await;
    join(&here, &token, wish("node-1"), folder.path()).await.unwrap();
    let again = join(&here, &token, wish("node-1"), folder.path()).await.unwrap_err();
    assert!(matches!(again, JoiningError::Already(..)), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_renews_itself_and_the_node_never_falls_silent() {
    // Thirty days are compressed into 24 seconds: the certificate is renewed after 16, and a machine that stops for some seconds is still in time.
    let gateway = Gateway::start(Duration::from_secs(24)).await;
    let token = gateway.invite(None, 60, 0).await;
    let folder = tempfile::tempdir().unwrap();
    let here = gateway.here();
    join(&here, &token, wish("node-1"), folder.path()).await.unwrap();
    let first = Credentials::read(folder.path()).unwrap();
    let own = NotingBox::new("node-1");
    let _beating = beat(folder.path(), &own);
    let kept = || Credentials::read(folder.path()).unwrap();
    assert!(eventually(|| kept().certificate().serial != first.certificate().serial).await);
    let expires = first.certificate().expires_unix_seconds;
    assert!(eventually(|| now() > expires).await, "the first certificate ends");
    // Later requests use the new certificate.
    let count = own.noted(|noted| noted.answers.len());
    assert!(eventually(|| own.noted(|noted| noted.answers.len()) > count + 2).await);
    assert!(gateway.record("node-1").await.unwrap().serials.len() >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_beats_to_every_gateway() {
    let [gateway, second] = Gateway::start_some(NODE_LIFETIME).await;
    let token = gateway.invite(None, 60, 0).await;
    let folder = tempfile::tempdir().unwrap();
    // It is given one gateway's address, and learns the other one's.
    join(&gateway.here(), &token, wish("node-1"), folder.path()).await.unwrap();
    let own = NotingBox::new("node-1");
    let _beating = beat(folder.path(), &own);
    let heard = |noted: &Noted, url: &str| noted.answers.iter().any(|(from, ..)| from == url);
    assert!(
        eventually(|| own.noted(|noted| heard(noted, &gateway.url) && heard(noted, &second.url)))
            .await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_node_hears_why() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let token = gateway.invite(None, 60, 0).await;
    let folder = tempfile::tempdir().unwrap();
    join(&gateway.here(), &token, wish("node-1"), folder.path()).await.unwrap();
    let own = NotingBox::new("node-1");
    let _beating = beat(folder.path(), &own);
    assert!(eventually(|| own.noted(|noted| !noted.answers.is_empty())).await);
    gateway.revoke("node-1").await;
    assert!(eventually(|| gateway.count(RefusalReason::Revoked) >= 2).await);
    // The heartbeat task waits for each answer, so after a refusal no earlier answer is in flight.
    let revocations = || own.noted(|noted| noted.revocations);
    assert!(eventually(|| revocations() > 0).await);
    let answers = || own.noted(|noted| noted.answers.len());
    let (count, refused) = (answers(), revocations());
    assert!(eventually(|| revocations() >= refused + 3).await);
    assert_eq!(answers(), count);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_learns_of_new_gateways_and_leaves_old_ones() {
    let [gateway, second] = Gateway::start_some(NODE_LIFETIME).await;
    let token = gateway.invite(None, 60, 0).await;
    let folder = tempfile::tempdir().unwrap();
    let joined = join(&gateway.here(), &token, wish("node-1"), folder.path()).await;
    // As if it had joined when there was another gateway, which is gone.
    let mut membership = joined.unwrap().membership;
    membership.keys.gateways = vec!["https://127.0.0.1:1".to_owned(), gateway.url.clone()];
    membership.keep(folder.path()).unwrap();
    let own = NotingBox::new("node-1");
    let _beating = beat(folder.path(), &own);
    let hears = |noted: &Noted| noted.answers.iter().any(|(from, ..)| *from == second.url);
    assert!(eventually(|| own.noted(hears)).await);
    let kept = Membership::read(folder.path()).unwrap().unwrap();
    assert_eq!(kept.keys.gateways, [gateway.url.clone(), second.url.clone()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_knows_no_better_takes_no_key_back() {
    let [gateway, stale] = Gateway::start_some(NODE_LIFETIME).await;
    let token = gateway.invite(None, 60, 0).await;
    let folder = tempfile::tempdir().unwrap();
    join(&gateway.here(), &token, wish("node-1"), folder.path()).await.unwrap();
    let own = NotingBox::new("node-1");
    let _beating = beat(folder.path(), &own);
    let hears = |url: &str| {
        own.noted(|noted| noted.answers.iter().filter(|(from, ..)| from == url).count())
    };
    assert!(eventually(|| hears(&stale.url) > 0).await);

    stale.tell_keys(7, "old");
    let kept = || Membership::read(folder.path()).unwrap().unwrap().keys;
    assert!(eventually(|| kept().tokens == "old").await);
    gateway.tell_keys(8, "new");
    assert!(eventually(|| kept().tokens == "new").await);
    // The stale one changes its text, so it is asked again.
    stale.tell_keys(7, "older");
    let count = hears(&stale.url);
    assert!(eventually(|| hears(&stale.url) > count + 3).await);
    assert_eq!((kept().tokens, kept().revision), ("new".to_owned(), 8));
    stale.tell_keys(8, "newest");
    assert!(eventually(|| kept().tokens == "newest").await, "of the same revision");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_what_was_watched_reach_every_gateway_once_and_in_order() {
    let [one, other] = Gateway::start_some::<2>(NODE_LIFETIME).await;
    let state = tempfile::tempdir().unwrap();
    let token = one.invite(None, 60, 0).await;
    join(&one.here(), &token, wish("node-1"), state.path()).await.unwrap();
    let knows = |gateway: &Gateway| gateway.live.world().nodes.contains_key(&name("node-1"));
    assert!(eventually(|| knows(&one) && knows(&other)).await);
    [&one, &other].into_iter().for_each(|gateway| publish(gateway, "films/a"));
    let own = NotingBox::new("node-1");
    // The second report is refused, which does not block the third.
    let mut reports: Vec<_> =
        (1..=3).map(|number| report("node-1", number, &[("films/a", 1_000_000)])).collect();
    reports[1].titles[0].bytes = 500_000_000_000_000;
    *own.reports.lock().unwrap() = reports.into_iter().map(Arc::new).collect();
    let _beating = beat(state.path(), &own);
    for gateway in [&one, &other] {
        let bytes = || {
            let watched = gateway.live.watched("films/a", gateway.now());
            watched.first().map_or(0, |one| one.count.bytes)
        };
        // A rate is computed over at least an hour: two million bytes then count as 48 million a day.
        assert!(eventually(|| bytes() > 47_000_000).await, "{}", bytes());
        // Both tasks have asked for a further report since, without finding one.
        let asked = || own.noted(|noted| noted.asked_in_vain.clone());
        let before = asked();
        let ask_again = || {
            let now = asked();
            now.len() == 2
                && now
                    .iter()
                    .all(|(task, times)| before.get(task).is_none_or(|before| *times >= before + 2))
        };
        assert!(eventually(ask_again).await);
        assert!(bytes() < 50_000_000, "{}", bytes());
        assert_eq!(gateway.count(RefusalReason::OverCeiling), 1);
    }
}

/// node-1's state at a gateway, and the reason.
fn said(gateway: &Gateway) -> (State, String) {
    let view = gateway.live.view(gateway.now());
    let node = view.nodes.into_iter().find(|node| node.name == name("node-1")).unwrap();
    (node.state, node.reason.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_clone_has_spoken_is_heard_again_and_operators_hear_of_both() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let token = gateway.invite(None, 60, 0).await;
    let folder = tempfile::tempdir().unwrap();
    join(&gateway.here(), &token, wish("node-1"), folder.path()).await.unwrap();
    let (own, twin) = (NotingBox::new("node-1"), NotingBox::new("node-1"));
    let answers = |of: &NotingBox| of.noted(|noted| noted.answers.len());
    let _beating = beat(folder.path(), &own);
    assert!(eventually(|| answers(&own) > 2).await);
    // A clone of the machine, with a copy of its folder.
    let cloned = beat(folder.path(), &twin);
    assert!(eventually(|| answers(&twin) > 3).await);
    let (before, clones) = (answers(&own), answers(&twin));
    assert!(eventually(|| answers(&own) > before + 3 && answers(&twin) > clones + 3).await);
    assert!(eventually(|| said(&gateway).1.contains("two machines speak as this node")).await);
    assert!(gateway.count(RefusalReason::Stale) >= 2);
    // The clone is stopped, and the original continues alone.
    drop(cloned);
    let before = answers(&own);
    assert!(eventually(|| answers(&own) > before + 10).await);
    assert_eq!(said(&gateway).0, State::Serving);
}
