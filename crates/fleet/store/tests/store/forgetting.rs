//! Removal of old data in the store and the objects, with both engines and both kinds of objects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fleet_protocol::{Digest, NodeKind, NodePlace, PublishedTitle, TitleDocument};
use fullbore_store::forgetting::{
    AuditBounds, EXPIRED_SECONDS, UNUSED_SECONDS, claim, forget_invites, sweep_documents,
    trim_audit, unused,
};
use fullbore_store::records::{AuditRecord, InviteRecord, StoreRecord, TitleRecord, load_all};
use fullbore_store::{Check, Engine, Objects, StoreError};

const DAY: u64 = 24 * 3600;
const NOW: u64 = 1_790_000_000;

/// All tests, on a store without titles, invitations and an audit log.
pub(crate) async fn all(engine: &Arc<dyn Engine>) {
    the_audit_log_is_bounded_and_loses_nothing(engine).await;
    let folder = tempfile::tempdir().expect("a folder");
    let objects = Objects::open(folder.path().to_str().expect("a text")).expect("objects");
    documents_that_no_title_needs_go_after_a_week(engine, &objects).await;
    invitations_go_a_week_after_they_expired(engine).await;
}

async fn invitations_go_a_week_after_they_expired(engine: &Arc<dyn Engine>) {
    // More than one commit may have, each expiring a minute after the one before.
    for at in 0..250 {
        let record = InviteRecord {
            sha256: Digest::of(b"secret"),
            place: NodePlace {
                site: "paris".parse().expect("a name"),
                cluster: "paris-1".parse().expect("a name"),
                rack: None,
            },
            kind: NodeKind::Storage,
            node: None,
            host: None,
            ceiling_bits_per_second: 0,
            made_unix_seconds: NOW,
            expires_unix_seconds: NOW + at * 60,
            used: None,
        };
        let write = record.put(&format!("{at:016x}")).expect("a record");
        engine.commit(&[], &[write]).await.expect("made");
    }
    let not_leading = [Check::At("leader".to_owned(), 1)];
    let later = NOW + EXPIRED_SECONDS + 200 * 60;
    assert_eq!(forget_invites(&**engine, &not_leading, later).await, Err(StoreError::Conflict));
    assert_eq!(forget_invites(&**engine, &[], later).await, Ok(201));
    assert_eq!(forget_invites(&**engine, &[], later).await, Ok(0));
    let (left, _) = load_all::<InviteRecord>(&**engine).await.expect("read");
    assert!(left.iter().all(|left| left.record.expires_unix_seconds > NOW + 200 * 60));
    assert_eq!(left.len(), 49);
}

async fn lines(engine: &Arc<dyn Engine>) -> Vec<AuditRecord> {
    let (lines, bad) = load_all::<AuditRecord>(&**engine).await.expect("read");
    assert_eq!(bad, vec![]);
    lines.into_iter().map(|line| line.record).collect()
}

async fn the_audit_log_is_bounded_and_loses_nothing(engine: &Arc<dyn Engine>) {
    // 250 days, with a line each: more than two commits may have.
    for day in 0..250 {
        let record = AuditRecord {
            who: "otto".to_owned(),
            what: "drain".to_owned(),
            subject: format!("node/n{day}"),
            detail: String::new(),
            unix_millis: (NOW - day * DAY) * 1000,
        };
        let write = record.put(&AuditRecord::name(record.unix_millis, day)).expect("a record");
        engine.commit(&[], &[write]).await.expect("made");
    }
    let mut kept = String::new();
    let mut trim = async |lines_max: usize, days: u64, fence: &[Check]| {
        let bounds = AuditBounds { lines_max, age_max: Duration::from_secs(days * DAY) };
        let keep = |text: &str| {
            kept.push_str(text);
            Ok(())
        };
        trim_audit(&**engine, fence, bounds, NOW * 1000, keep).await
    };
    assert_eq!(trim(1000, 400, &[]).await, Ok(0), "it is within its bounds");
    let not_leading = [Check::At("leader".to_owned(), 1)];
    assert_eq!(trim(1000, 200, &not_leading).await, Err(StoreError::Conflict));
    assert_eq!(lines(engine).await.len(), 250);
    assert_eq!(trim(1000, 239, &[]).await, Ok(10), "too old");
    assert_eq!(trim(20, 400, &[]).await, Ok(220), "too many");
    assert_eq!(trim(20, 400, &[]).await, Ok(0));
    let left = lines(engine).await;
    assert_eq!((left.len(), left[19].subject.as_str()), (20, "node/n0"), "the newest stay");
    // Each line is in one place or the other, oldest first; those of the failed attempt are there twice.
    let kept: Vec<serde_json::Value> =
        kept.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let subjects: Vec<_> = kept.iter().map(|line| line["subject"].clone()).skip(49).collect();
    let expected: Vec<_> = (20..250).rev().map(|day| format!("node/n{day}")).collect();
    assert_eq!(subjects[subjects.len() - expected.len()..], expected[..]);
    // Lines that can't be exported stay in the store.
    let full = |_: &str| Err(StoreError::Unavailable("the disk is full".to_owned()));
    let bounds = AuditBounds { lines_max: 1, age_max: Duration::from_secs(DAY) };
    assert!(trim_audit(&**engine, &[], bounds, NOW * 1000, full).await.is_err());
    assert_eq!(lines(engine).await.len(), 20);
}

