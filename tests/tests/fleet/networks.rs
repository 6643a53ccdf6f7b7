//! The networks of a fleet and of its viewers, joined by a router in which paths break.
//!
//! The gateway's network, one for each site, some for viewers and any others that a test wants are namespaces; so is the router between them. Faults
//! are rules of the router: it drops packets silently, or sends them over a narrow line. Faults are silent: no interface goes down, and no ICMP
//! comes back.

use crate::house::Place;
use fullbore_tests::{Namespace, tool};
use std::sync::Arc;

/// The gateway's address.
pub(crate) const GATEWAY: &str = "10.90.0.1";

/// The rate of a narrow path, for all viewers of one network together.
pub(crate) const NARROW: &str = "200kbit";

/// Sites are numbered from here on, viewers' networks from there on.
const SITES_FROM: usize = 1;
const VIEWERS_FROM: usize = 100;

/// The address of the only machine in the network of that number.
pub(crate) fn address(network: usize) -> String {
    format!("10.90.{network}.1")
}

/// A set of joined networks.
pub(crate) struct Town {
    router: Namespace,
    pub(crate) gateway: Arc<Namespace>,
    sites: Vec<Arc<Namespace>>,
    pub(crate) viewers: Vec<Arc<Namespace>>,
}

impl Town {
    /// Networks for a gateway, for `sites` sites and for this many groups of viewers. If they can't be made here, reports that and returns `None`.
    pub(crate) fn if_possible(sites: usize, viewers: usize) -> Option<Self> {
        if !tool::are_here(&[("tc", "iproute2")]) {
            return None;
        }
        let router = Namespace::if_possible()?;
        router.set("ipv4/ip_forward", "1");
        let join = |number: usize| join(&router, number);
        let gateway = join(0);
        let sites = (0..sites).map(|at| join(SITES_FROM + at)).collect();
        let viewers: Vec<_> = (0..viewers).map(|at| join(VIEWERS_FROM + at)).collect();
        let town = Self { router, gateway, sites, viewers };
        (0..town.viewers.len()).for_each(|at| town.lay_narrow_line(at));
        Some(town)
    }

    /// One more network, of this number.
    pub(crate) fn network(&self, number: usize) -> Arc<Namespace> {
        join(&self.router, number)
    }

    /// Networks and addresses of nodes at these sites, numbered from 0.
    pub(crate) fn hosts(&self, sites: &[usize]) -> Vec<Place> {
        let place = |(at, site): (usize, &usize)| {
            let (network, host) =
                (&self.sites[*site], format!("10.90.{}.{}", SITES_FROM + site, 10 + at));
            network.address("out", &format!("{host}/24"));
            (Arc::clone(network), host)
        };
        sites.iter().enumerate().map(place).collect()
    }

    /// A second line from the router to the viewers' network `at`, which carries nothing yet.
    fn lay_narrow_line(&self, at: usize) {
        let number = VIEWERS_FROM + at;
        let (line, network) = (format!("narrow{at}"), &self.viewers[at]);
        self.router.join(&line, network, "narrow", 1500);
        self.router.address(&line, &format!("10.91.{number}.254/24"));
        network.address("narrow", &format!("10.91.{number}.1/24"));
        self.router
            .ip(&format!("route add default via 10.91.{number}.1 dev {line} table {number}"));
        let limit = ["qdisc", "add", "dev", &line, "root", "tbf", "rate", NARROW];
        self.router.succeed("tc", &[&limit[..], &["burst", "32k", "latency", "400ms"]].concat());
    }

    /// From now on, no packet gets from the site `site` to the viewers' network `at`, nor back.
    pub(crate) fn cut_off(&self, site: usize, at: usize) {
        self.drop_between(SITES_FROM + site, VIEWERS_FROM + at);
    }

    /// From now on, no packet gets from the site `site` to the gateway, nor back.
    pub(crate) fn hide_from_gateway(&self, site: usize) {
        self.drop_between(SITES_FROM + site, 0);
    }

    /// From now on, no packet leaves the network of this number, and none gets there.
    pub(crate) fn isolate(&self, number: usize) {
        self.router.ip(&format!("rule add from 10.90.{number}.0/24 blackhole"));
        self.router.ip(&format!("rule add to 10.90.{number}.0/24 blackhole"));
    }

    /// Ends that.
    pub(crate) fn reach_again(&self, number: usize) {
        self.router.ip(&format!("rule del from 10.90.{number}.0/24 blackhole"));
        self.router.ip(&format!("rule del to 10.90.{number}.0/24 blackhole"));
    }

    fn drop_between(&self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            let rule = format!("rule add from 10.90.{from}.0/24 to 10.90.{to}.0/24 blackhole");
            self.router.ip(&rule);
        }
    }

    /// From now on, packets from `host` to the viewers' network `at` go over the narrow line.
    pub(crate) fn narrow(&self, host: &str, at: usize) {
        let number = VIEWERS_FROM + at;
        self.router.ip(&format!("rule add from {host} to 10.90.{number}.0/24 lookup {number}"));
    }
}

/// A network of this number, connected to the router, with its first address.
fn join(router: &Namespace, number: usize) -> Arc<Namespace> {
    let network = Arc::new(Namespace::new());
    // Packets over the narrow line are for this network, too.
    network.set("ipv4/conf/all/rp_filter", "0");
    network.set("ipv4/conf/default/rp_filter", "0");
    router.join(&format!("to{number}"), &network, "out", 1500);
    router.address(&format!("to{number}"), &format!("10.90.{number}.254/24"));
    network.address("out", &format!("{}/24", address(number)));
    network.ip(&format!("route add default via 10.90.{number}.254"));
    network
}
