//! The agent with a real server: which starts the other, which survives the other, and what viewers get.
//!
//! One test of this file is an agent in a process of its own, for the tests that kill it.

mod folders;
mod peers;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::{Condition, Desired};
use folders::{BLOCK, Folders, film, flip};
use fullbore_node::{Agent, AgentOptions, BoxState};
use fullbore_tests::{FILM, Plain, within};
use peers::Peers;
use rustix::process::{Pid, Signal, kill_process};

/// The environment variable with the folders of the agent that runs in a process of its own.
const OWN_PROCESS: &str = "FULLBORE_TEST_AGENT";

fn options(root: &Path) -> AgentOptions {
    let flags = "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --tls off --workers 1";
    AgentOptions {
        node: "n1".parse().unwrap(),
        state: root.join("state"),
        libraries: vec![root.join("library")],
        copy_bytes_per_second: 0,
        windows: Vec::new(),
        fill_bytes_max: 0,
        fill_wait: Duration::ZERO,
        scrub: Duration::from_secs(3600),
        evict_after: Duration::from_secs(1),
        report: Duration::from_millis(500),
        ceiling_bits_per_second: 0,
        snapshot_keys: Vec::new(),
        viewer_keys: String::new(),
        origins: Vec::new(),
        trust: tls::client::Trust::System,
        host: "127.0.0.1".to_owned(),
        edge: None,
        program: fullbore_tests::program().to_owned(),
        serve_flags: flags.split(' ').map(str::to_owned).collect(),
    }
}

/// Once a box has viewers, its agent copies and verifies at idle priority: only while no other program wants the processors. Beside a compiler,
/// what takes a second otherwise may take minutes.
const PATIENCE: Duration = Duration::from_secs(300);

fn eventually<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, ask)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}

/// An agent that stops at the end of the test, together with its server.
struct Running(Arc<Agent>);

impl Running {
    fn start(folders: &Folders) -> Self {
        Self(Agent::start(options(folders.root())).unwrap())
    }

    fn ready(self) -> Self {
        until("the box to be ready", || self.0.condition() == Condition::Ready);
        self
    }

    fn viewers(&self) -> SocketAddr {
        viewers(&eventually("the server's address", || self.0.found().url))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn viewers(url: &str) -> SocketAddr {
    url.trim_start_matches("http://").trim_end_matches('/').parse().unwrap()
}

fn server_pid(state: &Path) -> Option<Pid> {
    let note: serde_json::Value =
        serde_json::from_slice(&fs::read(state.join("server.json")).ok()?).ok()?;
    Pid::from_raw(i32::try_from(note["pid"].as_i64()?).ok()?)
}

fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// The address of a title's film in the box's library.
fn address(folders: &Folders, path: &str) -> String {
    let film = folders.film(path);
    format!("/{}", film.strip_prefix(folders.library()).unwrap().display())
}

fn desire(
    agent: &Agent,
    titles: &[&fleet_protocol::PublishedTitle],
    withdrawn: &[fleet_protocol::HeldTitle],
) {
    let titles = titles.iter().map(|title| (*title).clone()).collect();
    let withdrawn = withdrawn.to_vec();
    agent.handle_desired(Desired {
        epoch: 1,
        revision: 1,
        titles,
        withdrawn,
        ..Desired::default()
    });
}

#[test]
fn a_server_that_is_killed_is_started_again_and_one_that_hangs_is_told() {
    let folders = Folders::default();
    let one = Running::start(&folders).ready();
    let first = server_pid(&folders.state()).unwrap();
    kill_process(first, Signal::KILL).unwrap();
    let another = || server_pid(&folders.state()).filter(|pid| *pid != first);
    let second = eventually("another server", another);
    assert_eq!(Plain::connect(one.viewers()).fetch("/none").status, 404);
    kill_process(second, Signal::STOP).unwrap();
    let silent = Condition::NotMe(vec![fleet_protocol::SheddingReason::ServerSilent]);
    until("the box to say that its server hangs", || one.0.condition() == silent);
    kill_process(second, Signal::CONT).unwrap();
    let one = one.ready();
    drop(one);
    assert!(!is_alive(second), "an agent that is asked to stop ends its server");
}

#[test]
#[ignore = "it is started by other tests, in a process of its own"]
fn an_agent_in_a_process_of_its_own() {
    let root = PathBuf::from(std::env::var_os(OWN_PROCESS).unwrap());
    let _agent = Agent::start(options(&root)).unwrap();
    loop {
        std::thread::park();
    }
}

fn agent_process(folders: &Folders) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "an_agent_in_a_process_of_its_own"]);
    command.env(OWN_PROCESS, folders.root()).stdout(Stdio::null()).spawn().unwrap()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_server_outlives_its_agent_and_the_next_agent_finds_it() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(1));
    let one = Running::start(&folders).ready();
    desire(&one.0, &[&title], &[]);
    until("the title to arrive", || one.0.inventory().held.len() == 1);
    drop(one);
    let agent = agent_process(&folders);
    let pid = eventually("the server", || server_pid(&folders.state()));
    let said = folders.state().join("server.out");
    until("the server to be ready", || {
        fs::read_to_string(&said).is_ok_and(|said| said.contains("admin "))
    });
    kill(agent);
    let url = fs::read_to_string(&said).unwrap();
    let place = viewers(url.lines().next().unwrap().trim_start_matches("ready "));
    let path = address(&folders, "film");
    assert!(Plain::connect(place).fetch(&path).body == film(1), "viewers do not need the agent");
    // The agent may have been killed before it could save which process it had started.
    for is_noted in [true, false] {
        if !is_noted {
            fs::remove_file(folders.state().join("server.json")).unwrap();
        }
        let agent = agent_process(&folders);
        until("the server to be found", || server_pid(&folders.state()) == Some(pid));
        kill(agent);
        assert!(is_alive(pid));
    }
    let one = Running::start(&folders).ready();
    assert_eq!(one.viewers(), place);
    drop(one);
    assert!(!is_alive(pid));
}

