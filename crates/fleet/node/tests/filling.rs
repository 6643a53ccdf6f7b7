//! Titles that come from other nodes, honest and malicious, with real folders and sockets.

mod folders;
mod peers;

use std::fs::{self, OpenOptions};
use std::io::{IoSliceMut, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use fleet_protocol::{Digest, PublishedTitle};
use folders::{BLOCK, Box, Folders, film, flip};
use fullbore_node::{FillCounts, HoldingOptions, PeerFault};
use fullbore_tests::{FILM, Launch, certificate, until};
use peers::{Manner, Peers};
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};
use tls::client::Trust;
use token::CopyRing;

/// The full size of a title: its files and its record.
fn cost(folders: &Folders, title: &PublishedTitle) -> u64 {
    title.bytes + fs::metadata(folders.origin().join(&title.path).join("title.json")).unwrap().len()
}

fn counts(one: &Box) -> FillCounts {
    one.replicator.status().fill.counts
}

/// Waits until the box has looked for work from now on, and found none.
fn until_idle(one: &Box) {
    let rounds = || one.replicator.status().fill.idle_rounds;
    // The first of two rounds may have begun earlier.
    let before = rounds();
    until("the copier to find nothing to do", || rounds() >= before + 2);
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
        one.replicator.note_fleet(peers.fleet(&title));
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
        (Manner::Resets, PeerFault::Reset),
        (Manner::OtherLength, PeerFault::Length),
        (Manner::NoPart, PeerFault::Length),
        (Manner::OtherRecord, PeerFault::Bytes),
        (Manner::Away, PeerFault::Unreachable),
    ];
    let origin = Folders::default();
    let title = origin.publish("film", &film(2));
    let run = |number: usize, (manner, fault): (Manner, PeerFault)| {
        let folders = Folders::default();
        let mut peers = Peers::new(10 + number as u8);
        peers.add("n2", "c1", &origin.origin(), manner);
        peers.add("n3", "c2", &origin.origin(), Manner::Honest);
        let one = folders.open().start();
        one.replicator.note_fleet(peers.fleet(&title));
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
    one.replicator.note_fleet(peers.fleet(&title));
    one.desire(&[&title], &[]);
    until("the title to arrive", || one.holds(&title));
    assert_eq!(fs::read(folders.film("film")).unwrap(), film(3));
    let counts = counts(&one);
    assert_eq!(counts.refused.len(), 2, "{counts:?}");
    assert_eq!(counts.origin_bytes, title.bytes);
}

/// The rest of the cluster waits for the titles that only this node may fetch.
#[test]
fn what_no_node_of_the_cluster_has_comes_before_what_one_has() {
    let (origin, folders) = (Folders::default(), Folders::default());
    let of_mate = origin.publish("a", &film(1));
    let mut peers = Peers::new(34);
    peers.add("n2", "c1", &origin.origin(), Manner::Honest);
    // The first node in a title's order fetches it at once.
    let is_ours = |title: &PublishedTitle| {
        let place = |node| Digest::of(format!("{}\n{node}", title.version).as_bytes());
        place("n1") < place("n2")
    };
    let mut others = (2..).map(|seed| origin.publish(&format!("b{seed}"), &film(seed)));
    let alone = others.find(is_ours).unwrap();
    let one =
        folders.open_with(HoldingOptions { copy_bytes_per_second: 16 << 20, ..folders.options() });
    one.replicator.note_fleet(peers.fleet(&of_mate));
    one.desire(&[&of_mate, &alone], &[]);
    let one = one.start();
    until("both titles", || one.holds(&alone) && one.holds(&of_mate));
    // A title arrives by one rename, which sets its folder's change time.
    let arrived = |title: &PublishedTitle| {
        let found = fs::metadata(folders.library().join(&title.path)).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    assert!(arrived(&alone) < arrived(&of_mate), "it was not fetched first");
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
        // A block in a second: the copy must not be complete before it has been looked at, on a machine that stops for a while.
        options.copy_bytes_per_second = 4 << 20;
        let one = folders.open_with(options);
        one.replicator.note_fleet(peers.fleet(&title));
        let one = one.start();
        one.desire(&[&title], &[]);
        let done = || one.replicator.fill_progress().map_or(0, |progress| progress.done_bytes);
        until("some blocks to arrive", || done() >= cut * BLOCK as u64);
        let progress = one.replicator.fill_progress().unwrap();
        assert_eq!((progress.missing_titles, progress.title.as_deref()), (1, Some("film")));
        assert_eq!(progress.missing_bytes, title.bytes - progress.done_bytes);
        drop(one);
    }
    let one = folders.open();
    one.replicator.note_fleet(peers.fleet(&title));
    let one = one.start();
    until("the title to arrive", || one.holds(&title));
    assert_eq!(fs::read(folders.film("film")).unwrap(), whole);
    let fetched = peers.nodes[0].sent_bytes.load(Ordering::Relaxed);
    // At each interruption a block may have been on its way.
    let bound = cost(&origin, &title) + 3 * BLOCK as u64;
    assert!((title.bytes..=bound).contains(&fetched), "{fetched} of {bound}");
    assert!(!folders.arriving("film").parent().unwrap().exists());
}

