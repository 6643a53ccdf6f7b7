//! The helper's end of a link is a socket of the test.

use super::*;
use fullbore_tests::until;
use std::os::fd::AsFd;

const HOUR_MS: u64 = 3_600_000;

const WANTED: Wanted<'static> = Wanted { offset: 0, asker: 1, request: &ForwardedRequest::get };

/// A link, and the helper's end of its socket.
fn link() -> (Arc<EdgeLink>, OwnedFd) {
    let (ours, helpers) = packets::pair().unwrap();
    let lock = tempfile::tempfile().unwrap();
    (EdgeLink::start(ours, lock, 1, (100, 1 << 28), vec!["http://origin".into()]).unwrap(), helpers)
}

/// Result of looking `path` up; `None` if the helper has to be asked.
fn looked(link: &EdgeLink, path: &str, since: Instant) -> Option<Result<Arc<Cached>, NoAnswer>> {
    match link.look(path, &WANTED, since, IpAddr::from([192, 0, 2, 1])) {
        Ok(Looked::Found(cached)) => Some(Ok(cached)),
        Ok(Looked::Waits(_)) => None,
        Err(why) => Some(Err(why)),
    }
}

/// Reports an object, and waits until it is known.
fn tell(link: &EdgeLink, helper: &OwnedFd, path: &str, object: u64, terms_ms: (u64, u64)) {
    tell_of(link, helper, described(path, object, terms_ms));
}

fn described(path: &str, object: u64, terms_ms: (u64, u64)) -> Described {
    Described {
        present: None,
        path: path.into(),
        object,
        size: 1,
        etag: "\"x\"".into(),
        content_type: None,
        modified: None,
        is_date_strong: false,
        cache_control: None,
        fresh_ms: terms_ms.0,
        stale_ms: terms_ms.1,
        revalidating_ms: 0,
        age_ms: 0,
        is_stale: false,
        expired_ms: 0,
        origin: None,
        is_new: false,
        fields: edge::http_cache::Fields::default(),
    }
}

fn tell_of(link: &EdgeLink, helper: &OwnedFd, described: Described) {
    let (before, path) = (Instant::now(), described.path.clone());
    let file = tempfile::tempfile().unwrap();
    packets::send(helper, &EdgeTold::Object(described), Some(file.as_fd())).unwrap();
    until("the object to be known", || looked(link, &path, before).is_some());
}

fn status(link: &EdgeLink, path: &str) -> Option<Result<u64, NoAnswer>> {
    looked_at(link, path, Instant::now())
}

/// The number of the object that a viewer gets whose request came at `since`.
fn looked_at(link: &EdgeLink, path: &str, since: Instant) -> Option<Result<u64, NoAnswer>> {
    Some(looked(link, path, since)?.map(|cached| cached.live.number))
}

#[test]
fn without_a_helper_what_is_stale_is_served_only_while_the_origin_allows_it() {
    let (link, helper) = link();
    tell(&link, &helper, "/fresh", 1, (HOUR_MS, 0));
    tell(&link, &helper, "/stale", 2, (0, HOUR_MS));
    tell(&link, &helper, "/short", 3, (0, 1));
    tell(&link, &helper, "/strict", 4, (0, 0));
    // sleeps: what may be used for a millisecond has to be older than that
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(status(&link, "/stale"), None, "the helper is asked first");
    assert_eq!(link.trouble(), None);
    drop(helper);
    until("the helper to be missed", || link.trouble().is_some());
    assert_eq!(status(&link, "/fresh"), Some(Ok(1)));
    assert_eq!(status(&link, "/stale"), Some(Ok(2)));
    for path in ["/short", "/strict", "/unknown"] {
        assert_eq!(status(&link, path), Some(Err(Trouble::Unreachable.into())), "{path}");
    }
    let since = Instant::now();
    let is_stale = |path| looked(&link, path, since).unwrap().ok().unwrap().is_stale(since);
    assert!(is_stale("/stale") && !is_stale("/fresh"));
    assert!(link.trouble().unwrap().contains("restart the server"));
}

