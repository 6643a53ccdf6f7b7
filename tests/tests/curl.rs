//! What curl gets: whole files and parts of them, in every offered version, suite and group.

use fullbore_tests::tool::{self, Ran};
use fullbore_tests::{Launch, Server, certificate, eventually, file};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::{TempDir, tempdir};

/// Some windows, and not a whole number of records.
const LENGTH: usize = 3_000_001;

/// A library with one file, `film.mp4`, of these bytes.
fn library() -> (TempDir, Vec<u8>) {
    let folder = tempdir().unwrap();
    let bytes = file(folder.path(), "film.mp4", LENGTH);
    change_date(folder.path(), 7200);
    (folder, bytes)
}

/// Sets the date of `film.mp4` back: a date does not identify a version before its second is over (RFC 9110 section
/// 8.8.2.2).
fn change_date(folder: &Path, seconds_ago: u64) {
    let date = SystemTime::now() - Duration::from_secs(seconds_ago);
    fs::File::open(folder.join("film.mp4")).unwrap().set_modified(date).unwrap();
}

/// curl with the arguments in `words` and the URL of `name`.
fn curl(server: &Server, words: &str, name: &str) -> Ran {
    let mut command = tool::command("curl");
    command.args(["--silent", "--show-error", "--insecure"]).args(words.split_whitespace());
    tool::run(command.arg(server.url_of(name)))
}

fn curl_is_here() -> bool {
    tool::are_here(&[("curl", "curl")])
}

#[test]
fn a_whole_file_is_the_file_over_either_tls_and_plain() {
    if !curl_is_here() {
        return;
    }
    let (folder, bytes) = library();
    let server = Server::start(folder.path(), "");
    let versions = [
        ("--tlsv1.2 --tls-max 1.2", "tls1.2 aes-128-gcm"),
        ("--tlsv1.3 --tls-max 1.3", "tls1.3 aes-128-gcm"),
    ];
    for (version, label) in versions {
        let ran = curl(&server, version, "film.mp4");
        assert!(ran.success && ran.stdout == bytes, "{version}: {}", ran.stderr);
        let handshakes = format!("handshakes_total{{suite=\"{label}\"}}");
        assert_eq!(server.counters().value(&handshakes), 1, "{version}");
    }
    let server = Server::start(folder.path(), "--tls off");
    let ran = curl(&server, "", "film.mp4");
    assert!(ran.success && ran.stdout == bytes, "plain: {}", ran.stderr);
}

#[test]
fn the_self_signed_certificate_is_accepted_by_who_was_given_it() {
    if !curl_is_here() {
        return;
    }
    let (folder, bytes) = library();
    let server = Server::start(folder.path(), "");
    let mut command = tool::command("curl");
    command
        .args(["--silent", "--show-error", "--cacert"])
        .arg(server.state.join("self-signed-cert.pem"));
    let url = format!("https://localhost:{}/film.mp4", server.address.port());
    let ran = tool::run(command.args(["--ipv4", &url]));
    assert!(ran.success && ran.stdout == bytes, "{}", ran.stderr);
}

#[test]
fn a_download_is_resumed_where_it_broke_off() {
    if !curl_is_here() {
        return;
    }
    let (folder, bytes) = library();
    let server = Server::start(folder.path(), "");
    let part = folder.path().join("part.mp4");
    fs::write(&part, &bytes[..1_234_567]).unwrap();
    let ran = curl(&server, &format!("--continue-at - --output {}", part.display()), "film.mp4");
    assert!(ran.success, "{}", ran.stderr);
    assert!(fs::read(&part).unwrap() == bytes, "the halves do not make the whole");
    let counters = server.counters();
    assert_eq!(counters.value("responses_total{status=\"206\"}"), 1);
    assert_eq!(counters.value("responses_total{status=\"200\"}"), 0);
}

#[test]
fn one_range_is_just_its_bytes() {
    if !curl_is_here() {
        return;
    }
    let (folder, bytes) = library();
    let server = Server::start(folder.path(), "");
    let wanted =
        [("100-70099", 100..70_100), ("2999990-", 2_999_990..LENGTH), ("-5", LENGTH - 5..LENGTH)];
    for (range, part) in wanted {
        let ran = curl(&server, &format!("--range {range}"), "film.mp4");
        assert!(ran.success && ran.stdout == bytes[part], "{range}: {}", ran.stderr);
    }
}

