//! The state of one connection, shared by the stack and a session.

use super::stream::Stream;
use crate::end::End;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::{Poll, Waker};
use tcp::Id;

/// One connection, from its acceptance until its session releases it.
pub struct OwnTcpConnection {
    /// Its identifier in the endpoint.
    pub id: Id,
    /// The viewer.
    pub peer: SocketAddr,
    /// Its send stream.
    pub stream: RefCell<Stream>,
    /// Everything below this offset was sent at least once.
    sent_below: Cell<u64>,
    /// The viewer has acknowledged everything below this offset.
    acknowledged_below: Cell<u64>,
    /// There may be bytes to read.
    pub has_arrived: Cell<bool>,
    /// The viewer has finished sending; only what can be read now remains.
    pub peer_finished: Cell<bool>,
    /// The server has finished sending.
    pub finished: Cell<bool>,
    /// Set when no session uses it any more.
    pub is_let_go: Cell<bool>,
    /// Why nothing more will be sent, if it has ended.
    end: Cell<Option<End>>,
    /// The waiting session. Arriving bytes wake it, and so do acknowledgements at the end of the stream, and the sending of everything below
    /// `awaited_below`.
    session: Cell<Option<Waker>>,
    awaited_below: Cell<u64>,
    /// Set while the session waits for any acknowledgement.
    awaits_acknowledgement: Cell<bool>,
    turns: Turns,
}

/// The order in which new bytes are sent.
#[derive(Default)]
struct Turns {
    next: Cell<u64>,
    serving: Cell<u64>,
    waiting: RefCell<Vec<(u64, Waker)>>,
}

/// A place in the order in which a connection's new bytes are sent. Dropping it lets the next place go.
pub struct Turn<'a> {
    connection: &'a OwnTcpConnection,
    number: u64,
}

impl OwnTcpConnection {
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

    /// Why nothing more will be sent, if the connection has ended.
    pub fn end(&self) -> Option<End> {
        self.end.get()
    }

    /// Ends the connection; the first reason counts. Wakes everything that waits for it.
    pub fn end_with(&self, end: End) {
        if self.end.get().is_none() {
            self.end.set(Some(end));
        }
        self.wake_session();
        self.turns.waiting.borrow_mut().drain(..).for_each(|(_, waker)| waker.wake());
    }

    /// Records that everything below `offset` was sent.
    pub fn sent_below(&self, offset: u64) {
        self.sent_below.set(self.sent_below.get().max(offset));
        self.stream.borrow_mut().sent_below(offset);
        if self.sent_below.get() >= self.awaited_below.get() {
            self.wake_session();
        }
    }

    /// Records that the viewer has acknowledged everything below `offset`.
    pub fn acknowledged_below(&self, offset: u64) {
        self.acknowledged_below.set(self.acknowledged_below.get().max(offset));
        let mut stream = self.stream.borrow_mut();
        stream.acknowledge_below(offset);
        if offset >= stream.end() || self.awaits_acknowledgement.get() {
            self.wake_session();
        }
    }

    /// Returns true if the viewer has acknowledged everything that was written.
    pub fn is_acknowledged(&self) -> bool {
        self.acknowledged_below.get() >= self.stream.borrow().end()
    }

    /// Its progress: bytes sent and bytes acknowledged.
    pub fn progress(&self) -> (u64, u64) {
        (self.sent_below.get(), self.acknowledged_below.get())
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.stream.borrow().memory_bytes()
    }

    /// Wakes the session after a change.
    pub fn wake_session(&self) {
        if let Some(waker) = self.session.take() {
            waker.wake();
        }
    }

    /// For the session: waits until it is woken. `is_there` returns true if there is something to do already.
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

    /// Returns true if unread bytes have arrived, or the viewer has finished.
    pub fn is_readable(&self) -> bool {
        self.has_arrived.get() || self.peer_finished.get()
    }

    /// For the session: waits until everything below `offset` was sent, or the connection is over; if it `reads`, also until there is something to
    /// read.
    pub async fn all_sent_below(&self, offset: u64, reads: bool) {
        self.awaited_below.set(offset);
        let is_there = || self.sent_below.get() >= offset || (reads && self.is_readable());
        self.changed(is_there).await;
        self.awaited_below.set(u64::MAX);
    }

    /// For the session: waits until the acknowledged bytes satisfy `is_enough`, or the connection is over.
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

    /// Returns true if it is the turn of the place with this number.
    pub fn is_next(&self, number: u64) -> bool {
        self.turns.serving.get() >= number
    }

    /// The place with this number.
    pub fn turn(&self, number: u64) -> Turn<'_> {
        Turn { connection: self, number }
    }
}

impl Turn<'_> {
    /// Waits until all places before this one are done, or the connection is over.
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
        // A place is dropped before its turn only if the connection is over.
        turns.serving.set(turns.serving.get().max(self.number + 1));
        let serving = turns.serving.get();
        let mut waiting = turns.waiting.borrow_mut();
        while let Some(index) = waiting.iter().position(|(number, _)| *number <= serving) {
            waiting.swap_remove(index).1.wake();
        }
    }
}
