//! The server's own files are never served: keys, the self-signed certificate's key, the access log, the configuration.

use fullbore_tests::tool::{self, Ran};
use fullbore_tests::{Launch, Plain, Server, Signal, certificate, eventually, program};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};

/// A library with a film in it, and room for secrets next to it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempdir().unwrap());
        fs::create_dir(place.path("library")).unwrap();
        fs::write(place.path("library/film.mp4"), "the film").unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn make_url_key(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        assert!(run(&["sign", "--new-key", text(&path)]).success);
        path
    }

    /// A configuration that requires a token for `film.mp4`.
    fn make_config(&self, name: &str, url_key: &Path) -> PathBuf {
        let config = format!("[signing]\nkeys = [{url_key:?}]\nrequired = [\"film.mp4\"]\n");
        fs::write(self.path(name), config).unwrap();
        self.path(name)
    }
}

fn run(arguments: &[&str]) -> Ran {
    tool::run(tool::command(program().to_str().unwrap()).args(arguments))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

/// Neither serving nor checking begins, and one line names the file.
fn assert_refused(place: &Place, arguments: &[&str], culprit: &Path, advice: &str) {
    let (library, state) = (place.path("library"), place.path("state"));
    let own = ["serve", text(&library), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let state = ["--state", text(&state)];
    let state = if arguments.contains(&"--state") { &[][..] } else { &state[..] };
    for check in [&[][..], &["--check"]] {
        let ran = run(&[&own[..], state, arguments, check].concat());
        assert_eq!(ran.code, Some(2), "{arguments:?} {check:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty() && ran.stderr.lines().count() == 1, "{}", ran.stderr);
        for part in [text(culprit), "where any viewer could fetch it", advice] {
            assert!(ran.stderr.contains(part), "{part:?} is not in: {}", ran.stderr);
        }
    }
}

#[test]
fn a_key_of_signed_urls_in_the_library_is_refused() {
    let place = Place::new();
    let key = place.make_url_key("library/url.key");
    let config = place.make_config("fullbore.toml", &key);
    let arguments = ["--tls", "off", "--config", text(&config)];
    assert_refused(&place, &arguments, &key, "signing.keys");
    // Also through a link from outside.
    std::os::unix::fs::symlink(&key, place.path("link.key")).unwrap();
    place.make_config("fullbore.toml", &place.path("link.key"));
    assert_refused(&place, &arguments, &key, "signing.keys");
}

#[test]
fn a_private_key_or_the_state_in_the_library_is_refused() {
    let place = Place::new();
    if tool::are_here(&[("openssl", "openssl")]) {
        let pair = certificate(&place.path("library"), "one.example", "ec");
        let arguments = ["--cert", text(&pair.cert), "--key", text(&pair.key)];
        assert_refused(&place, &arguments, &pair.key, "--key FILE");
    }
    for state in [place.path("library"), place.path("library/state")] {
        assert_refused(&place, &["--state", text(&state)], &state, "--state DIR");
        assert!(!state.join("self-signed-key.pem").exists());
    }
}

#[test]
fn the_access_log_or_the_configuration_in_the_library_is_refused() {
    let place = Place::new();
    let log = place.path("library/access.log");
    let arguments = ["--tls", "off", "--access-log", text(&log)];
    assert_refused(&place, &arguments, &log, "--access-log FILE");
    assert!(!log.exists());
    let config = place.make_config("library/fullbore.toml", &place.make_url_key("url.key"));
    let arguments = ["--tls", "off", "--config", text(&config)];
    assert_refused(&place, &arguments, &config, "/etc/fullbore");
}

#[test]
fn a_library_inside_the_state_directory_is_served() {
    let place = Place::new();
    let server = Launch::of(&place.path("library")).arguments("--tls off").state(place.0.path());
    assert_eq!(Plain::connect(server.start().address).fetch("/film.mp4").status, 200);
}

fn withheld(server: &Server) -> u64 {
    server.counters().value("requests_refused_total{reason=\"withheld\"}")
}

/// The answer is that of a missing file, but the counter names the real reason.
fn assert_withheld(server: &Server, path: &str) {
    let before = withheld(server);
    let refused = Plain::connect(server.address).fetch(path);
    assert_eq!((refused.status, withheld(server)), (404, before + 1), "{path}");
}

#[test]
fn other_names_of_its_own_files_are_withheld() {
    let place = Place::new();
    let key = place.make_url_key("url.key");
    let config = place.make_config("fullbore.toml", &key);
    let log = place.path("access.log");
    // An earlier server has left its certificate's key.
    let first = Launch::of(&place.path("library")).state(&place.path("state")).start();
    drop(first);
    let self_signed_key = place.path("state/self-signed-key.pem");
    let launch = Launch::of(&place.path("library")).arguments("--tls off --workers 1");
    let launch = launch.state(&place.path("state")).arguments("--access-log").argument(&log);
    let server = launch.arguments("--config").argument(&config).start();
    let own = [&key, &config, &log, &self_signed_key];
    for (number, file) in own.into_iter().enumerate() {
        fs::hard_link(file, place.path(&format!("library/link-{number}"))).unwrap();
        assert_withheld(&server, &format!("/link-{number}"));
    }
    let said = server.stderr.wait_for("cannot serve link-0");
    assert!(said.contains("the server never serves this file"), "{said}");
    // Hidden files may be there, and links inside the library do not make them reachable.
    fs::create_dir(place.path("library/.keys")).unwrap();
    fs::hard_link(&key, place.path("library/.keys/url.key")).unwrap();
    std::os::unix::fs::symlink(".keys", place.path("library/open")).unwrap();
    assert_withheld(&server, "/open/url.key");
    // The film itself needs a token, and other files are served.
    assert_eq!(Plain::connect(server.address).fetch("/film.mp4").status, 403);
    fs::write(place.path("library/note.txt"), "this is the note").unwrap();
    assert_eq!(Plain::connect(server.address).fetch("/note.txt").status, 200);
}

#[test]
fn a_renewed_key_is_withheld_as_the_one_before_it() {
    let place = Place::new();
    let key = place.make_url_key("url.key");
    let config = place.make_config("fullbore.toml", &key);
    let launch = Launch::of(&place.path("library")).arguments("--tls off --workers 1 --config");
    let server = launch.argument(&config).start();
    let renewed = place.make_url_key("new.key");
    fs::hard_link(&renewed, place.path("library/note.txt")).unwrap();
    // It does not belong to the server yet, and is remembered as an open file.
    let mut viewer = Plain::connect(server.address);
    assert_eq!(viewer.fetch("/note.txt").status, 200);
    fs::rename(&renewed, &key).unwrap();
    server.signal(Signal::HUP);
    server.stderr.wait_for("keys of signed URLs reloaded");
    eventually("the new key to be withheld", || {
        (viewer.fetch("/note.txt").status == 404).then_some(())
    });
    assert_withheld(&server, "/note.txt");
}
