//! Viewers: how many come, how long they stay, and which node each one plays from.

use fastrand::Rng;

/// Steps per hour.
pub(crate) const STEPS_PER_HOUR: u32 = 12;

/// Viewers who come in each hour of the day, in parts of 1000: few at night, most in the evening.
const CURVE: [u64; 24] =
    [32, 22, 14, 9, 7, 7, 9, 13, 18, 24, 29, 33, 38, 42, 45, 49, 55, 64, 76, 88, 97, 98, 79, 52];

/// The share of a day's viewers who play at the same time at the peak: 98 of 1000 come in an hour, for 45 minutes on average.
pub(crate) const PEAK_PER_MILLE: u64 = 74;

/// A playing viewer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub(crate) title: u32,
    pub(crate) site: u32,
    pub(crate) node: u32,
    pub(crate) viewer: u64,
}

/// Sessions, grouped by the step in which they end.
pub(crate) struct Crowd {
    pub(crate) ends: Vec<Vec<Session>>,
    /// Number of viewers on each node.
    pub(crate) on: Vec<u64>,
}

impl Crowd {
    pub(crate) fn new(steps: u32, nodes: usize) -> Self {
        // The last sessions end after the day.
        let ends = (0..steps as usize + 16).map(|_| Vec::new()).collect();
        Self { ends, on: vec![0; nodes] }
    }

    pub(crate) fn add(&mut self, session: Session, end: u32) {
        self.on[session.node as usize] += 1;
        self.ends[end as usize].push(session);
    }

    /// Ends the sessions whose film is over in this step.
    pub(crate) fn end(&mut self, step: u32) {
        for session in std::mem::take(&mut self.ends[step as usize]) {
            self.on[session.node as usize] -= 1;
        }
    }
}

/// Viewers who come in a step. The remainder of the division comes by chance.
pub(crate) fn comers(plays: u64, step: u32, random: &mut Rng) -> u64 {
    let hour = (step / STEPS_PER_HOUR + START_HOUR) as usize % 24;
    let parts = u64::from(STEPS_PER_HOUR) * 1000;
    let whole = plays * CURVE[hour];
    whole / parts + u64::from(random.u64(..parts) < whole % parts)
}

/// The hour at which a simulated day begins, which is also when the fill window opens.
pub(crate) const START_HOUR: u32 = 2;

/// Length of a film in steps: 15 to 75 minutes.
pub(crate) fn steps_of_film(random: &mut Rng) -> u32 {
    random.u32(3..=15)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_day_has_all_its_viewers() {
        assert_eq!(super::CURVE.iter().sum::<u64>(), 1000);
    }
}
