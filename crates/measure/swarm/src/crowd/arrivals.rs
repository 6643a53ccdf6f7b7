//! When viewers arrive.

use crate::bad_option::BadOption;
use crate::random::exponential;
use fastrand::Rng;
use std::fmt;
use std::str::FromStr;

/// How arrivals are spread over the arrival time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Each at any time, independently of the others: a Poisson process, given the number of arrivals.
    #[default]
    Poisson,
    /// A curve like that of an evening: a fifth of the peak at first, the peak after three fifths of the time, three tenths of it at the
    /// end. (The curve is our own choice; every published curve shows one peak of demand in the late evening.)
    Evening,
    /// All want to see it from the first minute: arrivals fall off exponentially, and the first tenth of the time has 63% of them (our own
    /// choice).
    Premiere,
    /// All at once.
    Together,
}

/// How fast a premiere's arrivals fall off: how many times the mean fits into the whole time.
const PREMIERE_MEANS: f64 = 10.0;

impl Arrivals {
    /// Draws an arrival, from 0, the beginning of the time, to less than 1.
    pub(crate) fn draw(self, random: &mut Rng) -> f64 {
        match self {
            Self::Poisson => random.f64(),
            Self::Evening => loop {
                let place = random.f64();
                if random.f64() < evening(place) {
                    return place;
                }
            },
            Self::Premiere => loop {
                let place = exponential(random) / PREMIERE_MEANS;
                if place < 1.0 {
                    return place;
                }
            },
            Self::Together => 0.0,
        }
    }
}

/// Demand at this point of an evening, as a share of the peak.
fn evening(place: f64) -> f64 {
    let [begin, peak_at, end] = [0.2, 0.6, 0.3];
    if place < peak_at {
        begin + (1.0 - begin) * place / peak_at
    } else {
        1.0 - (1.0 - end) * (place - peak_at) / (1.0 - peak_at)
    }
}

const NAMES: [(&str, Arrivals); 4] = [
    ("poisson", Arrivals::Poisson),
    ("evening", Arrivals::Evening),
    ("premiere", Arrivals::Premiere),
    ("together", Arrivals::Together),
];

impl FromStr for Arrivals {
    type Err = BadOption;

    fn from_str(text: &str) -> Result<Self, BadOption> {
        let named = NAMES.iter().find(|(name, _)| *name == text);
        let wanted = "a way of arriving: poisson, evening, premiere or together";
        named.map(|(_, arrivals)| *arrivals).ok_or_else(|| BadOption::new(text, wanted))
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = NAMES.iter().find(|(_, arrivals)| arrivals == self);
        f.write_str(named.map_or("", |(name, _)| *name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of 40,000 arrivals in each tenth of the time.
    fn tenths(arrivals: Arrivals) -> [usize; 10] {
        let mut random = Rng::with_seed(5);
        let mut tenths = [0; 10];
        for _ in 0..40_000 {
            tenths[(arrivals.draw(&mut random) * 10.0) as usize] += 1;
        }
        tenths
    }

    #[test]
    fn poisson_arrivals_are_even_and_their_gaps_exponential() {
        let counts = tenths(Arrivals::Poisson);
        assert!(counts.iter().all(|count| (3800..4200).contains(count)), "{counts:?}");
        let mut random = Rng::with_seed(6);
        let mut times: Vec<f64> = (0..10_000).map(|_| random.f64()).collect();
        times.sort_by(f64::total_cmp);
        let gaps = times.windows(2).map(|two| (two[1] - two[0]) * 10_000.0);
        // A share of 1/e of the gaps is longer than the mean.
        let long = gaps.filter(|gap| *gap > 1.0).count();
        assert!((3500..3860).contains(&long), "{long}");
    }

    #[test]
    fn an_evening_has_its_peak_after_three_fifths() {
        let counts = tenths(Arrivals::Evening);
        let peak = counts.iter().max();
        assert!(peak == Some(&counts[5]) || peak == Some(&counts[6]), "{counts:?}");
        // The area under the curve is 0.62; the first tenth has 0.0267 of it, the peak's tenths about 0.093 each.
        let share = |tenth: usize| counts[tenth] as f64 / 40_000.0;
        assert!((share(0) - 0.0267 / 0.62).abs() < 0.006, "{counts:?}");
        assert!((share(5) - 0.0933 / 0.62).abs() < 0.01, "{counts:?}");
    }

    #[test]
    fn a_premiere_brings_most_in_the_first_tenth() {
        let counts = tenths(Arrivals::Premiere);
        assert!((24_500..26_100).contains(&counts[0]), "{counts:?}");
        assert_eq!(tenths(Arrivals::Together)[0], 40_000);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, arrivals) in NAMES {
            assert_eq!(name.parse(), Ok(arrivals));
            assert_eq!(arrivals.to_string(), name);
        }
        assert!("never".parse::<Arrivals>().is_err());
    }
}
