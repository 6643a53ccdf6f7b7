//! `./run fleet`, as a newcomer starts it.

use crate::house::{Running, alone};
use fullbore_tests::{Said, Signal, eventually, program, tool, until, within};
use rustix::process::{Pid, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::MutexGuard;
use std::time::Duration;
use tempfile::TempDir;

/// It makes a film first.
const PATIENCE: Duration = Duration::from_secs(600);

#[test]
fn one_command_starts_a_fleet_that_plays_a_film() {
    if let Some(fleet) = Newcomers::start(&[], 19_443) {
        assert!(fleet.url.starts_with("http://"), "{}", fleet.url);
        fleet.plays();
        fleet.ends();
    }
}

#[test]
#[ignore = "a second fleet takes a minute; ./run nightly does it"]
fn one_command_starts_a_fleet_in_which_all_is_https() {
    if !tool::are_here(&[("openssl", "openssl")]) {
        return;
    }
    let Some(fleet) = Newcomers::start(&["--tls"], 19_543) else { return };
    assert!(fleet.url.starts_with("https://"), "{}", fleet.url);
    fleet.plays();
    // Nothing on the way is plain HTTP, which a browser would refuse.
    let (head, page) = fleet.get("/watch?title=sample-1");
    let policy = head.lines().find(|line| line.starts_with("content-security-policy:"));
    let policy = policy.unwrap_or_else(|| panic!("{head}{page}"));
    assert!(policy.contains("connect-src 'self' https://127.0.1.1:19543"), "{policy}");
    for name in ["master.m3u8", "manifest.mpd"] {
        let (_, manifest) = fleet.get(&format!("/play/sample-1/{name}"));
        let own = format!("{}/steering/", fleet.url);
        assert!(manifest.contains(&own) && manifest.contains("https://127.0.1."), "{manifest}");
        // XML namespaces aren't addresses that a player loads.
        let plain = manifest.matches("http://").count();
        let of_names = manifest.matches("=\"http://www.w3.org").count();
        assert_eq!(plain, of_names, "{manifest}");
        assert!(!policy.contains("http://"), "{policy}");
    }
    fleet.ends();
}

/// Scripts start background jobs with SIGINT ignored.
#[test]
fn an_interrupt_ends_a_fleet_that_was_started_with_interrupts_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    // A gateway that never gets ready, and an existing film.
    let text = "#!/bin/sh\ncase $1 in control) exec sleep 600 ;; esac\n";
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' INT; exec \"$@\"", "sh"]).arg(top.join("lab/fleet"));
    command.arg(&program).arg(folder.path().join("fleet")).stderr(Stdio::piped());
    let mut fleet = command.spawn().unwrap();
    let said = Said::listen(fleet.stderr.take().unwrap());
    said.wait_for("starting a gateway");
    let process = Pid::from_child(&fleet);
    kill_process(process, Signal::INT).unwrap();
    let status = eventually("the fleet to end", || fleet.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
}

/// `./run fleet`, with a film of a minute.
struct Newcomers {
    folder: TempDir,
    run: Running,
    /// Without a slash at the end.
    url: String,
    _alone: MutexGuard<'static, ()>,
}

impl Newcomers {
    /// `None` without the tools for it.
    fn start(flags: &[&str], ports: u16) -> Option<Self> {
        if !tool::are_here(&[("ffmpeg", "ffmpeg"), ("ffprobe", "ffmpeg"), ("curl", "curl")]) {
            return None;
        }
        let alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut command = Command::new(top.join("run"));
        command.arg("fleet").args(flags).arg(folder.path()).env("FULLBORE", program());
        for (name, port) in
            ["FLEET_NODE_PORT", "FLEET_PUBLIC_PORT", "FLEET_ADMIN_PORT", "FLEET_MACHINES_PORT"]
                .iter()
                .zip(ports..)
        {
            command.env(name, port.to_string());
        }
        command.env("FLEET_FILM_MINUTES", "1");
        let run = Running::start(&mut command);
        let ready = within(PATIENCE, "the fleet", || run.stdout.line_with("ready "));
        let url = ready["ready ".len()..].trim_end_matches('/').to_owned();
        Some(Self { folder, run, url, _alone: alone })
    }

    /// Head and body of a response.
    fn get(&self, path: &str) -> (String, String) {
        let mut curl = tool::command("curl");
        curl.args(["-sS", "--max-time", "60", "--http1.1", "-D", "-"]);
        if self.url.starts_with("https") {
            curl.arg("--cacert").arg(self.folder.path().join("certificates/ca.pem"));
        }
        let text = tool::run(curl.arg(format!("{}{path}", self.url))).text();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        (head.to_owned(), body.to_owned())
    }

    fn plays(&self) {
        let (head, titles) = self.get("/api/v1/titles");
        assert!(head.contains(" 200") && titles.contains("sample-1"), "{head}{titles}");
        let (_, route) = self.get("/api/v1/route?title=sample-1");
        assert_eq!(route.matches("\"node\":").count(), 3, "{route}");
        for manifest in ["master.m3u8", "manifest.mpd"] {
            let url = format!("{}/play/sample-1/{manifest}", self.url);
            let mut probe = tool::command("ffprobe");
            probe.args(["-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0"]);
            let ran = tool::run(probe.arg(&url));
            assert!(
                ran.success && ran.text().starts_with("60"),
                "{manifest}: {}{}",
                ran.text(),
                ran.stderr
            );
            // The beginning of every track, decoded; the first error would end it. Its standard error may have messages about its connections.
            let mut play = tool::command("ffmpeg");
            play.args(["-v", "error", "-xerror", "-t", "10", "-i", &url, "-f", "null", "-"]);
            let ran = tool::run(&mut play);
            assert!(ran.success, "{manifest}: {}", ran.stderr);
        }
    }

    fn ends(self) {
        self.run.signal(Signal::TERM);
        let is_gone = || self.get("/healthz").0.is_empty();
        until("the fleet to end", is_gone);
    }
}
