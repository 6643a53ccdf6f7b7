//! How the lab runs several scenarios at once (`lab/lanes.bash`): outputs don't mix, every failure is reported, and an end stops everything.
//!
//! A real scenario takes a virtual machine and a minute, so a function of each test takes its place ([`Lab::play`]). The rest is the lab's own.

use fullbore_tests::{PATIENCE, Said, Signal, eventually, until};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::{TempDir, tempdir};

/// The lab's own code, except for `lab_one`, which runs a pair.
const LAB: &str = ". ./run help >/dev/null\n. lab/lab.bash\n";

/// For a test's scenarios: leaves a mark, waits for that of another scenario.
const MARKS: &str = "here() { : >\"$LAB_OUT/here-$1\"; }\n\
                     wait_for() { until [ -e \"$LAB_OUT/here-$1\" ]; do sleep 0.01; done; }\n";

/// A scenario that prints two lines, and waits between them until two others have begun.
const TALKS: &str = "here $1; echo first of $1; wait_for boots; wait_for lossy; echo last of $1";

/// Stays until it is killed, as QEMU would.
const STAYS: &str = "here $1; timeout --signal=KILL 1000 sleep 1000";

struct Lab {
    out: TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { out: tempdir().unwrap() }
    }

    /// Bash with the lab's code, `scenario` as the work of each pair (`$1` is its name), and a script that runs them.
    fn bash(&self, scenario: &str, script: &str) -> Command {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it lies in one");
        let mut bash = Command::new("timeout");
        bash.args([&PATIENCE.as_secs().to_string(), "bash", "-c"]);
        bash.arg(format!("{LAB}{MARKS}lab_one() {{ LAB_WRONG=''; {scenario}\n}}\n{script}"));
        bash.current_dir(root).env("LAB_OUT", self.out.path());
        bash
    }

    fn play(&self, scenario: &str, pairs: &str) -> Output {
        self.bash(scenario, &format!("lanes_play 2 {pairs}")).output().expect("bash is here")
    }

    fn starts(&self, scenario: &str, script: &str) -> Child {
        let mut bash = self.bash(scenario, script);
        bash.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bash is here")
    }

    fn has(&self, file: &str) -> bool {
        self.out.path().join(file).exists()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn two_scenarios_at_once_keep_their_outputs_apart() {
    let played = Lab::new().play(TALKS, "'boots plain' 'lossy plain' 'serves newest'");
    let said = text(&played.stdout);
    assert!(played.status.success(), "{said}{}", text(&played.stderr));
    for scenario in ["boots", "lossy", "serves"] {
        let whole = format!("first of {scenario}\nlast of {scenario}\n");
        assert!(said.contains(&whole), "not at once, or not whole: {scenario}\n{said}");
    }
    assert!(said.contains("lab serves           on newest            begins, 3 of 3\n"), "{said}");
    assert!(said.contains("lab: 3 passed, 0 failed"), "{said}");
}

#[test]
fn every_failure_is_reported() {
    let fails =
        "case $1 in lossy) LAB_WRONG='a byte is wrong' ;; paced) LAB_WRONG='too fast' ;; esac";
    let played = Lab::new().play(fails, "'paced plain' 'lossy plain' 'serves newest'");
    let said = text(&played.stdout);
    assert_eq!(played.status.code(), Some(1), "{said}");
    assert!(said.contains("lab: 1 passed, 2 failed"), "{said}");
    assert!(said.contains("lab: failed lossy on plain: a byte is wrong\n"), "{said}");
    assert!(said.contains("lab: failed paced on plain: too fast\n"), "{said}");
}

/// `paced` and `throttled-disk` say in their headers that they want to run alone. The others stay until both of them have begun.
#[test]
fn a_scenario_that_wants_to_be_alone_has_no_other_beside_it() {
    let looks = "mkdir \"$LAB_OUT/on-$1\"
      case $1 in
        paced | throttled-disk) sleep 0.3; [ \"$(ls -d \"$LAB_OUT\"/on-* | wc -l)\" = 1 ] || LAB_WRONG='it was not alone' ;;
        *) here $1; wait_for boots; wait_for lossy ;;
      esac
      rmdir \"$LAB_OUT/on-$1\"";
    let pairs = "'boots plain' 'paced plain' 'throttled-disk plain/kernel' 'lossy plain'";
    let played = Lab::new().play(looks, pairs);
    let said = text(&played.stdout);
    assert!(played.status.success(), "{said}{}", text(&played.stderr));
    assert!(said.contains("lab: 4 passed, 0 failed"), "{said}");
}

