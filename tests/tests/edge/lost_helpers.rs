//! Helpers that can't start, are gone, or can't reach the origin: the log says what to do, and no viewer waits.

use crate::origin::Origin;
use crate::serving::{children, helper};
use crate::{MIB, edge, launch, launch_at};
use fullbore_tests::{Launch, Plain, Server, Signal, eventually, tool, until};
use std::fs;
use std::path::Path;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";

pub(crate) fn kill(process: u32) {
    let process = rustix::process::Pid::from_raw(process as i32).unwrap();
    rustix::process::kill_process(process, Signal::KILL).unwrap();
}

/// Whether it has ended, even if it has not been reaped yet.
fn has_ended(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    stat.map_or(true, |stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
}

fn status(server: &Server, path: &str) -> u16 {
    Plain::connect(server.address).fetch(path).status
}

#[test]
fn a_server_whose_helper_could_not_begin_does_not_start_and_says_why() {
    let (origin, folder) = (Origin::start(), tempdir().unwrap());
    let cache = folder.path().join("cache");
    let said = |launch: Launch| {
        let ran = launch.arguments("--tls off").run();
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        ran.stderr
    };
    fs::create_dir_all(&cache).unwrap();
    fs::write(cache.join("objects"), "x").unwrap();
    let text = said(launch(&origin, &cache));
    assert!(text.contains("objects is a file") && text.contains("move it away"), "{text}");
    fs::remove_file(cache.join("objects")).unwrap();
    let text = said(launch(&origin, &cache).variable("SSL_CERT_FILE", "/nonexistent"));
    assert!(text.contains("/nonexistent") && text.contains("SSL_CERT_FILE"), "{text}");
}

#[test]
fn while_helpers_cannot_begin_nobody_waits_and_their_keeper_ends_with_the_server() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let film = origin.put("/film", 1, 2 * MIB, LASTING);
    let other = origin.put("/other", 2, 1000, LASTING);
    let server = edge(&origin, cache.path(), "");
    let first = |server: &Server| {
        Plain::connect(server.address).fetch_with("/film", "Range: bytes=0-9\r\n").body
    };
    assert_eq!(first(&server), film[..10]);
    let (objects, aside) = (cache.path().join("objects"), cache.path().join("aside"));
    let keeper = children(server.process_id())[0];
    let break_it = || {
        fs::rename(&objects, &aside).unwrap();
        fs::write(&objects, "x").unwrap();
        kill(helper(&server));
        until("it to be told", || server.admin_page("/healthz").0 == 503);
    };
    break_it();
    let (_, page) = server.admin_page("/healthz");
    assert!(page.contains("objects is a file"), "{page}");
    assert_eq!(status(&server, "/other"), 502);
    let mut viewer = Plain::connect(server.address);
    let missing = format!("Range: bytes={}-{}\r\n", MIB, MIB + 9);
    assert_eq!(viewer.fetch_with("/film", &missing).status, 502);
    assert_eq!(first(&server), film[..10], "it is there and fresh");
    fs::remove_file(&objects).unwrap();
    fs::rename(&aside, &objects).unwrap();
    let got = eventually("a helper that can begin", || {
        let answer = Plain::connect(server.address).fetch("/other");
        (answer.status == 200).then_some(answer.body)
    });
    assert!(got == *other);
    assert_eq!(server.admin_page("/healthz").0, 200);
    assert!(Plain::connect(server.address).fetch("/film").body == *film);
    break_it();
    server.kill();
    until("the keeper to end with the server", || has_ended(keeper));
}

#[test]
fn when_helper_and_keeper_are_gone_it_is_told_and_what_may_not_be_stale_is_not_served() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    origin.put("/film", 1, 1000, "Cache-Control: max-age=0\r\n");
    origin.put("/strict", 2, 1000, "Cache-Control: max-age=0, must-revalidate\r\n");
    origin.put("/later", 3, 1000, LASTING);
    let server = launch(&origin, cache.path())
        .config("[edge]\nsilent_seconds = 300.0\n[http]\nhealthz = true\n")
        .arguments("--tls off")
        .start();
    assert_eq!((status(&server, "/film"), status(&server, "/strict")), (200, 200));
    let (keeper, last) = (children(server.process_id())[0], helper(&server));
    kill(keeper);
    until("the keeper to end", || has_ended(keeper));
    assert_eq!(status(&server, "/later"), 200, "the helper goes on alone");
    assert_eq!((server.admin_page("/healthz").0, status(&server, "/healthz")), (200, 200));
    kill(last);
    until("it to be told", || server.admin_page("/healthz").0 == 503);
    assert!(server.admin_page("/healthz").1.contains("restart the server"));
    assert_eq!(status(&server, "/healthz"), 503);
    assert_eq!((status(&server, "/film"), status(&server, "/strict")), (200, 502));
    assert_eq!((status(&server, "/later"), status(&server, "/new")), (200, 502));
    server.wait_for_news();
    assert!(server.counter("edge_lookups_total{result=\"stale\"}") > 0);
}

/// A server with a film whose certificate `openssl` made with `more`.
fn origin_over_tls(folder: &Path, more: &str) -> Server {
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let mut make = tool::command("openssl");
    make.args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=o", "-newkey", "rsa:2048"]);
    make.args(["-addext", "subjectAltName=IP:127.0.0.1"]).args(more.split_whitespace());
    let made = tool::run(make.arg("-keyout").arg(&key).arg("-out").arg(&cert));
    assert!(made.success, "{}", made.stderr);
    let films = folder.join("films");
    fs::create_dir(&films).unwrap();
    fs::write(films.join("film"), "bytes").unwrap();
    Launch::of(&films).arguments("--cert").argument(&cert).arguments("--key").argument(&key).start()
}

#[test]
fn a_certificate_that_is_not_trusted_is_told_in_words_and_what_is_advised_helps() {
    let not_ca = "-addext basicConstraints=critical,CA:FALSE";
    for (more, words) in
        [("", "CA:TRUE"), (not_ca, "no authority that is trusted here has signed it")]
    {
        let (folder, cache) = (tempdir().unwrap(), tempdir().unwrap());
        let origin = origin_over_tls(folder.path(), more);
        let url = format!("https://127.0.0.1:{}", origin.address.port());
        let edge = launch_at(&url, cache.path()).arguments("--tls off").start();
        let line = edge.stderr.wait_for("cannot be used");
        assert!(line.contains(words) && line.contains("SSL_CERT_FILE"), "{line}");
        assert_eq!(status(&edge, "/film"), 502);
        drop(edge);
        if more == not_ca {
            let edge = launch_at(&url, cache.path())
                .variable("SSL_CERT_FILE", folder.path().join("cert.pem"))
                .arguments("--tls off")
                .start();
            assert_eq!(Plain::connect(edge.address).fetch("/film").body, b"bytes");
        }
    }
}