#[test]
fn while_it_is_revalidated_a_film_is_served_if_the_origin_allows_it() {
    let (link, helper) = link();
    for (path, object, revalidating_ms) in [("/later", 1, HOUR_MS), ("/first", 2, 0)] {
        tell_of(&link, &helper, Described { revalidating_ms, ..described(path, object, (0, 0)) });
    }
    // What the helper is asked about until it is asked about `last`.
    let asked_until = |last: &str| {
        assert_eq!(status(&link, last), None);
        let (mut buffer, mut asked) = (Vec::new(), Vec::new());
        while asked.last().is_none_or(|path| path != last) {
            let (ask, _) = packets::receive::<EdgeAsk>(&helper, &mut buffer).unwrap().unwrap();
            let EdgeAsk::Open { path, .. } = ask else { panic!("{ask:?}") };
            asked.push(path);
        }
        asked
    };
    // Viewers may have asked before the objects were known.
    asked_until("/known");
    assert_eq!(status(&link, "/first"), None);
    assert_eq!(status(&link, "/later"), Some(Ok(1)), "its viewer does not wait");
    assert_eq!(status(&link, "/later"), Some(Ok(1)), "nor does the next one");
    assert_eq!(asked_until("/last"), ["/first", "/later", "/last"]);
    tell(&link, &helper, "/later", 4, (HOUR_MS, 0));
    until("the answer to count for all", || status(&link, "/later") == Some(Ok(4)));
    packets::send(&helper, &EdgeTold::Stale { object: 4 }, None).unwrap();
    until("it to be stale", || status(&link, "/later").is_none());
}

#[test]
fn a_helper_that_cannot_begin_keeps_nobody_waiting_and_the_next_one_is_asked() {
    let (link, helper) = link();
    let pass = || {
        link.pass(
            "/a".into(),
            (1, Instant::now(), ForwardedRequest::get()),
            IpAddr::from([192, 0, 2, 1]),
        )
    };
    assert_eq!(status(&link, "/a"), None);
    let said = "objects is a file".to_owned();
    packets::send(&helper, &EdgeTold::CannotBegin { said }, None).unwrap();
    until("the helper to be missed", || link.trouble().is_some());
    assert!(link.trouble().unwrap().contains("objects is a file"));
    assert_eq!(status(&link, "/a"), Some(Err(Trouble::Unreachable.into())));
    assert_eq!(pass().err(), Some(Trouble::Unreachable.into()));
    packets::send(&helper, &EdgeTold::Began, None).unwrap();
    until("the next helper", || link.trouble().is_none());
    assert_eq!(status(&link, "/a"), None);
    assert!(pass().is_ok());
}

#[test]
fn a_question_that_cannot_be_sent_is_refused_and_the_next_one_is_sent() {
    let (link, helper) = link();
    let client = IpAddr::from([192, 0, 2, 1]);
    let huge = || {
        let value = "a".repeat(packets::PACKET_BYTES_MAX);
        let fields = edge::http_cache::Fields::of(&[("A", &value)]);
        ForwardedRequest { fields, ..ForwardedRequest::get() }
    };
    let since = Instant::now();
    let wanted = Wanted { offset: 0, asker: 1, request: &huge };
    let looked = link.look("/a", &wanted, since, client);
    assert!(matches!(looked, Ok(Looked::Waits(_))));
    let answer = || looked_at(&link, "/a", since);
    until("it to be refused", || answer() == Some(Err(Trouble::Wrong.into())));
    let ticket = link.pass("/b".into(), (2, Instant::now(), huge()), client).unwrap();
    let mut answer = None;
    until("it to be refused", || {
        answer = ticket.answer();
        answer.is_some()
    });
    assert_eq!(answer.unwrap().err(), Some(Trouble::Wrong.into()));
    let _small =
        link.pass("/c".into(), (3, Instant::now(), ForwardedRequest::get()), client).unwrap();
    let (asked, _) = packets::receive::<EdgeAsk>(&helper, &mut Vec::new()).unwrap().unwrap();
    assert!(matches!(asked, EdgeAsk::Pass { ref path, .. } if path == "/c"), "{asked:?}");
    assert_eq!(link.failures().get(Trouble::Wrong.as_str()), Some(&2));
}

#[test]
fn what_is_made_stale_is_revalidated_also_by_a_worker_that_had_it_open() {
    let (link, helper) = link();
    tell(&link, &helper, "/film", 1, (HOUR_MS, HOUR_MS));
    let Some(Ok(held)) = looked(&link, "/film", Instant::now()) else { panic!("it is known") };
    tell(&link, &helper, "/other", 2, (HOUR_MS, HOUR_MS));
    link.table().bound(1);
    assert!(held.is_fresh(Instant::now()), "the table has forgotten it, the worker has not");
    packets::send(&helper, &EdgeTold::Stale { object: 1 }, None).unwrap();
    until("it to be stale", || !held.is_fresh(Instant::now()));
    assert!(held.may_be_stale(Instant::now()) && held.is_stale(Instant::now()));
    tell(&link, &helper, "/film", 1, (HOUR_MS, 0));
    assert_eq!(status(&link, "/film"), Some(Ok(1)), "the origin has confirmed it");
}

