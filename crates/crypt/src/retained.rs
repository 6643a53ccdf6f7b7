//! A connection whose handshake state is kept: rustls seals and opens for as long as it lives.
//!
//! This is what handing the keys out is measured against, and the ordinary way to use a TLS library: sealed
//! records are copied into memory of its own, and the state of the handshake stays with the connection. No
//! record can be made again, so what is sealed has to be kept until it is sent, however slow the peer is.
//!
//! Key updates, of the peer's and for our own limits, are rustls's affair here.

use std::io::{self, Read, Write};

use rustls::ServerConnection;

use crate::error::{OpenError, RetainedError};
use crate::handshake::SessionInfo;

/// Both halves of a connection after its handshake, in rustls's hands.
pub struct Retained {
    connection: Box<ServerConnection>,
    info: SessionInfo,
}

impl Retained {
    pub(crate) fn new(mut connection: Box<ServerConnection>, info: SessionInfo) -> Self {
        // The caller bounds what it seals at once: a window, never a whole film.
        connection.set_buffer_limit(None);
        Self { connection, info }
    }

    /// What was agreed.
    pub fn info(&self) -> &SessionInfo {
        &self.info
    }

    /// Takes all of `sealed`, which may begin and end within records, and appends what it says to `plaintext`.
    /// Returns whether the peer will send no more. Send what is owed afterwards ([`Self::write_to`]): it may
    /// be the answer to a key update.
    ///
    /// # Errors
    /// See [`RetainedError`]. What is owed then ends with the alert for the peer, if one is due; the connection
    /// must end.
    pub fn open(
        &mut self,
        mut sealed: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<bool, RetainedError> {
        loop {
            let state =
                self.connection.process_new_packets().map_err(RetainedError::from_rustls)?;
            if state.plaintext_bytes_to_read() > 0 {
                expect_only_would_block(self.connection.reader().read_to_end(plaintext))?;
            }
            if state.peer_has_closed() || sealed.is_empty() {
                return Ok(state.peer_has_closed());
            }
            self.connection.read_tls(&mut sealed).map_err(|_| OpenError::Unexpected)?;
        }
    }

    /// Seals all of `plaintext`; the records wait here until [`Self::write_to`] has sent them.
    pub fn seal(&mut self, plaintext: &[u8]) {
        let sealed = self.connection.writer().write_all(plaintext);
        sealed.expect("without a limit, and after the handshake, rustls takes everything");
    }

    /// Seals the orderly goodbye.
    pub fn seal_close_notify(&mut self) {
        self.connection.send_close_notify();
    }

    /// Whether sealed records wait to be sent.
    pub fn owes(&self) -> bool {
        self.connection.wants_write()
    }

    /// Writes sealed bytes, several records in one call of `out`'s `write_vectored`, and returns how many it took.
    ///
    /// # Errors
    /// Those of `out`; what it did not take is still owed.
    pub fn write_to(&mut self, out: &mut dyn Write) -> io::Result<usize> {
        self.connection.write_tls(out)
    }
}

/// A reader that has given everything says so by an error.
fn expect_only_would_block(read: io::Result<usize>) -> Result<(), RetainedError> {
    match read {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
            Err(RetainedError::Record(OpenError::Unexpected))
        }
        _ => Ok(()),
    }
}
