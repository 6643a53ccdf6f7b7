//! Memory on a NUMA node (set_mempolicy(2), mbind(2)).
//!
//! Both calls prefer a node rather than bind to it (`MPOL_PREFERRED`): if the node is full, memory comes from another one, which is slower but better
//! than none. They affect memory that is used for the first time; existing pages stay where they are.

use std::cell::Cell;
use std::io;

/// The words of a set of nodes: more than the 1024 nodes that Linux can have.
const WORDS: usize = 17;

thread_local! {
    /// The node that this thread prefers.
    static PREFERRED: Cell<Option<u32>> = const { Cell::new(None) };
    /// The last node that the kernel refused to this thread, and why.
    static REFUSED: Cell<Option<RefusedNode>> = const { Cell::new(None) };
}

/// A node that the kernel refused. The server goes on, with memory on the node that first uses it, and should report the refusal.
#[derive(Debug)]
pub struct RefusedNode {
    /// The kernel's number for it.
    pub node: u32,
    /// The kernel's error.
    pub why: io::Error,
}

/// The node that the kernel last refused to this thread since the last call, if any.
pub fn take_refused_node() -> Option<RefusedNode> {
    REFUSED.take()
}

fn noted(node: u32, result: io::Result<()>) -> io::Result<()> {
    result.inspect_err(|why| {
        let why =
            why.raw_os_error().map_or_else(|| why.kind().into(), io::Error::from_raw_os_error);
        REFUSED.set(Some(RefusedNode { node, why }));
    })
}

/// Prefers `node` for all memory that this thread is the first to use, here or in the kernel, and for the pools that it makes.
///
/// # Errors
/// If the machine has no such node, or the kernel knows no nodes or forbids the choice. [`take_refused_node`] returns it too.
pub fn prefer_node(node: u32) -> io::Result<()> {
    noted(node, set_policy(node))?;
    PREFERRED.set(Some(node));
    Ok(())
}

fn set_policy(node: u32) -> io::Result<()> {
    let (nodes, count) = only(node)?;
    // SAFETY: the kernel reads `count` bits of `nodes` before the call returns. No memory changes.
    let result = unsafe {
        libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_PREFERRED, nodes.as_ptr(), count)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The node that this thread prefers, if any.
pub(crate) fn preferred_node() -> Option<u32> {
    PREFERRED.get()
}

/// Prefers `node` for a mapping, whichever thread uses it first.
///
/// # Errors
/// As [`prefer_node`].
pub(crate) fn prefer_node_for(base: *mut u8, bytes: usize, node: u32) -> io::Result<()> {
    noted(node, set_policy_of(base, bytes, node))
}

fn set_policy_of(base: *mut u8, bytes: usize, node: u32) -> io::Result<()> {
    let (nodes, count) = only(node)?;
    // SAFETY: the kernel reads `count` bits of `nodes` before the call returns. It changes no byte of the mapping, wherever that is: it only records
    // where its memory should come from.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            base,
            bytes,
            libc::MPOL_PREFERRED,
            nodes.as_ptr(),
            count,
            0usize,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The set of this node alone, and its length in bits. The kernel looks at one bit less than the given length.
fn only(node: u32) -> io::Result<([u64; WORDS], usize)> {
    let mut nodes = [0u64; WORDS];
    let word = nodes.get_mut(node as usize / 64).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (node % 64);
    Ok((nodes, 1025))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blocks, Pool, PoolOptions, Reactor, RingOptions};

    /// The lines of /proc/self/numa_maps with this policy; none if the kernel knows no nodes.
    fn lines_with(policy: &str) -> Option<Vec<String>> {
        let maps = std::fs::read_to_string("/proc/thread-self/numa_maps").ok()?;
        let policy = format!(" {policy} ");
        Some(maps.lines().filter(|line| line.contains(&policy)).map(str::to_owned).collect())
    }

    #[test]
    fn buffers_and_blocks_come_from_the_node_that_was_asked_for() {
        let Some(before) = lines_with("prefer:0") else { return };
        let reactor = Reactor::new(RingOptions::default()).unwrap();
        let test = async move {
            let options = PoolOptions {
                buffer_bytes: 1 << 20,
                count: 4,
                register: false,
                fifo: false,
                large_pages: true,
            };
            prefer_node(0).unwrap();
            let pool = Pool::new(options).unwrap();
            pool.touch().unwrap();
            let (blocks, _) = Blocks::new(2, crate::blocks::Pages::Small).unwrap();
            blocks.prefer_node(0).unwrap();
            let lines = lines_with("prefer:0").unwrap();
            assert!(lines.len() > before.len(), "{lines:?}");
            assert!(lines.iter().any(|line| line.contains("N0=1024")), "{lines:?}");
            assert!(lines.iter().any(|line| line.contains("memfd:fullbore-hot")), "{lines:?}");
        };
        reactor.run(test).unwrap();
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        assert!(prefer_node(1023).is_err());
        assert_eq!(take_refused_node().unwrap().node, 1023);
        assert!(prefer_node(u32::MAX).is_err());
        assert_eq!(take_refused_node().unwrap().node, u32::MAX);
        assert!(take_refused_node().is_none());
    }
}
