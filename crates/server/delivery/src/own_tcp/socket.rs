//! A session's end of a connection over our own TCP.

use super::connection::OwnTcpConnection;
use super::{OwnTcp, Streamed};
use crate::carrier::{Carrier, Protection};
use crate::channel::Channel;
use crate::end::End;
use crate::link::Link;
use crate::protected::Protected;
use net::Ready;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// One connection, as a session sees it. Dropping it ends the connection: in an orderly way if everything was sent and acknowledged, else by a reset.
pub struct OwnTcpSocket {
    own_tcp: Rc<OwnTcp>,
    connection: Rc<OwnTcpConnection>,
}

impl OwnTcpSocket {
    /// A session's end of `connection`.
    pub(super) fn new(own_tcp: Rc<OwnTcp>, connection: Rc<OwnTcpConnection>) -> Self {
        Self { own_tcp, connection }
    }

    /// The viewer's address.
    pub fn peer(&self) -> SocketAddr {
        self.connection.peer
    }

    /// The state it shares with the stack.
    pub fn connection(&self) -> &OwnTcpConnection {
        &self.connection
    }

    /// Reports to TCP what was appended to the stream since `end_before`.
    pub fn wrote(&self, end_before: u64) {
        let bytes = self.connection.stream.borrow().end() - end_before;
        self.own_tcp.write(&self.connection, bytes);
    }

    /// Ends the connection at once.
    pub fn reset(&self, end: End) {
        self.own_tcp.end(&self.connection, end);
    }

    /// The reason why nothing more will be sent, as an error.
    fn check(&self) -> io::Result<()> {
        match self.connection.end() {
            None => Ok(()),
            Some(_) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

impl Carrier for OwnTcpSocket {
    fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self.own_tcp.read(&self.connection, into) {
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
        // Small messages are kept, and large ones are requested by offset, so there is always room.
        true
    }

    fn readiness(&self, _if_readable: bool) -> Ready {
        Ready { writable: true, readable: self.connection.is_readable() }
    }

    fn readable(&self) -> impl Future<Output = ()> {
        self.connection.changed(|| self.connection.is_readable())
    }

    async fn writable(&self) {}

    async fn readable_or_writable(&self) -> Ready {
        self.readiness(true)
    }

    fn unacknowledged_bytes(&self) -> usize {
        let (_, acknowledged_below) = self.connection.progress();
        self.connection.stream.borrow().end().saturating_sub(acknowledged_below) as usize
    }

    fn finish(&self) {
        self.own_tcp.finish(&self.connection);
    }

    fn reason(&self) -> Option<End> {
        self.connection.end()
    }

    fn establish(link: Link<Self>, protection: Protection, sealed_input: Vec<u8>) -> Channel {
        let sealing = Streamed::new(&link, protection, sealed_input);
        Channel::OwnTcp(Box::new(Protected { link, sealing }))
    }
}

impl Drop for OwnTcpSocket {
    fn drop(&mut self) {
        self.own_tcp.let_go(&self.connection);
    }
}
