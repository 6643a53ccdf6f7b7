//! Authorities that cannot be reached, or that misbehave: over plain HTTP on loopback, which is allowed for that. Throughout, viewers get
//! the previous certificate.

use fullbore_tests::{Launch, free_port, program, tool, until};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::tempdir;
use time::OffsetDateTime;

/// An authority that answers every request with `answer` of its path.
fn authority(answer: impl Fn(&str, SocketAddr) -> String + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let Some(path) = request(&mut stream) else { continue };
            // A client that is gone means the end of the test.
            let _ = stream.get_mut().write_all(answer(&path, address).as_bytes());
        }
    });
    address
}

/// Reads a whole request, because closing with unread bytes would discard the answer. Returns its path.
fn request(stream: &mut impl BufRead) -> Option<String> {
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line: &String| line.len() > 2) {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        lines.push(line);
    }
    let length = lines.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    stream.read_exact(&mut vec![0; length.unwrap_or(0)]).ok()?;
    lines[0].split(' ').nth(1).map(str::to_owned)
}

fn answer(status: &str, lines: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{lines}\r\n{body}"
    )
}

/// Starts a server whose certificate is due for renewal, and that uses `authority`. Waits until a failure of this kind is counted, while viewers
/// get the old certificate. Returns the log's line about it.
fn fails(authority: SocketAddr, reason: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let ends = date_time_ymd(1970, 1, 1) + now + Duration::from_secs(30 * 86_400);
    let said = fails_until(authority, reason, ends);
    assert!(said.contains("; the certificate in use ends on "), "{said}");
    said
}

/// Puts a certificate into the folder `state`, as if it came by ACME and expires then. Returns the path of a copy without its key.
fn keep_certificate(state: &Path, ends: OffsetDateTime) -> PathBuf {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(["a.example.org".to_owned()]).unwrap();
    parameters.use_authority_key_identifier_extension = true;
    parameters.not_before = date_time_ymd(2026, 1, 1);
    parameters.not_after = ends;
    let certificate = parameters.self_signed(&key).unwrap();
    std::fs::create_dir(state.join("acme")).unwrap();
    let both = certificate.pem() + &key.serialize_pem();
    std::fs::write(state.join("acme/certificate.pem"), both).unwrap();
    let alone = state.join("old.pem");
    std::fs::write(&alone, certificate.pem()).unwrap();
    alone
}

/// As [`fails`], with a certificate that `ends` then.
fn fails_until(authority: SocketAddr, reason: &str, ends: OffsetDateTime) -> String {
    let state = tempdir().unwrap();
    let state = state.path();
    let old = keep_certificate(state, ends);
    let library = tempdir().unwrap();
    std::fs::write(library.path().join("note.txt"), "this is the note").unwrap();
    let config = format!(
        "[tls.acme]\ndomains = [\"a.example.org\"]\ndirectory = \"http://{authority}/dir\"\nlisten = \"127.0.0.1:{}\"\n",
        free_port()
    );
    let server = Launch::of(library.path()).config(&config).state(state).start();
    server.wait_for_counter(&format!("acme_failures_total{{reason=\"{reason}\"}}"), 1);
    let said = || server.stderr.lines().join("\n");
    until("a line about it", || said().contains("no new certificate for a.example.org: "));
    // Viewers who trust nothing but the old certificate are served meanwhile.
    let (address, port) = (server.address.ip(), server.address.port());
    let mut curl = tool::command("curl");
    curl.args(["-fsS", "--resolve", &format!("a.example.org:{port}:{address}"), "--cacert"]);
    let ran = tool::run(curl.arg(old).arg(format!("https://a.example.org:{port}/note.txt")));
    assert_eq!(ran.text(), "this is the note", "{}", ran.stderr);
    assert_eq!(server.counter("acme_certificates_total"), 0);
    let said = said();
    server.finish();
    said
}