/// After a power failure the map may list blocks that the file lacks.
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
    // A window of one minute, twelve hours from now, give or take the minute that begins meanwhile.
    let hours = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let hour = (hours.as_secs() / 3600 + 12) % 24;
    options.windows = vec![format!("{hour:02}:00-{hour:02}:01 UTC").parse().unwrap()];
    options.copy_bytes_per_second = 1 << 30;
    let one = folders.open_with(options).start();
    let known = one.replicator.desired();
    let desired = fleet_protocol::Desired {
        epoch: known.epoch,
        revision: known.revision + 1,
        titles: vec![later.clone(), now.clone()],
        at_once: vec![now.held()],
        ..fleet_protocol::Desired::default()
    };
    one.replicator.handle_desired(desired).unwrap();
    until("what is wanted at once to arrive", || one.holds(&now));
    until_idle(&one);
    assert!(!one.holds(&later) && !folders.arriving("later").exists());
    let progress = one.replicator.fill_progress().unwrap();
    assert_eq!((progress.is_open, progress.missing_titles), (false, 1));
    let done = progress.done_unix_seconds.unwrap();
    assert_eq!(done / 60 % 60, 0, "in the minute in which its window opens");
    assert!(done / 3600 % 24 == hour);
}

#[test]
fn a_title_comes_over_tls_from_a_real_node_that_changes_its_keys_and_from_none_that_is_not_trusted()
{
    let origin = Folders::default();
    let title = origin.publish("films/a film", &film(13));
    // A record takes 16 KiB.
    let place = origin.root().join("copy-keys");
    let days = token::copy_key_days(now());
    let keys: String = days.map(|day| token::copy_key_line(day, &[7; 32]).to_string()).collect();
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place).unwrap();
    file.write_all(keys.as_bytes()).unwrap();
    let config =
        format!("[tls]\nkey_records_max = 100\n[signing]\ncopies = \"{}\"\n", place.display());
    let server = Launch::of(&origin.origin()).config(&config).start();
    let peers = Peers::real(server.address);
    let strangers = certificate(origin.root(), "strangers", "ec").cert;
    for trust in [Trust::AnyCertificate, Trust::File(strangers)] {
        let folders = Folders::default();
        let mut options = folders.options();
        options.trust = trust.clone();
        let one = folders.open_with(options).start();
        one.replicator.note_copy_keys(CopyRing::parse(&keys).unwrap());
        one.replicator.note_fleet(peers.fleet(&title));
        one.desire(&[&title], &[]);
        until("the title to arrive", || one.holds(&title));
        assert_eq!(fs::read(folders.film("films/a film")).unwrap(), film(13));
        let counts = counts(&one);
        if trust == Trust::AnyCertificate {
            assert!(counts.cluster_bytes > title.bytes && counts.refused.is_empty(), "{counts:?}");
        } else {
            assert_eq!(counts.refused.get(&PeerFault::Unreachable), Some(&1), "{counts:?}");
            assert_eq!(counts.cluster_bytes, 0);
        }
    }
    // The server recognises the node, and does not count it as a viewer.
    server.wait_for_news();
    let to_nodes = server.sum("sent_to_nodes_bytes_total");
    assert!(to_nodes > title.bytes);
    let (_, status) = server.admin_page("/status.json");
    assert!(status.contains("\"titles\"") && !status.contains("films/a film"), "{status}");
    // A node without keys, such as one of an older release, gets the title as well, and counts as a viewer.
    let folders = Folders::default();
    let one =
        folders.open_with(HoldingOptions { trust: Trust::AnyCertificate, ..folders.options() });
    let one = one.start();
    one.replicator.note_fleet(peers.fleet(&title));
    one.desire(&[&title], &[]);
    until("the title to arrive", || one.holds(&title));
    until("it to count", || server.admin_page("/status.json").1.contains("films/a film"));
    assert_eq!(server.sum("sent_to_nodes_bytes_total"), to_nodes);
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// How many hours the wall clock is ahead of half past two on day 20,000.
static JUMPED_HOURS: AtomicI64 = AtomicI64::new(0);

