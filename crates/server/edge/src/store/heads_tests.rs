use super::*;
use crate::store::Store;
use std::sync::Arc;
use tempfile::{TempDir, tempdir};

/// A store in a folder, with a response of this body.
fn stored(body: &[u8]) -> (TempDir, Store, StoredResponse) {
    let folder = tempdir().unwrap();
    let (store, _) = Store::open(folder.path()).unwrap();
    let request = Fields::of(&[("Accept-Language", "de, en;q=0.5"), ("Accept", "*/*")]);
    let fields = Fields::of(&[
        ("Vary", "Accept-Language, X-None"),
        ("ETag", "W/\"v1\""),
        ("Surrogate-Key", "a b"),
        ("X-Name", "Caf\u{e9}"),
        ("Cache-Control", "max-age=60, stale-if-error=30, stale-while-revalidate=20"),
    ]);
    let now = Instant::now();
    let response = StoredResponse {
        number: RESPONSES_FROM | 7,
        path: "/a?b".into(),
        origin: None,
        status: 203,
        lifetime: crate::http_cache::lifetime("/a", 203, &fields, 0, Default::default()),
        at: now - Duration::from_secs(20),
        asked_at: now - Duration::from_secs(21),
        selecting: Selecting::of(&request, &fields),
        fields,
        size: body.len() as u64,
        is_invalid: false,
        on_disk: OnDisk::default(),
    };
    if !body.is_empty() {
        let (mut file, _) = store.create_response(response.number).unwrap();
        file.write_all(body).unwrap();
    }
    (folder, store, response)
}

fn save(store: &Store, response: &StoredResponse) -> (SavedHead, Option<Hash>) {
    let naming = store.heads().naming(response.number);
    store.heads().write(response).unwrap().keep(&naming).unwrap()
}

/// What the next helper finds.
fn found(folder: &TempDir, path: &str) -> Vec<Result<StoredResponse, Damage>> {
    let (store, _) = Store::open(folder.path()).unwrap();
    let heads = store.heads();
    let Some(key) = heads.unread_at(path) else { return Vec::new() };
    let numbers = heads.unread(key).unwrap();
    numbers.into_iter().map(|number| heads.read(number, key)).collect()
}

fn head_path(folder: &TempDir) -> PathBuf {
    let files = fs::read_dir(folder.path().join("objects")).unwrap().flatten();
    let mut heads =
        files.map(|file| file.path()).filter(|path| path.extension() == Some(HEAD.as_ref()));
    heads.next().expect("a head")
}

fn names(folder: &TempDir) -> usize {
    fs::read_dir(folder.path().join("objects")).unwrap().count()
}

#[test]
fn a_later_helper_finds_a_response_with_its_age_and_what_selects_it() {
    // Times are saved in milliseconds, and between two looks at a clock time may pass.
    const ROUNDED: Duration = Duration::from_millis(5);
    for body in [&b"body"[..], &[], &vec![7; BLOCK_BYTES as usize + 3]] {
        let start = Instant::now();
        let (folder, store, response) = stored(body);
        save(&store, &response);
        assert!(found(&folder, "/a").is_empty(), "another path");
        let found = found(&folder, "/a?b").pop().unwrap().unwrap();
        let StoredResponse { number, path, status, fields, selecting, size, .. } = response.clone();
        assert_eq!((found.number, found.path, found.status), (number, path, status));
        assert_eq!((found.fields, &found.selecting, found.size), (fields, &selecting, size));
        assert_eq!((found.lifetime, found.is_invalid), (response.lifetime, false));
        assert!(found.at + ROUNDED >= response.at);
        assert!(found.at <= response.at + (Instant::now() - start) + ROUNDED);
        assert_eq!(found.at - found.asked_at, Duration::from_secs(1));
        assert!(selecting.matches(&selecting.as_request()));
        assert_eq!(found.on_disk.unverified().is_some(), !body.is_empty());
    }
}

#[test]
fn every_spelling_of_a_path_has_one_key() {
    assert_eq!(key_of("/%C3%A9"), key_of("/e%CC%81"));
    assert_ne!(key_of("/a"), key_of("/a?"));
}

