//! A program syncs the files it keeps: each before it gets its final name, and then its folder; each new folder's name, too.
//! Recorded with strace, because a filesystem with a journal keeps more names than a program has synced.
//!
//! Not shown here: that the sync comes before the answer (crashes show that), and writes through mapped memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fullbore_tests::{eventually, film, free_port, make_title, program, tool, until};

use crate::Process;
use crate::gateway::Seat;

const CALLS: &str = "trace=mkdir,mkdirat,open,openat,openat2,creat,write,writev,pwrite64,pwritev,pwritev2,ftruncate,fallocate,utimensat,\
                     rename,renameat,renameat2,link,linkat,unlink,unlinkat,rmdir,fsync,fdatasync";

/// Files that the next start doesn't need: SQLite's index of its log, the operator's files, and locks.
const PASSING: &[&str] = &[
    "store.db-shm",
    "agent.json",
    "conditions.log",
    "server.out",
    "server.log",
    ".new",
    "lock",
    "decisions",
];

/// The files and folders of a recording.
#[derive(Default)]
struct Recording {
    /// Files with unsynced bytes, and folders with unsynced names, each with the line that wrote them.
    files: BTreeMap<String, usize>,
    folders: BTreeMap<String, (usize, String)>,
    /// Calls that are under way: where the line of each thread began.
    begun: BTreeMap<String, (usize, String)>,
    faults: BTreeSet<String>,
    /// Existing names: opening one of them creates none.
    there: BTreeSet<String>,
}

impl Recording {
    /// Reads strace's recording of programs whose folder is `root`, which had these names when they started.
    fn read(text: &str, root: &Path, there: BTreeSet<String>) -> Self {
        let (mut this, root) = (Self { there, ..Self::default() }, root.to_str().unwrap());
        for (number, line) in text.lines().enumerate() {
            let Some((thread, call)) = line.split_once(' ') else { continue };
            let call = call.trim_start();
            if let Some(begun) = call.strip_suffix("<unfinished ...>") {
                this.begun.insert(thread.to_owned(), (number, begun.to_owned()));
            } else if call.starts_with("<... ") {
                let end = call.split_once("resumed>").map_or("", |(_, end)| end);
                if let Some((begun, start)) = this.begun.remove(thread) {
                    this.take(&format!("{start}{end}"), begun, number, root);
                }
            } else {
                this.take(call, number, number, root);
            }
        }
        this
    }

    /// One call, which began at one line and ended at another.
    fn take(&mut self, call: &str, began: usize, ended: usize, root: &str) {
        let Some((name, rest)) = call.split_once('(') else { return };
        if rest.rsplit_once(" = ").is_none_or(|(_, result)| result.starts_with('-')) {
            return;
        }
        // The descriptor of a call that has one is followed by its path, in angle brackets.
        let of_descriptor = rest.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
        let of_descriptor = of_descriptor.map(|(path, _)| path.to_owned()).unwrap_or_default();
        let named = paths(rest);
        let is_ours = |path: &str| path.starts_with(root);
        match name {
            "fsync" | "fdatasync" => {
                self.files.retain(|path, line| *path != of_descriptor || *line >= began);
                self.folders.retain(|path, (line, _)| *path != of_descriptor || *line >= began);
            }
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "ftruncate"
            | "fallocate" | "utimensat"
                if is_ours(&of_descriptor) =>
            {
                self.files.insert(of_descriptor, ended);
            }
            "open" | "openat" | "openat2" | "creat" if rest.contains("O_CREAT") => {
                let is_new = |path: &&String| is_ours(path) && !self.there.contains(*path);
                if let Some(path) = named.last().filter(is_new) {
                    self.name(path, ended);
                }
            }
            "mkdir" | "mkdirat" | "link" | "linkat" => {
                if let Some(path) = named.last().filter(|path| is_ours(path)) {
                    self.name(path, ended);
                }
            }
            "rename" | "renameat" | "renameat2" => {
                if let [from, to] = &named[..] {
                    self.rename(from, to, ended);
                }
            }
            "unlink" | "unlinkat" | "rmdir" => {
                if let Some(path) = named.last() {
                    self.files.remove(path);
                    self.forget_below(path);
                }
            }
            _ => {}
        }
    }

