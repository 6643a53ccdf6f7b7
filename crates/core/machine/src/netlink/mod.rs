//! Talks to the kernel over netlink (kernel documentation: userspace-api/netlink): queries, changes and notifications. Queries take no privileges,
//! and stay possible on a socket that was opened before a sandbox forbids new ones.
//!
//! Numbers are in native byte order, addresses in network byte order. The kernel is trusted, but only within the bytes that arrived: a length
//! that does not fit ends a message.

pub mod attributes;
mod generic;

pub use generic::Generic;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;

/// `NLM_F_REQUEST`; `NLM_F_ACK`; `NLM_F_ROOT | NLM_F_MATCH`, which asks for everything.
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const ALL: u16 = 0x300;

/// `NLMSG_ERROR`, `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// `NLM_F_DUMP_INTR`: the listed objects have changed meanwhile, so the list may be incomplete.
const INTERRUPTED: u16 = 0x10;

/// netlink's own header.
const HEAD_BYTES: usize = 16;

/// How often in a row the kernel may report dropped notifications: more than a burst of changes makes.
const DROPS_MAX: usize = 100;

/// More than any answer: the features of a card by name take about 6 KiB, and the kernel sends lists in parts of at most 32 KiB.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A netlink socket, for one query at a time.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    room: Vec<u8>,
    /// The number of the last query: an answer has its query's number.
    asked: u32,
}

/// A message from the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its type, such as `RTM_NEWLINK`.
    pub kind: u16,
    /// Its flags (`NLM_F_*`).
    pub flags: u16,
    /// The number of the query that it answers; 0 for a notification.
    pub number: u32,
    /// The part after its header: the fixed part of its type, and attributes.
    pub payload: &'a [u8],
}

