//! Choosing nodes for a viewer.
//!
//! A walk over the sites, best first, finds a few that can serve. Then nodes are taken from them: first those with room, one from each site; the
//! rest of the three are nodes in a worse state, or closer together.

use std::ops::ControlFlow;

use crate::holders::within;
use crate::node_table::{self, Apart, NodeEntry};
use crate::order::{self, Whence};
use crate::{ChoiceReason, Decision, Fleet, Label, Question, Ranked, Standing, hash};

/// Most nodes in an answer.
const NODES_MAX: usize = 3;

/// A question with the matched prefix in place of the address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'q> {
    pub(crate) whence: Whence<'q>,
    pub(crate) title: &'q str,
    /// The pathway that the viewer reports.
    pub(crate) pathway: Option<&'q str>,
}

impl<'q> Known<'q> {
    pub(crate) fn of(fleet: &Fleet, question: &Question<'q>) -> Self {
        let matched = fleet.reach().longest(question.address);
        let whence = Whence { matched, region: question.region, viewer: question.viewer };
        let pathway = question.playing.map(|playing| playing.pathway);
        Self { whence, title: question.title, pathway }
    }
}

/// Which nodes a turn may take: their standing, and their distance from those taken before.
struct Turn {
    from: Standing,
    to: Standing,
    apart: Apart,
}

/// Another site is worth more than room, because the second and third node are for failures of others. But a failing node is worse than one in the
/// same place.
const TURNS: [Turn; 6] = [
    Turn { from: Standing::Open, to: Standing::Open, apart: Apart::Site },
    Turn { from: Standing::Closed, to: Standing::Closed, apart: Apart::Site },
    Turn { from: Standing::Open, to: Standing::Closed, apart: Apart::Cluster },
    Turn { from: Standing::Open, to: Standing::Closed, apart: Apart::Domain },
    Turn { from: Standing::Open, to: Standing::Closed, apart: Apart::Node },
    Turn { from: Standing::Failing, to: Standing::Failing, apart: Apart::Node },
];

/// Chooses up to three nodes for a viewer.
pub fn decide(fleet: &Fleet, question: &Question<'_>) -> Decision {
    decide_known(fleet, &Known::of(fleet, question))
}

pub(crate) fn decide_known(fleet: &Fleet, known: &Known<'_>) -> Decision {
    let ttl_seconds = ttl(fleet.snapshot().policy.ttl_seconds, known.whence.viewer);
    let mut decision = Decision {
        snapshot: fleet.snapshot().number,
        epoch: fleet.snapshot().epoch,
        matched: known.whence.matched.map(|id| fleet.reach().prefix(id)),
        ranked: Vec::new(),
        label: None,
        first_choice: None,
        ttl_seconds,
    };
    if let Some(title) = fleet.title(known.title) {
        Choice::new(fleet, known, title).make(&mut decision);
    }
    decision
}

/// A time between half the policy's time and all of it, by viewer: viewers who started in the same second ask at different times from their second
/// request on, so those of a node that goes away don't all arrive elsewhere at once.
fn ttl(policy: u32, viewer: u64) -> u32 {
    let half = policy.div_ceil(2);
    half + (hash::mix(viewer.rotate_left(32)) % u64::from(policy - half + 1)) as u32
}

/// The best of these entries for this title and viewer: by standing, then by cost.
fn least(fleet: &Fleet, entries: impl Iterator<Item = u32>, key: u64) -> Option<u32> {
    let cost = |entry: u32| fleet.node_table().at(entry).cost(key);
    let costs = entries.map(|entry| (fleet.node_table().at(entry).standing, cost(entry), entry));
    costs
        .min_by(|one, next| one.0.cmp(&next.0).then(one.1.total_cmp(&next.1)))
        .map(|(_, _, entry)| entry)
}

/// The node that a site would give this viewer if all of its nodes were healthy: one that holds the title, if any of them does. Also returns
/// whether it holds it.
fn first_of_site(fleet: &Fleet, site: usize, holders: &[u32], key: u64) -> Option<(u32, bool)> {
    let range = fleet.node_table().range(site);
    let least = |entries: &mut dyn Iterator<Item = u32>| {
        let members = entries.filter(|entry| fleet.node_table().at(*entry).is_member);
        let costs = members.map(|entry| (fleet.node_table().at(entry).cost(key), entry));
        costs.min_by(|one, next| one.0.total_cmp(&next.0)).map(|(_, entry)| entry)
    };
    let holders = within(holders, range.clone());
    let holder = least(&mut holders.iter().copied()).map(|entry| (entry, true));
    holder.or_else(|| least(&mut range.clone()).map(|entry| (entry, false)))
}

