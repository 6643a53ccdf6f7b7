//! Encoding of records, and the rejection of invalid ones.

use std::fmt::Debug;

use super::*;
use crate::Write;
use fleet_protocol::PurgeTarget;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn place() -> NodePlace {
    NodePlace { site: name("paris"), cluster: name("paris-1"), rack: None }
}

fn node() -> NodeRecord {
    NodeRecord {
        place: place(),
        kind: NodeKind::Flash,
        host: "n1.example".to_owned(),
        ceiling_bits_per_second: 40_000_000_000,
        serials: vec!["0a1b".to_owned()],
        wanted: Wanted::Drained {
            reason: "new disks".to_owned(),
            since_unix_seconds: 10,
            returns_unix_seconds: Some(20),
        },
        joined_unix_seconds: 5,
        revoked: None,
    }
}

fn site() -> SiteRecord {
    SiteRecord {
        region: name("europe"),
        latitude: Some(48.9),
        longitude: Some(2.4),
        operator: None,
        allowed: vec!["192.0.2.0/24".parse().expect("a prefix")],
        announced: vec![],
        announced_file: Some(AnnouncedFile {
            sha256: Digest::of(b"file"),
            prefixes: 3,
            since_unix_seconds: 4,
        }),
    }
}

fn restored_fleet() -> FleetRecord {
    let restored =
        RestoredBackup { made_unix_seconds: 2, restored_unix_seconds: 3, read_back: true };
    FleetRecord {
        name: name("films"),
        epoch: 3,
        policy: SteeringPolicy::default(),
        made_unix_seconds: 1,
        restored: Some(restored),
    }
}

fn written<R: StoreRecord>(record: &R, of: &str) -> (String, Vec<u8>) {
    match record.put(of).expect("within its bounds") {
        Write::Put(key, value) => (key, value),
        Write::Delete(key) => panic!("{key} would be deleted"),
    }
}

fn reads_what_it_writes<R: StoreRecord + PartialEq + Debug>(record: &R, of: &str) {
    let (key, value) = written(record, of);
    assert_eq!(R::read(&key, &value).as_ref(), Ok(record), "{key}");
    assert!(String::from_utf8_lossy(&value).contains("\"version\":1"), "{key}");
}

#[test]
fn a_document_is_named_by_its_digest() {
    let unused = UnusedRecord { since_unix_seconds: 1, is_going: true };
    reads_what_it_writes(&unused, &Digest::of(b"a").to_string());
    assert!(unused.put("a").is_err());
}

fn invite() -> InviteRecord {
    InviteRecord {
        sha256: Digest::of(b"secret"),
        place: place(),
        kind: NodeKind::Storage,
        node: None,
        host: Some("n1.example".to_owned()),
        ceiling_bits_per_second: 0,
        made_unix_seconds: 1,
        expires_unix_seconds: 2,
        used: Some(UsedInvite { node: name("n1"), key: Digest::of(b"key"), used_unix_seconds: 2 }),
    }
}

#[test]
fn a_revoked_name_is_a_record() {
    let revoked = Revoked { reason: "stolen".to_owned(), since_unix_seconds: 6 };
    reads_what_it_writes(&RevokedNameRecord { revoked }, "n2");
}

