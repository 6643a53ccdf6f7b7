//! What an edge's requests to an origin carry because the operator wants it: headers, another `Host`, and secrets from files.

use crate::lost_helpers::kill;
use crate::origin::{Manner, Origin, Seen};
use crate::purging::run_edge;
use crate::serving::{children, helper};
use crate::{MIB, PATIENT};
use fullbore_tests::{Launch, Plain, Server, Signal, eventually, until};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::tempdir;

const LASTING: &str = "Cache-Control: max-age=3600\r\n";
const BRIEF: &str = "Cache-Control: max-age=0\r\n";

/// An edge with this text in its configuration, under `[edge]`.
fn launch(cache: &Path, edge: &str) -> Launch {
    let text = format!("{PATIENT}cache = {cache:?}\n{edge}\n");
    Launch::bare().config(&text).arguments("--tls off")
}

fn get(server: &Server, path: &str, lines: &str) -> (u16, Vec<u8>) {
    let answer = Plain::connect(server.address).fetch_with(path, lines);
    (answer.status, answer.body)
}

/// The values of a header in a request.
fn values<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

/// Replaces a file as renewals do.
pub(crate) fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    write_secret(&new, text);
    fs::rename(new, file).unwrap();
}

/// Writes a file that no other user may read.
pub(crate) fn write_secret(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn headers_for_an_origin_are_in_each_request_and_nowhere_else() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let folder = tempdir().unwrap();
    let (secret, log) = (folder.path().join("secret"), folder.path().join("access.log"));
    write_secret(&secret, "swordfish-of-file\n");
    let edge = format!(
        "access_log = {log:?}\n{PATIENT}cache = {:?}\n\
         [[edge.origin]]\nurl = \"{}\"\nhost = \"films.example\"\n\
         headers = {{ X-Tenant = \"swordfish-inline\", X-Origin-Secret = {{ file = {secret:?} }} }}\n\
         [[edge.origin]]\nurl = \"{}\"\n",
        cache.path(),
        a.url(),
        b.url()
    );
    let server = Launch::bare().config(&edge).arguments("--tls off").start();
    let film = a.put("/film", 1, 3 * MIB, LASTING);
    let page = a.put("/page", 2, 1000, BRIEF);
    a.change("/page", |page| page.etag = "W/\"v2\"".into());
    let guess = "X-Origin-Secret: guess\r\nX_Tenant: guess\r\nX-Own: mine\r\n";
    for _ in 0..2 {
        assert!(get(&server, "/film", guess) == (200, film.to_vec()));
        assert!(get(&server, "/page", guess) == (200, page.to_vec()));
    }
    let requests = a.seen();
    assert!(requests.iter().any(|seen| seen.if_match.is_some()), "blocks are asked for");
    assert!(requests.iter().any(|seen| !values(&seen.head, "if-none-match").is_empty()));
    assert!(requests.iter().any(|seen| values(&seen.head, "x-own") == ["mine"]));
    for seen in &requests {
        for (name, value) in [
            ("x-origin-secret", "swordfish-of-file"),
            ("x-tenant", "swordfish-inline"),
            ("host", "films.example"),
        ] {
            assert_eq!(values(&seen.head, name), [value], "{}", seen.head);
        }
        assert!(!seen.head.contains("guess"), "{}", seen.head);
    }
    // The other origin must not take a viewer's for the edge's.
    a.behave(Manner::Gone);
    b.put("/other", 3, 1000, LASTING);
    assert_eq!(get(&server, "/other", guess).0, 200);
    let other = &b.seen()[0].head;
    assert!(!other.contains("guess") && !other.contains("swordfish"), "{other}");
    assert_eq!(values(other, "host"), [b.address.to_string()]);
    let answer = Plain::connect(server.address).fetch("/film");
    assert!(!answer.head.contains("swordfish"), "{}", answer.head);
    is_nowhere(&server, cache.path(), &log);
}

/// No secret is in what the edge shows, logs or stores, or in a command line.
fn is_nowhere(server: &Server, cache: &Path, log: &Path) {
    until("the log to have the requests", || fs::read_to_string(log).unwrap().contains("/other"));
    let mut shown = vec![server.said(), fs::read_to_string(log).unwrap()];
    shown.extend(["/metrics", "/status.json", "/healthz"].map(|page| server.admin_page(page).1));
    for words in ["why /film", "why /page --json", "ls"] {
        shown.push(String::from_utf8_lossy(&run_edge(server, words).stdout).into_owned());
    }
    for process in [children(server.process_id())[0], helper(server)] {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap();
        shown.push(String::from_utf8_lossy(&line).into_owned());
    }
    assert!(shown.iter().all(|text| !text.is_empty()));
    for entry in fs::read_dir(cache.join("objects")).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        shown.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    assert!(shown.iter().all(|text| !text.contains("swordfish")), "a secret is shown");
}

