//! The promises of every engine. Each test gets two engines on one store, as two gateways have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fullbore_store::{
    COMMIT_BYTES_MAX, COMMIT_OPERATIONS_MAX, Check, Engine, KEY_BYTES_MAX, StoreError,
    VALUE_BYTES_MAX, Write,
};

/// Two gateways' engines on one store.
pub(crate) type Two = (Arc<dyn Engine>, Arc<dyn Engine>);

pub(crate) fn put(key: &str, value: &str) -> Write {
    Write::Put(key.to_owned(), value.as_bytes().to_vec())
}

pub(crate) fn delete(key: &str) -> Write {
    Write::Delete(key.to_owned())
}

pub(crate) fn absent(key: &str) -> Check {
    Check::Absent(key.to_owned())
}

pub(crate) async fn value(engine: &Arc<dyn Engine>, key: &str) -> Option<String> {
    let entry = engine.get(key).await.expect("the store answers");
    entry.map(|entry| String::from_utf8(entry.value).expect("a text"))
}

async fn keys(engine: &Arc<dyn Engine>, prefix: &str) -> Vec<String> {
    let list = engine.list(prefix).await.expect("the store answers");
    list.into_iter().map(|(key, _)| key).collect()
}

/// All tests, one after another, on a store that is empty at first.
pub(crate) async fn all(two: Two) {
    what_one_writes_the_other_reads(&two).await;
    a_commit_is_made_whole_or_not_at_all(&two).await;
    a_list_has_all_of_a_prefix_sorted(&two).await;
    a_list_is_of_one_moment(&two).await;
    bounds_hold(&two).await;
    two_who_change_one_thing_lose_nothing(&two).await;
    a_lease_has_one_owner(&two).await;
    an_ended_lease_is_taken_by_another(&two).await;
}

async fn what_one_writes_the_other_reads((one, other): &Two) {
    assert_eq!(value(other, "node/a").await, None);
    let before = other.revision().await.expect("a revision");
    let made = one.commit(&[], &[put("node/a", "1"), put("node/b", "")]).await.expect("made");
    assert!(made > before);
    assert_eq!(other.revision().await, Ok(made));
    let entry = other.get("node/a").await.expect("it answers").expect("it is there");
    assert_eq!((entry.value.as_slice(), entry.revision), (b"1".as_slice(), made));
    assert_eq!(value(other, "node/b").await.as_deref(), Some(""));
    let later = other.commit(&[], &[delete("node/a"), delete("node/none")]).await.expect("made");
    assert!(later > made);
    assert_eq!(value(one, "node/a").await, None);
    let kept = one.get("node/b").await.expect("it answers").expect("it is there");
    assert_eq!(kept.revision, made, "the revision of its own last change");
}

async fn a_commit_is_made_whole_or_not_at_all((one, other): &Two) {
    let made = one.commit(&[absent("c/1")], &[put("c/1", "a")]).await.expect("made");
    let stale = Check::At("c/1".to_owned(), made);
    other.commit(std::slice::from_ref(&stale), &[put("c/1", "b")]).await.expect("made");
    let before = one.revision().await;
    let cases = [
        vec![absent("c/1")],
        vec![stale],
        vec![absent("c/none"), absent("c/1")],
        vec![Check::At("c/none".to_owned(), made)],
    ];
    for checks in cases {
        let writes = [put("c/1", "lost"), put("c/2", "lost"), delete("node/b")];
        assert_eq!(one.commit(&checks, &writes).await, Err(StoreError::Conflict), "{checks:?}");
    }
    assert_eq!(value(other, "c/1").await.as_deref(), Some("b"));
    assert_eq!(value(other, "c/2").await, None);
    assert_eq!(value(other, "node/b").await.as_deref(), Some(""));
    assert_eq!(one.revision().await, before);
}

