//! Purges of the fleet's edges: which orders a node lacks, and its receipts.
//!
//! Reports are kept in memory only: a gateway that starts gets them again, because nodes send every receipt that it lacks.

use std::collections::BTreeMap;

use fleet_protocol::{
    EdgeProgress, EdgeReceipt, Name, ORDERS_PER_ANSWER_MAX, PurgeOrder, PurgeOrders, State,
};
use serde::Serialize;

use super::core::Core;
use super::node::LiveNode;
use super::world::World;
use crate::clock::Now;

/// Most receipts that are kept of one node. An order without one counts as done if the node is further.
const RECEIPTS_MAX: usize = 100;

/// What a node has reported of its edge.
#[derive(Debug, Default)]
pub(super) enum EdgeStanding {
    /// Nothing: its agent is of an older release, or has just started.
    #[default]
    Unknown,
    /// It has none.
    Absent,
    /// It has one.
    Reported(EdgeReports),
}

/// The reports on an edge.
#[derive(Debug, Default)]
pub(super) struct EdgeReports {
    epoch: u64,
    done: u64,
    trouble: Option<String>,
    receipts: BTreeMap<u64, EdgeReceipt>,
}

/// How far a purge is at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PurgeState {
    /// Its edge has carried it out.
    Done,
    /// Its edge has refused all or a part of it for good.
    Refused,
    /// Its edge has not carried it out yet.
    Waiting,
    /// It has not reported whether it has an edge.
    TooOld,
    /// It has no edge.
    NoEdge,
}

/// A purge at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PurgeAtNode {
    /// The node.
    pub node: Name,
    /// Its site.
    pub site: Name,
    /// How far it is.
    pub state: PurgeState,
    /// What its edge found, if the receipt is known.
    pub films: Option<u64>,
    /// The other responses that its edge found.
    pub responses: Option<u64>,
    /// Its edge purged everything, because the node had missed orders that are no longer kept.
    pub is_everything: bool,
    /// Why it is not done, in words.
    pub why: Option<String>,
}

impl PurgeState {
    /// Whether nothing more has to happen there.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Done | Self::NoEdge)
    }
}

impl EdgeStanding {
    /// Takes a report, and returns the orders that the edge lacks.
    pub(super) fn handle(&mut self, edge: Option<EdgeProgress>, world: &World) -> PurgeOrders {
        let Some(edge) = edge else {
            *self = Self::Absent;
            return PurgeOrders::default();
        };
        if !matches!(self, Self::Reported(_)) {
            *self = Self::Reported(EdgeReports::default());
        }
        let Self::Reported(reports) = self else { return PurgeOrders::default() };
        reports.take(edge, world);
        let purges = &world.purges;
        // A node that doesn't know the epoch yet has done none. One of another epoch purges everything.
        let is_of_epoch = [0, world.epoch].contains(&reports.epoch);
        let lacks = if is_of_epoch { reports.done } else { purges.last };
        let orders = purges.after(lacks).take(ORDERS_PER_ANSWER_MAX);
        PurgeOrders {
            epoch: world.epoch,
            last: purges.last,
            dropped: purges.dropped(),
            orders: orders
                .map(|(number, order)| PurgeOrder { number, purge: order.purge.clone() })
                .collect(),
            known: reports.receipts.last_key_value().map_or(0, |(number, _)| *number),
        }
    }
}

impl EdgeReports {
    fn take(&mut self, edge: EdgeProgress, world: &World) {
        if self.epoch != edge.epoch {
            self.receipts.clear();
        }
        (self.epoch, self.done, self.trouble) = (edge.epoch, edge.done, edge.trouble);
        if self.epoch != world.epoch {
            return;
        }
        // Only those of orders, so that a node cannot fill the gateway's memory with others.
        let ordered =
            edge.receipts.into_iter().filter(|receipt| receipt.number <= world.purges.last);
        self.receipts.extend(ordered.map(|receipt| (receipt.number, receipt)));
        while self.receipts.len() > RECEIPTS_MAX {
            self.receipts.pop_first();
        }
    }

    /// The receipt for an order: its own, or that of a later purge of everything.
    fn receipt(&self, number: u64) -> Option<&EdgeReceipt> {
        let own = self.receipts.get(&number);
        own.or_else(|| {
            self.receipts.range(number..).map(|(_, one)| one).find(|one| one.is_everything)
        })
    }
}

