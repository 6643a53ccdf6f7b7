//! The reactor against a real kernel: operations, cancellation, timers, accept, the pool.

use fullbore_reactor::{
    Buffer, Fd, Pool, PoolOptions, Reactor, RingOptions, now, op, remote, sleep, sleep_until,
    spawn, tasks_live, tasks_panicked, timeout_at, yield_now,
};
use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

fn reactor() -> Reactor {
    Reactor::new(RingOptions { submission_entries: 8, completion_entries: 64 })
        .expect("this kernel has io_uring")
}

const OPTIONS: PoolOptions =
    PoolOptions { buffer_bytes: 8192, count: 4, register: true, fifo: false, large_pages: true };

fn pool(count: usize) -> Pool {
    Pool::new(PoolOptions { count, ..OPTIONS }).unwrap()
}

/// Takes buffers and writes to each, so that their memory is in use. Returns them.
async fn used(pool: &Pool, count: usize) -> Vec<Buffer> {
    let mut buffers = Vec::new();
    for _ in 0..count {
        let mut buffer = pool.take().await;
        buffer.fill(7);
        buffers.push(buffer);
    }
    buffers
}

/// Memory that was given back is zero, and the ring does not use it where it was before.
#[test]
fn free_buffers_give_their_memory_back_and_can_be_read_into_afterwards() {
    let reactor = reactor();
    let reading = reactor.run(async {
        let pools = [pool(4), Pool::new(PoolOptions { register: false, ..OPTIONS }).unwrap()];
        let file = file_of(&[9; 8192]);
        // Reads into all buffers of the first pool, registered or not.
        let read_into_all = async || {
            for _ in 0..pools[0].count() {
                let buffer = pools[0].take().await;
                let (result, reading) = op::read_at(&file, buffer, 0..8192, 0, 0).await;
                assert_eq!(result.unwrap(), 8192);
                assert!(reading.buffer.iter().all(|byte| *byte == 9), "other pages were read into");
            }
        };
        let mut held = Vec::new();
        for pool in &pools {
            let mut buffers = used(pool, pool.count()).await;
            held.push(buffers.pop().unwrap());
        }
        Pool::give_back(pools.iter());
        assert!(held.iter().all(|buffer| buffer.iter().all(|byte| *byte == 7)), "in use");
        drop(held);
        Pool::give_back(pools.iter());
        for pool in &pools {
            for _ in 0..2 {
                let buffer = pool.take().await;
                assert!(buffer.iter().all(|byte| *byte == 0), "it was not given back");
            }
        }
        read_into_all().await;
        Pool::keep(pools.iter()).await;
        Pool::register(pools[..1].iter()).await;
        read_into_all().await;
        drop(used(&pools[0], 4).await);
        assert!(
            pools[0].take().await.iter().all(|byte| *byte == 7),
            "nothing is given back any more"
        );
    });
    reading.unwrap();
}

/// Buffers that viewers hold, for as long as they like, don't keep registered memory: only operations do.
#[test]
fn registered_buffers_are_given_back_once_no_operation_names_one() {
    let reactor = reactor();
    let (reader, mut writer) = UnixStream::pair().unwrap();
    let pool = reactor.run(async { Rc::new(pool(4)) }).unwrap();
    let registered = || reactor.features().registered_bytes;
    let all = Some(4 * 8192);
    if registered() != all {
        return fullbore_tests::tool::skip("the memlock limit is too low to register buffers");
    }
    let under_way = Rc::clone(&pool);
    let (held, reading) = reactor
        .run(async move {
            let held = under_way.take().await;
            let reader = Fd::from(OwnedFd::from(reader));
            let mut reading = op::read_at(&reader, under_way.take().await, 0..10, 0, 0);
            assert!(timeout_at(now(), &mut reading).await.is_err(), "there is nothing to read");
            Pool::give_back([&*under_way].into_iter());
            (held, reading)
        })
        .unwrap();
    assert_eq!(registered(), all, "an operation names one");
    writer.write_all(b"10 letters").unwrap();
    let asked = Rc::clone(&pool);
    let read = reactor.run(async move {
        let (result, reading) = reading.await;
        assert_eq!((result.unwrap(), &reading.buffer[..10]), (10, &b"10 letters"[..]));
        drop(reading);
        Pool::give_back([&*asked].into_iter());
    });
    read.unwrap();
    assert_eq!(registered(), None, "one is still held");
    drop((held, pool));
}