impl Netlink {
    /// Opens a socket for links, addresses, routes and neighbours (rtnetlink(7)), subscribed to notifications of the `groups` (a mask of `RTMGRP_*`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn route(groups: u32) -> io::Result<Self> {
        // NETLINK_ROUTE is number 0.
        Self::open(None, groups)
    }

    /// Opens a socket for generic netlink.
    pub(crate) fn generic() -> io::Result<Self> {
        Self::open(Some(net::netlink::GENERIC), 0)
    }

    fn open(family: Option<net::Protocol>, groups: u32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, family)?;
        if groups != 0 {
            net::bind(&socket, &net::netlink::SocketAddrNetlink::new(0, groups))?;
        }
        Ok(Self { socket, room: vec![0; ANSWER_BYTES_MAX], asked: 0 })
    }

    /// Sends a query with one answer.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ask(&mut self, kind: u16, payload: &[u8]) -> io::Result<Message<'_>> {
        let number = self.send(kind, REQUEST, payload)?;
        let bytes = self.receive_answer(number)?;
        answer(&self.room[..bytes], number)
    }

    /// Makes the kernel change something. `flags` are those of the kind (`NLM_F_CREATE` and others).
    ///
    /// # Errors
    /// The kernel's.
    pub fn change(&mut self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<()> {
        let number = self.send(kind, REQUEST | ACKNOWLEDGE | flags, payload)?;
        let bytes = self.receive_answer(number)?;
        acknowledged(&self.room[..bytes], number)
    }

    /// Requests a list, and calls `each` with every message of it.
    ///
    /// # Errors
    /// The kernel's; [`io::ErrorKind::Interrupted`] if the list changed while it was read: then request it again.
    pub fn list(
        &mut self,
        kind: u16,
        payload: &[u8],
        mut each: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        let number = self.send(kind, REQUEST | ALL, payload)?;
        let mut interrupted = false;
        loop {
            let received = self.receive()?.ok_or(io::ErrorKind::WouldBlock)?;
            if part_of_list(received, number, &mut interrupted, &mut each)? {
                return Ok(());
            }
        }
    }

    /// Calls `each` with every notification that has arrived. Returns true if the kernel had to drop some.
    ///
    /// # Errors
    /// The kernel's; `ENOBUFS` if it drops notifications all the time.
    pub fn hear(&mut self, mut each: impl FnMut(Message<'_>)) -> io::Result<bool> {
        let mut drops = 0;
        loop {
            match self.receive() {
                Ok(Some(received)) => messages(received).for_each(&mut each),
                Ok(None) => return Ok(drops > 0),
                Err(Errno::NOBUFS) if drops < DROPS_MAX => drops += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives the answer to the query of this number, and returns how many bytes it has in the buffer.
    fn receive_answer(&mut self, number: u32) -> io::Result<usize> {
        loop {
            let received = self.receive()?.ok_or(io::ErrorKind::WouldBlock)?;
            // The rest of an abandoned list may still be in the socket.
            if messages(received).any(|message| message.number == number) {
                return Ok(received.len());
            }
        }
    }

    /// Sends a query, and returns its number. Notifications have none (0).
    fn send(&mut self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<u32> {
        self.asked = self.asked.checked_add(1).unwrap_or(1);
        let mut request = Vec::with_capacity(HEAD_BYTES + payload.len());
        let length = u32::try_from(HEAD_BYTES + payload.len()).expect("requests are short");
        request.extend(length.to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        request.extend(self.asked.to_ne_bytes());
        // The kernel fills in the socket's own.
        request.extend([0; 4]);
        request.extend(payload);
        net::send(&self.socket, &request, SendFlags::empty())?;
        Ok(self.asked)
    }

    /// The received bytes. The kernel answers before `send` returns.
    fn receive(&mut self) -> Result<Option<&[u8]>, Errno> {
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        match net::recv(&self.socket, &mut self.room[..], flags) {
            // A truncated message counts as lost.
            Ok((bytes, length)) if length > bytes => Err(Errno::NOBUFS),
            Ok((bytes, _)) => Ok(Some(&self.room[..bytes])),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The answer to the query of this number.
fn answer(received: &[u8], number: u32) -> io::Result<Message<'_>> {
    let mut own = messages(received).filter(|message| message.number == number);
    let message = own.next().ok_or(io::ErrorKind::InvalidData)?;
    match message.kind {
        ERROR | DONE => outcome(message.payload).and(Err(io::ErrorKind::InvalidData.into())),
        _ => Ok(message),
    }
}

/// The result of the change of this number.
fn acknowledged(received: &[u8], number: u32) -> io::Result<()> {
    let mut own = messages(received).filter(|message| message.number == number);
    let message = own.find(|message| message.kind == ERROR).ok_or(io::ErrorKind::InvalidData)?;
    outcome(message.payload)
}

/// Hands over the received part of the list of this number. Returns whether that was its end.
///
/// # Errors
/// If the kernel could not make the list, or, at its end, if it may be incomplete: an unknown object must not be taken for a missing one. It is read
/// to its end even then, because the kernel refuses another one on this socket before (`EBUSY`).
fn part_of_list(
    received: &[u8],
    number: u32,
    interrupted: &mut bool,
    each: &mut dyn FnMut(Message<'_>),
) -> io::Result<bool> {
    for message in messages(received).filter(|message| message.number == number) {
        *interrupted |= message.flags & INTERRUPTED != 0;
        match message.kind {
            ERROR => return outcome(message.payload).and(Err(io::ErrorKind::InvalidData.into())),
            DONE => {
                outcome(message.payload)?;
                return if *interrupted {
                    Err(io::ErrorKind::Interrupted.into())
                } else {
                    Ok(true)
                };
            }
            _ => each(message),
        }
    }
    Ok(false)
}

/// The messages in the received bytes. A message with an invalid length ends the iteration.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let head = bytes.get(..HEAD_BYTES)?;
        let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let kind = u16::from_ne_bytes([head[4], head[5]]);
        let flags = u16::from_ne_bytes([head[6], head[7]]);
        let number = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
        let payload = bytes.get(HEAD_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Message { kind, flags, number, payload })
    })
}

/// The result in an `NLMSG_ERROR` or an `NLMSG_DONE`: 0, or an error number.
fn outcome(payload: &[u8]) -> io::Result<()> {
    let code = payload.first_chunk().map(|code| i32::from_ne_bytes(*code));
    match code.and_then(i32::checked_neg) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
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
        let expected =
            expected.map(|(kind, payload)| Message { kind, payload, ..Message::default() });
        assert_eq!(found, expected);
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

    /// The answer to a query.
    fn answered(number: u32, kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = message(kind, payload);
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes[8..12].copy_from_slice(&number.to_ne_bytes());
        bytes
    }

    #[test]
    fn the_answer_to_another_question_is_no_answer() {
        let mut bytes = answered(6, 16, 0, &[6; 4]);
        bytes.extend(answered(7, 16, 0, &[7; 4]));
        assert_eq!(answer(&bytes, 7).unwrap().payload, [7; 4]);
        assert!(answer(&bytes, 8).is_err());
        assert_eq!(
            answer(&answered(7, ERROR, 0, &(-19_i32).to_ne_bytes()), 7).unwrap_err().raw_os_error(),
            Some(19)
        );
    }

    #[test]
    fn a_list_that_may_lack_something_is_an_error() {
        let list = |last: Vec<u8>| {
            let mut bytes = answered(6, 16, 0, &[6; 4]);
            bytes.extend(answered(7, 16, 0, &[7; 4]));
            bytes.extend(last);
            let mut found = Vec::new();
            let mut each = |message: Message<'_>| found.push(message.payload.to_vec());
            let is_over = part_of_list(&bytes, 7, &mut false, &mut each);
            is_over.map(|is_over| (is_over, found))
        };
        let seven = vec![vec![7; 4]];
        assert_eq!(list(answered(7, DONE, 0, &[0; 4])).unwrap(), (true, seven.clone()));
        assert_eq!(
            list(answered(6, DONE, 0, &[0; 4])).unwrap(),
            (false, seven),
            "another list's end"
        );
        let failed = list(answered(7, DONE, 0, &(-12_i32).to_ne_bytes())).unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(12));
        let changed = list(answered(7, DONE, INTERRUPTED, &[0; 4])).unwrap_err();
        assert_eq!(changed.kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn a_list_that_changes_is_read_to_its_end() {
        let mut interrupted = false;
        let mut part = |bytes: Vec<u8>| part_of_list(&bytes, 7, &mut interrupted, &mut |_| ());
        assert!(!part(answered(7, 16, INTERRUPTED, &[7; 4])).unwrap());
        let end = part(answered(7, DONE, 0, &[0; 4])).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn a_change_is_done_when_the_kernel_has_acknowledged_it() {
        let result = |code: i32| acknowledged(&answered(7, ERROR, 0, &code.to_ne_bytes()), 7);
        assert!(result(0).is_ok());
        assert_eq!(result(-17).unwrap_err().raw_os_error(), Some(17));
        assert!(acknowledged(&answered(6, ERROR, 0, &[0; 4]), 7).is_err());
        assert!(acknowledged(&answered(7, 16, 0, &[0; 4]), 7).is_err());
    }

    #[test]
    fn an_answer_that_is_an_error_says_which() {
        assert_eq!(outcome(&(-95_i32).to_ne_bytes()).unwrap_err().raw_os_error(), Some(95));
        for odd in [&i32::MIN.to_ne_bytes()[..], &[1]] {
            assert_eq!(outcome(odd).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_run_for_ever(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            assert!(messages(&bytes).count() <= bytes.len() / HEAD_BYTES);
            for message in messages(&bytes) {
                assert!(attributes::attributes(message.payload).count() <= bytes.len() / 4);
                let _ = outcome(message.payload);
            }
        }
    }
}
