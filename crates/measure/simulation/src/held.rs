//! Which node holds which title: one bit per pair, 125 MB for 10,000 nodes and 100,000 titles. The bits of a title's holders are adjacent.

pub(crate) struct Held {
    words: Vec<u64>,
    /// Words per title.
    width: usize,
}

impl Held {
    pub(crate) fn new(titles: usize, nodes: usize) -> Self {
        let width = nodes.div_ceil(64);
        Self { words: vec![0; titles * width], width }
    }

    fn place(&self, title: u32, node: usize) -> (usize, u64) {
        (title as usize * self.width + node / 64, 1 << (node % 64))
    }

    pub(crate) fn has(&self, title: u32, node: usize) -> bool {
        let (word, bit) = self.place(title, node);
        self.words[word] & bit != 0
    }

    pub(crate) fn set(&mut self, title: u32, node: usize) {
        let (word, bit) = self.place(title, node);
        self.words[word] |= bit;
    }

    pub(crate) fn clear(&mut self, title: u32, node: usize) {
        let (word, bit) = self.place(title, node);
        self.words[word] &= !bit;
    }

    /// The nodes that hold a title.
    pub(crate) fn holders(&self, title: u32) -> impl Iterator<Item = usize> {
        let words = &self.words[title as usize * self.width..][..self.width];
        words.iter().enumerate().flat_map(|(at, word)| {
            let rest = |left: &u64| Some(left & (left - 1)).filter(|left| *left > 0);
            let lefts = std::iter::successors(Some(*word).filter(|word| *word > 0), rest);
            lefts.map(move |left| at * 64 + left.trailing_zeros() as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn holders_are_those_that_were_set() {
        let mut held = super::Held::new(3, 130);
        for node in [0, 63, 64, 129, 7] {
            held.set(1, node);
        }
        held.clear(1, 7);
        assert_eq!(held.holders(1).collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert!(held.holders(0).chain(held.holders(2)).next().is_none());
        assert!(held.has(1, 63) && !held.has(1, 7) && !held.has(2, 0));
    }
}
