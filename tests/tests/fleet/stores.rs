//! What a fleet of several machines keeps its state in: etcd, and an S3 server, which is the origin of titles, too.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use fullbore_tests::{tool, until};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::house::{Running, free_port, get};
use crate::s3_server::S3Server;

/// The names by which clients of S3 know where it is and who they are.
const VARIABLES: [&str; 3] = ["AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];

/// Both, ended when dropped.
pub(crate) struct Stores {
    etcd_port: u16,
    _etcd: Running,
    s3: S3Server,
    _runtime: Runtime,
    folder: TempDir,
}

impl Stores {
    /// Starts them. S3 listens on `host`, which nodes reach, and etcd on loopback. `None`, loudly, if there is no etcd here.
    pub(crate) fn start(host: &str) -> Option<Self> {
        if !tool::are_here(&[("etcd", "etcd-server")]) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let [etcd_port, peer_port] = [free_port(), free_port()];
        let [client, peer] = [etcd_port, peer_port].map(|port| format!("http://127.0.0.1:{port}"));
        let mut etcd = Command::new("etcd");
        etcd.args(["--name", "m0", "--initial-cluster", &format!("m0={peer}")]);
        etcd.arg("--data-dir").arg(folder.path().join("etcd"));
        etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        etcd.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        let etcd = Running::start(&mut etcd);
        let listener = TcpListener::bind((host, 0)).unwrap();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let s3 = runtime.block_on(S3Server::start_on(listener, folder.path()));
        until("etcd to have a leader", || get(&format!("{client}/health")).1.contains("true"));
        Some(Self { etcd_port, _etcd: etcd, s3, _runtime: runtime, folder })
    }

    /// Flags of each gateway.
    pub(crate) fn flags(&self) -> Vec<String> {
        let store = format!("etcd://127.0.0.1:{}/fleet", self.etcd_port);
        ["--store", &store, "--objects", "s3://films/objects"].map(str::to_owned).to_vec()
    }

    /// What gateways and agents have in their environment.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let value = |name: &&'static str| Some((*name, self.s3.variable(name)?));
        VARIABLES.iter().filter_map(value).collect()
    }

    /// A library in the bucket: its folder, and its address.
    pub(crate) fn library(&self) -> (PathBuf, &'static str) {
        (self.folder.path().join("films/library"), "s3://films/library")
    }
}
