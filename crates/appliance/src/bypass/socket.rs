//! A session's end of a connection over our own TCP.

use super::connection::Connection;
use super::stack::Stack;
use crate::end::End;
use crate::route::bypass::Bypass;
use crate::route::{Channel, Link, Protection, Transport};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// One connection, as a session has it. Dropping it ends the connection: in an orderly way if all was said and acknowledged,
/// else by a reset.
pub struct Socket {
    stack: Rc<Stack>,
    connection: Rc<Connection>,
}

impl Socket {
    /// A session's end of `connection`.
    pub(super) fn new(stack: Rc<Stack>, connection: Rc<Connection>) -> Self {
        Self { stack, connection }
    }

    /// The viewer's address.
    pub fn peer(&self) -> SocketAddr {
        self.connection.peer
    }

    /// What it shares with the stack.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Tells TCP of what was appended to the stream since `end_before`.
    pub fn wrote(&self, end_before: u64) {
        let bytes = self.connection.stream.borrow().end() - end_before;
        self.stack.write(&self.connection, bytes);
    }

    /// Ends the connection at once.
    pub fn reset(&self, end: End) {
        self.stack.end(&self.connection, end);
    }

    /// Why nothing will be sent any more, as an error.
    fn check(&self) -> io::Result<()> {
        match self.connection.end() {
            None => Ok(()),
            Some(_) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

impl Transport for Socket {
    fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self.stack.read(&self.connection, into) {
            0 if self.connection.peer_finished.get() => Ok(Some(0)),
            0 => self.check().map(|()| None),
            bytes => Ok(Some(bytes)),
        }
    }

    fn send(&self, bytes: &[u8], _more: bool) -> io::Result<usize> {
        self.check()?;
        let mut stream = self.connection.stream.borrow_mut();
        let end_before = stream.end();
        stream.keep(bytes);
        drop(stream);
        self.wrote(end_before);
        Ok(bytes.len())
    }

    fn is_writable(&self) -> bool {
        // What is small is kept, and whoever sends much asks for it by offsets.
        true
    }

    fn readable(&self) -> impl Future<Output = ()> {
        let connection = &self.connection;
        connection.changed(|| connection.has_arrived.get() || connection.peer_finished.get())
    }

    async fn writable(&self) {}

    fn finish(&self) {
        self.stack.finish(&self.connection);
    }

    fn establish(link: Link<Self>, protection: Protection, sealed_input: Vec<u8>) -> Channel {
        Channel::Bypass(Box::new(Bypass::new(link, protection, sealed_input)))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.stack.let_go(&self.connection);
    }
}
