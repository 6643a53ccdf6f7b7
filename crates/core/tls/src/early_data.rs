//! Early data (0-RTT) is never accepted. A client may send some all the same, with a ticket from another server of this name. Then the server skips
//! it (RFC 8446 section 4.2.10): it skips everything that does not open under the keys of the client's handshake.
//!
//! rustls can do that, but for each arriving record it tries all skipped records again, and charges them again. So a client that sends its data in
//! small records fails after a few KiB. Here each record is tried once. The limit on a client's handshake bounds its early data too
//! ([`crate::HANDSHAKE_BYTES_MAX`]).

use crate::error::OpenRecordError;
use crate::open::Opener;
use crate::secrets::{Captured, Keys, Suite};

/// Distinguishes early data from the client's handshake.
#[derive(Default)]
pub(crate) struct EarlyData(Option<Box<Opener>>);

impl EarlyData {
    /// Returns true if a protected record is early data. If not, no more early data follows.
    pub(crate) fn has(
        &mut self,
        record: &[u8],
        suite: Option<Suite>,
        captured: &mut Captured,
    ) -> bool {
        if self.0.is_none() {
            let Some(secret) = captured.client_handshake.take() else {
                // The server asked for a second hello, which is not protected.
                return true;
            };
            let Some(suite) = suite else { return false };
            self.0 = Some(Box::new(Opener::new(Keys::of_secret(suite, secret), 0)));
        }
        let Some(opener) = &mut self.0 else { return false };
        opener.open(&mut record.to_vec()) == Err(OpenRecordError::BadRecordMac)
    }
}
