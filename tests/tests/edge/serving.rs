//! Viewers' bytes, the requests to the origin for them, and the cache after a restart.

use crate::origin::{Manner, Origin};
use crate::{MIB, edge, launch};
use fullbore_tests::{Launch, Plain, Server, Signal, eventually, may_open, tool, until};
use std::collections::BTreeSet;
use std::net::ToSocketAddrs;
use std::time::Duration;
use tempfile::tempdir;

/// The origin's file stays as it is.
const LASTING: &str = "Cache-Control: max-age=3600\r\nContent-Type: video/mp4\r\n";

/// The ranges requested from the origin, in order.
fn ranges(origin: &Origin) -> Vec<(u64, u64)> {
    let mut ranges: Vec<_> = origin.seen().iter().filter_map(|seen| seen.range).collect();
    ranges.sort_unstable();
    ranges
}

/// The number of bytes requested from the origin, and whether any were requested twice.
fn asked_once(origin: &Origin) -> (u64, bool) {
    let ranges = ranges(origin);
    let bytes = ranges.iter().map(|(first, last)| last + 1 - first).sum();
    (bytes, ranges.windows(2).all(|two| two[0].1 < two[1].0))
}

#[test]
fn curl_gets_the_origins_bytes_cold_and_then_from_the_cache() {
    if !tool::are_here(&[("curl", "curl")]) {
        return;
    }
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let bytes = origin.put("/a%20b/film.mp4", 1, 3 * MIB + 7, LASTING);
    let server = launch(&origin, cache.path()).start();
    let url = server.url_of("a%20b/film.mp4?token=of-the-viewer");
    let curl = |words: &str| {
        let mut command = tool::command("curl");
        command.args(["--silent", "--show-error", "--insecure", "--fail"]);
        let ran = tool::run(command.args(words.split_whitespace()).arg(&url));
        assert!(ran.success, "{words}: {}", ran.stderr);
        ran.stdout
    };
    assert!(curl("") == *bytes, "cold");
    let seen = origin.seen();
    assert!(curl("") == *bytes && curl("--http1.0") == *bytes, "warm");
    assert!(curl("--range 1048570-1048590") == bytes[1_048_570..1_048_591]);
    assert!(curl("--range -5") == bytes[bytes.len() - 5..]);
    assert_eq!(origin.seen(), seen, "the origin was asked again");
    assert!(seen.iter().all(|seen| !seen.head.contains("token")), "{seen:?}");
    let head = String::from_utf8(curl("--head")).unwrap();
    for line in [
        "ETag: \"v1\"\r\n",
        "Cache-Control: max-age=3600\r\n",
        "Age: ",
        "Content-Type: video/mp4\r\n",
    ] {
        assert!(head.contains(line), "{line} is not in {head}");
    }
}

#[test]
fn a_small_range_costs_the_origin_one_block_and_each_later_block_is_pinned_to_the_version() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let bytes = origin.put("/film", 1, 40 * MIB, LASTING);
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    let at = 20 * MIB + 5;
    let part = viewer.fetch_with("/film", &format!("Range: bytes={at}-{}\r\n", at + 9));
    assert_eq!((part.status, &part.body[..]), (206, &bytes[at..at + 10]));
    let block = (20 * MIB as u64, 21 * MIB as u64 - 1);
    assert_eq!(ranges(&origin), [block]);
    let part = viewer.fetch_with("/film", "Range: bytes=0-0\r\n");
    assert_eq!(part.body, bytes[..1]);
    let seen = origin.seen();
    assert_eq!(seen.last().unwrap().if_match.as_deref(), Some("\"v1\""));
    assert_eq!(asked_once(&origin), (2 * MIB as u64, true));
}

