//! Certificates by ACME (`[tls.acme]`): the real program with a real authority ([`pebble`]), and with one that misbehaves ([`faults`]).

mod customers;
mod faults;
mod pebble;
mod slowhttp;

use fullbore_tests::{Launch, Server, Signal, bytes, eventually, program, tool, until};
use pebble::{Pebble, ask};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::{TempDir, tempdir};

const FILM_BYTES: usize = 3_000_000;

fn film() -> Vec<u8> {
    bytes(FILM_BYTES, 1)
}

fn library() -> TempDir {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("film.mp4"), film()).unwrap();
    folder
}

/// Fetches the film under the name `host`, as a client that trusts the certificates in `roots`. Returns curl's error if that fails.
fn watch(server: &Server, host: &str, roots: &Path) -> Result<Vec<u8>, String> {
    let (address, port) = (server.address.ip(), server.address.port());
    let mut curl = tool::command("curl");
    curl.args(["-fsS", "--max-time", "60", "--resolve", &format!("{host}:{port}:{address}")]);
    let ran =
        tool::run(curl.arg("--cacert").arg(roots).arg(format!("https://{host}:{port}/film.mp4")));
    if ran.success { Ok(ran.stdout) } else { Err(ran.stderr) }
}

fn wait_for_certificate(server: &Server) {
    server.wait_for_counter("acme_certificates_total", 1);
    until("the server to use it", || server.said().contains("certificates reloaded because"));
}

#[test]
fn three_lines_of_configuration_make_a_server_that_clients_trust() {
    let Some(pebble) = Pebble::if_here() else { return };
    let (library, state) = (library(), tempdir().unwrap());
    let lines = format!("listen = \"{}\"\nredirect_http = true", pebble.http());
    let section = pebble.section(&["video.example.org", "www.example.org"], &lines);
    let section = format!("[tls]\nhsts_seconds = 31536000\n{section}");
    let launch = Launch::of(library.path()).config(&section).state(state.path());
    let launch = launch.listen(&pebble.https().to_string());
    let server = launch.clone().start();
    wait_for_certificate(&server);
    let root = pebble.root();
    for host in ["video.example.org", "www.example.org"] {
        assert!(watch(&server, host, &root).unwrap() == film());
    }
    assert!(watch(&server, "other.example.org", &root).is_err(), "that name was not certified");
    assert!(watch(&server, "video.example.org", &pebble.file("own.pem")).is_err());
    let mut curl = tool::command("curl");
    let ran = tool::run(curl.args(["-fsSIk", &server.url_of("film.mp4")]));
    let hsts = "strict-transport-security: max-age=31536000";
    assert!(ran.text().to_lowercase().contains(hsts), "{}", ran.text());
    // Other requests are redirected, and find no old answers.
    let (status, head) = ask(pebble.http(), "/film.mp4");
    let place = format!("Location: https://localhost:{}/film.mp4\r\n", pebble.https().port());
    assert!(status == 308 && head.contains(&place), "{head}");
    assert_eq!(ask(pebble.http(), "/.well-known/acme-challenge/x").0, 404);
    let (certificate, account) =
        (state.path().join("acme/certificate.pem"), state.path().join("acme-account/account.json"));
    for file in [&certificate, &account] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let left = server.counter("acme_certificate_left_seconds");
    assert!(left > 24 * 3600 && server.counter("acme_overdue_seconds") == 0, "{left}");
    let said = server.finish();
    let first = "it should be there within a minute; until then, viewers get a self-signed one";
    assert!(said.contains(first), "{said}");
    assert!(said.contains("there is a new certificate for video.example.org, www.example.org"));
    assert!(!said.contains("PRIVATE KEY") && !said.contains("key_pkcs8"), "{said}");

    // The helper has ended with its server, and the next one keeps the existing files.
    until("the address to be free", || TcpListener::bind(pebble.http()).is_ok());
    let kept = fs::read(&certificate).unwrap();
    let server = launch.start();
    assert!(watch(&server, "video.example.org", &root).unwrap() == film());
    server.signal(Signal::HUP);
    until("a reload", || server.said().contains("certificates reloaded on request"));
    assert_eq!(server.counter("acme_certificates_total"), 0);
    assert!(fs::read(&certificate).unwrap() == kept);
    server.finish();
}

/// The answer to openssl, which offers the protocol of proofs for the name `host`, and requests a film.
fn as_authority(server: &Server, host: &str) -> tool::Ran {
    let client = format!(
        "printf 'GET /film.mp4 HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n' | \
         openssl s_client -alpn acme-tls/1 -servername {host} -connect {} -ign_eof",
        server.address
    );
    tool::run(tool::command("sh").args(["-c", &client]))
}

