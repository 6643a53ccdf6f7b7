//! A connection of a machine or a guest: TLS, with an end that the gateway can bring about.

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
use crate::acceptor::Caller;
use crate::open::Place;

/// A TLS connection whose handshake is done. It ends with an error if the gateway ends it, or if its time is over.
pub struct Connection<C = Caller> {
    stream: TlsStream<TcpStream>,
    caller: C,
    ended: Pin<Box<OwnedNotified>>,
    out_of_time: Pin<Box<Sleep>>,
    stay: Stay,
    _place: Place,
}

/// How long a connection may stay.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stay {
    /// So long and no longer: a stranger, for the time that joining takes.
    AtMost(Duration),
    /// Until nothing has moved for so long.
    WhileItMoves(Duration),
}

impl<C: std::fmt::Debug> std::fmt::Debug for Connection<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({:?})", self.caller)
    }
}

impl Connection {
    /// The certificate of the other end, if it is a node.
    pub fn peer(&self) -> Option<&Arc<NodeCertificate>> {
        self.caller.peer.as_ref()
    }
}

impl<C> Connection<C> {
    pub(crate) fn new(stream: TlsStream<TcpStream>, caller: C, place: Place, stay: Stay) -> Self {
        let ended = Box::pin(Arc::clone(&place.end).notified_owned());
        let (Stay::AtMost(time) | Stay::WhileItMoves(time)) = stay;
        let out_of_time = Box::pin(sleep(time));
        Self { stream, caller, ended, out_of_time, stay, _place: place }
    }

    /// Who is at the other end.
    pub fn caller(&self) -> &C {
        &self.caller
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
        if let Stay::WhileItMoves(idle) = self.stay {
            self.out_of_time.as_mut().reset(Instant::now() + idle);
        }
    }
}

impl<C: Unpin> AsyncRead for Connection<C> {
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

impl<C: Unpin> AsyncWrite for Connection<C> {
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