#[test]
fn a_note_of_another_process_is_not_believed() {
    let folders = Folders::default();
    let one = Running::start(&folders).ready();
    let note = fs::read_to_string(folders.state().join("server.json")).unwrap();
    let pid = server_pid(&folders.state()).unwrap().as_raw_nonzero().to_string();
    drop(one);
    // A later process may have the same number.
    let own = std::process::id().to_string();
    fs::write(folders.state().join("server.json"), note.replace(&pid, &own)).unwrap();
    let one = Running::start(&folders).ready();
    assert_ne!(server_pid(&folders.state()), Pid::from_raw(own.parse().unwrap()));
    drop(one);
}

#[test]
fn one_state_folder_has_one_agent() {
    let folders = Folders::default();
    let _one = Running::start(&folders);
    let second = Agent::start(options(folders.root())).err().expect("it is taken").to_string();
    assert!(second.contains("--state"), "{second}");
}

#[test]
fn viewers_never_get_a_byte_that_flipped_while_the_box_was_down() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(2));
    let one = Running::start(&folders).ready();
    desire(&one.0, &[&title], &[]);
    until("the title to arrive", || one.0.inventory().held.len() == 1);
    drop(one);
    let path = address(&folders, "film");
    flip(&folders.film("film"), BLOCK as u64 + 17);
    let one = Running::start(&folders);
    let mut hidden = 0;
    eventually("the title to be served again", || {
        let response = Plain::connect(one.viewers()).fetch(&path);
        hidden += usize::from(response.status == 404);
        match response.status {
            200 => {
                assert!(response.body == film(2), "wrong bytes were served");
                Some(())
            }
            404 => None,
            other => panic!("status {other}"),
        }
    });
    println!("it was hidden for {hidden} requests");
}

#[test]
fn a_withdrawn_title_and_a_damaged_one_are_off_the_server_at_once() {
    let folders = Folders::default();
    let (title, other) = (folders.publish("film", &film(3)), folders.publish("other", &film(4)));
    let one = Running::start(&folders).ready();
    desire(&one.0, &[&title, &other], &[]);
    until("the titles to arrive", || one.0.inventory().held.len() == 2);
    let (path, other_path) = (address(&folders, "film"), address(&folders, "other"));
    let status = |path: &str| Plain::connect(one.viewers()).fetch(path).status;
    assert_eq!((status(&path), status(&other_path)), (200, 200));
    desire(&one.0, &[&other], &[title.held()]);
    until("the receipt", || !one.0.receipts().is_empty());
    assert_eq!((status(&path), status(&other_path)), (404, 200));
    // Without its origin a damaged title stays hidden.
    fs::remove_dir_all(folders.origin()).unwrap();
    flip(&folders.library().join("other").join(film_of(&folders, "other")), 5);
    until("the damage to be noticed", || one.0.inventory().held.is_empty());
    assert_eq!(status(&other_path), 404);
}

fn film_of(folders: &Folders, path: &str) -> PathBuf {
    let record = catalog::Record::read(&folders.library().join(path)).unwrap();
    Path::new(&record.folder).join(FILM)
}

