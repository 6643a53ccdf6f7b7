//! A library of several folders, each a disk: a disk that dies takes its own titles with it, and nothing else.

use crate::support::content::Content;
use crate::support::served::{Served, await_that};
use crate::support::viewer::{Protocol, Response};
use config::Disk;
use fullbore_tests::{FILM, FailingDisk, Plain, make_title, tool};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use telemetry::Family;
use tempfile::TempDir;

/// More than the kernel and the server buffer for a viewer that does not read.
const FILM_BYTES: u64 = 3 << 20;

/// Two folders, the first on a disk that can fail.
struct Disks {
    dir: TempDir,
    failing: FailingDisk,
    film: Content,
    other: Content,
}

impl Disks {
    /// Reports what is missing if a disk cannot be mounted here.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["d0", "d1"].map(|name| dir.path().join(name));
        folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let failing = FailingDisk::mount(&folders[0])
            .inspect_err(|why| tool::skip(&format!("no disk that fails: {why}")));
        let (film, other) = (Content::new(1, FILM_BYTES), Content::new(2, FILM_BYTES));
        let disks = Self { dir, failing: failing.ok()?, film, other };
        // `both` is on both disks, with another film.
        for (name, content) in [("d0/film.mp4", &disks.film), ("d0/both.mp4", &disks.film)] {
            disks.write(name, content);
        }
        for (name, content) in [("d1/other.mp4", &disks.other), ("d1/both.mp4", &disks.other)] {
            disks.write(name, content);
        }
        Some(disks)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, content: &Content) {
        content.write(&self.path(name)).unwrap();
        File::open(self.path(name)).unwrap().sync_all().unwrap();
    }

    fn serve(&self) -> Served {
        Served::start(&self.path("d0"), Protocol::Plain, |config| {
            config.library.push(self.path("d1"));
            // So that reads go to the disk.
            config.disk = Disk::Direct;
        })
    }
}

fn ask(served: &Served, path: &str) -> Response {
    let mut viewer = served.viewer();
    viewer.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
    viewer.response(true).unwrap()
}

fn status(served: &Served, path: &str) -> u16 {
    let mut viewer = served.viewer();
    viewer.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
    // An answer that breaks off is one of a file that was open when its disk failed.
    viewer.response(true).map_or(0, |response| response.status)
}

#[track_caller]
fn assert_is(served: &Served, path: &str, content: &Content) {
    let response = ask(served, path);
    assert_eq!(response.status, 200, "{path}");
    content.assert_holds(0, &response.body, path);
}

fn health(served: &Served) -> (u16, String) {
    let page = Plain::connect(served.admin()).fetch("/healthz");
    (page.status, String::from_utf8_lossy(&page.body).into_owned())
}

fn lost(served: &Served) -> bool {
    let page = Plain::connect(served.admin()).fetch("/metrics");
    String::from_utf8_lossy(&page.body).lines().any(|line| line == "fullbore_library_lost 1")
}

fn names(text: &str, folder: &Path) -> bool {
    text.contains(folder.to_str().unwrap())
}

#[test]
fn a_disk_that_fails_takes_its_own_titles_and_nothing_else() {
    let Some(disks) = Disks::mount() else { return };
    let served = disks.serve();
    assert_is(&served, "/film.mp4", &disks.film);
    assert_is(&served, "/other.mp4", &disks.other);
    assert_is(&served, "/both.mp4", &disks.film);
    assert_eq!(health(&served), (200, "ok\n".into()));

    disks.failing.fail();
    for path in ["/film.mp4", "/both.mp4"] {
        await_that(|| status(&served, path) == 500, || format!("{path}: not 500"));
    }
    assert_is(&served, "/other.mp4", &disks.other);
    // New titles appear on the healthy disk.
    disks.write("d1/new.mp4", &disks.other);
    await_that(|| status(&served, "/new.mp4") == 200, || "new.mp4 does not appear".into());
    // By now all lists were made again, and the other disk's title of the same name has not taken its place.
    assert_eq!(status(&served, "/both.mp4"), 500);
    assert_eq!(status(&served, "/nothing.mp4"), 404);

    await_that(|| health(&served).1.starts_with("ok, but"), || "health says nothing".into());
    let (code, said) = health(&served);
    assert!(code == 200 && names(&said, &disks.path("d0")), "{said}");
    assert!(!names(&said, &disks.path("d1")) && lost(&served), "{said}");
    assert!(served.count(Family::Refusals, "internal") >= 1);
    served.stop();
}

