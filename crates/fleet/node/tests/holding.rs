//! Copying, verification, repair and removal of titles, with real folders.

mod folders;

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fleet_protocol::{Desired, Digest, HeldTitle, ReceiptState};
use folders::{BLOCK, Folders, film, flip, published};
use fullbore_tests::{FILM, SmallDisk, until};

#[test]
fn a_title_arrives_whole_and_nothing_is_left_behind() {
    let folders = Folders::default();
    let title = folders.publish("films/a film", &film(1));
    let one = folders.open().start();
    assert!(one.replicator.inventory().held.is_empty());
    one.desire(&[&title], &[]);
    until("the title to arrive", || one.holds(&title));
    assert_eq!(fs::read(folders.film("films/a film")).unwrap(), film(1));
    let names = fs::read_dir(folders.library().join("films")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a film"]);
    assert_eq!(one.replicator.status().copied_bytes, title.bytes);
    assert!(one.replicator.status().missing.is_empty());
    // The same on each node, whenever it was copied.
    let modified = fs::metadata(folders.film("films/a film")).unwrap().modified().unwrap();
    assert_eq!(modified, std::time::UNIX_EPOCH + Duration::from_secs(1));
    drop(one);
    let again = folders.open();
    assert!(again.holds(&title), "it was verified, and has not changed since");
    assert_eq!(again.replicator.desired().titles, [title]);
}

#[test]
fn a_copy_that_was_cut_goes_on_wherever_it_was_cut() {
    let whole = film(2);
    for cut in [0, 1, 4096, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 12_344, whole.len()]
    {
        let folders = Folders::default();
        let title = folders.publish("film", &whole);
        let record = catalog::Record::read(&folders.origin().join("film")).unwrap();
        let arriving = folders.arriving("film");
        fs::create_dir_all(arriving.join(&record.folder)).unwrap();
        fs::write(arriving.join(&record.folder).join(FILM), &whole[..cut]).unwrap();
        // Leftovers of another version.
        fs::create_dir_all(arriving.join("v-0123456789ab")).unwrap();
        fs::write(arriving.join("v-0123456789ab/x"), "x").unwrap();
        let one = folders.open().start();
        one.desire(&[&title], &[]);
        until("the title to arrive", || one.holds(&title));
        assert_eq!(fs::read(folders.film("film")).unwrap(), whole, "cut at {cut}");
        let had = if cut == whole.len() { cut } else { cut / BLOCK * BLOCK };
        assert_eq!(one.replicator.status().copied_bytes, title.bytes - had as u64, "cut at {cut}");
        assert!(!folders.library().join("film/v-0123456789ab").exists());
    }
}

#[test]
fn a_tail_that_never_reached_the_disk_is_copied_again() {
    let folders = Folders::default();
    let whole = film(3);
    let title = folders.publish("film", &whole);
    let record = catalog::Record::read(&folders.origin().join("film")).unwrap();
    let file = folders.arriving("film").join(&record.folder).join(FILM);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    // After a power failure, a file may have its full length and contain zeros.
    let mut torn = whole.clone();
    torn[BLOCK + 5..].fill(0);
    fs::write(&file, torn).unwrap();
    let one = folders.open().start();
    one.desire(&[&title], &[]);
    until("the title to arrive", || one.holds(&title));
    assert_eq!(fs::read(folders.film("film")).unwrap(), whole);
}

#[test]
fn wrong_bytes_at_the_origin_never_get_into_the_library() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(4));
    let other = folders.publish("other", &film(5));
    let record = catalog::Record::read(&folders.origin().join("film")).unwrap();
    flip(&folders.origin().join("film").join(&record.folder).join(FILM), BLOCK as u64 + 7);
    let one = folders.open().start();
    one.desire(&[&title, &other], &[]);
    until("the other title to arrive", || one.holds(&other));
    until("the trouble to be told", || one.trouble("film").is_some());
    let trouble = one.trouble("film").unwrap();
    assert!(trouble.contains("block 1") && trouble.contains(FILM), "{trouble}");
    assert!(!one.holds(&title) && !folders.library().join("film").exists());
    // The origin is repaired, and the fleet publishes the title again.
    flip(&folders.origin().join("film").join(&record.folder).join(FILM), BLOCK as u64 + 7);
    until("the title to arrive", || one.holds(&title));
}

