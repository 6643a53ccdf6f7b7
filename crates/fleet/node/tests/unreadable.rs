//! Files that the server could not read: their titles are no longer claimed, hidden and repaired, and counted.

mod folders;

use std::fs;
use std::path::{Path, PathBuf};

use catalog::{TitleName, Workshop};
use fleet_protocol::PublishedTitle;
use folders::{BLOCK, Box, Folders, film, flip};
use fullbore_tests::{FILM, FailingDisk, Launch, Plain, tool, until};
use serde_json::{Value, json};

/// The relevant part of the server's status: files, the time that identifies the last failure of each, and its age.
fn status(files: &[(&Path, u64, f64)]) -> Value {
    let entry = |(file, last, age): &(&Path, u64, f64)| json!({ "file": file, "failures": 1, "last_unix_ms": last, "age_seconds": age });
    json!({ "failed_files": files.iter().map(entry).collect::<Vec<_>>() })
}

/// A box that has verified titles of these paths, and does not work.
fn idle_box(folders: &Folders, paths: &[&str]) -> (Box, Vec<PublishedTitle>) {
    let titles: Vec<_> =
        (1..).zip(paths).map(|(seed, path)| folders.publish(path, &film(seed))).collect();
    let one = folders.open().start();
    one.desire(&titles.iter().collect::<Vec<_>>(), &[]);
    until("the titles to arrive", || titles.iter().all(|title| one.holds(title)));
    drop(one);
    let one = folders.open();
    assert!(titles.iter().all(|title| one.holds(title)));
    (one, titles)
}

#[test]
fn a_title_that_the_server_cannot_read_is_not_claimed_until_it_is_verified_again() {
    let folders = Folders::default();
    let (one, titles) = idle_box(&folders, &["film", "other"]);
    let (place, film_of_other) = (folders.film("film"), folders.film("other"));
    let note =
        |one: &Box, files: &[(&Path, u64, f64)]| one.replicator.note_failed_files(&status(files));
    assert_eq!(note(&one, &[]), Some(0));
    let playlist = place.with_file_name("playlist.m3u8");
    let failed: [(&Path, u64, f64); 2] = [(&place, 1000, 0.0), (&playlist, 1001, 0.0)];
    assert_eq!(note(&one, &failed), Some(1), "two files of one title");
    assert!(!one.holds(&titles[0]) && one.holds(&titles[1]));

    let one = one.start();
    until("the title to be hidden", || one.replicator.status().scrub.damaged_titles == 1);
    until("the title to be verified", || one.holds(&titles[0]));
    assert_eq!(one.replicator.status().copied_bytes, 0, "its bytes were right");
    // The same failures, as the server lists them for minutes.
    let failed: [(&Path, u64, f64); 2] = [(&place, 1000, 30.0), (&playlist, 1001, 30.0)];
    note(&one, &failed);
    assert!(one.holds(&titles[0]), "no failure is new");
    note(&one, &[(&film_of_other, 2000, 0.0)]);
    until("both to be held again", || titles.iter().all(|title| one.holds(title)));
    assert_eq!(one.replicator.status().scrub.damaged_titles, 2, "each was hidden once");
}

#[test]
fn a_title_that_was_not_verified_again_before_a_restart_is_hidden_before_the_server_starts() {
    let folders = Folders::default();
    let (one, titles) = idle_box(&folders, &["film"]);
    one.replicator.note_failed_files(&status(&[(&folders.film("film"), 1000, 0.0)]));
    drop(one);
    let one = folders.open();
    assert!(!folders.library().join("film").exists() && !one.holds(&titles[0]));
    assert_eq!(one.replicator.status().hidden, ["film"]);
}

#[test]
fn a_restarted_agent_leaves_a_title_alone_that_was_verified_after_its_failure() {
    let folders = Folders::default();
    let (one, titles) = idle_box(&folders, &["film"]);
    let failed = status(&[(&folders.film("film"), 1000, 3600.0)]);
    assert_eq!(one.replicator.note_failed_files(&failed), Some(0), "an hour ago");
    assert!(one.holds(&titles[0]));
}

