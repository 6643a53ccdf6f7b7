//! slowhttptest's four modes against all listeners of a gateway at once, while viewers, machines and operators are still served.

use fullbore_tests::{SlowAttack, may_open, tool};

use crate::fleet::{DESCRIPTORS, Running, folder};

/// The response status, if there is one within curl's timeout. The client has its own address.
fn status(url: &str) -> String {
    let mut command = tool::command("curl");
    command.args(["-sSk", "--interface", "127.0.0.9", "--max-time", "60"]);
    command.args(["-o", "/dev/null", "-w", "%{http_code}", url]);
    tool::run(&mut command).text()
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_keep_nobody_out_of_any_listener() {
    let tools = [("slowhttptest", "slowhttptest"), ("curl", "curl")];
    if !tool::are_here(&tools) || !may_open(DESCRIPTORS) {
        return;
    }
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    let public = format!("http://{}/api/v1/titles", fleet.public);
    let admin = format!("http://{}/healthz", fleet.admin);
    let machines = format!("{}/machine/v1/keys", fleet.machines_url);
    let listeners = [&public, &admin, &machines];
    let attack = |url: &String| SlowAttack::in_all_modes(url, 150, 30);
    let mut attacks: Vec<_> = listeners.into_iter().flat_map(attack).collect();
    let mut asked = 0;
    while asked < 3 || !attacks.iter_mut().all(SlowAttack::is_over) {
        assert_eq!(status(&public), "200", "viewers, {asked}");
        assert_eq!(status(&admin), "200", "operators, {asked}");
        // A stranger gets the answer that a certificate is needed.
        assert_eq!(status(&machines), "401", "machines, {asked}");
        fleet.get("/api/v1/nodes").await;
        asked += 1;
    }
    fleet.stop().await;
}
