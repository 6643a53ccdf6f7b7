//! Results of openssl s_client: resumption, key updates, names, protocols, and certificates that are replaced while the
//! server runs.

use fullbore_tests::tool;
use fullbore_tests::{Certificate, Launch, Said, Server, Signal, certificate, eventually, file};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use tempfile::{TempDir, tempdir};

const ASK_AND_LEAVE: &str = "GET /note.txt HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
const NOTE: &str = "this is the note";

fn openssl_is_here() -> bool {
    tool::are_here(&[("openssl", "openssl")])
}

/// A library with a short file.
fn library() -> TempDir {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("note.txt"), NOTE).unwrap();
    folder
}

/// A running `openssl s_client`. Ended when dropped.
struct Client {
    child: Child,
    input: ChildStdin,
    output: Said,
}

impl Client {
    fn connect(server: &Server, words: &str) -> Self {
        let mut command = tool::command("sh");
        // Both outputs in one, because s_client writes to both.
        let address = server.address;
        command.args(["-c", &format!("exec openssl s_client -connect {address} {words} 2>&1")]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = Said::listen(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Sends these bytes in one piece.
    fn say(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).expect("s_client runs");
        self.input.flush().expect("s_client runs");
    }

    /// Waits for its end, and returns all its output.
    fn end(mut self) -> String {
        eventually("s_client to end", || self.child.try_wait().unwrap());
        let output = self.output.clone();
        // The pipe may still have the last lines.
        eventually("the end of its words", || output.has_ended().then_some(()));
        output.lines().join("\n")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // This fails only if the child has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything that s_client prints about a connection with one request.
fn visit(server: &Server, words: &str) -> String {
    let mut client = Client::connect(server, words);
    // If the handshake fails, s_client may be gone before it gets the request.
    let _ = client.input.write_all(ASK_AND_LEAVE.as_bytes());
    client.end()
}

#[test]
fn a_session_is_taken_up_again_from_its_ticket() {
    if !openssl_is_here() {
        return;
    }
    let folder = library();
    let server = Server::start(folder.path(), "");
    for (flag, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let ticket = server.state.join(version);
        let first = visit(&server, &format!("{flag} -sess_out {}", ticket.display()));
        assert!(first.contains(&format!("New, {version}")) && first.contains(NOTE), "{first}");
        let second = visit(&server, &format!("{flag} -sess_in {}", ticket.display()));
        assert!(
            second.contains(&format!("Reused, {version}")) && second.contains(NOTE),
            "{second}"
        );
    }
    let counters = server.counters();
    assert_eq!(counters.value("handshakes_by_kind_total{kind=\"full\"}"), 2);
    assert_eq!(counters.value("handshakes_by_kind_total{kind=\"resumed\"}"), 2);
}

#[test]
fn a_client_whose_signature_schemes_do_not_fit_is_told() {
    if !openssl_is_here() {
        return;
    }
    let folder = library();
    let server = Server::start(folder.path(), "");
    // The certificate that the server makes itself uses P-256, which TLS 1.3 signs only with SHA-256, and so does the
    // server.
    for flag in ["-tls1_2", "-tls1_3"] {
        let said = visit(&server, &format!("{flag} -sigalgs ECDSA+SHA384"));
        assert!(said.contains("SSL alert number 40"), "no handshake_failure: {said}");
    }
    server.wait_for_counter("connections_ended_total{reason=\"no_shared_cipher\"}", 2);
}

#[test]
fn without_tickets_every_handshake_is_a_full_one() {
    if !openssl_is_here() {
        return;
    }
    let folder = library();
    let server = Server::start(folder.path(), "--off tickets");
    let said = visit(&server, "-tls1_3");
    assert!(said.contains(NOTE) && !said.contains("TLS session ticket:"), "{said}");
}

#[test]
fn a_client_may_change_its_keys_and_ask_for_the_same() {
    if !openssl_is_here() {
        return;
    }
    let folder = library();
    let server = Server::start(folder.path(), "");
    let mut client = Client::connect(&server, "-tls1_3");
    // s_client takes commands only while it does not read, and only at the start of its input.
    client.output.wait_for("Verify return code");
    client.say("K\n");
    server.wait_for_counter("key_updates_received_total", 1);
    client.say("k\n");
    server.wait_for_counter("key_updates_received_total", 2);
    client.say(ASK_AND_LEAVE);
    let said = client.end();
    assert!(said.contains(NOTE), "{said}");
    assert_eq!(server.counters().value("key_updates_sent_total"), 1, "only one was asked for");
}

/// `--cert` and `--key` for each of these.
fn given(launch: Launch, certificates: &[&Certificate]) -> Launch {
    certificates.iter().fold(launch, |launch, pair| {
        launch.argument("--cert").argument(&pair.cert).argument("--key").argument(&pair.key)
    })
}

#[test]
fn the_name_that_a_client_asks_for_chooses_the_certificate() {
    if !openssl_is_here() {
        return;
    }
    let (folder, keys) = (library(), tempdir().unwrap());
    let first = certificate(keys.path(), "first.example", "ec");
    let second = certificate(keys.path(), "second.example", "rsa:2048");
    let server = given(Launch::of(folder.path()), &[&first, &second]).start();
    let cases = [
        ("-servername first.example", "first.example"),
        ("-servername second.example", "second.example"),
        ("-servername other.example", "first.example"),
        ("-noservername", "first.example"),
    ];
    for (words, name) in cases {
        for version in ["-tls1_2", "-tls1_3"] {
            assert_eq!(shown_name(&server, &format!("{version} {words}")), name, "{words}");
        }
    }
}

/// The common name in the certificate that the server shows.
fn shown_name(server: &Server, words: &str) -> String {
    let said = visit(server, words);
    let subject = said.lines().find(|line| line.starts_with("subject="));
    let name = subject.and_then(|subject| subject.rsplit('=').next());
    name.unwrap_or_else(|| panic!("{said}")).trim().to_owned()
}

#[test]
fn a_client_that_speaks_only_http_2_is_told() {
    if !openssl_is_here() {
        return;
    }
    let folder = library();
    let server = Server::start(folder.path(), "");
    let said = visit(&server, "-alpn h2,http/1.1");
    assert!(said.contains("ALPN protocol: http/1.1") && said.contains(NOTE), "{said}");
    for version in ["-tls1_2", "-tls1_3"] {
        let said = visit(&server, &format!("{version} -alpn h2"));
        assert!(said.contains("alert number 120"), "{said}");
    }
    server.wait_for_counter("connections_ended_total{reason=\"no_alpn\"}", 2);
}

#[test]
fn a_version_too_old_is_refused_by_an_alert() {
    if !openssl_is_here() {
        return;
    }
    let folder = library();
    let server = Server::start(folder.path(), "");
    let said = visit(&server, "-tls1_1 -cipher DEFAULT@SECLEVEL=0");
    // protocol_version. TLS 1.1 has no signature algorithms extension, which rustls checks before the version.
    assert!(said.contains("alert number 70") && !said.contains(NOTE), "{said}");
    server.wait_for_counter("connections_ended_total{reason=\"unsupported_version\"}", 1);
}

/// A viewer in the middle of a long file, who pauses until released.
struct SlowViewer {
    child: Child,
    got: Vec<u8>,
}

impl SlowViewer {
    fn start(server: &Server, name: &str) -> Self {
        let mut command = tool::command("curl");
        command.args(["--silent", "--show-error", "--insecure", &server.url_of(name)]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut got = vec![0; 1 << 20];
        child.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
        Self { child, got }
    }

    fn rest(mut self) -> Vec<u8> {
        self.child.stdout.as_mut().unwrap().read_to_end(&mut self.got).unwrap();
        assert!(self.child.wait().unwrap().success(), "curl found fault with the rest");
        self.got
    }
}

/// Replaces the pair `to` by `from`, each file by renaming.
fn replace(from: &Certificate, to: &Certificate) {
    for (from, to) in [(&from.cert, &to.cert), (&from.key, &to.key)] {
        let beside = to.with_extension("new");
        fs::copy(from, &beside).unwrap();
        fs::rename(&beside, to).unwrap();
    }
}

fn wait_for_name(server: &Server, name: &str) {
    eventually(&format!("{name} to be shown"), || (shown_name(server, "") == name).then_some(()));
}

/// A server with a long film and a certificate that may be replaced, for tests that replace it.
fn with_viewer_under_way(act: impl FnOnce(&Server, &Path, &Certificate)) {
    if !tool::are_here(&[("openssl", "openssl"), ("curl", "curl")]) {
        return;
    }
    let (folder, keys) = (library(), tempdir().unwrap());
    // More than the kernel's buffers on both sides hold.
    let film = file(folder.path(), "film.mp4", 40_000_000);
    let pair = certificate(keys.path(), "before.example", "ec");
    let server = given(Launch::of(folder.path()), &[&pair]).start();
    assert_eq!(shown_name(&server, ""), "before.example");
    let viewer = SlowViewer::start(&server, "film.mp4");
    act(&server, keys.path(), &pair);
    assert!(viewer.rest() == film, "the viewer under way got other bytes");
}

#[test]
fn a_certificate_replaced_on_disk_is_shown_to_new_viewers_and_hurts_none() {
    with_viewer_under_way(|server, keys, pair| {
        replace(&certificate(keys, "after.example", "rsa:2048"), pair);
        wait_for_name(server, "after.example");
        server.stderr.wait_for("certificates reloaded because they changed on disk");
    });
}

#[test]
fn sighup_reads_the_certificates_again() {
    with_viewer_under_way(|server, keys, pair| {
        replace(&certificate(keys, "after.example", "ec"), pair);
        server.signal(Signal::HUP);
        wait_for_name(server, "after.example");
        server.signal(Signal::HUP);
        server.stderr.wait_for("certificates reloaded on request");
    });
}

#[test]
fn a_broken_new_certificate_is_told_and_leaves_the_old_one_in_place() {
    with_viewer_under_way(|server, keys, pair| {
        fs::write(&pair.cert, "this is no certificate").unwrap();
        server.signal(Signal::HUP);
        let told = server.stderr.wait_for("the certificates already loaded stay in use");
        assert!(told.contains("before.example.cert.pem"), "it does not say which: {told}");
        assert_eq!(shown_name(server, ""), "before.example");
        // Once corrected, it is loaded without a request.
        replace(&certificate(keys, "after.example", "ec"), pair);
        wait_for_name(server, "after.example");
    });
}
