//! Three gateways in networks of their own, which share an etcd in another one: one of them is cut off from everything, then all are cut off from
//! viewers and nodes. Packets vanish silently, so no closed connection gives it away.

use crate::house::{Extras, Fleet, Seat, get, node_of, route_at};
use crate::networks::{GATEWAY, Town, address};
use crate::nodes::{swarm, swarm_until};
use crate::stores::Stores;
use fullbore_tests::{Namespace, until};
use serde_json::Value;
use std::sync::Arc;

/// Numbers of networks: of etcd and the objects, and of the second and third gateway. The first gateway's is that of [`GATEWAY`].
const STORES: usize = 60;
const OTHERS: [usize; 2] = [61, 62];
const FIRST: usize = 0;

/// A gateway, and the network that it is in.
struct Gateway<'t> {
    network: &'t Namespace,
    /// Address for viewers.
    url: String,
    admin: String,
}

impl Gateway<'_> {
    /// Its page for an operator on its machine.
    fn page(&self, fleet: &Fleet) -> Value {
        self.network.inside(|| fleet.page_at(&self.admin))
    }

    fn leads(&self, fleet: &Fleet) -> bool {
        self.page(fleet)["leader"].is_string()
    }

    /// A command: its standard output, or the error.
    fn control(&self, fleet: &Fleet, words: &[&str]) -> Result<Value, String> {
        let ran = self.network.inside(|| fleet.control_at(&self.admin, words));
        if !ran.status.success() {
            return Err(String::from_utf8_lossy(&ran.stderr).into_owned());
        }
        Ok(serde_json::from_slice(&ran.stdout).unwrap())
    }

    fn state_of(&self, fleet: &Fleet, name: &str) -> String {
        let nodes = self.control(fleet, &["nodes"]).unwrap_or_default();
        node_of(&nodes, name)["state"].as_str().unwrap_or_default().to_owned()
    }

    fn takes_all_for_serving(&self, fleet: &Fleet) -> bool {
        fleet.nodes.iter().all(|node| self.state_of(fleet, &node.name) == "serving")
    }
}

#[test]
#[ignore = "takes more than a minute: ./run fleet-lab"]
fn of_three_gateways_one_is_cut_off_then_all_and_nobody_stalls() {
    let town = Town::if_possible(3, 1).expect("namespaces and tc");
    let (hosts, stores) = (town.hosts(&[0, 1, 2]), town.network(STORES));
    let others = OTHERS.map(|number| town.network(number));
    let stores = stores.inside(|| Stores::start(&address(STORES), 1));
    let stores = stores.expect("etcd: ./run fleet-lab unpacks it");
    let home = Arc::clone(&town.gateway);
    home.inside(|| {
        let networks = Some((GATEWAY, &hosts[..]));
        let extras = Extras { networks, stores: Some(&stores), answers: true, ..Extras::default() };
        let fleet = Fleet::with(&["a", "b", "c"], 120, &extras);
        let seats: [Seat; 2] =
            [0, 1].map(|at| fleet.another_seat(["g2", "g3"][at], &address(OTHERS[at])));
        let _running = [0, 1].map(|at| others[at].inside(|| fleet.start_second(&seats[at], None)));
        let other = |at: usize| Gateway {
            network: &others[at],
            url: seats[at].url(),
            admin: seats[at].admin(),
        };
        let first = Gateway { network: &home, url: fleet.url.clone(), admin: fleet.admin.clone() };
        part(&town, &fleet, &[first, other(0), other(1)]);
    });
}

