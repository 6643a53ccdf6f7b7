//! Payload that is a function of its offset, so that every byte can be checked and none has to be kept.

/// The bytes of one direction of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    key: u64,
}

impl Stream {
    /// Each `key` gives another sequence of bytes.
    pub(crate) fn new(key: u64) -> Self {
        Self { key: key.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Eight bytes at a time: those from `word * 8` on.
    fn word(self, word: u64) -> [u8; 8] {
        let mixed = word.wrapping_add(self.key).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 29)).to_le_bytes()
    }

    /// Appends the `bytes` bytes from `offset` on.
    pub(crate) fn append(self, offset: u64, bytes: usize, into: &mut Vec<u8>) {
        let (start, skipped) = (into.len(), (offset % 8) as usize);
        let mut word = offset / 8;
        into.extend_from_slice(&self.word(word)[skipped..]);
        while into.len() < start + bytes {
            word += 1;
            into.extend_from_slice(&self.word(word));
        }
        into.truncate(start + bytes);
    }

    /// The first place where `bytes` differ from the stream from `offset` on.
    pub(crate) fn difference(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let head_bytes = bytes.len().min((8 - offset % 8) as usize % 8);
        let (head, rest) = bytes.split_at(head_bytes);
        let exact = rest.chunks_exact(8);
        let tail = exact.remainder();
        let words = exact.map(|word| <[u8; 8]>::try_from(word).expect("eight bytes"));
        let first = (offset + head_bytes as u64) / 8;
        self.difference_within(offset, head).or_else(|| {
            // Compares numbers, not slices, because a long simulation spends most of its time here.
            let same = |(word, at)| u64::from_le_bytes(word) == u64::from_le_bytes(self.word(at));
            let wrong = words.zip(first..).find(|pair| !same(*pair));
            let (word, at) = wrong.unzip();
            let tail_at = (offset + (bytes.len() - tail.len()) as u64, tail);
            let (at, bytes) = match (&word, at) {
                (Some(word), Some(at)) => (at * 8, &word[..]),
                _ => tail_at,
            };
            self.difference_within(at, bytes)
        })
    }

    /// The same for bytes of one word.
    fn difference_within(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let word = self.word(offset / 8);
        let expected = &word[(offset % 8) as usize..];
        let at = expected.iter().zip(bytes).position(|(one, other)| one != other);
        at.map(|at| offset + at as u64)
    }
}

#[test]
fn every_byte_in_the_wrong_place_is_found() {
    let (stream, mut bytes) = (Stream::new(5), Vec::new());
    stream.append(3, 40, &mut bytes);
    for (from, until) in [(0, 40), (1, 6), (5, 5), (5, 13), (6, 30)] {
        assert_eq!(stream.difference(3 + from, &bytes[from as usize..until]), None);
        for wrong in from as usize..until {
            let mut changed = bytes.clone();
            changed[wrong] ^= 1;
            let found = stream.difference(3 + from, &changed[from as usize..until]);
            assert_eq!(found, Some(3 + wrong as u64));
        }
    }
}
