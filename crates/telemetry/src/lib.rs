//! What the server counts, and how it tells.
//!
//! A [`Metric`] says once what a number is called, what it means, what kind and unit it has. `/metrics`, `/status.json` and the table
//! in `docs/metrics.md` are all written from it, so that none of them can say something else.
//!
//! [`Numbers`] are one worker's. Only that worker's thread writes them, so counting is a plain addition: no lock, no atomic
//! operation that waits, no cache line that another thread writes. Whoever reads them makes [`Totals`], the sum over the workers. Readers
//! see each number whole, but not all of them at one instant.
//!
//! Read first: `metric`, then `numbers`, which has the list.

mod exposition;
mod family;
mod histogram;
mod metric;
mod number;
mod numbers;
mod totals;

pub use exposition::{Exposition, Summary};
pub use family::Family;
pub use histogram::{Buckets, Histogram};
pub use metric::{Kind, Metric, Stored, Unit, Value};
pub use number::Number;
pub use numbers::{Counted, Numbers};
pub use totals::Totals;

/// Every metric of this crate. Those of other crates are consts of theirs.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    numbers::PLAIN
        .iter()
        .chain(Family::ALL.iter().map(|family| family.metric()))
        .chain([&numbers::FIRST_BYTE])
}