#[test]
fn what_a_request_has_changed_is_revalidated_also_by_a_worker_that_had_it_open() {
    let (link, helper) = link();
    tell(&link, &helper, "/film", 1, (HOUR_MS, HOUR_MS));
    let Some(Ok(held)) = looked(&link, "/film", Instant::now()) else { panic!("it is known") };
    tell(&link, &helper, "/other", 2, (HOUR_MS, HOUR_MS));
    link.table().bound(1);
    let now = Instant::now();
    assert!(held.is_fresh(now), "the table has forgotten it, the worker has not");
    let invalid = EdgeTold::Invalid { path: "/film".into(), object: Some(1) };
    packets::send(&helper, &invalid, None).unwrap();
    until("it to be invalid", || !held.is_fresh(now));
    assert!(!held.may_be_stale(now), "not even if the origin can't be reached");
    tell(&link, &helper, "/film", 1, (HOUR_MS, 0));
    assert_eq!(status(&link, "/film"), Some(Ok(1)), "the origin has confirmed it");
}

#[test]
fn while_many_questions_wait_what_is_stale_is_served_where_the_origin_allows_it() {
    let (link, helper) = link();
    for number in 0..80 {
        tell(&link, &helper, &format!("/film{number}"), number + 1, (0, 0));
    }
    tell(&link, &helper, "/lax", 1000, (0, HOUR_MS));
    tell(&link, &helper, "/strict", 1001, (0, 0));
    assert_eq!(status(&link, "/lax"), None, "there is time to ask");
    let client = |number: u8| IpAddr::from([192, 0, 2, number]);
    let ask = |number: u8| {
        let path = format!("/film{number}");
        let looked = link.look(&path, &WANTED, Instant::now(), client(number));
        let Ok(looked) = looked else { panic!("there is room for all of them") };
        looked
    };
    let waiting: Vec<_> = (0..80).map(ask).collect();
    assert!(link.waiting() > 32, "{}", link.waiting());
    assert_eq!(status(&link, "/lax"), Some(Ok(1000)));
    assert_eq!(status(&link, "/strict"), None);
    assert_eq!(status(&link, "/new"), None, "that is asked in a place of its own");
    drop(waiting);
    assert_eq!(link.waiting(), 0, "no viewer waits for them any more");
    assert_eq!(status(&link, "/lax"), None);
}

#[test]
fn a_request_whose_viewer_has_left_keeps_its_turn_until_the_helper_has_stopped() {
    let (link, helper) = link();
    let client = IpAddr::from([192, 0, 2, 1]);
    let pass = |number: u64| {
        link.pass(format!("/{number}"), (number, Instant::now(), ForwardedRequest::get()), client)
            .unwrap()
    };
    let asked = || packets::receive::<EdgeAsk>(&helper, &mut Vec::new()).unwrap().unwrap().0;
    let mut tickets: Vec<_> = (0..12).map(pass).collect();
    for _ in 0..tickets.len() {
        assert!(matches!(asked(), EdgeAsk::Pass { .. }));
    }
    let waiting = pass(12);
    let left = tickets.pop().map(|ticket| ticket.number).unwrap();
    assert_eq!(asked(), EdgeAsk::Left { ticket: left });
    assert!(!waiting.is_under_way(), "one client has 12 turns");
    packets::send(&helper, &EdgeTold::Stopped { ticket: left }, None).unwrap();
    assert!(matches!(asked(), EdgeAsk::Pass { ref path, .. } if path == "/12"));
    assert!(link.failures().is_empty(), "that is no failure");
}

#[test]
fn what_may_be_about_one_viewers_request_answers_only_that_viewer() {
    let (link, helper) = link();
    let since = Instant::now();
    let ask = |asker: u64| {
        let wanted = Wanted { asker, ..WANTED };
        match link.look("/film", &wanted, since, IpAddr::from([192, 0, 2, 1])) {
            Ok(Looked::Waits(waiting)) => waiting,
            _ => panic!("the helper has to be asked"),
        }
    };
    let (first, second) = (ask(1), ask(2));
    let refused = |for_ms| {
        let path = "/film".into();
        EdgeTold::NoObject { path, for_ms, shared: None, except_ms: 0 }
    };
    packets::send(&helper, &refused(0), None).unwrap();
    until("the answer", || first.reply().is_some());
    assert!(matches!(second.reply(), Some(Reply::ForAsker)));
    assert!(first.is_by(1) && !second.is_by(2), "they share a question");
    let again = ask(2);
    assert!(again.is_by(2) && again.reply().is_none(), "it is not remembered for others");
    packets::send(&helper, &refused(1000), None).unwrap();
    until("the answer", || again.reply().is_some());
    let uncacheable = Err(Trouble::Uncacheable.into());
    assert_eq!(looked_at(&link, "/film", since), Some(uncacheable), "that counts for all");
}

