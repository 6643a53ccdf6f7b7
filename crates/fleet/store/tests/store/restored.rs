//! Every kind of record, played through "backup, change, restore": over the live store, and into an empty one with the gateway's folder present.

use std::collections::{BTreeMap, BTreeSet};

use fleet_protocol::{
    Digest, Name, NodeKind, NodePlace, PublishedTitle, SteeringPolicy, TitleDocument,
};
use fullbore_store::backup::{Tombstones, back_up, restore};
use fullbore_store::records::{
    AnnouncedFile, AuditRecord, ClusterRecord, ClusterTitles, FleetRecord, GatewayRecord,
    InviteRecord, NodeRecord, OperatorRecord, PinnedCopies, PinnedScope, PinsRecord,
    PlacementRecord, PlanRecord, PopularityRecord, PrivateBytes, PurgesRecord, Revoked,
    RevokedNameRecord, Role, SecretRecord, SiteRecord, Snooze, SnoozesRecord, StoreRecord,
    TitleRecord, TokenKeyRecord, UnusedRecord, UsedInvite, ViewerCertificateRecord, Wanted,
    WithdrawnVersion,
};
use fullbore_store::{Engine, FolderStore, Objects, Write};
use serde_json::Value;
use tempfile::tempdir;

/// When the backup is made, and when it is restored.
const BACKED_UP: u64 = 100;
const RESTORED: u64 = 200;

/// A record after a restore.
enum After {
    /// The backup's version.
    Then,
    /// The store's version from before the restore.
    Now,
    /// No record.
    Gone,
    /// Another value.
    Is(Vec<u8>),
}
use After::{Gone, Is, Now, Then};

