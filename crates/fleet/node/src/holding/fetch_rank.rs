//! Decides whose turn it is to fetch a title from outside the cluster.
//!
//! The nodes of a cluster have an order for each title, by rendezvous hashing. The first fetches it from outside, and the others copy it
//! from that one. If that does not happen, the second goes out, too, then the third: the node of rank r waits r times as long as a title
//! should take. The wait starts again whenever a node of lower rank completes another title, because that shows it to be at work. If a node
//! goes out too early, that costs one extra copy.
//!
//! Snapshots show which titles the others have. In a large fleet these come minutes apart, so each wait is longer by that interval.
//!
//! A starting node is waited for, because its agent already fetches titles. A gateway that has just started, and has not heard from a node
//! yet, reports it as starting, but with no ceiling. Such a node is waited for only if it took part before: otherwise it may never have
//! been started.
//!
//! No I/O and no clock: every call takes the time as an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet_protocol::{Digest, FleetSnapshot, HeldTitle, Name, State};

/// Another node of the cluster.
#[derive(Debug)]
struct ClusterPeer {
    titles: usize,
    /// When it last got another title.
    grew_at: Duration,
}

/// The state that decides the turns.
#[derive(Debug, Default)]
pub(crate) struct FetchRanks {
    /// `None` until a snapshot of the fleet has come.
    peers: Option<BTreeMap<Name, ClusterPeer>>,
    /// When the last snapshot came, and its distance from the one before.
    told: Option<(Duration, Duration)>,
    /// Since when each title has been waited for.
    since: BTreeMap<HeldTitle, Duration>,
}

impl FetchRanks {
    /// Takes a snapshot of the fleet.
    pub(crate) fn handle_fleet(&mut self, fleet: &FleetSnapshot, own: &Name, now: Duration) {
        let place = |node: &fleet_protocol::SnapshotNode| {
            (node.place.site.clone(), node.place.cluster.clone())
        };
        let ours = fleet.nodes.iter().find(|node| node.name == *own).map(place);
        let mut before = self.peers.take().unwrap_or_default();
        let takes_part = |node: &fleet_protocol::SnapshotNode| match node.state {
            State::Serving | State::Draining | State::Drained => true,
            State::Joining => {
                let has_spoken = node.ceiling_bits_per_second > 0;
                has_spoken || before.contains_key(&node.name)
            }
            State::Lost | State::Revoked => false,
        };
        let peers: Vec<_> = fleet
            .nodes
            .iter()
            .filter(|node| node.name != *own && takes_part(node) && Some(place(node)) == ours)
            .collect();
        let peers = peers.into_iter().map(|node| {
            let titles = node.holds.len();
            let known = before.remove(&node.name);
            let grew_at = match &known {
                Some(known) if titles <= known.titles => known.grew_at,
                Some(_) => now,
                None => Duration::ZERO,
            };
            (node.name.clone(), ClusterPeer { titles, grew_at })
        });
        self.peers = Some(peers.collect());
        let before = self.told.map_or(now, |(at, _)| at);
        self.told = Some((now, now.saturating_sub(before)));
    }

    /// Whether this node may fetch `title` from outside its cluster now. `patience` is how long a title should take.
    pub(crate) fn may_go_out(
        &mut self,
        title: &HeldTitle,
        own: &Name,
        patience: Duration,
        now: Duration,
    ) -> bool {
        let since = *self.since.entry(title.clone()).or_insert(now);
        let Some(peers) = &self.peers else {
            // There may be other nodes: a snapshot comes with the first heartbeats.
            return now - since >= patience;
        };
        let cost = |node: &Name| Digest::of(format!("{}\n{node}", title.version).as_bytes());
        let own = cost(own);
        let lower: Vec<_> = peers.iter().filter(|(name, _)| cost(name) < own).collect();
        let grew_at = lower.iter().map(|(_, peer)| peer.grew_at).max().unwrap_or_default();
        let rank = u32::try_from(lower.len()).unwrap_or(u32::MAX);
        let patience = patience + self.told.map_or(Duration::ZERO, |(_, pause)| pause);
        now.saturating_sub(since.max(grew_at)) >= patience.saturating_mul(rank)
    }