fn title(record: &Digest, playlists: &Digest) -> PublishedTitle {
    let document = |sha256: &Digest| TitleDocument { path: "a".to_owned(), sha256: *sha256 };
    PublishedTitle {
        path: "films/a".to_owned(),
        version: *record,
        bytes: 1,
        duration_seconds: 1.0,
        record: document(record),
        hls: document(playlists),
        dash: document(playlists),
        origin: "file:///library".to_owned(),
        published_unix_seconds: NOW,
    }
}

/// Publishes, replaces or withdraws like a gateway.
async fn change(
    engine: &Arc<dyn Engine>,
    from: Option<&PublishedTitle>,
    to: Option<&PublishedTitle>,
) {
    let record = TitleRecord { published: to.cloned(), ..TitleRecord::default() };
    let mut writes = unused(from, to, NOW).expect("marks");
    writes.push(record.put("films/a").expect("a record"));
    engine.commit(&[], &writes).await.expect("made");
}

pub(crate) async fn documents_that_no_title_needs_go_after_a_week(
    engine: &Arc<dyn Engine>,
    objects: &Objects,
) {
    let engine = &engine.clone();
    let put = async |text: &'static str| {
        objects.put(Bytes::from_static(text.as_bytes())).await.expect("written")
    };
    let (old, new, both) = (put("old").await, put("new").await, put("both").await);
    let is_there = async |digest: &Digest| objects.get(digest).await.is_ok();
    let sweep = async |after: u64| sweep_documents(&**engine, objects, &[], NOW + after).await;
    let [first, second] = [title(&old, &both), title(&new, &both)];
    change(engine, None, Some(&first)).await;
    change(engine, Some(&first), Some(&second)).await;
    assert_eq!(sweep(UNUSED_SECONDS - 1).await, Ok(0), "not yet");
    assert_eq!(sweep(UNUSED_SECONDS).await, Ok(1));
    assert!(!is_there(&old).await && is_there(&new).await && is_there(&both).await);

    // Withdrawn, and then published again within the week: it stays.
    change(engine, Some(&second), None).await;
    claim(&**engine, &[new, both], NOW + DAY).await.expect("claimed");
    assert_eq!(sweep(UNUSED_SECONDS).await, Ok(0), "somebody is about to publish it");
    change(engine, None, Some(&second)).await;
    assert_eq!(sweep(UNUSED_SECONDS + DAY).await, Ok(0));
    assert!(is_there(&new).await && is_there(&both).await);

    // A mark on a document that another title needs is removed, and the document stays.
    let mark = unused(Some(&second), None, NOW).expect("marks");
    engine.commit(&[], &mark).await.expect("made");
    assert_eq!(sweep(UNUSED_SECONDS).await, Ok(0));
    assert!(is_there(&new).await && engine.list("unused/").await.expect("read").is_empty());

    // A gateway that does not lead removes nothing, and an interrupted attempt to publish leaves nothing behind.
    change(engine, Some(&second), None).await;
    let fence = [Check::At("leader".to_owned(), 1)];
    let swept = sweep_documents(&**engine, objects, &fence, NOW + UNUSED_SECONDS).await;
    assert_eq!(swept, Ok(0));
    let cut = put("cut").await;
    claim(&**engine, &[cut], NOW).await.expect("claimed");
    assert_eq!(sweep(UNUSED_SECONDS).await, Ok(3));
    assert!(!is_there(&new).await && !is_there(&both).await && !is_there(&cut).await);
    assert!(engine.list("unused/").await.expect("read").is_empty());
}
