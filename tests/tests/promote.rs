//! Copies of the busiest titles on a faster disk: viewers notice only the disk.

use catalog::{FileRecord, MARK, RECORD, Record};
use fullbore_tests::tool::{self, Ran};
use fullbore_tests::{
    FILM, Launch, Plain, Server, eventually, free_port, make_title, program, until,
};
use ingest::promote::{Busy, Done, PromoteError, Promotion};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tempfile::{TempDir, tempdir};

/// More than sockets buffer for a viewer who doesn't read.
const FILM_BYTES: usize = 24 << 20;

/// Bytes that depend on their place.
fn film(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at / 3 + seed * 7919).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A library of two folders: `ssd`, empty, and `hdd`, with two titles.
struct Disks {
    dir: TempDir,
    first: Vec<u8>,
    version: String,
}

impl Disks {
    fn new() -> Self {
        let dir = tempdir().unwrap();
        fs::create_dir(dir.path().join("ssd")).unwrap();
        let first = film(1, FILM_BYTES);
        let version = make(&dir.path().join("hdd/first"), &first);
        make(&dir.path().join("hdd/second"), &film(2, FILM_BYTES));
        Self { dir, first, version }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn serve(&self) -> Server {
        let launch = Launch::bare().arguments("--tls off");
        launch.argument(self.path("ssd")).argument(self.path("hdd")).start()
    }

    /// The film of the first title.
    fn url(&self) -> String {
        format!("/first/{}/{FILM}", self.version)
    }

    /// Promotes titles with room for one, by the status of the server at this address.
    fn promote(&self, status: SocketAddr) -> Ran {
        self.promote_with(status, &[])
    }

    fn promote_with(&self, status: SocketAddr, options: &[&str]) -> Ran {
        let status = format!("http://{status}");
        let [ssd, hdd] = ["ssd", "hdd"].map(|name| self.path(name));
        let mut command = tool::command(program().to_str().unwrap());
        command.args(["library", "promote"]).args(options);
        command.args(["--bytes", "30M", "--status", &status, "--to"]);
        tool::run(command.arg(&ssd).arg("--library").arg(&ssd).arg("--library").arg(&hdd))
    }

    /// Promotes these titles, and returns the output; `meanwhile` is called after each step.
    fn run(&self, titles: &[&str], bytes_max: u64, meanwhile: impl Fn(&Done)) -> Vec<Done> {
        let busy = |title: &&str| Busy { title: (*title).into(), gbps: 1.0, is_watched: true };
        let busy: Vec<_> = titles.iter().map(busy).collect();
        let promotion = Promotion { to: self.path("ssd"), from: vec![self.path("hdd")], bytes_max };
        // A program that another test is starting holds the last run's lock until its exec (flock(2)).
        eventually("the lock of the last run to be free", || {
            let mut all = Vec::new();
            let told = promotion.run(&busy, |done| {
                meanwhile(&done);
                all.push(done);
            });
            if let Err(PromoteError::Busy(_)) = told {
                return None;
            }
            told.unwrap();
            Some(all)
        })
    }

    /// Makes copies of the first title, or none.
    fn run_for_first(&self, bytes_max: u64) -> Vec<Done> {
        self.run(if bytes_max > 0 { &["first"] } else { &[] }, bytes_max, |_| ())
    }

    fn has(&self, path: &str) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }

    /// Changes the record of the first title on the hard disk by `change`, and seals it.
    fn forge(&self, change: impl FnOnce(&mut Record)) {
        let path = self.path("hdd/first").join(RECORD);
        let mut record: Record = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut record);
        fs::write(&path, record.seal()).unwrap();
    }

    /// Whether the film is served from the folder `disk`, by its tag, which has the inode.
    fn is_served_from(&self, server: &Server, disk: &str) -> bool {
        let file = fs::metadata(self.path(disk).join(&self.url()[1..])).unwrap();
        let head =
            Plain::connect(server.address).fetch_with(&self.url(), "Range: bytes=0-0\r\n").head;
        head.to_ascii_lowercase().contains(&format!("etag: \"{:x}-", file.ino()))
    }

    fn await_served_from(&self, server: &Server, disk: &str) {
        until(&format!("{disk} to serve it"), || self.is_served_from(server, disk));
    }

    /// Watches the first title while `during` runs: ranges all over the film, on connections that stay. Each must get a right answer.
    fn while_watched<T>(&self, server: &Server, during: impl FnOnce() -> T) -> T {
        let (ends, answers) = (AtomicBool::new(false), AtomicU64::new(0));
        let watch = |viewer: usize| {
            let mut connection = Plain::connect(server.address);
            let mut at = viewer * 1_000_003;
            while !ends.load(Ordering::Relaxed) {
                at = (at + 7_654_321) % (FILM_BYTES - 300_000);
                let range = format!("Range: bytes={at}-{}\r\n", at + 299_999);
                let answer = connection.fetch_with(&self.url(), &range);
                assert_eq!(answer.status, 206, "at {at}: {}", answer.head);
                assert!(answer.body == self.first[at..at + 300_000], "wrong bytes at {at}");
                answers.fetch_add(1, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            let viewers: Vec<_> =
                (1..=3).map(|viewer| scope.spawn(move || watch(viewer))).collect();
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                until("viewers", || answers.load(Ordering::Relaxed) > 20);
                let done = during();
                let before = answers.load(Ordering::Relaxed);
                until("viewers to go on", || answers.load(Ordering::Relaxed) > before + 20);
                done
            }));
            ends.store(true, Ordering::Relaxed);
            viewers.into_iter().for_each(|viewer| viewer.join().unwrap());
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn make(folder: &Path, film: &[u8]) -> String {
    fs::create_dir_all(folder).unwrap();
    make_title(folder, film).unwrap()
}

/// A status in which these titles are requested: each with its rate, and whether it is being watched.
fn status_of(titles: &[(&str, f64, bool)]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let title = |(title, gbps, is_watched): &(&str, f64, bool)| {
        let now = if *is_watched { 1.0 } else { 0.0 };
        format!(r#"{{"title":"{title}","gbps":{now},"gbps_hour":{gbps},"bytes":1}}"#)
    };
    let titles: Vec<_> = titles.iter().map(title).collect();
    let body = format!(r#"{{"titles":[{}]}}"#, titles.join(","));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    address
}

#[test]
fn viewers_play_on_while_a_title_is_promoted_and_taken_away_again() {
    let disks = Disks::new();
    let server = disks.serve();
    assert!(disks.is_served_from(&server, "hdd"));
    disks.while_watched(&server, || {
        // The server reports a busy title once its viewers' responses have ended.
        let promoted = eventually("the busiest title to be promoted", || {
            let ran = disks.promote(server.admin);
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            (!ran.stdout.is_empty()).then(|| ran.text())
        });
        assert_eq!(promoted, "promoted: first\n");
        disks.await_served_from(&server, "ssd");
    });
    // A viewer who takes the copy slowly.
    let mut slow = Plain::connect(server.address);
    slow.ask(&disks.url());
    let (status, _, bytes) = slow.head();
    assert_eq!((status, bytes), (200, FILM_BYTES));
    let begin = slow.body(1000);
    disks.while_watched(&server, || {
        let watched = status_of(&[("first", 1.0, true), ("second", 9.0, true)]);
        let ran = disks.promote(watched);
        assert!(ran.text().starts_with("kept: first (it is being watched"), "{}", ran.text());
        let ran = disks.promote(status_of(&[("first", 1.0, false), ("second", 9.0, true)]));
        assert_eq!(ran.text(), "taken away: first (less busy than others)\n", "{}", ran.stderr);
        disks.await_served_from(&server, "hdd");
    });
    let rest = slow.body(FILM_BYTES - 1000);
    assert!(begin == disks.first[..1000] && rest == disks.first[1000..], "the copy that is gone");
    // It stays there, and takes up space, until a day has passed.
    assert_eq!(disks.promote(status_of(&[("second", 9.0, true)])).text(), "");
    let gone = disks.path("ssd/.promoted/gone");
    let kept = fs::read_dir(&gone).unwrap().next().unwrap().unwrap().path();
    fs::rename(kept, gone.join("1-first")).unwrap();
    let ran = disks.promote(status_of(&[("second", 9.0, true)]));
    assert_eq!(ran.text(), "promoted: second\n", "{}", ran.stderr);
    assert!(fs::read_dir(disks.path("ssd/.promoted/gone")).unwrap().next().is_none());
    assert!(!server.said().contains("hidden"), "a copy is no mistake: {}", server.said());
}

#[test]
fn a_sites_titles_are_promoted_by_any_of_its_hosts_and_no_others_are() {
    let disks = Disks::new();
    fs::create_dir(disks.path("own")).unwrap();
    let [own, ssd, hdd] = ["own", "ssd", "hdd"].map(|name| disks.path(name));
    let site =
        format!("[[sites]]\nhosts = [\"a.example\", \"localhost\"]\nlibrary = [{ssd:?}, {hdd:?}]");
    fs::write(disks.path("fullbore.toml"), format!("library = {own:?}\n{site}\n")).unwrap();
    let launch = Launch::bare().arguments("--tls off").argument("--config");
    let server = launch.argument(disks.path("fullbore.toml")).start();
    // Its viewers come by the site's second host.
    disks.while_watched(&server, || {
        eventually("the status to name the title", || {
            server.admin_page("/status.json").1.contains("\"a.example:first\"").then_some(())
        });
    });
    let ran = disks.promote(server.admin);
    assert_eq!((ran.code, ran.text().as_str()), (Some(0), ""), "{}", ran.stderr);
    assert_eq!(ran.stderr, "", "titles of sites are none of the library's own");
    let ran = disks.promote_with(server.admin, &["--host", "b.example"]);
    let hosts = "none of the server's [[sites]] has it, but they have a.example, localhost";
    assert!(ran.code == Some(1) && ran.stderr.contains(hosts), "{}", ran.stderr);
    let ran = disks.promote_with(server.admin, &["--host", "LocalHost"]);
    assert_eq!(ran.text(), "promoted: first\n", "{}", ran.stderr);
    disks.await_served_from(&server, "ssd");
    let ran = disks.promote_with(status_of(&[]), &["--host", "a.example"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("has no [[sites]]"), "{}", ran.stderr);
}

#[test]
fn a_copy_follows_its_title_to_a_new_version_and_out_of_the_library() {
    let disks = Disks::new();
    let server = disks.serve();
    let busy = status_of(&[("first", 1.0, true)]);
    assert_eq!(disks.promote(busy).text(), "promoted: first\n");
    disks.await_served_from(&server, "ssd");
    let verified = |folder: &str| {
        let mut command = Command::new(program());
        command.args(["library", "verify", "--library"]).arg(disks.path(folder));
        tool::run(&mut command).code
    };
    assert_eq!(verified("ssd"), Some(0));
    let copy = disks.path("ssd").join(&disks.url()[1..]);
    let mut damaged = disks.first.clone();
    damaged[5] ^= 1;
    fs::write(&copy, &damaged).unwrap();
    assert_eq!(verified("ssd"), Some(1), "the copy is damaged");
    fs::write(&copy, &disks.first).unwrap();
    let newer = film(3, 3_000_000);
    let version = make(&disks.path("hdd/first"), &newer);
    let manifest = || Plain::connect(server.address).fetch("/first/master.m3u8").body;
    until("the new version", || manifest() == format!("#EXTM3U\n{version}/{FILM}\n").as_bytes());
    let answer = Plain::connect(server.address).fetch(&format!("/first/{version}/{FILM}"));
    assert!(answer.status == 200 && answer.body == newer);
    // Viewers of the old version continue.
    let answer = Plain::connect(server.address).fetch(&disks.url());
    assert!(answer.status == 200 && answer.body == disks.first);
    let ran = disks.promote(busy);
    assert_eq!(ran.text(), "taken away: first (replaced)\npromoted: first\n", "{}", ran.stderr);
    let copy = disks.path("ssd/first").join(&version).join(FILM);
    let [copied, original] = [&copy, &disks.path("hdd/first").join(&version).join(FILM)]
        .map(|path| fs::metadata(path).unwrap());
    assert_eq!(copied.modified().unwrap(), original.modified().unwrap());
    // A title that the operator removes is gone, although there is a copy.
    fs::rename(disks.path("hdd/first"), disks.path("hdd/.first")).unwrap();
    let status = || Plain::connect(server.address).fetch("/first/master.m3u8").status;
    // Each worker learns of it within a second; the kernel chooses which one answers.
    until("the title to be gone", || (0..16).all(|_| status() == 404));
    assert_eq!(disks.promote(busy).text(), "taken away: first (removed)\n");
    assert_eq!(fs::read_dir(disks.path("ssd/.promoted/gone")).unwrap().count(), 2);
    assert_eq!(status(), 404);
}

#[test]
fn what_cannot_be_copied_is_told_and_leaves_nothing_behind() {
    let disks = Disks::new();
    fs::create_dir_all(disks.path("hdd/plain")).unwrap();
    fs::write(disks.path("hdd/plain/master.m3u8"), "#EXTM3U\n").unwrap();
    let busy = [("plain", 3.0, true), ("series/one", 2.0, true), ("first", 1.0, true)];
    // Damage that only the checksums show.
    let damaged = disks.path("hdd/first").join(&disks.version).join(FILM);
    let mut bytes = disks.first.clone();
    bytes[1_000_000] ^= 1;
    fs::write(&damaged, &bytes).unwrap();
    let ran = disks.promote(status_of(&busy));
    assert_eq!((ran.code, ran.text().as_str()), (Some(1), ""), "{}", ran.stderr);
    for told in [
        "plain is not promoted: only a title made by ingest",
        "series/one is not promoted: only a title at the top",
        "does not match its SHA-256",
    ] {
        assert!(ran.stderr.contains(told), "{told:?} is not in: {}", ran.stderr);
    }
    assert!(!disks.path("ssd/first").exists());
    assert!(fs::read_dir(disks.path("ssd/.promoted/work")).unwrap().next().is_none());
    // A title of the folder's own is not touched.
    fs::write(&damaged, &disks.first).unwrap();
    make(&disks.path("ssd/first"), b"another film");
    let ran = disks.promote(status_of(&busy));
    assert!(ran.stderr.contains("has a title of that name, which is not a copy"), "{}", ran.stderr);
    assert!(disks.path("ssd/first/title.json").exists());
    // Without a server it is unknown which titles are busy.
    let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let ran = disks.promote(nobody);
    assert!(ran.code == Some(1) && ran.stderr.contains("--status"), "{}", ran.stderr);
}

#[test]
fn a_full_disk_gets_no_copy_and_loses_none() {
    let disks = Disks::new();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=12m", "tmpfs"]).arg(disks.path("ssd"));
    if !mount.output().is_ok_and(|done| done.status.success()) {
        return tool::skip("cannot mount a small disk, which takes root");
    }
    let ran = disks.promote(status_of(&[("first", 1.0, true)]));
    let left = fs::read_dir(disks.path("ssd/.promoted/work")).unwrap().count();
    let is_there = disks.path("ssd/first").exists();
    let _ = Command::new("umount").arg("-l").arg(disks.path("ssd")).status();
    assert!(ran.code == Some(1) && ran.stderr.contains("No space left"), "{}", ran.stderr);
    assert!(left == 0 && !is_there);
}

/// More than all titles have.
const ROOM: u64 = 1 << 30;

#[test]
fn a_title_of_the_folders_own_is_never_taken_for_a_copy() {
    let disks = Disks::new();
    // The operator puts a title in place while others are copied.
    let done = disks.run(&["first", "second"], ROOM, |done| {
        if *done == Done::Promoted("first".into()) {
            make(&disks.path("ssd/second"), b"the operator's own");
        }
    });
    assert_eq!(done[0], Done::Promoted("first".into()));
    assert!(matches!(&done[1], Done::Failed(title, _) if title == "second"), "{done:?}");
    assert!(disks.has("ssd/first/.copy.json") && !disks.has("ssd/second/.copy.json"));
    // The operator turns a copy into another title.
    make(&disks.path("ssd/first"), b"another film");
    let done = disks.run_for_first(0);
    assert!(matches!(&done[..], [Done::Left(path, _)] if *path == disks.path("ssd/first")));
    fs::rename(disks.path("hdd/second"), disks.path("hdd/.second")).unwrap();
    fs::rename(disks.path("hdd/first"), disks.path("hdd/.first")).unwrap();
    disks.run_for_first(0);
    assert!(disks.has("ssd/first/title.json") && disks.has("ssd/second/title.json"));
    // Ingest refuses to.
    let mut command = Command::new(program());
    command.args(["ingest", "/dev/null", "--title", "first", "--library"]);
    let ran = tool::run(command.arg(disks.path("ssd")));
    assert!(ran.code == Some(1) && ran.stderr.contains("is a copy that"), "{}", ran.stderr);
}

#[test]
fn without_room_all_copies_are_taken_away_and_no_server_is_asked() {
    let disks = Disks::new();
    assert_eq!(disks.run(&["first", "second"], ROOM, |_| ()).len(), 2);
    let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut command = Command::new(program());
    command.args(["library", "promote", "--bytes", "0", "--status", &format!("http://{nobody}")]);
    command.arg("--to").arg(disks.path("ssd")).arg("--library").arg(disks.path("hdd"));
    let ran = tool::run(&mut command);
    let [first, second] =
        ["first", "second"].map(|title| format!("taken away: {title} (less busy than others)\n"));
    assert_eq!((ran.code, ran.text()), (Some(0), first + &second), "{}", ran.stderr);
    assert!(!disks.has("ssd/first") && !disks.has("ssd/second"));
}

#[test]
fn a_hostile_record_leads_nowhere() {
    let disks = Disks::new();
    let outside = disks.path("outside");
    fs::write(&outside, "secret").unwrap();
    for path in [outside.to_str().unwrap(), "../../../../outside", "v/../../x", ".hidden"] {
        disks.forge(|record| record.files[0].path = path.to_owned());
        let done = disks.run_for_first(ROOM);
        let is_refused = |why: &str| why.contains("no title has a file or folder");
        assert!(matches!(&done[..], [Done::Skipped(_, why)] if is_refused(why)), "{done:?}");
    }
    // A link to the right bytes.
    disks.forge(|record| record.files[0].path = format!("{}/{FILM}", record.folder));
    let film = disks.path("hdd").join(&disks.url()[1..]);
    fs::rename(&film, disks.path("elsewhere")).unwrap();
    symlink(disks.path("elsewhere"), &film).unwrap();
    let done = disks.run_for_first(ROOM);
    assert!(matches!(&done[..], [Done::Failed(_, why)] if why.contains("cannot read")), "{done:?}");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "secret");
    assert!(!disks.has("ssd/first") && !disks.has("ssd/.promoted/work/first"));
    // A folder that we could not rename or remove.
    fs::remove_file(&film).unwrap();
    fs::rename(disks.path("elsewhere"), &film).unwrap();
    fs::set_permissions(disks.path("hdd/first"), fs::Permissions::from_mode(0o555)).unwrap();
    assert_eq!(disks.run_for_first(ROOM), [Done::Promoted("first".into())]);
    let mode = fs::metadata(disks.path("ssd/first")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

/// The forms keep the modification times of their manifests, by which the server recognises them.
#[test]
fn a_copy_has_the_compressed_forms_of_the_manifests_that_the_original_has() {
    let disks = Disks::new();
    let original = disks.path("hdd/first");
    let date = fs::metadata(original.join("master.m3u8")).unwrap().modified().unwrap();
    for name in ["master.m3u8.br", "manifest.mpd.gz"] {
        fs::write(original.join(name), name).unwrap();
        fs::File::options()
            .append(true)
            .open(original.join(name))
            .unwrap()
            .set_modified(date)
            .unwrap();
    }
    disks.forge(|record| {
        let form = |name: &str| FileRecord::of_file(&original.join(name), name).unwrap();
        record.manifest_forms = vec![form("master.m3u8.br"), form("manifest.mpd.gz")];
    });
    fs::remove_file(original.join("manifest.mpd.gz")).unwrap();
    assert_eq!(disks.run_for_first(ROOM), [Done::Promoted("first".into())]);
    let copy = fs::metadata(disks.path("ssd/first/master.m3u8.br")).unwrap();
    assert_eq!(copy.modified().unwrap(), date);
    assert!(!disks.has("ssd/first/manifest.mpd.gz"));
    let server = disks.serve();
    let answer =
        Plain::connect(server.address).fetch_with("/first/master.m3u8", "Accept-Encoding: br\r\n");
    assert_eq!((answer.status, &answer.body[..]), (200, &b"master.m3u8.br"[..]), "{}", answer.head);
}

#[test]
fn a_copy_outlives_a_disk_that_dies() {
    let disks = Disks::new();
    assert_eq!(disks.run_for_first(ROOM), [Done::Promoted("first".into())]);
    let is_kept = || {
        [ROOM, 0].into_iter().all(|room| {
            let done = disks.run_for_first(room);
            let is_told = done.iter().any(|one| matches!(one, Done::Kept(..)));
            is_told && disks.has("ssd/first/title.json")
        })
    };
    let (hdd, away) = (disks.path("hdd"), disks.path("away"));
    fs::rename(&hdd, &away).unwrap();
    assert!(is_kept(), "the folder is gone");
    fs::create_dir(&hdd).unwrap();
    assert!(is_kept(), "nothing is mounted there");
    fs::remove_dir(&hdd).unwrap();
    fs::rename(&away, &hdd).unwrap();
    let record = hdd.join("first").join(RECORD);
    let whole = fs::read(&record).unwrap();
    fs::write(&record, "{").unwrap();
    assert!(is_kept(), "its record is damaged");
    fs::remove_file(&record).unwrap();
    assert!(is_kept(), "its record is gone");
    fs::write(&record, whole).unwrap();
    // Another disk, by its number.
    let mark = disks.path("ssd/first").join(MARK);
    let mut forged: serde_json::Value = serde_json::from_slice(&fs::read(&mark).unwrap()).unwrap();
    forged["device"] = 1.into();
    fs::write(&mark, forged.to_string()).unwrap();
    fs::rename(hdd.join("first"), hdd.join(".first")).unwrap();
    assert!(is_kept(), "another disk is mounted there");
    // The run notes the new number, and then the title is clearly removed.
    fs::rename(hdd.join(".first"), hdd.join("first")).unwrap();
    assert!(disks.run_for_first(ROOM).is_empty());
    fs::rename(hdd.join("first"), hdd.join(".first")).unwrap();
    assert_eq!(disks.run_for_first(ROOM), [Done::TakenAway("first".into(), "removed")]);
}
