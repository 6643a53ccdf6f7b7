//! A connection of a machine: TLS, with an end that the gateway can bring about.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::server::TlsStream;

use crate::NodeCertificate;
use crate::acceptor::{AcceptBounds, Caller};
use crate::open::Place;

/// A TLS connection whose handshake is done. It ends with an error if the gateway ends it, if nothing moves for too long, and
/// for a stranger after the time that joining takes.
pub struct Connection {
    stream: TlsStream<TcpStream>,
    caller: Caller,
    ended: Pin<Box<OwnedNotified>>,
    out_of_time: Pin<Box<Sleep>>,
    /// For a node: how long nothing may move.
    idle: Option<Duration>,
    _place: Place,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({:?})", self.caller)
    }
}

impl Connection {
    pub(crate) fn new(
        stream: TlsStream<TcpStream>,
        caller: Caller,
        mut place: Place,
        bounds: &AcceptBounds,
    ) -> Self {
        let ended = Box::pin(Arc::clone(&place.end).notified_owned());
        let idle = caller.peer.as_ref().map(|_| bounds.idle_max);
        if let Some(peer) = &caller.peer {
            place.is_node(peer);
        }
        let out_of_time = Box::pin(sleep(idle.unwrap_or(bounds.stranger_max)));
        Self { stream, caller, ended, out_of_time, idle, _place: place }
    }

    /// Who is at the other end.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The certificate of the other end, if it is a node.
    pub fn peer(&self) -> Option<&Arc<NodeCertificate>> {
        self.caller.peer.as_ref()
    }

    fn check_over(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.ended.as_mut().poll(context).is_ready() {
            return Err(io::Error::new(ErrorKind::ConnectionAborted, "the gateway ended it"));
        }
        if self.out_of_time.as_mut().poll(context).is_ready() {
            return Err(io::Error::new(ErrorKind::TimedOut, "nothing came for too long"));
        }
        Ok(())
    }

    fn moved(&mut self) {
        if let Some(idle) = self.idle {
            self.out_of_time.as_mut().reset(Instant::now() + idle);
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_over(context)?;
        let had = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > had {
            self.moved();
        }
        polled
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_over(context)?;
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if matches!(polled, Poll::Ready(Ok(count)) if count > 0) {
            self.moved();
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_over(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_over(context)?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
