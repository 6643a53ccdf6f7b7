//! Forecasts what viewers will watch ([`popularity`]), decides which nodes of a fleet hold which titles, and computes the copies that this
//! requires. No I/O and no clock.
//!
//! [`plan`] takes the known facts (titles, nodes with the titles that they hold, the views of each region) and returns a [`Plan`]: a
//! manifest for each cluster, and the moves that lead there.
//!
//! # Invariants
//! - No node gets more than its room.
//! - Pins come first, then the floor (N copies in N failure domains), then demand. A later one never takes the room of an earlier one.
//! - The bytes of all moves stay within the limits on churn: the fleet's and each node's. Moves that do not fit wait for the next plan.
//! - A move because of demand is expected to be worth its bytes, and more than the copies that it displaces.
//! - The same input gives the same plan to the byte, whatever the order of its lists. Scores are integers.
//!
//! # Read first
//! `plan.rs`, then `floor.rs` and `wanted.rs` (demand). `steering::TitleOrder` decides which node of a site comes first for a title.

#![forbid(unsafe_code)]

mod bits;
mod copy_table;
mod floor;
mod forecast;
mod input;
mod manifest;
mod moves;
mod outlook;
mod plan;
pub mod popularity;
mod topology;
mod wanted;

pub use input::{
    CutOffs, Pin, PinScope, PlacementError, PlacementInput, PlacementNode, PlacementPolicy,
    PlacementTitle, RegionDemand, TitleDemand,
};
pub use manifest::{ClusterManifest, ManifestTitle};
pub use outlook::SiteOutlook;
pub use plan::{Plan, PlannedMove, Why, plan};