pub(super) fn purge_at_nodes(core: &Core, number: u64, now: Now) -> Option<Vec<PurgeAtNode>> {
    core.world.purges.order(number)?;
    let nodes = core.world.nodes.iter().filter(|(_, wanted)| !wanted.is_revoked);
    let nodes = nodes.filter_map(|(name, wanted)| {
        let live = core.nodes.get(name)?;
        let mut at_node = PurgeAtNode {
            node: name.clone(),
            site: wanted.place.site.clone(),
            state: PurgeState::NoEdge,
            films: None,
            responses: None,
            is_everything: false,
            why: None,
        };
        match &live.edge {
            EdgeStanding::Absent => {}
            EdgeStanding::Unknown => {
                at_node.state = PurgeState::TooOld;
                at_node.why = Some(why_unknown(core.state_of(name)));
            }
            EdgeStanding::Reported(reports) => {
                settle(&mut at_node, reports, number, core.world.epoch);
                if at_node.state == PurgeState::Waiting {
                    at_node.why = Some(why_waiting(live, reports, core.state_of(name), now));
                }
            }
        }
        Some(at_node)
    });
    Some(nodes.collect())
}

fn settle(at_node: &mut PurgeAtNode, reports: &EdgeReports, number: u64, epoch: u64) {
    if reports.epoch != epoch || reports.done < number {
        at_node.state = PurgeState::Waiting;
        return;
    }
    at_node.state = PurgeState::Done;
    let Some(receipt) = reports.receipt(number) else { return };
    (at_node.films, at_node.responses) = (Some(receipt.films), Some(receipt.responses));
    at_node.is_everything = receipt.is_everything;
    if let Some(why) = &receipt.refused {
        at_node.state = PurgeState::Refused;
        at_node.why = Some(why.clone());
    }
}

fn why_unknown(state: State) -> String {
    match state {
        State::Lost | State::Joining => format!(
            "the node is {}, and this gateway doesn't know whether it has an edge",
            state.as_str()
        ),
        _ => "its agent has not reported whether it has an edge: it is of an older release, or it or this gateway has just started"
            .to_owned(),
    }
}

fn why_waiting(live: &LiveNode, reports: &EdgeReports, state: State, now: Now) -> String {
    match (state, &reports.trouble, live.silence(now)) {
        (State::Lost, _, Some(silence)) => {
            format!(
                "the node has been silent for {} s, and purges when it is back",
                silence.as_secs()
            )
        }
        (_, Some(trouble), _) => trouble.clone(),
        _ => "its edge has not confirmed it yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fleet_protocol::FleetPurge;
    use store::records::{OrderedPurge, PurgesRecord};

    use super::*;

    fn world(last: u64, kept: usize) -> World {
        let order = OrderedPurge {
            purge: FleetPurge::everything(),
            by: "anna".into(),
            reason: String::new(),
            unix_seconds: 1,
        };
        let purges = PurgesRecord { last, orders: vec![order; kept] };
        World { epoch: 3, purges: Arc::new(purges), ..World::default() }
    }

    fn progress(epoch: u64, done: u64, receipts: &[u64]) -> Option<EdgeProgress> {
        let receipt =
            |number: &u64| EdgeReceipt { number: *number, films: 1, ..EdgeReceipt::default() };
        let receipts = receipts.iter().map(receipt).collect();
        Some(EdgeProgress { epoch, done, receipts, trouble: None })
    }

    fn numbers(answer: &PurgeOrders) -> Vec<u64> {
        answer.orders.iter().map(|order| order.number).collect()
    }

    #[test]
    fn a_node_gets_the_orders_that_it_lacks_a_few_at_a_time() {
        let mut standing = EdgeStanding::default();
        let answer = standing.handle(progress(0, 0, &[]), &world(9, 4));
        assert_eq!((answer.epoch, answer.last, answer.dropped), (3, 9, 5));
        assert_eq!(numbers(&answer), [6, 7, 8, 9]);
        let answer = standing.handle(progress(3, 8, &[7, 8, 10]), &world(9, 4));
        assert_eq!((numbers(&answer), answer.known), (vec![9], 8), "there is no order 10");
        let answer = standing.handle(progress(2, 4, &[1]), &world(9, 4));
        assert_eq!((numbers(&answer), answer.known), (vec![], 0), "it purges everything");
        let answer = standing.handle(progress(3, 1, &[]), &world(400, 399));
        assert_eq!(answer.orders.len(), ORDERS_PER_ANSWER_MAX);
        assert_eq!(standing.handle(None, &world(9, 4)), PurgeOrders::default());
    }

    #[test]
    fn receipts_are_bounded_and_say_how_an_order_ended() {
        let world = world(400, 400);
        let mut standing = EdgeStanding::default();
        for first in (1..=200).step_by(50) {
            let receipts: Vec<_> = (first..first + 50).collect();
            standing.handle(progress(3, first + 49, &receipts), &world);
        }
        let EdgeStanding::Reported(reports) = &mut standing else { panic!("it has an edge") };
        assert_eq!(reports.receipts.len(), RECEIPTS_MAX);
        assert!(reports.receipt(100).is_none() && reports.receipt(101).is_some());
        let everything = EdgeReceipt { number: 150, is_everything: true, ..EdgeReceipt::default() };
        reports.receipts.insert(150, everything);
        assert!(reports.receipt(100).is_some_and(|receipt| receipt.is_everything));
    }
}
