//! Threads read blocks while another thread keeps refilling them.

use fullbore_reactor::blocks::{BLOCK_BYTES, Pages, fill};
use fullbore_reactor::{Blocks, Fd, LocalBlocks, Reactor, RingOptions, yield_now};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const BLOCKS: usize = 3;
const FILLS: usize = 400;

/// A file of eight blocks: every byte of a block is the block's number.
fn file() -> Fd {
    let mut file = tempfile::tempfile().unwrap();
    for byte in 0..8 {
        file.write_all(&vec![byte; BLOCK_BYTES]).unwrap();
    }
    OwnedFd::from(file).into()
}

#[test]
fn nobody_sees_a_block_that_is_half_filled() {
    let (blocks, free) = Blocks::new(BLOCKS, Pages::Transparent).unwrap();
    let (is_over, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let local = LocalBlocks::new(Arc::clone(&blocks));
                while !is_over.load(Relaxed) {
                    for index in 0..BLOCKS as u32 {
                        let Some(block) = local.pin(index) else { continue };
                        let byte = block[0];
                        assert!(block.iter().step_by(509).all(|other| *other == byte));
                        seen.fetch_add(1, Relaxed);
                    }
                }
            });
        }
        let filling = Arc::clone(&blocks);
        let reactor = Reactor::new(RingOptions::default()).unwrap();
        let work = async move {
            let file = file();
            free.into_iter().for_each(|claimed| claimed.publish());
            let mut fills = 0;
            while fills < FILLS {
                // With few cores, a reader needs the processor to drop its pin.
                std::thread::yield_now();
                yield_now().await;
                let Some(claimed) = filling.claim(fills as u32 % BLOCKS as u32) else { continue };
                let start = (fills % 8 * BLOCK_BYTES) as u64;
                let (result, filled) = fill(&file, claimed, 0..BLOCK_BYTES, start).await;
                assert_eq!(result.unwrap() as usize, BLOCK_BYTES);
                filled.claimed.publish();
                fills += 1;
            }
        };
        reactor.run(work).unwrap();
        is_over.store(true, Relaxed);
    });
    assert!(seen.into_inner() > 0, "no thread ever read a block");
}
