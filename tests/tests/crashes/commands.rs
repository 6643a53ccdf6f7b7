//! Commands that write files are killed at random moments. Each leaves the old file or the new one, whole, and the next run does what the first
//! one should have done.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use catalog::TitlePath;
use fullbore_tests::{film, free_port, program};

use crate::{draws, gateway::Seat, long, run, until_a_drawn_moment};

/// No command here takes longer on an idle machine.
const MILLIS_MAX: u64 = 120;

/// A command that is killed, and the checks after that, and again after a run that was not killed. All work in one folder.
struct Killed<'c> {
    words: &'c [&'c str],
    /// The last file that it makes, if it makes it once: with it there, the next run is refused.
    makes_once: Option<&'c str>,
    /// Before each run.
    prepare: &'c dyn Fn(&Path),
    /// After a run that may have been killed, and after one that was not.
    check: &'c dyn Fn(&Path),
}

impl Killed<'_> {
    fn play(&self, folder: &Path, draws: &mut fastrand::Rng, times: usize) {
        for _ in 0..times {
            (self.prepare)(folder);
            let mut command = Command::new(program());
            command.args(self.words).current_dir(folder).stdin(Stdio::null());
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            until_a_drawn_moment(draws, MILLIS_MAX);
            child.kill().unwrap();
            let was_done = child.wait().unwrap().success();
            (self.check)(folder);
            let is_made = self.makes_once.is_some_and(|file| folder.join(file).exists());
            let again = run(self.words, folder).is_some();
            assert!(again || was_done || is_made, "{:?}", self.words);
            (self.check)(folder);
        }
    }
}

/// Kills every command this often.
fn kill(times: usize) {
    let (mut draws, folder) = (draws(), tempfile::tempdir().unwrap());
    let folder = folder.path();
    let seat = Seat::new(folder.join("gateway"));
    seat.start(free_port()).end();
    let nothing = |_: &Path| ();
    let key = Killed {
        words: &["sign", "--new-key", "new.key"],
        makes_once: Some("new.key"),
        prepare: &|folder| drop(fs::remove_file(folder.join("new.key"))),
        check: &|folder| {
            let words = ["sign", "film", "--key", "new.key", "--expires", "1h"];
            let is_there = folder.join("new.key").exists();
            assert!(!is_there || run(&words, folder).is_some(), "a key that is there is whole");
        },
    };
    let pair = Killed {
        words: &["sign", "--new-key", "pair.key", "--public", "pair.pub"],
        makes_once: Some("pair.pub"),
        prepare: &|folder| {
            let _ = ["pair.key", "pair.pub"].map(|file| fs::remove_file(folder.join(file)));
        },
        check: &|folder| {
            let words = ["sign", "film", "--key", "pair.key", "--expires", "1h"];
            let is_there = folder.join("pair.key").exists();
            assert!(!is_there || run(&words, folder).is_some(), "a key that is there is whole");
            assert!(is_there || !folder.join("pair.pub").exists(), "no half without the other");
        },
    };
    let backup = Killed {
        words: &["control", "backup", "fleet.backup", "--state", "gateway"],
        makes_once: None,
        prepare: &nothing,
        check: &|folder| {
            let backup = fs::read_to_string(folder.join("fleet.backup")).unwrap_or_default();
            assert!(backup.is_empty() || backup.lines().count() > 2 && backup.ends_with("}\n"));
        },
    };
    let complete = Killed {
        words: &["library", "verify", "film", "--complete", "--library", "library"],
        makes_once: None,
        prepare: &|folder| {
            let _ = fs::remove_dir_all(folder.join("library"));
            film::make_with_record(&folder.join("library"), 3);
        },
        check: &|folder| {
            let title = catalog::find(&folder.join("library"), &TitlePath::new("film").unwrap());
            let title = title.unwrap_or_else(|_| panic!("it can be read")).expect("it is there");
            assert!(catalog::verify(&title).is_empty(), "it is whole");
        },
    };
    for command in [key, pair, backup, complete] {
        command.play(folder, &mut draws, times);
    }
}

#[test]
fn a_command_that_is_killed_leaves_the_old_file_or_the_new_one() {
    kill(5);
}

#[test]
#[ignore = "takes long: ./run nightly"]
fn a_command_that_is_killed_leaves_the_old_file_or_the_new_one_at_length() {
    kill(long());
}
