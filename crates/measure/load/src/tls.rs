//! How the load's connections use TLS: one set of trusted issuers, with and without resumption.

use tls::TlsConfigError;
use tls::client::{self, ClientOptions};

/// What to offer to servers, and which issuers to trust. Cloning is cheap; clones share the tickets.
#[derive(Clone, Debug)]
pub struct ClientTls {
    resuming: client::ClientTls,
    fresh: client::ClientTls,
}

impl ClientTls {
    /// Reads the trusted issuers. Each connection decides whether to resume when it is opened, so `options.resume` is ignored.
    ///
    /// # Errors
    /// See [`client::ClientTls::load`].
    pub fn load(options: &ClientOptions) -> Result<Self, TlsConfigError> {
        let resuming = client::ClientTls::load(&ClientOptions { resume: true, ..options.clone() })?;
        let fresh = resuming.without_resumption();
        Ok(Self { resuming, fresh })
    }

    pub(crate) fn choose(&self, resume: bool) -> &client::ClientTls {
        if resume { &self.resuming } else { &self.fresh }
    }
}
