//! A table of bits: which node has which title. A bit for each pair is 125 MB for 10,000 nodes and 100,000 titles.

#[derive(Clone, Debug)]
pub(crate) struct Bits {
    words: Vec<u64>,
    row_words: usize,
}

impl Bits {
    pub(crate) fn new(rows: usize, columns: usize) -> Self {
        let row_words = columns.div_ceil(64);
        Self { words: vec![0; rows * row_words], row_words }
    }

    fn place(&self, row: usize, column: u32) -> (usize, u64) {
        (row * self.row_words + column as usize / 64, 1 << (column % 64))
    }

    pub(crate) fn has(&self, row: usize, column: u32) -> bool {
        let (word, bit) = self.place(row, column);
        self.words[word] & bit != 0
    }

    pub(crate) fn set(&mut self, row: usize, column: u32) {
        let (word, bit) = self.place(row, column);
        self.words[word] |= bit;
    }

    pub(crate) fn clear(&mut self, row: usize, column: u32) {
        let (word, bit) = self.place(row, column);
        self.words[word] &= !bit;
    }

    /// The columns that are set in a row, rising.
    pub(crate) fn row(&self, row: usize) -> Vec<u32> {
        let words = &self.words[row * self.row_words..(row + 1) * self.row_words];
        let mut columns = Vec::with_capacity(words.iter().map(|w| w.count_ones() as usize).sum());
        for (at, word) in words.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                columns.push(at as u32 * 64 + left.trailing_zeros());
                left &= left - 1;
            }
        }
        columns
    }
}
