//! The socket between the server and a helper, or its successor: packets with boundaries, each with an optional descriptor.

use rustix::cmsg_space;
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Larger than any message: a request's head has at most 16 KiB, its path three times 8 KiB when encoded, its body 64 KiB and a third more.
const PACKET_BYTES_MAX: usize = 192 << 10;

/// Creates a socket pair.
///
/// # Errors
/// If no descriptor is left.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message, with `descriptor` if given. Blocks until the socket has room.
///
/// # Errors
/// If the other end is gone.
pub fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message).map_err(io::Error::other)?;
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
}