/// Every process that has the lab's standard error open belongs to the lab.
#[test]
fn a_signal_ends_all_machines() {
    let lab = Lab::new();
    let mut child =
        lab.starts(STAYS, "echo $$ >\"$LAB_OUT/pid\"; lanes_play 2 'boots plain' 'lossy plain'");
    let errors = Said::listen(child.stderr.take().expect("it is a pipe"));
    until("two scenarios play", || lab.has("here-boots") && lab.has("here-lossy"));
    let pid = std::fs::read_to_string(lab.out.path().join("pid")).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).expect("a process");
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    until("all processes have ended", || errors.has_ended());
    assert_eq!(child.wait().unwrap().code(), Some(143), "{:?}", errors.lines());
}

/// A step of CI that takes too long is stopped: all its processes get a signal. Scenarios used to continue after that, one by one.
#[test]
fn no_scenario_begins_once_the_budget_is_over() {
    let lab = Lab::new();
    let over = "{ wait_for boots; wait_for lossy; budget_watch 0; } &\ndisown\n";
    let pairs = "'boots plain' 'lossy plain' 'serves newest' 'numa four-nodes'";
    let mut child = lab.starts(STAYS, &format!("{over}lanes_play 2 {pairs}"));
    let errors = Said::listen(child.stderr.take().expect("it is a pipe"));
    let output = Said::listen(child.stdout.take().expect("it is a pipe"));
    until("all processes have ended", || errors.has_ended());
    let status = eventually("the lab's end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(1), "{:?}", errors.lines());
    until("all of its output", || output.has_ended());
    let said = output.lines().join("\n");
    assert!(!lab.has("here-serves") && !lab.has("here-numa"), "{said}");
    for scenario in ["boots", "lossy"] {
        let ended = format!("lab: failed {scenario} on plain: ended before its verdict");
        assert!(said.contains(&ended), "{said}");
    }
    errors.wait_for("2 scenarios were not played");
}

/// Two routes on one machine used to share an initramfs, which was removed when either had ended.
#[test]
fn no_two_pairs_share_a_file() {
    let names = "lab_all | while read -r pair; do lab_file \"$pair\" log; echo; done";
    let named = Lab::new().bash("", names).output().expect("bash is here");
    let named = text(&named.stdout);
    let mut files: Vec<_> = named.lines().collect();
    assert!(files.len() > 50, "{named}");
    files.sort_unstable();
    assert!(files.windows(2).all(|two| two[0] != two[1]), "{named}");
}

/// `silo-moves` has machines for `--long` only. The lab used to say that there was nothing to play, and passed.
#[test]
fn a_scenario_that_was_named_and_is_not_played_is_a_failure_that_says_how_to_play_it() {
    let plays = "touch \"$LAB_OUT/played\"";
    let lab = Lab::new();
    let refused = lab.bash(plays, "lab_main silo-moves").output().expect("bash is here");
    let said = text(&refused.stdout) + &text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("./run lab --long silo-moves"), "{said}");
    assert!(!lab.has("played"), "{said}");
    let scenarios = "for s in $(lab_names scenarios); do [ -n \"$(LAB_LONG=1; lab_pairs $s)\" ] || echo $s; done";
    let never = lab.bash(plays, scenarios).output().expect("bash is here");
    assert_eq!(text(&never.stdout), "", "these are played on no machine at all");
}
