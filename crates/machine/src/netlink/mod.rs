//! Questions to the kernel over netlink (kernel documentation: userspace-api/netlink). They take no privileges, and stay possible on a
//! socket that was opened before a sandbox forbids new ones.

pub(crate) mod attributes;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;

/// `NLM_F_REQUEST`; `NLM_F_ROOT | NLM_F_MATCH`, which asks for everything.
const REQUEST: u16 = 1;
const ALL: u16 = 0x300;

/// `NLMSG_ERROR`, `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// netlink's own header.
const HEAD_BYTES: usize = 16;

/// More than any answer: the features of a card by name take about 6 KiB, and the kernel sends lists in parts of at most 32 KiB.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A netlink socket, for one question at a time.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    room: Vec<u8>,
}

/// A message of the kernel: its type, and what follows its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) payload: &'a [u8],
}

impl Netlink {
    /// Opens a socket of a netlink family. It also hears of what happens to any of the `groups` (a mask).
    pub(crate) fn open(family: Option<net::Protocol>, groups: u32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, family)?;
        if groups != 0 {
            net::bind(&socket, &net::netlink::SocketAddrNetlink::new(0, groups))?;
        }
        Ok(Self { socket, room: vec![0; ANSWER_BYTES_MAX] })
    }

    /// Asks a question with one answer, and returns its payload.
    pub(crate) fn ask(&mut self, kind: u16, payload: &[u8]) -> io::Result<&[u8]> {
        self.send(kind, REQUEST, payload)?;
        let received = self.receive()?.ok_or(io::ErrorKind::WouldBlock)?;
        let message = messages(received).next().ok_or(io::ErrorKind::InvalidData)?;
        match message.kind {
            ERROR => Err(error_in(message.payload)),
            DONE => Err(io::ErrorKind::InvalidData.into()),
            _ => Ok(message.payload),
        }
    }

    /// Asks for a list, and calls `each` with every message of it.
    pub(crate) fn list(
        &mut self,
        kind: u16,
        payload: &[u8],
        mut each: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        self.send(kind, REQUEST | ALL, payload)?;
        loop {
            let received = self.receive()?.ok_or(io::ErrorKind::WouldBlock)?;
            for message in messages(received) {
                match message.kind {
                    ERROR => return Err(error_in(message.payload)),
                    DONE => return Ok(()),
                    _ => each(message),
                }
            }
        }
    }

    /// Calls `each` with every message that has come by itself.
    ///
    /// # Errors
    /// `ENOBUFS` if the kernel had to drop some.
    pub(crate) fn hear(&mut self, mut each: impl FnMut(Message<'_>)) -> io::Result<()> {
        while let Some(received) = self.receive()? {
            messages(received).for_each(&mut each);
        }
        Ok(())
    }

    fn send(&self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<()> {
        let mut request = Vec::with_capacity(HEAD_BYTES + payload.len());
        let length = u32::try_from(HEAD_BYTES + payload.len()).expect("requests are short");
        request.extend(length.to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        // Sequence and port: one question at a time needs neither.
        request.extend([0; 8]);
        request.extend(payload);
        net::send(&self.socket, &request, SendFlags::empty())?;
        Ok(())
    }

    /// What is there. The kernel answers before `send` returns.
    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        match net::recv(&self.socket, &mut self.room[..], RecvFlags::DONTWAIT) {
            Ok((bytes, _)) => Ok(Some(&self.room[..bytes])),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The messages in what was received. What does not fit its own length ends the walk.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let head = bytes.get(..HEAD_BYTES)?;
        let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let kind = u16::from_ne_bytes([head[4], head[5]]);
        let payload = bytes.get(HEAD_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Message { kind, payload })
    })
}

fn error_in(payload: &[u8]) -> io::Error {
    let code =
        payload.get(..4).map(|code| i32::from_ne_bytes([code[0], code[1], code[2], code[3]]));
    match code.and_then(i32::checked_neg) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::ErrorKind::InvalidData.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut message = vec![0; HEAD_BYTES];
        message[..4].copy_from_slice(&((HEAD_BYTES + payload.len()) as u32).to_ne_bytes());
        message[4..6].copy_from_slice(&kind.to_ne_bytes());
        message.extend(payload);
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    #[test]
    fn several_messages_are_told_apart_and_cut_ones_end_the_walk() {
        let mut bytes = message(16, &[1, 2, 3]);
        bytes.extend(message(17, &[4; 8]));
        let found: Vec<_> = messages(&bytes).collect();
        let expected = [(16, &[1_u8, 2, 3][..]), (17, &[4; 8])];
        assert_eq!(found, expected.map(|(kind, payload)| Message { kind, payload }));
        for end in 0..bytes.len() {
            assert!(messages(&bytes[..end]).count() < 2, "{end}");
        }
        bytes[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(messages(&bytes).count(), 0);
        bytes[..4].copy_from_slice(&0_u32.to_ne_bytes());
        assert_eq!(
            messages(&bytes).count(),
            0,
            "a length of nothing does not go round in a circle"
        );
    }

    #[test]
    fn an_answer_that_is_an_error_says_which() {
        assert_eq!(error_in(&(-95_i32).to_ne_bytes()).raw_os_error(), Some(95));
        assert_eq!(error_in(&i32::MIN.to_ne_bytes()).kind(), io::ErrorKind::InvalidData);
        assert_eq!(error_in(&[1]).kind(), io::ErrorKind::InvalidData);
    }
}
