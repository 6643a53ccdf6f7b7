//! Titles that the fleet places elsewhere, with real folders.

mod folders;
mod peers;

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fleet_protocol::{HeldTitle, PublishedTitle};
use folders::{Box, Folders, film, published};
use fullbore_tests::until;
use peers::Peers;

/// The files that a server has open, and a count of the queries for them.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<HashSet<(u64, u64)>>>, Arc<AtomicUsize>);

impl Server {
    fn opens(&self, file: &Path) {
        let found = fs::metadata(file).unwrap();
        self.0.lock().unwrap().insert((found.dev(), found.ino()));
    }

    fn closes_all(&self) {
        self.0.lock().unwrap().clear();
    }

    fn beside(&self, one: &Box) {
        let own = self.clone();
        one.replicator.watch_server(std::boxed::Box::new(move || {
            own.1.fetch_add(1, Ordering::Relaxed);
            Ok(own.0.lock().unwrap().clone())
        }));
    }

    /// Waits for two queries: after the second, the effects of the first answer are complete.
    fn is_asked_twice(&self) {
        let before = self.1.load(Ordering::Relaxed);
        until("the server to be asked twice", || self.1.load(Ordering::Relaxed) >= before + 2);
    }
}

/// A box that holds two titles of the fleet, of which it should keep only the second, and one of its own.
fn told_to_hold_one(folders: &Folders) -> (Box, PublishedTitle, PublishedTitle) {
    let (title, kept) = (folders.publish("film", &film(1)), folders.publish("kept", &film(2)));
    fs::create_dir(folders.library().join("own")).unwrap();
    fullbore_tests::make_title(&folders.library().join("own"), &film(3)).unwrap();
    let own = published(&folders.library(), "own");
    let one = folders.open().start();
    one.replicator.note_fleet(Peers::new(60).fleet(&title));
    one.desire(&[&title, &kept], &[]);
    until("the titles to be held", || [&title, &kept, &own].iter().all(|one_of| one.holds(one_of)));
    assert!(one.replicator.evictable().is_empty(), "it should hold them");
    one.desire(&[&kept], &[]);
    (one, title, kept)
}

#[test]
fn a_copy_goes_with_leave_alone_and_when_nobody_has_a_file_of_it_open() {
    let folders = Folders::default();
    let (one, title, kept) = told_to_hold_one(&folders);
    let server = Server::default();
    server.beside(&one);
    assert_eq!(one.replicator.evictable(), [title.held()], "and nothing that is not the fleet's");
    server.opens(&folders.film("film"));
    one.replicator.handle_eviction_leave(vec![title.held()]);
    until("gateways to hear that it goes", || !one.holds(&title));
    assert_eq!(one.replicator.status().leaving, ["film"]);
    server.is_asked_twice();
    assert_eq!(fs::read(folders.film("film")).unwrap(), film(1), "a viewer is watching it");
    // The plan changes.
    one.desire(&[&title, &kept], &[]);
    until("it to be told again", || one.holds(&title));
    assert_eq!(one.replicator.status().copied_bytes, 2 * film(1).len() as u64 + small(&folders));
    // Neither should be here any more, and permission is given for one of them.
    one.desire(&[], &[]);
    server.closes_all();
    one.replicator.handle_eviction_leave(vec![title.held()]);
    until("it to be gone", || !folders.library().join("film").exists());
    until("nothing to be left of it", || !folders.library().join(".ingest-film").exists());
    let held: Vec<HeldTitle> = one.replicator.inventory().held.clone();
    assert_eq!(held.iter().map(|held| held.path.as_str()).collect::<Vec<_>>(), ["kept", "own"]);
    // It comes back when the plan wants it again.
    one.desire(&[&title, &kept], &[]);
    until("it to be copied again", || one.holds(&title));
}

/// The size of two titles without their films.
fn small(folders: &Folders) -> u64 {
    let files = |title: &str| {
        let folder = folders.origin().join(title);
        let record = catalog::Record::read(&folder).unwrap();
        record.bytes() - film(1).len() as u64
    };
    files("film") + files("kept")
}

#[test]
fn nothing_goes_while_nobody_knows_what_the_server_has_open() {
    let folders = Folders::default();
    let (one, title, _) = told_to_hold_one(&folders);
    let server = Server::default();
    let asked = Arc::clone(&server.1);
    one.replicator.watch_server(std::boxed::Box::new(move || {
        asked.fetch_add(1, Ordering::Relaxed);
        Err(std::io::Error::other("it has ended"))
    }));
    one.replicator.handle_eviction_leave(vec![title.held()]);
    server.is_asked_twice();
    assert!(!one.holds(&title) && folders.library().join("film").exists());
}

#[test]
fn what_arrived_in_part_of_a_title_that_goes_elsewhere_is_removed() {
    let folders = Folders::default();
    let title = folders.publish("film", &film(4));
    let mut options = folders.options();
    // At this rate it would take weeks.
    options.copy_bytes_per_second = 10;
    let one = folders.open_with(options).start();
    one.replicator.note_fleet(Peers::new(61).fleet(&title));
    one.desire(&[&title], &[]);
    until("the copy to begin", || folders.arriving("film").join("title.json").exists());
    drop(one);
    // The agent restarts after the box got another list.
    let one = folders.open();
    one.desire(&[], &[]);
    let one = one.start();
    one.replicator.note_fleet(Peers::new(61).fleet(&title));
    Server::default().beside(&one);
    until("it to ask", || one.replicator.evictable() == [title.held()]);
    one.replicator.handle_eviction_leave(vec![title.held()]);
    until("nothing to be left", || fs::read_dir(folders.library()).unwrap().next().is_none());
}

#[test]
fn what_was_being_removed_when_the_agent_died_is_removed_by_the_next_one() {
    let folders = Folders::default();
    let removed = folders.library().join("films/.ingest-a/removed/v-0123456789ab");
    fs::create_dir_all(&removed).unwrap();
    fs::write(removed.join("film.mp4"), "a film").unwrap();
    let _one = folders.open().start();
    until("it to be gone", || !folders.library().join("films/.ingest-a").exists());
}
