//! The sizes of windows and buffers, and the number of a worker's buffers.

use config::{BUFFERS_MIN, Config, Switch};
use disk::DIRECT_ALIGNMENT;
use frames::BuffersInPlace;
use reactor::{MemoryPart, Pool, PoolOptions};
use std::io;

/// Room besides a window's bytes: a direct read begins and ends on whole blocks, and records have heads and tags.
const BUFFER_SLACK_BYTES: usize = 2 * DIRECT_ALIGNMENT;

/// A window that needs no buffer may be larger than others. Twice this size gained nothing; a viewer's turn takes a fifth of a
/// millisecond.
const SENDFILE_BYTES_MAX: usize = 2 << 20;

/// The window of a new viewer, and of all viewers if windows may not grow.
const WINDOW_BYTES_FIRST: usize = 64 << 10;

pub(crate) fn window_bytes_max(config: &Config) -> usize {
    let grown = config.net.window_bytes_max;
    if config.is_on(Switch::Window) { grown } else { grown.min(WINDOW_BYTES_FIRST) }
}

/// The most bytes that the kernel is asked to send at once on a connection without TLS.
pub(crate) fn sendfile_bytes_max(config: &Config) -> usize {
    let window_bytes_max = window_bytes_max(config);
    if config.is_on(Switch::Window) {
        window_bytes_max.max(SENDFILE_BYTES_MAX)
    } else {
        window_bytes_max
    }
}

/// Bytes of a worker's buffers of both kinds, if it has read buffers on this many nodes.
pub(crate) fn pools_bytes(config: &Config, buffer_bytes: usize, nodes: usize) -> usize {
    let (read, send) =
        (pool_options(config, buffer_bytes, nodes), pool_options(config, buffer_bytes, 1));
    (nodes * read.count + send.count) * send.buffer_bytes
}

/// The options of each of `pools` pools that share the bytes of one kind.
fn pool_options(config: &Config, buffer_bytes: usize, pools: usize) -> PoolOptions {
    let bytes_each = window_bytes_max(config).next_multiple_of(4096) + BUFFER_SLACK_BYTES;
    let bytes_all = match config.limits.buffer_bytes_max {
        0 => buffer_bytes,
        bytes => bytes,
    };
    PoolOptions {
        buffer_bytes: bytes_each,
        count: (bytes_all / pools / bytes_each).max(BUFFERS_MIN),
        register: config.is_on(Switch::Registered),
        fifo: !config.is_on(Switch::Lifo),
        large_pages: config.is_on(Switch::Hugepages),
    }
}

/// A worker's buffers from which frames are sent in place, on `node`: send buffers with TLS, and read buffers without. None if reads go into memory
/// of several nodes, because pools on several nodes have one size.
pub(crate) fn in_place(
    config: &Config,
    buffer_bytes: usize,
    nodes: usize,
    node: Option<u32>,
) -> Option<BuffersInPlace> {
    let PoolOptions { buffer_bytes, count, .. } = pool_options(config, buffer_bytes, 1);
    let is_one_pool = config.tls.enabled || nodes == 1;
    is_one_pool.then_some(BuffersInPlace { bytes: buffer_bytes, count, node })
}

/// A worker's buffers: for reads, in a pool on each of `nodes`, and for sealed records. If memory is bounded (`takes_early`), all of it is
/// allocated at once, so that the rest is left for viewers. `registers`: the read buffers are registered with the ring from the start. `in_place` is
/// memory from which frames are sent without a copy.
pub(crate) fn pools(
    config: &Config,
    bytes: usize,
    nodes: &[Option<u32>],
    takes_early: bool,
    registers: bool,
    in_place: Option<MemoryPart>,
) -> io::Result<(Vec<Pool>, Pool)> {
    let (of_sends, of_reads) = if config.tls.enabled { (in_place, None) } else { (None, in_place) };
    let options = pool_options(config, bytes, nodes.len());
    let options = PoolOptions { register: options.register && registers, ..options };
    let read_buffers = match of_reads {
        Some(memory) => Pool::within(vec![memory], options),
        None => Pool::on_nodes(options, nodes)?,
    };
    // The ring has one table of registered buffers, and only reads use it.
    let options = PoolOptions { register: false, ..pool_options(config, bytes, 1) };
    let send_buffers = match of_sends {
        Some(memory) => Pool::within(vec![memory], options).remove(0),
        None => Pool::new(options)?,
    };
    if takes_early {
        read_buffers.iter().try_for_each(Pool::touch)?;
        send_buffers.touch()?;
    }
    Ok((read_buffers, send_buffers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_buffers_on_several_nodes_share_the_memory_of_one_pool() {
        let config = Config::default();
        let each = pool_options(&config, 64 << 20, 4);
        let alone = pool_options(&config, 64 << 20, 1);
        assert!(each.count > BUFFERS_MIN && each.count * 4 <= alone.count);
        let [one, four] = [1, 4].map(|nodes| pools_bytes(&config, 64 << 20, nodes));
        assert!(four <= one && four > one - 4 * each.buffer_bytes);
        // Each pool needs a few.
        assert_eq!(pool_options(&config, 1 << 20, 4).count, BUFFERS_MIN);
        assert!(pools_bytes(&config, 1 << 20, 4) > pools_bytes(&config, 1 << 20, 1));
    }
}