#[test]
fn a_damaged_head_or_body_is_found_out() {
    let (folder, store, response) = stored(b"body");
    save(&store, &response);
    let path = head_path(&folder);
    let right = fs::read(&path).unwrap();
    let damage = || found(&folder, "/a?b").pop().unwrap().err();
    assert_eq!(damage(), None);
    for at in 0..right.len() {
        let mut wrong = right.clone();
        wrong[at] ^= 1 << (at % 8);
        fs::write(&path, &wrong).unwrap();
        assert_eq!(damage(), Some(Damage::Head), "{at}");
        fs::write(&path, &right[..at]).unwrap();
        assert_eq!(damage(), Some(Damage::Head), "the first {at} bytes");
    }
    fs::write(&path, &right).unwrap();
    let body = store.heads().body_name(response.number);
    fs::write(&body, b"bod").unwrap();
    assert_eq!(damage(), Some(Damage::Body));
    fs::write(&body, b"Body").unwrap();
    let found = found(&folder, "/a?b").pop().unwrap().unwrap();
    let hash = hash_of(&File::open(&body).unwrap(), 4).unwrap();
    assert_ne!(found.on_disk.unverified(), Some(&hash), "its first use finds out");
    fs::remove_file(&body).unwrap();
    assert_eq!(damage(), Some(Damage::Body));
}

/// The checksum is right, so someone has made it.
#[test]
fn nothing_in_a_head_is_trusted() {
    let (folder, store, response) = stored(b"body");
    save(&store, &response);
    let path = head_path(&folder);
    let text = fs::read_to_string(&path).unwrap();
    let right: serde_json::Value = serde_json::from_str(&text[65..]).unwrap();
    let read = |name: &str, value: serde_json::Value| {
        let mut head = right.clone();
        head[name] = value;
        let json = head.to_string();
        let hash = HEXLOWER.encode(digest(&SHA256, json.as_bytes()).as_ref());
        fs::write(&path, format!("{hash} {json}\n")).unwrap();
        found(&folder, "/a?b").pop().unwrap()
    };
    assert!(read("status", 200.into()).is_ok());
    let long = "x".repeat(HEAD_BYTES_MAX as usize);
    for (name, value) in [
        ("version", 2.into()),
        ("version", serde_json::Value::Null),
        ("path", "/other".into()),
        ("path", "a".into()),
        ("status", 304.into()),
        ("status", 206.into()),
        ("status", 99.into()),
        ("status", 70_000.into()),
        ("fields", serde_json::json!([["A", "b\r\nC: d"]])),
        ("fields", serde_json::json!([["Connection", "close"]])),
        ("fields", serde_json::json!([["Content-Length", "1"], ["Content-Length", "2"]])),
        ("fields", serde_json::json!([["A", long]])),
        ("sha256", "00".into()),
        ("sha256", serde_json::Value::Null),
        ("size", (-1).into()),
        ("selecting", 1.into()),
        ("said", serde_json::json!({})),
    ] {
        assert_eq!(read(name, value.clone()).err(), Some(Damage::Head), "{name} {value}");
    }
    let huge = read("size", u64::MAX.into());
    assert_eq!(huge.err(), Some(Damage::Head));
    for name in ["age_ms", "fresh_ms", "if_error_ms", "asked_ms_before"] {
        let found = read(name, u64::MAX.into()).unwrap();
        let now = Instant::now();
        let _ = (found.age(now), found.stale_for(now), found.is_worth_saving());
    }
    for unix_ms in [i64::MIN, i64::MAX] {
        let said = |boot: &str| serde_json::json!({"unix_ms": unix_ms, "boot": boot, "since_boot_ms": unix_ms});
        for boot in [right["said"]["boot"].as_str().unwrap(), "another"] {
            let found = read("said", said(boot)).unwrap();
            assert!(found.is_invalid, "its age is unknown: {boot}");
        }
    }
    fs::write(&path, &text).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    fs::rename(&path, path.with_file_name(name.replacen('8', "0", 1))).unwrap();
    assert_eq!(found(&folder, "/a?b").pop().unwrap().err(), Some(Damage::Head), "a film's number");
}

