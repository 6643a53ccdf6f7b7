//! Queries to the kernel over netlink (kernel documentation: userspace-api/netlink). They take no privileges, and stay possible on a
//! socket that was opened before a sandbox forbids new ones.

pub(crate) mod attributes;
pub(crate) mod generic;

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

/// `NLM_F_DUMP_INTR`: the listed objects have changed meanwhile, so the list may be incomplete.
const INTERRUPTED: u16 = 0x10;

/// netlink's own header.
const HEAD_BYTES: usize = 16;

/// More than any answer: the features of a card by name take about 6 KiB, and the kernel sends lists in parts of at most 32 KiB.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A netlink socket, for one query at a time.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    room: Vec<u8>,
    /// The number of the last query: an answer has its query's number.
    asked: u32,
}

/// A message from the kernel: its type, and the part after its header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    /// The number of the query that it answers; 0 for a notification.
    pub(crate) number: u32,
    pub(crate) payload: &'a [u8],
}

impl Netlink {
    /// Opens a socket of a netlink family, subscribed to notifications of the `groups` (a mask).
    pub(crate) fn open(family: Option<net::Protocol>, groups: u32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, family)?;
        if groups != 0 {
            net::bind(&socket, &net::netlink::SocketAddrNetlink::new(0, groups))?;
        }
        Ok(Self { socket, room: vec![0; ANSWER_BYTES_MAX], asked: 0 })
    }

    /// Sends a query with one answer.
    pub(crate) fn ask(&mut self, kind: u16, payload: &[u8]) -> io::Result<Message<'_>> {
        let number = self.send(kind, REQUEST, payload)?;
        loop {
            let bytes = self.receive()?.ok_or(io::ErrorKind::WouldBlock)?.len();
            // The rest of an abandoned list may still be in the socket.
            if messages(&self.room[..bytes]).any(|message| message.number == number) {
                return answer(&self.room[..bytes], number);
            }
        }
    }

    /// Requests a list, and calls `each` with every message of it.
    pub(crate) fn list(
        &mut self,
        kind: u16,
        payload: &[u8],
        mut each: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        let number = self.send(kind, REQUEST | ALL, payload)?;
        loop {
            let received = self.receive()?.ok_or(io::ErrorKind::WouldBlock)?;
            if part_of_list(received, number, &mut each)? {
                return Ok(());
            }
        }
    }

    /// Calls `each` with every notification that has arrived.
    ///
    /// # Errors
    /// `ENOBUFS` if the kernel had to drop some.
    pub(crate) fn hear(&mut self, mut each: impl FnMut(Message<'_>)) -> io::Result<()> {
        while let Some(received) = self.receive()? {
            messages(received).for_each(&mut each);
        }
        Ok(())
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
    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        match net::recv(&self.socket, &mut self.room[..], flags) {
            // A truncated message counts as lost.
            Ok((bytes, length)) if length > bytes => Err(Errno::NOBUFS.into()),
            Ok((bytes, _)) => Ok(Some(&self.room[..bytes])),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The answer to the query of this number.
fn answer(received: &[u8], number: u32) -> io::Result<Message<'_>> {
    let mut own = messages(received).filter(|message| message.number == number);
    let message = own.next().ok_or(io::ErrorKind::InvalidData)?;
    match message.kind {
        ERROR => Err(error_in(message.payload)),
        DONE => Err(io::ErrorKind::InvalidData.into()),
        _ => Ok(message),
    }
}

/// Hands over the received part of the list of this number. Returns whether that was its end.
///
/// # Errors
/// If the kernel could not make the list, or it may be incomplete: an unknown object must not be taken for a missing one.
fn part_of_list(
    received: &[u8],
    number: u32,
    each: &mut dyn FnMut(Message<'_>),
) -> io::Result<bool> {
    for message in messages(received).filter(|message| message.number == number) {
        if message.flags & INTERRUPTED != 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match message.kind {
            ERROR => return Err(error_in(message.payload)),
            // It has an error number, 0 if there was none.
            DONE if message.payload.get(..4).is_some_and(|code| code != [0; 4]) => {
                return Err(error_in(message.payload));
            }
            DONE => return Ok(true),
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
            let is_over =
                part_of_list(&bytes, 7, &mut |message| found.push(message.payload.to_vec()));
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
    fn an_answer_that_is_an_error_says_which() {
        assert_eq!(error_in(&(-95_i32).to_ne_bytes()).raw_os_error(), Some(95));
        assert_eq!(error_in(&i32::MIN.to_ne_bytes()).kind(), io::ErrorKind::InvalidData);
        assert_eq!(error_in(&[1]).kind(), io::ErrorKind::InvalidData);
    }
}