fn jumping_clock() -> u64 {
    let seconds = 20_000 * 86_400 + 9000 + 3600 * JUMPED_HOURS.load(Ordering::Relaxed);
    u64::try_from(seconds).unwrap()
}

/// A clock that jumps closes a window or opens it. Data that has arrived stays, and no title's verification time is misread.
#[test]
fn a_clock_that_jumps_hours_forward_and_back_during_a_window_costs_a_pause_and_no_byte() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(8).repeat(4));
    let cost = cost(&folders, &title);
    let mut options = folders.options();
    options.clock = jumping_clock;
    options.windows = vec!["02:00-04:00 UTC".parse().unwrap()];
    // A block in a second: the clock has to jump before the title is complete, on a machine that stops for a while.
    options.copy_bytes_per_second = 4 << 20;
    let one = folders.open_with(options.clone()).start();
    one.desire(&[&title], &[]);
    let done = || one.replicator.fill_progress().map_or(0, |progress| progress.done_bytes);
    let is_open = || one.replicator.fill_progress().is_none_or(|progress| progress.is_open);
    until("some blocks to arrive", || done() >= BLOCK as u64);
    for hours in [5, -3] {
        JUMPED_HOURS.store(hours, Ordering::Relaxed);
        until("the copy to stop", || done() == 0);
        assert!(!is_open() && !one.holds(&title));
        let brought = counts(&one).origin_bytes;
        until_idle(&one);
        assert_eq!(counts(&one).origin_bytes, brought, "it was fetched outside the window");
        assert_eq!(done(), 0);
        JUMPED_HOURS.store(0, Ordering::Relaxed);
        until("the copy to go on", || done() > 0 || one.holds(&title));
    }
    until("the title to arrive", || one.holds(&title));
    assert_eq!(fs::read(folders.film("film")).unwrap(), film(8).repeat(4));
    // At each jump a block may have been on its way.
    let brought = counts(&one).origin_bytes;
    assert!((title.bytes..=cost + 2 * BLOCK as u64).contains(&brought), "{brought} of {cost}");
    drop(one);
    // A verification time in the future is not trusted, so the title is read again.
    JUMPED_HOURS.store(-30, Ordering::Relaxed);
    let one = folders.open_with(options).start();
    until("the title to be read again", || one.replicator.status().scrub.read_bytes > 0);
    assert!(one.holds(&title));
}

/// The hour of day 20,000, plus ten minutes.
static CUT_HOUR: AtomicU64 = AtomicU64::new(3);

fn hourly_clock() -> u64 {
    20_000 * 86_400 + 3600 * CUT_HOUR.load(Ordering::Relaxed) + 600
}

/// Such a copy is in the same place as damaged titles, and those are repaired at any time.
#[test]
fn a_copy_that_a_restart_has_cut_waits_for_its_window_and_goes_on_in_it() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(18).repeat(4));
    let mut options = folders.options();
    options.clock = hourly_clock;
    options.windows = vec!["02:00-04:00 UTC".parse().unwrap()];
    // A block in a second: the window has to end before the title is complete, on a machine that stops for a while.
    options.copy_bytes_per_second = 4 << 20;
    let one = folders.open_with(options.clone()).start();
    one.desire(&[&title], &[]);
    let done = |one: &Box| one.replicator.fill_progress().map_or(0, |progress| progress.done_bytes);
    until("some blocks to arrive", || done(&one) >= BLOCK as u64);
    CUT_HOUR.store(5, Ordering::Relaxed);
    drop(one);
    let one = folders.open_with(options).start();
    until_idle(&one);
    assert_eq!(counts(&one).origin_bytes, 0, "it was fetched outside the window");
    assert!(folders.arriving("film").exists() && one.replicator.status().hidden.is_empty());
    assert!(one.trouble("film").is_none() && !one.replicator.fill_progress().unwrap().is_open);
    CUT_HOUR.store(3, Ordering::Relaxed);
    until("the title to arrive", || one.holds(&title));
    assert_eq!(fs::read(folders.film("film")).unwrap(), film(18).repeat(4));
    let brought = counts(&one).origin_bytes;
    assert!(brought <= title.bytes - BLOCK as u64, "{brought} of {}", title.bytes);
}

