//! A node's certificate for viewers: the node makes a key and a request, openssl is the authority, and an operator carries both between
//! them.

use crate::house::Running;
use fullbore_tests::{Signal, program, tool, until};
use rustix::process::{Pid, kill_process};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const HOST: &str = "box1.example";

/// A gateway and a node, whose server has no certificate of its own.
struct Small {
    folder: TempDir,
    admin: String,
    _gateway: Running,
}

impl Drop for Small {
    fn drop(&mut self) {
        // The server outlives its agent.
        let noted = std::fs::read(self.path("node/server.json")).unwrap_or_default();
        let noted: Value = serde_json::from_slice(&noted).unwrap_or_default();
        let pid = noted["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn openssl(folder: &Path, words: &str) {
    let mut command = tool::command("openssl");
    let ran = tool::run(command.current_dir(folder).args(words.split_whitespace()));
    assert!(ran.success, "{words}: {}", ran.stderr);
}

impl Small {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program());
        command.args(["control", "serve", "--state"]).arg(folder.path().join("gateway"));
        for listener in ["--public", "--machines", "--admin"] {
            command.args([listener, "127.0.0.1:0"]);
        }
        let gateway = Running::start(&mut command);
        let ready = gateway.stdout.wait_for("ready ");
        let admin = ready.split_once("(admin ").unwrap().1.trim_end_matches(['/', ')']).to_owned();
        Self { folder, admin, _gateway: gateway }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn control(&self, words: &[&str]) -> Output {
        let mut command = Command::new(program());
        command.arg("control").args(words).args(["--admin", &self.admin, "--state"]);
        command.arg(self.path("gateway")).current_dir(self.folder.path()).output().unwrap()
    }

    /// Its output.
    #[track_caller]
    fn asked(&self, words: &[&str]) -> String {
        let ran = self.control(words);
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    fn start_node(&self) -> Running {
        let invited = self.asked(&["invite", "--cluster", "a-1", "--site", "a", "--region", "r"]);
        let words = invited.split_whitespace().skip_while(|word| *word != "join").skip(1);
        let mut join = Command::new(program());
        join.arg("join").args(words.take(3)).args(["--host", HOST, "--name", "box1"]);
        let ran = tool::run(join.arg("--ceiling").arg("1").arg("--state").arg(self.path("node")));
        assert!(ran.success, "{invited}: {}", ran.stderr);
        let mut node = Command::new(program());
        node.arg("node").arg("--state").arg(self.path("node"));
        node.arg("--library").arg(self.path("library"));
        Running::start(node.args(["--", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]))
    }

    /// The address of the node's server, once it listens.
    fn port(&self) -> Option<u16> {
        let said = std::fs::read_to_string(self.path("node/server.out")).ok()?;
        let url = said.lines().find_map(|line| line.strip_prefix("ready "))?;
        url.trim_end_matches('/').rsplit(':').next()?.parse().ok()
    }

    /// Whether a viewer who trusts that authority can connect.
    fn is_trusted(&self, port: u16, authority: &str) -> bool {
        let mut curl = tool::command("curl");
        curl.args(["-sS", "-o", "/dev/null", "--max-time", "60", "--cacert"])
            .arg(self.path(authority));
        curl.args(["--resolve", &format!("{HOST}:{port}:127.0.0.1")]);
        tool::run(curl.arg(format!("https://{HOST}:{port}/"))).success
    }

    /// openssl's answer to a request: a chain with its authority's certificate.
    fn issue(&self, request: &str, chain: &str) {
        openssl(
            self.folder.path(),
            &format!(
                "x509 -req -days 90 -in {request} -CA ca.pem -CAkey ca.key -CAcreateserial -copy_extensions copyall -out {chain}"
            ),
        );
        let both = [chain, "ca.pem"].map(|name| std::fs::read_to_string(self.path(name)).unwrap());
        std::fs::write(self.path(chain), both.concat()).unwrap();
    }

    /// Whether a file below `folder` contains these bytes.
    fn has(&self, folder: &str, bytes: &str) -> bool {
        let found = Command::new("grep").args(["-rqaF", bytes]).arg(self.path(folder)).status();
        found.unwrap().success()
    }
}

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

#[test]
fn a_node_gets_the_certificate_that_was_issued_for_its_request_and_its_key_never_leaves_it() {
    if !tool::are_here(&[("openssl", "openssl"), ("curl", "curl")]) {
        return;
    }
    let fleet = Small::start();
    openssl(
        fleet.folder.path(),
        &format!("req -x509 {NEW_KEY} -days 2 -subj /CN=web -keyout ca.key -out ca.pem"),
    );
    let node = fleet.start_node();
    until("the node's request", || fleet.asked(&["certificates", "list"]).contains("requested"));
    let request = fleet.asked(&["certificates", "request", "box1"]);
    std::fs::write(fleet.path("box1.csr"), &request).unwrap();
    until("the node's server", || fleet.port().is_some());
    let port = fleet.port().unwrap();
    assert!(!fleet.is_trusted(port, "ca.pem"), "before it was issued");
    let server = std::fs::read_to_string(fleet.path("node/server.json")).unwrap();

    // For the same host, but another key.
    openssl(
        fleet.folder.path(),
        &format!(
            "req -new {NEW_KEY} -subj / -addext subjectAltName=DNS:{HOST} -keyout other.key -out other.csr"
        ),
    );
    fleet.issue("other.csr", "other.pem");
    let refused = fleet.control(&["certificates", "put", "box1", "other.pem"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("not of the node's key"), "{said}");
    let nobody = fleet.control(&["certificates", "put", "box2", "other.pem"]);
    assert_eq!(nobody.status.code(), Some(1));

    fleet.issue("box1.csr", "box1.pem");
    fleet.asked(&["certificates", "put", "box1", "box1.pem"]);
    // Issued for 90 days, some time ago: within the same second it has all of them.
    let listed = fleet.asked(&["certificates", "list"]);
    let holds = ["holds for 89 days", "holds for 90 days"];
    assert!(holds.iter().any(|words| listed.contains(words)), "{listed}");
    until("viewers to see it", || fleet.is_trusted(port, "ca.pem"));
    let after = std::fs::read_to_string(fleet.path("node/server.json")).unwrap();
    assert_eq!(after, server, "its server was not restarted");
    node.stderr.wait_for("viewers see a new certificate for box1.example");

    let key = fleet.path("node/viewer.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let key = std::fs::read_to_string(key).unwrap();
    let line = key.lines().nth(1).unwrap();
    assert!(fleet.has("node", line) && !fleet.has("gateway", line), "the gateway has the key");
    assert!(fleet.has("gateway", request.lines().nth(1).unwrap()), "it has not even the request");
}