#[test]
fn a_reload_on_request_reads_the_files_of_origins_and_a_bad_one_shows_in_the_metrics() {
    let (origin, cache, folder) = (Origin::start(), tempdir().unwrap(), tempdir().unwrap());
    let secret = folder.path().join("secret");
    write_secret(&secret, "first");
    let edge = format!(
        "origin = {{ url = \"{}\", headers = {{ X-Origin-Secret = {{ file = {secret:?} }} }} }}",
        origin.url()
    );
    let server = launch(cache.path(), &edge).start();
    origin.put("/page", 1, 1000, BRIEF);
    let failing = || server.counter("reload_failing{kind=\"origin_files\"}");
    assert_eq!(failing(), 0);
    for (number, text) in ["second", "swordfish\nswordfish", "third"].into_iter().enumerate() {
        let is_good = !text.contains('\n');
        replace(&secret, text);
        server.signal(Signal::HUP);
        let said = "the files for origins reloaded on request";
        let good_ones = if number < 2 { 1 } else { 2 };
        until("the reload", || server.said().matches(said).count() == good_ones);
        until("the metric", || failing() == u64::from(!is_good));
        let expected = if is_good { text } else { "second" };
        until("the secret to be sent", || {
            assert_eq!(get(&server, "/page", "").0, 200);
            values(&origin.seen().last().unwrap().head, "x-origin-secret") == [expected]
        });
    }
    let failed = server.counter("reloads_failed_total{kind=\"origin_files\"}");
    assert!((1..=2).contains(&failed), "once for each look and request: {failed}");
    assert!(!server.said().contains("swordfish"), "no secret is shown");
}

#[test]
fn a_replaced_file_of_a_header_is_used_from_then_on_and_a_bad_one_is_reported() {
    let (origin, cache, folder) = (Origin::start(), tempdir().unwrap(), tempdir().unwrap());
    let secret = folder.path().join("secret");
    write_secret(&secret, "first");
    let edge = format!(
        "origin = {{ url = \"{}\", headers = {{ X-Origin-Secret = {{ file = {secret:?} }} }} }}",
        origin.url()
    );
    let server = launch(cache.path(), &edge).start();
    origin.put("/page", 1, 1000, BRIEF);
    let sent = || {
        assert_eq!(get(&server, "/page", "").0, 200);
        let seen = origin.seen();
        values(&seen.last().unwrap().head, "x-origin-secret").join(",")
    };
    assert_eq!(sent(), "first");
    replace(&secret, "second\n");
    until("the new secret to be sent", || sent() == "second");
    server.stderr.wait_for("the files for origins reloaded");
    replace(&secret, "third\nthird\n");
    let line = server.stderr.wait_for("the files for this origin already loaded stay in use");
    assert!(line.contains("X-Origin-Secret") && line.contains(secret.to_str().unwrap()), "{line}");
    assert!(!line.contains("third"), "{line}");
    assert_eq!(sent(), "second");
    // A helper that starts meanwhile has the last good one.
    let before = helper(&server);
    kill(before);
    eventually("another helper", || (helper(&server) != before).then_some(()));
    assert_eq!(sent(), "second");
    replace(&secret, "fourth");
    until("the next secret to be sent", || sent() == "fourth");
}

#[test]
fn settings_of_an_origin_that_cannot_be_used_are_refused_with_what_to_do() {
    let cache = tempdir().unwrap();
    let run = |origin: &str| {
        let ran = launch(cache.path(), &format!("origin = {origin}")).run();
        (ran.code, ran.stderr)
    };
    for (settings, said) in [
        ("headers = { Host = \"a\" }", "set host instead"),
        ("headers = { Transfer-Encoding = \"chunked\" }", "concerns one connection"),
        ("headers = { Content-Length = \"7\" }", "makes it for each request"),
        ("headers = { X-A = \"swordfish\\nX-B: b\" }", "one line of ASCII"),
        ("headers = { X-A = { file = \"/no/such/file\" } }", "cannot read /no/such/file"),
        ("host = \"a b\"", "films.example"),
        ("hots = \"a\"", "there is no setting `hots`"),
        ("user = \"us\"", "no password_file"),
        ("user = \"us\", password_file = \"/no/such/file\"", "cannot read /no/such/file"),
    ] {
        let (code, stderr) = run(&format!("{{ url = \"http://127.0.0.1:1\", {settings} }}"));
        assert!(code.is_some_and(|code| code > 0) && stderr.contains(said), "{settings}: {stderr}");
        assert!(!stderr.contains("swordfish"), "{stderr}");
    }
    let (_, stderr) = run("\"http://us:pw@127.0.0.1:1\"");
    assert!(stderr.contains("password_file") && !stderr.contains("pw"), "{stderr}");
}

#[test]
fn an_origin_named_by_a_flag_has_the_settings_of_its_address() {
    let (origin, cache) = (Origin::start(), tempdir().unwrap());
    let edge = format!(
        "origin = [\"http://127.0.0.1:1\", {{ url = \"{}/\", host = \"films.example\" }}]",
        origin.url()
    );
    let launch = launch(cache.path(), &edge).arguments("--origin").argument(origin.url());
    let server = launch.arguments("--cache").argument(cache.path()).start();
    origin.put("/film", 1, 1000, LASTING);
    assert_eq!(get(&server, "/film", "").0, 200);
    assert_eq!(values(&origin.seen()[0].head, "host"), ["films.example"]);
    server.wait_for_news();
    assert_eq!(server.sum("edge_origin_failures_total"), 0, "there is no other origin");
}