fn noon() -> u64 {
    20_000 * 86_400 + 12 * 3600
}

#[test]
fn a_title_that_was_being_mended_at_a_restart_is_mended_outside_the_windows_as_well() {
    let folders = Folders::default();
    let whole = film(19).repeat(4);
    let title = folders.publish("film", &whole);
    let one = folders.open().start();
    one.desire(&[&title], &[]);
    until("the title to arrive", || one.holds(&title));
    drop(one);
    let path = folders.film("film");
    (0..8).for_each(|block| flip(&path, (block * BLOCK) as u64));
    let mut options = folders.options();
    options.clock = noon;
    options.windows = vec!["02:00-04:00 UTC".parse().unwrap()];
    // A block in a second: the agent has to stop before the title is mended, on a machine that stops for a while.
    options.copy_bytes_per_second = 4 << 20;
    let map = folders.arriving("film").parent().unwrap().join("blocks");
    for _ in 0..2 {
        let one = folders.open_with(options.clone()).start();
        assert_eq!(one.replicator.status().hidden, ["film"]);
        let before = fs::read_to_string(&map).unwrap_or_default().matches('1').count();
        until("another block to be mended", || {
            fs::read_to_string(&map).unwrap_or_default().matches('1').count() > before
        });
        drop(one);
    }
    options.copy_bytes_per_second = 0;
    let one = folders.open_with(options).start();
    until("the title to be mended", || one.holds(&title));
    assert_eq!(fs::read(folders.film("film")).unwrap(), whole);
}

fn three() -> u64 {
    20_000 * 86_400 + 3 * 3600
}

/// None of its data can be kept, so this is not a repair.
#[test]
fn a_damaged_title_of_which_another_version_was_published_waits_for_its_window() {
    let folders = Folders::default();
    let old = folders.publish("film", &film(23));
    let one = folders.open().start();
    one.desire(&[&old], &[]);
    until("the title to arrive", || one.holds(&old));
    drop(one);
    flip(&folders.film("film"), 0);
    let new = folders.publish("film", &film(24));
    let mut options = folders.options();
    options.clock = noon;
    options.windows = vec!["02:00-04:00 UTC".parse().unwrap()];
    let one = folders.open_with(options.clone());
    // Before it begins with its old list: the earlier version could be repaired at any time.
    one.desire(&[&new], &[]);
    let one = one.start();
    until_idle(&one);
    assert_eq!(counts(&one).origin_bytes, 0, "it was fetched outside the window");
    assert_eq!(one.replicator.status().hidden, ["film"]);
    assert!(one.trouble("film").is_none() && one.replicator.fill_progress().is_some());
    drop(one);
    options.clock = three;
    let one = folders.open_with(options).start();
    until("the next version to arrive", || one.holds(&new));
    assert_eq!(fs::read(folders.film("film")).unwrap(), film(24));
    assert!(one.replicator.status().hidden.is_empty());
}

/// Returns how many of a file's pages are in the page cache, and how many were checked: one in eight. A non-blocking read shows whether its
/// page is cached, and for random reads the kernel does not read ahead.
fn cached_pages(path: &Path) -> (usize, usize) {
    let file = fs::File::open(path).unwrap();
    fadvise(&file, 0, None, Advice::Random).unwrap();
    let pages = (0..file.metadata().unwrap().len()).step_by(8 * 4096);
    let is_cached = |at: &u64| {
        let read = preadv2(&file, &mut [IoSliceMut::new(&mut [0])], *at, ReadWriteFlags::NOWAIT);
        read.is_ok()
    };
    (pages.clone().filter(is_cached).count(), pages.count())
}

