//! The server's counters, and their reports.
//!
//! A [`Metric`] defines a number's name, meaning, kind and unit once. `/metrics`, `/status.json` and the table in `docs/metrics.md` are all
//! written from it, so they cannot disagree.
//!
//! Each worker has its own [`Numbers`]. Only that worker's thread writes them, so counting is a plain addition: no lock, no atomic
//! operation that waits, no cache line that another thread writes. Readers make [`Totals`], the sum over the workers. They see each number
//! whole, but not all of them at one instant.
//!
//! Read first: `metric`, then `numbers`, which has the list.

mod clock;
mod crossings;
mod exposition;
mod family;
mod histogram;
mod metric;
mod number;
mod numbers;
mod totals;

pub use clock::since_1970;
pub use crossings::{Crossings, ReadSource};
pub use exposition::{Exposition, Summary};
pub use family::Family;
pub use histogram::{Buckets, Histogram};
pub use metric::{Kind, Metric, StoredUnit, Unit, Value};
pub use number::Number;
pub use numbers::{Counted, Numbers};
pub use totals::Totals;

/// Every metric of this crate. Other crates define theirs as constants.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    numbers::PLAIN
        .iter()
        .chain(Family::ALL.iter().map(|family| family.metric()))
        .chain([&numbers::FIRST_BYTE])
}
