//! Buffers are registered one after the other while the reactor does other work, and giving memory back ends that.

use fullbore_reactor::{Fd, Pool, PoolOptions, Reactor, RingOptions, op, spawn, yield_now};
use std::cell::Cell;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::rc::Rc;

const BUFFER_BYTES: usize = 64 << 10;
const COUNT: usize = 6;

fn reactor() -> Rc<Reactor> {
    Rc::new(Reactor::new(RingOptions::default()).expect("this kernel has io_uring"))
}

/// A pool without any registered buffer yet.
fn pool() -> Pool {
    Pool::new(PoolOptions {
        buffer_bytes: BUFFER_BYTES,
        count: COUNT,
        register: false,
        fifo: false,
        large_pages: true,
    })
    .unwrap()
}

fn registered_buffers(reactor: &Reactor) -> Option<usize> {
    reactor.features().registered_bytes.map(|bytes| bytes / BUFFER_BYTES)
}

/// Returns true if this user may lock all the buffers of a pool.
fn may_register_all() -> bool {
    let reactor = reactor();
    let pool = pool();
    let register = async move { Pool::register([&pool].into_iter()).await };
    reactor.run(register).unwrap();
    let all = registered_buffers(&reactor) == Some(COUNT);
    if !all {
        fullbore_tests::tool::skip("the memlock limit is too low to register buffers");
    }
    all
}

/// Runs a test on a reactor, if this user may lock all the buffers of a pool.
fn where_all_register<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rc<Reactor>) -> F) {
    if may_register_all() {
        let reactor = reactor();
        reactor.run(test(Rc::clone(&reactor))).unwrap();
    }
}

/// Registers on a task of its own. The cell is set when that has ended.
fn register(pool: &Pool) -> Rc<Cell<bool>> {
    let ended = Rc::new(Cell::new(false));
    let (pool, at_end) = (pool.clone(), Rc::clone(&ended));
    spawn(async move {
        Pool::register([&pool].into_iter()).await;
        at_end.set(true);
    });
    ended
}

async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        yield_now().await;
    }
}

/// Reads into all buffers of the pool, and finds the bytes of the file there.
async fn read_into_all(pool: &Pool) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[9; BUFFER_BYTES]).unwrap();
    let file = Fd::from(OwnedFd::from(file));
    let mut held = Vec::new();
    for _ in 0..pool.count() {
        let buffer = pool.take().await;
        let (result, reading) = op::read_at(&file, buffer, 0..BUFFER_BYTES, 0, 0).await;
        assert_eq!(result.unwrap() as usize, BUFFER_BYTES);
        held.push(reading.buffer);
    }
    for buffer in held {
        assert!(buffer.iter().all(|byte| *byte == 9), "other pages were read into");
    }
}

#[test]
fn other_tasks_have_a_turn_between_any_two_buffers_that_are_registered() {
    where_all_register(|running| async move {
        let pool = pool();
        let ended = register(&pool);
        let mut seen = Vec::new();
        until(|| {
            seen.extend(registered_buffers(&running));
            ended.get()
        })
        .await;
        seen.dedup();
        assert_eq!(seen, (0..=COUNT).collect::<Vec<_>>(), "registered at each turn");
        read_into_all(&pool).await;
    });
}

#[test]
fn giving_memory_back_ends_a_registration_which_can_then_be_repeated() {
    where_all_register(|running| async move {
        let pool = pool();
        // At each moment: before the first buffer has its pages, and after each that was registered.
        for moment in 0..COUNT {
            let ended = register(&pool);
            until(|| registered_buffers(&running) == Some(moment)).await;
            Pool::give_back([&pool].into_iter());
            assert_eq!(registered_buffers(&running), None, "after {moment}");
            until(|| ended.get()).await;
            assert_eq!(registered_buffers(&running), None, "after {moment}");
            read_into_all(&pool).await;
            Pool::give_back([&pool].into_iter());
            let buffer = pool.take().await;
            assert!(buffer.iter().all(|byte| *byte == 0), "the ring keeps no pages");
            drop(buffer);
            Pool::keep([&pool].into_iter()).await;
        }
        until_all_registered(&running, &pool).await;
    });
}

async fn until_all_registered(reactor: &Reactor, pool: &Pool) {
    Pool::register([pool].into_iter()).await;
    assert_eq!(registered_buffers(reactor), Some(COUNT));
    read_into_all(pool).await;
}

/// While an operation names a buffer, the ring can't drop its table, and a later registration continues it.
#[test]
fn a_table_that_could_not_be_given_back_is_filled_further() {
    where_all_register(|running| async move {
        let pool = pool();
        let ended = register(&pool);
        until(|| registered_buffers(&running) == Some(2)).await;
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let reading = op::read_at(&Fd::from(reader), pool.take().await, 0..10, u64::MAX, 0);
        Pool::give_back([&pool].into_iter());
        until(|| ended.get()).await;
        assert_eq!(registered_buffers(&running), Some(2), "an operation names one");
        rustix::io::write(&writer, b"10 letters").unwrap();
        let (result, reading) = reading.await;
        assert_eq!((result.unwrap(), &reading.buffer[..10]), (10, &b"10 letters"[..]));
        drop(reading);
        Pool::keep([&pool].into_iter()).await;
        until_all_registered(&running, &pool).await;
    });
}

/// Two registrations at once, as after a takeover that ended, began again and ended: the later one continues, the earlier one ends.
#[test]
fn a_second_registration_takes_the_place_of_the_first() {
    where_all_register(|running| async move {
        let pool = pool();
        let first = register(&pool);
        until(|| registered_buffers(&running) == Some(2)).await;
        Pool::give_back([&pool].into_iter());
        Pool::keep([&pool].into_iter()).await;
        until_all_registered(&running, &pool).await;
        until(|| first.get()).await;
        assert_eq!(registered_buffers(&running), Some(COUNT));
    });
}

/// Memory that was there from the start comes back piece by piece, and stops coming back once it is given back again.
#[test]
fn memory_that_was_touched_comes_back_while_other_tasks_go_on() {
    let reactor = reactor();
    let test = async move {
        let pool = pool();
        pool.touch().unwrap();
        Pool::give_back([&pool].into_iter());
        let kept = Rc::new(Cell::new(false));
        let (keeping, at_end) = (pool.clone(), Rc::clone(&kept));
        spawn(async move {
            Pool::keep([&keeping].into_iter()).await;
            at_end.set(true);
        });
        let mut turns = 0;
        until(|| {
            turns += 1;
            kept.get()
        })
        .await;
        assert!(turns > COUNT, "a turn for each buffer: {turns}");
        let mut buffer = pool.take().await;
        buffer[0] = 7;
        drop(buffer);
        assert_eq!(pool.take().await[0], 7, "it is kept");
    };
    reactor.run(test).unwrap();
}