#[test]
fn a_fill_leaves_the_page_cache_to_viewers() {
    let folders = Folders::default();
    let (watched, comes) =
        (folders.publish("watched", &film(16)), folders.publish("comes", &film(17).repeat(4)));
    let one = folders.open().start();
    one.desire(&[&watched], &[]);
    until("the first title to arrive", || one.holds(&watched));
    let (cached, all) = cached_pages(&folders.film("watched"));
    let mut direct = OpenOptions::new();
    direct.read(true).custom_flags(OFlags::DIRECT.bits() as i32);
    if direct.open(folders.film("watched")).is_err() {
        eprintln!("skipped: this filesystem has no direct I/O, so what is copied is cached");
        return;
    }
    // The end of a file is a partial page.
    assert!(cached <= 1 && all > 100, "{cached} of {all} pages came along");
    // A viewer has read all of it.
    assert_eq!(fs::read(folders.film("watched")).unwrap(), film(16));
    let warm = cached_pages(&folders.film("watched"));
    assert!(warm.0 > all / 2, "{warm:?}");
    one.desire(&[&watched, &comes], &[]);
    until("the second title to arrive", || one.holds(&comes));
    let (cached, all) = cached_pages(&folders.film("comes"));
    assert!(cached <= 1 && all > 400, "{cached} of {all} pages came along");
    // Other processes on this machine may need some of it.
    let (still, _) = cached_pages(&folders.film("watched"));
    assert!(still > warm.0 / 2, "{still} of {}", warm.0);
}

/// Days since a Monday.
static DAYS: AtomicI64 = AtomicI64::new(0);

fn daily_clock() -> u64 {
    let seconds = 20_000 * 86_400 + 9000 + 86_400 * DAYS.load(Ordering::Relaxed);
    u64::try_from(seconds).unwrap()
}

#[test]
fn a_box_brings_no_more_in_a_window_than_its_volume_also_after_a_restart_and_goes_on_in_the_next() {
    let folders = Folders::default();
    let first = folders.publish("first", &film(14));
    let second = folders.publish("second", &film(15).repeat(4));
    let mut options = folders.options();
    options.clock = daily_clock;
    options.windows = vec!["02:00-04:00 UTC".parse().unwrap()];
    // Enough for the first title, and for one block of the second.
    let volume = cost(&folders, &first) + 1;
    options.fill_bytes_max = volume;
    options.copy_bytes_per_second = 1 << 30;
    assert!(second.bytes > 6 * BLOCK as u64);
    let one = folders.open_with(options.clone()).start();
    assert_eq!(one.replicator.fill_bytes_per_day(), Some(volume));
    one.desire(&[&first], &[]);
    until("the first title to arrive", || one.holds(&first));
    drop(one);
    let one = folders.open_with(options.clone()).start();
    one.desire(&[&first, &second], &[]);
    let progress = |one: &Box| one.replicator.fill_progress().expect("it is missing");
    until("the window's volume to be used up", || !progress(&one).is_open);
    let done = progress(&one).done_unix_seconds.expect("it comes");
    let next_window = daily_clock() - 1800 + 86_400;
    assert!(done >= next_window, "{done} {next_window}");
    until_idle(&one);
    let brought = counts(&one).origin_bytes;
    assert!((1..=2 * BLOCK as u64).contains(&brought) && !one.holds(&second), "{brought}");
    drop(one);
    let one = folders.open_with(options).start();
    until_idle(&one);
    assert_eq!(counts(&one).origin_bytes, 0, "a restart is no reason to bring more");
    assert!(!progress(&one).is_open);
    while !one.holds(&second) {
        DAYS.fetch_add(1, Ordering::Relaxed);
        let is_over = || one.replicator.fill_progress().is_none_or(|progress| !progress.is_open);
        until("a window's volume to be used up", is_over);
    }
    assert_eq!(fs::read(folders.film("second")).unwrap(), film(15).repeat(4));
}

#[test]
#[ignore = "a block may take half a minute: ./run nightly"]
fn a_node_that_trickles_is_refused_for_being_slow() {
    let (origin, folders) = (Folders::default(), Folders::default());
    let title = origin.publish("film", &film(9));
    let mut peers = Peers::new(33);
    peers.add("n2", "c1", &origin.origin(), Manner::Trickles);
    let one = folders.open().start();
    one.replicator.note_fleet(peers.fleet(&title));
    one.desire(&[&title], &[]);
    until("the title to arrive", || one.holds(&title));
    assert_eq!(counts(&one).refused.get(&PeerFault::Slow), Some(&1));
}

