//! Titles that come from other nodes, honest and otherwise, with real folders and sockets.

mod folders;
mod peers;

use std::fs;
use std::sync::atomic::Ordering;

use fleet::PublishedTitle;
use folders::{BLOCK, Box, Folders, film};
use fullbore_node::{FillCounts, PeerFault};
use fullbore_tests::{FILM, until};
use peers::{Manner, Peers};

/// All that a title costs: its files and its record.
fn cost(folders: &Folders, title: &PublishedTitle) -> u64 {
    title.bytes + fs::metadata(folders.origin().join(&title.path).join("title.json")).unwrap().len()
}

fn counts(one: &Box) -> FillCounts {
    one.holder.status().fill.counts
}

#[test]
fn a_title_comes_from_the_cluster_then_from_other_nodes_and_last_from_its_origin() {
    let folders = Folders::default();
    let title = folders.publish("films/a film", &film(1));
    let cost = cost(&folders, &title);
    for (number, cluster) in [(1, Some("c1")), (2, Some("c2")), (3, None)] {
        let target = Folders::default();
        let mut peers = Peers::new(number);
        if let Some(cluster) = cluster {
            peers.add("n2", cluster, &folders.origin(), Manner::Honest);
        }
        let one = target.open().start();
        one.holder.note_fleet(peers.fleet(&title));
        one.desire(&[&title], &[]);
        until("the title to arrive", || one.holds(&title));
        assert_eq!(fs::read(target.film("films/a film")).unwrap(), film(1));
        let counts = counts(&one);
        let from = [counts.cluster_bytes, counts.fleet_bytes, counts.origin_bytes];
        let mut expected = [0; 3];
        expected[usize::from(number) - 1] = cost;
        assert_eq!(from, expected, "{cluster:?}");
        assert!(counts.refused.is_empty());
    }
}

#[test]
fn what_a_node_should_not_send_is_refused_with_its_reason_and_the_next_is_asked() {
    let cases = [
        (Manner::Lies, PeerFault::Bytes),
        (Manner::OtherPart, PeerFault::Length),
        (Manner::Whole, PeerFault::Status),
        (Manner::Ends, PeerFault::Reset),
        (Manner::TooMuch, PeerFault::Length),
        (Manner::Redirects, PeerFault::Redirected),
        (Manner::Lacks, PeerFault::Status),
        (Manner::Stalls, PeerFault::Stalled),
    ];
    let origin = Folders::default();
    let title = origin.publish("film", &film(2));
    let run = |number: usize, (manner, fault): (Manner, PeerFault)| {
        let folders = Folders::default();
        let mut peers = Peers::new(10 + number as u8);
        peers.add("n2", "c1", &origin.origin(), manner);
        peers.add("n3", "c2", &origin.origin(), Manner::Honest);
        let one = folders.open().start();
        one.holder.note_fleet(peers.fleet(&title));
        one.desire(&[&title], &[]);
        until("the title to arrive", || one.holds(&title));
        assert_eq!(fs::read(folders.film("film")).unwrap(), film(2), "{manner:?}");
        let counts = counts(&one);
        assert_eq!(counts.refused.get(&fault), Some(&1), "{manner:?}: {counts:?}");
        assert_eq!(counts.refused.len(), 1, "{manner:?}: {counts:?}");
        assert!(counts.fleet_bytes >= title.bytes && counts.origin_bytes == 0, "{counts:?}");
    };
    std::thread::scope(|scope| {
        for (number, case) in cases.into_iter().enumerate() {
            scope.spawn(move || run(number, case));
        }
    });
}

#[test]
fn an_origin_is_not_asked_while_all_nodes_are_well_and_is_when_none_is() {
    let (origin, folders) = (Folders::default(), Folders::default());
    let title = origin.publish("film", &film(3));
    let mut peers = Peers::new(30);
    peers.add("n2", "c1", &origin.origin(), Manner::Lies);
    peers.add("n3", "c2", &origin.origin(), Manner::Redirects);
    let one = folders.open().start();
    one.holder.note_fleet(peers.fleet(&title));
    one.desire(&[&title], &[]);
    until("the title to arrive", || one.holds(&title));
    assert_eq!(fs::read(folders.film("film")).unwrap(), film(3));
    let counts = counts(&one);
    assert_eq!(counts.refused.len(), 2, "{counts:?}");
    assert_eq!(counts.origin_bytes, title.bytes);
}

