//! Files whose bytes are a function of their offset, so that no test needs a copy to compare with.

use fullbore_tests::mix;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file's bytes: random within `islands`, zero between them.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) seed: u64,
    pub(crate) size: u64,
    pub(crate) islands: Vec<Range<u64>>,
}

impl Content {
    /// `size` random bytes.
    pub(crate) fn new(seed: u64, size: u64) -> Self {
        Self { seed, size, islands: std::iter::once(0..size).collect() }
    }

    /// The bytes of `range`.
    pub(crate) fn bytes(&self, range: Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        for island in &self.islands {
            let (start, end) = (island.start.max(range.start), island.end.min(range.end));
            if start < end {
                let part = (start - range.start) as usize..(end - range.start) as usize;
                self.fill(start, &mut bytes[part]);
            }
        }
        bytes
    }

    fn fill(&self, start: u64, bytes: &mut [u8]) {
        let word = |index: u64| mix(self.seed.wrapping_add(index)).to_le_bytes();
        let lead = ((8 - start % 8) % 8).min(bytes.len() as u64) as usize;
        let (first, rest) = bytes.split_at_mut(lead);
        first.copy_from_slice(&word(start / 8)[(start % 8) as usize..][..lead]);
        let aligned = (start + lead as u64) / 8;
        for (index, chunk) in (aligned..).zip(rest.chunks_mut(8)) {
            chunk.copy_from_slice(&word(index)[..chunk.len()]);
        }
    }

    /// Writes the file, leaving holes between the islands.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        self.write_into(&file)
    }

    /// Overwrites an open file.
    pub(crate) fn write_into(&self, file: &File) -> io::Result<()> {
        file.set_len(self.size)?;
        for island in &self.islands {
            file.write_all_at(&self.bytes(island.clone()), island.start)?;
        }
        Ok(())
    }

    /// Fails unless `bytes` are the file's at `start`, and shows where they differ.
    #[track_caller]
    pub(crate) fn assert_holds(&self, start: u64, bytes: &[u8], case: &str) {
        let expected = self.bytes(start..start + bytes.len() as u64);
        if bytes != expected {
            let at = bytes.iter().zip(&expected).position(|(got, due)| got != due);
            panic!("{case}: wrong byte at {:?} of the file", at.map(|at| start + at as u64));
        }
    }
}

#[test]
fn any_cut_of_a_file_agrees_with_the_whole() {
    let content = Content { seed: 7, size: 100, islands: vec![3..40, 50..91] };
    let whole = content.bytes(0..100);
    for start in 0..100 {
        for end in start..=100 {
            assert_eq!(content.bytes(start..end), whole[start as usize..end as usize]);
        }
    }
    assert!(
        whole[40..50].iter().all(|byte| *byte == 0) && whole[3..40].iter().any(|byte| *byte != 0)
    );
}
