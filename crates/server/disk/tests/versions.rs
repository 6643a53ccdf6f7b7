//! Which changes make another version of a file, and how a read lease protects it.

use fullbore_disk::{File, Files, ReadError};
use reactor::{Reactor, RingOptions};
use std::fs::{self, FileTimes, OpenOptions, Permissions};
use std::future::Future;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

fn on_a_reactor<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    Reactor::new(RingOptions::default()).unwrap().run(future).unwrap()
}

/// A library with a film that is a day old.
fn library() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("film"), [1; 1000]).unwrap();
    let film = OpenOptions::new().write(true).open(folder.path().join("film")).unwrap();
    film.set_modified(SystemTime::now() - Duration::from_secs(86_400)).unwrap();
    folder
}

/// Returns whether leases work in `folder`, and reports a skipped test if not.
fn can_hold(folder: &Path) -> bool {
    let probe = folder.join("probe");
    fs::write(&probe, "x").unwrap();
    let held = reactor::lease::take(std::os::fd::AsFd::as_fd(&fs::File::open(&probe).unwrap()));
    fs::remove_file(probe).unwrap();
    if let Err(error) = &held {
        fullbore_tests::tool::skip(&format!("no leases on {}: {error}", folder.display()));
    }
    held.is_ok()
}

/// Waits until a change of the film leaves another time than its last one. Before Linux 6.13 the filesystem's clock advances in steps of up to 10 ms,
/// and in longer ones if the machine stands still; everything within one step has the same time.
fn let_the_clock_move(film: &Path) {
    let changed = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.ctime(), metadata.ctime_nsec())
    };
    let (before, probe) = (changed(film), film.with_extension("clock"));
    fullbore_tests::until("the filesystem's clock to move on", || {
        fs::write(&probe, "x").unwrap();
        changed(&probe) > before
    });
}

/// Overwrites a file with other bytes, then restores its modification time.
fn overwrite_and_set_back(film: &fs::File) {
    let modified = film.metadata().unwrap().modified().unwrap();
    film.write_all_at(&[2; 1000], 0).unwrap();
    film.set_times(FileTimes::new().set_modified(modified)).unwrap();
}

/// A change of the file that changes none of its bytes.
type Housekeeping = fn(&Path);
const HOUSEKEEPING: [(&str, Housekeeping); 4] = [
    ("mode", |film| fs::set_permissions(film, Permissions::from_mode(0o640)).unwrap()),
    ("link", |film| {
        fs::hard_link(film, film.with_extension("link")).unwrap();
        fs::remove_file(film.with_extension("link")).unwrap();
    }),
    ("name", |film| {
        fs::rename(film, film.with_extension("else")).unwrap();
        fs::rename(film.with_extension("else"), film).unwrap();
    }),
    ("time of access", |film| {
        // Like a backup that restores access times. Opening the file for reading is enough to set its times.
        let accessed = FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH);
        fs::File::open(film).unwrap().set_times(accessed).unwrap();
    }),
];

#[test]
fn a_file_overwritten_in_place_is_another_version_although_its_time_was_set_back() {
    let folder = library();
    let film = OpenOptions::new().write(true).open(folder.path().join("film")).unwrap();
    let served = File::new(fs::File::open(folder.path().join("film")).unwrap().into()).unwrap();
    let before = served.stamp();
    served.check_unchanged().unwrap();
    let_the_clock_move(&folder.path().join("film"));
    overwrite_and_set_back(&film);
    assert_eq!(served.check_unchanged(), Err(ReadError::Changed));
    let after = File::new(fs::File::open(folder.path().join("film")).unwrap().into()).unwrap();
    assert_eq!(
        (before.size, before.modified_seconds, before.modified_nanoseconds),
        (after.stamp().size, after.stamp().modified_seconds, after.stamp().modified_nanoseconds),
        "the time was not set back, so nothing was shown"
    );
    assert_ne!(before, after.stamp());
}

