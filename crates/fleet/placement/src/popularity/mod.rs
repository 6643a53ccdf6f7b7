//! Counts what viewers watch in each region, and forecasts what they will watch tomorrow. No I/O and no clock: calls take the time, in
//! seconds since 1970.
//!
//! [`FleetPopularity`] keeps two things per region: decayed views of each title, and the total for each hour of the week. A forecast
//! multiplies the two. A count for each title, region *and* hour would take 168 times the memory, and few titles have enough starts in one
//! hour of one region to tell a habit from chance.
//!
//! # Invariants
//! - At most [`COUNTS_MAX`] counts (a title in a region) are kept; the least watched are merged into their region's rest, so no byte is
//!   lost. At most [`REGIONS_MAX`] regions.
//! - Numbers stay finite, whatever is reported and however the clock jumps: a time before the last one counts as the last one.
//! - [`PopularityState`] can be read back after it was written. It is bounded, and has a version.
//!
//! Read first: `decayed.rs`, then `counts.rs` and `forecast.rs`.

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