#[test]
fn a_file_of_another_library_with_the_same_names_says_nothing_about_the_title() {
    let folders = Folders::default();
    let (one, titles) = idle_box(&folders, &["film"]);
    drop(one);
    let second = folders.root().join("second");
    let mut options = folders.options();
    options.libraries.push(second.clone());
    let one = folders.open_with(options);
    assert!(one.holds(&titles[0]));
    let below: PathBuf = folders.film("film").strip_prefix(folders.library()).unwrap().into();
    let of_copy = second.join(&below);
    let of_site = folders.root().join("site").join(&below);
    let failed = status(&[(&of_copy, 1, 0.0), (&of_site, 2, 0.0)]);
    assert_eq!(one.replicator.note_failed_files(&failed), Some(2), "a copy, and a site's file");
    assert!(one.holds(&titles[0]), "neither is the title's own file");
    let failed = status(&[(&folders.film("film"), 3, 0.0)]);
    assert_eq!(one.replicator.note_failed_files(&failed), Some(2), "the copy's title has failed");
    assert!(!one.holds(&titles[0]));
}

/// The list of the real server is the one that the agent reads.
#[test]
fn a_server_whose_disk_fails_lists_the_title_that_it_cannot_open() {
    let folders = Folders::default();
    let disk = match FailingDisk::mount(&folders.library()) {
        Ok(disk) => disk,
        Err(why) => return tool::skip(&why),
    };
    let (one, titles) = idle_box(&folders, &["film"]);
    let record = catalog::Record::read(&folders.library().join("film")).unwrap();
    let path = format!("/film/{}/{FILM}", record.folder);
    let server = Launch::of(&folders.library()).arguments("--tls off").start();
    let note = || {
        let status = serde_json::from_str(&server.admin_page("/status.json").1).unwrap();
        one.replicator.note_failed_files(&status)
    };
    assert_eq!(note(), Some(0));
    disk.fail();
    assert_eq!(Plain::connect(server.address).fetch(&path).status, 500);
    assert_eq!(note(), Some(1));
    assert!(!one.holds(&titles[0]));
}

#[test]
fn a_server_of_an_older_release_leaves_the_number_of_failing_titles_unknown() {
    let folders = Folders::default();
    let one = folders.open();
    assert_eq!(one.replicator.note_failed_files(&json!({ "total": {} })), None);
    assert_eq!(one.replicator.note_failed_files(&status(&[])), Some(0));
}

#[test]
fn a_title_that_another_program_works_on_is_hidden_and_counted_once_that_has_ended() {
    let folders = Folders::default();
    let (one, titles) = idle_box(&folders, &["film"]);
    let one = one.start();
    let name = TitleName::new("film").unwrap();
    let busy = Workshop::lock(&folders.library(), &name).unwrap();
    let place = folders.film("film");
    flip(&place, BLOCK as u64 + 7);
    assert_eq!(one.replicator.note_failed_files(&status(&[(&place, 1000, 0.0)])), Some(1));
    until("an attempt to hide it", || {
        one.trouble("film").is_some_and(|why| why.contains("working on it"))
    });
    assert!(!one.holds(&titles[0]) && place.exists());
    assert_eq!(one.replicator.status().scrub.damaged_titles, 0);
    drop(busy);
    until("the title to be repaired", || one.holds(&titles[0]));
    assert!(fs::read(&place).unwrap() == film(1));
    assert_eq!(one.replicator.status().scrub.damaged_titles, 1);
}

/// A title that only this box has is served until it is found damaged: viewers would get it nowhere else.
#[test]
fn a_title_that_the_fleet_does_not_publish_is_verified_and_not_hidden() {
    let folders = Folders::default();
    let (one, titles) = idle_box(&folders, &["film"]);
    one.desire(&[], &[]);
    let place = folders.film("film");
    assert_eq!(one.replicator.note_failed_files(&status(&[(&place, 1000, 0.0)])), Some(1));
    assert!(!one.holds(&titles[0]));
    let one = one.start();
    until("the title to be verified", || one.holds(&titles[0]));
    let status = one.replicator.status();
    assert_eq!((status.scrub.damaged_titles, status.copied_bytes), (0, 0));
}
