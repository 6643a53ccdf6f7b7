//! A planted bug that a short run must find. This shows that the fuzzer gets coverage and traced comparisons.
//!
//! A random guess hits it with a chance of 1 in 2^64. The first half is compared byte by byte, each in its own branch, so it needs
//! coverage. The second half is one comparison of a whole number, so it needs the traced operands.

#![no_main]

use libfuzzer_sys::fuzz_target;

const SUNG: [u8; 4] = *b"tjep";
const MAGIC: u32 = 0x7a6b_19e5;

fuzz_target!(|bytes: &[u8]| {
    let Some((song, rest)) = bytes.split_at_checked(SUNG.len()) else { return };
    for (heard, wanted) in song.iter().zip(SUNG) {
        if *heard != wanted {
            return;
        }
    }
    if rest.first_chunk().is_some_and(|word| u32::from_le_bytes(*word) == MAGIC) {
        panic!("the planted bug");
    }
});