#[test]
fn a_record_other_than_the_published_one_is_refused() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(6));
    folders.publish("film", &film(7));
    let one = folders.open().start();
    one.desire(&[&title], &[]);
    until("the trouble to be told", || one.trouble("film").is_some());
    assert!(one.trouble("film").unwrap().contains("publish the title again"));
    let odd = fleet_protocol::PublishedTitle { origin: "gopher://x".into(), ..title };
    one.desire(&[&odd], &[]);
    until("the origin to be refused", || {
        one.trouble("film").is_some_and(|why| why.contains("gopher"))
    });
    assert!(!folders.library().join("film").exists());
}

#[test]
fn what_changed_while_the_box_was_down_is_hidden_before_the_server_starts_and_mended() {
    let folders = Folders::default();
    let (title, other) = (folders.publish("film", &film(8)), folders.publish("other", &film(9)));
    let one = folders.open().start();
    one.desire(&[&title, &other], &[]);
    until("the titles to arrive", || one.holds(&title) && one.holds(&other));
    drop(one);
    flip(&folders.film("film"), BLOCK as u64 + 100);
    let one = folders.open();
    assert!(!folders.library().join("film").exists(), "the server would find it");
    assert!(!one.holds(&title) && one.holds(&other));
    assert_eq!(one.replicator.status().hidden, ["film"]);
    let one = one.start();
    until("the title to be mended", || one.holds(&title));
    assert_eq!(fs::read(folders.film("film")).unwrap(), film(8));
    assert_eq!(one.replicator.status().copied_bytes, BLOCK as u64, "only the block that was wrong");
}

#[test]
fn a_change_that_changed_nothing_costs_a_look_and_no_copy() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(10));
    let one = folders.open().start();
    one.desire(&[&title], &[]);
    until("the title to arrive", || one.holds(&title));
    drop(one);
    let path = folders.film("film");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    fs::remove_dir_all(folders.origin()).unwrap();
    let one = folders.open().start();
    until("the title to be verified", || one.holds(&title));
    assert_eq!(one.replicator.status().copied_bytes, 0);
}

#[test]
fn a_byte_that_flips_while_the_box_is_up_is_found_and_mended() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(11));
    let mut options = folders.options();
    options.scrub = Duration::from_secs(2);
    let one = folders.open_with(options).start();
    one.desire(&[&title], &[]);
    until("the title to arrive", || one.holds(&title));
    let before = one.replicator.status().copied_bytes;
    flip(&folders.film("film"), 3);
    until("the title to be mended", || {
        one.replicator.status().copied_bytes > before && one.holds(&title)
    });
    assert_eq!(fs::read(folders.film("film")).unwrap(), film(11));
    assert_eq!(one.replicator.status().copied_bytes - before, BLOCK as u64);
    let scrub = one.replicator.status().scrub;
    assert_eq!(scrub.damaged_titles, 1, "it is counted once");
    assert!(scrub.read_bytes > 0);
}

/// It was counted as damaged at each attempt to hide it, and stayed in the inventory meanwhile.
#[test]
fn a_damaged_title_that_cannot_be_hidden_yet_is_not_claimed_and_is_counted_when_it_is_hidden() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(11));
    let mut options = folders.options();
    options.scrub = Duration::from_secs(2);
    let one = folders.open_with(options).start();
    one.desire(&[&title], &[]);
    until("the title to arrive", || one.holds(&title));
    let name = catalog::TitleName::new("film").unwrap();
    let busy = catalog::Workshop::lock(&folders.library(), &name).unwrap();
    flip(&folders.film("film"), 3);
    until("the damage to be found", || !one.holds(&title));
    until("an attempt to hide it", || {
        one.trouble("film").is_some_and(|why| why.contains("working on it"))
    });
    assert_eq!(one.replicator.status().scrub.damaged_titles, 0);
    assert!(folders.library().join("film").exists());
    drop(busy);
    until("the title to be mended", || one.holds(&title));
    assert_eq!(fs::read(folders.film("film")).unwrap(), film(11));
    assert_eq!(one.replicator.status().scrub.damaged_titles, 1);
}