    /// Forgets titles that are no longer waited for.
    pub(crate) fn keep(&mut self, waits: impl Fn(&HeldTitle) -> bool) {
        self.since.retain(|title, _| waits(title));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_protocol::{NodePlace, SnapshotNode, SteeringPolicy};

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn title(path: &str) -> HeldTitle {
        HeldTitle { path: path.to_owned(), version: Digest::of(path.as_bytes()) }
    }

    fn fleet(nodes: &[(&str, &str, State, u32)]) -> FleetSnapshot {
        let node = |(own, cluster, state, titles): &(&str, &str, State, u32)| SnapshotNode {
            name: name(own),
            host: "192.0.2.1".to_owned(),
            place: NodePlace { site: name("paris"), cluster: name(cluster), rack: None },
            kind: fleet_protocol::NodeKind::default(),
            state: *state,
            not_me: Vec::new(),
            ceiling_bits_per_second: 0,
            load_permille: 0,
            full: false,
            holds: (0..*titles).collect(),
        };
        FleetSnapshot {
            version: 1,
            epoch: 1,
            gateway: name("g1"),
            number: 1,
            made_unix_millis: 1,
            policy: SteeringPolicy::default(),
            sites: Vec::new(),
            nodes: nodes.iter().map(node).collect(),
            titles: Vec::new(),
        }
    }

    const TEN: Duration = Duration::from_secs(10);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn of_a_cluster_one_goes_out_at_once_and_each_title_has_another_order() {
        let names = ["n1", "n2", "n3", "n4"];
        let cluster = names.map(|name| (name, "c1", State::Serving, 0));
        let mut firsts = BTreeMap::new();
        for number in 0..100 {
            let title = title(&format!("film {number}"));
            let waits = names.map(|own| {
                let mut ranks = FetchRanks::default();
                ranks.handle_fleet(&fleet(&cluster), &name(own), seconds(5));
                let may = |ranks: &mut FetchRanks, at: u64| {
                    ranks.may_go_out(&title, &name(own), TEN, seconds(5 + at))
                };
                (0..60).find(|at| may(&mut ranks, *at)).unwrap()
            });
            let mut sorted = waits;
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 10, 20, 30]);
            let first = waits.iter().position(|wait| *wait == 0).unwrap();
            *firsts.entry(first).or_insert(0) += 1;
        }
        assert!(firsts.len() == 4 && firsts.values().all(|count| *count > 10), "{firsts:?}");
    }

    #[test]
    fn nobody_waits_for_other_clusters_or_for_nodes_that_are_away() {
        let nodes = [
            ("n1", "c1", State::Serving, 0),
            ("n2", "c2", State::Serving, 0),
            ("n3", "c1", State::Lost, 0),
            ("n4", "c1", State::Revoked, 0),
            ("n5", "c1", State::Joining, 0),
        ];
        for number in 0..20 {
            let mut ranks = FetchRanks::default();
            ranks.handle_fleet(&fleet(&nodes), &name("n1"), seconds(1));
            assert!(ranks.may_go_out(&title(&number.to_string()), &name("n1"), TEN, seconds(1)));
        }
    }

    #[test]
    fn who_starts_again_is_waited_for_until_it_is_lost() {
        let names = ["n1", "n2", "n3"];
        let in_state = |state| fleet(&names.map(|name| (name, "c1", state, 5)));
        // A gateway restarts and has not heard from any node yet. The states include this node's own.
        let restart = [in_state(State::Serving), in_state(State::Joining)];
        let firsts = |snapshots: &[FleetSnapshot], number: u64| {
            let goes_out = |own: &&str| {
                let mut ranks = FetchRanks::default();
                let times = (0..).map(seconds);
                let told = snapshots.iter().zip(times);
                told.for_each(|(fleet, now)| ranks.handle_fleet(fleet, &name(own), now));
                ranks.may_go_out(&title(&number.to_string()), &name(own), TEN, seconds(9))
            };
            names.iter().filter(|own| goes_out(own)).count()
        };
        for number in 0..20 {
            assert_eq!(firsts(&restart, number), 1);
            // The next snapshot does not forget it either.
            let longer = [restart.as_slice(), &restart[1..]].concat();
            assert_eq!(firsts(&longer, number), 1);
            let lost = [longer.as_slice(), &[in_state(State::Lost)], &restart[1..]].concat();
            assert_eq!(firsts(&lost, number), 3);
            // All boxes restart, and this one has no earlier state.
            let mut starting = in_state(State::Joining);
            starting.nodes.iter_mut().for_each(|node| node.ceiling_bits_per_second = 1);
            assert_eq!(firsts(&[starting], number), 1);
        }
    }

    #[test]
    fn who_sees_that_others_work_goes_on_waiting() {
        let cluster = |titles| {
            fleet(&[("n1", "c1", State::Serving, 0), ("n2", "c1", State::Serving, titles)])
        };
        let second = (0..).map(|number| title(&number.to_string())).find(|title| {
            let mut ranks = FetchRanks::default();
            ranks.handle_fleet(&cluster(0), &name("n1"), seconds(0));
            !ranks.may_go_out(title, &name("n1"), TEN, seconds(0))
        });
        let second = second.unwrap();
        let mut ranks = FetchRanks::default();
        ranks.handle_fleet(&cluster(3), &name("n1"), seconds(0));
        assert!(!ranks.may_go_out(&second, &name("n1"), TEN, seconds(0)));
        ranks.handle_fleet(&cluster(4), &name("n1"), seconds(8));
        assert!(!ranks.may_go_out(&second, &name("n1"), TEN, seconds(17)));
        ranks.handle_fleet(&cluster(4), &name("n1"), seconds(17));
        // It got its last title at 8, and snapshots are nine seconds apart.
        assert!(!ranks.may_go_out(&second, &name("n1"), TEN, seconds(26)));
        assert!(ranks.may_go_out(&second, &name("n1"), TEN, seconds(27)));
        ranks.keep(|_| false);
        assert!(!ranks.may_go_out(&second, &name("n1"), TEN, seconds(28)));
    }

    #[test]
    fn who_hears_seldom_of_others_waits_longer_for_them() {
        let cluster = fleet(&[("n1", "c1", State::Serving, 0), ("n2", "c1", State::Serving, 0)]);
        let waits = |title: &HeldTitle, pause: u64| {
            let mut ranks = FetchRanks::default();
            ranks.handle_fleet(&cluster, &name("n1"), seconds(0));
            ranks.handle_fleet(&cluster, &name("n1"), seconds(pause));
            let mut may = |at: u64| ranks.may_go_out(title, &name("n1"), TEN, seconds(pause + at));
            (0..2000).find(|at| may(*at)).unwrap()
        };
        let (mut first, mut second) = (0, 0);
        for number in 0..20 {
            let title = title(&number.to_string());
            match waits(&title, 5) {
                0 => first += 1,
                waited => {
                    assert_eq!((waited, waits(&title, 1000)), (15, 1010));
                    second += 1;
                }
            }
        }
        assert!(first > 0 && second > 0, "{first} {second}");
    }

    #[test]
    fn who_knows_no_fleet_waits_once() {
        let mut ranks = FetchRanks::default();
        assert!(!ranks.may_go_out(&title("a"), &name("n1"), TEN, seconds(5)));
        assert!(ranks.may_go_out(&title("a"), &name("n1"), TEN, seconds(15)));
        assert!(ranks.may_go_out(&title("b"), &name("n1"), Duration::ZERO, seconds(15)));
    }
}
