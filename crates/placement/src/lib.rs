//! Which nodes of a fleet shall hold which titles, and what it costs to bring them there. No I/O and no clock.
//!
//! [`plan`] takes what is known (titles, nodes with what they hold, what viewers of each region watch) and returns a [`Plan`]: a manifest for each
//! cluster, and the moves that lead there.
//!
//! # What always holds
//! - No node gets more than its room.
//! - Pins come first, then the floor (N copies in N failure domains), then demand. A later one never takes the room of an earlier one.
//! - The bytes of all moves stay within the bounds on churn: the fleet's and each node's. What does not fit waits for the next plan.
//! - A move for demand is expected to be worth its bytes, and more than what it displaces.
//! - The same input gives the same plan to the byte, in whatever order its lists are. Scores are integers.
//!
//! # Read first
//! `plan.rs`, then `floor.rs` and `wanted.rs` (demand). `steering::TitleOrder` says which node of a site comes first for a title.

#![forbid(unsafe_code)]

mod bits;
mod floor;
mod forecast;
mod ground;
mod input;
mod manifest;
mod moves;
mod outlook;
mod plan;
mod shelves;
mod wanted;

pub use input::{
    CutOffs, Pin, PinScope, PlacementError, PlacementInput, PlacementNode, PlacementPolicy,
    PlacementTitle, RegionDemand, TitleDemand,
};
pub use manifest::{ClusterManifest, ManifestTitle};
pub use outlook::SiteOutlook;
pub use plan::{Plan, PlannedMove, Why, plan};