async fn a_list_has_all_of_a_prefix_sorted((one, other): &Two) {
    let odd = ["title/a", "title/a b", "title/a/b", "title/säge", "title/\u{10ffff}"];
    let writes: Vec<_> = odd.iter().rev().map(|key| put(key, key)).collect();
    one.commit(&[], &writes).await.expect("made");
    one.commit(&[], &[put("titles", ""), put("titl", "")]).await.expect("made");
    assert_eq!(keys(other, "title/").await, odd);
    assert_eq!(keys(other, "title/a").await, &odd[..3]);
    assert_eq!(keys(other, "none/").await, Vec::<String>::new());
    let all = keys(other, "").await;
    assert!(all.is_sorted() && all.len() == odd.len() + 2 + 2, "{all:?}");
    assert_eq!(value(other, "title/säge").await.as_deref(), Some("title/säge"));
}

/// More than one page, while all of it is changed again and again: each list has equal values.
async fn a_list_is_of_one_moment((one, other): &Two) {
    let all = |round: usize| {
        (0..COMMIT_OPERATIONS_MAX).map(move |at| put(&format!("page/{at:04}"), &round.to_string()))
    };
    one.commit(&[], &all(0).collect::<Vec<_>>()).await.expect("made");
    let writer = one.clone();
    let changing = tokio::spawn(async move {
        for round in 1..=20 {
            writer.commit(&[], &all(round).collect::<Vec<_>>()).await.expect("made");
        }
    });
    while !changing.is_finished() {
        let list = other.list("page/").await.expect("it answers");
        assert_eq!(list.len(), COMMIT_OPERATIONS_MAX);
        assert!(list.windows(2).all(|two| two[0].1 == two[1].1), "of two moments");
    }
    changing.await.expect("no panic");
}

async fn bounds_hold((one, _): &Two) {
    let large = |bytes: usize| Write::Put("large".to_owned(), vec![b'x'; bytes]);
    one.commit(&[], &[large(VALUE_BYTES_MAX)]).await.expect("just fits");
    let long = "k".repeat(KEY_BYTES_MAX);
    one.commit(&[], &[put(&long, ""), delete("large")]).await.expect("just fits");
    one.commit(&[], &[delete(&long)]).await.expect("made");
    let half = |key: &str| Write::Put(key.to_owned(), vec![b'x'; COMMIT_BYTES_MAX / 2]);
    let many: Vec<_> = (0..=COMMIT_OPERATIONS_MAX).map(|at| put(&at.to_string(), "")).collect();
    let before = one.revision().await;
    let cases = [
        vec![large(VALUE_BYTES_MAX + 1)],
        vec![half("a"), half("b")],
        many,
        vec![put("", "")],
        vec![put("line\nbreak", "")],
        vec![put(&format!("{long}k"), "")],
        vec![put("twice", "1"), delete("twice")],
    ];
    for (at, writes) in cases.iter().enumerate() {
        let error = one.commit(&[], writes).await.expect_err("out of bounds");
        assert!(matches!(error, StoreError::TooLarge(_)), "case {at}: {error}");
    }
    assert_eq!(one.revision().await, before);
}

