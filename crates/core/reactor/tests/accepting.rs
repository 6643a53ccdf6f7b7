//! Several rings accept from one listener, as those of two servers do during an upgrade: every connection is answered, whichever ring stops or ends.
//!
//! The kernel wakes one accept per connection. These tests choose at random when that accept is cancelled, when its ring processes completions, and
//! when the ring ends.

use fullbore_reactor::op::Incoming;
use fullbore_reactor::{Fd, Reactor, RingOptions, now, sleep_until, spawn, timeout_at, yield_now};
use fullbore_tests::PATIENCE;
use std::cell::Cell;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The byte that a client reads if the ring that stops has accepted it, and if another ring has.
const BY_THE_OLD: u8 = b'o';
const BY_THE_NEW: u8 = b'n';

fn reactor() -> Reactor {
    Reactor::new(RingOptions { submission_entries: 8, completion_entries: 64 })
        .expect("this kernel has io_uring")
}

fn listener() -> (OwnedFd, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener.into(), address)
}

/// Submits the accept, which the kernel may wake from then on, and answers connections that are waiting already.
async fn arm(incoming: &mut Incoming, with: u8) {
    loop {
        let came = timeout_at(now(), incoming.next()).await;
        let has_come = came.is_ok();
        came.into_iter().for_each(|connection| answer(connection.unwrap(), with));
        // The ring is entered.
        yield_now().await;
        if !has_come {
            return;
        }
    }
}

fn answer(connection: OwnedFd, with: u8) {
    // A client may have disconnected.
    let _ = rustix::io::write(connection, &[with]);
}

