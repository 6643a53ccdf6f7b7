//! A planted bug, which the smoke run must find: it shows that coverage and traced comparisons reach the fuzzer.
//!
//! Blind guessing has one chance in 2^64 each time. The first half wants coverage, since it is compared byte by byte, each
//! in a branch of its own; the second is one comparison of a whole number, and wants its operands.

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
