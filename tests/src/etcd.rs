//! Members of one etcd on one machine, some of which may die.

use crate::{eventually, free_port_on, tool, until};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// An etcd, ended when dropped.
pub struct Etcd {
    folder: TempDir,
    host: String,
    /// Whether clients use TLS, with a certificate in the folder.
    tls: bool,
    /// Ports of each member: for clients, and for the other members.
    ports: Vec<[u16; 2]>,
    members: Vec<Option<Child>>,
    /// Additional arguments of each member.
    arguments: Vec<String>,
}

impl Etcd {
    /// Starts this many members, and waits until they have a leader; `None`, loudly, if there is no etcd here. With `tls`, a PEM file with a
    /// certificate for 127.0.0.1 and one with its key, clients use TLS.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn start(count: usize, tls: Option<[&str; 2]>) -> Option<Self> {
        Self::begin("127.0.0.1", count, tls, Vec::new())
    }

    /// As [`Self::start`]: one member, without TLS, with these additional arguments.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn start_with(arguments: Vec<String>) -> Option<Self> {
        Self::begin("127.0.0.1", 1, None, arguments)
    }

    /// As [`Self::start`], without TLS, on an address of this network.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn start_on(host: &str, count: usize) -> Option<Self> {
        Self::begin(host, count, None, Vec::new())
    }

    fn begin(
        host: &str,
        count: usize,
        tls: Option<[&str; 2]>,
        arguments: Vec<String>,
    ) -> Option<Self> {
        if !tool::are_here(&[("etcd", "etcd-server"), ("curl", "curl")]) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        if let Some([certificate, key]) = tls {
            std::fs::write(folder.path().join(CERTIFICATE), certificate).unwrap();
            std::fs::write(folder.path().join(KEY), key).unwrap();
        }
        let members = (0..count).map(|_| None).collect();
        let ports = (0..count).map(|_| [free_port_on(host), free_port_on(host)]).collect();
        let host = host.to_owned();
        let mut own = Self { folder, host, tls: tls.is_some(), ports, members, arguments };
        (0..count).for_each(|member| own.start_member(member));
        until("etcd to have a leader", || own.curl(0, "health", None)["health"] == "true");
        Some(own)
    }

    /// The folder of its files and the certificate.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file with the certificate of an etcd with TLS.
    pub fn certificate(&self) -> PathBuf {
        self.folder().join(CERTIFICATE)
    }

    /// The members' addresses for clients: host and port of each.
    pub fn hosts(&self) -> Vec<String> {
        self.ports.iter().map(|[client, _]| format!("{}:{client}", self.host)).collect()
    }

    /// Starts a member for the first time, or after [`Self::kill`].
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_member(&mut self, member: usize) {
        let (all, host) = (self.ports.iter().enumerate(), &self.host);
        let all: Vec<_> =
            all.map(|(at, [_, peer])| format!("m{at}=http://{host}:{peer}")).collect();
        let log = self.folder().join(format!("m{member}.log"));
        let log = File::options().create(true).append(true).open(log).unwrap();
        let [client, peer] = self.ports[member];
        let client = format!("{}://{host}:{client}", self.scheme());
        let peer = format!("http://{host}:{peer}");
        let mut etcd = Command::new("etcd");
        etcd.arg("--name").arg(format!("m{member}"));
        etcd.arg("--data-dir").arg(self.folder().join(format!("m{member}")));
        etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        etcd.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        if self.tls {
            etcd.arg("--cert-file").arg(self.certificate());
            etcd.arg("--key-file").arg(self.folder().join(KEY));
        }
        etcd.arg(format!("--initial-cluster={}", all.join(","))).args(&self.arguments);
        let etcd = etcd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        self.members[member] = Some(etcd.expect("etcd"));
    }

    /// Kills a member.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut etcd) = self.members[member].take() {
            etcd.kill().expect("killed");
            etcd.wait().expect("ended");
        }
    }

    /// A request of etcd's own API to a member, such as `auth/enable`.
    pub fn ask(&self, member: usize, path: &str, body: &str) -> Value {
        self.curl(member, &format!("v3/{path}"), Some(body))
    }

    /// As [`Self::ask`], as a user who has logged in.
    pub fn ask_as(&self, token: &str, member: usize, path: &str, body: &str) -> Value {
        let header = format!("Authorization: {token}");
        self.curl_with(member, &format!("v3/{path}"), &["--header", &header, "--data", body])
    }

    /// The member that leads, by the members' own answers. Waits for an election.
    ///
    /// # Panics
    /// If none does.
    pub fn leader(&self) -> usize {
        let status = |member: usize| self.ask(member, "maintenance/status", "{}");
        eventually("etcd to have a leader", || {
            let mut running =
                (0..self.members.len()).filter(|member| self.members[*member].is_some());
            running.find(|member| leads(&status(*member)))
        })
    }

    fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    fn curl(&self, member: usize, path: &str, body: Option<&str>) -> Value {
        let data: Vec<_> = body.iter().flat_map(|body| ["--data", body]).collect();
        self.curl_with(member, path, &data)
    }

    fn curl_with(&self, member: usize, path: &str, arguments: &[&str]) -> Value {
        let mut curl = Command::new("curl");
        let [client, _] = self.ports[member];
        let address = format!("{}://{}:{client}/{path}", self.scheme(), self.host);
        curl.args(["--silent", "--insecure", "--max-time", "30", &address]);
        let answer = curl.args(arguments).output();
        serde_json::from_slice(&answer.expect("curl").stdout).unwrap_or_default()
    }
}

/// Whether a member leads, by its status. False if the member did not answer.
fn leads(status: &Value) -> bool {
    let leader = status["leader"].as_str();
    leader.is_some() && leader == status["header"]["member_id"].as_str()
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in 0..self.members.len() {
            self.kill(member);
        }
    }
}

const CERTIFICATE: &str = "cert.pem";
const KEY: &str = "key.pem";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_member_that_does_not_answer_is_not_the_leader() {
        let status = |leader: &str| json!({ "header": { "member_id": "7" }, "leader": leader });
        assert!(leads(&status("7")));
        assert!(!leads(&status("8")));
        assert!(!leads(&json!({ "header": { "member_id": "7" } })), "before an election");
        assert!(!leads(&Value::Null), "curl failed");
    }
}