#[test]
fn several_ranges_come_as_parts_that_say_what_they_are() {
    if !curl_is_here() {
        return;
    }
    let (folder, bytes) = library();
    let server = Server::start(folder.path(), "");
    let ran = curl(&server, "--include --range 0-99,200-299,100000-199999,-1", "film.mp4");
    assert!(ran.success, "{}", ran.stderr);
    let (head, body) = split_once(&ran.stdout, b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(head.to_vec()).unwrap();
    assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
    let boundary = head.split("boundary=").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    let parts = multipart(body, boundary.trim_matches('"'));
    let wanted = [0..100, 200..300, 100_000..200_000, LENGTH - 1..LENGTH];
    assert_eq!(parts.len(), wanted.len());
    for ((head, body), range) in parts.iter().zip(wanted) {
        let said = format!("bytes {}-{}/{LENGTH}", range.start, range.end - 1).to_lowercase();
        assert!(head.to_lowercase().contains(&format!("content-range: {said}")), "{head}");
        assert!(head.to_lowercase().contains("content-type: video/mp4"), "{head}");
        assert!(*body == &bytes[range], "{said}: other bytes");
    }
}

/// The parts of a multipart body (RFC 2046 section 5.1.1): head and bytes of each.
fn multipart<'a>(body: &'a [u8], boundary: &str) -> Vec<(String, &'a [u8])> {
    let delimiter = format!("\r\n--{boundary}");
    let first = format!("--{boundary}");
    let mut rest = body.strip_prefix(b"\r\n").unwrap_or(body);
    rest = rest.strip_prefix(first.as_bytes()).expect("a body begins with its boundary");
    let mut parts = Vec::new();
    while let Some(part) = rest.strip_prefix(b"\r\n") {
        let (part, after) =
            split_once(part, delimiter.as_bytes()).expect("a part ends at a boundary");
        let (head, bytes) = split_once(part, b"\r\n\r\n").expect("a part has a head");
        parts.push((String::from_utf8(head.to_vec()).unwrap(), bytes));
        rest = after;
    }
    assert!(rest.starts_with(b"--"), "the last boundary says that it is the last");
    parts
}

fn split_once<'a>(bytes: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let start = bytes.windows(at.len()).position(|window| window == at)?;
    Some((&bytes[..start], &bytes[start + at.len()..]))
}

#[test]
fn head_tells_what_get_would_send() {
    if !curl_is_here() {
        return;
    }
    let (folder, _) = library();
    let server = Server::start(folder.path(), "");
    let head = curl(&server, "--head", "film.mp4").text().to_lowercase();
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    for field in [
        &format!("content-length: {LENGTH}"),
        "content-type: video/mp4",
        "accept-ranges: bytes",
        "etag: \"",
    ] {
        assert!(head.contains(field), "{field} is not in {head}");
    }
}

/// The value of a header field of `film.mp4`.
fn field(server: &Server, name: &str) -> String {
    optional_field(server, name).expect("the field is there")
}

fn optional_field(server: &Server, name: &str) -> Option<String> {
    let head = curl(server, "--head", "film.mp4").text();
    let line = head.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}:")))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

/// curl's status and body for `film.mp4` with one header field.
fn with_field(server: &Server, words: &str, name: &str, value: &str) -> (String, Vec<u8>) {
    let mut command = tool::command("curl");
    command.args([
        "--silent",
        "--show-error",
        "--insecure",
        "--write-out",
        "%{stderr}%{http_code}",
    ]);
    command.args(words.split_whitespace()).args(["--header", &format!("{name}: {value}")]);
    let ran = tool::run(command.arg(server.url_of("film.mp4")));
    (ran.stderr, ran.stdout)
}

