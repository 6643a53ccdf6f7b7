//! An origin that demands a client certificate, and has one of a private authority: Python's `http.server` over OpenSSL.

use crate::PATIENT;
use crate::origin_settings::{replace, write_secret};
use fullbore_tests::{Launch, Plain, Response, Server, tool, until};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, SanType,
};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::tempdir;

/// Serves the current folder to clients that have a certificate of the authority in `ca.pem`, and names the client in a header of each response.
const SERVER: &str = r#"
import http.server, ssl
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def end_headers(self):
        names = dict(one[0] for one in self.connection.getpeercert()["subject"])
        self.send_header("X-Client", names["commonName"])
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()
    def log_message(self, *_):
        pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("server.pem", "server.key")
context.load_verify_locations("ca.pem")
context.verify_mode = ssl.CERT_REQUIRED
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

/// An authority of the operator's own.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, "the operator");
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(parameters, key).unwrap())
    }

    /// The certificate and the key of `name`.
    fn issue(&self, name: &str) -> (String, String) {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))];
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        (parameters.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// A running origin. It ends with the test.
struct Demanding {
    child: Child,
    port: u16,
}

impl Demanding {
    /// Reports what is missing if it can't be started.
    fn start(folder: &Path, authority: &Authority) -> Option<Self> {
        if !tool::are_here(&[("python3", "python3")]) {
            return None;
        }
        let (cert, key) = authority.issue("the origin");
        let files = [
            ("server.pem", cert),
            ("server.key", key),
            ("ca.pem", authority.0.pem()),
            ("page", "bytes".to_owned()),
        ];
        files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
        let mut command = Command::new("python3");
        command.args(["-c", SERVER]).current_dir(folder).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Some(Self { child, port: line.trim().parse().unwrap() })
    }
}

impl Drop for Demanding {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(cache: &Path, port: u16, settings: &str) -> Launch {
    let origin = format!("origin = {{ url = \"https://127.0.0.1:{port}\"{settings} }}");
    Launch::bare().config(&format!("{PATIENT}cache = {cache:?}\n{origin}\n")).arguments("--tls off")
}

fn page(server: &Server) -> Response {
    Plain::connect(server.address).fetch("/page")
}

/// The client that the origin has seen.
fn client(answer: &Response) -> Option<&str> {
    answer
        .head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().starts_with("x-client: ").then(|| &line[10..]))
}

#[test]
fn an_origin_that_demands_a_client_certificate_gets_the_one_in_the_settings_also_a_renewed_one() {
    let (folder, own, cache) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    let authority = Authority::new();
    let Some(origin) = Demanding::start(folder.path(), &authority) else { return };
    let [cert, key, ca] = ["edge.pem", "edge.key", "ca.pem"].map(|name| own.path().join(name));
    fs::write(&ca, authority.0.pem()).unwrap();
    let renew = |name: &str| {
        let (new_cert, new_key) = authority.issue(name);
        replace(&cert, &new_cert);
        replace(&key, &new_key);
    };
    renew("edge-1");
    // Without a certificate the origin refuses the edge, and without the authority the edge refuses the origin.
    let with_ca = format!(", ca = {ca:?}");
    let with_cert = format!(", cert = {cert:?}, key = {key:?}");
    for (settings, said) in [(&with_ca, "the origin https://"), (&with_cert, "has signed it")] {
        let server = launch(cache.path(), origin.port, settings).start();
        assert_eq!(page(&server).status, 502, "{settings}");
        server.stderr.wait_for(said);
    }
    let server = launch(cache.path(), origin.port, &(with_ca + &with_cert)).start();
    let answer = page(&server);
    assert_eq!(
        (answer.status, &*answer.body, client(&answer)),
        (200, &b"bytes"[..], Some("edge-1"))
    );
    renew("edge-2");
    until("the renewed certificate to be shown", || client(&page(&server)) == Some("edge-2"));
    // A key of another certificate is noticed, and the pair that works stays.
    replace(&key, &authority.issue("other").1);
    let line = server.stderr.wait_for("is not that of the certificate");
    assert!(line.contains("stay in use") && line.contains(key.to_str().unwrap()), "{line}");
    assert_eq!(client(&page(&server)), Some("edge-2"));
    renew("edge-3");
    until("the next certificate to be shown", || client(&page(&server)) == Some("edge-3"));
    let shown = fs::read_to_string(&key).unwrap();
    assert!(!server.said().contains(shown.lines().nth(1).unwrap()), "the key is not logged");
}

#[test]
fn certificates_for_an_origin_that_cannot_be_used_are_refused_before_the_start() {
    let (own, cache) = (tempdir().unwrap(), tempdir().unwrap());
    let authority = Authority::new();
    let (cert, key) = authority.issue("edge");
    let write = |name: &str, text: &str| {
        let path = own.path().join(name);
        write_secret(&path, text);
        path
    };
    let (cert, key) = (write("edge.pem", &cert), write("edge.key", &key));
    let (other, no) = (write("other.key", &authority.issue("other").1), write("no.pem", "none"));
    for (settings, said) in [
        (format!(", cert = {cert:?}"), "no key"),
        (format!(", cert = {cert:?}, key = {other:?}"), "is not that of the certificate"),
        (format!(", cert = {no:?}, key = {key:?}"), "no certificate (PEM)"),
        (format!(", cert = {cert:?}, key = {cert:?}"), "no private key"),
        (format!(", ca = {no:?}"), "no certificate (PEM)"),
        (", ca = \"/no/such/file\"".to_owned(), "cannot read /no/such/file"),
    ] {
        let ran = launch(cache.path(), 1, &settings).run();
        assert!(ran.code.is_some_and(|code| code > 0), "{settings}");
        assert!(ran.stderr.contains(said), "{settings}: {}", ran.stderr);
        let checked = launch(cache.path(), 1, &settings).arguments("--check").run();
        assert!(checked.code.is_some_and(|code| code > 0), "{settings} --check");
    }
}
