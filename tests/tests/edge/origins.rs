//! Several origins that hold the same films: which one answers, and what happens to films of which they have other versions.

use crate::changes::{drawn_length, fetch};
use crate::origin::{Manner, Origin};
use crate::purging::run_edge;
use crate::{IMPATIENT, MIB, PATIENT};
use fullbore_tests::{Launch, Plain, Response, Server, bytes, eventually, until};
use serde_json::Value;
use std::path::Path;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

/// Revalidated at each request, and served without the origin for a day.
const BRIEF: &str = "Cache-Control: max-age=0\r\n";

/// An edge in front of the origins with these addresses.
fn launch_of(origins: &[String], cache: &Path) -> Launch {
    let origins = origins.iter();
    let launch = Launch::bare().config(PATIENT).arguments("--tls off --cache").argument(cache);
    origins.fold(launch, |launch, origin| launch.arguments("--origin").argument(origin))
}

fn edge_of(origins: [&Origin; 2], cache: &Path) -> Server {
    launch_of(&origins.map(Origin::url), cache).start()
}

fn get(server: &Server, path: &str) -> Response {
    Plain::connect(server.address).fetch(path)
}

fn part(server: &Server, path: &str, first: usize) -> Response {
    let range = format!("Range: bytes={first}-{}\r\n", first + 9);
    Plain::connect(server.address).fetch_with(path, &range)
}

/// Puts the same there at both.
fn put(origins: [&Origin; 2], path: &str, version: u64, length: usize, lines: &str) -> Vec<u8> {
    origins.map(|origin| origin.put(path, version, length, lines).to_vec())[0].clone()
}

/// The first origin fails until it is passed over.
fn pass_over(server: &Server, first: &Origin) {
    first.behave(Manner::Gone);
    until("it to be passed over", || {
        get(server, "/none");
        server.counter("edge_origins_passed_over") == 1
    });
}

#[test]
fn the_next_origin_answers_for_one_that_fails() {
    let retry_after = "Retry-After: 100\r\n".to_owned();
    for (config, manner) in [
        (PATIENT, Manner::Gone),
        (PATIENT, Manner::Status(500, String::new())),
        (PATIENT, Manner::Status(503, retry_after)),
        (PATIENT, Manner::OtherRange),
        (PATIENT, Manner::Breaks(1_500_000)),
        (IMPATIENT, Manner::Withholds("/")),
    ] {
        let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
        let film = put([&a, &b], "/film", 1, 3 * MIB, LASTING);
        let page = put([&a, &b], "/page", 2, 1000, LASTING);
        for origin in [&a, &b] {
            origin.change("/page", |page| page.etag = "W/\"v2\"".into());
        }
        let server = launch_of(&[a.url(), b.url()], cache.path()).config(config).start();
        a.behave(manner.clone());
        assert!(get(&server, "/film").body == film, "{manner:?}");
        assert!(get(&server, "/page").body == page, "{manner:?}");
        assert!(a.count("/") > 0 && b.count("/film") > 0, "{manner:?}");
        server.wait_for_news();
        assert!(server.counter("edge_origin_failures_total{origin=\"1\"}") > 0, "{manner:?}");
        assert!(server.counter("edge_origin_answers_total{origin=\"2\"}") > 0, "{manner:?}");
        assert_eq!(server.counter("edge_origin_failures_total{origin=\"2\"}"), 0, "{manner:?}");
        assert_eq!(server.counter("edge_origin_down"), 0, "{manner:?}");
        assert_eq!(server.sum("edge_failures_total"), 0, "no viewer has noticed {manner:?}");
    }
}

#[test]
fn what_the_first_origin_answers_counts_and_the_next_one_is_not_asked() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let server = edge_of([&a, &b], cache.path());
    let film = put([&a, &b], "/film", 1, 3 * MIB, LASTING);
    b.put("/other", 2, 1000, LASTING);
    assert!(get(&server, "/film").body == film);
    assert_eq!(get(&server, "/other").status, 404);
    for status in [302, 403, 418] {
        a.behave(Manner::Status(status, String::new()));
        assert_eq!(get(&server, &format!("/status{status}")).status, status);
    }
    assert_eq!(b.seen(), []);
}