#[test]
fn alpn_a_client_that_comes_for_a_proof_gets_that_and_no_film() {
    let Some(pebble) = Pebble::if_here_and_waits(5) else { return };
    let library = library();
    let domains = ["a.example.org", "b.example.org", "c.example.org", "d.example.org"];
    let section = pebble.section(&domains, "challenge = \"tls-alpn-01\"");
    let launch = Launch::of(library.path()).config(&section);
    let server = launch.listen(&pebble.https().to_string()).start();
    let proof = eventually("a proof", || {
        let ran = as_authority(&server, domains[0]);
        ran.text().contains("ALPN protocol: acme-tls/1").then(|| ran.text())
    });
    assert!(proof.contains("-----BEGIN CERTIFICATE-----"), "{proof}");
    assert!(!proof.contains("HTTP/1.1"), "{proof}");
    let none = as_authority(&server, "other.example.org");
    assert!(!none.text().contains("-----BEGIN CERTIFICATE-----"), "{}", none.text());
    assert!(server.counter("connections_ended_total{reason=\"acme_proof\"}") > 0);
    assert_eq!(server.sum("requests_total"), 0);
    wait_for_certificate(&server);
    assert!(watch(&server, domains[0], &pebble.root()).unwrap() == film());
    server.finish();
}

#[test]
fn alpn_names_are_proved_where_viewers_connect_and_without_another_port() {
    let Some(pebble) = Pebble::if_here() else { return };
    let library = library();
    let domains = ["video.example.org", "www.example.org", "b.example"];
    for tls in ["", "[tls]\nversions = \"1.2\"\n"] {
        let section = pebble.section(&domains, "challenge = \"tls-alpn-01\"");
        let launch = Launch::of(library.path()).config(&format!("{tls}{section}"));
        let server = launch.listen(&pebble.https().to_string()).start();
        wait_for_certificate(&server);
        let root = pebble.root();
        for host in domains {
            assert!(watch(&server, host, &root).unwrap() == film());
        }
        assert!(watch(&server, "other.example.org", &root).is_err());
        // Pebble checks each name several times.
        assert!(server.counter("connections_ended_total{reason=\"acme_proof\"}") >= 3);
        assert!(TcpStream::connect(pebble.http()).is_err(), "no program listens there");
        // With nothing to prove, the protocol is not spoken.
        let ran = as_authority(&server, domains[0]);
        assert!(ran.stderr.contains("no application protocol"), "{}", ran.stderr);
        server.wait_for_counter("connections_ended_total{reason=\"no_alpn\"}", 1);
        server.finish();
    }
}