fn file_of(bytes: &[u8]) -> Fd {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Fd::from(OwnedFd::from(file))
}

#[test]
fn a_read_brings_the_bytes_at_the_offset() {
    let reactor = reactor();
    let content: Vec<u8> = (0..20_000u32).map(|n| (n % 251) as u8).collect();
    let expected = content[5000..13_000].to_vec();
    reactor
        .run(async move {
            let file = file_of(&content);
            let (result, reading) =
                op::read_at(&file, pool(2).take().await, 100..8100, 5000, 0).await;
            assert_eq!(result.unwrap(), 8000);
            assert_eq!(reading.buffer[100..8100], expected);
        })
        .unwrap();
}

#[test]
fn pools_on_several_nodes_share_the_ring_s_table_of_buffers() {
    let reactor = reactor();
    let options = PoolOptions {
        buffer_bytes: 8192,
        count: 3,
        register: true,
        fifo: false,
        large_pages: true,
    };
    let pools = reactor.run(async move { Pool::on_nodes(options, &[None, Some(0)]).unwrap() });
    let pools = pools.unwrap();
    let registered = reactor.features().registered_bytes;
    // As many as the memlock limit allows.
    assert!((0..=6).map(|count| Some(count * 8192)).any(|bytes| bytes == registered));
    let content: Vec<u8> = (0..6 * 8192u32).map(|n| (n / 8192) as u8).collect();
    let test = async move {
        let file = file_of(&content);
        let mut held = Vec::new();
        for (number, pool) in [&pools[0], &pools[1]].repeat(3).into_iter().enumerate() {
            let buffer = pool.take().await;
            let (result, reading) =
                op::read_at(&file, buffer, 0..8192, number as u64 * 8192, 0).await;
            assert_eq!(result.unwrap(), 8192);
            held.push(reading.buffer);
        }
        for (number, buffer) in held.iter().enumerate() {
            assert!(buffer.iter().all(|byte| usize::from(*byte) == number), "buffer {number}");
        }
        assert_eq!((pools[0].free(), pools[1].free()), (0, 0));
    };
    reactor.run(test).unwrap();
}

#[test]
fn a_read_of_a_closed_pipe_end_is_an_error_and_gives_the_buffer_back() {
    reactor()
        .run(async {
            let pool = pool(1);
            let (_reader, writer) = rustix::pipe::pipe().unwrap();
            let buffer = pool.take().await;
            let (result, reading) = op::read_at(&Fd::from(writer), buffer, 0..100, 0, 0).await;
            assert!(result.is_err());
            drop(reading);
            assert_eq!(pool.free(), 1);
        })
        .unwrap();
}

#[test]
fn a_dropped_read_keeps_its_buffer_until_the_kernel_is_done() {
    reactor()
        .run(async {
            let pool = pool(1);
            let (reader, _writer) = rustix::pipe::pipe().unwrap();
            let reader = Fd::from(reader);
            let reading = op::read_at(&reader, pool.take().await, 0..100, u64::MAX, 0);
            let early = Instant::now() + Duration::from_millis(5);
            assert!(timeout_at(early, reading).await.is_err());
            assert_eq!(pool.free(), 0, "the kernel may still write to it");
            let buffer = pool.take().await;
            assert_eq!(buffer.len(), 8192);
        })
        .unwrap();
}

