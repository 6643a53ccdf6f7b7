//! Session tickets: a returning viewer skips the certificate and its signature, the most expensive part of a handshake. They are stateless: the
//! server's state travels encrypted in the ticket. So nothing is kept per viewer, and any worker can resume a session that another one issued.
//!
//! Each ticket carries a number, so that a returning viewer is recognised ([`crate::SessionInfo::viewer`]). rustls has a place for such data
//! (`set_resumption_data`), but does not return it in a session of TLS 1.2. So the number is appended to the data that rustls encrypts, and removed
//! again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::server::{NoServerSessionStorage, ProducesTickets, ServerConfig};

use crate::error::TlsConfigError;
use crate::secrets::Captured;

/// Tickets per full TLS 1.3 handshake. Each should be used once (RFC 8446 appendix C.4), and players fetch audio and video over two connections. More
/// would be sealed and sent without being used.
const TICKETS_PER_HANDSHAKE: usize = 2;

/// The keys of tickets, shared by all workers and kept across reloads. rustls's ticketer generates new ones every 6
/// hours and accepts those of the previous 6, behind a read-write lock that is written once per period. They are in
/// memory only: a restart costs each viewer one full handshake.
pub(crate) type Ticketer = Arc<dyn ProducesTickets>;

/// Generates the first keys.
pub(crate) fn ticketer() -> Result<Ticketer, TlsConfigError> {
    let inner = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(|error| {
        TlsConfigError::without_file(format!("cannot draw ticket keys: {error}"), "try again")
    })?;
    Ok(Arc::new(Numbered(inner)))
}

/// A number for a viewer who came without a ticket. Tickets of other processes can't be decrypted here, so numbers need not be unique beyond
/// this one.
pub(crate) fn next_viewer() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Tickets with the number of their viewer.
struct Numbered(Ticketer);

impl fmt::Debug for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ProducesTickets for Numbered {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let viewer = Captured::with(|captured| *captured.viewer.get_or_insert_with(next_viewer));
        let viewer = viewer.unwrap_or_else(next_viewer);
        self.0.encrypt(&[plain, &viewer.to_be_bytes()].concat())
    }

    fn decrypt(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let mut plain = self.0.decrypt(sealed)?;
        let (_, viewer) = plain.split_last_chunk()?;
        let viewer = u64::from_be_bytes(*viewer);
        plain.truncate(plain.len() - size_of::<u64>());
        Captured::with(|captured| captured.viewer = Some(viewer));
        Some(plain)
    }
}

/// Turns tickets on, or all resumption off. 0-RTT is never on: anyone who recorded early data can replay it (RFC 8446
/// section 8), and a video server would gain one round trip per viewer, not per request.
pub(crate) fn install(config: &mut ServerConfig, ticketer: Option<&Ticketer>) {
    config.max_early_data_size = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    match ticketer {
        Some(ticketer) => {
            config.ticketer = Arc::clone(ticketer);
            config.send_tls13_tickets = TICKETS_PER_HANDSHAKE;
        }
        None => config.send_tls13_tickets = 0,
    }
}
