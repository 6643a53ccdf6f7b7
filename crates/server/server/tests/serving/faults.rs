//! A file or a disk fails under a response: that connection ends and is counted by reason, and its viewer has received only
//! bytes of the file with which the response began. Other viewers are not affected, and the next request gets the current file.

use crate::support::content::Content;
use crate::support::mapped_writer::MappedWriter;
use crate::support::served::{Served, await_that, kernel_seals};
use crate::support::viewer::{Protocol, Response, Viewer};
use config::{Disk, Route};
use fullbore_tests::FailingDisk;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fs::{File, FileTimes, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};
use telemetry::Family;
use tempfile::TempDir;

const POLICIES: [Disk; 4] = [Disk::Auto, Disk::Cached, Disk::Once, Disk::Direct];

/// Many times what the kernel and the server buffer for a viewer that does not read.
const FILM_BYTES: u64 = 3 << 20;

/// A library of two films, one of which will be damaged.
struct Library {
    dir: TempDir,
    film: Content,
    other: Content,
}

impl Library {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (film, other) = (Content::new(1, FILM_BYTES), Content::new(2, FILM_BYTES));
        film.write(&dir.path().join("film.mp4")).unwrap();
        other.write(&dir.path().join("other.mp4")).unwrap();
        Self { dir, film, other }
    }

    fn film_path(&self) -> std::path::PathBuf {
        self.dir.path().join("film.mp4")
    }

    /// Whether the kernel gives leases on its files.
    fn can_be_held(&self) -> bool {
        let probe = self.dir.path().join("probe");
        File::create(&probe).unwrap();
        let file = File::open(&probe).unwrap();
        std::fs::remove_file(probe).unwrap();
        let held = reactor::lease::take(file.as_fd());
        if let Err(error) = &held {
            eprintln!("no leases here ({error}), so that nothing is shown of files held still");
        }
        held.is_ok()
    }

    /// Serves with small windows, and takes buffers back at once.
    fn serve(&self, protocol: Protocol, disk: Disk) -> Served {
        self.serve_by(Route::Userspace, protocol, disk)
    }

    fn serve_by(&self, route: Route, protocol: Protocol, disk: Disk) -> Served {
        Served::start(self.dir.path(), protocol, |config| {
            config.route = route;
            config.disk = disk;
            config.net.window_bytes_max = 64 << 10;
            config.net.unsent_bytes_max = Some(16 << 10);
            config.timeouts.hold_seconds = 0.0;
        })
    }
}

/// A viewer in the middle of a film.
struct Watching<'a> {
    viewer: Viewer,
    content: &'a Content,
    received: Vec<u8>,
}

impl<'a> Watching<'a> {
    fn begin(served: &Served, path: &str, content: &'a Content) -> Self {
        let mut viewer = served.narrow_viewer(16 << 10);
        viewer.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
        let head = viewer.head().unwrap();
        assert_eq!(head.field("Content-Length"), Some(content.size.to_string().as_str()));
        let (received, result) = viewer.body(100_000);
        result.unwrap();
        Self { viewer, content, received }
    }

    /// The connection ends early and visibly; the bytes until then were the film's.
    #[track_caller]
    fn assert_ends_early(self, case: &str) {
        let (received, content) = self.end_early(case);
        content.assert_holds(0, &received, case);
    }

    /// As [`Self::assert_ends_early`], but returns the received and the expected bytes instead of comparing them.
    #[track_caller]
    fn end_early(mut self, case: &str) -> (Vec<u8>, &'a Content) {
        let (rest, end) = self.viewer.rest();
        self.received.extend(rest);
        assert!((self.received.len() as u64) < self.content.size, "{case}: nothing was cut off");
        match (self.viewer.tls.is_some(), end.map_err(|error| error.kind())) {
            // Fewer bytes than the Content-Length show it.
            (false, Ok(()) | Err(io::ErrorKind::ConnectionReset)) => {}
            (true, Err(io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)) => {}
            (_, end) => panic!("{case}: ended with {end:?}"),
        }
        (self.received, self.content)
    }

