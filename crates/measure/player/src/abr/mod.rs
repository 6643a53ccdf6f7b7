//! Chooses the bit rate of the next segment (ABR, adaptive bit rate).
//!
//! A player calls [`Abr::choose`] once for each segment. The rules differ in what they trust: `throughput` trusts the measured rate of the
//! network; `bba` and `bola` trust the buffer level, and the rate only until there is a buffer; `fixed` trusts the operator who chose the
//! rung.
//!
//! Invariants: the chosen rung exists; the same calls give the same choices; a call allocates nothing.

mod bba;
mod bola;
mod fixed;
mod throughput;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Time;
use crate::estimate::Estimate;

/// A rule, named as operators write it: `fixed:2`, `throughput`, `bba`, `bola`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Always the same rung. Zero is the lowest here; operators write `fixed:1` for it.
    Fixed(usize),
    /// Follows the measured rate, as hls.js does.
    Throughput,
    /// Follows the buffer level, as in BBA-2.
    Bba,
    /// Follows the buffer level, as in BOLA.
    Bola,
}

/// An unknown rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown rule {text:?}: use throughput, bba, bola, or fixed:N (fixed:1 is the lowest bit rate)"
)]
pub struct RuleError {
    text: String,
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let unknown = || RuleError { text: text.to_owned() };
        match text {
            "throughput" => Ok(Self::Throughput),
            "bba" => Ok(Self::Bba),
            "bola" => Ok(Self::Bola),
            _ => {
                let number = text.strip_prefix("fixed:").and_then(|number| number.parse().ok());
                let rung = number.and_then(|number: usize| number.checked_sub(1));
                rung.map(Self::Fixed).ok_or_else(unknown)
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(rung) => write!(formatter, "fixed:{}", rung.saturating_add(1)),
            Self::Throughput => formatter.write_str("throughput"),
            Self::Bba => formatter.write_str("bba"),
            Self::Bola => formatter.write_str("bola"),
        }
    }
}

/// The inputs of a rule.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The current time.
    pub now: Time,
    /// The rungs to choose from, in bits per second, lowest first.
    pub rungs: &'a [u64],
    /// The rung of the previous segment; `None` before the first.
    pub current: Option<usize>,
    /// Media buffered ahead of the playhead.
    pub buffered: Duration,
    /// Limit on buffered media.
    pub buffer_max: Duration,
    /// Playing time of a segment.
    pub segment: Duration,
    /// The network's rate in bits per second, if anything has been downloaded yet.
    pub bits_per_second: Option<f64>,
    /// Set if the playhead moves.
    pub playing: bool,
}

impl Situation<'_> {
    /// The buffer level at which there is just no room for another segment. A player asks for a segment only when it has room, so no choice
    /// is made with more than this.
    fn full_s(&self) -> f64 {
        self.buffer_max.saturating_sub(self.segment).as_secs_f64()
    }

    fn buffered_s(&self) -> f64 {
        self.buffered.as_secs_f64()
    }

    fn estimate(&self) -> f64 {
        self.bits_per_second.unwrap_or(Estimate::BEFORE_FIRST)
    }

    fn top(&self) -> usize {
        self.rungs.len().saturating_sub(1)
    }

    /// The rung of the previous segment, or the lowest.
    fn current(&self) -> usize {
        self.current.unwrap_or(0).min(self.top())
    }

    /// The highest rung that needs no more than this many bits per second, or the lowest.
    fn within(&self, bits_per_second: f64) -> usize {
        self.rungs.iter().rposition(|&rung| rung as f64 <= bits_per_second).unwrap_or(0)
    }
}

/// A rule with its memory: one per track of a session.
#[derive(Clone, Debug)]
pub struct Abr {
    memory: Memory,
}

#[derive(Clone, Debug)]
enum Memory {
    Fixed(usize),
    Throughput,
    Bba(bba::Bba),
    Bola(bola::Bola),
}

impl Abr {
    /// A rule without any history.
    pub fn new(rule: Rule) -> Self {
        let memory = match rule {
            Rule::Fixed(rung) => Memory::Fixed(rung),
            Rule::Throughput => Memory::Throughput,
            Rule::Bba => Memory::Bba(bba::Bba::new()),
            Rule::Bola => Memory::Bola(bola::Bola::new()),
        };
        Self { memory }
    }

    /// The rung for the next segment: an index into the situation's rungs, or zero if there are none.
    ///
    /// BOLA may also want to wait until less is buffered. Its parameters are set so that this happens only when there is no room for
    /// another segment, and then a player waits anyway.
    pub fn choose(&mut self, situation: &Situation<'_>) -> usize {
        let rung = match &mut self.memory {
            Memory::Fixed(rung) => fixed::choose(*rung),
            Memory::Throughput => throughput::choose(situation),
            Memory::Bba(bba) => bba.choose(situation),
            Memory::Bola(bola) => bola.choose(situation),
        };
        rung.min(situation.top())
    }

    /// The viewer has jumped elsewhere: the buffer is empty, but not because of the network.
    pub fn handle_seek(&mut self) {
        match &mut self.memory {
            Memory::Fixed(_) | Memory::Throughput => {}
            Memory::Bba(bba) => bba.handle_seek(),
            Memory::Bola(bola) => bola.handle_seek(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        for rule in [Rule::Fixed(0), Rule::Fixed(4), Rule::Throughput, Rule::Bba, Rule::Bola] {
            assert_eq!(rule.to_string().parse(), Ok(rule));
        }
        assert_eq!("fixed:1".parse(), Ok(Rule::Fixed(0)));
    }

    #[test]
    fn unknown_rules_are_refused_with_what_to_use() {
        for text in ["", "fixed", "fixed:0", "fixed:-1", "fixed:x", "BBA", "bba "] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("fixed:N"), "{error}");
        }
    }
}