/// Only a stolen or broken gateway sends such lists: the box reports the bad title, and fetches the others.
#[test]
fn titles_with_odd_sizes_paths_and_digests_keep_no_other_title_waiting() {
    let folders = Folders::default();
    let good = folders.publish("good", &film(10));
    let of = |number: usize| folders.publish(&format!("odd {number}"), b"a short film");
    let mut odd: Vec<PublishedTitle> = (0..4).map(of).collect();
    odd[0].bytes = u64::MAX;
    odd[1].bytes = 0;
    odd[2].record.sha256 = fleet_protocol::Digest::of(b"another");
    odd[3].version = fleet_protocol::Digest::of(b"another");
    let mut all: Vec<&PublishedTitle> = odd.iter().collect();
    all.push(&good);
    let mut options = folders.options();
    options.copy_bytes_per_second = 100 << 20;
    let one = folders.open_with(options).start();
    one.desire(&all, &[]);
    // The record decides what a title contains, whatever its publisher claims.
    until("what is whole to arrive", || {
        one.holds(&good) && one.holds(&odd[0]) && one.holds(&odd[1])
    });
    until("the troubles to be reported", || (2..4).all(|at| one.trouble(&odd[at].path).is_some()));
    assert!(one.trouble("odd 2").unwrap().contains("publish the title again"));
    assert!(one.trouble("odd 3").unwrap().contains("not of the published version"));
    assert_eq!(one.replicator.fill_progress().unwrap().missing_titles, 2);
    for path in ["../out", "/etc/passwd", "a//b", ".hidden", "a\0b", ""] {
        let known = one.replicator.desired();
        let titles = vec![PublishedTitle { path: path.to_owned(), ..good.clone() }];
        let (epoch, revision) = (known.epoch, known.revision + 1);
        let desired = fleet_protocol::Desired {
            epoch,
            revision,
            titles,
            ..fleet_protocol::Desired::default()
        };
        assert!(one.replicator.handle_desired(desired).is_err(), "{path:?}");
    }
    assert!(one.holds(&good));
}

/// A correctly sealed record with contents that ingest never writes.
#[test]
fn records_with_odd_files_are_refused_and_nothing_is_written_elsewhere() {
    type Spoil = fn(&mut catalog::Record);
    let cases: [(&str, Spoil); 6] = [
        ("a file outside", |record| record.files[0].path = "../out.mp4".into()),
        ("a file of nobody's", |record| record.files[0].path = "v-0123456789ab/x.mp4".into()),
        ("more blocks than bytes", |record| record.files[0].bytes = 1),
        ("more bytes than there are", |record| record.files[0].bytes += 1),
        ("no digest", |record| record.files[0].blocks_sha256 = Some(vec!["x".into(); 3])),
        ("no blocks", |record| record.files[0].blocks_sha256 = None),
    ];
    let folders = Folders::default();
    let good = folders.publish("good", &film(11));
    let titles: Vec<_> = (0..)
        .zip(cases)
        .map(|(number, (_, spoil))| {
            let path = format!("odd {number}");
            let mut title = folders.publish(&path, &film(12));
            let place = folders.origin().join(&path);
            let mut record = catalog::Record::read(&place).unwrap();
            spoil(&mut record);
            let text = record.seal();
            fs::write(place.join("title.json"), &text).unwrap();
            title.version = record.sha256.parse().unwrap();
            title.record.sha256 = fleet_protocol::Digest::of(text.as_bytes());
            title
        })
        .collect();
    let one = folders.open().start();
    one.desire(&titles.iter().chain([&good]).collect::<Vec<_>>(), &[]);
    until("the good one to arrive", || one.holds(&good));
    for (title, (what, _)) in titles.iter().zip(cases) {
        until(what, || one.trouble(&title.path).is_some());
        assert!(!one.holds(title) && !folders.library().join(&title.path).exists(), "{what}");
    }
    assert!(!folders.library().join("out.mp4").exists());
    let left = fs::read_dir(folders.library()).unwrap().flatten();
    let strange = left.map(|entry| entry.file_name().into_string().unwrap());
    let strange: Vec<_> =
        strange.filter(|name| name != "good" && !name.starts_with(".ingest-odd ")).collect();
    assert!(strange.is_empty(), "{strange:?}");
}
