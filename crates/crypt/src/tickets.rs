//! Session tickets: a returning viewer skips the certificate and its signature, the most expensive part of a handshake.
//! They are stateless: what the server must remember travels encrypted in the ticket. So nothing is kept per viewer,
//! and any worker can resume what another one issued.

use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, ProducesTickets, ServerConfig};

use crate::error::ConfigError;

/// Tickets per full TLS 1.3 handshake. Each is to be used once (RFC 8446 appendix C.4), and players fetch audio and
/// video over two connections. More would be sealed and sent without being used.
const TICKETS_PER_HANDSHAKE: usize = 2;

/// The keys of tickets, shared by all workers and kept across reloads. rustls's ticketer generates new ones every 6
/// hours and accepts those of the previous 6, behind a read-write lock that is written once per period. They are in
/// memory only: a restart costs each viewer one full handshake.
pub(crate) type Ticketer = Arc<dyn ProducesTickets>;

/// Generates the first keys.
pub(crate) fn ticketer() -> Result<Ticketer, ConfigError> {
    rustls::crypto::aws_lc_rs::Ticketer::new().map_err(|error| {
        ConfigError::without_file(format!("cannot draw ticket keys: {error}"), "try again")
    })
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