#[test]
fn an_authority_that_is_not_there_is_asked_again_within_minutes() {
    let said = fails(SocketAddr::from(([127, 0, 0, 1], free_port())), "unreachable");
    assert!(said.contains("refused") && said.contains("next try in 6"), "{said}");
    let said = fails(authority(|_, _| answer("503 Busy", "", "<html>")), "unreachable");
    assert!(
        said.contains("the authority answered 503") && said.contains("next try in 6"),
        "{said}"
    );
}

#[test]
fn an_authority_that_makes_no_sense_is_told() {
    let said = fails(authority(|_, _| answer("200 OK", "", "<html>\u{1b}[31m")), "malformed");
    assert!(said.contains("answer is invalid") && said.contains("next try in 1"), "{said}");
    assert!(!said.contains('\u{1b}'));
}

/// The first answer of any authority.
fn usual(path: &str, address: SocketAddr) -> Option<String> {
    let url = |name: &str| format!("\"{name}\":\"http://{address}/{name}\"");
    match path {
        "/dir" => {
            let names = ["newNonce", "newAccount", "newOrder", "renewalInfo"];
            Some(answer("200 OK", "", &format!("{{{}}}", names.map(url).join(","))))
        }
        "/newNonce" => Some(answer("200 OK", "Replay-Nonce: bm9uY2U\r\n", "")),
        _ => None,
    }
}

fn problem(kind: &str, detail: &str) -> String {
    format!("{{\"type\":\"urn:ietf:params:acme:error:{kind}\",\"detail\":\"{detail}\"}}")
}

#[test]
fn an_authority_that_wants_a_certificate_replaced_is_asked_for_another_one_at_once() {
    let revoking = |path: &str, address: SocketAddr| {
        usual(path, address).unwrap_or_else(|| match path {
            "/newAccount" => answer(
                "201 Created",
                &format!("Location: http://{address}/account\r\nReplay-Nonce: bm9uY2U\r\n"),
                "{\"status\":\"valid\"}",
            ),
            "/newOrder" => answer("403 Forbidden", "", &problem("unauthorized", "not today")),
            _ => answer(
                "200 OK",
                "Retry-After: 21600\r\n",
                "{\"suggestedWindow\":{\"start\":\"2026-01-02T00:00:00Z\",\"end\":\"2026-01-03T00:00:00Z\"},\
                 \"explanationURL\":\"https://why.example\"}",
            ),
        })
    };
    let said = fails_until(authority(revoking), "rejected", date_time_ymd(2126, 1, 1));
    assert!(said.contains("wants the certificate replaced now (https://why.example)"), "{said}");
    assert!(said.contains("not today (urn:ietf:params:acme:error:unauthorized)"), "{said}");
    assert!(said.contains("the certificate in use ends on Tue, 01 Jan 2126"), "{said}");
}

#[test]
fn an_authority_that_asks_for_patience_gets_it() {
    let patience = |path: &str, address: SocketAddr| {
        usual(path, address).unwrap_or_else(|| {
            let lines = "Retry-After: 36000\r\n";
            answer("429 Too Many Requests", lines, &problem("rateLimited", "too many"))
        })
    };
    let said = fails(authority(patience), "rate_limited");
    assert!(said.contains("too many (urn:ietf:params:acme:error:rateLimited)"), "{said}");
    assert!(said.contains("next try in 10 h") || said.contains("next try in 11 h"), "{said}");
}

#[test]
fn what_the_address_for_challenges_needs_is_told_at_the_start() {
    let (library, taken) = (tempdir().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let config = library.path().join("fullbore.toml");
    let listen = taken.local_addr().unwrap();
    std::fs::write(
        &config,
        format!("[tls.acme]\ndomains = [\"a.example.org\"]\nlisten = \"{listen}\"\n"),
    )
    .unwrap();
    let folder = tempdir().unwrap();
    let mut command = tool::command(program().to_str().unwrap());
    command.arg("serve").arg(folder.path()).arg("--config").arg(&config);
    command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--state"]);
    let ran = tool::run(command.arg(library.path().join("state")));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains(&format!("cannot listen on {listen} for the questions")),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("dns_hook") && ran.stderr.contains("CAP_NET_BIND_SERVICE"));
}
