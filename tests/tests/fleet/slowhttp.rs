//! slowhttptest's four modes at once against a node that answers viewers itself: they are answered, operators see it, and it stays in the fleet.

use std::process::{Child, Command, Stdio};

use fullbore_tests::{tool, until};

use crate::house::{Extras, Fleet};

/// slowhttptest's flags for slow heads, slow bodies, ranges without end, and slow reading.
const MODES: [&[&str]; 4] = [
    &["-H", "-i", "2"],
    &["-B", "-i", "2", "-s", "1000000"],
    &["-R", "-a", "10", "-b", "3000"],
    &["-X", "-n", "1", "-w", "10", "-y", "20", "-z", "5", "-k", "3"],
];

/// Connections of each attack, how many of them begin in a second, and how many seconds it lasts.
const BOUNDS: [&str; 8] = ["-c", "400", "-r", "100", "-l", "12", "-p", "3"];

/// One slowhttptest against one listener. Dropping it ends it.
struct Attack(Child);

impl Attack {
    fn start(mode: &[&str], url: &str) -> Self {
        let mut command = Command::new("slowhttptest");
        command.args(mode).args(BOUNDS).args(["-u", url]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("slowhttptest starts"))
    }

    fn is_over(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_some()
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status of the answer, and the seconds that it took. The client has an address of its own.
fn ask(url: &str) -> (String, f64) {
    let mut command = tool::command("curl");
    command.args(["-sS", "--interface", "127.0.0.9", "--max-time", "60", "-o", "/dev/null"]);
    let text = tool::run(command.args(["-w", "%{http_code} %{time_total}", url])).text();
    let (status, seconds) = text.split_once(' ').unwrap_or_default();
    (status.to_owned(), seconds.parse().unwrap_or(f64::INFINITY))
}

#[test]
fn slow_clients_keep_nobody_out_of_a_node_that_answers_viewers() {
    if !tool::are_here(&[("slowhttptest", "slowhttptest"), ("curl", "curl")]) {
        return;
    }
    let extras = Extras { answers: true, ..Extras::default() };
    let fleet = Fleet::with(&["a"], 10, &extras);
    let answers = fleet.nodes[0].answers.clone().expect("it answers");
    let (health, film) = (format!("{answers}/healthz"), format!("{answers}/play/film/master.m3u8"));
    until("the node to know the fleet", || ask(&film).0 == "200");
    let mut attacks: Vec<_> = MODES.iter().map(|mode| Attack::start(mode, &film)).collect();
    let (mut asked, mut longest) = (0, 0.0_f64);
    while asked < 3 || !attacks.iter_mut().all(Attack::is_over) {
        for url in [&health, &film, &fleet.film(), &format!("{}/healthz", fleet.admin)] {
            let (status, seconds) = ask(url);
            assert_eq!(status, "200", "{url}, {asked}");
            longest = longest.max(seconds);
        }
        assert_eq!(fleet.state_of("node-1"), "serving");
        asked += 1;
    }
    eprintln!("{asked} times, everybody was answered; it took {longest:.3} s at most");
    // It beat all the time.
    assert_eq!(fleet.gateway.stderr.line_with("-> lost"), None);
}