    /// The film arrives to its end.
    #[track_caller]
    fn assert_goes_on(mut self, case: &str) {
        let left = self.content.size as usize - self.received.len();
        let (rest, result) = self.viewer.body(left);
        result.unwrap();
        self.content.assert_holds(self.received.len() as u64, &rest, case);
    }
}

/// The change to the film, the reason under which it is counted, and the state afterwards.
struct Fault {
    name: &'static str,
    label: &'static str,
    strike: fn(&Path, &Content) -> io::Result<()>,
    after: Option<Content>,
}

impl Fault {
    fn writes(&self) -> bool {
        matches!(self.label, "file_truncated" | "file_changed")
    }

    /// A program that writes to a file with a lease has to wait, and the server notices that.
    fn label(&self, is_held: bool) -> &'static str {
        match self.label {
            _ if is_held && self.writes() => "file_recalled",
            label => label,
        }
    }
}

fn faults(film: &Content) -> [Fault; 4] {
    let new = Content::new(3, FILM_BYTES);
    let shorter = Content::new(film.seed, 150_000);
    [
        Fault {
            name: "truncated",
            label: "file_truncated",
            strike: |path, after| File::options().write(true).open(path)?.set_len(after.size),
            after: Some(shorter),
        },
        Fault {
            name: "overwritten in place",
            label: "file_changed",
            strike: |path, after| after.write_into(&File::options().write(true).open(path)?),
            after: Some(new.clone()),
        },
        Fault {
            name: "replaced",
            label: "file_removed",
            strike: |path, after| {
                let beside = path.with_extension("new");
                after.write(&beside)?;
                std::fs::rename(beside, path)
            },
            after: Some(new),
        },
        Fault {
            name: "removed",
            label: "file_removed",
            strike: |path, _| std::fs::remove_file(path),
            after: None,
        },
    ]
}

fn assert_shows(response: &Response, content: Option<&Content>, case: &str) {
    match content {
        None => assert_eq!(response.status, 404, "{case}"),
        Some(content) => {
            assert_eq!(
                (response.status, response.body.len() as u64),
                (200, content.size),
                "{case}"
            );
            content.assert_holds(0, &response.body, case);
        }
    }
}

fn strike_under_every_policy(protocol: Protocol, route: Route) {
    for disk in POLICIES {
        let untouched = Library::new();
        for fault in faults(&untouched.film) {
            let library = Library::new();
            let case = format!("{} under {protocol:?} {route:?} {disk:?}", fault.name);
            let served = library.serve_by(route, protocol, disk);
            let watching = Watching::begin(&served, "/film.mp4", &library.film);
            let other = Watching::begin(&served, "/other.mp4", &library.other);
            let after = fault.after.as_ref();
            (fault.strike)(&library.film_path(), after.unwrap_or(&library.film)).unwrap();
            let (received, content) = watching.end_early(&case);
            let is_sent_by_kernel = served.number(|n| &n.sendfile_bytes_total) > 0;
            // Without TLS, unread data at a viewer on this machine is the file's own pages.
            if !(is_sent_by_kernel && protocol == Protocol::Plain && fault.writes()) {
                content.assert_holds(0, &received, &case);
            }
            served.await_count(Family::Ends, fault.label(library.can_be_held()), 1);
            assert_shows(&served.viewer().ask("/film.mp4"), after, &case);
            other.assert_goes_on(&case);
            served.await_buffers_back();
            served.stop();
        }
    }
}

#[test]
fn a_file_that_changes_under_a_response_ends_it_without_tls() {
    strike_under_every_policy(Protocol::Plain, Route::Userspace);
}

#[test]
fn a_file_that_changes_under_a_response_ends_it_when_the_kernel_sends() {
    strike_under_every_policy(Protocol::Plain, Route::Kernel);
}

#[test]
fn a_file_that_changes_under_a_response_ends_it_when_the_kernel_seals() {
    if kernel_seals() {
        strike_under_every_policy(Protocol::Tls12, Route::Kernel);
        strike_under_every_policy(Protocol::Tls13, Route::Kernel);
    }
}