/// `us:pw`, `us:new` and `me:mine`, as HTTP Basic sends them.
const FORMER: &str = "Basic dXM6cHc=";
const LATER: &str = "Basic dXM6bmV3";
const VIEWERS: &str = "Basic bWU6bWluZQ==";

fn with_password(origin: &Origin, file: &Path) -> String {
    let url = origin.url();
    format!("{{ url = \"{url}\", user = \"us\", password_file = {file:?} }}")
}

#[test]
fn a_password_of_the_edge_is_for_all_viewers_and_one_of_a_viewer_for_that_viewer() {
    let (origin, cache, folder) = (Origin::start(), tempdir().unwrap(), tempdir().unwrap());
    let password = folder.path().join("password");
    write_secret(&password, "pw\n");
    let edge = format!("origin = {}", with_password(&origin, &password));
    let server = launch(cache.path(), &edge).start();
    let film = origin.put("/film", 1, 3 * MIB, LASTING);
    let page = origin.put("/page", 2, 1000, LASTING);
    origin.change("/page", |page| page.etag = "W/\"v2\"".into());
    for _ in 0..3 {
        assert!(get(&server, "/film", "") == (200, film.to_vec()));
        assert!(get(&server, "/page", "") == (200, page.to_vec()));
    }
    assert_eq!((origin.count("/film"), origin.count("/page")), (2, 1), "they are shared");
    let sent = |seen: &Seen| values(&seen.head, "authorization").join(",");
    assert!(origin.seen().iter().all(|seen| sent(seen) == FORMER));
    // A viewer's own password is not replaced, and neither is what is kept for all.
    let own = origin.put("/own", 3, 1000, LASTING);
    let lines = format!("Authorization: {VIEWERS}\r\n");
    for _ in 0..2 {
        assert!(get(&server, "/own", &lines) == (200, own.to_vec()));
    }
    let seen = origin.seen();
    let seen: Vec<_> = seen.iter().filter(|seen| seen.path == "/own").map(sent).collect();
    assert_eq!(seen, [VIEWERS, VIEWERS], "it is passed on, for each request");
    assert!(get(&server, "/own", "") == (200, own.to_vec()));
    assert_eq!(sent(origin.seen().last().unwrap()), FORMER);
    replace(&password, "new");
    until("the new password to be sent", || {
        get(&server, "/missing", "");
        sent(origin.seen().last().unwrap()) == LATER
    });
    let shown = server.said() + &server.admin_page("/metrics").1;
    assert!(!shown.contains("pw") && !shown.contains("dXM6"), "{shown}");
}

#[test]
fn an_origin_that_refuses_the_edges_password_costs_the_cache_nothing() {
    let (a, b, cache) = (Origin::start(), Origin::start(), tempdir().unwrap());
    let folder = tempdir().unwrap();
    let password = folder.path().join("password");
    write_secret(&password, "pw");
    let edge = format!("origin = {}", with_password(&a, &password));
    let server = launch(cache.path(), &edge).start();
    let film = a.put("/film", 1, 2 * MIB, BRIEF);
    assert!(get(&server, "/film", "") == (200, film.to_vec()));
    let asked = "WWW-Authenticate: Basic realm=\"films\"\r\n".to_owned();
    a.behave(Manner::Status(401, asked));
    assert!(get(&server, "/film", "") == (200, film.to_vec()), "it may be stale");
    let refused = Plain::connect(server.address).fetch("/other");
    assert_eq!(refused.status, 502);
    assert!(!refused.head.to_lowercase().contains("www-authenticate"), "no viewer has it");
    server.stderr.wait_for("refuses the edge's user and password");
    // A viewer's own password is between that viewer and the origin.
    let own = Plain::connect(server.address)
        .fetch_with("/other", &format!("Authorization: {VIEWERS}\r\n"));
    assert_eq!(own.status, 401);
    assert!(own.head.to_lowercase().contains("www-authenticate"));
    a.behave(Manner::Good);
    until("the film to be confirmed", || {
        let before = a.count("/film");
        assert!(get(&server, "/film", "") == (200, film.to_vec()));
        a.count("/film") > before
    });
    server.wait_for_news();
    assert_eq!(server.sum("edge_fetched_bytes_total"), film.len() as u64, "nothing came twice");
    drop(server);
    // With another origin, viewers get what that one has.
    let (edge, cache) = (
        format!("origin = [{}, \"{}\"]", with_password(&a, &password), b.url()),
        tempdir().unwrap(),
    );
    let server = launch(cache.path(), &edge).start();
    a.behave(Manner::Status(401, String::new()));
    let film = b.put("/film", 1, 2 * MIB, LASTING);
    assert!(get(&server, "/film", "") == (200, film.to_vec()));
    server.stderr.wait_for("refuses the edge's user and password");
    assert!(b.seen().iter().all(|seen| values(&seen.head, "authorization").is_empty()));
}