/// The ring that answered; `None` if the connection was closed instead.
fn answered_by(mut client: TcpStream) -> Option<u8> {
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut byte = [0];
    match client.read_exact(&mut byte).map_err(|error| error.kind()) {
        Ok(()) => Some(byte[0]),
        Err(ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => None,
        Err(kind) => {
            panic!("a connection that no ring has accepted, or that is open and silent: {kind}")
        }
    }
}

/// A ring on its own thread that accepts and answers until it is dropped.
struct Another {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Another {
    /// Returns once it waits at `listener`.
    fn start(listener: OwnedFd) -> Self {
        let (stop, stopped) = channel();
        let (armed, is_armed) = channel();
        let thread = thread::spawn(move || {
            let accepting = accept(listener, armed, stopped);
            reactor().run(accepting).unwrap();
        });
        is_armed.recv().unwrap();
        Self { stop, thread }
    }

    fn end(self, address: SocketAddr) {
        self.stop.send(()).unwrap();
        // It may have ended already.
        drop(TcpStream::connect(address));
        self.thread.join().unwrap();
    }
}

async fn accept(listener: OwnedFd, armed: Sender<()>, stopped: Receiver<()>) {
    let mut incoming = Incoming::new(Fd::from(listener));
    arm(&mut incoming, BY_THE_NEW).await;
    armed.send(()).unwrap();
    // Ending it takes one more client.
    while stopped.try_recv().is_err() {
        answer(incoming.next().await.unwrap(), BY_THE_NEW);
    }
}

/// The kernel has woken the accept for the connection, and the ring cancels it before it sees that.
#[test]
fn an_accept_that_is_cancelled_when_it_was_woken_leaves_nobody_waiting() {
    let (listener, address) = listener();
    let shared = listener.try_clone().unwrap();
    let (client, another) = reactor()
        .run(async move {
            let mut incoming = Incoming::new(Fd::from(listener));
            arm(&mut incoming, BY_THE_OLD).await;
            let another = Another::start(shared);
            // This ring was first at the listener, so its accept is woken. The ring does not enter the kernel, and so does not notice.
            let client = TcpStream::connect(address).unwrap();
            while let Some(connection) = incoming.last().await {
                answer(connection, BY_THE_OLD);
            }
            (client, another)
        })
        .unwrap();
    assert!(answered_by(client).is_some());
    another.end(address);
}

/// The woken accept belongs to a ring that does nothing more, like that of a process that has just been killed.
#[test]
fn a_connection_for_which_a_dead_ring_was_woken_is_found() {
    let (listener, address) = listener();
    let shared = listener.try_clone().unwrap();
    let dead = reactor();
    let incoming = dead.run(async move {
        let mut incoming = Incoming::new(Fd::from(listener));
        arm(&mut incoming, BY_THE_OLD).await;
        incoming
    });
    let incoming = incoming.unwrap();
    let another = Another::start(shared);
    let clients: Vec<_> =
        (0..3).map(|_| answered_by(TcpStream::connect(address).unwrap())).collect();
    assert_eq!(clients, [Some(BY_THE_NEW); 3]);
    drop((incoming, dead));
    another.end(address);
}

/// Numbers from a seed (Marsaglia, Xorshift RNGs, 2003).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// How the old ring stops using its listener.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    /// It stops accepting, and answers the connections that are its own.
    Last,
    /// It answers what it accepted, then its thread ends without cleaning up.
    Dropped,
}

/// Result of an old ring's life: all clients that connected, and the ring that follows.
type Life = (Vec<TcpStream>, Another);

/// The life of an old ring. Clients connect while it accepts, while it stops, and afterwards; between its turns, the kernel has work for it that it
/// has not seen. `start` starts the new one, at a drawn moment.
async fn live(mut draw: Draw, listener: OwnedFd, end: End, start: impl Fn() -> Another) -> Life {
    let address = TcpListener::from(listener.try_clone().unwrap()).local_addr().unwrap();
    let connect = || TcpStream::connect(address).unwrap();
    let mut incoming = Incoming::new(Fd::from(listener));
    let (mut clients, mut another) = (Vec::new(), None);
    for _ in 0..draw.below(9) {
        match draw.below(4) {
            0 => yield_now().await,
            1 => clients.push(connect()),
            2 => _ = another.get_or_insert_with(&start),
            _ => {
                if let Ok(connection) = timeout_at(now(), incoming.next()).await {
                    answer(connection.unwrap(), BY_THE_OLD);
                }
            }
        }
    }
    if end == End::Last {
        let is_over = Rc::new(Cell::new(false));
        let over = Rc::clone(&is_over);
        spawn(async move {
            while let Some(connection) = incoming.last().await {
                answer(connection, BY_THE_OLD);
            }
            over.set(true);
        });
        while !is_over.get() {
            if clients.len() < 12 && draw.below(4) == 0 {
                clients.push(connect());
            }
            yield_now().await;
        }
    }
    (clients, another.unwrap_or_else(start))
}

/// One life of an old ring, and the outcome of every client.
fn play(seed: u64, end: End) {
    let (listener, address) = listener();
    let shared = listener.try_clone().unwrap();
    let start = move || Another::start(shared.try_clone().unwrap());
    let old = reactor();
    // Without this, neighbouring seeds begin alike.
    let draw = Draw((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (clients, another) = old.run(live(draw, listener, end, start)).unwrap();
    drop(old);
    for (number, client) in clients.into_iter().enumerate() {
        let by = answered_by(client);
        // Connections that a ring accepted and its thread never took are closed with the ring; no others are.
        assert!(by.is_some() || end == End::Dropped, "seed {seed}: client {number} was closed");
    }
    another.end(address);
}

/// Each accepted descriptor is answered, or left to the other ring.
#[test]
fn whoever_connects_while_one_ring_follows_another_is_answered() {
    (0..300).for_each(|seed| play(seed, End::Last));
}

/// Each accepted descriptor is answered, left to the other ring, or closed with the old one: none stays open and silent.
#[test]
fn nobody_is_left_silent_by_a_ring_that_ends_without_a_word() {
    (0..25).for_each(|seed| play(seed, End::Dropped));
}

/// A machine may stop in the middle of a turn of the loop (a busy host, a suspended guest, a debugger). The turn's start is then long past when the
/// accept polls its queue.
#[test]
fn a_turn_that_takes_longer_than_the_pause_between_looks_does_not_stop_the_loop() {
    let (listener, _) = listener();
    let (tell, is_next) = channel();
    // On a thread of its own, because a loop that never ends could not be noticed from within.
    thread::spawn(move || {
        reactor().run(async move {
            // Due before the accept's first look, so it runs before it in the turn in which both are due.
            let due = Instant::now() + Duration::from_secs(1);
            spawn(async move {
                sleep_until(due).await;
                // sleeps: this turn has to outlast the pause until the next look.
                thread::sleep(Duration::from_millis(1500));
                yield_now().await;
                tell.send(()).unwrap();
            });
            spawn(async {
                // sleeps: both have to be due in the turn after this one.
                thread::sleep(Duration::from_millis(1500));
            });
            Incoming::new(Fd::from(listener)).next().await
        })
    });
    is_next.recv_timeout(PATIENCE).expect("the loop has another turn");
}
