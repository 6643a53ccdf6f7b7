//! Invariants of every answer, in 100,000 random fleets, checked against the snapshot alone.

use std::collections::HashSet;

use fastrand::Rng;
use fleet_protocol::{Name, SnapshotNode, State};
use fullbore_steering::{
    ChoiceReason, Decision, Fleet, Label, Logged, Playing, Question, decide, replay,
};

use crate::build::TITLE;
use crate::draw;

const FLEETS: u64 = 100_000;

/// The failure domain: a rack, or the nodes of a cluster without one.
fn domain(node: &SnapshotNode) -> (&Name, &Name, Option<&Name>) {
    (&node.place.site, &node.place.cluster, node.place.rack.as_ref())
}

fn is_failing(node: &SnapshotNode) -> bool {
    node.not_me.iter().any(|reason| reason.moves_viewers())
}

/// It serves and is healthy; it may be full.
fn is_usable(node: &SnapshotNode) -> bool {
    node.state == State::Serving && !is_failing(node)
}

fn is_open(node: &SnapshotNode) -> bool {
    is_usable(node) && node.not_me.is_empty() && !node.full
}

struct Case<'c> {
    fleet: &'c Fleet,
    question: &'c Question<'c>,
    decision: &'c Decision,
    title: u32,
}

impl<'c> Case<'c> {
    fn nodes(&self) -> &'c [SnapshotNode] {
        &self.fleet.snapshot().nodes
    }

    fn holds(&self, node: &SnapshotNode) -> bool {
        node.holds.contains(&self.title)
    }

    fn holders(&self, fits: impl Fn(&SnapshotNode) -> bool) -> Vec<&'c SnapshotNode> {
        self.nodes().iter().filter(|node| self.holds(node) && fits(node)).collect()
    }

    fn ranked(&self) -> Vec<&'c SnapshotNode> {
        self.decision.ranked.iter().map(|ranked| &self.nodes()[ranked.node]).collect()
    }

    /// The node that the viewer is playing from.
    fn playing(&self) -> Option<&'c SnapshotNode> {
        let pathway = self.question.playing?.pathway;
        self.nodes().iter().find(|node| node.name.as_str() == pathway)
    }

    fn check(&self) {
        self.check_nodes();
        self.check_domains();
        self.check_first();
        self.check_label();
        self.check_replay();
    }

    fn check_nodes(&self) {
        let ranked = self.ranked();
        let names: HashSet<_> = ranked.iter().map(|node| &node.name).collect();
        assert_eq!(names.len(), ranked.len(), "a node is there twice");
        for (place, node) in ranked.iter().enumerate() {
            assert!(self.holds(node), "{} lacks the title", node.name);
            let is_own = place == 0 && self.playing().is_some_and(|own| own.name == node.name);
            assert!(node.state == State::Serving || (is_own && node.state != State::Revoked));
        }
        let serving = self.holders(|node| node.state == State::Serving).len();
        assert!(ranked.len() >= serving.min(3), "fewer nodes than there are");
        let ttl = self.fleet.snapshot().policy.ttl_seconds;
        assert!((ttl.div_ceil(2)..=ttl).contains(&self.decision.ttl_seconds));
    }

    fn check_domains(&self) {
        let (usable, ranked) = (self.holders(is_usable), self.ranked());
        if ranked.iter().any(|node| !is_usable(node)) && usable.len() >= 3 {
            panic!("a node that is unwell is named although three are well");
        }
        let domains = |nodes: &[&'c SnapshotNode]| {
            nodes.iter().map(|node| domain(node)).collect::<HashSet<_>>().len().min(3)
        };
        let sites = |nodes: &[&'c SnapshotNode]| {
            nodes.iter().map(|node| &node.place.site).collect::<HashSet<_>>().len().min(3)
        };
        assert!(domains(&ranked) >= domains(&usable), "failure domains");
        assert!(sites(&ranked) >= sites(&usable), "sites");
    }

    fn check_first(&self) {
        let Some(first) = self.ranked().into_iter().next() else { return };
        let stays = self.decision.ranked[0].reason == ChoiceReason::Playing;
        match self.playing().filter(|own| self.holds(own)) {
            Some(own) if is_usable(own) => assert!(stays && first.name == own.name, "moved"),
            Some(own) if !self.holders(is_usable).is_empty() => {
                assert!(!stays && first.name != own.name, "not moved")
            }
            _ => {}
        }
        if !stays && !self.holders(is_open).is_empty() {
            assert!(is_open(first), "a node without room, although another has room");
        }
        // Better standings come first.
        let rest = &self.decision.ranked[usize::from(stays)..];
        assert!(rest.is_sorted_by_key(|ranked| ranked.standing));
    }

    fn check_label(&self) {
        let is_member =
            |node: &&SnapshotNode| !matches!(node.state, State::Joining | State::Revoked);
        let Some(first) = self.decision.first_choice else {
            assert_eq!(self.decision.label, None);
            return assert_eq!(self.nodes().iter().filter(is_member).count(), 0);
        };
        let first = &self.nodes()[first];
        let given = self.decision.ranked.first();
        let of_site = self.nodes().iter().filter(|node| node.place.site == first.place.site);
        let site_holds = of_site.filter(is_member).any(|node| self.holds(node));
        let expected = match given {
            Some(given) if given.reason == ChoiceReason::Playing => None,
            Some(given) if self.nodes()[given.node].name == first.name => None,
            _ if site_holds => Some(Label::Health),
            _ => Some(Label::Content),
        };
        assert_eq!(self.decision.label, expected);
        assert_eq!(
            self.holds(first),
            site_holds,
            "the first choice holds it if any of its site does"
        );
        assert!(expected != Some(Label::Health) || !is_open(first), "H, and nothing wrong with it");
        self.check_first_site(first, is_member);
    }

    /// By routing, no other site with nodes is nearer than that of the first choice.
    fn check_first_site(&self, first: &SnapshotNode, is_member: impl Fn(&&SnapshotNode) -> bool) {
        let address = self.question.address;
        let key = |site: &fleet_protocol::Site| {
            let routes = site.announced.iter().filter(|route| route.prefix.contains(address));
            routes.map(|r| (128 - r.prefix.bits(), r.as_path_length, r.med)).min()
        };
        let has_nodes = |site: &fleet_protocol::Site| {
            self.nodes().iter().filter(&is_member).any(|node| node.place.site == site.name)
        };
        let sites = self.fleet.snapshot().sites.iter();
        let best = sites.clone().filter(|site| has_nodes(site)).filter_map(key).min();
        let own = sites.clone().find(|site| site.name == first.place.site).and_then(key);
        assert_eq!(own, best, "the first choice's site");
        let longest = sites.flat_map(|site| &site.announced);
        let longest = longest.filter(|route| route.prefix.contains(address));
        let longest = longest.max_by_key(|route| route.prefix.bits()).map(|route| route.prefix);
        assert_eq!(self.decision.matched, longest);
    }

    fn check_replay(&self) {
        let line = Logged::new(self.fleet, self.question, self.decision, 1).to_line();
        assert!(!line.contains(&self.question.address.to_string()), "{line}");
        assert!(!line.contains('\n'));
        let logged = Logged::from_line(&line).expect("its own line");
        assert_eq!(replay(self.fleet, &logged).as_ref(), Ok(self.decision));
        assert!(logged.agrees_with(self.fleet, self.decision));
    }
}