/// Viewers with the manifests of two gateways play during the faults.
fn part(town: &Town, fleet: &Fleet, gateways: &[Gateway<'_>; 3]) {
    until("all gateways to hear all nodes", || {
        gateways.iter().all(|gateway| gateway.takes_all_for_serving(fleet))
    });
    let own = |answers: &Option<String>| route_at(answers.as_deref().expect("it answers")).len();
    until("nodes to know the fleet", || fleet.nodes.iter().all(|node| own(&node.answers) == 3));
    let leaders = || gateways.iter().filter(|gateway| gateway.leads(fleet)).count();
    until("one of them to lead", || leaders() == 1);
    assert!(gateways[0].leads(fleet), "the first one led before the others came");

    let words = "--viewers 12 --over 2s --duration 10m --watch 10m --buffer 20s";
    let watching = |gateway: &Gateway<'_>| format!("{}/play/film/master.m3u8", gateway.url);
    let (films, viewers) = ([&gateways[0], &gateways[1]].map(watching), &town.viewers[0]);
    let ran = std::thread::scope(|scope| {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let film = films[0].clone();
        let of_first = scope.spawn(move || {
            // The other end is dropped after the last fault, or on failure.
            viewers.inside(move || {
                swarm_until(&film, words, move || {
                    let _ = ended.recv();
                })
            })
        });
        let of_second = viewers.inside(|| {
            swarm_until(&films[1], words, || {
                let connections = || fleet.nodes.iter().map(|node| node.connections()).sum::<u64>();
                until("all viewers to have begun", || connections() >= 3 * 24);
                one_is_cut_off(town, fleet, gateways);
                all_are_cut_off(town, fleet, gateways);
            })
        });
        drop(end);
        [of_first.join().expect("it does not panic"), of_second]
    });
    for ran in ran {
        assert_eq!(ran.number("stalls/count"), 0.0, "{}\n{}", ran.figures, ran.stderr);
        assert_eq!(ran.number("sessions/without_stall"), 12.0, "{}", ran.figures);
    }
}

/// The leader reaches neither its store nor its nodes. It keeps their states and accepts no change. One of the others leads, and accepts one.
fn one_is_cut_off(town: &Town, fleet: &Fleet, gateways: &[Gateway<'_>; 3]) {
    let [first, second, third] = gateways;
    town.isolate(FIRST);
    until("one of the others to lead", || second.leads(fleet) != third.leads(fleet));
    until("the first to lead no more", || !first.leads(fleet));
    until("the first to doubt itself", || first.page(fleet)["frozen"].is_string());
    let refused = first.control(fleet, &["drain", "node-1", "--reason", "a try"]).unwrap_err();
    assert_eq!(refused.lines().count(), 1, "{refused}");
    assert!(first.takes_all_for_serving(fleet), "it takes silence for death");
    second.control(fleet, &["drain", "node-1", "--reason", "a try"]).unwrap();
    until("both others to send no viewer there", || {
        [second, third].iter().all(|gateway| {
            let route = town.viewers[0].inside(|| route_at(&gateway.url));
            route.len() == 2 && !route.contains(&"node-1".to_owned())
        })
    });
    town.reach_again(FIRST);
    until("the first to know of the change", || {
        first.state_of(fleet, "node-1").starts_with("drain")
            && !first.page(fleet)["frozen"].is_string()
    });
    assert!(!first.leads(fleet), "two lead");
    first.control(fleet, &["undrain", "node-1"]).unwrap();
    until("all to take all nodes for serving", || {
        gateways.iter().all(|gateway| gateway.takes_all_for_serving(fleet))
    });
}

/// No gateway can be reached: nodes answer new viewers. Afterwards everything is as before.
fn all_are_cut_off(town: &Town, fleet: &Fleet, gateways: &[Gateway<'_>; 3]) {
    let all = [FIRST, OTHERS[0], OTHERS[1]];
    all.iter().for_each(|number| town.isolate(*number));
    until("all gateways to doubt themselves", || {
        gateways.iter().all(|gateway| gateway.page(fleet)["frozen"].is_string())
    });
    for node in &fleet.nodes {
        let film =
            format!("{}/play/film/master.m3u8", node.answers.as_deref().expect("it answers"));
        let words = "--viewers 3 --over 0 --duration 4s --watch 1h --buffer 4s";
        let ran = town.viewers[0].inside(|| swarm(&film, words));
        assert_eq!(ran.number("sessions/without_stall"), 3.0, "{}\n{}", ran.figures, ran.stderr);
    }
    all.iter().for_each(|number| town.reach_again(*number));
    until("one to lead again", || {
        gateways.iter().filter(|gateway| gateway.leads(fleet)).count() == 1
    });
    until("all to hear all nodes again", || {
        gateways.iter().all(|gateway| {
            gateway.takes_all_for_serving(fleet) && !gateway.page(fleet)["frozen"].is_string()
        })
    });
    assert!(gateways.iter().all(|gateway| {
        town.viewers[0].inside(|| get(&format!("{}/play/film/master.m3u8", gateway.url)).0 == 200)
    }));
}
