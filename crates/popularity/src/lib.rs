//! What viewers watch where, and what they are expected to watch tomorrow. No I/O and no clock: calls get the time, in seconds since 1970.
//!
//! [`FleetPopularity`] keeps two things of each region: what was watched of each title, decayed, and how much is watched in each hour of the week.
//! Both are multiplied for a forecast. A count for each title, region *and* hour would take 168 times the memory, and few titles have enough starts
//! in one hour of one region to tell a habit from chance.
//!
//! # What always holds
//! - At most [`COUNTS_MAX`] counts of a title in a region are kept; the least watched join their region's rest, so no byte gets lost. At most
//!   [`REGIONS_MAX`] regions.
//! - Numbers stay finite, whatever is reported and however the clock jumps: a time before the last one counts as the last one.
//! - What [`PopularityState`] writes, it reads again. It is bounded, and has a version.
//!
//! Read first: `decayed.rs`, then `counts.rs` and `forecast.rs`.

#![forbid(unsafe_code)]

mod counts;
mod decayed;
mod forecast;
mod prior;
mod state;
mod week;

pub use counts::{COUNTS_MAX, FleetPopularity, REGIONS_MAX, RegionCount};
pub use forecast::{RegionForecast, TitleForecast};
pub use prior::{KnownTitle, PinnedIn, Prior};
pub use state::{BadPopularityState, PopularityState};
