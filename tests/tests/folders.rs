//! A library of several folders, one for each disk, as the operator configures it and as viewers see it.

use fullbore_tests::tool::{self, Ran};
use fullbore_tests::{Launch, Plain, Server, eventually, make_title, program, until};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::{TempDir, tempdir};

/// Folders `d0` and `d1`, each with a film of its own.
struct Disks(TempDir);

impl Disks {
    fn new() -> Self {
        let disks = Self(tempdir().unwrap());
        for name in ["d0", "d1"] {
            fs::create_dir(disks.path(name)).unwrap();
            disks.write(&format!("{name}/film-{name}.mp4"), name);
        }
        disks
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("temporary folders have plain names").to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn launch(&self, names: &[&str]) -> Launch {
        let launch = Launch::bare().arguments("--tls off");
        names.iter().fold(launch, |launch, name| launch.argument(self.path(name)))
    }

    fn serve(&self) -> Server {
        self.launch(&["d0", "d1"]).start()
    }
}

fn get(server: &Server, path: &str) -> (u16, String) {
    let response = Plain::connect(server.address).fetch(path);
    (response.status, String::from_utf8_lossy(&response.body).into_owned())
}

fn status(server: &Server, path: &str) -> u16 {
    get(server, path).0
}

fn fullbore(arguments: &[&str]) -> Ran {
    tool::run(tool::command(program().to_str().unwrap()).args(arguments))
}

/// Starting with these folders fails with this exit code, and one line has all `parts`.
#[track_caller]
fn assert_refused(disks: &Disks, folders: &[&str], code: i32, parts: &[&str]) {
    let folders: Vec<_> = folders.iter().map(|name| disks.text(name)).collect();
    let launch = Launch::bare().arguments("--tls off").state(disks.text("state").as_ref());
    let ran = folders.iter().fold(launch, Launch::argument).run();
    assert_eq!(ran.code, Some(code), "{folders:?}: {}", ran.stderr);
    assert!(ran.stdout.is_empty() && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    for part in parts {
        assert!(ran.stderr.contains(part), "{part:?} is not in: {}", ran.stderr);
    }
}

#[test]
fn titles_of_all_folders_are_in_one_library() {
    let disks = Disks::new();
    disks.write("d1/series/1/master.m3u8", "#EXTM3U\n");
    let server = disks.serve();
    assert_eq!(get(&server, "/film-d0.mp4"), (200, "d0".into()));
    assert_eq!(get(&server, "/film-d1.mp4"), (200, "d1".into()));
    assert_eq!(status(&server, "/series/1/master.m3u8"), 200);
    assert_eq!(status(&server, "/film-d2.mp4"), 404);
    for said in ["title     film-d0.mp4", "title     film-d1.mp4", "title     series/1"] {
        server.stdout.wait_for(said);
    }
    let library = server.stdout.wait_for("library ");
    assert!(library.contains(&disks.text("d0")) && library.contains(&disks.text("d1")));
    // Both are in one temporary folder.
    server.stdout.wait_for("they die together");
    let shelf: Value = eventually("a whole shelf", || {
        let shelf: Value = serde_json::from_str(&get(&server, "/-/titles.json").1).unwrap();
        (shelf["is_complete"] == true).then_some(shelf)
    });
    let names: Vec<_> = shelf["titles"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["film-d0.mp4", "film-d1.mp4", "series/1"]);
}

#[test]
fn the_configuration_takes_one_folder_or_a_list_and_the_flag_repeats() {
    let disks = Disks::new();
    let (d0, d1) = (disks.path("d0"), disks.path("d1"));
    let serve = |config: &str| Launch::bare().arguments("--tls off").config(config).start();
    let one = serve(&format!("library = {d1:?}\n"));
    assert_eq!((status(&one, "/film-d1.mp4"), status(&one, "/film-d0.mp4")), (200, 404));
    let list = serve(&format!("library = [{d0:?}, {d1:?}]\n"));
    assert_eq!((status(&list, "/film-d1.mp4"), status(&list, "/film-d0.mp4")), (200, 200));
    let flags = Launch::bare().arguments("--tls off --library").argument(&d0);
    let flags = flags.argument("--library").argument(&d1).start();
    assert_eq!((status(&flags, "/film-d1.mp4"), status(&flags, "/film-d0.mp4")), (200, 200));

    for (wrong, said) in [("library = []", "empty list"), ("library = 7", "list of folders")] {
        disks.write("wrong.toml", wrong);
        let ran = fullbore(&["serve", "--check", "--config", &disks.text("wrong.toml")]);
        assert!(ran.code == Some(2) && ran.stderr.contains(said), "{wrong}: {}", ran.stderr);
    }
}

#[test]
fn folders_that_cannot_be_served_together_are_refused() {
    let disks = Disks::new();
    fs::create_dir(disks.path("d0/inside")).unwrap();
    std::os::unix::fs::symlink(disks.path("d0"), disks.path("link")).unwrap();
    assert_refused(&disks, &["d0", "d1", "d0"], 2, &["twice", &disks.text("d0")]);
    assert_refused(&disks, &["d0", "link"], 2, &["the same folder", &disks.text("link")]);
    assert_refused(&disks, &["d0/inside", "d1", "d0"], 2, &["is inside its folder"]);
    let film = disks.text("d0/film-d0.mp4");
    assert_refused(&disks, &["d1", "d0/film-d0.mp4"], 1, &[&film, "not a directory"]);
    assert_refused(
        &disks,
        &["d7", "d8"],
        1,
        &["none of the library's 2 folders", "mount the disks"],
    );
    assert_refused(&disks, &["d7"], 1, &["d7", "not a directory"]);
}

#[test]
fn of_two_titles_with_one_name_the_first_folders_is_served_whole() {
    let disks = Disks::new();
    for name in ["d0", "d1"] {
        disks.write(&format!("{name}/both/master.m3u8"), name);
        disks.write(&format!("{name}/both/{name}.ts"), name);
    }
    let server = disks.serve();
    let hidden = server.stdout.wait_for("hidden ");
    let line = format!("both in {} is hidden, because {}", disks.text("d1"), disks.text("d0"));
    assert!(hidden.contains(&line), "{hidden}");
    assert_eq!(get(&server, "/both/master.m3u8"), (200, "d0".into()));
    assert_eq!(status(&server, "/both/d0.ts"), 200);
    assert_eq!(status(&server, "/both/d1.ts"), 404);

    // When the first is gone, the second takes its place.
    fs::remove_dir_all(disks.path("d0/both")).unwrap();
    until("the other to be served", || status(&server, "/both/d1.ts") == 200);
    assert_eq!(get(&server, "/both/master.m3u8"), (200, "d1".into()));
    assert_eq!(status(&server, "/both/d0.ts"), 404);
}

#[test]
fn a_title_that_appears_later_is_served_and_takes_no_other_ones_place() {
    let disks = Disks::new();
    let server = disks.serve();
    disks.write("d1/later.mp4", "later");
    until("the new film", || status(&server, "/later.mp4") == 200);

    disks.write("d0/film-d1.mp4", "not d1");
    let said = server.stderr.wait_for("film-d1.mp4");
    assert!(said.contains(&format!("{} is hidden", disks.text("d0"))), "{said}");
    server.wait_for_news();
    assert_eq!(get(&server, "/film-d1.mp4"), (200, "d1".into()));
    drop(server);
    // At the next start the configured order decides.
    let server = disks.serve();
    assert_eq!(get(&server, "/film-d1.mp4"), (200, "not d1".into()));
}

#[test]
fn with_one_disk_missing_the_others_are_served_and_that_is_said_everywhere() {
    let disks = Disks::new();
    let d7 = disks.text("d7");
    let server = disks.launch(&["d0", "d7", "d1"]).start();
    assert_eq!((status(&server, "/film-d0.mp4"), status(&server, "/film-d1.mp4")), (200, 200));
    assert_eq!(status(&server, "/film-d7.mp4"), 404);
    for said in [server.stdout.wait_for("trouble "), server.stderr.wait_for("is missing")] {
        assert!(said.contains(&d7) && said.contains("restart the server"), "{said}");
    }
    let (code, health) = server.admin_page("/healthz");
    assert!(code == 200 && health.starts_with("ok, but ") && health.contains(&d7), "{health}");
    let numbers = ["library_lost", "library_folders"].map(|name| server.counter(name));
    assert_eq!(numbers, [1, 3]);
    let status_json: Value = serde_json::from_str(&server.admin_page("/status.json").1).unwrap();
    let folders = status_json["library"].as_array().unwrap();
    assert!(folders[0]["trouble"].is_null() && folders[1]["trouble"].is_string());
    assert_eq!(folders[1]["folder"], d7);

    // It comes back: the sandbox keeps the server from reopening it, and the server says so.
    disks.write("d7/film-d7.mp4", "d7");
    eventually("the return to be told", || {
        server.admin_page("/healthz").1.contains("is there now: restart").then_some(())
    });
    assert_eq!(status(&server, "/film-d7.mp4"), 404);
    drop(server);
    assert_eq!(status(&disks.launch(&["d0", "d7", "d1"]).start(), "/film-d7.mp4"), 200);

    let (d0, d8) = (disks.text("d0"), disks.text("d8"));
    let ran = fullbore(&["serve", "--check", "--tls", "off", &d0, &d8]);
    assert!(ran.code == Some(1) && ran.stderr.contains(&d8), "{}", ran.stderr);
}

#[test]
fn an_empty_mount_point_does_not_pass_for_a_disk() {
    let disks = Disks::new();
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    if device(disks.0.path()) != device(Path::new("/")) {
        return tool::skip("temporary folders are not on the filesystem of /");
    }
    for name in ["d7", "d8"] {
        fs::create_dir(disks.path(name)).unwrap();
    }
    // A new library is reported, and not lost.
    let server = disks.launch(&["d7", "d8"]).start();
    let (code, health) = server.admin_page("/healthz");
    assert!(code == 200 && health.contains(&disks.text("d8")), "{health}");
    drop(server);
    let server = disks.launch(&["d0", "d7"]).start();
    let said = server.stdout.wait_for("trouble ");
    assert!(said.contains(&disks.text("d7")) && said.contains("no disk is mounted"), "{said}");
    assert_eq!(server.counter("library_lost"), 1);
    // In a folder that isn't a mount point, titles may appear later.
    disks.write("d7/film.mp4", "film");
    until("the film", || status(&server, "/film.mp4") == 200);
    eventually("health", || (server.admin_page("/healthz").1 == "ok\n").then_some(()));
}

#[test]
fn the_servers_own_files_are_refused_in_every_folder() {
    let disks = Disks::new();
    let log = disks.text("d1/access.log");
    let (d0, d1) = (disks.text("d0"), disks.text("d1"));
    let ran = fullbore(&["serve", "--check", "--tls", "off", &d0, &d1, "--access-log", &log]);
    assert!(ran.code == Some(2) && ran.stderr.contains(&log), "{}", ran.stderr);
}

/// A disk in memory.
struct Mounted(PathBuf);

impl Mounted {
    /// Reports what is missing if it cannot be mounted.
    fn at(path: PathBuf, mib: u32) -> Option<Self> {
        fs::create_dir_all(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]).arg(&path);
        match mount.output() {
            Ok(done) if done.status.success() => Some(Self(path)),
            other => {
                tool::skip(&format!("cannot mount a disk in memory, which takes root: {other:?}"));
                None
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn disks_of_their_own_are_not_said_to_die_together() {
    let disks = Disks::new();
    let Some(_mounted) = Mounted::at(disks.path("d1"), 8) else { return };
    let server = disks.serve();
    assert!(!server.said().contains("die together"), "{}", server.said());
    // A mounted disk may be empty.
    assert_eq!(server.admin_page("/healthz"), (200, "ok\n".into()));
    disks.write("d1/film.mp4", "film");
    until("the film", || status(&server, "/film.mp4") == 200);
    drop(server);
    // So may a folder on it.
    fs::create_dir(disks.path("d1/video")).unwrap();
    let server = disks.launch(&["d0", "d1/video"]).start();
    assert_eq!(server.admin_page("/healthz"), (200, "ok\n".into()));
}

fn library(disks: &Disks, words: &str) -> Ran {
    let (d0, d1) = (disks.text("d0"), disks.text("d1"));
    let mut arguments = vec!["library"];
    arguments.extend(words.split_whitespace());
    arguments.extend(["--library", &d0, "--library", &d1]);
    fullbore(&arguments)
}

/// A film of a second.
fn film(folder: &Path) -> PathBuf {
    let path = folder.join("film.mp4");
    let mut command = tool::command("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i"]);
    command.args(["testsrc2=size=160x90:rate=15:duration=1", "-c:v", "libx264"]);
    let ran = tool::run(command.args(["-preset", "ultrafast"]).arg(&path));
    assert!(ran.success, "{}", ran.stderr);
    path
}

#[test]
fn ingest_takes_the_disk_with_room_and_replaces_a_title_where_it_is() {
    if !tool::are_here(&[("ffmpeg", "ffmpeg"), ("ffprobe", "ffmpeg")]) {
        return;
    }
    let disks = Disks::new();
    // Each has less room than any disk that tests run on.
    let Some(_d0) = Mounted::at(disks.path("d0"), 30) else { return };
    let Some(_d1) = Mounted::at(disks.path("d1"), 40) else { return };
    let film = film(disks.0.path());
    let ingest = |words: &[&str]| {
        let (film, d0, d1) = (film.to_str().unwrap(), disks.text("d0"), disks.text("d1"));
        let own = ["ingest", film, "--library", &d0, "--library", &d1, "--speed", "fastest"];
        let into = words.iter().map(|word| if *word == "d0" { d0.as_str() } else { word });
        fullbore(&own.into_iter().chain(into).collect::<Vec<_>>())
    };
    let made = ingest(&[]);
    assert!(made.success && disks.path("d1/film/title.json").exists(), "{}", made.stderr);
    // Now the other has more room; but a title stays on its disk.
    fs::write(disks.path("d1/filler"), vec![0; 20 << 20]).unwrap();
    let again = ingest(&["--again"]);
    assert!(again.success && again.text().contains("replaced"), "{}{}", again.text(), again.stderr);
    assert!(!disks.path("d0/film").exists());
    let elsewhere = ingest(&["--again", "--into", "d0"]);
    assert!(
        !elsewhere.success && elsewhere.stderr.contains("leave --into out"),
        "{}",
        elsewhere.stderr
    );
    let other = ingest(&["--title", "other"]);
    assert!(other.success && disks.path("d0/other/title.json").exists(), "{}", other.stderr);
    let wrong = ingest(&["--into", "/elsewhere"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("--into"), "{}", wrong.stderr);

    titles_are_listed_and_removed(&disks);
}

/// `film` is on `d1`, and `other` on `d0`.
fn titles_are_listed_and_removed(disks: &Disks) {
    let listed = library(disks, "list");
    let names: Vec<_> =
        listed.text().lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["film", "other"], "{}", listed.stderr);
    assert!(library(disks, "verify").text().contains("ok: other"));

    // A copy of `film` on the first disk hides the other.
    let mut copy = Command::new("cp");
    assert!(tool::run(copy.arg("-a").arg(disks.path("d1/film")).arg(disks.path("d0"))).success);
    for verb in ["list", "verify"] {
        let ran = library(disks, verb);
        assert_eq!(ran.text().matches("film").count(), 1, "{}", ran.text());
        let said = format!("film in {} is hidden", disks.text("d1"));
        assert!(ran.success && ran.stderr.contains(&said), "{}", ran.stderr);
    }
    let json: Value = serde_json::from_str(&library(disks, "list --json").text()).unwrap();
    assert_eq!(json["hidden"][0]["folder"], disks.text("d1"));
    assert_eq!(json["titles"][0]["folder"], disks.text("d0"));

    let removed = library(disks, "remove film");
    assert!(removed.success && removed.stderr.contains("is served now"), "{}", removed.stderr);
    assert!(!disks.path("d0/film").exists() && disks.path("d1/film").exists());
    assert!(library(disks, "remove film").success && !disks.path("d1/film").exists());

    let twice = fullbore(&[
        "library",
        "list",
        "--library",
        &disks.text("d0"),
        "--library",
        &disks.text("d0"),
    ]);
    assert!(twice.code == Some(2) && twice.stderr.contains("twice"), "{}", twice.stderr);
    let (d0, d7) = (disks.text("d0"), disks.text("d7"));
    let missing = fullbore(&["library", "list", "--library", &d0, "--library", &d7]);
    assert!(missing.code == Some(1) && missing.stderr.contains(&d7), "{}", missing.stderr);
    assert!(missing.text().contains("other"), "{}", missing.text());
}

/// Viewers were served such a title, but commands said that there was none.
#[test]
fn commands_find_a_title_by_either_form_of_its_name() {
    if !tool::are_here(&[("ffmpeg", "ffmpeg"), ("ffprobe", "ffmpeg")]) {
        return;
    }
    let disks = Disks::new();
    let (composed, decomposed) = ("Am\u{e9}lie", "Ame\u{301}lie");
    let film = film(disks.0.path());
    let make = |name: &str| {
        let (film, d1) = (film.to_str().unwrap(), disks.text("d1"));
        let ran = fullbore(&["ingest", film, "--copy", "--library", &d1, "--title", name]);
        assert!(ran.success, "{}", ran.stderr);
    };
    let publish = |name: &str| {
        let (d0, d1) = (disks.text("d0"), disks.text("d1"));
        let to = "s3://films?endpoint=http://127.0.0.1:9&region=none";
        let mut command = tool::command(program().to_str().unwrap());
        command.envs([("AWS_ACCESS_KEY_ID", "none"), ("AWS_SECRET_ACCESS_KEY", "none")]);
        command.args(["publish", name, "--to", to, "--patience", "0"]);
        tool::run(command.args(["--library", &d0, "--library", &d1])).stderr
    };
    let title = |name: &str| disks.path("d1").join(name);
    make(composed);
    for (held, other) in [(composed, decomposed), (decomposed, composed)] {
        let verified = library(&disks, &format!("verify {other}"));
        assert_eq!(verified.text().trim(), format!("ok: {held}"), "{}", verified.stderr);
        // Nothing listens there, but the title was found.
        let said = publish(other);
        assert!(!said.is_empty() && !said.contains("no title"), "{said}");
        let removed = library(&disks, &format!("remove {other}"));
        assert_eq!(removed.text().trim(), format!("removed: {held}"), "{}", removed.stderr);
        assert!(!title(held).exists());
        make(composed);
        fs::rename(title(composed), title(decomposed)).unwrap();
    }
    // Of two, the one that was typed.
    make("other");
    fs::rename(title("other"), title(composed)).unwrap();
    let removed = library(&disks, &format!("remove {decomposed}"));
    assert_eq!(removed.text().trim(), format!("removed: {decomposed}"), "{}", removed.stderr);
    assert!(title(composed).exists() && !title(decomposed).exists());
    assert!(publish("Amelie").contains("no title"));
}

/// `fullbore library` as a user without permission.
fn library_as_nobody(words: &[&str], folder: &str) -> Ran {
    let program = program().to_str().unwrap();
    let mut command = match rustix::process::geteuid().is_root() {
        true => {
            let mut command = tool::command("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]);
            command
        }
        false => tool::command(program),
    };
    tool::run(command.arg("library").args(words).args(["--library", folder]))
}

/// They used to be left out silently, with exit code 0: an unchecked title passed for a whole one.
#[test]
fn folders_that_one_may_not_enter_are_told_and_are_a_failure() {
    if !tool::are_here(&[("setpriv", "util-linux")]) {
        return;
    }
    let disks = Disks::new();
    let chmod = |name: &str, mode| {
        fs::set_permissions(disks.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    chmod("", 0o755);
    for title in ["d0/films/a", "d0/open"] {
        make_title(&disks.path(title), b"a film").unwrap();
    }
    fs::create_dir(disks.path("d0/lost+found")).unwrap();
    chmod("d0/lost+found", 0o000);
    let (d0, films) = (disks.text("d0"), disks.text("d0/films"));
    let whole = library_as_nobody(&["verify"], &d0);
    assert!(whole.success && whole.text().contains("ok: films/a"), "{}", whole.stderr);
    // No permission, and permission to list but not to enter.
    for mode in [0o000, 0o444] {
        chmod("d0/films", mode);
        for verb in ["list", "verify"] {
            let ran = library_as_nobody(&[verb], &d0);
            assert_eq!(ran.code, Some(1), "{verb}: {}", ran.stderr);
            assert!(ran.text().contains("open") && !ran.text().contains("films"), "{}", ran.text());
            let said = format!("cannot look into {films}: ");
            assert!(ran.stderr.contains(&said) && ran.stderr.contains("chmod"), "{}", ran.stderr);
            let ran = library_as_nobody(&[verb, "--json"], &d0);
            let told: Value = serde_json::from_str(&ran.text()).unwrap();
            assert_eq!((ran.code, &told["unread"][0]["folder"]), (Some(1), &films.clone().into()));
        }
        for verb in ["verify", "remove"] {
            let one = library_as_nobody(&[verb, "films/a"], &d0);
            assert_eq!(one.code, Some(1), "{verb}: {}", one.stderr);
            assert!(
                one.stderr.contains(&format!("cannot look into {films}/a: ")),
                "{}",
                one.stderr
            );
        }
    }
    chmod("d0/films", 0o755);
    chmod("d0/lost+found", 0o755);
}