#[test]
fn if_every_origin_fails_viewers_get_the_first_ones_error() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let server = edge_of([&a, &b], cache.path());
    put([&a, &b], "/film", 1, 1000, LASTING);
    a.behave(Manner::Status(502, String::new()));
    b.behave(Manner::Status(503, String::new()));
    assert_eq!(get(&server, "/film").status, 502);
    server.wait_for_news();
    assert_eq!(server.counter("edge_origin_down"), 1);
    a.behave(Manner::Gone);
    assert_eq!(get(&server, "/film2").status, 503, "an answer is better than none");
    b.behave(Manner::Gone);
    assert_eq!(get(&server, "/film3").status, 502);
    // Both are passed over by now, so none is.
    b.behave(Manner::Good);
    b.put("/film4", 4, 1000, LASTING);
    assert_eq!(get(&server, "/film4").status, 200);
}

#[test]
fn a_film_is_completed_by_another_origin_that_has_the_same_version() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let server = edge_of([&a, &b], cache.path());
    let film = put([&a, &b], "/film", 1, 4 * MIB, LASTING);
    assert_eq!(part(&server, "/film", 0).body, film[..10]);
    let origin = || {
        let document = run_edge(&server, "why /film --json").stdout;
        let document: Value = serde_json::from_slice(&document).unwrap();
        document["paths"][0]["copies"][0]["origin"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(origin(), format!("{}/", a.url()));
    a.behave(Manner::Gone);
    assert!(get(&server, "/film").body == film);
    let asked = b.seen();
    assert!(asked.iter().all(|seen| seen.if_match.as_deref() == Some("\"v1\"")), "{asked:?}");
    assert!(asked.iter().all(|seen| seen.range.is_some_and(|(first, _)| first >= MIB as u64)));
    server.wait_for_news();
    assert_eq!(server.sum("edge_fetched_bytes_total"), film.len() as u64, "nothing came twice");
    assert_eq!(origin(), format!("{}/", b.url()));
    let text = String::from_utf8(run_edge(&server, "why /film").stdout).unwrap();
    assert!(text.contains(&format!("from {}", b.url())), "{text}");
}

#[test]
fn a_kept_film_outlasts_an_origin_that_has_another_version() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let server = edge_of([&a, &b], cache.path());
    let film = a.put("/film", 1, 3 * MIB, BRIEF);
    assert!(get(&server, "/film").body == *film);
    let others: [&dyn Fn(); 5] = [
        // It confirms the version, but not as one for all viewers.
        &|| drop(b.put("/film", 1, 3 * MIB, "Cache-Control: private\r\n")),
        &|| drop(b.put("/film", 1, 3 * MIB, "Set-Cookie: a=b\r\n")),
        &|| drop(b.put("/film", 2, 3 * MIB, BRIEF)),
        &|| drop(b.put("/film", 3, 3 * MIB, "Cache-Control: no-store\r\n")),
        &|| b.behave(Manner::Status(404, String::new())),
    ];
    pass_over(&server, &a);
    for other in others {
        other();
        let asked = b.count("/film");
        // While the origin can't be asked, the copy counts for five seconds.
        until("the next origin to be asked", || {
            assert!(get(&server, "/film").body == *film);
            b.count("/film") > asked
        });
    }
    a.behave(Manner::Good);
    until("the first origin to be asked again", || {
        get(&server, "/none");
        server.counter("edge_origins_passed_over") == 0
    });
    let asked = a.count("/film");
    until("it to confirm the film", || {
        assert!(get(&server, "/film").body == *film);
        a.count("/film") > asked
    });
    server.wait_for_news();
    assert_eq!(server.sum("edge_fetched_bytes_total"), film.len() as u64, "nothing came twice");
}