#[test]
fn a_copy_that_was_cut_fetches_no_block_twice() {
    let (origin, folders) = (Folders::default(), Folders::default());
    let whole: Vec<u8> = film(4).repeat(4);
    let title = origin.publish("film", &whole);
    let mut peers = Peers::new(31);
    peers.add("n2", "c1", &origin.origin(), Manner::Honest);
    for cut in 1..=3 {
        let mut options = folders.options();
        // A block in an eighth of a second.
        options.copy_bytes_per_second = 32 << 20;
        let one = folders.open_with(options);
        one.holder.note_fleet(peers.fleet(&title));
        let one = one.start();
        one.desire(&[&title], &[]);
        let done = || one.holder.fill_progress().map_or(0, |progress| progress.done_bytes);
        until("some blocks to arrive", || done() >= cut * 2 * BLOCK as u64);
        let progress = one.holder.fill_progress().unwrap();
        assert_eq!((progress.missing_titles, progress.title.as_deref()), (1, Some("film")));
        assert_eq!(progress.missing_bytes, title.bytes - progress.done_bytes);
        drop(one);
    }
    let one = folders.open();
    one.holder.note_fleet(peers.fleet(&title));
    let one = one.start();
    until("the title to arrive", || one.holds(&title));
    assert_eq!(fs::read(folders.film("film")).unwrap(), whole);
    let fetched = peers.nodes[0].sent_bytes.load(Ordering::Relaxed);
    // A block may have been on its way at each cut.
    let bound = cost(&origin, &title) + 3 * BLOCK as u64;
    assert!((title.bytes..=bound).contains(&fetched), "{fetched} of {bound}");
    assert!(!folders.arriving("film").parent().unwrap().exists());
}

/// After a power failure the map may have more than the file.
#[test]
fn a_map_that_says_too_much_costs_an_attempt_and_no_wrong_byte() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(5));
    let record = catalog::Record::read(&folders.origin().join("film")).unwrap();
    let arriving = folders.arriving("film");
    let file = arriving.join(&record.folder).join(FILM);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let mut torn = film(5);
    torn[BLOCK + 5..2 * BLOCK].fill(0);
    fs::write(&file, torn).unwrap();
    let blocks: usize =
        record.files.iter().map(|file| file.blocks_sha256.as_ref().unwrap().len()).sum();
    let map = format!("{}\n{}", record.sha256, "1".repeat(blocks));
    fs::write(arriving.parent().unwrap().join("blocks"), map).unwrap();
    let one = folders.open().start();
    one.desire(&[&title], &[]);
    until("the title to arrive", || one.holds(&title));
    assert_eq!(fs::read(folders.film("film")).unwrap(), film(5));
}

#[test]
fn outside_its_windows_a_box_brings_only_what_is_asked_for_at_once() {
    let folders = Folders::default();
    let (later, now) = (folders.publish("later", &film(6)), folders.publish("now", &film(7)));
    let mut options = folders.options();
    // From one minute to the next, twelve hours from now, give or take the minute that begins meanwhile.
    let hours = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let hour = (hours.as_secs() / 3600 + 12) % 24;
    options.windows = vec![format!("{hour:02}:00-{hour:02}:01 UTC").parse().unwrap()];
    options.copy_bytes_per_second = 1 << 30;
    let one = folders.open_with(options).start();
    let known = one.holder.desired();
    let desired = fleet::Desired {
        epoch: known.epoch,
        revision: known.revision + 1,
        titles: vec![later.clone(), now.clone()],
        at_once: vec![now.held()],
        ..fleet::Desired::default()
    };
    one.holder.handle_desired(desired).unwrap();
    until("what is wanted at once to arrive", || one.holds(&now));
    // The copier has looked for something to do since.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(!one.holds(&later) && !folders.arriving("later").exists());
    let progress = one.holder.fill_progress().unwrap();
    assert_eq!((progress.is_open, progress.missing_titles), (false, 1));
    let done = progress.done_unix_seconds.unwrap();
    assert_eq!(done / 60 % 60, 0, "in the minute in which its window opens");
    assert!(done / 3600 % 24 == hour);
}
