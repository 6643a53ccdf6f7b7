//! What the stack and a session share about one connection.

use super::stream::Stream;
use crate::end::End;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::{Poll, Waker};
use tcp::Id;

/// One connection, from its acceptance until its session lets go of it.
pub struct Connection {
    /// Its name in the endpoint.
    pub id: Id,
    /// The viewer.
    pub peer: SocketAddr,
    /// What it sends.
    pub stream: RefCell<Stream>,
    /// Below this offset, everything has left at least once.
    sent_below: Cell<u64>,
    /// Below this offset, the viewer has everything.
    acknowledged_below: Cell<u64>,
    /// There may be bytes to read.
    pub has_arrived: Cell<bool>,
    /// The viewer will send no more than what can be read now.
    pub peer_finished: Cell<bool>,
    /// Our side has said that it will send no more.
    pub finished: Cell<bool>,
    /// No session has it any more.
    pub is_let_go: Cell<bool>,
    /// Why nothing will be sent any more.
    end: Cell<Option<End>>,
    /// The session, if it waits; it is woken by what arrives, by acknowledgements at the end of the stream, and when
    /// everything below `awaited_below` has left.
    session: Cell<Option<Waker>>,
    awaited_below: Cell<u64>,
    /// It waits for any acknowledgement.
    awaits_acknowledgement: Cell<bool>,
    turns: Turns,
}

/// The order in which new bytes leave.
#[derive(Default)]
struct Turns {
    next: Cell<u64>,
    serving: Cell<u64>,
    waiting: RefCell<Vec<(u64, Waker)>>,
}

/// A place in the order in which new bytes of a connection leave. Dropping it lets the next one go.
pub struct Turn<'a> {
    connection: &'a Connection,
    number: u64,
}

impl Connection {
    /// A connection that was just accepted.
    pub fn new(id: Id, peer: SocketAddr) -> Self {
        Self {
            id,
            peer,
            stream: RefCell::default(),
            sent_below: Cell::new(0),
            acknowledged_below: Cell::new(0),
            has_arrived: Cell::new(false),
            peer_finished: Cell::new(false),
            finished: Cell::new(false),
            is_let_go: Cell::new(false),
            end: Cell::new(None),
            session: Cell::new(None),
            awaited_below: Cell::new(u64::MAX),
            awaits_acknowledgement: Cell::new(false),
            turns: Turns::default(),
        }
    }

    /// Why nothing will be sent any more, if that is so.
    pub fn end(&self) -> Option<End> {
        self.end.get()
    }

    /// Notes that it is over; the first reason counts. Everybody who waits is woken.
    pub fn end_with(&self, end: End) {
        if self.end.get().is_none() {
            self.end.set(Some(end));
        }
        self.wake_session();
        self.turns.waiting.borrow_mut().drain(..).for_each(|(_, waker)| waker.wake());
    }

    /// Notes that everything below `offset` has left.
    pub fn sent_below(&self, offset: u64) {
        self.sent_below.set(self.sent_below.get().max(offset));
        self.stream.borrow_mut().sent_below(offset);
        if self.sent_below.get() >= self.awaited_below.get() {
            self.wake_session();
        }
    }

    /// Notes that the viewer has everything below `offset`.
    pub fn acknowledged_below(&self, offset: u64) {
        self.acknowledged_below.set(self.acknowledged_below.get().max(offset));
        let mut stream = self.stream.borrow_mut();
        stream.acknowledge_below(offset);
        if offset >= stream.end() || self.awaits_acknowledgement.get() {
            self.wake_session();
        }
    }

    /// Whether the viewer has everything that was written.
    pub fn is_acknowledged(&self) -> bool {
        self.acknowledged_below.get() >= self.stream.borrow().end()
    }

    /// How far it has come: bytes sent and bytes acknowledged.
    pub fn progress(&self) -> (u64, u64) {
        (self.sent_below.get(), self.acknowledged_below.get())
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.stream.borrow().memory_bytes()
    }

    /// Wakes the session, since something has changed for it.
    pub fn wake_session(&self) {
        if let Some(waker) = self.session.take() {
            waker.wake();
        }
    }

    /// For the session: waits until it is woken. `is_there` says whether there is anything to wait for.
    pub async fn changed(&self, mut is_there: impl FnMut() -> bool) {
        poll_fn(|cx| {
            if self.end.get().is_some() || is_there() {
                return Poll::Ready(());
            }
            self.session.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// For the session: waits until everything below `offset` has left, or it is over.
    pub async fn all_sent_below(&self, offset: u64) {
        self.awaited_below.set(offset);
        self.changed(|| self.sent_below.get() >= offset).await;
        self.awaited_below.set(u64::MAX);
    }

    /// For the session: waits until so much is acknowledged that `is_enough`, or it is over.
    pub async fn acknowledged_until(&self, is_enough: impl Fn(&Stream) -> bool) {
        self.awaits_acknowledgement.set(true);
        self.changed(|| is_enough(&self.stream.borrow())).await;
        self.awaits_acknowledgement.set(false);
    }

    /// Takes the next place in the order of new bytes.
    pub fn take_number(&self) -> u64 {
        let number = self.turns.next.get();
        self.turns.next.set(number + 1);
        number
    }

    /// Whether nothing is to leave before the place with this number.
    pub fn is_next(&self, number: u64) -> bool {
        self.turns.serving.get() >= number
    }

    /// The place with this number.
    pub fn turn(&self, number: u64) -> Turn<'_> {
        Turn { connection: self, number }
    }
}

impl Turn<'_> {
    /// Waits until all places before this one are done with, or the connection is over.
    pub async fn come(&self) {
        let turns = &self.connection.turns;
        poll_fn(|cx| {
            if turns.serving.get() >= self.number || self.connection.end().is_some() {
                return Poll::Ready(());
            }
            turns.waiting.borrow_mut().push((self.number, cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let turns = &self.connection.turns;
        // A place is left before its turn only when the connection is over.
        turns.serving.set(turns.serving.get().max(self.number + 1));
        let serving = turns.serving.get();
        let mut waiting = turns.waiting.borrow_mut();
        while let Some(index) = waiting.iter().position(|(number, _)| *number <= serving) {
            waiting.swap_remove(index).1.wake();
        }
    }
}
