//! A full disk under the server's own files: its state and its access log. Viewers notice nothing.

use fullbore_tests::{Launch, Plain, Server, Signal, SmallDisk, eventually};
use std::fs;
use std::path::PathBuf;
use tempfile::{TempDir, tempdir};

/// More lines than the writer keeps in memory (64 KiB), and than fit on the disk.
const REQUESTS: usize = 2_000;

/// A disk of 128 KiB, and the file that fills it.
struct FullDisk(SmallDisk);

impl FullDisk {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Leaves no byte free.
    fn fill(&self) {
        let error = (0..)
            .find_map(|number| fs::write(self.path(&format!("filler-{number}")), [0; 4096]).err());
        assert_eq!(error.map(|error| error.kind()), Some(std::io::ErrorKind::StorageFull));
    }

    fn empty(&self) {
        for entry in fs::read_dir(self.0.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("filler-") {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

fn library() -> TempDir {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("note.txt"), "this is the note").unwrap();
    folder
}

fn ask(server: &Server, times: usize) {
    let mut viewer = Plain::connect(server.address);
    for _ in 0..times {
        assert_eq!(viewer.fetch("/note.txt").status, 200);
    }
}

#[test]
fn a_full_disk_under_the_access_log_and_the_state_costs_lines_and_no_viewer() {
    let at = tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(at.path(), 128).map(FullDisk) else { return };
    let folder = library();
    let log = disk.path("access.log");
    let launch = Launch::of(folder.path()).state(&disk.path("state"));
    let mut server = launch.arguments("--tls off --access-log").argument(&log).start();
    ask(&server, 1);
    eventually("the first line", || {
        fs::read_to_string(&log).ok().filter(|text| text.ends_with('\n'))
    });

    disk.fill();
    ask(&server, REQUESTS);
    server.stderr.wait_for("cannot write the access log: No space left on device");
    server.wait_for_counter("access_log_lost_total", 1);
    ask(&server, 1);

    // There is room again: kept lines are written, and every line is complete.
    disk.empty();
    eventually("a line of what was asked for last", || {
        let mut viewer = Plain::connect(server.address);
        assert_eq!(viewer.fetch("/note.txt?afterwards").status, 200);
        let text = fs::read_to_string(&log).ok()?;
        (text.contains("/note.txt?afterwards") && text.ends_with('\n')).then_some(())
    });
    let text = fs::read_to_string(&log).unwrap();
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect(line);
    }
    let written = text.lines().filter(|line| !line.contains("afterwards")).count() as u64;
    // The counter is published once a second.
    eventually("written and lost to be all there were", || {
        let lost = server.counters().value("access_log_lost_total");
        (written + lost == REQUESTS as u64 + 2).then_some(())
    });
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_start_whose_state_has_no_room_says_so() {
    let at = tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(at.path(), 128).map(FullDisk) else { return };
    let folder = library();
    disk.fill();
    let ran = Launch::of(folder.path()).state(&disk.path("state")).run();
    let said = ran.stderr;
    assert_eq!(ran.code, Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("No space left on device") && said.contains("state"), "{said}");
}
