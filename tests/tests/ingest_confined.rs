//! A film that has taken over ffprobe, against which the sandbox protects: a program in ffprobe's place tries
//! everything that it should not be able to do, as root and as an ordinary user. Also limits, as the command line sets
//! and names them.

use fullbore_tests::program;
use fullbore_tests::tool::{self, Ran};
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::{TempDir, tempdir};

/// Its attempts. It lists those that succeeded, in place of ffprobe's error.
const TAKEN_OVER: &str = r#"#!/usr/bin/python3
import os, socket, sys
did = []
def attempt(what, act):
    try:
        if act() is not False:
            did.append(what)
    except OSError:
        pass
def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
attempt("open another file", lambda: open("PLACE/secret").read())
attempt("list another folder", lambda: os.listdir("PLACE"))
attempt("write", lambda: open("PLACE/planted", "w"))
attempt("write into the library", lambda: open("PLACE/library/planted", "w"))
attempt("remove", lambda: os.unlink("PLACE/secret"))
attempt("change the film", lambda: open("/proc/self/fd/0", "r+b"))
attempt("connect", lambda: socket.create_connection(("127.0.0.1", PORT)))
attempt("make a datagram socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
attempt("make a Unix socket", lambda: socket.socket(socket.AF_UNIX))
attempt("make a process", fork)
attempt("signal its parent", lambda: os.kill(os.getppid(), 0))
attempt("read its parent", lambda: open(f"/proc/{os.getppid()}/environ").read())
attempt("see the environment", lambda: "SECRET" in os.environ)
attempt("see an open descriptor", lambda: os.fstat(9))
if open("/proc/self/fd/0").read() != "a film":
    did.append("not read the film")
print("what it could do is " + (", ".join(did) or "nothing"), file=sys.stderr)
sys.exit(1)
"#;

/// A folder that all users can read, with a copy of the program, a film, a library, and a program called ffprobe.
struct Place(TempDir);

impl Place {
    fn new(ffprobe: &str) -> Self {
        let folder = tempdir().unwrap();
        let place = Self(folder);
        // By another process: a descriptor with which this one writes to it could be in a process that another test is starting, and then
        // the kernel would not run it.
        let mut copy = tool::command("cp");
        assert!(tool::run(copy.arg(program()).arg(place.path("fullbore"))).success);
        fs::create_dir(place.path("bin")).unwrap();
        fs::create_dir(place.path("library")).unwrap();
        fs::write(place.path("film.mp4"), "a film").unwrap();
        fs::write(place.path("secret"), "secret").unwrap();
        fs::write(place.path("bin/ffprobe"), ffprobe.replace("PLACE", &place.text(""))).unwrap();
        for (name, mode) in [
            ("", 0o777),
            ("library", 0o777),
            ("bin/ffprobe", 0o755),
            ("secret", 0o666),
            ("film.mp4", 0o666),
        ] {
            fs::set_permissions(place.path(name), Permissions::from_mode(mode)).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string().trim_end_matches('/').to_owned()
    }

    /// Ingests the film with the words in `words`, by a command line that begins with those in `under`.
    fn ingest(&self, under: &str, words: &str) -> Ran {
        let mut line: Vec<String> = under.split_whitespace().map(str::to_owned).collect();
        line.push(self.text("fullbore"));
        line.push("ingest".into());
        line.extend(words.split_whitespace().map(str::to_owned));
        line.extend([self.text("film.mp4"), "--library".into(), self.text("library")]);
        // With a descriptor that a shell left open.
        let script = "exec 9</etc/passwd; exec \"$@\"";
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "100", "sh", "-c", script, "sh"]).args(line);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.text("bin"))).env("SECRET", "secret");
        tool::run(&mut command)
    }
}

#[test]
fn an_ffprobe_that_was_taken_over_can_do_nothing() {
    if !Path::new("/usr/bin/python3").exists() {
        return tool::skip("there is no /usr/bin/python3: apt install python3");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut ways = vec![""];
    if rustix::process::geteuid().is_root() && tool::are_here(&[("setpriv", "util-linux")]) {
        ways.push("setpriv --reuid=65534 --regid=65534 --clear-groups");
    }
    for under in ways {
        let place = Place::new(&TAKEN_OVER.replace("PORT", &port));
        let ran = place.ingest(under, "");
        if ran.stderr.contains("less confined than it could") {
            return tool::skip(&format!("this kernel lacks something: {}", ran.stderr));
        }
        assert_eq!(ran.code, Some(1), "{under}: {}", ran.stderr);
        assert!(ran.stderr.contains("what it could do is nothing"), "{under}: {}", ran.stderr);
        assert!(place.path("secret").exists() && !place.path("planted").exists());
        assert_eq!(fs::read_dir(place.path("library")).unwrap().count(), 0);
    }
}

#[test]
fn a_probe_that_does_not_end_or_answers_without_end_is_ended() {
    let endless = "#!/bin/sh\nwhile :; do :; done\n";
    let talking = "#!/bin/sh\nwhile :; do echo '{\"streams\": [{\"index\": 0}]}'; done\n";
    // It has closed both pipes, which must not exempt it from the time limit.
    let silent = "#!/bin/sh\nexec >&- 2>&-\nwhile :; do :; done\n";
    for ffprobe in [endless, talking, silent] {
        let ran = Place::new(ffprobe).ingest("", "--probe-seconds-max 1");
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("more than 1 s, the limit"), "{}", ran.stderr);
        assert!(ran.stderr.contains("--probe-seconds-max"), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn memory_is_bounded_by_the_flag() {
    if !Path::new("/usr/bin/python3").exists() {
        return tool::skip("there is no /usr/bin/python3: apt install python3");
    }
    // Takes memory little by little, and holds it until it is ended.
    let greedy = "#!/usr/bin/python3\nimport time\nheld = []\nwhile True:\n    \
        held.append(b'x' * 1000000)\n    time.sleep(0.005)\n";
    let ran = Place::new(greedy).ingest("", "--memory-mb-max 200");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("more than 200 MB of memory, the limit"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--memory-mb-max"), "{}", ran.stderr);
}

#[test]
fn limits_of_nothing_are_wrong_usage() {
    for flag in ["--probe-seconds-max", "--run-seconds-max", "--memory-mb-max", "--output-mb-max"] {
        let ran = Place::new("").ingest("", &format!("{flag} 0"));
        assert_eq!(ran.code, Some(2), "{flag}: {}", ran.stderr);
        assert!(ran.stderr.contains("invalid value '0'"), "{flag}: {}", ran.stderr);
    }
}