#[test]
fn the_helper_is_told_that_a_response_which_cannot_be_used_needs_no_rest() {
    let (link, helper) = link();
    let client = IpAddr::from([192, 0, 2, 1]);
    let ticket =
        link.pass("/live".into(), (1, Instant::now(), ForwardedRequest::get()), client).unwrap();
    let response = PassedResponse { object: 1 << 63, status: 1, ..PassedResponse::default() };
    let number = ticket.number;
    let told = EdgeTold::Passed { ticket: number, response: Box::new(response) };
    packets::send(&helper, &told, Some(tempfile::tempfile().unwrap().as_fd())).unwrap();
    let asked = || packets::receive::<EdgeAsk>(&helper, &mut Vec::new()).unwrap().unwrap().0;
    assert!(matches!(asked(), EdgeAsk::Pass { .. }));
    assert_eq!(asked(), EdgeAsk::Left { ticket: number });
    let mut answer = None;
    until("it to be refused", || {
        answer = ticket.answer();
        answer.is_some()
    });
    assert_eq!(answer.unwrap().err(), Some(Trouble::Wrong.into()));
}

#[test]
fn a_response_for_all_who_wait_reaches_each_of_them_and_is_bounded() {
    let (link, helper) = link();
    let since = Instant::now();
    let ask = |path: &str, asker: u64| {
        let wanted = Wanted { asker, ..WANTED };
        match link.look(path, &wanted, since, IpAddr::from([192, 0, 2, 1])) {
            Ok(Looked::Waits(waiting)) => waiting,
            _ => panic!("the helper has to be asked"),
        }
    };
    let tell = |path: &str, size: u64| {
        let response = PassedResponse { size: Some(size), is_complete: true, ..*growing(1 << 63) };
        let shared = Some(Box::new(response));
        let told = EdgeTold::NoObject { path: path.into(), for_ms: 1000, shared, except_ms: 0 };
        let file = tempfile::tempfile().unwrap();
        packets::send(&helper, &told, Some(file.as_fd())).unwrap();
    };
    let (first, second) = (ask("/live.m3u8", 1), ask("/live.m3u8", 2));
    tell("/live.m3u8", 1000);
    until("the answer", || second.reply().is_some());
    let shared = |waiting: &Waiting<'_>| match waiting.reply() {
        Some(Reply::Response(shared)) => Arc::clone(shared),
        _ => panic!("it is for all"),
    };
    assert!(Arc::ptr_eq(&shared(&first), &shared(&second)));
    let uncacheable = Err(Trouble::Uncacheable.into());
    assert_eq!(looked_at(&link, "/live.m3u8", since), Some(uncacheable), "for later viewers");
    let long = ask("/long.m3u8", 1);
    tell("/long.m3u8", BLOCK_BYTES + 1);
    until("the answer", || long.reply().is_some());
    assert!(matches!(long.reply(), Some(Reply::Is(Err(why))) if *why == Trouble::Wrong.into()));
}

/// A response that begins to grow, for all viewers.
fn growing(object: u64) -> Box<PassedResponse> {
    let is_stored = true;
    Box::new(PassedResponse { object, status: 200, is_stored, ..PassedResponse::default() })
}