#[test]
fn every_answer_keeps_its_promises() {
    let (mut full_answers, mut labels, mut moved) = (0, [0; 3], 0);
    for seed in 0..FLEETS {
        let mut random = Rng::with_seed(seed);
        let fleet = Fleet::new(draw::fleet(&mut random), None).expect("a good snapshot");
        let title = fleet.title(TITLE).expect("it has the title") as u32;
        let is_four = random.bool();
        let address = draw::address(&mut random, is_four);
        let pathway = format!("n{}", random.usize(..15));
        let bits_per_second = random.bool().then(|| random.u64(..));
        let playing = random.bool().then_some(Playing { pathway: &pathway, bits_per_second });
        let region = [None, Some("north"), Some("nowhere")][random.usize(..3)];
        let viewer = random.u64(..);
        let question = Question { address, title: TITLE, viewer, region, playing };
        let decision = decide(&fleet, &question);
        let case = Case { fleet: &fleet, question: &question, decision: &decision, title };
        let checked = std::panic::catch_unwind(|| case.check());
        assert!(
            checked.is_ok(),
            "seed {seed}\n{}\n{decision:?}",
            fullbore_steering::explain(&fleet, &question)
        );
        full_answers += u32::from(decision.ranked.len() == 3);
        labels[decision.label.map_or(0, |label| 1 + label as usize)] += 1;
        moved += u32::from(
            playing.is_some()
                && decision.ranked.first().is_some_and(|r| r.reason != ChoiceReason::Playing),
        );
    }
    // The random fleets cover the interesting cases.
    assert!(full_answers > 30_000 && moved > 3_000, "{full_answers} full answers, {moved} moved");
    assert!(labels.iter().all(|count| *count > 3_000), "labels: {labels:?}");
}

#[test]
fn what_a_viewer_reports_moves_nobody() {
    for seed in 0..2_000 {
        let mut random = Rng::with_seed(seed);
        let fleet = Fleet::new(draw::fleet(&mut random), None).expect("a good snapshot");
        let address = draw::address(&mut random, true);
        let question = |pathway, bits_per_second| {
            let playing = Some(Playing { pathway, bits_per_second });
            decide(&fleet, &Question { address, title: TITLE, viewer: 7, region: None, playing })
        };
        let calm = question("n1", None);
        for absurd in [0, 1, u64::MAX] {
            assert_eq!(question("n1", Some(absurd)), calm);
        }
        // A pathway that is not a node counts as no report.
        let new = Question { address, title: TITLE, viewer: 7, region: None, playing: None };
        for pathway in ["", "n1 ", "N1", "../n1", &"n".repeat(100_000)] {
            assert_eq!(question(pathway, Some(1)), decide(&fleet, &new));
        }
    }
}
