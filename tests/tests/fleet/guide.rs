//! "On two machines" in docs/fleet.md, followed word by word: each command as it is printed there, on a machine with a network, a `/var/lib`, a
//! `/srv` and an `/etc` of its own.

use crate::house::{Running, alone};
use fullbore_tests::{Namespace, certificate, namespace, program, tool, until};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Gives a machine its folders, then becomes the command of the guide. `$1` is the machine's folder, `$2` the folder that both share as `/srv`,
/// `$3` the command.
const MACHINE: &str = r#"
for folder in var/lib etc; do mount --bind "$1/$folder" "/$folder"; done
mount --bind "$2" /srv
export PATH="$1/bin:$PATH"
exec sh -c "exec $3"
"#;

/// A machine of the guide.
struct Machine<'f> {
    folder: PathBuf,
    srv: &'f Path,
    network: Namespace,
}

impl<'f> Machine<'f> {
    fn new(name: &str, srv: &'f Path, top: &Path) -> Self {
        let folder = top.join(name);
        for below in ["bin", "var/lib"] {
            fs::create_dir_all(folder.join(below)).unwrap();
        }
        let copied = tool::run(Command::new("cp").arg("-a").arg("/etc").arg(&folder));
        assert!(copied.success, "{}", copied.stderr);
        fs::write(
            folder.join("etc/hosts"),
            "127.0.0.1 localhost\n10.92.0.1 gw.example\n10.92.0.2 box1.example\n",
        )
        .unwrap();
        symlink(program(), folder.join("bin/fullbore")).unwrap();
        Self { folder, srv, network: Namespace::new() }
    }

    /// The command, which sees this machine's folders in their places. Its child processes end with it.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-euc", MACHINE, "machine"]).arg(&self.folder).arg(self.srv).arg(line);
        command
    }

    fn start(&self, line: &str) -> Running {
        self.network.inside(|| Running::start(&mut self.command(line)))
    }

    /// Runs it to its end, and returns what it printed.
    #[track_caller]
    fn run(&self, line: &str) -> String {
        let ran = self.network.inside(|| tool::run(&mut self.command(line)));
        assert!(ran.success, "{line}: {}{}", ran.text(), ran.stderr);
        ran.text()
    }
}

/// The commands of the section, in the order in which the guide gives them.
fn commands() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/fleet.md");
    let page = fs::read_to_string(path).unwrap();
    let (_, section) = page.split_once("\n## On two machines\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("a section after it");
    let lines = section.lines().filter(|line| line.starts_with("    fullbore "));
    lines.map(|line| line.trim().to_owned()).collect()
}

/// Makes `srv/library` with `films/a`, a film of a few seconds.
fn make_library(srv: &Path) {
    let library = srv.join("library/films");
    fs::create_dir_all(&library).unwrap();
    let film = srv.join("a.mp4");
    let mut ffmpeg = tool::command("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i"]);
    ffmpeg.args(["testsrc2=size=160x90:rate=15:duration=6", "-c:v", "libx264", "-g", "15"]);
    let made = tool::run(ffmpeg.arg(&film));
    assert!(made.success, "{}", made.stderr);
    let mut ingest = Command::new(program());
    ingest.arg("ingest").arg(&film).args(["--speed", "fastest", "--segment-seconds", "2"]);
    let ran = tool::run(ingest.arg("--library").arg(&library));
    assert!(ran.success, "{}", ran.stderr);
}

fn possible() -> bool {
    tool::are_here(&[
        ("ffmpeg", "ffmpeg"),
        ("ffprobe", "ffmpeg"),
        ("openssl", "openssl"),
        ("unshare", "util-linux"),
    ]) && namespace::can_be_made()
        && namespace::mounts_can_be_apart()
}

#[test]
fn the_guide_leads_to_a_film_that_plays_from_the_second_machine() {
    if !possible() {
        return;
    }
    let _alone = alone();
    let top = TempDir::new().unwrap();
    let srv = top.path().join("srv");
    make_library(&srv);
    let (gateway, node) =
        (Machine::new("gw", &srv, top.path()), Machine::new("box1", &srv, top.path()));
    gateway.network.join("eth0", &node.network, "eth0", 1500);
    gateway.network.address("eth0", "10.92.0.1/24");
    node.network.address("eth0", "10.92.0.2/24");
    let own = node.folder.join("etc/fullbore");
    fs::create_dir(&own).unwrap();
    let made = certificate(&own, "box1.example", "ec");
    fs::rename(made.cert, own.join("cert.pem")).unwrap();
    fs::rename(made.key, own.join("key.pem")).unwrap();

    let lines = commands();
    let [serve, invite, join, agent, publish, place] = &lines[..] else {
        panic!("the guide has other commands than this test knows: {lines:#?}")
    };
    let control = gateway.start(serve);
    control.stdout.wait_for("ready ");
    let invitation = gateway.run(invite);
    let printed = invitation.lines().find(|line| line.trim().starts_with("fullbore join "));
    let printed = printed.unwrap_or_else(|| panic!("{invitation}")).trim();
    // The guide shows the real output, except for the token and the box's own arguments.
    let (head, own_words) = join.split_once("--token ... ").expect("a token left out");
    assert!(printed.starts_with(&format!("{head}--token ")), "{printed}\n{join}");
    let token = printed.split_once("--token ").unwrap().1.split(' ').next().unwrap();
    node.run(&format!("{head}--token {token} {own_words}"));
    let _agent = node.start(agent);
    until("the node to serve", || {
        gateway.run("fullbore control nodes --state /var/lib/fullbore/gateway").contains("serving")
    });
    gateway.run(publish);
    until("the node to hold the title", || {
        let place: serde_json::Value =
            serde_json::from_str(&gateway.run(&format!("{place} --json"))).unwrap();
        place["nodes"][0]["holds"] == true
    });
    let route = "curl -sS http://gw.example:8700/api/v1/route?title=films/a";
    until("a viewer to be sent there", || node.run(route).contains("box1.example"));
    plays(&node, "http://gw.example:8700/play/films/a/master.m3u8");
    let page = gateway.run("curl -sS --fail http://gw.example:8700/watch?title=films/a");
    assert!(page.contains("<html"), "{page}");
}

/// ffprobe reads the film's length and decodes its pictures, from the box.
#[track_caller]
fn plays(machine: &Machine<'_>, url: &str) {
    let length =
        machine.run(&format!("ffprobe -v error -show_entries format=duration -of csv=p=0 {url}"));
    assert!(length.starts_with('6'), "{length}");
    machine.run(&format!("ffmpeg -nostdin -v error -xerror -i {url} -f null -"));
}