/// A viewer who reads slowly makes the server keep the file open meanwhile.
#[test]
fn a_title_that_goes_elsewhere_stays_until_its_last_viewer_has_all_of_it() {
    let folders = Folders::default();
    // More than all buffers between the server and the viewer hold.
    let whole: Vec<u8> = (0..20 * BLOCK).map(|at| (at / 7 % 251) as u8).collect();
    let (title, kept) = (folders.publish("film", &whole), folders.publish("kept", &film(6)));
    let one = Running::start(&folders).ready();
    desire(&one.0, &[&title, &kept], &[]);
    until("the titles to arrive", || one.0.inventory().held.len() == 2);
    one.0.replicator().note_fleet(Peers::new(62).fleet(&title));
    let path = address(&folders, "film");
    let mut viewer = Plain::connect(one.viewers());
    viewer.ask(&path);
    let (status, _, length) = viewer.head();
    assert_eq!((status, length), (200, whole.len()));
    let mut got = viewer.body(1 << 20);
    desire(&one.0, &[&kept], &[]);
    // As a gateway does while other nodes hold it.
    let give_leave = || one.0.replicator().handle_eviction_leave(vec![title.held()]);
    until("gateways to hear that it goes", || {
        give_leave();
        one.0.inventory().held == [kept.held()]
    });
    // Several times as long as viewers get to leave.
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        give_leave();
        got.extend(viewer.body(64 << 10));
        assert!(folders.library().join("film").exists(), "it went under its viewer");
        // sleeps: a viewer who takes a part now and then, for three seconds
        std::thread::sleep(Duration::from_millis(50));
    }
    got.extend(viewer.body(length - got.len()));
    assert!(got == whole, "other bytes were served");
    drop(viewer);
    until("the title to be gone", || {
        give_leave();
        !folders.library().join("film").exists()
    });
    let status = |path: &str| Plain::connect(one.viewers()).fetch(path).status;
    until("the server to notice", || status(&path) == 404);
    assert_eq!(status(&address(&folders, "kept")), 200);
}

#[test]
fn what_viewers_took_of_a_title_is_reported_once_and_what_is_not_the_fleets_has_no_name() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(1));
    let one = Running::start(&folders).ready();
    desire(&one.0, &[&title], &[]);
    until("the film to be held", || one.0.replicator().folder_of(&title).is_some());
    fs::write(folders.library().join("private.mp4"), vec![7; 5000]).unwrap();
    let length = film(1).len() as u64;
    let film = address(&folders, "film");
    for path in [film.as_str(), film.as_str(), "/private.mp4"] {
        assert_eq!(Plain::connect(one.viewers()).fetch(path).status, 200);
    }
    let reports = || (0..).map_while(|number| one.0.watched_after(number)).collect::<Vec<_>>();
    let sum = || {
        let mut sum = fleet_protocol::WatchCount::default();
        reports().iter().for_each(|report| sum.add(report.sum()));
        sum
    };
    // The server counts bytes as they go and attributes them when the response ends, so the last start is reported last.
    until("all to be reported", || sum().starts >= 3 && sum().bytes >= 2 * length + 5000);
    let reports = reports();
    let titles: Vec<_> = reports.iter().flat_map(|report| &report.titles).collect();
    assert!(titles.iter().all(|title| title.path == "film"), "{titles:?}");
    let (starts, bytes) =
        titles.iter().fold((0, 0), |sum, title| (sum.0 + title.starts, sum.1 + title.bytes));
    assert_eq!((starts, sum().starts), (2, 3));
    // Response heads are counted, too.
    assert!((2 * length..2 * length + 2000).contains(&bytes), "{bytes}");
    // Bytes without a title when a report closed are in its rest, and again under their title in the next report.
    assert!(sum().bytes < 2 * (2 * length + 5000) + 5000, "{:?}", sum());
    assert!(reports.iter().all(|report| report.check().is_ok()));
}

/// A counter of the server, summed over all its workers.
fn total(one: &Running, name: &str) -> u64 {
    let admin = eventually("its admin page", || one.0.found().admin);
    let status = Plain::connect(admin).fetch("/status.json").body;
    let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
    status["total"][name].as_u64().unwrap_or_else(|| panic!("{name}: {status}"))
}

#[test]
fn a_fill_leaves_the_hot_set_to_viewers() {
    let folders = Folders::default();
    let watched = folders.publish("watched", &film(21));
    let comes = folders.publish("comes", &film(22).repeat(8));
    let mut options = options(folders.root());
    // On the kernel's route, data would come from the page cache, and the hot set would not see the requests.
    options.serve_flags.extend(["--route", "userspace"].map(str::to_owned));
    let one = Running(Agent::start(options).unwrap()).ready();
    desire(&one.0, &[&watched], &[]);
    until("the first title to be held", || one.0.replicator().folder_of(&watched).is_some());
    let path = address(&folders, "watched");
    let watch = || assert!(Plain::connect(one.viewers()).fetch(&path).body == film(21));
    // All whole parts of 2 MiB. The set takes no part of a file that has just changed.
    let hot = 2 * BLOCK as u64;
    until("the film to be in the hot set", || {
        watch();
        total(&one, "hot_filled_bytes_total") == hot
    });
    let titles = vec![comes.clone(), watched.clone()];
    let desired = Desired { epoch: 1, revision: 2, titles, ..Desired::default() };
    one.0.handle_desired(desired);
    until("the second title to be held", || one.0.replicator().folder_of(&comes).is_some());
    let before = total(&one, "read_hot_bytes_total");
    watch();
    until("a viewer to have had it from there", || {
        total(&one, "read_hot_bytes_total") - before >= hot
    });
    assert_eq!(
        total(&one, "hot_filled_bytes_total"),
        hot,
        "nothing was read again, or of the other"
    );
    assert_eq!(total(&one, "hot_evicted_bytes_total"), 0);
}