    /// A name is new in its folder.
    fn name(&mut self, path: &str, line: usize) {
        self.changed(path, line);
        self.there.insert(path.to_owned());
    }

    /// A name is new in its folder, or was removed.
    fn changed(&mut self, path: &str, line: usize) {
        let folder = path.rsplit_once('/').map_or("/", |(folder, _)| folder);
        self.folders.insert(folder.to_owned(), (line, path.to_owned()));
    }

    fn rename(&mut self, from: &str, to: &str, line: usize) {
        if self.files.remove(from).is_some() && !is_passing(to) {
            self.faults.insert(format!("{to} got its name before its bytes were synced"));
        }
        self.forget_below(from);
        self.changed(from, line);
        self.name(to, line);
    }

    /// Removed files needn't be synced.
    fn forget_below(&mut self, path: &str) {
        let below = format!("{path}/");
        self.there.retain(|name| name != path && !name.starts_with(&below));
        self.files.retain(|file, _| !file.starts_with(&below));
        self.folders.retain(|folder, (_, name)| {
            folder != path && !folder.starts_with(&below) && name != path
        });
    }

    /// The data that would be lost if the power failed now.
    fn lost(self) -> Vec<String> {
        let files = self.files.into_keys().filter(|path| !is_passing(path));
        let files = files.map(|path| format!("{path} was written and not synced"));
        let folders = self.folders.into_iter().filter(|(_, (_, name))| !is_passing(name));
        let folders = folders.map(|(folder, (_, name))| {
            format!("{name} has changed in {folder}, which was not synced")
        });
        self.faults.into_iter().chain(files).chain(folders).collect()
    }
}

fn is_passing(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    PASSING.iter().any(|passing| name.ends_with(passing)) || path.contains("/decisions/")
}

/// The quoted paths of a call, each whole: strace shows a relative path's starting folder before it.
fn paths(rest: &str) -> Vec<String> {
    let mut parts = rest.split('"');
    let mut paths = Vec::new();
    while let (Some(before), Some(path)) = (parts.next(), parts.next()) {
        let above = before.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>'));
        paths.push(match above {
            Some((above, _)) if !path.starts_with('/') => format!("{above}/{path}"),
            _ => path.trim_end_matches('/').to_owned(),
        });
    }
    paths
}

/// All names below a folder.
fn names_below(folder: &Path) -> BTreeSet<String> {
    let (mut names, mut folders) = (BTreeSet::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        // Another process may be working there.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            names.insert(path.to_str().unwrap().to_owned());
            folders.extend(path.is_dir().then_some(path));
        }
    }
    names
}

/// A recorded program.
struct Recorded {
    process: Process,
    log: PathBuf,
    there: BTreeSet<String>,
}

impl Recorded {
    /// Starts `command`, which keeps its files in `ground`.
    fn start(command: &Command, ground: &Path, log: PathBuf) -> Self {
        let mut strace = Command::new("strace");
        // The process is the program itself, so that signals reach it.
        strace.args(["-D", "-f", "-y", "-s", "4096", "-e", CALLS, "-e", "signal=none", "-o"]);
        strace.arg(&log).arg(command.get_program()).args(command.get_args());
        let there = names_below(ground);
        Self { process: Process::start(&mut strace), log, there }
    }

    /// Which of its files would be lost, now that it has ended.
    fn lost(self, ground: &Path) -> Vec<String> {
        let is_end = |line: &str| line.contains("+++") && line.starts_with(&self.pid());
        let text = eventually("the recording to end", || {
            let text = fs::read_to_string(&self.log).ok()?;
            text.lines().any(is_end).then_some(text)
        });
        Recording::read(&text, ground, self.there).lost()
    }

    fn pid(&self) -> String {
        format!("{} ", self.process.child.id())
    }
}

/// Which files in `ground` the program with these words would lose.
fn lost_by(words: &[&str], ground: &Path) -> Vec<String> {
    let log = ground.with_extension("strace");
    let mut command = Command::new(program());
    let mut recorded = Recorded::start(command.args(words), ground, log);
    let ended = recorded.process.child.wait().unwrap();
    assert!(ended.success(), "{words:?}: {:?}", recorded.process.stderr.lines());
    recorded.lost(ground)
}