/// All viewers send their requests before any reads, some for the whole film, others for parts all over it.
#[test]
fn a_stampede_of_a_thousand_viewers_asks_the_origin_for_each_block_once() {
    const VIEWERS: usize = 1000;
    const WHOLE: usize = 10;
    const PART: usize = 40_000;
    if !may_open(VIEWERS) {
        return;
    }
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let bytes = origin.put("/film", 1, 10 * MIB + 1, LASTING);
    origin.delay(Duration::from_millis(100));
    let server = edge(&origin, cache.path(), "--workers 2");
    let start = |viewer: usize| viewer * 7_919_777 % (bytes.len() - PART);
    let ask = |viewer: usize| {
        let mut asking = Plain::connect(server.address);
        let range = format!("Range: bytes={}-{}\r\n", start(viewer), start(viewer) + PART - 1);
        asking.ask_with("/film", if viewer < WHOLE { "" } else { &range });
        asking
    };
    let viewers: Vec<_> = (0..VIEWERS).map(ask).collect();
    for (viewer, mut asked) in viewers.into_iter().enumerate() {
        let answer = asked.answer();
        let expected = match viewer < WHOLE {
            true => &bytes[..],
            false => &bytes[start(viewer)..start(viewer) + PART],
        };
        assert!(answer.body == expected, "{viewer}: {}", answer.head);
    }
    assert_eq!(asked_once(&origin), (bytes.len() as u64, true), "{:?}", ranges(&origin));
    server.wait_for_news();
    assert_eq!(server.sum("edge_fetched_bytes_total"), bytes.len() as u64);
}

#[test]
fn what_is_cached_is_served_after_a_restart_without_being_fetched_again() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let lasting =
        origin.put("/lasting", 1, 2 * MIB + 1, "Cache-Control: max-age=3600\r\nAge: 9\r\n");
    let asked_for = origin.put("/asked", 2, 2 * MIB + 1, "Cache-Control: no-cache\r\n");
    let fetch = |server: &Server, path: &str| Plain::connect(server.address).fetch(path);
    let server = edge(&origin, cache.path(), "");
    assert!(fetch(&server, "/lasting").body == *lasting);
    assert!(fetch(&server, "/asked").body == *asked_for);
    server.finish();
    let asked = origin.seen().len();
    let server = edge(&origin, cache.path(), "");
    let answer = fetch(&server, "/lasting");
    assert!(answer.body == *lasting && origin.seen().len() == asked, "it is still fresh");
    let age = answer.head.lines().find_map(|line| line.strip_prefix("Age: ")).unwrap();
    assert!(age.parse::<u64>().unwrap() >= 9, "{age}");
    assert!(fetch(&server, "/asked").body == *asked_for);
    let news = &origin.seen()[asked..];
    assert_eq!(news.len(), 1, "only whether it is still the same: {news:?}");
    assert!(news[0].head.to_ascii_lowercase().contains("if-none-match: \"v2\""), "{news:?}");
}

/// The lines of an answer's head that a cache passes on.
fn dated(head: &str) -> Vec<&str> {
    head.lines().filter(|line| line.starts_with("Last-Modified: ")).collect()
}

#[test]
fn the_origins_last_modified_is_kept_and_conditions_with_it_are_answered() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let server = edge(&origin, cache.path(), "");
    let old = "Sun, 06 Nov 1994 08:49:37 GMT";
    let later = "Sun, 06 Nov 1994 08:49:38 GMT";
    // Like a file that was just made, and one at an origin whose clock is ahead.
    let future = "Fri, 31 Dec 9999 23:59:59 GMT";
    let mut viewer = Plain::connect(server.address);
    for (number, date) in [old, future].into_iter().enumerate() {
        for (path, terms) in
            [("/kept", "max-age=3600"), ("/asked", "no-cache"), ("/no", "no-store")]
        {
            let path = format!("{path}{number}");
            let lines =
                format!("Cache-Control: {terms}\r\nDate: {later}\r\nLast-Modified: {date}\r\n");
            let bytes = origin.put(&path, 1, 1000, &lines);
            let line = format!("Last-Modified: {date}");
            for _ in 0..2 {
                let answer = viewer.fetch(&path);
                assert!(answer.body == *bytes, "{path}: {}", answer.head);
                assert_eq!(dated(&answer.head), [&line[..]], "{path}: {}", answer.head);
            }
            let ask = |viewer: &mut Plain, line: &str| viewer.fetch_with(&path, line).status;
            let since = format!("If-Modified-Since: {date}\r\n");
            assert_eq!(viewer.fetch_with(&path, &since).status, 304, "{path}");
            let before = "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n";
            assert_eq!(ask(&mut viewer, before), 200, "{path}");
            let unless = "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n";
            assert_eq!(ask(&mut viewer, unless), 412, "{path}");
        }
    }
    // The origin's answer came a second after that date, by its own clock. So the date names one version.
    let part = |viewer: &mut Plain, path: &str, date: &str| {
        viewer.fetch_with(path, &format!("Range: bytes=0-9\r\nIf-Range: {date}\r\n")).status
    };
    assert_eq!(part(&mut viewer, "/kept0", old), 206);
    assert_eq!(part(&mut viewer, "/kept0", later), 200, "another version");
    assert_eq!(part(&mut viewer, "/kept1", future), 200, "it may have changed since");
    server.finish();
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    let line = format!("Last-Modified: {old}");
    assert_eq!(dated(&viewer.fetch("/kept0").head), [&line[..]], "after a restart");
    assert_eq!(part(&mut viewer, "/kept0", old), 206);
}

