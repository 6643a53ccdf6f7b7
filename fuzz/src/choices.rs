//! Turns the fuzzer's bytes into choices. [`Choices`] reads them from the input one after another, where the fuzzer should steer them.
//! [`Derived`] computes them from the whole input, where the input itself must stay readable.

/// Reads choices from the front of an input. Missing bytes count as 0, so that every input has a meaning.
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Starts at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    /// The next two bytes as one number.
    pub fn number(&mut self) -> usize {
        usize::from(u16::from_be_bytes([self.byte(), self.byte()]))
    }

    /// One of `options`, which are not empty.
    pub fn one_of<T: Copy>(&mut self, options: &[T]) -> T {
        options[usize::from(self.byte()) % options.len()]
    }

    /// The next `count` bytes, or fewer at the end of the input.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    /// Fewer than `bound` bytes (`bound` isn't 0). The next byte says how many.
    pub fn some(&mut self, bound: usize) -> &'a [u8] {
        let count = usize::from(self.byte()) % bound;
        self.take(count)
    }

    /// All remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }

    /// Whether no byte remains.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Numbers that look random. The same input always gives the same numbers.
pub struct Derived(u64);

impl Derived {
    /// Starts from a hash of `bytes` (FNV-1a).
    pub fn of(bytes: &[u8]) -> Self {
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Self(bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// The next 64 bits (SplitMix64).
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound` (`bound` isn't 0).
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }

    /// Cuts `bytes` as reads from a socket might: into single bytes, small pieces, and all of the rest.
    pub fn pieces<'a>(&mut self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let (mut rest, mut pieces) = (bytes, Vec::new());
        while !rest.is_empty() {
            let size = match self.below(4) {
                0 => 1,
                1 => 1 + self.below(7),
                2 => 1 + self.below(rest.len()),
                _ => 1 + self.below(256),
            };
            let (piece, after) = rest.split_at(size.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces
    }
}