#[test]
fn what_changes_no_byte_of_a_file_that_is_held_still_disturbs_nobody() {
    on_a_reactor(async {
        let folder = library();
        if !can_hold(folder.path()) {
            return;
        }
        let files = Files::new(folder.path(), 10).unwrap();
        let film = files.open(b"film").await.unwrap();
        for (what, keep_house) in HOUSEKEEPING {
            let before = film.stamp();
            let_the_clock_move(&folder.path().join("film"));
            keep_house(&folder.path().join("film"));
            assert_eq!(film.check_unchanged(), Ok(()), "{what}");
            assert_ne!(film.stamp(), before, "{what}: its tag is that of the file as it is now");
            let again = files.open(b"film").await.unwrap();
            assert!(Rc::ptr_eq(&film, &again), "{what}: it is opened once");
        }
        assert_eq!(files.open_for_writing(), 0);
    });
}

#[test]
fn any_change_of_a_file_that_cannot_be_held_still_makes_another_version() {
    for (what, keep_house) in HOUSEKEEPING {
        on_a_reactor(async move {
            let folder = library();
            if !can_hold(folder.path()) {
                return;
            }
            let writer = OpenOptions::new().write(true).open(folder.path().join("film")).unwrap();
            let files = Files::new(folder.path(), 10).unwrap();
            let film = files.open(b"film").await.unwrap();
            assert_eq!(files.open_for_writing(), 1);
            let_the_clock_move(&folder.path().join("film"));
            keep_house(&folder.path().join("film"));
            assert_eq!(film.check_unchanged(), Err(ReadError::Changed), "{what}");
            drop(writer);
            let again = files.open(b"film").await.unwrap();
            assert!(!Rc::ptr_eq(&film, &again));
            assert_eq!((again.check_unchanged(), files.open_for_writing()), (Ok(()), 1));
        });
    }
}

#[test]
fn moving_a_folder_changes_no_file_in_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".ingest")).unwrap();
    fs::write(folder.path().join(".ingest/film"), "x").unwrap();
    let film = fs::File::open(folder.path().join(".ingest/film")).unwrap();
    let film = File::new(film.into()).unwrap();
    fs::rename(folder.path().join(".ingest"), folder.path().join("title")).unwrap();
    film.check_unchanged().unwrap();
}

#[test]
fn who_wants_to_write_waits_for_the_server_to_see_it_and_not_for_viewers() {
    for open_max in [10, 0] {
        on_a_reactor(async move {
            let folder = library();
            if !can_hold(folder.path()) {
                return;
            }
            let files = Files::new(folder.path(), open_max).unwrap();
            let film = files.open(b"film").await.unwrap();
            files.forget_recalled();
            film.check_unchanged().unwrap();
            let path = folder.path().join("film");
            let_the_clock_move(&path);
            let writer = std::thread::spawn(move || {
                overwrite_and_set_back(&OpenOptions::new().write(true).open(path).unwrap());
            });
            while !film.is_recalled() {
                std::thread::yield_now();
            }
            assert!(!writer.is_finished(), "no program writes while the lease is held");
            film.check_unchanged().unwrap();
            files.forget_recalled();
            // The viewer still has the file open, and the writer continues.
            writer.join().unwrap();
            assert_eq!(film.check_unchanged(), Err(ReadError::Recalled));
            assert!(!film.hold_still(), "for good");
            let again = files.open(b"film").await.unwrap();
            assert!(!Rc::ptr_eq(&film, &again) && again.stamp() != film.stamp());
            again.check_unchanged().unwrap();
        });
    }
}

#[test]
fn a_writer_that_is_looked_for_in_passing_waits_until_it_is_seen() {
    on_a_reactor(async {
        let folder = library();
        if !can_hold(folder.path()) {
            return;
        }
        let files = Files::new(folder.path(), 10).unwrap();
        let film = files.open(b"film").await.unwrap();
        assert!(!film.is_recalled_in_passing());
        let path = folder.path().join("film");
        let writer = std::thread::spawn(move || {
            overwrite_and_set_back(&OpenOptions::new().write(true).open(path).unwrap());
        });
        while !film.is_recalled_in_passing() {
            assert!(!writer.is_finished(), "no program writes before that");
            reactor::sleep(Duration::from_millis(1)).await;
        }
        assert!(!writer.is_finished(), "no program writes before the lease is given back");
        files.forget_recalled();
        writer.join().unwrap();
        assert!(film.is_recalled_in_passing(), "for good");
    });
}