#[test]
fn a_range_of_another_version_is_answered_with_the_whole_file() {
    if !curl_is_here() {
        return;
    }
    let (folder, bytes) = library();
    let server = Server::start(folder.path(), "");
    let (etag, date) = (field(&server, "etag"), field(&server, "last-modified"));
    let same = with_field(&server, "--range 5-9", "If-Range", &etag);
    assert_eq!(same, ("206".to_owned(), bytes[5..10].to_vec()));
    let (status, body) = with_field(&server, "--range 5-9", "If-Range", "\"other\"");
    assert!(status == "200" && body == bytes, "{status}");
    change_date(folder.path(), 3600);
    let (status, body) = with_field(&server, "--range 5-9", "If-Range", &date);
    assert!(status == "200" && body == bytes, "a date gone by: {status}");
    let date = field(&server, "last-modified");
    let (status, body) = with_field(&server, "--range 5-9", "If-Range", &date);
    assert!(status == "200" && body == bytes, "a date that was put back: {status}");
    // Just written, and unchanged since: the date is sent, and identifies this version, once its second is over.
    fs::write(folder.path().join("film.mp4"), &bytes).unwrap();
    let date = eventually("the date of a new film", || optional_field(&server, "last-modified"));
    let same = with_field(&server, "--range 5-9", "If-Range", &date);
    assert_eq!(same, ("206".to_owned(), bytes[5..10].to_vec()));
}

#[test]
fn what_a_viewer_has_already_is_not_sent_again() {
    if !curl_is_here() {
        return;
    }
    let (folder, bytes) = library();
    let server = Server::start(folder.path(), "");
    let (etag, date) = (field(&server, "etag"), field(&server, "last-modified"));
    assert_eq!(with_field(&server, "", "If-None-Match", &etag), ("304".into(), Vec::new()));
    assert_eq!(with_field(&server, "", "If-Modified-Since", &date), ("304".into(), Vec::new()));
    let (status, body) = with_field(&server, "", "If-None-Match", "\"other\"");
    assert!(status == "200" && body == bytes, "{status}");
    let (status, _) = with_field(&server, "", "If-Match", "\"other\"");
    assert_eq!(status, "412");
}

#[test]
fn every_suite_is_spoken_with_either_kind_of_certificate() {
    if !tool::are_here(&[("curl", "curl"), ("openssl", "openssl")]) {
        return;
    }
    let (folder, bytes) = library();
    let keys = tempdir().unwrap();
    for (kind, authentication) in [("rsa:2048", "RSA"), ("ec", "ECDSA")] {
        let pair = certificate(keys.path(), &format!("{authentication}.example"), kind);
        let launch = Launch::of(folder.path()).argument("--cert").argument(&pair.cert);
        let server = launch.argument("--key").argument(&pair.key).start();
        let old = ["AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"];
        let old =
            old.map(|suite| format!("--tls-max 1.2 --ciphers ECDHE-{authentication}-{suite}"));
        let new = ["AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256"];
        let new = new.map(|suite| format!("--tlsv1.3 --tls13-ciphers TLS_{suite}"));
        for suite in old.iter().chain(&new) {
            let ran = curl(&server, &format!("--verbose {suite}"), "film.mp4");
            assert!(ran.success && ran.stdout == bytes, "{suite}: {}", ran.stderr);
            let name = suite.rsplit(' ').next().unwrap();
            let line = ran.stderr.lines().find(|line| line.contains("SSL connection using"));
            assert!(line.is_some_and(|line| line.contains(name)), "{suite}: {line:?}");
        }
        let counters = server.counters();
        for suite in ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"] {
            for version in ["tls1.2", "tls1.3"] {
                let name = format!("handshakes_total{{suite=\"{version} {suite}\"}}");
                assert_eq!(counters.value(&name), 1, "{name}");
            }
        }
    }
}

#[test]
fn every_group_is_spoken() {
    if !tool::are_here(&[("curl", "curl"), ("openssl", "openssl")]) {
        return;
    }
    let (folder, bytes) = library();
    // RSA, because OpenSSL treats the curve of a TLS 1.2 server's ECDSA key as a group that must be allowed, too.
    let certificates = tempdir().unwrap();
    let pair = certificate(certificates.path(), "groups.example", "rsa:2048");
    let launch = Launch::of(folder.path()).argument("--cert").argument(&pair.cert);
    let server = launch.argument("--key").argument(&pair.key).start();
    for group in ["X25519", "P-256", "P-384"] {
        for version in ["--tls-max 1.2", "--tlsv1.3"] {
            let ran = curl(&server, &format!("--curves {group} {version}"), "film.mp4");
            assert!(ran.success && ran.stdout == bytes, "{group} {version}: {}", ran.stderr);
        }
    }
    // A group that is not offered: this shows that --curves had an effect above.
    let ran = curl(&server, "--curves P-521 --tlsv1.3", "film.mp4");
    assert!(!ran.success && ran.stdout.is_empty(), "P-521 is not offered");
}

