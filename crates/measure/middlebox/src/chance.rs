//! Probabilities.

use std::fmt;
use std::str::FromStr;

use crate::Random;

/// How often in 2^32 draws something happens. An integer, so that every machine draws the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chance(u64);

impl Chance {
    /// It never happens.
    pub const NEVER: Self = Self(0);
    /// It always happens.
    pub const ALWAYS: Self = Self(1 << 32);

    /// `count` times in a million; more than a million is [`Chance::ALWAYS`].
    #[must_use]
    pub const fn per_million(count: u64) -> Self {
        if count >= 1_000_000 {
            return Self::ALWAYS;
        }
        Self(((count << 32) + 500_000) / 1_000_000)
    }

    /// Draws once. It takes a number from `random` whatever the chance, so that one setting does not shift the draws of another.
    pub fn happens(self, random: &mut Random) -> bool {
        random.number() >> 32 < self.0
    }
}

impl fmt::Display for Chance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 2^32 steps fit into a double's 53 bits.
        write!(formatter, "{}%", self.0 as f64 * 100.0 / (1_u64 << 32) as f64)
    }
}

/// A text that is not a probability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a probability: write 1.5% or 0.015")]
pub struct BadChance(String);

/// A percentage with its sign (`1.5%`), or a share (`0.015`).
impl FromStr for Chance {
    type Err = BadChance;

    fn from_str(text: &str) -> Result<Self, BadChance> {
        let (number, whole) = match text.strip_suffix('%') {
            Some(percent) => (percent, 100.0),
            None => (text, 1.0),
        };
        match number.parse::<f64>() {
            Ok(value) if (0.0..=whole).contains(&value) => {
                // The guard ensures the range, so the cast only drops the fraction.
                Ok(Self((value / whole * (1_u64 << 32) as f64).round() as u64))
            }
            _ => Err(BadChance(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_and_shares_mean_the_same() {
        assert_eq!("1.5%".parse(), "0.015".parse::<Chance>());
        assert_eq!("100%".parse(), Ok(Chance::ALWAYS));
        assert_eq!("0".parse(), Ok(Chance::NEVER));
        assert_eq!("50%".parse(), Ok(Chance::per_million(500_000)));
    }

    #[test]
    fn what_is_no_chance_is_refused() {
        for text in ["", "%", "101%", "-1%", "2", "NaN", "one"] {
            assert!(text.parse::<Chance>().is_err(), "{text}");
        }
    }

    #[test]
    fn it_happens_as_often_as_it_says() {
        let mut random = Random::new(1);
        let chance = Chance::per_million(10_000);
        let count = (0..100_000).filter(|_| chance.happens(&mut random)).count();
        assert!((900..1100).contains(&count), "{count} of 100000 at 1%");
        assert!((0..100).all(|_| Chance::ALWAYS.happens(&mut random)));
        assert!(!(0..100).any(|_| Chance::NEVER.happens(&mut random)));
    }
}
