//! The viewers of a run: when each one comes, what it watches and for how long, where it seeks, and the network it is behind.
//!
//! Invariant: a viewer depends only on (seed, number). It is the same whatever the number of viewers or threads, and the order in which
//! they are drawn. The arrival time and the number of titles do change viewers.

mod arrivals;
mod seeks;
mod shares;
mod watch;

pub use arrivals::Arrivals;
pub use seeks::{Seek, acts};
pub use shares::Shares;
pub use watch::Watch;

use crate::network::Profile;
use crate::random::{Purpose, mix, sequence};
use load::Zipf;
use std::time::Duration;

/// A crowd. `CrowdOptions::default()` is a hundred viewers who come over an hour.
#[derive(Clone, Debug)]
pub struct CrowdOptions {
    /// Number of viewers.
    pub viewers: usize,
    /// The same seed gives the same viewers.
    pub seed: u64,
    /// How arrivals are spread over the arrival time.
    pub arrivals: Arrivals,
    /// The arrival time of the whole crowd.
    pub over: Duration,
    /// Number of titles to choose from; at least one.
    pub titles: usize,
    /// The title of rank k has a probability proportional to k to the power of minus this.
    pub zipf_exponent: f64,
    /// Length of each title, which limits where viewers seek to.
    pub title_duration: Duration,
    /// How long viewers stay.
    pub watch: Watch,
    /// Mean number of seeks per hour of watching.
    pub seeks_per_hour: f64,
    /// Shares of the kinds of network.
    pub networks: Shares,
}

impl Default for CrowdOptions {
    fn default() -> Self {
        Self {
            viewers: 100,
            seed: 1,
            arrivals: Arrivals::Poisson,
            over: Duration::from_secs(3600),
            titles: 20,
            // Reports for video libraries range from 0.6 to 1.2.
            zipf_exponent: 0.8,
            title_duration: Duration::from_secs(5400),
            watch: Watch::default(),
            // Our own choice.
            seeks_per_hour: 2.0,
            networks: Shares::default(),
        }
    }
}

/// One viewer.
#[derive(Clone, Debug, PartialEq)]
pub struct Viewer {
    /// The viewer's number, counted from 0.
    pub number: usize,
    /// When it comes, relative to the beginning of the run.
    pub begins: Duration,
    /// The rank of its title, 0 for the most popular one.
    pub title: usize,
    /// How long it stays, unless the title ends earlier.
    pub watches: Duration,
    /// Its seeks, in order of time.
    pub seeks: Vec<Seek>,
    /// The network it is behind.
    pub network: Profile,
    /// The seed for all other random choices of this viewer.
    pub seed: u64,
}

/// The viewers by number. (To start them in order of arrival, sort by [`Viewer::begins`].)
pub fn crowd(options: &CrowdOptions) -> impl Iterator<Item = Viewer> + '_ {
    let zipf = Zipf::new(options.zipf_exponent, options.titles.max(1));
    (0..options.viewers).map(move |number| options.viewer(number, &zipf))
}

impl CrowdOptions {
    fn viewer(&self, number: usize, zipf: &Zipf) -> Viewer {
        let random = |purpose| sequence(self.seed, number as u64, purpose);
        let watches = self.watch.draw(&mut random(Purpose::Watch));
        let mut for_seeks = random(Purpose::Seeks);
        Viewer {
            number,
            begins: self.over.mul_f64(self.arrivals.draw(&mut random(Purpose::Arrival))),
            title: zipf.rank(random(Purpose::Title).f64()),
            watches,
            seeks: seeks::draw(self.seeks_per_hour, watches, self.title_duration, &mut for_seeks),
            network: self.networks.draw(&mut random(Purpose::Network)),
            seed: mix(mix(self.seed) ^ number as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NetworkKind;

    fn of(options: &CrowdOptions) -> Vec<Viewer> {
        crowd(options).collect()
    }

    #[test]
    fn viewers_are_the_same_however_many_are_drawn_and_in_whatever_order() {
        let few = CrowdOptions { viewers: 10, ..CrowdOptions::default() };
        let many = CrowdOptions { viewers: 1000, ..few.clone() };
        assert_eq!(of(&few), of(&many)[..10]);
        let backwards: Vec<Viewer> = of(&few).into_iter().rev().collect();
        assert_eq!(backwards[9], of(&many)[0]);
        assert_ne!(of(&few), of(&CrowdOptions { seed: 2, ..few.clone() }));
    }

    #[test]
    fn titles_follow_zipf_and_networks_their_shares() {
        let options = CrowdOptions {
            viewers: 20_000,
            titles: 100,
            zipf_exponent: 1.0,
            ..CrowdOptions::default()
        };
        let viewers = of(&options);
        let first = viewers.iter().filter(|viewer| viewer.title == 0).count() as f64;
        // The harmonic number of 100 is 5.187.
        assert!((first / (20_000.0 / 5.187) - 1.0).abs() < 0.05, "{first}");
        assert!(viewers.iter().all(|viewer| viewer.title < 100));
        let share = |kind| {
            viewers.iter().filter(|viewer| viewer.network.kind == kind).count() as f64 / 20_000.0
        };
        let shares = [NetworkKind::Home, NetworkKind::Mobile, NetworkKind::Office].map(share);
        for (share, wanted) in shares.into_iter().zip([0.70, 0.25, 0.05]) {
            assert!((share - wanted).abs() < 0.015, "{shares:?}");
        }
    }

    #[test]
    fn everybody_comes_in_time_and_seeks_while_watching() {
        let options =
            CrowdOptions { viewers: 2000, seeks_per_hour: 20.0, ..CrowdOptions::default() };
        for viewer in crowd(&options) {
            assert!(viewer.begins < options.over);
            assert!(viewer.seeks.iter().all(|seek| seek.after < viewer.watches));
            assert!(viewer.seeks.iter().all(|seek| seek.to < options.title_duration));
        }
    }

    #[test]
    fn a_crowd_of_nobody_and_a_library_of_one_title_are_possible() {
        let options = CrowdOptions { viewers: 0, titles: 0, ..CrowdOptions::default() };
        assert_eq!(of(&options), []);
        let one = CrowdOptions { viewers: 5, titles: 1, ..options };
        assert!(of(&one).iter().all(|viewer| viewer.title == 0));
    }
}