#[test]
fn a_thousand_requests_share_one_connection() {
    if !curl_is_here() {
        return;
    }
    let folder = tempdir().unwrap();
    let bytes = file(folder.path(), "small.m4s", 20_011);
    let server = Server::start(folder.path(), "");
    let out = tempdir().unwrap();
    let words = format!(
        "--write-out %{{http_code}}:%{{num_connects}},%{{stdout}} --output {}/#1",
        out.path().display()
    );
    let ran = curl(&server, &words, "small.m4s?[1-1000]");
    assert!(ran.success, "{}", ran.stderr);
    let said = ran.text();
    assert!(said.starts_with("200:1,200:0,"), "{said}");
    assert_eq!(said.matches("200:0,").count(), 999, "{said}");
    for number in 1..=1000 {
        let got = fs::read(out.path().join(number.to_string())).unwrap();
        assert!(got == bytes, "request {number} got other bytes");
    }
    let counters = server.counters();
    assert_eq!(counters.value("connections_accepted_total"), 1);
    assert_eq!(counters.value("requests_total"), 1000);
}

#[test]
fn an_unspecified_ipv6_address_serves_ipv4_too() {
    if !curl_is_here() {
        return;
    }
    let (folder, bytes) = library();
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        tool::skip("this machine has no IPv6");
        return;
    }
    let server = Launch::of(folder.path()).listen("[::]:0").start();
    for host in ["127.0.0.1", "[::1]"] {
        let mut command = tool::command("curl");
        command.args(["--silent", "--show-error", "--insecure", "--globoff"]);
        let url = format!("https://{host}:{}/film.mp4", server.address.port());
        let ran = tool::run(command.arg(&url));
        assert!(ran.success && ran.stdout == bytes, "{url}: {}", ran.stderr);
    }
}

#[test]
fn plain_http_on_the_tls_port_is_told_so_in_words() {
    if !curl_is_here() {
        return;
    }
    let (folder, _) = library();
    let server = Server::start(folder.path(), "");
    let url = server.url_of("film.mp4").replace("https://", "http://");
    let mut command = tool::command("curl");
    let ran = tool::run(command.args(["--silent", "--show-error", "--include", &url]));
    assert!(ran.success, "{}", ran.stderr);
    let text = ran.text();
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    assert!(text.to_lowercase().contains("https"), "it does not say what to do: {text}");
    server.wait_for_counter("connections_ended_total{reason=\"plain_http\"}", 1);
}

#[test]
fn a_client_that_would_like_http_2_gets_http_1_1() {
    if !curl_is_here() {
        return;
    }
    let (folder, bytes) = library();
    let server = Server::start(folder.path(), "");
    let ran = curl(&server, "--http2 --write-out %{stderr}%{http_version}", "film.mp4");
    assert!(ran.success && ran.stdout == bytes, "{}", ran.stderr);
    assert_eq!(ran.stderr, "1.1");
}

#[test]
fn a_client_of_http_1_0_gets_its_file_and_the_end() {
    if !curl_is_here() {
        return;
    }
    let (folder, bytes) = library();
    let server = Server::start(folder.path(), "");
    let ran = curl(&server, "--http1.0", "film.mp4");
    assert!(ran.success && ran.stdout == bytes, "{}", ran.stderr);
    server.wait_for_counter("connections_ended_total{reason=\"answered\"}", 1);
}

#[test]
fn cookies_and_wishes_for_compression_change_nothing() {
    if !curl_is_here() {
        return;
    }
    let (folder, bytes) = library();
    let server = Server::start(folder.path(), "");
    let ran = curl(&server, "--cookie session=1 --compressed --include", "film.mp4");
    let (head, body) = split_once(&ran.stdout, b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(head).to_lowercase();
    assert!(head.starts_with("http/1.1 200 ") && body == bytes, "{head}");
    assert!(!head.contains("set-cookie") && !head.contains("content-encoding"), "{head}");
}
