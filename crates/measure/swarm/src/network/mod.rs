//! A viewer's path as a seeded model: its rate over time, and its round trip.
//!
//! The rate is constant for [`PIECE`] and then changes: its logarithm follows a first-order autoregression, which fits the measurements
//! better than a few discrete states (Yan and others, "Learning in situ", NSDI 2020, saw no such states in 38 years of streaming). Rarely
//! it dips to a small part of itself, as under a bridge or next to a microwave oven. `model` gives the source of each number.
//!
//! The rate is that of a long TCP transfer. Loss, queues and slow start are included as far as the measurements include them; packets are
//! not modelled.

mod model;
mod path;

pub use path::{PIECE, Path};

use crate::random::log_normal;
use fastrand::Rng;
use std::fmt;
use std::time::Duration;

/// A kind of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkKind {
    /// A household's fixed line with its Wi-Fi.
    Home,
    /// A phone on the move, on 4G.
    Mobile,
    /// A fast line that many viewers share.
    Office,
}

impl fmt::Display for NetworkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Home => "home",
            Self::Mobile => "mobile",
            Self::Office => "office",
        })
    }
}

/// One viewer's network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// The kind of network.
    pub kind: NetworkKind,
    /// This viewer's median rate.
    pub bits_per_second: f64,
    /// Round trip to a nearby server.
    pub round_trip: Duration,
    /// The seed of the rate over time.
    pub seed: u64,
}

impl Profile {
    /// Draws a viewer's network of this kind.
    pub(crate) fn draw(kind: NetworkKind, random: &mut Rng) -> Self {
        let model = model::of(kind);
        let round_trip = log_normal(random, model.round_trip_ms, model.round_trip_sigma);
        Self {
            kind,
            bits_per_second: log_normal(random, model.bits_per_second, model.viewers_sigma),
            round_trip: Duration::from_secs_f64(round_trip.min(1e4) / 1e3),
            seed: random.u64(..),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profiles(kind: NetworkKind) -> Vec<Profile> {
        let mut random = Rng::with_seed(11);
        (0..10_001).map(|_| Profile::draw(kind, &mut random)).collect()
    }

    fn quantile(mut values: Vec<f64>, of_one: f64) -> f64 {
        values.sort_by(f64::total_cmp);
        values[((values.len() - 1) as f64 * of_one) as usize]
    }

    #[test]
    fn viewers_of_a_kind_differ_as_the_model_says() {
        // (kind, median in Mb/s, 5th percentile, median round trip in ms)
        let wanted = [
            (NetworkKind::Home, 39.0, 6.4, 20.0),
            (NetworkKind::Mobile, 29.0, 18.0, 45.0),
            (NetworkKind::Office, 80.0, 35.1, 10.0),
        ];
        for (kind, median, slow, round_trip) in wanted {
            let rates = || profiles(kind).iter().map(|one| one.bits_per_second / 1e6).collect();
            let near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.06;
            assert!(near(quantile(rates(), 0.5), median), "{kind}: {}", quantile(rates(), 0.5));
            assert!(near(quantile(rates(), 0.05), slow), "{kind}: {}", quantile(rates(), 0.05));
            let trips = profiles(kind).into_iter().map(|one| one.round_trip.as_secs_f64() * 1e3);
            let trip = quantile(trips.collect(), 0.5);
            assert!(near(trip, round_trip), "{kind}: {trip}");
        }
    }
}
