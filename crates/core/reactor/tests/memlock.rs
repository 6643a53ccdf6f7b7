//! A memlock limit with room for some buffers: those are registered. The limit holds for the process, so this test is alone in its program.

use fullbore_reactor::{Fd, Pool, PoolOptions, Reactor, RingOptions, op};
use rustix::process::{Resource, Rlimit, Uid, geteuid, getrlimit, setrlimit};
use rustix::thread::set_thread_res_uid;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A large page counts as a whole, so there is room for two of them.
const LIMIT_BYTES: u64 = 4 << 20;
const BUFFER_BYTES: usize = 256 << 10;
const COUNT: usize = 64;

/// A user without other processes: the limit covers everything that a user locks.
const NOBODY_ELSE: u32 = 58_431;

/// Makes the kernel count what this thread's ring locks, up to the limit. Returns whether nothing else can count.
fn limit() -> bool {
    let maximum = getrlimit(Resource::Memlock).maximum;
    setrlimit(Resource::Memlock, Rlimit { current: Some(LIMIT_BYTES), maximum }).unwrap();
    let is_root = geteuid().is_root();
    if is_root {
        let user = Uid::from_raw(NOBODY_ELSE);
        set_thread_res_uid(user, user, user).unwrap();
    }
    is_root
}

/// Reads into all buffers, with and without a number.
async fn read_into_all(pools: &[Pool], file: &Fd) {
    let mut held = Vec::new();
    for _ in 0..COUNT {
        for pool in pools {
            let buffer = pool.take().await;
            let (result, reading) = op::read_at(file, buffer, 0..BUFFER_BYTES, 0, 0).await;
            assert_eq!(result.unwrap() as usize, BUFFER_BYTES);
            held.push(reading.buffer);
        }
    }
    assert!(held.iter().all(|buffer| buffer.iter().all(|byte| *byte == 9)));
}

#[test]
fn as_many_buffers_are_registered_as_the_memlock_limit_allows() {
    // Made as root, because another user may have no writable folder.
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[9; BUFFER_BYTES]).unwrap();
    let file = Fd::from(OwnedFd::from(file));
    let is_alone = limit();
    let reactor = Rc::new(Reactor::new(RingOptions::default()).unwrap());
    let running = Rc::clone(&reactor);
    let test = async move {
        let registered = || running.features().registered_bytes.unwrap();
        let options = PoolOptions {
            buffer_bytes: BUFFER_BYTES,
            count: COUNT,
            register: true,
            fifo: false,
            large_pages: false,
        };
        // At once, before there are viewers.
        let pools = Pool::on_nodes(options, &[None, None]).unwrap();
        let at_once = registered();
        assert!(at_once as u64 <= LIMIT_BYTES, "{at_once}");
        assert!(at_once > 0 || !is_alone, "none at all");
        read_into_all(&pools, &file).await;
        Pool::give_back(pools.iter());
        assert_eq!(running.features().registered_bytes, None);
        // One after the other.
        Pool::keep(pools.iter()).await;
        Pool::register(pools.iter()).await;
        assert!(registered() == at_once || !is_alone, "{} and {at_once}", registered());
        read_into_all(&pools, &file).await;
    };
    reactor.run(test).unwrap();
}
