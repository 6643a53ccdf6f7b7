//! Titles that nodes copy from each other while something breaks: one copy for each cluster comes from the origin.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::house::{Extras, Fleet, Node};
use crate::stores::Stores;
use fullbore_tests::{FILM, make_title, until, within};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// The size of a block in records.
const BLOCK: usize = 4 << 20;

pub(crate) fn bytes(blocks: usize, seed: u8) -> Vec<u8> {
    (0..blocks * BLOCK + 12_345).map(|at| (at / 7 % 251) as u8 ^ seed).collect()
}

/// The state that a node's agent reports.
fn agent(node: &Node) -> Value {
    let text = fs::read(node.state.join("agent.json")).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

pub(crate) fn counted(node: &Node, what: &str) -> u64 {
    agent(node)["holding"]["fill"][what].as_u64().unwrap_or(0)
}

/// The share of its rate that a node's fill uses, by its agent's report.
pub(crate) fn share(node: &Node) -> f64 {
    agent(node)["holding"]["fill"]["share"].as_f64().unwrap_or(0.0)
}

/// All bytes that an agent reports to have copied since its start.
pub(crate) fn brought(node: &Node) -> u64 {
    ["origin_bytes", "cluster_bytes", "fleet_bytes"].iter().map(|what| counted(node, what)).sum()
}

/// The source of titles: the folder of a library, and its address if that differs.
pub(crate) struct Shelf {
    folder: PathBuf,
    address: Option<&'static str>,
}

impl Shelf {
    /// In the bucket of `stores`; in a folder, if there are none.
    pub(crate) fn of(fleet: &Fleet, stores: Option<&Stores>) -> Self {
        let (folder, address) = match stores.map(Stores::library) {
            Some((folder, address)) => (folder, Some(address)),
            None => (fleet.path("more"), None),
        };
        fs::create_dir_all(&folder).unwrap();
        Self { folder, address }
    }

    /// Publishes a title in addition to the fleet's film, and returns the bytes of one copy.
    pub(crate) fn publish(&self, fleet: &Fleet, title: &str, film: &[u8], flags: &[&str]) -> u64 {
        let place = self.folder.join(title);
        fs::create_dir_all(&place).unwrap();
        make_title(&place, film).unwrap();
        let library = self.folder.to_str().unwrap();
        let mut words = vec!["publish", title, "--library", library];
        words.extend(self.address.iter().flat_map(|address| ["--origin", address]));
        words.extend(flags);
        let published = fleet.control(&words);
        let record = fs::metadata(place.join("title.json")).unwrap().len();
        published["bytes"].as_u64().unwrap() + record
    }

    /// A title's current film.
    fn film(&self, title: &str) -> Vec<u8> {
        let place = self.folder.join(title);
        let record = catalog::Record::read(&place).unwrap();
        fs::read(place.join(record.folder).join(FILM)).unwrap()
    }
}

fn film_of(node: &Node, title: &str) -> PathBuf {
    let folder = node.library.join(title);
    folder.join(catalog::Record::read(&folder).unwrap().folder).join(FILM)
}

/// Nodes know the other nodes of their cluster.
pub(crate) fn settle(fleet: &Fleet) {
    until("all nodes to be told that all serve", || {
        fleet.nodes.iter().all(|node| {
            let said = fs::read(node.state.join("snapshot.signed")).unwrap_or_default();
            let text = String::from_utf8_lossy(&said);
            text.matches("\"state\":\"serving\"").count() == fleet.nodes.len()
        })
    });
}

/// One test, because starting a fleet takes time: two gateways, etcd, an S3 server and three nodes. `night` has the full version.
#[test]
#[ignore = "takes most of a minute of an idle machine: ./run fleet-lab"]
fn one_copy_comes_from_the_origin_and_titles_arrive_whole_whoever_is_killed_meanwhile() {
    let stores = Stores::start("127.0.0.1", 1);
    let extras = Extras { signed: true, stores: stores.as_ref(), ..Extras::default() };
    let mut fleet = Fleet::with(&["a", "a", "b"], 10, &extras);
    let _second = fleet.start_second(&fleet.second_seat(), None);
    let shelf = Shelf::of(&fleet, stores.as_ref());
    settle(&fleet);
    copy_once_for_each_cluster(&mut fleet, &shelf);
    copy_under_kills(&mut fleet, &shelf, 4, 12);
}

/// A node fetches from outside even without its turn if it has waited in vain. On a busy machine that would be soon.
const PATIENT: [&str; 2] = ["--fill-wait", "120"];

/// All agents have just been restarted, so gateways report all boxes as starting.
fn copy_once_for_each_cluster(fleet: &mut Fleet, shelf: &Shelf) {
    for node in &mut fleet.nodes {
        Course::default().restart_agent(node, &PATIENT);
    }
    let cost = shelf.publish(fleet, "second", &bytes(3, 1), &[]);
    within(ARRIVAL, "all nodes to hold it", || (fleet.holders("second") == 3).then_some(()));
    until("the agents to have counted", || fleet.nodes.iter().all(|node| brought(node) >= cost));
    // The first cluster gets it from the origin, the other one perhaps from the first.
    let outside = |node: &Node| counted(node, "origin_bytes") + counted(node, "fleet_bytes");
    let outside: Vec<_> = fleet.nodes.iter().map(outside).collect();
    assert_eq!(outside[0] + outside[1], cost, "of cluster a: {outside:?}");
    assert_eq!(outside[2], cost, "of cluster b: {outside:?}");
    // At least the film: its small documents may have come from the other cluster a moment earlier.
    let neighbours =
        || -> u64 { fleet.nodes[..2].iter().map(|node| counted(node, "cluster_bytes")).sum() };
    let film = bytes(3, 1).len() as u64;
    until("the neighbour to have copied it, by signed addresses", || neighbours() >= film);
    for node in &fleet.nodes {
        assert_eq!(fs::read(film_of(node, "second")).unwrap(), bytes(3, 1), "{}", node.name);
        assert!(agent(node)["holding"]["fill"]["refused"].as_object().unwrap().is_empty());
    }
    let filling = fleet.control(&["fill"]);
    let clusters = filling["clusters"].as_array().unwrap();
    assert_eq!(clusters.len(), 2, "{filling}");
    until("the gateway to know that nothing is left", || {
        let filling = fleet.control(&["fill"]);
        let clusters = filling["clusters"].as_array().unwrap();
        clusters.iter().all(|cluster| cluster["missing_bytes"] == 0)
    });
}

#[test]
fn what_waits_for_a_window_is_told_with_how_much_it_is_and_when_it_will_be_done() {
    let mut fleet = Fleet::start(&["a"], 2);
    // A minute in twelve hours, plus or minus the one that begins meanwhile.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let hour = (now / 3600 + 12) % 24;
    let window = format!("{hour:02}:00-{hour:02}:01 UTC");
    fleet.nodes[0].restart_agent(&["--window", &window, "--fill-rate", "800M"]);
    let shelf = Shelf::of(&fleet, None);
    shelf.publish(&fleet, "later", &bytes(1, 3), &[]);
    let told = || fleet.control(&["fill"])["clusters"][0].clone();
    until("the node to be told of it", || told()["missing_bytes"] != 0);
    let cluster = told();
    let fill = &cluster["nodes"][0]["fill"];
    assert_eq!((&fill["is_open"], &fill["missing_titles"]), (&false.into(), &1.into()));
    assert!(cluster["missing_bytes"].as_u64() > Some(bytes(1, 3).len() as u64), "{cluster}");
    let done = cluster["done_unix_seconds"].as_u64().unwrap();
    assert!(done / 3600 % 24 == hour && done / 60 % 60 == 0 && done > now, "{cluster}");
    assert_eq!(fleet.holders("later"), 0);
}

/// The parts of the current title that a node has copied.
#[derive(Default)]
struct Course {
    /// By agents that were killed meanwhile.
    earlier_bytes: u64,
    /// Bytes that its agent had copied before.
    before_bytes: u64,
    /// The version that is arriving, and the number of its blocks at the last check.
    there: Option<(String, usize)>,
}

impl Course {
    fn of(node: &Node) -> Self {
        Self { before_bytes: brought(node), ..Self::default() }
    }

    /// No block that was there is missing, so none is fetched again.
    fn look(&mut self, node: &Node, seed: u64) {
        let map = fs::read_to_string(node.library.join(".ingest-third/blocks")).ok();
        let now = map.and_then(|map| {
            let (version, blocks) = map.split_once('\n')?;
            Some((version.to_owned(), blocks.matches('1').count()))
        });
        if let (Some((version, before)), Some((same, blocks))) = (&self.there, &now) {
            let is_other = version != same;
            assert!(
                is_other || blocks >= before,
                "{}: {blocks} of {before}, seed {seed}",
                node.name
            );
        }
        self.there = now;
    }

    /// Kills its agent, and starts another one.
    fn restart_agent(&mut self, node: &mut Node, flags: &[&str]) {
        node.agent.kill();
        self.earlier_bytes += brought(node).saturating_sub(self.before_bytes);
        self.before_bytes = 0;
        // The next agent counts from 0.
        let _ = fs::remove_file(node.state.join("agent.json"));
        node.restart_agent(flags);
    }

    /// As far as agents reported before they were killed, which they do once a second.
    fn bytes(&self, node: &Node) -> u64 {
        self.earlier_bytes + brought(node).saturating_sub(self.before_bytes)
    }
}

/// `FULLBORE_SEED` repeats a run's choices.
fn seed() -> u64 {
    let named = std::env::var("FULLBORE_SEED").ok().and_then(|seed| seed.parse().ok());
    named.unwrap_or_else(|| fastrand::u64(..))
}

/// Kills a process that takes part in copying a title, `kills` times, at random moments: a source, a target or the gateway.
fn copy_under_kills(fleet: &mut Fleet, shelf: &Shelf, kills: usize, blocks: usize) {
    // A block in an eighth of a second.
    const SLOW: [&str; 4] = ["--fill-rate", "270M", "--fill-wait", "2"];
    let seed = seed();
    eprintln!("FULLBORE_SEED={seed}");
    let mut drawn = fastrand::Rng::with_seed(seed);
    for node in &mut fleet.nodes {
        Course::default().restart_agent(node, &SLOW);
    }
    let mut courses: Vec<_> = fleet.nodes.iter().map(Course::of).collect();
    let mut cost = shelf.publish(fleet, "third", &bytes(blocks, 2), &[]);
    for number in 0..kills {
        // sleeps: until the random moment of the next kill
        std::thread::sleep(Duration::from_millis(drawn.u64(100..900)));
        let at = drawn.usize(0..fleet.nodes.len());
        let who = drawn.u8(0..3);
        courses.iter_mut().zip(&fleet.nodes).for_each(|(course, node)| course.look(node, seed));
        match who {
            0 => {
                if let Some(server) = fleet.nodes[at].find_server() {
                    let _ = kill_process(server, Signal::KILL);
                }
            }
            1 => {
                fleet.gateway.kill();
                fleet.restart_gateway();
            }
            _ => courses[at].restart_agent(&mut fleet.nodes[at], &SLOW),
        }
        if number % 10 == 9 && fleet.holders("third") == fleet.nodes.len() {
            // Everything has arrived: the next version is under way.
            check_copies(fleet, shelf, &courses, cost, seed);
            courses = fleet.nodes.iter().map(Course::of).collect();
            let other = u8::try_from(number).unwrap_or(u8::MAX);
            cost = shelf.publish(fleet, "third", &bytes(blocks, other), &[]);
        }
    }
    within(ARRIVAL, &format!("all nodes to hold it, seed {seed}"), || {
        (fleet.holders("third") == fleet.nodes.len()).then_some(())
    });
    check_copies(fleet, shelf, &courses, cost, seed);
    for node in &fleet.nodes {
        let left = fs::read_dir(&node.library).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name().into_string().unwrap()).collect();
        assert!(left.iter().all(|name| !name.starts_with(".ingest-")), "{left:?}, seed {seed}");
    }
}

/// A title takes some ten seconds, and another node's turn comes after the same time again. The rest is for a busy machine.
const ARRIVAL: Duration = Duration::from_secs(180);

/// All nodes have the title whole, and none has fetched it twice.
fn check_copies(fleet: &Fleet, shelf: &Shelf, courses: &[Course], cost: u64, seed: u64) {
    let whole = shelf.film("third");
    for (node, course) in fleet.nodes.iter().zip(courses) {
        assert!(fs::read(film_of(node, "third")).unwrap() == whole, "{}, seed {seed}", node.name);
        let bytes = course.bytes(node);
        assert!(bytes < 2 * cost, "{}: {bytes} for {cost}, seed {seed}", node.name);
    }
}

/// A hundred kills take some three minutes.
#[test]
#[ignore = "takes minutes: ./run fleet-lab"]
fn titles_arrive_whole_under_a_hundred_kills() {
    let mut fleet = Fleet::start(&["a", "a", "b"], 10);
    let shelf = Shelf::of(&fleet, None);
    settle(&fleet);
    copy_under_kills(&mut fleet, &shelf, 100, 60);
}