#[test]
fn a_film_outlasts_two_failures_of_its_origin_though_the_other_one_has_another_version() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let server = edge_of([&a, &b], cache.path());
    let film = a.put("/film", 1, 2 * MIB, LASTING);
    b.put("/film", 2, 2 * MIB, LASTING);
    assert_eq!(part(&server, "/film", 0).body, film[..10]);
    // So the other one is asked first at the next try.
    a.behave_in_turn([Manner::Breaks(500_000), Manner::Gone]);
    assert!(get(&server, "/film").body == *film);
    assert_eq!(b.count("/film"), 1, "it was asked, and has not what is missing");
    server.wait_for_news();
    assert_eq!(server.sum("edge_failures_total"), 0);
    // The preferred one was away when the film was new.
    let film = b.put("/later", 3, 2 * MIB, LASTING);
    a.behave_in_turn([Manner::Gone]);
    assert_eq!(part(&server, "/later", 0).body, film[..10]);
    a.put("/later", 4, 2 * MIB, LASTING);
    b.behave_in_turn([Manner::Gone]);
    assert!(get(&server, "/later").body == *film);
    server.wait_for_news();
    assert_eq!(server.sum("edge_failures_total"), 0);
}

#[test]
fn a_film_that_can_be_served_no_more_gives_way_to_the_next_origins_version() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let server = edge_of([&a, &b], cache.path());
    a.put("/strict", 1, 1000, "Cache-Control: max-age=0, must-revalidate\r\n");
    a.put("/partial", 1, 4 * MIB, LASTING);
    let strict = b.put("/strict", 2, 2000, LASTING);
    let partial = b.put("/partial", 2, 4 * MIB, LASTING);
    assert_eq!(get(&server, "/strict").status, 200);
    assert_eq!(part(&server, "/partial", 0).status, 206);
    a.behave(Manner::Gone);
    let got = eventually("the strict one", || {
        let answer = get(&server, "/strict");
        (answer.status == 200).then_some(answer.body)
    });
    assert!(got == *strict);
    let got = eventually("the part that was missing", || {
        let answer = part(&server, "/partial", 3 * MIB);
        (answer.status == 206).then_some(answer)
    });
    assert!(got.head.contains("ETag: \"v2\"\r\n"), "{}", got.head);
    assert_eq!(got.body, partial[3 * MIB..3 * MIB + 10]);
    assert!(get(&server, "/partial").body == *partial);
}

#[test]
fn an_origin_with_another_length_under_the_same_tag_completes_no_film() {
    // Also if it doesn't say of how many bytes its parts are.
    for manner in [Manner::Good, Manner::NoTotal { is_known: true }] {
        let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
        let server = edge_of([&a, &b], cache.path());
        a.put("/film", 1, 3 * MIB, LASTING);
        let longer = b.put("/film", 2, 6 * MIB, LASTING);
        b.change("/film", |object| object.etag = "\"v1\"".into());
        assert_eq!(part(&server, "/film", 0).status, 206);
        a.behave(Manner::Gone);
        b.behave(manner.clone());
        // The last block of the shorter one has as many bytes in both.
        let got = eventually("the longer one", || {
            let answer = part(&server, "/film", 2 * MIB);
            (answer.status == 206).then_some(answer)
        });
        assert!(got.head.contains(&format!("/{}\r\n", 6 * MIB)), "{manner:?}: {}", got.head);
        assert_eq!(got.body, longer[2 * MIB..2 * MIB + 10], "{manner:?}");
        assert!(
            get(&server, "/film").body == *longer,
            "{manner:?}: it said the length of this one"
        );
    }
}

#[test]
fn an_origin_that_failed_is_passed_over_and_one_request_tries_it_again() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let server = edge_of([&a, &b], cache.path());
    assert_eq!(server.admin_page("/healthz"), (200, "ok\n".into()));
    pass_over(&server, &a);
    let (status, health) = server.admin_page("/healthz");
    assert!(status == 200 && health.starts_with("ok, but requests pass over"), "{health}");
    assert!(health.contains(&a.url()) && !health.contains(&b.url()), "{health}");
    server.stderr.wait_for("has failed 3 times in a row");
    let before = a.seen().len();
    let strict = put([&a, &b], "/strict", 1, 1000, "Cache-Control: no-cache\r\n");
    until("three trials", || {
        assert!(get(&server, "/strict").body == strict);
        a.seen().len() >= before + 3
    });
    let trials = a.seen().split_off(before);
    assert!(trials.iter().all(|seen| seen.range == Some((0, 0))), "no viewer waits: {trials:?}");
    a.behave(Manner::Good);
    until("it to be asked again", || {
        get(&server, "/none");
        server.counter("edge_origins_passed_over") == 0
    });
    server.stderr.wait_for("answers again");
    let asked = b.seen().len();
    let film = put([&a, &b], "/last", 5, 3 * MIB, LASTING);
    assert!(get(&server, "/last").body == film);
    assert_eq!(b.seen().len(), asked);
    assert_eq!(server.admin_page("/healthz"), (200, "ok\n".into()));
}

