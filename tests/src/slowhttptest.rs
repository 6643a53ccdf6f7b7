//! Attacks by slow clients, with slowhttptest, while other clients are served.

use crate::tool;
use std::process::{Child, Command, Stdio};

/// slowhttptest's flags for slow heads, slow bodies, endless ranges, and slow reading.
const MODES: [&[&str]; 4] = [
    &["-H", "-i", "2"],
    &["-B", "-i", "2", "-s", "1000000"],
    &["-R", "-a", "10", "-b", "3000"],
    &["-X", "-n", "1", "-w", "10", "-y", "20", "-z", "5", "-k", "3"],
];

/// How often others must be answered during one attack.
const ROUNDS: u32 = 3;

/// The length of the first attack. Servers end slow heads after 10 s.
const SECONDS: u32 = 12;

/// The length of the longest attack, for a machine that is too slow for [`ROUNDS`] within a shorter one.
const SECONDS_MAX: u32 = 400;

/// slowhttptest in its four modes at once against some listeners. Dropping it ends it.
///
/// A test asks as another client for as long as the attack goes on. It passes if that client was answered some times before the attack had
/// ended, which doesn't depend on how fast the machine is.
pub struct SlowAttack {
    urls: Vec<String>,
    /// Connections of each process, and how many of them begin in a second.
    connections: (u32, u32),
    seconds: u32,
    processes: Vec<Child>,
    /// Times that the attack was under way when it was looked at. Between two of them, others were answered.
    looks: u32,
    longest_seconds: f64,
}

impl SlowAttack {
    /// Whether its programs are here. If not, reports that.
    pub fn is_possible() -> bool {
        tool::are_here(&[("slowhttptest", "slowhttptest"), ("curl", "curl")])
    }

    /// Attacks each of `urls` in each mode with this many connections, of which `per_second` begin in a second.
    ///
    /// # Panics
    /// If slowhttptest is missing.
    pub fn on(urls: &[&str], connections: u32, per_second: u32) -> Self {
        let mut attack = Self {
            urls: urls.iter().map(|url| (*url).to_owned()).collect(),
            connections: (connections, per_second),
            seconds: SECONDS,
            processes: Vec::new(),
            looks: 0,
            longest_seconds: 0.0,
        };
        attack.begin();
        attack
    }

    fn begin(&mut self) {
        let ((connections, per_second), seconds) = (self.connections, self.seconds);
        for url in &self.urls {
            let bounds = format!("-c {connections} -r {per_second} -l {seconds} -p 3 -u {url}");
            self.processes.extend(MODES.iter().map(|mode| {
                let mut command = Command::new("slowhttptest");
                command.args(*mode).args(bounds.split(' ')).stdin(Stdio::null());
                command.stdout(Stdio::null()).stderr(Stdio::null());
                command.spawn().expect("slowhttptest starts")
            }));
        }
        self.looks = 0;
    }

    /// Whether others must be asked (again): until the attack has ended, and they were answered `ROUNDS` times before that. If the attack was too
    /// short for that, it begins again and takes twice as long.
    ///
    /// # Panics
    /// If even a long attack is over too soon.
    pub fn goes_on(&mut self) -> bool {
        // slowhttptest ends as soon as it has no open connection left.
        let is_over = |process: &mut Child| process.try_wait().expect("a child").is_some();
        if !self.processes.iter_mut().all(is_over) {
            self.looks += 1;
            return true;
        }
        let rounds = self.looks.saturating_sub(1);
        if rounds >= ROUNDS {
            let longest = self.longest_seconds;
            eprintln!(
                "others were answered in {rounds} rounds during the attack; the longest answer took {longest:.3} s"
            );
            return false;
        }
        self.seconds *= 2;
        assert!(
            self.seconds <= SECONDS_MAX,
            "{rounds} rounds were answered before the attack ended"
        );
        self.processes.clear();
        self.begin();
        true
    }

    /// Fetches `url` as another client, from an address of its own, and checks the status of the answer.
    ///
    /// # Panics
    /// If it is another one.
    #[track_caller]
    pub fn others_get(&mut self, url: &str, status: &str) {
        let mut command = tool::command("curl");
        command.args(["-sSk", "--interface", "127.0.0.9", "--max-time", "60", "-o", "/dev/null"]);
        let ran = tool::run(command.args(["-w", "%{http_code} %{time_total}", url]));
        let text = ran.text();
        let (got, seconds) = text.split_once(' ').expect("curl reports status and time");
        assert_eq!(got, status, "{url}, round {}: {}", self.looks, ran.stderr);
        let seconds = seconds.parse().expect("curl reports seconds");
        self.longest_seconds = self.longest_seconds.max(seconds);
    }
}

impl Drop for SlowAttack {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