#[test]
fn a_file_that_changes_under_a_response_ends_it_with_tls12() {
    strike_under_every_policy(Protocol::Tls12, Route::Userspace);
}

#[test]
fn a_file_that_changes_under_a_response_ends_it_with_tls13() {
    strike_under_every_policy(Protocol::Tls13, Route::Userspace);
}

/// Waits until the server has no more bytes for the kernel.
fn await_standstill(served: &Served) {
    await_that(|| served.number(|n| &n.take_backs_total) > 0, || "nothing taken back".into());
    await_quiet(served);
}

/// Waits until the kernel accepts no more for the viewer.
fn await_quiet(served: &Served) {
    let mut sent = 0;
    loop {
        let now = served.number(|n| &n.transport_sent_bytes_total)
            + served.number(|n| &n.response_sent_bytes_total);
        if now == sent {
            return;
        }
        sent = now;
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The tag rule: between sealing and sealing again, the file changes unnoticed. Nothing sealed from the new bytes may
/// arrive. Returns whether this case occurred: it does not if the first window was sent whole after all, or if a direct
/// read had the pages written out, because then the file's times reveal the change.
fn change_between_sealing_and_sealing_again(protocol: Protocol, disk: Disk) -> bool {
    let library = Library::new();
    let mut writer = MappedWriter::open(&library.film_path());
    let served = library.serve(protocol, disk);
    let mut viewer = served.narrow_viewer(8 << 10);
    viewer.send(b"GET /film.mp4 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    await_standstill(&served);
    let owed_the_first_window = served.number(|n| &n.windows_total) == 0;
    if !owed_the_first_window {
        drop(viewer);
        served.stop();
        return false;
    }
    writer.overwrite(&Content::new(3, FILM_BYTES));
    assert_eq!(viewer.head().unwrap().status, 200);
    let watching = Watching { viewer, content: &library.film, received: Vec::new() };
    watching.assert_ends_early(&format!("{protocol:?} {disk:?}"));
    let ended = |label| served.count(Family::Ends, label);
    let by_tag_or_time = || ended("changed_under_us") + ended("file_changed");
    await_that(|| by_tag_or_time() == 1, || "ended for another reason".into());
    let by_tag = ended("changed_under_us") == 1;
    served.await_buffers_back();
    served.stop();
    by_tag || (disk == Disk::Direct && ended("file_changed") == 1)
}

#[test]
fn a_record_that_comes_out_different_the_second_time_is_never_sent() {
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        for disk in POLICIES {
            let told = (0..10).any(|_| change_between_sealing_and_sealing_again(protocol, disk));
            assert!(told, "{protocol:?} {disk:?}: no record came out different");
        }
    }
}

/// Overwrites a film in place and restores its time, as `rsync --inplace --times` does: the old version's viewer is cut off
/// before a byte of the new one, and no validator of the old version matches the new one.
fn overwrite_and_set_back(protocol: Protocol, route: Route, disk: Disk, is_open_before: bool) {
    let case =
        format!("{protocol:?} {route:?} {disk:?}, open for writing before: {is_open_before}");
    let library = Library::new();
    let new = Content::new(3, FILM_BYTES);
    let open = || File::options().write(true).open(library.film_path()).unwrap();
    let opened_before = is_open_before.then(open);
    let served = library.serve_by(route, protocol, disk);
    let etag_of = |response: &Response| response.field("ETag").unwrap().to_owned();
    let mut asking = served.viewer();
    asking.send(b"HEAD /film.mp4 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let old_etag = etag_of(&asking.response(false).unwrap());

    let mut viewer = served.narrow_viewer(16 << 10);
    viewer.send(b"GET /film.mp4 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    viewer.head().unwrap();
    let (received, result) = viewer.body(100_000);
    result.unwrap();
    let watching = Watching { viewer, content: &library.film, received };
    await_quiet(&served);
    let is_sent_by_kernel = served.number(|n| &n.sendfile_bytes_total) > 0;

    let film = opened_before.unwrap_or_else(open);
    let modified = film.metadata().unwrap().modified().unwrap();
    new.write_into(&film).unwrap();
    film.set_times(FileTimes::new().set_modified(modified)).unwrap();
    drop(film);

    let (received, content) = watching.end_early(&case);
    if !(is_sent_by_kernel && protocol == Protocol::Plain) {
        content.assert_holds(0, &received, &case);
    }
    let is_held = library.can_be_held() && !is_open_before;
    let label = if is_held { "file_recalled" } else { "file_changed" };
    served.await_count(Family::Ends, label, 1);

    let response = served.viewer().ask("/film.mp4");
    assert_ne!(etag_of(&response), old_etag, "{case}: two versions under one tag");
    assert_shows(&response, Some(&new), &case);
    for condition in ["If-None-Match", "If-Range"] {
        let mut viewer = served.viewer();
        let head = format!(
            "GET /film.mp4 HTTP/1.1\r\nHost: h\r\nRange: bytes=9-\r\n{condition}: {old_etag}\r\n\r\n"
        );
        viewer.send(head.as_bytes()).unwrap();
        let status = if condition == "If-Range" { 200 } else { 206 };
        assert_eq!(viewer.response(true).unwrap().status, status, "{case}: {condition}");
    }
    served.stop();
}

#[test]
fn a_file_whose_time_was_set_back_is_another_version_all_the_same() {
    let ways = [
        (Protocol::Plain, Route::Userspace),
        (Protocol::Plain, Route::Kernel),
        (Protocol::Tls13, Route::Userspace),
    ];
    for (protocol, route) in ways {
        for is_open_before in [false, true] {
            overwrite_and_set_back(protocol, route, Disk::Cached, is_open_before);
        }
        overwrite_and_set_back(protocol, route, Disk::Direct, false);
    }
}

/// Everyday operations on a library that change no byte of a film: other titles are published, a backup runs, an
/// administrator changes permissions.
fn keep_house(library: &Library, number: u32) {
    let root = library.dir.path();
    let film = library.film_path();
    std::fs::create_dir(root.join(".ingest-next")).unwrap();
    std::fs::write(root.join(".ingest-next/master.m3u8"), "#EXTM3U\n").unwrap();
    std::fs::rename(root.join(".ingest-next"), root.join(format!("next-{number}"))).unwrap();
    std::fs::set_permissions(&film, Permissions::from_mode(0o644)).unwrap();
    let backup = root.join("backup");
    std::fs::hard_link(&film, &backup).unwrap();
    std::fs::remove_file(&backup).unwrap();
    let accessed = FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH);
    File::open(&film).unwrap().set_times(accessed).unwrap();
    std::fs::rename(&film, root.join("other-name")).unwrap();
    std::fs::rename(root.join("other-name"), &film).unwrap();
}

#[test]
fn publishing_and_housekeeping_disturb_no_viewer_of_a_file_that_is_held_still() {
    for (protocol, route) in [
        (Protocol::Plain, Route::Userspace),
        (Protocol::Plain, Route::Kernel),
        (Protocol::Tls13, Route::Userspace),
    ] {
        let library = Library::new();
        if !library.can_be_held() {
            return;
        }
        let case = format!("{protocol:?} {route:?}");
        let served = library.serve_by(route, protocol, Disk::Auto);
        let watching = Watching::begin(&served, "/film.mp4", &library.film);
        keep_house(&library, 1);
        assert_shows(&served.viewer().ask("/film.mp4"), Some(&library.film), &case);
        keep_house(&library, 2);
        watching.assert_goes_on(&case);
        served.stop();
        assert_eq!(served.number(|n| &n.files_open_for_writing_total), 0, "{case}");
    }
}

#[test]
fn a_file_that_somebody_has_open_for_writing_is_counted() {
    let library = Library::new();
    let _writer = MappedWriter::open(&library.film_path());
    let served = library.serve(Protocol::Tls13, Disk::Auto);
    assert_shows(&served.viewer().ask("/film.mp4"), Some(&library.film), "mapped");
    served.stop();
    if library.can_be_held() {
        assert_eq!(served.number(|n| &n.files_open_for_writing_total), 1);
    }
}

#[test]
fn a_disk_that_fails_under_a_response_ends_it_and_serves_again_when_it_is_back() {
    let ways = [
        (Protocol::Plain, Route::Userspace),
        (Protocol::Plain, Route::Kernel),
        (Protocol::Tls13, Route::Userspace),
    ];
    for ((protocol, route), disk) in ways.into_iter().flat_map(|w| POLICIES.map(|d| (w, d))) {
        let case = format!("EIO under {protocol:?} {route:?} {disk:?}");
        let library = Library::new();
        let at = library.dir.path().join("disk");
        std::fs::create_dir(&at).unwrap();
        let failing = match FailingDisk::mount(&at) {
            Ok(failing) => failing,
            Err(why) => {
                fullbore_tests::tool::skip(&format!("the failing disk: {why}"));
                return;
            }
        };
        library.film.write(&at.join("film.mp4")).unwrap();
        File::open(at.join("film.mp4")).unwrap().sync_all().unwrap();
        let served = library.serve_by(route, protocol, disk);
        let watching = Watching::begin(&served, "/disk/film.mp4", &library.film);
        let other = Watching::begin(&served, "/other.mp4", &library.other);
        failing.fail();
        watching.assert_ends_early(&case);
        served.await_count(Family::Ends, "file_io", 1);
        other.assert_goes_on(&case);

        // Within a second the open file is dropped, and then opening it fails.
        let ask = || {
            let mut viewer = served.viewer();
            viewer.send(b"GET /disk/film.mp4 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            viewer.response(true)
        };
        let status = || ask().map_or(0, |response| response.status);
        await_that(|| status() == 500, || format!("{case}: status {}", status()));
        assert!(served.count(Family::Refusals, "internal") >= 1);

        failing.unmount().unwrap();
        failing.mount_again().unwrap();
        await_that(|| status() == 200, || format!("{case}: status {} once it is back", status()));
        assert_shows(&ask().unwrap(), Some(&library.film), &case);
        served.await_buffers_back();
        served.stop();
    }
}

/// The limit covers a whole process, so this test gets a process of its own.
#[test]
fn running_out_of_descriptors_refuses_newcomers_and_passes() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::descriptors_run_out_here", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "takes every descriptor of its process; run by running_out_of_descriptors_refuses_newcomers_and_passes"]
fn descriptors_run_out_here() {
    // Before the server starts, because a pending accept keeps the limit with which it began.
    let limit = Rlimit { current: Some(200), maximum: Some(200) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let library = Library::new();
    let served = library.serve(Protocol::Tls13, Disk::Cached);
    let watching = Watching::begin(&served, "/film.mp4", &library.film);
    let mut waiting = served.viewer();
    let mut hold = take_all_descriptors();

    // A file that is not open yet cannot be opened.
    let response = waiting.ask("/other.mp4");
    assert_eq!((response.status, response.field("Retry-After")), (503, Some("5")));
    assert_eq!(served.count(Family::Refusals, "unavailable"), 1);
    drop(waiting);
    served.await_count(Family::Ends, "answered", 1);

    // One descriptor for a new viewer's end, none for the server's. The server may free one a moment later, such as that of the viewer who has
    // just left, and accept the newcomer with it. Then the next newcomer has to wait.
    let (pauses, accepted) = (
        || served.number(|n| &n.accept_pauses_total),
        || served.number(|n| &n.connections_accepted_total),
    );
    let (before, mut newcomers) = (accepted(), Vec::new());
    let accepting_pauses = || {
        if accepted() == before + newcomers.len() as u64 {
            hold.extend(take_all_descriptors());
            hold.pop();
            newcomers.extend(std::net::TcpStream::connect(served.address()).ok());
        }
        pauses() > 1
    };
    await_that(accepting_pauses, || "accepting did not pause".into());

    watching.assert_goes_on("out of descriptors");
    drop(hold);
    drop(newcomers);
    assert_shows(&served.viewer().ask("/other.mp4"), Some(&library.other), "recovered");
    served.stop();
}

/// Uses up every descriptor that this process may still open.
fn take_all_descriptors() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}
