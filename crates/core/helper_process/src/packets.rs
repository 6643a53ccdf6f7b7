//! The socket between the server and a helper, or its successor: packets with boundaries, each with an optional descriptor.

use rustix::cmsg_space;
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    sockopt,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The largest message. With its default limits, a request takes up to 150 KiB: its head has at most 16 KiB, its path three times 8 KiB when
/// encoded, its body 64 KiB and a third more. A sender has to bound what it takes from strangers.
pub const PACKET_BYTES_MAX: usize = 192 << 10;

/// Creates a socket pair.
///
/// # Errors
/// If no descriptor is left.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    for socket in [&one, &other] {
        // The kernel refuses messages that are larger than the buffer, and net.core.wmem_default may be smaller than one. It doubles this number,
        // and lowers it to wmem_max. If that is too small as well, large messages are refused one by one.
        let _ = sockopt::set_socket_send_buffer_size(socket, PACKET_BYTES_MAX);
    }
    Ok((one, other))
}

/// Whether [`send`] failed because the message is too large.
pub fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
}

/// Whether [`send`] failed because the other end is gone. After any other error, only that message is lost.
pub fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

/// Sends a message, with `descriptor` if given. Blocks until the socket has room.
///
/// # Errors
/// If the other end is gone ([`is_gone`]), or this message cannot be sent, for example because it is larger than
/// [`PACKET_BYTES_MAX`] ([`is_too_large`]).
pub fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message).map_err(io::Error::other)?;
    if bytes.len() > PACKET_BYTES_MAX {
        return Err(rustix::io::Errno::MSGSIZE.into());
    }
    let descriptors: Vec<_> = descriptor.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            sent => return Ok(sent.map(|_| ())?),
        }
    }
}

/// Waits for a message, and returns it with its descriptor. `None` if the other end is gone.
///
/// # Errors
/// If the socket fails; `InvalidData` if this message cannot be parsed, after which others can be received.
pub fn receive<T: DeserializeOwned>(
    socket: impl AsFd,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    buffer.resize(PACKET_BYTES_MAX, 0);
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(buffer)];
        match recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    let mut descriptors = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => rights.collect(),
        _ => Vec::new(),
    });
    let descriptor = descriptors.next();
    if received.bytes == 0 {
        return Ok(None);
    }
    let message = serde_json::from_slice(&buffer[..received.bytes])
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(Some((message, descriptor)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{Shutdown, shutdown};
    use std::io::Read;

    #[test]
    fn messages_keep_their_boundaries_and_carry_descriptors() {
        let (one, other) = pair().unwrap();
        let short = (vec![1, 2], String::new());
        let long = (vec![7], "/x".repeat(12_000));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"bytes").unwrap();
        send(&one, &short, None).unwrap();
        send(&one, &long, Some(file.reopen().unwrap().as_fd())).unwrap();
        drop(one);
        let mut buffer = Vec::new();
        let (first, none) = receive::<(Vec<u64>, String)>(&other, &mut buffer).unwrap().unwrap();
        assert!(first == short && none.is_none());
        let (second, some) = receive::<(Vec<u64>, String)>(&other, &mut buffer).unwrap().unwrap();
        assert_eq!(second, long);
        let mut text = String::new();
        std::fs::File::from(some.unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "bytes");
        assert!(receive::<(Vec<u64>, String)>(&other, &mut buffer).unwrap().is_none());
    }

    #[test]
    fn a_message_that_is_too_large_is_refused_and_the_next_one_arrives() {
        let (one, other) = pair().unwrap();
        // With its quotes.
        let text = |bytes: usize| "x".repeat(bytes - 2);
        let error = send(&one, &text(PACKET_BYTES_MAX + 1), None).unwrap_err();
        assert!(is_too_large(&error) && !is_gone(&error));
        send(&one, &text(PACKET_BYTES_MAX), None).unwrap();
        let (longest, _) = receive::<String>(&other, &mut Vec::new()).unwrap().unwrap();
        assert_eq!(longest, text(PACKET_BYTES_MAX));
        // A program that another test is just starting has it open until it begins, so closing it here might not be the last time.
        shutdown(&other, Shutdown::Both).unwrap();
        assert!(is_gone(&send(&one, &1, None).unwrap_err()));
    }
}
