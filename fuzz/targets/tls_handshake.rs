//! A TLS handshake that begins with arbitrary bytes, or one of an honest client whose flights are edited on the way.
//!
//! If the first byte is 0, the rest is what the peer sends. Otherwise it chooses a client, and the following bytes are edits ([`edit`]) to
//! each flight in turn. Checks that nothing panics; that every error blames the peer and never us; that our output is limited and consists
//! of whole TLS records; that the result does not depend on how the bytes were cut; and that a handshake that succeeds gives a connection
//! that works, however its flights were edited.

#![no_main]

use std::io::Write;

use fullbore_fuzz::choices::{Choices, Derived};
use fullbore_fuzz::client::{self, CLIENTS, SERVER};
use libfuzzer_sys::fuzz_target;
use rustls::ClientConnection;
use tls::{
    Content, Established, HANDSHAKE_BYTES_MAX, Handshake, HandshakeError, Opened, Progress,
    RECORD_BYTES_MAX,
};

/// Bytes that we may send in one handshake. Our certificate has less than 1 KiB, a hybrid key share a little more.
const OUTPUT_BYTES_MAX: usize = 8 * 1024;

/// Flights of a client: hello, second hello, the rest, and one more than any client needs.
const FLIGHTS_MAX: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    match choices.byte() {
        0 => meet_stranger(choices.rest()),
        which => meet_client(usize::from(which - 1) % CLIENTS.len(), choices, Derived::of(bytes)),
    }
});

/// The server's side of a connection, with checks of each step.
struct Server {
    handshake: Handshake,
    held: Vec<u8>,
    consumed_bytes: usize,
    output_bytes: usize,
}

enum Verdict {
    NeedsInput,
    Done(Box<Established>),
    Refused(HandshakeError),
}

impl Server {
    fn new() -> Self {
        let handshake = Handshake::new(&SERVER).expect("the configuration is sound");
        Self { handshake, held: Vec::new(), consumed_bytes: 0, output_bytes: 0 }
    }

    /// Takes the next bytes from the peer. Returns the verdict and the bytes to send.
    fn receive(&mut self, piece: &[u8]) -> (Verdict, Vec<u8>) {
        self.held.extend_from_slice(piece);
        let mut output = Vec::new();
        let step = self.handshake.advance(&self.held, &mut output);
        self.output_bytes += output.len();
        assert!(self.output_bytes <= OUTPUT_BYTES_MAX, "{} bytes were sent", self.output_bytes);
        assert_eq!(whole_records_bytes(&output), output.len(), "whole records are sent");
        let verdict = match step {
            Ok((consumed, progress)) => self.consume(consumed, progress),
            Err(error) => {
                assert!(error.is_peers_fault(), "{error}");
                assert!(error != HandshakeError::PlainHttp || output.is_empty(), "answered in TLS");
                Verdict::Refused(error)
            }
        };
        (verdict, output)
    }

    fn consume(&mut self, consumed: usize, progress: Progress) -> Verdict {
        self.held.drain(..consumed);
        self.consumed_bytes += consumed;
        assert!(self.consumed_bytes <= HANDSHAKE_BYTES_MAX);
        match progress {
            Progress::NeedsInput => {
                assert_eq!(whole_records_bytes(&self.held), 0, "a whole record was left lying");
                assert!(
                    self.held.len() < RECORD_BYTES_MAX,
                    "a buffer of the size promised is too small"
                );
                Verdict::NeedsInput
            }
            Progress::Done(established) => Verdict::Done(established),
            Progress::Retained(_) => unreachable!("it was not begun so"),
        }
    }
}

/// The number of bytes at the front of `bytes` that are whole records.
fn whole_records_bytes(bytes: &[u8]) -> usize {
    let mut offset = 0;
    while let Some([_, 3, _, high, low]) = bytes[offset..].first_chunk() {
        let end = offset + 5 + usize::from(u16::from_be_bytes([*high, *low]));
        if end > bytes.len() {
            break;
        }
        offset = end;
    }
    offset
}

/// Meets a peer whose bytes all come from the fuzzer.
fn meet_stranger(wire: &[u8]) {
    let whole = last_words(&[wire]);
    let cut = last_words(&Derived::of(wire).pieces(wire));
    assert_eq!(whole, cut, "it matters how the bytes were cut");
}

/// The number of consumed bytes, and the error, if there was one.
fn last_words(pieces: &[&[u8]]) -> (usize, Option<HandshakeError>) {
    let mut server = Server::new();
    for piece in pieces {
        match server.receive(piece).0 {
            Verdict::NeedsInput => {}
            Verdict::Done(_) => panic!("a peer that never listened has shaken hands"),
            // After an error, the number of consumed bytes is unknown.
            Verdict::Refused(error) => return (0, Some(error)),
        }
    }
    (server.consumed_bytes, None)
}

fn meet_client(which: usize, mut choices: Choices<'_>, mut derived: Derived) {
    let (mut client, mut server) = (client::connection(which), Server::new());
    for _ in 0..FLIGHTS_MAX {
        let mut flight = client::outgoing(&mut client);
        edit(&mut flight, &mut choices);
        let mut pieces = derived.pieces(&flight).into_iter();
        while let Some(piece) = pieces.next() {
            let (verdict, output) = server.receive(piece);
            // The client may refuse an answer to a flight that it did not send in this form.
            let client_is_content = client::deliver(&mut client, &output).is_ok();
            match verdict {
                Verdict::NeedsInput => {}
                Verdict::Done(established) => {
                    let rest = server.held.len() + pieces.map(<[u8]>::len).sum::<usize>();
                    assert!(client_is_content, "the server is done, the client is not content");
                    return check_connection(client, *established, rest);
                }
                Verdict::Refused(_) => return,
            }
        }
    }
}

/// Makes up to 15 changes to a flight: it overwrites, flips, inserts, removes, repeats or cuts off bytes.
fn edit(flight: &mut Vec<u8>, choices: &mut Choices<'_>) {
    for _ in 0..choices.byte() % 16 {
        let kind = choices.byte();
        let at = choices.number() % (flight.len() + 1);
        let count = usize::from(choices.byte());
        let end = (at + count).min(flight.len());
        match kind % 6 {
            0 => flight[at..end]
                .iter_mut()
                .zip(choices.take(count))
                .for_each(|(old, new)| *old = *new),
            1 => flight[at..].iter_mut().take(1).for_each(|byte| *byte ^= count as u8),
            2 => drop(flight.splice(at..at, choices.take(count).iter().copied())),
            3 => drop(flight.drain(at..end)),
            4 => flight.extend_from_within(at..end),
            _ => flight.truncate(at),
        }
    }
}

/// Sends data both ways and checks it. If `rest` bytes follow the handshake, perhaps because of an edit, only from the server to the client.
fn check_connection(mut client: ClientConnection, mut established: Established, rest: usize) {
    assert!(!client.is_handshaking(), "the server is done, the client is not");
    let mut answer = [0; 64];
    let sealed = established.sealer.seal(b"answer", &mut answer).expect("64 bytes are enough");
    client::deliver(&mut client, &answer[..sealed]).expect("the client reads the answer");
    if rest == 0 {
        client.writer().write_all(b"request").expect("writing to memory cannot fail");
        let mut wire = client::outgoing(&mut client);
        match established.opener.open(&mut wire) {
            Ok(Opened::Record { content: Content::Data(range), .. }) => {
                assert_eq!(wire[range], *b"request")
            }
            other => panic!("the request was not opened: {other:?}"),
        }
    }
}
