//! Records which nodes of a site have which titles: a few bits per title. For 10,000 nodes at 1,000 sites and 100,000 titles that is 200
//! MB, and all bits of one title at one site are adjacent.

#[derive(Clone, Debug)]
pub(crate) struct Bits {
    words: Vec<u16>,
    /// Words per title.
    width: usize,
}

/// Sites are small: in wider words most bits would be unused.
const WORD: usize = u16::BITS as usize;

impl Bits {
    pub(crate) fn new(titles: usize, nodes: usize) -> Self {
        let width = nodes.div_ceil(WORD);
        Self { words: vec![0; titles * width], width }
    }

    fn place(&self, title: u32, node: usize) -> (usize, u16) {
        (title as usize * self.width + node / WORD, 1 << (node % WORD))
    }

    fn of(&self, title: u32) -> &[u16] {
        &self.words[title as usize * self.width..][..self.width]
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

    pub(crate) fn count(&self, title: u32) -> u16 {
        self.of(title).iter().map(|word| word.count_ones() as u16).sum()
    }

    /// The nodes of a title, in ascending order.
    pub(crate) fn nodes(&self, title: u32) -> impl Iterator<Item = usize> {
        self.of(title).iter().enumerate().flat_map(|(at, word)| {
            let rest = |left: &u16| Some(left & (left - 1)).filter(|left| *left > 0);
            let lefts = std::iter::successors(Some(*word).filter(|word| *word > 0), rest);
            lefts.map(move |left| at * WORD + left.trailing_zeros() as usize)
        })
    }
}