/// One record: in the backup, in the store before the restore, and afterwards, over that store and into an empty one.
struct Case {
    what: &'static str,
    key: String,
    then: Option<Vec<u8>>,
    now: Option<Vec<u8>>,
    over: After,
    empty: After,
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn bytes<R: StoreRecord>(of: &str, record: &R) -> Vec<u8> {
    match record.put(of).expect("within its bounds") {
        Write::Put(_, value) => value,
        Write::Delete(_) => unreachable!("a record is put"),
    }
}

fn case<R: StoreRecord>(
    what: &'static str,
    of: &str,
    [then, now]: [Option<R>; 2],
    [over, empty]: [After; 2],
) -> Case {
    let written = |record: Option<R>| record.map(|record| bytes(of, &record));
    Case { what, key: R::key(of), then: written(then), now: written(now), over, empty }
}

fn gone() -> Revoked {
    Revoked { reason: "stolen".to_owned(), since_unix_seconds: 150 }
}

fn place() -> NodePlace {
    NodePlace { site: name("paris"), cluster: name("paris-1"), rack: None }
}

fn node(serial: &str, revoked: Option<Revoked>) -> NodeRecord {
    NodeRecord {
        place: place(),
        kind: NodeKind::Storage,
        host: "192.0.2.1".to_owned(),
        ceiling_bits_per_second: 1,
        serials: vec![serial.to_owned()],
        wanted: Wanted::Serving,
        joined_unix_seconds: 1,
        revoked,
    }
}

fn operator(role: Role, revoked: Option<Revoked>) -> OperatorRecord {
    OperatorRecord { role, sha256: Some(Digest::of(b"token")), made_unix_seconds: 1, revoked }
}

fn invite(used: bool) -> InviteRecord {
    let used = used.then(|| UsedInvite {
        node: name("n1"),
        key: Digest::of(b"key"),
        used_unix_seconds: 50,
    });
    InviteRecord {
        sha256: Digest::of(b"invite"),
        place: place(),
        kind: NodeKind::Storage,
        node: None,
        host: None,
        ceiling_bits_per_second: 0,
        made_unix_seconds: 1,
        expires_unix_seconds: 1000,
        used,
    }
}

fn token_key(made: u64, trusted_until: Option<u64>) -> TokenKeyRecord {
    TokenKeyRecord {
        pkcs8: PrivateBytes::new(vec![7]),
        made_unix_seconds: made,
        signs_from_unix_seconds: made,
        told_from_unix_seconds: None,
        trusted_until_unix_seconds: trusted_until,
    }
}

fn secret(byte: u8) -> SecretRecord {
    let pkcs8 = PrivateBytes::new(vec![byte]);
    SecretRecord { pkcs8, certificate_pem: None, made_unix_seconds: 1 }
}

fn fleet() -> FleetRecord {
    FleetRecord {
        name: name("films"),
        epoch: 4,
        policy: SteeringPolicy::default(),
        made_unix_seconds: 1,
        restored: None,
    }
}

fn site(region: &str) -> SiteRecord {
    SiteRecord {
        region: name(region),
        latitude: None,
        longitude: None,
        operator: None,
        allowed: Vec::new(),
        announced: Vec::new(),
        announced_file: None::<AnnouncedFile>,
    }
}

fn published(version: &str) -> PublishedTitle {
    let document = |text: &str| TitleDocument { path: text.to_owned(), sha256: Digest::of(b"x") };
    PublishedTitle {
        path: "films/a".to_owned(),
        version: Digest::of(version.as_bytes()),
        bytes: 1000,
        duration_seconds: 60.0,
        record: document("title.json"),
        hls: document("master.m3u8"),
        dash: document("manifest.mpd"),
        origin: "file:///films".to_owned(),
        published_unix_seconds: 1,
    }
}

fn title(version: Option<&str>, withdrawn: &[&str]) -> TitleRecord {
    let withdrawn = withdrawn.iter().map(|version| WithdrawnVersion {
        version: Digest::of(version.as_bytes()),
        since_unix_seconds: 150,
    });
    TitleRecord {
        published: version.map(published),
        withdrawn: withdrawn.collect(),
        ..TitleRecord::default()
    }
}

fn certificate(request: &str) -> ViewerCertificateRecord {
    ViewerCertificateRecord { request: request.to_owned(), requested_unix_seconds: 1, chain: None }
}

fn audit() -> AuditRecord {
    let who = "anna".to_owned();
    AuditRecord {
        who,
        what: "x".into(),
        subject: "x".into(),
        detail: String::new(),
        unix_millis: 1,
    }
}

/// Records that grant access: access that was removed stays removed.
fn access() -> Vec<Case> {
    let (read, admin) = (Role::Read, Role::Admin);
    vec![
        case(
            "the fleet's authority, changed since",
            "ca",
            [Some(secret(1)), Some(secret(2))],
            [Now, Then],
        ),
        case(
            "an operator who was revoked since",
            "anna",
            [Some(operator(admin.clone(), None)), Some(operator(admin.clone(), Some(gone())))],
            [Now, Now],
        ),
        case(
            "an operator who was added and revoked since",
            "bob",
            [None, Some(operator(admin.clone(), Some(gone())))],
            [Now, Now],
        ),
        case(
            "an operator who was added since",
            "carla",
            [None, Some(operator(read.clone(), None))],
            [Now, Gone],
        ),
        case(
            "an operator who may do less since",
            "dora",
            [Some(operator(admin, None)), Some(operator(read, None))],
            [Now, Then],
        ),
        case("an open invitation", "a1", [Some(invite(false)), Some(invite(false))], [Now, Gone]),
        case(
            "an invitation that was used since",
            "a2",
            [Some(invite(false)), Some(invite(true))],
            [Now, Gone],
        ),
        case(
            "an invitation that was removed since",
            "a3",
            [Some(invite(false)), None],
            [Gone, Gone],
        ),
        case("a used invitation", "a4", [Some(invite(true)), Some(invite(true))], [Now, Then]),
        case(
            "a key that was distrusted since",
            "k1",
            [Some(token_key(1, None)), Some(token_key(1, Some(150)))],
            [Now, Now],
        ),
        case("the key that replaced it", "k2", [None, Some(token_key(150, None))], [Now, Now]),
        case(
            "a key that had ended before",
            "k3",
            [None, Some(token_key(2, Some(50)))],
            [Now, Gone],
        ),
    ]
}

/// Records of machines and titles.
fn what_is_served() -> Vec<Case> {
    let then = |key: &str, serial: &str| Is(bytes(key, &node(serial, Some(gone()))));
    vec![
        case("a node", "n1", [Some(node("01", None)), Some(node("01", None))], [Now, Then]),
        case(
            "a node that was revoked since",
            "n2",
            [Some(node("01", None)), Some(node("02", Some(gone())))],
            [Now, then("n2", "01")],
        ),
        case(
            "a node that joined and was revoked since",
            "n3",
            [None, Some(node("01", Some(gone())))],
            [Now, Gone],
        ),
        case(
            "a node that renewed its certificate since",
            "n4",
            [Some(node("01", None)), Some(node("02", None))],
            [Now, Then],
        ),
        case("a node that joined since", "n5", [None, Some(node("01", None))], [Gone, Gone]),
        case::<RevokedNameRecord>(
            "the name of the third one",
            "n3",
            [None, None],
            [Gone, Is(bytes("n3", &RevokedNameRecord { revoked: gone() }))],
        ),
        case(
            "the name of a node that was lost before",
            "n8",
            [None, Some(RevokedNameRecord { revoked: gone() })],
            [Now, Now],
        ),
        case(
            "the same in the backup",
            "n9",
            [Some(RevokedNameRecord { revoked: gone() }), None],
            [Then, Then],
        ),
        case(
            "a title that was withdrawn since",
            "films/a",
            [Some(title(Some("1"), &[])), Some(title(None, &["1"]))],
            [Now, Now],
        ),
        case(
            "a title that was published and withdrawn since",
            "films/new",
            [None, Some(title(None, &["1"]))],
            [Now, Now],
        ),
        case(
            "a title that was withdrawn before",
            "films/old",
            [Some(title(None, &["1"])), Some(title(None, &["1"]))],
            [Now, Then],
        ),
        case(
            "a certificate for viewers",
            "n1",
            [Some(certificate("one")), Some(certificate("two"))],
            [Then, Then],
        ),
        case("a site", "paris", [Some(site("europe")), Some(site("asia"))], [Then, Then]),
        case("a site that was made since", "rome", [None, Some(site("europe"))], [Gone, Gone]),
    ]
}

/// Records that the backup determines, and records that are merged.
fn the_rest() -> Vec<Case> {
    let cluster = |site: &str| ClusterRecord { site: name(site), titles: ClusterTitles::All };
    let gateway =
        |host: &str| GatewayRecord { machines: format!("https://{host}:1"), token_seconds: 1 };
    let pins =
        |copies| PinsRecord { pins: vec![PinnedCopies { scope: PinnedScope::Everywhere, copies }] };
    let plan = |at| PlanRecord { manifests: None, planned_unix_seconds: at };
    let watched = |text: &[u8]| PopularityRecord { sha256: Digest::of(text), made_unix_seconds: 1 };
    let purges = |last| PurgesRecord { last, orders: Vec::new() };
    let snoozes = |until_unix_seconds| {
        let (by, reason) = ("anna".to_owned(), String::new());
        let snooze = Snooze { until_unix_seconds, by, reason };
        SnoozesRecord { snoozes: [("node_lost/n1".to_owned(), snooze)].into() }
    };
    let unused = |since_unix_seconds| UnusedRecord { since_unix_seconds, is_going: false };
    let (one, two) = (Digest::of(b"one").to_string(), Digest::of(b"two").to_string());
    vec![
        case("a cluster", "paris-1", [Some(cluster("paris")), Some(cluster("rome"))], [Then, Then]),
        case("a gateway", "g1", [Some(gateway("a")), Some(gateway("b"))], [Then, Then]),
        case("pins", "films/a", [Some(pins(1)), Some(pins(2))], [Then, Then]),
        case("how titles are placed", "", [Some(PlacementRecord::default()), None], [Then, Then]),
        case("the plan", "", [Some(plan(1)), Some(plan(2))], [Then, Then]),
        case("what was watched", "", [Some(watched(b"a")), Some(watched(b"b"))], [Then, Then]),
        case("purges of edges", "", [Some(purges(1)), Some(purges(2))], [Then, Then]),
        case("snoozes", "", [Some(snoozes(1)), Some(snoozes(2))], [Then, Then]),
        case("a document that nothing needed then", &one, [Some(unused(1)), None], [Then, Then]),
        case("a document that nothing needs now", &two, [None, Some(unused(2))], [Now, Gone]),
        case(
            "a line of the audit log from before",
            &AuditRecord::name(1, 1),
            [Some(audit()), Some(audit())],
            [Now, Then],
        ),
        case(
            "a line of the audit log from since",
            &AuditRecord::name(2, 2),
            [None, Some(audit())],
            [Now, Gone],
        ),
    ]
}

fn cases() -> Vec<Case> {
    let mut all = access();
    all.extend(what_is_served());
    all.extend(the_rest());
    all
}

async fn put(engine: &dyn Engine, records: impl Iterator<Item = (String, Vec<u8>)>) {
    for (key, value) in records {
        engine.commit(&[], &[Write::Put(key, value)]).await.expect("made");
    }
}

fn shown(value: Option<&Vec<u8>>) -> Option<Value> {
    value.map(|value| serde_json::from_slice(value).expect("a record"))
}

fn check(records: &BTreeMap<String, Vec<u8>>, after: impl Fn(&Case) -> &After, where_to: &str) {
    for case in cases() {
        let expected = match after(&case) {
            Then => case.then.as_ref(),
            Now => case.now.as_ref(),
            Gone => None,
            Is(value) => Some(value),
        };
        let (found, what) = (records.get(&case.key), case.what);
        assert_eq!(shown(found), shown(expected), "{what} ({}), {where_to}", case.key);
    }
}

async fn all_of(engine: &dyn Engine) -> BTreeMap<String, Vec<u8>> {
    let list = engine.list("").await.expect("it answers");
    list.into_iter().map(|(key, entry)| (key, entry.value)).collect()
}

#[tokio::test]
async fn every_kind_of_record_comes_out_of_a_restore_as_it_should() {
    let folder = tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let objects = Objects::open(path("objects").to_str().expect("a text")).expect("objects");
    let [backed_up, living, empty] =
        ["then", "now", "empty"].map(|name| FolderStore::open(&path(name)).expect("a store"));
    let record = (FleetRecord::key(""), bytes("", &fleet()));
    let of_fleet = || std::iter::once(record.clone());
    let then = cases().into_iter().filter_map(|case| Some((case.key, case.then?)));
    put(&backed_up, of_fleet().chain(then)).await;
    back_up(&backed_up, &objects, &path("backup"), BACKED_UP).await.expect("backed up");
    let now = cases().into_iter().filter_map(|case| Some((case.key, case.now?)));
    put(&living, of_fleet().chain(now)).await;
    // The folder of a gateway that has read the live store.
    let known = Tombstones::of_entries(&living.list("").await.expect("it answers"));

    let restored = restore(&empty, &objects, &path("backup"), &known, RESTORED).await;
    assert_eq!(restored.expect("restored").epoch, 5);
    check(&all_of(&empty).await, |case| &case.empty, "into an empty store");
    let nothing = Tombstones::default();
    let restored = restore(&living, &objects, &path("backup"), &nothing, RESTORED).await;
    assert_eq!(restored.expect("restored").epoch, 5);
    check(&all_of(&living).await, |case| &case.over, "over the living store");
}

/// A new kind of record needs a row here that states the outcome of a restore.
#[test]
fn no_kind_of_record_is_left_out() {
    let table = include_str!("../../src/records/mod.rs").lines();
    let keys = table.filter_map(|line| line.strip_prefix("//! | `")?.split('`').next());
    let kind = |key: &str| match key.strip_prefix("secret/token") {
        Some(_) => "secret/token".to_owned(),
        None => key.split('/').next().unwrap_or_default().to_owned(),
    };
    let mut kinds: BTreeSet<_> = keys.map(kind).collect();
    // The fleet record is restored in every case, and a backup has no lease.
    assert!(kinds.remove("fleet") && kinds.remove("leader") && kinds.len() > 15, "{kinds:?}");
    let played: BTreeSet<_> = cases().iter().map(|case| kind(&case.key)).collect();
    assert_eq!(kinds, played);
}
