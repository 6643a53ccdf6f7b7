//! Payload that is a function of where it is, so that every byte can be checked and none has to be kept.

/// The bytes of one direction of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    key: u64,
}

impl Stream {
    /// Each `key` is another sequence of bytes.
    pub(crate) fn new(key: u64) -> Self {
        Self { key: key.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Eight bytes at a time: those at `word * 8` and after.
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

    /// The first place where `bytes` are not those from `offset` on.
    pub(crate) fn difference(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut word = [0; 8];
        for (index, byte) in bytes.iter().enumerate() {
            let at = offset + index as u64;
            if index == 0 || at % 8 == 0 {
                word = self.word(at / 8);
            }
            if word[(at % 8) as usize] != *byte {
                return Some(at);
            }
        }
        None
    }
}