#[test]
fn an_error_for_one_url_or_for_a_change_is_none_of_the_origins_health() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let config = format!("{PATIENT}methods = [\"POST\"]\n");
    let server = launch_of(&[a.url(), b.url()], cache.path()).config(&config).start();
    let page = b.put("/page", 1, 1000, "Cache-Control: no-store\r\n");
    let passed_over = || {
        server.wait_for_news();
        server.counter("edge_origins_passed_over")
    };
    for status in [429, 500, 501, 505] {
        a.behave(Manner::Status(status, String::new()));
        for _ in 0..4 {
            assert!(get(&server, "/page").body == *page);
        }
        assert_eq!(passed_over(), 0, "{status}");
    }
    assert!(server.counter("edge_origin_failures_total{origin=\"1\"}") >= 16);
    a.behave(Manner::Status(503, String::new()));
    for _ in 0..4 {
        let mut viewer = Plain::connect(server.address);
        viewer.ask_by("POST", "/page", "Content-Length: 0\r\n");
        assert_eq!(viewer.answer().status, 503);
    }
    assert_eq!(passed_over(), 0);
    for _ in 0..3 {
        assert!(get(&server, "/page").body == *page);
    }
    assert_eq!(passed_over(), 1);
}

#[test]
fn a_blocking_reload_that_fails_is_none_of_the_origins_health() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let server = launch_of(&[a.url(), b.url()], cache.path()).config(IMPATIENT).start();
    a.behave(Manner::Withholds("/live"));
    assert_eq!(get(&server, "/live.m3u8?_HLS_msn=1").status, 504);
    assert_eq!(b.seen(), [], "its player has waited long enough");
    a.behave(Manner::Status(503, "Retry-After: 1\r\n".into()));
    let list = b.put("/live.m3u8?_HLS_msn=2", 1, 1000, "Cache-Control: no-store\r\n");
    for _ in 0..4 {
        assert!(get(&server, "/live.m3u8?_HLS_msn=2").body == *list);
    }
    server.wait_for_news();
    assert_eq!(server.counter("edge_origins_passed_over"), 0);
}

#[test]
fn a_path_that_no_origin_can_have_is_no_trial() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let server = edge_of([&a, &b], cache.path());
    pass_over(&server, &a);
    let before = a.seen().len();
    until("two trials by other paths", || {
        assert_eq!(get(&server, "/../none").status, 404);
        server.wait_for_news();
        assert_eq!(server.counter("edge_origins_passed_over"), 1);
        get(&server, "/none");
        a.seen().len() >= before + 2
    });
    assert!(b.seen().iter().all(|seen| seen.path == "/none"));
}

#[test]
fn what_another_origin_refuses_while_the_first_one_fails_is_not_kept_and_ends_nothing() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let server = edge_of([&a, &b], cache.path());
    let page = a.put("/page", 1, 1000, "Cache-Control: max-age=0\r\n");
    a.change("/page", |page| page.etag = "W/\"v1\"".into());
    let late = a.put("/late", 2, 1000, LASTING);
    b.behave(Manner::Status(404, LASTING.into()));
    assert!(get(&server, "/page").body == *page);
    a.behave_in_turn([Manner::Gone]);
    assert_eq!(get(&server, "/page").status, 404);
    assert!(get(&server, "/page").body == *page);
    let last = a.seen().pop().unwrap();
    assert!(last.head.to_lowercase().contains("if-none-match: w/\"v1\""), "{}", last.head);
    a.behave_in_turn([Manner::Gone]);
    assert_eq!(get(&server, "/late").status, 404);
    until("the first origin's answer", || get(&server, "/late").body == *late);
}

