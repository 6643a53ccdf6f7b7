//! Loopback connections to a sink that discards what it receives.
//!
//! On loopback the sender's core also does the work of a receiver's network interrupt. All figures of sending include it here, as the
//! server's do.

use super::parts::pin;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;

/// The server's `TCP_NOTSENT_LOWAT` (`net.unsent_bytes_max`).
pub(super) const UNSENT_BYTES_MAX: u32 = 32 << 10;

/// How much the sink reads at once.
const GULP_BYTES: usize = 256 << 10;

/// A thread that receives from several connections until all are closed.
pub(crate) struct Sink {
    address: SocketAddr,
    connections: usize,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Sink {
    /// Starts it on core `cpu`.
    ///
    /// # Errors
    /// If no sockets or threads are left.
    pub(crate) fn start(connections: usize, cpu: u32) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let thread = std::thread::Builder::new().name("sink".into()).spawn(move || {
            pin(cpu)?;
            let accept = |_| {
                let (stream, _) = listener.accept()?;
                // As for the server's clients: one wake-up for much data.
                net::Socket::from(OwnedFd::from(stream.try_clone()?)).wake_at(GULP_BYTES as i32)?;
                Ok(stream)
            };
            swallow((0..connections).map(accept).collect::<io::Result<_>>()?)
        })?;
        Ok(Self { address, connections, thread: Some(thread) })
    }

    /// Opens as many connections as the sink expects.
    ///
    /// # Errors
    /// If the sink has ended.
    pub(crate) fn connect(&self) -> io::Result<Sockets> {
        let connect = |_| {
            let stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
            Ok(Socket(stream))
        };
        (0..self.connections).map(connect).collect::<io::Result<_>>().map(Sockets)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // It ends when its connections do, and those are dropped first.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn swallow(mut streams: Vec<TcpStream>) -> io::Result<()> {
    let mut gulp = vec![0; GULP_BYTES];
    while !streams.is_empty() {
        let mut polls: Vec<_> =
            streams.iter().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
        rustix::event::poll(&mut polls, None)?;
        let ready: Vec<_> = polls.iter().map(|poll| !poll.revents().is_empty()).collect();
        let mut index = 0;
        streams.retain(|stream| {
            index += 1;
            let received = ready[index - 1]
                .then(|| rustix::net::recv(stream.as_fd(), &mut gulp[..], RecvFlags::DONTWAIT));
            !matches!(received, Some(Ok((0, _)) | Err(Errno::CONNRESET)))
        });
    }
    Ok(())
}

/// A sending end.
pub(crate) struct Socket(TcpStream);

impl Socket {
    /// Offers bytes to TCP, which may take none.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        or_nothing(rustix::net::send(&self.0, bytes, flags))
    }
}

fn or_nothing(taken: Result<usize, Errno>) -> io::Result<usize> {
    match taken {
        Err(Errno::AGAIN) => Ok(0),
        taken => Ok(taken?),
    }
}

/// All sending ends.
pub(crate) struct Sockets(Vec<Socket>);

impl Sockets {
    /// Gives each writable connection a turn, and waits if there is none. Returns the bytes that all of them took.
    ///
    /// # Errors
    /// If a turn or the wait fails.
    pub(crate) fn each(
        &mut self,
        mut turn: impl FnMut(&Socket, usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut polls: Vec<_> =
            self.0.iter().map(|socket| PollFd::new(&socket.0, PollFlags::OUT)).collect();
        rustix::event::poll(&mut polls, None)?;
        let ready: Vec<_> = polls.iter().map(|poll| !poll.revents().is_empty()).collect();
        let mut bytes = 0;
        for (index, socket) in self.0.iter().enumerate().filter(|(index, _)| ready[*index]) {
            bytes += turn(socket, index)?;
        }
        Ok(bytes)
    }
}