#[test]
fn each_record_reads_what_it_writes() {
    reads_what_it_writes(&restored_fleet(), "");
    let pkcs8 = PrivateBytes::new(vec![0, 1, 255]);
    let certificate_pem = Some("-----BEGIN CERTIFICATE-----\n".to_owned());
    reads_what_it_writes(
        &SecretRecord { pkcs8: pkcs8.clone(), certificate_pem, made_unix_seconds: 1 },
        "ca",
    );
    let key = TokenKeyRecord {
        pkcs8,
        made_unix_seconds: 1,
        signs_from_unix_seconds: 2,
        told_from_unix_seconds: None,
        trusted_until_unix_seconds: None,
    };
    reads_what_it_writes(&key, "k1");
    reads_what_it_writes(&site(), "paris");
    let cluster = ClusterRecord { site: name("paris"), titles: ClusterTitles::All };
    reads_what_it_writes(&cluster, "paris-1");
    reads_what_it_writes(&node(), "n1");
    let issued = IssuedChain {
        pem: "-----BEGIN CERTIFICATE-----\n".to_owned(),
        put_unix_seconds: 2,
        expires_unix_seconds: 3,
    };
    let request = "-----BEGIN CERTIFICATE REQUEST-----\n".to_owned();
    let certificate =
        ViewerCertificateRecord { request, requested_unix_seconds: 1, chain: Some(issued) };
    reads_what_it_writes(&certificate, "n1");
    let machines = "https://g1.example:8702".to_owned();
    reads_what_it_writes(&GatewayRecord { machines, token_seconds: 3600 }, "g1");
    reads_what_it_writes(&invite(), "a1");
    let manifests = Some(vec![Digest::of(b"a"), Digest::of(b"b")]);
    reads_what_it_writes(&PlanRecord { manifests, planned_unix_seconds: 7 }, "");
    reads_what_it_writes(&PlanRecord::default(), "");
    let version = Digest::of(b"old");
    let withdrawn = vec![WithdrawnVersion { version, since_unix_seconds: 9 }];
    reads_what_it_writes(
        &TitleRecord { series: Some("a show".into()), withdrawn, ..TitleRecord::default() },
        "films/a",
    );
    reads_what_it_writes(&PlacementRecord::default(), "");
    for role in [Role::Admin, Role::Read, Role::Partner(vec![name("paris")])] {
        let sha256 = matches!(role, Role::Admin).then(|| Digest::of(b"token"));
        let operator = OperatorRecord { role, sha256, made_unix_seconds: 1, revoked: None };
        reads_what_it_writes(&operator, "anna");
    }
    let audit = AuditRecord {
        who: "anna".to_owned(),
        what: "drain".to_owned(),
        subject: "node/n1".to_owned(),
        detail: String::new(),
        unix_millis: 1_700_000_000_000,
    };
    reads_what_it_writes(&audit, &AuditRecord::name(audit.unix_millis, 7));
}

fn ordered(purge: FleetPurge) -> OrderedPurge {
    let (by, reason) = ("anna".to_owned(), "a new cut".to_owned());
    OrderedPurge { purge, by, reason, unix_seconds: 7 }
}

#[test]
fn orders_of_purges_are_numbered_and_bounded() {
    let order = || ordered(FleetPurge::everything());
    let record = PurgesRecord { last: 9, orders: vec![order(); 3] };
    reads_what_it_writes(&record, "");
    let numbers = |after| record.after(after).map(|(number, _)| number).collect::<Vec<_>>();
    assert_eq!((record.dropped(), numbers(0), numbers(6)), (6, vec![7, 8, 9], vec![7, 8, 9]));
    assert_eq!((numbers(8), numbers(9), numbers(u64::MAX - 1)), (vec![9], vec![], vec![]));
    let is_kept = |number| record.order(number).is_some();
    assert_eq!([0, 6, 7, 9, 10].map(is_kept), [false, false, true, true, false]);
    let none = PurgesRecord::default();
    assert!((none.dropped(), none.after(0).count()) == (0, 0) && none.put("").is_ok());
    let most = vec![order(); PURGES_MAX];
    assert!(PurgesRecord { last: 500, orders: most.clone() }.put("").is_ok());
    assert!(PurgesRecord { last: 499, orders: most.clone() }.put("").is_err());
    let more = [most, vec![order()]].concat();
    assert!(PurgesRecord { last: 501, orders: more }.put("").is_err());
}

