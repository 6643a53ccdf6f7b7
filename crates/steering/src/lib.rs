//! Which three nodes a viewer gets, and why. No I/O and no clock.
//!
//! A [`Fleet`] is the index of a snapshot. [`decide`] answers a [`Question`] from it, and [`explain`] tells an operator in words how the answer
//! came about.
//!
//! # What always holds
//! - No answer names a node that lacks the title, is revoked, or has the title in another version than the published one.
//! - If nodes that serve and hold the title are in three failure domains, so are the three of the answer. Sites come first: three sites if there are
//!   three, then clusters, then racks.
//! - New viewers get a full node only when no other has room. Viewers who play stay where they are until they must leave.
//! - What a viewer reports moves that viewer and nobody else.
//! - A node without a ceiling weighs what is usual at its site, not nothing ([`weigh`]).
//! - An answer depends on the address only through the prefix that matched it. So [`Logged`] needs no address, and [`replay`] gives the same answer.
//!
//! # Read first
//! `decide.rs`, then `order.rs` (which sites, in which order).

#![forbid(unsafe_code)]

mod decide;
mod decision;
mod explain;
mod fleet;
mod geography;
mod hash;
mod holders;
mod log;
mod order;
mod question;
mod reach;
mod renew;
mod seats;
mod standing;
mod title_order;
mod weight;

pub use decide::decide;
pub use decision::{Decision, Label, Ranked, Reason};
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
