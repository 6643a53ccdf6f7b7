//! Tickets from another implementation: OpenSSL's own test server.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::server::*;
use fullbore_load::{Connection, ConnectionOptions};

/// Ends its process when dropped.
struct Program {
    child: Child,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `openssl s_server`, which answers every request with a page about the session.
fn s_server(version: &str) -> Option<Program> {
    let dir = tempfile::tempdir().unwrap();
    let files = tls::TlsContext::load(tls::TlsOptions::new(dir.path())).unwrap().files();
    let mut command = Command::new("openssl");
    command.args(["s_server", "-www", version, "-accept", "127.0.0.1:0"]);
    command.arg("-cert").arg(&files[0]).arg("-key").arg(&files[1]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    // The kernel chooses the port, and this line says which one.
    let address: Option<SocketAddr> =
        lines.find_map(|line| line.strip_prefix("ACCEPT ")?.trim().parse().ok());
    let address = address.expect("openssl s_server did not start");
    Some(Program { child, address, _dir: dir })
}

#[test]
fn tickets_of_openssl_resume() {
    for version in ["-tls1_3", "-tls1_2"] {
        let Some(server) = s_server(version) else {
            fullbore_tests::tool::skip("no openssl program on this machine");
            return;
        };
        let to = endpoint(server.address, Some(anyone()));
        let resumed = run(async move {
            let options = ConnectionOptions { resume: true, ..patient() };
            let mut resumed = Vec::new();
            for _ in 0..3 {
                let mut connection = Connection::open(&to, &options).await.unwrap();
                connection.send_request(GET).await.unwrap();
                assert_eq!(connection.head().await.unwrap().body_bytes, None);
                assert!(discard_all(&mut connection).await.unwrap() > 100);
                resumed.push(connection.is_resumed());
                connection.close();
            }
            resumed
        });
        assert_eq!(resumed, [false, true, true], "{version}");
    }
}