struct Choice<'c> {
    fleet: &'c Fleet,
    known: &'c Known<'c>,
    key: u64,
    holders: &'c [u32],
    /// The viewer's present node, if it may be in an answer: it holds the title and is not revoked.
    playing: Option<u32>,
    first_choice: Option<(u32, bool)>,
    /// Sites that can serve, best first.
    sites: Vec<(usize, ChoiceReason)>,
    taken: Vec<(u32, ChoiceReason)>,
}

impl<'c> Choice<'c> {
    fn new(fleet: &'c Fleet, known: &'c Known<'c>, title: usize) -> Self {
        let holders = fleet.holders().of(title);
        let playing = known
            .pathway
            .and_then(|name| fleet.node(name))
            .map(|node| fleet.node_table().of_node(node))
            .filter(|entry| holders.binary_search(entry).is_ok())
            .filter(|entry| !fleet.node_table().at(*entry).is_revoked);
        let key = node_table::key(known.title, known.whence.viewer);
        let (sites, taken) = (Vec::with_capacity(8), Vec::with_capacity(NODES_MAX));
        Self { fleet, known, key, holders, playing, first_choice: None, sites, taken }
    }

    fn entry(&self, entry: u32) -> &'c NodeEntry {
        self.fleet.node_table().at(entry)
    }

    fn make(mut self, decision: &mut Decision) {
        let stays = self.playing.filter(|entry| self.entry(*entry).standing <= Standing::Closed);
        self.taken.extend(stays.map(|entry| (entry, ChoiceReason::Playing)));
        // One more site than missing nodes: one may be the site of the node that stays.
        self.find_sites(NODES_MAX + self.taken.len());
        for turn in &TURNS {
            self.take(turn);
        }
        let kept = usize::from(stays.is_some());
        let fleet = self.fleet;
        self.taken[kept..].sort_by_key(|(entry, _)| fleet.node_table().at(*entry).standing);
        if stays.is_none() {
            self.stay_for_want_of_better();
        }
        decision.first_choice = self.first_choice.map(|(entry, _)| self.entry(entry).node as usize);
        decision.label = self.label();
        decision.ranked = self.taken.iter().map(|taken| self.ranked(*taken)).collect();
    }

    /// A viewer who must leave stays if the alternatives are only failing nodes, or none: a drain or a fault must not end a film.
    fn stay_for_want_of_better(&mut self) {
        let Some(playing) = self.playing else { return };
        let has_better = self
            .taken
            .first()
            .is_some_and(|(entry, _)| self.entry(*entry).standing <= Standing::Closed);
        if !has_better {
            self.taken.retain(|(entry, _)| *entry != playing);
            self.taken.insert(0, (playing, ChoiceReason::Playing));
            self.taken.truncate(NODES_MAX);
        }
    }

    /// Walks over the sites until `enough` of them have an open node. On the way it collects the first sites for each standing.
    fn find_sites(&mut self, enough: usize) {
        let mut counts = [0; 3];
        order::sites(self.fleet, &self.known.whence, |site, reason| {
            if self.first_choice.is_none() {
                self.first_choice = first_of_site(self.fleet, site, self.holders, self.key);
            }
            let mut stands = [false; 3];
            for entry in within(self.holders, self.fleet.node_table().range(site)) {
                if let Some(stand) = stands.get_mut(self.entry(*entry).standing as usize) {
                    *stand = true;
                }
            }
            let is_wanted = (0..3).any(|standing| stands[standing] && counts[standing] < enough);
            if is_wanted && self.sites.iter().all(|(other, _)| *other != site) {
                self.sites.push((site, reason));
                (0..3).for_each(|standing| counts[standing] += usize::from(stands[standing]));
            }
            let is_done = counts[Standing::Open as usize] >= enough;
            if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }

    fn take(&mut self, turn: &Turn) {
        for at in 0..self.sites.len() {
            let (site, reason) = self.sites[at];
            while self.taken.len() < NODES_MAX {
                let Some(entry) = self.best(site, turn) else { break };
                self.taken.push((entry, reason));
            }
        }
    }

    fn best(&self, site: usize, turn: &Turn) -> Option<u32> {
        let fits = |entry: &u32| {
            let own = self.entry(*entry);
            (turn.from..=turn.to).contains(&own.standing)
                && self.taken.iter().all(|(other, _)| own.is_apart(self.entry(*other), turn.apart))
        };
        let holders = within(self.holders, self.fleet.node_table().range(site));
        least(self.fleet, holders.iter().copied().filter(fits), self.key)
    }

    fn label(&self) -> Option<Label> {
        let (first, holds) = self.first_choice?;
        match self.taken.first() {
            Some((_, ChoiceReason::Playing)) => None,
            Some((entry, _)) if *entry == first => None,
            _ if holds => Some(Label::Health),
            _ => Some(Label::Content),
        }
    }

    fn ranked(&self, (entry, reason): (u32, ChoiceReason)) -> Ranked {
        let entry = self.entry(entry);
        Ranked { node: entry.node as usize, reason, standing: entry.standing }
    }
}