#[test]
fn a_request_that_may_change_something_goes_on_only_if_it_was_not_sent() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    put([&a, &b], "/list", 1, 1000, "Cache-Control: no-store\r\n");
    let config = format!("{PATIENT}methods = [\"POST\"]\n");
    let post = |origins: &[String]| {
        let server = launch_of(origins, cache.path()).config(&config).start();
        let mut viewer = Plain::connect(server.address);
        viewer.ask_by("POST", "/list", "Content-Length: 0\r\n");
        viewer.answer().status
    };
    a.behave(Manner::Gone);
    assert_eq!(post(&[a.url(), b.url()]), 502);
    assert_eq!((a.count("/list"), b.count("/list")), (1, 0), "the first one may have done it");
    assert_eq!(post(&["http://127.0.0.1:1".into(), b.url()]), 200);
    assert_eq!(b.count("/list"), 1);
}

#[test]
fn each_origins_urls_become_those_of_the_edge() {
    let (b, cache) = (Origin::start(), tempdir().unwrap());
    let origins = ["http://127.0.0.1:1/films".to_owned(), format!("{}/films/b", b.url())];
    let server = launch_of(&origins, cache.path()).start();
    b.behave(Manner::Status(302, "Location: /films/b/there\r\n".into()));
    let answer = get(&server, "/here");
    assert!(answer.head.contains("Location: /there\r\n"), "{}", answer.head);
    assert_eq!(b.seen().pop().unwrap().path, "/films/b/here");
}

#[test]
fn each_origin_is_checked_at_the_start() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    b.behave(Manner::Gone);
    let server = edge_of([&a, &b], cache.path());
    let line = server.stderr.wait_for("cannot be used");
    assert!(line.contains(&b.url()) && line.contains("go to the other origins"), "{line}");
    assert_eq!(a.seen(), []);
    let said = server.finish();
    assert!(!said.contains(&format!("origin {}", a.url())), "{said}");
}

/// Changes and fails two origins at random: bytes under a tag must be of that version, every one.
#[test]
fn no_viewer_gets_a_byte_of_another_version_from_several_origins() {
    const DRAWS: u64 = 120;
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let server = edge_of([&a, &b], cache.path());
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let lines =
        ["Cache-Control: no-cache\r\n", "Cache-Control: max-age=0, must-revalidate\r\n", BRIEF];
    let (mut newest, mut whole) = (1, 0);
    put([&a, &b], "/film", newest, drawn_length(newest), lines[0]);
    for number in 0..DRAWS {
        let origin = [&a, &b][next(2) as usize];
        match next(6) {
            0 => {
                newest += 1;
                let lines = lines[next(3) as usize];
                put([&a, &b], "/film", newest, drawn_length(newest), lines);
            }
            1 => {
                newest += 1;
                origin.put("/film", newest, drawn_length(newest), lines[next(3) as usize]);
            }
            2 => origin.behave(Manner::Gone),
            3 => origin.behave(Manner::Breaks(next(2 * MIB as u64) as usize)),
            _ => [&a, &b].iter().for_each(|one| one.behave(Manner::Good)),
        }
        let first = next(drawn_length(newest) as u64) as usize;
        let range = (next(3) > 0).then(|| (first, first + next(MIB as u64) as usize));
        let got = fetch(server.address, "/film", range);
        if got.status >= 400 {
            // An edge remembers a failure for a second, and answers with it.
            [&a, &b].iter().for_each(|one| one.behave(Manner::Good));
            until("the film to be back", || fetch(server.address, "/film", None).status == 200);
            continue;
        }
        let version = got.version.expect("a tag");
        let expected = bytes(drawn_length(version), version);
        assert!(expected[got.start..].starts_with(&got.bytes), "draw {number}: {version}");
        whole += u64::from(got.is_whole);
    }
    assert!(whole > DRAWS / 3, "only {whole} of {DRAWS} were served whole");
    let asked = [&a, &b].map(|one| one.seen().len());
    assert!(asked.iter().all(|asked| *asked > 10), "both were asked: {asked:?}");
}