#[test]
fn a_damaged_title_that_nobody_publishes_stays_hidden_and_is_not_lost() {
    let folders = Folders::default();
    fs::create_dir(folders.library().join("own")).unwrap();
    fullbore_tests::make_title(&folders.library().join("own"), &film(12)).unwrap();
    let title = published(&folders.library(), "own");
    let one = folders.open();
    assert!(!one.holds(&title), "it has not been verified yet");
    assert!(folders.library().join("own").exists(), "it was served before there was an agent");
    let one = one.start();
    until("the title to be verified", || one.holds(&title));
    drop(one);
    flip(&folders.film("own"), 0);
    let one = folders.open().start();
    until("the trouble to be told", || one.trouble("own").is_some());
    assert!(!one.holds(&title) && !folders.library().join("own").exists());
    assert!(folders.arriving("own").join("master.m3u8").exists());
    drop(one);
    let one = folders.open().start();
    until("the trouble to be told again", || one.trouble("own").is_some());
}

#[test]
fn a_withdrawn_title_is_removed_with_a_receipt() {
    let folders = Folders::default();
    let title = folders.publish("films/a", &film(13));
    let never = HeldTitle { path: "never".into(), version: Digest::of(b"never") };
    let one = folders.open().start();
    one.desire(&[&title], &[]);
    until("the title to arrive", || one.holds(&title));
    one.desire(&[], &[title.held(), never.clone()]);
    until("both receipts", || one.replicator.receipts().len() == 2);
    let receipt = |held: &HeldTitle| {
        let all = one.replicator.receipts();
        all.iter().find(|one| one.held == *held).map(|one| one.state)
    };
    assert_eq!(receipt(&title.held()), Some(ReceiptState::Removed));
    assert_eq!(receipt(&never), Some(ReceiptState::Absent));
    assert!(!folders.library().join("films/a").exists());
    assert!(one.replicator.inventory().held.is_empty());
    drop(one);
    let again = folders.open();
    assert_eq!(again.replicator.receipts().len(), 2, "receipts outlive the agent");
    again.desire(&[], &[]);
    assert_eq!(again.replicator.receipts(), []);
}

/// A gateway that cannot reach the store knows only an older list.
#[test]
fn an_older_wish_does_not_bring_back_a_withdrawn_title() {
    let folders = Folders::default();
    let title = folders.publish("films/a", &film(14));
    let one = folders.open().start();
    one.desire(&[&title], &[]);
    let old = (*one.replicator.desired()).clone();
    one.desire(&[], &[title.held()]);
    let refused = one.replicator.handle_desired(old.clone()).unwrap_err();
    assert!(refused.contains("titles to hold is refused"), "{refused}");
    drop(one);
    let again = folders.open().start();
    assert!(again.replicator.handle_desired(old.clone()).is_err(), "a restart forgets nothing");
    assert_eq!(again.replicator.desired().withdrawn, [title.held()]);
    // After a restore, the store's revisions start again.
    again.replicator.handle_desired(Desired { epoch: old.epoch + 1, revision: 0, ..old }).unwrap();
    assert_eq!(again.replicator.desired().titles, [title]);
}

#[test]
fn of_two_gateways_that_tell_at_the_same_time_the_newer_word_stays() {
    let folders = Folders::default();
    let one = folders.open();
    let first = (*one.replicator.desired()).clone();
    let (epoch, last) = (first.epoch + 1, 60);
    std::thread::scope(|scope| {
        for gateway in 0..2 {
            let (one, first) = (&one, &first);
            scope.spawn(move || {
                for revision in (1..=last).filter(|revision| revision % 2 == gateway) {
                    // An older list is refused.
                    let _ =
                        one.replicator.handle_desired(Desired { epoch, revision, ..first.clone() });
                    assert!(one.replicator.desired().revision >= revision);
                }
            });
        }
    });
    assert_eq!(one.replicator.desired().revision, last);
}

#[test]
fn what_was_withdrawn_before_a_restart_is_removed_before_the_server_starts() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(14));
    let kept = folders.publish("kept", &film(15));
    let one = folders.open().start();
    one.desire(&[&title, &kept], &[]);
    until("the titles to arrive", || one.holds(&title) && one.holds(&kept));
    drop(one);
    // The agent dies after it has received the list and before it acts on it.
    folders.open().desire(&[&kept], &[title.held()]);
    assert!(folders.library().join("film").exists());
    let one = folders.open();
    assert!(!folders.library().join("film").exists());
    assert!(one.holds(&kept));
    assert_eq!(one.replicator.receipts()[0].state, ReceiptState::Removed);
}

