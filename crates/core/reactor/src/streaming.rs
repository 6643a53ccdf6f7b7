//! Copies past the processor's caches: the destination's lines are neither read first nor kept (non-temporal stores).
//!
//! That pays if nothing reads the destination from a cache soon: because a device reads it, or because it is far larger than the caches. It saves the
//! read of each line before it is overwritten, and leaves the cache to others. It does not pay if the next reader is this core, or a kernel on it
//! that copies once more (docs/notes/bypass.md, "Past the caches").

/// Copies `from` to `to`, and returns once devices and other cores can see all of it. On a processor without such stores it is an ordinary copy.
///
/// # Panics
/// If they differ in length.
pub fn copy_streaming(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a copy has the length of what it copies");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX, the function's only requirement.
        unsafe { copy_by_avx(from, to) };
        return;
    }
    to.copy_from_slice(from);
}

/// Copies by stores of 32 bytes. The bytes before the first whole line of 32 and after the last one are copied in the ordinary way.
///
/// # Safety
/// The processor must have AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn copy_by_avx(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m256i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};
    const STORE_BYTES: usize = size_of::<__m256i>();
    let ahead = to.as_ptr().align_offset(STORE_BYTES).min(to.len());
    let (from_ahead, from) = from.split_at(ahead);
    let (to_ahead, to) = to.split_at_mut(ahead);
    to_ahead.copy_from_slice(from_ahead);
    let (sources, mut targets) = (from.chunks_exact(STORE_BYTES), to.chunks_exact_mut(STORE_BYTES));
    let from_behind = sources.remainder();
    // SAFETY: in each turn, both chunks have the length of a store. A load need not be aligned. The target is, because the first one begins where
    // `align_offset` said, and each begins a store's length after the one before. The fence, which every x86-64 processor has, is within the block
    // because older compilers call it unsafe. It is needed because such stores are not ordered with anything (Intel 64 manual, volume 1, section
    // 10.4.6.2).
    unsafe {
        for (source, target) in sources.zip(&mut targets) {
            let bytes = _mm256_loadu_si256(source.as_ptr().cast());
            _mm256_stream_si256(target.as_mut_ptr().cast(), bytes);
        }
        _mm_sfence();
    }
    targets.into_remainder().copy_from_slice(from_behind);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_and_no_other_is_touched_at_any_alignment_and_length() {
        let source: Vec<u8> = (0..300u32).map(|byte| (byte * 7 + 1) as u8).collect();
        for start in 0..40 {
            for length in (0..70).chain([128, 200, 255]) {
                let mut target = vec![0xee; 340];
                let from = &source[start..start + length];
                copy_streaming(from, &mut target[start..start + length]);
                assert_eq!(&target[start..start + length], from, "{length} bytes at {start}");
                let rest = target[..start].iter().chain(&target[start + length..]);
                assert!(rest.clone().all(|byte| *byte == 0xee), "{length} bytes at {start}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "length of what it copies")]
    fn lengths_that_differ_are_a_mistake_of_the_caller() {
        copy_streaming(&[1, 2], &mut [0; 3]);
    }
}
