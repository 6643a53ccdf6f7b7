//! All plays, kept for the competing rules: four bytes each.

/// A title has eight orders of a site's nodes, as in steering, and a viewer follows one of them.
pub(crate) const ORDERS: u64 = 8;

/// A film that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Play {
    /// Below 2^20.
    pub(crate) title: u32,
    /// Below [`ORDERS`].
    pub(crate) order: u32,
    /// How many steps it is watched, below 16.
    pub(crate) length: u32,
}

impl Play {
    fn packed(self) -> u32 {
        self.title << 7 | self.order << 4 | self.length
    }

    fn unpacked(packed: u32) -> Self {
        Self { title: packed >> 7, order: packed >> 4 & 7, length: packed & 15 }
    }
}

/// The plays of a site's viewers, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct SitePlays {
    packed: Vec<u32>,
    /// Where the plays of each step begin.
    starts: Vec<u32>,
}

impl SitePlays {
    pub(crate) fn begin_step(&mut self) {
        self.starts.push(self.packed.len() as u32);
    }

    pub(crate) fn push(&mut self, play: Play) {
        self.packed.push(play.packed());
    }

    pub(crate) fn steps(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn of_step(&self, step: usize) -> impl Iterator<Item = Play> {
        let end = self.starts.get(step + 1).map_or(self.packed.len(), |end| *end as usize);
        self.packed[self.starts[step] as usize..end].iter().copied().map(Play::unpacked)
    }
}

#[cfg(test)]
mod tests {
    use super::{Play, SitePlays};

    #[test]
    fn plays_come_back_as_they_were() {
        let mut plays = SitePlays::default();
        let all = [(0, 0, 3), (999_999, 7, 15), (5, 3, 8)];
        let all = all.map(|(title, order, length)| Play { title, order, length });
        plays.begin_step();
        plays.push(all[0]);
        plays.begin_step();
        plays.begin_step();
        plays.push(all[1]);
        plays.push(all[2]);
        let steps: Vec<Vec<Play>> =
            (0..plays.steps()).map(|step| plays.of_step(step).collect()).collect();
        assert_eq!(steps, [vec![all[0]], vec![], vec![all[1], all[2]]]);
    }
}