#[test]
fn dropping_the_reactor_waits_for_the_kernel() {
    let reactor = reactor();
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let dropped = Rc::new(Cell::new(false));
    let seen = Rc::clone(&dropped);
    reactor
        .run(async move {
            let pool = pool(1);
            spawn(async move {
                struct Note(Rc<Cell<bool>>);
                impl Drop for Note {
                    fn drop(&mut self) {
                        self.0.set(true);
                    }
                }
                let _note = Note(seen);
                let _ = op::read_at(&Fd::from(reader), pool.take().await, 0..10, u64::MAX, 0).await;
            });
            yield_now().await;
            yield_now().await;
        })
        .unwrap();
    assert!(!dropped.get());
    drop(reactor);
    assert!(dropped.get());
}

#[test]
fn one_accept_yields_many_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let clients = std::thread::spawn(move || {
        for number in 0..50u8 {
            TcpStream::connect(address).unwrap().write_all(&[number]).unwrap();
        }
    });
    let sum = reactor()
        .run(async move {
            let mut incoming = op::Incoming::new(Fd::from(OwnedFd::from(listener)));
            let mut sum = 0u32;
            for _ in 0..50 {
                let connection = Fd::from(incoming.next().await.unwrap());
                op::readable(&connection).await.0.unwrap();
                let mut byte = [0];
                rustix::io::read(connection.borrowed(), &mut byte).unwrap();
                sum += u32::from(byte[0]);
            }
            sum
        })
        .unwrap();
    assert_eq!(sum, (0..50).sum::<u32>());
    clients.join().unwrap();
}

#[test]
fn a_dropped_listener_leaves_no_descriptor_open() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let reactor = reactor();
    let mut client = reactor
        .run(async move {
            let mut incoming = op::Incoming::new(Fd::from(OwnedFd::from(listener)));
            assert!(
                timeout_at(Instant::now() + Duration::from_millis(2), incoming.next())
                    .await
                    .is_err()
            );
            let client = TcpStream::connect(address).unwrap();
            sleep(Duration::from_millis(5)).await;
            drop(incoming);
            client
        })
        .unwrap();
    drop(reactor);
    // The connection that arrived and was never taken has been closed.
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
}

#[test]
fn a_dropped_open_leaves_no_descriptor_open() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let reactor = reactor();
    let path = folder.path().to_owned();
    let open = || {
        std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter(|entry| {
                let target = std::fs::read_link(entry.as_ref().unwrap().path());
                target.is_ok_and(|target| target == path.join("file"))
            })
            .count()
    };
    let directory = Fd::from(OwnedFd::from(std::fs::File::open(folder.path()).unwrap()));
    reactor
        .run(async move {
            for _ in 0..20 {
                drop(op::open_at(&directory, c"file".to_owned(), libc::O_RDONLY, 0));
            }
            sleep(Duration::from_millis(5)).await;
        })
        .unwrap();
    drop(reactor);
    assert_eq!(open(), 0);
}

/// The order in which three tasks wake whose deadlines are `step` apart. `None` if the first deadline passed before all of them waited.
async fn order_of_waking(step: Duration) -> Option<Vec<u32>> {
    let order = Rc::new(RefCell::new(Vec::new()));
    let start = Instant::now();
    for number in [3, 1, 2] {
        let order = Rc::clone(&order);
        spawn(async move {
            sleep_until(start + step * number).await;
            order.borrow_mut().push(number);
        });
    }
    yield_now().await;
    let all_wait = Instant::now() < start + step;
    while tasks_live() > 1 {
        sleep(Duration::from_millis(1)).await;
    }
    all_wait.then(|| order.take())
}

#[test]
fn timers_fire_in_the_order_of_their_deadlines() {
    let order = reactor().run(async {
        // A machine that stands still meanwhile shows nothing, so longer deadlines follow.
        for milliseconds in [10, 100, 1000, 10_000] {
            let order = order_of_waking(Duration::from_millis(milliseconds)).await;
            if order.is_some() {
                return order;
            }
        }
        None
    });
    assert_eq!(order.unwrap(), Some(vec![1, 2, 3]));
}

