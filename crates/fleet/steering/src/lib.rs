//! Steering: the three nodes that a viewer gets, and why. No I/O and no clock.
//!
//! A [`Fleet`] is the index of a snapshot. [`decide`] answers a [`Question`] with it, and [`explain`] describes the reasons for an operator.
//!
//! # Invariants
//! - No node in an answer lacks the title in its published version, or is revoked.
//! - If serving nodes that hold the title are in three failure domains, so are the three nodes of the answer. Sites come first: three sites if
//!   possible, then clusters, then racks.
//! - New viewers get a full node only when no other one has room. Present viewers stay where they are until they must leave.
//! - A viewer's report affects only that viewer.
//! - A node without a ceiling has the usual weight at its site, not zero ([`weigh`]).
//! - An answer depends on the address only through the matched prefix. So [`Logged`] needs no address, and [`replay`] gives the same answer.
//!
//! # Read first
//! `decide.rs`, then `order.rs` (the order of sites).

#![forbid(unsafe_code)]

mod decide;
mod decision;
mod explain;
mod fleet;
mod geography;
mod hash;
mod holders;
mod log;
mod node_table;
mod order;
mod question;
mod reach;
mod renew;
mod standing;
mod title_order;
mod weight;

pub use decide::decide;
pub use decision::{ChoiceReason, Decision, Label, Ranked};
pub use explain::explain;
pub use fleet::Fleet;
pub use log::{LineError, Logged, ReplayError, replay};
pub use question::{Playing, Question};
pub use renew::FleetChanges;
pub use standing::Standing;
pub use title_order::{HashedNode, TitleOrder};
pub use weight::{
    CLAIM_BITS_PER_SECOND_MAX, CLAIM_MEDIANS_MAX, CeilingClaim, NodeWeight, Scope, WeightBasis,
    weigh,
};