#[test]
fn alpn_no_proof_fails_because_of_an_upgrade() {
    // Up to this long, by a random number: so it hardly ever checks before anybody has seen the proof.
    let Some(pebble) = Pebble::if_here_and_waits(12) else { return };
    let (library, state) = (library(), tempdir().unwrap());
    let section = pebble.section(&["a.example.org"], "challenge = \"tls-alpn-01\"");
    let launch = Launch::of(library.path()).config(&section).state(state.path());
    let mut old = launch.listen(&pebble.https().to_string()).start();
    until("a proof", || {
        as_authority(&old, "a.example.org").text().contains("ALPN protocol: acme-tls/1")
    });
    // To a file, because the new server keeps its standard error.
    let path = state.path().join("said");
    let said = || fs::read_to_string(&path).unwrap();
    let mut upgrade = tool::command(program().to_str().unwrap());
    upgrade.args(["upgrade", "--settle-seconds", "0.3", "--arguments-of"]);
    upgrade.stdout(std::process::Stdio::null());
    upgrade.arg(old.process_id().to_string()).stderr(fs::File::create(&path).unwrap());
    assert!(upgrade.status().unwrap().success(), "{}", said());
    let new = said()
        .split("fullbore: process ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next()?.parse().ok());
    let new = new.and_then(rustix::process::Pid::from_raw).unwrap();
    // By either helper: the old one's order may end before it does.
    until("a certificate", || watch(&old, "a.example.org", &pebble.root()).is_ok());
    assert_eq!(old.wait().code(), Some(0));
    rustix::process::kill_process(new, Signal::TERM).unwrap();
    until("the new one to end", || rustix::process::test_kill_process(new).is_err());
    let all = format!("{}{}", old.said(), said());
    assert!(!all.contains("no new certificate") && !all.contains("are gone"), "{all}");
}

#[test]
fn alpn_a_name_that_leads_elsewhere_is_told_and_nothing_is_left_to_prove() {
    let Some(pebble) = Pebble::if_here() else { return };
    let library = library();
    let elsewhere = pebble.mislead("b.example.org");
    let domains = ["a.example.org", "b.example.org"];
    let section = pebble.section(&domains, "challenge = \"tls-alpn-01\"");
    let launch = Launch::of(library.path()).config(&section);
    let server = launch.listen(&pebble.https().to_string()).start();
    server.wait_for_counter("acme_failures_total{reason=\"rejected\"}", 1);
    let said = server.stderr.wait_for("no new certificate for a.example.org, b.example.org: ");
    assert!(said.contains("b.example.org: the authority says: "), "{said}");
    assert!(said.contains(&elsewhere.to_string()) || said.contains("connection"), "{said}");
    let ran = as_authority(&server, domains[0]);
    assert!(ran.stderr.contains("no application protocol"), "{}", ran.stderr);
    server.finish();
}

#[test]
fn a_wildcard_is_proved_in_dns_by_a_hook() {
    let Some(pebble) = Pebble::if_here() else { return };
    let library = library();
    let lines = format!("dns_hook = {:?}", pebble.hook());
    let section = pebble.section(&["*.films.example.org", "films.example.org"], &lines);
    let server = Launch::of(library.path()).config(&section).start();
    wait_for_certificate(&server);
    let root = pebble.root();
    for host in ["one.films.example.org", "films.example.org"] {
        assert!(watch(&server, host, &root).unwrap() == film());
    }
    let mut calls = pebble.calls();
    calls.sort();
    let call = |verb: &str, name: &str| format!("{verb} {name} _acme-challenge.films.example.org");
    let both = ["*.films.example.org", "films.example.org"];
    let expected = ["cleanup", "present"].map(|verb| both.map(|name| call(verb, name)));
    assert_eq!(calls, expected.concat());
    server.finish();
}

#[test]
fn a_name_that_the_authority_cannot_find_is_told_and_the_old_certificate_stays() {
    let Some(pebble) = Pebble::if_here() else { return };
    let (library, state) = (library(), tempdir().unwrap());
    let launch = Launch::of(library.path()).state(state.path());
    let lines = format!("listen = \"{}\"", pebble.http());
    let first = launch.clone().config(&pebble.section(&["a.example.org"], &lines)).start();
    wait_for_certificate(&first);
    first.finish();
    // One more name, and an address that the authority doesn't check.
    let lines = format!("listen = \"{}\"", pebble.nobody());
    let section = pebble.section(&["a.example.org", "b.example.org"], &lines);
    let server = launch.config(&section).start();
    server.wait_for_counter("acme_failures_total{reason=\"rejected\"}", 1);
    server.stderr.wait_for("no new certificate for a.example.org, b.example.org: ");
    let said = server.stderr.lines().join("\n");
    assert!(said.contains("the one in use is for a.example.org"), "{said}");
    assert!(said.contains("example.org: the authority says: "), "{said}");
    assert!(said.contains("next try in 60 min") || said.contains("next try in 6"), "{said}");
    assert!(watch(&server, "a.example.org", &pebble.root()).unwrap() == film());
    server.finish();
}

#[test]
fn a_name_that_leads_elsewhere_in_dns_is_told_and_the_old_certificate_stays() {
    let Some(pebble) = Pebble::if_here() else { return };
    let (library, state) = (library(), tempdir().unwrap());
    let launch = Launch::of(library.path()).state(state.path());
    let lines = format!("listen = \"{}\"", pebble.http());
    let first = launch.clone().config(&pebble.section(&["a.example.org"], &lines)).start();
    wait_for_certificate(&first);
    first.finish();
    until("the address to be free", || TcpListener::bind(pebble.http()).is_ok());
    let elsewhere = pebble.mislead("b.example.org");
    let section = pebble.section(&["a.example.org", "b.example.org"], &lines);
    let server = launch.config(&section).start();
    server.wait_for_counter("acme_failures_total{reason=\"rejected\"}", 1);
    let said = server.stderr.wait_for("no new certificate for a.example.org, b.example.org: ");
    assert!(said.contains("b.example.org: the authority says: "), "{said}");
    assert!(said.contains(&elsewhere.to_string()) || said.contains("connection"), "{said}");
    assert!(watch(&server, "a.example.org", &pebble.root()).unwrap() == film());
    server.finish();
}

#[test]
fn a_helper_that_is_killed_is_started_again_with_least_privilege_and_ends_with_the_server() {
    let Some(pebble) = Pebble::if_here() else { return };
    let library = library();
    let lines = format!("listen = \"{}\"", pebble.http());
    let server =
        Launch::of(library.path()).config(&pebble.section(&["a.example.org"], &lines)).start();
    wait_for_certificate(&server);
    let first = helper(&server);
    let status = fs::read_to_string(format!("/proc/{first}/status")).unwrap();
    for given_up in ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(status.contains(given_up), "{status}");
    }
    let process = rustix::process::Pid::from_raw(first as i32).unwrap();
    rustix::process::kill_process(process, Signal::KILL).unwrap();
    until("another one", || helper_of(&server).is_some_and(|now| now != first));
    until("it to listen", || TcpStream::connect(pebble.http()).is_ok());
    // It doesn't order an existing certificate.
    assert_eq!(server.counter("acme_certificates_total"), 1);
    let last = helper(&server);
    let said = server.finish();
    assert!(
        said.contains("the certificates' helper ended (signal: 9 (SIGKILL)); it is restarted"),
        "{said}"
    );
    until("the helper to end with the server", || !Path::new(&format!("/proc/{last}")).exists());
}

/// The process of a server's helper: the only child of the keeper, which is the server's.
fn helper(server: &Server) -> u32 {
    eventually("a helper", || helper_of(server))
}

fn helper_of(server: &Server) -> Option<u32> {
    only_child(only_child(server.process_id())?)
}

fn only_child(process: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}
