//! A handshake in memory between a rustls client and our server's end.

use std::io::Write;
use std::sync::Arc;

use fullbore_tests::tls::{Offer, client, deliver, outgoing};
use fullbore_tls::{Established, Handshake, HandshakeError, Progress, TlsContext, TlsOptions};
use rustls::{ClientConfig, ClientConnection, Error};

/// A server with a self-signed certificate.
pub(crate) fn server() -> TlsContext {
    let dir = tempfile::tempdir().unwrap();
    TlsContext::load(TlsOptions::new(dir.path())).unwrap()
}

pub(crate) struct Pair {
    pub(crate) client: ClientConnection,
    pub(crate) established: Established,
    /// The bytes that the client sent after its handshake.
    pub(crate) rest: Vec<u8>,
}

/// Does a handshake in steps of `chunk` bytes towards the server. The client sends `early` together with the end of its handshake.
pub(crate) fn connect_with(
    tls: &TlsContext,
    client: ClientConnection,
    chunk: usize,
    early: &[u8],
) -> Result<Pair, (HandshakeError, Option<Error>)> {
    connect_by(Handshake::new(tls).unwrap(), client, chunk, early)
}

/// The same with a server handshake that has begun already.
pub(crate) fn connect_by(
    mut handshake: Handshake,
    mut client: ClientConnection,
    chunk: usize,
    early: &[u8],
) -> Result<Pair, (HandshakeError, Option<Error>)> {
    client.writer().write_all(early).unwrap();
    let (mut held, mut peer_error) = (Vec::new(), None);
    loop {
        let flight = outgoing(&mut client);
        assert!(!flight.is_empty(), "the handshake stands still");
        for piece in flight.chunks(chunk) {
            held.extend_from_slice(piece);
            let mut output = Vec::new();
            let step = handshake.advance(&held, &mut output);
            peer_error = deliver(&mut client, &output).err().or(peer_error);
            let (consumed, progress) = step.map_err(|error| (error, peer_error.clone()))?;
            held.drain(..consumed);
            if let Progress::Done(established) = progress {
                let sent = flight.len()
                    - (piece.as_ptr() as usize - flight.as_ptr() as usize)
                    - piece.len();
                held.extend_from_slice(&flight[flight.len() - sent..]);
                return Ok(Pair { client, established: *established, rest: held });
            }
        }
    }
}

pub(crate) fn connect(tls: &TlsContext, config: &Arc<ClientConfig>) -> Pair {
    let pair = connect_with(tls, client(config, "localhost"), usize::MAX, b"");
    pair.unwrap_or_else(|error| panic!("{error:?}"))
}

pub(crate) fn refused(tls: &TlsContext, offer: &Offer) -> (HandshakeError, Option<Error>) {
    match connect_with(tls, client(&offer.config(), "localhost"), usize::MAX, b"") {
        Ok(_) => panic!("should be refused"),
        Err(error) => error,
    }
}
