//! Small, hand-made fleets.

use std::net::IpAddr;

use fleet_protocol::{
    Announced, Digest, FleetSnapshot, Name, NodeKind, NodePlace, PublishedTitle, Site,
    SnapshotNode, State, SteeringPolicy, TitleDocument,
};
use fullbore_steering::{Decision, Fleet, Question};

/// The title in all questions.
pub(crate) const TITLE: &str = "films/tears";

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(crate) fn question(from: &str) -> Question<'static> {
    Question { address: address(from), title: TITLE, viewer: 1, region: None, playing: None }
}

/// An open node that holds the title.
pub(crate) fn node(own: &str, site: &str) -> SnapshotNode {
    SnapshotNode {
        name: name(own),
        host: format!("{own}.example"),
        place: NodePlace { site: name(site), cluster: name("c"), rack: None },
        kind: NodeKind::Storage,
        state: State::Serving,
        not_me: Vec::new(),
        ceiling_bits_per_second: 10_000_000_000,
        load_permille: 100,
        full: false,
        holds: vec![0],
    }
}

pub(crate) fn site(own: &str, region: &str, place: Option<(f64, f64)>) -> Site {
    Site {
        name: name(own),
        region: name(region),
        latitude: place.map(|place| place.0),
        longitude: place.map(|place| place.1),
        announced: Vec::new(),
    }
}

pub(crate) fn title(path: &str) -> PublishedTitle {
    let document = |path: &str| TitleDocument { path: path.to_owned(), sha256: Digest::of(b"") };
    PublishedTitle {
        path: path.to_owned(),
        version: Digest::of(b""),
        bytes: 1,
        duration_seconds: 1.0,
        record: document("title.json"),
        hls: document("master.m3u8"),
        dash: document("manifest.mpd"),
        origin: "file:///films".to_owned(),
        published_unix_seconds: 0,
    }
}

/// A builder for fleets: nodes, and their sites.
#[derive(Default)]
pub(crate) struct Builder {
    nodes: Vec<SnapshotNode>,
    sites: Vec<Site>,
}

impl Builder {
    pub(crate) fn site(mut self, own: &str, region: &str, place: Option<(f64, f64)>) -> Self {
        self.sites.push(site(own, region, place));
        self
    }

    pub(crate) fn with(mut self, node: SnapshotNode) -> Self {
        if self.sites.iter().all(|site| site.name != node.place.site) {
            self = self.site(node.place.site.as_str(), "r", None);
        }
        self.nodes.push(node);
        self
    }

    pub(crate) fn announced(self, site: &str, prefix: &str) -> Self {
        self.announced_by(site, prefix, 0, 0)
    }

    pub(crate) fn announced_by(mut self, site: &str, prefix: &str, path: u8, med: u32) -> Self {
        let own = self.sites.iter_mut().find(|own| own.name.as_str() == site).expect("a site");
        let prefix = prefix.parse().expect("a prefix");
        own.announced.push(Announced { prefix, as_path_length: path, med });
        self
    }

    pub(crate) fn snapshot(self) -> FleetSnapshot {
        snapshot(self.sites, self.nodes, vec![title(TITLE)])
    }

    pub(crate) fn fleet(self) -> Fleet {
        Fleet::new(self.snapshot(), None).expect("a good snapshot")
    }
}

pub(crate) fn snapshot(
    mut sites: Vec<Site>,
    mut nodes: Vec<SnapshotNode>,
    titles: Vec<PublishedTitle>,
) -> FleetSnapshot {
    nodes.sort_by(|one, next| one.name.cmp(&next.name));
    sites.sort_by(|one, next| one.name.cmp(&next.name));
    FleetSnapshot {
        version: 1,
        epoch: 1,
        gateway: name("gw"),
        number: 7,
        made_unix_millis: 0,
        policy: SteeringPolicy::default(),
        sites,
        nodes,
        titles,
    }
}

/// The nodes in an answer, by name.
pub(crate) fn names<'f>(fleet: &'f Fleet, decision: &Decision) -> Vec<&'f str> {
    let nodes = &fleet.snapshot().nodes;
    decision.ranked.iter().map(|ranked| nodes[ranked.node].name.as_str()).collect()
}
