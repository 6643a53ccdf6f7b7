//! The shares of viewers behind each kind of network.

use crate::bad_option::BadOption;
use crate::network::{NetworkKind, Profile};
use fastrand::Rng;
use std::fmt;
use std::str::FromStr;

/// Weights of the kinds of network. Their sum does not matter, but at least one must be above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Fixed lines of households, with their Wi-Fi.
    pub home: f64,
    /// 4G phones on the move.
    pub mobile: f64,
    /// Fast lines that many viewers share.
    pub office: f64,
}

/// Our own choice.
impl Default for Shares {
    fn default() -> Self {
        Self { home: 70.0, mobile: 25.0, office: 5.0 }
    }
}

impl Shares {
    pub(crate) fn draw(&self, random: &mut Rng) -> Profile {
        let place = random.f64() * (self.home + self.mobile + self.office);
        let kind = if place < self.home {
            NetworkKind::Home
        } else if place < self.home + self.mobile {
            NetworkKind::Mobile
        } else {
            NetworkKind::Office
        };
        Profile::draw(kind, random)
    }

    fn set(&mut self, part: &str) -> Option<()> {
        let (name, weight) = part.split_once('=')?;
        let weight: f64 = weight.strip_suffix('%').unwrap_or(weight).parse().ok()?;
        if !(0.0..=1e9).contains(&weight) {
            return None;
        }
        match name {
            "home" => self.home = weight,
            "mobile" => self.mobile = weight,
            "office" => self.office = weight,
            _ => return None,
        }
        Some(())
    }
}

/// Parses `home=70,mobile=25,office=5`; a kind that is left out has no viewers.
impl FromStr for Shares {
    type Err = BadOption;

    fn from_str(text: &str) -> Result<Self, BadOption> {
        let mut shares = Self { home: 0.0, mobile: 0.0, office: 0.0 };
        let is_read = text.split(',').all(|part| shares.set(part).is_some());
        if is_read && shares.home + shares.mobile + shares.office > 0.0 {
            return Ok(shares);
        }
        Err(BadOption::new(text, "a list of shares such as home=70,mobile=25,office=5"))
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "home={},mobile={},office={}", self.home, self.mobile, self.office)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_they_are_written() {
        let shares = Shares::default();
        assert_eq!(shares.to_string().parse(), Ok(shares));
        assert_eq!("mobile=100%".parse(), Ok(Shares { home: 0.0, mobile: 100.0, office: 0.0 }));
        for text in ["", "home", "home=-1", "home=0", "train=5", "home=NaN"] {
            assert!(text.parse::<Shares>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_kind_without_a_share_is_not_drawn() {
        let shares: Shares = "office=1".parse().expect("a share");
        let mut random = Rng::with_seed(1);
        assert!((0..1000).all(|_| shares.draw(&mut random).kind == NetworkKind::Office));
    }
}