/// The processes whose parent is `parent`.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent_of = |number: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    numbers.filter(|number| parent_of(number) == Some(parent)).collect()
}

#[test]
fn the_helper_runs_with_the_least_privilege() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let bytes = origin.put("/film", 1, 1000, LASTING);
    let status = |server: &Server| {
        assert!(Plain::connect(server.address).fetch("/film").body == *bytes);
        std::fs::read_to_string(format!("/proc/{}/status", helper(server))).unwrap()
    };
    // By its name, so that the helper has to resolve it, if this machine can.
    let host = match ("localhost", 80).to_socket_addrs() {
        Ok(_) => "localhost",
        Err(_) => "127.0.0.1",
    };
    let named = origin.url().replace("127.0.0.1", host);
    let launch = |words: &str| {
        let launch = Launch::bare().arguments("--tls off --origin").argument(&named);
        launch.arguments("--cache").argument(cache.path()).arguments(words).start()
    };
    let server = launch("");
    let confined = status(&server);
    for line in ["NoNewPrivs:\t1\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n"] {
        assert!(confined.contains(line), "{line} is not in {confined}");
    }
    server.finish();
    let server = launch("--no-sandbox");
    let privileges = |status: &str| {
        status.lines().find(|line| line.starts_with("NoNewPrivs")).map(str::to_owned)
    };
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    assert_eq!(privileges(&status(&server)), privileges(&own), "--no-sandbox reaches it");
}

/// The helper of a server: the only child of its only child.
pub(crate) fn helper(server: &Server) -> u32 {
    eventually("the helper", || {
        let keeper = children(server.process_id()).into_iter().next()?;
        children(keeper).into_iter().next()
    })
}

#[test]
fn a_helper_that_dies_is_started_again_and_viewers_notice_nothing() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let bytes = origin.put("/film", 1, 6 * MIB, LASTING);
    let there = origin.put("/there", 2, 100_000, LASTING);
    origin.delay(Duration::from_millis(300));
    let server = edge(&origin, cache.path(), "");
    assert!(Plain::connect(server.address).fetch("/there").body == *there);
    let first = helper(&server);
    std::thread::scope(|scope| {
        let viewer = scope.spawn(|| Plain::connect(server.address).fetch("/film").body);
        until("the film to be asked for", || origin.seen().iter().any(|seen| seen.path == "/film"));
        let process = rustix::process::Pid::from_raw(first as i32).unwrap();
        rustix::process::kill_process(process, Signal::KILL).unwrap();
        assert!(Plain::connect(server.address).fetch("/there").body == *there, "from the cache");
        assert!(viewer.join().unwrap() == *bytes, "asked again by the next helper");
    });
    assert_ne!(helper(&server), first);
    let said = server.finish();
    assert!(said.contains("it is restarted"), "{said}");
    until("the helper to end with the server", || {
        !std::path::Path::new(&format!("/proc/{first}")).exists()
    });
}

#[test]
fn the_origins_last_word_holds_after_a_restart() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let lax = "Cache-Control: max-age=0, stale-if-error=600\r\n";
    let strict = "Cache-Control: max-age=0, must-revalidate\r\n";
    origin.put("/now-strict", 1, 1000, lax);
    let film = origin.put("/now-lax", 2, 1000, strict);
    let server = edge(&origin, cache.path(), "");
    let fetch = |path: &str| Plain::connect(server.address).fetch(path);
    assert_eq!((fetch("/now-strict").status, fetch("/now-lax").status), (200, 200));
    origin.change("/now-strict", |object| object.lines = strict.into());
    origin.change("/now-lax", |object| object.lines = lax.into());
    assert_eq!((fetch("/now-strict").status, fetch("/now-lax").status), (200, 200));
    server.finish();
    origin.behave(Manner::Gone);
    let server = edge(&origin, cache.path(), "");
    let fetch = |path: &str| Plain::connect(server.address).fetch(path);
    assert_eq!(fetch("/now-strict").status, 502);
    assert!(fetch("/now-lax").body == *film);
}