#[test]
fn a_question_that_the_origin_holds_leaves_its_place_to_the_next_one() {
    let (link, helper) = link();
    let client = IpAddr::from([192, 0, 2, 1]);
    let (since, sent) = (Instant::now(), |told| packets::send(&helper, &told, None).unwrap());
    let look = |path: &str| match link.look(path, &WANTED, since, client) {
        Ok(Looked::Waits(waiting)) => waiting,
        _ => panic!("the helper has to be asked"),
    };
    let waiting: Vec<_> = (0..31).map(|number| look(&format!("/{number}.m4s"))).collect();
    assert!(!waiting[30].is_under_way(), "one client has 30 places");
    // It takes none of them.
    let reload = look("/live.m3u8?_HLS_msn=1");
    assert!(reload.is_under_way() && link.held() == 1);
    sent(EdgeTold::Held { path: "/0.m4s".into() });
    until("the next one to be sent", || waiting[30].is_under_way());
    assert_eq!(link.held(), 2);
    let again = look("/0.m4s");
    assert!(again.is_under_way(), "a later viewer shares it");
    for path in ["/0.m4s", "/live.m3u8?_HLS_msn=1"] {
        let (why, said) = (Trouble::NotFound, String::new());
        sent(EdgeTold::Refused { path: path.into(), why, for_ms: 1000, said });
    }
    until("the answers", || again.reply().is_some() && reload.reply().is_some());
    assert_eq!(link.held(), 0);
    let pass = |path: &str| {
        let asked = (1, Instant::now(), ForwardedRequest::get());
        link.pass(path.into(), asked, client).unwrap()
    };
    let passes: Vec<_> = (0..13).map(|number| pass(&format!("/{number}.m4s"))).collect();
    assert!(!passes[12].is_under_way(), "one client has 12 turns");
    let reload = pass("/live.m3u8?_HLS_msn=1");
    assert!(reload.is_under_way() && link.held() == 1);
    sent(EdgeTold::PassHeld { ticket: passes[0].number });
    until("the next one to be sent", || passes[12].is_under_way());
    for ticket in [passes[0].number, reload.number] {
        sent(EdgeTold::NotPassed { ticket, why: Trouble::NotFound, said: String::new() });
    }
    until("their places to be free", || link.held() == 0);
}

#[test]
fn viewers_of_a_response_that_grows_share_it_and_its_end_is_final() {
    let (link, helper) = link();
    let object = 1 << 63;
    let take = |last: u8| {
        let client = IpAddr::from([192, 0, 2, last]);
        let asked = (1, Instant::now(), ForwardedRequest::get());
        let ticket = link.pass("/1.m4s".into(), asked, client).unwrap();
        let told = EdgeTold::Passed { ticket: ticket.number, response: growing(object) };
        let file = tempfile::tempfile().unwrap();
        packets::send(&helper, &told, Some(file.as_fd())).unwrap();
        let answer = fullbore_tests::eventually("the response", || ticket.answer());
        answer.ok().unwrap().body.unwrap()
    };
    let (first, second) = (take(1), take(2));
    assert!(Arc::ptr_eq(&first.live, &second.live), "it takes space once");
    for (bytes, is_whole) in [(9, true), (5, false)] {
        packets::send(&helper, &EdgeTold::Grown { object, bytes, is_whole }, None).unwrap();
    }
    let before = link.failures().len();
    let (why, said) = (Trouble::Wrong, String::new());
    packets::send(&helper, &EdgeTold::NotPassed { ticket: 99, why, said }, None).unwrap();
    until("all of that to be read", || link.failures().len() > before);
    assert_eq!((second.live.grown(), link.fetched_bytes()), ((9, true), 9));
}

#[test]
fn a_response_without_a_length_is_known_as_far_as_it_has_grown() {
    let (link, helper) = link();
    let client = IpAddr::from([192, 0, 2, 1]);
    let asked = (1, Instant::now(), ForwardedRequest::get());
    let ticket = link.pass("/live".into(), asked, client).unwrap();
    let object = 1 << 63;
    let response = growing(object);
    let told = EdgeTold::Passed { ticket: ticket.number, response };
    let file = tempfile::tempfile().unwrap();
    packets::send(&helper, &told, Some(file.as_fd())).unwrap();
    let mut answer = None;
    until("the response to begin", || {
        answer = ticket.answer();
        answer.is_some()
    });
    let body = answer.unwrap().ok().unwrap().body.unwrap();
    let live = &body.live;
    assert_eq!((live.grown(), live.cut_off()), ((0, false), None));
    assert_eq!(live.path(), "/live", "the operator learns which one is too long");
    let send = |told: EdgeTold| packets::send(&helper, &told, None).unwrap();
    send(EdgeTold::Grown { object, bytes: 7, is_whole: false });
    until("it to grow", || live.grown() == (7, false));
    assert_eq!(link.fetched_bytes(), 7);
    send(EdgeTold::Grown { object, bytes: (1 << 28) + 1, is_whole: false });
    until("it to be too long", || live.cut_off() == Some(Trouble::Full.number()));
    send(EdgeTold::Grown { object, bytes: (1 << 28) + 2, is_whole: true });
    send(EdgeTold::NotPassed { ticket: 99, why: Trouble::Wrong, said: String::new() });
    until("all of that to be read", || link.failures().contains_key(Trouble::Wrong.as_str()));
    assert_eq!(live.grown(), (7, false));
    assert_eq!(link.failures()[Trouble::Full.as_str()], 1, "it counts once");
}
