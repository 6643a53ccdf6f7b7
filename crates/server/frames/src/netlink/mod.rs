//! Talks to the kernel's routing tables: the part of rtnetlink(7) that is needed here. Also queries the abilities of a NIC's driver.

pub(crate) mod link;
pub(crate) mod message;
pub(crate) mod nic;
pub(crate) mod routes;
pub(crate) mod stations;

use message::{Message, Messages, Request};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The kernel sends as much of a list as fits into the buffer, up to 32 KiB.
const RECEIVE_BYTES: usize = 32 * 1024;

/// A netlink socket.
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Box<[u8]>,
}

impl Netlink {
    /// Opens a socket that receives messages to `groups` (a mask of `RTMGRP_*`); 0 for one that only asks.
    pub(crate) fn open(groups: i32) -> io::Result<Self> {
        Self::of(None, groups)
    }

    /// Opens a socket for generic netlink.
    fn generic() -> io::Result<Self> {
        Self::of(Some(netlink::GENERIC), 0)
    }

    fn of(protocol: Option<Protocol>, groups: i32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups as u32))?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; RECEIVE_BYTES].into() })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn ask(&mut self, request: Request) -> io::Result<()> {
        self.query(request, |_| {})
    }

    /// Sends a request and passes on the kernel's answers. The kernel answers at once, so this may block.
    ///
    /// # Errors
    /// The kernel's; `EINTR` if a list changed while it was read: then ask again.
    pub(crate) fn query(
        &mut self,
        mut request: Request,
        mut each: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let is_dump = request.is_dump();
        rustix::net::send(&self.socket, request.finish(self.sequence), SendFlags::empty())?;
        let mut interrupted = false;
        loop {
            let (bytes, _) =
                rustix::net::recv(&self.socket, &mut *self.buffer, RecvFlags::empty())?;
            for message in Messages(&self.buffer[..bytes]).filter(|m| m.sequence == self.sequence) {
                interrupted |= i32::from(message.flags) & libc::NLM_F_DUMP_INTR != 0;
                match i32::from(message.kind) {
                    libc::NLMSG_ERROR => return message.outcome(),
                    libc::NLMSG_DONE if is_dump && interrupted => return Err(Errno::INTR.into()),
                    libc::NLMSG_DONE => return Ok(()),
                    _ => each(message),
                }
            }
        }
    }

    /// Passes on the kernel's messages since the last call. Returns whether some were lost for lack of room.
    ///
    /// # Errors
    /// Any error except lost messages.
    pub(crate) fn heard(&mut self, mut each: impl FnMut(Message<'_>)) -> io::Result<bool> {
        let mut lost = false;
        loop {
            match rustix::net::recv(&self.socket, &mut *self.buffer, RecvFlags::DONTWAIT) {
                Ok((bytes, _)) => Messages(&self.buffer[..bytes]).for_each(&mut each),
                Err(Errno::AGAIN) => return Ok(lost),
                Err(Errno::NOBUFS) => lost = true,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
