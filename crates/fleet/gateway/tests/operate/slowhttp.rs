//! slowhttptest's four modes against all listeners of a gateway at once, while viewers, machines and operators are still served.

use fullbore_tests::{SlowAttack, may_open};

use crate::fleet::{DESCRIPTORS, Running, folder};

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_keep_nobody_out_of_any_listener() {
    if !SlowAttack::is_possible() || !may_open(DESCRIPTORS) {
        return;
    }
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    let public = format!("http://{}/api/v1/titles", fleet.public);
    let admin = format!("http://{}/healthz", fleet.admin);
    let machines = format!("{}/machine/v1/keys", fleet.machines_url);
    let mut attack = SlowAttack::on(&[&public, &admin, &machines], 150, 30);
    while attack.goes_on() {
        attack.others_get(&public, "200");
        attack.others_get(&admin, "200");
        // A stranger gets the answer that a certificate is needed.
        attack.others_get(&machines, "401");
        fleet.get("/api/v1/nodes").await;
    }
    fleet.stop().await;
}