#[test]
fn snoozes_are_bounded_and_the_largest_fit_into_a_value() {
    let reason = "\\".repeat(SNOOZE_REASON_BYTES_MAX);
    let snooze = Snooze { until_unix_seconds: u64::MAX, by: "x".repeat(64), reason };
    let id = |number: usize| format!("{number:03}{}", "\\".repeat(97));
    let many = |count| (0..count).map(|number| (id(number), snooze.clone())).collect();
    let most = SnoozesRecord { snoozes: many(SNOOZES_MAX) };
    let Ok(Write::Put(_, value)) = most.put("") else { panic!("it is within its bounds") };
    assert!(value.len() < crate::VALUE_BYTES_MAX, "{}", value.len());
    assert!(SnoozesRecord { snoozes: many(SNOOZES_MAX + 1) }.put("").is_err());
    let (long, told) = ("x".repeat(101), "line\nbreak".to_owned());
    for (id, reason) in [(long, String::new()), ("node_lost/n1".to_owned(), told)] {
        let snooze = Snooze { reason, ..snooze.clone() };
        assert!(SnoozesRecord { snoozes: [(id, snooze)].into() }.put("").is_err());
    }
    reads_what_it_writes(&SnoozesRecord { snoozes: many(2) }, "");
}

#[test]
fn the_largest_orders_of_purges_fit_into_a_value() {
    // In JSON, these take four bytes each and the backslashes two.
    let mut tags = vec!["a".to_owned(); 255];
    tags.push("\\".repeat(137));
    let purge = FleetPurge { target: PurgeTarget::Tags(tags), is_soft: true };
    let reason = "\\".repeat(PURGE_REASON_BYTES_MAX);
    let order = OrderedPurge { reason, by: "x".repeat(64), ..ordered(purge) };
    let orders = vec![OrderedPurge { unix_seconds: u64::MAX, ..order }; PURGES_MAX];
    let written = PurgesRecord { last: 500, orders }.put("").expect("within its bounds");
    let Write::Put(_, value) = written else { panic!("it is written") };
    assert!(value.len() < crate::VALUE_BYTES_MAX, "{}", value.len());
}

#[test]
fn what_is_not_a_record_is_refused_with_its_key_and_the_reason() {
    let good = String::from_utf8(written(&node(), "n1").1).expect("JSON");
    let cases = [
        ("node/n1", &good[..good.len() / 2], "not JSON"),
        ("node/n1", "[]", "no version"),
        ("node/n1", "{}", "no version"),
        ("node/n1", &good.replace("\"version\":1", "\"version\":2"), "update this gateway"),
        ("node/n1", &good.replace("\"host\"", "\"hosts\""), "unknown field"),
        ("node/n1", &good.replace("n1.example", "n1 example"), "host"),
        ("node/n1", &good.replace("0a1b", "0A1B"), "serial"),
        ("node/n1", &good.replace("new disks", &"x".repeat(501)), "500 bytes"),
        ("node/N1", &good, "name"),
        ("site/n1", &good, "another kind"),
    ];
    for (key, text, reason) in cases {
        let error = NodeRecord::read(key, text.as_bytes()).expect_err(reason).to_string();
        assert!(error.contains(key) && error.contains(reason), "{error}");
    }
    let twice = TitleRecord {
        withdrawn: vec![
            WithdrawnVersion { version: Digest::of(b""), since_unix_seconds: 0 };
            WITHDRAWN_MAX + 1
        ],
        ..TitleRecord::default()
    };
    let policy = PlacementPolicy { floor_copies: 0, ..PlacementPolicy::default() };
    assert!(PlacementRecord { policy }.put("").is_err(), "a title without a copy");
    assert!(twice.put("films/a").is_err());
    assert!(TitleRecord::default().put(".hidden").is_err());
}

#[test]
fn secrets_are_not_shown() {
    let secret = SecretRecord {
        pkcs8: PrivateBytes::new(b"not for logs".to_vec()),
        certificate_pem: None,
        made_unix_seconds: 1,
    };
    assert!(format!("{secret:?}").contains("PrivateBytes(12 bytes)"));
}