#[test]
fn a_copy_that_is_under_way_ends_when_its_title_is_withdrawn() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(16));
    let mut options = folders.options();
    // At this rate it would take weeks.
    options.copy_bytes_per_second = 10;
    let one = folders.open_with(options).start();
    one.desire(&[&title], &[]);
    until("the copy to begin", || folders.arriving("film").join("title.json").exists());
    drop(one);
    let one = folders.open().start();
    one.desire(&[], &[title.held()]);
    until("the receipt", || !one.replicator.receipts().is_empty());
    until("nothing to be left", || fs::read_dir(folders.library()).unwrap().next().is_none());
}

/// How many seconds a box's wall clock is ahead.
static AHEAD_SECONDS: AtomicU64 = AtomicU64::new(0);

#[test]
fn a_newer_version_replaces_the_older_one_whose_viewers_keep_theirs_for_a_day() {
    let folders = Folders::default();
    let old = folders.publish("film", &film(17));
    let mut options = folders.options();
    options.clock = || fullbore_node::wall_clock() + AHEAD_SECONDS.load(Ordering::Relaxed);
    let one = folders.open_with(options).start();
    one.desire(&[&old], &[]);
    until("the title to arrive", || one.holds(&old));
    let old_film = folders.film("film");
    let new = folders.publish("film", &film(18));
    one.desire(&[&new], &[]);
    until("the new version to arrive", || one.holds(&new));
    assert!(!one.holds(&old));
    let new_film = folders.film("film");
    assert_eq!(fs::read(&new_film).unwrap(), film(18));
    assert_eq!(fs::read(&old_film).unwrap(), film(17));
    // A withdrawal of the old version takes its files, too.
    one.desire(&[&new], &[old.held()]);
    until("the receipt", || !one.replicator.receipts().is_empty());
    assert_eq!(one.replicator.receipts()[0].state, ReceiptState::Removed);
    assert!(!old_film.exists() && one.holds(&new));
    let newest = folders.publish("film", &film(19));
    one.desire(&[&newest], &[]);
    until("the newest version to arrive", || one.holds(&newest));
    assert!(new_film.exists());
    AHEAD_SECONDS.store(catalog::REPLACED_KEPT_SECONDS, Ordering::Relaxed);
    until("the one before to be gone", || !new_film.exists());
}

#[test]
fn a_title_is_not_put_over_what_ingest_has_not_made() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(19));
    fs::create_dir(folders.library().join("film")).unwrap();
    fs::write(folders.library().join("film/mine.mp4"), "mine").unwrap();
    let one = folders.open().start();
    one.desire(&[&title], &[]);
    until("the trouble to be told", || one.trouble("film").is_some());
    assert!(one.trouble("film").unwrap().contains("in the way"));
    assert_eq!(fs::read(folders.library().join("film/mine.mp4")).unwrap(), b"mine");
}

#[test]
fn a_full_disk_is_told_and_the_copy_goes_on_when_there_is_room() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(20));
    let small = folders.publish("small", b"a short film");
    let Some(_disk) = SmallDisk::mount(&folders.library(), 20 << 10) else { return };
    fs::write(folders.library().join("ballast"), vec![0; 14 << 20]).unwrap();
    let one = folders.open().start();
    one.desire(&[&title, &small], &[]);
    until("the full disk to be told", || {
        one.trouble("film").is_some_and(|why| why.contains("the disk is full"))
    });
    until("what fits to arrive", || one.holds(&small));
    assert!(!folders.library().join("film").exists() && !one.holds(&title));
    fs::remove_file(folders.library().join("ballast")).unwrap();
    until("the title to arrive", || one.holds(&title));
    assert_eq!(fs::read(folders.film("film")).unwrap(), film(20));
}

#[test]
fn a_disk_that_fills_up_in_the_middle_keeps_what_has_arrived() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(21));
    let Some(_disk) = SmallDisk::mount(&folders.library(), 20 << 10) else { return };
    let mut options = folders.options();
    // A block in four seconds: the disk has to be full before the second one, on a machine that stops for a while.
    options.copy_bytes_per_second = 1 << 20;
    let one = folders.open_with(options).start();
    one.desire(&[&title], &[]);
    until("the copy to begin", || folders.arriving("film").join("title.json").exists());
    fs::write(folders.library().join("ballast"), vec![0; 15 << 20]).unwrap();
    until("the full disk to be told", || {
        one.trouble("film").is_some_and(|why| why.contains("the disk is full"))
    });
    assert!(!folders.library().join("film").exists());
    fs::remove_file(folders.library().join("ballast")).unwrap();
    until("the title to arrive", || one.holds(&title));
    assert_eq!(fs::read(folders.film("film")).unwrap(), film(21));
}