/// Both increment a number until each has done so 25 times.
async fn two_who_change_one_thing_lose_nothing((one, other): &Two) {
    async fn count(engine: Arc<dyn Engine>) {
        let mut done = 0;
        while done < 25 {
            let entry = engine.get("number").await.expect("it answers").expect("it is there");
            let number: u32 = String::from_utf8_lossy(&entry.value).parse().expect("a number");
            let check = Check::At("number".to_owned(), entry.revision);
            match engine.commit(&[check], &[put("number", &(number + 1).to_string())]).await {
                Ok(_) => done += 1,
                Err(StoreError::Conflict) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    one.commit(&[], &[put("number", "0")]).await.expect("made");
    let both = [tokio::spawn(count(one.clone())), tokio::spawn(count(other.clone()))];
    for task in both {
        task.await.expect("no panic");
    }
    assert_eq!(value(one, "number").await.as_deref(), Some("50"));
}

/// A lease in seconds that outlasts the test on any machine.
const LONG: u32 = 600;

async fn a_lease_has_one_owner((one, other): &Two) {
    let term = one.lease("leader", "one", LONG).await.expect("it answers").expect("nobody has it");
    assert_eq!(value(other, "leader").await.as_deref(), Some("one"));
    assert_eq!(other.lease("leader", "other", LONG).await, Ok(None));
    let before = one.revision().await;
    assert_eq!(before, Ok(term), "taking it is a change: gateways see who leads");
    assert_eq!(one.lease("leader", "one", LONG).await, Ok(Some(term)));
    assert_eq!(one.revision().await, before, "renewing it changes nothing");
    let fence = [Check::At("leader".to_owned(), term)];
    one.commit(&fence, &[put("plan", "one's")]).await.expect("it leads");
    // One resigns: the other leads at once, and a late write of the first as leader is refused.
    one.commit(&fence, &[delete("leader")]).await.expect("it leads");
    let next = other.lease("leader", "other", LONG).await.expect("it answers").expect("it is free");
    assert!(next > term);
    assert_eq!(one.commit(&fence, &[put("plan", "late")]).await, Err(StoreError::Conflict));
    assert_eq!(one.lease("leader", "one", LONG).await, Ok(None));
    let fence = [Check::At("leader".to_owned(), next)];
    other.commit(&fence, &[delete("leader")]).await.expect("it leads");
}

async fn an_ended_lease_is_taken_by_another((one, other): &Two) {
    // 2 s is the shortest lease in etcd.
    let term = one.lease("short", "one", 2).await.expect("it answers").expect("nobody has it");
    let ends = tokio::time::Instant::now() + Duration::from_secs(60);
    let next = loop {
        assert!(tokio::time::Instant::now() < ends, "it never ends");
        if let Some(next) = other.lease("short", "other", LONG).await.expect("it answers") {
            break next;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(next > term);
    assert_eq!(one.lease("short", "one", 2).await, Ok(None));
    let stale = Check::At("short".to_owned(), term);
    assert_eq!(one.commit(&[stale], &[put("plan", "late")]).await, Err(StoreError::Conflict));
    let ends = tokio::time::Instant::now() + Duration::from_secs(60);
    other.lease("brief", "other", 2).await.expect("it answers").expect("nobody has it");
    while value(one, "brief").await.is_some() {
        assert!(tokio::time::Instant::now() < ends, "nobody renews it, and it is still seen");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    one.commit(&[absent("brief")], &[put("plan", "free")]).await.expect("it has ended");
}

/// Random commits on an engine and on a map in memory: both end with the same entries.
pub(crate) async fn behaves_like_a_map(engine: &Arc<dyn Engine>, commits: u64) {
    let mut map = BTreeMap::<String, (String, u64)>::new();
    // A sequence of Knuth's, the same in each run: 32 bits at a time.
    let mut state = 7_u64;
    let mut draw = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for round in 0..commits {
        let key = |draw: u64| format!("map/{draw}");
        let checked = key(draw(8));
        let held = map.get(&checked).map(|(_, revision)| *revision);
        let holds = draw(3) > 0;
        let check = match (held, holds) {
            (Some(revision), true) => Check::At(checked, revision),
            (None, true) | (Some(_), false) => Check::Absent(checked),
            (None, false) => Check::At(checked, 1),
        };
        let mut writes = BTreeMap::new();
        for _ in 0..draw(4) {
            writes.insert(key(draw(8)), (draw(3) > 0).then(|| round.to_string()));
        }
        let commit: Vec<_> = writes
            .iter()
            .map(|(key, value)| value.as_ref().map_or_else(|| delete(key), |value| put(key, value)))
            .collect();
        let made = engine.commit(&[check], &commit).await;
        assert_eq!(made.is_ok(), holds, "{made:?}");
        let Ok(revision) = made else { continue };
        for (key, value) in writes {
            match value {
                Some(value) => map.insert(key, (value, revision)),
                None => map.remove(&key),
            };
        }
        let list = engine.list("map/").await.expect("it answers");
        let list: Vec<_> = list
            .into_iter()
            .map(|(key, entry)| {
                (key, (String::from_utf8(entry.value).expect("a text"), entry.revision))
            })
            .collect();
        assert_eq!(list, map.clone().into_iter().collect::<Vec<_>>(), "round {round}");
    }
}