#[test]
fn a_recording_shows_what_a_power_failure_would_take() {
    let lost = |text: &str| Recording::read(text, Path::new("/r"), BTreeSet::new()).lost();
    let whole = "1 openat(AT_FDCWD</r>, \"a.tmp\", O_WRONLY|O_CREAT) = 3</r/a.tmp>\n\
                 1 write(3</r/a.tmp>, \"x\", 1 <unfinished ...>\n\
                 2 mkdir(\"/r/b\", 0700) = 0\n\
                 1 <... write resumed>) = 1\n\
                 1 fsync(3</r/a.tmp>) = 0\n\
                 1 rename(\"/r/a.tmp\", \"/r/a\") = 0\n";
    assert_eq!(lost(&format!("{whole}1 fsync(4</r>) = 0\n")), [""; 0]);
    assert_eq!(lost(whole), ["/r/a has changed in /r, which was not synced"]);
    assert_eq!(lost(&format!("{whole}1 fsync(4</r>) = -1 EIO\n")).len(), 1);
    let unsynced = whole.replace("1 fsync(3</r/a.tmp>) = 0\n", "");
    assert!(lost(&unsynced)[0].contains("before its bytes were synced"));
    let late =
        "1 fsync(4</r> <unfinished ...>\n2 mkdir(\"/r/b\", 0700) = 0\n1 <... fsync resumed>) = 0\n";
    assert_eq!(
        lost(late),
        ["/r/b has changed in /r, which was not synced"],
        "it came after the sync began"
    );
}

/// Makes a fleet of one gateway and one node write its files, with each program recorded, except for the origin.
#[test]
fn what_a_fleet_and_its_commands_keep_is_synced_with_its_names() {
    if !tool::are_here(&[("strace", "strace")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let below = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    let (ground, origin, logs) = (below("ground"), below("origin"), below("logs"));
    let (seat, port) = (Seat::new(ground.join("gateway")), free_port());
    let mut gateway = Recorded::start(&seat.command(port), &ground, logs.join("gateway"));
    gateway.process.stdout.wait_for("ready ");
    let invite = ["invite", "--cluster", "c", "--site", "s", "--region", "r"];
    let token = seat.control(&invite).expect("it is up")["token"].as_str().unwrap().to_owned();
    let at = |name: &str| ground.join(name).to_str().unwrap().to_owned();
    let (machines, state, library) = (seat.machines(), at("state"), at("library"));
    let join = ["join", &machines, "--token", &token, "--host", "127.0.0.1", "--name", "n1"];
    let join = [&join[..], &["--ceiling", "1", "--state", &state]].concat();
    let mut lost = lost_by(&join, &ground);
    fs::create_dir(origin.join("film")).unwrap();
    make_title(&origin.join("film"), &vec![7; 3 << 20]).unwrap();
    let publish = ["publish", "film", "--library", origin.to_str().unwrap()];
    seat.control(&publish).expect("it is published");
    let mut node = Command::new(program());
    node.args(["node", "--state", &state, "--library", &library, "--", "--tls", "off"]);
    node.args(["--listen", &format!("127.0.0.1:{port}"), "--admin", "127.0.0.1:0"]);
    let mut agent = Recorded::start(&node, &ground, logs.join("node"));
    let holds = |is_there: bool| ground.join("library/film/title.json").exists() == is_there;
    until("the node to have the film", || holds(true));
    seat.control(&["withdraw", "film"]).expect("it is withdrawn");
    until("the film to be gone", || holds(false));
    agent.process.end();
    gateway.process.end();
    lost.extend(agent.lost(&ground));
    lost.extend(gateway.lost(&ground));
    let (key, backup, films) = (at("a.key"), at("fleet.backup"), at("films"));
    lost.extend(lost_by(&["sign", "--new-key", &at("url.key")], &ground));
    lost.extend(lost_by(&["sign", "--new-key", &key, "--public", &at("a.pub")], &ground));
    lost.extend(lost_by(&["control", "backup", &backup, "--state", &at("gateway")], &ground));
    film::make_with_record(&ground.join("films"), 3);
    let verify = ["library", "verify", "film", "--complete", "--library", &films];
    lost.extend(lost_by(&verify, &ground));
    lost.extend(lost_by(&["library", "remove", "film", "--library", &films], &ground));
    assert_eq!(lost, [""; 0]);
}