#[test]
fn of_two_heads_with_one_number_only_one_is_read() {
    let (folder, store, response) = stored(b"body");
    save(&store, &response);
    let forged = StoredResponse { path: "/other".into(), ..response.clone() };
    save(&store, &forged);
    assert_eq!(names(&folder), 3, "two heads, and the body");
    let found = [&response, &forged].map(|one| found(&folder, &one.path).len());
    assert_eq!((found.iter().sum::<usize>(), names(&folder)), (1, 2));
}

#[test]
fn a_head_or_a_body_that_is_no_regular_file_is_not_read() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let (folder, store, response) = stored(b"body");
    save(&store, &response);
    let body = store.heads().body_name(response.number);
    assert!(store.open_response(response.number).is_ok());
    for (file, damage) in [(body, Damage::Body), (head_path(&folder), Damage::Head)] {
        let moved = folder.path().join("moved");
        fs::rename(&file, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &file).unwrap();
        assert_eq!(found(&folder, "/a?b").pop().unwrap().err(), Some(damage), "a link");
        assert!(damage == Damage::Head || store.open_response(response.number).is_err());
        fs::remove_file(&file).unwrap();
        mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(found(&folder, "/a?b").pop().unwrap().err(), Some(damage), "a FIFO");
        assert!(damage == Damage::Head || store.open_response(response.number).is_err());
        fs::rename(&moved, &file).unwrap();
    }
    assert!(found(&folder, "/a?b").pop().unwrap().is_ok());
}

#[test]
fn a_response_that_changes_while_it_is_saved_is_saved_again() {
    let (_folder, store, response) = stored(b"body");
    let mut responses = crate::store::Responses::default();
    let number = response.number;
    assert!(responses.restore(response).is_empty());
    let before = responses.current(number).unwrap();
    let saved = save(&store, &before);
    responses.make_stale(number, Instant::now());
    assert!(!responses.note_saved(&before, saved), "this head is fresh");
    let stale = responses.current(number).unwrap();
    assert!(stale.is_worth_saving() && !stale.on_disk.is_saved());
    assert!(responses.note_saved(&stale, save(&store, &stale)));
    let saved = responses.current(number).unwrap();
    assert!(saved.on_disk.is_saved() && !saved.is_worth_saving());
}

#[test]
fn a_soft_purge_leaves_no_head_of_a_response_whose_age_is_not_known() {
    let (_folder, store, mut response) = stored(b"body");
    let mut responses = crate::store::Responses::default();
    let (saved, hash) = save(&store, &response);
    // As it is found while the wall clock is behind.
    response.is_invalid = true;
    response.on_disk.note_saved(saved, hash);
    let number = response.number;
    assert!(responses.restore(response).is_empty());
    assert!(responses.current(number).unwrap().on_disk.is_saved());
    responses.make_stale(number, Instant::now());
    let current = responses.current(number).unwrap();
    assert!(!current.on_disk.is_saved() && !current.is_worth_saving(), "so its head goes");
}

#[test]
fn a_confirmation_keeps_what_is_known_of_the_files() {
    let (_folder, store, response) = stored(b"body");
    let mut responses = crate::store::Responses::default();
    let (request, path) = (response.selecting.as_request(), response.path.clone());
    assert!(responses.restore(response.clone()).is_empty());
    let current = responses.current(response.number).unwrap();
    // While the origin is asked.
    assert!(responses.note_saved(&current, save(&store, &current)));
    let asked = responses.epoch(&path);
    assert!(
        responses.renew(StoredResponse { status: 200, ..response }, &request, asked).is_empty()
    );
    let renewed = responses.current(current.number).unwrap();
    assert!(renewed.status == 200 && renewed.on_disk.is_saved());
}

#[test]
fn a_head_that_does_not_count_leaves_nothing_behind() {
    let (folder, store, response) = stored(b"body");
    drop(store.heads().write(&response).unwrap());
    assert_eq!(names(&folder), 1, "the body");
    save(&store, &response);
    save(&store, &StoredResponse { status: 200, ..response.clone() });
    assert_eq!(names(&folder), 2);
    assert_eq!(found(&folder, "/a?b").pop().unwrap().unwrap().status, 200, "the later one");
    store.remove_response(response.number);
    assert_eq!(names(&folder), 0);
}

