//! The stores of a fleet of several machines: etcd, and an S3 server, which is the origin of titles, too.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use fullbore_tests::{Etcd, nobody_stalled, program, until};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::house::{Extras, Fleet, Running, get};
use crate::nodes::swarm_until;
use crate::s3_server::S3Server;

/// The variables with which S3 clients get the server's address and their credentials.
const VARIABLES: [&str; 3] = ["AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];

/// Both, ended when dropped.
pub(crate) struct Stores {
    etcd: Etcd,
    s3: S3Server,
    _runtime: Runtime,
    folder: TempDir,
}

impl Stores {
    /// Starts them on `host`: S3, which nodes reach, too, and this many members of etcd. `None`, loudly, if there is no etcd here.
    pub(crate) fn start(host: &str, members: usize) -> Option<Self> {
        let etcd = Etcd::start_on(host, members)?;
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind((host, 0)).unwrap();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let s3 = runtime.block_on(S3Server::start_on(listener, folder.path()));
        Some(Self { etcd, s3, _runtime: runtime, folder })
    }

    /// Flags of each gateway.
    pub(crate) fn flags(&self) -> Vec<String> {
        // No other machine is in these networks.
        let store = format!("etcd://{}/fleet?plain=yes", self.etcd.hosts().join(","));
        ["--store", &store, "--objects", "s3://films/objects"].map(str::to_owned).to_vec()
    }

    /// Environment variables of gateways and agents.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let value = |name: &&'static str| Some((*name, self.s3.variable(name)?));
        VARIABLES.iter().filter_map(value).collect()
    }

    /// A library in the bucket: its folder, and its address.
    pub(crate) fn library(&self) -> (PathBuf, &'static str) {
        (self.folder.path().join("films/library"), "s3://films/library")
    }
}

#[test]
fn a_gateway_whose_bucket_is_not_there_or_not_reached_says_so_and_starts() {
    let (folder, runtime) = (tempfile::tempdir().unwrap(), Runtime::new().unwrap());
    let s3 = runtime.block_on(S3Server::start(&folder.path().join("s3")));
    let here = s3.variable("AWS_ENDPOINT_URL").unwrap();
    for (endpoint, why) in [(here.as_str(), "make the bucket"), ("http://127.0.0.1:1", "refused")] {
        let mut command = Command::new(program());
        let objects = format!("s3://nobucket/x?endpoint={endpoint}");
        command.args(["control", "serve", "--objects", &objects]);
        command.arg("--state").arg(folder.path().join(why));
        for listener in ["--public", "--machines", "--admin"] {
            command.args([listener, "127.0.0.1:0"]);
        }
        command.envs(VARIABLES.iter().filter_map(|name| Some((*name, s3.variable(name)?))));
        let gateway = Running::start(&mut command);
        let line = gateway.stderr.wait_for("cannot be used");
        assert!(line.contains(&objects) && line.contains(why), "{line}");
        gateway.stdout.wait_for("ready ");
    }
}

#[test]
fn viewers_notice_nothing_of_an_etcd_without_a_leader_or_a_quorum_and_operators_get_one_line() {
    let Some(mut stores) = Stores::start("127.0.0.1", 3) else { return };
    let extras = Extras { stores: Some(&stores), ..Extras::default() };
    let mut fleet = Fleet::with(&["a", "b", "c"], 90, &extras);
    let words = "--viewers 20 --over 3s --duration 10m --watch 10m --buffer 20s";
    let film = fleet.film();
    let ran = swarm_until(&film, words, || lose_etcd(&mut fleet, &mut stores.etcd));
    assert_eq!(ran.number("sessions/started"), 20.0, "{}", ran.figures);
    nobody_stalled(&ran);
}

/// Its leader dies, then another member, and a gateway; then all come back.
fn lose_etcd(fleet: &mut Fleet, etcd: &mut Etcd) {
    let drains = |fleet: &Fleet| fleet.control_ends(&["drain", "node-1", "--reason", "a try"]);
    let serves = |fleet: &Fleet| {
        until("it to serve again", || fleet.control_ends(&["undrain", "node-1"]).status.success());
        until("three nodes for a viewer", || fleet.route().len() == 3);
    };
    until("viewers", || fleet.control(&["nodes"])["nodes"][0]["connections"].as_u64() > Some(5));
    let leader = etcd.leader();
    etcd.kill(leader);
    until("another leader to take a change", || drains(fleet).status.success());
    serves(fleet);

    let second = etcd.leader();
    etcd.kill(second);
    let refused = drains(fleet);
    let line = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{line}");
    assert!(line.contains("no quorum") && line.lines().count() == 1, "{line}");
    assert_eq!(fleet.state_of("node-1"), "serving", "reads go on, and nothing was changed");
    assert_eq!(get(&fleet.film()).0, 200);

    fleet.gateway.kill();
    fleet.restart_gateway();
    assert_eq!(get(&fleet.film()).0, 200, "it steers at once");
    assert_eq!(fleet.route().len(), 3);
    let problem =
        |fleet: &Fleet| fleet.control(&["nodes"])["store_problem"].as_str().map(str::to_owned);
    until("the page to tell of it", || {
        problem(fleet).is_some_and(|line| line.contains("no quorum"))
    });
    assert_eq!(drains(fleet).status.code(), Some(1));

    etcd.start_member(leader);
    etcd.start_member(second);
    until("changes to be taken again", || drains(fleet).status.success());
    until("no viewer to be sent there", || !fleet.route().contains(&"node-1".to_owned()));
    until("the page to tell of it no more", || problem(fleet).is_none());
    serves(fleet);
}