#[test]
fn the_cache_keeps_to_its_size() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    // 1/64 GiB is 16 MiB.
    let server = edge(&origin, cache.path(), "--cache-gib 0.015625");
    let stored = || {
        use std::os::unix::fs::MetadataExt;
        let files = std::fs::read_dir(cache.path().join("objects")).unwrap().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512).sum::<u64>()
    };
    for number in 0..7 {
        let path = format!("/film{number}");
        let bytes = origin.put(&path, number, 3 * MIB, LASTING);
        // Blocks that viewers had a moment ago stay for three seconds. Until then there is no room.
        let got = eventually("room in the cache", || {
            let answer = Plain::connect(server.address).fetch(&path);
            (answer.status == 200).then_some(answer.body)
        });
        assert!(got == *bytes);
        assert!(stored() <= 16 << 20, "{} bytes after {number}", stored());
    }
}

#[test]
fn empty_objects_are_part_of_the_caches_size() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    // 16 MiB, most of which a film takes.
    let server = edge(&origin, cache.path(), "--cache-gib 0.015625");
    let film = origin.put("/film", 1, 14 * MIB, LASTING);
    assert!(Plain::connect(server.address).fetch("/film").body == *film);
    for number in 0..400 {
        let path = format!("/empty{number}");
        origin.put(&path, number, 0, LASTING);
        let status = Plain::connect(server.address).fetch(&path).status;
        // Blocks that viewers had a moment ago stay for three seconds. Until then there is no room.
        assert!([200, 503].contains(&status), "{path}: {status}");
    }
    let files = std::fs::read_dir(cache.path().join("objects")).unwrap().flatten();
    let objects = files.filter(|file| file.path().extension().is_none());
    let taken: u64 = objects.map(|file| file.metadata().unwrap().len() + (8 << 10)).sum();
    assert!(taken <= 16 << 20, "{taken} bytes");
}

#[test]
fn wrong_usage_is_one_line() {
    let folder = tempdir().unwrap();
    let run = |words: &str| {
        let mut command = tool::command(fullbore_tests::program().to_str().unwrap());
        let ran = tool::run(
            command.arg("serve").args(words.split_whitespace()).current_dir(folder.path()),
        );
        assert_eq!(ran.code, Some(2), "{words}: {}", ran.stderr);
        ran.stderr
    };
    assert!(run("--origin http://a --cache c --check --route bypass").contains("bypass"));
    assert!(run("--origin ftp://a --cache c --check").contains("only http and https"));
    assert!(run("--origin http://a --check").contains("--cache"));
    assert!(run("--cache c --check").contains("--origin"));
    assert!(run("--origin http://a --cache c --check films").contains("cannot be used with"));
}

#[test]
fn two_servers_cannot_share_a_cache() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let _first = edge(&origin, cache.path(), "");
    let second = std::panic::catch_unwind(|| edge(&origin, cache.path(), ""));
    let said = second.err().expect("it does not start").downcast::<String>().unwrap();
    assert!(said.contains("another server uses it"), "{said}");
}

/// A bucket that was filled from a Mac has decomposed names, and any other origin the names that were typed.
#[test]
fn an_origins_file_is_found_by_either_form_of_its_name() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let of_mac = origin.put("/mac/e%CC%81.mp4", 1, 1000, LASTING);
    let typed = origin.put("/typed/%C3%A9.mp4", 2, 1000, LASTING);
    let server = edge(&origin, cache.path(), "");
    let mut viewer = Plain::connect(server.address);
    for name in ["%C3%A9", "e%CC%81"] {
        assert_eq!(viewer.fetch(&format!("/mac/{name}.mp4")).body, *of_mac, "{name}");
        assert_eq!(viewer.fetch(&format!("//typed//{name}.mp4")).body, *typed, "{name}");
    }
    let paths = || -> BTreeSet<_> { origin.seen().into_iter().map(|seen| seen.path).collect() };
    let expected = ["/mac/%C3%A9.mp4", "/mac/e%CC%81.mp4", "/typed/%C3%A9.mp4"];
    assert_eq!(paths(), expected.map(str::to_owned).into(), "the composed name comes first");
    for name in ["e%CC%81", "a"] {
        assert_eq!(viewer.fetch(&format!("/none/{name}.mp4")).status, 404, "{name}");
    }
    let none = ["/none/%C3%A9.mp4", "/none/a.mp4", "/none/e%CC%81.mp4"];
    assert!(paths().into_iter().filter(|path| path.starts_with("/none")).eq(none));
}