#[test]
fn bodies_without_heads_are_removed_once_all_heads_are_read() {
    let (folder, first, response) = stored(b"body");
    save(&first, &response);
    // As a release without heads has left it.
    let objects = folder.path().join("objects");
    fs::write(objects.join("f000000000000000.response"), "old").unwrap();
    fs::write(objects.join("notes.response"), "of others").unwrap();
    let (store, _) = Store::open(folder.path()).unwrap();
    let heads = store.heads();
    let [key] = heads.unread_keys()[..] else { panic!("one key") };
    assert!(heads.take(key) && !heads.take(key));
    heads.note_all_read();
    heads.wait_until_read();
    assert!(heads.are_read() && heads.unread_at("/a?b").is_none());
    assert_eq!(names(&folder), 3, "the head, its body, and what is of others");
}

#[test]
fn a_head_is_written_again_if_it_would_allow_more_or_is_much_older() {
    let (_folder, _store, first) = stored(b"body");
    assert!(first.is_worth_saving());
    let mut saved = first.clone();
    saved.on_disk.note_saved(SavedHead::of(&first), None);
    assert!(!saved.is_worth_saving());
    let later = |seconds: u64, change: &dyn Fn(&mut StoredResponse)| {
        let mut later = saved.clone();
        later.at += Duration::from_secs(seconds);
        change(&mut later);
        later.is_worth_saving()
    };
    let with = |name: &'static str, value: &'static str| {
        move |one: &mut StoredResponse| {
            one.fields.remove(|other| other.eq_ignore_ascii_case(name));
            one.fields.push(name, value);
        }
    };
    assert!(!later(11, &|_| {}) && later(12, &|_| {}), "an eighth of its 90 seconds is gone");
    assert!(later(1, &|one| one.lifetime.fresh -= Duration::from_secs(5)), "it ends earlier");
    assert!(later(1, &|one| one.lifetime.may_be_stale = !one.lifetime.may_be_stale));
    assert!(!later(9, &with("Date", "now")) && !later(9, &with("X-Name", "other")));
    assert!(later(1, &with("Surrogate-Key", "c")), "a purge would miss it");
    let lasting =
        |one: &mut StoredResponse| one.lifetime.if_unreachable = Duration::from_secs(3600);
    assert!(!later(59, &lasting));
    assert!(later(60, &|one| (lasting(one), with("X-Name", "other")(one)).1));
    assert!(!later(99, &|one| one.is_invalid = true));
    let mut brief = first.clone();
    brief.lifetime = Freshness { fresh: Duration::from_millis(250), ..brief.lifetime };
    (brief.lifetime.if_unreachable, brief.lifetime.if_error) = Default::default();
    brief.lifetime.while_revalidating = Duration::ZERO;
    assert!(brief.is_worth_saving(), "it can be confirmed");
    brief.fields.remove(|name| name == "ETag");
    assert!(!brief.is_worth_saving());
}

#[test]
fn no_password_and_no_cookie_is_written() {
    let (_folder, _store, response) = stored(b"body");
    let fields = Fields::of(&[("Vary", "Cookie, Authorization")]);
    for (request, is_written) in [
        (Fields::default(), true),
        (Fields::of(&[("Cookie", "a=b")]), false),
        (Fields::of(&[("Authorization", "Basic YQ==")]), false),
    ] {
        let selecting = Selecting::of(&request, &fields);
        let one = StoredResponse { selecting, ..response.clone() };
        assert_eq!(one.is_worth_saving(), is_written, "{request:?}");
    }
}

#[test]
fn of_two_heads_of_one_variant_the_later_one_stays() {
    let (_folder, _store, response) = stored(b"body");
    let mut responses = crate::store::Responses::default();
    let second = response.asked_at + Duration::from_secs(5);
    let newer =
        StoredResponse { number: response.number + 1, asked_at: second, ..response.clone() };
    assert!(responses.restore(response.clone()).is_empty());
    assert_eq!(responses.restore(newer.clone()), [response.number]);
    assert_eq!(responses.restore(response.clone()), [response.number], "it came late");
    let request = response.selecting.as_request();
    let found = responses.find(&response.path, &request).map(|one: Arc<_>| one.number);
    assert_eq!(found, Some(newer.number));
}
