//! slowhttptest's four modes against every listener of a gateway at once, while viewers, machines and operators are answered.

use std::process::{Child, Command, Stdio};

use fullbore_tests::tool;

use crate::fleet::{Running, folder};

/// slowhttptest's flags for slow heads, slow bodies, ranges without end, and slow reading.
const MODES: [&[&str]; 4] = [
    &["-H", "-i", "2"],
    &["-B", "-i", "2", "-s", "1000000"],
    &["-R", "-a", "10", "-b", "3000"],
    &["-X", "-n", "1", "-w", "10", "-y", "20", "-z", "5", "-k", "3"],
];

/// Connections of each attack, how many of them begin in a second, and how many seconds it lasts.
const BOUNDS: [&str; 8] = ["-c", "150", "-r", "30", "-l", "12", "-p", "3"];

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

/// The status of the answer, if there is one within curl's time. The client has an address of its own.
fn status(url: &str) -> String {
    let mut command = tool::command("curl");
    command.args(["-sSk", "--interface", "127.0.0.9", "--max-time", "60"]);
    command.args(["-o", "/dev/null", "-w", "%{http_code}", url]);
    tool::run(&mut command).text()
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_keep_nobody_out_of_any_listener() {
    if !tool::are_here(&[("slowhttptest", "slowhttptest"), ("curl", "curl")]) {
        return;
    }
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    let public = format!("http://{}/api/v1/titles", fleet.public);
    let admin = format!("http://{}/healthz", fleet.admin);
    let machines = format!("{}/machine/v1/keys", fleet.machines_url);
    let listeners = [&public, &admin, &machines];
    let attack = |mode: &&[&str]| listeners.map(|url| Attack::start(mode, url));
    let mut attacks: Vec<_> = MODES.iter().flat_map(attack).collect();
    let mut asked = 0;
    while asked < 3 || !attacks.iter_mut().all(Attack::is_over) {
        assert_eq!(status(&public), "200", "viewers, {asked}");
        assert_eq!(status(&admin), "200", "operators, {asked}");
        // A stranger is answered that a certificate is needed.
        assert_eq!(status(&machines), "401", "machines, {asked}");
        fleet.get("/api/v1/nodes").await;
        asked += 1;
    }
    fleet.stop().await;
}
