//! An edge in front of a bucket, with the credentials of the role that its machine or container has.
//!
//! The services that give them are stand-ins: over HTTP, they behave as Amazon's documentation says.

use crate::bucket::Bucket;
use crate::purging::purge;
use fullbore_tests::{Launch, Plain, until};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use tempfile::tempdir;

/// A running service. It ends with the test.
#[derive(Clone)]
struct RoleService {
    address: SocketAddr,
    /// The answer with credentials; `None` if there is no role.
    credentials: Arc<Mutex<Option<String>>>,
    /// The requests, as `METHOD TARGET`.
    seen: Arc<Mutex<Vec<String>>>,
}

impl RoleService {
    fn start(credentials: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (credentials, seen) = (Arc::new(Mutex::new(credentials)), Arc::default());
        let service = Self { address, credentials, seen };
        let serving = service.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that leaves ends no other's.
                let _ = serving.answer(stream);
            }
        });
        service
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let (mut reader, mut head) = (BufReader::new(stream.try_clone()?), String::new());
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let head = head.to_ascii_lowercase();
        let asked = head.split(' ').take(2).collect::<Vec<_>>().join(" ");
        self.seen.lock().unwrap().push(asked.clone());
        let credentials = self.credentials.lock().unwrap().clone();
        let has_token = head.contains("x-aws-ec2-metadata-token: of-this-session\r\n");
        let folder = "/latest/meta-data/iam/security-credentials/";
        let (status, body) = match (asked.split_once(' ').unwrap(), credentials) {
            (("put", "/latest/api/token"), _) if head.contains("token-ttl-seconds: ") => {
                (200, "of-this-session".to_owned())
            }
            (("get", path), Some(_)) if path == folder && has_token => (200, "edge\n".into()),
            (("get", path), Some(json)) if path == format!("{folder}edge") && has_token => {
                (200, json)
            }
            (("get", "/container"), Some(json)) if head.contains("authorization: let-me\r\n") => {
                (200, json)
            }
            _ => (404, "none".into()),
        };
        let length = body.len();
        let head = format!("HTTP/1.1 {status} .\r\nConnection: close\r\n");
        write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}")
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// As both services answer.
fn credentials_of(bucket: &Bucket) -> String {
    let [key, secret] =
        ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].map(|name| bucket.variable(name));
    format!(
        r#"{{"Code":"Success","AccessKeyId":"{key}","SecretAccessKey":"{secret}","Token":"of-the-role","Expiration":"2120-01-01T00:00:00Z"}}"#
    )
}

/// No file in this folder has credentials.
fn without_files(launch: Launch, home: &std::path::Path) -> Launch {
    launch.variable("HOME", home)
}

#[test]
fn a_role_gives_the_credentials_for_a_bucket_to_the_helper_alone() {
    let bucket = Bucket::start();
    let film = bucket.put("film.mp4", 1_000_000, 1);
    let secret = bucket.variable("AWS_SECRET_ACCESS_KEY");
    let service = RoleService::start(Some(credentials_of(&bucket)));
    let at = format!("http://{}", service.address);
    let container = format!("{at}/container");
    let forms: [&[(&str, &str)]; 2] = [
        &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &at)],
        &[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &container),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "let-me"),
        ],
    ];
    for variables in forms {
        let (cache, home) = (tempdir().unwrap(), tempdir().unwrap());
        let launch = without_files(bucket.launch(cache.path()), home.path());
        let with = |launch: Launch, (name, value): &(&str, &str)| launch.variable(name, value);
        let server = variables.iter().fold(launch, with).start();
        let answer = Plain::connect(server.address).fetch("/film.mp4");
        assert!(answer.body == film, "{variables:?}: {} {}", answer.head, server.said());
        assert!(!bucket.knows(server.process_id(), &secret), "the server knows the secret");
        let said = server.said();
        assert!(!said.contains("no credentials") && !said.contains(&secret), "{said}");
    }
    let folder = "get /latest/meta-data/iam/security-credentials/";
    let machine = ["put /latest/api/token".into(), folder.into(), format!("{folder}edge")];
    assert_eq!(service.seen()[..3], machine);
    assert_eq!(service.seen()[3..], ["get /container"], "each is asked once");
}

#[test]
fn a_machine_without_a_role_is_told_of_and_asks_again() {
    let bucket = Bucket::start();
    let film = bucket.put("film.mp4", 1000, 1);
    let (cache, home) = (tempdir().unwrap(), tempdir().unwrap());
    let service = RoleService::start(None);
    let endpoint = format!("http://{}", service.address);
    let launch = without_files(bucket.launch(cache.path()), home.path());
    let server = launch.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint).start();
    server.stderr.wait_for("got no credentials from this machine's role");
    assert_ne!(Plain::connect(server.address).fetch("/film.mp4").status, 200, "it is not public");
    *service.credentials.lock().unwrap() = Some(credentials_of(&bucket));
    let found = "get /latest/meta-data/iam/security-credentials/edge";
    until("the role to be asked for again", || {
        service.seen().last().is_some_and(|last| last == found)
    });
    until("the film", || Plain::connect(server.address).fetch("/film.mp4").body == film);
}

#[test]
fn while_a_role_gives_no_credentials_the_cache_keeps_what_it_has() {
    let bucket = Bucket::start();
    let film = bucket.put("film.mp4", 1_000_000, 1);
    let (cache, home) = (tempdir().unwrap(), tempdir().unwrap());
    let service = RoleService::start(Some(credentials_of(&bucket)));
    let endpoint = format!("http://{}", service.address);
    let start = || {
        let launch = without_files(bucket.launch(cache.path()), home.path());
        launch.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT", &endpoint).start()
    };
    let server = start();
    assert!(Plain::connect(server.address).fetch("/film.mp4").body == film);
    server.kill();
    let credentials = service.credentials.lock().unwrap().take();
    let server = start();
    server.stderr.wait_for("got no credentials from this machine's role");
    assert_eq!(purge(&server, "/film.mp4 --soft"), (1, 0));
    // The bucket refuses to confirm it, which says nothing about it.
    let stale = Plain::connect(server.address).fetch("/film.mp4");
    assert!(stale.status == 200 && stale.body == film, "{}", stale.head);
    *service.credentials.lock().unwrap() = credentials;
    until("the film to be confirmed", || {
        let answer = Plain::connect(server.address).fetch("/film.mp4");
        assert!(answer.body == film, "{}", answer.head);
        // This stand-in for a bucket answers a condition with a range by the range.
        answer.head.contains("fwd=stale; fwd-status=")
    });
    server.wait_for_news();
    assert_eq!(server.sum("edge_fetched_bytes_total"), 0, "no block was fetched again");
}
