//! A night of a whole fleet: six nodes in three sites, in networks of their own, two gateways, etcd and an S3 server. Titles published by day
//! are on every node before the window closes, and have left the origin once for each cluster.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::filling::{Shelf, brought, bytes, counted, settle, share};
use crate::house::{Extras, Fleet, Node};
use crate::networks::{GATEWAY, Town};
use crate::stores::Stores;
use fullbore_tests::until;

/// The site of each node: two nodes at each of three.
const SITES: [usize; 6] = [0, 0, 1, 1, 2, 2];
const NAMES: [&str; 6] = ["a", "a", "b", "b", "c", "c"];

/// The work for a window of fifteen minutes: 8 Mb/s, and small titles for nine minutes of that, so that a slow machine has time left. The other
/// nodes know of the last title after some twenty seconds.
const RATE_BITS_PER_SECOND: u64 = 8_000_000;
const WINDOW_MINUTES: u64 = 15;
const TITLE_BLOCKS: usize = 1;
const FILLED_MINUTES: u64 = 9;

/// The least part of its allowed rate at which a node fills, by its own report. It uses less than its full rate while its disk is slow.
const SHARE_PERCENT: u64 = 90;

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A time of day, as windows are written.
fn clock(unix_seconds: u64) -> String {
    let minute = unix_seconds / 60 % (24 * 60);
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

#[test]
#[ignore = "a window of a quarter of an hour and gigabytes: ./run fleet-lab"]
fn every_cluster_has_its_copies_before_the_window_closes_and_the_origin_sends_one_to_each() {
    let town = Town::if_possible(3, 0).expect("namespaces and tc");
    let hosts = town.hosts(&SITES);
    let home = std::sync::Arc::clone(&town.gateway);
    home.inside(|| {
        let stores = Stores::start(GATEWAY, 1).expect("etcd: ./run fleet-lab unpacks it");
        let networks = Some((GATEWAY, &hosts[..]));
        let extras = Extras { networks, stores: Some(&stores), ..Extras::default() };
        let mut fleet = Fleet::with(&NAMES, 10, &extras);
        let _second = fleet.start_second(&fleet.second_seat(), None);
        settle(&fleet);
        let shelf = Shelf::of(&fleet, Some(&stores));
        fill_in_a_window(&mut fleet, &shelf);
    });
}

/// Makes all nodes fill in a window that opens then. Returns the time at which it closes.
fn open_at(fleet: &mut Fleet, opens: u64) -> u64 {
    let closes = opens + 60 * WINDOW_MINUTES;
    let window = format!("{}-{} UTC", clock(opens), clock(closes));
    let rate = RATE_BITS_PER_SECOND.to_string();
    for node in &mut fleet.nodes {
        node.restart_agent(&["--window", &window, "--fill-rate", &rate]);
    }
    closes
}

fn fill_in_a_window(fleet: &mut Fleet, shelf: &Shelf) {
    // Publishing may take any time: until it is done, the window is far away.
    open_at(fleet, unix_seconds() + 12 * 3600);
    let room = RATE_BITS_PER_SECOND / 8 * 60 * FILLED_MINUTES;
    let (mut cost, mut titles) = (0, Vec::new());
    while cost < room {
        let title = format!("title-{:02}", titles.len());
        let seed = u8::try_from(titles.len()).unwrap();
        cost += shelf.publish(fleet, &title, &bytes(TITLE_BLOCKS, seed), &[]);
        titles.push(title);
    }
    assert!(fleet.nodes.iter().all(|node| brought(node) == 0), "before the window");
    let opens = (unix_seconds() / 60 + 3) * 60;
    let closes = open_at(fleet, opens);
    let is_there = |title: &String| fleet.holders(title) == fleet.nodes.len();
    // The last titles arrive last.
    let mut left = titles.clone();
    let mut told = opens;
    // The rate of the node that gave way most, at each check.
    let mut shares = Vec::new();
    while !left.is_empty() && unix_seconds() < closes {
        while left.last().is_some_and(is_there) {
            left.pop();
        }
        if unix_seconds() >= opens {
            // An agent that doesn't answer doesn't report its share.
            let said = fleet.nodes.iter().map(share).filter(|share| *share > 0.0);
            shares.push(said.fold(1.0, f64::min));
        }
        if unix_seconds() >= told + 60 {
            told += 60;
            tell_share(fleet, cost, told - opens);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(
        left.is_empty(),
        "{} of {} titles were missing somewhere when the window closed",
        left.len(),
        titles.len()
    );
    let seconds = unix_seconds() - opens;
    let percent = (100 * cost * 8) as f64 / (seconds * RATE_BITS_PER_SECOND) as f64;
    let allowed = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    eprintln!(
        "{} titles, {cost} bytes on each node in {seconds} s: {percent:.0}% of the rate, of which {:.0}% was allowed",
        titles.len(),
        100.0 * allowed
    );
    until("the agents to have counted", || fleet.nodes.iter().all(|node| brought(node) >= cost));
    for pair in fleet.nodes.chunks(2) {
        let sum = |what: &str| pair.iter().map(|node| counted(node, what)).sum::<u64>();
        let (origin, others) = (sum("origin_bytes"), sum("fleet_bytes"));
        eprintln!(
            "cluster of {}: {origin} bytes from the origin, {others} from other clusters",
            pair[0].name
        );
        assert!(origin + others <= cost + cost / 20, "{origin} and {others} of {cost}");
    }
    assert!(percent >= SHARE_PERCENT as f64 * allowed, "{percent}% of the rate");
}

/// Prints how much of its titles each node has copied, and which share of its rate it uses: less than 1 if it gives way, as it does when
/// its disk is slow.
fn tell_share(fleet: &Fleet, cost: u64, seconds: u64) {
    let percent = |node: &Node| {
        format!("{} {}% at {:.2}", node.name, 100 * brought(node) / cost, share(node))
    };
    let shares = fleet.nodes.iter().map(percent).collect::<Vec<_>>();
    eprintln!("after {seconds} s: {}", shares.join(", "));
}