/// Only ended connections were counted, and nothing said of which file or title.
#[test]
fn a_file_that_cannot_be_opened_on_a_failed_disk_is_counted_and_listed() {
    let Some(disks) = Disks::mount() else { return };
    let served = disks.serve();
    let page = |path: &str| {
        let page = Plain::connect(served.admin()).fetch(path);
        String::from_utf8_lossy(&page.body).into_owned()
    };
    let state = || -> serde_json::Value { serde_json::from_str(&page("/status.json")).unwrap() };
    let errors = || state()["disk_errors_total"].as_u64().unwrap();
    assert_is(&served, "/film.mp4", &disks.film);
    assert_eq!((errors(), state()["failed_files"].as_array().unwrap().len()), (0, 0));
    assert!(state()["library"].as_array().unwrap().iter().all(|folder| folder["lost"] == false));

    disks.failing.fail();
    await_that(|| status(&served, "/film.mp4") == 500, || "not 500".into());
    let before = errors();
    assert!(before >= 1);
    assert_eq!(status(&served, "/film.mp4"), 500);
    assert_eq!(errors(), before + 1);
    assert_is(&served, "/other.mp4", &disks.other);
    assert_eq!(status(&served, "/nothing.mp4"), 404);
    let now = state();
    let files = now["failed_files"].as_array().unwrap();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(files[0]["file"], disks.path("d0/film.mp4").to_str().unwrap());
    assert_eq!(files[0]["failures"], now["disk_errors_total"]);
    let metric = format!("fullbore_disk_errors_total {}", before + 1);
    assert!(page("/metrics").lines().any(|line| line == metric));
    served.stop();
}

#[test]
fn a_disk_that_is_unmounted_is_named_and_the_other_goes_on() {
    let Some(disks) = Disks::mount() else { return };
    let served = disks.serve();
    assert_eq!(health(&served), (200, "ok\n".into()));
    disks.failing.unmount().unwrap();
    await_that(|| health(&served).1.contains("another folder"), || "health says nothing".into());
    let (code, said) = health(&served);
    assert!(code == 200 && names(&said, &disks.path("d0")), "{said}");
    assert!(!names(&said, &disks.path("d1")) && lost(&served), "{said}");
    assert_is(&served, "/other.mp4", &disks.other);
    served.stop();
}

#[test]
fn copies_on_a_disk_that_fails_are_served_from_their_originals() {
    let Some(disks) = Disks::mount() else { return };
    let version = ["d0/title", "d1/title"].map(|title| {
        std::fs::create_dir(disks.path(title)).unwrap();
        make_title(&disks.path(title), &disks.film.bytes(0..FILM_BYTES)).unwrap()
    });
    let path = format!("/title/{}/{FILM}", version[0]);
    // The result of `fullbore library promote`.
    std::fs::create_dir(disks.path("d0/.promoted")).unwrap();
    File::create(disks.path("d0/title/.copy.json")).unwrap();
    assert!(std::process::Command::new("sync").status().unwrap().success());
    let served = disks.serve();
    let copy = std::fs::metadata(disks.path("d0").join(&path[1..])).unwrap();
    let is_copy =
        || ask(&served, &path).field("ETag").unwrap().starts_with(&format!("\"{:x}-", copy.ino()));
    await_that(is_copy, || "the copy is not served".into());
    disks.failing.fail();
    // One response may break off, of the copy that was open. Then opening it fails, and viewers get the original.
    await_that(|| status(&served, &path) == 200, || "the original is not served".into());
    for _ in 0..20 {
        assert_is(&served, &path, &disks.film);
        // sleeps: requests at twenty moments, each of which has to be answered
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(status(&served, "/film.mp4"), 500, "what has no original is lost");
    served.stop();
}
