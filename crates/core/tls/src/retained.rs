//! A connection whose handshake state is kept: rustls seals and opens for as long as it lives.
//!
//! This is the ordinary way to use a TLS library, the baseline for taking the keys out. Sealed records are copied into rustls's own memory, and the
//! handshake's state stays with the connection. No record can be made again, so sealed bytes are kept until they are sent, however slow the peer is.
//!
//! rustls handles key updates, both the peer's and ours.

use std::io::{self, Read, Write};

use rustls::ServerConnection;

use crate::error::{OpenRecordError, RetainedError};
use crate::handshake::SessionInfo;

/// Both halves of a connection after its handshake, managed by rustls.
pub struct Retained {
    connection: Box<ServerConnection>,
    info: SessionInfo,
}

impl Retained {
    pub(crate) fn new(mut connection: Box<ServerConnection>, info: SessionInfo) -> Self {
        // The caller limits what it seals at once: a window, never a whole film.
        connection.set_buffer_limit(None);
        Self { connection, info }
    }

    /// The negotiated parameters.
    pub fn info(&self) -> &SessionInfo {
        &self.info
    }

    /// Takes all of `sealed`, which may begin and end within records, and appends the plaintext to `plaintext`. Returns
    /// whether the peer has finished sending. Call [`Self::write_to`] afterwards: the answer to a key update may be
    /// due.
    ///
    /// # Errors
    /// See [`RetainedError`]. The bytes to send then end with the alert for the peer, if one is due. The connection
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
            self.connection.read_tls(&mut sealed).map_err(|_| OpenRecordError::Unexpected)?;
        }
    }

    /// Seals all of `plaintext`. The records wait here until [`Self::write_to`] sends them.
    pub fn seal(&mut self, plaintext: &[u8]) {
        let sealed = self.connection.writer().write_all(plaintext);
        sealed.expect("without a limit, and after the handshake, rustls takes everything");
    }

    /// Seals close_notify.
    pub fn seal_close_notify(&mut self) {
        self.connection.send_close_notify();
    }

    /// Returns true if sealed records wait to be sent.
    pub fn owes(&self) -> bool {
        self.connection.wants_write()
    }

    /// Writes sealed bytes, several records in one call of `out`'s `write_vectored`, and returns how many bytes it took.
    ///
    /// # Errors
    /// The error of `out`. Bytes that it did not take still wait.
    pub fn write_to(&mut self, out: &mut dyn Write) -> io::Result<usize> {
        self.connection.write_tls(out)
    }
}

/// A reader that has returned everything reports that as an error.
fn expect_only_would_block(read: io::Result<usize>) -> Result<(), RetainedError> {
    match read {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
            Err(RetainedError::Record(OpenRecordError::Unexpected))
        }
        _ => Ok(()),
    }
}
