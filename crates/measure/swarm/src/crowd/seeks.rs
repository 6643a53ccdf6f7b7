//! Where viewers seek to.

use crate::random::exponential;
use fastrand::Rng;
use player::options::{Act, Deed};
use std::time::Duration;

/// A jump to another position in the title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seek {
    /// Time since playback first began.
    pub after: Duration,
    /// The position in the title.
    pub to: Duration,
}

/// The same as actions for a player.
pub fn acts(seeks: &[Seek]) -> Vec<Act> {
    seeks.iter().map(|seek| Act { at: seek.after, deed: Deed::SeekTo(seek.to) }).collect()
}

/// Limits the cost of an extreme rate.
const SEEKS_MAX: usize = 1000;

/// The seeks of a viewer who stays for `watches`: a Poisson process, each to a random position in the title.
pub(crate) fn draw(
    per_hour: f64,
    watches: Duration,
    title_duration: Duration,
    random: &mut Rng,
) -> Vec<Seek> {
    let mut seeks = Vec::new();
    let mut after = 0.0;
    while per_hour > 0.0 && seeks.len() < SEEKS_MAX {
        after += exponential(random) * 3600.0 / per_hour;
        if after >= watches.as_secs_f64() {
            break;
        }
        let to = title_duration.mul_f64(random.f64());
        seeks.push(Seek { after: Duration::from_secs_f64(after), to });
    }
    seeks.retain(|seek| seek.after < watches);
    seeks
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn seeks_come_as_often_as_told() {
        let mut random = Rng::with_seed(4);
        let counts: Vec<usize> =
            (0..5000).map(|_| draw(3.0, HOUR, HOUR, &mut random).len()).collect();
        let mean = counts.iter().sum::<usize>() as f64 / 5000.0;
        assert!((mean - 3.0).abs() < 0.1, "{mean}");
        // Poisson: e^-3 of the viewers do not seek at all.
        let none = counts.iter().filter(|count| **count == 0).count();
        assert!((200..300).contains(&none), "{none}");
    }

    #[test]
    fn nobody_seeks_at_a_rate_of_zero_or_without_end() {
        let mut random = Rng::with_seed(4);
        assert_eq!(draw(0.0, HOUR, HOUR, &mut random), []);
        assert_eq!(draw(1e9, HOUR, HOUR, &mut random).len(), SEEKS_MAX);
    }
}
