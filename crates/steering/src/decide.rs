//! Choosing nodes for a viewer.
//!
//! A walk over the sites, best first, finds a few that can serve. Then nodes are taken from them: first those with room, one from each site; the
//! rest of the three are nodes in a worse state, or closer together.

use std::ops::ControlFlow;

use crate::holders::within;
use crate::order::{self, Whence};
use crate::seats::{self, Apart, Seat};
use crate::{Decision, Fleet, Label, Question, Ranked, Reason, Standing, hash};

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

/// The best of these seats for this title and viewer: by standing, then by cost.
fn least(fleet: &Fleet, seats: impl Iterator<Item = u32>, key: u64) -> Option<u32> {
    let cost = |seat: u32| fleet.seats().at(seat).cost(key);
    let costs = seats.map(|seat| (fleet.seats().at(seat).standing, cost(seat), seat));
    costs
        .min_by(|one, next| one.0.cmp(&next.0).then(one.1.total_cmp(&next.1)))
        .map(|(_, _, seat)| seat)
}

/// The node that a site would give this viewer if all of its nodes were healthy: one that holds the title, if any of them does. Also returns
/// whether it holds it.
fn first_of_site(fleet: &Fleet, site: usize, holders: &[u32], key: u64) -> Option<(u32, bool)> {
    let range = fleet.seats().range(site);
    let least = |seats: &mut dyn Iterator<Item = u32>| {
        let members = seats.filter(|seat| fleet.seats().at(*seat).is_member);
        let costs = members.map(|seat| (fleet.seats().at(seat).cost(key), seat));
        costs.min_by(|one, next| one.0.total_cmp(&next.0)).map(|(_, seat)| seat)
    };
    let holders = within(holders, range.clone());
    let holder = least(&mut holders.iter().copied()).map(|seat| (seat, true));
    holder.or_else(|| least(&mut range.clone()).map(|seat| (seat, false)))
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
    sites: Vec<(usize, Reason)>,
    taken: Vec<(u32, Reason)>,
}

impl<'c> Choice<'c> {
    fn new(fleet: &'c Fleet, known: &'c Known<'c>, title: usize) -> Self {
        let holders = fleet.holders().of(title);
        let playing = known
            .pathway
            .and_then(|name| fleet.node(name))
            .map(|node| fleet.seats().of_node(node))
            .filter(|seat| holders.binary_search(seat).is_ok())
            .filter(|seat| !fleet.seats().at(*seat).is_revoked);
        let key = seats::key(known.title, known.whence.viewer);
        let (sites, taken) = (Vec::with_capacity(8), Vec::with_capacity(NODES_MAX));
        Self { fleet, known, key, holders, playing, first_choice: None, sites, taken }
    }

    fn seat(&self, seat: u32) -> &'c Seat {
        self.fleet.seats().at(seat)
    }

    fn make(mut self, decision: &mut Decision) {
        let stays = self.playing.filter(|seat| self.seat(*seat).standing <= Standing::Closed);
        self.taken.extend(stays.map(|seat| (seat, Reason::Playing)));
        // One more site than missing nodes: one may be the site of the node that stays.
        self.find_sites(NODES_MAX + self.taken.len());
        for turn in &TURNS {
            self.take(turn);
        }
        let kept = usize::from(stays.is_some());
        let fleet = self.fleet;
        self.taken[kept..].sort_by_key(|(seat, _)| fleet.seats().at(*seat).standing);
        if stays.is_none() {
            self.stay_for_want_of_better();
        }
        decision.first_choice = self.first_choice.map(|(seat, _)| self.seat(seat).node as usize);
        decision.label = self.label();
        decision.ranked = self.taken.iter().map(|taken| self.ranked(*taken)).collect();
    }

    /// A viewer who must leave stays if the alternatives are only failing nodes, or none: a drain or a fault must not end a film.
    fn stay_for_want_of_better(&mut self) {
        let Some(playing) = self.playing else { return };
        let has_better = self
            .taken
            .first()
            .is_some_and(|(seat, _)| self.seat(*seat).standing <= Standing::Closed);
        if !has_better {
            self.taken.retain(|(seat, _)| *seat != playing);
            self.taken.insert(0, (playing, Reason::Playing));
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
            for seat in within(self.holders, self.fleet.seats().range(site)) {
                if let Some(stand) = stands.get_mut(self.seat(*seat).standing as usize) {
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
                let Some(seat) = self.best(site, turn) else { break };
                self.taken.push((seat, reason));
            }
        }
    }

    fn best(&self, site: usize, turn: &Turn) -> Option<u32> {
        let fits = |seat: &u32| {
            let own = self.seat(*seat);
            (turn.from..=turn.to).contains(&own.standing)
                && self.taken.iter().all(|(other, _)| own.is_apart(self.seat(*other), turn.apart))
        };
        let holders = within(self.holders, self.fleet.seats().range(site));
        least(self.fleet, holders.iter().copied().filter(fits), self.key)
    }

    fn label(&self) -> Option<Label> {
        let (first, holds) = self.first_choice?;
        match self.taken.first() {
            Some((_, Reason::Playing)) => None,
            Some((seat, _)) if *seat == first => None,
            _ if holds => Some(Label::Health),
            _ => Some(Label::Content),
        }
    }

    fn ranked(&self, (seat, reason): (u32, Reason)) -> Ranked {
        let seat = self.seat(seat);
        Ranked { node: seat.node as usize, reason, standing: seat.standing }
    }
}
