//! Files whose every byte is known.

use std::fs;
use std::path::Path;

/// `length` bytes that do not repeat and are the same for the same `seed`.
pub fn bytes(length: usize, seed: u64) -> Vec<u8> {
    // xorshift64*: any sequence works that shows a byte in the wrong place.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Writes a file of `length` such bytes to `folder`, and returns them.
///
/// # Panics
/// If it cannot be written.
pub fn file(folder: &Path, name: &str, length: usize) -> Vec<u8> {
    let bytes = bytes(length, length as u64);
    fs::write(folder.join(name), &bytes).expect("a temporary folder can be written");
    bytes
}
