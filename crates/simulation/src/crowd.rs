//! Viewers: how many come, how long they stay, and who plays from where.

use fastrand::Rng;

/// Steps of an hour.
pub(crate) const STEPS_PER_HOUR: u32 = 12;

/// How many come in each hour of the day, in parts of 1000: the night is quiet, and the evening is not.
const CURVE: [u64; 24] =
    [32, 22, 14, 9, 7, 7, 9, 13, 18, 24, 29, 33, 38, 42, 45, 49, 55, 64, 76, 88, 97, 98, 79, 52];

/// Of a day's viewers, those who play at the same time at the peak: 98 of 1000 in an hour, for 45 minutes on average.
pub(crate) const PEAK_PER_MILLE: u64 = 74;

/// Who plays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub(crate) title: u32,
    pub(crate) site: u32,
    pub(crate) node: u32,
    pub(crate) viewer: u64,
}

/// Sessions, by the step in which they end.
pub(crate) struct Crowd {
    pub(crate) ends: Vec<Vec<Session>>,
    /// Viewers of each node.
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

    /// Whose film ends in this step.
    pub(crate) fn end(&mut self, step: u32) {
        for session in std::mem::take(&mut self.ends[step as usize]) {
            self.on[session.node as usize] -= 1;
        }
    }
}

/// Viewers who come in a step. What does not divide comes by chance.
pub(crate) fn comers(plays: u64, step: u32, random: &mut Rng) -> u64 {
    let hour = (step / STEPS_PER_HOUR + START_HOUR) as usize % 24;
    let parts = u64::from(STEPS_PER_HOUR) * 1000;
    let whole = plays * CURVE[hour];
    whole / parts + u64::from(random.u64(..parts) < whole % parts)
}

/// The hour at which a simulated day begins: that of the window for filling.
pub(crate) const START_HOUR: u32 = 2;

/// How many steps a film lasts: 15 to 75 minutes.
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