#[test]
fn waiters_for_a_buffer_are_served_in_order_even_when_one_gives_up() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&order);
    reactor()
        .run(async move {
            let pool = pool(1);
            let held = pool.take().await;
            let gave_up = Rc::new(Cell::new(false));
            for number in 0..4 {
                let (pool, order) = (pool.clone(), Rc::clone(&order));
                let gives_up = Rc::clone(&gave_up);
                spawn(async move {
                    let patience = if number == 1 { 1 } else { 60_000 };
                    let deadline = now() + Duration::from_millis(patience);
                    if let Ok(_buffer) = timeout_at(deadline, pool.take()).await {
                        order.borrow_mut().push(number);
                        yield_now().await;
                    } else {
                        gives_up.set(true);
                    }
                });
            }
            while !gave_up.get() {
                sleep(Duration::from_millis(1)).await;
            }
            drop(held);
            while tasks_live() > 1 {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .unwrap();
    assert_eq!(*seen.borrow(), [0, 2, 3]);
}

#[test]
fn who_waits_for_a_disk_leaves_buffers_for_who_does_not() {
    reactor()
        .run(async {
            let pool = pool(4);
            let soon = || now() + Duration::from_millis(10);
            let held =
                [pool.take_spare(1).await, pool.take_spare(1).await, pool.take_spare(2).await];
            assert!(timeout_at(soon(), pool.take_spare(3)).await.is_err());
            let kept = pool.take().await;
            assert!(timeout_at(soon(), pool.take()).await.is_err());
            drop(kept);
            assert!(timeout_at(soon(), pool.take_spare(3)).await.is_err());
            assert!(timeout_at(soon(), pool.take()).await.is_ok());

            // A caller that wants to hold one gets it as soon as one can be spared.
            let (waiting, got) = (pool.clone(), Rc::new(Cell::new(false)));
            let told = Rc::clone(&got);
            spawn(async move {
                let _buffer = waiting.take_spare(3).await;
                told.set(true);
            });
            // It waits after its first turn.
            yield_now().await;
            let mut other = pool.take().await;
            assert!(!got.get() && !pool.may_hold(&mut other, 4));
            drop(held);
            let deadline = now() + Duration::from_secs(60);
            while !got.get() && now() < deadline {
                yield_now().await;
            }
            assert!(got.get() && pool.may_hold(&mut other, 4));
        })
        .unwrap();
}

#[test]
fn a_disk_that_hangs_leaves_buffers_for_other_disks() {
    const HUNG: u64 = 1;
    reactor()
        .run(async {
            let pool = pool(32); // of which 4 are kept
            let soon = || now() + Duration::from_millis(10);
            let mut held = Vec::new();
            while let Ok(buffer) = timeout_at(soon(), pool.take_spare(HUNG)).await {
                held.push(buffer);
            }
            assert_eq!(held.len(), 21, "three quarters of 28");
            // Many more wait, without delaying reads from another disk.
            for _ in 0..100 {
                let pool = pool.clone();
                spawn(async move { drop(pool.take_spare(HUNG).await) });
            }
            // They wait after their first turn.
            yield_now().await;
            assert!(pool.is_scarce_for(HUNG) && !pool.is_scarce_for(2));
            let other = [pool.take_spare(2).await, pool.take_spare(2).await];
            drop(other);
            let mut now = pool.take().await;
            assert!(pool.may_hold(&mut now, 2));
            drop(now);
            assert!(timeout_at(soon(), pool.take_spare(HUNG)).await.is_err());
            // The buffers are back: all callers get theirs.
            drop(held);
            while tasks_live() > 1 {
                sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(pool.free(), 32);
        })
        .unwrap();
}

#[test]
fn the_buffer_used_last_is_taken_next() {
    reactor()
        .run(async {
            let pool = pool(3);
            let (first, second) = (pool.take().await, pool.take().await);
            let address = second.as_ptr();
            drop(first);
            drop(second);
            assert_eq!(pool.take().await.as_ptr(), address);
        })
        .unwrap();
}

#[test]
fn a_panicking_task_ends_alone() {
    reactor()
        .run(async {
            spawn(async { panic!("on purpose: the other tasks go on") });
            yield_now().await;
            yield_now().await;
            assert_eq!(tasks_panicked(), 1);
            assert_eq!(tasks_live(), 1);
        })
        .unwrap();
}

#[test]
fn a_wake_from_another_thread_arrives() {
    let (remote, woken) = remote().unwrap();
    let waker = std::thread::spawn(move || remote.wake());
    reactor().run(async move { woken.each(|| false).await.unwrap() }).unwrap();
    waker.join().unwrap();
}

#[test]
fn completions_arrive_although_some_task_is_always_ready() {
    let (remote, woken) = remote().unwrap();
    let seen = Rc::new(Cell::new(false));
    let arrived = Rc::clone(&seen);
    let waker = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        remote.wake();
    });
    reactor()
        .run(async move {
            spawn(async move {
                woken.each(|| false).await.unwrap();
                arrived.set(true);
            });
            let deadline = Instant::now() + Duration::from_secs(60);
            while !seen.get() {
                assert!(Instant::now() < deadline, "a busy loop starves the ring");
                yield_now().await;
            }
        })
        .unwrap();
    waker.join().unwrap();
}

#[test]
fn a_poll_sees_data_and_a_departed_peer() {
    reactor()
        .run(async {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let ours = Fd::from(OwnedFd::from(ours));
            theirs.write_all(b"x").unwrap();
            assert!(op::readable(&ours).await.0.unwrap() & libc::POLLIN as u32 != 0);
            drop(theirs);
            assert!(op::readable(&ours).await.0.unwrap() & libc::POLLHUP as u32 != 0);
        })
        .unwrap();
}

#[test]
fn a_thread_has_one_reactor() {
    let first = reactor();
    assert!(Reactor::new(RingOptions::default()).is_err());
    drop(first);
    drop(reactor());
}

#[test]
fn a_view_tells_what_is_in_the_page_cache_and_a_touch_brings_it_there() {
    use fullbore_reactor::residency::View;
    const BYTES: u64 = 3 << 20;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![7; BYTES as usize - 1]).unwrap();
    file.sync_all().unwrap();
    let view = View::new(std::os::fd::AsFd::as_fd(&file), BYTES - 1).unwrap();
    assert_eq!(view.first_missing(0..BYTES).unwrap(), None);
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    if view.first_missing(0..BYTES).unwrap() != Some(0) {
        fullbore_tests::tool::skip("this filesystem does not evict what it has in memory");
        return;
    }
    assert_eq!(view.first_missing(5000..6000).unwrap(), Some(5000));
    reactor()
        .run(async move {
            let file = Fd::from(OwnedFd::from(file));
            op::touch(&file, BYTES - 2).await.0.unwrap();
            assert_eq!(view.first_missing(BYTES - 4096..BYTES).unwrap(), None);
            assert_eq!(op::touch(&file, BYTES).await.0.unwrap(), 0, "past the end");
            op::will_need(&file, 0, BYTES as u32).await.0.unwrap();
            while let Some(missing) = view.first_missing(0..BYTES).unwrap() {
                assert_eq!(op::touch(&file, missing).await.0.unwrap(), 1);
            }
            // Even if the file changes, the view is only asked about and never read.
            rustix::fs::ftruncate(file.borrowed(), 10).unwrap();
            assert!(view.first_missing(4096..BYTES).unwrap().is_some());
        })
        .unwrap();
}

#[test]
fn a_lease_makes_a_writer_wait_until_its_descriptor_is_closed() {
    use fullbore_reactor::lease;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film");
    std::fs::write(&path, "film").unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let borrowed = std::os::fd::AsFd::as_fd(&file);
    let written = std::fs::File::options().write(true).open(&path).unwrap();
    assert!(lease::take(borrowed).is_err(), "this test has it open for writing");
    drop(written);
    if let Err(error) = lease::take(borrowed) {
        fullbore_tests::tool::skip(&format!("no leases here: {error}"));
        return;
    }
    assert!(lease::is_held(borrowed));
    let writer = std::thread::spawn(move || {
        std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    });
    while lease::is_held(borrowed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(file.metadata().unwrap().len(), 4, "the writer waits");
    drop(file);
    writer.join().unwrap();
}
